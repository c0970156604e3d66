/*
 * check_readme.c - what a README says is so: of the papers' figures, of counts, of timed plans, of flags, and the strategy
 * that one of them shows. A fact is looked for in every README, and one of them must tell it; those of the README at
 * the top only where that is there. The commands are check_transcripts.c's.
 */
#include "ref/base.h"
#include "sim/strategy.h"
#include "tests/auto.h"
#include "tests/shared.h"
#include "tests/suites.h"
#include "traces/formats/formats.h"
#include "verify/judge/cover.h"
#include "ref/csv.h"

#define strategy_per_node shown_strategy /* whoever tries it has one of that name */
#include "tests/per_node.c"              /* what a README shows, by the Makefile */
#undef strategy_per_node

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

/* A file from `from` on; NULL where it, or that, is not there. The caller frees. */
static char *text_from(const char *path, const char *from)
{
    FREED char *text = access(path, R_OK) == 0 ? file_text(path) : NULL;
    char *at = text ? strstr(text, from) : NULL, *copy = at ? xstrdup(at) : NULL;
    return copy;
}

/* The cells of a table's row, which is cut up; fewer than `most` are "". */
static void split_row(char *row, char *cell[], int most)
{
    static char none[] = "";
    strsep(&row, "|");
    for (int i = 0; i < most; i++) {
        char *c = strsep(&row, "|");
        cell[i] = c ? c + strspn(c, " ") : none;
        for (size_t n = strlen(cell[i]); n > 0 && cell[i][n - 1] == ' ';)
            cell[i][--n] = 0;
    }
}

/* The next number of a text that has a unit ("2.47x", "73 to 99 %"): behind it, or NULL. *half: of its last digit. */
static const char *next_number(const char *text, double *value, double *half)
{
    for (const char *at = text, *before = NULL; *at; before = at++) {
        bool begins_here = strchr("0123456789", *at) && !(before && strchr("0123456789.", *before));
        if (!begins_here)
            continue;
        char *end;
        *value = strtod(at, &end) * (before && *before == '-' ? -1 : 1);
        const char *point = memchr(at, '.', (size_t)(end - at));
        *half = 0.5 * pow(10, point ? (double)(point + 1 - end) : 0);
        if (*end == 'x' || begins(end, " %") || begins(end, " to "))
            return end;
    }
    return NULL;
}

/* A claim's results in FIGURES.md: the first decides. */
struct result {
    double value;
    char verdict[16];
    bool named; /* in the README */
};
enum { MOST_RESULTS = 8 };

static int results_of(const char *claim, double *paper, struct result *result)
{
    char *text = text_from("paper-figs/FIGURES.md", "## Headlines"), *rest = text, *line, *cell[5];
    int n = 0;
    double half;
    while ((line = strsep(&rest, "\n")) && !begins(line, "## Figures")) {
        split_row(line, cell, 5);
        bool first = n == 0 && strcmp(cell[0], claim) == 0, below = n > 0 && !*cell[0];
        if (!first && !below && n > 0)
            break;
        if (!first && !below)
            continue;
        if (first)
            ck_assert_ptr_nonnull(next_number(cell[1], paper, &half));
        ck_assert_ptr_nonnull(next_number(cell[2], &result[n].value, &half));
        snprintf(result[n].verdict, sizeof result[n].verdict, "%.*s", (int)strcspn(cell[4], "("), cell[4]);
        result[n].verdict[strcspn(result[n].verdict, " ")] = 0;
        result[n++].named = false;
        ck_assert_int_lt(n, MOST_RESULTS);
    }
    free(text);
    return n;
}

static bool rounds_to(double value, double told, double half)
{
    return fabs(value - told) <= half * (1 + 1e-9);
}

/* Rows of the README's headlines, and the claims that their numbers are of, in this order. */
static const struct {
    const char *row, *claim[2];
} told_headlines[] = {
    {"DeFT cuts KV traffic by", {"least cut of KV traffic by DeFT", "largest cut of KV traffic by DeFT"}},
    {"DeFT-Flatten over Radix Attention, a whole decoding, t = 256",
     {"largest decoding speedup of DeFT over Radix Attention; speculative decoding with t=256"}},
    {"the same, attention",
     {"largest attention speedup of DeFT over Radix Attention; speculative decoding with t=256"}},
    {"FastTree over DeFT", {"attention of FastTree over DeFT"}},
    {"FastTree over Cascade", {"attention of FastTree over Cascade"}},
    {"PAT over FastTree", {"attention of PAT over FastTree with shared prefixes"}},
    {"Hydragen over vLLM, CodeLlama-13B", {"throughput of Hydragen over the best baseline; CodeLlama-13B"}},
    {"Hydragen over FlashAttention, attention", {"attention of Hydragen over FlashAttention"}},
};
enum { N_TOLD = sizeof told_headlines / sizeof told_headlines[0] };

