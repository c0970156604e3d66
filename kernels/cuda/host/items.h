/*
 * items.h - the arrays of a plan as the kernels read them (device/launch.h), while the host makes them.
 *
 * A group of nq queries has nq * gqa rows, which become ceil(rows / rows of a tile) items. calls.c says in which order groups
 * are added and which kernel runs them; upload.c copies the arrays to the device. No CUDA in it.
 */
#ifndef TREEATTN_KERNELS_CUDA_HOST_ITEMS_H
#define TREEATTN_KERNELS_CUDA_HOST_ITEMS_H

#include "kernels/cuda/device/launch.h"
#include "kernels/cuda/host/pairs.h"
#include "ref/problem.h"
#include "sim/plan.h"

enum { CUDA_TILE_MAX = 128 }; /* rows of a tile, or tokens of its step */

/* A growing array of elements of one size. */
struct list {
    void *p;
    int64_t n, cap;
};
/* Room for n more elements of `size` bytes, not initialised; valid until the next call. */
void *list_add(struct list *l, int64_t n, size_t size);

struct items {
    const struct problem *p; /* of the caller, as is plan */
    const struct plan *plan;
    int32_t gqa; /* query heads a KV head */
    struct pairs pairs;
    int64_t n_wide;    /* of the groups that run as pairs, those whose items are in the list */
    int64_t wide0;     /* the launch's first item in such tiles, which are two a CTA */
    int64_t sink_slot; /* with sinks, the last; else PLAN_NO_SLOT */
    int64_t *
        own_slot; /* [groups] with sinks: the slot of the first query of a group whose rows the plan sends to the output */
    int64_t *reads; /* [nodes] tokens of the node that items read, counted as often as they are read */
    /* Of the group that is being added: the runs that a CTA reads, n_kept of them, and whether it reads each run. */
    int64_t *kept;
    bool *seen;
    int64_t n_kept, cap_kept, cap_seen;
    struct list item, run, piece, query, mask, step, merge_in;
};

/* No items yet. `wgmma`: pairs of wide tiles may run; `everywhere`, `sms`: as in struct pairs_card. Free with items_free. */
struct items items_new(const struct problem *p, const struct plan *plan, bool wgmma, bool everywhere,
                       int32_t sms);
void items_free(struct items *b);

/* The side of a compiled tile for the side that the plan asks for: the next larger one, or the largest. */
int32_t side_of_tile(int32_t asked);
/* Does the group run as pairs of wide tiles? */
bool is_wide(const struct items *b, const struct group *g);
/* How many items read the group's tokens. */
int64_t reads_of_group(const struct items *b, const struct group *g);

/* Adds the group's items. False with *e set where an index would not fit 32 bits. */
bool items_add_group(struct items *b, const struct group *g, struct err *e);
/* Adds the groups of the launch that run as pairs, two items a CTA. A tile that is left over gets an item of no rows. */
bool items_add_pairs(struct items *b, int32_t launch, struct err *e);
/* Adds one merge step; returns its number of inputs. */
int64_t items_add_merge(struct items *b, const struct merge_step *s);
/* With sinks, adds a step for each query of a group whose rows the plan sends to the output; returns how many. */
int64_t items_add_own_merges(struct items *b, const struct group *g);

/* Slots of the plan. With sinks there is one more, the last, whose weights they are, and which every step to the output has among its
 * inputs; and one for each query of a group whose rows the plan sends to the output, so that they go through such a step. */
int64_t items_slots(const struct problem *p, const struct plan *plan);

#endif
