/*
 * check_papers.c - the papers' numbers in paper-figs/paper.
 *
 * Always: the files keep their format, every figure and table is there or said to be only drawn, and numbers
 * that the papers give twice, or that follow from others, agree; where a paper contradicts itself the cell is
 * listed below and must go on doing so. With ../shared/papers: every number is read again. A printed table
 * must hold the rows' values, all of them, in the rows' order and under the rows' names; a number of the prose
 * must stand in the place that its row names, with its unit, rows of one place one after another. Changing any
 * digit must be noticed.
 */
#include "sim/strategy.h"
#include "tests/papers/papertext.h"
#include "tests/shared.h"
#include "tests/papers/papercsv.h"
#include "tests/suites.h"

#include <ctype.h>
#include <glob.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#define FOLDER "paper-figs/paper/"

/* ---- loading ---------------------------------------------------------------------------------------- */

enum { MAX_TABLES = 64 };
static struct papercsv tables[MAX_TABLES], headlines, names;
static int n_tables;

static void load(void)
{
    struct err e = {0};
    glob_t found;
    ck_assert_int_eq(glob(FOLDER "*.csv", 0, NULL, &found), 0);
    ck_assert_int_lt(found.gl_pathc, MAX_TABLES);
    n_tables = 0;
    for (size_t i = 0; i < found.gl_pathc; i++) {
        const char *path = found.gl_pathv[i];
        if (strcmp(path, FOLDER "headlines.csv") == 0)
            ck_assert_msg(papercsv_read(&headlines, path, LIST_KEYS, HEADLINE_COLUMNS, &e), "%s", e.msg);
        else if (strcmp(path, FOLDER "names.csv") == 0)
            ck_assert_msg(papercsv_read(&names, path, LIST_KEYS, NAME_COLUMNS, &e), "%s", e.msg);
        else
            ck_assert_msg(papercsv_read(&tables[n_tables++], path, TABLE_KEYS, TABLE_COLUMNS, &e), "%s",
                          e.msg);
    }
    globfree(&found);
    ck_assert_int_gt(n_tables, 0);
    ck_assert_int_gt(headlines.n, 0);
    ck_assert_int_gt(names.n, 0);
}

static void unload(void)
{
    for (int i = 0; i < n_tables; i++)
        papercsv_free(&tables[i]);
    papercsv_free(&headlines);
    papercsv_free(&names);
}

static const struct papercsv *table(const char *stem)
{
    for (int i = 0; i < n_tables; i++)
        if (strcmp(tables[i].stem, stem) == 0)
            return &tables[i];
    return NULL;
}

/* The row of a key, or NULL; over "" is part of the key. */
static char **find(const struct papercsv *s, const char *metric, const char *series, const char *over,
                   const char *at)
{
    for (int64_t i = 0; i < s->n; i++) {
        char **f = papercsv_row(s, i);
        if (strcmp(f[T_METRIC], metric) == 0 && strcmp(f[T_SERIES], series) == 0 &&
            strcmp(f[T_OVER], over) == 0 && strcmp(f[T_AT], at) == 0)
            return f;
    }
    return NULL;
}

/* ---- format ----------------------------------------------------------------------------------------- */

START_TEST(files_keep_their_format)
{
    struct err e = {0};
    int64_t rows = 0;
    for (int i = 0; i < n_tables; i++) {
        ck_assert_msg(table_check(&tables[i], &e), "%s", e.msg);
        rows += tables[i].n;
    }
    ck_assert_msg(headlines_check(&headlines, &e), "%s", e.msg);
    printf("papers: %d tables and figures with %" PRId64 " rows, %" PRId64 " headlines\n", n_tables, rows,
           headlines.n);
}
END_TEST

/* The kind of a name in one paper; NULL if nobody there has it. */
static const char *kind_of(const char *paper, const char *name)
{
    for (int64_t i = 0; i < names.n; i++) {
        char **f = papercsv_row(&names, i);
        if (strcmp(f[N_PAPER], paper) == 0 && strcmp(f[N_NAME], name) == 0 &&
            (strcmp(f[N_KIND], "strategy") == 0 || strcmp(f[N_KIND], "other") == 0))
            return f[N_KIND];
    }
    return NULL;
}

START_TEST(names_are_known)
{
    for (int64_t i = 0; i < names.n; i++) {
        char **f = papercsv_row(&names, i);
        bool registered = false;
        for (int32_t s = 0; s < n_strategies; s++)
            registered |= strcmp(strategies[s]->name, f[N_NAME]) == 0;
        if (strcmp(f[N_KIND], "strategy") == 0 || strcmp(f[N_KIND], "other") == 0)
            ck_assert_msg(registered == (f[N_KIND][0] == 's'), "names.csv: %s is called %s", f[N_NAME],
                          f[N_KIND]);
        else
            ck_assert_msg(strcmp(f[N_KIND], "label") == 0 || strcmp(f[N_KIND], "skip") == 0,
                          "names.csv: kind '%s'", f[N_KIND]);
    }
    for (int i = 0; i < n_tables; i++)
        for (int64_t r = 0; r < tables[i].n; r++) {
            char **f = papercsv_row(&tables[i], r);
            const char *paper = paper_of(tables[i].stem)->stem;
            ck_assert_msg(kind_of(paper, f[T_SERIES]), "%s: %s is not in names.csv", f[T_TABLE], f[T_SERIES]);
            ck_assert_msg(!*f[T_OVER] || kind_of(paper, f[T_OVER]), "%s: %s is not in names.csv", f[T_TABLE],
                          f[T_OVER]);
        }
}
END_TEST

