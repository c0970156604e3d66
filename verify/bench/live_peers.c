#include "verify/bench/live_peers.h"
#include "verify/child/child.h"
#include "verify/child/exchange.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct live_peers {
    struct children *child[LIVE_MAX];
    int32_t n;
    char *folder; /* of the file with K and V */
};

struct live_peers *live_peers_new(const char *const *command, int32_t n, double seconds, struct err *e)
{
    const struct child_limits limits = {
        .process = process_default_limits(), .start_seconds = 120, .case_seconds = seconds, .n = 1};
    struct live_peers *x = xcalloc(1, sizeof *x);
    x->folder = exchange_folder(false, e);
    bool good = x->folder != NULL;
    for (int32_t i = 0; i < n && good; i++) {
        struct err why = {0};
        x->child[i] = children_new(command[i], "--peer", &limits, &why);
        x->n += x->child[i] != NULL;
        good = x->child[i] || err_set(e, "--peer: %s", why.msg);
        if (good && !children_kernel(x->child[i])->times)
            good = err_set(e, "--peer '%s': the child does not time itself (expected \"time\":true)", command[i]);
    }
    if (good)
        return x;
    live_peers_free(x);
    return NULL;
}

void live_peers_free(struct live_peers *x)
{
    if (!x)
        return;
    for (int32_t i = 0; i < x->n; i++)
        children_free(x->child[i]);
    if (x->folder)
        exchange_remove(x->folder);
    free(x->folder);
    free(x);
}

int32_t live_peers_n(const struct live_peers *x)
{
    return x ? x->n : 0;
}

/* ---- what they are given --------------------------------------------------------------------------------- */

/* n elements of a type from the card; NULL with *e set. */
static void *download(const void *dev, enum dtype type, int64_t n, struct err *e)
{
    int64_t bytes = n * dtype_size[type];
    void *host = xmalloc((size_t)bytes);
    if (gpu_download(host, dev, bytes, e))
        return host;
    free(host);
    return NULL;
}

/* Makes room for all of a file and maps it; NULL with *why set. */
static char *map_file(const char *path, int64_t *size, struct err *why)
{
    struct stat st = {.st_size = 0};
    int fd = open(path, O_RDWR | O_CLOEXEC), failed = fd < 0 || fstat(fd, &st) != 0 ? errno : posix_fallocate(fd, 0, st.st_size);
    char *map = failed ? MAP_FAILED : mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED)
        err_missing(why, "%s: %s", path, strerror(failed ? failed : errno));
    if (fd >= 0)
        close(fd);
    *size = st.st_size;
    return map == MAP_FAILED ? NULL : map;
}

/* K and V into a file, from the card into its pages. False with *e set if the card fails, with *why if the file cannot be written. */
static bool write_pool(const char *path, const struct gpu_data *d, struct err *e, struct err *why)
{
    const struct problem *p = d->p;
    const int64_t shape[] = {p->n_pages, p->page_size, p->heads.h_kv, p->heads.d};
    int64_t bytes = d->pool * dtype_size[p->heads.dtype], size;
    struct tensors t = {.n = 0};
    for (int i = 0; i < 2; i++) { /* holes, which are behind the header */
        tensors_add(&t, i ? "v" : "k", p->heads.dtype == DT_F16 ? EL_F16 : EL_BF16, NULL, false, 4, shape);
        t.sparse[i] = true;
    }
    char *map = tensors_write(path, &t, why) ? map_file(path, &size, why) : NULL;
    bool good = !map || (gpu_download(map + size - 2 * bytes, d->k, bytes, e) && gpu_download(map + size - bytes, d->v, bytes, e));
    if (map)
        munmap(map, (size_t)size);
    else
        why->code = EXIT_MISSING;
    tensors_free(&t);
    return good;
}

/* ---- one child ------------------------------------------------------------------------------------------- */

static void judge(const struct gpu_data *d, const struct kernel *k, const struct own_timing *t, struct output *out,
                  struct gpu_row *r)
{
    struct arithmetic a = arithmetic_declared(k, NULL, d->p->heads.dtype);
    if (k->lse_unit == 0)
        output_set_all_lse(out, d->truth->lse);
    enum verdict v = gpu_exact_compare(d, out, &a, &r->worst, r->why);
    r->time = gpu_time_of(t->us, t->n);
    r->plan_ms = t->plan_ms;
    r->verdict = gpu_verdict_of(v, r->time.median_us, r->floor_us, r->chain_us);
}

