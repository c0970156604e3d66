/*
 * replay.h - a trace taken through a decode step, step by step, under one strategy after the other.
 *
 * Every step goes through the KV pool in order. Steps that are looked at are planned, counted, and executed by an
 * executor: a model of a machine, or a GPU. With `every` = K > 1 one step of each K stands for all
 * of them (its weight); sums over a run are sums of weight x figure, and bytes then are estimates.
 */
#ifndef TREEATTN_VERIFY_REPLAY_REPLAY_H
#define TREEATTN_VERIFY_REPLAY_REPLAY_H

#include "ref/model.h"
#include "sim/time/time_model.h"
#include "sim/strategy.h"
#include "traces/pool.h"
#include "verify/replay/private_kv.h"
#include "verify/io/progress.h"

#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * One step under one strategy. Counts: X(field, meaning), bytes of all layers. Times: X(field, meaning), seconds.
 * `attention_s` to `step_s` are the executor's: simulated, or measured on its GPU. cache_s and plan_s are the
 * host's, processor time measured here; they are no part of a simulated step_s, and exposed_s compares the two.
 */
#define REPLAY_COUNTS(X)                                                                                     \
    X(step, "decode iteration")                                                                              \
    X(weight, "iterations that this one stands for")                                                         \
    X(queries, "queries")                                                                                    \
    X(nodes, "nodes of the tree")                                                                            \
    X(kv_tokens, "tokens of the tree")                                                                       \
    X(contexts, "tokens that queries see, summed over queries")                                              \
    X(pages, "pages of the pool in use")                                                                     \
    X(prefill, "tokens of prompts that were written, in all iterations it stands for")                       \
    X(moves, "tokens that were moved, in all iterations it stands for")                                      \
    X(copied, "tokens that were copied for one query alone, in the same; simulated: none")                   \
    X(planned, "calls of the planner, in all iterations it stands for")                                      \
    X(groups, "groups of the plan")                                                                          \
    X(launches, "launches of the plan")                                                                      \
    X(kv, "bytes of K and V read")                                                                           \
    X(q, "bytes of Q read")                                                                                  \
    X(mask, "bytes of masks read")                                                                           \
    X(scores, "bytes of scores written and read")                                                            \
    X(partials, "bytes of partial results written and read")                                                 \
    X(out, "bytes of output written")

#define REPLAY_TIMES(X)                                                                                      \
    X(attention_s, "attention of all layers, with launches and merges")                                      \
    X(other_s, "the other kernels: products, norms, rotation, append, head")                                 \
    X(moves_s, "moving accepted tokens and those of nodes that part or join; copies")                        \
    X(idle_s, "measured: the device waits for the host before the step; NaN: simulated, or steps left out")  \
    X(step_s, "the whole step: the sum of these")                                                            \
    X(host_s, "host: the plan to the device, launches; NaN: simulated")                                      \
    X(cache_s, "host: KV pool and page table, mean of the iterations it stands for")                         \
    X(extend_s, "host: seeing what can be kept, fitting an old plan to longer nodes; mean, as above")        \
    X(plan_s, "host: a call of the planner")                                                                 \
    X(exposed_s, "the part of plan_s during which the device waits")                                         \
    X(error, "largest error of a checked attention output in units of its bound; NaN: not checked")

struct replay_row {
    int32_t source, use; /* which trace's item, which strategy */
#define X(field, about) int64_t field;
    REPLAY_COUNTS(X)
#undef X
#define X(field, about) double field;
    REPLAY_TIMES(X)
#undef X
};

enum replan { REPLAN_EVERY, REPLAN_CHOICE, REPLAN_SHAPE, REPLAN_ASYNC, N_REPLANS };
extern const char *const replan_name[N_REPLANS]; /* "every" "choice" "shape-change" "async" */
/* Steps, at most, that REPLAN_CHOICE plans with what a strategy chose for the first of them (strategy_chosen), if no node or query
 * comes or goes. */
enum { CHOICE_STEPS = 8 };

/* Steps without attention, as if it were a strategy: plans of nothing. An executor that runs steps leaves attention out. */
extern const struct strategy replay_no_attention;

/* What an executor is given of a step. */
struct replay_step {
    int64_t t;
    const struct tree *tree;
    const struct trace_parts *parts;
    const struct pool_step *moved;    /* since the step before */
    const struct private_kv_step *copied; /* after that; NULL in start() */
    const struct nform *nf;           /* NULL in advance() */
    const int64_t *page_off;          /* [n_nodes + 1]; NULL in advance() */
    int32_t *page_table;              /* as ref/problem.h; NULL in advance() */
    bool check;                       /* compare what comes out with exact attention */
};

struct replay_times {
    double attention_s, other_s, moves_s, idle_s, step_s, host_s, error; /* as in struct replay_row */
};

/* Who executes steps. Either run() alone: it depends on nothing but its arguments, so steps may run at once
 * and in any order. Or begin, then advance for every step in order, and start after it for the steps looked
 * at. */
struct executor {
    const char *name; /* for titles: "h100, simulated" */
    void *self;
    bool (*run)(void *self, const struct replay_step *s, const struct plan *p, struct replay_times *out,
                struct err *e);
    /* A replay begins: nothing is in the cache. */
    bool (*begin)(void *self, struct err *e);
    /* Carry out moves and copies. */
    bool (*advance)(void *self, const struct replay_step *s, struct err *e);
    /* Begin the step; it need not wait. */
    bool (*start)(void *self, const struct replay_step *s, const struct plan *p, struct err *e);
    /* Wait until all steps that were started have run. */
    bool (*finish)(void *self, struct err *e);
    /* Wait for the oldest step that was started and not yet collected; moves_s: all since the one before. */
    bool (*collect)(void *self, struct replay_times *out, struct err *e);
};
static inline bool simulated(const struct executor *x)
{
    return x->run != NULL;
}