/* What the project redraws: tables and figures with numbers, of which some are only drawn. */
static const struct {
    const char *paper;
    int table[16], figure[16];
} wanted[] = {
    {"deft", {1, 5, 6, 7, 8, 12, 14, 15, 16, 17, 18, 19, 20, 21}, {4, 13, 14, 15, 16, 17, 18}},
    {"fasttree", {0}, {2, 9, 10, 11, 12}},
    {"pat", {1}, {1, 5, 7, 8, 9, 10, 11, 12, 13, 14}},
    {"hydragen", {1, 2, 3, 4, 5, 6}, {3, 4, 5, 6, 7}},
};

/* The line of README.md that begins "| `stem` |", in a buffer of static storage; NULL if there is none. */
static const char *readme_line(const char *stem)
{
    static char line[2000];
    FILE *f = fopen(FOLDER "README.md", "r");
    ck_assert_ptr_nonnull(f);
    char *start = xasprintf("| `%s` |", stem);
    const char *out = NULL;
    while (!out && fgets(line, sizeof line, f))
        if (strncmp(line, start, strlen(start)) == 0)
            out = line + strlen(start);
    free(start);
    fclose(f);
    return out;
}

START_TEST(nothing_is_left_out)
{
    int files = 0;
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        for (int k = 0; wanted[i].table[k]; k++, files++) {
            char *stem = xasprintf("%s-table%d", wanted[i].paper, wanted[i].table[k]);
            ck_assert_msg(table(stem), "no %s.csv", stem);
            free(stem);
        }
        for (int k = 0; wanted[i].figure[k]; k++) {
            char *stem = xasprintf("%s-fig%d", wanted[i].paper, wanted[i].figure[k]);
            const char *said = readme_line(stem);
            ck_assert_msg(said, "README.md says nothing of %s", stem);
            bool drawn_only = strncmp(said, " nothing |", 10) == 0;
            ck_assert_msg(drawn_only == !table(stem), "README.md and the folder disagree about %s", stem);
            files += !drawn_only;
            free(stem);
        }
    }
    ck_assert_int_eq(files, n_tables);
}
END_TEST

/* A sound file, and what one edit each makes of it: refused, and for that reason. */
START_TEST(broken_files_are_refused)
{
    static const char sound[] =
        "# paper: DeFT (ICLR 2025)\n# place: Table 1\n# about: two rows\n# unit: s; x\n"
        "# machine: none\n# layout: rows 1\n# rows: 2\n" TABLE_COLUMNS "\n"
        "deft-table1,m,a,,here,is,1.50,0.1,s,Table 1,\n"
        "deft-table1,n,a,b,here,is,oom,,x,Table 1,why\n";
    static const struct {
        const char *fault, *from, *to, *says;
    } edits[] = {
        {"nothing", "m,a", "m,a", NULL},
        {"key missing", "# machine: none\n", "", "machine"},
        {"key empty", "# about: two rows", "# about: ", "about"},
        {"keys in another order", "# place: Table 1\n# about: two rows",
         "# about: two rows\n# place: Table 1", "place"},
        {"columns in another order", "metric,series", "series,metric", "heading"},
        {"no heading", TABLE_COLUMNS "\n", "", "occurs twice"},
        {"half a row", "oom,,x,Table 1,why\n", "oom,\n", "fields"},
        {"no end of the last line", "why\n", "why", "inside of a line"},
        {"row lost", "deft-table1,m,a,,here,is,1.50,0.1,s,Table 1,\n", "", "1 rows"},
        {"field missing", "m,a,,here", "m,a,here", "10 fields"},
        {"field too many", "m,a,,here", "m,a,,,here", "12 fields"},
        {"empty line", "deft-table1,n", "\ndeft-table1,n", "empty"},
        {"blank before a field", "m,a,", "m, a,", "blanks"},
        {"quotes", "m,a,", "m,\"a\",", "quotes"},
        {"carriage return", "why\n", "why\r\n", "printable"},
        {"unknown paper", "DeFT", "Deft", "title"},
        {"another place", "# place: Table 1", "# place: Figure 1", "place"},
        {"another table", "deft-table1,m", "deft-table2,m", "deft-table2"},
        {"capital in a series", "m,a,", "m,A,", "small letters"},
        {"no place", "Table 1,\n", ",\n", "empty"},
        {"no value", "1.50", "", "expected a number"},
        {"value with a unit", "1.50", "1.50s", "expected a number"},
        {"two points", "1.50", "1.5.0", "expected a number"},
        {"sign", "1.50", "-1.50", "expected a number"},
        {"infinite", "1.50", "1e999", "expected a number"},
        {"not a number", "1.50", "nan", "expected a number"},
        {"exponent without digits", "1.50", "1e-", "expected a number"},
        {"unknown marker", "oom", "OOM", "expected a number"},
        {"unknown unit", "0.1,s,", "0.1,sec,", "unit"},
        {"unit not announced", "unit: s; x", "unit: s", "unit"},
        {"unit announced, not used", "unit: s; x", "unit: s; x; %", "no row"},
        {"a metric in two dimensions", "deft-table1,n", "deft-table1,m", "in row 1"},
        {"unknown how", "is,1.50", "roughly,1.50", "how"},
        {"marker without a note", ",why", ",", "note"},
        {"spread of a marker", "oom,,", "oom,0.1,", "spread"},
        {"compared with itself", "a,b,", "a,a,", "itself"},
        {"key twice", "deft-table1,n,a,b,here,is,oom,,x", "deft-table1,m,a,,here,is,oom,,s", "again"},
    };
    char *folder = scratch_folder();
    char *path = xasprintf("%s/deft-table1.csv", folder);
    for (size_t i = 0; i < sizeof edits / sizeof edits[0]; i++) {
        const char *at = strstr(sound, edits[i].from);
        ck_assert_msg(at, "%s: nothing to edit", edits[i].fault);
        FILE *f = fopen(path, "w");
        ck_assert_ptr_nonnull(f);
        fprintf(f, "%.*s%s%s", (int)(at - sound), sound, edits[i].to, at + strlen(edits[i].from));
        fclose(f);
        struct papercsv s;
        struct err e = {0};
        bool good = papercsv_read(&s, path, TABLE_KEYS, TABLE_COLUMNS, &e) && table_check(&s, &e);
        ck_assert_msg(good == !edits[i].says, "%s: %s", edits[i].fault, good ? "accepted" : e.msg);
        ck_assert_msg(good || strstr(e.msg, edits[i].says), "%s: refused because of '%s'", edits[i].fault,
                      e.msg);
        papercsv_free(&s);
    }
    free(path);
    free(folder);
}
END_TEST

