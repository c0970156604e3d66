#include "paper-figs/deft_terms.h"

#include "sim/fit/least_squares.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const deft_kernel_series[N_DEFT_KERNELS] = {"radix-attention", "deft-node", "deft-node-chunk",
                                                        "deft-flatten"};
static const char *const modes[N_DEFT_KERNELS] = {"seq", "node", "node_chunk", "flatten"};

/* Llama-3-8B, which the release and the paper ran. */
enum { LAYERS = 32, HEADS = 32, TOKENS = 1000, GROUP = 32 };
/* ms of a layer: the release times the appending of K and V apart, "a flat 0.1 ms" (traces/README.md). */
static const double append_ms = 0.1;
/* The prompt of the paper's few-shot columns: no recorded run with it is fitted to. */
static const char *const papers_prompt = "4000";

/* ---- counts ------------------------------------------------------------------------------------------------- */

static double tokens(struct figure *f, const struct csv *t, int64_t row)
{
    if (row < 0 && !f->err.code)
        err_set(&f->err, "%s: a tree of deft-flatten has no row of radix-attention", t->name);
    return f->err.code ? NAN
                       : cell_number(f, t, row, "KV_IO_bytes") / 4 / cell_number(f, t, row, "q_heads") /
                             cell_number(f, t, row, "head_dim") / cell_number(f, t, row, "layers");
}

struct deft_counts deft_count(struct figure *f, const char *source, double prompt)
{
    bool few_shot = strncmp(source, "fewshot:", 8) == 0, speculative = strncmp(source, "deft:APPS", 9) == 0;
    const struct csv *io = figure_table(f, few_shot ? "data/deft_few_shot_io" : "data/deft_trees_io"),
                     *replay =
                         figure_table(f, few_shot ? "data/deft_replay_few_shot" : "data/deft_replay_trees");
    struct deft_counts sum = {0};
    double n = 0;
    for (int64_t row = -1;
         (row = pick_row(f, io, row, "source", source, "strategy", "deft-flatten", NULL)) >= 0; n++) {
        const char *tree = cell_text(f, io, row, "tree");
        int64_t radix =
            pick_row(f, io, -1, "source", source, "strategy", "radix-attention", "tree", tree, NULL);
        double steps = cell_number(f, io, row, "iterations"), own = cell_number(f, io, row, "prompt_len"),
               longer = prompt > 0 ? prompt - own : 0,
               queries = pick(f, replay, "queries", "trace", source, "strategy", "radix-attention", "tree",
                              tree, NULL);
        double once = tokens(f, io, row);
        if (f->err.code)
            break;
        sum.steps += steps;
        sum.queries += queries;
        sum.tree += once + longer * steps;
        sum.paths += tokens(f, io, radix) + longer * queries;
        /* accepted tokens move to the prompt's node; beside it a query has its own token alone */
        sum.prefix += speculative ? once - queries : (own + longer) * steps;
    }
    if (n == 0 && !f->err.code)
        err_set(&f->err, "%s: no row with source = '%s'", io->name, source);
    return (struct deft_counts){sum.steps / n, sum.queries / n, sum.tree / n, sum.paths / n, sum.prefix / n};
}

struct deft_counts deft_count_step(struct figure *f, const struct csv *t, int64_t row)
{
    return (struct deft_counts){.steps = 1,
                                .queries = 1, /* what counts: no more than a group */
                                .tree = tokens(f, t, row),
                                .prefix = cell_number(f, t, row, "prompt_len")};
}

struct deft_counts deft_count_few_shot(double branches, double prompt, double steps)
{
    double grown = steps * (steps + 1) / 2;
    return (struct deft_counts){steps, branches * steps, prompt * steps + branches * grown,
                                branches * (prompt * steps + grown), prompt * steps};
}

struct deft_counts deft_count_speculative(double branches, double prompt, double until, double steps)
{
    double prefix = steps * (prompt + until) / 2, queries = branches * steps;
    return (struct deft_counts){steps, queries, prefix + queries, branches * prefix + queries, prefix};
}

/* Thousand tokens, summed over the steps. */
static void work_of(enum deft_kernel k, const struct deft_counts *c, double *walk, double *read)
{
    double groups = ceil(c->queries / c->steps / GROUP - 1e-9);
    *walk = k == DEFT_RADIX  ? c->paths / c->queries * c->steps / TOKENS
            : k == DEFT_NODE ? c->prefix / TOKENS
                             : 0;
    *read = k == DEFT_RADIX  ? c->paths / TOKENS
            : k == DEFT_NODE ? 0
                             : (c->tree + (groups - 1) * c->prefix) / TOKENS;
}

