/* sweep.c - the front and the workers of a sweep: what they say to the process of treeattn-mpi beside them. */
#include "verify/sweep/sweep.h"
#include "verify/io/origin.h"
#include "verify/io/progress.h"
#include "verify/sweep/wire.h"

#include <fcntl.h>
#include <inttypes.h>
#include <omp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    TICK_MS = 50,
    MANY_FILES = 600,  /* the socket's number is beyond what a loop over open files reaches first */
    MOST_THREADS = 16,  /* as run_parallel has them (verify/judge/judge.c), so that numbers have the same bits; */
    LEAST_STRETCH = 16, /* and of so many tasks one is done alone, with all threads, */
    MOST_ALONE = 24     /* but no more than these of all */
};

static struct {
    bool known, said_hello, quit;
    enum sweep_role role;
    struct wire to;
    uint32_t phase; /* the next one */
} me;

enum sweep_role sweep_role(void)
{
    const char *text = me.known ? NULL : getenv("TREEATTN_SWEEP");
    me.known = true;
    if (!text)
        return me.role;
    int fd = (int)strtol(text + strcspn(text, ":") + 1, NULL, 10);
    me.role = strncmp(text, "front:", 6) == 0 ? SWEEP_FRONT : SWEEP_WORKER;
    me.to.fd = fcntl(fd, F_DUPFD_CLOEXEC, MANY_FILES);
    CK(me.to.fd >= 0);
    close(fd);
    unsetenv("TREEATTN_SWEEP"); /* processes that this one starts have no part in it */
    return me.role;
}

bool sweep_is_over(void)
{
    return me.quit;
}

static bool hello(const char *alike)
{
    if (me.said_hello)
        return true;
    me.said_hello = true;
    char *text = xasprintf("treeattn of commit %s, %s", origin_commit(), alike ? alike : "no kernels");
    struct frame f = {.kind = FRAME_HELLO, .size = strlen(text) + 1, .id = min_i64(omp_get_max_threads(), MOST_THREADS)};
    wire_add(&me.to.out, &f, text);
    free(text);
    return wire_write(&me.to, true);
}

/* Waits for something to read, a moment. False: the other end is closed. */
static bool hear(void)
{
    struct pollfd on = {me.to.fd, POLLIN, 0};
    poll(&on, 1, TICK_MS);
    return wire_read(&me.to);
}

/* ---- the front ------------------------------------------------------------------------------------------ */

static bool front(const struct sweep_tasks *t, struct err *e)
{
    int64_t n = t->chosen ? t->n_chosen : t->n, left = n, stretch = max_i64(LEAST_STRETCH, ceil_div(n, MOST_ALONE));
    struct frame_task *task = xcalloc((size_t)n, sizeof *task);
    for (int64_t k = 0; k < n; k++) {
        task[k].id = t->chosen ? t->chosen[k] : k;
        task[k].cost = t->cost ? t->cost[task[k].id] : 1;
        task[k].alone = k % stretch == stretch - 1 || k == n - 1;
    }
    struct frame f = {.kind = FRAME_PHASE, .phase = me.phase, .size = (uint64_t)n * sizeof *task};
    bool good = hello(t->alike), stopped = false;
    wire_add(&me.to.out, &f, task);
    free(task);
    good = good && wire_write(&me.to, true);
    while (good && left > 0 && !stopped) {
        const char *bytes;
        bool open = hear();
        while (good && left > 0 && !stopped && wire_take(&me.to.in, &f, &bytes)) {
            if (f.kind == FRAME_FATAL)
                good = err_failed(e, "%.400s", bytes);
            if (f.kind != FRAME_RESULT || f.phase != me.phase)
                continue;
            good = t->take(t->context, f.id, bytes, f.size) && good;
            left--;
            stopped = t->stop && t->stop(t->context);
        }
        stopped = stopped || (t->stop && t->stop(t->context));
        good = good && (open || left == 0 || stopped);
    }
    f = (struct frame){.kind = FRAME_OVER, .phase = me.phase++};
    wire_add(&me.to.out, &f, NULL);
    return (wire_write(&me.to, true) && good) || err_failed(e, "the sweep ended: its process of mpirun is gone");
}

/* ---- a worker ------------------------------------------------------------------------------------------- */

struct queue {
    int64_t *id, n, cap;
    bool over;
};

