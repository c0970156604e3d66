/*
 * step.h - a decode step of a trace: what goes into it, what it costs, and sums of that over steps.
 */
#ifndef TREEATTN_VERIFY_REPLAY_STEP_H
#define TREEATTN_VERIFY_REPLAY_STEP_H

#include "sim/cards.h"
#include "sim/strategy.h"
#include "traces/pool.h"
#include "verify/replay/private_kv.h"

BEGIN_C

/* A step with all that goes with it. Who only reads one may be given a copy of the struct with other pointers in it. */
struct step {
    int64_t t; /* from 1; 0: none */
    struct tree *tree;
    struct trace_parts parts;
    /* since the step before; the arrays are the pool's, and gone with the next step: */
    struct pool_step moved;
    struct private_kv_step copied; /* after that */
    int64_t *page_off;             /* [n_nodes + 1], as pool_table gives it */
    int32_t *page_table;
    struct nform *nf;
    struct plan *plan; /* NULL: no attention */
    struct card_view *view; /* [n_views] what each of several cards has of the tree, where steps are simulated; NULL: all of it */
    int32_t n_views;
    const struct strategy_use
        *use;              /* what cards plan their parts with, where a step is spread over several */
    char why[WHY_MAX];     /* why the strategy that was asked for a plan does not apply */
    bool check;            /* compare what comes out with exact attention */
    double pool_s, plan_s; /* host: pool and page table; normal form and plan */
};
/* Step t, made from the one before (pool), planned by `use` (NULL: no plan; it may not apply: no plan, and why). False with
 * *e set if the pool is exhausted. Free with step_free, also then. */
bool step_new(struct step *s, const struct trace *trace, int64_t t, struct pool *pool,
              const struct strategy_use *use, const struct plan_env *env, struct err *e);
void step_free(struct step *s);

/*
 * One step under one strategy: X(field, how it is summed over steps, meaning). Counts are of all layers. Times are seconds;
 * attention_s to step_s are the executor's: simulated, or measured on its GPU. cache_s and plan_s are the host's, processor
 * time measured here; they are no part of a simulated step_s, and exposed_s compares the two.
 */
enum summing {
    SUM_ALL,      /* the sum */
    SUM_WEIGHTED, /* of weight x figure: the step stands for others */
    SUM_PLANNED,  /* of planned x figure */
    SUM_MOST      /* the largest; NaN is left out */
};
#define REPLAY_COUNTS(X)                                                                                     \
    X(step, SUM_MOST, "decode iteration")                                                                    \
    X(weight, SUM_ALL, "iterations that this one stands for")                                                \
    X(queries, SUM_WEIGHTED, "queries")                                                                      \
    X(nodes, SUM_WEIGHTED, "nodes of the tree")                                                              \
    X(kv_tokens, SUM_WEIGHTED, "tokens of the tree")                                                         \
    X(contexts, SUM_WEIGHTED, "tokens that queries see, summed over queries")                                \
    X(pages, SUM_MOST, "pages of the pool in use")                                                           \
    X(prefill, SUM_ALL, "tokens of prompts that were written, in all iterations it stands for")              \
    X(moves, SUM_ALL, "tokens that were moved, in all iterations it stands for")                             \
    X(copied, SUM_ALL, "tokens that were copied for one query alone, in the same; simulated: none")          \
    X(planned, SUM_ALL, "calls of the planner, in all iterations it stands for")                             \
    X(groups, SUM_WEIGHTED, "groups of the plan")                                                            \
    X(launches, SUM_WEIGHTED, "launches of the plan")                                                        \
    X(kv, SUM_WEIGHTED, "bytes of K and V read")                                                             \
    X(q, SUM_WEIGHTED, "bytes of Q read")                                                                    \
    X(mask, SUM_WEIGHTED, "bytes of masks read")                                                             \
    X(scores, SUM_WEIGHTED, "bytes of scores written and read")                                              \
    X(partials, SUM_WEIGHTED, "bytes of partial results written and read")                                   \
    X(out, SUM_WEIGHTED, "bytes of output written")

#define REPLAY_TIMES(X)                                                                                      \
    X(attention_s, SUM_WEIGHTED, "attention of all layers, with launches and merges")                        \
    X(other_s, SUM_WEIGHTED, "the other kernels: products, norms, rotation, append, head")                   \
    X(moves_s, SUM_WEIGHTED, "moving accepted tokens and those of nodes that part or join; copies")          \
    X(idle_s, SUM_WEIGHTED, "the device waits for the host before it; NaN: simulated, or steps left out")    \
    X(step_s, SUM_WEIGHTED, "the whole step: the sum of these")                                              \
    X(host_s, SUM_WEIGHTED, "host: the plan to the device, launches; NaN: simulated")                        \
    X(cache_s, SUM_WEIGHTED, "host: KV pool and page table, mean of the iterations it stands for")           \
    X(extend_s, SUM_WEIGHTED, "host: what can be kept, an old plan fitted to longer nodes; mean, as above")  \
    X(plan_s, SUM_PLANNED, "host: a call of the planner")                                                    \
    X(exposed_s, SUM_PLANNED, "the part of plan_s during which the device waits")                            \
    X(error, SUM_MOST, "largest error of a checked attention output in its bound; NaN: not checked")

struct step_times {
#define X(field, how, about) double field;
    REPLAY_TIMES(X)
#undef X
};

struct replay_row {
    int32_t source, use; /* which trace's item, which strategy */
#define X(field, how, about) int64_t field;
    REPLAY_COUNTS(X)
#undef X
    struct step_times time;
};

/* Why a strategy has no rows. */
enum fate { FATE_RAN, FATE_SKIPPED, FATE_OOM };

/* Sums of one strategy over a source. Zeros, but .time.error NaN, to begin with. */
struct replay_total {
    enum fate fate;
    bool copies; /* its storage holds copies of tokens, */
    bool made;   /* which are made */
    char why[WHY_MAX];
    double needs; /* bytes, where FATE_OOM */
    int64_t looked_at;
#define X(field, how, about) int64_t field;
    REPLAY_COUNTS(X)
#undef X
    struct step_times time;
};
void replay_add(struct replay_total *sum, const struct replay_total *x);
void replay_add_row(struct replay_total *sum, const struct replay_row *row);

END_C

#endif
