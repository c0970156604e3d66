#include "paper-figs/times.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- reading -------------------------------------------------------------------------------------------- */

const char *series_of_strategy(struct figure *f, const char *strategy)
{
    const char *options = strchr(strategy, ':');
    if (!options)
        return figure_text(f, "%s", strategy);
    int n = (int)(options - strategy);
    if (strstr(options, "split=1e+12"))
        return figure_text(f, "%.*s-no-split", n, strategy);
    return strstr(options, "rule=artifact") ? figure_text(f, "%.*s:rule=artifact", n, strategy)
                                            : figure_text(f, "%.*s", n, strategy);
}

static int32_t find(const char *const *list, int32_t n, const char *name)
{
    for (int32_t i = 0; i < n; i++)
        if (strcmp(list[i], name) == 0)
            return i;
    return -1;
}

int32_t times_series(const struct times *x, const char *series)
{
    return find(x->series, x->n_series, series);
}

int32_t times_heads(const struct times *x, const char *heads)
{
    return find(x->heads, x->n_heads, heads);
}

void times_drop(struct times *x, const char *series)
{
    int32_t s = times_series(x, series);
    if (s < 0)
        return;
    int32_t last = --x->n_series;
    x->series[s] = x->series[last];
    memmove(x->us[s], x->us[last], sizeof x->us[s]);
}

void times_divide(struct times *x, const char *series)
{
    int32_t by = times_series(x, series);
    for (int32_t i = 0; i < MAX_HEADS * MAX_TREES && by >= 0; i++) {
        double one = x->us[by][i / MAX_TREES][i % MAX_TREES];
        for (int32_t s = 0; s < x->n_series; s++)
            x->us[s][i / MAX_TREES][i % MAX_TREES] /= one;
    }
}

/* Strings live as long as the figure. */
static double *cell_of(struct figure *f, struct times *x, const char *series, const char *heads, double tree)
{
    static double nowhere;
    int32_t s = times_series(x, series), h = times_heads(x, heads);
    if (!(tree >= 1 && tree <= MAX_TREES))
        err_set(&f->err, "a tree has the number %g (expected 1 to %d)", tree, MAX_TREES);
    if ((s < 0 && x->n_series == MAX_SERIES) || (h < 0 && x->n_heads == MAX_HEADS))
        err_set(&f->err, "too many strategies or head settings (expected at most %d and %d)", MAX_SERIES,
                MAX_HEADS);
    if (f->err.code)
        return &nowhere;
    if (s < 0) {
        s = x->n_series++;
        x->series[s] = series;
        for (int32_t i = 0; i < MAX_HEADS * MAX_TREES; i++)
            x->us[s][i / MAX_TREES][i % MAX_TREES] = NAN;
    }
    if (h < 0) {
        h = x->n_heads++;
        x->heads[h] = heads;
    }
    x->n_trees = tree > x->n_trees ? (int32_t)tree : x->n_trees;
    return &x->us[s][h][(int32_t)tree - 1];
}

static const char *heads_of(struct figure *f, const struct csv *t, int64_t row, const char *q, const char *kv)
{
    return figure_text(f, "%s/%s", cell_text(f, t, row, q), cell_text(f, t, row, kv));
}

void times_simulated(struct figure *f, const struct csv *t, const char *set, const char *column,
                     struct times *x)
{
    *x = (struct times){0};
    size_t n = strlen(set);
    double scale = strcmp(column, "latency_ms") == 0 ? 1e3 : 1;
    for (int64_t row = -1; (row = pick_row(f, t, row, NULL)) >= 0;) {
        const char *at = cell_text(f, t, row, "at");
        if (strncmp(at, set, n) == 0 && at[n] == ' ' && !*cell_text(f, t, row, "why"))
            *cell_of(f, x, series_of_strategy(f, cell_text(f, t, row, "strategy")),
                     heads_of(f, t, row, "q_heads", "kv_heads"), atof(at + n)) =
                scale * cell_number(f, t, row, column);
    }
}

void times_measured(struct figure *f, const char *file, const char *set, const char *column, struct times *x)
{
    *x = (struct times){0};
    const struct csv *t = figure_table(f, file);
    for (int64_t row = -1; (row = pick_row(f, t, row, "set", set, "verdict", "PASS", NULL)) >= 0;)
        *cell_of(f, x, series_of_strategy(f, cell_text(f, t, row, "strategy")), cell_text(f, t, row, "heads"),
                 cell_number(f, t, row, "number")) = cell_number(f, t, row, column);
}

static void released(struct figure *f, const char *set, const char *without, struct times *x)
{
    static const char *const method[][2] = {
        {"sdpa", "sdpa"},         {"ft", "fasttree"},       {"ft_node", "fasttree-no-greedy"},
        {"deft", "deft-flatten"}, {"pat", "pat"},           {"fi_decode", "flashinfer"},
        {"fi_tc", "flashinfer"},  {"fi_cascade", "cascade"}};
    *x = (struct times){0};
    const struct csv *t = figure_table(f, "recorded/h200_peers");
    for (size_t m = 0; m < sizeof method / sizeof method[0]; m++)
        for (int64_t row = -1;
             strcmp(method[m][0], without) != 0 &&
             (row = pick_row(f, t, row, "set", set, "method", method[m][0], "status", "ok", NULL)) >= 0;) {
            double *us = cell_of(f, x, method[m][1], heads_of(f, t, row, "hq", "hk"),
                                 1 + cell_number(f, t, row, "idx"));
            *us = fmin(*us, cell_number(f, t, row, "cold_us"));
        }
}

