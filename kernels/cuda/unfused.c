/*
 * unfused.c - plans whose scores are materialised (naive, tree-medusa): GEMMs by cuBLAS, and the kernels between
 * them, one step after the other for all groups, as the plan's launches say: QK, scale, mask, softmax, PV.
 *
 * cuBLAS wants matrices: K and V of every group are gathered through the page table first, into the copy for
 * each query that a plan with replicated storage speaks of. That is part of a run and of its time.
 *
 * cuBLAS is loaded when the first such plan is made, so that nobody else needs to have it.
 */
#include "kernels/cuda/internal.h"

#include <cublas_v2.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

enum { LD_ALIGN = 8, BLAS_WORKSPACE = 32 << 20, BUFFER_ALIGN = 256 };

/* ---- cuBLAS ----------------------------------------------------------------------------------------- */

static struct blas {
    cublasHandle_t handle;
    __typeof__(&cublasCreate_v2) create;
    __typeof__(&cublasSetStream_v2) set_stream;
    __typeof__(&cublasSetWorkspace_v2) set_workspace;
    __typeof__(&cublasGemmStridedBatchedEx) gemm;
} blas;

static bool load_blas(struct err *e)
{
    if (blas.handle)
        return true;
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
    if (blas.create(&blas.handle) != CUBLAS_STATUS_SUCCESS)
        return err_missing(e, "cuBLAS does not start on this GPU");
    return true;
}

static cudaDataType_t data_type(enum cuda_half t)
{
    return t == CUDA_F16 ? CUDA_R_16F : CUDA_R_16BF;
}

bool gpu_gemm(enum dtype t, int32_t n, const void *a, const void *b, void *c, void *stream, struct err *e)
{
    const float one = 1, zero = 0;
    cudaDataType_t type = t == DT_F16 ? CUDA_R_16F : CUDA_R_16BF;
    if (!load_blas(e))
        return false;
    blas.set_stream(blas.handle, stream);
    if (blas.gemm(blas.handle, CUBLAS_OP_N, CUBLAS_OP_N, n, n, n, &one, b, type, n, 0, a, type, n, 0, &zero,
                  c, type, n, 0, 1, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT) != CUBLAS_STATUS_SUCCESS)
        return err_missing(e, "cuBLAS refused a product of %d x %d", n, n);
    return true;
}

/* ---- plans ------------------------------------------------------------------------------------------ */

struct unfused_gemm {
    int32_t rows, n_kv, ld;
    int64_t row0, token0, score0; /* of the group, over all groups */
};

struct unfused {
    struct unfused_gemm *gemm; /* [n_groups] */
    int64_t n_groups, n_rows, n_blocks, n_scores, n_tokens;
    struct cuda_upload block; /* rows, then token blocks */
    int64_t blocks_at;
    /* in the workspace */
    int64_t q_at, k_at, v_at, score_at, probability_at, max_at, sum_at, o_at, blas_at;
    bool masked;
    float scale;
};

bool unfused_supports(const struct problem *p, const struct plan *plan, const struct cuda_options *opt,
                      char *why)
{
    struct err e = {0};
    (void)p, (void)plan;
    if (opt && opt->rung != CUDA_MMA) {
        snprintf(why, 256,
                 "this rung of the ladder has no path for materialised scores (the kernel cuda has)");
        return false;
    }
    if (load_blas(&e))
        return true;
    snprintf(why, 256, "%.255s", e.msg);
    return false;
}

static int64_t place(int64_t *used, int64_t bytes)
{
    int64_t at = *used;
    *used += ceil_div(bytes, BUFFER_ALIGN) * BUFFER_ALIGN;
    return at;
}

static void fill_rows(const struct cuda_plan *cp, const struct cuda_item *it, int32_t item,
                      const struct unfused_gemm *g, struct unfused_row *row)
{
    int64_t score = g->score0;
    for (int32_t h = 0; h < cp->h_kv; h++)
        for (int32_t r = 0; r < it->n_rows; r++, score += g->ld)
            *row++ = (struct unfused_row){.score = score, .item = item, .row = r, .kv_head = h, .ld = g->ld};
}

