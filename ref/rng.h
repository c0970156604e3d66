/*
 * rng.h - a counter-based generator: every number is a pure function of (seed, stream, index).
 *
 * No state, so test data can be made in any order, on CPU or GPU, and any single element can be asked for
 * again when a failure is reduced. Integer arithmetic and exact conversions only, so that the bits agree
 * everywhere. The mixing function is the finalizer of SplitMix64 (Steele, Lea, Flood: Fast splittable
 * pseudorandom number generators, OOPSLA 2014), applied to a Weyl sequence.
 */
#ifndef TREEATTN_REF_RNG_H
#define TREEATTN_REF_RNG_H

#include <stdint.h>

#ifdef __CUDACC__
#define RNG_FN static __host__ __device__ inline
#else
#define RNG_FN static inline
#endif

RNG_FN uint64_t rng_mix(uint64_t z)
{
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

/* 64 uniform bits. */
RNG_FN uint64_t rng_u64(uint64_t seed, uint64_t stream, uint64_t index)
{
    uint64_t key = rng_mix(seed + UINT64_C(0x9E3779B97F4A7C15) * (stream + 1));
    return rng_mix(key + UINT64_C(0x9E3779B97F4A7C15) * (index + 1));
}

/* Uniform integer in [0, n), n >= 1. The bias, n / 2^64, is far below anything a test can see. */
RNG_FN int64_t rng_below(uint64_t seed, uint64_t stream, uint64_t index, int64_t n)
{
    return (int64_t)(rng_u64(seed, stream, index) % (uint64_t)n);
}

/* Uniform in [0, 1), 53 bits. */
RNG_FN double rng_unit(uint64_t seed, uint64_t stream, uint64_t index)
{
    return (double)(rng_u64(seed, stream, index) >> 11) * 0x1p-53;
}

/* Bell-shaped with mean 0 and variance 1, within +-3.5: the sum of four 16-bit uniforms (Irwin-Hall),
 * scaled. The factor is 1 / sqrt(4 * (2^32 - 1) / 12): exact integer sum, one rounding. */
RNG_FN double rng_bell(uint64_t seed, uint64_t stream, uint64_t index)
{
    uint64_t r = rng_u64(seed, stream, index);
    int64_t sum = (int64_t)(r & 0xFFFF) + (int64_t)(r >> 16 & 0xFFFF) + (int64_t)(r >> 32 & 0xFFFF) +
                  (int64_t)(r >> 48);
    return (double)(sum - 2 * 65535) * 2.6429298434e-05;
}

#endif
