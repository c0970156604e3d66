/*
 * figure.h - a figure: what a function of figures.def fills in from result files, and how it is judged.
 *
 * Such a function asks for tables (figure_table) and picks numbers out of them (pick, pick_mean, ..). It puts
 * them down as points in panels, ours beside the paper's, and states what must hold as checks. The first
 * thing that is missing is remembered with the file's name. Everything afterwards returns NAN or nothing, so
 * that no function needs to look after errors. Strings given to the figure are copied.
 */
#ifndef TREEATTN_PAPER_FIGS_FIGURE_H
#define TREEATTN_PAPER_FIGS_FIGURE_H

#include "ref/csv.h"

/* How a number came about: counted from plans, recorded (the released kernels, measured by others), measured by us, or
 * simulated. In the figures of one entry all of ours come about in one way. In this order they decide on a headline. */
enum source { ANALYTIC, RECORDED, MEASURED, SIMULATED, N_SOURCES };
/* BEYOND: no paper has it; its checks say whether they hold. Of those up to here there is a drawing. */
enum verdict { REPRODUCED, CLOSE, TREND, DIFFERS, BEYOND, NOT_POSSIBLE, NO_DATA, N_VERDICTS };
extern const char *const source_names[], *const verdict_names[];

/* Where things are: paper-figs itself, what is made anew each time, where the page goes; DeFT's traces (NULL: $TREEATTN_SHARED/traces,
 * else ../shared/traces). */
struct places {
    const char *root, *scratch, *out, *traces;
};

enum plot {
    BARS, /* clusters of bars over `at`, a bar per series; the paper's numbers as diamonds on the bars. With LOG_Y
                markers instead: a bar would begin where the axis happens to, and its length mean nothing */
    LINES,   /* a line per series over x; the paper's numbers as hollow markers */
    SCATTER, /* points at (x, ours), with the diagonal: two ways to get one number */
    MAP      /* cells: `at` down, x across, coloured by series; `ours` is printed in the cell */
};
enum { LOG_X = 1, LOG_Y = 2 };

struct panel {
    char *name, *x_label, *y_label;
    enum plot plot;
    unsigned flags;
};

/* One number of ours, the paper's, or both; NAN where there is none. */
struct point {
    const char *series, *at;
    double x, ours, paper;
    int32_t panel; /* filled in */
};

/* Something that must hold. grade: REPRODUCED it does; CLOSE the direction is right, the size within a factor of 1.5; TREND the
 * direction alone is right; DIFFERS. */
struct check {
    enum verdict grade;
    bool number;                  /* a number beside the paper's; else a trend */
    bool whole;                   /* over all that its headline names, so that it may decide on that */
    char *text, *unit, *headline; /* headline: id in headlines.csv, or NULL */
    const char *detail;           /* how the number is made up, or NULL */
    const char *why;              /* of a headline: what makes it another number, with numbers, or NULL */
    double ours, paper;
    int holds_at, places; /* of a trend that must hold at several places; else 0 */
    int held, near, of;   /* of a panel's numbers within the tolerance, and within a factor of 1.5; else 0 */
    /* How far the number is from the paper's, as a factor of at least 1: the larger of ours / paper and paper / ours, of a share
     * of x / (1 - x), of a cut the larger of that of x and that of 1 - x; of a panel the furthest, and where. NAN: a trend, which
     * has none; INFINITY: one is 0, or they have no common sign. A bound that holds is 1. */
    double factor;
    const char *factor_at;
};

struct figure;
struct figure_def {
    const char *id, *paper, *place, *shows;
    enum source source;
    bool by_release;     /* plans as the released planner makes them, not as the paper's text says */
    const char *machine; /* of our numbers */
    const char *why;     /* what makes ours another number, and what is our choice */
    void (*make)(struct figure *f); /* NULL: not possible, why says it */
};
extern const struct figure_def figure_defs[];
extern const int32_t n_figure_defs;

/* A cell of a figure's tables that its function has read. */
struct reading {
    int32_t table;
    int64_t row;
    int32_t column;
};

/*
 * A figure that is made to see what its numbers rest on (why.h): its tables are those of another one, which has read them. Every
 * reading is kept in *read. Numbers among nudged[0 .. n_nudged), which are in order, are a little larger than they are.
 */
struct watch {
    const struct figure *lender; /* NULL: tables are read from files */
    struct reading *read;
    int64_t n_read, cap_read;
    const struct reading *nudged;
    int64_t n_nudged;
};