/* ---- numbers that follow from others ---------------------------------------------------------------- */

/* A printed number stands for an interval. */
struct range {
    double lo, hi;
};

/* One unit of the last digit printed. */
static double last_digit(const char *printed)
{
    const char *point = strchr(printed, '.');
    return point ? pow(10, -(double)strspn(point + 1, "0123456789")) : 1;
}

static struct range rounded(char **row)
{
    double x = strtod(row[T_VALUE], NULL), half = last_digit(row[T_VALUE]) / 2;
    return (struct range){x - half, x + half};
}

static struct range ratio(struct range a, struct range b)
{
    return (struct range){a.lo / b.hi, a.hi / b.lo};
}

/* Whether a value in r prints as this: rounded or, as DeFT does now and then, cut off. */
static bool prints_as(struct range r, const char *printed)
{
    double x = strtod(printed, NULL), ulp = last_digit(printed);
    return x >= r.lo - ulp && x <= r.hi + ulp / 2;
}

/* Where a paper contradicts itself: the cell does not follow from the cells it is made of. */
static const struct {
    const char *stem, *metric, *over, *at;
} contradictions[] = {
    {"deft-table5", "attention-latency-speedup", "radix-attention", "few-shot b=30"},
    {"deft-table16", "attention-latency-speedup", "radix-attention", "few-shot b=30"},
    {"deft-table16", "attention-latency-speedup", "best-attention", "few-shot b=30"},
    {"deft-table16", "attention-latency-speedup", "best-attention", "few-shot b=50"},
    {"deft-table5", "speedup-upper-bound", "radix-attention", "few-shot b=20"},
    {"deft-table5", "speedup-upper-bound", "radix-attention", "reasoning sorting"},
    {"deft-table5", "speedup-upper-bound", "radix-attention", "reasoning document"},
    {"deft-table5", "speedup-upper-bound", "radix-attention", "reasoning keyword"},
    {"deft-table5", "speedup-upper-bound", "radix-attention", "reasoning set"},
    {"deft-table5", "speedup-upper-bound", "radix-attention", "speculative t=64"},
};

static bool contradicts(char **f)
{
    for (size_t i = 0; i < sizeof contradictions / sizeof contradictions[0]; i++)
        if (strcmp(contradictions[i].stem, f[T_TABLE]) == 0 &&
            strcmp(contradictions[i].metric, f[T_METRIC]) == 0 &&
            strcmp(contradictions[i].over, f[T_OVER]) == 0 && strcmp(contradictions[i].at, f[T_AT]) == 0)
            return true;
    return false;
}

/* The baseline's row: of that name, or the least of all others for "best-attention". */
static char **baseline(const struct papercsv *s, const char *metric, const char *series, const char *over,
                       const char *at)
{
    if (strcmp(over, "best-attention") != 0)
        return find(s, metric, over, "", at);
    char **best = NULL;
    for (int64_t i = 0; i < s->n; i++) {
        char **f = papercsv_row(s, i);
        if (strcmp(f[T_METRIC], metric) == 0 && strcmp(f[T_AT], at) == 0 &&
            strcmp(f[T_SERIES], series) != 0 && !is_marker(f[T_VALUE]) &&
            (!best || strtod(f[T_VALUE], NULL) < strtod(best[T_VALUE], NULL)))
            best = f;
    }
    return best;
}

/* The interval of a speedup or reduction by the rows of `s`; false where they do not give it. */
static bool derive(const struct papercsv *s, char **f, struct range *out)
{
    const char *dash = strrchr(f[T_METRIC], '-');
    bool speedup = dash && strcmp(dash, "-speedup") == 0, reduction = dash && strcmp(dash, "-reduction") == 0;
    if (!speedup && !reduction)
        return false;
    char *metric = xasprintf("%.*s", (int)(dash - f[T_METRIC]), f[T_METRIC]);
    char **own = find(s, metric, f[T_SERIES], "", f[T_AT]);
    char **base = baseline(s, metric, f[T_SERIES], f[T_OVER], f[T_AT]);
    free(metric);
    if (!own || !base || is_marker(own[T_VALUE]) || is_marker(base[T_VALUE]))
        return false;
    *out = ratio(rounded(base), rounded(own));
    if (reduction) {
        struct range left = ratio(rounded(own), rounded(base));
        *out = (struct range){100 * (1 - left.hi), 100 * (1 - left.lo)};
    }
    return true;
}

