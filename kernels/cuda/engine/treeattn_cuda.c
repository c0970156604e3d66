/* The functions of treeattn_cuda.h. */
#include "kernels/cuda/engine/treeattn_cuda.h"
#include "kernels/cuda/engine/unpack.h"
#include "kernels/cuda/host/cuda.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct ta_cuda {
    struct unpacked x;
    struct cuda_plan *cp;
    bool planned;
    float one; /* stands for sinks and scales, whose values a plan does not need */
    char why[512];
};

static void take(void *to, size_t to_size, const void *from, uint32_t from_size)
{
    memset(to, 0, to_size);
    memcpy(to, from, from_size < to_size ? from_size : to_size);
}

static int fail(struct ta_cuda *g, enum ta_code code, const char *why)
{
    snprintf(g->why, sizeof g->why, "%s", why);
    return code;
}

struct ta_cuda *ta_cuda_open(void)
{
    struct cuda_caps caps;
    struct err e = {0};
    if (!cuda_caps(&caps, &e))
        return NULL;
    struct ta_cuda *g = xcalloc(1, sizeof *g);
    g->cp = cuda_plan_empty(NULL);
    g->one = 1;
    return g;
}

void ta_cuda_close(struct ta_cuda *g)
{
    if (!g)
        return;
    cuda_plan_free(g->cp);
    unpacked_free(&g->x);
    free(g);
}

const char *ta_cuda_error(const struct ta_cuda *g)
{
    return g->why;
}

static bool set_heads(const struct ta_shape *s, struct problem *p, struct err *e)
{
    enum dtype kv = DT_F64; /* as Q */
    struct problem_spec spec = {.page_size = p->page_size};
    if (!dtype_parse(s->dtype ? s->dtype : "f16", &spec.heads.dtype))
        return err_set(e, "dtype '%.20s' (expected f16 or bf16)", s->dtype);
    if (s->kv && !dtype_parse_fp8(s->kv, &kv))
        return err_set(e, "kv '%.20s' (expected e4m3 or e5m2)", s->kv);
    spec.heads.h_q = s->n_heads;
    spec.heads.h_kv = s->n_kv_heads;
    spec.heads.d = s->head_dim;
    spec.heads.kv_fp8 = kv;
    if (!problem_spec_check(&spec, e))
        return false;
    p->heads = spec.heads;
    return true;
}

int ta_cuda_plan(struct ta_cuda *g, const struct ta_shape *shape, const struct ta_cuda_scores *scores,
                 const int32_t *words, int64_t n_words, void *stream)
{
    struct err e = {0};
    struct ta_shape s;
    struct ta_cuda_scores c = {.size = sizeof c};
    char why[256];
    g->why[0] = 0;
    g->planned = false;
    if (!shape || !words)
        return fail(g, TA_BAD_INPUT, "no shape, or no words given");
    take(&s, sizeof s, shape, shape->size);
    if (scores)
        take(&c, sizeof c, scores, scores->size);
    if (!unpack_plan(words, n_words, &g->x, &e))
        return fail(g, TA_BAD_INPUT, e.msg);
    struct problem *p = &g->x.p;
    if (!set_heads(&s, p, &e))
        return fail(g, TA_BAD_INPUT, e.msg);
    if (s.value_dim > 0 && s.value_dim != s.head_dim)
        return fail(g, TA_DOES_NOT_APPLY, "V of another length than K (expected as long)");
    p->scale = c.scale > 0 ? c.scale : 1 / sqrt(s.head_dim);
    p->soft_cap = c.soft_cap > 0 ? c.soft_cap : 0;
    p->sink = c.sinks ? &g->one : NULL;
    p->k_scale = p->v_scale = heads_fp8(&p->heads) ? &g->one : NULL;
    if (!cuda_supports(p, g->x.plan, NULL, why))
        return fail(g, TA_DOES_NOT_APPLY, why);
    if (!cuda_plan_update(g->cp, p, g->x.plan, stream, &e))
        return fail(g, e.code == EXIT_MISSING ? TA_NO_ROOM : TA_BROKEN, e.msg);
    g->planned = true;
    return TA_DONE;
}

int64_t ta_cuda_workspace(const struct ta_cuda *g)
{
    return g->planned ? cuda_workspace(g->cp) : 0;
}

int ta_cuda_run(struct ta_cuda *g, const struct ta_cuda_io *io, void *stream)
{
    struct err e = {0};
    struct ta_cuda_io x;
    g->why[0] = 0;
    if (!io)
        return fail(g, TA_BAD_INPUT, "nothing to run on");
    if (!g->planned)
        return fail(g, TA_BAD_INPUT,
                    "there is no plan (expected a call of ta_cuda_plan before that did not fail)");
    take(&x, sizeof x, io, io->size);
    struct cuda_args a = {.q = x.q,
                          .k = x.k,
                          .v = x.v,
                          .k_scale = x.k_scale,
                          .v_scale = x.v_scale,
                          .page_table = x.words + g->x.page_at,
                          .sink = x.sinks,
                          .o = x.o,
                          .lse = x.lse,
                          .workspace = x.workspace};
    return cuda_run(g->cp, &a, stream, &e) ? TA_DONE : fail(g, TA_BROKEN, e.msg);
}
