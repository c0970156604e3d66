/*
 * table.h - a result file: comma-separated, `# key: value` lines first, a heading, rows of as many fields.
 *
 * Strict, unlike verify/io/csv_read.h: a file that ends inside of a line, a row with another number of fields than
 * the heading, or fewer rows than its `# rows: N` says, is an error, so that nothing is drawn from half a file.
 */
#ifndef TREEATTN_PAPER_FIGS_TABLE_H
#define TREEATTN_PAPER_FIGS_TABLE_H

#include "ref/base.h"

struct table {
    char *name, *text; /* name for messages; what all pointers below point into */
    int64_t n, cap;    /* rows; capacity in fields */
    int64_t n_columns;
    char **column; /* [n_columns] */
    char **cell;   /* [n][n_columns], unquoted */
    int64_t n_comments, cap_comments;
    char **comment; /* the `#` lines, without # and blanks */
};

/* False with *e set ("name: ..." or "name:line: ..."); free with table_clear in every case. */
bool table_read(const char *path, const char *name, struct table *t, struct err *e);
void table_clear(struct table *t);

/* Number of a column; -1 with *e set where there is none. */
int64_t table_column(const struct table *t, const char *column, struct err *e);
/* What stands behind "KEY: " in a comment, or NULL. */
const char *table_comment(const struct table *t, const char *key);
static inline const char *table_cell(const struct table *t, int64_t row, int64_t column)
{
    return t->cell[row * t->n_columns + column];
}

#endif
