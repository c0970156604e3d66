/* lab1_wrong.c - see lab1_wrong.h. */
#include "verify/lab/lab1_wrong.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The steps of both functions. 0 is how each is done rightly. */
enum step {
    SCALE,
    START,
    RESCALE,
    BASE,
    DIVIDE,
    LOG,
    TOKENS,
    TENSOR,
    EMPTY,
    WEIGHT,
    NEW_LSE,
    BOTH_EMPTY,
    ONE_EMPTY,
    N_STEPS
};
enum { SCALE_OWN, SCALE_NONE, SCALE_TWICE, SCALE_ROOT, SCALE_DIVIDES };
enum { START_INF, START_ZERO, START_1000, START_10000, START_100000, START_NEVER };
enum { RESCALE_BOTH, RESCALE_SUM, RESCALE_O, RESCALE_NONE, RESCALE_INVERSE };
enum { BASE_E, BASE_2 };
enum { DIVIDE_SUM, DIVIDE_NOT, DIVIDE_N, DIVIDE_TWICE };
enum { LOG_OWN, LOG_NO_MAX, LOG_MAX, LOG_2, LOG_ALL_2, LOG_NOT, LOG_MINUS, LOG_TOTAL };
enum { TOKENS_ALL, TOKENS_NO_LAST, TOKENS_NO_FIRST };
enum { TENSOR_OWN, TENSOR_K_AS_V, TENSOR_V_AS_K, TENSOR_BY_ELEMENT };
enum { EMPTY_OWN, EMPTY_NAN, EMPTY_ZERO, EMPTY_LEFT };
enum {
    WEIGHT_OWN,
    WEIGHT_HALF,
    WEIGHT_LSE,
    WEIGHT_SWAPPED,
    WEIGHT_OPEN,
    WEIGHT_2,
    WEIGHT_ONE,
    WEIGHT_FIRST,
    WEIGHT_SECOND,
    WEIGHT_LARGER,
    WEIGHT_LATE,
    WEIGHT_NO_MAX,
    WEIGHT_MAX_ZERO
};
enum {
    NEW_LSE_OWN,
    NEW_LSE_OLD,
    NEW_LSE_SECOND,
    NEW_LSE_MAX,
    NEW_LSE_SUM,
    NEW_LSE_MEAN,
    NEW_LSE_2,
    NEW_LSE_NO_MAX
};
enum { BOTH_EMPTY_OWN, BOTH_EMPTY_NAN, BOTH_EMPTY_ZERO };
enum { ONE_EMPTY_OWN, ONE_EMPTY_HALF, ONE_EMPTY_NAN, ONE_EMPTY_KEEPS, ONE_EMPTY_ZERO_LSE };

static const struct {
    enum lab1_point point;
    enum step step;
    int32_t value;
    const char *says;
} wrongs[] = {
#define WRONG(point_, step_, value_, sentence) {point_, step_, value_, sentence},
#include "verify/lab/lab1_wrong.def"
#undef WRONG
};
enum { N_WRONGS = sizeof wrongs / sizeof wrongs[0] };

/* ---- the right answer ---------------------------------------------------------------------------------- */

#define U 0x1p-24 /* half a unit in the last place of float */
#define SAFETY 4.0

static struct lab1_answer answer_new(int32_t d)
{
    return (struct lab1_answer){.o = xcalloc((size_t)d, sizeof(double)),
                                .allow = xcalloc((size_t)d, sizeof(double))};
}

void lab1_answer_clear(struct lab1_answer *a)
{
    free(a->o);
    free(a->allow);
    *a = (struct lab1_answer){0};
}

/* Score of token i in double; *size: the same of absolute values. */
static double score(const struct lab1_call *c, int32_t i, double *size)
{
    double s = 0;
    *size = 0;
    for (int32_t x = 0; x < c->d; x++) {
        double product = (double)c->q[x] * (double)c->k[(int64_t)i * c->d + x];
        s += product;
        *size += fabs(product);
    }
    *size *= fabs((double)c->scale);
    return s * (double)c->scale;
}

double lab1_score(const struct lab1_call *c, int32_t i)
{
    double size;
    return score(c, i, &size);
}

/*
 * A score is a sum of d products, whose error grows like sqrt(d); an error of a score is a relative one of its weight. A sum of n
 * terms in order, rounded after each, errs like sqrt(n): worst cases are far larger, and are not met by numbers that are drawn.
 */
