/*
 * unfused.c - plans whose scores are materialised (naive, tree-medusa): two products and the kernels between them.
 *
 * Each step runs for all groups before the next begins, as the plan's launches say: QK, scale, mask, softmax, PV.
 *
 * cuBLAS multiplies groups with many rows a KV head. It wants matrices, so their K and V are gathered through the page table
 * first. That is part of a run and of its time. With few rows, as a query by itself has, the time of a product is that of
 * reading K or V. A copy would add twice as much, and a batch of cuBLAS's over single pages reaches half the bandwidth. So
 * skinny.cu multiplies K and V where they are.
 *
 * cuBLAS is loaded when the first plan needs it. Other plans run without it.
 */
#include "kernels/cuda/host/unfused.h"
#include "kernels/cuda/host/device.h"
#include "kernels/cuda/host/score_layout.h"

#include <cublas_v2.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { BLAS_WORKSPACE = 32 << 20 };

/* ---- cuBLAS ----------------------------------------------------------------------------------------- */

static struct blas {
    cublasHandle_t handle;
    __typeof__(&cublasCreate_v2) create;
    __typeof__(&cublasSetStream_v2) set_stream;
    __typeof__(&cublasSetWorkspace_v2) set_workspace;
    __typeof__(&cublasGemmStridedBatchedEx) gemm;
} blas;

static bool blas_ok(cublasStatus_t status, struct err *e)
{
    return status == CUBLAS_STATUS_SUCCESS ||
           err_missing(e, "cuBLAS refused a product (status %d)", (int)status);
}

static bool open_blas(struct err *e)
{
    cublasHandle_t handle;
    void *lib = cuda_library("libcublas.so", "/usr/local/cuda/lib64");
    if (!lib)
        return err_missing(e,
                           "plans that materialise scores want cuBLAS, and libcublas.so is not found here");
    *(void **)&blas.create = dlsym(lib, "cublasCreate_v2");
    *(void **)&blas.set_stream = dlsym(lib, "cublasSetStream_v2");
    *(void **)&blas.set_workspace = dlsym(lib, "cublasSetWorkspace_v2");
    *(void **)&blas.gemm = dlsym(lib, "cublasGemmStridedBatchedEx");
    if (!blas.create || !blas.set_stream || !blas.set_workspace || !blas.gemm)
        return err_missing(e, "libcublas.so lacks a function that unfused plans need");
    if (blas.create(&handle) != CUBLAS_STATUS_SUCCESS)
        return err_missing(e, "cuBLAS does not start on this GPU");
    blas.handle = handle;
    return true;
}

/* Once, whichever thread asks first. */
static bool load_blas(struct err *e)
{
    static pthread_mutex_t loading = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&loading);
    bool good = blas.handle || open_blas(e);
    pthread_mutex_unlock(&loading);
    return good;
}

static cudaDataType_t data_type(enum cuda_half t)
{
    return t == CUDA_F16 ? CUDA_R_16F : CUDA_R_16BF;
}

bool gpu_gemm(enum dtype t, int32_t n, const void *a, const void *b, void *c, void *stream, struct err *e)
{
    const float one = 1, zero = 0;
    cudaDataType_t type = t == DT_F16 ? CUDA_R_16F : CUDA_R_16BF;
    if (!load_blas(e) || !blas_ok(blas.set_stream(blas.handle, stream), e))
        return false;
    if (blas.gemm(blas.handle, CUBLAS_OP_N, CUBLAS_OP_N, n, n, n, &one, b, type, n, 0, a, type, n, 0, &zero,
                  c, type, n, 0, 1, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT) != CUBLAS_STATUS_SUCCESS)
        return err_missing(e, "cuBLAS refused a product of %d x %d", n, n);
    return true;
}

/* ---- plans ------------------------------------------------------------------------------------------ */

struct unfused {
    struct scores scores;
    struct cuda_upload block; /* rows, then blocks to gather, then skinny blocks */
    int64_t blocks_at, skinny_at;
    /* in the workspace */
    int64_t q_at, k_at, v_at, score_at, probability_at, max_at, sum_at, o_at, blas_at;
    float scale;
};

bool unfused_supports(const struct problem *p, const struct plan *plan, const struct cuda_options *opt,
                      char *why)
{
    struct err e = {0};
    bool gathers = false;
    if (opt && !chooses_kernel(opt->kernel)) {
        snprintf(why, 256,
                 "this rung of the ladder has no path for materialised scores (the kernel cuda has)");
        return false;
    }
    for (int64_t i = 0; i < plan->n_groups && !gathers; i++)
        gathers = !scores_skinny((int64_t)plan->group[i].nq * heads_gqa(&p->heads));
    if (!gathers || load_blas(&e))
        return true;
    snprintf(why, 256, "%.255s", e.msg);
    return false;
}

