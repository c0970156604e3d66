#include "tests/verify/fake_gpu.h"
#include "kernels/cuda/host/exact.h"
#include "kernels/cuda/probe/chain.h"
#include "kernels/decode/decode.h"
#include "ref/rng.h"
#include "tests/stand_in/chain.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct fake_gpu fake_gpu = {.memory = INT64_C(2) << 30};

/* ---- the device -------------------------------------------------------------------------------------------- */

/* In front of each allocation. */
enum { HEAD = 256 };

bool cuda_built(void)
{
    return true;
}

bool cuda_caps(struct cuda_caps *c, struct err *e)
{
    *c = (struct cuda_caps){.name = "fake",
                            .arch = 90,
                            .sms = 2,
                            .driver = 13000,
                            .runtime = 13000,
                            .mem_free = fake_gpu.memory - fake_gpu.allocated,
                            .mem_total = fake_gpu.memory};
    return fake_gpu.there || err_missing(e, "no GPU here (the fake one is off)");
}

void *gpu_alloc(int64_t bytes, struct err *e)
{
    if (fake_gpu.allocated + bytes > fake_gpu.memory) {
        err_missing(e, "the GPU is out of memory");
        return NULL;
    }
    uint8_t *p = xaligned((size_t)(HEAD + bytes), 1);
    memcpy(p, &bytes, sizeof bytes);
    fake_gpu.allocated += bytes;
    fake_gpu.live++;
    return p + HEAD;
}

void gpu_free(void *p)
{
    int64_t bytes;
    if (!p)
        return;
    memcpy(&bytes, (uint8_t *)p - HEAD, sizeof bytes);
    fake_gpu.allocated -= bytes;
    fake_gpu.live--;
    free((uint8_t *)p - HEAD);
}

bool gpu_upload(void *dev, const void *host, int64_t bytes, struct err *e)
{
    (void)e;
    memcpy(dev, host, (size_t)bytes);
    return true;
}

bool gpu_download(void *host, const void *dev, int64_t bytes, struct err *e)
{
    (void)e;
    memcpy(host, dev, (size_t)bytes);
    return true;
}

static uint8_t *copied;

bool gpu_copy(void *to, const void *from, int64_t bytes, void *stream, struct err *e)
{
    (void)stream, (void)e;
    memcpy(to, from, (size_t)bytes);
    copied = to;
    return true;
}

bool gpu_fill(void *dev, int byte, int64_t bytes, void *stream, struct err *e)
{
    (void)stream, (void)e;
    fake_gpu.fills += bytes == INT64_C(256) << 20;
    if (bytes != INT64_C(256) << 20) /* that one is about time */
        memset(dev, byte, (size_t)bytes);
    return true;
}

bool gpu_sync(struct err *e)
{
    (void)e;
    return true;
}

/* Anything that can be told from NULL. */
static void *token(void)
{
    return xmalloc(1);
}

void *gpu_stream_new(struct err *e)
{
    (void)e;
    return token();
}

void gpu_stream_free(void *stream)
{
    free(stream);
}

void *gpu_event_new(struct err *e)
{
    (void)e;
    return xmalloc(sizeof(double));
}

void gpu_event_free(void *event)
{
    free(event);
}

bool gpu_event_record(void *event, void *stream, struct err *e)
{
    double now = now_s() + 1e-6 * fake_gpu.read_us;
    (void)stream, (void)e;
    memcpy(event, &now, sizeof now);
    return true;
}

/* Nothing takes less than a microsecond. */
bool gpu_event_us(void *first, void *second, double *us, struct err *e)
{
    double a, b;
    (void)e;
    memcpy(&a, first, sizeof a);
    memcpy(&b, second, sizeof b);
    *us = 1 + 1e6 * (b - a);
    return true;
}

/* But for 256 MB as fast as if there were nothing to do: the floors of tests are low. */
bool gpu_read(int way, const void *dev, int64_t bytes, void *scratch_64k, void *stream, struct err *e)
{
    (void)way, (void)dev, (void)scratch_64k, (void)stream, (void)e;
    if (bytes == INT64_C(256) << 20) {
        fake_gpu.reads++;
        fake_gpu.read_us += fake_gpu.slow_reads > 0 ? 200 : 100;
        fake_gpu.slow_reads -= fake_gpu.slow_reads > 0;
    }
    return true;
}

bool gpu_gemm(enum dtype t, int32_t n, const void *a, const void *b, void *c, void *stream, struct err *e)
{
    (void)t, (void)n, (void)a, (void)b, (void)c, (void)stream, (void)e;
    return true;
}

/* ---- plans and graphs -------------------------------------------------------------------------------------- */

