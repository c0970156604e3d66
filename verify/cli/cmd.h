/*
 * cmd.h - what the subcommands share. Only they and main.c print errors and decide exit codes.
 */
#ifndef TREEATTN_VERIFY_CLI_CMD_H
#define TREEATTN_VERIFY_CLI_CMD_H

#include "verify/cli/options.h"
#include "verify/cli/tree_options.h"
#include "verify/io/outfile.h"
#include "verify/io/table.h"
#include "verify/judge/random_cases.h"

#include <argp.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PURPOSE(text)
#define COMMAND(name, word, about) int cmd_##name(int argc, char **argv);
#include "verify/cli/commands.def"
#undef COMMAND
#undef PURPOSE

/*
 * Parse a subcommand's options (argv[0] is its name). --help prints and exits with 0. An option that does not
 * exist or lacks its value fills *e; a parser reports its own complaints by filling the struct err it shares
 * with the caller and returning EINVAL.
 */
bool cmd_parse(const struct argp *argp, int argc, char **argv, void *input, struct err *e);

/* The option of a key, in children, too; NULL: there is none. */
const struct argp_option *cmd_option(const struct argp *argp, int key);

/* Where the first argument stands that is no option and no option's value; 0: there is none. */
int cmd_word(const struct argp *argp, int argc, char **argv);

/* Among a command's own options: it takes the place of the child's of that name, is not in --help, and where given
 * comes to the command's parser as `key`, which says why there is none. */
#define CMD_REFUSED(name, key, value)                                                                        \
    {                                                                                                        \
        name, key, value, OPTION_HIDDEN, NULL, 0                                                             \
    }

/* Print "treeattn: ..." on stderr and give the exit code. */
int cmd_error(const struct err *e);

/*
 * What `treeattn plan` does, with any strategy: plan, check, print into path (NULL: standard output). A plan that is wrong is
 * printed as well, unless an index of it is out of range, before the sentence that says why on stderr. The exit code.
 */
enum plan_form { PLAN_TEXT, PLAN_CSV, PLAN_JSON, PLAN_DOT, N_PLAN_FORMS };
struct plan_job {
    const struct tree *tree;
    const struct strategy_use *use;
    struct plan_env env;
    enum plan_form form;
    const char *path;
    const char *command; /* what runs it again, for crash.h */
};
int cmd_plan_job(const struct plan_job *j);

/* The exit code of a command that has printed to standard output and is done. */
int cmd_printed(void);

/* "auto" or "80": the path that kernels of a GPU take from now on. */
bool cmd_arch(const char *arg, struct err *e);

/* Options that several commands have; a child parser. Its input is a struct cmd_output. */
struct cmd_output {
    enum style style;
    bool quiet;
    const char *path; /* -o FILE */
};
extern const struct argp cmd_output_argp;

/* --heads, --dtype, --head-dim, --page, --fill; a child parser. Its input is a struct cmd_problem. */
struct cmd_problem {
    struct problem_given given;
    struct err *err; /* what a parser complains about; set by the caller */
};
extern const struct argp cmd_problem_argp;

/* ---- groups of options that several commands have ---- */

/* --csv, --json, --quiet, --output into *out. */
void output_options(struct options *o, struct cmd_output *out);

/* --heads, --head-dim, --dtype, --page, --fill into *p; the flags say which were given. */
void problem_options(struct options *o, struct problem_given *p);
/* Their defaults, for a command that has some: Llama-3-8B's heads in fp16. */
void problem_defaults(struct options *o);

/* Where the tree comes from. Free src with tree_source_clear. */
struct cmd_tree {
    bool
        many; /* set before: --tree may be K-L or all, and without --step a trace is meant as a whole (src.step 0) */
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
/* For CALL: a machine into a struct machine. */
bool set_machine(void *self, const char *value, struct err *e);
/* Lines of a table: --heads into the counts of *h; --dtype into *dtype. */
struct opt heads_option(struct heads *h, const char *def, bool *given);
struct opt dtype_option(enum dtype *dtype, const char *def, const char *help);

#ifdef __cplusplus
}
#endif

#endif
