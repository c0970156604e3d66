/* no_gsl.c - in the place of least_squares.c, in a program that may be given away without GSL's licence: nothing is fitted. */
#include "sim/fit/least_squares.h"

bool fit_linear(const struct fit_data *d, bool nonneg, struct fit *out, struct err *e)
{
    (void)d, (void)nonneg, (void)out;
    return err_missing(e, "this program was built without GSL: it fits nothing");
}

double fit_search(const struct fit_search *s, double *x)
{
    double slope[FIT_MAX_COEF];
    return s->of(x, slope, s->data);
}

void fit_predict(const struct fit *f, int64_t n, const double *x, double *out)
{
    (void)f, (void)x;
    for (int64_t i = 0; i < n; i++)
        out[i] = 0;
}
