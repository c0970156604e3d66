/*
 * cmd_bench.c - `treeattn bench cpu`: how near the CPU kernel comes to the machine's matrix products.
 *
 * One head, one node of tokens in consecutive slots, queries that see all of it, fp32: a single group, so
 * that nothing but the tile loop is timed. The yardstick is the same tile loop with the two products and
 * nothing else (no gather, no softmax, no epilogue), same tiles, same threads, on the same K and V, the two
 * taking turns in one run so that whatever else the machine does hits both. Rates are medians over the turns;
 * the ratio is the median of each turn's own ratio, which a machine that changes its speed disturbs least.
 */
#include "kernels/kernel.h"
#include "verify/bench/bench_cpu.h"
#include "verify/judge/case.h"
#include "verify/cli/cmd.h"
#include "verify/io/text.h"

#include <cblas.h>
#include <errno.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_TILES = 16, MAX_REPS = 1001 };

struct tile_shape {
    int32_t m, n;
};

/* What is measured when no tile is named: shapes of the published kernels, and one more. */
static const struct tile_shape usual_tiles[] = {{64, 128}, {64, 32}, {128, 128}, {16, 128}, {16, 32}};

struct bench_args {
    int32_t h_q, h_kv; /* bench plan */
    const char *strategies;
    int of_cpu, of_plan; /* an option of either that was given; 0: none */
    struct strategy_use *use;
    int32_t n_use;
    struct cmd_output out;
    const char *what;
    int64_t queries, tokens, d, threads, reps;
    struct tile_shape tile[MAX_TILES];
    int32_t n_tiles;
    struct err err;
};

/* ---- the yardstick ------------------------------------------------------------------------------------ */

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
                cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, m, n, d, 1, q + r0 * d, d, k + t0 * d, d,
                            0, s, n);
                cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, m, d, n, 1, s, n, v + t0 * d, d,
                            t0 > 0 ? 1 : 0, o, d);
            }
        }
    }
}

/* ---- one shape ---------------------------------------------------------------------------------------- */

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

static bool time_tile(const struct bench_args *a, const struct kernel *kernel, const struct problem *p,
                      const struct nform *nf, struct tile_shape tile, struct timing *out, struct err *e)
{
    struct plan *plan = one_group(nf, tile);
    struct output *o = output_new(p);
    int64_t stride = (int64_t)tile.m * (tile.n + p->heads.d);
    float *scratch = xaligned((size_t)(stride * a->threads), sizeof *scratch);
    double *kernel_s = xcalloc((size_t)a->reps, sizeof *kernel_s),
           *gemm_s = xcalloc((size_t)a->reps, sizeof *gemm_s),
           *ratio = xcalloc((size_t)a->reps, sizeof *ratio);
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
    free(ratio);
    free(kernel_s);
    free(gemm_s);
    free(scratch);
    output_free(o);
    plan_free(plan);
    return good;
}

/* ---- the command -------------------------------------------------------------------------------------- */

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

static const char *const columns[] = {"tile",    "queries",           "tokens",      "d",
                                      "threads", "kernel_gflops",     "gemm_gflops", "ratio",
                                      "reps",    "blas_compiled_for", "cpu",         NULL};

static bool bench_cpu(const struct bench_args *a, struct printer *t, struct err *e)
{
    struct tree *tree = tree_new(1, (int32_t)a->queries);
    tree->len[0] = a->tokens;
    for (int32_t i = 0; i < tree->n_queries; i++)
        tree->query[i].upto = a->tokens;
    struct problem_spec spec = {.heads = {1, 1, (int32_t)a->d, DT_F32}, .page_size = 16, .seed = 1};
    struct problem *p = problem_new(tree, &spec, e);
    struct nform *nf = nform_new(tree);
    const struct kernel *kernel = kernel_find("cpu");
    CK(kernel);
    omp_set_num_threads((int)a->threads);
    double flops = 4.0 * (double)a->queries * (double)a->tokens * (double)a->d;
    char cpu[128];
    cpu_model(cpu, sizeof cpu);
    bool good = p != NULL;
    for (int32_t i = 0; i < a->n_tiles && good; i++) {
        struct timing x;
        char shape[32];
        good = time_tile(a, kernel, p, nf, a->tile[i], &x, e);
        if (!good)
            break;
        snprintf(shape, sizeof shape, "%dx%d", a->tile[i].m, a->tile[i].n);
        table_text(t, shape);
        table_i64(t, a->queries);
        table_i64(t, a->tokens);
        table_i64(t, a->d);
        table_i64(t, a->threads);
        table_f64(t, flops / x.kernel_s * 1e-9, 4);
        table_f64(t, flops / x.gemm_s * 1e-9, 4);
        table_f64(t, x.ratio, 3);
        table_i64(t, a->reps);
        table_text(t, openblas_get_corename());
        table_text(t, cpu);
        fflush(t->f);
    }
    nform_free(nf);
    problem_free(p);
    tree_free(tree);
    return good;
}

