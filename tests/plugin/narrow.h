/*
 * narrow.h - numbers of 16 and 8 bits, in plain C: clang has no _Float16 for every machine. For the plug-ins of this folder, which
 * know nothing of ref/.
 */
#ifndef TREEATTN_TESTS_PLUGIN_NARROW_H
#define TREEATTN_TESTS_PLUGIN_NARROW_H

#include <math.h>
#include <stdint.h>
#include <string.h>

static inline float from_half(uint16_t h)
{
    uint32_t bits = (uint32_t)(h & 0x7fff) << 13;
    float x;
    memcpy(&x, &bits, sizeof x);
    x *= 0x1p112f; /* between the biases of the exponents: exact, also for what is below the normal numbers */
    if ((h >> 10 & 31) == 31)
        x = h & 1023 ? NAN : INFINITY;
    return h >> 15 ? -x : x;
}

/* To nearest even, as a float. */
static inline float to_half(float x)
{
    if (!(fabsf(x) < INFINITY) || x == 0)
        return x;
    int e;
    frexpf(x, &e); /* |x| in [2^(e - 1), 2^e) */
    int least = e < -13 ? -24 : e - 11;
    float y = ldexpf(nearbyintf(ldexpf(x, -least)), least);
    return fabsf(y) > 65504 ? copysignf(INFINITY, x) : y;
}

/* Four bits of exponent, three of mantissa; 0x7F and 0xFF alone are no numbers. */
static inline float from_e4m3(uint8_t b)
{
    int exponent = b >> 3 & 15, mantissa = b & 7;
    float x = exponent ? ldexpf((float)(8 + mantissa), exponent - 10) : ldexpf((float)mantissa, -9);
    if ((b & 0x7f) == 0x7f)
        x = NAN;
    return b >> 7 ? -x : x;
}

static inline float from_bf16(uint16_t h)
{
    uint32_t bits = (uint32_t)h << 16;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* To nearest even, as a float. */
static inline float to_bf16(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    bits += 0x7fff + (bits >> 16 & 1);
    bits &= 0xffff0000u;
    memcpy(&x, &bits, sizeof x);
    return x;
}

#endif
