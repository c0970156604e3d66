/* wrong_features.c - mistakes in what some models add to attention: soft caps, sinks, K and V in 8 bits (wrong.h). */
#include "verify/compare/wrong_read.h"

#include <math.h>

double wrong_log_sum(double a, double b)
{
    double max = fmax(a, b);
    return max == -INFINITY ? max : max + log(exp(a - max) + exp(b - max));
}

void wrong_fp8_row(const struct heads *h, const uint8_t *stored, const double *instead, enum wrong_bits bits,
                   double scale, double *out)
{
    enum dtype t = heads_kv_dtype(h), other = t == DT_E4M3 ? DT_E5M2 : DT_E4M3;
    int exponent = t == DT_E4M3 ? 0x78 : 0x7C;
    for (int32_t e = 0; e < h->d; e++) {
        uint8_t code = stored[e];
        if (instead)
            dtype_store(t, &code, 0, instead[e]);
        double x = dtype_load(bits == BITS_OTHER ? other : t, &code, 0);
        if (bits == BITS_BIAS || bits == BITS_FNUZ)
            x = bits == BITS_FNUZ && code == 0x80 ? (double)NAN : x / 2;
        if (bits == BITS_FLUSHED && (code & exponent) == 0)
            x = 0;
        out[e] = x * scale;
        if (bits == BITS_F16)
            out[e] = f16_to_double(f16_from_double(out[e]));
        else if (bits == BITS_BF16)
            out[e] = bf16_to_double(bf16_from_double(out[e]));
    }
}

double wrong_capped(const struct problem *p, enum wrong_cap cap, double dot, double scale)
{
    double x = scale * dot, c = p->soft_cap;
    if (c <= 0)
        return x;
    switch (cap) {
    case CAP_RIGHT:
        break;
    case CAP_NONE:
        return x;
    case CAP_TWICE:
        return c * tanh(tanh(x / c));
    case CAP_BEFORE_SCALE:
        return scale * c * tanh(dot / c);
    case CAP_UNDIVIDED:
        return c * tanh(x);
    case CAP_NOT_BACK:
        return tanh(x / c);
    case CAP_CLAMPED:
        return fmin(fmax(x, -c), c);
    case CAP_HALVED:
        return c / 2 * tanh(x / (c / 2));
    case CAP_DOUBLED:
        return c * 2 * tanh(x / (c * 2));
    }
    return c * tanh(x / c);
}

/* Splits that a kernel makes of the longest context, cut that way; -1: as many as each context has. */
static int64_t most_splits(const struct wrong_case *c, const struct wrong_way *way)
{
    int64_t longest = 0;
    if (way->cut == CUT_PLAN && c->plan)
        return c->most_groups;
    for (int32_t q = 0; q < c->p->tree->n_queries; q++)
        longest = max_i64(longest, c->orc->ctx[q]);
    return way->cut == CUT_PARTS ? way->x : way->cut == CUT_BLOCKS ? ceil_div(longest, way->x) : -1;
}

double wrong_sink_of(const struct wrong_row *r, const struct wrong *w, const struct wrong_way *way, int64_t n_parts,
                     double max)
{
    const struct problem *p = r->c->p;
    double own = problem_sink(p, r->h);
    if (own == -INFINITY)
        return own;
    switch (w->sink) {
    case SINK_RIGHT:
    case SINK_NOT_IN_O:
    case SINK_NOT_IN_LSE:
        break;
    case SINK_NONE:
        return -INFINITY;
    case SINK_OF_LAST_SPLIT:
        return n_parts > 0 && n_parts < most_splits(r->c, way) ? -INFINITY : own;
    case SINK_EACH:
        return own + log((double)n_parts);
    case SINK_TWICE:
        return own + M_LN2;
    case SINK_OF_HEAD:
        return problem_sink(p, wrong_head(r, w->sink_head));
    case SINK_OF_KV_HEAD:
        return problem_sink(p, r->h / heads_gqa(&p->heads));
    case SINK_SCALED:
        return p->scale * own;
    case SINK_CAPPED:
        return p->soft_cap > 0 ? p->soft_cap * tanh(own / p->soft_cap) : own;
    case SINK_BASE_2:
        return own * M_LN2;
    case SINK_AS_WEIGHT: /* sum + sink, where the sum is of exp(score - max) */
        return r->n == 0 ? own : own > 0 ? max + log(own) : NAN;
    case SINK_NOT_SHIFTED:
        return r->n == 0 ? own : max + own;
    }
    return own;
}
