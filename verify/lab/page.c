/*
 * page.c - the report of a lab as one HTML file. It has no script and nothing from elsewhere, and says nothing by colour alone. What
 * comes of a student's file is escaped.
 */
#include "verify/lab/lab.h"
#include "verify/io/origin.h"
#include "verify/io/text.h"

#include "sim/draw/svg.h"

#include <gnu/libc-version.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

enum { MOST_PICTURES = 800 << 10 }; /* bytes: a page is to be smaller than 1 MB */

static const char style[] =
    "<style>\n"
    ":root{color-scheme:light}\n"
    "body{margin:0;background:#fff;color:#111;font:16px/1.5 system-ui,'DejaVu Sans',Verdana,sans-serif}\n"
    "main{max-width:1060px;margin:0 auto;padding:24px 20px 48px}\n"
    "h1{font-size:1.7em;margin:0 0 .2em}h2{font-size:1.25em;margin:2em 0 .5em;border-bottom:2px solid #111}\n"
    "h3{font-size:1.08em;margin:0 0 .5em}\n"
    ".score{font-size:1.25em;font-weight:bold;margin:.2em 0}\n"
    "table{border-collapse:collapse;width:100%}\n"
    "caption{text-align:left;padding:0 0 .4em}\n"
    "th,td{text-align:left;vertical-align:top;padding:.3em .6em;border-bottom:1px solid #999}\n"
    "thead th{border-bottom:2px solid #111}.points{text-align:right;white-space:nowrap}\n"
    "th[scope=row]{font-weight:normal;white-space:nowrap}\n"
    "tr.lost td:first-of-type,tr.lost .verdict{font-weight:bold}\n"
    "tr.lost{background:#f4e3e0}\n"
    "a{color:#003c8c}\n"
    "code,pre,.case{font-family:'DejaVu Sans Mono',Menlo,Consolas,monospace;font-size:.9em}\n"
    "pre{background:#f2f2f2;border:1px solid #999;padding:.6em "
    ".8em;white-space:pre-wrap;overflow-wrap:anywhere}\n"
    "section{border:1px solid #777;border-left:8px double #111;padding:.8em 1em;margin:1em 0}\n"
    "dl{display:grid;grid-template-columns:max-content minmax(0,1fr);gap:.25em 1em;margin:0}\n"
    "dt{font-weight:bold}dd{margin:0;overflow-wrap:anywhere;white-space:pre-line}dd pre{margin:0}\n"
    "figure{margin:1em 0 0;border-top:1px solid #999;padding-top:.6em}\n"
    "figcaption{font-size:.95em;margin-top:.3em}\n"
    "svg{display:block;width:100%;height:auto}\n"
    "ol.all{padding-left:0;list-style:none}ol.all li{margin:.4em 0}\n"
    "@media (max-width:900px){main{padding:16px 10px}section{padding:.6em .5em}}\n"
    "@media print{body{font-size:10.5pt}main{max-width:none;padding:0}a{color:#111;text-decoration:none}\n"
    "tr.lost{background:none}tr,section,figure,h2,h3,dl,li{break-inside:avoid}h2,h3{break-after:avoid}\n"
    "thead{display:table-header-group}pre{background:none}}\n"
    "</style>\n";

/* ---- text ----------------------------------------------------------------------------------------------- */

/* Its lines stay lines. */
static void put(FILE *f, const char *text)
{
    char *all = xstrdup(text), *rest = all;
    for (char *line; (line = strsep(&rest, "\n"));) {
        svg_put_text(f, line);
        if (rest)
            fputc('\n', f);
    }
    free(all);
}

/* What stands between backquotes is code. */
static void put_prose(FILE *f, const char *text)
{
    char *all = xstrdup(text), *rest = all;
    bool code = false;
    for (char *part; (part = strsep(&rest, "`")); code = !code) {
        fputs(code ? "<code>" : "", f);
        put(f, part);
        fputs(code ? "</code>" : "", f);
    }
    free(all);
}

static void put_fact(FILE *f, const char *name, const char *text)
{
    if (!text)
        return;
    fprintf(f, "<dt>%s</dt><dd%s>", name, strcmp(name, "checked") == 0 ? " class=\"case\"" : "");
    put(f, text);
    fputs("</dd>\n", f);
}

