/*
 * ctas.h - the CTAs of a plan in grid order, and what each of them moves and multiplies.
 *
 * A group has a CTA for each Q tile and KV head, tile after tile. Those of one tile are alike and form a
 * batch. So are the CTAs of a merge step, one for every KV head. The stages of an unfused plan are cut into
 * tiles of 128 x 128 scores, as a matrix library does, that share the stage's work evenly.
 *
 * The sum over all CTAs is what ledger_of_plan() prices, to the byte, if a kernel reads all that a group has.
 * A kernel that leaves out tokens that no row of a Q tile sees (`unseen` below 1) moves and multiplies less;
 * stages of unfused plans never leave any out. How much of it misses the L2:
 *   K and V   a block of a node's tokens hits if it was read before and either the reader before may still be
 *             running (and what all running CTAs have in flight fits the L2), or no more than the L2's size
 *             was fetched since: first in, first out. A first reading never hits. A query's own copy
 *             (replicated storage) is found by other Q tiles of the same group only.
 *   Q         once per query if all Q fits the L2
 *   partials, scores   written through; the share that fits the L2 is found there when read
 *   masks, outputs     never
 */
#ifndef TREEATTN_SIM_TIME_CTAS_H
#define TREEATTN_SIM_TIME_CTAS_H

#include "sim/time/machine.h"
#include "sim/plan.h"
#include "sim/plan_ledger.h"

#ifdef __cplusplus
extern "C" {
#endif

struct grid_batch {
    double dram, l2, ops; /* of each CTA: bytes that miss the L2; all bytes; operations, padding included */
    double flight;        /* bytes that a CTA has in flight */
    int64_t n;            /* CTAs */
    int64_t group, merge; /* in the plan; -1 */
    int32_t tile, launch;
    int32_t resident; /* CTAs of this kind that an SM holds at a time, at least 1 */
};

struct grid {
    int64_t n, cap;
    struct grid_batch *batch;
    int64_t *first; /* [n_launches + 1] each launch's first batch */
    int64_t ctas;
};

/* What a kernel does with its tiles. */
struct grid_kernel {
    double stages; /* K or V tiles that a CTA has room for */
    /* Of the tokens that the mask hides from all rows of a Q tile, the share that is read all the same: 0 or
     * 1. Between, tokens count by that share, but the L2 takes them in whole. */
    double unseen;
};

/* Free with grid_free. */
struct grid grid_of(const struct plan *p, const struct heads *heads, const struct machine *mc,
                    const struct grid_kernel *kernel);
void grid_free(struct grid *g);

/* CTAs of the group's tile that an SM holds at a time: by shared memory, registers, threads and CTAs. A tile
 * that does not fit counts 1. Unfused groups: what a library's kernels hold. */
int32_t grid_resident(const struct machine *mc, const struct group *g, const struct heads *heads,
                      double stages);

#ifdef __cplusplus
}
#endif

#endif
