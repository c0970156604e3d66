/* report.c - the report of a lab: for people, as JSON, and for Gradescope. */
#include "verify/lab/lab.h"
#include "verify/io/origin.h"

#include "ref/json_text.h"
#include "ref/rng.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* The first gate before i of the same cause; -1: there is none. */
static int32_t same_cause(const struct lab_report *r, int32_t i)
{
    for (int32_t k = 0; k < i; k++)
        if (r->result[k].why && r->result[i].why && strcmp(r->result[k].why, r->result[i].why) == 0)
            return k;
    return -1;
}

/* What came, on one line: a crash may have said several. */
static void append_line(char **text, const char *indent, const char *got)
{
    size_t n = strlen(*text);
    xappend(text, "%sgot: %s", indent, got);
    for (char *c = *text + n; *c; c++)
        *c = *c == '\n' ? ' ' : *c;
    xappend(text, "\n");
}

/* What there is to say of gate i, which was not passed, a line each, each with `indent` before it; the caller frees. again: a cause
 * is told where it was told before, too. */
static char *told(const struct lab_report *r, const struct lab_gate *g, int32_t i, const char *indent,
                  bool again)
{
    const struct lab_result *x = &r->result[i];
    char *text = xstrdup("");
    if (lab_passed(x) || !x->code)
        return text;
    if (x->hidden)
        xappend(&text, "%sit passes the public seed, and fails on a hidden one\n", indent);
    if (x->checked)
        xappend(&text, "%schecked: %s\n", indent, x->checked);
    if (x->got)
        append_line(&text, indent, x->got);
    if (x->seen)
        xappend(&text, "%sseen: %s\n", indent, x->seen);
    int32_t before = again ? -1 : same_cause(r, i);
    if (before >= 0)
        xappend(&text, "%swhy: as %" PRId32 ".%" PRId32 "\n", indent, g->lab, before + 1);
    else if (x->why)
        xappend(&text, "%swhy: %s\n", indent, x->why);
    int32_t broken = lab_broken(&g[i], x);
    if (broken)
        xappend(&text, "%sinvariant %" PRId32 " of tests/labs/L%" PRId32 "/README.md\n", indent, broken,
                g->lab);
    return text;
}

uint64_t lab_shown_seed(const struct lab_report *r)
{
    return r->job->hides && r->job->lab->judge ? LAB_PUBLIC_SEED : r->job->seed;
}

/* "L1: 9 of 10 gates" */
static char *summary(const struct lab_report *r)
{
    return r->refused ? xasprintf("L%" PRId32 ": nothing was judged: %s", r->job->lab->number, r->refused)
                      : xasprintf("L%" PRId32 ": %" PRId32 " of %" PRId32 " gates", r->job->lab->number,
                                  r->passed, r->gates);
}

const struct lab_result *lab_measured(const struct lab_report *r)
{
    const struct lab_result *x = NULL;
    for (int32_t i = 0; i < r->gates && !r->refused; i++)
        x = r->result[i].figure ? &r->result[i] : x;
    return x;
}

void lab_print_text(FILE *f, const struct lab_report *r)
{
    int32_t n;
    const struct lab_gate *g = lab_gates(r->job->lab->number, &n);
    fprintf(f, "lab %" PRId32 ", %s: %s, seed %" PRIu64 "\n", r->job->lab->number, r->job->lab->title,
            r->job->path, lab_shown_seed(r));
    if (r->warnings)
        fprintf(f, "%s\n", r->warnings);
    for (int32_t i = 0; i < n && !r->refused; i++) {
        const struct lab_result *x = &r->result[i];
        char number[16];
        snprintf(number, sizeof number, "%" PRId32 ".%" PRId32, g[i].lab, g[i].number);
        fprintf(f, "%-5s %-42s %4g of %-4g %s\n", number, g[i].name, lab_passed(x) ? g[i].points : 0,
                g[i].points, x->code ? x->code : "NOT_RUN");
        char *text = told(r, g, i, "      ", false);
        fputs(text, f);
        free(text);
    }
    const struct lab_result *measured = lab_measured(r);
    if (measured)
        fprintf(f, "%s: %.4f\n", measured->figure, measured->value);
    fprintf(f, "lab %" PRId32 ": %g of %g points, %" PRId32 " of %" PRId32 " gates, %.1f s\n",
            r->job->lab->number, r->points, r->most, r->passed, r->gates, r->seconds);
}

static void print_text_or_null(FILE *f, const char *key, const char *s)
{
    fprintf(f, ", \"%s\": ", key);
    if (s)
        print_json_text(f, s);
    else
        fputs("null", f);
}

