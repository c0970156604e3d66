/* cause.c - see cause.h. */
#include "verify/compare/cause.h"
#include "verify/compare/wrong.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct hypothesis {
    const char *says;
    struct wrong w;
} hypotheses[] = {
#define WRONG(sentence, ...) {.says = sentence, .w = {__VA_ARGS__}},
#include "verify/compare/hypotheses.def"
#undef WRONG
};

enum {
    N_HYPOTHESES = sizeof hypotheses / sizeof hypotheses[0],
    MOST_WRONG = 20, /* rows that are tried, */
    MOST_RIGHT = 10,
    FEW_COLUMNS = 8, /* of long contexts */
    LONG_CONTEXT = 8192
};
#define MOST_ELEMENTS 5e7 /* of K that the sampled rows read together */
#define SHARE 0.95        /* of wrong rows that a cause explains, */
#define SHARE_OF_RUN                                                                                         \
    0.75 /* and of the failures of a run, where it is one of several that a kernel may have; */
#define LEAST_OF_RUN 0.2 /* most of the others may leave it open, but not nearly all */
#define STRONG 8.0       /* bounds by which a row is wrong beyond any doubt */
#define SLACK 2.0        /* bounds within which a mistake gives what was written */
#define CLEARER 0.25     /* of the error of the right answer: a mistake's is no more */
#define CLOSE_O 1e-2     /* of a row's largest element: a bound that is larger decides nothing */
#define CLOSE_LSE 1e-3
/* Exponents by which weights may be off: logits beyond the reach of float tell of no mistake. */
#define MOST_WEIGHT 16.0
#define MOST_ROUNDING 0.2 /* of a row: no rounding to 8 bits and more makes so much */

/* ---- rows ---------------------------------------------------------------------------------------------- */

struct sample {
    int64_t row[MOST_WRONG];
    int32_t n;
};

/* n of all[], evenly spread. */
static struct sample spread(const int64_t *all, int64_t n_all, int32_t n)
{
    struct sample s = {.n = (int32_t)min_i64(n, n_all)};
    for (int32_t i = 0; i < s.n; i++)
        s.row[i] = all[i * n_all / s.n];
    return s;
}

/* How many rows of such contexts may be tried. */
static int32_t affordable(const struct problem *p, const struct oracle *orc, const int64_t *row, int64_t n,
                          int32_t most)
{
    double all = 0;
    for (int64_t i = 0; i < n; i++)
        all += (double)orc->ctx[row[i] / p->heads.h_q] * p->heads.d;
    double each = n > 0 ? fmax(1, all / (double)n) : 1;
    return (int32_t)fmax(2, fmin(most, MOST_ELEMENTS / each));
}

/* Rows beyond their bound, those far beyond it if there are such, and rows within it. *worst_column of the first kind's worst. */
static void draw(const struct problem *p, const struct oracle *orc, const struct output *out,
                 const struct arithmetic *a, const struct comparison *cmp, struct sample *wrong,
                 struct sample *right)
{
    int64_t n = out->n_rows, n_wrong = 0, n_right = 0, n_strong = 0;
    int64_t *bad = xcalloc((size_t)n, sizeof *bad), *good = xcalloc((size_t)n, sizeof *good),
            *strong = xcalloc((size_t)n, sizeof *strong);
    for (int64_t r = 0; r < n; r++) {
        double error = compare_row_error(p, orc, out, a, cmp, r);
        if (error <= 1)
            good[n_right++] = r;
        else if (compare_weights(p, orc, r, orc->ctx[r / p->heads.h_q], a) > MOST_WEIGHT)
            continue;
        else
            bad[n_wrong++] = r;
        if (!(error <= STRONG))
            strong[n_strong++] = r;
    }
    if (n_strong > 0)
        *wrong = spread(strong, n_strong, affordable(p, orc, strong, n_strong, MOST_WRONG));
    else
        *wrong = spread(bad, n_wrong, affordable(p, orc, bad, n_wrong, MOST_WRONG));
    *right = spread(good, n_right, affordable(p, orc, good, n_right, MOST_RIGHT));
    free(bad);
    free(good);
    free(strong);
}

