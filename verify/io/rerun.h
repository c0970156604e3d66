/*
 * rerun.h - a command line run in processes of its own, as by somebody who pastes it into a shell.
 */
#ifndef TREEATTN_VERIFY_IO_RERUN_H
#define TREEATTN_VERIFY_IO_RERUN_H

#include "ref/base.h"

BEGIN_C

/* Its exit code; -1 if it could not be run, was ended by a signal, or took longer than that, and is ended. Nothing is printed:
 * what it writes to standard output goes into text, as much as fits. */
int rerun(const char *line, double seconds, char *text, size_t size);

END_C

#endif
