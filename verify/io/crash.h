/*
 * crash.h - last words. A kernel or planner may crash, hang or end the program; then stderr says what it was given. No
 * unfinished file stays behind.
 */
#ifndef TREEATTN_VERIFY_IO_CRASH_H
#define TREEATTN_VERIFY_IO_CRASH_H

#include "ref/base.h"

BEGIN_C

/* What last words are in a record of supervise.h, which has them from a child. */
enum { CRASH_SAYS = 'e', CRASH_MOST_THREADS = 64 };

/* From now on, a signal that ends the program first says in one line on stderr what was being run. So does a call of
 * exit or quick_exit. Whatever a kernel exits with becomes 1, unless memory ran out. */
void crash_tell(void);
/* The same for a call of _exit, which libc tells nobody of. verify/cli/exit.c puts this in front of it, in the program
 * alone. */
void crash_exits(int status);

/* This thread now plans with that strategy. `command` is a command line that runs the same again; NULL: it is still
 * the last one. */
void crash_planning(const char *strategy, const char *command);
/* This thread now runs that kernel, under the same command. */
void crash_running(const char *kernel);
/* What this thread runs was given that fault on purpose; NULL: it is sound again. */
void crash_planted(const char *fault);
/* This thread runs nothing any more. */
void crash_done(void);

/* For supervise.h. Before a fork: the parent shall see what threads of the child run. */
void crash_shares(void);
/* In the child: last words are records on that socket, and no unfinished file is the child's. */
void crash_child(int to);
/* The turn of the child's run in one of CRASH_MOST_THREADS threads; 0: it runs nothing. Each run has its own. */
unsigned crash_turn_of_child(int thread);
/* Did the child say its last words itself, and were they that memory ran out? */
bool crash_child_told(void);
bool crash_child_lacked_memory(void);
/* In a process that what is judged has forked, and in which it came back: ends it, and lets the parent know. */
void crash_twice(void) __attribute__((noreturn));
/* Did that happen? Says so on stderr. */
bool crash_child_twice(void);
/* Say on stderr what the child runs, a line each, and that it did so; false if it runs nothing. */
bool crash_tell_child(const char *did);

/* That file is removed if the program ends early, until it is spared. The path stays the caller's. */
void crash_removes(const char *path);
void crash_spares(const char *path);

END_C

#endif
