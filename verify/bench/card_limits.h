/*
 * card_limits.h - what a card can do, what a tree cannot do without, and how both are timed.
 */
#ifndef TREEATTN_VERIFY_BENCH_CARD_LIMITS_H
#define TREEATTN_VERIFY_BENCH_CARD_LIMITS_H

#include "kernels/cuda/host/cuda.h"
#include "ref/problem.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- timing ---------------------------------------------------------------------------------------------- */

/* Something enqueued on a stream; turn counts from 0. */
typedef bool gpu_action(void *of, int64_t turn, void *stream, struct err *e);
/* `before` (may be NULL), then `timed` between two events, n times in a row; microseconds of each into us[n]. */
bool gpu_time_each(gpu_action *before, gpu_action *timed, void *of, int64_t n, void *stream, double *us,
                   struct err *e);

struct gpu_time {
    double median_us, mad_us, min_us, p90_us; /* mad: median distance from the median */
    int64_t reps;
};
/* Sorts us. n >= 1. */
struct gpu_time gpu_time_of(double *us, int64_t n);

/* Device memory that is read or copied. */
struct gpu_span {
    uint8_t *from, *to;
    int64_t bytes;
    int way; /* of reading: 0 .. GPU_READ_WAYS - 1 */
};
/* Reads all of a struct gpu_span; what is left of it goes to `to`. */
gpu_action gpu_do_read;

/* ---- limits and floors ----------------------------------------------------------------------------------- */

struct gpu_limits {
    /* Bytes per second, of the fastest of 20: reading 16 GiB less reading 2 GiB, so without the cost of a launch; copying,
     * read and written together. */
    double read_bps, copy_bps;
    double tensor_flops; /* of an 8192^3 bf16 product on random data */
};
bool gpu_limits_measure(struct gpu_limits *x, struct err *e);

/* What a tree cannot do without. */
struct gpu_need {
    double bytes, operations;
};
struct gpu_need gpu_need(const struct nform *nf, const struct problem_spec *s);
/* Bytes of K and V that some query sees, each token once. */
int64_t gpu_unique_kv(const struct nform *nf, const struct problem_spec *s);
double gpu_floor_us(const struct gpu_need *need, const struct gpu_limits *x);

#ifdef __cplusplus
}
#endif

#endif
