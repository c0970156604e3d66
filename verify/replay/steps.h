/*
 * steps.h - for verify/replay/run.c alone: one pass over the steps of a source, as samples that are planned and executed.
 */
#ifndef TREEATTN_VERIFY_REPLAY_STEPS_H
#define TREEATTN_VERIFY_REPLAY_STEPS_H

#include "verify/replay/run.h"

BEGIN_C

/* A step that is looked at. */
struct sample {
    struct step step;
    struct replay_row row; /* what it is for every strategy */
    int64_t from;       /* the plan is made of that step's tree, or what it leaves open was chosen for it */
    double kept_s;      /* host: to see what can be kept */
    struct tree *apart; /* the tree as plans see it where queries have copies; else NULL */
    bool covered;       /* see that plans cover their tree */
    struct outcome *outcome; /* [n_use] */
    struct err e;            /* where the result of one of them is -1 */
};

/* What a step came to under one strategy. */
struct outcome {
    int8_t result; /* 1: a row; 0: does not apply, why[] says why; -1: failed */
    struct replay_row row;
    char why[WHY_MAX];
};

/* A plan that is kept, and the tree it is made of. */
struct kept_plan {
    int64_t from;     /* step; 0: none */
    struct nform *nf; /* with its tree */
    struct plan *plan;
    double plan_s;
};

/* A strategy with what it chose. */
struct step_choice {
    int64_t from; /* step; 0: none */
    struct strategy_use use;
};

/* Of one replay_source. */
struct pass {
    const struct replay *r;
    const struct replay_source *src;
    int32_t first, last; /* strategies first .. last - 1 */
    const struct replay_total *total;
    struct pool *pool;
    struct private_kv *copies;  /* NULL: all share the pool */
    struct placement *placement; /* of pages on cards that are simulated; NULL: each card has all of the tree */
    struct kept_plan *kept;     /* [n_use]; NULL where steps are simulated, at once and in any order */
    struct step_choice *choice; /* the same */
    struct replay_row *pending; /* started and not yet collected */
    struct kept_plan shape;     /* the step since which plans, or choices, are kept, without a plan */
    struct step ahead;          /* the trace's next step, without its pages, before it is its turn */
    int64_t *page_off, table_cap, off_cap;
    int32_t *page_table;
    int64_t executed;
};

/* Steps first .. last, one of which is looked at: *s, with what all of them came to in s->row. An executor that does not
 * simulate runs it as soon as it is reached. `run`: they have not been run before. */
bool steps_take(struct pass *ps, int64_t first, int64_t last, bool run, struct sample *s, struct err *e);
/* All strategies of the pass on it. */
bool sample_run(struct pass *ps, struct sample *s);
void sample_clear(struct sample *s);
/* The times of the step that is still under way, if one is. */
bool steps_collect(struct pass *ps, struct err *e);
/* All that is kept from step to step. */
void steps_clear(struct pass *ps);

END_C

#endif
