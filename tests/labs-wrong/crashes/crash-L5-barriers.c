/*
 * crash-L5-barriers.c - there is always one more barrier
 * code: HANG
 */
#include "lab.h"

void lab_kernel(const struct lab_cta *c)
{
    (void)c;
    for (;;)
        lab_barrier();
}