static struct lab1_answer right_attend(const struct lab1_call *c)
{
    struct lab1_answer a = answer_new(c->d);
    double *s = xcalloc((size_t)c->n, sizeof *s), *err = xcalloc((size_t)c->n, sizeof *err), max = -INFINITY,
           sum = 0, off = 0;
    for (int32_t i = 0; i < c->n; i++) {
        double size;
        s[i] = score(c, i, &size);
        err[i] = U * ((4 + sqrt(c->d)) * size + 2 * fabs(s[i]));
        max = fmax(max, s[i]);
    }
    for (int32_t i = 0; i < c->n; i++)
        sum += exp(s[i] - max);
    a.lse = c->n > 0 ? max + log(sum) : -INFINITY;
    double adds = U * (4 + 2 * sqrt(c->n));
    for (int32_t i = 0; i < c->n; i++) {
        double p = exp(s[i] - a.lse), weight_err = err[i] + U * fabs(s[i] - max);
        off += p * weight_err;
        for (int32_t x = 0; x < c->d; x++)
            a.o[x] += p * (double)c->v[(int64_t)i * c->d + x];
        for (int32_t x = 0; x < c->d; x++)
            a.allow[x] += SAFETY * p * fabs((double)c->v[(int64_t)i * c->d + x]) * (weight_err + adds);
    }
    for (int32_t x = 0; x < c->d; x++)
        a.allow[x] += SAFETY * fabs(a.o[x]) * off;
    a.allow_lse = c->n > 0 ? SAFETY * (off + adds + U * fabs(a.lse)) : 0;
    free(s);
    free(err);
    return a;
}

static struct lab1_answer right_merge(const struct lab1_call *c)
{
    struct lab1_answer a = answer_new(c->d);
    double l1 = (double)c->lse1, l2 = (double)c->lse2, max = fmax(l1, l2);
    bool empty = max == -INFINITY;
    double w1 = empty ? 0 : exp(l1 - max), w2 = empty ? 0 : exp(l2 - max), sum = w1 + w2;
    a.lse = empty ? -INFINITY : max + log(sum);
    double off = empty ? 0 : U * (6 + fabs(max));
    for (int32_t x = 0; x < c->d && !empty; x++) {
        double y1 = w1 / sum * (double)c->o1[x], y2 = w2 / sum * (double)c->o2[x];
        a.o[x] = y1 + y2;
        a.allow[x] = SAFETY * off * (fabs(y1) + fabs(y2));
    }
    a.allow_lse = empty ? 0 : SAFETY * U * (3 + fabs(a.lse));
    return a;
}

struct lab1_answer lab1_right(const struct lab1_call *c)
{
    return c->point == LAB1_ATTEND ? right_attend(c) : right_merge(c);
}

/* ---- wrong ones ---------------------------------------------------------------------------------------- */

/* How each step is done. In float every result is rounded, and what is too large for it is infinite. */
struct way {
    int32_t of[N_STEPS];
    bool in_float;
    bool guarded; /* of a merge: it looks for empty parts first */
};

static double r(const struct way *w, double x)
{
    return w->in_float ? (double)(float)x : x;
}

static double power(const struct way *w, int32_t base2, double x)
{
    return r(w, base2 ? exp2(x) : exp(x));
}

/* Where element x of token i is. */
static int64_t place(const struct lab1_call *c, const struct way *w, int32_t i, int32_t x)
{
    return w->of[TENSOR] == TENSOR_BY_ELEMENT ? (int64_t)x * c->n + i : (int64_t)i * c->d + x;
}

static double wrong_score(const struct lab1_call *c, const struct way *w, int32_t i)
{
    const float *k = w->of[TENSOR] == TENSOR_V_AS_K ? c->v : c->k;
    double s = 0, scale = (double)c->scale;
    for (int32_t x = 0; x < c->d; x++)
        s = r(w, s + r(w, (double)c->q[x] * (double)k[place(c, w, i, x)]));
    switch (w->of[SCALE]) {
    case SCALE_NONE:
        return s;
    case SCALE_TWICE:
        return r(w, s * scale * scale);
    case SCALE_ROOT:
        return r(w, s * scale / sqrt(c->d));
    case SCALE_DIVIDES:
        return r(w, s / scale);
    default:
        return r(w, s * scale);
    }
}

static double wrong_lse(const struct way *w, double max, double sum)
{
    double natural = log(sum);
    switch (w->of[LOG]) {
    case LOG_NO_MAX:
        return natural;
    case LOG_MAX:
        return max;
    case LOG_2:
        return max + log2(sum);
    case LOG_ALL_2:
        return (max + natural) / M_LN2;
    case LOG_NOT:
        return max + sum;
    case LOG_MINUS:
        return max - natural;
    case LOG_TOTAL:
        return natural - max;
    default:
        return max + natural;
    }
}

