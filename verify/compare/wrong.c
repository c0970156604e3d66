/* wrong.c - see wrong.h. */
#include "verify/compare/wrong_read.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_KEPT = 1 << 17 /* partial results that are kept for a row */ };
#define TAIL_JUNK 6e4 /* as verify/child/views.c has it */

/* ---- numbers ------------------------------------------------------------------------------------------ */

/* To `digits` binary digits, none below 2^least; beyond `most` to that, or to infinity. */
static double rounded(double x, int digits, int least, double most, bool saturates)
{
    if (!isfinite(x) || x == 0)
        return x;
    int e;
    frexp(x, &e);
    double unit = ldexp(1, (e - digits > least ? e - digits : least)), y = rint(x / unit) * unit;
    if (fabs(y) > most)
        return copysign(saturates ? most : INFINITY, x);
    return y;
}

static double stored(enum store how, double x, double n)
{
    switch (how) {
    case STORE_ALL:
        return x;
    case STORE_F16:
        return rounded(x, 11, -24, 65504, false);
    case STORE_F16_MOST:
        return rounded(x, 11, -24, 65504, true);
    case STORE_BF16:
        return rounded(x, 8, -133, 3.3895e38, false);
    case STORE_E4M3:
        return rounded(x, 4, -9, 448, true);
    case STORE_E5M2:
        return rounded(x, 3, -16, 57344, true);
    case STORE_CLAMPED:
        return fmin(fmax(x, -n), n);
    case STORE_SOFT:
        return n * tanh(x / n);
    case STORE_FLUSHED:
        return fabs(x) < n ? 0 : x;
    }
    return x;
}

/* A weight as the kernel's type has it: those too large or too small for it are inf or 0. */
static double weight(const struct wrong_case *c, double x)
{
    double e = exp(x);
    return c->a.accumulate == DT_F64 ? e : e > FLT_MAX ? INFINITY : e < 1e-45 ? 0 : e;
}

static int32_t power_of_two(int32_t n, bool up)
{
    int32_t x = 1;
    while (x < n)
        x *= 2;
    return x > n && !up ? x / 2 : x;
}

/* x: of H_BY_SIZE and H_BY_POWER. */
static int32_t head_of(const struct wrong_row *r, enum of_head how, int32_t h, bool kv, double x_of)
{
    const struct heads *x = &r->c->p->heads;
    int32_t n = kv ? x->h_kv : x->h_q, own = kv ? h / heads_gqa(x) : h, g = heads_gqa(x);
    switch (how) {
    case H_OWN:
        return own;
    case H_FIRST:
        return 0;
    case H_LAST:
        return n - 1;
    case H_NEXT:
        return (own + 1) % n;
    case H_BEFORE:
        return (own + n - 1) % n;
    case H_REVERSED:
        return n - 1 - own;
    case H_MODULO:
        return h % x->h_kv;
    case H_BY_HEADS:
        return (int32_t)min_i64(h / x->h_kv, x->h_kv - 1);
    case H_BY_HEADS_AROUND:
        return h / x->h_kv % x->h_kv;
    case H_UNDIVIDED:
        return h;
    case H_BY_SIZE:
        return (int32_t)min_i64(h / (int32_t)x_of, x->h_kv - 1);
    case H_BY_POWER:
        return (int32_t)min_i64(h / power_of_two(g, x_of >= 0), x->h_kv - 1);
    case H_TURNED:
        return h % g * x->h_kv + h / g;
    case H_TURNED_BACK:
        return h % x->h_kv * g + h / x->h_kv;
    }
    return own;
}

int32_t wrong_head(const struct wrong_row *r, enum of_head how)
{
    return head_of(r, how, r->h, false, 0);
}

/* ---- K and V ------------------------------------------------------------------------------------------ */

/* Which row of [slot][h_kv] is read for a slot and a KV head; -1: none of the pool. */
static int64_t pool_row(const struct problem *p, enum wrong_pool pool, int64_t slot, int32_t head)
{
    int64_t h = p->heads.h_kv, size = p->page_size, slots = p->n_pages * size, flat = slot * h + head;
    if (slot < 0 || slot >= slots)
        return -1;
    if (pool == POOL_HEAD_MAJOR) /* of [page][token][head] as [page][head][token] */
        flat = (slot / size * h + head) * size + slot % size;
    else if (pool == POOL_TOKEN_MAJOR) /* and the other way round */
        flat = (flat / (h * size) * size + flat % size) * h + flat / size % h;
    else if (pool == POOL_ALL_HEAD_MAJOR)
        flat = head * slots + slot;
    return flat < slots * h ? flat : -1;
}

static void load_few(const struct wrong_case *c, bool v, enum wrong_pool pool, int64_t slot, int32_t head,
                     enum wrong_bits bits, double scale, double *out);

/* d elements of K or V of a slot, as the kernel found them; those in 8 bits are read as `bits` says, and multiplied by `scale`. */
static void load(const struct wrong_case *c, bool v, enum wrong_pool pool, int64_t slot, int32_t head,
                 enum wrong_bits bits, double scale, double *out)
{
    const struct problem *p = c->p;
    int32_t d = p->heads.d;
    int64_t row = pool_row(p, pool, slot, head);
    if (pool == POOL_PAGES_IN_TURN || pool == POOL_TOKENS_IN_TURN) {
        int64_t unit = pool == POOL_PAGES_IN_TURN ? p->page_size : 1, turn = slot / unit + v;
        load(c, turn % 2 != 0, POOL_OWN, turn / 2 * unit + slot % unit, head, bits, scale, out);
        return;
    }
    if (pool >= POOL_K_AS_V) {
        load_few(c, v, pool, slot, head, bits, scale, out);
        return;
    }
    bool other = pool == POOL_EXCHANGED || pool == (v ? POOL_K_FOR_V : POOL_V_FOR_K);
    for (int32_t e = 0; e < d && row < 0; e++)
        out[e] = NAN;
    if (row < 0)
        return;
    int64_t at = row / p->heads.h_kv, page = at / p->page_size;
    bool junk = c->page_seen && c->page_seen[page] > 0 && at % p->page_size >= c->page_seen[page];
    for (int32_t e = 0; e < d && junk; e++)
        out[e] = stored(p->heads.dtype == DT_BF16 ? STORE_BF16 : STORE_ALL,
                        (row * d + e) & 1 ? TAIL_JUNK : -TAIL_JUNK, 0);
    const void *from = v != other ? p->v : p->k;
    if (heads_fp8(&p->heads))
        wrong_fp8_row(&p->heads, (const uint8_t *)from + row * d, junk ? out : NULL, bits, scale, out);
    else if (!junk)
        dtype_to_double(p->heads.dtype, from, row * d, out, d);
}

/* n elements from number `first` on of an array that has rows of `width`, as slots and KV heads are counted; none are NaN. */
static void load_flat(const struct wrong_case *c, bool v, int32_t width, int64_t first, int32_t n,
                      enum wrong_bits bits, double scale, double *out)
{
    const struct problem *p = c->p;
    int64_t slots = p->n_pages * p->page_size;
    double row[PROBLEM_MAX_ROW];
    for (int32_t e = 0; e < n;) {
        int64_t at = (first + e) / width, slot = at / p->heads.h_kv;
        int32_t column = (int32_t)((first + e) % width);
        if (slot >= slots)
            slot = -1;
        load(c, v, POOL_OWN, slot, (int32_t)(at % p->heads.h_kv), bits, scale, row);
        for (; column < width && e < n; column++)
            out[e++] = row[column];
    }
}

/* The same where V has fewer elements than K, and one of them is read as if it did not, or as if it lay elsewhere. */
static void load_few(const struct wrong_case *c, bool v, enum wrong_pool pool, int64_t slot, int32_t head,
                     enum wrong_bits bits, double scale, double *out)
{
    const struct heads *h = &c->p->heads;
    int32_t d = h->d, d_v = heads_d_v(h);
    int64_t row = slot * h->h_kv + head;
    bool in_k = heads_v_in_k(h);
    if (pool == POOL_V_NEXT && v)
        load(c, v, POOL_OWN, slot + 1, head, bits, scale, out);
    else if (pool == POOL_V_LAST && v)
        load_flat(c, false, d, row * d + d - d_v, d_v, bits, scale, out);
    else if (pool == POOL_V_AS_K && v)
        load_flat(c, true, d_v, row * d, d_v, bits, scale, out);
    else if ((pool == POOL_K_AS_V && !v) || pool == POOL_KV_AS_V)
        load_flat(c, v && !in_k, d, row * d_v, v ? d_v : d, bits, scale, out);
    else
        load(c, v, POOL_OWN, slot, head, bits, scale, out);
}

