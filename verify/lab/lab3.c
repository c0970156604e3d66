/* lab3.c - lab 3, cut a tree: the student's groups are a plan, which the coverage check judges, and the ledger counts. */
#include "verify/judge/cover.h"
#include "verify/lab/lab.h"
#include "verify/lab/lab3.h"
#include "verify/lab/trees.h"

#include "ref/rng.h"
#include "sim/plan_ledger.h"
#include "sim/strategy.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const struct heads heads = {RATIO, 1, 64, DT_F16};

/* ---- as a plan ------------------------------------------------------------------------------------------ */

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
    struct plan *p = partition_plan(&a->p, nf, false);
    a->p.code = cover_check(p, &a->p.why) ? "OK" : "COVER";
    if (strcmp(a->p.code, "OK") == 0) {
        struct ledger l = ledger_of_plan(p, &heads);
        a->kv = l.kv;
        a->padded = l.pad_tokens;
        take_references(a, nf);
    }
    partition_say_range(&a->p.why);
    for (int64_t i = 0; i < p->n_groups && a->gate == GATE_LONG; i++)
        if (p->group[i].n_kv > MOST_TOKENS && strcmp(a->p.code, "OK") == 0) {
            a->p.code = "LIMIT";
            err_set(&a->p.why, "group %" PRId64 " has %" PRId64 " tokens (most_tokens is %d)", i,
                    p->group[i].n_kv, MOST_TOKENS);
        }
    plan_free(p);
    nform_free(nf);
}

static void ask(struct lab_session *s, struct lab3_asked *a)
{
    const struct lab_env env = {
        .ratio = RATIO, .tile_m = TILE_M, .tile_n = TILE_N, .most_tokens = MOST_TOKENS};
    partition_ask(s, a->t, &env, &a->p);
    if (strcmp(a->p.code, "OK") == 0)
        judge_plan(a);
}

static void asked_clear(struct lab3_asked *a)
{
    partition_clear(&a->p);
    tree_free(a->t);
}

/* ---- what is told --------------------------------------------------------------------------------------- */

/* The plan, with what is wrong with it in red. It has groups, none of which names what is not there. */
static void draw(const struct lab3_asked *a, const char *caption, struct lab_result *r)
{
    if (a->p.end != RUN_DONE || strcmp(a->p.code, "PLAN") == 0 || lab3_too_large(a))
        return;
    partition_draw(&a->p, &heads, caption, r);
}

static bool unasked(const struct lab3_asked *a)
{
    return a->p.end == LAB_UNASKED;
}

/* The wrong tree of a gate that is the smallest; gate 0: of all. One that was not asked only if there is no other. */
static const struct lab3_asked *smallest(const struct lab3_asked *all, int32_t n, int32_t gate)
{
    const struct lab3_asked *found = NULL;
    for (int32_t i = 0; i < n; i++) {
        const struct lab3_asked *a = &all[i];
        if ((gate == 0 || a->gate == gate) && strcmp(a->p.code, "OK") != 0 &&
            (!found || unasked(a) < unasked(found) ||
             (unasked(a) == unasked(found) && tree_tokens(a->t) < tree_tokens(found->t))))
            found = a;
    }
    return found;
}

static void tell(const struct lab3_asked *all, int32_t n, int32_t gate, const char *whole,
                 struct lab_result *r)
{
    const struct lab3_asked *a = smallest(all, n, gate);
    int32_t bad = 0, of = 0;
    r->code = a ? a->p.code : "OK";
    for (int32_t i = 0; i < n; i++) {
        of += all[i].gate == gate && !unasked(&all[i]);
        bad += all[i].gate == gate && !unasked(&all[i]) && strcmp(all[i].p.code, "OK") != 0;
    }
    if (!a)
        return;
    r->checked = lab_tree_text(a->t);
    r->question = lab_tree_code(a->t);
    r->got = xstrdup(a->p.why.msg);
    r->seen = xasprintf("%" PRId32 " of %" PRId32 " trees are wrong", bad, of);
    draw(a,
         strcmp(a->p.code, "COVER") == 0 ? "Your groups on that tree, with a wrong pair red and crossed"
                                         : "Your groups on that tree",
         r);
    if (strcmp(a->p.code, "COVER") == 0 || a->p.no_place)
        r->why = whole ? xstrdup(whole) : lab3_cause(all, n, gate);
    r->invariant = lab3_invariant(r->why);
}

