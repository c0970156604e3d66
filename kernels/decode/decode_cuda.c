/*
 * decode_cuda.c - the decode step on a GPU: products by cuBLASLt, attention by cuda_run, the kernels of decode.cu between
 * them, all on one stream, the host up to DECODE_AHEAD steps ahead.
 *
 * With spec.graph, a step's kernels are captured as one CUDA graph, which updates that of the step before where it has
 * the same kernels: launched so, they follow each other faster than from a stream, and the host spends half the time; but
 * none starts before all have been captured, which only pays where the host is ahead.
 *
 * Everything that changes from step to step travels in two copies from pinned memory (the plan; tokens, positions, slots
 * and page table) in front of the step's kernels. Products take n rounded up to a few sizes, so that the same kernels serve
 * a tree that grows; the rows between hold leftovers that nobody reads.
 */
#include "kernels/decode/decode_launch.h"
#include "kernels/cuda/host/gemm.h"
#include "kernels/cuda/host/graph.h"
#include "kernels/decode/nccl.h"
#include "kernels/cuda/host/upload.h"
#include "kernels/decode/decode.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SERIES_KV UINT64_C(0x6B76000000) /* of decoder_fill, as on the CPU: K of layer 0 */

enum product { QKV, O, GATE_UP, DOWN, HEAD, N_PRODUCTS };
enum { TRIAL_LAYERS = 4, STEPS = DECODE_AHEAD + 1, HOPPER = 90 };

struct events {
    cudaEvent_t begin, end;  /* around the step's kernels */
    cudaEvent_t move, moved; /* around the moves in front of it */
    cudaEvent_t *part;       /* [2 layers] around attention */
};

/* Of a step under way. */
struct under_way {
    struct decode_time time; /* what the host knows of it */
    bool parts, moves;
};

struct kept {
    void *q, *o, *lse;
};

/* The products of a step of n rows, or a few less. */
struct product_size {
    int32_t n;
    struct gemm *gemm[N_PRODUCTS];
};

struct cuda_decoder {
    struct decoder base;
    cudaStream_t stream;
    void *weights, *k, *v, *small; /* small: activations and the like, in one piece */
    double *frequency;
    float *x, *turn, *logits, *lse;
    void *h, *qkv, *q, *o, *wide, *mlp;
    struct heads_part heads, outputs; /* decoder_heads, decoder_outputs */
    int32_t ffn, words;
    struct nccl *nccl;         /* a card's place among the others; NULL: it is alone */
    bool split;                /* and it has a part of the tree: */
    void *parts;               /* of all cards: O and LSE of each */
    struct cuda_upload arrays; /* of a step */
    struct cuda_plan *plan;
    void *workspace, *held; /* partial results; tokens on the move */
    int64_t workspace_cap, held_cap;
    struct cuda_upload slots; /* of moves */
    int64_t n_sizes, cap_sizes;
    struct product_size *size;
    struct kept *kept; /* [layers] */
    struct events event[STEPS];
    struct under_way step[STEPS];
    int64_t n_steps, n_waited;
    bool moves;              /* since the last step */
    struct cuda_graph graph; /* of the last step that ran as one */
};

static struct cuda_decoder *self(struct decoder *d)
{
    return (struct cuda_decoder *)d;
}

static enum cuda_half half_of(enum dtype t)
{
    return t == DT_F16 ? CUDA_F16 : CUDA_BF16;
}

/* ---- weights ---------------------------------------------------------------------------------------- */

/* Tensors follow each other in the order of enum weight, a per-layer tensor's layers side by side. Bytes before w, which
 * may be N_WEIGHTS: of all. */
static int64_t weights_before(const struct decoder_spec *spec, int w)
{
    int64_t at = 0;
    for (int i = 0; i < w; i++) {
        struct weight_part s = decoder_weight(spec, (enum weight)i);
        at += cuda_align(s.rows * s.cols * 2) * (s.whole.per_layer ? spec->model->layers : 1);
    }
    return at;
}

static int64_t weight_at(const struct decoder_spec *spec, enum weight w, int32_t layer)
{
    struct weight_part s = decoder_weight(spec, w);
    return weights_before(spec, w) + layer * cuda_align(s.rows * s.cols * 2);
}

static const void *weight_of(const struct cuda_decoder *d, enum weight w, int32_t layer)
{
    return (char *)d->weights + weight_at(&d->base.spec, w, layer);
}

