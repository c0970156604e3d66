/*
 * L5-one-thread.c
 * why: one thread does the work of all
 * loses: 10
 */
#include "lab.h"

#include <math.h>

/* Thread 0 does as in lab 1, token by token, and keeps O of all rows to itself. */
void lab_kernel(const struct lab_cta *c)
{
    int rows = c->queries * c->ratio, d = c->head_dim, run = 0;
    float o[16][64], max[16], sum[16], k[64], v[64];
    if (c->thread != 0)
        return;
    for (int row = 0; row < rows; row++) {
        max[row] = -INFINITY;
        sum[row] = 0;
        for (int x = 0; x < d; x++)
            o[row][x] = 0;
    }
    for (int t = 0; t < c->tokens; t++) {
        int64_t page = lab_get(c->page_table, t / c->page_size);
        int64_t at = ((page * c->page_size + t % c->page_size) * c->kv_heads + c->kv_head) * d;
        for (int x = 0; x < d; x++) {
            k[x] = lab_get(c->k, at + x);
            v[x] = lab_get(c->v, at + x);
        }
        while (t >= lab_get(c->run_end, run))
            run++;
        for (int row = 0; row < rows; row++) {
            int query = row / c->ratio, head = c->kv_head * c->ratio + row % c->ratio;
            float s = 0;
            for (int x = 0; x < d; x++)
                s += lab_get(c->q, (query * c->kv_heads * c->ratio + head) * d + x) * k[x];
            if (!(lab_get(c->mask, run) >> query & 1))
                continue;
            float more = fmaxf(max[row], s * c->scale), keep = expf(max[row] - more), p = expf(s * c->scale - more);
            for (int x = 0; x < d; x++)
                o[row][x] = keep * o[row][x] + p * v[x];
            sum[row] = keep * sum[row] + p;
            max[row] = more;
        }
    }
    for (int row = 0; row < rows; row++) {
        int place = row / c->ratio * c->kv_heads * c->ratio + c->kv_head * c->ratio + row % c->ratio;
        for (int x = 0; x < d; x++)
            lab_set(c->o, place * d + x, sum[row] > 0 ? o[row][x] / sum[row] : 0);
        lab_set(c->lse, place, sum[row] > 0 ? max[row] + logf(sum[row]) : -INFINITY);
    }
}