struct figure {
    const struct figure_def *def;
    const struct places *places;
    struct watch *watch; /* NULL: nobody wants to know */
    int32_t n_tables, n_panels, n_points, n_checks, n_notes, n_strings, n_factors;
    int64_t cap_tables, cap_panels, cap_points, cap_checks, cap_notes, cap_strings, cap_factors;
    struct csv **table;
    uint64_t fitted; /* bit i: table i is fitted to alone, no mark shows it (figure_fitted) */
    struct panel *panel;
    struct point *point;
    struct check *check;
    const char **note;
    char **string;
    double *factor; /* of every number that a check compares with the paper's */
    struct err err;
};

/* Run the function of a definition; free with figure_clear. After an error there are no checks. */
void figure_make(const struct figure_def *def, const struct places *places, struct figure *f);
void figure_make_watched(const struct figure_def *def, const struct places *places, struct figure *f, struct watch *watch);
void figure_clear(struct figure *f);
/* Order of readings. */
int reading_compare(const void *a, const void *b);
/* The worst grade of all checks; TREND at best where no number is compared; BEYOND where no paper has the figure; NO_DATA after
 * an error. */
enum verdict figure_verdict(const struct figure *f);
/* The machine of our numbers: of measured ones the device of the file that they are from, where that is another than the
 * definition's. The caller frees. */
char *figure_machine(const struct figure *f);
/* How near simulated times come to measured ones, in a sentence with the numbers of sim/ACCURACY.md; "" of other sources. */
const char *figure_model_error(const struct figure_def *def);
bool figure_is_beyond(const struct figure_def *def);
/* What a check's grade is called: of a trend, and of all that no paper has, whether it holds. */
const char *grade_name(const struct figure_def *def, const struct check *c);
/* How far a number, or the numbers of a figure, are from the paper's: "1.29x apart", "numbers 1.3x apart at the median, 7x at
 * most"; "" where nothing is compared. */
void factor_text(char *out, size_t size, double factor);
void figure_factor_text(const struct figure *f, char *out, size_t size);

/* ---- result files ------------------------------------------------------------------------------------ */

/* A result file, of which nothing is missing (csv_whole), so that nothing is drawn from half a file. It is called `name` in
 * messages. False with *e set. Free with csv_clear in either case. */
bool result_read(const char *path, const char *name, struct csv *t, struct err *e);

/* ---- numbers ---------------------------------------------------------------------------------------- */

/* A table by name: "paper/deft-table5", "measured/h200_bench_write", or "data/NAME" of data.def. An empty one
 * after an error. Owned by the figure. */
const struct csv *figure_table(struct figure *f, const char *name);

/* The same of a table that terms are fitted to, of the paper's or its release's: no mark of the picture shows its numbers, unless the
 * figure has asked for it before. */
const struct csv *figure_fitted(struct figure *f, const char *name);

/* The number in `column` of the one row in which every named column has the given text:
 * pick(f, t, "latency_ms", "strategy", "pat", "tree", "0", NULL). No such row, or several: an error. */
double pick(struct figure *f, const struct csv *t, const char *column, ...) __attribute__((sentinel));
/* Over all such rows, of which there must be one at least. */
double pick_mean(struct figure *f, const struct csv *t, const char *column, ...) __attribute__((sentinel));
/* The next such row after `row` (first: -1), or -1 behind the last; for loops. */
int64_t pick_row(struct figure *f, const struct csv *t, int64_t row, ...) __attribute__((sentinel));
/* Text and number of a cell by the column's name; "" and NAN after an error. Empty cells are no numbers. */
const char *cell_text(struct figure *f, const struct csv *t, int64_t row, const char *column);
double cell_number(struct figure *f, const struct csv *t, int64_t row, const char *column);

/* A number of the paper's by its key; NAN where the paper prints `oom` or `none`. */
double paper_number(struct figure *f, const struct csv *t, const char *metric, const char *series,
                    const char *over, const char *at);