static bool upload_lists(struct cuda_plan *cp, const struct cuda_item *item, cudaStream_t stream,
                         struct err *e)
{
    struct unfused *u = cp->unfused;
    int64_t bytes = 0;
    place(&bytes, u->n_rows * (int64_t)sizeof(struct unfused_row));
    u->blocks_at = place(&bytes, u->n_blocks * (int64_t)sizeof(struct unfused_block));
    char *host = upload_begin(&u->block, bytes, e);
    if (!host)
        return false;
    struct unfused_block *block = (struct unfused_block *)(host + u->blocks_at);
    for (int64_t i = 0; i < u->n_groups; i++) {
        const struct unfused_gemm *g = &u->gemm[i];
        fill_rows(cp, &item[i], (int32_t)i, g, (struct unfused_row *)host + g->row0);
        for (int32_t t = 0; t < g->n_kv; t += UNFUSED_TOKENS)
            *block++ = (struct unfused_block){.to = g->token0 + t, .item = (int32_t)i, .token = t};
    }
    cp->bytes += bytes;
    return upload_end(&u->block, bytes, stream, e);
}

bool unfused_fill(struct cuda_plan *cp, const struct cuda_item *item, int64_t n_items, cudaStream_t stream,
                  struct err *e)
{
    if (!cp->unfused)
        cp->unfused = xcalloc(1, sizeof *cp->unfused);
    struct unfused *u = cp->unfused;
    free(u->gemm);
    *u = (struct unfused){
        .block = u->block,
        .gemm = xcalloc((size_t)n_items, sizeof *u->gemm),
        .n_groups = n_items,
        .scale = (float)(cp->scale_log2 / 1.4426950408889634),
    };
    for (int64_t i = 0; i < n_items; i++) {
        struct unfused_gemm *g = &u->gemm[i];
        *g = (struct unfused_gemm){.rows = item[i].n_rows,
                                   .n_kv = item[i].n_kv,
                                   .ld = (int32_t)(ceil_div(item[i].n_kv, LD_ALIGN) * LD_ALIGN),
                                   .row0 = u->n_rows,
                                   .token0 = u->n_tokens,
                                   .score0 = u->n_scores};
        u->n_rows += (int64_t)g->rows * cp->h_kv;
        u->n_tokens += g->n_kv;
        u->n_scores += (int64_t)g->rows * cp->h_kv * g->ld;
        u->n_blocks += ceil_div(g->n_kv, UNFUSED_TOKENS);
        u->masked = u->masked || item[i].mask0 >= 0;
    }
    if (u->n_rows > INT32_MAX || u->n_blocks > INT32_MAX)
        return err_missing(e, "%lld score rows are too many for a grid", (long long)u->n_rows);
    int64_t kv = u->n_tokens * cp->h_kv * cp->d * 2;
    u->q_at = place(&cp->workspace, u->n_rows * cp->d * 2);
    u->k_at = place(&cp->workspace, kv);
    u->v_at = place(&cp->workspace, kv);
    u->score_at = place(&cp->workspace, u->n_scores * 4);
    u->probability_at = place(&cp->workspace, u->n_scores * 2);
    u->max_at = place(&cp->workspace, u->n_rows * 4);
    u->sum_at = place(&cp->workspace, u->n_rows * 4);
    u->o_at = place(&cp->workspace, u->n_rows * cp->d * 4);
    u->blas_at = place(&cp->workspace, BLAS_WORKSPACE);
    return load_blas(e) && upload_lists(cp, item, stream, e);
}

void unfused_free(struct unfused *u)
{
    if (!u)
        return;
    upload_free(&u->block);
    free(u->gemm);
    free(u);
}

/* ---- running ---------------------------------------------------------------------------------------- */

