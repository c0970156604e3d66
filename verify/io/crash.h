/*
 * crash.h - a kernel or planner that crashes, hangs or ends the program takes it along, but not the knowledge of what it
 * was given; and no unfinished file stays behind.
 */
#ifndef TREEATTN_VERIFY_IO_CRASH_H
#define TREEATTN_VERIFY_IO_CRASH_H

#ifdef __cplusplus
extern "C" {
#endif

/* From now on a signal that ends the program, and a call of exit or quick_exit, first says in one line on stderr
 * what was being run. Whatever a kernel exits with becomes 1, unless memory ran out. */
void crash_tell(void);
/* The same for a call of _exit, which asks nobody: verify/cli/exit.c puts this in front of it, in the program alone. */
void crash_exits(int status);

/* This thread now plans with that strategy, on what the command line runs again (NULL: what it was). Both stay the
 * caller's. */
void crash_planning(const char *strategy, const char *command);
/* It now runs that kernel, on the same. */
void crash_running(const char *kernel);
/* What it runs was given that fault on purpose; NULL: is sound again. */
void crash_planted(const char *fault);
/* It runs nothing any more. */
void crash_done(void);

/* That file is removed if the program ends early; the path stays the caller's until it is spared. */
void crash_removes(const char *path);
void crash_spares(const char *path);

#ifdef __cplusplus
}
#endif

#endif
