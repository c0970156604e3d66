/*
 * traits.h - what of a plan a linear model of its time is made of: models that `treeattn fit` can fit.
 *
 * Times that a data sheet predicts (bytes / bandwidth, operations / tensor peak) have plain numbers as
 * coefficients, 1 for a kernel that reaches the sheet; counts have seconds each. Nothing is simulated here:
 * sim/clock.h does that.
 */
#ifndef TREEATTN_SIM_TRAITS_H
#define TREEATTN_SIM_TRAITS_H

#include "sim/machine.h"
#include "sim/price.h"

enum { MAX_TRAITS = 16 };

struct trait {
    const char *name, *unit, *about; /* the unit is the coefficient's */
};

struct trait_model {
    const char *name, *about;
    const struct trait *trait; /* [n] */
    int32_t n;                 /* at most MAX_TRAITS */
    /* out[n] of a plan */
    void (*of)(const struct plan *p, const struct price_env *env, const struct machine *mc, double *out);
};
extern const struct trait_model trait_models[];
extern const int32_t n_trait_models;
/* NULL with *e set: a sentence that lists what there is. */
const struct trait_model *trait_model_find(const char *name, struct err *e);

#endif
