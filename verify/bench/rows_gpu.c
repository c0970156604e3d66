#include "verify/bench/live_peers.h"
#include "ref/csv.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const gpu_verdict_name[] = {"PASS", "MARGINAL", "FAIL", "SKIP", "INVALID"};

/* ---- recorded peers --------------------------------------------------------------------------------------- */

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

double gpu_over_limit(const struct gpu_row *r)
{
    return r->time.median_us / (r->floor_us + r->chain_us);
}

/* ---- ours against theirs --------------------------------------------------------------------------------- */

/* The smallest time / floor of a peer on a tree; +inf if it has none. */
static double peer_ratio(const struct gpu_peers *peers, const struct gpu_row *r, const char *method)
{
    const struct gpu_config *c = r->config;
    double best = INFINITY;
    if (c->src.kind != SRC_LEVELS || c->spec.heads.d != 128)
        return best;
    for (int64_t i = 0; i < peers->n; i++) {
        const struct gpu_peer *p = &peers->at[i];
        if (p->h_q != c->spec.heads.h_q || p->h_kv != c->spec.heads.h_kv ||
            (method && strcmp(p->method, method) != 0) || strcmp(p->tree, c->src.text) != 0)
            continue;
        struct gpu_limits card = {.read_bps = p->read_bps, .tensor_flops = PEER_TENSOR_FLOPS};
        best = fmin(best, p->us / gpu_floor_us(&r->need, &card));
    }
    return best;
}

/* Rows of one tree follow each other: the end of those that begin at i. */
static int64_t same_config(const struct gpu_row *rows, int64_t n, int64_t i)
{
    int64_t end = i;
    while (end < n && rows[end].config == rows[i].config)
        end++;
    return end;
}

static bool is_labelled(const struct strategy_use *u, const char *strategy)
{
    char *label = strategy_label(u);
    bool same = strcmp(label, strategy) == 0;
    free(label);
    return same;
}

/* The best row of [i, end) that may be shown, of one strategy (NULL: of any); NULL if there is none. */
static const struct gpu_row *best_row(const struct gpu_row *rows, int64_t i, int64_t end,
                                      const char *strategy)
{
    const struct gpu_row *best = NULL;
    for (; i < end; i++)
        if (!rows[i].peer && gpu_row_counts(&rows[i]) && (!strategy || is_labelled(rows[i].use, strategy)) &&
            (!best || rows[i].time.median_us < best->time.median_us))
            best = &rows[i];
    return best;
}

struct gpu_match gpu_match(const struct gpu_row *rows, int64_t n_rows, const struct gpu_peers *peers,
                           const char *strategy, const char *method)
{
    struct gpu_match m = {0};
    double logs = 0;
    for (int64_t i = 0, end; i < n_rows; i = end) {
        end = same_config(rows, n_rows, i);
        const struct gpu_row *r = best_row(rows, i, end, strategy);
        double theirs = r ? peer_ratio(peers, r, method) : INFINITY;
        if (!r || isinf(theirs))
            continue;
        double ours = r->time.median_us / r->floor_us;
        m.n++;
        m.better += ours <= theirs;
        logs += log(ours / theirs);
    }
    m.ratio = m.n ? exp(logs / (double)m.n) : NAN;
    return m;
}

static void print_match(FILE *f, const char *lead, const char *what, struct gpu_match m)
{
    if (m.n > 0)
        fprintf(f,
                "%s%s: %" PRId64 " trees and head counts, time/floor %.3f of theirs (geometric mean), as "
                "good or better on %" PRId64 "\n",
                lead, what, m.n, m.ratio, m.better);
}

static void print_peers(FILE *f, const char *lead, const struct gpu_bench *b, const struct gpu_row *rows,
                        int64_t n_rows, const struct gpu_peers *peers)
{
    double read = b->limits.read_bps / PEER_READ_BPS - 1,
           peak = b->limits.tensor_flops / PEER_TENSOR_FLOPS - 1;
    if (fabs(read) > 0.03 || fabs(peak) > 0.03)
        fprintf(
            f,
            "%sthe comparison with recorded peers is void: read bandwidth %+.1f %%, bf16 product %+.1f %% "
            "against their card (allowed: 3 %%)\n",
            lead, 100 * read, 100 * peak);
    if (b->flush_reads)
        fprintf(f,
                "%sthe comparison with recorded peers is void: they were timed with the L2 still to be "
                "written back (expected: --flush write)\n",
                lead);
    static const struct {
        const char *strategy, *method, *what;
    } pair[] = {
        {"fasttree", "ft", "fasttree's plan against the released FastTree kernel"},
        {"fasttree:rule=artifact", "ft", "fasttree:rule=artifact against the released FastTree kernel"},
        {"pat", "pat", "pat's plan against the released PAT kernel"},
        {"pat:rule=artifact", "pat", "pat:rule=artifact against the released PAT kernel"},
    };
    for (size_t i = 0; i < sizeof pair / sizeof pair[0]; i++)
        print_match(f, lead, pair[i].what, gpu_match(rows, n_rows, peers, pair[i].strategy, pair[i].method));
    print_match(f, lead, "best plan against the best recorded peer",
                gpu_match(rows, n_rows, peers, NULL, NULL));
}