static void expect_follows(char **f, struct range r, int *followed, int *contradicted)
{
    bool follows = prints_as(r, f[T_VALUE]);
    ck_assert_msg(follows == !contradicts(f), "%s %s of %s at %s: printed %s, the parts give %.4f to %.4f%s",
                  f[T_TABLE], f[T_METRIC], f[T_SERIES], f[T_AT], f[T_VALUE], r.lo, r.hi,
                  follows ? " (listed as a contradiction)" : "");
    ck_assert_msg(follows || strncmp(f[T_NOTE], "not ", 4) == 0, "%s at %s: a contradiction without a note",
                  f[T_TABLE], f[T_AT]);
    *followed += follows;
    *contradicted += !follows;
}

START_TEST(speedups_and_reductions_follow)
{
    int followed = 0, contradicted = 0;
    for (int i = 0; i < n_tables; i++)
        for (int64_t r = 0; r < tables[i].n; r++) {
            char **f = papercsv_row(&tables[i], r);
            struct range by;
            if (!is_marker(f[T_VALUE]) && derive(&tables[i], f, &by))
                expect_follows(f, by, &followed, &contradicted);
        }
    /* Table 5 repeats speedups of attention whose latencies are in Table 16; its bound takes both */
    const struct papercsv *t5 = table("deft-table5"), *t16 = table("deft-table16");
    for (int64_t r = 0; r < t5->n; r++) {
        char **f = papercsv_row(t5, r);
        struct range by;
        if (strcmp(f[T_METRIC], "attention-latency-speedup") == 0) {
            ck_assert(derive(t16, f, &by));
            expect_follows(f, by, &followed, &contradicted);
        } else if (strcmp(f[T_METRIC], "speedup-upper-bound") == 0) {
            struct range all = rounded(find(t5, "decoding-latency", "radix-attention", "", f[T_AT]));
            struct range attention = rounded(find(t16, "attention-latency", "radix-attention", "", f[T_AT]));
            by = ratio(all, (struct range){all.lo - attention.hi, all.hi - attention.lo});
            expect_follows(f, by, &followed, &contradicted);
        }
    }
    printf("papers: %d derived numbers follow, %d are known not to\n", followed, contradicted);
    ck_assert_int_ge(followed, 70);
    ck_assert_int_eq(contradicted, sizeof contradictions / sizeof contradictions[0]);
}
END_TEST

/* Rows that two tables share; at NULL: all of them, under the same `at`. */
START_TEST(tables_agree)
{
    static const struct {
        const char *stem, *at, *other, *other_at;
        int shared;
    } pairs[] = {
        {"deft-table1", "tot sorting", "deft-table5", "reasoning sorting", 3},
        {"deft-table1", "tot sorting", "deft-table17", "reasoning sorting", 6},
        {"deft-table5", NULL, "deft-table16", NULL, 22},
        {"deft-table6", NULL, "deft-table16", NULL, 22},
        {"deft-table7", "reasoning sorting L=1k", "deft-table18", "7B reasoning sorting L=1k", 1},
        {"deft-table7", "reasoning sorting L=5k", "deft-table18", "7B reasoning sorting L=5k", 1},
        {"deft-table7", "reasoning sorting L=8k", "deft-table18", "7B reasoning sorting L=8k", 1},
        {"deft-table8", "7B reasoning sorting", "deft-table18", "7B reasoning sorting L=1k", 3},
        {"deft-table8", "34B reasoning sorting", "deft-table18", "34B reasoning sorting L=1k", 3},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        const struct papercsv *a = table(pairs[i].stem), *b = table(pairs[i].other);
        int shared = 0;
        for (int64_t r = 0; r < a->n; r++) {
            char **f = papercsv_row(a, r);
            if (pairs[i].at && strcmp(pairs[i].at, f[T_AT]) != 0)
                continue;
            char **g =
                find(b, f[T_METRIC], f[T_SERIES], f[T_OVER], pairs[i].other_at ? pairs[i].other_at : f[T_AT]);
            bool same =
                !g || strcmp(f[T_VALUE], g[T_VALUE]) == 0 ||
                (last_digit(f[T_VALUE]) > last_digit(g[T_VALUE]) && prints_as(rounded(g), f[T_VALUE]));
            ck_assert_msg(same, "%s of %s at %s: %s has %s, %s has %s", f[T_METRIC], f[T_SERIES], f[T_AT],
                          a->stem, f[T_VALUE], b->stem, g ? g[T_VALUE] : "");
            shared += g != NULL;
        }
        ck_assert_msg(shared == pairs[i].shared, "%s and %s share %d rows (expected %d)", a->stem, b->stem,
                      shared, pairs[i].shared);
    }
}
END_TEST

static double value_at(const struct papercsv *s, const char *series, int64_t batch, int prefix)
{
    char *at = prefix ? xasprintf("b=%" PRId64 " p=%dK", batch, prefix) : xasprintf("b=%" PRId64, batch);
    char **f = find(s, "throughput", series, "", at);
    ck_assert_msg(f, "%s: no %s at %s", s->stem, series, at);
    free(at);
    return is_marker(f[T_VALUE]) ? NAN : strtod(f[T_VALUE], NULL);
}