void times_released(struct figure *f, const char *set, struct times *x)
{
    released(f, set, "", x);
}

void times_cuda_core(struct figure *f, const char *set, struct times *x)
{
    released(f, set, "fi_tc", x);
}

/* ---- comparing ------------------------------------------------------------------------------------------ */

/* Whether a list, "32/32 32/8", has these heads. */
static bool has_heads(const char *list, const char *heads)
{
    size_t n = strlen(heads);
    for (const char *at = list; at; at = strchr(at, ' ') ? strchr(at, ' ') + 1 : NULL)
        if (strncmp(at, heads, n) == 0 && (!at[n] || at[n] == ' '))
            return true;
    return list == NULL;
}

struct ratio times_ratio(const struct times *x, const char *series, const char *over, const char *heads,
                         int32_t first, int32_t last)
{
    struct ratio r = {.mean = NAN, .geometric = NAN, .least = INFINITY, .most = -INFINITY};
    int32_t a = times_series(x, series), b = times_series(x, over);
    double sum = 0, logs = 0;
    for (int32_t h = 0; a >= 0 && b >= 0 && h < x->n_heads; h++)
        for (int32_t t = first; t <= last && has_heads(heads, x->heads[h]); t++) {
            double v = x->us[a][h][t - 1] / x->us[b][h][t - 1];
            if (isnan(v))
                continue;
            r.n++;
            r.above += v > 1;
            sum += v;
            logs += log(v);
            r.least = fmin(r.least, v);
            if (v > r.most) {
                r.most = v;
                r.most_tree = t;
            }
        }
    r.mean = r.n ? sum / r.n : NAN;
    r.geometric = r.n ? exp(logs / r.n) : NAN;
    return r;
}

void times_draw(struct figure *f, const struct times *x, const char *base, const char *const *series,
                const char *x_label)
{
    int32_t b = times_series(x, base);
    for (int32_t h = 0; h < x->n_heads; h++) {
        add_panel(f, figure_text(f, "%s heads", x->heads[h]), LINES, LOG_Y, x_label,
                  figure_text(f, "time / %s's", series_find(base)->label));
        for (int32_t i = 0; series[i]; i++) {
            int32_t s = times_series(x, series[i]);
            for (int32_t t = 0; s >= 0 && b >= 0 && t < x->n_trees; t++)
                add_point(f, series[i], figure_text(f, "tree %d", (int)t + 1), t + 1,
                          x->us[s][h][t] / x->us[b][h][t], NAN);
        }
    }
}

/* "32/32 1.43x, 32/8 3.37x, 16/1 25x", and where one of them makes the mean, what it would be without. */
static const char *by_heads(struct figure *f, const struct times *x, const struct mean_claim *c,
                            const char *base, struct ratio all, int32_t first, int32_t last)
{
    const char *text = figure_text(f, "arithmetic mean of %d, as the paper takes it; geometric %.3gx",
                                   (int)all.n, all.geometric);
    for (int32_t h = 0; h < x->n_heads; h++) {
        struct ratio r = times_ratio(x, c->series, base, x->heads[h], first, last);
        if (!r.n || !has_heads(c->heads, x->heads[h]))
            continue;
        text = figure_text(f, "%s%s%s %.3gx", text, h ? ", " : "; ", x->heads[h], r.mean);
        double rest = all.n > r.n ? (all.n * all.mean - r.n * r.mean) / (all.n - r.n) : NAN;
        if (all.mean > 1.5 * rest)
            text = figure_text(f, "%s (without it the mean is %.3gx)", text, rest);
    }
    return text;
}

void times_means(struct figure *f, const struct times *x, const char *base, const struct mean_claim *claims,
                 int n, int32_t first, int32_t last)
{
    add_panel(f, figure_text(f, "means over %s", series_find(base)->label), BARS, 0, "",
              "time over its time");
    for (int i = 0; i < n; i++) {
        const struct mean_claim *c = &claims[i];
        struct ratio all = times_ratio(x, c->series, base, c->heads, first, last);
        if (times_series(x, c->series) < 0)
            continue;
        for (int32_t h = 0; h < x->n_heads; h++)
            add_point(f, c->series, x->heads[h], NAN,
                      times_ratio(x, c->series, base, x->heads[h], first, last).mean, NAN);
        add_point(f, c->series, "mean", NAN, all.mean,
                  pick(f, figure_table(f, "paper/headlines"), "value", "id", c->headline, NULL));
        add_point(f, c->series, "geom. mean", NAN, all.geometric, NAN);
        check_headline(f, c->headline, all.mean);
        check_detail(f, by_heads(f, x, c, base, all, first, last));
    }
    add_note(f, "mean: arithmetic, over all trees and heads of the claim, as the papers take it.");
}