/* Those before KEY_REPS are of bench cpu, those behind of bench plan. */
enum { KEY_QUERIES = 0x100, KEY_TOKENS, KEY_DIM, KEY_THREADS, KEY_TILE, KEY_REPS, KEY_HEADS, KEY_STRATEGY };

static bool parse_tile(struct bench_args *a, const char *arg)
{
    char *copy = xstrdup(arg), *rest = copy, *first = text_next(&rest, 'x');
    int64_t m = 0, n = 0;
    bool good = first && rest && text_i64(first, "--tile rows", 1, 4096, &m, &a->err) &&
                text_i64(rest, "--tile tokens", 1, 4096, &n, &a->err);
    free(copy);
    if (!good)
        return err_set(&a->err, "--tile '%.40s' (expected ROWSxTOKENS, as in 64x128)", arg);
    if (a->n_tiles == MAX_TILES)
        return err_set(&a->err, "--tile given more than %d times", MAX_TILES);
    a->tile[a->n_tiles++] = (struct tile_shape){(int32_t)m, (int32_t)n};
    return true;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct bench_args *a = state->input;
    bool good = true;
    if (key >= KEY_QUERIES && key < KEY_REPS)
        a->of_cpu = key;
    else if (key > KEY_REPS && key <= KEY_STRATEGY)
        a->of_plan = key;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &a->out;
        return 0;
    case KEY_QUERIES:
        good = text_i64(arg, "--queries", 1, 1 << 20, &a->queries, &a->err);
        break;
    case KEY_TOKENS:
        good = text_i64(arg, "--tokens", 1, 1 << 20, &a->tokens, &a->err);
        break;
    case KEY_DIM:
        good = text_i64(arg, "--head-dim", 1, PROBLEM_MAX_D, &a->d, &a->err);
        break;
    case KEY_THREADS:
        good = text_i64(arg, "--threads", 1, 256, &a->threads, &a->err);
        break;
    case KEY_REPS:
        good = text_i64(arg, "--reps", 1, MAX_REPS, &a->reps, &a->err);
        break;
    case KEY_HEADS:
        good = text_heads(arg, &a->h_q, &a->h_kv, &a->err);
        break;
    case KEY_STRATEGY:
        a->strategies = arg;
        break;
    case KEY_TILE:
        good = parse_tile(a, arg);
        break;
    case ARGP_KEY_ARG:
        if (a->what)
            return ARGP_ERR_UNKNOWN;
        a->what = arg;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return good ? 0 : EINVAL;
}