static void put_lines(FILE *f, const char *name, const char *text)
{
    if (!text)
        return;
    fprintf(f, "<dt>%s</dt><dd><pre>", name);
    put(f, text);
    fputs("</pre></dd>\n", f);
}

/* A picture in a page with others: names of its patterns become its own, by its number. */
static void put_picture(FILE *f, const char *svg, const char *caption, int32_t number)
{
    static const char *const mark[] = {" id=\"", "url(#"};
    fputs("<svg aria-label=\"", f);
    put(f, caption);
    fputs("\"", f);
    for (const char *at = svg + strlen("<svg"); *at;) {
        int k = 0;
        while (k < 2 && strncmp(at, mark[k], strlen(mark[k])) != 0)
            k++;
        if (k == 2) {
            fputc(*at++, f);
            continue;
        }
        fprintf(f, "%sp%" PRId32 "-", mark[k], number);
        at += strlen(mark[k]);
    }
}

/* ---- parts ---------------------------------------------------------------------------------------------- */

static void put_row(FILE *f, const struct lab_gate *g, const struct lab_result *x)
{
    bool passed = lab_passed(x);
    const char *code = x->code ? x->code : "NOT_RUN";
    fprintf(f, "<tr%s><th scope=\"row\">%" PRId32 ".%" PRId32 "</th><td>", passed ? "" : " class=\"lost\"",
            g->lab, g->number);
    put(f, g->name);
    if (passed)
        fputs("</td><td class=\"verdict\">passed</td>", f);
    else
        fprintf(f, "</td><td class=\"verdict\"><a href=\"#gate-%" PRId32 "\">%s</a></td>", g->number, code);
    fprintf(f,
            "<td class=\"points\">%g of %g</td><td><a href=\"#invariant-%" PRId32 "\">%" PRId32
            "</a></td></tr>\n",
            passed ? g->points : 0, g->points, g->invariant, g->invariant);
}

static void put_gates(FILE *f, const struct lab_report *r, const struct lab_gate *g)
{
    fputs("<h2>Gates</h2>\n<table>\n<caption>A gate is passed or not. A verdict leads to what was "
          "found.</caption>\n"
          "<thead><tr><th scope=\"col\">gate</th><th scope=\"col\">asks</th><th scope=\"col\">verdict</th>"
          "<th scope=\"col\" class=\"points\">points</th><th "
          "scope=\"col\">invariant</th></tr></thead>\n<tbody>\n",
          f);
    for (int32_t i = 0; i < r->gates; i++)
        put_row(f, &g[i], &r->result[i]);
    fputs("</tbody></table>\n", f);
}

static void put_lost(FILE *f, const struct lab_gate *g, const struct lab_result *x, size_t *room)
{
    int32_t broken = lab_broken(g, x);
    char *invariant = lab_invariant(g->lab, broken);
    fprintf(f, "<section id=\"gate-%" PRId32 "\">\n<h3>%" PRId32 ".%" PRId32 " ", g->number, g->lab,
            g->number);
    put(f, g->name);
    fprintf(f, ": %s</h3>\n<dl>\n", x->code ? x->code : "NOT_RUN");
    put_fact(f, "hidden", x->hidden ? "it passes the public seed, and fails on a hidden one" : NULL);
    put_fact(f, "checked", x->checked);
    put_lines(f, "question", x->question);
    put_fact(f, "got", x->got);
    put_fact(f, "seen", x->seen);
    put_fact(f, "why", x->why);
    if (invariant) {
        fprintf(f, "<dt>invariant %" PRId32 "</dt><dd>", broken);
        put_prose(f, invariant);
        fputs("</dd>\n", f);
    }
    fputs("</dl>\n", f);
    if (x->picture && x->picture_bytes <= *room) {
        fputs("<figure>\n", f);
        put_picture(f, x->picture, x->caption, g->number);
        fputs("<figcaption>", f);
        put(f, x->caption);
        fputs("</figcaption>\n</figure>\n", f);
        *room -= x->picture_bytes;
    } else if (x->picture) {
        fputs("<p>Its picture is left out: this page would be too large.</p>\n", f);
    }
    fputs("</section>\n", f);
    free(invariant);
}

