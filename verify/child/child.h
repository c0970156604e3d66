/*
 * child.h - kernels that are programs of their own: they get cases and give answers, as README.md here says.
 *
 * The judge sends lines of JSON and files of tensors. A child serves many cases. It is started anew after a crash, a hang,
 * or an answer that nobody understands. It never sees the exact answer: that is computed when the child's is in our hands.
 */
#ifndef TREEATTN_VERIFY_CHILD_CHILD_H
#define TREEATTN_VERIFY_CHILD_CHILD_H

#include "kernels/kernel.h"
#include "verify/child/process.h"
#include "verify/child/views.h"

BEGIN_C

enum { CHILD_MAX_LIST = 32, CHILD_MAX_NAME = 64, MAX_CHILDREN = 16 };

/* What a child declares in its first line. What it does not take is a SKIP, never a FAIL. */
struct child_caps {
    char name[CHILD_MAX_NAME], version[CHILD_MAX_NAME];
    bool point[N_KERNEL_POINTS];
    enum view view; /* of POINT_ATTENTION */
    enum kv_layout layout;
    enum mask_form mask; /* of VIEW_masked */
    bool dtype[N_DTYPES];
    uint32_t features;
    int32_t head_dims[CHILD_MAX_LIST], ratios[CHILD_MAX_LIST],
        page_sizes[CHILD_MAX_LIST];              /* ending in 0; none: any */
    int64_t max_context, max_queries, max_pairs; /* 0: any. A pair is a query head and a token it sees */
    double lse_unit;        /* what LSE is multiplied by for the natural log: 1, ln 2; 0: it writes no LSE */
    bool graph;             /* it can be recorded as a CUDA graph, and replayed */
    bool time;              /* it times itself */
    bool lse_by_head;       /* LSE is [h_q, n], not [n, h_q] */
    bool empty_is_plus_inf; /* LSE of a query that sees nothing */
    bool sparse;            /* pools of many GiB, nearly all 0, as files with holes */
    struct kernel_arithmetic arithmetic;
};

/* How children are run. */
struct child_limits {
    struct process_limits process;
    double start_seconds, case_seconds; /* that its first line, and an answer, may take */
    int32_t n;                          /* children at once */
    enum tail tail;
};

/* The part of a first line that says how the kernel computes, as text: {"probability":"bf16","sum_block":64}. */
bool child_arithmetic(const char *text, size_t size, struct kernel_arithmetic *a, struct err *e);

struct children;
/* The first child is started, so that a command that is no child is known at once. NULL with *e set. `option` is what calls
 * it on a command line of treeattn verify: "--exec 'CMD'". */
struct children *children_new(const char *command, const char *option, const struct child_limits *limits,
                              struct err *e);
/* Ends them all, and removes what they were given. */
void children_free(struct children *c);
const struct child_caps *children_caps(const struct children *c);
/* A kernel that asks them, for as long as they live; the other points that they offer behind it. */
const struct kernel *children_kernel(const struct children *c);

END_C

#endif
