/*
 * lab7.c - lab 7, beat it: a student's partitions of trees of five families, timed on the simulated H200, against those of the
 * strategy treeattn.
 */
#include "verify/lab/beat/lab7.h"
#include "verify/judge/cover.h"
#include "verify/lab/lab.h"
#include "verify/lab/lab3.h"
#include "verify/lab/trees.h"

#include "sim/plan_ledger.h"
#include "sim/strategy.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TREES = LAB7_FAMILIES * LAB7_TREES };
static const double bars[] = {1.15, 1.05, 1};
enum { BARS = sizeof bars / sizeof bars[0] };

/* ---- asking --------------------------------------------------------------------------------------------- */

static struct plan *plan_of_treeattn(const struct nform *nf)
{
    struct strategy_use use;
    struct plan_env env = plan_env_default(lab7_heads);
    char why[WHY_MAX];
    env.machine = lab7_machine();
    CK(strategy_parse("treeattn", &use, NULL));
    struct plan *p = strategy_plan(&use, nf, &env, why);
    CK(p);
    return p;
}

/* No plan takes less: its bytes from memory, each once. */
static double floor_of(const struct nform *nf)
{
    return price_floor(nf, &lab7_heads) / lab7_machine()->bandwidth;
}

static void judge_plan(struct lab7_asked *a)
{
    struct plan *p = partition_plan(&a->p, a->nf, true);
    a->p.code = cover_check(p, &a->p.why) ? "OK" : "COVER";
    bool good = strcmp(a->p.code, "OK") == 0;
    for (int64_t i = 0; i < p->n_groups && good; i++)
        if (p->group[i].n_kv > LAB7_MOST_TOKENS) {
            a->p.code = "LIMIT";
            good = err_set(&a->p.why, "group %" PRId64 " has %" PRId64 " tokens (most_tokens is %d)", i,
                           p->group[i].n_kv, LAB7_MOST_TOKENS);
        }
    if (good)
        a->time = lab7_time(p);
    if (good && a->time < floor_of(a->nf)) {
        a->p.code = "INVALID";
        err_set(&a->p.why, "%.3g us are less than memory needs for the bytes", 1e6 * a->time);
    }
    plan_free(p);
}

static void ask(struct lab_session *s, struct lab7_asked *a)
{
    const struct lab_env env = lab7_env();
    a->nf = nform_new(a->t);
    struct plan *p = plan_of_treeattn(a->nf);
    a->treeattn = lab7_time(p);
    plan_free(p);
    lab_part(s, a->family + 1);
    partition_ask(s, a->t, &env, &a->p);
    if (strcmp(a->p.code, "OK") == 0)
        judge_plan(a);
}

static void asked_clear(struct lab7_asked *a)
{
    partition_clear(&a->p);
    nform_free(a->nf);
    tree_free(a->t);
}

/* ---- what is told --------------------------------------------------------------------------------------- */

static bool is_right(const struct lab7_asked *a)
{
    return strcmp(a->p.code, "OK") == 0;
}

/* The wrong plan, with what is wrong in red. */
static void draw_wrong(const struct lab7_asked *a, struct lab_result *r)
{
    const struct lab3_asked x = {.t = a->t, .p = a->p};
    if (a->p.end == RUN_DONE && strcmp(a->p.code, "PLAN") != 0 && !lab3_too_large(&x))
        partition_draw(&a->p, &lab7_heads, "Your groups on that tree, with what is wrong in red", r);
}

/* What lab 3 knows of plans that are wrong, of all trees: those of one family are too few to tell one mistake from another. */
static char *cause(const struct lab7_asked *all)
{
    struct lab3_asked x[TREES];
    for (int32_t i = 0; i < TREES; i++)
        x[i] = (struct lab3_asked){.gate = all[i].family + 1, .t = all[i].t, .p = all[i].p};
    return lab3_cause(x, TREES, 0);
}

/* A family. */
static void tell_right(const struct lab7_asked *all, int32_t family, const char *whole, struct lab_result *r)
{
    const struct lab7_asked *a = NULL;
    int32_t bad = 0;
    for (int32_t i = 0; i < TREES; i++)
        if (all[i].family == family && !is_right(&all[i])) {
            bad++;
            a = a && tree_tokens(a->t) <= tree_tokens(all[i].t) ? a : &all[i];
        }
    r->code = a ? a->p.code : "OK";
    if (!a)
        return;
    r->checked = lab_tree_text(a->t);
    r->question = lab_tree_code(a->t);
    r->got = xstrdup(a->p.why.msg);
    r->seen = xasprintf("%" PRId32 " of %d trees are wrong", bad, LAB7_TREES);
    draw_wrong(a, r);
    if (strcmp(a->p.code, "COVER") == 0 || a->p.no_place)
        r->why = whole ? xstrdup(whole) : NULL;
}

