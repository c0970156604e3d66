/* partition.c - see partition.h. */
#include "verify/lab/partition.h"
#include "verify/judge/cover.h"

#include "sim/draw/plan_svg.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_ANSWER = 16 << 20 /* bytes */ };

/* ---- what was said -------------------------------------------------------------------------------------- */

static bool read_group(struct partition *p, int64_t i, const int64_t **at, const int64_t *end, struct err *e)
{
    struct said *g = &p->group[i];
    const struct tree *t = p->t;
    if (end - *at < 2)
        return err_set(e, "its list of groups ends too early");
    g->nq = (*at)[0];
    g->nr = (*at)[1];
    if (g->nq < 1 || g->nr < 1)
        return err_set(e,
                       "group %" PRId64 " has %" PRId64 " queries and %" PRId64
                       " runs (expected one of each at least)",
                       i, g->nq, g->nr);
    if (g->nq > end - *at - 2 || g->nr > (end - *at - 2 - g->nq) / 3)
        return err_set(e, "its list of groups ends too early");
    g->query = *at + 2;
    g->run = g->query + g->nq;
    *at = g->run + 3 * g->nr;
    g->hidden = xcalloc((size_t)g->nq, (size_t)g->nr);
    uint8_t *had = xcalloc((size_t)t->n_queries + 1, 1);
    bool good = true;
    for (int64_t k = 0; k < g->nq && good; k++) {
        int64_t q = g->query[k];
        good = q >= 0 && q < t->n_queries && !had[q];
        if (!good)
            err_set(e, "group %" PRId64 " has query %" PRId64 "%s", i, q,
                    q >= 0 && q < t->n_queries ? " twice" : ", which is not there");
        else
            had[q] = 1;
    }
    for (int64_t r = 0; r < g->nr && good; r++) {
        const int64_t *x = g->run + 3 * r;
        good =
            (x[0] >= 0 && x[0] < t->n_nodes && x[1] >= 0 && x[1] < x[2] && x[2] <= t->len[x[0]]) ||
            err_set(e,
                    "group %" PRId64 " has the run [%" PRId64 ", %" PRId64 ") of node %" PRId64 ", which %s",
                    i, x[1], x[2], x[0],
                    x[0] < 0 || x[0] >= t->n_nodes ? "is not there"
                    : x[1] >= x[2]                 ? "is empty"
                                                   : "has no such tokens");
    }
    free(had);
    return good;
}

static bool read_groups(struct partition *p, const struct tensor *g)
{
    const int64_t *at = g->data, *end = at + tensor_elements(g);
    int64_t cap = 0;
    while (at < end) {
        p->group = xgrow(p->group, &cap, p->n_groups + 1, sizeof *p->group);
        p->group[p->n_groups] = (struct said){.nq = 0};
        if (!read_group(p, p->n_groups++, &at, end, &p->why))
            return false;
    }
    return true;
}

/* Which of the three numbers of lab_hide is outside. */
static bool no_such_place(struct partition *p, const int64_t x[3])
{
    char call[100];
    snprintf(call, sizeof call, "lab_hide(out, %" PRId64 ", %" PRId64 ", %" PRId64 ")", x[0], x[1], x[2]);
    if (x[0] < 0 || x[0] >= p->n_groups)
        return err_set(&p->why, "%s: there are %" PRId64 " groups: group %" PRId64 " is outside%s", call,
                       p->n_groups, x[0], p->n_groups ? " (numbers begin with 0)" : "");
    const struct said *g = &p->group[x[0]];
    bool query = x[1] < 0 || x[1] >= g->nq;
    int64_t n = query ? g->nq : g->nr;
    return err_set(&p->why,
                   "%s: group %" PRId64 " has %" PRId64 " %s: %s %" PRId64 " is outside (places 0 to %" PRId64
                   ")",
                   call, x[0], n,
                   query    ? n == 1 ? "query" : "queries"
                   : n == 1 ? "run"
                            : "runs",
                   query ? "query_at" : "run_at", x[query ? 1 : 2], n - 1);
}

static bool read_hidden(struct partition *p, const struct tensor *h)
{
    p->hide = h->data;
    p->n_hidden = tensor_elements(h) / 3;
    for (int64_t i = 0; i < p->n_hidden; i++) {
        const int64_t *x = p->hide + 3 * i;
        p->no_place = x[0] < 0 || x[0] >= p->n_groups || x[1] < 0 || x[1] >= p->group[x[0]].nq || x[2] < 0 ||
                      x[2] >= p->group[x[0]].nr;
        if (p->no_place)
            return no_such_place(p, x);
        p->group[x[0]].hidden[x[1] * p->group[x[0]].nr + x[2]] = 1;
    }
    return true;
}

/* p->why says why it is no plan at all. */
static bool read_answer(struct partition *p)
{
    const struct tensor *g = tensors_find(&p->answer, "groups"), *h = tensors_find(&p->answer, "hidden");
    if (!g || !h || g->type != EL_I64 || h->type != EL_I64)
        return err_set(&p->why, "its answer is none of this question");
    return read_groups(p, g) && read_hidden(p, h);
}

