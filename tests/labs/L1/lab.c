/* lab.c - lab 1, attention in parts. README.md has the task; `make lab N=1` judges this file. */
#include "lab.h"

#include <math.h>

void lab_attend(const float *q, const float *k, const float *v, int n, int d, float scale, float *o, float *lse)
{
    /* Invariants 1 to 4. This is only right where n is 0. */
    (void)q, (void)k, (void)v, (void)n, (void)scale;
    for (int x = 0; x < d; x++)
        o[x] = 0;
    *lse = -INFINITY;
}

void lab_merge(float *o, float *lse, const float *o2, float lse2, int d)
{
    /* Invariants 5 to 7. This keeps the first part and forgets the second. */
    (void)o, (void)lse, (void)o2, (void)lse2, (void)d;
}
