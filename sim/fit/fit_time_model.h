/*
 * fit_time_model.h - the coefficients of time_model.h as a model to be fitted to measured rows.
 *
 * latency = kernel * (simulated seconds) + launch * .. + base + concurrent * .. is linear in four
 * coefficients once the others are given. The others shape the simulation. No derivative of it is worth much,
 * as one CTA more in a wave is a step. So they are tried at points spread over their range, and the best
 * point is kept. The points are the same for every fit, whatever the rows, so that folds cannot learn from
 * rows they hold out.
 */
#ifndef TREEATTN_SIM_FIT_FIT_TIME_MODEL_H
#define TREEATTN_SIM_FIT_FIT_TIME_MODEL_H

#include "sim/time/time_model.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { CLOCKFIT_KERNEL, CLOCKFIT_LAUNCH, CLOCKFIT_BASE, CLOCKFIT_CONCURRENT, N_CLOCKFIT };

/* X(coefficient of time_model.h, from, to): spread evenly in the logarithm; from 0, it is one or the other. */
#define CLOCKFIT_INNER(X)                                                                                    \
    X(latency, 1, 20)                                                                                        \
    X(l2_latency, 0.15, 1)                                                                                   \
    X(start, 0.25, 8)                                                                                        \
    X(tensor, 0.05, 1)                                                                                       \
    X(l2, 0.3, 1)                                                                                            \
    X(stages, 2, 6)                                                                                          \
    X(unseen, 0, 1)

enum {
#define X(name, from, to) CLOCKFIT_##name,
    CLOCKFIT_INNER(X)
#undef X
        N_CLOCKFIT_INNER
};

/* Point 0 is the default of time_model.h; the others follow Halton's sequence (bases 2, 3, 5, .., 17). */
void time_model_fit_point(int32_t point, double inner[N_CLOCKFIT_INNER]);

/* What the four linear coefficients multiply, with these others. */
void time_model_fit_of(const struct plan *p, const struct heads *heads, const struct machine *mc,
                       const double *inner, double out[N_CLOCKFIT]);

#ifdef __cplusplus
}
#endif

#endif