/* What the K, or V, of a KV head is multiplied by, where it is in 8 bits. */
static double kv_scale(const struct wrong_row *r, const struct wrong *w, bool v, int32_t head)
{
    const struct problem *p = r->c->p;
    int32_t n = p->heads.h_kv;
    head = (int32_t)min_i64(head, n - 1);
    switch (v ? w->v_scales : w->k_scales) {
    case SCALES_RIGHT:
        break;
    case SCALES_NONE:
        return 1;
    case SCALES_TWICE: {
        double once = v ? problem_v_scale(p, head) : problem_k_scale(p, head);
        return once * once;
    }
    case SCALES_DIVIDED:
        return 1 / (v ? problem_v_scale(p, head) : problem_k_scale(p, head));
    case SCALES_OF_OTHER:
        v = !v;
        break;
    case SCALES_OF_HEAD:
        head = head_of(r, w->scale_head, r->h, true, w->n);
        break;
    }
    return v ? problem_v_scale(p, head) : problem_k_scale(p, head);
}

/* Columns of the scores that count: [*from, *to). */
static void columns_of(const struct wrong *w, int32_t d, int32_t d_v, int32_t column, int32_t *from, int32_t *to)
{
    int32_t x = (int32_t)w->n, half = d / 2;
    bool first_half = column < d_v / 2;
    *from = 0;
    *to = d;
    if (w->columns == COL_FIRST_HALF)
        *to = half;
    else if (w->columns == COL_HALVES_APART && first_half)
        *to = half;
    else if (w->columns == COL_HALVES_APART)
        *from = half;
    else if (w->columns == COL_LESS_LAST)
        *to = d - 1;
    else if (w->columns == COL_FIRST_X)
        *to = x < d ? x : d;
    else if (w->columns == COL_FLOOR)
        *to = d / x * x;
    else if (w->columns == COL_OF_V)
        *to = d_v;
    else if (w->columns == COL_BEYOND_V)
        *from = d_v;
}

static double dot_of(struct wrong_row *r, const struct wrong *w, const double *q, int64_t slot, int32_t head,
                     int32_t column)
{
    int32_t from, to, d = r->c->p->heads.d, d_v = heads_d_v(&r->c->p->heads);
    double sum = 0;
    load(r->c, false, w->pool, slot, head, w->k_bits, kv_scale(r, w, false, head), r->k);
    columns_of(w, d, d_v, column, &from, &to);
    if (w->columns == COL_TURNED) {
        for (int32_t e = 0; e < d; e++)
            sum += q[(e + d - d_v) % d] * r->k[e];
        return sum;
    }
    if (w->k_store == STORE_ALL && w->dot_store == STORE_ALL) {
        for (int32_t e = from; e < to; e++)
            sum += q[e] * r->k[e];
        return sum;
    }
    for (int32_t e = from; e < to; e++)
        sum = stored(w->dot_store, sum + q[e] * stored(w->k_store, r->k[e], w->n), w->n);
    return sum;
}

/* ---- scores of the items ------------------------------------------------------------------------------ */

static bool own_scores(const struct wrong *w)
{
    return w->kv_head == H_OWN && w->k_head == H_OWN && w->q_head == H_OWN && w->q_query == Q_OWN &&
           w->columns == COL_OWN && w->k_store == STORE_ALL && w->q_store == STORE_ALL &&
           w->dot_store == STORE_ALL && w->k_scales == SCALES_RIGHT && w->k_bits == BITS_RIGHT &&
           (w->pool == POOL_OWN || w->pool == POOL_K_FOR_V || w->pool == POOL_V_AS_K || w->pool == POOL_V_LAST ||
            w->pool == POOL_V_NEXT);
}

static bool own_values(const struct wrong *w)
{
    bool stored = w->v_store != STORE_ALL && w->written != WRITTEN_ROUNDED; /* that is O */
    return w->kv_head == H_OWN && w->v_head == H_OWN && !stored && w->v_scales == SCALES_RIGHT &&
           w->v_bits == BITS_RIGHT && (w->pool == POOL_OWN || w->pool == POOL_V_FOR_K || w->pool == POOL_K_AS_V);
}

static double scale_of(const struct wrong_row *r, const struct wrong *w)
{
    double scale = r->c->p->scale, root = sqrt(r->c->p->heads.d), root_v = sqrt(heads_d_v(&r->c->p->heads));
    return (w->factor != 0 ? w->factor : 1) * pow(scale, 1 - w->less_scale) * pow(root, w->to_root) *
           pow(root_v, w->to_root_v);
}

/* False: there is no such query. */
static bool score(struct wrong_row *r, const struct wrong *w, int32_t column)
{
    const struct problem *p = r->c->p;
    struct items *x = &r->items;
    int32_t d = p->heads.d, from_q = wrong_query(r->c, r->q, w->q_query),
            head = head_of(r, w->kv_head ? w->kv_head : w->k_head, r->h, true, w->n);
    double *q = r->query, scale = scale_of(r, w), other[PROBLEM_MAX_ROW];
    bool own = own_scores(w);
    if (from_q < 0)
        return false;
    if (!own) {
        dtype_to_double(p->heads.dtype, p->q,
                        ((int64_t)from_q * p->heads.h_q + head_of(r, w->q_head, r->h, false, w->n)) * d,
                        other, d);
        for (int32_t e = 0; e < d; e++)
            other[e] = stored(w->q_store, other[e], w->n);
        q = other;
    }
    r->logit = xgrow(r->logit, &r->cap_logit, x->n + 1, sizeof *r->logit);
    for (int64_t i = 0; i < x->n; i++) {
        double dot = own && x->item[i].at >= 0 ? r->dot[x->item[i].at]
                                               : dot_of(r, w, q, x->item[i].slot, head, column);
        double l = wrong_capped(p, w->cap, dot, scale);
        r->logit[i] = w->score_store ? stored(w->score_store, l, w->n) : l;
    }
    return true;
}

/* Elements of V of an item in the row's columns. */
static const double *value(struct wrong_row *r, const struct wrong *w, const struct item *i, double *room)
{
    if (own_values(w) && i->at >= 0)
        return r->v + i->at * r->n_columns;
    double v[PROBLEM_MAX_ROW];
    int32_t head = head_of(r, w->kv_head ? w->kv_head : w->v_head, r->h, true, w->n);
    load(r->c, true, w->pool, i->slot, head, w->v_bits, kv_scale(r, w, true, head), v);
    for (int32_t e = 0; e < r->n_columns; e++)
        room[e] = w->written == WRITTEN_ROUNDED ? v[r->column[e]] : stored(w->v_store, v[r->column[e]], w->n);
    return room;
}

static bool is_tiles(enum join j)
{
    return j >= TILES_O_KEPT;
}

/* ---- partial results ---------------------------------------------------------------------------------- */

static struct wrong_parts parts_new(int64_t n, int32_t columns)
{
    size_t all = (size_t)n * (size_t)columns;
    return (struct wrong_parts){.n = n,
                                .max = xcalloc((size_t)n, sizeof(double)),
                                .sum = xcalloc((size_t)n, sizeof(double)),
                                .lse = xcalloc((size_t)n, sizeof(double)),
                                .o = xcalloc(all, sizeof(double)),
                                .abs = xcalloc(all, sizeof(double)),
                                .count = xcalloc((size_t)n, sizeof(double)),
                                .outer = xcalloc((size_t)n, sizeof(int32_t))};
}

static void parts_free(struct wrong_parts *x)
{
    free(x->max);
    free(x->sum);
    free(x->lse);
    free(x->o);
    free(x->abs);
    free(x->count);
    free(x->outer);
    *x = (struct wrong_parts){.n = 0};
}

