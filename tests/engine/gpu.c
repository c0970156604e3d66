/*
 * gpu.c - what an engine does on a GPU with libtreeattn.so and libtreeattn-cuda.so: block tables to packed plans, which are run once
 * and from a CUDA graph; O and LSE against exact attention in double. A program outside of the tree:
 *
 *     cc gpu.c $(pkg-config --cflags --libs treeattn-cuda treeattn) -lcudart -lm -o gpu && ./gpu [CASES [SEED]]
 *
 * Words that are wrong are refused, or make another plan; they do no harm on the host.
 */
#include <treeattn_cuda.h>

#include <cuda_runtime_api.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 24, WIDE = 96, FLIPS = 400 };

static uint64_t state;

static uint32_t draw(uint32_t n)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((state >> 33) % n);
}

static int fail(const char *what, const char *why)
{
    printf("gpu: %s: %s\n", what, why);
    exit(1);
}

static void must(cudaError_t status)
{
    if (status != cudaSuccess)
        fail("CUDA", cudaGetErrorString(status));
}

/* ---- numbers ---------------------------------------------------------------------------------------------- */

enum type { F16, BF16, E4M3 };

static double value(enum type t, const void *at, int64_t i)
{
    if (t == BF16) {
        uint32_t bits = (uint32_t)((const uint16_t *)at)[i] << 16;
        float x;
        memcpy(&x, &bits, sizeof x);
        return x;
    }
    uint32_t b = t == F16 ? ((const uint16_t *)at)[i] : ((const uint8_t *)at)[i];
    int fraction = t == F16 ? 10 : 3, bias = t == F16 ? 15 : 7, sign = t == F16 ? 15 : 7;
    int e = (int)(b >> fraction & (t == F16 ? 31 : 15)), f = (int)(b & ((1u << fraction) - 1));
    double x = e == 0 ? ldexp(f, 1 - bias - fraction) : ldexp(f + (1 << fraction), e - bias - fraction);
    return b >> sign ? -x : x;
}

/* Numbers of about 1, of any sign. */
static void fill(enum type t, void *at, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        uint32_t r = draw(1u << 16), sign = draw(2);
        if (t == E4M3)
            ((uint8_t *)at)[i] = (uint8_t)(sign << 7 | (40 + r % 20)); /* 0.25 to 1.4 */
        else
            ((uint16_t *)at)[i] =
                (uint16_t)(sign << 15 | (t == F16 ? 0x3400 + r % 0x0A00 : 0x3E80 + r % 0x0150));
    }
}

static int64_t width(enum type t)
{
    return t == E4M3 ? 1 : 2;
}

/* ---- a case ----------------------------------------------------------------------------------------------- */

struct step {
    int32_t requests, queries, page, heads, kv_heads, d, pool;
    enum type q, kv;
    int32_t table[MOST][WIDE], lengths[MOST], asks[MOST];
    float k_scale[8], v_scale[8];
    void *host_q, *host_k, *host_v, *host_o;
    float *host_lse;
    struct ta_cuda_io io;
};

static void *uploaded(const void *host, size_t bytes)
{
    void *dev;
    must(cudaMalloc(&dev, bytes ? bytes : 16));
    must(cudaMemcpy(dev, host, bytes, cudaMemcpyHostToDevice));
    return dev;
}

/* Requests that begin with common pages, some with more of them. */
static void draw_step(struct step *s)
{
    static const int32_t pages[] = {1, 16, 64}, heads[][2] = {{4, 4}, {8, 2}, {16, 1}};
    memset(s, 0, sizeof *s);
    s->requests = 1 + (int32_t)draw(MOST);
    s->page = pages[draw(3)];
    s->heads = heads[draw(3)][0];
    s->kv_heads = s->heads == 4 ? 4 : s->heads == 8 ? 2 : 1;
    s->d = 64 << draw(2);
    s->q = (enum type)draw(2);
    s->kv = draw(4) == 0 ? E4M3 : s->q;
    s->pool = 512;
    int32_t free_page = (int32_t)draw(100), common = (int32_t)draw(WIDE / 2), first = free_page, group[4];
    free_page += common;
    for (int i = 0; i < 4; i++, free_page += 8)
        group[i] = free_page;
    for (int32_t r = 0; r < s->requests; r++) {
        int32_t n = 0, more = (int32_t)draw(9), own = 1 + (int32_t)draw(9), g = (int32_t)draw(4);
        for (int32_t i = 0; i < common; i++)
            s->table[r][n++] = first + i;
        for (int32_t i = 0; i < more && i < 8; i++)
            s->table[r][n++] = group[g] + i;
        for (int32_t i = 0; i < own; i++)
            s->table[r][n++] = free_page++;
        s->lengths[r] = n * s->page - (int32_t)draw((uint32_t)s->page);
        s->asks[r] = draw(5) == 0 && s->lengths[r] > 4 ? 3 : 1;
        s->queries += s->asks[r];
    }
    int64_t slots = (int64_t)s->pool * s->page * s->kv_heads * s->d, rows = (int64_t)s->queries * s->heads;
    s->host_q = malloc((size_t)(rows * s->d) * 2);
    s->host_o = malloc((size_t)(rows * s->d) * 2);
    s->host_lse = malloc((size_t)rows * 4);
    s->host_k = malloc((size_t)(slots * width(s->kv)));
    s->host_v = malloc((size_t)(slots * width(s->kv)));
    fill(s->q, s->host_q, rows * s->d);
    fill(s->kv, s->host_k, slots);
    fill(s->kv, s->host_v, slots);
    for (int i = 0; i < s->kv_heads; i++) {
        s->k_scale[i] = s->kv == E4M3 ? 0.5f + (float)draw(8) / 8 : 1;
        s->v_scale[i] = s->kv == E4M3 ? 0.5f + (float)draw(8) / 8 : 1;
    }
    s->io = (struct ta_cuda_io){.size = sizeof s->io,
                                .q = uploaded(s->host_q, (size_t)(rows * s->d) * 2),
                                .k = uploaded(s->host_k, (size_t)(slots * width(s->kv))),
                                .v = uploaded(s->host_v, (size_t)(slots * width(s->kv))),
                                .o = uploaded(s->host_o, (size_t)(rows * s->d) * 2),
                                .lse = uploaded(s->host_lse, (size_t)rows * 4)};
    if (s->kv == E4M3) {
        s->io.k_scale = uploaded(s->k_scale, sizeof s->k_scale);
        s->io.v_scale = uploaded(s->v_scale, sizeof s->v_scale);
    }
}

