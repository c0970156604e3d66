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
