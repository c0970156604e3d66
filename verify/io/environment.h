/*
 * environment.h - the machine that figures come from: what must be known to measure them again.
 */
#ifndef TREEATTN_VERIFY_IO_ENVIRONMENT_H
#define TREEATTN_VERIFY_IO_ENVIRONMENT_H

#include "ref/base.h"

#include <jansson.h>

BEGIN_C

/*
 * {"version": 1, "treeattn": {..}, "system": {..}, "cpu": {..}, "gpu": {..}}: program, operating system, processor,
 * and the card that CUDA would take first. gpu is null where nvidia-smi finds none. Whatever else is not known is
 * null, too. The caller's.
 */
json_t *environment(void);
/* The same with one more member, "date": when this was called. The caller's. */
json_t *environment_then(void);
/* The same as text in one line. Free it. */
char *environment_line(void);
/*
 * What stands above measured rows, with `lead` in front of each line: the command that argv[0] .. argv[argc - 1] are, where
 * and when ("WHAT, commit C, DATE"; what may be NULL), and "environment {..}". Free it.
 */
char *environment_notes(const char *lead, const char *what, int argc, char **argv);

END_C

#endif