/* Columns that are looked at, spread from the first to the last. */
static int32_t columns(int32_t d, int64_t ctx, int32_t *column)
{
    int32_t n = (int32_t)min_i64(d, ctx > LONG_CONTEXT ? FEW_COLUMNS : WRONG_MAX_COLUMNS);
    for (int32_t i = 0; i < n; i++)
        column[i] = n > 1 ? (int32_t)((int64_t)i * (d - 1) / (n - 1)) : 0;
    return n;
}

/* ---- a row and a mistake -------------------------------------------------------------------------------- */

enum fit { FIT_NOT, FIT_UNDECIDED, FIT_NAN, FIT_NUMBERS };

/* What the kernel wrote, and how far the right answer is from it. */
struct seen {
    double o[WRONG_MAX_COLUMNS], lse, most; /* most: the largest of |o| */
    double bound[WRONG_MAX_COLUMNS]; /* of the right answer; 0 where it is kept: that column tells little */
    double off, off_o, off_lse;      /* off_o: of all wrong columns, in bounds, as a distance */
    double beyond;                   /* of all, in bounds: the largest error */
    bool wrong_o, wrong_lse, no_lse;
    bool unwritten; /* all of it */
    int32_t n;      /* columns */
};

static bool is_unwritten(double x)
{
    return isnan(x) && nan_kind(x) == NAN_UNWRITTEN;
}

static bool same_kind(double got, double want)
{
    return isnan(got) == isnan(want) && (!isinf(want) || got == want) && (!isinf(got) || isinf(want));
}

/* Nothing was summed: O is 0 or NaN or infinite, LSE has no number. */
static bool is_nothing(const struct seen *s)
{
    bool zero = true, none = true;
    for (int32_t e = 0; e < s->n; e++) {
        zero = zero && s->o[e] == 0;
        none = none && !isfinite(s->o[e]);
    }
    return (zero || none) && (s->no_lse || !isfinite(s->lse));
}

static enum fit fit_lse(const struct seen *s, const struct wrong_answer *x, double slack)
{
    if (s->no_lse)
        return FIT_NUMBERS;
    if (!same_kind(s->lse, x->lse))
        return FIT_NOT;
    if (!isfinite(x->lse))
        return FIT_NAN;
    double off = fabs(s->lse - x->lse), close = CLOSE_LSE * fmax(1, fabs(x->lse));
    if (!(off <= slack * x->bound_lse))
        return FIT_NOT;
    return off <= close && (!s->wrong_lse || off <= CLEARER * s->off_lse) ? FIT_NUMBERS : FIT_UNDECIDED;
}

static enum fit fit_o(const struct seen *s, const struct wrong_answer *x, double slack, bool rounds)
{
    double most = 0, off = 0, loose = 0, units = 0;
    int32_t finite = 0;
    for (int32_t e = 0; e < s->n; e++) {
        if (!same_kind(s->o[e], x->o[e]))
            return FIT_NOT;
        if (!isfinite(x->o[e]))
            continue;
        finite++;
        most = fmax(most, fabs(x->o[e]));
        off = fmax(off, fabs(s->o[e] - x->o[e]));
        if (s->bound[e] > 0)
            units = hypot(units, (s->o[e] - x->o[e]) / s->bound[e]);
        loose = fmax(loose, fabs(s->o[e] - x->o[e]) / fmax(x->bound_o[e], DBL_MIN));
    }
    if (finite == 0)
        return FIT_NAN;
    bool clear = !s->wrong_o || units <= CLEARER * s->off_o;
    if (!(loose <= slack) && !(rounds && s->wrong_o && units <= 0.1 * s->off_o))
        return FIT_NOT;
    return clear && off <= CLOSE_O * fmax(most, 1e-300) ? FIT_NUMBERS : FIT_UNDECIDED;
}

/* NaN goes on from mistake to mistake: only those that make it from numbers, or read it, are blamed. */
static bool explains_nan(const struct wrong *w)
{
    return w->read != READ_OWN || w->pool != POOL_OWN || w->kv_head == H_UNDIVIDED ||
           w->soft == SOFT_NO_MAX || w->soft == SOFT_MAX_FROM || w->score_store == STORE_F16 ||
           w->dot_store == STORE_F16 || w->k_store == STORE_F16 || w->v_store == STORE_F16 ||
           w->sink == SINK_AS_WEIGHT || w->only_empty || w->k_bits == BITS_OTHER || w->k_bits == BITS_FNUZ ||
           w->v_bits == BITS_OTHER || w->v_bits == BITS_FNUZ;
}

