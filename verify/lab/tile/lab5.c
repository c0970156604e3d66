/*
 * lab5.c - lab 5, one tile: the questions are asked, and what came is judged.
 *
 * Numbers are judged here. What happened between threads is told by the device (cta.h), which runs beside the student's code: it is
 * true of all code that reaches memory through lab.h.
 */
#include "verify/lab/tile/lab5.h"
#include "verify/lab/lab.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SHOWN = 12 /* pages, runs: so few are shown */, BUSY = 4 /* no thread does more than this part */ };

/* A question, the answer, and whether that is right. */
struct asked {
    const struct lab5_call *call;
    float *o, *lse; /* of all rows of the group */
    struct cta_said said;
    struct lab1_answer *right; /* of each row of the CTA */
    enum run_end end;
    struct err why;
    bool wrong;
};

struct work {
    struct asked *all;
    int32_t n, *by_size; /* numbers of all, the smallest first */
    char *whole;         /* one cause of all that is wrong, or NULL */
};

/* ---- what is right -------------------------------------------------------------------------------------- */

/* The row's tokens one after the other: attention as lab 1 has it. */
static struct lab1_answer right_row(const struct lab5_call *c, int32_t row)
{
    struct lab1_call one = {.point = LAB1_ATTEND,
                            .d = c->d,
                            .scale = c->scale,
                            .q = c->q + (int64_t)lab5_place(c, row) * c->d,
                            .k = xcalloc((size_t)c->tokens * (size_t)c->d + 1, sizeof(float)),
                            .v = xcalloc((size_t)c->tokens * (size_t)c->d + 1, sizeof(float))};
    for (int32_t t = 0; t < c->tokens; t++) {
        if (!lab5_sees(c, row, t))
            continue;
        int64_t to = (int64_t)one.n++ * c->d, from = lab5_token(c, t);
        memcpy(one.k + to, c->k + from, (size_t)c->d * sizeof(float));
        memcpy(one.v + to, c->v + from, (size_t)c->d * sizeof(float));
    }
    struct lab1_answer a = lab1_right(&one);
    free(one.k);
    free(one.v);
    return a;
}

/* Of a row: d, LSE, if that is looked at and wrong; else the number of O that is farthest off; -1: all are right. */
static int32_t worst_of(const struct asked *a, int32_t row, bool with_lse)
{
    const struct lab5_call *c = a->call;
    const struct lab1_answer *right = &a->right[row];
    int32_t place = lab5_place(c, row), at = -1;
    double most = 1, lse = (double)a->lse[place];
    if (with_lse && !(lse == (double)(float)right->lse || fabs(lse - right->lse) <= right->allow_lse))
        return c->d;
    for (int32_t x = 0; x < c->d; x++) {
        double off =
            fabs((double)a->o[(int64_t)place * c->d + x] - right->o[x]) / fmax(right->allow[x], 1e-300);
        if (!(off <= most)) {
            at = x;
            most = isnan(off) ? INFINITY : off;
        }
    }
    return at;
}

static bool is_right(const struct asked *a)
{
    for (int32_t r = 0; r < lab5_rows(a->call); r++)
        if (worst_of(a, r, true) >= 0)
            return false;
    return true;
}

/* ---- asking --------------------------------------------------------------------------------------------- */

static void add(struct tensors *t, const char *name, enum element type, const void *x, int64_t n)
{
    tensors_add(t, name, type, (void *)x, false, 1, &n);
}

/* Copies an answer of that size; false: it is none. */
static bool take(struct tensors *answer, const char *name, enum element type, void *to, int64_t bytes)
{
    const struct tensor *t = tensors_find(answer, name);
    if (!t || t->type != type || tensor_bytes(t) != bytes)
        return false;
    memcpy(to, t->data, (size_t)bytes);
    return true;
}