/* Other results of a claim as a row tells them: "on our kernel 0.78x, simulated 0.84x: DIFFERS; .. 1.06x: TREND". */
static void others_are(char *told, struct result *result, int n, const char *row)
{
    for (char *part; (part = strsep(&told, ";"));) {
        char *verdict = strrchr(part, ':');
        double value, half;
        for (const char *at = part; verdict && (at = next_number(at, &value, &half));) {
            bool found = false;
            for (int i = 1; i < n; i++)
                if (rounds_to(result[i].value, value, half) && strcmp(verdict + 2, result[i].verdict) == 0)
                    found = result[i].named = true;
            ck_assert_msg(found, "%s: FIGURES.md has no %g that is %s", row, value, verdict + 2);
        }
    }
    for (int i = 1; i < n; i++)
        ck_assert_msg(result[i].named || strcmp(result[i].verdict, result[0].verdict) == 0,
                      "%s: README.md leaves out %g: %s", row, result[i].value, result[i].verdict);
}

TEST(headlines_are_the_figures)
{
    char *text = told_from("| headline | paper |"), *rest = text, *line, *cell[5];
    int rows = 0;
    ck_assert_ptr_nonnull(text);
    while ((line = strsep(&rest, "\n")) && *line == '|') {
        split_row(line, cell, 5);
        int k = 0;
        while (k < N_TOLD && strcmp(told_headlines[k].row, cell[0]) != 0)
            k++;
        if (k == N_TOLD) {
            ck_assert_msg(strcmp(cell[0], "headline") == 0 || begins(cell[0], "---"), "a row of what? %s",
                          cell[0]);
            continue;
        }
        const char *paper_at = cell[1], *here_at = cell[2];
        for (int i = 0; i < 2 && told_headlines[k].claim[i]; i++) {
            struct result result[MOST_RESULTS];
            double paper, told, half;
            int n = results_of(told_headlines[k].claim[i], &paper, result);
            ck_assert_msg(n > 0, "FIGURES.md has no '%s'", told_headlines[k].claim[i]);
            paper_at = next_number(paper_at, &told, &half);
            ck_assert_msg(paper_at && rounds_to(paper, told, half), "%s: the paper's is %g", cell[0], paper);
            here_at = next_number(here_at, &told, &half);
            ck_assert_msg(here_at && rounds_to(result[0].value, told, half), "%s: ours is %g", cell[0],
                          result[0].value);
            ck_assert_msg(strcmp(cell[4], result[0].verdict) == 0, "%s: is %s", cell[0], result[0].verdict);
            others_are(cell[3], result, n, cell[0]);
        }
        rows++;
    }
    ck_assert_int_eq(rows, N_TOLD);
    free(text);
}

enum { TOLD_VERDICTS = 6 };
static const char *const told_verdicts[TOLD_VERDICTS] = {"REPRODUCED", "CLOSE",  "TREND",
                                                         "DIFFERS",    "BEYOND", "NOT POSSIBLE"};

/* Verdicts as FIGURES.md counts them, in the line behind `phrase`; 0 of those that it leaves out. */
static void counted(const char *phrase, int n[TOLD_VERDICTS])
{
    FREED char *is = text_from("paper-figs/FIGURES.md", phrase);
    ck_assert_ptr_nonnull(is);
    char *end = strchr(is + 1, '\n');
    if (end)
        *end = 0;
    for (int v = 0; v < TOLD_VERDICTS; v++) {
        FREED char *name = xasprintf("%s ", told_verdicts[v]);
        const char *at = strstr(is, name);
        n[v] = at ? atoi(at + strlen(name)) : 0;
    }
}

