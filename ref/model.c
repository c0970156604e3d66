#include "ref/model.h"
#include "ref/rng.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define SHAPE(n, l, hid, hq, hkv, dim, from)                                                                 \
    .name = n, .layers = l, .hidden = hid, .h_q = hq, .h_kv = hkv, .d = dim, .source = from
#define MODEL(n, l, hid, hq, hkv, dim, f, v, theta, eps, norm, from)                                         \
    {SHAPE(n, l, hid, hq, hkv, dim, from),                                                                   \
     .ffn = f,                                                                                               \
     .vocab = v,                                                                                             \
     .rope_theta = theta,                                                                                    \
     .norm_eps = eps,                                                                                        \
     .qk_norm = norm},
#define ATTENTION(n, l, hid, hq, hkv, dim, dv, win, win_layers, cap, sink, from)                             \
    {SHAPE(n, l, hid, hq, hkv, dim, from), .d_v = dv,       .window = win,                                   \
     .window_layers = win_layers,          .soft_cap = cap, .sinks = sink},
const struct model models[] = {
#include "ref/models.def"
};
#undef SHAPE
#undef MODEL
#undef ATTENTION
const int32_t n_models = sizeof models / sizeof models[0];

/* Series of weights begin here: far from those that problems draw Q, K and V from. */
#define SERIES_0 UINT64_C(0x6D6F64656C000000)

/* Spread of the weights of a norm around 1: a power of two, so that mean + spread * bell rounds once, fused or not. */
#define NORM_SPREAD 0.0625

const struct model *model_find(const char *name, struct err *e)
{
    char list[512] = "";
    for (int32_t i = 0; i < n_models; i++) {
        if (strcmp(models[i].name, name) == 0)
            return &models[i];
        listing_add(list, sizeof list, models[i].name);
    }
    err_set(e, "unknown model '%.60s' (there are %s)", name, list);
    return NULL;
}

bool model_needs_whole(const struct model *m, struct err *e)
{
    return model_is_whole(m) || err_set(e,
                                        "model %s: attention alone is described; its windows, sinks, soft "
                                        "cap or experts are in no step that is "
                                        "computed (expected a model with a vocab in treeattn list models)",
                                        m->name);
}

struct heads model_heads(const struct model *m, enum dtype dtype)
{
    return (struct heads){m->h_q, m->h_kv, m->d, dtype, .d_v = m->d_v};
}

struct weight_spec model_weight(const struct model *m, enum weight w)
{
    CK(model_is_whole(m));
    int64_t hidden = m->hidden, q = (int64_t)m->h_q * m->d, kv = (int64_t)m->h_kv * m->d;
    struct weight_spec s = {.per_layer = w >= W_ATTN_NORM && w <= W_DOWN, .rows = 1, .cols = hidden};
    switch (w) {
    case W_EMBED:
    case W_HEAD:
        s.rows = m->vocab;
        break;
    case W_QKV:
        s.rows = q + 2 * kv;
        break;
    case W_Q_NORM:
    case W_K_NORM:
        s.rows = m->qk_norm;
        s.cols = m->qk_norm ? m->d : 0;
        break;
    case W_O:
        s.rows = hidden;
        s.cols = q;
        break;
    case W_GATE_UP:
        s.rows = 2 * (int64_t)m->ffn;
        break;
    case W_DOWN:
        s.rows = hidden;
        s.cols = m->ffn;
        break;
    default:
        break;
    }
    s.mean = s.rows <= 1 ? 1 : 0;
    /* products of weights and inputs of size 1 are of size 1 */
    s.spread = s.rows <= 1 ? NORM_SPREAD : w == W_EMBED ? 1 : 1 / sqrt((double)s.cols);
    return s;
}

uint64_t model_series(enum weight w, int32_t layer)
{
    return SERIES_0 + (uint64_t)layer * N_WEIGHTS + (uint64_t)w;
}

void model_weights(const struct model *m, enum weight w, int32_t layer, uint64_t seed, enum dtype t,
                   int64_t first, int64_t n, void *out)
{
    struct weight_spec s = model_weight(m, w);
    uint64_t series = model_series(w, layer);
    CK(first >= 0 && n >= 0 && first + n <= s.rows * s.cols);
    for (int64_t i = 0; i < n; i++)
        dtype_store(t, out, i, s.mean + s.spread * rng_bell(seed, series, (uint64_t)(first + i)));
}

static int64_t elements(const struct model *m, bool with_embedding)
{
    int64_t n = 0;
    for (int w = with_embedding ? W_EMBED : W_EMBED + 1; w < N_WEIGHTS; w++) {
        struct weight_spec s = model_weight(m, (enum weight)w);
        n += s.rows * s.cols * (s.per_layer ? m->layers : 1);
    }
    return n;
}

int64_t model_weight_bytes(const struct model *m, enum dtype t)
{
    return elements(m, true) * dtype_size[t];
}

int64_t model_step_bytes(const struct model *m, enum dtype t)
{
    return elements(m, false) * dtype_size[t];
}

int64_t model_kv_bytes(const struct model *m, enum dtype t)
{
    return (m->d_v > 0 ? 1 : 2) * (int64_t)m->layers * m->h_kv * m->d * dtype_size[t];
}

double model_flops(const struct model *m)
{
    double n = 0;
    for (int w = W_EMBED + 1; w < N_WEIGHTS; w++) {
        struct weight_spec s = model_weight(m, (enum weight)w);
        if (s.rows > 1)
            n += (double)s.rows * (double)s.cols * (s.per_layer ? m->layers : 1);
    }
    return 2 * n;
}

double model_attention_flops(const struct model *m, int64_t ctx)
{
    double seen = (double)min_i64(ctx, m->window > 0 ? m->window : ctx);
    double tokens = (double)(m->layers - m->window_layers) * (double)ctx + m->window_layers * seen;
    return 2.0 * m->h_q * (m->d + (m->d_v > 0 ? m->d_v : m->d)) * tokens;
}
