/* lab.c - lab 4, pack. README.md has the task; `make lab N=4` judges this file. */
#include "lab.h"

/* Every node stays apart: a group for each node. Invariants 2 and 3 are yours. */
void lab_pack(const struct lab_shape *shape, const struct lab_price *price, unsigned char *join)
{
    (void)price;
    for (int i = 0; i < shape->n_nodes; i++)
        join[i] = 0;
}
