/*
 * decode_cpu.c - the decode step in plain C, attention by any kernel that runs on the host. For small models: checks
 * want every strategy through whole traces, without a GPU.
 *
 * Products and norms in double. What a GPU stores in the storage type is rounded to it here too: inputs and results of
 * products, Q, K and V before and after the rotation, O; the residual stream is not.
 */
#include "kernels/decode/decode.h"
#include "kernels/decode/link.h"
#include "ref/lse.h"
#include "ref/rng.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { AT_ONCE = 8 };                    /* queries that a product takes together */
#define MOST_BYTES (INT64_C(4) << 30)    /* of weights as double: more is not meant for a CPU */
#define SERIES_KV UINT64_C(0x6B76000000) /* of decoder_fill: K of layer 0 */

struct cpu_decoder {
    struct decoder base;
    double *weight[N_WEIGHTS]; /* all layers */
    void *k, *v;               /* [layers][slots][h_kv][d] */
    double *logits;            /* [n][vocab] of the last step */
    struct {
        void *q, *o;
        double *lse;
    } * kept; /* [layers] */
    struct decode_time time[DECODE_AHEAD];
    int32_t n_times;
    double move_s;
};

static const double *weight_of(const struct cpu_decoder *d, enum weight w, int32_t layer)
{
    struct weight_part s = decoder_weight(&d->base.spec, w);
    return d->weight[w] + layer * s.rows * s.cols;
}

static struct cpu_decoder *self(struct decoder *d)
{
    return (struct cpu_decoder *)d;
}

static void cpu_close(struct decoder *base)
{
    struct cpu_decoder *d = self(base);
    for (int w = 0; w < N_WEIGHTS; w++)
        free(d->weight[w]);
    for (int32_t l = 0; d->kept && l < base->spec.model->layers; l++) {
        free(d->kept[l].q);
        free(d->kept[l].o);
        free(d->kept[l].lse);
    }
    free(d->kept);
    free(d->k);
    free(d->v);
    free(d->logits);
    free(d);
}

/* A layer of a weight, or of a card's part of it, into to[rows][cols]. */
static void make_weight(const struct decoder_spec *s, enum weight w, int32_t layer, double *to)
{
    struct weight_part x = decoder_weight(s, w);
    void *stored = xcalloc((size_t)x.cols, (size_t)dtype_size[s->dtype]);
    for (int32_t i = 0; i < x.n; i++)
        for (int64_t r = x.row0[i]; r < x.row0[i] + x.n_rows[i]; r++, to += x.cols) {
            model_weights(s->model, w, layer, s->seed, s->dtype, r * x.whole.cols + x.col, x.cols, stored);
            dtype_to_double(s->dtype, stored, 0, to, x.cols);
        }
    free(stored);
}

static struct decoder *cpu_open(const struct decoder_spec *s, struct err *e)
{
    const struct model *m = s->model;
    struct decoder_bytes bytes = decoder_bytes(s);
    if (model_weight_bytes(m, DT_F64) > MOST_BYTES || bytes.pool > MOST_BYTES) {
        err_missing(e, "%s wants %.1f GiB of weights and %.1f GiB of KV: too much for the CPU's decode step",
                    m->name, (double)model_weight_bytes(m, DT_F64) / 0x1p30, (double)bytes.pool / 0x1p30);
        return NULL;
    }
    struct cpu_decoder *d = xcalloc(1, sizeof *d);
    d->base.spec = *s;
    for (int w = 0; w < N_WEIGHTS; w++) {
        struct weight_part x = decoder_weight(s, (enum weight)w);
        int64_t n = x.rows * x.cols, layers = x.whole.per_layer ? m->layers : 1;
        d->weight[w] = xcalloc((size_t)(n * layers), sizeof(double));
        for (int32_t l = 0; l < layers; l++)
            make_weight(s, (enum weight)w, l, d->weight[w] + l * n);
    }
    int64_t n = m->layers * decoder_layer_elements(s);
    d->k = xcalloc((size_t)n, (size_t)dtype_size[s->dtype]);
    d->v = xcalloc((size_t)n, (size_t)dtype_size[s->dtype]);
    memset(d->k, 0xFF, (size_t)(n * dtype_size[s->dtype]));
    memset(d->v, 0xFF, (size_t)(n * dtype_size[s->dtype]));
    d->logits = xcalloc((size_t)s->max_queries * (size_t)decoder_share(s, m->vocab), sizeof *d->logits);
    d->kept = xcalloc((size_t)m->layers, sizeof *d->kept);
    return &d->base;
}

