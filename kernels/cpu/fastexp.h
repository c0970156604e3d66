/*
 * fastexp.h - exp of a float, without branches, so that a loop over scores becomes vector code.
 *
 * x = n ln 2 + r with n an integer and |r| <= ln 2 / 2, exp(x) = 2^n exp(r). exp(r) = 1 + r + r^2 P(r), P the
 * polynomial that agrees with (exp(r) - 1 - r) / r^2 at the five Chebyshev nodes of that interval (relative
 * error of the whole below 2^-26, so rounding decides). Within 1.1 units in the last place over all floats,
 * subnormal results included (tests/kernels/check_kernel.c measures it and fails above 2).
 *
 * exp(+-0) = 1 exactly, exp(-inf) = 0, exp(+inf) = +inf, NaN stays NaN.
 */
#ifndef TREEATTN_KERNELS_CPU_FASTEXP_H
#define TREEATTN_KERNELS_CPU_FASTEXP_H

#include <math.h>
#include <stdint.h>
#include <string.h>

/* a * b + c: fused where that is one instruction, two roundings elsewhere. */
static inline float fma_f32(float a, float b, float c)
{
#ifdef FP_FAST_FMAF
    return __builtin_fmaf(a, b, c);
#else
    return a * b + c;
#endif
}

static inline double fma_f64(double a, double b, double c)
{
#ifdef FP_FAST_FMA
    return __builtin_fma(a, b, c);
#else
    return a * b + c;
#endif
}

static inline float f32_from_bits(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline uint32_t f32_bits(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline float fast_expf(float x)
{
    const float log2e = 0x1.715476p+0f;
    const float ln2_hi = 0x1.63p-1f;      /* 10 bits: n * ln2_hi is exact */
    const float ln2_lo = -2.12194440e-4f; /* ln 2 - ln2_hi */
    const float round_magic = 0x1.8p+23f; /* adding it leaves the nearest integer in the low bits */

    /* Past these ends the result is 0 or +inf anyway; a NaN fails both comparisons and goes through. */
    x = x < -104.0f ? -104.0f : x;
    x = x > 89.0f ? 89.0f : x;

    float shifted = fma_f32(x, log2e, round_magic);
    float n = shifted - round_magic;
    float r = fma_f32(n, -ln2_lo, fma_f32(n, -ln2_hi, x));

    float p = 0x1.6d11b6p-10f;
    p = fma_f32(p, r, 0x1.120c1ap-7f);
    p = fma_f32(p, r, 0x1.555518p-5f);
    p = fma_f32(p, r, 0x1.5554dcp-3f);
    p = fma_f32(p, r, 0.5f);
    p = 1.0f + fma_f32(p, r * r, r);

    /* 2^n in two factors, since -150 <= n <= 129 leaves the range of one; only the last product can round.
     * Unsigned arithmetic: for a NaN the bits are arbitrary, and NaN times anything is still NaN. */
    uint32_t k = f32_bits(shifted) - f32_bits(round_magic);
    uint32_t half = (uint32_t)((int32_t)k >> 1);
    float scale_a = f32_from_bits((half + 127) << 23);
    float scale_b = f32_from_bits((k - half + 127) << 23);
    return p * scale_a * scale_b;
}

#endif