/* Where the maximum of a piece begins, or what it is. */
static double maximum(const struct wrong_row *r, const struct wrong *w, int64_t begin, int64_t end)
{
    double max = -INFINITY;
    for (int64_t i = begin; i < end; i++)
        max = r->logit[i] > max || isnan(r->logit[i]) ? r->logit[i] : max;
    if (w->soft == SOFT_NO_MAX)
        return 0;
    return w->soft == SOFT_MAX_FROM ? fmax(max, w->n) : max;
}

static double weight_of(const struct wrong_row *r, const struct wrong *w, int64_t i, double max)
{
    double l = r->logit[i];
    if (w->soft == SOFT_EVEN)
        return 1;
    if (w->soft == SOFT_TOP)
        return l == max ? 1 : 0;
    return w->soft == SOFT_NO_MAX || w->soft == SOFT_MAX_FROM ? weight(r->c, l - max) : exp(l - max);
}

/* The LSE that is written of items begin .. end - 1, whose own is `right`, and whose sum of weights is sum * e^max. */
static double written_lse(const struct wrong_row *r, const struct wrong *w, int64_t begin, int64_t end,
                          double right, double max)
{
    double log_of_sum = right - max, scale = r->c->p->scale;
    switch (w->lse) {
    case LSE_RIGHT:
        return right;
    case LSE_COMBINED:
        return (w->on_max != 0 ? w->on_max * max : 0) + (w->on_log != 0 ? w->on_log * log_of_sum : 0) +
               w->plus;
    case LSE_OF_SCORES:
        return r->c->orc->lse[r->row];
    case LSE_NO_LOG:
        return max + exp(log_of_sum);
    case LSE_SUM_ALONE:
        return exp(log_of_sum);
    case LSE_EXP:
        return exp(right);
    case LSE_ZERO:
        return 0;
    case LSE_NAN:
        return NAN;
    case LSE_EMPTY:
        return -INFINITY;
    case LSE_UNSCALED:
        return max / scale + log_of_sum;
    case LSE_OF_UNSCALED: {
        double sum = 0, top = max / scale;
        for (int64_t j = begin; j < end; j++)
            sum += exp(r->logit[j] / scale - top);
        return top + log(sum);
    }
    case LSE_TIMES_SCALE:
        return right * scale;
    }
    return right;
}

/* Pieces of the items, whose scores are there. */
static struct wrong_parts partials(struct wrong_row *r, const struct wrong *w)
{
    const struct items *x = &r->items;
    int32_t n = r->n_columns;
    struct wrong_parts part = parts_new(x->n_pieces, n);
    part.n_empty = r->c->merged ? r->c->merged->inputs - r->n : 0;
    double room[WRONG_MAX_COLUMNS];
    for (int64_t k = 0, begin = 0; k < x->n_pieces; begin = x->end[k++]) {
        double *o = part.o + k * n, *abs = part.abs + k * n, max = maximum(r, w, begin, x->end[k]), sum = 0,
               true_sum = 0;
        for (int64_t i = begin; i < x->end[k]; i++) {
            true_sum += exp(r->logit[i] - max);
            double p = x->item[i].times * weight_of(r, w, i, max);
            const double *v = value(r, w, &x->item[i], room);
            sum += p;
            for (int32_t e = 0; e < n; e++) {
                o[e] += p * v[e];
                abs[e] += fabs(p * v[e]);
            }
        }
        for (int32_t e = 0; e < n; e++) {
            o[e] /= sum;
            abs[e] /= sum;
        }
        part.max[k] = max;
        double total = max + log(sum);
        if (w->soft == SOFT_SINK) {
            double all = wrong_log_sum(total, w->n), keep = exp(total - all);
            for (int32_t e = 0; e < n; e++)
                o[e] *= keep;
            total = all;
        }
        part.sum[k] = sum;
        part.lse[k] =
            w->lse == LSE_OF_SCORES ? max + log(true_sum) : written_lse(r, w, begin, x->end[k], total, max);
        part.count[k] = (double)(x->end[k] - begin);
        part.outer[k] = x->outer[k];
    }
    return part;
}

/* What is under way: O, and the same of sizes; the sum of the weights is sum * e^max. */
struct state {
    double o[WRONG_MAX_COLUMNS], abs[WRONG_MAX_COLUMNS], max, sum;
    bool any;
};

static void step(struct state *s, const struct wrong_parts *part, int64_t k, int32_t n, double keep,
                 double add)
{
    for (int32_t e = 0; e < n; e++) {
        s->o[e] = keep * s->o[e] + add * part->o[k * n + e];
        s->abs[e] = fabs(keep) * s->abs[e] + fabs(add) * part->abs[k * n + e];
    }
}

/* ---- merges ------------------------------------------------------------------------------------------- */

/* How often partial result k of m counts. */
static double counted(enum join join, int64_t k, int64_t m, int32_t variant)
{
    bool only = m == 1 && variant == 1; /* who loses one may keep an only one */
    switch (join) {
    case JOIN_FIRST:
        return k == 0;
    case JOIN_LAST:
        return k == m - 1;
    case JOIN_LESS_FIRST:
        return k != 0 || only;
    case JOIN_LESS_LAST:
        return k != m - 1 || only;
    case JOIN_LESS_ANY:
        return k != variant;
    case JOIN_FIRST_TWICE:
        return k == 0 ? 2 : 1;
    case JOIN_LAST_TWICE:
        return k == m - 1 ? 2 : 1;
    case JOIN_ANY_TWICE:
        return k == variant ? 2 : 1;
    default:
        return 1;
    }
}

/* One merge of all; LSE returned. variant: of JOIN_LESS_ANY and the like, which one. */
static double merge_at_once(const struct wrong *w, const struct wrong_parts *part, int32_t n, int32_t variant,
                            struct state *s)
{
    int64_t m = part->n;
    if (m == 0) { /* of a query that sees nothing */
        *s = (struct state){.any = false};
        return -INFINITY;
    }
    if (m == 1 && w->join == JOIN_RIGHT) {
        *s = (struct state){.any = part->sum[0] > 0};
        step(s, part, 0, n, 0, 1);
        return part->lse[0];
    }
    double max = -INFINITY, top = -INFINITY, sum = 0, lse_sum = 0, lse_right = 0, sums = 0;
    for (int64_t k = 0; k < m; k++) {
        max = counted(w->join, k, m, variant) > 0 ? fmax(max, part->lse[k]) : max;
        top = fmax(top, part->max[k]);
    }
    *s = (struct state){.any = m > 0};
    for (int64_t k = 0; k < m; k++) {
        double lse = part->lse[k], times = counted(w->join, k, m, variant), lse_times = times;
        double c = times > 0 ? exp(lse - max) : 0;
        switch (w->join) {
        case JOIN_LSE_TWICE:
            lse_times = k == (variant == 0 ? 0 : m - 1) ? 2 : 1;
            break;
        case JOIN_MEAN:
            c = 1;
            break;
        case JOIN_BY_COUNT:
            c = part->count[k];
            break;
        case JOIN_BY_LSE:
            c = lse;
            break;
        case JOIN_BY_SUMS:
            c = part->sum[k];
            break;
        case JOIN_SQUARED:
            c *= c;
            break;
        case JOIN_EXP2:
            c = exp2(lse - max);
            break;
        case JOIN_SUM:
            c = 1;
            break;
        case JOIN_SWAPPED: {
            int64_t other = m - 1 - k;
            c = exp(part->lse[other] - max);
            break;
        }
        case JOIN_UNDIVIDED:
            times *= part->sum[k];
            break;
        case JOIN_DIVIDED_TWICE:
            times /= part->sum[k];
            break;
        case JOIN_SINKS:
            c = exp(wrong_log_sum(lse, w->n) - max);
            times = exp(lse - wrong_log_sum(lse, w->n));
            break;
        default:
            break;
        }
        step(s, part, k, n, 1, c * times);
        sum += w->join == JOIN_UNDIVIDED || w->join == JOIN_DIVIDED_TWICE || w->join == JOIN_SINKS
                   ? c
                   : c * times;
        lse_sum += lse;
        lse_right += lse_times > 0
                         ? lse_times * (w->join == JOIN_EXP2 || w->join == JOIN_SINKS ? c : exp(lse - max))
                         : 0;
        sums += part->sum[k];
    }
    if (w->join == JOIN_EMPTY || w->join == JOIN_EMPTY_TOP) {
        double e = w->join == JOIN_EMPTY ? (variant + 1) * exp(-max) /* LSE 0 each */ : (double)part->n_empty;
        sum += e;
        lse_right += e;
    }
    for (int32_t e = 0; e < n; e++)
        if (w->join != JOIN_SUM && w->join != JOIN_WEIGHTED_SUM) {
            s->o[e] /= sum;
            s->abs[e] /= fabs(sum);
        }
    s->any = sum > 0 || sum < 0;
    switch (w->join) {
    case JOIN_LSE_ADDED:
        return lse_sum;
    case JOIN_LSE_MEAN:
        return lse_sum / (double)m;
    case JOIN_LSE_MAX:
        return max;
    case JOIN_LSE_OF_LAST:
        return part->lse[m - 1];
    case JOIN_LSE_OF_FIRST:
        return part->lse[0];
    case JOIN_LSE_LOG2:
        return max + log2(lse_right);
    case JOIN_SQUARED:
        return max + log(variant == 0 ? lse_right : sum);
    case JOIN_BY_SUMS:
        return (variant == 0   ? top
                : variant == 1 ? part->max[m - 1]
                : variant == 2 ? max + log(lse_right) - log(sums)
                               : part->max[0]) +
               log(sums);
    case JOIN_EXP2:
        return variant == 0   ? max + log(lse_right)
               : variant == 1 ? max + log2(lse_right)
                              : max + log(lse_right);
    default:
        return max + log(lse_right);
    }
}