static const struct argp argp = {
    .options =
        (const struct argp_option[]){
            {.doc = "What is computed:", .group = 1},
            {"queries", KEY_QUERIES, "N", 0, "cpu: queries, all of which see all tokens (1024)", 1},
            {"tokens", KEY_TOKENS, "N", 0, "cpu: tokens, in consecutive slots (2048)", 1},
            {"head-dim", KEY_DIM, "D", 0, "cpu: elements of a head (128)", 1},
            {"d", KEY_DIM, NULL, OPTION_ALIAS, NULL, 1},
            {"tile", KEY_TILE, "MxN", 0, "cpu: rows x tokens of a tile; may be given several times", 1},
            {.doc = "How it is timed:", .group = 2},
            {"threads", KEY_THREADS, "N", 0, "cpu: threads of both the kernel and the products (all cores)",
             2},
            {"reps", KEY_REPS, "N", 0, "turns, of which the medians are printed (21)", 2},
            {"heads", KEY_HEADS, "Q/KV", 0, "plan: query heads / KV heads (32/8)", 2},
            {"strategy", KEY_STRATEGY, "LIST", 0, "plan: only these: NAME[:K=V,..],.. (default: all)", 2},
            {0},
        },
    .parser = parse,
    .args_doc = "cpu|plan|gpu",
    .doc =
        "How near the CPU kernel comes to the machine's matrix products: one head, fp32, every query sees "
        "every "
        "token, so attention is a product Q K^T, a softmax, and a product P V, tile by tile."
        "\vkernel_gflops counts 4 x queries x tokens x d operations over the kernel's whole time; "
        "gemm_gflops the same "
        "over the time of the two products alone, same tiles, taking turns with the kernel. A ratio of 1 "
        "would mean "
        "that softmax, masks, merging and bookkeeping cost nothing.\n"
        "bench plan: planning time of every strategy on one core (the thread's own clock): a decode step of "
        "the embedded reasoning trace (the mean of 20); the level tree "
        "1,4,16,64,256,1024; random trees (each node hangs on any earlier one, in order of creation), "
        "shallow ones (the same in ten levels, numbered level by level as tree files are) and single "
        "chains, of 10,000 and 100,000 nodes. Strategies and sizes take turns, ten plans of the small "
        "tree and "
        "one of the large; printed are the shortest times of --reps turns, and as growth the median of "
        "the turns' ratios (10 is linear). Strategies with dense masks or an exact search are timed on "
        "the first two only.\n"
        "  treeattn bench cpu --threads 2 --tile 64x128\n"
        "  treeattn bench plan --reps 5 --strategy pat,treeattn\n"
        "bench gpu has options of its own: treeattn bench gpu --help",
    .children = (const struct argp_child[]){{&cmd_output_argp, 0, NULL, 0}, {0}},
};

int cmd_bench(int argc, char **argv)
{
    struct bench_args a = {.queries = 1024,
                           .tokens = 2048,
                           .d = 128,
                           .threads = omp_get_max_threads(),
                           .reps = 21,
                           .h_q = 32,
                           .h_kv = 8};
    struct err *e = &a.err;
    struct outfile out;
    int gpu = bench_gpu_word(argc, argv);
    if (gpu > 0) {
        memmove(argv + 2, argv + 1, (size_t)(gpu - 1) * sizeof *argv);
        argv[1] = (char *)"bench gpu";
        return cmd_bench_gpu(argc - 1, argv + 1);
    }
    if (!cmd_parse(&argp, argc, argv, &a, e))
        return cmd_error(e);
    bool plans = a.what && strcmp(a.what, "plan") == 0;
    if (!a.what || (!plans && strcmp(a.what, "cpu") != 0)) {
        err_set(e, "bench '%.40s' (expected cpu, plan or gpu; see treeattn bench --help)",
                a.what ? a.what : "");
        return cmd_error(e);
    }
    if (!plans && a.of_plan) {
        err_set(e, "bench cpu: --%s is for bench plan (expected none: one group of one head is timed)",
                cmd_option(&argp, a.of_plan)->name);
        return cmd_error(e);
    }
    if (plans && a.of_cpu) {
        err_set(e, "bench plan: --%s is for bench cpu (expected --heads, --strategy or --reps)",
                cmd_option(&argp, a.of_cpu)->name);
        return cmd_error(e);
    }
    if (plans && !case_strategies(a.strategies, &a.use, &a.n_use, e))
        return cmd_error(e);
    if (a.n_tiles == 0) {
        a.n_tiles = sizeof usual_tiles / sizeof usual_tiles[0];
        memcpy(a.tile, usual_tiles, sizeof usual_tiles);
    }
    if (!outfile_open(&out, a.out.path, e)) {
        free(a.use);
        return cmd_error(e);
    }
    static const int32_t width[] = {8, 8, 7, 4, 8, 14, 12, 6, 5, 18, 0};
    struct printer t = {.f = out.f, .style = a.out.style, .column = columns, .aligned = true, .width = width};
    if (plans) {
        t.column = bench_plan_columns;
        t.width = bench_plan_width;
    }
    bool good = true;
    if (plans)
        good = bench_plan(&t, a.use, a.n_use, a.h_q, a.h_kv, a.reps, e);
    else
        good = bench_cpu(&a, &t, e);
    table_end(&t);
    free(a.use);
    good = outfile_close(&out, good, e) && good;
    return good ? EXIT_GOOD : cmd_error(e);
}
