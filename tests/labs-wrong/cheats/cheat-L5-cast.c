/*
 * cheat-L5-cast.c - it reads K past the device, so that nobody counts
 * code: CRASH
 */
#include "lab.h"

void lab_kernel(const struct lab_cta *c)
{
    const float *k = (const float *)c->k;
    lab_set(c->lse, c->thread, k[c->thread]);
}
