/*
 * convert.h - between storage types and float, in forms that a compiler turns into vector code.
 *
 * The same numbers as dtype_to_float and dtype_store of ref/dtype.h, which go element by element through
 * double; tests/kernels/check_kernel.c compares the two over all patterns of 16 and 8 bits. Exact one way, to nearest even the
 * other; subnormals, infinities and NaN are kept.
 */
#ifndef TREEATTN_KERNELS_CPU_CONVERT_H
#define TREEATTN_KERNELS_CPU_CONVERT_H

#include "kernels/cpu/fastexp.h"

static inline float f32_from_f16(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16;
    uint32_t body = (uint32_t)(h & 0x7FFF) << 13;
    /* The exponent's bias moves from 15 to 127 by a product, which normalises the subnormals on the way. */
    uint32_t bits = f32_bits(f32_from_bits(body) * 0x1p112f);
    bits |=
        body >= UINT32_C(0x0F800000) ? UINT32_C(0x7F800000) : 0; /* infinity and NaN keep their mantissa */
    return f32_from_bits(bits | sign);
}

static inline float f32_from_bf16(uint16_t h)
{
    return f32_from_bits((uint32_t)h << 16);
}

static inline float f32_from_e4m3(uint8_t b)
{
    uint32_t sign = (uint32_t)(b & 0x80) << 24, body = (uint32_t)(b & 0x7F) << 20;
    uint32_t bits = f32_bits(f32_from_bits(body) * 0x1p120f); /* from a bias of 7, as above */
    return f32_from_bits((body == UINT32_C(0x07F00000) ? UINT32_C(0x7FC00000) : bits) | sign);
}

static inline float f32_from_e5m2(uint8_t b)
{
    return f32_from_f16((uint16_t)(b << 8));
}

static inline uint16_t f16_from_f32(float x)
{
    uint32_t bits = f32_bits(x);
    uint32_t sign = bits >> 16 & 0x8000;
    uint32_t mag = bits & UINT32_C(0x7FFFFFFF);
    /* Normal results: rebias, add half a unit less one plus the bit that decides ties, drop 13 bits. */
    uint32_t normal = (mag - UINT32_C(0x38000000) + 0xFFF + (mag >> 13 & 1)) >> 13;
    /* Subnormal results: adding 0.5 lines the mantissa up with units of 2^-24 and rounds to nearest even. */
    uint32_t small = f32_bits(f32_from_bits(mag) + 0.5f) - UINT32_C(0x3F000000);
    uint32_t h = mag < UINT32_C(0x38800000) ? small : normal;
    h = mag >= UINT32_C(0x477FF000) ? 0x7C00 : h; /* 65520 and above round to infinity */
    h = mag > UINT32_C(0x7F800000) ? 0x7E00 | (mag >> 13 & 0x3FF) : h;
    return (uint16_t)(h | sign);
}

static inline uint16_t bf16_from_f32(float x)
{
    uint32_t bits = f32_bits(x);
    uint32_t rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16;
    uint32_t quiet = bits >> 16 | 0x40;
    return (uint16_t)((bits & UINT32_C(0x7FFFFFFF)) > UINT32_C(0x7F800000) ? quiet : rounded);
}

#endif