static bool cpu_supports(const struct decoder *d, const struct problem *p, const struct plan *plan, char *why)
{
    const struct kernel *k = d->spec.kernel ? d->spec.kernel : kernels[0];
    return !k->supports || k->supports(p, plan, why);
}

/* ---- the parts of a step ---------------------------------------------------------------------------- */

static void round_all(enum dtype t, double *x, int64_t n)
{
    for (int64_t i = 0; i < n && t != DT_F64; i++) {
        double stored;
        dtype_store(t, &stored, 0, x[i]);
        x[i] = dtype_load(t, &stored, 0);
    }
}

/* y[n][rows] = x[n][cols] W^T, rounded. */
static void product(enum dtype t, int64_t n, int64_t rows, int64_t cols, const double *w, const double *x,
                    double *y)
{
    double *columns = xcalloc((size_t)cols, AT_ONCE * sizeof *columns);
    for (int64_t q0 = 0; q0 < n; q0 += AT_ONCE) {
        int64_t nq = min_i64(AT_ONCE, n - q0);
        for (int64_t c = 0; c < cols; c++)
            for (int64_t q = 0; q < AT_ONCE; q++)
                columns[c * AT_ONCE + q] = q < nq ? x[(q0 + q) * cols + c] : 0;
        for (int64_t r = 0; r < rows; r++) {
            double sum[AT_ONCE] = {0};
            for (int64_t c = 0; c < cols; c++)
                for (int64_t q = 0; q < AT_ONCE; q++)
                    sum[q] += w[r * cols + c] * columns[c * AT_ONCE + q];
            for (int64_t q = 0; q < nq; q++)
                y[(q0 + q) * rows + r] = sum[q];
        }
    }
    free(columns);
    round_all(t, y, n * rows);
}

/* y = x / rms(x) * weight, for each of n rows; in place if y == x. */
static void norm(enum dtype t, int64_t n, int64_t stride, int32_t size, double eps, const double *weight,
                 const double *x, double *y)
{
    for (int64_t i = 0; i < n; i++) {
        double sum = 0;
        for (int32_t j = 0; j < size; j++)
            sum += x[i * stride + j] * x[i * stride + j];
        double scale = 1 / sqrt(sum / size + eps);
        for (int32_t j = 0; j < size; j++)
            y[i * stride + j] = x[i * stride + j] * scale * weight[j];
        round_all(t, y + i * stride, size);
    }
}

static void rotate(const struct model *m, enum dtype t, int32_t position, double *head)
{
    int32_t half = m->d / 2;
    for (int32_t i = 0; i < half; i++) {
        double angle = position * pow(m->rope_theta, -2.0 * i / m->d), c = cos(angle), s = sin(angle);
        double a = head[i], b = head[i + half];
        head[i] = a * c - b * s;
        head[i + half] = b * c + a * s;
    }
    round_all(t, head, m->d);
}

/* Q, K and V of one query: norms and rotation, then K and V to the pool and Q to its place. */
static void place_heads(struct cpu_decoder *d, int32_t layer, int32_t position, int64_t slot, double *qkv,
                        void *q, int64_t query)
{
    const struct model *m = d->base.spec.model;
    enum dtype t = d->base.spec.dtype;
    struct heads_part part = decoder_heads(&d->base.spec);
    int32_t heads = part.n_q + 2 * part.n_kv;
    for (int32_t h = 0; h < heads; h++) {
        double *x = qkv + (int64_t)h * m->d;
        bool is_q = h < part.n_q, is_v = h >= part.n_q + part.n_kv;
        if (m->qk_norm && !is_v)
            norm(t, 1, m->d, m->d, m->norm_eps, weight_of(d, is_q ? W_Q_NORM : W_K_NORM, layer), x, x);
        if (!is_v)
            rotate(m, t, position, x);
        void *to = is_q ? q : is_v ? d->v : d->k;
        int64_t at = is_q ? (query * part.n_q + h) * m->d
                          : layer * decoder_layer_elements(&d->base.spec) +
                                (slot * part.n_kv + (h - part.n_q) % part.n_kv) * m->d;
        for (int32_t i = 0; i < m->d; i++)
            dtype_store(t, to, at + i, x[i]);
    }
}