/* "5 REPRODUCED" and so on, of each verdict, in this paragraph, which is cut off behind it. */
static void says_how_many(char *told, const int n[TOLD_VERDICTS])
{
    char *end = strstr(told, "\n\n");
    if (end)
        *end = 0;
    for (char *c = told; (c = strchr(c, '\n'));)
        *c = ' ';
    for (int v = 0; v < TOLD_VERDICTS; v++) {
        FREED char *says = xasprintf(" %d %s", n[v], told_verdicts[v]);
        ck_assert_msg(strstr(told, says), "no '%s' in '%.80s'", says, told);
    }
}

/* Verdicts by count, and the speedups over best baselines, which only the page has. */
TEST(figures_are_as_many_as_told)
{
    FREED char *told = told_from("and says of each whether it holds, and how far ours is: ");
    ck_assert_ptr_nonnull(told);
    for (char *c = told; *c; c++)
        *c = *c == '\n' ? ' ' : *c;
    int n[TOLD_VERDICTS], drawn;
    counted("\nHeadlines: ", n);
    FREED char *headlines = xasprintf("Of 38 headlines %d are REPRODUCED and %d CLOSE.", n[0], n[1]);
    ck_assert_msg(strstr(told, headlines), "paper-figs/README.md does not say '%s'", headlines);
    counted("\nFigures and tables: ", n);
    says_how_many(told, n);
    if (access("README.md", R_OK) == 0) {
        FREED char *top = told_from("A verdict stands beside each of the");
        ck_assert_ptr_nonnull(top);
        says_how_many(top, n);
    }
    const char *flip = strstr(told, "sees each of the ");
    ck_assert(flip && sscanf(flip, "sees each of the %d flip", &drawn) == 1);
    ck_assert_int_eq(drawn, n[0] + n[1] + n[2] + n[3] + n[4]);
    static const char *const table[] = {"deft_table16_measured", "deft_table5_measured"};
    const char *at = strstr(told, "Over the best baseline of a workload");
    for (int i = 0; i < 2; i++) {
        FREED char *id = xasprintf(" id=\"%s\"><h3>", table[i]),
                   *page = text_from("paper-figs/index.html", id);
        const char *best = page ? strstr(page, "the speedup over the best baseline is largest") : NULL;
        double ours, half, value;
        ck_assert_msg(best && next_number(best, &ours, &half), "index.html has no best baseline of %s",
                      table[i]);
        at = at ? next_number(at, &value, &half) : NULL;
        ck_assert_msg(at && rounds_to(ours, value, half), "over the best baseline: README.md has %g, is %g",
                      at ? value : NAN, ours);
    }
}

/* The flags that files of one's own are compiled with stand where they are explained. */
TEST(flags_are_those_of_the_makefile)
{
    char text[512], flags[512];
    if (access("Makefile", R_OK) != 0)
        return;
    ck_assert_int_eq(run_shell(flags, sizeof flags, "sed -n 's/^WARN := //p' Makefile"), 0);
    flags[strcspn(flags, "\n")] = 0;
    ck_assert(begins(flags, "-Wall "));
    ck_assert_int_eq(run_shell(text, sizeof text, "grep -q -e 'make WERROR=1' */README.md"), 0);
    ck_assert_int_eq(run_shell(text, sizeof text,
                               "grep -l -e 'make WERROR=1' *README.md */README.md | xargs grep -L -e '%s'",
                               flags),
                     0);
    ck_assert_msg(!*text, "these READMEs do not say '%s':\n%s", flags, text);
}

/* TB of K and V, of masks and scores, of partial results. */
static void count_tb(const char *trace, const char *count, const char *strategy, double tb[3])
{
    char text[256];
    ck_assert_int_eq(
        run_shell(
            text, sizeof text,
            "%s sim %s --count %s --strategy %s --csv | awk -F, "
            "'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i } NR == 2 { "
            "print $at[\"KV_IO_bytes\"] / 1e12, ($at[\"Mask_IO_bytes\"] + $at[\"QK_IO_bytes\"] + "
            "$at[\"QK_scale_IO_bytes\"] + $at[\"QK_scale_masked_IO_bytes\"] + $at[\"SoftMax_IO_bytes\"]) / "
            "1e12, $at[\"partial_IO_bytes\"] / 1e12 }' OFMT=%%.12g",
            program_path(), trace, count, strategy),
        0);
    ck_assert_msg(sscanf(text, "%lf %lf %lf", &tb[0], &tb[1], &tb[2]) == 3, "%s", text);
}

