/*
 * sweep.h - tasks of a command that the processes of `mpirun` share (verify/sweep/README.md). treeattn-mpi starts the command twice:
 * once as the front, which prints, and on every rank as a worker, which does tasks. Both call sweep_run for the same phases in the
 * same order. The front gets what workers made of each task, in any order, and each once.
 */
#ifndef TREEATTN_VERIFY_SWEEP_SWEEP_H
#define TREEATTN_VERIFY_SWEEP_SWEEP_H

#include "ref/base.h"

#include <stdio.h>

BEGIN_C

enum sweep_role {
    SWEEP_ALONE, /* a process without others: it does not call sweep_run */
    SWEEP_FRONT,
    SWEEP_WORKER /* it prints nothing and writes no files */
};
/* Of this process: first asked for before another process is started. */
enum sweep_role sweep_role(void);

/* A worker that was told to end: what it has to say is nobody's. */
bool sweep_is_over(void);

struct sweep_tasks {
    const char *alike;     /* the same text in all processes: what results depend on besides the command line; NULL: nothing */
    int64_t n;             /* tasks 0 .. n - 1, */
    const int64_t *chosen; /* [n_chosen] of which the front wants these; NULL: all */
    int64_t n_chosen;
    const double *cost; /* [n] predicted, in any unit, of task i; of the front; NULL: all alike */
    /* Worker: do it, and write what came of it. On several threads. */
    void (*run)(void *context, int64_t i, FILE *to);
    /* Front: those bytes. Bytes that say something else are false. */
    bool (*take)(void *context, int64_t i, const char *bytes, size_t size);
    /* Front, asked several times a second: is it enough? May be NULL. */
    bool (*stop)(void *context);
    void *context;
};
/* False with *e set if ranks are not alike, or none is left, or a task ended two of them. */
bool sweep_run(const struct sweep_tasks *t, struct err *e);

/* Of one task: bytes that its `run` wrote. */
struct sweep_bytes {
    char *at;
    size_t size;
};
/* For what is small and is looked at in the end: n tasks, their bytes in order. `what` names them in the progress line; NULL: there is
 * none. cost as above. A front gets an array of n, to be freed with sweep_bytes_free, or NULL with *e set; a worker NULL. */
struct sweep_bytes *sweep_collect(const char *what, int64_t n, const double *cost, void (*run)(void *context, int64_t i, FILE *to),
                                  void *context, struct err *e);
void sweep_bytes_free(struct sweep_bytes *all, int64_t n);

/* What `cost` is to be: of each of n tasks as `price` says, which workers are asked. The front gets an array, which the caller
 * frees; a worker NULL. */
double *sweep_prices(int64_t n, double (*price)(void *context, int64_t i), void *context, struct err *e);

END_C

#endif
