/*
 * lab7.h - lab 7: trees of five families, the machine that a student's plans are timed on, and what would make them faster.
 */
#ifndef TREEATTN_VERIFY_LAB_LAB7_H
#define TREEATTN_VERIFY_LAB_LAB7_H

#include "ref/nform.h"
#include "sim/time/time_model.h"
#include "verify/lab/partition.h"

#include <stdio.h>

BEGIN_C

enum { LAB7_FAMILIES = 5, LAB7_TREES = 4 /* of each family */, LAB7_MOST_TOKENS = 8192 };

/* Tree i of a family, the smallest first. Free with tree_free. */
struct tree *lab7_tree(uint64_t seed, int32_t family, int32_t i);

/* Heads, machine and figures, as a student is told them. */
extern const struct heads lab7_heads;
struct lab_env lab7_env(void);
const struct machine *lab7_machine(void);
/* Seconds of a plan. */
double lab7_time(const struct plan *p);
/* The same with a timeline, to be freed with time_model_free. */
struct time_model lab7_timeline(const struct plan *p);

/* A tree, what a student said of it, and times. */
struct lab7_asked {
    int32_t family;
    struct tree *t;
    struct nform *nf;
    struct partition p;    /* its code is "OK" only if the plan is right */
    double time, treeattn; /* seconds; time: 0 where there is none */
};

/* What makes plans faster, if it is done to the groups of all trees: a sentence, tried, or NULL. The caller frees. */
char *lab7_advice(const struct lab7_asked *all, int32_t n);

/* One SVG: a plan in time, and another one below it. */
void lab7_draw(FILE *f, const struct plan *theirs, const struct plan *other);

END_C

#endif
