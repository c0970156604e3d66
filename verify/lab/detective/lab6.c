/*
 * lab6.c - lab 6, detective: six suspects have a fault each, and a student names it and the smallest case on which it shows. What is
 * said of a wrong name was tried: on the student's own case, and on cases that are the same for all.
 */
#include "verify/lab/lab.h"
#include "verify/lab/detective/suspects.h"

#include "ref/file.h"
#include "verify/io/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_BYTES = 1 << 16, MOST_ROWS_SHOWN = 64 };

/* A line of found.csv. */
struct found {
    const struct suspect_fault *fault; /* NULL: none is named */
    char *text;                        /* the case as it was written, or NULL */
    struct suspect_case c;
    bool given;
};

/* ---- found.csv ------------------------------------------------------------------------------------------ */

static bool error_at(const char *path, int32_t line, const struct err *why, struct err *e)
{
    return err_set(e, "%s:%" PRId32 ": %.400s", path, line, why->msg);
}

/* Cuts off what is around a cell: blanks, and quotes. */
static char *trimmed(char *s)
{
    s += strspn(s, " \t");
    size_t n = strlen(s);
    while (n > 0 && strchr(" \t\r", s[n - 1]))
        s[--n] = 0;
    if (n >= 2 && s[0] == '"' && s[n - 1] == '"') {
        s[n - 1] = 0;
        s++;
    }
    return s;
}

static bool is_answer(const char *cell)
{
    return *cell && strcmp(cell, "-") != 0;
}

/* "3,merge_mean,tree=..": commas behind the second are the case's. */
static bool read_line(char *line, struct found *all, struct err *e)
{
    char *rest = line, *number = text_next(&rest, ','), *name = rest ? text_next(&rest, ',') : NULL;
    int64_t n;
    if (!name || !rest)
        return err_set(e, "'%.60s' (expected suspect,fault,case; - where you do not know)", line);
    if (!text_i64(trimmed(number), "the suspect", 1, SUSPECTS, &n, e))
        return false;
    struct found *f = &all[n - 1];
    if (f->given)
        return err_set(e, "suspect %" PRId64 " stands there twice (expected once)", n);
    f->given = true;
    name = trimmed(name);
    rest = trimmed(rest);
    if (is_answer(name) && !(f->fault = suspect_fault_find(name, e)))
        return false;
    if (!is_answer(rest))
        return true;
    f->text = xstrdup(rest);
    return suspect_case_open(rest, &f->c, e);
}

static bool read_found(const char *path, struct found *all, struct err *e)
{
    size_t size;
    char *text = file_slurp(path, MOST_BYTES, &size, e), *rest = text;
    int32_t number = 0;
    bool good = text != NULL, heading = false;
    for (char *line; good && (line = text_next(&rest, '\n'));) {
        struct err own = {0};
        number++;
        line = trimmed(line);
        if (*line == 0 || *line == '#')
            continue;
        if (!heading)
            heading = strcmp(line, "suspect,fault,case") == 0 ||
                      err_set(&own, "'%.60s' (expected the heading suspect,fault,case)", line);
        else
            read_line(line, all, &own);
        good = !own.code || error_at(path, number, &own, e);
    }
    free(text);
    return good && (heading || err_set(e, "%s: it is empty (expected the heading suspect,fault,case)", path));
}

static void found_clear(struct found *all)
{
    for (int i = 0; i < SUSPECTS; i++) {
        free(all[i].text);
        suspect_case_close(&all[i].c);
    }
}

/* ---- what tells two faults apart ------------------------------------------------------------------------ */

/* What one of them does on some probe, and the other on none; NULL: there is no such thing. The caller frees. */
static char *trait_apart(const struct suspect_fault *is, const struct suspect_fault *named)
{
    bool has[2][N_SUSPECT_TRAITS] = {{false}};
    int32_t n = suspect_traits(is, has[0]);
    suspect_traits(named, has[1]);
    for (int t = 0; t < N_SUSPECT_TRAITS; t++)
        if (has[0][t] != has[1][t])
            return xasprintf(has[1][t] ? "a fault of that name %s in some case, this one in none of %" PRId32
                                       : "this one %s in some case, a fault of that name in none of %" PRId32,
                             suspect_trait_says[t], n);
    return NULL;
}

static bool alike(double a, double b)
{
    return (isnan(a) && isnan(b)) || a == b || fabs(a - b) <= 1e-9 * fmax(1, fmax(fabs(a), fabs(b)));
}

static double at(const struct output *out, int64_t r, int32_t e)
{
    return e < 0 ? output_lse(out, r) : ((const double *)out->o)[r * out->d + e];
}

