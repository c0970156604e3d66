/* lab3.c - lab 3, cut a tree: the student's groups are a plan, which the coverage check judges, and the ledger counts. */
#include "verify/judge/cover.h"
#include "verify/lab/lab.h"
#include "verify/lab/lab3.h"
#include "verify/lab/trees.h"

#include "sim/draw/plan_svg.h"
#include "sim/plan_ledger.h"
#include "sim/strategy.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { SHOWN = 6 /* nodes: trees of so few are shown whole */ };
static const struct heads heads = {RATIO, 1, 64, DT_F16};

/* ---- what was said -------------------------------------------------------------------------------------- */

static bool read_group(struct lab3_asked *a, int64_t i, const int64_t **at, const int64_t *end, struct err *e)
{
    struct lab3_group *g = &a->group[i];
    const struct tree *t = a->t;
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
                    "group %" PRId64 " has the run %" PRId64 " to %" PRId64 " of node %" PRId64 ", which %s",
                    i, x[1], x[2], x[0],
                    x[0] < 0 || x[0] >= t->n_nodes ? "is not there"
                    : x[1] >= x[2]                 ? "is empty"
                                                   : "has no such tokens");
    }
    free(had);
    return good;
}

/* False with a->why and a->code set: it is no plan at all. */
static bool read_answer(struct lab3_asked *a)
{
    const struct tensor *g = tensors_find(&a->answer, "groups"), *h = tensors_find(&a->answer, "hidden");
    a->code = "PLAN";
    if (!g || !h || g->type != EL_I64 || h->type != EL_I64)
        return err_set(&a->why, "its answer is none of this question");
    const int64_t *at = g->data, *end = at + tensor_elements(g);
    int64_t cap = 0;
    while (at < end) {
        a->group = xgrow(a->group, &cap, a->n_groups + 1, sizeof *a->group);
        a->group[a->n_groups] = (struct lab3_group){.nq = 0};
        if (!read_group(a, a->n_groups++, &at, end, &a->why))
            return false;
    }
    a->hide = h->data;
    a->n_hidden = tensor_elements(h) / 3;
    for (int64_t i = 0; i < a->n_hidden; i++) {
        const int64_t *x = a->hide + 3 * i;
        a->no_place = x[0] < 0 || x[0] >= a->n_groups || x[1] < 0 || x[1] >= a->group[x[0]].nq || x[2] < 0 ||
                      x[2] >= a->group[x[0]].nr;
        if (a->no_place)
            return err_set(&a->why,
                           "lab_hide(out, %" PRId64 ", %" PRId64 ", %" PRId64 "): there is no such place",
                           x[0], x[1], x[2]);
        a->group[x[0]].hidden[x[1] * a->group[x[0]].nr + x[2]] = 1;
    }
    return true;
}

/* ---- as a plan ------------------------------------------------------------------------------------------ */