static double percent_read(const struct gpu_row *r, const struct gpu_bench *b)
{
    return 100 * (double)r->bytes / (1e-6 * r->time.median_us) / b->limits.read_bps;
}

static void print_where(FILE *f, const struct gpu_row *r)
{
    char *label = strategy_label(r->use);
    fprintf(f, "%s on %s at %" PRId32 "/%" PRId32, label,
            r->config->src.text ? r->config->src.text : "its tree", r->config->spec.heads.h_q,
            r->config->spec.heads.h_kv);
    free(label);
}

/* Plans that leave a kernel no excuse: enough CTAs, even ones, nothing read twice, more than launch costs, and no kernel that waits
 * for another before it reads. */
static bool no_excuse(const struct gpu_row *r, const struct gpu_bench *b)
{
    return !r->peer && gpu_row_counts(r) && r->excuse == EXCUSE_NONE && r->grid.ctas >= 4 * (int64_t)b->sms &&
           r->grid.longest <= 2 && r->ledger.kv > 100000000 &&
           (double)r->ledger.kv <= 1.1 * (double)r->unique_kv;
}

/* Geometric means of time / (floor + chain), of all rows, by class of their floor, and of the speculative set. */
struct over_limit {
    double logs[5];
    int64_t n[5];
};

static void add_over_limit(struct over_limit *x, const struct gpu_row *r)
{
    double over = log(gpu_over_limit(r));
    int of = r->floor_us < 15 ? 1 : r->floor_us <= 50 ? 2 : 3;
    bool at[5] = {[0] = true, [4] = strcmp(r->config->set, "speculative") == 0};
    at[of] = true;
    for (int i = 0; i < 5; i++) {
        x->n[i] += at[i];
        x->logs[i] += at[i] ? over : 0;
    }
}

/* Of one strategy (NULL: of any) the best row of each tree. */
static void print_over_limit(FILE *f, const char *lead, const struct gpu_row *rows, int64_t n_rows,
                             const char *strategy)
{
    static const char *const of[] = {"all", "floor under 15 us", "15 to 50 us", "over 50 us", "speculative"};
    struct over_limit x = {.n = {0}};
    for (int64_t i = 0, end; i < n_rows; i = end) {
        end = same_config(rows, n_rows, i);
        const struct gpu_row *r = best_row(rows, i, end, strategy);
        if (r && r->chain_us > 0)
            add_over_limit(&x, r);
    }
    if (x.n[0] == 0)
        return;
    fprintf(f, "%stime/(floor + chain) of %s (geometric mean):", lead,
            strategy ? strategy : "the best plan of each tree");
    for (int i = 0; i < 5; i++)
        if (x.n[i] > 0)
            fprintf(f, "%s %s %.3f of %" PRId64, i ? ";" : "", of[i], exp(x.logs[i] / (double)x.n[i]),
                    x.n[i]);
    fputc('\n', f);
}

void gpu_summary(FILE *f, const char *lead, const struct gpu_bench *b, const struct gpu_row *rows,
                 int64_t n_rows, const struct gpu_peers *peers)
{
    int64_t n[5] = {0}, trees = 0, wide = 0, reach = 0;
    double logs = 0;
    const struct gpu_row *least = NULL;
    for (int64_t i = 0; i < n_rows; i++) {
        n[rows[i].verdict]++;
        if (!no_excuse(&rows[i], b))
            continue;
        wide++;
        reach += percent_read(&rows[i], b) >= 75;
        least = !least || percent_read(&rows[i], b) < percent_read(least, b) ? &rows[i] : least;
    }
    fprintf(f,
            "%srows: %" PRId64 ", %" PRId64 " PASS, %" PRId64 " MARGINAL, %" PRId64 " FAIL, %" PRId64
            " SKIP, %" PRId64 " INVALID\n",
            lead, n_rows, n[GPU_PASS], n[GPU_MARGINAL], n[GPU_FAIL], n[GPU_SKIP], n[GPU_INVALID]);
    const struct machine *mc = machine_default();
    if (b->sms != mc->sms)
        fprintf(f,
                "%splans are made for %s, which has %" PRId32 " SMs; this card has %" PRId32
                ": those that count SMs would be others for it\n",
                lead, mc->name, mc->sms, b->sms);
    if (b->probe_us > 0)
        fprintf(f,
                "%s%" PRId64 " rows waited for memory to be as fast as ever, %.1f s in all; %" PRId64
                " began when it was not\n",
                lead, b->waits, b->waited_s, b->disturbed);
    for (int64_t i = 0, end; i < n_rows; i = end) {
        end = same_config(rows, n_rows, i);
        const struct gpu_row *r = best_row(rows, i, end, NULL);
        if (!r)
            continue;
        trees++;
        logs += log(r->time.median_us / r->floor_us);
        if (r->config->src.kind == SRC_LEVELS && strcmp(r->config->src.text, "256_4096") == 0) {
            fprintf(f, "%s256 4096: %.1f %% of the read bandwidth, ", lead, percent_read(r, b));
            print_where(f, r);
            fputc('\n', f);
        }
    }
    if (trees > 0)
        fprintf(f, "%sbest plan of each tree: time/floor %.3f (geometric mean of %" PRId64 ")\n", lead,
                exp(logs / (double)trees), trees);
    if (b->chain_us[0] > 0)
        fprintf(f,
                "%sleast chain: %.2f us, with a merge %.2f us, an empty kernel %.2f us; L2 emptied by %s\n",
                lead, b->chain_us[0], b->chain_us[1], b->empty_us, b->flush_reads ? "reading" : "writing");
    print_over_limit(f, lead, rows, n_rows, NULL);
    print_over_limit(f, lead, rows, n_rows, "treeattn");
    if (wide > 0 && b->flush_reads) {
        fprintf(f,
                "%splans with at least 4 CTAs an SM, the longest at most twice the mean, KV at most 1.1 x "
                "unique and over 100 MB, neither serial, unfused nor one row a tile: %" PRId64
                " rows, %" PRId64 " at 75 %% of the read bandwidth or more; least %.1f %%, ",
                lead, wide, reach, percent_read(least, b));
        print_where(f, least);
        fputc('\n', f);
    }
    if (peers->n > 0)
        print_peers(f, lead, b, rows, n_rows, peers);
    live_peers_summary(f, lead, b->live, rows, n_rows);
}