/* Two partial results become one: what each then counts for, and the LSE of both, returned. What is wrong in an LSE is in the
 * weights that follow. */
static double merge_two(const struct wrong *w, double lse, double add, int32_t variant, double *a, double *b)
{
    double both = wrong_log_sum(lse, add);
    *a = exp(lse - both);
    *b = exp(add - both);
    switch (w->join) {
    case JOIN_MEAN:
        *a = *b = 0.5;
        break;
    case JOIN_SUM:
        *a = *b = 1;
        break;
    case JOIN_WEIGHTED_SUM: {
        double max = fmax(lse, add);
        *a = exp(lse - max);
        *b = exp(add - max);
        break;
    }
    case JOIN_BY_LSE:
        *a = lse / (lse + add);
        *b = add / (lse + add);
        break;
    case JOIN_SQUARED: {
        double max = fmax(lse, add), x = exp(2 * (lse - max)), y = exp(2 * (add - max));
        *a = x / (x + y);
        *b = y / (x + y);
        both = variant == 0 ? both : max + log(x + y);
        break;
    }
    case JOIN_SWAPPED: {
        double swap = *a;
        *a = *b;
        *b = swap;
        break;
    }
    case JOIN_EXP2: {
        double max = fmax(lse, add), x = exp2(lse - max), y = exp2(add - max);
        *a = x / (x + y);
        *b = y / (x + y);
        both = variant == 0 ? both : variant == 1 ? max + log2(x + y) : max + log(x + y);
        break;
    }
    case JOIN_LSE_ADDED:
        both = lse + add;
        break;
    case JOIN_LSE_MEAN:
        both = (lse + add) / 2;
        break;
    case JOIN_LSE_MAX:
        both = fmax(lse, add);
        break;
    case JOIN_LSE_LOG2:
        both = fmax(lse, add) + log2(exp(lse - fmax(lse, add)) + exp(add - fmax(lse, add)));
        break;
    case JOIN_LSE_OF_FIRST:
        both = lse;
        break;
    case JOIN_LSE_OF_LAST:
        both = add;
        break;
    case JOIN_LSE_TWICE: /* the LSE is written before it is used */
        if (variant == 0) {
            both = wrong_log_sum(both, add);
        } else if (variant == 1) {
            double next = wrong_log_sum(both, add);
            *a = exp(both - next);
            *b = exp(add - next);
            both = next;
        } else if (variant == 2) {
            *a = exp(lse - both);
            *b = exp(add - both);
            both += M_LN2;
        } else if (variant == 3) {
            *a = exp(both - both);
            *b = exp(add - both);
        } else {
            both = wrong_log_sum(both, lse);
        }
        break;
    default:
        break;
    }
    return both;
}

/* One after the other. */
static double merge_in_order(const struct wrong *w, const struct wrong_parts *part, int32_t n,
                             int32_t variant, struct state *s)
{
    double lse = -INFINITY;
    *s = (struct state){.any = part->n > 0};
    for (int64_t k = 0; k < part->n; k++) {
        double a = 0, b = 1;
        lse = k == 0 ? part->lse[0] : merge_two(w, lse, part->lse[k], variant, &a, &b);
        step(s, part, k, n, a, b);
    }
    return lse;
}

/* Neighbours, then what they became, as a tree. */
static double merge_in_pairs(const struct wrong *w, const struct wrong_parts *part, int32_t n,
                             int32_t variant, struct state *s)
{
    struct wrong_parts x = parts_new(part->n, n);
    *s = (struct state){.any = part->n > 0};
    if (part->n > 0) {
        size_t all = (size_t)part->n * (size_t)n * sizeof(double);
        memcpy(x.o, part->o, all);
        memcpy(x.abs, part->abs, all);
        memcpy(x.lse, part->lse, (size_t)part->n * sizeof(double));
    }
    for (int64_t far = 1; far < part->n; far *= 2)
        for (int64_t k = 0; k + far < part->n; k += 2 * far) {
            double a, b;
            x.lse[k] = merge_two(w, x.lse[k], x.lse[k + far], variant, &a, &b);
            for (int32_t e = 0; e < n; e++) {
                int64_t to = k * n + e, from = (k + far) * n + e;
                x.o[to] = a * x.o[to] + b * x.o[from];
                x.abs[to] = fabs(a) * x.abs[to] + fabs(b) * x.abs[from];
            }
        }
    double lse = part->n > 0 ? x.lse[0] : -INFINITY;
    if (part->n > 0)
        step(s, &x, 0, n, 0, 1);
    parts_free(&x);
    return lse;
}

/* A sum over tiles, one after the other, whose maximum goes up on the way. */
static void sum_tiles(const struct wrong *w, const struct wrong_parts *part, int64_t begin, int64_t end,
                      int32_t n, struct state *s)
{
    *s = (struct state){.max = -INFINITY, .any = end > begin};
    for (int64_t k = begin; k < end; k++) {
        double max = fmax(s->max, part->max[k]), keep = exp(s->max - max),
               add = exp(part->max[k] - max) * part->sum[k];
        double keep_o = keep, keep_sum = keep, add_o = add, add_sum = add;
        if (w->join == TILES_O_KEPT || w->join == TILES_BOTH_KEPT)
            keep_o = k > begin;
        if (w->join == TILES_SUM_KEPT || w->join == TILES_BOTH_KEPT)
            keep_sum = k > begin;
        if (w->join == TILES_NEW_O_KEPT || w->join == TILES_NEW_KEPT)
            add_o = part->sum[k];
        if (w->join == TILES_NEW_KEPT)
            add_sum = part->sum[k];
        step(s, part, k, n, keep_o, add_o);
        s->sum = keep_sum * s->sum + add_sum;
        s->max = w->join == TILES_LAST_MAX ? part->max[k] : max;
    }
}

/* The same from tokens, with what is rounded on the way. variant & 1: so is the sum of the weights; & 2: but not what is
 * rescaled. */