void lab_print_json(FILE *f, const struct lab_report *r)
{
    int32_t n;
    const struct lab_gate *g = lab_gates(r->job->lab->number, &n);
    fprintf(f, "{\"lab\": %" PRId32, r->job->lab->number);
    print_text_or_null(f, "title", r->job->lab->title);
    print_text_or_null(f, "file", r->job->path);
    fprintf(f, ", \"seed\": %" PRIu64 ", \"points\": %g, \"most\": %g", lab_shown_seed(r), r->points,
            r->most);
    print_text_or_null(f, "refused", r->refused);
    print_text_or_null(f, "warnings", r->warnings);
    fputs(", \"gates\": [", f);
    for (int32_t i = 0; i < n; i++) {
        const struct lab_result *x = &r->result[i];
        fprintf(f, "%s\n{\"gate\": %" PRId32, i ? "," : "", g[i].number);
        print_text_or_null(f, "name", g[i].name);
        fprintf(f, ", \"points\": %g, \"most\": %g, \"invariant\": %" PRId32 ", \"hidden\": %s",
                lab_passed(x) ? g[i].points : 0, g[i].points,
                lab_passed(x) ? g[i].invariant : lab_broken(&g[i], x), x->hidden ? "true" : "false");
        print_text_or_null(f, "code", x->code ? x->code : "NOT_RUN");
        print_text_or_null(f, "checked", x->checked);
        print_text_or_null(f, "question", x->question);
        print_text_or_null(f, "got", x->got);
        print_text_or_null(f, "seen", x->seen);
        print_text_or_null(f, "why", x->why);
        if (x->figure) {
            print_text_or_null(f, "figure", x->figure);
            fprintf(f, ", \"value\": %.6g", x->value);
        }
        fputs("}", f);
    }
    fputs("\n]}\n", f);
}

/* Who has a list of seeds can tell which it was; nobody else can. */
static uint64_t mark_of(uint64_t seed)
{
    return rng_u64(seed, 0, 0) >> 48;
}

/* A gate, as all may see it at once: of the secret seed, that it was not passed. */
static void print_gate(FILE *f, const struct lab_report *r, const struct lab_gate *g, int32_t i)
{
    const struct lab_result *x = &r->result[i];
    bool passed = lab_passed(x);
    char *text = r->refused  ? xstrdup(r->refused)
                 : x->hidden ? xstrdup("it passes the public seed, and fails on a hidden one\n")
                             : told(r, g, i, "", true),
         *output = passed || r->refused || x->hidden
                       ? xstrdup(text)
                       : xasprintf("%s\n%s", x->code ? x->code : "NOT_RUN", text);
    fprintf(f, "%s\n{\"number\": \"%" PRId32 ".%" PRId32 "\"", i ? "," : "", g[i].lab, g[i].number);
    print_text_or_null(f, "name", g[i].name);
    fprintf(f, ", \"score\": %g, \"max_score\": %g, \"status\": \"%s\", \"visibility\": \"visible\"",
            passed ? g[i].points : 0, g[i].points, passed ? "passed" : "failed");
    print_text_or_null(f, "output", output);
    fputs(", \"output_format\": \"text\"}", f);
    free(output);
    free(text);
}

/* What the secret seed found, when the time to hand in is over: code and cause, no case. Its points are those of the gates. */
static void print_secret(FILE *f, const struct lab_report *r, const struct lab_gate *g)
{
    char *text = xstrdup("");
    for (int32_t i = 0; i < r->gates; i++)
        if (r->result[i].hidden) {
            const struct lab_result *x = &r->result[i];
            xappend(&text, "%" PRId32 ".%" PRId32 " %s: %s\n", g[i].lab, g[i].number, g[i].name, x->code);
            if (x->why)
                xappend(&text, "why: %s\n", x->why);
        }
    fprintf(f,
            ",\n{\"number\": \"%" PRId32 ".%" PRId32
            "h\", \"name\": \"hidden seed\", \"score\": 0, \"max_score\": 0, "
            "\"status\": \"%s\", \"visibility\": \"after_due_date\"",
            g->lab, g[r->gates - 1].number, *text ? "failed" : "passed");
    print_text_or_null(f, "output", *text ? text : "every gate that passes the public seed passes this one");
    fputs(", \"output_format\": \"text\"}", f);
    free(text);
}

/* https://gradescope-autograders.readthedocs.io/en/latest/specs: the score of all is the sum of the tests'. */
void lab_print_gradescope(FILE *f, const struct lab_report *r)
{
    int32_t n;
    const struct lab_gate *g = lab_gates(r->job->lab->number, &n);
    char *all = summary(r);
    fprintf(f, "{\"score\": %g, \"execution_time\": %.0f", r->points, r->seconds);
    print_text_or_null(f, "output", all);
    fprintf(
        f,
        ", \"output_format\": \"text\", \"stdout_visibility\": \"hidden\",\n\"extra_data\": {\"seed_mark\": "
        "\"%04" PRIx64 "\", \"treeattn\": ",
        mark_of(r->job->seed));
    print_json_text(f, origin_commit());
    fputs("},\n\"tests\": [", f);
    for (int32_t i = 0; i < n; i++)
        print_gate(f, r, g, i);
    if (r->job->lab->judge && !r->refused)
        print_secret(f, r, g);
    fprintf(f, "\n],\n\"leaderboard\": [{\"name\": \"gates\", \"value\": %" PRId32 "}", r->passed);
    const struct lab_result *measured = lab_measured(r);
    if (measured)
        fprintf(f, ", {\"name\": \"%s\", \"value\": %.4f, \"order\": \"asc\"}", measured->figure,
                measured->value);
    fputs("]}\n", f);
    free(all);
}
