/* lab3.c - lab 3, cut a tree: the student's groups are a plan, which the coverage check judges, and the ledger counts. */
#include "verify/judge/cover.h"
#include "verify/lab/lab.h"
#include "verify/lab/lab3.h"
#include "verify/lab/trees.h"

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

/* The wrong tree of a gate that is the smallest; gate 0: of all. */
static const struct lab3_asked *smallest(const struct lab3_asked *all, int32_t n, int32_t gate)
{
    const struct lab3_asked *found = NULL;
    for (int32_t i = 0; i < n; i++) {
        const struct lab3_asked *a = &all[i];
        if ((gate == 0 || a->gate == gate) && strcmp(a->p.code, "OK") != 0 &&
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
    r->code = a ? a->p.code : "OK";
    for (int32_t i = 0; i < n; i++) {
        of += all[i].gate == gate;
        bad += all[i].gate == gate && strcmp(all[i].p.code, "OK") != 0;
    }
    if (!a)
        return;
    r->checked = lab_tree_text(a->t);
    r->got = xstrdup(a->p.why.msg);
    r->seen = xasprintf("%" PRId32 " of %" PRId32 " trees are wrong", bad, of);
    draw(a,
         strcmp(a->p.code, "COVER") == 0 ? "Your groups on that tree, with a wrong pair red and crossed"
                                         : "Your groups on that tree",
         r);
    if (strcmp(a->p.code, "COVER") == 0 || a->p.no_place)
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
        wrong = strcmp(all[i].p.code, "OK") != 0 && !wrong ? &all[i] : wrong;
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