/* ---- prices --------------------------------------------------------------------------------------------- */

/* What is counted: bytes of K and V, or padded tokens. */
struct price {
    int32_t gate;
    int64_t most; /* tenths of the reference's */
    const char *what, *of, *against;
};
static const struct price shared = {GATE_SHARED, 15, "bytes of K and V", "bytes", "a group for each node"},
                          full = {GATE_FULL, MOST_PADDING, "padded tokens", "padded tokens", "deft-flatten"};

static int64_t cost(const struct price *p, const struct lab3_asked *a)
{
    return p == &shared ? a->kv : a->padded;
}

static int64_t reference(const struct price *p, const struct lab3_asked *a)
{
    return p == &shared ? a->node_kv : a->flat_padded;
}

/* Tenths of what a tree costs beyond the limit. */
static int64_t excess(const struct price *p, const struct lab3_asked *a)
{
    return 10 * cost(p, a) - p->most * reference(p, a);
}

/* The tree that is dearest, and how many are too dear. */
static void tell_dearest(const struct price *p, const struct lab3_asked *all, int32_t n, struct lab_result *r)
{
    const struct lab3_asked *a = all, *small = NULL;
    int32_t dear = 0, of = 0;
    for (int32_t i = 0; i < n; i++) {
        of += cost(p, &all[i]) > 0;
        dear += excess(p, &all[i]) > 0;
        a = excess(p, &all[i]) > excess(p, a) ? &all[i] : a;
        if (excess(p, &all[i]) > 0 && (!small || tree_tokens(all[i].t) < tree_tokens(small->t)))
            small = &all[i];
    }
    char *tree = lab_tree_text(a->t);
    r->seen = xasprintf("%" PRId32 " of %" PRId32 " trees alone are too dear; the dearest has %" PRId64
                        " %s, and %" PRId64 " with %s: %s",
                        dear, of, cost(p, a), p->of, reference(p, a), p->against, tree);
    r->question = lab_tree_code(a->t);
    free(tree);
    if (small)
        draw(small,
             p == &shared
                 ? "Your groups on the smallest tree that is too dear: a token is read once for each of "
                   "its groups"
                 : "Your groups on the smallest tree that is too dear, with the padding of their tiles "
                   "hatched",
             r);
}

/* The trees that count, which come before others, against those of the reference. */
static void tell_price(const struct price *p, const struct lab3_asked *all, int32_t n, struct lab_result *r)
{
    int64_t is = 0, least = 0;
    const struct lab3_asked *wrong = NULL;
    for (int32_t i = 0; i < n; i++) {
        wrong = strcmp(all[i].p.code, "OK") != 0 && !wrong ? &all[i] : wrong;
        is += cost(p, &all[i]);
        least += reference(p, &all[i]);
    }
    int64_t most = p->most * least / 10;
    if (wrong && wrong->gate == p->gate) { /* all others are right */
        tell(all, n, p->gate, NULL, r);
        return;
    }
    r->code = wrong ? "WAITS" : is <= most ? "OK" : "PRICE";
    if (lab_passed(r))
        return;
    r->checked = xasprintf("%s, summed over all trees, against %s", p->what, p->against);
    if (wrong) {
        r->got = xstrdup("trees of other gates are wrong: this is judged when they are right");
        return;
    }
    r->got = xasprintf("%" PRId64 ", should be at most %" PRId64 " (%g times the %" PRId64 " of %s)", is,
                       most, (double)p->most / 10, least, p->against);
    tell_dearest(p, all, n, r);
    r->why = p == &full ? lab3_padding_cause(all, n) : NULL;
}

