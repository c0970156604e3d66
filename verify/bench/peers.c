#include "verify/bench/bench_gpu.h"
#include "ref/csv.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N, C, HQ, HK, DTYPE, METHOD, COLD, STATUS, N_COLUMNS };
static const char *const column[N_COLUMNS] = {"N", "C", "hq", "hk", "dtype", "method", "cold_us", "status"};

/* A row; "bw", which ends with the status, has the card's read bandwidth. */
static bool read_row(const struct csv *c, int64_t i, const int32_t *at, struct gpu_peers *out,
                     double *read_bps, struct err *e)
{
    const char *status = csv_peek(c, i, at[STATUS]);
    if (strcmp(csv_peek(c, i, 0), "bw") == 0) {
        if (strncmp(status, "read_GBps=", 10) == 0)
            *read_bps = 1e9 * strtod(status + 10, NULL);
        return true;
    }
    if (!csv_cell(c, i, at[STATUS], e))
        return false;
    double us = strtod(csv_peek(c, i, at[COLD]), NULL);
    if (strcmp(status, "ok") != 0 || !(us > 0) || strcmp(csv_peek(c, i, at[DTYPE]), "fp16") != 0)
        return true;
    out->at = xgrow(out->at, &out->cap, out->n + 1, sizeof *out->at);
    struct gpu_peer *p = &out->at[out->n++];
    *p = (struct gpu_peer){.tree = xasprintf("%s_%s", csv_peek(c, i, at[N]), csv_peek(c, i, at[C])),
                           .h_q = (int32_t)strtol(csv_peek(c, i, at[HQ]), NULL, 10),
                           .h_kv = (int32_t)strtol(csv_peek(c, i, at[HK]), NULL, 10),
                           .us = us,
                           .read_bps = *read_bps};
    snprintf(p->method, sizeof p->method, "%s", csv_peek(c, i, at[METHOD]));
    return true;
}

static bool read_peer_file(const char *path, struct gpu_peers *out, struct err *e)
{
    struct csv c;
    if (!csv_read(path, &c, e))
        return false;
    int32_t at[N_COLUMNS];
    double read_bps = PEER_READ_BPS;
    bool ours = true, good = true;
    for (int k = 0; k < N_COLUMNS; k++)
        ours = (at[k] = csv_find(&c, column[k])) >= 0 && ours;
    for (int64_t i = 0; i < c.n_rows && ours && good; i++)
        good = read_row(&c, i, at, out, &read_bps, e);
    csv_clear(&c);
    return good;
}

bool gpu_peers_read(const char *dir, struct gpu_peers *out, struct err *e)
{
    *out = (struct gpu_peers){0};
    DIR *d = opendir(dir);
    if (!d)
        return err_set(e, "--peers %.200s: %s", dir, strerror(errno));
    bool good = true;
    for (struct dirent *x; good && (x = readdir(d));) {
        size_t n = strlen(x->d_name);
        if (n < 4 || strcmp(x->d_name + n - 4, ".csv") != 0)
            continue;
        char *path = xasprintf("%s/%s", dir, x->d_name);
        good = read_peer_file(path, out, e);
        free(path);
    }
    closedir(d);
    if (good && out->n == 0)
        good =
            err_set(e, "--peers %.200s: no timings in any .csv there (see ../shared/peers/README.md)", dir);
    if (!good)
        gpu_peers_free(out);
    return good;
}

void gpu_peers_free(struct gpu_peers *p)
{
    for (int64_t i = 0; i < p->n; i++)
        free(p->at[i].tree);
    free(p->at);
    *p = (struct gpu_peers){0};
}