static void empty_attend(const struct lab1_call *c, const struct way *w, struct lab1_wrong *a)
{
    int32_t how = w->of[EMPTY];
    a->nothing = how == EMPTY_NAN || c->n > 0;
    a->left = how == EMPTY_LEFT;
    for (int32_t x = 0; x < c->d; x++)
        a->o[x] = 0;
    a->lse = how == EMPTY_ZERO ? 0 : -INFINITY;
}

/* Token by token, with a running maximum. */
static void wrong_attend(const struct lab1_call *c, const struct way *w, struct lab1_wrong *a)
{
    static const double starts[] = {-INFINITY, 0, -1e3, -1e4, -1e5, 0};
    const float *v = w->of[TENSOR] == TENSOR_K_AS_V ? c->k : c->v;
    int32_t first = w->of[TOKENS] == TOKENS_NO_FIRST, last = c->n - (w->of[TOKENS] == TOKENS_NO_LAST);
    double max = starts[w->of[START]], sum = 0;
    if (first >= last) {
        empty_attend(c, w, a);
        return;
    }
    for (int32_t x = 0; x < c->d; x++)
        a->o[x] = 0;
    for (int32_t i = first; i < last; i++) {
        double s = wrong_score(c, w, i), more = w->of[START] == START_NEVER ? 0 : fmax(max, s),
               keep = max == -INFINITY ? 0
                                       : power(w, w->of[BASE],
                                               w->of[RESCALE] == RESCALE_INVERSE ? more - max : max - more),
               add = power(w, w->of[BASE], s - more);
        bool sum_kept = w->of[RESCALE] == RESCALE_O || w->of[RESCALE] == RESCALE_NONE,
             o_kept = w->of[RESCALE] == RESCALE_SUM || w->of[RESCALE] == RESCALE_NONE;
        for (int32_t x = 0; x < c->d; x++)
            a->o[x] = r(w, (o_kept ? 1 : keep) * a->o[x] + add * (double)v[place(c, w, i, x)]);
        sum = r(w, (sum_kept ? 1 : keep) * sum + add);
        max = more;
    }
    a->nothing = !(sum > 0) || isinf(sum);
    double by = w->of[DIVIDE] == DIVIDE_NOT     ? 1
                : w->of[DIVIDE] == DIVIDE_N     ? last - first
                : w->of[DIVIDE] == DIVIDE_TWICE ? sum * sum
                                                : sum;
    for (int32_t x = 0; x < c->d; x++)
        a->o[x] /= by;
    a->lse = wrong_lse(w, max, sum);
}

/* Weights of both parts, and what they are divided by. */
static void wrong_weights(const struct way *w, double l1, double l2, double lse, double weight[2], double *by)
{
    double max = w->of[WEIGHT] == WEIGHT_NO_MAX
                     ? 0
                     : fmax(fmax(l1, l2), w->of[WEIGHT] == WEIGHT_MAX_ZERO ? 0 : -INFINITY);
    int32_t base2 = w->of[WEIGHT] == WEIGHT_2;
    weight[0] = power(w, base2, l1 - max);
    weight[1] = power(w, base2, l2 - max);
    *by = weight[0] + weight[1];
    switch (w->of[WEIGHT]) {
    case WEIGHT_HALF:
        weight[0] = weight[1] = 1;
        *by = 2;
        break;
    case WEIGHT_LSE:
        weight[0] = l1;
        weight[1] = l2;
        *by = l1 + l2;
        break;
    case WEIGHT_SWAPPED:
        max = weight[0];
        weight[0] = weight[1];
        weight[1] = max;
        break;
    case WEIGHT_OPEN:
        *by = 1;
        break;
    case WEIGHT_ONE:
        weight[0] = weight[1] = *by = 1;
        break;
    case WEIGHT_FIRST:
    case WEIGHT_SECOND:
        weight[0] = *by = w->of[WEIGHT] == WEIGHT_FIRST;
        weight[1] = 1 - weight[0];
        *by = 1;
        break;
    case WEIGHT_LARGER:
        weight[0] = l1 >= l2;
        weight[1] = 1 - weight[0];
        *by = 1;
        break;
    case WEIGHT_LATE:
        weight[0] = 1;
        weight[1] = power(w, 0, l2 - lse);
        *by = 1;
        break;
    default:
        break;
    }
}