struct cuda_plan {
    struct plan *plan;
    struct problem shape;
};

bool cuda_supports(const struct problem *p, const struct plan *plan, const struct cuda_options *opt,
                   char *why)
{
    (void)plan, (void)opt;
    if ((p->heads.dtype == DT_F16 || p->heads.dtype == DT_BF16) && (p->heads.d == 64 || p->heads.d == 128))
        return true;
    snprintf(why, 256, "head size %d in %s (expected 64 or 128 in f16 or bf16)", p->heads.d,
             dtype_name[p->heads.dtype]);
    return false;
}

struct cuda_plan *cuda_plan_new(const struct problem *p, const struct plan *plan,
                                const struct cuda_options *opt, struct err *e)
{
    (void)opt, (void)e;
    struct cuda_plan *cp = xcalloc(1, sizeof *cp);
    *cp = (struct cuda_plan){.plan = plan_copy(plan), .shape = *p};
    return cp;
}

void cuda_plan_free(struct cuda_plan *cp)
{
    if (!cp)
        return;
    plan_free(cp->plan);
    free(cp);
}

int64_t cuda_workspace(const struct cuda_plan *cp)
{
    return 8 + 16 * cp->plan->n_slots;
}

int64_t cuda_plan_bytes(const struct cuda_plan *cp)
{
    return cp->plan->n_groups;
}

/* Faults beyond the result itself: where a run wrote besides. */
static void go_astray(const struct cuda_plan *cp, const struct cuda_args *a, const struct output *out)
{
    uint8_t *o = a->o, *work = a->workspace;
    if (fake_gpu.fault == FAKE_WRITES_BEHIND_O)
        o[out->n_rows * out->d * dtype_size[out->dtype]] = 0;
    if (fake_gpu.fault == FAKE_WRITES_BEFORE_WORKSPACE)
        work[-1] = 0;
    if (fake_gpu.fault == FAKE_WRITES_BEHIND_WORKSPACE)
        work[cuda_workspace(cp)] = 0;
    if (fake_gpu.fault == FAKE_WRITES_K)
        *(uint8_t *)a->k ^= 1;
    if (fake_gpu.fault == FAKE_WRITES_COPY)
        *copied ^= 1;
    if (fake_gpu.fault == FAKE_CHANGES && fake_gpu.runs % 2)
        a->lse[0] += 1;
    if (fake_gpu.fault == FAKE_LEAVES_ROW)
        memset(&a->lse[out->n_rows - 1], 0xFF, sizeof *a->lse); /* as its memory is filled */
    if (fake_gpu.fault == FAKE_OLD_PARTIALS && work[0] == 0xFF) /* there are none */
        a->lse[0] = NAN;
    if (fake_gpu.fault == FAKE_OLD_PARTIALS)
        work[0] = 0;
}

static bool run_now(const struct cuda_plan *cp, const struct cuda_args *a, struct err *e)
{
    struct problem p = cp->shape;
    struct ledger counted = {0};
    p.q = (void *)a->q;
    p.k = (void *)a->k;
    p.v = (void *)a->v;
    p.page_table = (int32_t *)a->page_table;
    struct output out = {.dtype = p.heads.dtype,
                         .n_rows = (int64_t)p.tree->n_queries * p.heads.h_q,
                         .d = p.heads.d,
                         .o = a->o,
                         .lse = a->lse};
    bool good = kernel_find("cpu")->run(&p, cp->plan, &out, &counted, e);
    fake_gpu.runs++;
    if (good)
        go_astray(cp, a, &out);
    return good;
}

struct graph {
    const struct cuda_plan *cp; /* NULL: of the probe */
    struct cuda_args args;
    struct cuda_chain_args chain;
    enum gpu_chain_way way;
};

static void *capturing; /* the stream */
static struct graph captured;

bool cuda_run(struct cuda_plan *cp, const struct cuda_args *a, void *stream, struct err *e)
{
    if (!stream || stream != capturing)
        return run_now(cp, a, e);
    captured = (struct graph){.cp = cp, .args = *a};
    return true;
}

/* Only ever captured. */
bool gpu_chain_enqueue(enum gpu_chain_way way, const struct cuda_chain_args *a, void *stream, struct err *e)
{
    (void)e;
    CK(stream && stream == capturing);
    captured = (struct graph){.chain = *a, .way = way};
    return true;
}

static void run_chain(const struct graph *g)
{
    fake_gpu.chains++;
    fake_gpu.read_us += fake_gpu.chain_us;
    if (fake_gpu.fault != FAKE_NO_CHAIN)
        chain_on_host(g->way, &g->chain);
}

