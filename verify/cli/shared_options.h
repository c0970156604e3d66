/*
 * shared_options.h - groups of options that several commands have. A command changes what is its own: its defaults with
 * options_default, and what it has no use for with options_refuse.
 */
#ifndef TREEATTN_VERIFY_CLI_SHARED_OPTIONS_H
#define TREEATTN_VERIFY_CLI_SHARED_OPTIONS_H

#include "verify/cli/options.h"
#include "verify/io/supervise.h"
#include "verify/io/table.h"
#include "verify/cases/random_cases.h"
#include "verify/cases/tree_source.h"

BEGIN_C

/* --csv, --json, --quiet, --output. */
struct cmd_output {
    enum style style;
    bool quiet;
    const char *path; /* NULL: standard output */
};
void output_options(struct options *o, struct cmd_output *out);

/* --seconds-a-case, --no-fork: of commands that judge. */
void supervision_options(struct options *o, struct supervision *s);

/* --heads, --head-dim, --dtype, --kv, --page, --fill, --window into *p; the flags say which were given. */
void problem_options(struct options *o, struct problem_given *p);
/* Their defaults, for a command that has some: Llama-3-8B's heads in fp16. */
void problem_defaults(struct options *o);

/* Where the tree comes from. Free src with tree_source_clear. */
struct cmd_tree {
    bool
        many; /* set before: --tree may be K-L or all; without --step a trace is meant as a whole (src.step 0) */
    struct tree_source src;
    int32_t last;            /* of several trees; TREES_ALL: however many there are */
    uint64_t seed;           /* --seed; with --gen FAMILY, or alone, the seed of a generated tree */
    bool has_seed, has_tree; /* was given */
    bool family_only;        /* --gen without its own seed */
};
void tree_options(struct options *o, struct cmd_tree *t);
/* Once all options are read: what --seed means for the tree, and whether the options fit each other. `need`: having no
 * source is an error. */
bool tree_finish(struct cmd_tree *t, bool need, struct err *e);
/* Before that: whether --steps N (0: not given), which takes N steps of a trace, goes with the source. */
bool tree_takes_steps(const struct cmd_tree *t, int64_t steps, struct err *e);

/* --arch into *arch: 0 for auto, or 80. The command hands it to cuda_force_arch before it runs. */
struct opt arch_option(int32_t *arch);
/* For CALL: a model into a const struct model *, a machine into a struct machine. */
bool set_llm(void *self, const char *value, struct err *e);
bool set_machine(void *self, const char *value, struct err *e);
/* Lines of a table: --heads into the counts of *h; --dtype into *dtype. */
struct opt heads_option(struct heads *h, const char *def, bool *given);
struct opt dtype_option(enum dtype *dtype, const char *def, const char *help);

END_C

#endif
