#include "sim/fit/fit_time_model.h"

#include <math.h>

/* The digits of i in that base, in reverse order behind the point. */
static double radical_inverse(int32_t i, int32_t base)
{
    double digit = 1, sum = 0;
    for (; i > 0; i /= base) {
        digit /= base;
        sum += digit * (i % base);
    }
    return sum;
}

static double between(double from, double to, double share)
{
    return from > 0 ? from * pow(to / from, share) : share < 0.5 ? from : to;
}

void time_model_fit_point(int32_t point, double inner[N_CLOCKFIT_INNER])
{
    static const int32_t base[N_CLOCKFIT_INNER] = {2, 3, 5, 7, 11, 13, 17};
    struct time_model_coefs c = time_model_coefs_default();
#define X(name, from, to)                                                                                    \
    inner[CLOCKFIT_##name] =                                                                                 \
        point == 0 ? c.name : between(from, to, radical_inverse(point, base[CLOCKFIT_##name]));
    CLOCKFIT_INNER(X)
#undef X
}

void time_model_fit_of(const struct plan *p, const struct heads *heads, const struct machine *mc,
                       const double *inner, double out[N_CLOCKFIT])
{
    struct time_model_coefs coefs = time_model_coefs_default();
#define X(name, from, to) coefs.name = inner[CLOCKFIT_##name];
    CLOCKFIT_INNER(X)
#undef X
    struct time_model c = time_model_plan(p, heads, mc, &coefs, 0, CLOCK_TOTALS);
    out[CLOCKFIT_KERNEL] = c.kernel_s;
    out[CLOCKFIT_LAUNCH] = c.feature[CLOCK_serial] * mc->launch_ns * 1e-9;
    out[CLOCKFIT_BASE] = 1;
    out[CLOCKFIT_CONCURRENT] = c.feature[CLOCK_concurrent] * mc->launch_ns * 1e-9;
    time_model_free(&c);
}