/* O and LSE of all heads over this card's part of the tree become those of the heads that it multiplies, over all of it. O is
 * rounded as it is stored. */
static bool merge_cards(struct cpu_decoder *d, int64_t n, double *o, double *lse)
{
    const struct decoder_spec *s = &d->base.spec;
    struct heads_part heads = decoder_heads(s), own = decoder_outputs(s);
    int64_t cols = s->model->d, rows = n * heads.n_q, part = rows * (cols + 1);
    double *mine = xcalloc((size_t)part, sizeof *mine),
           *all = xcalloc((size_t)(part * s->n_cards), sizeof *all);
    memcpy(mine, o, (size_t)(rows * cols) * sizeof *o);
    memcpy(mine + rows * cols, lse, (size_t)rows * sizeof *lse);
    bool good = link_gather(s->link, s->rank, mine, all, part * (int64_t)sizeof *all);
    for (int64_t i = 0; i < n * own.n_q && good; i++) {
        int64_t row = i / own.n_q * heads.n_q + own.q0 + i % own.n_q;
        memset(o + i * cols, 0, (size_t)cols * sizeof *o);
        lse[i] = -INFINITY;
        for (int32_t c = 0; c < s->n_cards; c++)
            lse_merge(o + i * cols, &lse[i], all + c * part + row * cols, all[c * part + rows * cols + row],
                      (int32_t)cols);
    }
    round_all(s->dtype, o, good ? n * own.n_q * cols : 0);
    free(mine);
    free(all);
    return good;
}

/* o is what attention of the layer leaves, as double; kept where asked for. */
static bool attend(struct cpu_decoder *d, const struct decode_step *s, int32_t layer, void *q, double *o,
                   struct err *e)
{
    const struct decoder_spec *spec = &d->base.spec;
    const struct kernel *kernel = spec->kernel ? spec->kernel : kernels[0];
    int64_t n = s->p->tree->n_queries, elements = n * s->p->heads.h_q * s->p->heads.d,
            size = dtype_size[spec->dtype];
    struct problem p = *s->p;
    struct ledger counted = {0};
    p.q = q;
    p.k = (char *)d->k + layer * decoder_layer_elements(spec) * size;
    p.v = (char *)d->v + layer * decoder_layer_elements(spec) * size;
    struct output *out = output_new(&p);
    if (!s->plan)
        memcpy(out->o, q, (size_t)(elements * size));
    bool good = !s->plan || kernel->run(&p, s->plan, out, &counted, e);
    int64_t rows = n * decoder_outputs(spec).n_q, cols = s->p->heads.d;
    double *lse = xcalloc((size_t)out->n_rows, sizeof *lse);
    dtype_to_double(spec->dtype, out->o, 0, o, elements);
    for (int64_t i = 0; i < out->n_rows && s->plan; i++)
        lse[i] = output_lse(out, i);
    if (good && spec->link && spec->parallel != PARALLEL_TENSOR)
        good = merge_cards(d, n, o, lse);
    if (s->keep && good) {
        d->kept[layer].q = xrealloc(d->kept[layer].q, (size_t)elements, (size_t)size);
        d->kept[layer].o = xrealloc(d->kept[layer].o, (size_t)(rows * cols), (size_t)size);
        d->kept[layer].lse = xrealloc(d->kept[layer].lse, (size_t)rows, sizeof(double));
        memcpy(d->kept[layer].q, q, (size_t)(elements * size));
        for (int64_t i = 0; i < rows * cols; i++)
            dtype_store(spec->dtype, d->kept[layer].o, i, o[i]);
        memcpy(d->kept[layer].lse, lse, (size_t)rows * sizeof *lse);
    }
    free(lse);
    output_free(out);
    return good;
}

static void add(double *x, const double *y, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        x[i] += y[i];
}

/* silu(gate) * up */
static void gate(enum dtype t, int64_t n, int64_t ffn, const double *gate_up, double *y)
{
    for (int64_t q = 0; q < n; q++)
        for (int64_t i = 0; i < ffn; i++) {
            double g = gate_up[q * 2 * ffn + i], up = gate_up[q * 2 * ffn + ffn + i];
            y[q * ffn + i] = g / (1 + exp(-g)) * up;
        }
    round_all(t, y, n * ffn);
}

