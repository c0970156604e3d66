#include "sim/fit/fit_treeattn_cost.h"

#include "sim/fit/least_squares.h"
#include "sim/fit/quality.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Of times over the fastest of their configuration: */
static const double near_best = 0.1; /* rows count by exp(-(this - 1) / near_best), */
static const double blurred = 0.02;  /* errors as small do not matter, */
static const double capped = 1;      /* and a choice costs no more than this */
/* What choices cost, how right times are and how far coefficients went, against each other. */
static const double of_choices = 3, of_times = 0.3, of_distance = 0.0001;
/* Plans count by exp(-(price - the least) / fastest / this), one value after the other. A second round leads
 * out of some local minima. */
static const double sharpness[] = {0.06,  0.03, 0.02,  0.012, 0.008, 0.005,
                                   0.003, 0.02, 0.012, 0.008, 0.005, 0.003};
enum { N_SHARP = sizeof sharpness / sizeof sharpness[0], FIRST_STEPS = 150, SHARP_STEPS = 80 };

const struct trait tile_traits[N_TILE_COEFS] = {
#define X(kind, name, from, least, most, share, about) {#kind "." #name, "us", about, least, most, from},
#define KIND(id, name) TILE_KIND_COEFS(X, name)
    TILE_KINDS(KIND)
#undef KIND
#undef X
#define X(kind, name, from, least, most, share, about)                                                       \
    {#kind "." #name, "", "of " #name ", with heads of 64", TILE_LEAST_SHARE, TILE_MOST_SHARE, share},
        TILE_KIND_COEFS(X, narrow)
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

/* What a plan of a group takes over the fastest, as far as it matters. */
static double over_fastest(const struct ordered *o, int32_t g, int64_t k)
{
    return fmin(1e6 * o->r->seconds[o->row[o->begin[g] + k]] / o->fastest[g] - 1, capped);
}

static void ordered_clear(struct ordered *o)
{
    free(o->row);
    free(o->begin);
    free(o->fastest);
    free(o->weight);
}

/* A part of what is minimised, and how it grows with the logarithm of each coefficient. */
struct part {
    double value, slope[N_TILE_COEFS];
};

static void add_slopes(struct part *to, double times, const struct tile_coefs *slope, const double *x)
{
    const double *by = (const double *)slope;
    for (int j = 0; j < N_TILE_COEFS; j++)
        to->slope[j] += times * by[j] * x[j];
}

/* Of one group: its plans' prices, and how they grow. */
struct priced {
    const double *x; /* the coefficients */
    double *price;
    struct tile_coefs *slope;
    int64_t first, n;
};

/* How far off times are. */
static void add_times(struct part *part, const struct ordered *o, const struct priced *p)
{
    double base = tile_coefs_of(p->x).base;
    for (int64_t k = 0; k < p->n; k++) {
        double us = p->price[k] + base, error = log(us / (1e6 * o->r->seconds[o->row[p->first + k]]));
        double off = sqrt(error * error + blurred * blurred);
        double weight = (o->sharp > 0 ? of_times : 1) * o->weight[p->first + k];
        struct tile_coefs slope = p->slope[k];
        slope.base = 1;
        part->value += weight * off;
        add_slopes(part, weight * error / off / us, &slope, p->x);
    }
}

/* What choosing costs; prices become the shares by which plans count. */
static void add_choices(struct part *part, const struct ordered *o, int32_t g, struct priced *p)
{
    double least = INFINITY, sum = 0, cost = 0, unit = o->fastest[g] * o->sharp, *share = p->price;
    for (int64_t k = 0; k < p->n; k++)
        least = fmin(least, p->price[k]);
    for (int64_t k = 0; k < p->n; k++) {
        share[k] = exp(-(p->price[k] - least) / unit);
        sum += share[k];
        cost += share[k] * over_fastest(o, g, k);
    }
    part->value += of_choices * cost / sum;
    for (int64_t k = 0; k < p->n; k++)
        add_slopes(part, of_choices * (share[k] / sum) * (cost / sum - over_fastest(o, g, k)) / unit,
                   &p->slope[k], p->x);
}

static struct part part_of(const struct ordered *o, int32_t g, const double *x)
{
    struct priced p = {.x = x, .first = o->begin[g], .n = o->begin[g + 1] - o->begin[g]};
    struct tile_coefs c = tile_coefs_of(x);
    struct part part = {0};
    p.price = xcalloc((size_t)p.n, sizeof *p.price);
    p.slope = xcalloc((size_t)p.n, sizeof *p.slope);
    for (int64_t k = 0; k < p.n; k++) {
        int64_t i = o->row[p.first + k];
        p.price[k] = treeattn_cost_slopes(&o->r->bill[i], &o->r->env[i], &c, &p.slope[k]);
    }
    add_times(&part, o, &p);
    if (o->sharp > 0)
        add_choices(&part, o, g, &p);
    free(p.price);
    free(p.slope);
    return part;
}

/* What is minimised: the mean of all groups. Summed up in their order, however many threads there are. */
static double objective(const double *x, double *slope, const void *data)
{
    const struct ordered *o = data;
    struct part *part = xcalloc((size_t)o->n_groups, sizeof *part);
    double value = 0;
#pragma omp parallel for schedule(dynamic, 4)
    for (int32_t g = 0; g < o->n_groups; g++)
        part[g] = part_of(o, g, x);
    for (int j = 0; j < N_TILE_COEFS; j++) {
        double far = log(x[j] / tile_traits[j].from);
        value += of_distance * far * far;
        slope[j] = of_distance * 2 * far;
    }
    for (int32_t g = 0; g < o->n_groups; g++) {
        value += part[g].value / o->n_groups;
        for (int j = 0; j < N_TILE_COEFS; j++)
            slope[j] += part[g].slope[j] / o->n_groups;
    }
    free(part);
    return value;
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

void treeattn_cost_fit(const struct tile_rows *r, const bool *use, double *coef)
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

void treeattn_cost_predict(const struct tile_rows *r, const double *coef, double *seconds)
{
    struct tile_coefs c = tile_coefs_of(coef);
    for (int64_t i = 0; i < r->n; i++)
        seconds[i] = 1e-6 * (tile_price(&r->bill[i], &r->env[i], &c) + c.base);
}

static bool fit_and_predict(const void *rows, const bool *use, double *seconds, struct err *e)
{
    double coef[N_TILE_COEFS];
    (void)e;
    treeattn_cost_fit(rows, use, coef);
    treeattn_cost_predict(rows, coef, seconds);
    return true;
}

bool treeattn_cost_held_out(const struct tile_rows *r, int32_t folds, uint64_t seed, double *seconds,
                         void (*done)(void *), void *arg, struct err *e)
{
    return fold_held_out(r, fit_and_predict, r->n, r->config, r->n_configs, folds, seed, seconds, done, arg,
                         e);
}
