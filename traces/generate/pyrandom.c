/*
 * pyrandom.c - CPython's random integers: MT19937, and its way from 32-bit words to an integer in a range.
 *
 * Matsumoto and Nishimura: Mersenne Twister, ACM TOMACS 8(1), 1998; seeding by array as in their 2002
 * revision. For a range as many high bits are drawn as its size has, and drawn again while they are not below
 * it.
 */
#include "traces/generate/pyrandom.h"

#include "ref/base.h"

enum { N = 624, M = 397 };

static void seed_word(struct pyrandom *r, uint32_t s)
{
    r->state[0] = s;
    for (uint32_t i = 1; i < N; i++)
        r->state[i] = UINT32_C(1812433253) * (r->state[i - 1] ^ r->state[i - 1] >> 30) + i;
}

void pyrandom_seed(struct pyrandom *r, uint32_t seed)
{
    /* Seeding by an array of one word: its index stays 0 throughout. */
    seed_word(r, 19650218);
    uint32_t i = 1;
    for (int32_t k = 0; k < N; k++) {
        r->state[i] = (r->state[i] ^ (r->state[i - 1] ^ r->state[i - 1] >> 30) * UINT32_C(1664525)) + seed;
        if (++i == N) {
            r->state[0] = r->state[N - 1];
            i = 1;
        }
    }
    for (int32_t k = 0; k < N - 1; k++) {
        r->state[i] = (r->state[i] ^ (r->state[i - 1] ^ r->state[i - 1] >> 30) * UINT32_C(1566083941)) - i;
        if (++i == N) {
            r->state[0] = r->state[N - 1];
            i = 1;
        }
    }
    r->state[0] = UINT32_C(0x80000000);
    r->next = N;
}

static uint32_t next_word(struct pyrandom *r)
{
    if (r->next == N) {
        for (int32_t i = 0; i < N; i++) {
            uint32_t y =
                (r->state[i] & UINT32_C(0x80000000)) | (r->state[(i + 1) % N] & UINT32_C(0x7FFFFFFF));
            r->state[i] = r->state[(i + M) % N] ^ y >> 1 ^ (y & 1 ? UINT32_C(0x9908B0DF) : 0);
        }
        r->next = 0;
    }
    uint32_t y = r->state[r->next++];
    y ^= y >> 11;
    y ^= y << 7 & UINT32_C(0x9D2C5680);
    y ^= y << 15 & UINT32_C(0xEFC60000);
    return y ^ y >> 18;
}

int64_t pyrandom_randint(struct pyrandom *r, int64_t a, int64_t b)
{
    int64_t n = b - a + 1;
    CK(n >= 1 && n <= UINT32_MAX);
    int32_t bits = 32 - __builtin_clz((uint32_t)n);
    int64_t x;
    do
        x = next_word(r) >> (32 - bits);
    while (x >= n);
    return a + x;
}
