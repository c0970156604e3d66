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
/* The same as text in one line. Free it. */
char *environment_line(void);

END_C

#endif
