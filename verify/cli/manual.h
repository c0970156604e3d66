/*
 * manual.h - a command's options for man and for shells, from the same table as its help: `treeattn COMMAND --help=man` and
 * `--help=words`, which verify/cli/man makes pages and completions of.
 */
#ifndef TREEATTN_VERIFY_CLI_MANUAL_H
#define TREEATTN_VERIFY_CLI_MANUAL_H

#include "verify/cli/options.h"

BEGIN_C

/* The command's part of treeattn.1, in roff, to standard output. */
void manual_print(const struct options *o, const char *command);
/* A line an option: "--format FORMAT text csv json", its name, what its value is called, and the words that it may be. */
void manual_print_words(const struct options *o);

END_C

#endif
