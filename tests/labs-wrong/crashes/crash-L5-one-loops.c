/*
 * crash-L5-one-loops.c - one thread never ends, and all others wait for it
 * code: HANG
 */
#include "lab.h"

void lab_kernel(const struct lab_cta *c)
{
    for (volatile int i = 0; c->thread == 3; i++)
        ;
    lab_barrier();
}
