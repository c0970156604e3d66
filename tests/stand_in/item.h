/* item.h - an item of launch.h in plain C: where its rows and tokens are, and where results go. */
#ifndef TREEATTN_TESTS_STAND_IN_ITEM_H
#define TREEATTN_TESTS_STAND_IN_ITEM_H

#include "kernels/cuda/device/launch.h"
#include "ref/problem.h"

enum { MOST_D = 256 };

struct place {
    int64_t query;
    int32_t head, k; /* query head; query of the tile */
};
struct place item_row(const struct cuda_group_args *a, const struct cuda_item *it, int32_t kv_head,
                      int32_t r);

/* Slot of the pool that holds token t of the item, and the run that it lies in, counted from the group's first. */
int64_t item_token(const struct cuda_group_args *a, const struct cuda_item *it, int32_t t, int32_t *run);

bool item_sees(const struct cuda_group_args *a, const struct cuda_item *it, int32_t k, int32_t run);

/* Writes a row to its slot or to the output, rounded once. O and sum are relative to the maximum of its scores, in base 2. */
struct row {
    double o[MOST_D], max, sum;
};
void item_store(const struct cuda_group_args *a, enum dtype t, int32_t d, const struct cuda_item *it,
                const struct place *p, const struct row *r);

#endif
