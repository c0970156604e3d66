/*
 * lab1.c - lab 1, attention in parts: the questions of its gates, and what the answers mean.
 *
 * lab_merge is given parts that are right, so that a wrong lab_attend spoils no gate of lab_merge.
 */
#include "verify/lab/lab.h"
#include "verify/lab/lab1_wrong.h"

#include "ref/rng.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    GATE_RANDOM = 1,
    GATE_EMPTY,
    GATE_ONE,
    GATE_BELOW,
    GATE_LARGE,
    GATE_ALIKE,
    GATE_CUT,
    GATE_ORDER,
    GATE_BITS,
    GATE_LONG
};
enum { SMALL = 8 /* elements: inputs of so few are shown */, LONG_CONTEXT = 70000 };

/* A call of the student's, its answer, and whether that is right. */
struct asked {
    struct lab1_call call;
    int32_t gate;
    const char *about; /* what is special, for people */
    float *o, lse;
    struct lab1_answer right;
    enum run_end end;
    struct err why;
    bool wrong;
};

struct work {
    struct lab_session *s;
    uint64_t seed, stream; /* of the next numbers */
    struct asked *all;
    int64_t n, cap;
};

/* ---- asking ------------------------------------------------------------------------------------------- */

static void add(struct tensors *t, const char *name, const float *x, int64_t n)
{
    tensors_add(t, name, EL_F32, (void *)x, false, 1, &n);
}

static bool same_bits(const float *a, const float *b, int64_t n)
{
    return memcmp(a, b, (size_t)n * sizeof *a) == 0;
}

/* Is the answer within what rounding may do? A copy has the bits. */
static bool is_right(const struct asked *a)
{
    const struct lab1_call *c = &a->call;
    if (c->exact) {
        bool second = c->lse1 == -INFINITY;
        return same_bits(a->o, second ? c->o2 : c->o1, c->d) &&
               same_bits(&a->lse, second ? &c->lse2 : &c->lse1, 1);
    }
    bool good = a->lse == (float)a->right.lse || fabs((double)a->lse - a->right.lse) <= a->right.allow_lse;
    for (int32_t x = 0; x < c->d; x++)
        good = good && fabs((double)a->o[x] - a->right.o[x]) <= a->right.allow[x];
    return good;
}

/* Asks; the arrays of the call are the work's from now on. */
static struct asked *ask(struct work *w, int32_t gate, const char *about, const struct lab1_call *call)
{
    w->all = xgrow(w->all, &w->cap, w->n + 1, sizeof *w->all);
    struct asked *a = &w->all[w->n++];
    *a = (struct asked){.call = *call, .gate = gate, .about = about, .right = lab1_right(call)};
    const struct lab1_call *c = &a->call;
    struct tensors given = {0}, answer;
    a->o = xcalloc((size_t)c->d, sizeof(float));
    char *numbers =
        xasprintf(",\"n\":%" PRId32 ",\"d\":%" PRId32 ",\"scale\":%.9g", c->n, c->d, (double)c->scale);
    if (c->point == LAB1_ATTEND) {
        add(&given, "q", c->q, c->d);
        add(&given, "k", c->k, (int64_t)c->n * c->d);
        add(&given, "v", c->v, (int64_t)c->n * c->d);
    } else {
        add(&given, "o1", c->o1, c->d);
        add(&given, "lse1", &c->lse1, 1);
        add(&given, "o2", c->o2, c->d);
        add(&given, "lse2", &c->lse2, 1);
    }
    lab_part(w->s, gate);
    a->end = lab_ask(w->s, c->point == LAB1_ATTEND ? "attend" : "merge", numbers, &given, 4 * (c->d + 1),
                     &answer, &a->why);
    struct tensor *o = tensors_find(&answer, "o"), *lse = tensors_find(&answer, "lse");
    if (a->end == RUN_DONE && (!o || !lse || tensor_bytes(o) != 4 * c->d || tensor_bytes(lse) != 4)) {
        a->end = RUN_PROTOCOL;
        err_set(&a->why, "its answer is none of this question");
    }
    if (a->end == RUN_DONE) {
        memcpy(a->o, o->data, (size_t)c->d * sizeof(float));
        memcpy(&a->lse, lse->data, sizeof a->lse);
    }
    a->wrong = a->end != RUN_DONE || !is_right(a);
    tensors_free(&answer);
    tensors_free(&given);
    free(numbers);
    return a;
}

