/*
 * stand_in.h - a GPU of host memory beneath the code that drives one.
 *
 * It is a CUDA runtime (runtime.c), the kernels in plain C (kernels.c, unfused.c), and the part of cuBLAS that is called
 * (blas.c). It is linked instead of cudart and of what nvcc compiles. So the plain C of kernels/cuda runs where there is no GPU,
 * and under sanitizers.
 *
 * The environment says what stands in. $STAND_IN_CARD names a card (h200, a100, ada, mig). $STAND_IN_FAULT names what it does
 * wrong, so that the checks can be seen to fail: item, mask, merge, wait, beside; lost: an item of more than 300 tokens breaks
 * it for good.
 *
 * Callers take turns, as guard_gpu.c makes them. Only the counters are for threads side by side.
 */
#ifndef TREEATTN_TESTS_STAND_IN_STAND_IN_H
#define TREEATTN_TESTS_STAND_IN_STAND_IN_H

#include "ref/base.h"

enum stand_in_kind { LIVE_DEVICE, LIVE_PINNED, LIVE_STREAM, LIVE_EVENT, LIVE_GRAPH, LIVE_EXEC, N_LIVE };

struct stand_in {
    int64_t calls;      /* so far, of those that may fail: all but those that free and those that are made only once */
    int64_t fail_at;    /* the number of the call that fails and does nothing; -1: none */
    int fail_with;      /* cudaError_t */
    const char *failed; /* the call that did, or NULL */
    int64_t live[N_LIVE];
    int64_t most_bytes; /* of device memory in use at a time; may be set back */
};
extern struct stand_in stand_in;
extern const char *const stand_in_kind_name[N_LIVE];

struct stand_in_card {
    const char *name;
    int32_t arch, sms;
    int64_t smem_per_cta, smem_per_sm, l2, memory; /* bytes */
};
const struct stand_in_card *stand_in_card(void);

/* Is it to do that wrong? */
bool stand_in_fault(const char *name);

/* Counts a call. Returns its cudaError_t, which is not 0 for the one that is to fail. */
int stand_in_call(const char *name);
/* The same for a call that fails for a reason of its own. */
int stand_in_fail(int status);

/* From now on the device does nothing, as after a fault of a kernel. */
void stand_in_break(void);

/*
 * Enqueues a kernel. `run` gets a copy of the size bytes at args. It runs when somebody waits for it, or becomes part of a graph.
 * kernel: an address of its own, by which it is told from others. beside: a dependent launch, which need not wait for the kernel
 * before it in the stream, but is complete only when that one is. Returns the cudaError_t of the launch.
 */
typedef void stand_in_work(const void *args);
int stand_in_launch(const char *name, const void *kernel, stand_in_work *run, const void *args, size_t size,
                    bool beside, void *stream);

/* Are all these bytes device memory? */
bool stand_in_on_device(const void *p, int64_t bytes);

/* Dot product, in double. */
double stand_in_dot(const float *x, const float *y, int64_t n);

#endif
