/*
 * advice.c - lab 7: what would make a student's plans faster. Each change is made to the groups of all trees, and timed: what
 * saves most is told.
 */
#include "verify/lab/beat/lab7.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define WORTH 0.95 /* of the time with less of a change: one that saves less is not told */

/* Groups that were changed, with arrays of their own. */
struct groups {
    struct said *at;
    int64_t n, cap;
};

static struct said *add(struct groups *g)
{
    g->at = xgrow(g->at, &g->cap, g->n + 1, sizeof *g->at);
    g->at[g->n] = (struct said){.nq = 0};
    return &g->at[g->n++];
}

/* A copy of group s with runs r0 to r1 - 1. */
static struct said *add_part(struct groups *g, const struct said *s, int64_t r0, int64_t r1)
{
    struct said *x = add(g);
    int64_t nr = r1 - r0, *query = xcalloc((size_t)s->nq, sizeof *query),
            *run = xcalloc((size_t)(3 * nr), sizeof *run);
    uint8_t *hidden = xcalloc((size_t)s->nq, (size_t)nr);
    memcpy(query, s->query, (size_t)s->nq * sizeof *query);
    memcpy(run, s->run + 3 * r0, (size_t)(3 * nr) * sizeof *run);
    for (int64_t k = 0; k < s->nq; k++)
        memcpy(hidden + k * nr, s->hidden + k * s->nr + r0, (size_t)nr);
    *x = (struct said){s->nq, nr, query, run, hidden};
    return x;
}

static void groups_clear(struct groups *g)
{
    for (int64_t i = 0; i < g->n; i++) {
        free((void *)g->at[i].query);
        free((void *)g->at[i].run);
        free(g->at[i].hidden);
    }
    free(g->at);
    *g = (struct groups){.n = 0};
}

static int64_t tokens_of(const struct said *s)
{
    int64_t n = 0;
    for (int64_t r = 0; r < s->nr; r++)
        n += s->run[3 * r + 2] - s->run[3 * r + 1];
    return n;
}

/* ---- changes -------------------------------------------------------------------------------------------- */

/* Each group in pieces of at most so many tokens. */
static void cut(const struct said *s, int64_t most, struct groups *out)
{
    for (int64_t r = 0; r < s->nr;) {
        int64_t end = r, tokens = 0;
        while (end < s->nr && (end == r || tokens + s->run[3 * end + 2] - s->run[3 * end + 1] <= most)) {
            tokens += s->run[3 * end + 2] - s->run[3 * end + 1];
            end++;
        }
        int64_t begin = s->run[3 * r + 1], stop = s->run[3 * r + 2];
        for (int64_t at = begin; end == r + 1 && at < stop; at += most) {
            int64_t *run = (int64_t *)add_part(out, s, r, end)->run;
            run[1] = at;
            run[2] = min_i64(at + most, stop);
        }
        if (end > r + 1)
            add_part(out, s, r, end);
        r = end;
    }
}

static bool same_queries(const struct said *a, const struct said *b)
{
    return a->nq == b->nq && memcmp(a->query, b->query, (size_t)a->nq * sizeof *a->query) == 0;
}

/* Puts the runs of s behind those of x, which has the same queries. */
static void append_runs(struct said *x, const struct said *s)
{
    int64_t nr = x->nr + s->nr, *run = xcalloc((size_t)(3 * nr), sizeof *run);
    uint8_t *hidden = xcalloc((size_t)x->nq, (size_t)nr);
    memcpy(run, x->run, (size_t)(3 * x->nr) * sizeof *run);
    memcpy(run + 3 * x->nr, s->run, (size_t)(3 * s->nr) * sizeof *run);
    for (int64_t k = 0; k < x->nq; k++) {
        memcpy(hidden + k * nr, x->hidden + k * x->nr, (size_t)x->nr);
        memcpy(hidden + k * nr + x->nr, s->hidden + k * s->nr, (size_t)s->nr);
    }
    free((void *)x->run);
    free(x->hidden);
    *x = (struct said){x->nq, nr, x->query, run, hidden};
}

/* Groups of the same queries joined, up to so many tokens. */
static void join(const struct said *s, int64_t most, struct groups *out)
{
    for (int64_t i = 0; i < out->n; i++)
        if (same_queries(&out->at[i], s) && tokens_of(&out->at[i]) + tokens_of(s) <= most) {
            append_runs(&out->at[i], s);
            return;
        }
    add_part(out, s, 0, s->nr);
}