bool gpu_capture_begin(void *stream, struct err *e)
{
    (void)e;
    capturing = stream;
    return true;
}

void *gpu_capture_end(void *stream, struct err *e)
{
    (void)stream, (void)e;
    struct graph *g = xmalloc(sizeof *g);
    *g = captured;
    capturing = NULL;
    return g;
}

bool gpu_graph_run(void *graph, void *stream, struct err *e)
{
    const struct graph *g = graph;
    (void)stream;
    if (!g->cp) {
        run_chain(g);
        return true;
    }
    bool slow = fake_gpu.replays >= fake_gpu.slow_from && fake_gpu.replays < fake_gpu.slow_to;
    fake_gpu.read_us += slow ? 50000 : 0;
    fake_gpu.replays++;
    if (fake_gpu.fault == FAKE_OLD_OUTPUT && (slow || fake_gpu.slow_to == 0))
        return true;
    bool good = run_now(g->cp, &g->args, e);
    if (fake_gpu.fault == FAKE_GRAPH_WRITES_K)
        *(uint8_t *)g->args.k ^= 1;
    return good;
}

void gpu_graph_free(void *graph)
{
    free(graph);
}

/* ---- data and the exact answer ----------------------------------------------------------------------------- */

bool gpu_random(enum dtype t, void *dev, int64_t n, uint64_t seed, uint64_t series, void *stream,
                struct err *e)
{
    (void)stream, (void)e;
    n = min_i64(n, 1 << 22); /* what is larger here only feeds gpu_read and gpu_gemm */
    for (int64_t i = 0; i < n; i++)
        dtype_store(t, dev, i, rng_bell(seed, series, (uint64_t)i));
    return true;
}

bool gpu_same(const void *a, const void *b, int64_t bytes, void *flag, bool *same, struct err *e)
{
    (void)flag, (void)e;
    *same = memcmp(a, b, (size_t)bytes) == 0;
    return true;
}

static void truth_row(const struct gpu_truth *x, int64_t row)
{
    int64_t q = row / x->heads.h_q, head = row % x->heads.h_q / heads_gqa(&x->heads),
            n = x->first[q + 1] - x->first[q];
    const int32_t *slot = x->slot + x->first[q];
    double *logit = xcalloc((size_t)n, sizeof *logit), top = -INFINITY, sum = 0;
    double *o = x->o + row * x->heads.d, *abs_o = x->abs_o + row * x->heads.d,
           *rms_o = x->rms_o + row * x->heads.d;
    x->logit[row] = x->abs_dot[row] = 0;
    for (int64_t j = 0; j < n; j++) {
        double dot = 0, mag = 0;
        for (int32_t c = 0; c < x->heads.d; c++) {
            double y =
                dtype_load(x->heads.dtype, x->q, row * x->heads.d + c) *
                dtype_load(x->heads.dtype, x->k, (slot[j] * (int64_t)x->heads.h_kv + head) * x->heads.d + c);
            dot += y;
            mag += fabs(y);
        }
        logit[j] = x->scale * dot;
        top = fmax(top, logit[j]);
        x->logit[row] = fmax(x->logit[row], fabs(logit[j]));
        x->abs_dot[row] = fmax(x->abs_dot[row], x->scale * mag);
    }
    for (int64_t j = 0; j < n; j++)
        sum += exp(logit[j] - top);
    for (int32_t c = 0; c < x->heads.d; c++) {
        o[c] = abs_o[c] = rms_o[c] = 0;
        for (int64_t j = 0; j < n; j++) {
            double y =
                exp(logit[j] - top) / sum *
                dtype_load(x->heads.dtype, x->v, (slot[j] * (int64_t)x->heads.h_kv + head) * x->heads.d + c);
            o[c] += y;
            abs_o[c] += fabs(y);
            rms_o[c] += y * y;
        }
        rms_o[c] = sqrt(rms_o[c]);
    }
    x->lse[row] = top + log(sum) + (fake_gpu.fault == FAKE_WRONG_TRUTH && row == 0 ? 1e-8 : 0);
    free(logit);
}

bool gpu_truth(const struct gpu_truth *x, void *stream, struct err *e)
{
    (void)stream, (void)e;
    for (int64_t row = 0; row < (int64_t)x->n_queries * x->heads.h_q; row++)
        truth_row(x, row);
    return true;
}

/* ---- the decode step: the fake device has none ------------------------------------------------------------- */

static bool no_decoder(struct err *e)
{
    return err_missing(e, "no decode step on the fake GPU");
}

const struct decoder_type decoder_cuda = {.name = "cuda", .about = "none", .ready = no_decoder};
