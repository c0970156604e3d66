/*
 * plan_extend.h - a plan made for one step, kept for a later one whose tree has the same shape.
 *
 * Between two steps in which no node or query comes or goes, nodes only get longer. The old plan then stays
 * right if every run that reached the end of its node reaches the new end. Each (query, last token) pair was
 * in exactly one group, unmasked, and so are the new tokens behind it, as masks are constant over a run.
 * Groups, query ranges, tiles, launches, slots and merges are kept. Balance is lost: chunks that were equal
 * grow unevenly, and long KV is not split anew.
 *
 * This is PAT's lazy update (section 5.1), which plans anew when requests arrive or leave. (PAT does so as well
 * when a request gets a new KV block, because its plans hold block ids; ours hold nodes and tokens.)
 */
#ifndef TREEATTN_SIM_PLAN_EXTEND_H
#define TREEATTN_SIM_PLAN_EXTEND_H

#include "sim/plan.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Does `now` have the nodes and queries of `old`, each node as long or longer, and none longer that was empty? */
bool plan_extends(const struct nform *old, const struct nform *now);

/* The plan, made over a tree that plan_extends to nf (kept, not owned), for nf. Free with plan_free. */
struct plan *plan_extend(const struct plan *old, const struct nform *nf);

#ifdef __cplusplus
}
#endif

#endif
