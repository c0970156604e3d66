/*
 * L1-merge-not-divided.c
 * why: O is not divided by the sum of the weights
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
    float w1 = expf(*lse - max), w2 = expf(lse2 - max), sum = w1 + w2;
    for (int x = 0; x < d; x++)
        o[x] = w1 * o[x] + w2 * o2[x];
    *lse = max + logf(sum);
}
