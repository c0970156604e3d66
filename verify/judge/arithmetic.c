#include "verify/judge/arithmetic.h"

#include <stdlib.h>

/* The longest chain of merges. Steps are taken launch by launch: a step's inputs are of earlier launches. */
static int32_t merge_chain(const struct plan *p)
{
    int32_t *chain = xcalloc((size_t)p->n_slots, sizeof *chain), longest = 0;
    int64_t *first = xcalloc((size_t)p->n_launches, sizeof *first),
            *next = xcalloc((size_t)p->n_merges, sizeof *next);
    for (int32_t l = 0; l < p->n_launches; l++)
        first[l] = -1;
    for (int64_t m = 0; m < p->n_merges; m++) {
        next[m] = first[p->merge[m].launch];
        first[p->merge[m].launch] = m;
    }
    for (int32_t l = 0; l < p->n_launches; l++)
        for (int64_t m = first[l]; m >= 0; m = next[m]) {
            int32_t before = 0;
            for (int64_t i = p->merge[m].in0; i < p->merge[m].in1; i++)
                before = chain[p->merge_in[i]] > before ? chain[p->merge_in[i]] : before;
            if (p->merge[m].out != PLAN_NO_SLOT)
                chain[p->merge[m].out] = before + 1;
            longest = before + 1 > longest ? before + 1 : longest;
        }
    free(chain);
    free(first);
    free(next);
    return longest;
}

struct arithmetic arithmetic_of(const struct problem *p, const struct plan *plan, const struct kernel *k)
{
    struct arithmetic a = {.accumulate = p->heads.dtype == DT_F64 ? DT_F64 : DT_F32,
                           .partial_o = p->heads.dtype == DT_F64 ? DT_F64 : DT_F32,
                           .scores_stored = plan->unfused,
                           .merges = merge_chain(plan)};
    if (p->heads.dtype != DT_F64 && plan->slot_o == SLOT_O_F16 && plan->n_slots > 0)
        a.partial_o = DT_F16;
    if (k->narrow_p)
        a.probability = p->heads.dtype;
    return a;
}
