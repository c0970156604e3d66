/*
 * crash-loop.c - it never ends
 * code: HANG
 */
#include "lab.h"

void lab_attend(const float *q, const float *k, const float *v, int n, int d, float scale, float *o, float *lse)
{
    (void)q, (void)k, (void)v, (void)n, (void)d, (void)scale, (void)o, (void)lse;
    for (volatile int i = 0;; i++)
        ;
}

void lab_merge(float *o, float *lse, const float *o2, float lse2, int d)
{
    (void)o, (void)lse, (void)o2, (void)lse2, (void)d;
    for (volatile int i = 0;; i++)
        ;
}