/* Each with the gates that ask for it. */
static void put_invariants(FILE *f, const struct lab_report *r, const struct lab_gate *g)
{
    fputs("<h2>Invariants</h2>\n<ol class=\"all\">\n", f);
    char *text;
    for (int32_t n = 1; (text = lab_invariant(g->lab, n)); n++, free(text)) {
        bool any = false;
        fprintf(f, "<li id=\"invariant-%" PRId32 "\"><b>%" PRId32 ".</b> ", n, n);
        put_prose(f, text);
        for (int32_t i = 0; i < r->gates; i++)
            if (g[i].invariant == n) {
                fprintf(f, "%s%" PRId32 ".%" PRId32 " %s", any ? ", " : " <i>Gates: ", g->lab, g[i].number,
                        lab_passed(&r->result[i]) ? "passed" : "<b>not passed</b>");
                any = true;
            }
        fputs(any ? ".</i></li>\n" : "</li>\n", f);
    }
    fputs("</ol>\n", f);
}

/* Is it plain for a shell? */
static void append_word(char **text, const char *word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./-";
    char *quoted = word[strspn(word, plain)] || !*word ? text_quote(word) : xstrdup(word);
    xappend(text, " %s", quoted);
    free(quoted);
}

static void put_again(FILE *f, const struct lab_report *r)
{
    char *command = xasprintf("treeattn lab %" PRId32, r->job->lab->number);
    append_word(&command, r->job->path);
    xappend(&command, " --seed %" PRIu64, lab_shown_seed(r));
    fputs("<h2>To run it again</h2>\n<pre>", f);
    svg_put_text(f, command);
    fputs("</pre>\n<p>Here <code>treeattn</code> is the program, <code>build/treeattn</code> where it was "
          "built.</p>\n",
          f);
    free(command);
}

/* Nothing that differs from one run to the next. */
static void put_environment(FILE *f)
{
    struct utsname u = {0};
    uname(&u);
    const char *cc = getenv("LAB_CC");
    char *program = xasprintf("treeattn, commit %s", origin_commit());
    char *machine = xasprintf("%s %s, %s, %ld cores, glibc %s", u.sysname, u.release, u.machine,
                              sysconf(_SC_NPROCESSORS_ONLN), gnu_get_libc_version());
    fputs("<h2>Environment</h2>\n<dl>\n", f);
    put_fact(f, "program", program);
    put_fact(f, "machine", machine);
    put_fact(f, "compiler", cc && *cc ? cc : "cc");
    fputs("</dl>\n", f);
    free(machine);
    free(program);
}

static void put_verdicts(FILE *f, const struct lab_report *r, const struct lab_gate *g)
{
    size_t room = MOST_PICTURES;
    put_gates(f, r, g);
    if (r->passed < r->gates)
        fputs("<h2>What was found</h2>\n", f);
    for (int32_t i = 0; i < r->gates; i++)
        if (!lab_passed(&r->result[i]))
            put_lost(f, &g[i], &r->result[i], &room);
    put_invariants(f, r, g);
}

void lab_print_html(FILE *f, const struct lab_report *r)
{
    int32_t n;
    const struct lab *lab = r->job->lab;
    const struct lab_gate *g = lab_gates(lab->number, &n);
    fprintf(f,
            "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
            "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
            "<title>Lab %" PRId32 ", %s: %g of %g points</title>\n%s</head>\n<body><main>\n",
            lab->number, lab->title, r->points, r->most, style);
    fprintf(f,
            "<h1>Lab %" PRId32 ": %s</h1>\n<p class=\"score\">%g of %g points, %" PRId32 " of %" PRId32
            " gates</p>\n<p>",
            lab->number, lab->title, r->points, r->most, r->passed, r->gates);
    const struct lab_result *measured = lab_measured(r);
    if (measured)
        fprintf(f, "%s: <b>%.4f</b></p>\n<p>", measured->figure, measured->value);
    fputs("File <code>", f);
    svg_put_text(f, r->job->path);
    fprintf(f, "</code>, seed %" PRIu64 "%s.</p>\n", lab_shown_seed(r),
            lab_shown_seed(r) == r->job->seed ? "" : ", and one that is not told");
    if (r->warnings) {
        fputs("<p>The compiler: ", f);
        put(f, r->warnings);
        fputs("</p>\n", f);
    }
    if (r->refused) {
        fputs("<h2>Nothing was judged</h2>\n<pre>", f);
        put(f, r->refused);
        fputs("</pre>\n", f);
    } else {
        put_verdicts(f, r, g);
    }
    put_again(f, r);
    put_environment(f);
    fputs("</main></body></html>\n", f);
}
