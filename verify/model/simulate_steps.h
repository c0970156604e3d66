/*
 * simulate_steps.h - strategies over the steps of a trace, or one tree: planned, counted, timed, summed.
 *
 * Steps are dealt to threads in portions that do not depend on how many threads there are. They are added up
 * in order. So every sum is the same on any machine.
 */
#ifndef TREEATTN_VERIFY_MODEL_SIMULATE_STEPS_H
#define TREEATTN_VERIFY_MODEL_SIMULATE_STEPS_H

#include "sim/time/time_model.h"
#include "sim/count.h"
#include "sim/strategy.h"
#include "sim/fit/models.h"
#include "traces/trace.h"
#include "verify/io/progress.h"

BEGIN_C

struct simulation {
    const struct strategy_use *use;
    int32_t n_use;
    struct plan_env env;
    enum count_mode mode;
    bool timed;                           /* plans are timed on env.machine, by the time model */
    struct time_model_coefs coefs;        /* its coefficients */
    const struct fit_model *model;        /* a second model that predicts times; may be NULL */
    const double (*coef)[2 * MAX_TRAITS]; /* its coefficients: [n_use][model->n + model->n_inner, and room] */
    const char *command; /* plans all of it again: printed when a planner crashes; NULL: nothing is printed */
};

/* Where trees come from: steps first .. last (from 1) of a trace, or the one tree. */
struct simulation_source {
    const struct trace *trace; /* NULL: tree */
    const struct tree *tree;
    int64_t first, last;
    int64_t window; /* of a trace: of the queries of each step; 0: none */
    int32_t q_len;  /* of a trace: queries of a request (tree_set_tails); 0: as it has them */
};

/* Figures of sim/time/time_model.h, all of them sums over plans. Shares are weighted with the time that they are
 * shares of: X(field, that time). To have a share again, divide by that time's sum. */
#define SIMULATED_TIMES(X)                                                                                   \
    X(latency_s, OF_NOTHING)                                                                                 \
    X(overhead_s, OF_NOTHING)                                                                                \
    X(launch_s, OF_NOTHING)                                                                                  \
    X(attention_s, OF_NOTHING)                                                                               \
    X(merge_s, OF_NOTHING)                                                                                   \
    X(kernel_s, OF_NOTHING)                                                                                  \
    X(dram_bytes, OF_NOTHING)                                                                                \
    X(ctas, OF_NOTHING)                                                                                      \
    X(bandwidth_use, OF_KERNEL)                                                                              \
    X(l2_use, OF_KERNEL)                                                                                     \
    X(tensor_use, OF_KERNEL)                                                                                 \
    X(sm_use, OF_KERNEL)                                                                                     \
    X(slot_use, OF_KERNEL)                                                                                   \
    X(low_share, OF_ATTENTION)
struct simulated_times {
#define X(field, of) double field;
    SIMULATED_TIMES(X)
#undef X
    double trip_s;     /* a part of kernel_s, as it stands there */
    double fitted_s;   /* of sim/fit/models.h */
    double kv, unseen; /* bytes of K and V, count true; those of price_unseen */
};

/* One strategy: sums over the steps, of one layer. */
struct simulated_row {
    struct ledger moved;
    struct simulated_times time;
    double floor; /* bytes that no plan is below */
    int64_t steps, groups;
    int64_t
        skipped_at; /* the first step that the strategy does not apply to, and why; 0: it applied to all */
    char why[WHY_MAX];
};

/* The tree of a step, which the caller frees; NULL with *e set where it would have too many queries. */
struct tree *simulation_tree(const struct simulation_source *src, int64_t step, struct err *e);

/* The plan of strategy i; NULL with the reason in `why`. As strategy_plan, but a crash reports what the
 * planner was given. */
struct plan *simulation_plan(const struct simulation *s, int32_t i, const struct nform *nf,
                             char why[WHY_MAX]);

/* Adds the sums of later steps, or of another trace, to *sum. */
void simulated_add(struct simulated_row *sum, const struct simulated_row *r);

/* Adds n layers that are alike, of one of which *r is; groups, launches and steps count once. */
void simulated_add_layers(struct simulated_row *sum, const struct simulated_row *r, int64_t n);

/* Into row[s->n_use]. The first plan, and one in 64 after it, are checked. False with *e set if one of these
 * is wrong (EXIT_FAILED), or if 64 bits would not hold `times` such sums. */
bool simulate_steps(const struct simulation *s, const struct simulation_source *src, int64_t times,
                    struct simulated_row *row, struct progress *progress, struct err *e);

END_C

#endif
