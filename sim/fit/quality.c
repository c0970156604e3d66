#include "sim/fit/quality.h"

#include "ref/rng.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Kendall's tau ------------------------------------------------------------------------------------ */

struct pair {
    double x, y;
};

static int by_x_then_y(const void *a, const void *b)
{
    const struct pair *p = a, *q = b;
    int c = (p->x > q->x) - (p->x < q->x);
    return c ? c : (p->y > q->y) - (p->y < q->y);
}

/* Sorts y[n] by merging; returns the number of pairs that were out of order. */
static int64_t sort_count(double *y, double *spare, int64_t n)
{
    if (n < 2)
        return 0;
    int64_t half = n / 2, i = 0, j = half, k = 0;
    int64_t swaps = sort_count(y, spare, half) + sort_count(y + half, spare, n - half);
    while (i < half && j < n) {
        if (y[j] < y[i]) {
            swaps += half - i;
            spare[k++] = y[j++];
        } else {
            spare[k++] = y[i++];
        }
    }
    memcpy(spare + k, y + i, (size_t)(half - i) * sizeof *y);
    memcpy(y, spare, (size_t)(k + half - i) * sizeof *y);
    return swaps;
}

static int64_t pairs_of(int64_t n)
{
    return n * (n - 1) / 2;
}

/* Knight: A computer method for calculating Kendall's tau with ungrouped data, JASA 61, 1966. */
double kendall_tau(int64_t n, const double *x, const double *y)
{
    struct pair *p = xcalloc((size_t)n, sizeof *p);
    double *s = xcalloc((size_t)n, sizeof *s), *spare = xcalloc((size_t)n, sizeof *spare);
    for (int64_t i = 0; i < n; i++)
        p[i] = (struct pair){x[i], y[i]};
    qsort(p, (size_t)n, sizeof *p, by_x_then_y);
    int64_t tied_x = 0, tied_y = 0, tied_both = 0, run_x = 1, run_both = 1;
    for (int64_t i = 1; i <= n; i++) {
        bool same_x = i < n && p[i].x == p[i - 1].x, same_both = same_x && p[i].y == p[i - 1].y;
        tied_x += same_x ? 0 : pairs_of(run_x);
        tied_both += same_both ? 0 : pairs_of(run_both);
        run_x = same_x ? run_x + 1 : 1;
        run_both = same_both ? run_both + 1 : 1;
    }
    for (int64_t i = 0; i < n; i++)
        s[i] = p[i].y;
    int64_t discordant = sort_count(s, spare, n), run_y = 1;
    for (int64_t i = 1; i <= n; i++) {
        bool same = i < n && s[i] == s[i - 1];
        tied_y += same ? 0 : pairs_of(run_y);
        run_y = same ? run_y + 1 : 1;
    }
    int64_t all = pairs_of(n), concordant = all - tied_x - tied_y + tied_both - discordant;
    free(p);
    free(s);
    free(spare);
    return (double)(concordant - discordant) / sqrt((double)(all - tied_x) * (double)(all - tied_y));
}

/* ---- configurations ----------------------------------------------------------------------------------- */

int64_t *rows_by_config(int64_t n, const int32_t *config, int32_t n_configs, int64_t *row)
{
    int64_t *start = xcalloc((size_t)n_configs + 2, sizeof *start); /* by counting places */
    for (int64_t i = 0; i < n; i++)
        start[config[i] + 2]++;
    for (int32_t k = 1; k <= n_configs; k++)
        start[k + 1] += start[k];
    for (int64_t i = 0; i < n; i++)
        row[start[config[i] + 1]++] = i;
    return start;
}

/* ---- folds -------------------------------------------------------------------------------------------- */

void fold_assign(int32_t n_configs, int32_t folds, uint64_t seed, int32_t *fold)
{
    CK(folds >= 1);
    for (int32_t i = 0; i < n_configs; i++)
        fold[i] = i % folds;
    for (int32_t i = n_configs - 1; i > 0; i--) {
        int32_t j = (int32_t)rng_below(seed, 0, (uint64_t)i, i + 1), kept = fold[i];
        fold[i] = fold[j];
        fold[j] = kept;
    }
}

