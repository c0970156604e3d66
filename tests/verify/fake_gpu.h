/*
 * fake_gpu.h - a GPU for tests, made of host memory and the CPU kernel: it stands in for kernels/cuda in the test
 * program, so that what runs around kernels can be tested without a card. Absent until switched on.
 *
 * The linker takes a symbol from a library only where no object has it: fake_gpu.c defines all that cuda.h and exact.h
 * declare, but for what kernel_cuda.c does.
 */
#ifndef TREEATTN_TESTS_VERIFY_FAKE_GPU_H
#define TREEATTN_TESTS_VERIFY_FAKE_GPU_H

#include "ref/base.h"

/* What the fake does wrong, run after run. */
enum fake_fault {
    FAKE_SOUND,
    FAKE_WRITES_BEHIND_O,
    FAKE_WRITES_BEFORE_WORKSPACE,
    FAKE_WRITES_BEHIND_WORKSPACE,
    FAKE_WRITES_K,
    FAKE_WRITES_COPY, /* what was last copied to */
    FAKE_GRAPH_WRITES_K,
    FAKE_CHANGES,      /* every second run writes another LSE */
    FAKE_LEAVES_ROW,   /* a row of LSE is not written */
    FAKE_OLD_OUTPUT,   /* a run in a graph writes nothing; where there are slow ones, one of those */
    FAKE_OLD_PARTIALS, /* partial results are merged before they are there: those of the run before */
    FAKE_WRONG_TRUTH,
    FAKE_NO_CHAIN, /* the probe writes nothing */
    N_FAKE_FAULTS
};

struct fake_gpu {
    bool there;
    enum fake_fault fault;
    int64_t memory;                      /* bytes that may be allocated */
    int64_t allocated, live;             /* bytes, allocations that are not freed */
    int64_t runs, replays, fills, reads; /* so far; fills and reads: of 256 MB */
    int64_t slow_reads;                  /* of those of 256 MB to come, that take twice their time */
    int64_t slow_from, slow_to;          /* replays of these numbers take 50 ms more */
    int64_t chains;                      /* runs of the probe, which are no replays */
    double chain_us;                     /* that each takes */
    double read_us;                      /* what all these took: it is not waited, but events know of it */
};
extern struct fake_gpu fake_gpu;

#endif
