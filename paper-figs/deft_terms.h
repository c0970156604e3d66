/*
 * deft_terms.h - what DeFT's released kernels, and the Python around them, take: terms fitted to its release.
 *
 * The time model (sim/time) knows tiles and bandwidths. DeFT's times are Triton's kernels and an eager PyTorch step: each layer is
 * launched from Python and waited for. recorded/deft_release.csv has such times over prompts of 1,000 to 20,000 tokens. The terms
 * are fitted to its few-shot runs alone, and not to those with the prompt of the paper's tables (4,000). So everything that the
 * paper prints is predicted. All terms are in ms; a step has `layers` layers.
 *
 *   attention of a step = layers (launch + walk x longest + read x query heads x tokens)
 *     radix-attention   longest: the mean path (its second kernel walks it in one CTA); tokens: of all paths together
 *     deft-node         longest: the prompt's node, which one CTA walks; tokens: none
 *     the other two     tokens: of the tree, the prompt's once for every 32 queries; no walk
 *   all else of a step  = all other kernels, simulated, + layers (append + step)
 *
 * The kernels' grids are of query heads: no two share what they read (traces/README.md, DeFT's counters).
 */
#ifndef TREEATTN_PAPER_FIGS_DEFT_TERMS_H
#define TREEATTN_PAPER_FIGS_DEFT_TERMS_H

#include "paper-figs/figure.h"

/* In the order of `deft_kernel_series`. */
enum deft_kernel { DEFT_RADIX, DEFT_NODE, DEFT_NODE_CHUNK, DEFT_FLATTEN, N_DEFT_KERNELS };
extern const char *const deft_kernel_series[N_DEFT_KERNELS];

/* Of a run, summed over its steps; a mean over trees. */
struct deft_counts {
    double steps, queries;
    double tree;   /* KV tokens, each once */
    double paths;  /* what each query sees, added up */
    double prefix; /* of the prompt's node */
};
/* A run of the trace `source`, as data.def names it. prompt: its length, or 0 for each tree's own. */
struct deft_counts deft_count(struct figure *f, const char *source, double prompt);
/* One step of at most 32 queries: a row of `treeattn sim --step K --count paper --strategy deft-flatten`. For DeFT's kernels: `paths` is
 * not in the row, and 0. */
struct deft_counts deft_count_step(struct figure *f, const struct csv *t, int64_t row);
/* A few-shot run by DeFT's rule: `branches` answers that grow by a token a step. */
struct deft_counts deft_count_few_shot(double branches, double prompt, double steps);
/* A speculative one: what is accepted moves the prompt's end evenly from `prompt` to `until`; a query has one token of its own. */
struct deft_counts deft_count_speculative(double branches, double prompt, double until, double steps);

struct deft_kernel_terms {
    double launch; /* of a layer */
    double walk;   /* of a layer and a thousand tokens */
    double read;   /* of a layer, a query head and a thousand tokens */
    double step;   /* what a layer takes outside of attention beside its kernels */
};
struct deft_terms {
    struct deft_kernel_terms of[N_DEFT_KERNELS];
    int32_t rows; /* fitted to */
};
/* whole: `step` too, which attention alone does not need; else it is NAN. */
struct deft_terms deft_fit(struct figure *f, bool whole);

/* A whole run, in s. What the release calls attention has the appending of KV in it, the paper's Table 16 has not: it is here part of
 * all else. other_s: all other kernels, simulated. */
double deft_attention_s(const struct deft_terms *t, enum deft_kernel k, const struct deft_counts *c, double layers,
                        double heads);
double deft_rest_s(const struct deft_terms *t, enum deft_kernel k, const struct deft_counts *c, double layers,
                   double other_s);
/* What appending KV takes of a run, in s. */
double deft_append_s(const struct deft_counts *c, double layers);

/*
 * Flash-Decoding and Tree Attention-Medusa, which ran on an unpaged KV cache: Python copies it for each query of a layer. The one such
 * run that the release recorded gives the copies. Their attention is in no recorded run: it is fitted to the four reasoning columns of
 * the paper's Table 16. attention: read x query heads x thousand tokens of all paths; launch + unfused x simulated attention.
 */
struct deft_unpaged {
    double copy;            /* of a layer and a query */
    double step;            /* of a layer, as above */
    double read;            /* Flash-Decoding: of a layer, a query head and a thousand tokens */
    double launch, unfused; /* Medusa: of a layer; how many times the simulated time */
};
struct deft_unpaged deft_fit_unpaged(struct figure *f);
/* As above; simulated_s: Medusa's attention by the time model. */
double deft_unpaged_attention_s(const struct deft_unpaged *u, bool medusa, const struct deft_counts *c, double simulated_s);
double deft_unpaged_rest_s(const struct deft_unpaged *u, const struct deft_counts *c, double other_s);

/* What the terms say of the release's runs that they are not fitted to (few-shot with a prompt of 4,000 tokens, all speculative ones):
 * |predicted / recorded - 1| of attention, appending included. Returns how many; at most `max` are written. */
int32_t deft_held_out(struct figure *f, const struct deft_terms *t, double *error, int32_t max);

#endif
