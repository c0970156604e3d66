/*
 * run.h - a trace taken through a decode step, step by step, under one strategy after the other.
 *
 * Every step goes through the KV pool in order. Steps that are looked at are planned, counted, and executed by an
 * executor: a model of a machine, or a GPU. With `every` = K > 1 one step of each K stands for all
 * of them (its weight); sums over a run are sums of weight x figure, and bytes then are estimates.
 */
#ifndef TREEATTN_VERIFY_REPLAY_RUN_H
#define TREEATTN_VERIFY_REPLAY_RUN_H

#include "sim/cards.h"
#include "ref/model.h"
#include "verify/io/progress.h"
#include "verify/replay/step.h"

BEGIN_C

enum replan { REPLAN_EVERY, REPLAN_CHOICE, REPLAN_SHAPE, REPLAN_ASYNC, N_REPLANS };
extern const char *const replan_name[N_REPLANS]; /* "every" "choice" "shape-change" "async" */
/* REPLAN_CHOICE plans so many steps, at most, with what a strategy chose for the first of them (strategy_chosen). It
 * chooses anew when a node or query comes or goes. */
enum { CHOICE_STEPS = 8 };

/* Steps without attention, as if it were a strategy: plans of nothing. An executor that runs steps leaves attention out. */
extern const struct strategy replay_no_attention;

/*
 * Who executes steps. A simulation has run() alone: it depends on nothing but its arguments, so steps may run at once
 * and in any order. Others have the rest: begin, then advance for every step in order. After that comes start, for steps
 * that are looked at.
 */
struct executor {
    const char *name; /* for titles: "h100, simulated" */
    void *self;
    bool (*run)(void *self, const struct step *s, struct step_times *out, struct err *e);
    /* A replay begins: nothing is in the cache. */
    bool (*begin)(void *self, struct err *e);
    /* Carry out moves and copies. */
    bool (*advance)(void *self, const struct step *s, struct err *e);
    /* Begin the step; it need not wait. */
    bool (*start)(void *self, const struct step *s, struct err *e);
    /* Wait until all steps that were started have run. */
    bool (*finish)(void *self, struct err *e);
    /* Wait for the oldest step that was started and not yet collected; moves_s: all since the one before. */
    bool (*collect)(void *self, struct step_times *out, struct err *e);
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
    int64_t n_pages; /* of the pool */
    int64_t
        private_kv_pages; /* more pages behind it, for storage in which every query has a copy of its path */
    int32_t n_cards;      /* over 1: a step is spread over so many, */
    enum parallel parallel;
    bool alone; /* of them only card `rank` is there: no collectives */
    int32_t rank;
    double
        memory; /* bytes of the device, of all cards together; what is left of it after the weights is for K and V */
    const struct executor *exec;
};

/* A trace's item. */
struct replay_source {
    int32_t number; /* in the log */
    const struct trace *trace;
    int64_t last; /* steps 1 .. last are replayed */
};

/* Where rows go, and how far they have got. */
struct replay_log;

struct replay_pool {
    int64_t peak, leaked; /* pages of the pool */
};
/*
 * Replay a source: total[n_use]. Rows go to `log` (NULL: nowhere); what it already holds is not run again. If a real
 * executor runs out of device memory (EXIT_MISSING) for a strategy, that strategy is SKIPPED and the others continue.
 * False with *e set on failure, or without a message if the log's time is up.
 */
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

END_C

#endif