/* "3.094 / 0.000 / 0.912"; - where a count leaves it out. */
static void cell_tells(char *cell, const double tb[3], const char *row)
{
    for (int i = 0; i < 3; i++) {
        char *part = strsep(&cell, "/"), *point;
        ck_assert_msg(part != NULL, "%s: too few numbers", row);
        part += strspn(part, " ");
        part[strcspn(part, " ")] = 0;
        point = strchr(part, '.');
        double half = 0.5 * pow(10, point ? -(double)strlen(point + 1) : 0);
        ck_assert_msg(*part == '-' || rounds_to(tb[i], strtod(part, NULL), half), "%s: %s, counted %.9g", row,
                      part, tb[i]);
    }
}

TEST(three_counts_are_as_told)
{
    static const struct {
        const char *begins, *trace, *file;
    } run[] = {{"few-shot, 50 ", "fewshot:50 --prompt 4000 --max-seq 4400", "README.md"},
               {"sorting, tree 0", "deft:sorting128ToT.json --prompt 4000 --max-seq 6000",
                "../shared/traces/sorting128ToT.json"},
               {"speculative, 64 ", "deft:APPS_tree_size64.json --prompt 1016 --max-seq 6000",
                "../shared/traces/APPS_tree_size64.json"}};
    static const char *const counts[] = {"paper", "deft", "true"};
    char *text = program_built() ? told_from("| few-shot, 50 branches") : NULL, *rest = text;
    char *line, *cell[4];
    int at = -1, rows = 0;
    while (text && (line = strsep(&rest, "\n")) && *line == '|') {
        split_row(line, cell, 4);
        for (int i = 0; i < 3; i++)
            at = begins(cell[0], run[i].begins) ? i : at;
        char *strategy = strchr(cell[0], '`') + 1;
        strategy[strcspn(strategy, "`")] = 0;
        FREED char *trace = xasprintf("--trace %s", run[at].trace);
        rows++;
        for (int i = 0; i < 3 && access(run[at].file, R_OK) == 0; i++) {
            double tb[3];
            count_tb(trace, counts[i], strategy, tb);
            cell_tells(cell[i + 1], tb, cell[0]);
        }
    }
    ck_assert(!program_built() || rows == 9);
    free(text);
}

/* Else `make tile-price` writes zeros where numbers have a comma. */
TEST(recipes_know_no_locale)
{
    char text[256];
    if (access("Makefile", R_OK) != 0)
        return;
    ck_assert_int_eq(run_shell(text, sizeof text,
                               "env -u MAKEFLAGS -u MAKELEVEL LC_ALL=de_DE.UTF-8 make --no-print-directory "
                               "--eval 'told: ; @echo $$LC_ALL' told 2>/dev/null"),
                     0);
    ck_assert_str_eq(text, "C\n");
}

/* In all pieces and trees that somebody who follows the text may try. */
TEST(the_strategy_that_is_shown_covers)
{
    struct plan_env env = plan_env_default((struct heads){8, 2, 64, DT_F16});
    struct strategy_use use = strategy_default(&shown_strategy);
    char why[WHY_MAX];
    int64_t groups = 0, nodes = 0;
    for (int i = 0; i < N_FAMILIES * 6; i++) {
        AUTO_WITH_TREE nf = nform_new(gen_tree((enum family)(i % N_FAMILIES), (uint64_t)i));
        use.opt[0] = i < N_FAMILIES ? shown_strategy.opts[0].def : 7 * i;
        AUTO(plan) p = strategy_plan(&use, nf, &env, why);
        struct err e = {0};
        ck_assert_msg(p && cover_check(p, &e), "tree %d: %s", i, p ? e.msg : why);
        groups += p->n_groups;
        nodes += nf->n_nodes;
    }
    ck_assert(groups > nodes / 2);
}

/* A tree and head count of h200_fastest.csv: of treeattn the first by price, and the fastest of several; of all else the best. */
struct raced {
    const char *tree, *heads;
    int others;
    double other, first, fastest;
};

static struct raced *raced_of(struct raced *r, int *n, const char *tree, const char *heads)
{
    int i = 0;
    while (i < *n && (strcmp(r[i].tree, tree) != 0 || strcmp(r[i].heads, heads) != 0))
        i++;
    if (i == *n)
        r[(*n)++] = (struct raced){.tree = tree, .heads = heads, .other = INFINITY};
    return &r[i];
}