/* ---- numbers ------------------------------------------------------------------------------------------ */

static float *drawn(struct work *w, int64_t n, double times)
{
    float *x = xcalloc((size_t)n, sizeof *x);
    uint64_t stream = w->stream++;
    for (int64_t i = 0; i < n; i++)
        x[i] = (float)(times * rng_bell(w->seed, stream, (uint64_t)i));
    return x;
}

/* Scores of some size; scale is no number that a program would think of. */
static struct lab1_call random_call(struct work *w, int32_t n, int32_t d)
{
    return (struct lab1_call){.point = LAB1_ATTEND,
                              .n = n,
                              .d = d,
                              .scale = (float)((0.6 + 0.3 * rng_unit(w->seed, w->stream, 0)) / sqrt(d)),
                              .q = drawn(w, d, 2),
                              .k = drawn(w, (int64_t)n * d, 1),
                              .v = drawn(w, (int64_t)n * d, 1)};
}

/* Moves the score of token i near s. */
static void aim(const struct lab1_call *c, int32_t i, double s)
{
    int32_t at = 0;
    for (int32_t x = 1; x < c->d; x++)
        at = fabsf(c->q[x]) > fabsf(c->q[at]) ? x : at;
    float *k = c->k + (int64_t)i * c->d;
    k[at] = (float)((double)k[at] + s / ((double)c->scale * (double)c->q[at]));
}

/* ---- gates of lab_attend ------------------------------------------------------------------------------- */

static void ask_random(struct work *w)
{
    static const int32_t sizes[][2] = {{2, 1},  {3, 2},   {4, 2},    {5, 4},    {17, 16},
                                       {33, 5}, {64, 64}, {100, 33}, {257, 128}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct lab1_call c = random_call(w, sizes[i][0], sizes[i][1]);
        ask(w, GATE_RANDOM, "random numbers", &c);
    }
}

static void ask_few(struct work *w)
{
    static const int32_t sizes[] = {1, 4, 64};
    for (int i = 0; i < 3; i++) {
        struct lab1_call none = random_call(w, 0, sizes[i]), one = random_call(w, 1, sizes[i]);
        aim(&one, 0, i == 1 ? -9 : 9);
        ask(w, GATE_EMPTY, "no token", &none);
        ask(w, GATE_ONE, "one token", &one);
    }
}

static void ask_below(struct work *w)
{
    static const double level[] = {-50, -300, -3000, -20000, -177331};
    static const char *const about[] = {"all scores near -50", "all scores near -300",
                                        "all scores near -3,000", "all scores near -20,000",
                                        "all scores near -177,331"};
    static const int32_t sizes[][2] = {{2, 1}, {12, 4}};
    for (int i = 0; i < 5; i++)
        for (int k = 0; k < 2; k++) {
            struct lab1_call c = random_call(w, sizes[k][0], sizes[k][1]);
            for (int32_t t = 0; t < c.n; t++)
                aim(&c, t, level[i]);
            ask(w, GATE_BELOW, about[i], &c);
        }
}

static void ask_large(struct work *w)
{
    static const char *const about[] = {"all scores near 100", "all scores near 1,000",
                                        "all scores near 10,000", "scores from -10,000 to 10,000, rising",
                                        "scores from -10,000 to 10,000, falling"};
    static const double level[] = {100, 1000, 10000};
    static const int32_t sizes[][2] = {{2, 1}, {12, 4}};
    for (int i = 0; i < 5; i++)
        for (int k = 0; k < 2; k++) {
            struct lab1_call c = random_call(w, sizes[k][0], sizes[k][1]);
            for (int32_t t = 0; t < c.n; t++) {
                double rise = -10000 + 20000.0 * t / (c.n - 1);
                aim(&c, t, i < 3 ? level[i] : i == 3 ? rise : -rise);
            }
            ask(w, GATE_LARGE, about[i], &c);
        }
}