/* All that was said so far; waits until something was. */
static void take_tasks(struct queue *q)
{
    struct frame f;
    const char *bytes;
    for (bool open = wire_read(&me.to);; open = hear()) {
        while (!q->over && wire_take(&me.to.in, &f, &bytes))
            if (f.kind == FRAME_TASKS && f.phase == me.phase) {
                int64_t more = (int64_t)(f.size / sizeof *q->id);
                q->id = xgrow(q->id, &q->cap, q->n + more, sizeof *q->id);
                memcpy(q->id + q->n, bytes, f.size);
                q->n += more;
            } else if (f.kind == FRAME_OVER && f.phase == me.phase) {
                q->over = true;
            }
        me.quit = !open;
        if (q->n > 0 || q->over || me.quit)
            return;
    }
}

static void do_task(const struct sweep_tasks *t, int64_t i)
{
    char *bytes = NULL;
    size_t size = 0;
    double begin = thread_s();
    FILE *to = open_memstream(&bytes, &size);
    CK(to);
    t->run(t->context, i, to);
    fclose(to);
    struct frame f = {.kind = FRAME_RESULT, .phase = me.phase, .id = i, .seconds = thread_s() - begin, .size = size};
#pragma omp critical(treeattn_sweep)
    {
        wire_add(&me.to.out, &f, bytes);
        wire_write(&me.to, true);
    }
    free(bytes);
}

static bool worker(const struct sweep_tasks *t)
{
    struct queue q = {.n = 0};
    int width = (int)min_i64(omp_get_max_threads(), MOST_THREADS);
    me.quit = me.quit || !hello(t->alike);
    while (!q.over && !me.quit) {
        int64_t n = 0;
        take_tasks(&q);
        if (q.over || me.quit)
            break;
        while (n < min_i64(q.n, 2 * width) && q.id[n] >= 0)
            n++;
#pragma omp parallel for schedule(dynamic, 1) num_threads(width) if (n > 1)
        for (int64_t k = 0; k < n; k++)
            do_task(t, q.id[k]);
        if (n == 0)
            do_task(t, ~q.id[n++]);
        memmove(q.id, q.id + n, (size_t)(q.n - n) * sizeof *q.id);
        q.n -= n;
    }
    free(q.id);
    me.phase++;
    return !me.quit;
}

bool sweep_run(const struct sweep_tasks *t, struct err *e)
{
    CK(sweep_role() != SWEEP_ALONE);
    if (sweep_role() == SWEEP_FRONT)
        return front(t, e);
    return worker(t) || err_failed(e, "the sweep is over");
}

/* ---- all results, in order ------------------------------------------------------------------------------ */

struct collection {
    void (*run)(void *context, int64_t i, FILE *to);
    void *context;
    struct sweep_bytes *all;
    struct progress progress;
};

static void run_one(void *context, int64_t i, FILE *to)
{
    const struct collection *c = context;
    c->run(c->context, i, to);
}

static bool keep_one(void *context, int64_t i, const char *bytes, size_t size)
{
    struct collection *c = context;
    c->all[i] = (struct sweep_bytes){xmalloc(size + 1), size};
    memcpy(c->all[i].at, bytes, size);
    if (c->progress.what)
        progress_step(&c->progress);
    return true;
}

struct sweep_bytes *sweep_collect(const char *what, int64_t n, const double *cost, void (*run)(void *context, int64_t i, FILE *to),
                                  void *context, struct err *e)
{
    struct collection c = {.run = run, .context = context};
    if (sweep_role() == SWEEP_FRONT)
        c.all = xcalloc((size_t)n, sizeof *c.all);
    if (what)
        c.progress = progress_start(what, n);
    bool good = sweep_run(&(struct sweep_tasks){.n = n, .cost = cost, .run = run_one, .take = keep_one, .context = &c}, e);
    if (what)
        progress_clear(&c.progress);
    if (good)
        return c.all;
    sweep_bytes_free(c.all, n);
    return NULL;
}

void sweep_bytes_free(struct sweep_bytes *all, int64_t n)
{
    for (int64_t i = 0; i < n && all; i++)
        free(all[i].at);
    free(all);
}

/* ---- prices --------------------------------------------------------------------------------------------- */

struct prices {
    double (*price)(void *context, int64_t i);
    void *context;
};

static void run_price(void *context, int64_t i, FILE *to)
{
    const struct prices *p = context;
    double cost = p->price(p->context, i);
    fwrite(&cost, sizeof cost, 1, to);
}

double *sweep_prices(int64_t n, double (*price)(void *context, int64_t i), void *context, struct err *e)
{
    struct prices p = {price, context};
    struct sweep_bytes *all = sweep_collect(NULL, n, NULL, run_price, &p, e);
    double *cost = all ? xcalloc((size_t)n, sizeof *cost) : NULL;
    for (int64_t i = 0; i < n && all; i++)
        memcpy(&cost[i], all[i].at, min_i64((int64_t)all[i].size, sizeof *cost));
    sweep_bytes_free(all, n);
    return cost;
}
