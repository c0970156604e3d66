/*
 * crash.h - a kernel that crashes takes the program with it, but not the knowledge of what it was given.
 */
#ifndef TREEATTN_VERIFY_CRASH_H
#define TREEATTN_VERIFY_CRASH_H

/* From now on a signal that ends the program first says, in one line on stderr, what was being run. */
void crash_tell(void);

/* This thread now runs that kernel, on what the command line runs again; NULL: no longer. Both stay the caller's. */
void crash_running(const char *kernel, const char *command);

#endif