/* Does that give what was written? */
static enum fit fit_of(const struct seen *s, const struct wrong *w, const struct wrong_answer *x)
{
    if (x->unsure)
        return FIT_UNDECIDED;
    if (w->only_empty || (w->gaps && w->pool == POOL_OWN)) /* is known whatever was written */
        return FIT_NUMBERS;
    if (w->unwritten || (s->unwritten && explains_nan(w))) /* NaN that stood there was not computed */
        return w->unwritten && s->unwritten ? FIT_NUMBERS : FIT_NOT;
    bool nan = isnan(x->lse);
    for (int32_t e = 0; e < s->n && nan; e++)
        nan = isnan(x->o[e]);
    if (x->nothing)
        return !is_nothing(s) ? FIT_NOT : explains_nan(w) ? FIT_NAN : FIT_UNDECIDED;
    if (nan && w->written == WRITTEN_OWN && is_nothing(s)) /* "sum > 0 ? .. : 0" makes nothing of NaN */
        return explains_nan(w) ? FIT_NAN : FIT_UNDECIDED;
    enum fit lse = fit_lse(s, x, SLACK), o = x->any_o ? lse : fit_o(s, x, SLACK, w->rounds);
    if (lse == FIT_NOT || o == FIT_NOT)
        return FIT_NOT;
    if (lse == FIT_UNDECIDED || o == FIT_UNDECIDED)
        return FIT_UNDECIDED;
    if (lse == FIT_NUMBERS && o == FIT_NUMBERS)
        return FIT_NUMBERS;
    return w->last                                                                 ? FIT_NAN
           : w->written == WRITTEN_NAN || w->lse == LSE_NAN || w->lse == LSE_EMPTY ? FIT_NUMBERS
           : explains_nan(w)                                                       ? FIT_NAN
                                                                                   : FIT_UNDECIDED;
}

/* ---- all of them ------------------------------------------------------------------------------------------ */

/* A hypothesis on the rows so far, in each of its ways. */
struct trial {
    struct wrong_way way[WRONG_MAX_WAYS];
    int32_t n_ways, n_alive;
    bool applies, alive[WRONG_MAX_WAYS];
    int16_t fits[WRONG_MAX_WAYS], numbers[WRONG_MAX_WAYS], misses[WRONG_MAX_WAYS];
};

/* The best that any variant does. */
static enum fit best_fit(struct wrong_row *row, const struct seen *s, const struct wrong *w,
                         const struct wrong_way *way, bool wrong)
{
    enum fit best = FIT_NOT;
    struct wrong_answer x;
    if (wrong && w->join >= TILES_P_F16 && !(s->off <= MOST_ROUNDING * s->most))
        return FIT_NOT;
    if (wrong && w->some && s->beyond < STRONG) /* of many parts one is as large as any rounding */
        return FIT_UNDECIDED;
    for (int32_t v = 0, n = wrong_variants(w); v < n && best < FIT_NUMBERS; v++) {
        bool differs = wrong_evaluate(row, w, way, v, &x);
        enum fit fit = differs ? fit_of(s, w, &x) : wrong ? FIT_NOT : FIT_NUMBERS;
        if (fit > best && (best != FIT_NUMBERS))
            best = fit;
    }
    return best;
}

static void try_row(struct wrong_row *row, const struct seen *s, struct trial *t, const struct wrong *w,
                    bool wrong, int32_t misses)
{
    for (int32_t i = 0; i < t->n_ways && t->n_alive > 0; i++) {
        if (!t->alive[i])
            continue;
        enum fit fit = best_fit(row, s, w, &t->way[i], wrong);
        t->misses[i] = (int16_t)(t->misses[i] + (fit == FIT_NOT));
        t->fits[i] = (int16_t)(t->fits[i] + (wrong && fit >= FIT_NAN));
        t->numbers[i] = (int16_t)(t->numbers[i] + (wrong && fit == FIT_NUMBERS));
        if (t->misses[i] > misses) {
            t->alive[i] = false;
            t->n_alive--;
        }
    }
}

