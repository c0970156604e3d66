/*
 * crash.h - last words. A kernel or planner may crash, hang or end the program; then stderr says what it was given. No
 * unfinished file stays behind.
 */
#ifndef TREEATTN_VERIFY_IO_CRASH_H
#define TREEATTN_VERIFY_IO_CRASH_H

#ifdef __cplusplus
extern "C" {
#endif

/* From now on, a signal that ends the program first says in one line on stderr what was being run. So does a call of
 * exit or quick_exit. Whatever a kernel exits with becomes 1, unless memory ran out. */
void crash_tell(void);
/* The same for a call of _exit, which libc tells nobody of. verify/cli/exit.c puts this in front of it, in the program
 * alone. */
void crash_exits(int status);

/* This thread now plans with that strategy. `command` is a command line that runs the same again; NULL: it is still
 * the last one. Both texts stay the caller's, until crash_done. */
void crash_planning(const char *strategy, const char *command);
/* This thread now runs that kernel, under the same command. */
void crash_running(const char *kernel);
/* What this thread runs was given that fault on purpose; NULL: it is sound again. */
void crash_planted(const char *fault);
/* This thread runs nothing any more. */
void crash_done(void);

/* That file is removed if the program ends early, until it is spared. The path stays the caller's. */
void crash_removes(const char *path);
void crash_spares(const char *path);

#ifdef __cplusplus
}
#endif

#endif