static void add_group(struct plan *p, const struct lab3_group *s, const int32_t *number)
{
    const struct nform *nf = p->nf;
    struct group g = {.qr0 = p->n_qr,
                      .run0 = p->n_runs,
                      .nq = (int32_t)s->nq,
                      .mask0 = p->n_mask,
                      .tile_m = TILE_M,
                      .tile_n = TILE_N,
                      .slot0 = PLAN_NO_SLOT};
    int64_t *of = NULL, cap = 0; /* the student's run that a run of the plan is of */
    for (int64_t k = 0; k < s->nq; k++) {
        p->qr = xgrow(p->qr, &p->cap_qr, p->n_qr + 1, sizeof *p->qr);
        p->qr[p->n_qr++] = (struct qrange){number[s->query[k]], number[s->query[k]] + 1};
    }
    for (int64_t r = 0; r < s->nr; r++)
        for (int32_t i = 0; i < nf->n_nodes; i++) {
            int64_t begin = max_i64(s->run[3 * r + 1] - nf->off[i], 0),
                    end = min_i64(s->run[3 * r + 2] - nf->off[i], nf->len[i]);
            if (nf->src[i] != s->run[3 * r] || begin >= end)
                continue;
            p->run = xgrow(p->run, &p->cap_run, p->n_runs + 1, sizeof *p->run);
            of = xgrow(of, &cap, p->n_runs + 1 - g.run0, sizeof *of);
            of[p->n_runs - g.run0] = r;
            p->run[p->n_runs++] = (struct run){i, begin, end};
            g.n_kv += end - begin;
        }
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

static struct plan *plan_of(const struct lab3_asked *a, const struct nform *nf)
{
    struct plan *p = plan_new(nf, "lab_partition");
    int32_t *number = xcalloc((size_t)nf->n_queries + 1, sizeof *number);
    for (int32_t q = 0; q < nf->n_queries; q++)
        number[nf->orig[q]] = q;
    plan_launch(p, "attention", LAUNCH_SERIAL);
    for (int64_t i = 0; i < a->n_groups; i++)
        add_group(p, &a->group[i], number);
    plan_merge_flat(p, "reduce", false);
    free(number);
    return p;
}

/* K and V that a group for each node reads, and padding of deft-flatten: what the student's are compared with. */
static void take_references(struct lab3_asked *a, const struct nform *nf)
{
    struct strategy_use use;
    struct plan_env env = plan_env_default(heads);
    char why[WHY_MAX];
    for (int32_t i = 0; i < nf->n_nodes; i++)
        a->node_kv += ceil_div((int64_t)(nf->q1[i] - nf->q0[i]) * RATIO, TILE_M) * nf->len[i] * 2 * heads.d *
                      heads_elt_bytes(&heads);
    CK(strategy_parse("deft-flatten", &use, NULL));
    struct plan *p = strategy_plan(&use, nf, &env, why);
    if (p)
        a->flat_padded = ledger_of_plan(p, &heads).pad_tokens;
    plan_free(p);
}

static void judge_plan(struct lab3_asked *a)
{
    struct nform *nf = nform_new(a->t);
    struct plan *p = plan_of(a, nf);
    a->code = cover_check(p, &a->why) ? "OK" : "COVER";
    if (strcmp(a->code, "OK") == 0) {
        struct ledger l = ledger_of_plan(p, &heads);
        a->kv = l.kv;
        a->padded = l.pad_tokens;
        take_references(a, nf);
    }
    for (int64_t i = 0; i < p->n_groups && a->gate == GATE_LONG; i++)
        if (p->group[i].n_kv > MOST_TOKENS && strcmp(a->code, "OK") == 0) {
            a->code = "LIMIT";
            err_set(&a->why, "group %" PRId64 " has %" PRId64 " tokens (most_tokens is %d)", i,
                    p->group[i].n_kv, MOST_TOKENS);
        }
    plan_free(p);
    nform_free(nf);
}

static void ask(struct lab_session *s, struct lab3_asked *a)
{
    const struct tree *t = a->t;
    int32_t *node = xcalloc((size_t)t->n_queries + 1, sizeof *node);
    int64_t *upto = xcalloc((size_t)t->n_queries + 1, sizeof *upto), n = t->n_nodes, nq = t->n_queries;
    for (int32_t q = 0; q < t->n_queries; q++) {
        node[q] = t->query[q].node;
        upto[q] = t->query[q].upto;
    }
    struct tensors given = {0};
    tensors_add(&given, "parent", EL_I32, t->parent, false, 1, &n);
    tensors_add(&given, "len", EL_I64, t->len, false, 1, &n);
    tensors_add(&given, "query_node", EL_I32, node, true, 1, &nq);
    tensors_add(&given, "query_upto", EL_I64, upto, true, 1, &nq);
    char *numbers = xasprintf(",\"ratio\":%d,\"tile_m\":%d,\"tile_n\":%d,\"most_tokens\":%d", RATIO, TILE_M,
                              TILE_N, MOST_TOKENS);
    a->end = lab_ask(s, "partition", numbers, &given, 16 << 20, &a->answer, &a->why);
    tensors_free(&given);
    free(numbers);
    if (a->end != RUN_DONE)
        a->code = run_end_name[a->end];
    else if (read_answer(a))
        judge_plan(a);
}

static void asked_clear(struct lab3_asked *a)
{
    for (int64_t i = 0; i < a->n_groups; i++)
        free(a->group[i].hidden);
    free(a->group);
    tensors_free(&a->answer);
    tree_free(a->t);
}

/* ---- what is told --------------------------------------------------------------------------------------- */

static char *checked(const struct lab3_asked *a)
{
    const struct tree *t = a->t;
    char *text = xasprintf("a tree of %" PRId32 " nodes, %" PRId64 " tokens, %" PRId32 " queries", t->n_nodes,
                           tree_tokens(t), t->n_queries);
    if (t->n_nodes > SHOWN || t->n_queries > 2 * SHOWN)
        return text;
    const char *names[] = {"; parent = {", "}, len = {", "}, query_node = {", "}, query_upto = {"};
    for (int k = 0; k < 4; k++) {
        xappend(&text, "%s", names[k]);
        for (int32_t i = 0; i < (k < 2 ? t->n_nodes : t->n_queries); i++)
            xappend(&text, "%s%" PRId64, i ? ", " : "",
                    k == 0   ? t->parent[i]
                    : k == 1 ? t->len[i]
                    : k == 2 ? t->query[i].node
                             : t->query[i].upto);
    }
    xappend(&text, "}");
    return text;
}

/* The plan, with what is wrong with it in red. It has groups, none of which names what is not there. */
static void draw(const struct lab3_asked *a, const char *caption, struct lab_result *r)
{
    if (a->end != RUN_DONE || strcmp(a->code, "PLAN") == 0 || lab3_too_large(a))
        return;
    struct nform *nf = nform_new(a->t);
    struct plan *p = plan_of(a, nf);
    struct err wrong = {0};
    struct plan_flaw flaw = {.why = a->why.msg};
    bool good = cover_check_pair(p, &flaw.pair, &wrong);
    FILE *f = lab_picture(r, caption);
    plan_print_svg(f, p, &heads, good && strcmp(a->code, "OK") == 0 ? NULL : &flaw);
    fclose(f);
    plan_free(p);
    nform_free(nf);
}

/* The wrong tree of a gate that is the smallest; gate 0: of all. */
static const struct lab3_asked *smallest(const struct lab3_asked *all, int32_t n, int32_t gate)
{
    const struct lab3_asked *found = NULL;
    for (int32_t i = 0; i < n; i++) {
        const struct lab3_asked *a = &all[i];
        if ((gate == 0 || a->gate == gate) && strcmp(a->code, "OK") != 0 &&
            (!found || tree_tokens(a->t) < tree_tokens(found->t)))
            found = a;
    }
    return found;
}

static void tell(const struct lab3_asked *all, int32_t n, int32_t gate, const char *whole,
                 struct lab_result *r)
{
    const struct lab3_asked *a = smallest(all, n, gate);
    int32_t bad = 0, of = 0;
    r->code = a ? a->code : "OK";
    for (int32_t i = 0; i < n; i++) {
        of += all[i].gate == gate;
        bad += all[i].gate == gate && strcmp(all[i].code, "OK") != 0;
    }
    if (!a)
        return;
    r->checked = checked(a);
    r->got = xstrdup(a->why.msg);
    r->seen = xasprintf("%" PRId32 " of %" PRId32 " trees are wrong", bad, of);
    draw(a,
         strcmp(a->code, "COVER") == 0 ? "Your groups on that tree, with a wrong pair in red"
                                       : "Your groups on that tree",
         r);
    if (strcmp(a->code, "COVER") == 0 || a->no_place)
        r->why = whole ? xstrdup(whole) : lab3_cause(all, n, gate);
}

/* Does a tree alone cost too much? */
static bool is_dear(const struct lab3_asked *a, int32_t gate)
{
    return gate == GATE_SHARED ? 10 * a->kv > 15 * a->node_kv : 10 * a->padded > 11 * a->flat_padded;
}

static void draw_dear(const struct lab3_asked *all, int32_t n, int32_t gate, struct lab_result *r)
{
    const struct lab3_asked *a = NULL;
    for (int32_t i = 0; i < n; i++)
        if (is_dear(&all[i], gate) && (!a || tree_tokens(all[i].t) < tree_tokens(a->t)))
            a = &all[i];
    if (a)
        draw(a,
             gate == GATE_SHARED ? "Your groups on the smallest tree that is too dear: a token is read once "
                                   "for each of its groups"
                                 : "Your groups on the smallest tree that is too dear, with the padding of "
                                   "their tiles hatched",
             r);
}

/* Bytes, or padded tokens, of all trees against those of the reference. */
static void tell_price(const struct lab3_asked *all, int32_t n, int32_t gate, struct lab_result *r)
{
    int64_t is = 0, reference = 0;
    const struct lab3_asked *wrong = NULL;
    for (int32_t i = 0; i < n; i++) {
        if (all[i].gate == GATE_LONG && gate == GATE_SHARED)
            continue;
        wrong = strcmp(all[i].code, "OK") != 0 && !wrong ? &all[i] : wrong;
        is += gate == GATE_SHARED ? all[i].kv : all[i].padded;
        reference += gate == GATE_SHARED ? all[i].node_kv : all[i].flat_padded;
    }
    bool good = !wrong && 10 * is <= (gate == GATE_SHARED ? 15 : 11) * reference;
    r->code = good ? "OK" : wrong ? "WAITS" : "PRICE";
    if (good)
        return;
    r->checked =
        xstrdup(gate == GATE_SHARED ? "bytes of K and V, over all trees, against a group for each node"
                                    : "padded tokens, over all trees, against deft-flatten");
    r->got = wrong ? xstrdup("trees of other gates are wrong: this is judged when they are right")
                   : xasprintf("%" PRId64 ", should be at most %s times %" PRId64, is,
                               gate == GATE_SHARED ? "1.5" : "1.1", reference);
    if (!wrong)
        draw_dear(all, n, gate, r);
}

void lab3_judge(struct lab_session *s, uint64_t seed, struct lab_result *r)
{
    static const struct {
        int32_t gate, n, kind;
    } sets[] = {{GATE_ONE, 8, LAB_TREE_LEAVES},
                {GATE_LEAVES, 60, LAB_TREE_LEAVES},
                {GATE_INNER, 80, LAB_TREE_INNER},
                {GATE_FOREST, 60, LAB_TREE_FOREST},
                {GATE_EMPTY, 60, LAB_TREE_INNER | LAB_TREE_FOREST | LAB_TREE_EMPTY},
                {GATE_LONG, 32, LAB_TREE_INNER | LAB_TREE_LONG}};
    struct lab3_asked all[300];
    int32_t n = 0;
    for (size_t k = 0; k < sizeof sets / sizeof sets[0]; k++)
        for (int32_t i = 0; i < sets[k].n; i++, n++) {
            CK(n < 300);
            int32_t at = sets[k].gate == GATE_ONE ? 0 : 1 + i;
            all[n] = (struct lab3_asked){.gate = sets[k].gate,
                                         .t = lab_tree(seed + 1000 * k + (at ? 0 : i), at, sets[k].kind)};
            ask(s, &all[n]);
        }
    char *whole = smallest(all, n, 0) ? lab3_cause(all, n, 0) : NULL;
    for (int32_t gate = GATE_ONE; gate <= GATE_LONG; gate++)
        tell(all, n, gate, whole, &r[gate - 1]);
    tell_price(all, n, GATE_SHARED, &r[GATE_SHARED - 1]);
    tell_price(all, n, GATE_FULL, &r[GATE_FULL - 1]);
    free(whole);
    for (int32_t i = 0; i < n; i++)
        asked_clear(&all[i]);
}