static void ask_alike(struct work *w)
{
    static const int32_t sizes[][2] = {{2, 1}, {3, 2}, {40, 8}, {256, 16}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct lab1_call c = random_call(w, sizes[i][0], sizes[i][1]);
        aim(&c, 0, i % 2 ? -4 : 4);
        for (int64_t t = 0; t < (int64_t)c.n * c.d; t++) {
            c.k[t] = c.k[t % c.d];
            c.v[t] = c.v[t % c.d];
        }
        ask(w, GATE_ALIKE, "all tokens alike", &c);
    }
}

static void ask_long(struct work *w)
{
    struct lab1_call c = random_call(w, LONG_CONTEXT, 16);
    ask(w, GATE_LONG, "70,000 tokens, random", &c);
    c = random_call(w, LONG_CONTEXT, 4);
    for (int32_t t = 0; t < c.n; t++)
        aim(&c, t, 5.0 * t / c.n + (t == c.n - 1 ? 8 : 0));
    ask(w, GATE_LONG, "70,000 tokens, scores that rise, the last one most", &c);
}

/* ---- gates of lab_merge -------------------------------------------------------------------------------- */

/* Tokens [begin, end) of a call as a part: right, rounded to float. */
struct part {
    float *o, lse;
};

static struct part part_of(const struct lab1_call *c, int32_t begin, int32_t end)
{
    struct lab1_call some = *c;
    some.n = end - begin;
    some.k += (int64_t)begin * c->d;
    some.v += (int64_t)begin * c->d;
    struct lab1_answer a = lab1_right(&some);
    struct part p = {.o = xcalloc((size_t)c->d, sizeof(float)), .lse = (float)a.lse};
    for (int32_t x = 0; x < c->d; x++)
        p.o[x] = (float)a.o[x];
    lab1_answer_clear(&a);
    return p;
}

static struct part copy_part(const struct part *p, int32_t d)
{
    struct part x = {.o = xcalloc((size_t)d, sizeof(float)), .lse = p->lse};
    memcpy(x.o, p->o, (size_t)d * sizeof(float));
    return x;
}

/* Merges two parts by the student's function; a wrong answer is replaced by the right one, so that the next question is fair. */
static struct part merged(struct work *w, int32_t gate, const char *about, const struct part *a,
                          const struct part *b, int32_t d)
{
    struct part x = copy_part(a, d), y = copy_part(b, d);
    const struct lab1_call c = {.point = LAB1_MERGE,
                                .d = d,
                                .o1 = x.o,
                                .lse1 = x.lse,
                                .o2 = y.o,
                                .lse2 = y.lse,
                                .exact = gate == GATE_BITS};
    const struct asked *asked = ask(w, gate, about, &c);
    struct part out = {.o = xcalloc((size_t)d, sizeof(float)),
                       .lse = asked->wrong ? (float)asked->right.lse : asked->lse};
    for (int32_t i = 0; i < d; i++)
        out.o[i] = asked->wrong ? (float)asked->right.o[i] : asked->o[i];
    return out;
}

static void call_free(struct lab1_call *c)
{
    free(c->q);
    free(c->k);
    free(c->v);
    free(c->o1);
    free(c->o2);
}

static void ask_cut(struct work *w)
{
    static const int32_t sizes[][2] = {{2, 1}, {3, 2}, {48, 8}, {48, 8}, {48, 64}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct lab1_call c = random_call(w, sizes[i][0], sizes[i][1]);
        for (int32_t t = 0; i >= 3 && t < c.n; t++)
            aim(&c, t, i == 3 ? -900 : 900);
        for (int32_t cut = 1; cut < c.n; cut += 1 + c.n / 6) {
            struct part a = part_of(&c, 0, cut), b = part_of(&c, cut, c.n),
                        whole = merged(w, GATE_CUT, "two parts of a whole", &a, &b, c.d);
            free(a.o);
            free(b.o);
            free(whole.o);
        }
        call_free(&c);
    }
}

