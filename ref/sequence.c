#include "ref/sequence.h"
#include "ref/rng.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct sequence_model {
    const struct model *m;
    double *weight[N_WEIGHTS]; /* all layers */
};

struct sequence {
    const struct sequence_model *w;
    double unit;
    uint64_t seed, drawn; /* of the noise */
    int64_t n, cap;
    double **k, **v; /* [layers] -> [n][h_kv * d] */
};

struct sequence_model *sequence_model_new(const struct model *m, enum dtype t, uint64_t seed)
{
    struct sequence_model *w = xcalloc(1, sizeof *w);
    w->m = m;
    for (int i = 0; i < N_WEIGHTS; i++) {
        struct weight_spec s = model_weight(m, (enum weight)i);
        int64_t n = s.rows * s.cols, layers = s.per_layer ? m->layers : 1;
        uint64_t *stored = xcalloc((size_t)n, sizeof *stored);
        w->weight[i] = xcalloc((size_t)(n * layers), sizeof(double));
        for (int32_t l = 0; l < layers; l++) {
            model_weights(m, (enum weight)i, l, seed, t, 0, n, stored);
            dtype_to_double(t, stored, 0, w->weight[i] + l * n, n);
        }
        free(stored);
    }
    return w;
}

void sequence_model_free(struct sequence_model *w)
{
    for (int i = 0; w && i < N_WEIGHTS; i++)
        free(w->weight[i]);
    free(w);
}

struct sequence *sequence_new(const struct sequence_model *w, double unit, uint64_t noise_seed)
{
    struct sequence *s = xcalloc(1, sizeof *s);
    *s = (struct sequence){.w = w, .unit = unit, .seed = noise_seed};
    s->k = xcalloc((size_t)w->m->layers, sizeof *s->k);
    s->v = xcalloc((size_t)w->m->layers, sizeof *s->v);
    return s;
}

void sequence_free(struct sequence *s)
{
    if (!s)
        return;
    for (int32_t l = 0; l < s->w->m->layers; l++) {
        free(s->k[l]);
        free(s->v[l]);
    }
    free(s->k);
    free(s->v);
    free(s);
}

void sequence_cut(struct sequence *s, int64_t n)
{
    CK(n >= 0 && n <= s->n);
    s->n = n;
}

/* x as something that stores it might have it. */
static double stored(struct sequence *s, double x)
{
    return s->unit == 0 ? x : x * (1 + s->unit * (2 * rng_unit(s->seed, 0, s->drawn++) - 1));
}

static void store_all(struct sequence *s, double *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        x[i] = stored(s, x[i]);
}

static const double *weights(const struct sequence *s, enum weight w, int32_t layer)
{
    struct weight_spec x = model_weight(s->w->m, w);
    return s->w->weight[w] + layer * x.rows * x.cols;
}

/* W x; four sums side by side, for speed. */
static double *multiply(const struct sequence *s, enum weight w, int32_t layer, const double *x)
{
    struct weight_spec spec = model_weight(s->w->m, w);
    const double *row = weights(s, w, layer);
    double *y = xcalloc((size_t)spec.rows, sizeof *y);
    for (int64_t r = 0; r < spec.rows; r++, row += spec.cols) {
        double sum[4] = {0};
        for (int64_t c = 0; c < spec.cols; c++)
            sum[c % 4] += row[c] * x[c];
        y[r] = sum[0] + sum[1] + (sum[2] + sum[3]);
    }
    return y;
}

static void normalise(const struct model *m, double *x, int32_t n, const double *weight)
{
    double squares = 0;
    for (int32_t i = 0; i < n; i++)
        squares += x[i] * x[i];
    for (int32_t i = 0; i < n; i++)
        x[i] *= weight[i] / sqrt(squares / n + m->norm_eps);
}

static double *normalised(struct sequence *s, const double *x, enum weight w, int32_t layer)
{
    int32_t n = s->w->m->hidden;
    double *y = xcalloc((size_t)n, sizeof *y);
    memcpy(y, x, (size_t)n * sizeof *y);
    normalise(s->w->m, y, n, weights(s, w, layer));
    store_all(s, y, n);
    return y;
}

/* A head turned to its position, pair by pair. */
static void turn(const struct model *m, double *head, int64_t position)
{
    for (int32_t i = 0; i < m->d / 2; i++) {
        double angle = (double)position / pow(m->rope_theta, 2.0 * i / m->d);
        double re = head[i], im = head[i + m->d / 2];
        head[i] = re * cos(angle) - im * sin(angle);
        head[i + m->d / 2] = re * sin(angle) + im * cos(angle);
    }
}

