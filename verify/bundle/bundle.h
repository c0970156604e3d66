/*
 * bundle.h - a step of a running engine in a file: what its attention read, and what it wrote.
 *
 * A bundle is a safetensors file (verify/child/tensors.h) with the tensors of the child protocol's view `extend`, or of `paged`
 * (verify/child/README.md):
 *
 *   block_table [R, most], seq_lens [R]                     pages of R requests, and tokens of each; or
 *   kv_indptr [R+1], kv_indices, kv_last_page_len [R]       the same as lists (FlashInfer; last_page_len is the same name)
 *   query_start_loc [R+1]                                   queries of each, its last tokens; none: one a request (qo_indptr, too)
 *   q [n, heads, d]                                         n queries
 *   k, v [pages, page, KV heads, d]                         the pages that the lists name
 *   o [n, heads, d], lse [n, heads]                         what the engine's kernel wrote; LSE is a natural logarithm
 *   scale, soft_cap F64 [1], window I64 [1]                 1 / sqrt(d), none and none where they are not there
 *   sinks [heads], k_scale, v_scale [KV heads], F32         as in the protocol
 *   declares U8 [bytes]                                     JSON: how the kernel computes, by the keys of a child's first line
 *
 * Lists are I32 or I64. Without q, k, v and o there is a tree to be priced and nothing to be judged: workloads of flashinfer-bench
 * keep such lists.
 *
 * Requests that begin with the same pages share them: the tree is made of nothing else.
 */
#ifndef TREEATTN_VERIFY_BUNDLE_BUNDLE_H
#define TREEATTN_VERIFY_BUNDLE_BUNDLE_H

#include "ref/problem.h"
#include "verify/child/tensors.h"
#include "verify/compare/cause.h"
#include "verify/compare/compare.h"

BEGIN_C

/* Pages of requests, as an engine lists them. */
struct request_pages {
    int32_t n_requests, page_size;
    int64_t *ptr;  /* [n_requests + 1] into page: a request's pages; no more than its tokens need */
    int32_t *page; /* [ptr[n_requests]] 0 or more */
    int64_t *len;  /* [n_requests] tokens */
    int32_t *
        q_len; /* [n_requests] queries, on its last tokens; more than there are tokens: those in front see nothing */
};
void request_pages_free(struct request_pages *x);

/* The tree of what requests share: the same pages in the same order from the first one on. *table: a page for each page of the
 * tree's nodes, as struct problem has them. Queries stand request by request. The caller frees both (tree_free, free). */
struct tree *tree_of_pages(const struct request_pages *x, int32_t **table);

struct bundle {
    struct tensors file;
    struct request_pages lists;
    struct tree *tree;
    struct problem *p;  /* its Q, K, V are the file's; NULL: the file has none */
    struct output *out; /* NULL: the file has none */
    bool has_lse;       /* else LSE in out is to be filled in */
    struct kernel_arithmetic declared;
    /* What cannot be read off the file is as given: heads, page size. */
    struct problem_spec spec;
};

/* Reads and checks a file, which a stranger may have written. given: heads and page size of a file without K. False with *e set; then
 * there is nothing to be freed. Else free with bundle_free. */
bool bundle_read(const char *path, const struct problem_spec *given, struct bundle *b, struct err *e);
void bundle_free(struct bundle *b);

struct bundle_verdict {
    struct comparison cmp;
    struct cause cause; /* of numbers that are wrong */
};
/* The engine's output against exact attention. b->out is not NULL. */
struct bundle_verdict bundle_judge(struct bundle *b);

END_C

#endif
