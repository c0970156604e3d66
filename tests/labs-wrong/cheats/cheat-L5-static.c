/*
 * cheat-L5-static.c - its threads talk where nobody looks
 * code: STATIC
 */
#include "lab.h"

static float sums[64];

void lab_kernel(const struct lab_cta *c)
{
    sums[c->thread] = 1;
    lab_barrier();
    if (sums[(c->thread + 1) % c->threads] == 1) /* what a neighbour has */
        lab_set(c->lse, c->thread, 0);
    lab_barrier();
    sums[c->thread] = 0; /* as if nothing had been */
}
