/* report.h - what the page (page.c) and the list (list.c) share: sentences about figures, results for a headline. */
#ifndef TREEATTN_PAPER_FIGS_REPORT_H
#define TREEATTN_PAPER_FIGS_REPORT_H

#include "paper-figs/figure.h"

#include <stdio.h>

/* A file under a temporary name until it is whole. */
struct page {
    FILE *out;
    char *path, *temp;
};
/* path: becomes the page's own. */
bool page_open(struct page *p, char *path, struct err *e);
/* The page of that name, and what the papers claim, to be freed with csv_clear. False with *e set: neither is there. */
bool page_open_headlines(struct page *p, struct csv *headlines, const struct places *places, const char *name,
                         struct err *e);
bool page_close(struct page *p, struct err *e);

/* What every page begins with. */
extern const char *const report_rules, *const report_several;
void report_counts(const struct figure *f, int32_t n, int counts[N_VERDICTS]);

/* "measured on H200: our kernel, plans by the paper's text": source, card, kernel and rule. The caller frees. */
char *report_how(const struct figure *f);
/* What to know of a figure's numbers, whatever its verdict: a number that agrees rests on free choices, too. */
const char *report_why(const struct figure *f);
/* The numbers of a check, ours "39 of 45" where it counts places; "-" where it has none. */
void report_numbers(const struct check *c, char paper[32], char ours[32]);
/* The first number beside the paper's, else the first comparison: what a line of the list shows. NULL if there is none. */
const struct check *report_first(const struct figure *f);

enum { MOST_RESULTS = 16 };
struct result {
    const struct check *check;
    const struct figure *in;
};
/* A headline with all results for it, that which decides first. */
struct headline {
    const char *id, *paper, *claim, *unit, *where;
    char value[64]; /* "up-to 2.23x" */
    int32_t n;
    struct result x[MOST_RESULTS];
};
/* Row `row` of headlines.csv. */
void headline_of(const struct figure *f, int32_t n, const struct csv *t, int64_t row, struct headline *h);
enum verdict headline_verdict(const struct headline *h);
/* Why it cannot be had, or what makes it another number, how far it is with it; "" where it agrees. The caller frees. */
char *headline_remark(const struct headline *h);
/* The verdicts of the others where one of them says otherwise: " (others: DIFFERS 2, TREND 1)". */
void headline_others(const struct headline *h, char *out, size_t size);
/* How many headlines have which verdict. */
void headline_counts(const struct figure *f, int32_t n, const struct csv *t, int counts[N_VERDICTS]);

#endif
