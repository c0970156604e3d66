#include "traces/gen_trace.h"

#include "ref/rng.h"

#include <stdlib.h>

/* Shape of the reasoning tree; the ranges of lengths are near those of the sorting task's recorded runs. */
enum { FANOUT = 10, DEPTH = 10 };

/* Streams of the counter-based generator, one per quantity. */
enum { STREAM_LEAF, STREAM_BRANCH, STREAM_WHICH, STREAM_PROMPT, STREAM_PARENT, STREAM_ACCEPT };

struct reasoning *reasoning_gen(uint64_t seed)
{
    struct reasoning *r = reasoning_new(1 + FANOUT * DEPTH);
    int64_t prompt = 1060 + rng_below(seed, STREAM_PROMPT, 0, 80);
    r->node[0] = (struct reasoning_node){.parent = -1, .value = prompt, .start = 1 - prompt, .end = 0};
    int32_t parent = 0;
    for (int32_t level = 0; level < DEPTH; level++) {
        int32_t first = 1 + level * FANOUT,
                branch = first + (int32_t)rng_below(seed, STREAM_WHICH, level, FANOUT);
        for (int32_t i = first; i < first + FANOUT; i++) {
            /* The smaller of two draws: many short thoughts, a few that run on beside the next levels. */
            int64_t a = rng_below(seed, STREAM_LEAF, 2 * i, 1100),
                    b = rng_below(seed, STREAM_LEAF, 2 * i + 1, 1100);
            int64_t value = 120 + min_i64(a, b);
            if (i == branch)
                value = 320 + rng_below(seed, STREAM_BRANCH, level, 160);
            if (level == 0)
                value += 240; /* the first attempt writes the whole answer, later ones correct it */
            int64_t start = r->node[parent].end + 1;
            r->node[i] = (struct reasoning_node){parent, value, start, start + value - 1};
        }
        parent = branch;
    }
    return r;
}

static int parent_compare(const void *a, const void *b)
{
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

struct speculative *speculative_gen(int32_t n_tokens, uint64_t seed)
{
    enum { N_STEPS = 400, MAX_DEPTH = 4, MAX_ACCEPT = MAX_DEPTH + 1 };
    struct speculative *s = speculative_new(n_tokens, N_STEPS);
    s->prompt = 900 + rng_below(seed, STREAM_PROMPT, 0, 200);

    /* Early tokens get more children, as the likelier candidates do. Sorting keeps every parent before its
     * children and makes the order breadth first, so that depths never decrease and the last inner node is a
     * bound. */
    for (int32_t i = 1; i < n_tokens; i++)
        s->parent[i] = (int32_t)min_i64(rng_below(seed, STREAM_PARENT, 2 * (uint64_t)i, i),
                                        rng_below(seed, STREAM_PARENT, 2 * (uint64_t)i + 1, i));
    qsort(s->parent, (size_t)n_tokens, sizeof *s->parent, parent_compare);
    int32_t *depth = xcalloc((size_t)n_tokens, sizeof *depth), last_inner = 0;
    for (int32_t i = 1; i < n_tokens; i++) {
        if (depth[s->parent[i]] == MAX_DEPTH)
            s->parent[i] = last_inner;
        depth[i] = depth[s->parent[i]] + 1;
        if (depth[i] < MAX_DEPTH)
            last_inner = i;
    }
    free(depth);

    for (int32_t i = 0; i < N_STEPS; i++) {
        int64_t n = 1;
        for (int32_t k = 1;
             k < MAX_ACCEPT && rng_below(seed, STREAM_ACCEPT, (uint64_t)i * MAX_ACCEPT + k, 4) > 0; k++)
            n++;
        s->accept[i] = min_i64(n, n_tokens);
    }
    return s;
}