/* Skipping attention bounds every throughput, and what lacks memory lacks it for longer prefixes and for larger batches. */
START_TEST(hydragen_tables_are_sound)
{
    for (int n = 1; n <= 6; n++) {
        char *stem = xasprintf("hydragen-table%d", n);
        const struct papercsv *s = table(stem);
        free(stem);
        bool lacks[17] = {false};
        for (int64_t r = 0; r < s->n; r++) {
            char **f = papercsv_row(s, r);
            int64_t batch;
            int prefix = 0;
            ck_assert_int_ge(sscanf(f[T_AT], "b=%" SCNd64 " p=%dK", &batch, &prefix), 1);
            char *bound_at = xasprintf("b=%" PRId64, batch);
            char **bound = find(s, "throughput", "no-attention", "", bound_at);
            free(bound_at);
            ck_assert_ptr_nonnull(bound);
            double slack = strtod(f[T_SPREAD], NULL) + strtod(bound[T_SPREAD], NULL);
            if (!is_marker(f[T_VALUE]))
                ck_assert_msg(rounded(f).lo <= rounded(bound).hi + slack, "%s: %s at %s beats no attention",
                              f[T_TABLE], f[T_SERIES], f[T_AT]);
            if (strcmp(f[T_SERIES], "flash-attention") == 0) {
                bool oom = is_marker(f[T_VALUE]);
                for (int p = 1; p <= prefix; p *= 2)
                    ck_assert_msg(oom || !lacks[p], "%s: memory comes back at %s", f[T_TABLE], f[T_AT]);
                lacks[prefix] |= oom;
            } else {
                ck_assert_msg(!is_marker(f[T_VALUE]), "%s: %s lacks memory", f[T_TABLE], f[T_SERIES]);
            }
        }
    }
    /* what the text says of CodeLlama-13B, 128 tokens, batch 1024 */
    const struct papercsv *t3 = table("hydragen-table3");
    double own1 = value_at(t3, "hydragen", 1024, 1), own16 = value_at(t3, "hydragen", 1024, 16);
    double base1 = value_at(t3, "vllm-no-detokenization", 1024, 1),
           base16 = value_at(t3, "vllm-no-detokenization", 1024, 16);
    ck_assert(1 - own16 / own1 < 0.15);
    ck_assert(1 - base16 / base1 > 0.90);
    ck_assert((own16 - 0.05) / (base16 + 0.05) < 32 && 32 < (own16 + 0.05) / (base16 - 0.05));
    ck_assert(own16 / value_at(t3, "no-attention", 1024, 0) > 0.70);
    ck_assert(base1 < 5 && base16 < 0.5);
    const struct papercsv *t1 = table("hydragen-table1");
    ck_assert(value_at(t1, "hydragen", 2048, 16) / value_at(t1, "vllm-no-detokenization", 2048, 16) > 50);
    /* two cuts in a row are the whole one */
    const struct papercsv *fig6 = table("hydragen-fig6");
    char **part = find(fig6, "latency-reduction", "hydragen-tree", "hydragen", "equal batch");
    char **rest = find(fig6, "latency-reduction", "hydragen-tree-enlarged", "hydragen-tree", "larger batch");
    char **whole = find(fig6, "latency-reduction", "hydragen-tree-enlarged", "hydragen", "larger batch");
    struct range left = {(1 - rounded(part).hi / 100) * (1 - rounded(rest).hi / 100),
                         (1 - rounded(part).lo / 100) * (1 - rounded(rest).lo / 100)};
    ck_assert(prints_as((struct range){100 * (1 - left.hi), 100 * (1 - left.lo)}, whole[T_VALUE]));
}
END_TEST

/* The fastest is the one the papers mark so: DeFT-Flatten, in every column. */
START_TEST(deft_flatten_is_fastest)
{
    static const char *const stems[] = {"deft-table5",  "deft-table6",  "deft-table16",
                                        "deft-table19", "deft-table20", "deft-table21"};
    int columns = 0;
    for (size_t i = 0; i < sizeof stems / sizeof stems[0]; i++) {
        const struct papercsv *s = table(stems[i]);
        for (int64_t r = 0; r < s->n; r++) {
            char **f = papercsv_row(s, r);
            if (strcmp(f[T_SERIES], "deft-flatten") != 0 || *f[T_OVER])
                continue;
            char **next = baseline(s, f[T_METRIC], "deft-flatten", "best-attention", f[T_AT]);
            ck_assert_msg(strtod(f[T_VALUE], NULL) < strtod(next[T_VALUE], NULL), "%s at %s", s->stem,
                          f[T_AT]);
            columns++;
        }
    }
    ck_assert_int_eq(columns, 3 * 11 + 3 * 3);
}
END_TEST

