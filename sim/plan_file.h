/*
 * plan_file.h - a plan that somebody else made, from a file: the JSON that plan_print_json writes (verify/schema/plan.json), tree included.
 *
 * It enters every table as a strategy of its own, which plans that one tree. The file is checked for what it says, not for what the
 * plan does: cover_check (verify/judge/cover.h) tells whether each pair is in one group.
 */
#ifndef TREEATTN_SIM_PLAN_FILE_H
#define TREEATTN_SIM_PLAN_FILE_H

#include "sim/strategy.h"

#ifdef __cplusplus
extern "C" {
#endif

struct plan_file {
    struct strategy strategy; /* its `config` is this */
    struct tree *tree;        /* as it stands in the file */
    struct nform *nf;
    struct plan *plan;
    char *path, *name;  /* what is called, "file:" before the strategy that the file names */
    char **launch_name; /* [plan->n_launches] */
};

/* NULL with *e set: file, which part of it is wrong, what was expected. Free with plan_file_free, after all plans. */
struct plan_file *plan_file_read(const char *path, struct err *e);
/* The same of text[size]; `path` is for messages. */
struct plan_file *plan_file_parse(const char *text, size_t size, const char *path, struct err *e);
void plan_file_free(struct plan_file *x);

#ifdef __cplusplus
}
#endif

#endif