static bool make_weight(struct cuda_decoder *d, enum weight w, int32_t layer, struct err *e)
{
    const struct decoder_spec *s = &d->base.spec;
    struct weight_part x = decoder_weight(s, w);
    char *to = (char *)weight_of(d, w, layer);
    bool good = true;
    for (int32_t i = 0; i < x.n && good; i++) {
        struct decode_random r = {.seed = s->seed,
                                  .series = model_series(w, layer),
                                  .first = x.row0[i] * x.whole.cols + x.col,
                                  .cols = x.cols,
                                  .stride = x.whole.cols,
                                  .mean = x.whole.mean,
                                  .spread = x.whole.spread};
        good = cuda_ok(decode_launch_random(s->dtype == DT_BF16, to, x.n_rows[i] * x.cols, &r, d->stream),
                       "random weights", e);
        to += x.n_rows[i] * x.cols * 2;
    }
    return good;
}

static bool make_weights(struct cuda_decoder *d, struct err *e)
{
    const struct decoder_spec *s = &d->base.spec;
    d->weights = gpu_alloc(weights_before(s, N_WEIGHTS), e);
    bool good = d->weights;
    for (int w = 0; w < N_WEIGHTS && good; w++) {
        struct weight_part x = decoder_weight(s, (enum weight)w);
        for (int32_t l = 0; l < (x.whole.per_layer ? s->model->layers : 1) && good && x.rows > 0; l++)
            good = make_weight(d, (enum weight)w, l, e);
    }
    return good;
}

/* ---- products --------------------------------------------------------------------------------------- */

/* n rounded up to where products get kernels of their own. */
static int32_t size_of(int32_t n)
{
    int32_t step = n <= 128 ? 16 : n <= 256 ? 32 : 128;
    return (int32_t)ceil_div(n, step) * step;
}

static const enum weight product_weight[N_PRODUCTS] = {W_QKV, W_O, W_GATE_UP, W_DOWN, W_HEAD};

static void free_products(struct product_size *s)
{
    for (int i = 0; i < N_PRODUCTS; i++)
        gemm_free(s->gemm[i]);
}

/* Those of so many rows, or NULL: they are to be made. */
static const struct product_size *find_products(const struct cuda_decoder *d, int32_t size)
{
    for (int64_t i = 0; i < d->n_sizes; i++)
        if (d->size[i].n == size)
            return &d->size[i];
    return NULL;
}

/* All cards compute Q of all heads, and each attends with its own: they must be the same bits, so the first card chooses. */
static bool agree(const struct decoder_spec *s, struct gemm *g)
{
    char own[GEMM_CHOICE], all[CARDS_MOST][GEMM_CHOICE];
    gemm_choice(g, own);
    if (!link_gather(s->link, s->rank, own, all, GEMM_CHOICE))
        return false;
    gemm_take(g, all[0]);
    return true;
}

static bool make_products(struct cuda_decoder *d, int32_t size, struct err *e)
{
    const struct decoder_spec *s = &d->base.spec;
    const void *x[N_PRODUCTS] = {d->h, d->o, d->h, d->mlp, d->h};
    void *y[N_PRODUCTS] = {d->qkv, d->x, d->wide, d->x, d->logits};
    struct product_size new = {.n = size};
    bool good = true;
    for (int i = 0; i < N_PRODUCTS && good; i++) {
        struct weight_part w = decoder_weight(s, product_weight[i]);
        const void *layers[TRIAL_LAYERS];
        int32_t n_layers = w.whole.per_layer ? (int32_t)min_i64(TRIAL_LAYERS, s->model->layers) : 1;
        for (int32_t l = 0; l < n_layers; l++)
            layers[l] = weight_of(d, product_weight[i], l);
        struct gemm_shape shape = {.rows = w.rows,
                                   .cols = w.cols,
                                   .n = size,
                                   .t = half_of(s->dtype),
                                   .f32 = i == O || i == DOWN || i == HEAD,
                                   .add = (i == O || i == DOWN) && s->rank == 0};
        struct gemm_trial trial = {.w = layers, .n_w = n_layers, .x = x[i], .y = y[i], .stream = d->stream};
        new.gemm[i] = gemm_new(&shape, &trial, e);
        good = new.gemm[i] != NULL && (i != QKV || !d->split || !s->link || agree(s, new.gemm[i]));
    }
    if (!good) {
        free_products(&new);
        return false;
    }
    d->size = xgrow(d->size, &d->cap_sizes, d->n_sizes + 1, sizeof *d->size);
    d->size[d->n_sizes++] = new;
    return true;
}

static bool multiply(const struct cuda_decoder *d, struct gemm *const *gemm, enum product i, int32_t layer,
                     const void *x, void *y, struct err *e)
{
    return gemm_run(gemm[i], weight_of(d, product_weight[i], layer), x, y, d->stream, e);
}

/* ---- open and close --------------------------------------------------------------------------------- */

