/*
 * interleave.h - the order of a group's tokens: attention does not depend on it, but what a kernel waits for does.
 *
 * Tokens that all queries of a tile see come out of the L2, which other tiles had read them into, and tensor cores multiply them
 * with all rows; those that few see come from memory, and most rows do nothing. One after the other, as the tree has them, all
 * CTAs multiply at a time and wait for memory at another. Taking turns they do both at once.
 */
#ifndef TREEATTN_SIM_STRATEGIES_INTERLEAVE_H
#define TREEATTN_SIM_STRATEGIES_INTERLEAVE_H

#include "sim/plan.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { INTERLEAVE_SORTS = 3 };

/*
 * Orders the selection's runs so that tokens of different sorts take turns, `unit` of them at a time; sort[s->n_runs]: of each
 * run, less than INTERLEAVE_SORTS. Next is always a unit of the sort of which the largest share is left, so that any stretch has
 * about as many of each as the whole; what fills no unit comes last. Within a sort the order stays; runs are cut where a unit
 * ends within them. As it was where fewer than two sorts fill a unit. `spare` is used, and may be for the next call; free each
 * with sel_free. O(runs + tokens / unit).
 */
void interleave(struct sel *s, const uint8_t *sort, int64_t unit, struct sel spare[INTERLEAVE_SORTS]);

#ifdef __cplusplus
}
#endif

#endif
