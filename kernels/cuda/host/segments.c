/* segments.c - guided self-scheduling of items and heads. */
#include "kernels/cuda/host/segments.h"
#include "ref/base.h"

/* Adds n items from `first` on, with so many heads a CTA. */
static void add_segment(struct cuda_ctas *c, int64_t first, int64_t n, int32_t heads)
{
    int32_t groups = (int32_t)ceil_div(c->h_kv, heads), teams = groups * c->teams;
    c->segment[c->n_segments++] = (struct cuda_segment){.cta0 = c->n,
                                                        .item0 = (int32_t)first,
                                                        .head_groups = groups,
                                                        .head_shift = shift_of(groups),
                                                        .team_heads = c->h_kv / teams,
                                                        .teams_more = c->h_kv % teams};
    c->n += (int32_t)n * groups;
}

/* Bytes that an item moves for a head, K and V in whole chunks. */
static double item_bytes(const struct cuda_ctas *c, const struct cuda_item *it)
{
    return (double)ceil_div(it->n_kv, c->chunk) * c->chunk * c->d * 4 + it->n_rows * (c->d * 6.0 + 8);
}

/* Heads of a CTA, for items of so many bytes a head, when `left` bytes are left. */
static int32_t heads_of(const struct cuda_ctas *c, double bytes, double left)
{
    int32_t heads = 1;
    while (2 * heads <= c->h_kv)
        heads *= 2;
    while (heads > c->teams && heads * bytes > left / (double)c->slots + c->teams * bytes)
        heads /= 2;
    return heads;
}

void to_segments(struct cuda_ctas *c, const struct cuda_item *item, int64_t n_items)
{
    int32_t heads = 1;
    int64_t first = 0;
    double left = 0;
    for (int i = 0; i < CUDA_SEGMENTS; i++)
        c->segment[i].cta0 = INT32_MAX;
    for (int64_t i = 0; i < n_items; i++)
        left += item_bytes(c, &item[i]) * c->h_kv;
    for (int64_t i = 0; i < n_items && c->by_head; i++) {
        double bytes = item_bytes(c, &item[i]);
        int32_t now = heads_of(c, bytes, left);
        left -= bytes * c->h_kv;
        int32_t more = CUDA_SEGMENTS - 1 - c->n_segments; /* segments, behind this one */
        bool much_shorter = 2 * bytes <= item_bytes(c, &item[first]);
        if (i > 0 && (now < heads ? more < 1 : now == heads || more < 2 || !much_shorter))
            continue;
        if (i > 0)
            add_segment(c, first, i - first, heads);
        first = i;
        heads = now;
    }
    add_segment(c, first, n_items - first, heads);
}