/* O and LSE of n queries, all heads, over a part of the tree. */
static int64_t part_bytes(const struct cuda_decoder *d, int64_t n)
{
    return cuda_align(n * d->heads.n_q * (2 * d->base.spec.model->d + 4));
}

static int64_t all_parts(const struct cuda_decoder *d, int64_t n)
{
    return d->base.spec.n_cards * part_bytes(d, n);
}

static bool make_small(struct cuda_decoder *d, struct err *e)
{
    const struct model *m = d->base.spec.model;
    int64_t n = size_of(d->base.spec.max_queries), q = (int64_t)d->heads.n_q * m->d,
            kv = (int64_t)d->heads.n_kv * m->d;
    const struct {
        void *to;
        int64_t bytes;
    } part[] = {
        {&d->x, n * m->hidden * 4}, {&d->h, n * m->hidden * 2}, {&d->qkv, n * (q + 2 * kv) * 2},
        {&d->q, n * q * 2},         {&d->o, n * q * 2},         {&d->lse, n * d->heads.n_q * 4},
        {&d->wide, n * d->ffn * 4}, {&d->mlp, n * d->ffn * 2},  {&d->logits, n * d->words * 4},
        {&d->turn, n * m->d * 4},   {&d->frequency, m->d * 4},  {&d->parts, d->split ? all_parts(d, n) : 0},
    };
    enum { PARTS = sizeof part / sizeof part[0] };
    int64_t at[PARTS + 1] = {0};
    for (int i = 0; i < PARTS; i++)
        at[i + 1] = at[i] + cuda_align(part[i].bytes);
    d->small = gpu_alloc(at[PARTS], e);
    if (!d->small || !gpu_fill(d->small, 0, at[PARTS], d->stream, e))
        return false;
    for (int i = 0; i < PARTS; i++)
        *(void **)part[i].to = (char *)d->small + at[i];
    double frequency[PROBLEM_MAX_D];
    for (int32_t i = 0; i < m->d / 2; i++)
        frequency[i] = pow(m->rope_theta, -2.0 * i / m->d) / M_PI;
    return cuda_ok(cudaStreamSynchronize(d->stream), "activations", e) &&
           gpu_upload(d->frequency, frequency, m->d / 2 * (int64_t)sizeof *frequency, e);
}

static bool make_events(struct cuda_decoder *d, struct err *e)
{
    int32_t parts = 2 * d->base.spec.model->layers;
    for (int i = 0; i < STEPS; i++) {
        struct events *v = &d->event[i];
        cudaEvent_t *const all[] = {&v->begin, &v->end, &v->move, &v->moved};
        v->part = xcalloc((size_t)parts, sizeof(cudaEvent_t));
        for (size_t j = 0; j < sizeof all / sizeof all[0]; j++)
            if (!cuda_ok(cudaEventCreate(all[j]), "event", e))
                return false;
        for (int32_t j = 0; j < parts; j++)
            if (!cuda_ok(cudaEventCreate(&v->part[j]), "event", e))
                return false;
    }
    return true;
}

static void free_events(struct cuda_decoder *d)
{
    for (int i = 0; i < STEPS; i++) {
        struct events *v = &d->event[i];
        cudaEvent_t all[] = {v->begin, v->end, v->move, v->moved};
        for (size_t j = 0; j < sizeof all / sizeof all[0]; j++)
            gpu_event_free(all[j]);
        for (int32_t j = 0; v->part && j < 2 * d->base.spec.model->layers; j++)
            gpu_event_free(v->part[j]);
        free(v->part);
    }
}

static void decoder_free(struct decoder *base)
{
    struct cuda_decoder *d = self(base);
    if (d->stream)
        cudaStreamSynchronize(d->stream);
    for (int64_t i = 0; i < d->n_sizes; i++)
        free_products(&d->size[i]);
    free(d->size);
    for (int32_t l = 0; d->kept && l < base->spec.model->layers; l++) {
        gpu_free(d->kept[l].q);
        gpu_free(d->kept[l].o);
        gpu_free(d->kept[l].lse);
    }
    free(d->kept);
    cuda_plan_free(d->plan);
    upload_free(&d->arrays);
    upload_free(&d->slots);
    free_events(d);
    gpu_free(d->weights);
    gpu_free(d->k);
    gpu_free(d->v);
    gpu_free(d->small);
    gpu_free(d->workspace);
    gpu_free(d->held);
    graph_free(&d->graph);
    gpu_stream_free(d->stream);
    free(d);
}

