/*
 * cheat-L5-device.c - it puts a device of its own between, which counts nothing
 * code: STATIC
 */
#include "lab.h"

static struct lab_device own;
static const struct lab_device *judges;

static void no_barrier(int line)
{
    (void)line;
}

void lab_kernel(const struct lab_cta *c)
{
    judges = lab_calls;
    own = *judges;
    own.barrier = no_barrier;
    lab_calls = &own;
    lab_barrier();
    lab_set(c->lse, c->thread, 0);
}
