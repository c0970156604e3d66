/*
 * L4-all-apart.c
 * why: nothing is joined
 * loses: 2 3 4 5
 */
#include "lab.h"

void lab_pack(const struct lab_shape *shape, const struct lab_price *price, unsigned char *join)
{
    (void)price;
    for (int i = 0; i < shape->n_nodes; i++)
        join[i] = 0;
}
