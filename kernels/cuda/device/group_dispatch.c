/* The group kernel of a storage type and head size. */
#include "kernels/cuda/device/launch.h"

#include <stdbool.h>
#include <stddef.h>

/* the order of index_of */
#define EACH(X)                                                                                              \
    X(f16_64)                                                                                                \
    X(f16_128) X(bf16_64) X(bf16_128) X(wgmma_f16_64) X(wgmma_f16_128) X(wgmma_bf16_64) X(wgmma_bf16_128)    \
    X(f16_256) X(bf16_256) X(cap_f16_64) X(cap_f16_128) X(cap_bf16_64) X(cap_bf16_128)                       \
    X(fp8_e4m3_64) X(fp8_e4m3_128) X(fp8_e5m2_64) X(fp8_e5m2_128)
#define DECLARE(name)                                                                                        \
    int cuda_prepare_##name(int32_t m, int32_t n);                                                           \
    int cuda_smem_##name(int32_t m, int32_t n, int32_t masked, int32_t q_shared, int32_t q_rows);            \
    int cuda_group_##name(int32_t m, int32_t n, const struct cuda_group_args *a, int early, void *stream);
EACH(DECLARE)
#undef DECLARE

static int index_of(const struct cuda_shape *s)
{
    bool wgmma = false;
    if (s->fp8)
        return 14 + 2 * (s->fp8 == CUDA_E5M2) + (s->d == 128);
    if (s->d == 256)
        return 8 + s->t;
    if (s->capped)
        return 10 + 2 * s->t + (s->d == 128);
#define SHAPE(M, N, ...) wgmma = wgmma || (s->wgmma && s->m == M && s->n == N);
#include "kernels/cuda/device/wgmma_shapes.def"
#undef SHAPE
    return 4 * wgmma + 2 * s->t + (s->d == 128);
}

static int prepare(const struct cuda_shape *s)
{
    static int (*const of[])(int32_t, int32_t) = {
#define NAME(name) cuda_prepare_##name,
        EACH(NAME)
#undef NAME
    };
    return of[index_of(s)](s->m, s->n);
}

static int32_t smem_of(const struct cuda_shape *s, bool masked, bool q_shared, int32_t q_rows)
{
    static int (*const of[])(int32_t, int32_t, int32_t, int32_t, int32_t) = {
#define NAME(name) cuda_smem_##name,
        EACH(NAME)
#undef NAME
    };
    return of[index_of(s)](s->m, s->n, masked, q_shared, q_rows);
}

static int launch(const struct cuda_shape *s, const struct cuda_group_args *a, int early, void *stream)
{
    static int (*const of[])(int32_t, int32_t, const struct cuda_group_args *, int, void *) = {
#define NAME(name) cuda_group_##name,
        EACH(NAME)
#undef NAME
    };
    return of[index_of(s)](s->m, s->n, a, early, stream);
}

const struct cuda_launcher cuda_launcher_group = {.prepare = prepare, .smem = smem_of, .launch = launch};
