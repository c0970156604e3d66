/*
 * pairs.h - which groups of a plan run as pairs of tiles (4_wide.cuh).
 *
 * The CTA of a pair has two tiles of up to 64 rows over the same tokens, which it reads once. Both are of one group, or of two
 * groups over the same tokens. There is no CUDA here, so that it is tested where there is none.
 */
#ifndef TREEATTN_KERNELS_CUDA_HOST_PAIRS_H
#define TREEATTN_KERNELS_CUDA_HOST_PAIRS_H

#include "kernels/cuda/device/launch.h"
#include "sim/plan.h"

struct pairs {
    int64_t n_groups;
    /* [n_groups] that run so, by launch, longest first. Groups over the same tokens stand together, in the order of the plan. */
    int64_t *group;
    /* [groups of the plan] CTAs of a head that read the group's tokens, or -1 if it runs in other tiles. Of groups over the same
     * tokens the first has the CTAs of all, and the others have 0. */
    int64_t *ctas;
};

struct pairs_card {
    int32_t gqa, h_kv; /* query heads a KV head; KV heads */
    int32_t sms;
    bool everywhere; /* wherever there are two tiles, not only where that is faster */
};

/* Chooses among the groups of a plan whose scores do not go through memory. Free with pairs_free. */
void pairs_choose(struct pairs *p, const struct plan *plan, const struct pairs_card *c);
/* No group runs so. Free with pairs_free. */
void pairs_none(struct pairs *p, const struct plan *plan);
void pairs_free(struct pairs *p);

/* Is group i of the list the first over its tokens? */
static inline bool pairs_first(const struct pairs *p, int64_t i)
{
    return p->ctas[p->group[i]] > 0;
}

/* Rows of a tile of such a group. */
int32_t pairs_rows(const struct group *g);

#endif
