/* fence.h - memory for somebody else's code: who runs beyond an array ends there, or is found out. */
#ifndef TREEATTN_VERIFY_CHILD_FENCE_H
#define TREEATTN_VERIFY_CHILD_FENCE_H

#include "ref/base.h"

BEGIN_C

/* An array at a multiple of 64 bytes, between pages that nobody may touch. What is left before and behind it has bytes of
 * which the judge knows: behind it less than 64. */
struct fenced {
    char *map, *data;
    size_t map_size, size;
};
/* n_bytes, copied from `from` unless that is NULL. Free with fence_free. */
struct fenced fence(const void *from, int64_t n_bytes);
/* From now on the array may only be read: who writes there ends. */
void fence_seal(const struct fenced *f);
/* Is that address in the array or what is left around it, or (on +1, before -1) in the page behind or before? *side says it. */
bool fence_has(const struct fenced *f, const void *at, int *side);
/* Is what lies around the array as it was? */
bool fence_holds(const struct fenced *f);
void fence_free(const struct fenced *f);

END_C

#endif