static void drop_step(struct step *s)
{
    const void *dev[] = {s->io.q,       s->io.k,       s->io.v,     s->io.o,        s->io.lse,
                         s->io.k_scale, s->io.v_scale, s->io.words, s->io.workspace};
    for (size_t i = 0; i < sizeof dev / sizeof dev[0]; i++)
        if (dev[i])
            must(cudaFree((void *)dev[i]));
    free(s->host_q);
    free(s->host_k);
    free(s->host_v);
    free(s->host_o);
    free(s->host_lse);
}

/* One row of exact attention: over the first `sees` tokens of request r. Whether what came out is near it. */
static int row_is_right(const struct step *s, int32_t r, int64_t q, int32_t head, int32_t sees,
                        const char **what)
{
    static double p[WIDE * 64];
    double max = -INFINITY, sum = 0;
    int32_t kv = head / (s->heads / s->kv_heads);
    int64_t row = q * s->heads + head;
    for (int32_t t = 0; t < sees; t++) {
        int64_t at = (((int64_t)s->table[r][t / s->page] * s->page + t % s->page) * s->kv_heads + kv) * s->d;
        double dot = 0;
        for (int32_t e = 0; e < s->d; e++)
            dot += value(s->q, s->host_q, row * s->d + e) * value(s->kv, s->host_k, at + e);
        p[t] = dot * (double)s->k_scale[kv] / sqrt(s->d);
        max = fmax(max, p[t]);
    }
    for (int32_t t = 0; t < sees; t++)
        sum += p[t] = exp(p[t] - max);
    *what = "LSE";
    if (!(fabs((double)s->host_lse[row] - (max + log(sum))) < 1e-3))
        return 0;
    *what = "O";
    for (int32_t e = 0; e < s->d; e += 7) {
        double o = 0;
        for (int32_t t = 0; t < sees; t++)
            o += p[t] * value(s->kv, s->host_v,
                              (((int64_t)s->table[r][t / s->page] * s->page + t % s->page) * s->kv_heads +
                               kv) * s->d +
                                  e);
        o *= (double)s->v_scale[kv] / sum;
        if (!(fabs(value(s->q, s->host_o, row * s->d + e) - o) < (s->q == F16 ? 4e-3 : 1.5e-2)))
            return 0;
    }
    return 1;
}

static void check_step(struct step *s, const char *strategy)
{
    int64_t rows = (int64_t)s->queries * s->heads, q = 0;
    must(cudaMemcpy(s->host_o, s->io.o, (size_t)(rows * s->d) * 2, cudaMemcpyDeviceToHost));
    must(cudaMemcpy(s->host_lse, s->io.lse, (size_t)rows * 4, cudaMemcpyDeviceToHost));
    for (int32_t r = 0; r < s->requests; r++)
        for (int32_t i = s->asks[r] - 1; i >= 0; i--, q++)
            for (int32_t h = 0; h < s->heads; h++) {
                const char *what;
                if (row_is_right(s, r, q, h, s->lengths[r] - i, &what))
                    continue;
                printf("gpu: %s of request %d, head %d is wrong (%s, %d requests, pages of %d, %d/%d heads "
                       "of %d)\n",
                       what, r, h, strategy, s->requests, s->page, s->heads, s->kv_heads, s->d);
                exit(1);
            }
    must(cudaMemsetAsync(s->io.o, 0xFF, (size_t)(rows * s->d) * 2, NULL));
    must(cudaMemsetAsync(s->io.lse, 0xFF, (size_t)rows * 4, NULL));
    must(cudaStreamSynchronize(NULL));
}