/* What the child says of a run is text of a stranger's. */
static void clean(struct cta_said *said)
{
    said->array[CTA_NAME - 1] = 0;
    for (char *c = said->array; *c; c++)
        if (!isalnum((unsigned char)*c) && *c != '_' && *c != ' ')
            *c = '?';
    if (said->fault < 0 || said->fault >= N_CTA_FAULTS)
        said->fault = CTA_STATIC;
}

static void ask(struct lab_session *s, struct asked *a)
{
    const struct lab5_call *c = a->call;
    int64_t rows = (int64_t)c->queries * c->ratio * c->kv_heads,
            n_kv = (int64_t)c->n_pages * c->page_size * c->kv_heads * c->d;
    struct tensors given = {0}, answer;
    add(&given, "q", EL_F32, c->q, rows * c->d);
    add(&given, "k", EL_F32, c->k, n_kv);
    add(&given, "v", EL_F32, c->v, n_kv);
    add(&given, "page_table", EL_I64, c->page_table, ceil_div(c->tokens, c->page_size));
    add(&given, "run_end", EL_I64, c->run_end, c->runs);
    add(&given, "mask", EL_I64, c->mask, c->runs);
    char *numbers =
        xasprintf(",\"threads\":%" PRId32 ",\"queries\":%" PRId32 ",\"ratio\":%" PRId32
                  ",\"kv_heads\":%" PRId32 ",\"kv_head\":%" PRId32 ",\"d\":%" PRId32 ",\"tokens\":%" PRId32
                  ",\"page_size\":%" PRId32 ",\"tile_n\":%" PRId32 ",\"scale\":%.9g,\"order\":%" PRId64,
                  c->threads, c->queries, c->ratio, c->kv_heads, c->kv_head, c->d, c->tokens, c->page_size,
                  c->tile_n, (double)c->scale, c->order);
    int64_t bytes = rows * (c->d + 1) * (int64_t)sizeof(float);
    lab_part(s, (int32_t)a->call->gate);
    a->end = lab_ask(s, "kernel", numbers, &given, bytes + (int64_t)sizeof a->said, &answer, &a->why);
    a->o = xcalloc((size_t)(rows * c->d), sizeof(float));
    a->lse = xcalloc((size_t)rows, sizeof(float));
    if (a->end == RUN_DONE &&
        (!take(&answer, "o", EL_F32, a->o, rows * c->d * (int64_t)sizeof(float)) ||
         !take(&answer, "lse", EL_F32, a->lse, rows * (int64_t)sizeof(float)) ||
         !take(&answer, "said", EL_I64, &a->said, CTA_NUMBERS * (int64_t)sizeof(int64_t)) ||
         !take(&answer, "array", EL_U8, a->said.array, CTA_NAME))) {
        a->end = RUN_PROTOCOL;
        err_set(&a->why, "its answer is none of this question");
    }
    clean(&a->said);
    a->right = xcalloc((size_t)lab5_rows(c), sizeof *a->right);
    for (int32_t r = 0; r < lab5_rows(c); r++)
        a->right[r] = right_row(c, r);
    a->wrong = a->end != RUN_DONE || a->said.fault || !is_right(a);
    tensors_free(&answer);
    tensors_free(&given);
    free(numbers);
}

/* All of them. Where many of a gate did not come, it is lost, and the others of it are not asked. */
static void ask_all(struct lab_session *s, struct work *w)
{
    enum { MOST_LOST = 8 };
    int32_t lost[LAB5_LONG + 1] = {0};
    for (int32_t i = 0; i < w->n; i++) {
        struct asked *a = &w->all[i];
        if (lost[a->call->gate] < MOST_LOST)
            ask(s, a);
        else
            err_set(&a->why, "not asked: earlier answers did not come");
        lost[a->call->gate] += a->end != RUN_DONE;
    }
}

static void asked_clear(struct asked *a)
{
    for (int32_t r = 0; r < lab5_rows(a->call) && a->right; r++)
        lab1_answer_clear(&a->right[r]);
    free(a->right);
    free(a->o);
    free(a->lse);
}

/* ---- causes of wrong numbers ---------------------------------------------------------------------------- */

