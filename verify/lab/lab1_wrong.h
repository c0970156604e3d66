/*
 * lab1_wrong.h - lab 1, asked and answered: a call of lab_attend or lab_merge, what it should give, and what it gives where it
 * is written wrongly on purpose.
 */
#ifndef TREEATTN_VERIFY_LAB_LAB1_WRONG_H
#define TREEATTN_VERIFY_LAB_LAB1_WRONG_H

#include "ref/base.h"

#include <stdio.h>

BEGIN_C

enum lab1_point { LAB1_ATTEND, LAB1_MERGE };

/* A call: LAB1_ATTEND of q, k, v; LAB1_MERGE of two results, (o1, lse1) and (o2, lse2). */
struct lab1_call {
    enum lab1_point point;
    int32_t n, d; /* n: tokens, of LAB1_ATTEND */
    float scale, *q, *k, *v;
    float *o1, *o2, lse1, lse2;
    bool exact; /* a copy is asked for: the bits must be right */
};

/* A result, and what rounding may change of it. */
struct lab1_answer {
    double *o, lse; /* o[d] */
    double *allow, allow_lse;
};

/* Of token i of LAB1_ATTEND, in double. */
double lab1_score(const struct lab1_call *c, int32_t i);
/* In double, with allowances for float arithmetic in any order. */
struct lab1_answer lab1_right(const struct lab1_call *c);
void lab1_answer_clear(struct lab1_answer *a);

/* A mistake of lab1_wrong.def, or two; the ways of a program in which it may be made, LAB1_VARIANTS, are told apart. */
enum { LAB1_VARIANTS = 4 };
struct lab1_mistake {
    int32_t first, second; /* second -1: it is alone */
    int32_t variant;
};
/* All that a call of that kind may have, single ones first, into *out, which the caller frees. Returns how many. */
int32_t lab1_mistakes(enum lab1_point point, struct lab1_mistake **out);
/* Is it one of those that only empty parts show? */
bool lab1_of_empty_parts(struct lab1_mistake m);
/* What it says; the caller frees. */
char *lab1_mistake_text(struct lab1_mistake m);
/* The invariant of tests/labs/L1/README.md that it breaks, or the first of both does. */
int32_t lab1_invariant(struct lab1_mistake m);
/* Does a program with that mistake give (o, lse)? LAB1_FITS_NOTHING: it finds no number there, and none is in them. Where the right
 * answer is not (o, lse), the wrong one must come far nearer. */
enum lab1_fit { LAB1_FITS_NOT, LAB1_FITS_NOTHING, LAB1_FITS };
enum lab1_fit lab1_gives(const struct lab1_call *c, struct lab1_mistake m, const struct lab1_answer *right,
                         const float *o, float lse);

/* One SVG of a call and its answer: weights, and each number beside the one that should be. */
void lab1_draw(FILE *out, const struct lab1_call *c, const struct lab1_answer *right, const float *o, float lse);

/* What a program with a mistake gives. */
struct lab1_wrong {
    double *o, lse;
    bool nothing; /* the weights sum to 0 or to no number: O and LSE are what a program makes of that */
    bool any_o;   /* O alone */
    bool left;    /* nothing is written */
};
/* Is (o, lse) that? Where it is not `right`, it must come far nearer to what is wrong. */
enum lab1_fit lab1_fits(int32_t d, const struct lab1_wrong *wrong, const struct lab1_answer *right,
                        const float *o, float lse);

/* The bits of what nobody wrote to: a NaN that no arithmetic makes. */
#define LAB1_UNWRITTEN 0x7fc0dead
bool lab1_unwritten(const float *o, int32_t d, float lse);

END_C

#endif