/* ---- least squares ------------------------------------------------------------------------------------------- */

enum { MAX_TERMS = 3, MAX_ROWS = 128 };
/* Rows y ~ sum x[j] coef[j], of which relative errors count. */
struct rows {
    int32_t n, p;
    double x[MAX_ROWS * MAX_TERMS], y[MAX_ROWS], weight[MAX_ROWS];
};

static void rows_add(struct rows *r, const double *x, double y)
{
    CK(r->n < MAX_ROWS);
    memcpy(r->x + r->n * r->p, x, (size_t)r->p * sizeof *x);
    r->y[r->n] = y;
    r->weight[r->n++] = 1 / (y * y);
}

static bool rows_fit(const struct rows *r, double *coef, struct err *e)
{
    static const char *const name[MAX_TERMS] = {"launches", "walk or read", "read"};
    const struct fit_data d = {r->n, r->p, r->x, r->y, r->weight, name};
    struct fit fit;
    if (!fit_linear(&d, false, &fit, e))
        return false;
    memcpy(coef, fit.coef, (size_t)r->p * sizeof *coef);
    return true;
}

/* ---- paged kernels ------------------------------------------------------------------------------------------- */

/* ms of one step without attention, of all kernels, as simulated. */
static double other_ms(struct figure *f, const char *table, const char *trace)
{
    const struct csv *t = figure_table(f, table);
    return 1e3 * pick_mean(f, t, "other_s", "trace", trace, "strategy", "radix-attention", NULL) /
           pick_mean(f, t, "iterations", "trace", trace, "strategy", "radix-attention", NULL);
}

struct deft_terms deft_fit(struct figure *f, bool whole)
{
    const struct csv *t = figure_fitted(f, "recorded/deft_release");
    struct deft_terms terms = {0};
    for (int k = 0; k < N_DEFT_KERNELS && !f->err.code; k++) {
        struct deft_kernel_terms *out = &terms.of[k];
        struct rows rows = {.p = k == DEFT_RADIX ? 3 : 2};
        double steps_ms = 0, n = 0;
        for (int64_t row = -1;
             (row = pick_row(f, t, row, "task", "few-shot", "mode", modes[k], NULL)) >= 0;) {
            const char *branches = cell_text(f, t, row, "tokens"),
                       *prompt = cell_text(f, t, row, "prompt_len");
            if (strcmp(prompt, papers_prompt) == 0)
                continue;
            double steps = cell_number(f, t, row, "iterations"),
                   attention = cell_number(f, t, row, "attention_latency_ms"), walk, read;
            struct deft_counts c = deft_count_few_shot(atof(branches), atof(prompt), steps);
            work_of((enum deft_kernel)k, &c, &walk, &read);
            double x[MAX_TERMS] = {LAYERS,
                                   LAYERS * (k == DEFT_NODE || k == DEFT_RADIX ? walk : HEADS * read) / steps,
                                   LAYERS * HEADS * read / steps};
            rows_add(&rows, x, attention / steps - LAYERS * append_ms);
            if (whole)
                steps_ms += (cell_number(f, t, row, "decode_latency_ms") - attention) / steps -
                            other_ms(f, "data/deft_replay_few_shot", figure_text(f, "fewshot:%s", branches));
            n++;
            terms.rows++;
        }
        double coef[MAX_TERMS] = {0};
        if (f->err.code || !rows_fit(&rows, coef, &f->err))
            break;
        bool walks = k == DEFT_RADIX || k == DEFT_NODE;
        *out = (struct deft_kernel_terms){coef[0], walks ? coef[1] : 0, walks ? coef[2] : coef[1],
                                          whole ? steps_ms / n / LAYERS : NAN};
    }
    return terms;
}

double deft_attention_s(const struct deft_terms *t, enum deft_kernel k, const struct deft_counts *c,
                        double layers, double heads)
{
    double walk, read;
    work_of(k, c, &walk, &read);
    return layers * (t->of[k].launch * c->steps + t->of[k].walk * walk + t->of[k].read * heads * read) / 1e3;
}

double deft_append_s(const struct deft_counts *c, double layers)
{
    return layers * append_ms * c->steps / 1e3;
}

double deft_rest_s(const struct deft_terms *t, enum deft_kernel k, const struct deft_counts *c, double layers,
                   double other_s)
{
    return other_s + deft_append_s(c, layers) + layers * t->of[k].step * c->steps / 1e3;
}

