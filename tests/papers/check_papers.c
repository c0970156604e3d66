/*
 * check_papers.c - the papers' numbers in paper-figs/paper are those that were read from the papers' texts.
 *
 * Every number was read twice, by a person and by a test that held 1,394 rows and 38 headlines against the texts and against
 * each other; no change of a digit went unnoticed. The files are frozen since: paper.sha256 has their digests. Who corrects
 * one reads the place in the paper that its row names, and writes the list anew:
 *     (cd paper-figs/paper && sha256sum *.csv) >tests/papers/paper.sha256
 * What a new file must keep is tested as well, and that every figure and table is there or said to be only drawn.
 */
#include "ref/csv.h"
#include "sim/strategy.h"
#include "tests/auto.h"
#include "tests/shared.h"
#include "tests/suites.h"

#include <glob.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FOLDER "paper-figs/paper/"

static const char *const papers[][2] = {{"deft", "DeFT (ICLR 2025)"},
                                        {"fasttree", "FastTree (MLSys 2025)"},
                                        {"pat", "PAT (ASPLOS 2026)"},
                                        {"hydragen", "Hydragen (2024)"}};
enum { N_PAPERS = sizeof papers / sizeof papers[0] };

static glob_t found;
static struct csv names;

static void load(void)
{
    struct err e = {0};
    ck_assert_int_eq(glob(FOLDER "*.csv", 0, NULL, &found), 0);
    ck_assert_msg(csv_read(FOLDER "names.csv", &names, &e), "%s", e.msg);
}

static void unload(void)
{
    globfree(&found);
    csv_clear(&names);
}

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

static bool is_list(const char *path)
{
    return strstr(path, "/headlines.csv") || strstr(path, "/names.csv");
}

FROM_HERE(papers, .setup = load, .teardown = unload)

TEST(files_are_as_they_were_read)
{
    char text[4096];
    int code = run_shell(text, sizeof text,
                         "list=\"$PWD\"/tests/papers/paper.sha256; cd " FOLDER
                         " && sha256sum --check --strict --quiet \"$list\" 2>&1 && "
                         "for f in *.csv; do grep -q \" $f$\" \"$list\" || echo $f has no digest; done");
    ck_assert_msg(code == 0 && !*text, "not as they were read from the papers:\n%s", text);
}

/* ---- format ------------------------------------------------------------------------------------------------------ */

/* Is it one of "a;b;c"? */
static bool is_of(const char *word, const char *list)
{
    FREED char *padded = xasprintf(";%s;", list), *wanted = xasprintf(";%s;", word);
    bool is = *word && strstr(padded, wanted);
    return is;
}

/* Units of one dimension a line. */
static const char *const units[] = {
    "x",
    "%",
    "s;us;ns",
    "TB;GB;MB;KB;KB/SM",
    "TB/s",
    "tok/s;Ktok/s",
    "tokens",
    "registers",
    "ratio",
    "ppl",
    "1;sum(N_i);N_tree;l_n*N_tree;l_n*N_tree/64;d_head*sum(N_i);d_head*N_tree;d_head*N_tree*l_n"};

/* -1: none */
static int dimension(const char *unit)
{
    int i = sizeof units / sizeof units[0] - 1;
    while (i >= 0 && !is_of(unit, units[i]))
        i--;
    return i;
}

static bool is_number(const char *s)
{
    char *end;
    double x = strtod(s, &end);
    return *s >= '0' && *s <= '9' && *end == 0 && isfinite(x);
}

