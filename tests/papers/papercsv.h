/*
 * papercsv.h - the CSV files of paper-figs/paper (README.md there): reading them strictly, and their rules.
 *
 * ref/csv.h forgives quotes, blanks and further notes; this forgives nothing. It fills a struct err and returns false;
 * nothing here asserts.
 */
#ifndef TREEATTN_TESTS_PAPERS_PAPERCSV_H
#define TREEATTN_TESTS_PAPERS_PAPERCSV_H

#include "ref/csv.h"

/* A paper: how its files begin, its title in `# paper:`, its text, whether captions stand below tables. */
struct paper {
    const char *stem, *title, *text;
    bool captions_below;
};
extern const struct paper papers[];
extern const int32_t n_papers;
/* The paper of a file's stem ("deft-table5"), or NULL. */
const struct paper *paper_of(const char *stem);

/* The last key of every file is the number of its rows. */
#define TABLE_KEYS "paper,place,about,unit,machine,layout,rows"
#define TABLE_COLUMNS "table,metric,series,over,at,how,value,spread,unit,where,note"
enum table_key { K_PAPER, K_PLACE, K_ABOUT, K_UNIT, K_MACHINE, K_LAYOUT, K_ROWS };
enum table_column {
    T_TABLE,
    T_METRIC,
    T_SERIES,
    T_OVER,
    T_AT,
    T_HOW,
    T_VALUE,
    T_SPREAD,
    T_UNIT,
    T_WHERE,
    T_NOTE,
    N_TABLE_COLUMNS
};
#define LIST_KEYS "about,rows"
#define HEADLINE_COLUMNS "id,paper,claim,how,value,unit,where"
enum headline_column { H_ID, H_PAPER, H_CLAIM, H_HOW, H_VALUE, H_UNIT, H_WHERE };
#define NAME_COLUMNS "paper,printed,name,kind"
enum name_column { N_PAPER, N_PRINTED, N_NAME, N_KIND };

struct papercsv {
    char *stem; /* file name without .csv */
    struct csv csv;
    char **key; /* values of the `# key: value` lines, in csv */
    int64_t cap_key, n, n_columns;
};

/* Read a CSV strictly: the `# key: value` lines in the order of `keys`, the heading `columns`, then rows of as
 * many fields, without quotes, control characters or blanks at an end. Free in every case. */
bool papercsv_read(struct papercsv *s, const char *path, const char *keys, const char *columns,
                   struct err *e);
void papercsv_free(struct papercsv *s);
static inline char **papercsv_row(const struct papercsv *s, int64_t i)
{
    return s->csv.cell + i * s->csv.n_columns;
}

/* What every table of numbers must keep: values, units and words from closed lists, no key twice. */
bool table_check(const struct papercsv *s, struct err *e);
bool headlines_check(const struct papercsv *s, struct err *e);
/* What must stand behind a number of that unit in prose: 'x' (times), '%', 'k' (thousand) or 0. */
char mark_of(const char *unit);
/* "oom" or "none": a cell without a number. */
bool is_marker(const char *value);

/* Past the digits of a plain decimal number, or s where there is none. */
const char *past_number(const char *s);

#endif