static int64_t place(int64_t *used, int64_t bytes)
{
    int64_t at = *used;
    *used += cuda_align(bytes);
    return at;
}

static bool upload_lists(struct cuda_plan *cp, cudaStream_t stream, struct err *e)
{
    struct unfused *u = cp->unfused;
    int64_t bytes = 0;
    place(&bytes, u->scores.n_rows * (int64_t)sizeof(struct unfused_row));
    u->blocks_at = place(&bytes, u->scores.n_blocks * (int64_t)sizeof(struct unfused_block));
    u->skinny_at = place(&bytes, u->scores.n_skinny * (int64_t)sizeof(struct skinny_block));
    char *host = upload_begin(&u->block, bytes, e);
    if (!host)
        return false;
    scores_fill(&u->scores, (struct unfused_row *)host, (struct unfused_block *)(host + u->blocks_at),
                (struct skinny_block *)(host + u->skinny_at));
    cp->bytes += bytes;
    return upload_end(&u->block, bytes, stream, e);
}

bool unfused_fill(struct cuda_plan *cp, const struct cuda_item *item, int64_t n_items, int32_t sms,
                  cudaStream_t stream, struct err *e)
{
    if (!cp->unfused)
        cp->unfused = xcalloc(1, sizeof *cp->unfused);
    struct unfused *u = cp->unfused;
    struct scores *s = &u->scores;
    scores_lay_out(s, item, n_items, cp->heads.h_kv, sms);
    if (s->n_rows > INT32_MAX || s->n_blocks > INT32_MAX || s->n_skinny > INT32_MAX / cp->heads.h_kv)
        return err_missing(e, "%lld score rows are too many for a grid", (long long)s->n_rows);
    bool gathers = s->n_tokens > 0;
    int64_t kv = s->n_tokens * cp->heads.h_kv * cp->heads.d * 2;
    u->scale = (float)(cp->scale_log2 / 1.4426950408889634);
    u->q_at = place(&cp->workspace, gathers ? s->n_rows * cp->heads.d * 2 : 0);
    u->k_at = place(&cp->workspace, kv);
    u->v_at = place(&cp->workspace, kv);
    u->score_at = place(&cp->workspace, s->n_scores * 4);
    u->probability_at = place(&cp->workspace, s->n_scores * 2);
    u->max_at = place(&cp->workspace, s->n_rows * 4);
    u->sum_at = place(&cp->workspace, s->n_rows * 4);
    u->o_at = place(&cp->workspace, s->n_o * cp->heads.d * 4);
    u->blas_at = place(&cp->workspace, gathers ? BLAS_WORKSPACE : 0);
    return (!gathers || load_blas(e)) && upload_lists(cp, stream, e);
}

void unfused_free(struct unfused *u)
{
    if (!u)
        return;
    upload_free(&u->block);
    scores_free(&u->scores);
    free(u);
}

/* ---- running ---------------------------------------------------------------------------------------- */