static struct seen see(const struct problem *p, const struct oracle *orc, const struct output *out,
                       const struct arithmetic *a, const struct kernel *k, int64_t r, const int32_t *column,
                       int32_t n)
{
    struct seen s = {.n = n, .lse = output_lse(out, r), .no_lse = k->attend && k->lse_unit == 0};
    double bound[PROBLEM_MAX_ROW], lse = compare_bound(p, orc, a, r, bound);
    s.unwritten = s.no_lse || is_unwritten(s.lse);
    for (int32_t e = 0; e < n; e++) {
        int64_t at = r * out->d + column[e];
        s.o[e] = dtype_load(out->dtype, out->o, at);
        s.unwritten = s.unwritten && is_unwritten(s.o[e]);
        double off = fabs(s.o[e] - orc->o[at]);
        s.off = isfinite(off) ? fmax(s.off, off) : INFINITY;
        s.beyond = fmax(s.beyond, isfinite(off) ? off / fmax(bound[column[e]], DBL_MIN) : INFINITY);
        if (!(off <= bound[column[e]])) {
            s.wrong_o = true;
            s.bound[e] = fmax(bound[column[e]], DBL_MIN);
            s.off_o = isfinite(off) ? hypot(s.off_o, off / s.bound[e]) : INFINITY;
        }
        s.most = fmax(s.most, fabs(s.o[e]));
    }
    double off = s.lse == orc->lse[r] ? 0 : fabs(s.lse - orc->lse[r]);
    s.off_lse = isfinite(off) ? off : INFINITY;
    s.wrong_lse = !(off <= lse) && !s.no_lse;
    s.beyond = s.no_lse ? s.beyond : fmax(s.beyond, isfinite(off) ? off / fmax(lse, DBL_MIN) : INFINITY);
    return s;
}

/* A row may be wrong in few columns: the worst takes the place of its neighbour. */
static void look_at_worst(const struct problem *p, const struct oracle *orc, const struct output *out,
                          const struct arithmetic *a, int64_t r, int32_t *column, int32_t n)
{
    double bound[PROBLEM_MAX_ROW], most = 1;
    int32_t worst = -1, at = 0;
    compare_bound(p, orc, a, r, bound);
    for (int32_t e = 0; e < out->d; e++) {
        double off = fabs(dtype_load(out->dtype, out->o, r * out->d + e) - orc->o[r * out->d + e]) / bound[e];
        if (off > most) {
            most = off;
            worst = e;
        }
    }
    for (int32_t i = 0; i < n && worst >= 0; i++)
        at = abs(column[i] - worst) < abs(column[at] - worst) ? i : at;
    if (worst >= 0)
        column[at] = worst;
}

static void try_rows(struct wrong_case *c, const struct problem *p, const struct oracle *orc,
                     const struct output *out, const struct arithmetic *a, const struct kernel *k,
                     const struct sample *rows, bool wrong, struct trial *trial)
{
    int32_t misses = (int32_t)((1 - SHARE) * rows->n), column[WRONG_MAX_COLUMNS];
    for (int32_t h = 0; h < N_HYPOTHESES; h++)
        memset(trial[h].misses, 0, sizeof trial[h].misses);
    for (int32_t i = 0; i < rows->n; i++) {
        int64_t r = rows->row[i];
        int32_t n = columns(orc->d, orc->ctx[r / p->heads.h_q], column);
        if (wrong)
            look_at_worst(p, orc, out, a, r, column, n);
        struct seen s = see(p, orc, out, a, k, r, column, n);
        struct wrong_row *row = wrong_row_new(c, r, column, n, s.o, s.lse);
        for (int32_t h = 0; h < N_HYPOTHESES; h++)
            if (trial[h].n_alive > 0 && (wrong || !hypotheses[h].w.some))
                try_row(row, &s, &trial[h], &hypotheses[h].w, wrong, misses);
        wrong_row_free(row);
    }
}

/* Of lines with the same sentence the first one stands for all. */
static int32_t first_of(int32_t h)
{
    int32_t i = 0;
    while (strcmp(hypotheses[i].says, hypotheses[h].says) != 0)
        i++;
    return i;
}

