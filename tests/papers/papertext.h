/*
 * papertext.h - the texts of the papers: places, numbers in prose, printed tables.
 *
 * They are extractions of PDFs: a paragraph is a line, a table's cells are parted by tabs, formulas are LaTeX or
 * lost, images are gone. Readers fill a struct err; nothing here asserts.
 */
#ifndef TREEATTN_TESTS_PAPERS_PAPERTEXT_H
#define TREEATTN_TESTS_PAPERS_PAPERTEXT_H

#include "tests/papers/papercsv.h"

struct text {
    char *all, **line;
    int64_t n, cap;
};
bool text_read(struct text *t, const char *path, struct err *e);
void text_free(struct text *t);

/* The lines of a place: "Table N", "Figure N" (caption and the lines that touch it); or, without tables and
 * captions, "section ID", "appendix ID", "abstract", "section ID: WORDS" (its paragraphs that begin so). The
 * caller frees; NULL if there is no such place. */
char *text_place(const struct text *t, const char *place, struct err *e);

/* A number as printed, without thousands separators; mark as in mark_of. */
struct number {
    char digits[24], mark;
};
struct numbers {
    struct number *v;
    int64_t n, cap;
};
/* All numbers of a place's lines, in order; the caller frees v. */
void numbers_in(const char *place, struct numbers *out);

/* A cell of a printed table. */
enum { MAX_LABELS = 4 };
struct printed {
    /* heads of its row and column, NULL-terminated when fewer; point into the grid */
    char *label[MAX_LABELS];
    char value[24], spread[24];
    const char *unit; /* of a term of an O(..), else NULL */
    char mark;        /* 'x', '%' or 0 */
};
struct printed_table {
    struct printed *v;
    int64_t n, cap;
    char **own; /* memory of the labels */
    int64_t n_own, cap_own;
};
/* The cells of a table in reading order. layout: "rows L": L label cells begin each line, the last line of the
 * heading names the columns; "pairs L": the same with cells A/B that are two values each, a marker for both;
 * "groups L": the first line of the heading names groups of columns as well. */
bool printed_read(const struct text *t, const struct paper *p, const char *place, const char *layout,
                  struct printed_table *out, struct err *e);
void printed_free(struct printed_table *g);

#endif