static bool fits(const struct decoder_spec *s, struct err *e)
{
    struct cuda_caps caps;
    struct decoder_bytes b = decoder_bytes(s);
    const struct model *m = s->model;
    int64_t need = b.weights + b.pool + b.rest;
    if (s->dtype != DT_BF16 && s->dtype != DT_F16)
        return err_set(e, "the decode step on a GPU takes bf16 and f16, not %s", dtype_name[s->dtype]);
    if ((m->d != 64 && m->d != 128) || m->hidden % 8 != 0 || decoder_share(s, m->ffn) % 8 != 0)
        return err_missing(
            e,
            "the decode step on a GPU takes heads of 64 and 128 elements and widths that are multiples of 8, "
            "not %d, %d and %d",
            m->d, m->hidden, decoder_share(s, m->ffn));
    if (!cuda_caps(&caps, e))
        return false;
    return need <= caps.mem_free ||
           err_missing(
               e, "%s in %s needs %.1f GiB (weights %.1f, KV pool %.1f, activations %.1f), %.1f GiB are free",
               m->name, dtype_name[s->dtype], (double)need / 0x1p30, (double)b.weights / 0x1p30,
               (double)b.pool / 0x1p30, (double)b.rest / 0x1p30, (double)caps.mem_free / 0x1p30);
}

static bool ready(struct err *e)
{
    struct cuda_caps caps;
    return cuda_caps(&caps, e);
}

static struct decoder *open_decoder(const struct decoder_spec *s, struct err *e)
{
    if (!fits(s, e))
        return NULL;
    struct cuda_decoder *d = xcalloc(1, sizeof *d);
    struct cuda_options opt = {.arch = s->arch};
    int64_t pool = s->model->layers * decoder_layer_elements(s) * 2;
    d->base.spec = *s;
    d->heads = decoder_heads(s);
    d->outputs = decoder_outputs(s);
    d->ffn = decoder_share(s, s->model->ffn);
    d->words = decoder_share(s, s->model->vocab);
    d->nccl = s->link ? s->link->card[s->rank] : NULL;
    d->split = s->card && s->parallel != PARALLEL_TENSOR;
    d->kept = xcalloc((size_t)s->model->layers, sizeof *d->kept);
    d->plan = cuda_plan_empty(&opt);
    d->stream = gpu_stream_new(e);
    bool good = d->stream && make_events(d, e) && make_small(d, e) && make_weights(d, e) &&
                (d->k = gpu_alloc(pool, e)) && (d->v = gpu_alloc(pool, e)) &&
                gpu_fill(d->k, 0xFF, pool, d->stream, e) && gpu_fill(d->v, 0xFF, pool, d->stream, e);
    if (good)
        good = make_products(d, size_of(s->max_queries), e) && gpu_sync(e);
    if (good)
        return &d->base;
    decoder_free(&d->base);
    return NULL;
}

static bool supports(const struct decoder *d, const struct problem *p, const struct plan *plan, char *why)
{
    struct cuda_options opt = {.arch = d->spec.arch};
    return cuda_supports(p, plan, &opt, why);
}

/* ---- a step ----------------------------------------------------------------------------------------- */

/* With room for what the steps to come add. */
static bool grow(void **dev, int64_t *cap, int64_t bytes, struct err *e)
{
    return gpu_grow(dev, cap, bytes, bytes + bytes / 4, e);
}

struct step_arrays {
    int64_t token, position, slot, pages, bytes; /* where in the upload */
};

static bool upload_step(struct cuda_decoder *d, const struct decode_step *s, struct step_arrays *at,
                        struct err *e)
{
    int64_t n = s->p->tree->n_queries, pages = s->p->page_off[s->p->tree->n_nodes];
    *at = (struct step_arrays){.position = cuda_align(n * 4)};
    at->slot = at->position + cuda_align(n * 4);
    at->pages = at->slot + cuda_align(n * 8);
    at->bytes = at->pages + cuda_align(pages * 4);
    char *host = upload_begin(&d->arrays, at->bytes, e);
    if (!host)
        return false;
    memcpy(host + at->token, s->token, (size_t)n * 4);
    memcpy(host + at->position, s->position, (size_t)n * 4);
    memcpy(host + at->slot, s->slot, (size_t)n * 8);
    if (pages > 0)
        memcpy(host + at->pages, s->p->page_table, (size_t)pages * 4);
    return upload_end(&d->arrays, at->bytes, d->stream, e);
}

/* Room for what a step keeps, before its kernels are captured: what a step before found no room for, too. */
static bool make_kept(struct cuda_decoder *d, struct err *e)
{
    const struct decoder_spec *s = &d->base.spec;
    int64_t rows = (int64_t)s->max_queries * d->heads.n_q;
    for (int32_t l = 0; l < s->model->layers; l++) {
        struct kept *k = &d->kept[l];
        if (!(k->q || (k->q = gpu_alloc(rows * s->model->d * 2, e))) ||
            !(k->o || (k->o = gpu_alloc(rows * s->model->d * 2, e))) ||
            !(k->lse || (k->lse = gpu_alloc(rows * 4, e))))
            return false;
    }
    return true;
}

