/*
 * L5-rows.c - lab 5 in another style: a thread has a row, with Q and O in its own variables, and goes token by token as in lab 1. All
 * threads load the tile, a token each. Threads without a row come to the barriers, too.
 */
#include "lab.h"

#include <math.h>

void lab_kernel(const struct lab_cta *c)
{
    int rows = c->queries * c->ratio, d = c->head_dim, row = c->thread;
    LAB_SHARED(s_k, 64 * 64);
    LAB_SHARED(s_v, 64 * 64);
    float q[64], o[64], s[64], max = -INFINITY, sum = 0;
    int query = row / c->ratio, place = query * c->kv_heads * c->ratio + c->kv_head * c->ratio + row % c->ratio;
    for (int x = 0; x < d && row < rows; x++) {
        q[x] = lab_get(c->q, place * d + x);
        o[x] = 0;
    }
    for (int first = 0; first < c->tokens; first += c->tile_n) {
        int n = c->tokens - first < c->tile_n ? c->tokens - first : c->tile_n;
        for (int t = c->thread; t < n; t += c->threads) {
            int64_t page = lab_get(c->page_table, (first + t) / c->page_size);
            int64_t at = ((page * c->page_size + (first + t) % c->page_size) * c->kv_heads + c->kv_head) * d;
            for (int x = 0; x < d; x++) {
                lab_set(s_k, t * d + x, lab_get(c->k, at + x));
                lab_set(s_v, t * d + x, lab_get(c->v, at + x));
            }
        }
        lab_barrier();
        if (row < rows) {
            int run = 0;
            for (int t = 0; t < n; t++) {
                while (first + t >= lab_get(c->run_end, run))
                    run++;
                s[t] = 0;
                for (int x = 0; x < d; x++)
                    s[t] += q[x] * lab_get(s_k, t * d + x);
                s[t] = lab_get(c->mask, run) >> query & 1 ? s[t] * c->scale : -INFINITY;
            }
            for (int t = 0; t < n; t++) {
                if (s[t] == -INFINITY)
                    continue;
                float more = fmaxf(max, s[t]), keep = expf(max - more), p = expf(s[t] - more);
                for (int x = 0; x < d; x++)
                    o[x] = o[x] * keep + p * lab_get(s_v, t * d + x);
                sum = sum * keep + p;
                max = more;
            }
        }
        lab_barrier();
    }
    if (row >= rows)
        return;
    for (int x = 0; x < d; x++)
        lab_set(c->o, place * d + x, sum > 0 ? o[x] / sum : 0);
    lab_set(c->lse, place, sum > 0 ? max + logf(sum) : -INFINITY);
}
