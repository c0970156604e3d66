/*
 * lab3.c - lab 3, cut a tree: the student's groups are a plan, which the coverage check judges, and the ledger counts.
 *
 * A cause is looked for among pairs of a query and a token: a mistake says which pairs of a tree are then wrong, and must say so
 * exactly, of all trees.
 */
#include "verify/judge/cover.h"
#include "verify/lab/lab.h"
#include "verify/lab/trees.h"

#include "sim/plan_ledger.h"
#include "sim/strategy.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    GATE_ONE = 1,
    GATE_LEAVES,
    GATE_INNER,
    GATE_FOREST,
    GATE_EMPTY,
    GATE_LONG,
    GATE_SHARED,
    GATE_FULL,
    TILE_M = 32,
    TILE_N = 128,
    MOST_TOKENS = 512,
    RATIO = 4,
    SHOWN = 6,          /* nodes: trees of so few are shown whole */
    MOST_PAIRS = 300000 /* of larger trees no cause is looked for */
};

enum kind { HOLE, DOUBLE, LEAK, MASK, N_KINDS };
enum mistake {
#define WRONG(kind, name, sentence) name,
#include "verify/lab/lab3_wrong.def"
#undef WRONG
    N_MISTAKES
};
static const struct {
    enum kind kind;
    const char *says;
} wrongs[N_MISTAKES] = {
#define WRONG(kind, name, sentence) {kind, sentence},
#include "verify/lab/lab3_wrong.def"
#undef WRONG
};

/* A group as the student said it. */
struct said {
    int64_t nq, nr;
    const int64_t *query; /* [nq] */
    const int64_t *run;   /* [nr]: node, begin, end */
    uint8_t *hidden;      /* [nq][nr] */
};

struct asked {
    int32_t gate;
    struct tree *t;
    enum run_end end;
    struct tensors answer;
    struct said *group;
    int64_t n_groups, n_hidden;
    const int64_t *hide; /* [n_hidden]: group, query, run */
    bool no_place;       /* lab_hide named what is not there */
    const char *code;    /* "OK", or what is wrong: */
    struct err why;
    int64_t kv, padded; /* of one KV head: bytes, tokens */
    int64_t node_kv, flat_padded;
};

/* ---- what was said -------------------------------------------------------------------------------------- */