static void sum_rounded(struct wrong_row *r, const struct wrong *w, int64_t first, int64_t last,
                        int32_t variant, struct state *s)
{
    static const struct wrong own = {.n = 0};
    const struct items *x = &r->items;
    enum store p_store = w->join == TILES_P_F16    ? STORE_F16
                         : w->join == TILES_P_BF16 ? STORE_BF16
                         : w->join == TILES_P_E4M3 ? STORE_E4M3
                                                   : STORE_ALL;
    enum store o_store = w->join == TILES_SUM_F16    ? STORE_F16
                         : w->join == TILES_SUM_BF16 ? STORE_BF16
                                                     : STORE_ALL;
    double room[WRONG_MAX_COLUMNS];
    *s = (struct state){.max = -INFINITY, .any = true};
    for (int64_t k = first, begin = first > 0 ? x->end[first - 1] : 0; k < last; begin = x->end[k++]) {
        double max = fmax(s->max, maximum(r, &own, begin, x->end[k])), keep = exp(s->max - max);
        s->sum = variant & 1 ? stored(o_store, s->sum * keep, 0) : s->sum * keep;
        for (int32_t e = 0; e < r->n_columns; e++) {
            s->o[e] = variant & 2 ? s->o[e] * keep : stored(o_store, s->o[e] * keep, 0);
            s->abs[e] *= keep;
        }
        for (int64_t i = begin; i < x->end[k]; i++) {
            double p = exp(r->logit[i] - max), narrow = stored(p_store, p, 0);
            const double *v = value(r, &own, &x->item[i], room);
            s->sum = stored(variant & 1 ? o_store : STORE_ALL, s->sum + (variant & 1 ? narrow : p), 0);
            for (int32_t e = 0; e < r->n_columns; e++) {
                s->o[e] = stored(o_store, s->o[e] + narrow * v[e], 0);
                s->abs[e] += fabs(narrow * v[e]);
            }
        }
        s->max = max;
    }
}

/* Sums over the tiles of each piece of the plan, which are then merged as they should be. */
static double join_tiles(struct wrong_row *r, const struct wrong *w, const struct wrong_parts *part,
                         int32_t variant, struct state *s)
{
    int32_t n = r->n_columns, n_outer = part->n > 0 ? part->outer[part->n - 1] + 1 : 0;
    static const struct wrong right = {.join = JOIN_RIGHT};
    struct wrong_parts outer = parts_new(n_outer, n);
    int64_t used = 0;
    for (int64_t k = 0, end; k < part->n; k = end) {
        for (end = k; end < part->n && part->outer[end] == part->outer[k];)
            end++;
        if (w->join >= TILES_P_F16)
            sum_rounded(r, w, k, end, variant, s);
        else
            sum_tiles(w, part, k, end, n, s);
        outer.max[used] = s->max;
        outer.sum[used] = s->sum;
        outer.lse[used] = s->max + log(s->sum);
        for (int32_t e = 0; e < n; e++) {
            outer.o[used * n + e] = s->o[e] / s->sum;
            outer.abs[used * n + e] = s->abs[e] / fabs(s->sum);
        }
        used++;
    }
    outer.n = used;
    double lse = merge_at_once(&right, &outer, n, 0, s);
    parts_free(&outer);
    return lse;
}

/* Partial results rounded to a narrower type. */
static double join_narrow(struct wrong_row *r, const struct wrong *w, const struct wrong_parts *part,
                          struct state *s)
{
    struct wrong_parts narrow = parts_new(part->n, r->n_columns);
    for (int64_t k = 0; k < part->n; k++) {
        narrow.max[k] = part->max[k];
        narrow.sum[k] = part->sum[k];
        narrow.lse[k] = part->lse[k];
        for (int64_t i = k * r->n_columns; i < (k + 1) * r->n_columns; i++) {
            narrow.o[i] = stored(w->join == JOIN_PART_F16 ? STORE_F16 : STORE_BF16, part->o[i], 0);
            narrow.abs[i] = part->abs[i];
        }
    }
    static const struct wrong right = {.join = JOIN_RIGHT};
    double lse = merge_at_once(&right, &narrow, r->n_columns, 0, s);
    parts_free(&narrow);
    return lse;
}

static double join(struct wrong_row *r, const struct wrong *w, const struct wrong_way *way,
                   const struct wrong_parts *part, int32_t variant, struct state *s)
{
    if (is_tiles(w->join))
        return join_tiles(r, w, part, variant, s);
    if (w->join == JOIN_PART_F16 || w->join == JOIN_PART_BF16)
        return join_narrow(r, w, part, s);
    return way->order == MERGE_IN_ORDER   ? merge_in_order(w, part, r->n_columns, variant, s)
           : way->order == MERGE_IN_PAIRS ? merge_in_pairs(w, part, r->n_columns, variant, s)
                                          : merge_at_once(w, part, r->n_columns, variant, s);
}

/* ---- ways --------------------------------------------------------------------------------------------- */

static void list_ways(struct wrong_case *c)
{
    static const int64_t block[] = {2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048},
                         part[] = {2, 3, 4, 8, 16}, of_node[] = {32, 64, 128};
    struct wrong_way *way = c->way;
    way[c->n_ways++] = (struct wrong_way){.cut = CUT_NONE};
    if (c->merged) {
        way[c->n_ways++] = (struct wrong_way){.cut = CUT_BLOCKS, .x = 1};
        return;
    }
    if (c->plan) {
        way[c->n_ways++] = (struct wrong_way){.cut = CUT_PLAN};
        return;
    }
    way[c->n_ways++] = (struct wrong_way){.cut = CUT_NODES};
    way[c->n_ways++] = (struct wrong_way){.cut = CUT_PREFIX};
    way[c->n_ways++] = (struct wrong_way){.cut = CUT_COMMON};
    for (size_t i = 0; i < sizeof part / sizeof *part; i++)
        way[c->n_ways++] = (struct wrong_way){.cut = CUT_PARTS, .x = part[i]};
    for (size_t i = 0; i < sizeof of_node / sizeof *of_node; i++)
        way[c->n_ways++] = (struct wrong_way){.cut = CUT_NODE_BLOCKS, .x = of_node[i]};
    bool page = c->p->page_size > 1;
    for (size_t i = 0; i < sizeof block / sizeof *block; i++) {
        way[c->n_ways++] = (struct wrong_way){.cut = CUT_BLOCKS, .x = block[i]};
        page = page && block[i] != c->p->page_size;
    }
    if (page)
        way[c->n_ways++] = (struct wrong_way){.cut = CUT_BLOCKS, .x = c->p->page_size};
}

/* Merges where the order matters. */
static bool has_order(enum join j)
{
    return j == JOIN_MEAN || j == JOIN_SUM || j == JOIN_WEIGHTED_SUM || j == JOIN_BY_LSE ||
           j == JOIN_SWAPPED || j == JOIN_SQUARED || j == JOIN_EXP2 || j == JOIN_LSE_ADDED ||
           j == JOIN_LSE_LOG2 || j == JOIN_LSE_MAX || j == JOIN_LSE_MEAN || j == JOIN_LSE_TWICE ||
           j == JOIN_LSE_OF_FIRST || j == JOIN_LSE_OF_LAST;
}

/* Is a mistake in a partial result, or in its tiles, so that one piece will do? */
static bool is_within(const struct wrong *w)
{
    return w->join == JOIN_RIGHT || w->join == JOIN_EMPTY || is_tiles(w->join);
}

/* Tiles in the pieces of a cut. */
static int32_t add_tiles(const struct wrong *w, const struct wrong_way *cut, struct wrong_way *way, int32_t n)
{
    static const int64_t tile[] = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024};
    bool narrow = w->join >= TILES_P_F16, whole = cut->cut == CUT_NONE || cut->cut == CUT_PLAN;
    bool common = cut->cut == CUT_BLOCKS && (cut->x == 64 || cut->x == 128 || cut->x == 256);
    for (size_t i = 0; i < sizeof tile / sizeof *tile && (whole || common || !narrow); i++) {
        if ((narrow && tile[i] < 16 && (common || tile[i] > 1)) ||
            (cut->cut == CUT_BLOCKS && tile[i] >= cut->x))
            continue;
        way[n] = *cut;
        way[n++].tile = tile[i];
    }
    if (narrow && (whole || common)) { /* a piece at once */
        way[n] = *cut;
        way[n++].tile = INT64_MAX / 4;
    }
    return n;
}

int32_t wrong_ways(const struct wrong_case *c, const struct wrong *w, struct wrong_way *way)
{
    bool pieces = w->read == READ_PIECES_LAST || w->read == READ_PIECES_FIRST || w->read == READ_PIECES_MORE;
    int32_t n = 0;
    for (int32_t i = 0; i < c->n_ways; i++) {
        const struct wrong_way *x = &c->way[i];
        if (x->cut == CUT_NONE ? w->cut != CUT_NONE && (!is_within(w) || pieces) : w->cut == CUT_NONE)
            continue;
        if (is_tiles(w->join) && x->cut == CUT_NODE_BLOCKS)
            continue;
        if (is_tiles(w->join)) {
            n = add_tiles(w, x, way, n);
            continue;
        }
        way[n++] = *x;
        if (has_order(w->join)) {
            way[n] = way[n + 1] = *x;
            way[n++].order = MERGE_IN_ORDER;
            way[n++].order = MERGE_IN_PAIRS;
        }
    }
    CK(n <= WRONG_MAX_WAYS);
    return n;
}

