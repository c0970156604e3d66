/*
 * L7-price.c - it asks the judge's own model of time
 * code: REFUSED
 * says: does not
 */
#include "lab.h"

double lab7_time(const void *plan);

void lab_partition(const struct lab_tree *t, const struct lab_env *env, struct lab_out *out)
{
    const struct lab_run r = {0, 0, t->len[0]};
    int q = lab7_time(env) < 1;
    lab_group(out, &q, 1, &r, 1);
}
