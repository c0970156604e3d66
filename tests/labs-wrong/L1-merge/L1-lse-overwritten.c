/*
 * L1-lse-overwritten.c
 * why: LSE is overwritten before it serves as a weight
 * loses: 7 8
 */
#include "lab.h"

#include <math.h>

void lab_attend(const float *q, const float *k, const float *v, int n, int d, float scale, float *o, float *lse)
{
    float max = -INFINITY, sum = 0;
    for (int x = 0; x < d; x++)
        o[x] = 0;
    for (int i = 0; i < n; i++) {
        float score = 0;
        for (int x = 0; x < d; x++)
            score += q[x] * k[i * d + x];
        score *= scale;
        float more = fmaxf(max, score), keep = expf(max - more), add = expf(score - more);
        for (int x = 0; x < d; x++)
            o[x] = keep * o[x] + add * v[i * d + x];
        sum = keep * sum + add;
        max = more;
    }
    for (int x = 0; x < d && n > 0; x++)
        o[x] /= sum;
    *lse = n > 0 ? max + logf(sum) : -INFINITY;
}

void lab_merge(float *o, float *lse, const float *o2, float lse2, int d)
{
    float max = fmaxf(*lse, lse2);
    if (max == -INFINITY) /* both are empty */
        return;
    *lse = max + logf(expf(*lse - max) + expf(lse2 - max));
    for (int x = 0; x < d; x++)
        o[x] = expf(*lse - *lse) * o[x] + expf(lse2 - *lse) * o2[x];
}
