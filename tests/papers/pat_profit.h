/*
 * pat_profit.h - PAT's profit model (section 5.1, equations 1 and 2) of a whole plan.
 *
 * Profit is what a plan saves against one CTA per query over its whole path, in KV tokens loaded (times d, which
 * all terms have; K and V are one): a group of s queries and l tokens saves (s - 1) l. The overhead is what
 * partial results cost: 2 s d elements written and read at a node and as much at its children, twice as wide as
 * K and V, against 2 l d of K and V: 4 a query that goes on below the node. So
 *
 *     profit = sum over groups (s - 1) l  -  4 * sum over queries (groups of the query - 1)
 *
 * On a node and its leaves this is equation 1 when every node is a group, equation 2 when a child reads its
 * parent's tokens too. Meaningful for plans without masks in which no context is cut for parallelism: the
 * model knows no cuts. An independent evaluation; the planner's own test is in sim/strategies/pat.c.
 */
#ifndef TREEATTN_TESTS_PAPERS_PAT_PROFIT_H
#define TREEATTN_TESTS_PAPERS_PAT_PROFIT_H

#include "sim/plan.h"

BEGIN_C

int64_t pat_profit(const struct plan *p);

END_C

#endif