/* One run of a group, with the queries that see it, is a group; or goes to one that has this run already. */
static void share_run(const struct said *s, int64_t r, bool alone, struct groups *out)
{
    const int64_t *run = s->run + 3 * r;
    struct said *x = NULL;
    for (int64_t i = 0; i < out->n && !x && !alone; i++)
        x = memcmp(out->at[i].run, run, 3 * sizeof *run) == 0 ? &out->at[i] : NULL;
    int64_t had = x ? x->nq : 0, *query = xcalloc((size_t)(had + s->nq), sizeof *query), n = had;
    if (x)
        memcpy(query, x->query, (size_t)had * sizeof *query);
    for (int64_t k = 0; k < s->nq; k++)
        if (!s->hidden[k * s->nr + r])
            query[n++] = s->query[k];
    if (n == 0) {
        free(query);
        return;
    }
    if (!x) {
        x = add(out);
        int64_t *copy = xcalloc(3, sizeof *copy);
        memcpy(copy, run, 3 * sizeof *copy);
        x->run = copy;
    }
    free((void *)x->query);
    free(x->hidden);
    *x = (struct said){n, 1, query, x->run, xcalloc((size_t)n, 1)};
}

static int longest_first(const void *a, const void *b)
{
    int64_t x = tokens_of(a), y = tokens_of(b);
    return x < y ? 1 : x > y ? -1 : 0;
}

/* What changes less comes first. */
enum change { ORDER, CUT, JOIN, SPLIT, SHARE, N_CHANGES };
/* The sentence; the caller frees. */
static char *sentence(enum change how, int64_t tokens, double is)
{
    switch (how) {
    case CUT:
        return xasprintf("groups are too long: cut every %" PRId64 " tokens, they take %.2f of the time",
                         tokens, is);
    case JOIN:
        return xasprintf("groups are too short: those of the same queries joined, up to %" PRId64
                         " tokens, they take %.2f of the time",
                         tokens, is);
    case SPLIT:
        return xasprintf(
            "groups have tokens that some of their queries do not see: a group for each run, cut every "
            "%" PRId64 " tokens, takes %.2f of the time",
            tokens, is);
    case SHARE:
        return xasprintf(
            "tokens are read again by other groups: runs that several groups have, read together and "
            "cut every %" PRId64 " tokens, take %.2f of the time",
            tokens, is);
    default:
        return xasprintf("long groups begin late: the longest first, they take %.2f of the time", is);
    }
}

static struct groups changed(const struct partition *p, enum change how, int64_t tokens)
{
    struct groups g = {.n = 0}, whole = {.n = 0};
    for (int64_t i = 0; i < p->n_groups; i++) {
        const struct said *s = &p->group[i];
        if (how == CUT)
            cut(s, tokens, &g);
        else if (how == JOIN)
            join(s, tokens, &g);
        else if (how == ORDER)
            add_part(&g, s, 0, s->nr);
        for (int64_t r = 0; r < s->nr && how >= SPLIT; r++)
            share_run(s, r, how == SPLIT, &whole);
    }
    for (int64_t i = 0; i < whole.n; i++)
        cut(&whole.at[i], tokens, &g);
    groups_clear(&whole);
    if (how == ORDER && g.n > 0)
        qsort(g.at, (size_t)g.n, sizeof *g.at, longest_first);
    return g;
}

/* Geometric mean of the time after a change over that before. */
static double gain(const struct lab7_asked *all, int32_t n, enum change how, int64_t tokens)
{
    double sum = 0;
    for (int32_t i = 0; i < n; i++) {
        struct groups g = changed(&all[i].p, how, tokens);
        struct partition p = all[i].p;
        p.group = g.at;
        p.n_groups = g.n;
        struct plan *plan = partition_plan(&p, all[i].nf, true);
        sum += log(lab7_time(plan) / all[i].time);
        plan_free(plan);
        groups_clear(&g);
    }
    return exp(sum / n);
}

/* Somebody may say a million groups: nothing is tried on them. */
static bool is_small(const struct lab7_asked *all, int32_t n)
{
    enum { MOST = 3000 };
    for (int32_t i = 0; i < n; i++) {
        int64_t runs = 0;
        for (int64_t g = 0; g < all[i].p.n_groups; g++)
            runs += all[i].p.group[g].nr;
        if (runs > MOST)
            return false;
    }
    return true;
}

char *lab7_advice(const struct lab7_asked *all, int32_t n)
{
    static const int64_t tokens[] = {128, 256, 512};
    double best = 1;
    char *text = NULL;
    for (int how = 0; how < N_CHANGES && is_small(all, n); how++) {
        double before = best;
        for (size_t k = 0; k < (how == ORDER ? 1 : sizeof tokens / sizeof tokens[0]); k++) {
            double is = gain(all, n, (enum change)how, tokens[k]);
            if (is > WORTH * before || is >= best)
                continue;
            best = is;
            free(text);
            text = sentence((enum change)how, tokens[k], is);
        }
    }
    return text;
}