/* What is open makes a cause weaker: it is named where nothing stronger fits. */
static int32_t weakness(int32_t h)
{
    const struct wrong *w = &hypotheses[h].w;
    return w->gaps ? 0 : w->last ? 3 : w->some ? 2 : w->only_empty ? 1 : 0;
}

/* Those of the least weakness that are marked; "" if there are more than CAUSE_MOST. */
static const char *name(const bool *marked, char text[CAUSE_TEXT])
{
    int32_t least = INT32_MAX, n = 0;
    size_t used = 0;
    text[0] = 0;
    for (int32_t h = 0; h < N_HYPOTHESES; h++)
        if (marked[h])
            least = (int32_t)min_i64(least, weakness(h));
    for (int32_t h = 0; h < N_HYPOTHESES; h++) {
        if (!marked[h] || weakness(h) != least)
            continue;
        if (++n > CAUSE_MOST) {
            text[0] = 0;
            break;
        }
        used += (size_t)snprintf(text + used, used < CAUSE_TEXT ? CAUSE_TEXT - used : 0, "%s%s",
                                 n > 1 ? "; or " : "", hypotheses[h].says);
    }
    return text;
}

/* What is left after all rows. */
static void conclude(const struct trial *trial, int32_t n_wrong, struct cause *c)
{
    bool marked[N_HYPOTHESES] = {false}, may[N_HYPOTHESES] = {false}, numbers = false;
    bool with_numbers[N_HYPOTHESES] = {false}, tried[N_HYPOTHESES] = {false};
    for (int32_t h = 0; h < N_HYPOTHESES; h++) {
        int32_t first = first_of(h);
        for (int32_t i = 0; i < trial[h].n_ways; i++) {
            bool fits = trial[h].alive[i] && trial[h].fits[i] > 0 && trial[h].fits[i] >= 0.3 * n_wrong;
            marked[first] = marked[first] || fits;
            with_numbers[first] = with_numbers[first] || (fits && trial[h].numbers[i] > 0);
            may[first] = may[first] || trial[h].alive[i];
        }
        tried[first] = tried[first] || trial[h].applies;
        numbers = numbers || with_numbers[first];
    }
    for (int32_t h = 0; h < N_HYPOTHESES; h++) {
        if (h != first_of(h))
            continue;
        if (!marked[h] && tried[h] && !may[h])
            c->set.fails[h / 64] |= UINT64_C(1) << (h % 64);
        marked[h] = marked[h] && (with_numbers[h] || !numbers); /* NaN is explained by much */
        if (marked[h])
            c->set.fits[h / 64] |= UINT64_C(1) << (h % 64);
    }
    name(marked, c->text);
}

/* In the case *c, which is freed. */
static struct cause find(struct wrong_case *c, const struct problem *p, const struct oracle *orc,
                         const struct kernel *k, const struct output *out, const struct arithmetic *a,
                         const struct comparison *cmp)
{
    _Static_assert(N_HYPOTHESES <= CAUSE_WORDS * 64, "a bit for each");
    struct cause cause = {.text = ""};
    struct sample wrong, right;
    if (out->n_rows != orc->n_rows || out->d != orc->d || cmp->row < 0) {
        wrong_case_free(c);
        return cause;
    }
    draw(p, orc, out, a, cmp, &wrong, &right);
    struct trial *trial = xcalloc(N_HYPOTHESES, sizeof *trial);
    for (int32_t h = 0; h < N_HYPOTHESES; h++) {
        trial[h].applies = wrong_applies(c, &hypotheses[h].w);
        trial[h].n_ways = trial[h].n_alive =
            trial[h].applies ? wrong_ways(c, &hypotheses[h].w, trial[h].way) : 0;
        memset(trial[h].alive, true, sizeof trial[h].alive);
    }
    try_rows(c, p, orc, out, a, k, &wrong, true, trial);
    try_rows(c, p, orc, out, a, k, &right, false, trial);
    conclude(trial, wrong.n, &cause);
    cause.wrong = wrong.n;
    cause.right = right.n;
    free(trial);
    wrong_case_free(c);
    return cause;
}

struct cause find_cause(const struct problem *p, const struct oracle *orc, const struct plan *plan,
                        const struct kernel *k, const struct output *out, const struct arithmetic *a,
                        const struct comparison *cmp, bool nan_free)
{
    return find(wrong_case_new(p, orc, plan, a, k->tails, k->gaps, nan_free), p, orc, k, out, a, cmp);
}