static int64_t size_of(const struct asked *a)
{
    return (max_i64(a->call->tokens, 1) + 4 * (a->call->runs - 1)) * lab5_rows(a->call) * a->call->d * 4 +
           a->call->kv_heads;
}

struct counts {
    int32_t wrong, right;  /* answers that a mistake gives */
    int32_t numbers, none; /* in how many of them there is a number, or none */
};

/* Does the mistake give all answers? Or, with a gate, the wrong ones of that gate, and all right ones? As lab1.c has it. */
static bool explains(const struct work *w, int32_t gate, int32_t mistake, int32_t variant, struct counts *n)
{
    *n = (struct counts){0};
    for (int32_t i = 0; i < w->n; i++) {
        const struct asked *a = &w->all[w->by_size[i]];
        if (a->wrong && gate > 0 && (int32_t)a->call->gate != gate)
            continue;
        if (a->end != RUN_DONE)
            return false;
        enum lab1_fit fit = lab5_gives(a->call, mistake, variant, a->said.fault, a->right, a->o, a->lse);
        if (fit == LAB1_FITS_NOT)
            return false;
        *(a->wrong ? &n->wrong : &n->right) += 1;
        *(fit == LAB1_FITS ? &n->numbers : &n->none) += 1;
    }
    return n->wrong > 0 && n->numbers >= n->none;
}

/* The sentence, or NULL: no mistake fits, or more than two do. The caller frees. */
static char *cause(const struct work *w, int32_t gate)
{
    char *says = xstrdup("");
    struct counts of = {0};
    int32_t found = 0;
    for (int32_t m = 0; m < lab5_mistakes() && found < 3; m++) {
        struct counts here;
        bool fits = false;
        for (int32_t v = 0; v < LAB5_VARIANTS && !fits; v++)
            fits = explains(w, gate, m, v, &here);
        if (!fits)
            continue;
        xappend(&says, "%s%s", found++ > 0 ? "; or " : "", lab5_mistake_text(m));
        of = here;
    }
    if (found == 0 || found > 2) {
        free(says);
        return NULL;
    }
    lab_append_evidence(&says, of.wrong, of.right, gate > 0);
    return says;
}

/* ---- what the device said -------------------------------------------------------------------------------- */

static const char *const fault_code[N_CTA_FAULTS] = {
    [CTA_RACE] = "RACE",           [CTA_TWO_WRITE] = "RACE",
    [CTA_UNSET] = "UNSET",         [CTA_BOUNDS] = "BOUNDS",
    [CTA_ENDED] = "BARRIER",       [CTA_APART] = "BARRIER",
    [CTA_TOO_MUCH] = "SHARED",     [CTA_TWO_SIZES] = "SHARED",
    [CTA_OUTPUT_TWICE] = "OUTPUT", [CTA_OUTPUT_OF_OTHERS] = "OUTPUT",
    [CTA_STATIC] = "STATIC"};

