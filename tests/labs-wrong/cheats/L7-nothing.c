/*
 * L7-nothing.c - it says nothing, which takes no time
 * code: COVER
 */
#include "lab.h"

void lab_partition(const struct lab_tree *t, const struct lab_env *env, struct lab_out *out)
{
    (void)t, (void)env, (void)out;
}