/* Headlines beside the rows they summarise: a row, or the least or largest of the rows of one metric. */
START_TEST(headlines_agree_with_the_tables)
{
    enum pick { ROW, LEAST, MOST };
    static const struct {
        const char *id, *stem, *metric, *series, *over, *at;
        enum pick pick;
    } links[] = {
        {"deft-kv-io-reduction-least", "deft-table17", "kv-io-reduction", "deft-flatten", "radix-attention",
         NULL, LEAST},
        {"deft-kv-io-reduction-most", "deft-table17", "kv-io-reduction", "deft-flatten", "radix-attention",
         NULL, MOST},
        {"deft-partial-io-reduction", "deft-table17", "partial-io-reduction", "deft-flatten", "tree-medusa",
         NULL, LEAST},
        {"deft-decoding-speedup", "deft-table16", "decoding-latency-speedup", "deft-flatten",
         "radix-attention", NULL, MOST},
        {"deft-attention-speedup", "deft-table16", "attention-latency-speedup", "deft-flatten",
         "radix-attention", NULL, MOST},
        {"deft-decoding-speedup-few-shot", "deft-table16", "decoding-latency-speedup", "deft-flatten",
         "radix-attention", "few-shot b=50", ROW},
        {"deft-decoding-speedup-speculative", "deft-table16", "decoding-latency-speedup", "deft-flatten",
         "radix-attention", "speculative t=256", ROW},
        {"deft-decoding-speedup-reasoning", "deft-table16", "decoding-latency-speedup", "deft-flatten",
         "radix-attention", "reasoning sorting", ROW},
        {"fasttree-over-flash-attention", "fasttree-fig9", "attention-latency-speedup", "fasttree",
         "flash-attention", "all", ROW},
        {"fasttree-over-sglang-triton", "fasttree-fig9", "attention-latency-speedup", "fasttree",
         "sglang-triton", "all", ROW},
        {"fasttree-over-flashinfer", "fasttree-fig9", "attention-latency-speedup", "fasttree", "flashinfer",
         "all", ROW},
        {"fasttree-over-deft", "fasttree-fig9", "attention-latency-speedup", "fasttree", "deft-flatten",
         "all", ROW},
        {"fasttree-over-cascade", "fasttree-fig9", "attention-latency-speedup", "fasttree", "cascade", "all",
         ROW},
        {"fasttree-greedy", "fasttree-fig9", "attention-latency-speedup", "fasttree", "fasttree-no-greedy",
         NULL, MOST},
        {"fasttree-splitting", "fasttree-fig9", "attention-latency-speedup", "fasttree", "fasttree-no-split",
         NULL, MOST},
        {"fasttree-throughput", "fasttree-fig10", "throughput-speedup", "fasttree", "sglang-flashinfer", NULL,
         MOST},
        {"pat-tpot-reduction-least", "pat-fig10", "tpot-reduction", "pat", NULL, NULL, LEAST},
        {"pat-tpot-reduction-most", "pat-fig10", "tpot-reduction", "pat", NULL, NULL, MOST},
        {"pat-over-flash-attention", "pat-fig9", "attention-latency-speedup", "pat", "flash-attention", NULL,
         MOST},
        {"pat-over-flashinfer", "pat-fig9", "attention-latency-speedup", "pat", "flashinfer", NULL, MOST},
        {"pat-over-fasttree", "pat-fig9", "attention-latency-speedup", "pat", "fasttree", NULL, MOST},
        {"pat-over-relay", "pat-fig9", "attention-latency-speedup", "pat", "relay", NULL, MOST},
        {"pat-over-relay++", "pat-fig9", "attention-latency-speedup", "pat", "relay++", NULL, MOST},
        {"pat-compute-latency", "pat-fig11", "attention-latency-excess", "pat-compute", "pat", "all", ROW},
        {"pat-naive-latency", "pat-fig11", "attention-latency-excess", "pat-naive", "pat", "all", ROW},
        {"pat-compute-io", "pat-fig11", "memory-io-excess", "pat-compute", "pat", "all", ROW},
        {"pat-naive-io", "pat-fig11", "memory-io-excess", "pat-naive", "pat", "all", ROW},
        {"pat-fixed-latency", "pat-fig11", "attention-latency-excess", "pat-fixed", "pat", "all", ROW},
        {"pat-serial-latency", "pat-fig11", "attention-latency-excess", "pat-serial", "pat", "all", ROW},
        {"pat-planning-toolagent", "pat-fig14", "planning-latency-reduction", "pat", "preprocessing",
         "toolagent rate=8", ROW},
        {"pat-planning-conversation", "pat-fig14", "planning-latency-reduction", "pat", "preprocessing",
         "conversation rate=5", ROW},
        {"hydragen-throughput", "hydragen-fig3", "throughput-speedup", "hydragen", "best-baseline", NULL,
         MOST},
        {"hydragen-tree-time", "hydragen-fig6", "latency-reduction", "hydragen-tree-enlarged", "hydragen",
         "larger batch", ROW},
        {"hydragen-attention-speedup", "hydragen-fig4", "attention-latency-speedup", "hydragen",
         "flash-attention", NULL, MOST},
    };
    for (size_t i = 0; i < sizeof links / sizeof links[0]; i++) {
        const struct papercsv *s = table(links[i].stem);
        char **head = NULL, **best = NULL;
        for (int64_t r = 0; r < headlines.n; r++)
            if (strcmp(papercsv_row(&headlines, r)[H_ID], links[i].id) == 0)
                head = papercsv_row(&headlines, r);
        for (int64_t r = 0; r < s->n; r++) {
            char **f = papercsv_row(s, r);
            if (strcmp(f[T_METRIC], links[i].metric) != 0 || strcmp(f[T_SERIES], links[i].series) != 0 ||
                (links[i].over && strcmp(f[T_OVER], links[i].over) != 0) ||
                (links[i].at && strcmp(f[T_AT], links[i].at) != 0))
                continue;
            double gain = best ? strtod(f[T_VALUE], NULL) - strtod(best[T_VALUE], NULL) : 0;
            if (!best || (links[i].pick == LEAST ? gain < 0 : gain > 0))
                best = f;
        }
        ck_assert_msg(head && best, "%s: no such headline, or no row of %s", links[i].id, links[i].stem);
        ck_assert_msg(strcmp(head[H_UNIT], best[T_UNIT]) == 0, "%s: in %s, the row in %s", links[i].id,
                      head[H_UNIT], best[T_UNIT]);
        ck_assert_msg(prints_as(rounded(best), head[H_VALUE]), "%s says %s, the row %s", links[i].id,
                      head[H_VALUE], best[T_VALUE]);
    }
}
END_TEST

