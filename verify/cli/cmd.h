/*
 * cmd.h - what the subcommands share. Only they and main.c print errors and decide exit codes.
 */
#ifndef TREEATTN_VERIFY_CLI_CMD_H
#define TREEATTN_VERIFY_CLI_CMD_H

#include "ref/problem.h"
#include "sim/strategy.h"
#include "verify/cli/shared_options.h"
#include "verify/io/outfile.h"
#include "verify/io/table.h"

BEGIN_C

#define PURPOSE(text)
#define COMMAND(name, word, about) int cmd_##name(int argc, char **argv);
#include "verify/cli/commands.def"
#undef COMMAND
#undef PURPOSE

/* Under mpirun: treeattn-mpi takes the place of this process, for commands whose work it shares (verify/sweep/README.md). Returns
 * where it does not: EXIT_GOOD to go on, else the exit code. */
int cmd_under_mpirun(const char *command, char **argv);

/* Print "treeattn: ..." on stderr and give the exit code. */
int cmd_error(const struct err *e);

/*
 * What `treeattn plan` does, with any strategy: plan, check, print into path (NULL: standard output). A plan that is wrong is
 * printed as well, unless an index of it is out of range, before the sentence that says why on stderr. The exit code.
 */
enum plan_form { PLAN_TEXT, PLAN_CSV, PLAN_JSON, PLAN_EXPLAIN, PLAN_SVG, PLAN_MERGES, PLAN_DOT, N_PLAN_FORMS };
struct plan_job {
    const struct tree *tree;
    const struct strategy_use *use;
    struct plan_env env;
    enum plan_form form;
    int32_t query, head;              /* of PLAN_MERGES, which wants a plan that is right, */
    const struct problem_spec *values; /* on these */
    const char *path;
    const char *command; /* what runs it again, for crash.h */
};
int cmd_plan_job(const struct plan_job *j);

/* A table for people, with padded columns, unless --csv or --json. column ends with NULL. */
struct printer cmd_table(const struct outfile *out, const struct cmd_output *o, const char *const *column,
                         const int32_t *width);

/* Lines for CSV above rows that were measured here: the command, commit and date, on a GPU the device, and the environment. Free
 * them. */
char *cmd_notes(bool on_gpu, int argc, char **argv);

/* The exit code of a command that has printed to standard output and is done. */
int cmd_printed(void);

END_C

#endif