/* ---- all ------------------------------------------------------------------------------------------------ */

/*
 * A long root, nodes below it, and below the last of them so many short leaves that the last pieces hold leaves alone, depth first or
 * level by level. The last tile has 16 to 48 tokens. A last piece of no more has 8 queries at most: a Q tile. One of up to 2 tile_n,
 * which is padded as much, fills three Q tiles, and one of up to 4 tile_n seven.
 */
static struct tree *comb(uint64_t seed, int32_t i)
{
    enum { STREAM = 40 };
    int32_t few = i % 3 ? 3 + i % 5 : 0, inner = 1 + i % 3,
            leaves = 75 + (int32_t)rng_below(seed, STREAM, (uint64_t)i, 31), n = inner + few + leaves;
    struct tree *t = tree_new(n, 0);
    int64_t all = 0;
    for (int32_t v = 0; v < n; v++) {
        bool leaf = v >= inner;
        t->parent[v] = v == 0 ? -1 : v < inner ? 0 : v < inner + few ? inner - 1 - (inner > 2) : inner - 1;
        t->len[v] = leaf ? 7 + rng_below(seed, STREAM + 1 + (uint64_t)i, (uint64_t)v, 2) : v > 0 ? 150 : 0;
        all += t->len[v];
    }
    int64_t last = MOST_TOKENS - TILE_N + 16 + rng_below(seed, STREAM, 1000 + (uint64_t)i, 33);
    t->len[0] = MOST_TOKENS + (last - all % MOST_TOKENS + MOST_TOKENS) % MOST_TOKENS;
    tree_query_leaves(t);
    return t;
}

void lab3_judge(struct lab_session *s, uint64_t seed, struct lab_result *r)
{
    enum { COMBS = 48, MOST_TREES = 348 };
    static const struct {
        int32_t gate, n, kind;
    } sets[] = {{GATE_ONE, 8, LAB_TREE_LEAVES},
                {GATE_LEAVES, 60, LAB_TREE_LEAVES},
                {GATE_INNER, 80, LAB_TREE_INNER},
                {GATE_FOREST, 60, LAB_TREE_FOREST},
                {GATE_EMPTY, 60, LAB_TREE_INNER | LAB_TREE_FOREST | LAB_TREE_EMPTY},
                {GATE_LONG, 32, LAB_TREE_INNER | LAB_TREE_LONG},
                {GATE_FULL, COMBS, 0}};
    struct lab3_asked all[MOST_TREES];
    int32_t n = 0, short_ones = 0; /* before those of GATE_LONG */
    for (size_t k = 0; k < sizeof sets / sizeof sets[0]; k++)
        for (int32_t i = 0; i < sets[k].n; i++, n++) {
            CK(n < MOST_TREES);
            int32_t at = sets[k].gate == GATE_ONE ? 0 : 1 + i;
            all[n] = (struct lab3_asked){
                .gate = sets[k].gate,
                .t = sets[k].gate == GATE_FULL ? comb(seed, i)
                                               : lab_tree(seed + 1000 * k + (at ? 0 : i), at, sets[k].kind)};
            lab_part(s, sets[k].gate);
            short_ones += sets[k].gate < GATE_LONG;
            ask(s, &all[n]);
        }
    char *whole = smallest(all, n, 0) ? lab3_cause(all, n, 0) : NULL;
    for (int32_t gate = GATE_ONE; gate <= GATE_LONG; gate++)
        tell(all, n, gate, whole, &r[gate - 1]);
    tell_price(&shared, all, short_ones, &r[GATE_SHARED - 1]);
    tell_price(&full, all, n, &r[GATE_FULL - 1]);
    free(whole);
    for (int32_t i = 0; i < n; i++)
        asked_clear(&all[i]);
}