/* "0.963; 105 of 137; 1.12", where `of` is wanted: times over the best of the others. */
static char *race_text(const struct raced *r, int n, bool on_bench, bool fastest)
{
    double logs = 0, worst = 0;
    int m = 0, won = 0;
    for (const struct raced *x = r; x < r + n; x++) {
        if ((x->others > 15) != on_bench)
            continue;
        double over = (fastest ? x->fastest : x->first) / x->other;
        logs += log(over);
        won += over <= 1;
        worst = fmax(worst, over);
        m++;
    }
    FREED char *of = fastest ? xstrdup("") : xasprintf(" of %d", m);
    char *text = xasprintf("%.3f; %d%s; %.2f", exp(logs / m), won, of, worst);
    return text;
}

/* The table of plans by price and by time is that of the rows. */
TEST(plans_that_were_timed_are_as_told)
{
    enum { MOST = 512, CARDS = 2 };
    static const char *const files[CARDS] = {"paper-figs/measured/h200_fastest.csv",
                                             "paper-figs/measured/h100_fastest.csv"};
    static const char *const rows[] = {"| trees that it was not fitted to, ten others |",
                                       "| the bench's trees, 26 others |"};
    char *line[2] = {xstrdup(rows[0]), xstrdup(rows[1])};
    for (int f = 0; f < CARDS; f++) {
        CLEARED_BY(csv_clear) struct csv x = {0};
        struct err e = {0};
        FREED struct raced *r = xcalloc(MOST, sizeof *r);
        int n = 0;
        ck_assert_msg(csv_read(files[f], &x, &e), "%s", e.msg);
        int32_t tree = csv_find(&x, "tree"), heads = csv_find(&x, "heads"),
                strategy = csv_find(&x, "strategy"), verdict = csv_find(&x, "verdict"),
                time = csv_find(&x, "time_us");
        for (int64_t i = 0; i < x.n_rows; i++) {
            double us;
            if (strcmp(csv_peek(&x, i, verdict), "PASS") != 0)
                continue;
            ck_assert_msg(csv_f64(&x, i, time, &us, &e) && n < MOST, "%s", e.msg);
            struct raced *to = raced_of(r, &n, csv_peek(&x, i, tree), csv_peek(&x, i, heads));
            if (strncmp(csv_peek(&x, i, strategy), "treeattn", 8) != 0) {
                to->other = fmin(to->other, us);
                to->others++;
            } else if (to->first == 0) {
                to->first = us;
            } else {
                to->fastest = us;
            }
        }
        for (int on_bench = 0; on_bench < 2; on_bench++)
            for (int fastest = 0; fastest < 2; fastest++) {
                char *cell = race_text(r, n, on_bench, fastest), *longer;
                longer = xasprintf("%s %s |", line[on_bench], cell);
                free(line[on_bench]);
                free(cell);
                line[on_bench] = longer;
            }
    }
    for (int i = 0; i < 2; i++) {
        FREED char *text = told_from(rows[i]);
        ck_assert_msg(text && begins(text, line[i]), "no README has: %s", line[i]);
        free(line[i]);
    }
}

/* ---- released kernels, timed beside ours ------------------------------------------------------------------ */

/* Children, and the rows that tell of them; the last is the best of all. */
static const struct {
    const char *name, *row;
} told_peers[] = {
    {"flashinfer_cascade", "| FlashInfer 0.7.2.post1, cascade |"},
    {"flashinfer_persistent_nodes", "| the same, persistent, nodes as requests |"},
    {"flashinfer_decode_tc", "| the same, decode on tensor cores |"},
    {"cudnn_paged", "| cuDNN 9.19 through its frontend 1.32, paged |"},
    {"fasttree", "| FastTree, as released |"},
    {"fasttree_deft", "| DeFT-Flatten, FastTree's port |"},
    {"pat", "| PAT, as released |"},
    {NULL, "| the best of these for each row |"},
};
enum { PEERS = sizeof told_peers / sizeof told_peers[0], BEST = PEERS - 1, CASCADE = 0, FASTTREE = 4, PEER_CLASSES = 6 };

/* Logarithms of times over ours: all rows, speculative ones, those of no paper's set, those by the floor. */
struct told_peer {
    double logs[PEER_CLASSES];
    int n[PEER_CLASSES], won, failed, skipped;
};