int32_t wrong_variants(const struct wrong *w)
{
    switch (w->join) {
    case JOIN_LESS_ANY:
    case JOIN_ANY_TWICE:
    case JOIN_EMPTY:
        return 8;
    case JOIN_LESS_FIRST:
    case JOIN_LESS_LAST:
    case JOIN_SQUARED:
        return 2;
    case JOIN_LSE_TWICE:
        return 5;
    case JOIN_BY_SUMS:
        return 4;
    case JOIN_EXP2:
        return 3;
    default:
        return w->join >= TILES_SUM_F16 ? 4 : w->join >= TILES_P_F16 ? 2 : 1;
    }
}

/* ---- the case, a row ---------------------------------------------------------------------------------- */

/* The queries of node 0, of node 1, .. */
static void list_by_node(struct wrong_case *c)
{
    const struct tree *t = c->p->tree;
    int32_t *at = xcalloc((size_t)t->n_nodes + 1, sizeof *at);
    for (int32_t q = 0; q < t->n_queries; q++)
        at[t->query[q].node + 1]++;
    for (int32_t i = 0; i < t->n_nodes; i++)
        at[i + 1] += at[i];
    for (int32_t q = 0; q < t->n_queries; q++) {
        int32_t place = at[t->query[q].node]++;
        c->by_node[place] = q;
        c->node_of[q] = place;
    }
    free(at);
}

/* In how many groups of the plan the query is that is in most. */
static int64_t most_groups(const struct wrong_case *c)
{
    const struct plan *plan = c->plan;
    int64_t most = 0, *n = xcalloc((size_t)c->p->tree->n_queries + 1, sizeof *n);
    for (int64_t g = 0; plan && g < plan->n_groups; g++)
        for (int64_t i = plan->group[g].qr0; i < plan->group[g].qr1; i++)
            for (int32_t q = plan->qr[i].begin; q < plan->qr[i].end; q++)
                most = max_i64(most, ++n[q]);
    free(n);
    return most;
}

static struct wrong_case *case_new(const struct wrong_case *made)
{
    const struct problem *p = made->p;
    const struct tree *t = p->tree;
    struct wrong_case *c = xcalloc(1, sizeof *c);
    *c = *made;
    c->nf = nform_new(t);
    c->requests = tails_of(t);
    c->form_of = xcalloc((size_t)t->n_queries + 1, sizeof *c->form_of);
    for (int32_t q = 0; q < t->n_queries; q++)
        c->form_of[c->nf->orig[q]] = q;
    c->by_node = xcalloc((size_t)t->n_queries + 1, sizeof *c->by_node);
    c->node_of = xcalloc((size_t)t->n_queries + 1, sizeof *c->node_of);
    list_by_node(c);
    c->node_seen = xcalloc((size_t)t->n_nodes + 1, sizeof *c->node_seen);
    for (int32_t i = 0; i < c->nf->n_nodes; i++)
        if (c->nf->q1[i] > c->nf->q0[i])
            c->node_seen[c->nf->src[i]] = max_i64(c->node_seen[c->nf->src[i]], c->nf->off[i] + c->nf->len[i]);
    if (c->tails) {
        c->page_seen = xcalloc((size_t)p->n_pages + 1, sizeof *c->page_seen);
        for (int32_t i = 0; i < t->n_nodes; i++)
            for (int64_t j = 0; j < c->node_seen[i]; j += p->page_size)
                c->page_seen[p->page_table[p->page_off[i] + j / p->page_size]] =
                    (int32_t)min_i64(p->page_size, c->node_seen[i] - j);
    }
    c->most_groups = most_groups(c);
    list_ways(c);
    return c;
}

struct wrong_case *wrong_case_new(const struct problem *p, const struct oracle *orc, const struct plan *plan,
                                  const struct arithmetic *a, bool tails, bool strides, bool nan_free)
{
    return case_new(&(struct wrong_case){.p = p,
                                         .orc = orc,
                                         .plan = plan,
                                         .a = *a,
                                         .tails = tails,
                                         .strides = strides,
                                         .from_gaps = strides && nan_free});
}

struct wrong_case *wrong_case_of_merge(const struct problem *shape, const struct oracle *orc,
                                       const struct partials *merged, const struct arithmetic *a)
{
    return case_new(&(struct wrong_case){.p = shape, .orc = orc, .merged = merged, .a = *a});
}

bool wrong_applies(const struct wrong_case *c, const struct wrong *w)
{
    uint32_t has = problem_features(c->p);
    if ((has & w->features) != w->features || (has & w->without) != 0 || (w->fp8 && !heads_fp8(&c->p->heads)))
        return false;
    if (w->few_v && c->p->heads.d_v == 0)
        return false;
    if (c->p->heads.d_v > 0 && (w->pool == POOL_EXCHANGED || w->pool == POOL_V_FOR_K || w->pool == POOL_PAGES_IN_TURN ||
                                w->pool == POOL_TOKENS_IN_TURN)) /* rows of V are no rows of K */
        return false;
    bool tail = w->read == READ_TAIL || w->read == READ_TAIL_WHOLE || w->read == READ_TAIL_FIRST ||
                w->read == READ_TAIL_OTHER;
    if (has >> FEATURE_WINDOW & 1 && w->read != READ_OWN && !tail &&
        w->read != READ_WINDOW_OFF && w->read != READ_WINDOW_BY_INDEX) /* others know paths from their beginning */
        return false;
    if (tail && c->requests->n == c->p->tree->n_queries) /* no request has several */
        return false;
    if (!c->merged)
        return !w->merge && (!w->gaps || c->strides);
    bool scores = own_scores(w) && w->score_store == STORE_ALL && w->factor == 0 && w->less_scale == 0;
    bool softmax = w->soft == SOFT_RIGHT || w->soft == SOFT_NO_MAX || w->soft == SOFT_MAX_FROM;
    bool whole = w->lse == LSE_RIGHT || w->cut == CUT_NONE;
    return w->merge || (w->read == READ_OWN && scores && softmax && own_values(w) && whole &&
                        !w->only_empty && w->join < TILES_P_F16);
}

void wrong_case_free(struct wrong_case *c)
{
    nform_free(c->nf);
    tails_free(c->requests);
    free(c->form_of);
    free(c->by_node);
    free(c->node_of);
    free(c->page_seen);
    free(c->node_seen);
    free(c);
}

static void fill_from_pool(struct wrong_row *r)
{
    struct wrong_case *c = r->c;
    int32_t d = c->p->heads.d, head = r->h / heads_gqa(&c->p->heads);
    problem_path_slots(c->p, r->q, r->n, r->slot);
    dtype_to_double(c->p->heads.dtype, c->p->q, r->row * d, r->query, d);
    for (int64_t j = 0; j < r->n; j++) {
        load(c, false, POOL_OWN, r->slot[j], head, BITS_RIGHT, problem_k_scale(c->p, head), r->k);
        for (int32_t e = 0; e < d; e++)
            r->dot[j] += r->query[e] * r->k[e];
        load(c, true, POOL_OWN, r->slot[j], head, BITS_RIGHT, problem_v_scale(c->p, head), r->k);
        for (int32_t e = 0; e < r->n_columns; e++)
            r->v[j * r->n_columns + e] = r->k[r->column[e]];
    }
}

/* Those that are not empty, in order. */
static void fill_from_partials(struct wrong_row *r)
{
    const struct partials *x = r->c->merged;
    int32_t d = x->heads.d;
    int64_t n = 0;
    for (int64_t j = 0; j < x->inputs && n < r->n; j++) {
        int64_t row = (j * x->n + r->q) * x->heads.h_q + r->h;
        if (x->lse[row] == -INFINITY)
            continue;
        r->slot[n] = j;
        r->dot[n] = x->lse[row] / r->c->p->scale;
        dtype_to_double(x->heads.dtype, x->o, row * d, r->k, d);
        for (int32_t e = 0; e < r->n_columns; e++)
            r->v[n * r->n_columns + e] = r->k[r->column[e]];
        n++;
    }
}

