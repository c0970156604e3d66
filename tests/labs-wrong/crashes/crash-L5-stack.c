/*
 * crash-L5-stack.c - a thread calls itself without end
 * code: CRASH
 */
#include "lab.h"

void lab_kernel(const struct lab_cta *c)
{
    lab_kernel(c);
    lab_set(c->lse, c->thread, 0);
}
