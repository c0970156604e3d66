/*
 * crash-stack.c - a recursion without end
 * code: CRASH
 */
#include "lab.h"

void lab_attend(const float *q, const float *k, const float *v, int n, int d, float scale, float *o, float *lse)
{
    (void)q, (void)k, (void)v, (void)n, (void)d, (void)scale, (void)o, (void)lse;
    lab_attend(q, k, v, n + 1, d, scale, o, lse);
    o[0] += 1;
}

void lab_merge(float *o, float *lse, const float *o2, float lse2, int d)
{
    (void)o, (void)lse, (void)o2, (void)lse2, (void)d;
    lab_attend(o, o2, o2, 1, d, lse2, o, lse);
}
