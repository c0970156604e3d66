/*
 * cheat-nan.c - it hopes that NaN is equal to everything
 * code: NUMBERS
 */
#include "lab.h"

#include <math.h>

void lab_attend(const float *q, const float *k, const float *v, int n, int d, float scale, float *o, float *lse)
{
    (void)q, (void)k, (void)v, (void)n, (void)d, (void)scale, (void)o, (void)lse;
    for (int x = 0; x < d; x++)
        o[x] = NAN;
    *lse = NAN;
}

void lab_merge(float *o, float *lse, const float *o2, float lse2, int d)
{
    (void)o, (void)lse, (void)o2, (void)lse2, (void)d;
    for (int x = 0; x < d; x++)
        o[x] = NAN;
    *lse = NAN;
}