/* ---- rows ------------------------------------------------------------------------------------------------ */

const char *const gpu_columns[] = {"strategy",
                                   "verdict",
                                   "time_us",
                                   "time_over_floor",
                                   "time_over_limit",
                                   "floor_us",
                                   "chain_us",
                                   "mad_us",
                                   "min_us",
                                   "p90_us",
                                   "again_us",
                                   "reps",
                                   "plan_bytes",
                                   "gbps",
                                   "percent_read",
                                   "tflops",
                                   "percent_tensor",
                                   "plan_ms",
                                   "upload_ms",
                                   "ctas",
                                   "longest",
                                   "kv_bytes",
                                   "unique_kv",
                                   "worst_error",
                                   "heads",
                                   "d",
                                   "dtype",
                                   "page",
                                   "set",
                                   "number",
                                   "tree",
                                   "kernel",
                                   "arch",
                                   "device",
                                   "why",
                                   NULL};
const int32_t gpu_width[] = {22, 8, 9, 15, 15, 8,  8, 7, 8, 8, 8, 4,  10, 7,  12, 7, 14, 8,
                             9,  6, 7, 9,  9,  11, 6, 4, 5, 5, 13, 6,  32, 6,  4, 12, 0};

void gpu_row_print(struct printer *t, const struct gpu_bench *b, const char *device, const struct gpu_row *r)
{
    const struct gpu_config *c = r->config;
    bool timed = r->time.reps > 0, planned = r->grid.ctas > 0;
    char heads[32];
    char *tree = tree_source_print(&c->src), *label = r->peer ? xstrdup(r->peer) : strategy_label(r->use);
    const char *kernel = !r->peer ? b->kernel->name : r->peer_version[0] ? r->peer_version : "child";
    double s = 1e-6 * r->time.median_us;
    const double figure[] = {r->time.median_us, r->time.median_us / r->floor_us,
                             gpu_over_limit(r), r->floor_us,
                             r->chain_us,       r->time.mad_us,
                             r->time.min_us,    r->time.p90_us};
    snprintf(heads, sizeof heads, "%" PRId32 "/%" PRId32, c->spec.heads.h_q, c->spec.heads.h_kv);
    table_text(t, label);
    table_text(t, gpu_verdict_name[r->verdict]);
    for (int i = 0; i < 8; i++)
        table_measured_if(t, timed || i == 3, figure[i], 5);
    table_measured_if(t, r->again_us > 0, r->again_us, 5);
    table_i64(t, r->time.reps);
    table_bytes_if(t, !r->peer, r->bytes);
    const double rate[] = {1e-9 * (double)r->bytes / s, percent_read(r, b), 1e-12 * r->need.operations / s,
                           100 * r->need.operations / s / b->limits.tensor_flops};
    for (int i = 0; i < 4; i++)
        table_measured_if(t, timed && (!r->peer || i > 1), rate[i], 5);
    table_measured_if(t, r->plan_ms >= 0, r->plan_ms, 3);
    table_measured_if(t, !r->peer, r->upload_ms, 3);
    table_i64_if(t, planned, r->grid.ctas);
    table_measured_if(t, planned, r->grid.longest, 3);
    table_bytes_if(t, !r->peer, r->ledger.kv);
    table_bytes(t, r->unique_kv);
    table_measured_if(t, timed, r->worst, 3);
    table_text(t, heads);
    table_i64(t, c->spec.heads.d);
    table_text(t, dtype_name[c->spec.heads.dtype]);
    table_i64(t, c->spec.page_size);
    table_text(t, c->set);
    table_i64(t, c->number);
    table_text(t, tree);
    table_text(t, kernel);
    table_text(t, !r->peer && b->opt.arch == 80 ? "80" : "auto");
    table_text(t, device);
    table_text(t, r->why);
    free(tree);
    free(label);
}