static double merged_lse(const struct way *w, double l1, double l2)
{
    double max = w->of[WEIGHT] == WEIGHT_NO_MAX
                     ? 0
                     : fmax(fmax(l1, l2), w->of[WEIGHT] == WEIGHT_MAX_ZERO ? 0 : -INFINITY);
    double sum = r(w, power(w, 0, l1 - max) + power(w, 0, l2 - max));
    switch (w->of[NEW_LSE]) {
    case NEW_LSE_OLD:
        return l1;
    case NEW_LSE_SECOND:
        return l2;
    case NEW_LSE_MAX:
        return fmax(l1, l2);
    case NEW_LSE_SUM:
        return l1 + l2;
    case NEW_LSE_MEAN:
        return (l1 + l2) / 2;
    case NEW_LSE_2:
        return max + log2(sum);
    case NEW_LSE_NO_MAX:
        return log(sum);
    default:
        return max + log(sum);
    }
}

/* True where a mistake with empty parts says it all. */
static bool wrong_empty(const struct lab1_call *c, const struct way *w, struct lab1_wrong *a)
{
    bool e1 = c->lse1 == -INFINITY, e2 = c->lse2 == -INFINITY;
    int32_t both = w->of[BOTH_EMPTY], one = w->of[ONE_EMPTY];
    if (e1 && e2) {
        for (int32_t x = 0; x < c->d; x++)
            a->o[x] = both == BOTH_EMPTY_NAN ? NAN : 0;
        a->lse = both == BOTH_EMPTY_NAN ? NAN : both == BOTH_EMPTY_ZERO ? 0 : -INFINITY;
        if (w->of[WEIGHT] == WEIGHT_MAX_ZERO || w->of[WEIGHT] == WEIGHT_NO_MAX)
            a->nothing = true;
        return one != ONE_EMPTY_ZERO_LSE && one != ONE_EMPTY_NAN;
    }
    if (!(e1 || e2) || one == ONE_EMPTY_ZERO_LSE || (one == ONE_EMPTY_OWN && !w->guarded))
        return false;
    if (one == ONE_EMPTY_OWN) {
        for (int32_t x = 0; x < c->d; x++)
            a->o[x] = (double)(e1 ? c->o2[x] : c->o1[x]);
        a->lse = (double)(e1 ? c->lse2 : c->lse1);
        return true;
    }
    if (one == ONE_EMPTY_KEEPS && !e1)
        return false;
    for (int32_t x = 0; x < c->d; x++)
        a->o[x] = one == ONE_EMPTY_NAN    ? NAN
                  : one == ONE_EMPTY_HALF ? ((double)c->o1[x] + (double)c->o2[x]) / 2
                                          : 0;
    a->lse = one == ONE_EMPTY_NAN     ? NAN
             : one == ONE_EMPTY_KEEPS ? -INFINITY
                                      : (double)(e1 ? c->lse2 : c->lse1);
    return true;
}

static void wrong_merge(const struct lab1_call *c, const struct way *w, struct lab1_wrong *a)
{
    if (wrong_empty(c, w, a))
        return;
    double l1 = (double)c->lse1, l2 = (double)c->lse2, weight[2], by;
    if (w->of[ONE_EMPTY] == ONE_EMPTY_ZERO_LSE) {
        l1 = l1 == -INFINITY ? 0 : l1;
        l2 = l2 == -INFINITY ? 0 : l2;
    }
    a->lse = merged_lse(w, l1, l2);
    wrong_weights(w, l1, l2, a->lse, weight, &by);
    a->any_o = !(by > 0 || by < 0) || isinf(by);
    a->nothing = a->any_o && !isfinite(a->lse);
    for (int32_t x = 0; x < c->d; x++)
        a->o[x] = (weight[0] * (double)c->o1[x] + weight[1] * (double)c->o2[x]) / by;
}

/* ---- does it fit? --------------------------------------------------------------------------------------- */

int32_t lab1_mistakes(enum lab1_point point, struct lab1_mistake **out)
{
    struct lab1_mistake *all = xcalloc(N_WRONGS * (N_WRONGS + 1), sizeof *all);
    int32_t n = 0;
    for (int32_t pairs = 0; pairs < 2; pairs++)
        for (int32_t i = 0; i < N_WRONGS; i++)
            for (int32_t k = pairs ? i + 1 : -1; k < (pairs ? N_WRONGS : 0); k++) {
                if (wrongs[i].point != point ||
                    (pairs && (wrongs[k].point != point || wrongs[k].step == wrongs[i].step)))
                    continue;
                all[n++] = (struct lab1_mistake){i, k, 0};
            }
    *out = all;
    return n;
}

