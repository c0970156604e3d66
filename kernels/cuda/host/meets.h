/*
 * meets.h - which CTAs of wide tiles are clusters, and merge their rows themselves (device/wide_store.cuh).
 *
 * Where all inputs of a query's merge come from groups of one kernel, with the same queries in the same order, the CTAs that have
 * the same rows of those groups for a head can be a cluster. Then those merges are no kernel's. There is no CUDA here, so that
 * it is tested where there is none.
 */
#ifndef TREEATTN_KERNELS_CUDA_HOST_MEETS_H
#define TREEATTN_KERNELS_CUDA_HOST_MEETS_H

#include "kernels/cuda/device/launch.h"
#include "sim/plan.h"

struct meets_card {
    int32_t gqa, h_kv; /* query heads a KV head; KV heads */
    int32_t sms;
    bool
        everywhere; /* wherever they can be, not only where that is faster: where all of a kernel run at a time */
};

struct meets {
    const struct plan *plan; /* of the caller */
    struct meets_card card;
    int64_t *step_of_slot; /* [slots] the merge step whose input it is, or -1; NULL before anybody asks */
    bool *met;             /* [merges] by a cluster; NULL: none is */
};

/* No clusters yet. The plan must outlive it. Free with meets_free. */
struct meets meets_new(const struct plan *plan, const struct meets_card *card);
void meets_free(struct meets *m);

/*
 * Sorts the items of a kernel of wide tiles, `tiles` of which are a CTA's, into clusters, and returns the CTAs of a cluster. The CTAs
 * of one are neighbours, in the order in which the merges have their inputs. 0: there are none, and nothing has changed. All CTAs are
 * in clusters of one size, or none is. A CTA takes one head. clusters: [CUDA_MEET_MOST + 1] how many of so many CTAs run at a time.
 */
int32_t meets_sort(struct meets *m, struct cuda_item *item, int64_t n_items, int32_t tiles,
                   const int32_t *clusters);

/* Does a cluster do this merge step of the plan? */
static inline bool meets_step(const struct meets *m, int64_t step)
{
    return m->met && m->met[step];
}

#endif
