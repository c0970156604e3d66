#include "ref/lse.h"

#include <math.h>
#include <string.h>

/* The empty partial is the only one with lse = -inf. Testing for it first keeps the other side's bits and
 * avoids (-inf) - (-inf); a NaN in o_b or lse_b is never equal to -inf, so it goes through the arithmetic. */
void lse_merge(double *o_a, double *lse_a, const double *o_b, double lse_b, int32_t d)
{
    if (lse_b == -INFINITY)
        return;
    if (*lse_a == -INFINITY) {
        memcpy(o_a, o_b, (size_t)d * sizeof *o_a);
        *lse_a = lse_b;
        return;
    }
    double top = *lse_a > lse_b ? *lse_a : lse_b;
    double wa = exp(*lse_a - top), wb = exp(lse_b - top);
    double sum = wa + wb;
    for (int32_t i = 0; i < d; i++)
        o_a[i] = (wa * o_a[i] + wb * o_b[i]) / sum;
    *lse_a = top + log(sum);
}

void lse_merge_f(float *o_a, float *lse_a, const float *o_b, float lse_b, int32_t d)
{
    if (lse_b == -INFINITY)
        return;
    if (*lse_a == -INFINITY) {
        memcpy(o_a, o_b, (size_t)d * sizeof *o_a);
        *lse_a = lse_b;
        return;
    }
    float top = *lse_a > lse_b ? *lse_a : lse_b;
    float wa = expf(*lse_a - top), wb = expf(lse_b - top);
    float sum = wa + wb;
    for (int32_t i = 0; i < d; i++)
        o_a[i] = (wa * o_a[i] + wb * o_b[i]) / sum;
    *lse_a = top + logf(sum);
}

void lse_merge_many_f(float *out, float *out_lse, const float *o, const float *lse, int64_t n, int32_t d)
{
    float top = -INFINITY;
    int64_t full = 0, last = -1; /* partials that are not empty */
    for (int64_t s = 0; s < n; s++) {
        if (lse[s] == -INFINITY)
            continue;
        full++;
        last = s;
        if (!(lse[s] <= top)) /* NaN becomes the maximum and so reaches the output */
            top = lse[s];
    }
    if (full <= 1) {
        if (full == 0)
            memset(out, 0, (size_t)d * sizeof *out);
        else
            memcpy(out, o + last * d, (size_t)d * sizeof *out);
        *out_lse = full == 0 ? -INFINITY : lse[last];
        return;
    }
    float sum = 0;
    memset(out, 0, (size_t)d * sizeof *out);
    for (int64_t s = 0; s < n; s++) {
        if (lse[s] == -INFINITY)
            continue;
        float w = expf(lse[s] - top);
        sum += w;
        for (int32_t i = 0; i < d; i++)
            out[i] += w * o[s * d + i];
    }
    for (int32_t i = 0; i < d; i++)
        out[i] /= sum;
    *out_lse = top + logf(sum);
}
