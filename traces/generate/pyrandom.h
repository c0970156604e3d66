/*
 * pyrandom.h - the integers that CPython's random.seed(n) and random.randint(a, b) give.
 *
 * DeFT lengthens its lists of accepted tokens with them, so an exact replay needs the same bits.
 */
#ifndef TREEATTN_TRACES_GENERATE_PYRANDOM_H
#define TREEATTN_TRACES_GENERATE_PYRANDOM_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct pyrandom {
    uint32_t state[624];
    int32_t next; /* word of the state to give out next; 624: make new ones first */
};

/* As random.seed(seed) does for an integer below 2^32. */
void pyrandom_seed(struct pyrandom *r, uint32_t seed);
/* Uniform in a .. b, both included; b - a + 1 must be in 1 .. 2^32 - 1. */
int64_t pyrandom_randint(struct pyrandom *r, int64_t a, int64_t b);

#ifdef __cplusplus
}
#endif

#endif