/* A formatted string that lives as long as the figure. */
const char *figure_text(struct figure *f, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* ---- what is drawn ---------------------------------------------------------------------------------- */

/* Points that follow are in this panel. Labels name units. */
void add_panel(struct figure *f, const char *name, enum plot plot, unsigned flags, const char *x_label,
               const char *y_label);
/* Where the paper prints nothing: NAN. */
void add_point(struct figure *f, const char *series, const char *at, double x, double ours, double paper);
/* A sentence below the picture: what its marks alone do not say. */
void add_note(struct figure *f, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Ours at a place of the last panel; NAN if there is none. */
double point_ours(const struct figure *f, const char *series, const char *at);

/* ---- what must hold; of the last panel --------------------------------------------------------------- */

/* Any condition; the sentence says what must hold. */
void check_trend(struct figure *f, bool holds, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* At every `at`, no series is below this one; `slack` 0.01: by over 1 %. */
void check_least(struct figure *f, const char *series, double slack);
/* Everywhere both are, a is below b. */
void check_below(struct figure *f, const char *a, const char *b);
/* From point to point of the series, in their order, ours grows (never falls by more than `slack` of it). */
void check_grows(struct figure *f, const char *series, double slack);
/* Nine of ten numbers printed in the paper are within the tolerance of ours: REPRODUCED; within a factor of 1.5: CLOSE. */
void check_match(struct figure *f);
/* One number, ours and the paper's, within the tolerance. One that should be over 1 ("x") or 0 ("%") and is not:
 * DIFFERS. */
void check_number(struct figure *f, const char *what, const char *unit, double ours, double paper);
/* The same of a percentage. A share x of a whole is compared as x / (1 - x). A cut x must agree both in x and
 * in 1 - x. Ours agrees as well where it is what is printed, rounded or cut off, and is near as a
 * percentage. */
void check_share(struct figure *f, const char *what, double ours, double paper);
void check_cut(struct figure *f, const char *what, double ours, double paper);
/* A headline of headlines.csv, compared as its `how` says, a cut (headlines.def) as above. A bound (above,
 * below) that is missed by no more than the tolerance is graded by its factor; by more: DIFFERS. */
void check_headline(struct figure *f, const char *id, double ours);
/* Beside a headline, over a part of what that names, or over another workload: never decides. */
void check_part(struct figure *f, const char *id, double ours);
/* How the number of the last check is made up, in a sentence without a full stop. */
void check_detail(struct figure *f, const char *text);
/* Why the figure's result for a headline is far from the paper's, in a sentence with the numbers that make it so. The pages have it
 * where the result decides and is neither reproduced nor close; then there must be one. */
void check_why(struct figure *f, const char *id, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* The share by which a number of that source may differ and still count as the same. */
double tolerance_of(enum source source);

/* ---- how a series looks ------------------------------------------------------------------------------ */

struct series {
    const char *name, *label, *colour;
    int marker, dash, fill;
};
extern const struct series series_defs[];
extern const int32_t n_series_defs;
/* NULL if series.def has no such line. */
const struct series *series_find(const char *name);

/* ---- data that a command makes ----------------------------------------------------------------------- */

/* FRESH: made by every run, needs nothing from outside. KEPT: committed in paper-figs/data, made anew where
 * TREEATTN_SHARED has the traces. */
enum keep { FRESH, KEPT };
struct data_def {
    const char *name;
    enum keep keep;
    const char *const *command; /* arguments of treeattn, each a run; NULL ends; rows follow each other */
};
extern const struct data_def data_defs[];
extern const int32_t n_data_defs;
const struct data_def *data_find(const char *name);
/* Where its file is, freed by the caller. */
char *data_path(const struct data_def *d, const struct places *places);
/* The first of DeFT's traces that the kept data in `which` (n names) needs and that is not there, as its path; NULL: none is
 * missing. The caller frees. */
char *data_missing_trace(const struct data_def *const *which, int32_t n, const struct places *places);
/* Run the commands of all data in `which` (n names) on `jobs` processors and write the files; false after
 * saying on stderr what failed. */
bool data_make(const struct data_def *const *which, int32_t n, const char *program,
               const struct places *places, int jobs);

/* ---- pages ------------------------------------------------------------------------------------------- */

/* drawn/ID.csv and the gnuplot script; false with *e set. */
bool figure_write_csv(const struct figure *f, struct err *e);
bool figure_write_plot(const struct figure *f, struct err *e);
/* Index and Markdown table over all figures. */
bool write_index(const struct figure *f, int32_t n, const struct places *places, struct err *e);
bool write_markdown(const struct figure *f, int32_t n, const struct places *places, struct err *e);
/* Why a headline cannot be had (headlines.def), or NULL; whether its percentage is a cut. */
const char *headline_not_possible(const char *id);
bool headline_is_cut(const char *id);
/* "3.59x", "99.6 %", "12.3 s", of the value as a CSV has it; `size` bytes at least 32. */
void number_text(char *out, size_t size, double value, const char *unit);

#endif