static void add_ratio(struct told_peer *x, double over, bool speculative, bool unseen, double floor_us)
{
    const bool in[PEER_CLASSES] = {true, speculative, unseen, floor_us < 15, floor_us >= 15 && floor_us <= 50, floor_us > 50};
    for (int i = 0; i < PEER_CLASSES; i++) {
        x->logs[i] += in[i] ? log(over) : 0;
        x->n[i] += in[i];
    }
    x->won += over < 1;
}

static double cell_number(const struct csv *x, int64_t row, const char *column)
{
    double value;
    MUST(csv_f64, x, row, csv_find(x, column), &value);
    return value;
}

/* Rows of a tree follow each other, ours first. */
static void read_peers(const char *path, bool unseen, struct told_peer peer[PEERS])
{
    CLEARED_BY(csv_clear) struct csv x = {0};
    MUST(csv_read, path, &x);
    double ours = NAN, best = INFINITY;
    for (int64_t i = 0; i < x.n_rows; i++) {
        const char *name = csv_peek(&x, i, csv_find(&x, "strategy")), *verdict = csv_peek(&x, i, csv_find(&x, "verdict"));
        bool counts = strcmp(verdict, "PASS") == 0 || strcmp(verdict, "MARGINAL") == 0,
             speculative = strcmp(csv_peek(&x, i, csv_find(&x, "set")), "speculative") == 0;
        double floor_us = cell_number(&x, i, "floor_us"), time = counts ? cell_number(&x, i, "time_us") : INFINITY;
        if (strcmp(name, "treeattn") == 0) {
            ck_assert(counts);
            ours = time;
            best = INFINITY;
            continue;
        }
        int k = 0;
        while (k < BEST && strcmp(told_peers[k].name, name) != 0)
            k++;
        ck_assert_msg(k < BEST, "nobody tells of %s", name);
        peer[k].failed += strcmp(verdict, "FAIL") == 0;
        peer[k].skipped += strcmp(verdict, "SKIP") == 0;
        if (counts)
            add_ratio(&peer[k], time / ours, speculative, unseen, floor_us);
        best = fmin(best, time);
        bool is_last = i + 1 == x.n_rows || strcmp(csv_peek(&x, i + 1, csv_find(&x, "strategy")), "treeattn") == 0;
        if (is_last && isfinite(best))
            add_ratio(&peer[BEST], best / ours, speculative, unseen, floor_us);
    }
}

/* A cell that is a number is that one, as far as it says. */
static void cell_is(const char *cell, double value, const char *row, int column)
{
    if (!*cell)
        return;
    char *end;
    double told = strtod(cell, &end);
    const char *point = memchr(cell, '.', (size_t)(end - cell));
    ck_assert_msg(rounds_to(value, told, 0.5 * pow(10, point ? (double)(point + 1 - end) : 0)), "%s column %d says %s, is %.4g",
                  row, column, cell, value);
}

TEST(released_kernels_are_as_told)
{
    struct told_peer peer[PEERS] = {{.won = 0}};
    read_peers("paper-figs/measured/h200_live_peers.csv", false, peer);
    read_peers("paper-figs/measured/h200_live_unseen.csv", true, peer);
    enum { COLUMNS = 11 };
    for (int k = 0; k < PEERS; k++) {
        char *text = told_from(told_peers[k].row), *rest = text, *cell[COLUMNS];
        ck_assert_msg(text, "no README has: %s", told_peers[k].row);
        split_row(strsep(&rest, "\n"), cell, COLUMNS);
        const struct told_peer *x = &peer[k];
        const double is[COLUMNS] = {NAN, 0, x->n[0], x->won, 0, 0, 0, 0, 0, x->failed, x->skipped};
        static const int of_class[COLUMNS] = {-1, 0, -1, -1, 1, 2, 3, 4, 5, -1, -1};
        for (int c = 1; c < COLUMNS; c++)
            cell_is(cell[c], of_class[c] >= 0 ? exp(x->logs[of_class[c]] / x->n[of_class[c]]) : is[c], told_peers[k].row, c);
        free(text);
    }
    FREED char *line = xasprintf("%.2f; %.2f; %.2f (geometric means); ours is faster on all |", exp(peer[CASCADE].logs[0] / peer[CASCADE].n[0]),
                                 exp(peer[FASTTREE].logs[0] / peer[FASTTREE].n[0]), exp(peer[BEST].logs[0] / peer[BEST].n[0]));
    FREED char *readme = file_text("README.md");
    ck_assert_msg(peer[BEST].won == 0 && strstr(readme, line), "README.md has no '%s'", line);
}