bool lab1_of_empty_parts(struct lab1_mistake m)
{
    enum step step = wrongs[m.first].step;
    return m.second < 0 && (step == EMPTY || step == BOTH_EMPTY || step == ONE_EMPTY);
}

char *lab1_mistake_text(struct lab1_mistake m)
{
    return m.second < 0 ? xstrdup(wrongs[m.first].says)
                        : xasprintf("%s; and %s", wrongs[m.first].says, wrongs[m.second].says);
}

int32_t lab1_invariant(struct lab1_mistake m)
{
    int32_t value = wrongs[m.first].value;
    switch (wrongs[m.first].step) {
    case START:
        return value == START_NEVER ? 3 : 2;
    case WEIGHT:
        return value == WEIGHT_NO_MAX ? 3 : 5;
    case NEW_LSE:
        return 5;
    case EMPTY:
        return 4;
    case BOTH_EMPTY:
    case ONE_EMPTY:
        return 7;
    default:
        return 1;
    }
}

static bool near(double got, double want, double within)
{
    if (isnan(want) || isinf(want) || isnan(got) || isinf(got))
        return isnan(got) == isnan(want) && (isnan(got) || got == want);
    return fabs(got - want) <= within;
}

/* What a program writes that finds no weights, or NaN: zeros, or no numbers. */
static bool is_nothing(const float *o, int32_t d, float lse)
{
    bool zero = true, none = true;
    for (int32_t x = 0; x < d; x++) {
        zero = zero && o[x] == 0;
        none = none && !isfinite(o[x]);
    }
    return (zero || none) && !isfinite(lse);
}

bool lab1_unwritten(const float *o, int32_t d, float lse)
{
    uint32_t bits;
    memcpy(&bits, &lse, sizeof bits);
    for (int32_t x = -1; x < d; x++) {
        if (x >= 0)
            memcpy(&bits, &o[x], sizeof bits);
        if (bits != LAB1_UNWRITTEN)
            return false;
    }
    return true;
}

/* Where the right answer is off by more than is allowed, the wrong one must come far nearer. */
static bool clearer(double got, double wrong, double right, double allowed)
{
    return got == wrong || fabs(got - right) <= allowed ||
           !(fabs(got - wrong) > fmax(0.25 * fabs(got - right), allowed));
}

enum lab1_fit lab1_fits(int32_t d, const struct lab1_wrong *a, const struct lab1_answer *right,
                        const float *o, float lse)
{
    if (a->left || lab1_unwritten(o, d, lse))
        return a->left && lab1_unwritten(o, d, lse) ? LAB1_FITS_NOTHING : LAB1_FITS_NOT;
    if (a->nothing)
        return is_nothing(o, d, lse) ? LAB1_FITS_NOTHING : LAB1_FITS_NOT;
    double most = 0, within = 1e-4 * fmax(1, fabs(a->lse)) + 4 * right->allow_lse;
    for (int32_t x = 0; x < d; x++)
        most = fmax(most, fabs(a->o[x]));
    for (int32_t x = 0; x < d && !a->any_o; x++)
        if (!near((double)o[x], (double)(float)a->o[x], 2e-3 * most + 4 * right->allow[x]) ||
            !clearer((double)o[x], a->o[x], right->o[x], right->allow[x]))
            return LAB1_FITS_NOT;
    if (!near((double)lse, (double)(float)a->lse, within) ||
        !clearer((double)lse, a->lse, right->lse, right->allow_lse))
        return LAB1_FITS_NOT;
    return a->any_o ? LAB1_FITS_NOTHING : LAB1_FITS;
}

enum lab1_fit lab1_gives(const struct lab1_call *c, struct lab1_mistake m, const struct lab1_answer *right,
                         const float *o, float lse)
{
    struct lab1_wrong a = {.o = xcalloc((size_t)c->d, sizeof(double))};
    struct way w = {.in_float = !(m.variant & 1), .guarded = m.variant >> 1};
    w.of[wrongs[m.first].step] = wrongs[m.first].value;
    if (m.second >= 0)
        w.of[wrongs[m.second].step] = wrongs[m.second].value;
    if (c->point == LAB1_ATTEND)
        wrong_attend(c, &w, &a);
    else
        wrong_merge(c, &w, &a);
    enum lab1_fit found = lab1_fits(c->d, &a, right, o, lse);
    free(a.o);
    return found;
}