/* ---- the texts again -------------------------------------------------------------------------------- */

/* The text of a paper; false after saying that the test skips. */
static bool open_text(const struct paper *p, struct text *t)
{
    char *name = xasprintf("papers/%s", p->text), *path = shared_path(name);
    free(name);
    if (!path)
        return false;
    struct err e = {0};
    ck_assert_msg(text_read(t, path, &e), "%s", e.msg);
    free(path);
    return true;
}

/* Whether a name stands in a row's key: a word of it, or how a metric such as "kv-io-reduction" begins. */
static bool in_key(const char *name, char **f)
{
    size_t n = strlen(name);
    if (strcmp(name, f[T_SERIES]) == 0 || strcmp(name, f[T_OVER]) == 0 ||
        (strncmp(name, f[T_METRIC], n) == 0 && (f[T_METRIC][n] == 0 || f[T_METRIC][n] == '-')))
        return true;
    for (const char *w = f[T_AT]; *w; w += strcspn(w, " =") + (w[strcspn(w, " =")] != 0)) {
        size_t word = strcspn(w, " "), tail = strcspn(w, " =");
        if ((word == n || tail == n) && strncasecmp(w, name, n) == 0)
            return true;
    }
    return false;
}

/* Whether what is printed at the head of a row or column stands in the row's key. */
static bool label_agrees(const char *paper, const char *label, char **f)
{
    bool named = false;
    for (int64_t i = 0; i < names.n; i++) {
        char **g = papercsv_row(&names, i);
        if (strcmp(g[N_PAPER], paper) != 0 || strcmp(g[N_PRINTED], label) != 0)
            continue;
        named = true;
        if (strcmp(g[N_KIND], "skip") == 0 || in_key(g[N_NAME], f))
            return true;
    }
    return !named && in_key(label, f);
}

static bool cell_agrees(const struct printed *c, const char *paper, char **f)
{
    if (strcmp(c->value, f[T_VALUE]) != 0 || strcmp(c->spread, f[T_SPREAD]) != 0 ||
        (c->mark && c->mark != mark_of(f[T_UNIT])) || (c->unit && strcmp(c->unit, f[T_UNIT]) != 0))
        return false;
    for (int l = 0; l < MAX_LABELS && c->label[l]; l++)
        if (!label_agrees(paper, c->label[l], f))
            return false;
    return true;
}

static bool number_agrees(const struct number *x, const char *value, const char *unit)
{
    return strcmp(x->digits, value) == 0 && x->mark == mark_of(unit);
}

/* Rows [begin, end) of one place: whether their numbers stand in it, one after another. */
static bool run_agrees(const struct numbers *text, const struct papercsv *s, int64_t begin, int64_t end,
                       int value, int unit)
{
    int64_t at = 0;
    for (int64_t i = begin; i < end; i++, at++) {
        char **f = papercsv_row(s, i);
        while (at < text->n && !number_agrees(&text->v[at], f[value], f[unit]))
            at++;
        if (at == text->n)
            return false;
    }
    return true;
}

/* How a check fares when every digit of every number is changed to every other digit. */
struct sweep {
    int64_t tried, noticed;
};

/* All changes of one digit of *value (cell of f), judged by agrees(arg). */
static void change_digits(char *value, bool (*agrees)(void *), void *arg, const char *whose, struct sweep *sw)
{
    for (char *d = value; *d; d++) {
        if (!isdigit((unsigned char)*d))
            continue;
        char was = *d;
        for (*d = '0'; *d <= '9'; (*d)++) {
            if (*d == was)
                continue;
            bool blind = agrees(arg);
            sw->tried++;
            sw->noticed += !blind;
            if (blind)
                printf("papers: %s: %s for %c goes unnoticed\n", whose, value, was);
        }
        *d = was;
    }
}

struct cell_arg {
    const struct printed *c;
    const char *paper;
    char **f;
};
static bool cell_again(void *arg)
{
    const struct cell_arg *a = arg;
    return cell_agrees(a->c, a->paper, a->f);
}

struct run_arg {
    const struct numbers *text;
    const struct papercsv *s;
    int64_t begin, end;
    int value, unit;
};
static bool run_again(void *arg)
{
    const struct run_arg *a = arg;
    return run_agrees(a->text, a->s, a->begin, a->end, a->value, a->unit);
}

static void check_grid(const struct text *t, const struct paper *p, const struct papercsv *s,
                       struct sweep *sw)
{
    struct printed_table g = {0};
    struct err e = {0};
    ck_assert_msg(printed_read(t, p, s->key[K_PLACE], s->key[K_LAYOUT], &g, &e), "%s: %s", s->stem, e.msg);
    for (int64_t i = 0; i < g.n && i < s->n; i++) {
        char **f = papercsv_row(s, i);
        const struct printed *c = &g.v[i];
        ck_assert_msg(cell_agrees(c, p->stem, f),
                      "%s row %" PRId64 " (%s, %s, %s: %s +- %s %s): printed %s +- %s under %s, %s, %s",
                      s->stem, i + 1, f[T_METRIC], f[T_SERIES], f[T_AT], f[T_VALUE], f[T_SPREAD], f[T_UNIT],
                      c->value, c->spread, c->label[0], c->label[1] ? c->label[1] : "",
                      c->label[2] ? c->label[2] : "");
        ck_assert_str_eq(f[T_WHERE], s->key[K_PLACE]);
        struct cell_arg arg = {c, p->stem, f};
        change_digits(f[T_VALUE], cell_again, &arg, s->stem, sw);
        change_digits(f[T_SPREAD], cell_again, &arg, s->stem, sw);
    }
    ck_assert_msg(g.n == s->n, "%s: %" PRId64 " rows, the text prints %" PRId64 " values", s->stem, s->n,
                  g.n);
    printed_free(&g);
}