void partition_ask(struct lab_session *s, const struct tree *t, const struct lab_env *env,
                   struct partition *p)
{
    int32_t *node = xcalloc((size_t)t->n_queries + 1, sizeof *node);
    int64_t *upto = xcalloc((size_t)t->n_queries + 1, sizeof *upto), n = t->n_nodes, nq = t->n_queries,
            size = sizeof *env;
    *p = (struct partition){
        .t = t, .tile_m = env->tile_m, .tile_n = env->tile_n, .most_tokens = env->most_tokens};
    for (int32_t q = 0; q < t->n_queries; q++) {
        node[q] = t->query[q].node;
        upto[q] = t->query[q].upto;
    }
    struct tensors given = {0};
    tensors_add(&given, "parent", EL_I32, t->parent, false, 1, &n);
    tensors_add(&given, "len", EL_I64, t->len, false, 1, &n);
    tensors_add(&given, "query_node", EL_I32, node, true, 1, &nq);
    tensors_add(&given, "query_upto", EL_I64, upto, true, 1, &nq);
    tensors_add(&given, "env", EL_U8, (void *)env, false, 1, &size);
    p->end = lab_ask(s, "partition", "", &given, MOST_ANSWER, &p->answer, &p->why);
    tensors_free(&given);
    p->code = p->end != RUN_DONE ? lab_end_name(p->end) : read_answer(p) ? "OK" : "PLAN";
}

void partition_clear(struct partition *p)
{
    for (int64_t i = 0; i < p->n_groups; i++)
        free(p->group[i].hidden);
    free(p->group);
    tensors_free(&p->answer);
    *p = (struct partition){.t = NULL};
}

/* ---- as a plan ------------------------------------------------------------------------------------------ */

/* Runs of nodes of the normal form, of one of the student's; of[] says whose they are. */
static void add_runs(struct plan *p, const struct said *s, struct group *g, int64_t **of)
{
    const struct nform *nf = p->nf;
    int64_t cap = 0;
    for (int64_t r = 0; r < s->nr; r++)
        for (int32_t i = 0; i < nf->n_nodes; i++) {
            int64_t begin = max_i64(s->run[3 * r + 1] - nf->off[i], 0),
                    end = min_i64(s->run[3 * r + 2] - nf->off[i], nf->len[i]);
            if (nf->src[i] != s->run[3 * r] || begin >= end)
                continue;
            p->run = xgrow(p->run, &p->cap_run, p->n_runs + 1, sizeof *p->run);
            *of = xgrow(*of, &cap, p->n_runs + 1 - g->run0, sizeof **of);
            (*of)[p->n_runs - g->run0] = r;
            p->run[p->n_runs++] = (struct run){i, begin, end};
            g->n_kv += end - begin;
        }
}

static void add_group(struct plan *p, const struct partition *x, const struct said *s, const int32_t *number)
{
    struct group g = {.qr0 = p->n_qr,
                      .run0 = p->n_runs,
                      .nq = (int32_t)s->nq,
                      .mask0 = p->n_mask,
                      .tile_m = x->tile_m,
                      .tile_n = x->tile_n,
                      .slot0 = PLAN_NO_SLOT};
    int64_t *of = NULL;
    for (int64_t k = 0; k < s->nq; k++) {
        p->qr = xgrow(p->qr, &p->cap_qr, p->n_qr + 1, sizeof *p->qr);
        p->qr[p->n_qr++] = (struct qrange){number[s->query[k]], number[s->query[k]] + 1};
    }
    add_runs(p, s, &g, &of);
    g.qr1 = p->n_qr;
    g.run1 = p->n_runs;
    int64_t nr = g.run1 - g.run0;
    if (memchr(s->hidden, 1, (size_t)(s->nq * s->nr))) {
        g.mask = MASK_RUN_WORDS;
        p->mask = xgrow(p->mask, &p->cap_mask, p->n_mask + s->nq * nr, 1);
        for (int64_t k = 0; k < s->nq; k++)
            for (int64_t r = 0; r < nr; r++)
                p->mask[p->n_mask++] = !s->hidden[k * s->nr + of[r]];
    }
    p->group = xgrow(p->group, &p->cap_group, p->n_groups + 1, sizeof *p->group);
    p->group[p->n_groups++] = g;
    free(of);
}

struct plan *partition_plan(const struct partition *x, const struct nform *nf, bool direct)
{
    struct plan *p = plan_new(nf, "lab_partition");
    int32_t *number = xcalloc((size_t)nf->n_queries + 1, sizeof *number);
    for (int32_t q = 0; q < nf->n_queries; q++)
        number[nf->orig[q]] = q;
    plan_launch(p, "attention", LAUNCH_SERIAL);
    for (int64_t i = 0; i < x->n_groups; i++)
        add_group(p, x, &x->group[i], number);
    plan_merge_flat(p, "reduce", direct);
    free(number);
    return p;
}

void partition_say_range(struct err *why)
{
    static const char mark[] = "tokens ";
    int64_t begin, end;
    int behind = 0;
    char *at = strstr(why->msg, mark);
    if (!at || sscanf(at, "tokens %" SCNd64 " to %" SCNd64 "%n", &begin, &end, &behind) != 2 ||
        strncmp(at + behind, " of node", 8) != 0)
        return;
    char *says = xasprintf("%.*stokens [%" PRId64 ", %" PRId64 ")%s", (int)(at - why->msg), why->msg, begin,
                           end, at + behind);
    snprintf(why->msg, sizeof why->msg, "%s", says);
    free(says);
}

void partition_draw(const struct partition *x, const struct heads *heads, const char *caption,
                    struct lab_result *r)
{
    struct nform *nf = nform_new(x->t);
    struct plan *p = partition_plan(x, nf, false);
    struct err wrong = {0};
    struct plan_flaw flaw = {.why = x->why.msg};
    bool good = cover_check_pair(p, &flaw.pair, &wrong);
    FILE *f = lab_picture(r, caption);
    plan_print_svg(f, p, heads, good && strcmp(x->code, "OK") == 0 ? NULL : &flaw);
    fclose(f);
    plan_free(p);
    nform_free(nf);
}