#define I PRId64
/* What happened. */
static char *fault_text(const struct asked *a)
{
    const struct cta_said *x = &a->said;
    switch ((enum cta_fault)x->fault) {
    case CTA_RACE:
        return xasprintf("thread %" I " reads %s[%" I "] at line %" I ", thread %" I " writes it at line %" I
                         ", and no barrier is between",
                         x->thread, x->array, x->index, x->line, x->other, x->other_line);
    case CTA_TWO_WRITE:
        return xasprintf("threads %" I " and %" I " both write %s[%" I "], at line %" I " and at line %" I
                         ", and no barrier is between",
                         x->other, x->thread, x->array, x->index, x->other_line, x->line);
    case CTA_UNSET:
        return xasprintf("thread %" I " reads %s[%" I "] at line %" I ", which no thread has written",
                         x->thread, x->array, x->index, x->line);
    case CTA_BOUNDS:
        return xasprintf("thread %" I " is at %s[%" I "] at line %" I "; it has %" I " elements", x->thread,
                         x->array, x->index, x->line, x->size);
    case CTA_ENDED:
        return xasprintf("thread %" I " waits at the barrier of line %" I ", and thread %" I " has ended",
                         x->other, x->other_line, x->thread);
    case CTA_APART:
        return xasprintf("thread %" I " waits at the barrier of line %" I ", thread %" I
                         " at that of line %" I,
                         x->other, x->other_line, x->thread, x->line);
    case CTA_TOO_MUCH:
        return xasprintf("with %s, line %" I ", this is %" I " bytes of shared memory (at most %d)", x->array,
                         x->line, x->size, CTA_SHARED_BYTES);
    case CTA_TWO_SIZES:
        return xasprintf("%s has %" I " elements, and thread %" I " asks for %" I " at line %" I, x->array,
                         x->size, x->thread, x->index, x->line);
    case CTA_OUTPUT_TWICE:
        return xasprintf("thread %" I " writes %s[%" I "] at line %" I ", which thread %" I
                         " wrote at line %" I,
                         x->thread, x->array, x->index, x->line, x->other, x->other_line);
    case CTA_OUTPUT_OF_OTHERS:
        return xasprintf("thread %" I " writes %s[%" I "] at line %" I ": that is query head %" I
                         ", this CTA has KV head %" PRId32 " and query heads %" PRId32 " to %" PRId32,
                         x->thread, x->array, x->index, x->line, x->size, a->call->kv_head,
                         a->call->kv_head * a->call->ratio, (a->call->kv_head + 1) * a->call->ratio - 1);
    default:
        return xasprintf("thread %" I
                         " changed a variable that is not its own, or there are over 64 KiB of them",
                         x->thread);
    }
}

/* The invariant of README.md that was not kept, whatever the gate asks; 0: none says so. */
static int32_t fault_invariant(enum cta_fault fault)
{
    switch (fault) {
    case CTA_OUTPUT_TWICE:
    case CTA_OUTPUT_OF_OTHERS:
        return 4;
    case CTA_TOO_MUCH:
        return 8;
    case CTA_BOUNDS:
    case CTA_TWO_SIZES:
        return 0;
    default:
        return 7;
    }
}

/* What is wrong with the program then. */
static char *fault_cause(const struct cta_said *x)
{
    switch ((enum cta_fault)x->fault) {
    case CTA_RACE:
        return xasprintf("a barrier is missing between line %" I ", where %s is written, and line %" I
                         ", where other threads read it%s",
                         x->other_line, x->array, x->line,
                         x->again ? "; in a loop, also from one round to the next" : "");
    case CTA_TWO_WRITE:
        return xasprintf("an element of %s is written by two threads: each needs one that writes it",
                         x->array);
    case CTA_UNSET:
        return xasprintf("line %" I " reads elements of %s that no thread has written", x->line, x->array);
    case CTA_BOUNDS:
        return xasprintf("line %" I " goes beyond the %s of %s", x->line, x->index < 0 ? "begin" : "end",
                         x->array);
    case CTA_ENDED:
        return xasprintf("not all threads come to the barrier of line %" I ": some end before",
                         x->other_line);
    case CTA_APART:
        return xasprintf("not all threads come to the same barrier: there are those of lines %" I " and %" I,
                         min_i64(x->line, x->other_line), max_i64(x->line, x->other_line));
    case CTA_TOO_MUCH:
        return xasprintf("too much shared memory: %s does not fit any more", x->array);
    case CTA_TWO_SIZES:
        return xasprintf("%s has not the same size for all threads", x->array);
    case CTA_OUTPUT_TWICE:
        return xasprintf("line %" I " writes outputs that line %" I " has written", x->line, x->other_line);
    case CTA_OUTPUT_OF_OTHERS:
        return xasprintf("line %" I " writes outputs of another CTA", x->line);
    default:
        return xstrdup("threads share a variable of lab.c, one that is static or outside of functions: "
                       "shared memory is for that");
    }
}

/* ---- what is told --------------------------------------------------------------------------------------- */