/* Row-major S[h][rows][ld] = Q[h][rows][d] K[n][h][d]^T, which to cuBLAS is S^T = K Q^T, heads as a batch. */
static cublasStatus_t qk(const struct cuda_plan *cp, const struct unfused_gemm *g,
                         const struct unfused_args *u)
{
    const float one = 1, zero = 0;
    int64_t q = g->row0 * cp->d, k = g->token0 * cp->h_kv * cp->d;
    return blas.gemm(blas.handle, CUBLAS_OP_T, CUBLAS_OP_N, g->n_kv, g->rows, cp->d, &one,
                     (const char *)u->k + k * 2, data_type(cp->t), cp->h_kv * cp->d, cp->d,
                     (const char *)u->q + q * 2, data_type(cp->t), cp->d, (int64_t)g->rows * cp->d, &zero,
                     u->score + g->score0, CUDA_R_32F, g->ld, (int64_t)g->rows * g->ld, cp->h_kv,
                     CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
}

/* O[h][rows][d] = P[h][rows][ld] V[n][h][d] */
static cublasStatus_t pv(const struct cuda_plan *cp, const struct unfused_gemm *g,
                         const struct unfused_args *u)
{
    const float one = 1, zero = 0;
    int64_t o = g->row0 * cp->d, v = g->token0 * cp->h_kv * cp->d;
    return blas.gemm(blas.handle, CUBLAS_OP_N, CUBLAS_OP_N, cp->d, g->rows, g->n_kv, &one,
                     (const char *)u->v + v * 2, data_type(cp->t), cp->h_kv * cp->d, cp->d,
                     (const char *)u->probability + g->score0 * 2, data_type(cp->t), g->ld,
                     (int64_t)g->rows * g->ld, &zero, u->o + o, CUDA_R_32F, cp->d, (int64_t)g->rows * cp->d,
                     cp->h_kv, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
}

static bool blas_ok(cublasStatus_t status, struct err *e)
{
    return status == CUBLAS_STATUS_SUCCESS ||
           err_missing(e, "cuBLAS refused a product (status %d)", (int)status);
}

bool unfused_run(struct cuda_plan *cp, const struct cuda_args *x, cudaStream_t stream, struct err *e)
{
    const struct unfused *u = cp->unfused;
    char *work = x->workspace;
    struct cuda_shape s = {.d = cp->d, .t = cp->t};
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
              .h_q = cp->h_q,
              .h_kv = cp->h_kv,
              .gqa = cp->h_q / cp->h_kv,
              .gqa_shift = cp->gqa_shift,
              .page_size = cp->page_size,
              .page_shift = cp->page_shift,
              .slot_f16 = cp->slot_f16,
              .slot_max_sum = cp->slot_max_sum},
        .row = u->block.dev,
        .block = (const struct unfused_block *)((const char *)u->block.dev + u->blocks_at),
        .n_rows = u->n_rows,
        .n_blocks = u->n_blocks,
        .d = cp->d,
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
    if (u->n_rows == 0)
        return true;
    blas.set_stream(blas.handle, stream);
    blas.set_workspace(blas.handle, work + u->blas_at, BLAS_WORKSPACE);
    if (!cuda_ok(cuda_launch_unfused(&s, &a, UNFUSED_GATHER, stream), "gather", e))
        return false;
    for (int64_t i = 0; i < u->n_groups; i++)
        if (!blas_ok(qk(cp, &u->gemm[i], &a), e))
            return false;
    if (!cuda_ok(cuda_launch_unfused(&s, &a, UNFUSED_SCALE, stream), "scale", e) ||
        (u->masked && !cuda_ok(cuda_launch_unfused(&s, &a, UNFUSED_MASK, stream), "mask", e)) ||
        !cuda_ok(cuda_launch_unfused(&s, &a, UNFUSED_SOFTMAX, stream), "softmax", e))
        return false;
    for (int64_t i = 0; i < u->n_groups; i++)
        if (!blas_ok(pv(cp, &u->gemm[i], &a), e))
            return false;
    return cuda_ok(cuda_launch_unfused(&s, &a, UNFUSED_STORE, stream), "store", e);
}