/* Bits of the words turned round: refused with a sentence, or another plan. */
static void turn_bits(struct ta_cuda *g, const struct ta_shape *shape, const struct ta_packed *plan,
                      int64_t *refused)
{
    int32_t *words = malloc((size_t)plan->n_words * sizeof *words);
    for (int i = 0; i < FLIPS; i++) {
        memcpy(words, plan->words, (size_t)plan->n_words * sizeof *words);
        words[draw(i % 2 ? TA_HEADER : (uint32_t)plan->n_words)] ^= (int32_t)(1u << draw(32));
        int code = ta_cuda_plan(g, shape, NULL, words, plan->n_words, NULL);
        *refused += code == TA_BAD_INPUT;
        if (code != TA_DONE && !ta_cuda_error(g)[0])
            fail("a plan with a bit turned round", "it is refused without a word");
    }
    if (ta_cuda_plan(g, shape, NULL, words, plan->n_words / 2, NULL) != TA_BAD_INPUT)
        fail("half of a plan", "it is taken");
    free(words);
    must(cudaDeviceSynchronize());
}

int main(int argc, char **argv)
{
    static const char *const strategies[] = {
        "auto",       "pat",     "cascade",  "fasttree",        "deft-flatten", "deft-node",
        "flashinfer", "relay++", "treeattn", "flash-attention", "hydragen"};
    static struct step s;
    int cases = argc > 1 ? atoi(argv[1]) : 40, ran = 0, not_applied = 0;
    int64_t refused = 0;
    state = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    struct ta_limits limits = {.size = sizeof limits, .requests = MOST, .queries = 4 * MOST, .pages = 8192};
    struct ta_ctx *c = ta_open(&limits);
    struct ta_cuda *g = ta_cuda_open();
    cudaStream_t stream;
    if (!c || !g) {
        printf("gpu: no GPU here\n");
        return 3;
    }
    must(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    for (int i = 0; i < cases; i++) {
        const char *strategy = strategies[(size_t)i % (sizeof strategies / sizeof strategies[0])];
        draw_step(&s);
        struct ta_batch batch = {.size = sizeof batch,
                                 .page_size = s.page,
                                 .n_requests = s.requests,
                                 .pages = s.table[0],
                                 .stride = WIDE,
                                 .lengths = s.lengths,
                                 .queries = s.asks};
        struct ta_shape shape = {.size = sizeof shape,
                                 .n_heads = s.heads,
                                 .n_kv_heads = s.kv_heads,
                                 .head_dim = s.d,
                                 .dtype = s.q == F16 ? "f16" : "bf16",
                                 .kv = s.kv == E4M3 ? "e4m3" : NULL};
        struct ta_packed plan = {.size = sizeof plan};
        int code = ta_tree(c, &batch) == TA_DONE ? ta_plan(c, &shape, strategy, &plan) : TA_BROKEN;
        if (code != TA_DONE && code != TA_DOES_NOT_APPLY)
            fail(strategy, ta_error(c));
        if (code == TA_DONE)
            code = ta_cuda_plan(g, &shape, NULL, plan.words, plan.n_words, stream);
        if (code != TA_DONE && code != TA_DOES_NOT_APPLY)
            fail(strategy, ta_cuda_error(g));
        if (code == TA_DONE) {
            int64_t work = ta_cuda_workspace(g);
            void *scratch;
            must(cudaMalloc(&scratch, (size_t)work + 256));
            s.io.workspace = scratch;
            s.io.words = uploaded(plan.words, (size_t)plan.n_words * sizeof *plan.words);
            if (ta_cuda_run(g, &s.io, stream) != TA_DONE)
                fail(strategy, ta_cuda_error(g));
            must(cudaStreamSynchronize(stream));
            check_step(&s, strategy);
            cudaGraph_t graph;
            cudaGraphExec_t exec;
            must(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
            if (ta_cuda_run(g, &s.io, stream) != TA_DONE)
                fail(strategy, ta_cuda_error(g));
            must(cudaStreamEndCapture(stream, &graph));
            must(cudaGraphInstantiate(&exec, graph, 0));
            must(cudaGraphLaunch(exec, stream));
            must(cudaStreamSynchronize(stream));
            check_step(&s, strategy);
            must(cudaGraphExecDestroy(exec));
            must(cudaGraphDestroy(graph));
            ran++;
            if (i % 10 == 0)
                turn_bits(g, &shape, &plan, &refused);
        } else {
            not_applied++;
        }
        drop_step(&s);
    }
    must(cudaStreamDestroy(stream));
    ta_cuda_close(g);
    ta_close(c);
    printf("gpu: %d packed plans run and replayed, all right; %d do not apply; %lld of those with a bit "
           "turned round refused\n",
           ran, not_applied, (long long)refused);
    return ran > 0 ? 0 : 1;
}
