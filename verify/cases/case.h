/*
 * case.h - a case as a string that can be printed, read and run again.
 *
 *   tree=gen:bushy:17;heads=8/2;d=64;dtype=f16;page=16;scatter=1;poison=1;fill=random;seed=7;strategy=pat
 *
 * Printed where they are not the default: scale=0.3 (of q.k, else 1 / sqrt(d)), softcap=30 (of logits), sinks=1 (a
 * logit more for each query head), window=64 (the last tokens of a path alone), kv=e4m3 (K and V in 8 bits, with
 * scales), headscales=1 (one for each KV head), dv=512 (V is the first 512 elements of K's row; d=192/128: V is
 * stored apart, and has 128), pool=70000 (pages of the KV pool, where the tree needs fewer), aligned=1 (tree_aligned) and partials=f16. Keys may come in any order; only tree is
 * required. A strategy may carry options: deft-flatten:chunk=64.
 */
#ifndef TREEATTN_VERIFY_CASES_CASE_H
#define TREEATTN_VERIFY_CASES_CASE_H

#include "ref/problem.h"
#include "sim/strategy.h"
#include "verify/cases/tree_source.h"

BEGIN_C

struct case_spec {
    struct tree_source src;
    struct problem_spec spec;
    struct strategy_use use;     /* use.s NULL: every strategy */
    const struct kernel *kernel; /* NULL: every kernel */
    /* Partial O in fp16, whatever the strategy says. A plan whose partial O is not normalised is a SKIP. */
    bool narrow_partials;
    bool aligned; /* the tree as tree_aligned stores it in these pages */
    int64_t line; /* of the file it was read from, from 1; 0: of none */
};

/* What a case means where it says nothing: heads 4/2, d 64, f16, pages of 16, scattered, poisoned, random, seed 1. */
struct problem_spec case_default_spec(void);

/* False with one sentence in *e. Free the contents with case_clear. */
bool case_parse(const char *text, struct case_spec *out, struct err *e);
void case_clear(struct case_spec *c);
/* A file of cases, one a line. Lines that are empty or begin with # count for nothing. *out is an array of *n: free each
 * with case_clear, then the array. */
bool case_read_list(const char *path, struct case_spec **out, int64_t *n, struct err *e);
/* Returns false; *e gets file, line and *why, which is wrong with the case of that line. */
bool case_at_line(const char *path, int64_t line, const struct err *why, struct err *e);
/* The string of a case, which case_parse reads. The caller frees. */
char *case_print(const struct case_spec *c);

/* A kernel by name, or false with *e set. */
bool case_kernel(const char *name, const struct kernel **out, struct err *e);

/* A comma-separated list of strategies; NULL or "all": all of them. A strategy may have options
 * ("pat,deft-flatten:chunk=64,rule=paper"). An option may have several values ("chunk=64/128"); each is combined with
 * each value of the others. *out is an array of *n that the caller frees. */
enum { CASE_MAX_STRATEGIES = 4096 };
bool case_strategies(const char *list, struct strategy_use **out, int32_t *n, struct err *e);

END_C

#endif
