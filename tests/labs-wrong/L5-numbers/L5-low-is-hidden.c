/*
 * L5-low-is-hidden.c
 * why: scores of -1e4 and less are taken for those of hidden tokens
 * loses: 7
 */
#include "lab.h"

#include <math.h>

/* Where element x of a token stands in K and V. */
static int64_t place(const struct lab_cta *c, int token, int x)
{
    int64_t page = lab_get(c->page_table, token / c->page_size);
    return ((page * c->page_size + token % c->page_size) * c->kv_heads + c->kv_head) * c->head_dim + x;
}

/* Of a row, in Q and O: its query and head. */
static int row_of(const struct lab_cta *c, int row)
{
    return row / c->ratio * c->kv_heads * c->ratio + c->kv_head * c->ratio + row % c->ratio;
}

static int sees(const struct lab_cta *c, int row, int token)
{
    int run = 0;
    while (token >= lab_get(c->run_end, run))
        run++;
    return lab_get(c->mask, run) >> (row / c->ratio) & 1;
}

void lab_kernel(const struct lab_cta *c)
{
    int rows = c->queries * c->ratio, d = c->head_dim, me = c->thread, step = c->threads;
    LAB_SHARED(s_q, rows * d);
    LAB_SHARED(s_o, rows * d);
    LAB_SHARED(s_k, c->tile_n * d);
    LAB_SHARED(s_v, c->tile_n * d);
    LAB_SHARED(s_p, rows * c->tile_n);
    LAB_SHARED(s_keep, rows);
    LAB_SHARED(s_sum, rows);
    LAB_SHARED(s_max, rows);
    for (int i = me; i < rows * d; i += step) {
        lab_set(s_q, i, lab_get(c->q, row_of(c, i / d) * d + i % d));
        lab_set(s_o, i, 0);
    }
    for (int row = me; row < rows; row += step) {
        lab_set(s_max, row, -INFINITY);
        lab_set(s_sum, row, 0);
    }
    for (int first = 0; first < c->tokens; first += c->tile_n) {
        int n = c->tokens - first < c->tile_n ? c->tokens - first : c->tile_n;
        for (int i = me; i < n * d; i += step) {
            int64_t at = place(c, first + i / d, i % d);
            lab_set(s_k, i, lab_get(c->k, at));
            lab_set(s_v, i, lab_get(c->v, at));
        }
        lab_barrier();
        for (int i = me; i < rows * n; i += step) {
            int row = i / n, t = i % n;
            float s = 0;
            for (int x = 0; x < d; x++)
                s += lab_get(s_q, row * d + x) * lab_get(s_k, t * d + x);
            lab_set(s_p, row * c->tile_n + t, sees(c, row, first + t) ? s * c->scale : -1e4f);
        }
        lab_barrier();
        for (int row = me; row < rows; row += step) {
            float max = lab_get(s_max, row), more = max, sum = 0;
            for (int t = 0; t < n; t++)
                more = fmaxf(more, lab_get(s_p, row * c->tile_n + t));
            float keep = more == -INFINITY ? 1 : expf(max - more);
            for (int t = 0; t < n; t++) {
                float s = lab_get(s_p, row * c->tile_n + t), p = s <= -1e4f ? 0 : expf(s - more);
                lab_set(s_p, row * c->tile_n + t, p);
                sum += p;
            }
            lab_set(s_sum, row, keep * lab_get(s_sum, row) + sum);
            lab_set(s_keep, row, keep);
            lab_set(s_max, row, more);
        }
        lab_barrier();
        for (int i = me; i < rows * d; i += step) {
            int row = i / d, x = i % d;
            float o = lab_get(s_keep, row) * lab_get(s_o, i);
            for (int t = 0; t < n; t++)
                o += lab_get(s_p, row * c->tile_n + t) * lab_get(s_v, t * d + x);
            lab_set(s_o, i, o);
        }
        lab_barrier();
    }
    lab_barrier();
    for (int i = me; i < rows * d; i += step) {
        float sum = lab_get(s_sum, i / d);
        lab_set(c->o, row_of(c, i / d) * d + i % d, sum > 0 ? lab_get(s_o, i) / sum : 0);
    }
    for (int row = me; row < rows; row += step) {
        float sum = lab_get(s_sum, row);
        lab_set(c->lse, row_of(c, row), sum > 0 ? lab_get(s_max, row) + logf(sum) : -INFINITY);
    }
}
