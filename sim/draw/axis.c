#include "sim/draw/axis.h"

#include <math.h>

enum { NARROWEST = 34 };

/* Widths of the stretches: each by its length, or the least; stretches below it are set to it until none is left. */
static bool widths_of(const double *tick, int32_t n, double width, double *out)
{
    double least = fmin(NARROWEST, width / n), left = width, rest = tick[n] - tick[0];
    bool fixed[AXIS_STRETCHES] = {false}, more = true, any = false;
    while (more) {
        more = false;
        for (int32_t i = 0; i < n; i++) {
            double len = tick[i + 1] - tick[i];
            if (fixed[i] || len * left >= least * rest)
                continue;
            fixed[i] = more = any = true;
            out[i] = least;
            left -= least;
            rest -= len;
        }
    }
    for (int32_t i = 0; i < n; i++)
        if (!fixed[i])
            out[i] = (tick[i + 1] - tick[i]) * left / rest;
    return any;
}

struct axis axis_of(const double *tick, int64_t n, double left, double width)
{
    struct axis a = {.n = (int32_t)n - 1};
    double w[AXIS_STRETCHES];
    CK(n >= 2 && n - 1 <= AXIS_STRETCHES && tick[n - 1] > tick[0]);
    a.widened = widths_of(tick, a.n, width, w);
    for (int32_t i = 0; i <= a.n; i++) {
        a.at[i] = tick[i];
        a.place[i] = i == 0 ? left : a.place[i - 1] + w[i - 1];
    }
    return a;
}

double axis_place(const struct axis *a, double v)
{
    int32_t i = 0;
    while (i < a->n - 1 && v >= a->at[i + 1])
        i++;
    return a->place[i] + (v - a->at[i]) / (a->at[i + 1] - a->at[i]) * (a->place[i + 1] - a->place[i]);
}

double axis_step(double all, int32_t most)
{
    double step = pow(10, floor(log10(all / most)));
    static const double times[] = {1, 2, 5, 10};
    for (int i = 0; i < 3; i++)
        if (all / (times[i] * step) <= most)
            return times[i] * step;
    return 10 * step;
}