static bool keep(struct cuda_decoder *d, int32_t layer, int64_t n, struct err *e)
{
    const struct model *m = d->base.spec.model;
    const struct kept *k = &d->kept[layer];
    return gpu_copy(k->q, d->q, n * d->heads.n_q * m->d * 2, d->stream, e) &&
           gpu_copy(k->o, d->o, n * d->outputs.n_q * m->d * 2, d->stream, e) &&
           gpu_copy(k->lse, d->lse, n * d->outputs.n_q * 4, d->stream, e);
}

static bool record(const struct cuda_decoder *d, cudaEvent_t event, struct err *e)
{
    unsigned flags = d->base.spec.graph ? cudaEventRecordExternal : cudaEventRecordDefault;
    return cuda_ok(cudaEventRecordWithFlags(event, d->stream, flags), "event", e);
}

/* Every card's O and LSE to every card; then those of the heads that this one multiplies, merged, into d->o and d->lse. */
static bool merge_cards(struct cuda_decoder *d, int64_t n, struct err *e)
{
    const struct decoder_spec *s = &d->base.spec;
    struct decode_merge_args a = {.cards = s->n_cards,
                                  .n = (int32_t)n,
                                  .h_q = d->heads.n_q,
                                  .h0 = d->outputs.q0,
                                  .n_h = d->outputs.n_q,
                                  .d = s->model->d,
                                  .bf16 = s->dtype == DT_BF16,
                                  .bytes = part_bytes(d, n),
                                  .parts = d->parts,
                                  .o = d->o,
                                  .lse = d->lse};
    return (!d->nccl || nccl_gather(d->nccl, d->parts, a.bytes, d->stream, e)) &&
           cuda_ok(decode_launch_merge(&a, d->stream), "merge of cards", e);
}

/* The sum of what each card has of the residual stream. */
static bool sum_cards(struct cuda_decoder *d, int64_t n, struct err *e)
{
    return !d->nccl || nccl_sum(d->nccl, d->x, n * d->base.spec.model->hidden, d->stream, e);
}

/* Without attention O is Q, of the heads that this card multiplies. */
static const void *q_as_o(struct cuda_decoder *d, int64_t n, struct err *e)
{
    size_t head = (size_t)d->base.spec.model->d * 2, row = (size_t)d->heads.n_q * head,
           own = (size_t)d->outputs.n_q * head;
    if (d->split && !cuda_ok(cudaMemcpy2DAsync(d->o, own, (char *)d->q + (size_t)d->outputs.q0 * head, row,
                                               own, (size_t)n, cudaMemcpyDeviceToDevice, d->stream),
                             "copy", e))
        return NULL;
    return d->split ? d->o : d->q;
}

static bool attend(struct cuda_decoder *d, const struct decode_step *s, const struct events *v, int32_t layer,
                   const int32_t *page_table, struct err *e)
{
    int64_t at = layer * decoder_layer_elements(&d->base.spec) * 2;
    struct cuda_args a = {.q = d->q,
                          .k = (char *)d->k + at,
                          .v = (char *)d->v + at,
                          .page_table = page_table,
                          .o = d->o,
                          .lse = d->lse,
                          .workspace = d->workspace};
    int64_t n = s->p->tree->n_queries;
    if (d->split) {
        a.o = (char *)d->parts + d->base.spec.rank * part_bytes(d, n);
        a.lse = (float *)((char *)a.o + n * d->heads.n_q * d->base.spec.model->d * 2);
    }
    return (!s->parts || record(d, v->part[2 * layer], e)) && cuda_run(d->plan, &a, d->stream, e) &&
           (!d->split || merge_cards(d, n, e)) && (!s->parts || record(d, v->part[2 * layer + 1], e));
}