struct cause find_cause_of_merge(const struct problem *shape, const struct oracle *orc,
                                 const struct partials *merged, const struct kernel *k,
                                 const struct output *out, const struct arithmetic *a,
                                 const struct comparison *cmp)
{
    return find(wrong_case_of_merge(shape, orc, merged, a), shape, orc, k, out, a, cmp);
}

/* Does it change a row? As far as that can be told. */
static bool changes(struct wrong_case *c, const struct oracle *orc, int64_t r, const struct wrong *w)
{
    static const struct wrong_way whole = {.cut = CUT_NONE};
    int32_t column[WRONG_MAX_COLUMNS], n = columns(orc->d, LONG_CONTEXT + 1, column);
    double o[WRONG_MAX_COLUMNS];
    for (int32_t e = 0; e < n; e++)
        o[e] = orc->o[r * orc->d + column[e]];
    struct wrong_row *row = wrong_row_new(c, r, column, n, o, orc->lse[r]);
    struct wrong_answer x;
    bool differs = wrong_evaluate(row, w, &whole, 0, &x) && !x.unsure;
    differs = differs && (x.nothing || (isfinite(orc->lse[r]) && !isfinite(x.lse)));
    wrong_row_free(row);
    return differs;
}

struct cause cause_of_right(const struct problem *p, const struct oracle *orc, const struct arithmetic *a)
{
    enum { ROWS = 3 };
    struct cause cause = {.text = ""};
    struct wrong_case *c = wrong_case_new(p, orc, NULL, a, false, false, false);
    bool may[N_HYPOTHESES] = {false}, tried[N_HYPOTHESES] = {false};
    for (int32_t h = 0; h < N_HYPOTHESES; h++) {
        const struct wrong *w = &hypotheses[h].w;
        if (!wrong_applies(c, w) || !explains_nan(w) || w->read != READ_OWN || w->pool != POOL_OWN ||
            w->kv_head != H_OWN || w->only_empty)
            continue;
        bool change = false;
        for (int64_t i = 0; i < ROWS && !change; i++)
            change = changes(c, orc, i * orc->n_rows / ROWS, w);
        tried[first_of(h)] = true;
        may[first_of(h)] = may[first_of(h)] || !change;
    }
    for (int32_t h = 0; h < N_HYPOTHESES; h++)
        if (tried[h] && !may[h])
            cause.set.fails[h / 64] |= UINT64_C(1) << (h % 64);
    cause.right = ROWS;
    wrong_case_free(c);
    return cause;
}

/* ---- a run ------------------------------------------------------------------------------------------------ */

void cause_add(struct cause_tally *t, const struct cause *c)
{
    t->n += c->wrong > 0;
    for (int32_t h = 0; h < N_HYPOTHESES; h++) {
        t->fits[h] += c->set.fits[h / 64] >> (h % 64) & 1;
        t->fails[h] += c->set.fails[h / 64] >> (h % 64) & 1;
    }
}

const char *cause_of_all(const struct cause_tally *t, char text[CAUSE_TEXT], int64_t *n)
{
    bool marked[N_HYPOTHESES] = {false};
    int64_t most = 0, least = INT64_MAX;
    for (int32_t h = 0; h < N_HYPOTHESES; h++) {
        marked[h] = t->fits[h] > 0 &&
                    (double)t->fits[h] >= SHARE_OF_RUN * (double)(t->fits[h] + t->fails[h]) &&
                    (double)t->fits[h] >= LEAST_OF_RUN * (double)t->n;
        if (marked[h] && t->fits[h] > most)
            most = t->fits[h];
    }
    for (int32_t h = 0; h < N_HYPOTHESES; h++) /* what decided little is nothing */
        marked[h] = marked[h] && 2 * t->fits[h] >= most;
    for (int32_t h = 0; h < N_HYPOTHESES; h++)
        if (marked[h] && weakness(h) == 0)
            least = min_i64(least, t->fails[h]);
    for (int32_t h = 0; h < N_HYPOTHESES; h++)
        marked[h] = marked[h] && t->fails[h] <= least;
    *n = most;
    return name(marked, text);
}
