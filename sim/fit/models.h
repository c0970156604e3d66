/*
 * models.h - models that `treeattn fit` can fit, and the traits of a plan that they are made of.
 *
 * Times that a data sheet predicts (bytes / bandwidth, operations / tensor peak) have plain numbers as
 * coefficients: 1 for a kernel that reaches the sheet. Counts have seconds each. Nothing is simulated here:
 * sim/time/time_model.h does that.
 */
#ifndef TREEATTN_SIM_FIT_MODELS_H
#define TREEATTN_SIM_FIT_MODELS_H

#include "sim/time/machine.h"
#include "sim/plan_ledger.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { MAX_TRAITS = 48, MAX_VARIANTS = 1024 };

struct trait {
    const char *name, *unit, *about; /* the unit is the coefficient's */
    double least, most;              /* bounds of the coefficient; most 0: none above */
    double from;                     /* where a search for it begins; 0: none is needed */
};

struct fit_model {
    const char *name, *about;
    const struct trait *trait; /* [n] */
    int32_t n;                 /* at most MAX_TRAITS */
    /* Times are not linear in the coefficients, and plans are treeattn's: sim/fit/fit_treeattn_cost.h. `of` is NULL then. */
    bool tiles;
    /* out[n] of a plan, given the inner coefficients (NULL where there are none) */
    void (*of)(const struct plan *p, const struct heads *heads, const struct machine *mc, const double *inner,
               double *out);
    /* Coefficients that are not linear: they are tried at fixed points, 0 .. MAX_VARIANTS - 1. */
    const struct trait *inner; /* [n_inner] */
    int32_t n_inner;           /* at most MAX_TRAITS */
    void (*point)(int32_t variant, double *inner);
    /* What is used where nothing was fitted: value[n + n_inner]. NULL: nothing. */
    void (*built_in)(double *value);
};
extern const struct fit_model fit_models[];
extern const int32_t n_trait_models;
/* NULL with *e set: a sentence that lists what there is. */
const struct fit_model *fit_model_find(const char *name, struct err *e);

#ifdef __cplusplus
}
#endif

#endif