static bool run_layers(struct cuda_decoder *d, const struct decode_step *s, const struct events *v,
                       const struct decode_args *a, const int32_t *page_table, struct err *e)
{
    const struct model *m = d->base.spec.model;
    cudaStream_t st = d->stream;
    struct gemm *const *g = find_products(d, size_of(a->n))->gemm;
    const void *o;
    bool good = cuda_ok(decode_launch_begin(a, weight_of(d, W_EMBED, 0), st), "embedding", e);
    for (int32_t l = 0; l < m->layers && good; l++) {
        int64_t pool = l * decoder_layer_elements(&d->base.spec) * 2;
        good = cuda_ok(decode_launch_norm(a, weight_of(d, W_ATTN_NORM, l), st), "norm", e) &&
               multiply(d, g, QKV, l, d->h, d->qkv, e) &&
               cuda_ok(decode_launch_heads(a, m->qk_norm ? weight_of(d, W_Q_NORM, l) : NULL,
                                           m->qk_norm ? weight_of(d, W_K_NORM, l) : NULL, (char *)d->k + pool,
                                           (char *)d->v + pool, st),
                       "heads", e) &&
               (!s->plan || attend(d, s, v, l, page_table, e)) && (!s->keep || keep(d, l, a->n, e)) &&
               (o = s->plan ? d->o : q_as_o(d, a->n, e)) && multiply(d, g, O, l, o, d->x, e) &&
               sum_cards(d, a->n, e) &&
               cuda_ok(decode_launch_norm(a, weight_of(d, W_MLP_NORM, l), st), "norm", e) &&
               multiply(d, g, GATE_UP, l, d->h, d->wide, e) &&
               cuda_ok(decode_launch_gate(a, st), "gate", e) && multiply(d, g, DOWN, l, d->mlp, d->x, e) &&
               sum_cards(d, a->n, e);
    }
    return good && cuda_ok(decode_launch_norm(a, weight_of(d, W_FINAL_NORM, 0), st), "norm", e) &&
           multiply(d, g, HEAD, 0, d->h, d->logits, e);
}

static bool run_graph(struct cuda_decoder *d, const struct decode_step *s, const struct events *v,
                      const struct decode_args *a, const int32_t *page_table, struct err *e)
{
    cudaGraph_t graph = NULL;
    if (!cuda_ok(cudaStreamBeginCapture(d->stream, cudaStreamCaptureModeThreadLocal), "capture", e))
        return false;
    bool good = run_layers(d, s, v, a, page_table, e);
    if (!cuda_ok(cudaStreamEndCapture(d->stream, &graph), "capture", e))
        return false;
    good = good && graph_follow(&d->graph, graph, e);
    cudaGraphDestroy(graph);
    return good && cuda_ok(cudaEventRecord(v->begin, d->stream), "event", e) &&
           cuda_ok(cudaGraphLaunch(d->graph.exec, d->stream), "graph", e);
}

static bool run_stream(struct cuda_decoder *d, const struct decode_step *s, const struct events *v,
                       const struct decode_args *a, const int32_t *page_table, struct err *e)
{
    return cuda_ok(cudaEventRecord(v->begin, d->stream), "event", e) && run_layers(d, s, v, a, page_table, e);
}

static bool step(struct decoder *base, const struct decode_step *s, struct err *e)
{
    struct cuda_decoder *d = self(base);
    const struct model *m = base->spec.model;
    struct events *v = &d->event[d->n_steps % STEPS];
    struct under_way *u = &d->step[d->n_steps % STEPS];
    struct step_arrays at = {0};
    struct cuda_caps caps;
    int32_t n = s->p->tree->n_queries;
    double begin = now_s(), laid_out;
    if ((!find_products(d, size_of(n)) && !make_products(d, size_of(n), e)) || !cuda_card(&caps, e) ||
        (s->keep && !make_kept(d, e)))
        return false;
    *u = (struct under_way){.parts = s->parts && s->plan, .moves = d->moves};
    double before = now_s();
    if (s->plan && (!cuda_plan_update(d->plan, s->p, s->plan, d->stream, e) ||
                    !grow(&d->workspace, &d->workspace_cap, cuda_workspace(d->plan), e)))
        return false;
    laid_out = now_s() - before;
    if (!upload_step(d, s, &at, e))
        return false;
    /* Memory is had and products are made: from here on no call waits for this GPU, which may wait for another. */
    if (base->spec.link && !link_meet(base->spec.link))
        return false;
    char *arrays = d->arrays.dev;
    struct decode_args a = {
        .n = n,
        .hidden = m->hidden,
        .h_q = d->heads.n_q,
        .h_kv = d->heads.n_kv,
        .d = m->d,
        .ffn = d->ffn,
        .eps = (float)m->norm_eps,
        .bf16 = base->spec.dtype == DT_BF16,
        .early = caps.arch >= HOPPER && (base->spec.arch == 0 || base->spec.arch >= HOPPER),
        .token = (int32_t *)(arrays + at.token),
        .position = (int32_t *)(arrays + at.position),
        .slot = (int64_t *)(arrays + at.slot),
        .frequency = d->frequency,
        .x = d->x,
        .turn = d->turn,
        .h = d->h,
        .qkv = d->qkv,
        .q = d->q,
        .wide = d->wide,
        .mlp = d->mlp,
    };
    const int32_t *pages = (int32_t *)(arrays + at.pages);
    if (!(base->spec.graph ? run_graph(d, s, v, &a, pages, e) : run_stream(d, s, v, &a, pages, e)) ||
        !cuda_ok(cudaEventRecord(v->end, d->stream), "event", e))
        return false;
    d->moves = false;
    u->time = (struct decode_time){
        .layout_s = laid_out,
        .enqueue_s = now_s() - begin - laid_out,
        .upload_bytes = at.bytes + (s->plan ? cuda_plan_bytes(d->plan) : 0),
    };
    d->n_steps++;
    return true;
}

