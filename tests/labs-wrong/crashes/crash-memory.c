/*
 * crash-memory.c - a bomb of memory
 * code: CRASH MEMORY HANG
 */
#include "lab.h"

#include <stdlib.h>
#include <string.h>

void lab_attend(const float *q, const float *k, const float *v, int n, int d, float scale, float *o, float *lse)
{
    (void)q, (void)k, (void)v, (void)n, (void)d, (void)scale, (void)o, (void)lse;
    for (;;)
        memset(malloc((size_t)1 << 26), 1, (size_t)1 << 26);
}

void lab_merge(float *o, float *lse, const float *o2, float lse2, int d)
{
    (void)o, (void)lse, (void)o2, (void)lse2, (void)d;
    for (;;)
        memset(malloc((size_t)1 << 26), 1, (size_t)1 << 26);
}
