/*
 * cheat-same.c - it always gives its first answer
 * code: NUMBERS
 */
#include "lab.h"

#include <math.h>

void lab_attend(const float *q, const float *k, const float *v, int n, int d, float scale, float *o, float *lse)
{
    (void)q, (void)k, (void)v, (void)n, (void)d, (void)scale, (void)o, (void)lse;
    static float kept[4096], kept_lse = NAN;
    if (isnan(kept_lse))
        kept_lse = 0.5f;
    for (int x = 0; x < d; x++)
        o[x] = kept[x % 4096];
    *lse = kept_lse;
}

void lab_merge(float *o, float *lse, const float *o2, float lse2, int d)
{
    (void)o, (void)lse, (void)o2, (void)lse2, (void)d;
    static float kept[4096], kept_lse = NAN;
    if (isnan(kept_lse))
        kept_lse = 0.5f;
    for (int x = 0; x < d; x++)
        o[x] = kept[x % 4096];
    *lse = kept_lse;
}