static bool is_word(const char *s)
{
    return *s && s[strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789-+")] == 0;
}

/* The kind of a name in a paper: "strategy" or "other"; else NULL. */
static const char *kind_of(const char *paper, const char *name)
{
    for (int64_t i = 0; i < names.n_rows; i++) {
        const char *kind = csv_text(&names, i, "kind");
        if (strcmp(csv_text(&names, i, "paper"), paper) == 0 &&
            strcmp(csv_text(&names, i, "name"), name) == 0 && is_of(kind, "strategy;other"))
            return kind;
    }
    return NULL;
}

/* What is wrong with a row of a table, or NULL. */
static const char *row_is_wrong(const struct csv *c, int64_t i, const char *stem, const char *paper)
{
    static const char *const key[] = {"metric", "series", "over", "at", "how"};
#define OF(column) csv_text(c, i, #column)
    bool marker = is_of(OF(value), "oom;none");
    if (strcmp(OF(table), stem) != 0)
        return "its table is another";
    if (!is_word(OF(metric)) || !is_word(OF(series)) || (*OF(over) && !is_word(OF(over))))
        return "metric, series and over are words of small letters";
    if (!kind_of(paper, OF(series)) || (*OF(over) && !kind_of(paper, OF(over))))
        return "series and over are not in names.csv";
    if (strcmp(OF(series), OF(over)) == 0)
        return "compared with itself";
    if (!*OF(at) || !*OF(where))
        return "at or where is empty";
    if (!is_of(OF(how), "is;about;below;above;from;up-to;average"))
        return "how is not in the list";
    if ((!marker && !is_number(OF(value))) || (marker && !*OF(note)))
        return "value is a number, or oom or none with a note";
    if (*OF(spread) && (marker || !is_number(OF(spread))))
        return "spread is a number beside a number";
    if (dimension(OF(unit)) < 0)
        return "unit is not in the list";
    for (int64_t j = 0; j < i; j++) {
        bool same = true;
        for (size_t k = 0; k < sizeof key / sizeof key[0]; k++)
            same = same && strcmp(csv_text(c, i, key[k]), csv_text(c, j, key[k])) == 0;
        if (same)
            return "its key stands twice";
        if (strcmp(OF(metric), csv_text(c, j, "metric")) == 0 &&
            dimension(OF(unit)) != dimension(csv_text(c, j, "unit")))
            return "its metric has another dimension above";
    }
#undef OF
    return NULL;
}

static const char columns[] = "table,metric,series,over,at,how,value,spread,unit,where,note";

/* What is wrong with a table or figure, or NULL; *row: in this row, from 1, or 0. */
static const char *table_is_wrong(const struct csv *c, const char *stem, int64_t *row)
{
    static const char *const keys[] = {
        "paper: ", "place: ", "about: ", "unit: ", "machine: ", "layout: ", "rows: "};
    enum { N_KEYS = sizeof keys / sizeof keys[0] };
    char heading[256] = "", used[256] = "";
    *row = 0;
    for (int i = 0; i < c->n_columns; i++)
        snprintf(heading + strlen(heading), sizeof heading - strlen(heading), "%s%s", i ? "," : "",
                 c->column[i]);
    if (strcmp(heading, columns) != 0)
        return "its columns are others";
    for (int i = 0; i < N_KEYS; i++)
        if (c->n_notes != N_KEYS || !begins(c->note[i], keys[i]))
            return "its notes are not paper, place, about, unit, machine, layout, rows";
    size_t paper = 0;
    while (paper < N_PAPERS && strcmp(csv_note(c, "paper"), papers[paper][1]) != 0)
        paper++;
    const char *place = csv_note(c, "place"), *number = strrchr(place, ' ');
    if (paper == N_PAPERS || !number)
        return "its paper or place is not known";
    FREED char *wanted =
        xasprintf("%s-%s%s", papers[paper][0], begins(place, "Table ") ? "table" : "fig", number + 1);
    bool same = strcmp(wanted, stem) == 0;
    if (!same)
        return "its place is another than its name";
    for (int64_t i = 0; i < c->n_rows; i++) {
        const char *unit = csv_text(c, i, "unit"), *wrong = row_is_wrong(c, i, stem, papers[paper][0]);
        *row = i + 1;
        if (wrong)
            return wrong;
        FREED char *list = strdup(used);
        for (char *at = list; (at = strstr(at, "; "));)
            memmove(at + 1, at + 2, strlen(at + 1));
        if (!is_of(unit, list))
            snprintf(used + strlen(used), sizeof used - strlen(used), "%s%s", *used ? "; " : "", unit);
    }
    *row = 0;
    return strcmp(used, csv_note(c, "unit")) == 0 ? NULL : "its units are not those of the note";
}

TEST(tables_keep_their_format)
{
    int64_t rows = 0, tables = 0;
    for (size_t i = 0; i < found.gl_pathc; i++) {
        CLEARED_BY(csv_clear) struct csv c;
        struct err e = {0};
        const char *path = found.gl_pathv[i];
        ck_assert_msg(csv_read(path, &c, &e) && csv_whole(&c, &e), "%s", e.msg);
        if (!is_list(path)) {
            FREED char *stem =
                xasprintf("%.*s", (int)strcspn(path + strlen(FOLDER), "."), path + strlen(FOLDER));
            int64_t row;
            const char *wrong = table_is_wrong(&c, stem, &row);
            ck_assert_msg(!wrong, "%s row %d: %s", path, (int)row, wrong);
            tables++;
            rows += c.n_rows;
        }
    }
    printf("papers: %d tables and figures with %d rows\n", (int)tables, (int)rows);
    ck_assert(tables == 39 && rows == 1394);
}

/* A sound file, and what one edit each makes of it. */
TEST(broken_tables_are_refused)
{
    static const char sound[] = "# paper: DeFT (ICLR 2025)\n# place: Table 1\n# about: two rows\n# unit: s; "
                                "x\n# machine: none\n# layout: rows 1\n"
                                "# rows: 2\ntable,metric,series,over,at,how,value,spread,unit,where,note\n"
                                "deft-table1,m,deft-node,,here,is,1.50,0.1,s,Table 1,\n"
                                "deft-table1,n,deft-node,deft-flatten,here,is,oom,,x,Table 1,why\n";
    static const char *const edits[][3] = {
        {"m,deft", "m,deft", NULL}, /* none */
        {"# machine: none\n", "", "notes"},
        {"metric,series", "series,metric", "columns"},
        {"DeFT", "Deft", "paper"},
        {"# place: Table 1", "# place: Figure 1", "place"},
        {"deft-table1,m", "deft-table2,m", "table"},
        {"m,deft-node", "M,deft-node", "small letters"},
        {"m,deft-node", "m,deft-tree-node", "names.csv"},
        {"node,deft-flatten", "node,deft-node", "itself"},
        {"Table 1,\n", ",\n", "empty"},
        {"is,1.50", "roughly,1.50", "how"},
        {"1.50", "", "value"},
        {"1.50", "1.50s", "value"},
        {"1.50", "-1.50", "value"},
        {"1.50", "nan", "value"},
        {",why", ",", "note"},
        {"oom,,", "oom,0.1,", "spread"},
        {"0.1,s,", "0.1,sec,", "unit"},
        {"unit: s; x", "unit: s", "units"},
        {"unit: s; x", "unit: s; x; %", "units"},
        {"deft-table1,n", "deft-table1,m", "dimension"},
        {"n,deft-node,deft-flatten,here,is,oom,,x", "m,deft-node,,here,is,oom,,s", "twice"},
    };
    for (size_t i = 0; i < sizeof edits / sizeof edits[0]; i++) {
        const char *at = strstr(sound, edits[i][0]);
        FREED char *text =
            xasprintf("%.*s%s%s", (int)(at - sound), sound, edits[i][1], at + strlen(edits[i][0]));
        CLEARED_BY(csv_clear) struct csv c;
        struct err e = {0};
        int64_t row;
        ck_assert_msg(csv_parse(text, strlen(text), "broken", &c, &e), "%s", e.msg);
        const char *wrong = table_is_wrong(&c, "deft-table1", &row), *says = edits[i][2];
        ck_assert_msg(says ? wrong && strstr(wrong, says) : !wrong, "%s for %s: %s", edits[i][1], edits[i][0],
                      wrong ? wrong : "accepted");
    }
}

/* What is called a strategy is one of the registry, and nothing else is. */
TEST(names_are_known)
{
    for (int64_t i = 0; i < names.n_rows; i++) {
        const char *name = csv_text(&names, i, "name"), *kind = csv_text(&names, i, "kind");
        bool registered = false;
        for (int32_t s = 0; s < n_strategies; s++)
            registered = registered || strcmp(strategies[s]->name, name) == 0;
        ck_assert_msg(is_of(kind, "strategy;other;label;skip"), "names.csv: kind '%s'", kind);
        ck_assert_msg(!is_of(kind, "strategy;other") || registered == (*kind == 's'),
                      "names.csv: %s is called %s", name, kind);
    }
}

/* What the project redraws: tables, and figures with numbers, of which some are only drawn. */
static const struct {
    const char *paper;
    int table[16], figure[16];
} wanted[] = {
    {"deft", {1, 5, 6, 7, 8, 12, 14, 15, 16, 17, 18, 19, 20, 21}, {4, 13, 14, 15, 16, 17, 18}},
    {"fasttree", {0}, {2, 9, 10, 11, 12}},
    {"pat", {1}, {1, 5, 7, 8, 9, 10, 11, 12, 13, 14}},
    {"hydragen", {1, 2, 3, 4, 5, 6}, {3, 4, 5, 6, 7}},
};

TEST(nothing_is_left_out)
{
    size_t files = 2; /* the lists */
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++)
        for (int k = 0; k < 32; k++) {
            int number = k < 16 ? wanted[i].table[k] : wanted[i].figure[k - 16];
            if (!number)
                continue;
            FREED char *stem = xasprintf("%s-%s%d", wanted[i].paper, k < 16 ? "table" : "fig", number);
            FREED char *path = xasprintf(FOLDER "%s.csv", stem), *row = xasprintf("| `%s` |", stem);
            FREED char *said = k < 16 ? NULL : told_from(row);
            bool there = access(path, R_OK) == 0,
                 drawn_only = said && begins(said + strlen(row), " nothing |");
            ck_assert_msg(k < 16 || said, FOLDER "README.md says nothing of %s", stem);
            ck_assert_msg(there == !drawn_only, FOLDER "README.md and the folder disagree about %s", stem);
            files += there;
        }
    ck_assert_uint_eq(files, found.gl_pathc);
}
