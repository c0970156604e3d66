#include "sim/fit/regress.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The rows of a part, gathered: x[n][p], y[n], weight[n]. */
struct gathered {
    int64_t n;
    double *x, *y, *weight;
};

static void gathered_free(struct gathered *g)
{
    free(g->x);
    free(g->y);
    free(g->weight);
}

static struct gathered gather(const struct regression *r, const bool *use, int32_t part, int32_t variant)
{
    struct gathered g = {.x = xcalloc((size_t)(r->n * r->p), sizeof *g.x),
                         .y = xcalloc((size_t)r->n, sizeof *g.y),
                         .weight = xcalloc((size_t)r->n, sizeof *g.weight)};
    for (int64_t i = 0; i < r->n; i++) {
        if (r->part[i] != part || (use && !use[i]))
            continue;
        memcpy(g.x + g.n * r->p, r->x + (variant * r->n + i) * r->p, (size_t)r->p * sizeof *g.x);
        g.y[g.n] = r->y[i];
        g.weight[g.n++] = r->relative ? 1 / (r->y[i] * r->y[i]) : 1;
    }
    return g;
}

/* A column of length 1 of which less is left, once the columns before it are taken out, depends on them: that is rounding. */
#define INDEPENDENT 1e-6

/* drop[p]: is the column spanned by those kept before it? By Gram and Schmidt, twice, on weighted columns of length 1. */
static void find_dependent(const struct gathered *g, int32_t p, bool *drop)
{
    double *basis = xcalloc((size_t)(g->n * p), sizeof *basis); /* [kept][n] */
    int32_t kept = 0;
    for (int32_t j = 0; j < p; j++) {
        double *v = basis + kept * g->n, norm = 0, left = 0;
        for (int64_t i = 0; i < g->n; i++) {
            v[i] = g->x[i * p + j] * sqrt(g->weight[i]);
            norm += v[i] * v[i];
        }
        for (int32_t k = 0; k < 2 * kept; k++) {
            const double *b = basis + k % kept * g->n;
            double dot = 0;
            for (int64_t i = 0; i < g->n; i++)
                dot += b[i] * v[i];
            for (int64_t i = 0; i < g->n; i++)
                v[i] -= dot * b[i];
        }
        for (int64_t i = 0; i < g->n; i++)
            left += v[i] * v[i];
        drop[j] = !(left > INDEPENDENT * INDEPENDENT * norm);
        for (int64_t i = 0; i < g->n && !drop[j]; i++)
            v[i] /= sqrt(left);
        kept += !drop[j];
    }
    free(basis);
}

/* Fits with the columns that are not dropped; results are spread over all p. */
static bool fit_kept(const struct regression *r, const struct gathered *g, struct part_fit *out,
                     struct err *e)
{
    const char *name[FIT_MAX_COEF];
    int32_t at[FIT_MAX_COEF], kept = 0;
    for (int32_t j = 0; j < r->p; j++)
        if (!out->dropped[j]) {
            name[kept] = r->name[j];
            at[kept++] = j;
        }
    for (int64_t i = 0; i < g->n; i++)
        for (int32_t k = 0; k < kept; k++)
            g->x[i * kept + k] = g->x[i * r->p + at[k]];
    struct fit_data d = {.n = g->n, .p = kept, .x = g->x, .y = g->y, .weight = g->weight, .name = name};
    struct fit f;
    if (!fit_linear(&d, r->nonneg, &f, e))
        return false;
    out->fit = (struct fit){.p = r->p, .r2 = f.r2, .squares = f.squares, .condition = f.condition};
    for (int32_t k = 0; k < kept; k++) {
        out->fit.coef[at[k]] = f.coef[k];
        out->fit.error[at[k]] = f.error[k];
        out->fit.held[at[k]] = f.held[k];
    }
    return true;
}

static bool fit_variant(const struct regression *r, const bool *use, int32_t part, int32_t variant,
                        struct part_fit *out, struct err *e)
{
    struct gathered g = gather(r, use, part, variant);
    struct err why = {0};
    *out = (struct part_fit){.variant = variant};
    bool good = g.n > r->p || err_set(&why, "%lld rows for %d coefficients (expected more rows)",
                                      (long long)g.n, (int)r->p);
    if (good && r->drop)
        find_dependent(&g, r->p, out->dropped);
    good = good && fit_kept(r, &g, out, &why);
    if (!good && r->n_parts > 1)
        err_set(e, "%s: %s", r->part_name[part], why.msg);
    else if (!good)
        err_set(e, "%s", why.msg);
    gathered_free(&g);
    return good;
}

bool regress(const struct regression *r, const bool *use, struct part_fit *out, struct err *e)
{
    CK(r->p >= 1 && r->p <= FIT_MAX_COEF && r->n_variants >= 1);
    struct part_fit f;
    for (int32_t k = 0; k < r->n_parts; k++)
        for (int32_t v = 0; v < r->n_variants; v++) {
            if (!fit_variant(r, use, k, v, &f, e))
                return false;
            if (v == 0 || f.fit.squares < out[k].fit.squares)
                out[k] = f;
        }
    return true;
}

void regress_predict(const struct regression *r, const struct part_fit *f, double *predicted)
{
    for (int64_t i = 0; i < r->n; i++) {
        const struct part_fit *own = &f[r->part[i]];
        fit_predict(&own->fit, 1, r->x + (own->variant * r->n + i) * r->p, &predicted[i]);
    }
}

static bool fit_and_predict(const void *rows, const bool *use, double *predicted, struct err *e)
{
    const struct regression *r = rows;
    struct part_fit *fit = xcalloc((size_t)r->n_parts, sizeof *fit);
    bool good = regress(r, use, fit, e);
    if (good)
        regress_predict(r, fit, predicted);
    free(fit);
    return good;
}

bool regress_held_out(const struct regression *r, int32_t folds, uint64_t seed, double *predicted,
                      struct err *e)
{
    return fold_held_out(r, fit_and_predict, r->n, r->config, r->n_configs, folds, seed, predicted, NULL,
                         NULL, e);
}
