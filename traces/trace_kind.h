/*
 * trace_kind.h - what a kind of trace gives and gets; internal to traces/.
 *
 * A new kind is a file with a function trace_open_WORD and a line in trace_kinds.def. The function makes a trace with
 * trace_new, of a struct trace_kind of the file's own or of one of steps.h.
 */
#ifndef TREEATTN_TRACES_TRACE_KIND_H
#define TREEATTN_TRACES_TRACE_KIND_H

#include "traces/trace.h"

#ifdef __cplusplus
extern "C" {
#endif

struct trace_kind {
    /* trace_step: 1 <= t <= n_steps; parts may be NULL. */
    struct tree *(*step)(const struct trace *tr, int64_t t, struct trace_parts *parts);
    void (*close)(void *self);                                 /* frees self */
    int64_t (*path_tokens)(const struct trace *tr, int64_t t); /* trace_path_tokens; NULL: t */
    bool has_topology, has_places; /* options that it knows: topology; batch and step_ms */
};

struct trace {
    const struct trace_kind *kind;
    void *self;
    char *title, *remark;
    int64_t prompt;  /* P */
    int64_t n_items; /* of the source; 0: none to choose from */
    int64_t n_steps, generated;
};

/* One item, no remark; the rest is for the caller to fill in. Takes self over; free with trace_close. */
struct trace *trace_new(const struct trace_kind *kind, void *self);
/* The title, once P and the number of steps are known. `what` comes first in it. */
void trace_set_title(struct trace *tr, const char *what, const char *source, const struct trace_opts *o);
/* Room for what a step's tree is made of, a piece a node: the kind fills in names. */
void parts_start(struct trace_parts *parts, const struct tree *tree);

/* `arg` is what follows the colon, `spec` all of it, for messages and titles. NULL with *e set. */
typedef struct trace *trace_opener(const char *arg, const char *spec, const struct trace_opts *o,
                                   struct err *e);
#define TRACE_KIND(word, argument, about) trace_opener trace_open_##word;
#include "traces/trace_kinds.def"
#undef TRACE_KIND

/* ---- what openers share (trace_spec.c) ------------------------------------------------------------------ */

/* file_slurp; a name without a folder is looked for here, then in trace_folder(). */
char *trace_slurp(const char *file, size_t max_bytes, size_t *size, struct err *e);
/* FILE,NAME at its last comma; *name is "" if there is none. The caller frees the file's name. */
char *spec_file_name(const char *arg, const char **name);
/* A seed, from 0. */
bool spec_seed(const char *arg, int64_t *seed);
/* N,SEED with N from 1 to `most`. */
bool spec_count_seed(const char *arg, int64_t most, int64_t *n, int64_t *seed);
/* "A,B": two counts from 1 to `most`. */
bool spec_counts(const char *arg, int64_t most, int64_t *a, int64_t *b);
/* For sources that hold one tree: no other is asked for. */
bool spec_only_tree(const char *spec, const struct trace_opts *o, struct err *e);

#ifdef __cplusplus
}
#endif

#endif
