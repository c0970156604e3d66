/*
 * cmd.h - what the subcommands share. Only they and main.c print errors and decide exit codes.
 */
#ifndef TREEATTN_VERIFY_CLI_CMD_H
#define TREEATTN_VERIFY_CLI_CMD_H

#include "verify/cli/tree_options.h"
#include "verify/io/outfile.h"
#include "verify/io/table.h"
#include "verify/judge/random_cases.h"

#include <argp.h>

#ifdef __cplusplus
extern "C" {
#endif

#define COMMAND(name, about) int cmd_##name(int argc, char **argv);
#include "verify/cli/commands.def"
#undef COMMAND

struct command {
    const char *name, *about;
    int (*run)(int argc, char **argv);
};
extern const struct command commands[];
extern const int32_t n_commands;

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

#ifdef __cplusplus
}
#endif

#endif