bool fold_held_out(const void *rows, fold_fit *fit, int64_t n, const int32_t *config, int32_t n_configs,
                   int32_t folds, uint64_t seed, double *predicted, void (*done)(void *), void *arg,
                   struct err *e)
{
    if (folds < 2 || folds > n_configs)
        return err_set(e, "%d folds of %d configurations (expected 2 folds or more, a configuration in each)",
                       (int)folds, (int)n_configs);
    int32_t *fold = xcalloc((size_t)n_configs, sizeof *fold);
    bool *use = xcalloc((size_t)n, sizeof *use), good = true;
    double *all = xcalloc((size_t)n, sizeof *all);
    struct err why = {0};
    fold_assign(n_configs, folds, seed, fold);
    for (int32_t k = 0; k < folds && good; k++) {
        for (int64_t i = 0; i < n; i++)
            use[i] = fold[config[i]] != k;
        good = fit(rows, use, all, &why) || err_set(e, "without fold %d: %s", (int)k + 1, why.msg);
        for (int64_t i = 0; i < n && good; i++)
            if (!use[i])
                predicted[i] = all[i];
        if (good && done)
            done(arg);
    }
    free(fold);
    free(use);
    free(all);
    return good;
}

/* ---- scores ------------------------------------------------------------------------------------------- */

struct best {
    int64_t rows;
    double measured;  /* the fastest */
    double predicted; /* the fastest */
    double chosen;    /* measured time of the predicted fastest */
};

static void score_fastest(int64_t n, const double *measured, const double *predicted, const int32_t *config,
                          int32_t n_configs, struct score *s)
{
    struct best *b = xcalloc((size_t)n_configs, sizeof *b);
    for (int64_t i = 0; i < n; i++) {
        struct best *c = &b[config[i]];
        bool first = c->rows++ == 0, faster = first || predicted[i] < c->predicted;
        if (first || measured[i] < c->measured)
            c->measured = measured[i];
        if (faster || (predicted[i] == c->predicted && measured[i] > c->chosen))
            c->chosen = measured[i];
        if (faster)
            c->predicted = predicted[i];
    }
    for (int32_t k = 0; k < n_configs; k++) {
        if (b[k].rows < 2)
            continue;
        s->contested++;
        s->right += b[k].chosen <= b[k].measured * (1 + SCORE_REPEAT);
        s->regret += b[k].chosen / b[k].measured - 1;
    }
    s->regret /= (double)s->contested;
    free(b);
}

struct score score_of(int64_t n, const double *measured, const double *predicted, const int32_t *config,
                      int32_t n_configs)
{
    CK(n > 0);
    struct score s = {.n = n};
    double *x = xcalloc((size_t)n, sizeof *x), *y = xcalloc((size_t)n, sizeof *y);
    int64_t *row = xcalloc((size_t)n, sizeof *row);
    for (int64_t i = 0; i < n; i++)
        x[i] = fabs(predicted[i] - measured[i]) / measured[i];
    s.median = quantile(x, n, 0.5);
    s.p90 = quantile(x, n, 0.9);
    int64_t *start = rows_by_config(n, config, n_configs, row);
    for (int64_t i = 0; i < n; i++) {
        x[i] = measured[row[i]];
        y[i] = predicted[row[i]];
    }
    for (int32_t k = 0; k < n_configs; k++) {
        int64_t at = start[k], rows = start[k + 1] - at;
        double tau = rows > 1 ? kendall_tau(rows, x + at, y + at) : NAN;
        if (isnan(tau))
            continue;
        s.ranked++;
        s.tau += tau;
    }
    s.tau /= (double)s.ranked;
    score_fastest(n, measured, predicted, config, n_configs, &s);
    free(start);
    free(row);
    free(x);
    free(y);
    return s;
}
