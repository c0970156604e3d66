/*
 * supervise.h - what is judged runs in a process of its own, so that the run ends as the judge says whatever it does.
 *
 * The parent holds standard output, standard error and the output file, and runs nothing that is judged. The child judges. What
 * it prints reaches the parent through a socket; records of any other process, as of one that a kernel forks, are dropped. Its
 * last record is the exit code: a child that ends without one has failed. What is written to its standard output or error
 * by whomever else appears on the parent's standard error, "| " before each line.
 */
#ifndef TREEATTN_VERIFY_IO_SUPERVISE_H
#define TREEATTN_VERIFY_IO_SUPERVISE_H

#include "verify/io/outfile.h"

#include <sys/types.h>

BEGIN_C

struct supervision {
    bool off;        /* one process, for debuggers and profilers */
    int64_t seconds; /* that a plan and a kernel may take on one case; 0: any time */
    bool given;      /* the user said so */
};

/*
 * Forks: before any thread is started, and before any call of CUDA. Where $TREEATTN_NO_FORK is set, or a debugger holds this
 * process, there is one process, as with s->off.
 * True for whoever judges: in the child *out leads to the parent from now on. False in the parent, when all is over: *out is
 * closed, *code is the exit code. A signal that ends the child by the user's wish ends the parent likewise.
 */
bool supervised(const struct supervision *s, struct outfile *out, int *code);
/* The last word of whoever judges: is the output kept, and the exit code. */
void supervise_end(bool keep, int code);

/* What is judged came back; `was` is getpid() as it was called. Where it had forked, or closed what leads to the parent, this
 * process ends here, and the run has failed. */
void supervise_back(pid_t was);

/* Whoever judges, where nothing of a kernel has run: is standard error a terminal? */
bool supervise_terminal(void);

END_C

#endif
