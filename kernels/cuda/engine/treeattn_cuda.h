/*
 * treeattn_cuda.h - packed plans of treeattn.h, run on an NVIDIA GPU: libtreeattn-cuda.so. API 1.0.
 *
 *     struct ta_cuda *g = ta_cuda_open();
 *     every step, after ta_plan(c, &shape, "auto", &plan):
 *         copy plan.words to the device: `words`                 an upload; the kernels read pages there
 *         ta_cuda_plan(g, &shape, plan.words, plan.n_words, stream)
 *         every layer:
 *             ta_cuda_run(g, &io, stream)                        may be captured in a CUDA graph
 *     ta_cuda_close(g);
 *
 * A plan is laid out for the card once, and run for each layer. ta_cuda_run only launches: it allocates nothing and waits for
 * nothing. All that a run reads or writes besides the plan is the caller's.
 *
 * A call that fails returns a ta_code other than TA_DONE, and ta_cuda_error says why. What a call is given is only read. A plan
 * whose words are wrong is TA_BAD_INPUT. Host memory that runs out ends the process. A handle belongs to one thread at a time.
 * The card is the process's current one.
 */
#ifndef TREEATTN_CUDA_H
#define TREEATTN_CUDA_H

#include <treeattn.h>

#ifdef __cplusplus
extern "C" {
#endif

struct ta_cuda; /* opaque */

/* NULL: there is no GPU that this library drives, or no driver. */
struct ta_cuda *ta_cuda_open(void);
void ta_cuda_close(struct ta_cuda *g);
/* Why the last call failed: a sentence, "" if it did not. It lasts until the next call. */
const char *ta_cuda_error(const struct ta_cuda *g);

/* What scores are, besides the shape. 0: the default in brackets. */
struct ta_cuda_scores {
    uint32_t size;
    int32_t sinks;   /* 1: runs are given a sink for each query head [none] */
    double scale;    /* [1 / sqrt(head_dim)] */
    double soft_cap; /* [none] */
};

/* Takes the plan that is in words[0 .. n_words), on the host, and enqueues what the card needs of it on the stream, behind what still
 * reads the plan before. scores may be NULL. Graphs captured before must not run again. dtype f16 or bf16; kv as Q, e4m3 or e5m2;
 * heads of 64, 128 or 256. Others are TA_DOES_NOT_APPLY; then there is no plan. */
int ta_cuda_plan(struct ta_cuda *g, const struct ta_shape *shape, const struct ta_cuda_scores *scores,
                 const int32_t *words, int64_t n_words, void *stream);

/* Bytes of scratch memory that a run of the plan wants on the device, at a multiple of 256; may be 0. */
int64_t ta_cuda_workspace(const struct ta_cuda *g);

/* All on the device, at multiples of 16. */
struct ta_cuda_io {
    uint32_t size;
    const int32_t *words;           /* a copy of the plan's */
    const void *q;                  /* [queries][heads][head_dim], queries as the batch has them */
    const void *k, *v;              /* [pages][page size][KV heads][head_dim] */
    const float *k_scale, *v_scale; /* [KV heads], of K and V in 8 bits; else NULL */
    const float *sinks;             /* [heads], or NULL */
    void *o;                        /* as q */
    float *lse;                     /* [queries][heads] natural logarithm */
    void *workspace;
};
/* Enqueues one run on the stream. stream: a cudaStream_t; NULL is the default stream. */
int ta_cuda_run(struct ta_cuda *g, const struct ta_cuda_io *io, void *stream);

#ifdef __cplusplus
}
#endif

#endif