static void append_numbers(char **text, const char *name, const int64_t *x, int64_t n)
{
    if (n > SHOWN || n == 0)
        return;
    xappend(text, ", %s = {", name);
    for (int64_t i = 0; i < n; i++)
        xappend(text, "%s%" PRId64, i ? ", " : "", x[i]);
    xappend(text, "}");
}

static char *checked(const struct asked *a)
{
    const struct lab5_call *c = a->call;
    char *text = xasprintf(
        "lab_kernel, %s: tokens = %" PRId32 ", tile_n = %" PRId32 ", queries = %" PRId32 ", ratio = %" PRId32
        ", kv_head = %" PRId32 " of %" PRId32 ", head_dim = %" PRId32 ", %" PRId32 " threads",
        c->about, c->tokens, c->tile_n, c->queries, c->ratio, c->kv_head, c->kv_heads, c->d, c->threads);
    if (c->page_size < c->tokens) {
        xappend(&text, ", page_size = %" PRId32, c->page_size);
        append_numbers(&text, "page_table", c->page_table, ceil_div(c->tokens, c->page_size));
    }
    if (c->runs > 1 || (c->runs == 1 && c->mask[0] == 0)) {
        append_numbers(&text, "run_end", c->run_end, c->runs);
        append_numbers(&text, "mask", c->mask, c->runs);
    }
    return text;
}

/* Of the first row that is wrong. */
static char *got(const struct asked *a)
{
    const struct lab5_call *c = a->call;
    int32_t row = 0, x;
    while ((x = worst_of(a, row, true)) < 0)
        row++;
    int32_t place = lab5_place(c, row);
    const struct lab1_answer *right = &a->right[row];
    float is = x < c->d ? a->o[(int64_t)place * c->d + x] : a->lse[place];
    uint32_t bits;
    memcpy(&bits, &is, sizeof bits);
    char *what = x < c->d ? xasprintf("O[%" PRId32 "]", x) : xstrdup("LSE"),
         *text = xasprintf("row %" PRId32 " (query %" PRId32 ", head %" PRId32 "): ", row, row / c->ratio,
                           c->kv_head * c->ratio + row % c->ratio);
    if (bits == LAB1_UNWRITTEN)
        xappend(&text, "%s is not written, should be ", what);
    else
        xappend(&text, "%s is %.7g, should be ", what, (double)is);
    xappend(&text, "%.7g (within %.2g)", x < c->d ? right->o[x] : right->lse,
            x < c->d ? right->allow[x] : right->allow_lse);
    free(what);
    return text;
}

/* What is true of all wrong rows of the gate. */
static char *seen(const struct work *w, int32_t gate)
{
    int32_t n = 0, of = 0, rows = 0, all = 0, o = 0, lse = 0, nan = 0, left = 0, none = 0;
    for (int32_t i = 0; i < w->n; i++) {
        const struct asked *a = &w->all[i];
        of += (int32_t)a->call->gate == gate;
        if ((int32_t)a->call->gate != gate || !a->wrong || a->end != RUN_DONE || a->said.fault)
            continue;
        n++;
        for (int32_t r = 0; r < lab5_rows(a->call); r++) {
            int32_t place = lab5_place(a->call, r), d = a->call->d;
            const float *its = a->o + (int64_t)place * d;
            all++;
            if (worst_of(a, r, true) < 0)
                continue;
            rows++;
            o += worst_of(a, r, false) >= 0;
            lse += worst_of(a, r, true) == d;
            left += lab1_unwritten(its, d, a->lse[place]);
            nan += isnan(its[0]) || isnan(a->lse[place]);
            none += its[0] == 0 && a->lse[place] == -INFINITY;
        }
    }
    const char *what = left == rows   ? ": nothing was written"
                       : nan == rows  ? ": NaN"
                       : none == rows ? ": O is 0 and LSE is -INFINITY, as if they saw no token"
                       : o == 0       ? ": O is right, LSE alone is wrong"
                       : lse == 0     ? ": LSE is right, O alone is wrong"
                                      : "";
    return n == 0 ? NULL
                  : xasprintf("%" PRId32 " of %" PRId32 " answers are wrong, in them %" PRId32 " of %" PRId32
                              " rows%s",
                              n, of, rows, all, what);
}

