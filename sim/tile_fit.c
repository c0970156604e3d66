#include "sim/tile_fit.h"

#include "sim/fit.h"
#include "sim/score.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Of times over the fastest of their configuration: */
static const double near_best = 0.1; /* rows count by exp(-(this - 1) / near_best), */
static const double blurred = 0.02;  /* errors as small do not matter, */
static const double capped = 1;      /* and what a choice costs more than this does not, either */
/* What choices cost, how right times are and how far coefficients went, against each other. */
static const double of_choices = 3, of_times = 0.3, of_distance = 0.0001;
/* Plans count by exp(-(price - the least) / fastest / this), one value after the other; and once more, as that leads out of some
 * local minima. */
static const double sharpness[] = {0.06,  0.03, 0.02,  0.012, 0.008, 0.005,
                                   0.003, 0.02, 0.012, 0.008, 0.005, 0.003};
enum { N_SHARP = sizeof sharpness / sizeof sharpness[0], FIRST_STEPS = 150, SHARP_STEPS = 80 };

const struct trait tile_traits[N_TILE_COEFS] = {
#define X(kind, name, from, least, most, about) {#kind "." #name, "us", about, least, most, from},
#define KIND(id, name) TILE_KIND_COEFS(X, name)
    TILE_KINDS(KIND)
#undef KIND
#undef X
#define X(name, unit, from, least, most, about) {#name, unit, about, least, most, from},
        TILE_COEFS(X)
#undef X
};

/* Rows by configuration. */
struct ordered {
    const struct tile_rows *r;
    int64_t *row;    /* of those used, configuration by configuration; */
    int64_t *begin;  /* [n_groups + 1] */
    double *fastest; /* [n_groups], microseconds */
    double *weight;  /* [rows], 1 a group */
    int32_t n_groups;
    double sharp; /* 0: only times count */
};

static struct ordered order(const struct tile_rows *r, const bool *use)
{
    struct ordered o = {.r = r,
                        .row = xcalloc((size_t)r->n, sizeof *o.row),
                        .begin = xcalloc((size_t)r->n_configs + 1, sizeof *o.begin),
                        .fastest = xcalloc((size_t)r->n_configs, sizeof *o.fastest),
                        .weight = xcalloc((size_t)r->n, sizeof *o.weight)};
    int64_t *start = rows_by_config(r->n, r->config, r->n_configs, o.row), n = 0;
    for (int32_t k = 0; k < r->n_configs; k++) {
        for (int64_t i = start[k]; i < start[k + 1]; i++) /* those used move to the front */
            if (!use || use[o.row[i]])
                o.row[n++] = o.row[i];
        if (n > o.begin[o.n_groups])
            o.begin[++o.n_groups] = n;
    }
    for (int32_t g = 0; g < o.n_groups; g++) {
        double best = INFINITY, sum = 0;
        for (int64_t k = o.begin[g]; k < o.begin[g + 1]; k++)
            best = fmin(best, r->seconds[o.row[k]]);
        for (int64_t k = o.begin[g]; k < o.begin[g + 1]; k++)
            sum += o.weight[k] = exp(-(r->seconds[o.row[k]] / best - 1) / near_best);
        for (int64_t k = o.begin[g]; k < o.begin[g + 1]; k++)
            o.weight[k] /= sum;
        o.fastest[g] = 1e6 * best;
    }
    free(start);
    return o;
}

static void ordered_clear(struct ordered *o)
{
    free(o->row);
    free(o->begin);
    free(o->fastest);
    free(o->weight);
}

/* What choosing costs, of one group. price: of its rows. */
static double cost_of_choice(const struct ordered *o, int32_t g, const double *price)
{
    int64_t n = o->begin[g + 1] - o->begin[g];
    double least = INFINITY, sum = 0, cost = 0;
    for (int64_t k = 0; k < n; k++)
        least = fmin(least, price[k]);
    for (int64_t k = 0; k < n; k++) {
        double share = exp(-(price[k] - least) / (o->fastest[g] * o->sharp));
        double over = 1e6 * o->r->seconds[o->row[o->begin[g] + k]] / o->fastest[g] - 1;
        sum += share;
        cost += share * fmin(over, capped);
    }
    return cost / sum;
}

/* What is minimised. */
static double objective(const double *x, const void *data)
{
    const struct ordered *o = data;
    struct tile_coefs c = tile_coefs_of(x);
    double *price = xcalloc((size_t)o->begin[o->n_groups], sizeof *price);
    double times = 0, choices = 0, distance = 0;
    for (int32_t g = 0; g < o->n_groups; g++) {
        for (int64_t k = o->begin[g]; k < o->begin[g + 1]; k++) {
            int64_t i = o->row[k];
            price[k] = tile_price(&o->r->bill[i], &o->r->env[i], &c);
            double error = log((price[k] + c.base) / (1e6 * o->r->seconds[i]));
            times += o->weight[k] * sqrt(error * error + blurred * blurred);
        }
        choices += o->sharp > 0 ? cost_of_choice(o, g, price + o->begin[g]) : 0;
    }
    for (int j = 0; j < N_TILE_COEFS; j++)
        distance += pow(log(x[j] / tile_traits[j].from), 2);
    free(price);
    double n = o->n_groups;
    return (o->sharp > 0 ? of_choices * choices / n + of_times * times / n : times / n) +
           of_distance * distance;
}

void tile_rows_same(const struct tile_rows *r, int64_t *same)
{
    int64_t *row = xcalloc((size_t)r->n, sizeof *row);
    int64_t *start = rows_by_config(r->n, r->config, r->n_configs, row);
    for (int32_t k = 0; k < r->n_configs; k++)
        for (int64_t i = start[k]; i < start[k + 1]; i++) {
            int64_t j = start[k];
            while (memcmp(&r->bill[row[j]], &r->bill[row[i]], sizeof *r->bill) != 0)
                j++;
            same[row[i]] = row[j];
        }
    free(row);
    free(start);
}

void tile_price_fit(const struct tile_rows *r, const bool *use, double *coef)
{
    double least[N_TILE_COEFS], most[N_TILE_COEFS];
    for (int j = 0; j < N_TILE_COEFS; j++) {
        least[j] = tile_traits[j].least;
        most[j] = tile_traits[j].most;
        coef[j] = tile_traits[j].from;
    }
    struct ordered o = order(r, use);
    struct fit_search s = {
        .p = N_TILE_COEFS, .least = least, .most = most, .of = objective, .data = &o, .steps = FIRST_STEPS};
    fit_search(&s, coef);
    s.steps = SHARP_STEPS;
    for (int k = 0; k < N_SHARP; k++) {
        o.sharp = sharpness[k];
        fit_search(&s, coef);
    }
    ordered_clear(&o);
}

void tile_price_predict(const struct tile_rows *r, const double *coef, double *seconds)
{
    struct tile_coefs c = tile_coefs_of(coef);
    for (int64_t i = 0; i < r->n; i++)
        seconds[i] = 1e-6 * (tile_price(&r->bill[i], &r->env[i], &c) + c.base);
}

static bool fit_and_predict(const void *rows, const bool *use, double *seconds, struct err *e)
{
    double coef[N_TILE_COEFS];
    (void)e;
    tile_price_fit(rows, use, coef);
    tile_price_predict(rows, coef, seconds);
    return true;
}

bool tile_price_held_out(const struct tile_rows *r, int32_t folds, uint64_t seed, double *seconds,
                         void (*done)(void *), void *arg, struct err *e)
{
    return fold_held_out(r, fit_and_predict, r->n, r->config, r->n_configs, folds, seed, seconds, done, arg,
                         e);
}
