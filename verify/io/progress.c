#include "verify/io/progress.h"
#include "verify/io/supervise.h"

#include <inttypes.h>
#include <stdio.h>

struct progress progress_start(const char *what, int64_t total)
{
    return (struct progress){.what = what, .total = total, .start = now_s(), .on = supervise_terminal()};
}

void progress_step(struct progress *p)
{
    p->done++;
    double now = now_s();
    if (!p->on || (now - p->shown < 0.1 && p->done < p->total))
        return;
    p->shown = now;
    double rate = (double)p->done / (now - p->start + 1e-9);
    fprintf(stderr, "\r\033[K%s %" PRId64 "/%" PRId64 "  %.1f/s  %.0f s left", p->what, p->done, p->total,
            rate, (double)(p->total - p->done) / rate);
    fflush(stderr);
}

void progress_drop(struct progress *p, int64_t n)
{
    p->total -= n;
}

void progress_clear(struct progress *p)
{
    if (p->on && p->shown > 0)
        fprintf(stderr, "\r\033[K");
}