/* The wrong answer to show: one that did not come, or a fault, says more than a number does; a question that was not asked nothing. */
static const struct asked *shown(const struct work *w, int32_t gate)
{
    const struct asked *found = NULL;
    int32_t best = 4;
    for (int32_t i = 0; i < w->n; i++) {
        const struct asked *a = &w->all[w->by_size[i]];
        bool asked = strncmp(a->why.msg, "not asked", 9) != 0;
        int32_t kind = a->end != RUN_DONE ? (asked ? 0 : 3) : a->said.fault ? 1 : 2;
        if ((int32_t)a->call->gate == gate && a->wrong && kind < best) {
            found = a;
            best = kind;
        }
    }
    return found;
}

static void draw(const struct asked *a, bool numbers, struct lab_result *r)
{
    if (a->said.fault == CTA_RACE || a->said.fault == CTA_TWO_WRITE) {
        FILE *f = lab_picture(
            r, "Two threads at one element of shared memory, in both orders in which they may come");
        lab5_draw_race(f, &a->said);
        fclose(f);
        return;
    }
    int32_t rows = lab5_rows(a->call);
    bool *wrong = xcalloc((size_t)rows, sizeof *wrong);
    for (int32_t i = 0; i < rows && numbers; i++)
        wrong[i] = worst_of(a, i, true) >= 0;
    FILE *f = lab_picture(r, numbers ? "Who sees what in this CTA, with the rows that are wrong"
                                     : "Who sees what in this CTA");
    lab5_draw(f, a->call, numbers ? wrong : NULL);
    fclose(f);
    free(wrong);
}

static void tell(const struct work *w, int32_t gate, struct lab_result *r)
{
    const struct asked *a = shown(w, gate);
    r->code = "OK";
    if (!a)
        return;
    r->checked = checked(a);
    if (a->end != RUN_DONE) {
        r->code = lab_end_name(a->end);
        r->got = xstrdup(a->why.msg);
        return;
    }
    bool fault = a->said.fault != CTA_GOOD;
    draw(a, !fault, r);
    r->code = fault ? fault_code[a->said.fault] : "NUMBERS";
    r->got = fault ? fault_text(a) : got(a);
    int32_t broken = fault ? fault_invariant((enum cta_fault)a->said.fault) : 0;
    r->seen = broken  ? xasprintf("this is against invariant %" PRId32 ", whatever the gate asks", broken)
              : fault ? NULL
                      : seen(w, gate);
    r->why = w->whole ? xstrdup(w->whole) : fault ? fault_cause(&a->said) : cause(w, gate);
}

/* ---- gates of loads and work ------------------------------------------------------------------------------ */

/* Have gates from 2 to `last` been passed? */
static bool have_passed(const struct lab_result *r, int32_t last)
{
    for (int32_t g = 2; g <= last; g++)
        if (!lab_passed(&r[g - 1]))
            return false;
    return true;
}

/* Tokens that a row sees: their K and V must have come from somewhere. */
static int64_t needed(const struct lab5_call *c)
{
    int64_t n = 0;
    for (int32_t run = 0; run < c->runs; run++)
        n += c->mask[run] ? (c->run_end[run] - (run ? c->run_end[run - 1] : 0)) * c->d : 0;
    return n;
}

