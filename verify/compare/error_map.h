/*
 * error_map.h - which rows of an answer are wrong, as a picture of queries x heads: the pattern tells mistakes apart.
 *
 * Stripes along heads are heads that read another KV head. A triangle is a mask. Single queries are ends of pages or contexts.
 */
#ifndef TREEATTN_VERIFY_COMPARE_ERROR_MAP_H
#define TREEATTN_VERIFY_COMPARE_ERROR_MAP_H

#include "verify/compare/compare.h"

#include <stdio.h>

BEGIN_C

/* Zero-initialise; free with error_map_clear. */
struct error_map {
    int32_t n_queries, h_q, h_kv;
    float *
        error; /* [n_queries][h_q] the larger of O's and LSE's, of its bound; +inf: no number, or one too many. NULL: none yet */
};

/* Of an answer that compare_output found wrong, and *c is what it said. What the map held is gone. */
void error_map_fill(struct error_map *m, const struct problem *p, const struct oracle *orc,
                    const struct output *out, const struct arithmetic *a, const struct comparison *c);
void error_map_clear(struct error_map *m);

/* One SVG. title: who answered; why: a sentence; text: the case. Rows of more than 160 queries are put together, and show the
 * largest error. Cells have their class of error in data-class, their number of cells in data-cells. */
void error_map_print_svg(FILE *out, const struct error_map *m, const char *title, const char *why,
                         const char *text);

END_C

#endif
