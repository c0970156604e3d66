/*
 * guard_gpu.h - one run of a plan on the device with every buffer between canaries; what verification runs.
 *
 * Q, K, V, page table, sinks, scales, O and LSE lie in one piece of device memory, with canaries before, between and behind them: at least 256
 * bytes of NaN patterns. The workspace lies between canaries in a piece of its own. O, LSE and workspace hold NaN when the run
 * begins.
 *
 * After the run, the canaries and everything it may only read must be as they were, bit for bit. Then the same run is captured in
 * a CUDA graph and everything it writes is poisoned again. A replay must write the same bits and nothing else.
 *
 * A read outside of a buffer finds NaN, or a page number of -1. compute-sanitizer sees accesses elsewhere.
 *
 * The strategies of one case follow each other on a thread. What they read is uploaded once for all of them, as long as it is the
 * same, byte by byte, on the host. A copy of it stays on the device, to compare with after each run.
 */
#ifndef TREEATTN_KERNELS_CUDA_HOST_GUARD_GPU_H
#define TREEATTN_KERNELS_CUDA_HOST_GUARD_GPU_H

#include "kernels/cuda/host/cuda.h"

/* Plans, runs and replays. False with *e set: EXIT_MISSING if memory does not suffice, another code if a call failed, something
 * was overwritten, or the replay differs. Threads take turns. */
bool guarded_run(const struct plan *plan, const struct cuda_options *opt, const struct problem *p,
                 struct output *out, struct err *e);

/* Counts over all runs so far. */
struct guarded_tally {
    int64_t runs, replays; /* replays that wrote the same bits */
    int64_t guard_bytes;   /* of canaries found untouched */
};
struct guarded_tally guarded_tally(void);

/* ---- for tests: the layout, without a device ---------------------------------------------------------- */

enum guarded_part {
    PART_Q,
    PART_K,
    PART_V,
    PART_PAGES,
    PART_SINKS,
    PART_K_SCALE,
    PART_V_SCALE,
    PART_O,
    PART_LSE,
    N_PARTS
};

struct guarded_layout {
    int64_t at[N_PARTS], size[N_PARTS]; /* bytes; every part at a multiple of 256 */
    int64_t total;
};
struct guarded_layout guarded_layout(const struct problem *p);
/* The bytes of all parts before a run; the caller frees. */
uint8_t *guarded_image(const struct guarded_layout *l, const struct problem *p);
/* Compares [from, total) before and after. O and LSE may differ. False with *e naming the first other byte that differs. */
bool guarded_check(const struct guarded_layout *l, const uint8_t *before, const uint8_t *after, int64_t from,
                   struct err *e);

#endif