/* Seven parts, one of them empty, in an order that is drawn: one after the other, onto an empty result or not, or in pairs. */
static void ask_order(struct work *w)
{
    enum { PARTS = 7, D = 4, TOKENS = 30 };
    static const char *const about[] = {"seven parts, one after the other, onto an empty result",
                                        "seven parts, each into the next", "seven parts, in pairs"};
    static const int32_t cut[PARTS + 1] = {0, 1, 6, 6, 15, 17, 29, 30};
    struct lab1_call c = random_call(w, TOKENS, D);
    for (int way = 0; way < 6; way++) {
        struct part all[PARTS], empty = part_of(&c, 0, 0);
        for (int i = 0; i < PARTS; i++)
            all[i] = part_of(&c, cut[i], cut[i + 1]);
        uint64_t stream = w->stream++;
        for (int i = PARTS - 1; i > 0; i--) {
            int k = (int)rng_below(w->seed, stream, (uint64_t)i, i + 1);
            struct part swap = all[i];
            all[i] = all[k];
            all[k] = swap;
        }
        int n = PARTS,
            last = all[0].lse == -INFINITY ? PARTS - 1 : 0; /* two empty parts are another gate's */
        struct part first = all[0];
        all[0] = all[last];
        all[last] = first;
        if (way % 3 == 0) {
            struct part x = merged(w, GATE_ORDER, about[0], &empty, &all[0], D);
            free(all[0].o);
            all[0] = x;
        }
        while (n > 1) {
            int i = way % 3 == 2 ? n - 2 : 0, k = i + 1;
            struct part x = way % 3 == 1 ? merged(w, GATE_ORDER, about[1], &all[k], &all[i], D)
                                         : merged(w, GATE_ORDER, about[way % 3], &all[i], &all[k], D);
            free(all[i].o);
            free(all[k].o);
            all[i] = x;
            memmove(all + k, all + k + 1, (size_t)(n - k - 1) * sizeof *all);
            n--;
        }
        free(all[0].o);
        free(empty.o);
    }
    call_free(&c);
}

static void ask_bits(struct work *w)
{
    static const int32_t dims[] = {1, 2, 16, 64};
    for (int i = 0; i < 12; i++) { /* some numbers survive what others do not */
        struct lab1_call c = random_call(w, 5, dims[i % 4]);
        for (int32_t t = 0; i == 3 && t < c.n; t++)
            aim(&c, t, -700);
        struct part some = part_of(&c, 0, 5), none = part_of(&c, 0, 0),
                    x = merged(w, GATE_BITS, "an empty part, and another", &none, &some, c.d),
                    y = merged(w, GATE_BITS, "a part, and an empty one", &some, &none, c.d),
                    z = merged(w, GATE_BITS, "two empty parts", &none, &none, c.d);
        free(x.o);
        free(y.o);
        free(z.o);
        free(some.o);
        free(none.o);
        call_free(&c);
    }
}

/* ---- causes ------------------------------------------------------------------------------------------- */

static int64_t size_of(const struct asked *a)
{
    return (int64_t)max_i64(a->call.n, 1) * a->call.d;
}

struct counts {
    int32_t wrong, right;  /* answers that a mistake gives */
    int32_t numbers, none; /* of n > 0: in how many of them there is a number */
};

/* Does the mistake give all answers of the function? Or, with a gate, the wrong ones of that gate, and all right ones? Where most of
 * them are no numbers, many mistakes fit, and none is believed; and none where an answer did not come, which might have told it from
 * another. */
static bool explains(const struct work *w, enum lab1_point point, int32_t gate, struct lab1_mistake m,
                     struct counts *n)
{
    *n = (struct counts){0};
    for (int large = 0; large < 2 && n->numbers >= n->none; large++) /* long contexts last */
        for (int64_t i = 0; i < w->n; i++) {
            const struct asked *a = &w->all[i];
            if (a->call.point != point || (size_of(a) > 50000) != large ||
                (a->wrong && gate > 0 && a->gate != gate))
                continue;
            if (a->end != RUN_DONE)
                return false;
            enum lab1_fit fit = lab1_gives(&a->call, m, &a->right, a->o, a->lse);
            if (fit == LAB1_FITS_NOT)
                return false;
            *(a->wrong ? &n->wrong : &n->right) += 1;
            if (point == LAB1_MERGE || a->call.n > 0)
                *(fit == LAB1_FITS ? &n->numbers : &n->none) += 1;
        }
    return n->wrong > 0 && n->numbers >= n->none;
}