/* The same for all sources of a run. */
struct replay {
    const struct model *model;
    struct plan_env env;
    const struct strategy_use *use;
    int32_t n_use;
    enum replan replan;
    int64_t every, check; /* check: every so many executed steps; 0: never */
    int32_t page_size;
    int64_t n_pages;      /* of the pool */
    int64_t private_kv_pages; /* more pages behind it, for storage in which every query has a copy of its path */
    double memory;        /* bytes of the device; what is left of it after the weights is for K and V */
    const struct executor *exec;
};

/* Why a strategy has no rows. */
enum fate { FATE_RAN, FATE_SKIPPED, FATE_OOM };

/* Sums of one strategy over a source: weight x figure, but planned, prefill and moves, which are sums as they are. */
struct replay_total {
    enum fate fate;
    bool copies; /* its storage holds copies of tokens, */
    bool made;   /* which are made */
    char why[WHY_MAX];
    double needs; /* bytes, where FATE_OOM */
    int64_t steps, looked_at;
    int64_t queries, contexts, kv_tokens, prefill, moves, copied, planned, peak_pages;
    double kv, q, mask, scores, partials, out; /* exact below 2^53 */
    double attention_s, other_s, moves_s, idle_s, step_s, host_s, cache_s, extend_s, plan_s, exposed_s, error;
};
void replay_add(struct replay_total *sum, const struct replay_total *x);

/* A trace's item. */
struct replay_source {
    int32_t number; /* in the log */
    const struct trace *trace;
    int64_t last; /* steps 1 .. last are replayed */
};

/* Where rows go, and how far they have got. */
struct replay_log;

/*
 * Replay a source: total[n_use]. Rows go to `log` (NULL: nowhere); what it already holds is not run again.
 * False with *e set on failure, or without a message if the log's time is up. If a real executor runs out of
 * device memory (EXIT_MISSING) for a strategy, that strategy is SKIPPED and the others continue. `leaked` and
 * `peak`: of the pool.
 */
struct replay_pool {
    int64_t peak, leaked; /* pages */
};
bool replay_source(const struct replay *r, const struct replay_source *src, struct replay_log *log,
                   struct replay_total *total, struct replay_pool *pool, struct progress *progress,
                   struct err *e);
/* Steps that replay_source looks at, over all strategies that it executes one by one. */
int64_t replay_work(const struct replay *r, const struct replay_source *src);

/* Raise *pages and *queries to what a source needs at most. False with *e set if that is more than `most` pages. */
bool replay_peak(const struct replay_source *src, int32_t page_size, int64_t most, int64_t *pages,
                 int32_t *queries, struct err *e);
/* Pages for copies of every query's path, if `use` wants such and they fit into `room` pages; else 0. */
int64_t replay_copies(const struct replay *r, const struct replay_source *src, int64_t room);
/* Bytes that all weights take. */
double replay_weights(const struct replay *r);
/* Pages that fit beside the weights into so many bytes; 0: not even these fit. */
int64_t replay_pages(const struct replay *r, double memory);

/*
 * The rows of a run in a file: `# what` in the first line, `# about` in the second, then a row a step and strategy. After
 * each portion a line says how far it is whole, so that a run can go on: it is PATH.part until complete. One run at a
 * time writes it, and none begins anew where another one was stopped.
 */
struct replay_log_spec {
    const char *path;
    bool read;           /* only read the complete file, which stays as it is */
    bool resume;         /* go on with what there is, if it is of the same `what` */
    double seconds;      /* stop after so many; 0: do not */
    const char *what;    /* all that the rows depend on, in one line */
    const char *about;   /* where and when, in one line */
    char *const *source; /* [n_sources] their names */
    const int64_t *last; /* [n_sources] their steps */
    int32_t n_sources;
    const struct strategy_use *use;
    int32_t n_use;
};
struct replay_log *replay_log_open(const struct replay_log_spec *spec, struct err *e);
/* What (0) or about (1) of a file of rows; NULL with *e set. The caller frees. */
char *replay_log_line(const char *path, int32_t number, struct err *e);
/* Rename if `complete`, else keep the part if anything was added to it; frees either way. */
bool replay_log_close(struct replay_log *log, bool complete, struct err *e);
/* The last iteration of this source and strategy (-1: all at once) that the file held whole; 0: none. */
int64_t replay_log_done(const struct replay_log *log, int32_t source, int32_t use);
/* Rows that it held when it was opened, in order. */
const struct replay_row *replay_log_rows(const struct replay_log *log, int64_t *n);
void replay_log_row(struct replay_log *log, const struct replay_row *row);
/* The strategy does not apply to that step, nor from then on; and why, if the file said so (else NULL). */
void replay_log_skip(struct replay_log *log, int32_t source, int32_t use, int64_t t, const char *why);
const char *replay_log_skipped(const struct replay_log *log, int32_t source, int32_t use);
/* Everything up to iteration t is written. False if the time is up. */
bool replay_log_mark(struct replay_log *log, int32_t source, int32_t use, int64_t t);

/* ---- the model of a machine: verify/replay/on_machine.c ---- */

struct replay_machine {
    const struct machine *mc;
    const struct model *model;
    struct heads heads;
    struct time_model_coefs coefs;
    char name[96];
};
struct executor replay_on_machine(struct replay_machine *m);
/* Seconds of everything but attention in a step of n queries: a product is max(its bytes / bandwidth, its operations /
 * tensor peak), what stands between products is its bytes / bandwidth; each costs a launch. */
double replay_other_s(const struct replay_machine *m, int64_t n);

#ifdef __cplusplus
}
#endif

#endif
