/*
 * crash-segv.c - it reads far beyond an array
 * code: CRASH
 */
#include "lab.h"

/* A megabyte further each time: not what is beside the array, which a sanitizer of the judge would take for an exit. */
static void beyond(const volatile float *x)
{
    float sum = 0;
    for (size_t i = 0; i < (size_t)1 << 40; i += 1 << 18)
        sum += x[i];
    (void)sum;
}

void lab_attend(const float *q, const float *k, const float *v, int n, int d, float scale, float *o, float *lse)
{
    (void)q, (void)k, (void)v, (void)n, (void)d, (void)scale, (void)lse;
    beyond(o);
}

void lab_merge(float *o, float *lse, const float *o2, float lse2, int d)
{
    (void)lse, (void)o2, (void)lse2, (void)d;
    beyond(o);
}