/* "query 0 head 1 O[2]"; the caller frees. */
static char *place(const struct suspect_case *c, int64_t r, int32_t e)
{
    char *text = xasprintf("query %" PRId64 " head %" PRId64 " ", r / c->p->heads.h_q, r % c->p->heads.h_q);
    if (e < 0)
        xappend(&text, "LSE");
    else
        xappend(&text, "O[%" PRId32 "]", e);
    return text;
}

/* NaN has a sign that means nothing. */
static char *number(double x)
{
    return isnan(x) ? xstrdup("nan") : xasprintf("%.6g", x);
}

/* Where two faults differ on a case, or that they do not; the caller frees. */
static char *difference(const struct suspect_case *c, const struct suspect_fault *is,
                        const struct suspect_fault *named)
{
    struct output *one = suspect_run(c, is), *other = suspect_run(c, named);
    char *text = NULL;
    for (int64_t r = 0; r < one->n_rows && !text; r++)
        for (int32_t e = -1; e < one->d && !text; e++)
            if (!alike(at(one, r, e), at(other, r, e))) {
                char *where = place(c, r, e), *a = number(at(other, r, e)), *b = number(at(one, r, e));
                text = xasprintf("on your case a fault of that name gives other numbers: %s is %s, the "
                                 "suspect's is %s",
                                 where, a, b);
                free(where);
                free(a);
                free(b);
            }
    output_free(one);
    output_free(other);
    return text ? text
                : xstrdup("on your case a fault of that name gives the same numbers: look for one that tells "
                          "them apart");
}

/* ---- marks ---------------------------------------------------------------------------------------------- */

static void mark_name(const struct found *f, const struct suspect_fault *is, int suspect,
                      struct lab_result *r)
{
    r->code = f->fault == is ? "OK" : "ANSWER";
    r->checked = xasprintf("the fault of suspect %d", suspect);
    r->got = xstrdup(f->fault ? f->fault->name : "no answer");
    if (!f->fault || f->fault == is)
        return;
    r->seen = f->text ? difference(&f->c, is, f->fault) : NULL;
    r->why = trait_apart(is, f->fault);
}

/* Does no fault of the list show on the case? */
static bool shows_nothing(const struct suspect_case *c)
{
    int32_t n;
    const struct suspect_fault *all = suspect_faults(&n);
    bool any = false;
    for (int32_t i = 0; i < n && !any; i++) {
        struct output *out = suspect_run(c, &all[i]);
        any = !suspect_passes(c, out);
        output_free(out);
    }
    return !any;
}

/* What keeps the case from being a smallest one, or NULL; the caller frees. */
static char *flaw_of_case(const struct found *f, const struct suspect_fault *is, int suspect)
{
    struct output *out = suspect_run(&f->c, is);
    bool passes = suspect_passes(&f->c, out);
    int64_t tokens = tree_tokens(f->c.tree);
    output_free(out);
    if (passes)
        return xasprintf("suspect %d passes on it%s", suspect,
                         shows_nothing(&f->c) ? ", and so does every fault of the list" : "");
    if (tokens > is->least)
        return f->fault == is
                   ? xasprintf("it has %" PRId64 " tokens, and %" PRId32 " %s enough for this fault", tokens,
                               is->least, is->least == 1 ? "is" : "are")
                   : xasprintf("it has %" PRId64 " tokens, and fewer are enough", tokens);
    return NULL;
}

/* A case of one token shows many a fault: it counts where the fault is named. */
static void mark_case(const struct found *f, const struct suspect_fault *is, int suspect,
                      struct lab_result *r)
{
    r->checked = f->text ? xstrdup(f->text) : xasprintf("a case on which suspect %d fails", suspect);
    r->got = f->text ? flaw_of_case(f, is, suspect) : xstrdup("no answer");
    r->code = r->got ? "CASE" : f->fault == is ? "OK" : "WAITS";
    if (!r->got && f->fault != is)
        r->got = xasprintf(
            "suspect %d fails on it, and no fewer tokens will do: this counts when the fault is named",
            suspect);
}

bool lab6_mark(const char *path, uint64_t seed, struct lab_result *r, struct err *e)
{
    struct found all[SUSPECTS] = {{.given = false}};
    const struct suspect_fault *fault[SUSPECTS];
    suspects_draw(seed, fault);
    bool good = read_found(path, all, e);
    for (int i = 0; i < SUSPECTS && good; i++) {
        mark_name(&all[i], fault[i], i + 1, &r[2 * i]);
        mark_case(&all[i], fault[i], i + 1, &r[2 * i + 1]);
    }
    found_clear(all);
    return good;
}

/* ---- what a student sees -------------------------------------------------------------------------------- */

