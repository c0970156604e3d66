/*
 * process.h - a program of somebody else's, which may do anything, and the lines we exchange with it.
 *
 * It runs below a process of ours that waits for it. Where the system lets us, both live in a process namespace of their
 * own: then a kill of one ends all that it started, and it cannot reach us. It reads lines from descriptor 3 and writes
 * lines to descriptor 4. What it writes to standard output or error goes to a log.
 */
#ifndef TREEATTN_VERIFY_CHILD_PROCESS_H
#define TREEATTN_VERIFY_CHILD_PROCESS_H

#include "ref/base.h"

BEGIN_C

struct process_limits {
    int64_t memory;    /* bytes that all its processes together may hold */
    int32_t processes; /* that may live at once, threads aside */
};
struct process_limits process_default_limits(void); /* half of the machine's memory, 64 processes */

struct process;
/* Starts `sh -c command`. NULL with *e set if that cannot be done. A command that is not there is started, and exits. If we
 * are killed, `folder` is removed with the files in it. */
struct process *process_start(const char *command, const char *folder, const struct process_limits *limits,
                              struct err *e);
/* Ends it with all that it started, and frees it. NULL is ignored. */
void process_stop(struct process *p);

/* What came of waiting for a line. All but PROCESS_LINE end what is said with it: stop it and start another. */
enum process_event {
    PROCESS_LINE,
    PROCESS_EXITED, /* with a code */
    PROCESS_SIGNALLED,
    PROCESS_CLOSED, /* the line to us, without an end of its own within a second */
    PROCESS_TIMEOUT,
    PROCESS_MEMORY,   /* beyond the limit, or ended by the system for it */
    PROCESS_MANY,     /* processes */
    PROCESS_LONG_LINE /* of more than PROCESS_MAX_LINE bytes */
};
enum { PROCESS_MAX_LINE = 1 << 16 };
struct process_said {
    enum process_event event;
    int code;         /* exit code, or number of the signal */
    const char *line; /* without its end, until the next call */
};
/* Sends a line, which has no end yet, and waits for one. */
struct process_said process_ask(struct process *p, const char *line, double seconds);

/* The end of what it wrote to standard output and error, of some hundred bytes, without control characters; "" for none.
 * Until the next call. */
const char *process_log(struct process *p);
/* The same with its line breaks. */
const char *process_log_lines(struct process *p);

END_C

#endif