/* The sentence, or NULL: no mistake fits, or more than two do. With a gate, only what empty parts show: other gates have too few
 * answers of their own. The caller frees. */
static char *cause(const struct work *w, enum lab1_point point, int32_t gate, int32_t *invariant)
{
    struct lab1_mistake *all;
    struct counts of = {0};
    int32_t n = lab1_mistakes(point, &all), found = 0;
    char *says = xstrdup("");
    for (int32_t i = 0; i < n && found < 3; i++) {
        if (all[i].second >= 0 && (found > 0 || gate > 0))
            break; /* one is simpler than two */
        if (gate > 0 && !lab1_of_empty_parts(all[i]))
            continue;
        bool fits = false;
        struct counts here;
        for (int32_t v = 0; v < LAB1_VARIANTS && !fits; v++) {
            all[i].variant = v;
            fits = explains(w, point, gate, all[i], &here);
        }
        if (!fits)
            continue;
        char *text = lab1_mistake_text(all[i]);
        of = here;
        *invariant = found == 0 ? lab1_invariant(all[i]) : *invariant;
        xappend(&says, "%s%s", found > 0 ? "; or " : "", text);
        free(text);
        found++;
    }
    free(all);
    if (found == 0 || found > 2) {
        free(says);
        *invariant = 0;
        return NULL;
    }
    lab_append_evidence(&says, of.wrong, of.right, gate > 0);
    return says;
}

/* ---- what is told --------------------------------------------------------------------------------------- */

static void append_floats(char **text, const char *name, const float *x, int64_t n)
{
    xappend(text, ", %s = {", name);
    for (int64_t i = 0; i < n; i++)
        xappend(text, "%s%.6g", i ? ", " : "", (double)x[i]);
    xappend(text, "}");
}

static char *checked(const struct asked *a)
{
    const struct lab1_call *c = &a->call;
    char *text;
    if (c->point == LAB1_ATTEND) {
        text = xasprintf("lab_attend, %s: n = %" PRId32 ", d = %" PRId32 ", scale = %.6g", a->about, c->n,
                         c->d, (double)c->scale);
        if (size_of(a) <= SMALL) {
            append_floats(&text, "q", c->q, c->d);
            append_floats(&text, "k", c->k, (int64_t)c->n * c->d);
            append_floats(&text, "v", c->v, (int64_t)c->n * c->d);
        }
        return text;
    }
    text = xasprintf("lab_merge, %s: d = %" PRId32 ", lse = %.6g, lse2 = %.6g", a->about, c->d,
                     (double)c->lse1, (double)c->lse2);
    if (size_of(a) <= SMALL) {
        append_floats(&text, "o", c->o1, c->d);
        append_floats(&text, "o2", c->o2, c->d);
    }
    return text;
}

static bool lse_is_wrong(const struct asked *a)
{
    return !(a->lse == (float)a->right.lse || fabs((double)a->lse - a->right.lse) <= a->right.allow_lse);
}

/* The element that is farthest off, or -1: all are right. */
static int32_t worst(const struct asked *a)
{
    int32_t at = -1;
    double most = 1;
    for (int32_t x = 0; x < a->call.d; x++) {
        double off = fabs((double)a->o[x] - a->right.o[x]) / fmax(a->right.allow[x], 1e-300);
        if (!(off <= most)) {
            at = x;
            most = isnan(off) ? INFINITY : off;
        }
    }
    return at;
}

static char *got(const struct asked *a)
{
    char *text = xstrdup("");
    int32_t x = worst(a);
    bool lse = lse_is_wrong(a);
    if (lse)
        xappend(&text, "LSE is %.7g, should be %.7g (within %.2g)", lab_plain(a->lse), a->right.lse,
                a->right.allow_lse);
    if (x >= 0)
        xappend(&text, "%sO[%" PRId32 "] is %.7g, should be %.7g (within %.2g)", lse ? "; " : "", x,
                lab_plain(a->o[x]), a->right.o[x], a->right.allow[x]);
    if (!lse && x < 0)
        xappend(&text, "nearly right, but not the same bits: LSE is %.9g of %.9g, O[0] is %.9g of %.9g",
                lab_plain(a->lse), a->right.lse, lab_plain(a->o[0]), a->right.o[0]);
    return text;
}

