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

/* How a program of somebody else's ended with a case (verify/child). */
enum run_end {
    RUN_DONE,        /* there is an answer */
    RUN_UNSUPPORTED, /* it does not take such cases, */
    RUN_NO_VIEW,     /* or what it is given cannot say this one */
    RUN_ERROR,       /* it says that it failed */
    RUN_CRASH,
    RUN_EXIT,
    RUN_HANG,
    RUN_DEVICE_FAULT,
    RUN_MEMORY,
    RUN_PROCESSES,
    RUN_PROTOCOL, /* not what is agreed upon */
    RUN_SHAPE,
    RUN_DTYPE,
    RUN_UNWRITTEN,
    RUN_WROTE_INPUT,
    RUN_WROTE_OUTSIDE,
    N_RUN_ENDS
};
extern const char *const run_end_name[N_RUN_ENDS]; /* "CRASH" .. */

/* The arithmetic of a kernel that is given no plan, as it declares it. */
struct kernel_arithmetic {
    enum dtype accumulate;             /* DT_F32 or DT_F64: dot products, softmax, sums */
    enum dtype probability, partial_o; /* what these are rounded to */
    int64_t sum_run;                   /* as in struct kernel */
    int64_t merge_chain;               /* longest chain of merges */
    bool lse_scaled;                   /* its LSE was stored in another base than e */
};

struct kernel {
    const char *name;
    const char *about;
    /* A GPU's: of the types it has the narrow ones, heads of 64 and 128. */
    bool on_gpu;
    /* NULL: always. Else whether the device and all that drives it, or its libraries, are there; if not, *e (never NULL)
     * says what is missing. */
    bool (*ready)(struct err *e);
    /* Probabilities are rounded to the storage type before they meet V, as matrix units want them; the sum they are
     * divided by is not. */
    bool narrow_p;
    /* From what a kernel says of its sums its error bound is derived (verify/judge/tolerances.def).
     * Tokens that it adds one after the other before it adds sums of them; 0: it does not say, perhaps the whole context. */
    int64_t sum_run;
    /* A merge adds all its inputs with one maximum; else perhaps one after the other, with a rounded LSE each time. */
    bool merges_at_once;
    /* NULL: it runs all. Else whether it can run this plan on this problem; if not, a sentence in why[256]. */
    bool (*supports)(const struct problem *p, const struct plan *plan, char *why);
    /* Run the plan; out is written, all that sim/ledger.h counts is added to *counted, or nothing, and nothing else that is given.
     * Bad page tables and the like
     * come back in *e. The plan must be structurally sound (verify/judge/cover.h checks that): indices in range, slots wired.
     * Called from several threads at once, with a problem each: what a run keeps in static variables is torn. */
    bool (*run)(const struct problem *p, const struct plan *plan, struct output *out, struct ledger *counted,
                struct err *e);
    /* NULL: it runs plans. Else it computes attention of the whole problem as it likes, without one, and run and supports are
     * not there. Not RUN_DONE: *why says why not. */
    enum run_end (*attend)(const struct kernel *k, const struct problem *p, struct output *out, struct err *why);
    const struct kernel_arithmetic *declared; /* of attend */
    bool no_lse;                              /* attend writes no LSE */
    const char *view;                         /* what attend is given, for tables */
    const char *option; /* what brings it about on a command line; NULL: the name in a case does */
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