static void tell_loads(const struct work *w, struct lab_result *r)
{
    const struct asked *bad = NULL;
    for (int32_t i = 0; i < w->n && !bad; i++) {
        const struct asked *a = &w->all[w->by_size[i]];
        const struct cta_said *x = &a->said;
        if (!a->wrong &&
            (x->twice[0] || x->twice[1] || x->loads[0] < needed(a->call) || x->loads[1] < needed(a->call)))
            bad = a;
    }
    r->code = bad ? "LOADS" : "OK";
    if (!bad)
        return;
    const struct cta_said *x = &bad->said;
    const char *name = x->twice[0] ? "K" : "V";
    r->checked = checked(bad);
    r->got = xasprintf("%" I " loads of K and %" I " of V; %" I " of each are enough", x->loads[0],
                       x->loads[1], needed(bad->call));
    if (!x->twice[0] && !x->twice[1])
        return; /* they came some other way */
    r->seen = xasprintf(
        "element %" I " of %s: by thread %" I " at line %" I ", and again by thread %" I " at line %" I,
        x->twice_index, name, x->twice_thread, x->twice_line, x->twice_other, x->twice_other_line);
    r->why = x->twice_line == x->twice_other_line
                 ? xasprintf("line %" I " loads the same element of %s for several threads, or several times",
                             x->twice_line, name)
                 : xasprintf("line %" I " loads an element of %s that line %" I " has loaded",
                             x->twice_other_line, name, x->twice_line);
}

static void tell_work(const struct work *w, struct lab_result *r)
{
    const struct asked *bad = NULL;
    for (int32_t i = 0; i < w->n && !bad; i++) {
        const struct asked *a = &w->all[w->by_size[i]];
        if (!a->wrong && a->call->gate == LAB5_LONG && a->said.busiest_part > a->said.all / BUSY)
            bad = a;
    }
    r->code = bad ? "WORK" : "OK";
    if (!bad)
        return;
    double part = 100.0 * (double)bad->said.busiest_part / (double)max_i64(bad->said.all, 1);
    r->checked = checked(bad);
    r->got = xasprintf("thread %" I
                       " does %.0f %% of all loads of K and V and of all accesses to shared memory (at most "
                       "%d %%)",
                       bad->said.busiest, part, 100 / BUSY);
    if (part > 90)
        r->why = xstrdup("one thread does the work of all");
}

static void waits(struct lab_result *r, const char *what)
{
    r->code = "WAITS";
    r->got = xasprintf("is judged when %s are right", what);
}

/* ---- all ------------------------------------------------------------------------------------------------ */

static struct work *sorted;
static int by_size(const void *x, const void *y)
{
    int32_t a = *(const int32_t *)x, b = *(const int32_t *)y;
    int64_t sa = size_of(&sorted->all[a]), sb = size_of(&sorted->all[b]);
    return sa != sb ? (sa > sb) - (sa < sb) : (a > b) - (a < b);
}

void lab5_judge(struct lab_session *s, uint64_t seed, struct lab_result *r)
{
    struct lab5_call *call;
    struct work w = {.n = lab5_calls(seed, &call)};
    w.all = xcalloc((size_t)w.n, sizeof *w.all);
    w.by_size = xcalloc((size_t)w.n, sizeof *w.by_size);
    for (int32_t i = 0; i < w.n; i++) {
        w.by_size[i] = i;
        w.all[i] = (struct asked){.call = &call[i], .end = RUN_ERROR, .wrong = true};
    }
    ask_all(s, &w);
    sorted = &w;
    qsort(w.by_size, (size_t)w.n, sizeof *w.by_size, by_size);
    w.whole = cause(&w, 0);
    for (int32_t gate = LAB5_NOTHING; gate <= LAB5_LONG; gate++)
        tell(&w, gate, &r[gate - 1]);
    if (have_passed(r, LAB5_MASKS))
        tell_loads(&w, &r[LAB5_LOADS - 1]);
    else
        waits(&r[LAB5_LOADS - 1], "5.2 to 5.6");
    if (lab_passed(&r[LAB5_LONG - 1]))
        tell_work(&w, &r[LAB5_WORK - 1]);
    else
        waits(&r[LAB5_WORK - 1], "the numbers of 5.8");
    for (int32_t i = 0; i < w.n; i++) {
        asked_clear(&w.all[i]);
        lab5_call_clear(&call[i]);
    }
    free(w.whole);
    free(w.by_size);
    free(w.all);
    free(call);
}
