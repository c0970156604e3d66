/* progress.h - one line on stderr with rate and time left, while it is a terminal; silent otherwise. */
#ifndef TREEATTN_VERIFY_IO_PROGRESS_H
#define TREEATTN_VERIFY_IO_PROGRESS_H

#include "ref/base.h"

BEGIN_C

struct progress {
    const char *what;
    int64_t done, total;
    double start, shown;
    bool on;
};

struct progress progress_start(const char *what, int64_t total);
/* One more done; redraws at most ten times a second. */
void progress_step(struct progress *p);
/* n of them need not be done. */
void progress_drop(struct progress *p, int64_t n);
/* Wipe the line, before anything else goes to the terminal. */
void progress_clear(struct progress *p);

END_C

#endif