static bool finish(struct decoder *base, struct err *e)
{
    struct cuda_decoder *d = self(base);
    return cuda_ok(cudaEventSynchronize(d->event[(d->n_steps - 1) % STEPS].end), "a kernel of a step", e);
}

static bool seconds_between(cudaEvent_t first, cudaEvent_t second, double *s, struct err *e)
{
    bool good = gpu_event_us(first, second, s, e);
    *s *= 1e-6;
    return good;
}

static bool wait(struct decoder *base, struct decode_time *t, struct err *e)
{
    struct cuda_decoder *d = self(base);
    const struct events *v = &d->event[d->n_waited % STEPS],
                        *last = &d->event[(d->n_waited + STEPS - 1) % STEPS];
    const struct under_way *u = &d->step[d->n_waited % STEPS];
    bool first = d->n_waited++ == 0;
    *t = u->time;
    bool good = seconds_between(v->begin, v->end, &t->whole_s, e) &&
                (first || seconds_between(last->end, v->begin, &t->idle_s, e)) &&
                (!u->moves || seconds_between(v->move, v->moved, &t->move_s, e));
    for (int32_t l = 0; l < base->spec.model->layers && good && u->parts; l++) {
        double layer = 0;
        good = seconds_between(v->part[2 * l], v->part[2 * l + 1], &layer, e);
        t->attention_s += layer;
    }
    t->idle_s = fmax(0, t->idle_s - t->move_s);
    return good && cuda_ok(cudaGetLastError(), "a kernel of the step", e);
}

/* ---- KV and results --------------------------------------------------------------------------------- */

/* Slots from[n], then to[n], to d->slots; the time of moves begins, if it has not yet. */
static bool send_slots(struct cuda_decoder *d, int64_t n, const int64_t *from, const int64_t *to,
                       struct err *e)
{
    struct events *v = &d->event[d->n_steps % STEPS];
    int64_t *slots = upload_begin(&d->slots, 2 * n * (int64_t)sizeof *slots, e);
    if (!slots)
        return false;
    memcpy(slots, from, (size_t)n * sizeof *slots);
    memcpy(slots + n, to, (size_t)n * sizeof *slots);
    if ((!d->moves && !cuda_ok(cudaEventRecord(v->move, d->stream), "event", e)) ||
        !upload_end(&d->slots, 2 * n * (int64_t)sizeof *slots, d->stream, e))
        return false;
    d->moves = true;
    return true;
}

static bool move(struct decoder *base, int64_t n, const int64_t *from, const int64_t *to, struct err *e)
{
    struct cuda_decoder *d = self(base);
    const struct model *m = base->spec.model;
    int64_t token = (int64_t)d->heads.n_kv * m->d * 2, layer = decoder_layer_elements(&base->spec) * 2;
    if (!grow(&d->held, &d->held_cap, 2 * n * m->layers * token, e) || !send_slots(d, n, from, to, e))
        return false;
    for (int back = 0; back < 2; back++)
        for (int i = 0; i < 2; i++)
            if (!cuda_ok(decode_launch_move(i ? d->v : d->k, layer, m->layers, token, n,
                                            (int64_t *)d->slots.dev + (back ? n : 0),
                                            (char *)d->held + i * n * m->layers * token, back, d->stream),
                         "move of K and V", e))
                return false;
    return cuda_ok(cudaEventRecord(d->event[d->n_steps % STEPS].moved, d->stream), "event", e);
}

static bool copy(struct decoder *base, int64_t n, const int64_t *from, const int64_t *to, struct err *e)
{
    struct cuda_decoder *d = self(base);
    const struct model *m = base->spec.model;
    int64_t token = (int64_t)d->heads.n_kv * m->d * 2, layer = decoder_layer_elements(&base->spec) * 2;
    bool good = send_slots(d, n, from, to, e);
    for (int i = 0; i < 2 && good; i++)
        good =
            cuda_ok(decode_launch_copy(i ? d->v : d->k, layer, m->layers, token, n, d->slots.dev, d->stream),
                    "copy of K and V", e);
    return good && cuda_ok(cudaEventRecord(d->event[d->n_steps % STEPS].moved, d->stream), "event", e);
}