static bool read_group(struct asked *a, int64_t i, const int64_t **at, const int64_t *end, struct err *e)
{
    struct said *g = &a->group[i];
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
static bool read_answer(struct asked *a)
{
    const struct tensor *g = tensors_find(&a->answer, "groups"), *h = tensors_find(&a->answer, "hidden");
    a->code = "PLAN";
    if (!g || !h || g->type != EL_I64 || h->type != EL_I64)
        return err_set(&a->why, "its answer is none of this question");
    const int64_t *at = g->data, *end = at + tensor_elements(g);
    int64_t cap = 0;
    while (at < end) {
        a->group = xgrow(a->group, &cap, a->n_groups + 1, sizeof *a->group);
        a->group[a->n_groups] = (struct said){.nq = 0};
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

static void add_group(struct plan *p, const struct said *s, const int32_t *number)
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

static struct plan *plan_of(const struct asked *a, const struct nform *nf)
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
static void take_references(struct asked *a, const struct nform *nf, const struct heads *h)
{
    struct strategy_use use;
    struct plan_env env = plan_env_default(*h);
    char why[WHY_MAX];
    for (int32_t i = 0; i < nf->n_nodes; i++)
        a->node_kv += ceil_div((int64_t)(nf->q1[i] - nf->q0[i]) * RATIO, TILE_M) * nf->len[i] * 2 * h->d *
                      heads_elt_bytes(h);
    CK(strategy_parse("deft-flatten", &use, NULL));
    struct plan *p = strategy_plan(&use, nf, &env, why);
    if (p)
        a->flat_padded = ledger_of_plan(p, h).pad_tokens;
    plan_free(p);
}

static void judge_plan(struct asked *a)
{
    const struct heads h = {RATIO, 1, 64, DT_F16};
    struct nform *nf = nform_new(a->t);
    struct plan *p = plan_of(a, nf);
    a->code = cover_check(p, &a->why) ? "OK" : "COVER";
    if (strcmp(a->code, "OK") == 0) {
        struct ledger l = ledger_of_plan(p, &h);
        a->kv = l.kv;
        a->padded = l.pad_tokens;
        take_references(a, nf, &h);
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

static void ask(struct lab_session *s, struct asked *a)
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

static void asked_clear(struct asked *a)
{
    for (int64_t i = 0; i < a->n_groups; i++)
        free(a->group[i].hidden);
    free(a->group);
    tensors_free(&a->answer);
    tree_free(a->t);
}

/* ---- pairs ---------------------------------------------------------------------------------------------- */

/* A tree, and how often each pair of a query and a token is in a group. */
struct pairs {
    const struct asked *a;
    int64_t *first, n; /* [n_nodes] number of a node's first token; all tokens */
    uint8_t *times;    /* [n_queries][n] */
    uint8_t *ends, *begins,
        *last; /* [n + 1] does a run end before this token, begin with it, or end with it after others? */
    int32_t *children; /* [n_nodes] */
};

static bool sees(const struct tree *t, int32_t q, int32_t node, int64_t token)
{
    int32_t at = t->query[q].node;
    if (at == node)
        return token < t->query[q].upto;
    while (at > node)
        at = t->parent[at];
    return at == node;
}

/* How masks are read: as they were given, or as a mistake would have given them. */
static bool is_hidden(const struct asked *a, int64_t group, int64_t k, int64_t r, enum mistake how)
{
    const struct said *g = &a->group[group];
    bool any = false;
    if (how == N_MISTAKES)
        return g->hidden[k * g->nr + r];
    if (how == MASK_NONE_GIVEN) { /* who is in the group sees some of it */
        bool some = false;
        for (int64_t i = 0; i < g->nr && !some; i++)
            some = sees(a->t, (int32_t)g->query[k], (int32_t)g->run[3 * i], g->run[3 * i + 2] - 1);
        return some && !sees(a->t, (int32_t)g->query[k], (int32_t)g->run[3 * r], g->run[3 * r + 2] - 1);
    }
    if (how == MASK_INVERTED)
        return memchr(g->hidden, 1, (size_t)(g->nq * g->nr)) && !g->hidden[k * g->nr + r];
    for (int64_t i = 0; i < a->n_hidden && !any; i++) {
        const int64_t *x = a->hide + 3 * i;
        any = x[0] == group &&
              (how == MASK_SWAPPED ? x[1] == r && x[2] == k : x[1] == g->query[k] && x[2] == r);
    }
    return any;
}

static void count_pairs(struct pairs *p, enum mistake how)
{
    const struct asked *a = p->a;
    memset(p->times, 0, (size_t)(p->n * a->t->n_queries));
    for (int64_t i = 0; i < a->n_groups; i++)
        for (int64_t k = 0; k < a->group[i].nq; k++)
            for (int64_t r = 0; r < a->group[i].nr; r++) {
                const int64_t *x = a->group[i].run + 3 * r;
                uint8_t *row = p->times + a->group[i].query[k] * p->n + p->first[x[0]];
                if (is_hidden(a, i, k, r, how))
                    continue;
                for (int64_t token = x[1]; token < x[2]; token++)
                    row[token] = (uint8_t)min_i64(row[token] + 1, 200);
            }
}

static void pairs_clear(struct pairs *p)
{
    free(p->first);
    free(p->times);
    free(p->ends);
    free(p->begins);
    free(p->last);
    free(p->children);
}

static struct pairs pairs_of(const struct asked *a)
{
    const struct tree *t = a->t;
    struct pairs p = {.a = a,
                      .first = xcalloc((size_t)t->n_nodes, sizeof *p.first),
                      .children = xcalloc((size_t)t->n_nodes, sizeof *p.children)};
    for (int32_t i = 0; i < t->n_nodes; i++) {
        p.first[i] = p.n;
        p.n += t->len[i] + 1; /* one more, so that the end of a node is no other's begin */
        if (t->parent[i] >= 0)
            p.children[t->parent[i]]++;
    }
    p.times = xcalloc((size_t)p.n + 1, (size_t)t->n_queries + 1);
    p.ends = xcalloc((size_t)p.n + 1, 1);
    p.begins = xcalloc((size_t)p.n + 1, 1);
    p.last = xcalloc((size_t)p.n + 1, 1);
    for (int64_t i = 0; i < a->n_groups; i++)
        for (int64_t r = 0; r < a->group[i].nr; r++) {
            const int64_t *x = a->group[i].run + 3 * r;
            p.ends[p.first[x[0]] + x[2]] = 1;
            p.begins[p.first[x[0]] + x[1]] = 1;
            p.last[p.first[x[0]] + x[2] - 1] |= x[2] - x[1] > 1;
        }
    return p;
}

/* Does node b lie below node a? */
static bool is_below(const struct tree *t, int32_t b, int32_t a)
{
    while (b > a)
        b = t->parent[b];
    return b == a;
}

static bool first_on_node(const struct tree *t, int32_t q)
{
    for (int32_t i = 0; i < q; i++)
        if (t->query[i].node == t->query[q].node)
            return false;
    return true;
}

static bool first_children(const struct tree *t, int32_t node)
{
    for (; t->parent[node] >= 0; node = t->parent[node])
        for (int32_t i = t->parent[node] + 1; i < node; i++)
            if (t->parent[i] == t->parent[node])
                return false;
    return true;
}

/* Does the node or a query on it end there? */
static bool is_cut(const struct tree *t, int32_t node, int64_t token)
{
    bool cut = token == t->len[node];
    for (int32_t q = 0; q < t->n_queries && !cut; q++)
        cut = t->query[q].node == node && t->query[q].upto == token;
    return cut;
}

/* With that mistake, is this pair wrong, in the way of its kind? Of HOLE and DOUBLE, pairs that the query sees. */
static bool predicts(const struct pairs *p, enum mistake m, int32_t q, int32_t node, int64_t token)
{
    const struct tree *t = p->a->t;
    int32_t at = t->query[q].node, root = at;
    int64_t len = t->len[node], place = p->first[node] + token;
    bool own = at == node, middle = t->query[q].upto < t->len[at];
    switch (m) {
    case HOLE_INNER:
    case DOUBLE_INNER:
        return p->children[at] > 0;
    case HOLE_MIDDLE:
        return middle;
    case HOLE_MIDDLE_OWN:
    case DOUBLE_MIDDLE_OWN:
        return middle && own;
    case HOLE_OTHER_ROOTS:
        while (t->parent[root] >= 0)
            root = t->parent[root];
        return root != 0;
    case HOLE_OWN:
    case DOUBLE_OWN:
        return own;
    case HOLE_ANCESTORS:
        return !own;
    case HOLE_ROOT:
    case DOUBLE_ROOT:
        return t->parent[node] < 0;
    case HOLE_FAR:
        return !own && t->parent[at] != node;
    case HOLE_BEHIND_END: /* a piece of one token then has none */
        return p->ends[place] ||
               (is_cut(t, node, token + 1) && (token == 0 || is_cut(t, node, token) || p->ends[place - 1]));
    case HOLE_LAST_TILE:
        return token >= len / TILE_N * TILE_N;
    case HOLE_LAST_MOST:
        return token >= len / MOST_TOKENS * MOST_TOKENS;
    case HOLE_BEHIND_MOST:
        return token >= MOST_TOKENS;
    case HOLE_OTHERS:
        return !first_on_node(t, q);
    case HOLE_NOT_FIRST_CHILD:
        return !first_children(t, at);
    case DOUBLE_OVERLAP:
        return p->begins[place] && p->last[place];
    case DOUBLE_ALL:
        return true;
    case LEAK_UPTO:
        return own;
    case LEAK_BELOW:
        return !own && is_below(t, node, at);
    case LEAK_BELOW_UPTO:
        return is_below(t, node, at);
    default:
        return false;
    }
}

/* ---- causes --------------------------------------------------------------------------------------------- */

/* Mistakes that say exactly which pairs are wrong, so far. */
struct suspects {
    bool alive[N_MISTAKES];
    bool occurs[N_KINDS];       /* are there wrong pairs of that kind? */
    bool predicted[N_MISTAKES]; /* does the mistake say of any pair that it is wrong? */
};

static enum kind kind_of(bool seen, int times)
{
    return seen && times == 0 ? HOLE : seen && times > 1 ? DOUBLE : !seen && times > 0 ? LEAK : N_KINDS;
}

/* Would the groups be right with other masks? */
static bool repairs(struct pairs *p, enum mistake how)
{
    const struct tree *t = p->a->t;
    bool good = true;
    count_pairs(p, how);
    for (int32_t q = 0; q < t->n_queries; q++)
        for (int32_t i = 0; i < t->n_nodes; i++)
            for (int64_t token = 0; token < t->len[i] && good; token++)
                good = kind_of(sees(t, q, i, token), p->times[q * p->n + p->first[i] + token]) == N_KINDS;
    return good;
}

/* Mistakes of masks are tried where there are masks, or should be. */
static void question_masks(struct suspects *s, const struct asked *a, struct pairs *p)
{
    bool wrong = strcmp(a->code, "OK") != 0;
    s->alive[MASK_NONE_GIVEN] = s->alive[MASK_NONE_GIVEN] && a->n_hidden == 0;
    for (int m = 0; m < N_MISTAKES; m++)
        if (wrongs[m].kind == MASK && s->alive[m] && (wrong || a->n_hidden > 0))
            s->alive[m] = repairs(p, (enum mistake)m);
}

static void question_pairs(struct suspects *s, const struct asked *a, struct pairs *p)
{
    const struct tree *t = a->t;
    count_pairs(p, N_MISTAKES);
    for (int32_t q = 0; q < t->n_queries; q++)
        for (int32_t i = 0; i < t->n_nodes; i++)
            for (int64_t token = 0; token < t->len[i]; token++) {
                bool seen = sees(t, q, i, token);
                enum kind kind = kind_of(seen, p->times[q * p->n + p->first[i] + token]);
                if (kind < N_KINDS)
                    s->occurs[kind] = true;
                for (int m = 0; m < N_MISTAKES; m++)
                    if (s->alive[m] && wrongs[m].kind != MASK && seen == (wrongs[m].kind != LEAK)) {
                        bool says = predicts(p, (enum mistake)m, q, i, token);
                        s->alive[m] = says == (kind == wrongs[m].kind);
                        s->predicted[m] = s->predicted[m] || says;
                    }
            }
}

static void question(struct suspects *s, const struct asked *a)
{
    struct pairs p = pairs_of(a);
    question_masks(s, a, &p);
    if (!a->no_place)
        question_pairs(s, a, &p);
    for (int m = 0; m < N_MISTAKES && a->no_place; m++)
        s->alive[m] = s->alive[m] && wrongs[m].kind == MASK;
    pairs_clear(&p);
}

/* Somebody may say a million groups. */
static bool too_large(const struct asked *a)
{
    double bits = 0, rows = 0;
    for (int64_t i = 0; i < a->n_groups; i++) {
        bits += (double)(a->group[i].nq * a->group[i].nr);
        for (int64_t r = 0; r < a->group[i].nr; r++)
            rows += (double)(a->group[i].nq * (a->group[i].run[3 * r + 2] - a->group[i].run[3 * r + 1]));
    }
    return (double)(tree_tokens(a->t) + 1) * a->t->n_queries > MOST_PAIRS ||
           bits * (double)(a->n_hidden + 1) > 1e8 || rows > 1e8;
}

/* The sentence, or NULL; the caller frees. Of all trees, or of the wrong ones of a gate and of all right ones. */
static char *cause(const struct asked *all, int32_t n, int32_t gate)
{
    struct suspects s = {.occurs = {false}};
    int32_t wrong = 0, right = 0;
    for (int m = 0; m < N_MISTAKES; m++)
        s.alive[m] = true;
    for (int32_t i = 0; i < n; i++)
        if (all[i].end != RUN_DONE)
            return NULL; /* it might have told one mistake from another */
    for (int32_t i = 0; i < n; i++) {
        bool bad = strcmp(all[i].code, "COVER") == 0 || all[i].no_place,
             good = strcmp(all[i].code, "OK") == 0 || strcmp(all[i].code, "LIMIT") == 0;
        if ((!bad && !good) || (bad && gate > 0 && all[i].gate != gate) || too_large(&all[i]))
            continue;
        question(&s, &all[i]);
        wrong += bad;
        right += good;
    }
    char *text = xstrdup("");
    for (int kind = MASK; kind >= 0 && wrong > 0; kind--) {
        int found = 0;
        const char *says[2] = {NULL, NULL};
        for (int m = 0; m < N_MISTAKES; m++)
            if (s.alive[m] && (int)wrongs[m].kind == kind &&
                (kind == MASK || (s.occurs[kind] && s.predicted[m])) && found++ < 2)
                says[found - 1] = wrongs[m].says;
        if (found == 1 || found == 2)
            xappend(&text, "%s%s%s%s", *text ? "; and " : "", says[0], found == 2 ? "; or " : "",
                    found == 2 ? says[1] : "");
        if (kind == MASK && *text)
            break; /* that is all of it */
    }
    if (!*text) {
        free(text);
        return NULL;
    }
    xappend(&text,
            " [says which pairs are wrong in %" PRId32 " of %" PRId32 " wrong trees%s, and %" PRId32
            " of %" PRId32 " right ones]",
            wrong, wrong, gate > 0 ? " of this gate" : "", right, right);
    return text;
}

/* ---- what is told --------------------------------------------------------------------------------------- */

static char *checked(const struct asked *a)
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

/* The wrong tree of a gate that is the smallest; gate 0: of all. */
static const struct asked *smallest(const struct asked *all, int32_t n, int32_t gate)
{
    const struct asked *found = NULL;
    for (int32_t i = 0; i < n; i++) {
        const struct asked *a = &all[i];
        if ((gate == 0 || a->gate == gate) && strcmp(a->code, "OK") != 0 &&
            (!found || tree_tokens(a->t) < tree_tokens(found->t)))
            found = a;
    }
    return found;
}

static void tell(const struct asked *all, int32_t n, int32_t gate, const char *whole, struct lab_result *r)
{
    const struct asked *a = smallest(all, n, gate);
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
    if (strcmp(a->code, "COVER") == 0 || a->no_place)
        r->why = whole ? xstrdup(whole) : cause(all, n, gate);
}

/* Bytes, or padded tokens, of all trees against those of the reference. */
static void tell_price(const struct asked *all, int32_t n, int32_t gate, struct lab_result *r)
{
    int64_t is = 0, reference = 0;
    const struct asked *wrong = NULL;
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
    struct asked all[300];
    int32_t n = 0;
    for (size_t k = 0; k < sizeof sets / sizeof sets[0]; k++)
        for (int32_t i = 0; i < sets[k].n; i++, n++) {
            CK(n < 300);
            int32_t at = sets[k].gate == GATE_ONE ? 0 : 1 + i;
            all[n] = (struct asked){.gate = sets[k].gate,
                                    .t = lab_tree(seed + 1000 * k + (at ? 0 : i), at, sets[k].kind)};
            ask(s, &all[n]);
        }
    char *whole = smallest(all, n, 0) ? cause(all, n, 0) : NULL;
    for (int32_t gate = GATE_ONE; gate <= GATE_LONG; gate++)
        tell(all, n, gate, whole, &r[gate - 1]);
    tell_price(all, n, GATE_SHARED, &r[GATE_SHARED - 1]);
    tell_price(all, n, GATE_FULL, &r[GATE_FULL - 1]);
    free(whole);
    for (int32_t i = 0; i < n; i++)
        asked_clear(&all[i]);
}