/* What is true of all wrong answers of the gate. */
static char *seen(const struct work *w, int32_t gate)
{
    int32_t n = 0, of = 0, o = 0, lse = 0, nan = 0, left = 0, none = 0;
    for (int64_t i = 0; i < w->n; i++) {
        const struct asked *a = &w->all[i];
        of += a->gate == gate;
        if (a->gate != gate || !a->wrong || a->end != RUN_DONE)
            continue;
        n++;
        o += worst(a) >= 0;
        lse += lse_is_wrong(a);
        left += lab1_unwritten(a->o, a->call.d, a->lse);
        nan += isnan(a->o[0]) || isnan(a->lse);
        none += a->o[0] == 0 && a->lse == -INFINITY;
    }
    const char *what = left == n           ? ": nothing was written"
                       : nan == n          ? ": NaN"
                       : none == n         ? ": O is 0 and LSE is -INFINITY, as if there were no token"
                       : o == 0 && lse > 0 ? ": O is right, LSE alone is wrong"
                       : lse == 0 && o > 0 ? ": LSE is right, O alone is wrong"
                                           : "";
    return n > 0 ? xasprintf("%" PRId32 " of %" PRId32 " answers are wrong%s", n, of, what) : NULL;
}

/* The smallest wrong answer of a gate; what was not asked says nothing. NULL: there is none. */
static const struct asked *smallest(const struct work *w, int32_t gate)
{
    const struct asked *found = NULL;
    for (int64_t i = 0; i < w->n; i++) {
        const struct asked *a = &w->all[i];
        bool unasked = a->end == LAB_UNASKED, first = !found || (found->end == LAB_UNASKED && !unasked);
        if (a->gate == gate && a->wrong &&
            (first || (unasked == (found->end == LAB_UNASKED) && size_of(a) < size_of(found))))
            found = a;
    }
    return found;
}

/* The cause of all answers of a function, if there is one. */
struct whole {
    char *says;
    int32_t invariant;
};

static void tell(const struct work *w, const struct whole whole[2], int32_t gate, struct lab_result *r)
{
    const struct asked *a = smallest(w, gate);
    r->code = "OK";
    if (!a)
        return;
    r->code = a->end == RUN_DONE ? "NUMBERS" : lab_end_name(a->end);
    r->checked = checked(a);
    r->got = a->end == RUN_DONE ? got(a) : xstrdup(a->why.msg);
    if (a->end != RUN_DONE)
        return;
    FILE *f = lab_picture(
        r, a->call.point == LAB1_ATTEND
               ? "Scores and weights of the tokens, and each number of the answer beside the right one"
               : "The weights of both parts, and each number of the answer beside the right one");
    lab1_draw(f, &a->call, &a->right, a->o, a->lse);
    fclose(f);
    r->seen = seen(w, gate);
    const struct whole *x = &whole[a->call.point];
    r->invariant = x->invariant;
    r->why = x->says ? xstrdup(x->says) : cause(w, a->call.point, gate, &r->invariant);
}

void lab1_judge(struct lab_session *s, uint64_t seed, struct lab_result *r)
{
    struct work w = {.s = s, .seed = seed};
    ask_random(&w);
    ask_few(&w);
    ask_below(&w);
    ask_large(&w);
    ask_alike(&w);
    ask_cut(&w);
    ask_order(&w);
    ask_bits(&w);
    ask_long(&w);
    bool wrong[2] = {0};
    for (int64_t i = 0; i < w.n; i++)
        wrong[w.all[i].call.point] |= w.all[i].wrong && w.all[i].end == RUN_DONE;
    struct whole whole[2] = {0};
    for (int p = 0; p < 2; p++)
        whole[p].says = wrong[p] ? cause(&w, (enum lab1_point)p, 0, &whole[p].invariant) : NULL;
    int32_t n;
    lab_gates(1, &n);
    for (int32_t i = 0; i < n; i++)
        tell(&w, whole, i + 1, &r[i]);
    for (int p = 0; p < 2; p++)
        free(whole[p].says);
    for (int64_t i = 0; i < w.n; i++) {
        call_free(&w.all[i].call);
        lab1_answer_clear(&w.all[i].right);
        free(w.all[i].o);
    }
    free(w.all);
}