static bool fill(struct decoder *base, int64_t first, int64_t n, struct err *e)
{
    struct cuda_decoder *d = self(base);
    const struct decoder_spec *s = &base->spec;
    int64_t token = (int64_t)d->heads.n_kv * s->model->d, all = (int64_t)s->model->h_kv * s->model->d;
    bool good = true;
    for (int32_t l = 0; l < 2 * s->model->layers && good; l++) {
        struct decode_random r = {.seed = s->seed,
                                  .series = SERIES_KV + (uint64_t)l,
                                  .first = first * all + d->heads.kv0 * s->model->d,
                                  .cols = token,
                                  .stride = all,
                                  .spread = 1};
        good = cuda_ok(decode_launch_random(s->dtype == DT_BF16,
                                            (char *)(l % 2 ? d->v : d->k) +
                                                (l / 2 * decoder_layer_elements(s) + first * token) * 2,
                                            n * token, &r, d->stream),
                       "random K and V", e);
    }
    return good;
}

static bool logits(struct decoder *base, double *out, int64_t n, struct err *e)
{
    struct cuda_decoder *d = self(base);
    int64_t total = n * d->words;
    float *x = xcalloc((size_t)total, sizeof *x);
    bool good = gpu_download(x, d->logits, total * 4, e);
    for (int64_t i = 0; i < total; i++)
        out[i] = (double)x[i];
    free(x);
    return good;
}

static bool kept(struct decoder *base, int32_t layer, int64_t n, void *q, void *o, double *lse, struct err *e)
{
    struct cuda_decoder *d = self(base);
    const struct model *m = base->spec.model;
    int64_t rows = n * d->outputs.n_q;
    CK(d->kept[layer].q);
    float *x = xcalloc((size_t)rows, sizeof *x);
    bool good = gpu_download(q, d->kept[layer].q, n * d->heads.n_q * m->d * 2, e) &&
                gpu_download(o, d->kept[layer].o, rows * m->d * 2, e) &&
                gpu_download(x, d->kept[layer].lse, rows * 4, e);
    for (int64_t i = 0; i < rows; i++)
        lse[i] = (double)x[i];
    free(x);
    return good;
}

static bool kv(struct decoder *base, int32_t layer, int64_t first, int64_t n, void *k, void *v, struct err *e)
{
    struct cuda_decoder *d = self(base);
    int64_t token = (int64_t)d->heads.n_kv * base->spec.model->d * 2,
            at = layer * decoder_layer_elements(&base->spec) * 2 + first * token;
    return gpu_sync(e) && gpu_download(k, (char *)d->k + at, n * token, e) &&
           gpu_download(v, (char *)d->v + at, n * token, e);
}

static bool put(struct decoder *base, int32_t layer, int64_t slot, const void *k, const void *v,
                struct err *e)
{
    struct cuda_decoder *d = self(base);
    int64_t token = (int64_t)d->heads.n_kv * base->spec.model->d * 2,
            at = layer * decoder_layer_elements(&base->spec) * 2 + slot * token;
    return gpu_sync(e) && gpu_upload((char *)d->k + at, k, token, e) &&
           gpu_upload((char *)d->v + at, v, token, e);
}

/* ---- one of several GPUs ------------------------------------------------------------------------------ */

/* The calling thread drives GPU `rank` from now on. */
static bool join(struct cards_link *link, int32_t rank, struct err *e)
{
    int here = 0;
    if (!cuda_ok(cudaGetDeviceCount(&here), "device query", e))
        return false;
    if (link->n > here)
        return err_missing(e, "%d GPUs are wanted, %d %s here", link->n, here, here == 1 ? "is" : "are");
    if (!cuda_ok(cudaSetDevice(rank), "choice of a GPU", e) || (rank == 0 && !nccl_name(link->id, e)) ||
        !link_meet(link))
        return false;
    link->card[rank] = nccl_join(link->id, link->n, rank, e);
    return link->card[rank] != NULL;
}

static void leave(struct cards_link *link, int32_t rank)
{
    nccl_leave(link->card[rank], link->broken);
}

const struct decoder_type decoder_cuda = {
    .name = "cuda",
    .about = "on a GPU: products by cuBLAS, attention by the kernel cuda",
    .ready = ready,
    .supports = supports,
    .open = open_decoder,
    .close = decoder_free,
    .step = step,
    .finish = finish,
    .wait = wait,
    .move = move,
    .copy = copy,
    .fill = fill,
    .logits = logits,
    .kept = kept,
    .kv = kv,
    .put = put,
    .join = join,
    .leave = leave,
};