/* Whether a strategy is called by one of its printed names; what is no strategy has none to look for. */
static bool is_called(const char *place, const char *paper, const char *name)
{
    const char *kind = kind_of(paper, name);
    if (!kind || strcmp(kind, "strategy") != 0)
        return true;
    for (int64_t i = 0; i < names.n; i++) {
        char **f = papercsv_row(&names, i);
        if (strcmp(f[N_PAPER], paper) == 0 && strcmp(f[N_NAME], name) == 0 && strstr(place, f[N_PRINTED]))
            return true;
    }
    return false;
}

/* Rows [begin, end) name one place. */
static void check_run(const struct text *t, const struct papercsv *s, int64_t begin, int64_t end, int where,
                      int value, int unit, struct sweep *sw)
{
    const char *at = papercsv_row(s, begin)[where];
    struct numbers n = {0};
    struct err e = {0};
    char *place = text_place(t, at, &e);
    ck_assert_msg(place, "%s: %s", s->stem, e.msg);
    numbers_in(place, &n);
    for (int64_t i = begin; i < end; i++) {
        char **f = papercsv_row(s, i);
        ck_assert_msg(run_agrees(&n, s, begin, i + 1, value, unit),
                      "%s: %s %s of row %" PRId64 " is not in %s, behind the rows before", s->stem, f[value],
                      f[unit], i + 1, at);
        for (int c = T_SERIES; c <= T_OVER && s->n_columns == N_TABLE_COLUMNS; c++)
            ck_assert_msg(is_called(place, paper_of(s->stem)->stem, f[c]), "%s: %s is not named in %s",
                          s->stem, f[c], at);
    }
    struct run_arg arg = {&n, s, begin, end, value, unit};
    for (int64_t i = begin; i < end; i++)
        change_digits(papercsv_row(s, i)[value], run_again, &arg, s->stem, sw);
    free(place);
    free(n.v);
}

/* Runs of rows with one place; of headlines, with one paper too. */
static void check_prose(const struct text *t, const struct papercsv *s, int64_t begin, int64_t end, int where,
                        int value, int unit, struct sweep *sw)
{
    for (int64_t i = begin, j; i < end; i = j) {
        for (j = i; j < end && strcmp(papercsv_row(s, i)[where], papercsv_row(s, j)[where]) == 0;)
            j++;
        check_run(t, s, i, j, where, value, unit, sw);
    }
}

START_TEST(numbers_stand_in_the_texts)
{
    const struct paper *p = &papers[_i];
    struct text t;
    if (!open_text(p, &t))
        return;
    struct sweep sw = {0};
    int seen = 0;
    for (int i = 0; i < n_tables; i++) {
        if (paper_of(tables[i].stem) != p)
            continue;
        seen++;
        if (strcmp(tables[i].key[K_LAYOUT], "prose") == 0)
            check_prose(&t, &tables[i], 0, tables[i].n, T_WHERE, T_VALUE, T_UNIT, &sw);
        else
            check_grid(&t, p, &tables[i], &sw);
    }
    int64_t begin = 0, end;
    while (begin < headlines.n && paper_of(papercsv_row(&headlines, begin)[H_ID]) != p)
        begin++;
    for (end = begin; end < headlines.n && paper_of(papercsv_row(&headlines, end)[H_ID]) == p;)
        end++;
    ck_assert_int_gt(end, begin);
    check_prose(&t, &headlines, begin, end, H_WHERE, H_VALUE, H_UNIT, &sw);
    printf("papers: %s: %d files and %" PRId64 " headlines read again; %" PRId64 " of %" PRId64
           " changed digits noticed\n",
           p->stem, seen, end - begin, sw.noticed, sw.tried);
    ck_assert_int_eq(sw.noticed, sw.tried);
    text_free(&t);
}
END_TEST

Suite *suite_papers(void)
{
    Suite *s = suite_create("papers");
    TCase *format = tcase_create("format");
    tcase_add_checked_fixture(format, load, unload);
    tcase_add_test(format, files_keep_their_format);
    tcase_add_test(format, names_are_known);
    tcase_add_test(format, nothing_is_left_out);
    tcase_add_test(format, broken_files_are_refused);
    suite_add_tcase(s, format);
    TCase *consistency = tcase_create("consistency");
    tcase_add_checked_fixture(consistency, load, unload);
    tcase_add_test(consistency, speedups_and_reductions_follow);
    tcase_add_test(consistency, tables_agree);
    tcase_add_test(consistency, hydragen_tables_are_sound);
    tcase_add_test(consistency, deft_flatten_is_fastest);
    tcase_add_test(consistency, headlines_agree_with_the_tables);
    suite_add_tcase(s, consistency);
    TCase *texts = tcase_create("texts");
    tcase_add_checked_fixture(texts, load, unload);
    tcase_add_loop_test(texts, numbers_stand_in_the_texts, 0, n_papers);
    suite_add_tcase(s, texts);
    return s;
}