/* Softmax over all tokens there are, one query head. */
static void attend_head(struct sequence *s, int32_t layer, int32_t kv_head, const double *q, double *o)
{
    const struct model *m = s->w->m;
    double top = -INFINITY, sum = 0, *p = xcalloc((size_t)s->n + 1, sizeof *p);
    for (int64_t j = 0; j <= s->n; j++) {
        const double *k = s->k[layer] + (j * m->h_kv + kv_head) * m->d;
        for (int32_t i = 0; i < m->d; i++)
            p[j] += q[i] * k[i];
        p[j] /= sqrt(m->d);
        top = fmax(top, p[j]);
    }
    memset(o, 0, (size_t)m->d * sizeof *o);
    for (int64_t j = 0; j <= s->n; j++) {
        const double *v = s->v[layer] + (j * m->h_kv + kv_head) * m->d;
        p[j] = exp(p[j] - top);
        sum += p[j];
        p[j] = stored(s, p[j]); /* narrowed on its way to V; the sum is not */
        for (int32_t i = 0; i < m->d; i++)
            o[i] += p[j] * v[i];
    }
    for (int32_t i = 0; i < m->d; i++)
        o[i] = stored(s, stored(s, o[i] / sum)); /* as a partial result, and as the output */
    free(p);
}

static double *attention(struct sequence *s, int32_t layer, const double *h)
{
    const struct model *m = s->w->m;
    int64_t q_size = (int64_t)m->h_q * m->d, kv_size = (int64_t)m->h_kv * m->d;
    double *qkv = multiply(s, W_QKV, layer, h), *k = qkv + q_size, *v = k + kv_size;
    store_all(s, qkv, q_size + 2 * kv_size);
    for (int32_t i = 0; i < m->h_q + m->h_kv; i++) {
        double *head = qkv + (int64_t)i * m->d;
        if (m->qk_norm)
            normalise(m, head, m->d, weights(s, i < m->h_q ? W_Q_NORM : W_K_NORM, layer));
        turn(m, head, s->n);
    }
    store_all(s, qkv, q_size + kv_size);
    memcpy(s->k[layer] + s->n * kv_size, k, (size_t)kv_size * sizeof *k);
    memcpy(s->v[layer] + s->n * kv_size, v, (size_t)kv_size * sizeof *v);
    double *o = xcalloc((size_t)q_size, sizeof *o);
    for (int32_t i = 0; i < m->h_q; i++)
        attend_head(s, layer, i / (m->h_q / m->h_kv), qkv + (int64_t)i * m->d, o + (int64_t)i * m->d);
    double *y = multiply(s, W_O, layer, o);
    free(qkv);
    free(o);
    return y;
}

static double *mlp(struct sequence *s, int32_t layer, const double *h)
{
    int32_t ffn = s->w->m->ffn;
    double *gate = multiply(s, W_GATE_UP, layer, h), *up = gate + ffn;
    store_all(s, gate, 2 * (int64_t)ffn);
    for (int32_t i = 0; i < ffn; i++)
        gate[i] = stored(s, up[i] * gate[i] / (1 + exp(-gate[i])));
    double *y = multiply(s, W_DOWN, layer, gate);
    free(gate);
    return y;
}

static void make_room(struct sequence *s)
{
    const struct model *m = s->w->m;
    if (s->n < s->cap)
        return;
    s->cap = max_i64(64, 2 * s->cap);
    for (int32_t l = 0; l < m->layers; l++) {
        s->k[l] = xrealloc(s->k[l], (size_t)(s->cap * m->h_kv * m->d), sizeof **s->k);
        s->v[l] = xrealloc(s->v[l], (size_t)(s->cap * m->h_kv * m->d), sizeof **s->v);
    }
}

void sequence_append(struct sequence *s, int32_t token, double *out)
{
    const struct model *m = s->w->m;
    CK(token >= 0 && token < m->vocab);
    make_room(s);
    double *x = xcalloc((size_t)m->hidden, sizeof *x);
    memcpy(x, s->w->weight[W_EMBED] + (int64_t)token * m->hidden, (size_t)m->hidden * sizeof *x);
    for (int32_t part = 0; part < 2 * m->layers; part++) {
        int32_t l = part / 2;
        double *h = normalised(s, x, part % 2 ? W_MLP_NORM : W_ATTN_NORM, l);
        double *y = part % 2 ? mlp(s, l, h) : attention(s, l, h);
        for (int32_t i = 0; i < m->hidden; i++)
            x[i] += y[i];
        free(h);
        free(y);
    }
    s->n++;
    if (out) {
        double *h = normalised(s, x, W_FINAL_NORM, 0), *logits = multiply(s, W_HEAD, 0, h);
        memcpy(out, logits, (size_t)m->vocab * sizeof *out);
        free(h);
        free(logits);
    }
    free(x);
}