/* x += y, where y is the sum of what each card has of it: of the cards the first alone has x in its share. */
static bool add_cards(const struct decoder_spec *s, double *x, const double *y, int64_t n)
{
    if (s->link && s->rank > 0)
        memset(x, 0, (size_t)n * sizeof *x);
    add(x, y, n);
    return !s->link || link_sum(s->link, s->rank, x, n);
}

static bool cpu_step(struct decoder *base, const struct decode_step *s, struct err *e)
{
    struct cpu_decoder *d = self(base);
    const struct model *m = base->spec.model;
    enum dtype t = base->spec.dtype;
    struct heads_part heads = decoder_heads(&base->spec);
    int64_t n = s->p->tree->n_queries, hidden = m->hidden, ffn = decoder_share(&base->spec, m->ffn),
            q_cols = (int64_t)heads.n_q * m->d, qkv_cols = q_cols + 2 * (int64_t)heads.n_kv * m->d,
            o_cols = (int64_t)decoder_outputs(&base->spec).n_q * m->d;
    double *x = xcalloc((size_t)(n * hidden), sizeof *x), *h = xcalloc((size_t)(n * hidden), sizeof *h),
           *qkv = xcalloc((size_t)(n * qkv_cols), sizeof *qkv), *o = xcalloc((size_t)(n * q_cols), sizeof *o),
           *wide = xcalloc((size_t)(n * 2 * ffn), sizeof *wide),
           *mlp = xcalloc((size_t)(n * ffn), sizeof *mlp);
    void *q = xcalloc((size_t)(n * q_cols), (size_t)dtype_size[t]);
    struct decode_time time = {.move_s = d->move_s};
    double begin = now_s();
    bool good = true;
    for (int64_t i = 0; i < n; i++)
        memcpy(x + i * hidden, d->weight[W_EMBED] + s->token[i] * hidden, (size_t)hidden * sizeof *x);
    for (int32_t l = 0; l < m->layers && good; l++) {
        norm(t, n, hidden, m->hidden, m->norm_eps, weight_of(d, W_ATTN_NORM, l), x, h);
        product(t, n, qkv_cols, hidden, weight_of(d, W_QKV, l), h, qkv);
        for (int32_t i = 0; i < n; i++)
            place_heads(d, l, s->position[i], s->slot[i], qkv + i * qkv_cols, q, i);
        double before = now_s();
        good = attend(d, s, l, q, o, e);
        time.attention_s += s->plan ? now_s() - before : 0;
        product(t, n, hidden, o_cols, weight_of(d, W_O, l), o, h);
        good = good && add_cards(&base->spec, x, h, n * hidden);
        norm(t, n, hidden, m->hidden, m->norm_eps, weight_of(d, W_MLP_NORM, l), x, h);
        product(t, n, 2 * ffn, hidden, weight_of(d, W_GATE_UP, l), h, wide);
        gate(t, n, ffn, wide, mlp);
        product(t, n, hidden, ffn, weight_of(d, W_DOWN, l), mlp, h);
        good = good && add_cards(&base->spec, x, h, n * hidden);
    }
    norm(t, n, hidden, m->hidden, m->norm_eps, d->weight[W_FINAL_NORM], x, h);
    product(DT_F64, n, decoder_share(&base->spec, m->vocab), hidden, d->weight[W_HEAD], h, d->logits);
    time.whole_s = now_s() - begin;
    d->time[d->n_times++] = time;
    d->move_s = 0;
    free(x);
    free(h);
    free(qkv);
    free(o);
    free(wide);
    free(mlp);
    free(q);
    return good;
}

static bool cpu_wait(struct decoder *base, struct decode_time *t, struct err *e)
{
    (void)e;
    struct cpu_decoder *d = self(base);
    *t = d->time[0];
    d->n_times--;
    memmove(d->time, d->time + 1, (size_t)d->n_times * sizeof *d->time);
    return true;
}

/* ---- KV --------------------------------------------------------------------------------------------- */