int32_t deft_held_out(struct figure *f, const struct deft_terms *t, double *error, int32_t max)
{
    const struct csv *r = figure_fitted(f, "recorded/deft_release");
    int32_t n = 0;
    for (int k = 0; k < N_DEFT_KERNELS; k++)
        for (int64_t row = -1; (row = pick_row(f, r, row, "mode", modes[k], NULL)) >= 0;) {
            const char *prompt = cell_text(f, r, row, "prompt_len");
            bool few_shot = strcmp(cell_text(f, r, row, "task"), "few-shot") == 0;
            if (few_shot && strcmp(prompt, papers_prompt) != 0)
                continue;
            double branches = cell_number(f, r, row, "tokens"), steps = cell_number(f, r, row, "iterations");
            struct deft_counts c = few_shot
                                       ? deft_count_few_shot(branches, atof(prompt), steps)
                                       : deft_count_speculative(branches, atof(prompt),
                                                                cell_number(f, r, row, "max_seq_len"), steps);
            double says =
                deft_attention_s(t, (enum deft_kernel)k, &c, LAYERS, HEADS) + deft_append_s(&c, LAYERS);
            if (n < max)
                error[n] = fabs(1e3 * says / cell_number(f, r, row, "attention_latency_ms") - 1);
            n++;
        }
    return n;
}

/* ---- unpaged kernels ------------------------------------------------------------------------------------------ */

struct deft_unpaged deft_fit_unpaged(struct figure *f)
{
    static const struct {
        const char *at, *source;
    } column[] = {{"reasoning sorting", "deft:sorting128ToT.json"},
                  {"reasoning document", "deft:docmergeToT.json"},
                  {"reasoning keyword", "deft:keywordToT.json"},
                  {"reasoning set", "deft:set128ToT.json"}};
    static const char *const trees = "data/deft_replay_trees", *const token_tree =
                                                                   "deft:APPS_tree_size64.json";
    const struct csv *paper = figure_fitted(f, "paper/deft-table16"), *replay = figure_table(f, trees),
                     *r = figure_fitted(f, "recorded/deft_release");
    struct deft_unpaged u = {0};
    struct rows flash = {.p = 1}, medusa = {.p = 2};
    for (int i = 0; i < 4; i++) {
        struct deft_counts c = deft_count(f, column[i].source, 0);
        double x[MAX_TERMS] = {LAYERS * HEADS * c.paths / TOKENS};
        rows_add(&flash, x,
                   1e3 * paper_number(f, paper, "attention-latency", "flash-decoding", "", column[i].at));
        x[0] = LAYERS * c.steps;
        x[1] = 1e3 * pick_mean(f, replay, "attention_s", "trace", column[i].source, "strategy", "tree-medusa",
                               NULL);
        rows_add(&medusa, x,
                   1e3 * paper_number(f, paper, "attention-latency", "tree-medusa", "", column[i].at));
    }
    double coef[2][MAX_TERMS] = {{0}, {0}};
    if (f->err.code || !rows_fit(&flash, coef[0], &f->err) || !rows_fit(&medusa, coef[1], &f->err))
        return u;
    u.read = coef[0][0];
    u.launch = coef[1][0];
    u.unfused = coef[1][1];
    double queries = pick(f, r, "tokens", "mode", "tree", NULL),
           steps = pick(f, r, "iterations", "mode", "tree", NULL),
           attention = pick(f, r, "attention_latency_ms", "mode", "tree", NULL) / steps,
           whole = pick(f, r, "decode_latency_ms", "mode", "tree", NULL) / steps,
           simulated = pick(f, replay, "attention_s", "trace", token_tree, "strategy", "tree-medusa", NULL) /
                       pick(f, replay, "iterations", "trace", token_tree, "strategy", "tree-medusa", NULL);
    u.copy = (attention - LAYERS * u.launch - 1e3 * u.unfused * simulated) / queries / LAYERS;
    u.step = (whole - attention - other_ms(f, trees, token_tree)) / LAYERS;
    return u;
}

double deft_unpaged_attention_s(const struct deft_unpaged *u, bool medusa, const struct deft_counts *c,
                                double simulated_s)
{
    return medusa ? LAYERS * u->launch * c->steps / 1e3 + u->unfused * simulated_s
                  : LAYERS * HEADS * u->read * c->paths / TOKENS / 1e3;
}

double deft_unpaged_rest_s(const struct deft_unpaged *u, const struct deft_counts *c, double other_s)
{
    return other_s + LAYERS * (u->copy * c->queries + u->step * c->steps) / 1e3;
}