struct wrong_row *wrong_row_new(struct wrong_case *c, int64_t row, const int32_t *column, int32_t n_columns,
                                const double *o, double lse)
{
    const struct problem *p = c->p;
    int32_t h_q = p->heads.h_q, d = p->heads.d;
    struct wrong_row *r = xcalloc(1, sizeof *r);
    *r = (struct wrong_row){.c = c,
                            .row = row,
                            .q = (int32_t)(row / h_q),
                            .h = (int32_t)(row % h_q),
                            .n = c->orc->ctx[row / h_q],
                            .n_columns = n_columns,
                            .query = xcalloc((size_t)d, sizeof(double)),
                            .k = xcalloc((size_t)d, sizeof(double))};
    memcpy(r->column, column, (size_t)n_columns * sizeof *column);
    memcpy(r->seen_o, o, (size_t)n_columns * sizeof *o);
    r->seen_lse = lse;
    r->path = wrong_path(c, r->q, &r->n_path);
    r->slot = xcalloc((size_t)r->n + 1, sizeof *r->slot);
    r->dot = xcalloc((size_t)r->n + 1, sizeof *r->dot);
    r->v = xcalloc((size_t)(r->n + 1) * (size_t)n_columns, sizeof *r->v);
    if (c->merged)
        fill_from_partials(r);
    else
        fill_from_pool(r);
    return r;
}

void wrong_row_free(struct wrong_row *r)
{
    for (int64_t i = 0; i < r->n_kept; i++)
        parts_free(&r->kept[i].parts);
    free(r->kept);
    free(r->path);
    free(r->slot);
    free(r->dot);
    free(r->v);
    free(r->query);
    free(r->k);
    free(r->logit);
    free(r->items.item);
    free(r->items.end);
    free(r->items.outer);
    free(r);
}

/* ---- evaluation --------------------------------------------------------------------------------------- */

/* Is it wrong in nothing but how partial results are joined? */
static bool only_joins(const struct wrong *w)
{
    return w->read == READ_OWN && own_scores(w) && own_values(w) && w->soft == SOFT_RIGHT && w->factor == 0 &&
           w->less_scale == 0 && w->to_root == 0 && w->to_root_v == 0 && w->score_store == STORE_ALL && w->cap == CAP_RIGHT &&
           w->lse == LSE_RIGHT && w->join < TILES_P_F16;
}

/* Those of the row's own tokens, which are made once a way; NULL where there are too many to keep. */
static struct kept *kept_parts(struct wrong_row *r, const struct wrong_way *way)
{
    int64_t i = 0;
    while (i < r->n_kept &&
           (r->kept[i].way.cut != way->cut || r->kept[i].way.x != way->x || r->kept[i].way.tile != way->tile))
        i++;
    if (i < r->n_kept)
        return &r->kept[i];
    if (r->n_items_kept + r->n > MOST_KEPT)
        return NULL;
    r->kept = xgrow(r->kept, &r->cap_kept, r->n_kept + 1, sizeof *r->kept);
    r->kept[r->n_kept++] = (struct kept){.way = *way};
    return &r->kept[i];
}

/* Into *mine, which is to be freed, or what is kept; NULL: nothing differs. */
static const struct wrong_parts *parts_of(struct wrong_row *r, const struct wrong *w,
                                          const struct wrong_way *way, struct wrong_parts *mine)
{
    struct kept *kept = only_joins(w) ? kept_parts(r, way) : NULL;
    if (kept && kept->parts.max)
        return &kept->parts;
    if (!wrong_read(r, w, way) || !score(r, w, r->column[0]))
        return NULL;
    if (kept) {
        kept->parts = partials(r, w);
        r->n_items_kept += kept->parts.n;
        return &kept->parts;
    }
    if (w->join >= TILES_P_F16) {
        *mine = parts_new(r->items.n_pieces, r->n_columns);
        for (int64_t k = 0; k < mine->n; k++)
            mine->outer[k] = r->items.outer[k];
        return mine;
    }
    *mine = partials(r, w);
    if (w->columns == COL_HALVES_APART) { /* the second half has scores of its own */
        score(r, w, r->c->orc->d - 1);
        struct wrong_parts second = partials(r, w);
        for (int32_t e = 0; e < r->n_columns; e++)
            if (r->column[e] >= r->c->orc->d / 2 && mine->n > 0)
                mine->o[e] = second.o[e];
        parts_free(&second);
    }
    return mine;
}

static double max_score(const struct wrong_parts *part)
{
    double max = -INFINITY;
    for (int64_t k = 0; k < part->n; k++)
        max = fmax(max, part->max[k]);
    return max;
}

/* Element `column` of O as it is written, in terms of the row's own O; NaN where it is not in the sample. */
static void write_columns(struct wrong_row *r, const struct wrong *w, double right_lse, double max,
                          struct wrong_answer *out)
{
    const struct wrong_case *c = r->c;
    int32_t d = c->orc->d, h_q = c->p->heads.h_q;
    double sum = exp(right_lse - max), n = w->n;
    const double *o = c->orc->o;
    for (int32_t e = 0; e < r->n_columns; e++) {
        int32_t at = r->column[e], half = d / 2, in_query = r->h * d + at;
        int64_t from = r->row * d, query = (int64_t)r->q * h_q * d;
        double times = 1;
        switch (w->written) {
        case WRITTEN_OWN:
            return;
        case WRITTEN_ROTATED:
            out->o[e] = o[from + (at + d - 1) % d];
            continue;
        case WRITTEN_ROTATED_BACK:
            out->o[e] = o[from + (at + 1) % d];
            continue;
        case WRITTEN_REVERSED:
            out->o[e] = o[from + d - 1 - at];
            continue;
        case WRITTEN_HALVES:
            out->o[e] = o[from + (at + half) % d];
            continue;
        case WRITTEN_PAIRS:
            out->o[e] = o[from + (at % 2 ? half + at / 2 : at / 2)];
            continue;
        case WRITTEN_UNPAIRED:
            out->o[e] = o[from + (at < half ? 2 * at : 2 * (at - half) + 1) % d];
            continue;
        case WRITTEN_TURNED: /* [query][d][head] */
            out->o[e] = o[query + (int64_t)(in_query % h_q) * d + in_query / h_q];
            continue;
        case WRITTEN_FIRST_X: /* below 0: all but so many */
            times = at < (n < 0 ? d + n : n) ? 1 : 0;
            break;
        case WRITTEN_ROUNDED:
            out->o[e] = stored(w->v_store, out->o[e], n);
            continue;
        case WRITTEN_TIMES_SUM:
            times = sum;
            break;
        case WRITTEN_TIMES_EXP_LSE:
            times = exp(right_lse);
            break;
        case WRITTEN_BY_SUM:
            times = 1 / sum;
            break;
        case WRITTEN_BY_COUNT:
            times = sum / (double)r->n;
            break;
        case WRITTEN_TIMES:
            times = n;
            break;
        case WRITTEN_TIMES_SCALE:
            times = c->p->scale;
            break;
        case WRITTEN_ZERO:
            out->o[e] = 0;
            continue;
        case WRITTEN_CONSTANT:
            out->o[e] = n;
            continue;
        case WRITTEN_NAN:
            out->o[e] = NAN;
            continue;
        case WRITTEN_TRUNCATED: {
            float f = (float)out->o[e];
            uint32_t bits;
            memcpy(&bits, &f, sizeof bits);
            bits &= 0xffff0000u;
            memcpy(&f, &bits, sizeof f);
            out->o[e] = (double)f;
            continue;
        }
        }
        out->o[e] *= times;
        out->bound_o[e] *= fabs(times) > 0 && isfinite(times) ? fabs(times) : 1;
    }
}