/* Geometric mean of time / treeattn's of a family, or of all: -1. */
static double mean_ratio(const struct lab7_asked *all, int32_t family)
{
    double sum = 0;
    int32_t n = 0;
    for (int32_t i = 0; i < TREES; i++)
        if (family < 0 || all[i].family == family) {
            sum += log(all[i].time / all[i].treeattn);
            n++;
        }
    return exp(sum / n);
}

static const struct lab7_asked *worst_of(const struct lab7_asked *all)
{
    const struct lab7_asked *worst = all;
    for (int32_t i = 1; i < TREES; i++)
        if (all[i].time / all[i].treeattn > worst->time / worst->treeattn)
            worst = &all[i];
    return worst;
}

static void draw_times(const struct lab7_asked *a, struct lab_result *r)
{
    struct plan *theirs = partition_plan(&a->p, a->nf, true), *other = plan_of_treeattn(a->nf);
    FILE *f = lab_picture(r, "Your plan of the worst tree in time, and that of treeattn below it");
    lab7_draw(f, theirs, other);
    fclose(f);
    plan_free(theirs);
    plan_free(other);
}

static bool are_right(const struct lab7_asked *all)
{
    bool right = true;
    for (int32_t i = 0; i < TREES; i++)
        right = right && is_right(&all[i]);
    return right;
}

static void tell_time(const struct lab7_asked *all, bool right, double bar, const char *advice,
                      struct lab_result *r)
{
    double is = right ? mean_ratio(all, -1) : INFINITY;
    r->code = !right ? "WAITS" : bar < 1.01 ? (is < bar ? "OK" : "PRICE") : is <= bar ? "OK" : "PRICE";
    if (right) {
        r->figure = "time / treeattn";
        r->value = is;
    }
    if (lab_passed(r))
        return;
    r->checked = xasprintf("time on %d trees, over that of treeattn, the geometric mean", TREES);
    if (!right) {
        r->got = xstrdup("trees of other gates are wrong: this is judged when they are right");
        return;
    }
    const struct lab7_asked *worst = worst_of(all);
    r->got = xasprintf("%.4f, should be %s %g", is, bar < 1.01 ? "less than" : "at most", bar);
    r->seen = xstrdup("families:");
    static const char *const name[LAB7_FAMILIES] = {"few-shot", "speculative", "conversations", "roots",
                                                    "thoughts"};
    for (int32_t k = 0; k < LAB7_FAMILIES; k++)
        xappend(&r->seen, " %s %.3f%s", name[k], mean_ratio(all, k), k + 1 < LAB7_FAMILIES ? "," : "");
    xappend(&r->seen,
            "; the worst tree has %" PRId32 " nodes, %" PRId64 " tokens, %" PRId32
            " queries: %.1f us, treeattn %.1f us",
            worst->t->n_nodes, tree_tokens(worst->t), worst->t->n_queries, 1e6 * worst->time,
            1e6 * worst->treeattn);
    r->why = advice ? xstrdup(advice) : NULL;
}

void lab7_judge(struct lab_session *s, uint64_t seed, struct lab_result *r)
{
    struct lab7_asked all[TREES];
    for (int32_t i = 0; i < TREES; i++) {
        int32_t family = i / LAB7_TREES;
        all[i] = (struct lab7_asked){.family = family, .t = lab7_tree(seed, family, i % LAB7_TREES)};
        ask(s, &all[i]);
    }
    bool right = are_right(all);
    char *whole = right ? NULL : cause(all);
    for (int32_t k = 0; k < LAB7_FAMILIES; k++)
        tell_right(all, k, whole, &r[k]);
    free(whole);
    char *advice = right && mean_ratio(all, -1) >= bars[BARS - 1] ? lab7_advice(all, TREES) : NULL;
    for (int k = 0; k < BARS; k++)
        tell_time(all, right, bars[k], advice, &r[LAB7_FAMILIES + k]);
    for (int k = 0; k < BARS && right; k++)
        if (!lab_passed(&r[LAB7_FAMILIES + k])) {
            draw_times(worst_of(all), &r[LAB7_FAMILIES + k]);
            break;
        }
    free(advice);
    for (int32_t i = 0; i < TREES; i++)
        asked_clear(&all[i]);
}
