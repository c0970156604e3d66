/*
 * crash-stderr.c - it talks for ever
 * code: NUMBERS
 */
#include "lab.h"

#include <stdio.h>

void lab_attend(const float *q, const float *k, const float *v, int n, int d, float scale, float *o, float *lse)
{
    (void)q, (void)k, (void)v, (void)n, (void)d, (void)scale, (void)o, (void)lse;
    for (int i = 0; i < 10000; i++)
        fprintf(stderr, "%d: all is well, all is well, all is well\n", i);
    o[0] = 1;
}

void lab_merge(float *o, float *lse, const float *o2, float lse2, int d)
{
    (void)o, (void)lse, (void)o2, (void)lse2, (void)d;
    for (int i = 0; i < 10000; i++)
        fprintf(stderr, "%d: all is well, all is well, all is well\n", i);
    o[0] = 1;
}