static void time_child(const struct children *c, const struct gpu_data *d, struct own_timing *t, struct gpu_row *r)
{
    const struct kernel *k = children_kernel(c);
    struct output *out = output_new(d->p);
    struct err why = {0};
    const struct question ask = {.p = d->p, .timing = t};
    enum run_end end = k->attend(k, &ask, out, &why);
    if (end == RUN_DONE) {
        judge(d, k, t, out, r);
    } else {
        r->verdict = end == RUN_UNSUPPORTED || end == RUN_NO_VIEW ? GPU_SKIP : GPU_FAIL;
        snprintf(r->why, sizeof r->why, "%s: %.230s", run_end_name[end], why.msg);
    }
    output_free(out);
}

bool live_peers_time(struct live_peers *x, const struct gpu_bench *b, int64_t flush_bytes, struct gpu_data *d,
                     const struct gpu_row *like, struct gpu_row *row, struct err *e)
{
    struct problem *p = d->p;
    char *pool = xasprintf("%s/pool", x->folder);
    double *us = xcalloc((size_t)b->reps, sizeof *us);
    struct err why = {0};
    bool good = true;
    if (!d->truth)
        err_set(&why, "there is nothing to judge by: no plan of ours ran on this tree");
    else if (heads_fp8(&p->heads))
        err_set(&why, "K and V in 8 bits");
    else
        good = (p->q = download(d->q, p->heads.dtype, (int64_t)p->tree->n_queries * p->heads.h_q * p->heads.d, e)) &&
               write_pool(pool, d, e, &why);
    for (int32_t i = 0; i < x->n && good; i++) {
        const struct child_caps *caps = children_caps(x->child[i]);
        row[i] = (struct gpu_row){.config = like->config,
                                  .peer = caps->name,
                                  .peer_version = caps->version,
                                  .verdict = GPU_SKIP,
                                  .need = like->need,
                                  .unique_kv = like->unique_kv,
                                  .floor_us = like->floor_us,
                                  .chain_us = b->chain_us[0], /* whether it merges nobody knows */
                                  .plan_ms = NAN,
                                  .again_us = NAN};
        struct own_timing t = {
            .reps = b->reps, .flush_bytes = flush_bytes, .flush_reads = b->flush_reads, .pool = pool, .us = us};
        if (why.msg[0])
            snprintf(row[i].why, sizeof row[i].why, "%.255s", why.msg);
        else
            time_child(x->child[i], d, &t, &row[i]);
    }
    unlink(pool);
    free(p->q);
    p->q = NULL;
    free(us);
    free(pool);
    return good;
}

/* ---- all trees ------------------------------------------------------------------------------------------- */

/* Rows of one tree follow each other: the end of those that begin at i, and the time of our fastest plan; +inf: none. */
static int64_t tree_of(const struct gpu_row *rows, int64_t n, int64_t i, double *ours)
{
    int64_t end = i;
    for (*ours = INFINITY; end < n && rows[end].config == rows[i].config; end++)
        if (!rows[end].peer && gpu_row_counts(&rows[end]))
            *ours = fmin(*ours, rows[end].time.median_us);
    return end;
}

void live_peers_summary(FILE *f, const char *lead, const struct live_peers *x, const struct gpu_row *rows,
                        int64_t n_rows)
{
    double drift = 0, most = 0, ours;
    int64_t again = 0;
    for (int32_t c = 0; c < live_peers_n(x); c++) {
        const char *name = children_caps(x->child[c])->name;
        double logs = 0;
        int64_t n = 0, lost = 0, wrong = 0, skipped = 0;
        for (int64_t i = 0, end; i < n_rows; i = end) {
            end = tree_of(rows, n_rows, i, &ours);
            for (int64_t k = i; k < end; k++) {
                const struct gpu_row *r = &rows[k];
                if (r->peer != name)
                    continue;
                skipped += r->verdict == GPU_SKIP;
                wrong += r->verdict == GPU_FAIL || r->verdict == GPU_INVALID;
                if (!gpu_row_counts(r) || isinf(ours))
                    continue;
                n++;
                logs += log(r->time.median_us / ours);
                lost += r->time.median_us < ours;
            }
        }
        fprintf(f, "%s%s: ", lead, name);
        if (n > 0)
            fprintf(f, "%.3f of the time of our fastest plan (geometric mean of %" PRId64 " trees and head counts), faster on %" PRId64 "; ",
                    exp(logs / (double)n), n, lost);
        fprintf(f, "%" PRId64 " failed, %" PRId64 " skipped\n", wrong, skipped);
    }
    for (int64_t i = 0; i < n_rows && x; i++)
        if (!rows[i].peer && gpu_row_counts(&rows[i]) && rows[i].again_us > 0) {
            double d = log(rows[i].again_us / rows[i].time.median_us);
            drift += d;
            most = fabs(d) > fabs(most) ? d : most;
            again++;
        }
    if (again > 0)
        fprintf(f, "%sour plans timed again after the children: %.4f of before (geometric mean of %" PRId64 "), %.3f at most\n",
                lead, exp(drift / (double)again), again, exp(most));
}
