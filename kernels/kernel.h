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

/* Where a kernel of somebody else's is plugged in. */
enum kernel_point {
    POINT_ATTENTION, /* all of it */
    POINT_PARTIAL,   /* some queries over some tokens: the groups of a plan */
    POINT_MERGE,     /* of such results */
    N_KERNEL_POINTS
};
extern const char *const kernel_point_name[N_KERNEL_POINTS]; /* "attention", "partial", "merge" */

/* Partial results, so many for each of n queries. */
struct partials {
    struct heads heads; /* those of KV count for nothing */
    int32_t n;
    int64_t inputs;
    void *o; /* [inputs][n][h_q][d] of heads.dtype */
    double *
        lse; /* [inputs][n][h_q] natural logarithm, -inf of an empty one, whose O is 0; as the kernel is given it */
};

/* A question that is timed, where it is answered: before each of the replays the output is poisoned, and the L2 emptied. */
struct own_timing {
    int64_t reps;
    int64_t flush_bytes; /* that are written to empty the L2, */
    bool flush_reads;    /* and read once more */
    const char *pool;    /* a file with "k" and "v" [pages, page, h_kv, d], which the question's own tensors lack */
    double *us;          /* [reps] of each replay, by the word of who answers, */
    int64_t n;           /* as many as this */
    double plan_ms;      /* what came before the launches; NAN: not known apart from them */
};

/* What such a kernel is asked. */
struct question {
    const struct problem *p;
    const struct plan *plan;         /* of a kernel that wants one */
    const struct partials *partials; /* POINT_MERGE: there is no p */
    bool nan_tails;                  /* NaN, whatever else was chosen, behind the last token of a page */
    bool fresh; /* by a process that ran nothing before, where kernels have processes of their own */
    int64_t *
        allocations; /* NULL, or where it is said how often memory was asked for meanwhile; stays where nobody counts */
    bool graph; /* of a kernel that does graphs: recorded on other values, then replayed on these */
    struct own_timing *timing; /* NULL, or of a kernel that times itself: what is asked and comes of it; the problem has no K and V */
};

/* The arithmetic of a kernel of somebody else's, as it declares it. */
struct kernel_arithmetic {
    enum dtype accumulate;             /* DT_F32 or DT_F64: dot products, softmax, sums */
    enum dtype probability, partial_o; /* what these are rounded to; N_DTYPES: to the type of Q, K and V */
    int64_t sum_run;                   /* as in struct kernel */
    int64_t merge_chain;               /* longest chain of merges */
    bool sum_narrow;                   /* what is divided by is the sum of p as rounded, not as computed */
    bool lse_scaled;                   /* its LSE was stored in another base than e */
};

struct kernel {
    const char *name;
    const char *about;
    /* A GPU's: of the types it has the narrow ones, heads of 64, 128 and 256. */
    bool on_gpu;
    uint32_t features; /* that it has, as bits (ref/problem.h) */
    /* NULL: always. Else whether the device and all that drives it, or its libraries, are there; if not, *e (never NULL)
     * says what is missing. */
    bool (*ready)(struct err *e);
    /* Probabilities are rounded to the storage type before they meet V, as matrix units want them; the sum they are
     * divided by is not. */
    bool narrow_p;
    /* Where K and V are in 8 bits they are rounded to this type instead; 0 (f64): to the storage type, as else. */
    enum dtype narrow_p_fp8;
    /* From what a kernel says of its sums its error bound is derived (verify/compare/tolerances.def).
     * Tokens that it adds one after the other before it adds sums of them; 0: it does not say, perhaps the whole context. */
    int64_t sum_run;
    /* A merge adds all its inputs with one maximum; else perhaps one after the other, with a rounded LSE each time. */
    bool merges_at_once;
    /* NULL: it runs all. Else whether it can run this plan on this problem; if not, a sentence in why[256]. */
    bool (*supports)(const struct problem *p, const struct plan *plan, char *why);
    /* Run the plan; out is written, all that sim/ledger.h counts is added to *counted, or nothing, and nothing else that is given.
     * Bad page tables and the like come back in *e. The plan must be structurally sound (verify/judge/cover.h checks that): indices in range, slots wired.
     * Called from several threads at once, with a problem each: what a run keeps in static variables is torn. */
    bool (*run)(const struct problem *p, const struct plan *plan, struct output *out, struct ledger *counted,
                struct err *e);
    /* NULL: it runs plans. Else it answers as it likes, and run and supports are not there. Rows of O and LSE are queries as the
     * tree numbers them; of POINT_PARTIAL the queries of each group of the plan; of POINT_MERGE those of the partials. Not
     * RUN_DONE: *why says why not. */
    enum run_end (*attend)(const struct kernel *k, const struct question *ask, struct output *out,
                           struct err *why);
    enum kernel_point point; /* of attend, as all below */
    /* Changes heads, type and page size of a drawn case to what it takes, to the nearest that is not larger if there is one. True: its
     * view lists pages, so it wants pages that are full or of one token. */
    bool (*suit)(const struct kernel *k, struct problem_spec *s);
    bool wants_plan; /* always, but for some of POINT_ATTENTION */
    const struct kernel_arithmetic *declared;
    double lse_unit;           /* what its LSE is multiplied by for the natural one; 0: it writes none */
    bool graphs;               /* it can be recorded as a CUDA graph and replayed */
    bool times;                /* it can be asked for its time */
    bool tails;                /* it finds large numbers behind the last token of a page, */
    bool gaps;                 /* and NaN between pages, whatever these have */
    bool sparse;               /* it takes pools of which memory is what is touched */
    const char *view;          /* what it is given, for tables */
    const struct kernel *also; /* another point of the same program, or NULL */
    const char *option;        /* what brings it about on a command line; NULL: the name in a case does */
    const void *config;        /* of the file that defines the kernel, or NULL */
};

extern const struct kernel *const kernels[];
extern const int32_t n_kernels;
const struct kernel *kernel_find(const char *name);
/* Has the kernel all features of the problem? If not, *e says which one it lacks. */
bool kernel_has_features(const struct kernel *k, const struct problem *p, struct err *e);
/* e may be NULL. */
bool kernel_ready(const struct kernel *k, struct err *e);

#ifdef __cplusplus
}
#endif

#endif