void lab6_print(FILE *f, uint64_t seed)
{
    int32_t n;
    const struct suspect_fault *all = suspect_faults(&n);
    fprintf(f, "lab 6, detective: seed %" PRIu64 "\n\nEach of %d suspects has one of these faults:\n\n", seed,
            SUSPECTS);
    fprintf(f, "%-20s %6s  %s\n", "name", "tokens", "fault");
    for (int32_t i = 0; i < n; i++)
        fprintf(f, "%s%-20s %6" PRId32 "  %s\n", i > 0 && all[i].family != all[i - 1].family ? "\n" : "",
                all[i].name, all[i].least, all[i].says);
    fprintf(
        f,
        "\nNo two suspects have a fault of the same paragraph. `tokens`: the smallest tree on which the "
        "fault "
        "can show has so many.\nParts of a context are its nodes, root first. Each is computed in tiles of 2 "
        "tokens; then parts are merged, all at once.\n\n"
        "treeattn lab 6 --id ID --suspect 1 --case 'tree=nodes:-1.3:0.3'     a suspect on a case of yours\n"
        "treeattn lab 6 --suspect merge_mean --case 'tree=..'                a kernel with that fault\n");
}

static void print_numbers(FILE *f, const char *what, const struct output *out, const double *o, int64_t r)
{
    fprintf(f, "%s{", what);
    for (int32_t e = 0; e < out->d; e++) {
        char *x = number(o[r * out->d + e]);
        fprintf(f, "%s%s", e ? ", " : "", x);
        free(x);
    }
    fprintf(f, "}\n");
}

/* A row that is wrong: LSE or O or both. */
static bool print_row(FILE *f, const struct suspect_case *c, const struct output *out, int64_t r, bool shown)
{
    bool lse = !suspect_right_at(c, out, r, -1), o = false;
    for (int32_t e = 0; e < out->d; e++)
        o = o || !suspect_right_at(c, out, r, e);
    char *is = number(output_lse(out, r)), *should = number(c->right->lse[r]);
    int64_t q = r / c->p->heads.h_q, h = r % c->p->heads.h_q;
    if (lse && shown)
        fprintf(f, "query %" PRId64 " head %" PRId64 ": LSE is %s, should be %s\n", q, h, is, should);
    if (o && shown) {
        fprintf(f, "query %" PRId64 " head %" PRId64 ": ", q, h);
        print_numbers(f, "O is        ", out, (const double *)out->o, r);
        fprintf(f, "query %" PRId64 " head %" PRId64 ": ", q, h);
        print_numbers(f, "  should be ", out, c->right->o, r);
    }
    free(is);
    free(should);
    return lse || o;
}

bool lab6_show(FILE *f, uint64_t seed, const char *suspect, const char *text, bool *passes, struct err *e)
{
    const struct suspect_fault *fault[SUSPECTS], *is;
    struct suspect_case c;
    int64_t n = 0;
    suspects_draw(seed, fault);
    if (suspect[0] >= '0' && suspect[0] <= '9') {
        if (!text_i64(suspect, "--suspect", 1, SUSPECTS, &n, e))
            return false;
        is = fault[n - 1];
    } else if (!(is = suspect_fault_find(suspect, e))) {
        return false;
    }
    if (!suspect_case_open(text, &c, e))
        return false;
    struct output *out = suspect_run(&c, is);
    int64_t wrong = 0;
    *passes = suspect_passes(&c, out);
    for (int64_t r = 0; r < out->n_rows; r++)
        wrong += print_row(f, &c, out, r, false);
    fprintf(f, "%s %s: %s, %" PRId64 " of %" PRId64 " rows are wrong\n", n > 0 ? "suspect" : "fault", suspect,
            *passes ? "PASS" : "FAIL", wrong, out->n_rows);
    fprintf(f,
            "tokens %" PRId64 ", nodes %" PRId32 ", queries %" PRId32 ", heads %" PRId32 "/%" PRId32
            ", d %" PRId32 ", scale %.6g, page %" PRId32 "\n",
            tree_tokens(c.tree), c.tree->n_nodes, c.tree->n_queries, c.p->heads.h_q, c.p->heads.h_kv,
            c.p->heads.d, c.p->scale, c.p->page_size);
    for (int64_t r = 0, shown = 0; r < out->n_rows && shown < MOST_ROWS_SHOWN; r++)
        shown += print_row(f, &c, out, r, true);
    if (wrong > MOST_ROWS_SHOWN)
        fprintf(f, "and %" PRId64 " more rows\n", wrong - MOST_ROWS_SHOWN);
    output_free(out);
    suspect_case_close(&c);
    return true;
}