static bool cpu_move(struct decoder *base, int64_t n, const int64_t *from, const int64_t *to, struct err *e)
{
    (void)e;
    struct cpu_decoder *d = self(base);
    const struct model *m = base->spec.model;
    int64_t layer = decoder_layer_elements(&base->spec) * dtype_size[base->spec.dtype],
            token = (int64_t)decoder_heads(&base->spec).n_kv * m->d * dtype_size[base->spec.dtype];
    char *held = xcalloc((size_t)n, (size_t)token);
    double begin = now_s();
    for (int32_t l = 0; l < 2 * m->layers; l++) {
        char *pool = (char *)(l % 2 ? d->v : d->k) + l / 2 * layer;
        for (int64_t i = 0; i < n; i++)
            memcpy(held + i * token, pool + from[i] * token, (size_t)token);
        for (int64_t i = 0; i < n; i++)
            memcpy(pool + to[i] * token, held + i * token, (size_t)token);
    }
    d->move_s += now_s() - begin;
    free(held);
    return true;
}

static bool cpu_fill(struct decoder *base, int64_t first, int64_t n, struct err *e)
{
    (void)e;
    struct cpu_decoder *d = self(base);
    const struct model *m = base->spec.model;
    struct heads_part heads = decoder_heads(&base->spec);
    int64_t token = (int64_t)heads.n_kv * m->d, layer = decoder_layer_elements(&base->spec);
    for (int32_t l = 0; l < 2 * m->layers; l++)
        for (int64_t i = first * token; i < (first + n) * token; i++)
            dtype_store(base->spec.dtype, l % 2 ? d->v : d->k, l / 2 * layer + i,
                        rng_bell(base->spec.seed, SERIES_KV + (uint64_t)l,
                                 (uint64_t)(i / token * m->h_kv * m->d + heads.kv0 * m->d + i % token)));
    return true;
}

static bool cpu_logits(struct decoder *base, double *out, int64_t n, struct err *e)
{
    (void)e;
    memcpy(out, self(base)->logits,
           (size_t)n * (size_t)decoder_share(&base->spec, base->spec.model->vocab) * sizeof *out);
    return true;
}

static bool cpu_kept(struct decoder *base, int32_t layer, int64_t n, void *q, void *o, double *lse,
                     struct err *e)
{
    (void)e;
    struct cpu_decoder *d = self(base);
    const struct model *m = base->spec.model;
    size_t rows = (size_t)n * (size_t)decoder_outputs(&base->spec).n_q,
           row = (size_t)m->d * (size_t)dtype_size[base->spec.dtype];
    CK(d->kept[layer].q);
    memcpy(q, d->kept[layer].q, (size_t)n * (size_t)decoder_heads(&base->spec).n_q * row);
    memcpy(o, d->kept[layer].o, rows * row);
    memcpy(lse, d->kept[layer].lse, rows * sizeof *lse);
    return true;
}

static bool cpu_kv(struct decoder *base, int32_t layer, int64_t first, int64_t n, void *k, void *v,
                   struct err *e)
{
    (void)e;
    struct cpu_decoder *d = self(base);
    const struct decoder_spec *s = &base->spec;
    int64_t token = (int64_t)decoder_heads(s).n_kv * s->model->d * dtype_size[s->dtype],
            at = layer * decoder_layer_elements(s) * dtype_size[s->dtype] + first * token;
    memcpy(k, (char *)d->k + at, (size_t)(n * token));
    memcpy(v, (char *)d->v + at, (size_t)(n * token));
    return true;
}

static bool cpu_put(struct decoder *base, int32_t layer, int64_t slot, const void *k, const void *v,
                    struct err *e)
{
    (void)e;
    struct cpu_decoder *d = self(base);
    const struct decoder_spec *s = &base->spec;
    int64_t token = (int64_t)decoder_heads(s).n_kv * s->model->d * dtype_size[s->dtype],
            at = layer * decoder_layer_elements(s) * dtype_size[s->dtype] + slot * token;
    memcpy((char *)d->k + at, k, (size_t)token);
    memcpy((char *)d->v + at, v, (size_t)token);
    return true;
}

const struct decoder_type decoder_cpu = {
    .name = "cpu",
    .about = "plain C, attention by any kernel that runs on the host; for small models",
    .supports = cpu_supports,
    .open = cpu_open,
    .close = cpu_close,
    .step = cpu_step,
    .wait = cpu_wait,
    .move = cpu_move,
    .copy = cpu_move,
    .fill = cpu_fill,
    .logits = cpu_logits,
    .kept = cpu_kept,
    .kv = cpu_kv,
    .put = cpu_put,
};