/* Row-major S[h][rows][ld] = Q[h][rows][d] K[n][h][d]^T, which to cuBLAS is S^T = K Q^T, heads as a batch. */
static cublasStatus_t qk(const struct cuda_plan *cp, const struct scores_group *g,
                         const struct unfused_args *u)
{
    const float one = 1, zero = 0;
    int64_t q = g->row0 * cp->heads.d, k = g->token0 * cp->heads.h_kv * cp->heads.d;
    return blas.gemm(blas.handle, CUBLAS_OP_T, CUBLAS_OP_N, g->n_kv, g->rows, cp->heads.d, &one,
                     (const char *)u->k + k * 2, data_type(cp->t), cp->heads.h_kv * cp->heads.d, cp->heads.d,
                     (const char *)u->q + q * 2, data_type(cp->t), cp->heads.d,
                     (int64_t)g->rows * cp->heads.d, &zero, u->score + g->score0, CUDA_R_32F, g->ld,
                     (int64_t)g->rows * g->ld, cp->heads.h_kv, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
}

/* O[h][rows][d] = P[h][rows][ld] V[n][h][d] */
static cublasStatus_t pv(const struct cuda_plan *cp, const struct scores_group *g,
                         const struct unfused_args *u)
{
    const float one = 1, zero = 0;
    int64_t o = g->o0 * cp->heads.d, v = g->token0 * cp->heads.h_kv * cp->heads.d;
    return blas.gemm(blas.handle, CUBLAS_OP_N, CUBLAS_OP_N, cp->heads.d, g->rows, g->n_kv, &one,
                     (const char *)u->v + v * 2, data_type(cp->t), cp->heads.h_kv * cp->heads.d, cp->heads.d,
                     (const char *)u->probability + g->score0 * 2, data_type(cp->t), g->ld,
                     (int64_t)g->rows * g->ld, &zero, u->o + o, CUDA_R_32F, cp->heads.d,
                     (int64_t)g->rows * cp->heads.d, cp->heads.h_kv, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
}

/* Enqueues one of the two products for all groups. */
static bool products(const struct cuda_plan *cp, const struct unfused_args *a, const struct cuda_shape *s,
                     enum skinny_product product, cudaStream_t stream, struct err *e)
{
    const struct scores *all = &cp->unfused->scores;
    if (all->n_skinny > 0 && !cuda_ok(cuda_launch_skinny(s, a, product, stream), "product", e))
        return false;
    for (int64_t i = 0; i < all->n_groups; i++)
        if (!all->group[i].skinny &&
            !blas_ok(product == SKINNY_QK ? qk(cp, &all->group[i], a) : pv(cp, &all->group[i], a), e))
            return false;
    return true;
}

bool unfused_run(struct cuda_plan *cp, const struct cuda_args *x, cudaStream_t stream, struct err *e)
{
    const struct unfused *u = cp->unfused;
    char *work = x->workspace;
    struct cuda_shape s = {.d = cp->heads.d, .t = cp->t};
    struct unfused_args a = {
        .a = {.q = x->q,
              .k = x->k,
              .v = x->v,
              .page_table = x->page_table,
              .o = x->o,
              .lse = x->lse,
              .slot_o = work,
              .slot_w = (float *)(work + cp->slot_w_at),
              .item = cp->item,
              .run = cp->run,
              .piece = cp->piece,
              .query = cp->query,
              .mask = cp->mask,
              .h_q = cp->heads.h_q,
              .h_kv = cp->heads.h_kv,
              .gqa = heads_gqa(&cp->heads),
              .gqa_shift = cp->gqa_shift,
              .page_size = cp->page_size,
              .page_shift = cp->page_shift,
              .cap_scale = cp->cap_scale,
              .slot_f16 = cp->slot_f16,
              .slot_max_sum = cp->slot_max_sum},
        .row = u->block.dev,
        .block = (const struct unfused_block *)((const char *)u->block.dev + u->blocks_at),
        .skinny = (const struct skinny_block *)((const char *)u->block.dev + u->skinny_at),
        .n_rows = u->scores.n_rows,
        .n_blocks = u->scores.n_blocks,
        .n_skinny = u->scores.n_skinny,
        .most_rows = u->scores.most_rows,
        .most_scores = u->scores.most_scores,
        .early = cp->early,
        .d = cp->heads.d,
        .scale = u->scale,
        .q = work + u->q_at,
        .k = work + u->k_at,
        .v = work + u->v_at,
        .score = (float *)(work + u->score_at),
        .probability = work + u->probability_at,
        .max = (float *)(work + u->max_at),
        .sum = (float *)(work + u->sum_at),
        .o = (float *)(work + u->o_at),
    };
    if (u->scores.n_rows == 0)
        return true;
    if (u->scores.n_tokens > 0 &&
        (!blas_ok(blas.set_stream(blas.handle, stream), e) ||
         !blas_ok(blas.set_workspace(blas.handle, work + u->blas_at, BLAS_WORKSPACE), e) ||
         !cuda_ok(cuda_launch_unfused(&s, &a, UNFUSED_GATHER, stream), "gather", e)))
        return false;
    return products(cp, &a, &s, SKINNY_QK, stream, e) &&
           cuda_ok(cuda_launch_unfused(&s, &a, UNFUSED_SCALE, stream), "scale", e) &&
           (!u->scores.masked || cuda_ok(cuda_launch_unfused(&s, &a, UNFUSED_MASK, stream), "mask", e)) &&
           cuda_ok(cuda_launch_unfused(&s, &a, UNFUSED_SOFTMAX, stream), "softmax", e) &&
           products(cp, &a, &s, SKINNY_PV, stream, e) &&
           cuda_ok(cuda_launch_unfused(&s, &a, UNFUSED_STORE, stream), "store", e);
}