/* What an honest kernel may be off that computes what was evaluated. */
static void bounds(struct wrong_row *r, const struct wrong *w, const struct wrong_parts *part,
                   const struct state *s, double lse, struct wrong_answer *out)
{
    const struct wrong_case *c = r->c;
    int32_t n = r->n_columns, d = c->orc->d;
    double logit = 0, range[WRONG_MAX_COLUMNS], max_v[WRONG_MAX_COLUMNS],
           factor = scale_of(r, w) / c->p->scale;
    for (int64_t k = 0; k < part->n; k++)
        logit = fmax(logit, fabs(part->max[k]));
    for (int32_t e = 0; e < n; e++) {
        range[e] = INFINITY;
        max_v[e] = fmax(c->orc->max_v ? c->orc->max_v[r->row * d + r->column[e]] : 0, fabs(out->o[e]));
    }
    double own_dot = c->orc->abs_dot[r->row] * fmax(fabs(factor), 1);
    logit = fmax(logit, c->orc->logit[r->row] * fmax(fabs(factor), 1));
    double dots = fmax(own_dot, logit), gap = 0;
    int64_t ctx = max_i64(r->items.n, r->n);
    struct oracle one = {.n_rows = 1,
                         .d = n,
                         .o = out->o,
                         .lse = &lse,
                         .abs_o = (double *)s->abs,
                         .rms_o = NULL,
                         .range_o = range,
                         .max_v = max_v,
                         .gap = &gap,
                         .logit = &logit,
                         .abs_dot = &dots,
                         .ctx = &ctx,
                         .capped = c->orc->capped,
                         .sinks = c->orc->sinks};
    struct problem p = *c->p;
    p.heads.h_q = p.heads.h_kv = 1;
    out->bound_lse = compare_bound(&p, &one, &c->a, 0, out->bound_o);
}

/* Another row's answer, or another place's. */
static bool from_oracle(struct wrong_row *r, const struct wrong *w, struct wrong_answer *out)
{
    const struct wrong_case *c = r->c;
    int64_t h_q = c->p->heads.h_q, n = c->p->tree->n_queries, d = c->orc->d, row = r->row;
    int32_t q = wrong_query(c, r->q, w->row_query);
    out->unsure = q < 0; /* what is written beyond the end, and who writes there, is not known */
    if (out->unsure)
        return n > 1;
    row = q * h_q + head_of(r, w->row_head, r->h, false, w->n);
    if (w->row_turned == ROWS_TURNED) /* place `row` of [head][query] */
        row = row % n * h_q + row / n;
    else if (w->row_turned == ROWS_TURNED_BACK)
        row = row % h_q * n + row / h_q;
    double bound[PROBLEM_MAX_ROW], own[PROBLEM_MAX_ROW];
    int64_t row_o = w->of == ONLY_LSE ? r->row : row, row_lse = w->of == ONLY_O ? r->row : row;
    double lse = compare_bound(c->p, c->orc, &c->a, row, bound);
    compare_bound(c->p, c->orc, &c->a, r->row, own);
    for (int32_t e = 0; e < r->n_columns; e++) {
        out->o[e] = c->orc->o[row_o * d + r->column[e]];
        out->bound_o[e] = fmax(own[r->column[e]], bound[r->column[e]]);
    }
    out->lse = c->orc->lse[row_lse];
    out->bound_lse = fmax(lse, compare_bound(c->p, c->orc, &c->a, r->row, own));
    return row != r->row;
}

/* The answer of whatever other row is here, the same query's first; false if none is. */
static bool from_elsewhere(struct wrong_row *r, struct wrong_answer *out)
{
    const struct oracle *orc = r->c->orc;
    int64_t h = r->c->p->heads.h_q, n = orc->n_rows;
    double bound[PROBLEM_MAX_ROW];
    for (int64_t i = 0; i < n; i++) {
        int64_t row = (r->row / h * h + i) % n, at = row * orc->d;
        bool same = row != r->row && fabs(orc->lse[row] - r->seen_lse) <= 1e-3 * fmax(1, fabs(r->seen_lse));
        for (int32_t e = 0; e < r->n_columns && same; e++)
            same = fabs(r->seen_o[e] - orc->o[at + r->column[e]]) <= 2e-2 * orc->abs_o[at + r->column[e]];
        if (!same)
            continue;
        out->bound_lse = compare_bound(r->c->p, orc, &r->c->a, row, bound);
        out->lse = orc->lse[row];
        for (int32_t e = 0; e < r->n_columns; e++) {
            out->o[e] = orc->o[at + r->column[e]];
            out->bound_o[e] = bound[r->column[e]];
        }
        return true;
    }
    return false;
}

/* Tokens that should not count have the score x, and what counts is far below. */
static bool from_hidden(struct wrong_row *r, const struct wrong *w, struct wrong_answer *out)
{
    double lse = r->c->orc->lse[r->row], n = rint(exp(r->seen_lse - w->n));
    out->any_o = true;
    out->lse = w->n + log(n);
    out->bound_lse = 1e-6 * fmax(1, fabs(w->n));
    return lse < w->n - 100 && n >= 1 && n < 1e7;
}

/* Where no page has NaN, NaN of memory that is nobody's comes from between them, or what "sum > 0 ? .. : 0" makes of it. Other NaN
 * may have lost its mark. */
static bool from_gaps(const struct wrong_row *r, struct wrong_answer *out)
{
    bool any = isnan(r->seen_lse), marked = any && nan_kind(r->seen_lse) == NAN_POISON,
         nothing = r->seen_lse == -INFINITY;
    for (int32_t e = 0; e < r->n_columns; e++) {
        any = any || isnan(r->seen_o[e]);
        marked = marked || (isnan(r->seen_o[e]) && nan_kind(r->seen_o[e]) == NAN_POISON);
        nothing = nothing && r->seen_o[e] == 0;
    }
    out->unsure = !marked && !nothing;
    return (any || nothing) && r->c->from_gaps;
}

bool wrong_evaluate(struct wrong_row *r, const struct wrong *w, const struct wrong_way *way, int32_t variant,
                    struct wrong_answer *out)
{
    struct wrong_parts mine = {.n = 0};
    struct state s;
    *out = (struct wrong_answer){.lse = NAN};
    if (w->row_query || w->row_head || w->row_turned)
        return from_oracle(r, w, out);
    if (w->elsewhere)
        return from_elsewhere(r, out);
    if (w->soft == SOFT_HIDDEN)
        return from_hidden(r, w, out);
    if (w->gaps && w->pool == POOL_OWN)
        return from_gaps(r, out);
    if (w->only_empty) {
        memcpy(out->o, r->seen_o, sizeof out->o);
        out->lse = r->seen_lse;
        return r->n == 0;
    }
    const struct wrong_parts *part = parts_of(r, w, way, &mine);
    if (!part)
        return false;
    double lse = join(r, w, way, part, variant, &s), max = max_score(part), right = lse;
    if (part->n == 1 && w->lse != LSE_RIGHT)
        right = part->max[0] + log(part->sum[0]);
    if (part->n == 0) { /* nothing is read */
        right = lse = -INFINITY;
        max = 0;
        s = (struct state){.any = false};
    }
    double before = right, sink = wrong_sink_of(r, w, way, part->n, max),
           keep =
               sink == -INFINITY || w->sink == SINK_NOT_IN_O ? 1 : exp(before - wrong_log_sum(before, sink));
    for (int32_t e = 0; e < r->n_columns; e++) {
        s.o[e] *= keep;
        s.abs[e] *= fabs(keep);
    }
    if (sink != -INFINITY && w->sink != SINK_NOT_IN_LSE) {
        right = wrong_log_sum(right, sink);
        lse = w->lse == LSE_RIGHT || part->n > 1 ? wrong_log_sum(lse, sink)
                                                 : written_lse(r, w, 0, r->items.n, right, max);
    }
    memcpy(out->o, s.o, sizeof s.o);
    bounds(r, w, part, &s, right, out);
    out->nothing = part->n > 0 && max_score(part) == INFINITY ? false : part->n > 0 && !s.any;
    if (part->n == 1 && !is_tiles(w->join))
        out->nothing = part->sum[0] == 0;
    /* One of them could not be told from a sink; and nobody knows what lies beyond the pool. */
    out->unsure = ((w->join == JOIN_SINKS || w->sink == SINK_EACH) && part->n < 2) ||
                  (w->read != READ_OWN && r->items.outside);
    out->lse = lse;
    double ratio = isfinite(out->lse) && isfinite(right) ? fmax(1, fabs(out->lse) / fmax(1, fabs(right))) : 1;
    out->bound_lse *= fmax(ratio, fmax(fabs(w->on_max), fabs(w->on_log)));
    write_columns(r, w, right, max, out);
    parts_free(&mine);
    return true;
}
