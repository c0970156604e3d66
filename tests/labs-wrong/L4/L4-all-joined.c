/*
 * L4-all-joined.c
 * why: all nodes are joined to their parents: each leaf's queries read their whole path
 * loses: 2 3 4 5
 */
#include "lab.h"

void lab_pack(const struct lab_shape *shape, const struct lab_price *price, unsigned char *join)
{
    (void)price;
    for (int i = 0; i < shape->n_nodes; i++)
        join[i] = shape->parent[i] >= 0;
}
