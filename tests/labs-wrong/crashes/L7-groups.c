/*
 * L7-groups.c - a hundred million groups
 * code: MEMORY UNWRITTEN CRASH HANG PROTOCOL ERROR
 */
#include "lab.h"

void lab_partition(const struct lab_tree *t, const struct lab_env *env, struct lab_out *out)
{
    (void)env;
    const struct lab_run r = {0, 0, t->len[0]};
    for (int i = 0, q = 0; i < 100000000; i++)
        lab_group(out, &q, 1, &r, 1);
}
