/*
 * bench_cpu.c - `treeattn bench-cpu`: how near the CPU kernel comes to the machine's matrix products.
 *
 * One head, one node of tokens in consecutive slots, queries that see all of it, fp32: a single group, so
 * that nothing but the tile loop is timed. The yardstick is the same tile loop with the two products and
 * nothing else (no gather, no softmax, no epilogue), same tiles, same threads, on the same K and V, the two
 * taking turns in one run so that whatever else the machine does hits both. Rates are medians over the turns;
 * the ratio is the median of each turn's own ratio, which a machine that changes its speed disturbs least.
 */
#include "verify/bench/bench_cpu.h"
#include "kernels/cpu/blas.h"
#include "kernels/kernel.h"

#include <omp.h>
#include <stdlib.h>
#include <string.h>

/* Shapes of the published kernels, and one more. */
static const struct tile_shape {
    int32_t m, n;
} shapes[] = {{64, 128}, {64, 32}, {128, 128}, {16, 128}, {16, 32}};
enum { N_SHAPES = sizeof shapes / sizeof shapes[0], QUERIES = 1024, TOKENS = 2048 };

/* S = Q K^T and O += S V of every (Q tile, KV tile); S and O are [m][n] and [m][d] per thread. */
static void products_only(const struct problem *p, struct tile_shape tile, float *scratch, int64_t stride)
{
    const float *q = p->q, *k = p->k, *v = p->v;
    int64_t rows = p->tree->n_queries, tokens = p->tree->len[0];
    int d = p->heads.d;
#pragma omp parallel
    {
        omp_set_num_threads(1); /* the library asks OpenMP; ends with the region */
        float *s = scratch + stride * omp_get_thread_num(), *o = s + (int64_t)tile.m * tile.n;
#pragma omp for schedule(dynamic, 1)
        for (int64_t r0 = 0; r0 < rows; r0 += tile.m) {
            int m = (int)min_i64(tile.m, rows - r0);
            for (int64_t t0 = 0; t0 < tokens; t0 += tile.n) {
                int n = (int)min_i64(tile.n, tokens - t0);
                blas.sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, m, n, d, 1, q + r0 * d, d, k + t0 * d, d,
                           0, s, n);
                blas.sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, m, d, n, 1, s, n, v + t0 * d, d,
                           t0 > 0 ? 1 : 0, o, d);
            }
        }
    }
}

static struct plan *one_group(const struct nform *nf, struct tile_shape tile)
{
    struct plan *plan = plan_new(nf, "bench");
    struct sel s = {0};
    sel_queries(&s, 0, nf->n_queries);
    sel_run(&s, 0, 0, nf->len[0]);
    struct group_spec g = {
        .tile_m = tile.m, .tile_n = tile.n, .launch = plan_launch(plan, "attention", LAUNCH_SERIAL)};
    plan_group(plan, &s, &g);
    plan_merge_flat(plan, "merge", true);
    sel_free(&s);
    return plan;
}

struct timing {
    double kernel_s, gemm_s, ratio; /* medians */
};

static bool time_tile(const struct bench_cpu *a, const struct kernel *kernel, const struct problem *p,
                      const struct nform *nf, struct tile_shape tile, struct timing *out, struct err *e)
{
    struct plan *plan = one_group(nf, tile);
    struct output *o = output_new(p);
    int64_t stride = (int64_t)tile.m * (tile.n + p->heads.d);
    float *scratch = xaligned((size_t)(stride * a->threads), sizeof *scratch);
    double kernel_s[BENCH_MAX_REPS], gemm_s[BENCH_MAX_REPS], ratio[BENCH_MAX_REPS];
    bool good = true;
    for (int64_t rep = -1; rep < a->reps && good; rep++) { /* the first turn warms up and is not kept */
        struct ledger counted = {0};
        double t0 = now_s();
        good = kernel->run(p, plan, o, &counted, e);
        double t1 = now_s();
        products_only(p, tile, scratch, stride);
        double t2 = now_s();
        if (rep >= 0) {
            kernel_s[rep] = t1 - t0;
            gemm_s[rep] = t2 - t1;
            ratio[rep] = (t2 - t1) / (t1 - t0);
        }
    }
    *out = (struct timing){.kernel_s = quantile(kernel_s, a->reps, 0.5),
                           .gemm_s = quantile(gemm_s, a->reps, 0.5),
                           .ratio = quantile(ratio, a->reps, 0.5)};
    free(scratch);
    output_free(o);
    plan_free(plan);
    return good;
}

/* "model name" of /proc/cpuinfo, or "unknown". */
static void cpu_model(char *out, size_t size)
{
    snprintf(out, size, "unknown");
    FILE *f = fopen("/proc/cpuinfo", "r");
    char line[256];
    while (f && fgets(line, sizeof line, f)) {
        char *value = strchr(line, ':');
        if (!value || strncmp(line, "model name", 10) != 0)
            continue;
        value += 1 + strspn(value + 1, " \t");
        value[strcspn(value, "\n")] = 0;
        snprintf(out, size, "%s", value);
        break;
    }
    if (f)
        fclose(f);
}

const char *const bench_cpu_columns[] = {"tile",    "queries",           "tokens",      "d",
                                         "threads", "kernel_gflops",     "gemm_gflops", "ratio",
                                         "reps",    "blas_compiled_for", "cpu",         NULL};
const int32_t bench_cpu_width[] = {8, 8, 7, 4, 8, 14, 12, 6, 5, 18, 0};

bool bench_cpu(const struct bench_cpu *a, struct printer *t, struct err *e)
{
    if (!blas_load(e))
        return false;
    struct tree *tree = tree_new(1, QUERIES);
    tree->len[0] = TOKENS;
    for (int32_t i = 0; i < tree->n_queries; i++)
        tree->query[i].upto = TOKENS;
    struct problem_spec spec = {.heads = {1, 1, (int32_t)a->d, DT_F32}, .page_size = 16, .seed = 1};
    struct problem *p = problem_new(tree, &spec, e);
    struct nform *nf = nform_new(tree);
    const struct kernel *kernel = kernel_find("cpu");
    CK(kernel);
    omp_set_num_threads((int)a->threads);
    double flops = 4.0 * QUERIES * TOKENS * (double)a->d;
    char cpu[128];
    cpu_model(cpu, sizeof cpu);
    bool good = p != NULL;
    for (int32_t i = 0; i < N_SHAPES && good; i++) {
        struct timing x;
        char shape[32];
        good = time_tile(a, kernel, p, nf, shapes[i], &x, e);
        if (!good)
            break;
        snprintf(shape, sizeof shape, "%dx%d", shapes[i].m, shapes[i].n);
        table_text(t, shape);
        table_i64(t, QUERIES);
        table_i64(t, TOKENS);
        table_i64(t, a->d);
        table_i64(t, a->threads);
        table_f64(t, flops / x.kernel_s * 1e-9, 4);
        table_f64(t, flops / x.gemm_s * 1e-9, 4);
        table_f64(t, x.ratio, 3);
        table_i64(t, a->reps);
        table_text(t, blas.corename());
        table_text(t, cpu);
        fflush(t->f);
    }
    nform_free(nf);
    problem_free(p);
    tree_free(tree);
    return good;
}
