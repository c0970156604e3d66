/*
 * kernel.h - the registry of what can execute a plan.
 */
#ifndef TREEATTN_KERNELS_KERNEL_H
#define TREEATTN_KERNELS_KERNEL_H

#include "ref/problem.h"
#include "sim/ledger.h"
#include "sim/plan.h"

#ifdef __cplusplus
extern "C" {
#endif

struct kernel {
    const char *name;
    const char *about;
    /* NULL: always. Else whether the device and all that drives it are there; if not, *e (never NULL)
     * says what is missing. */
    bool (*ready)(struct err *e);
    /* Probabilities are rounded to the storage type before they meet V, as matrix units want them; the sum they are
     * divided by is not. */
    bool narrow_p;
    /* NULL: it runs all. Else whether it can run this plan on this problem; if not, a sentence in why[256]. */
    bool (*supports)(const struct problem *p, const struct plan *plan, char *why);
    /* Run the plan; out is written, all that sim/ledger.h counts is added to *counted, or nothing, and nothing else that is given.
     * Bad page tables and the like
     * come back in *e. The plan must be structurally sound (verify/judge/cover.h checks that): indices in range, slots wired.
     * Called from several threads at once, with a problem each: what a run keeps in static variables is torn. */
    bool (*run)(const struct problem *p, const struct plan *plan, struct output *out, struct ledger *counted,
                struct err *e);
    const void *config; /* of the file that defines the kernel, or NULL */
};

extern const struct kernel *const kernels[];
extern const int32_t n_kernels;
const struct kernel *kernel_find(const char *name);
/* e may be NULL. */
bool kernel_ready(const struct kernel *k, struct err *e);

#ifdef __cplusplus
}
#endif

#endif
