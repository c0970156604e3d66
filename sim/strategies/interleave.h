/*
 * interleave.h - the order of a group's tokens: attention does not depend on it, but what a kernel waits for does.
 *
 * Tokens that all queries of a tile see come out of the L2, as other tiles have read them, and tensor cores
 * multiply them with all rows. Tokens that few queries see come from memory, and most rows do nothing. In the
 * order of the tree all CTAs multiply at one time and wait for memory at another. When the two sorts take
 * turns, CTAs do both at once.
 */
#ifndef TREEATTN_SIM_STRATEGIES_INTERLEAVE_H
#define TREEATTN_SIM_STRATEGIES_INTERLEAVE_H

#include "sim/plan.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { INTERLEAVE_SORTS = 3 };

/*
 * Orders the selection's runs so that tokens of different sorts take turns, `unit` of them at a time.
 * sort[s->n_runs] is the sort of each run, less than INTERLEAVE_SORTS. The next unit is always of the sort of
 * which the largest share is left, so that any stretch has about as many of each as the whole. What fills no
 * unit comes last. Within a sort the order stays; runs are cut where a unit ends within them. Nothing changes
 * where fewer than two sorts fill a unit. `spare` is scratch space, and may be used by the next call; free
 * each with sel_free. O(runs + tokens / unit).
 */
void interleave(struct sel *s, const uint8_t *sort, int64_t unit, struct sel spare[INTERLEAVE_SORTS]);

#ifdef __cplusplus
}
#endif

#endif
