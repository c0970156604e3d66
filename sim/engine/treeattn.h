/*
 * treeattn.h - block tables of a serving engine to plans of tree attention: libtreeattn.so. API 1.0.
 *
 *     #include <treeattn.h>                                            cc engine.c $(pkg-config --cflags --libs treeattn)
 *
 *     struct ta_limits limits = {.size = sizeof limits, .requests = 128, .pages = 131072};
 *     struct ta_ctx *c = ta_open(&limits);                             all memory is taken here
 *     every step:
 *         ta_tree(c, &batch)                                           requests that share pages share nodes of a tree
 *         ta_plan(c, &shape, "auto", &plan)                            plan.words[0 .. plan.n_words): one upload
 *     ta_close(c);
 *
 * Requests share a prefix where their lists of pages begin with the same pages. A page that stands at two places of
 * such lists is two pages to this library. A query of a request sees its first tokens; a plan says which queries read
 * which tokens together.
 *
 * What the library never does: abort, exit, print, allocate after ta_open, lock, keep anything outside of the
 * context. A context belongs to one thread at a time. A call that fails returns a ta_code other than TA_DONE, and
 * ta_error says why; the context stays usable. What a call is given is only read.
 *
 * This header is C11 and C++14. Structs that the caller fills begin with their size, and fields are only ever added
 * at their end: what was compiled with this header runs with later libraries of the same soname. A field that is 0 or
 * NULL has the default in brackets.
 */
#ifndef TREEATTN_H
#define TREEATTN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TA_API 1

enum ta_code {
    TA_DONE = 0,
    TA_BAD_INPUT = 1,      /* such as a negative page id. Of ta_tree: there is no tree then */
    TA_NO_ROOM = 2,        /* it is more than a limit of ta_open allows */
    TA_DOES_NOT_APPLY = 3, /* the strategy does not plan such trees */
    TA_BROKEN = 4          /* a check inside of the library failed, which is a mistake of ours */
};

/* What a context is made for. Memory is taken from the system at ta_open and touched when it is used. */
struct ta_limits {
    uint32_t size;
    int32_t requests;   /* of a step, at most; 1 to 2^20 */
    int64_t queries;    /* of a step, at most [as many as requests] */
    int64_t pages;      /* that a step's tree has, each counted once, at most [65,536] */
    int32_t pool_pages; /* page ids are below this [2^31 - 1] */
    int64_t plan_words; /* of a packed plan, at most [pages, and 16,384, and 256 a query] */
    int64_t slots; /* partial results of a plan, at most: what scratch memory has room for [any number] */
    uint64_t work_bytes; /* for planning [64 MiB, and 64 KiB a query]. ta_work says how much was needed */
};

struct ta_ctx; /* opaque */

/* NULL: a limit is out of range, or the system has no memory. */
struct ta_ctx *ta_open(const struct ta_limits *limits);
void ta_close(struct ta_ctx *c);

/* Why the last call on this context failed: a sentence, "" if it did not. It lasts until the next call. */
const char *ta_error(const struct ta_ctx *c);
/* "1.0", the API of the library; static. */
const char *ta_version(void);
/* The most bytes of work_bytes that a call has used so far. */
uint64_t ta_work(const struct ta_ctx *c);

/* ---- the tree ---------------------------------------------------------------------------------------- */

/*
 * The requests of a step, in one of two forms:
 *
 *   block table  pages[r * stride + i] is page i of request r, which has lengths[r] tokens (vLLM, FlashAttention)
 *   CSR          pages[indptr[r] + i] is page i of request r; the last of its pages has last_page[r] tokens (FlashInfer)
 *
 * Incremental: where kept is given, kept[r] says how many of request r's first pages are the same as in the call
 * before, in which it was request r, too. A request that came, or took the place of another, has kept 0. A request of
 * which all pages of before were kept costs next to nothing, also if it grew. A kept[r] that is not true makes a
 * wrong tree, but never a crash. The tree does not depend on how it came about: it is what a call without kept makes.
 *
 * ta_plan reads the pages again. They must stay as they are until then.
 */
struct ta_batch {
    uint32_t size;
    int32_t page_size;        /* tokens of a page; 1 to 65,536 */
    int32_t n_requests;       /* may be 0 */
    const int32_t *pages;     /* of all requests */
    int64_t stride;           /* block table: from one request to the next */
    const int32_t *lengths;   /* block table: [n_requests] tokens */
    const int32_t *indptr;    /* CSR: [n_requests + 1] */
    const int32_t *last_page; /* CSR: [n_requests] 1 to page_size; of a request without pages 0 */
    const int32_t *
        queries; /* [n_requests] request r's last queries[r] tokens ask, each sees all up to itself [1 each] */
    const int32_t *kept; /* [n_requests] [0 each: the tree is made anew] */
};
int ta_tree(struct ta_ctx *c, const struct ta_batch *batch); /* in CSR where indptr is given */

struct ta_query {
    int32_t node; /* it sees all tokens above this node, */
    int64_t upto; /* and the first `upto` of the node */
};

/* The tree, whose arrays are the context's and last until its next tree. Nodes that part further down have at least
 * two children. They are numbered by depth, in one depth by the first request that passes through; parents come
 * first. Queries have the order of requests, and in a request that of their tokens. */
struct ta_nodes {
    uint32_t size;
    int32_t n_nodes, n_queries;
    const int32_t *parent;        /* [n_nodes] -1 of a root */
    const int64_t *len;           /* [n_nodes] tokens */
    const int64_t *first;         /* [n_nodes] tokens above it; a whole number of pages */
    const int32_t *request;       /* [n_nodes] a request in whose list the node's pages are */
    const struct ta_query *query; /* [n_queries] */
};
int ta_get_nodes(struct ta_ctx *c, struct ta_nodes *out);

/* ---- the plan ---------------------------------------------------------------------------------------- */

/* Attention besides the tree. */
struct ta_shape {
    uint32_t size;
    int32_t n_heads, n_kv_heads, head_dim; /* the first is a multiple of the second */
    int32_t
        value_dim; /* latent attention: V is the first so many numbers of K's row [V is apart, as long as K] */
    const char *dtype; /* of Q and O: f64, f32, f16 or bf16 [f16] */
    const char *kv;    /* of K and V: e4m3 or e5m2 [as Q] */
    /* The GPU by its name in `treeattn list machines`, where figures may follow: "h100", "h200:sms=66" [h200] */
    const char *machine;
};

/*
 * A packed plan: a header of TA_HEADER words, and sections behind it. The address is the same for all plans of a
 * context, so a graph of GPU work may keep it, or that of a copy of the same size; a kernel reads the header to find
 * the sections. Words are int32.
 *
 *   words[TA_AT_x], words[TA_N_x]     where section x begins, counted from words, and how many entries it has
 */
enum { TA_MAGIC = 0x41544c50, TA_PACKING = 1, TA_HEADER = 32 };
enum ta_word {
    TA_W_MAGIC,   /* TA_MAGIC */
    TA_W_PACKING, /* TA_PACKING: another number has other sections */
    TA_W_WORDS,   /* of all */
    TA_W_PAGE_SIZE,
    TA_W_QUERIES,
    TA_W_SLOTS,  /* partial results: O and LSE of all query heads of one query */
    TA_W_F16,    /* 1: partial O is fp16, 0: fp32 */
    TA_W_WEIGHT, /* 0: O is normalized, with LSE; 1: it is not, with maximum and sum */
    TA_AT_LAUNCH,
    TA_N_LAUNCH,
    TA_AT_GROUP,
    TA_N_GROUP,
    TA_AT_QUERY,
    TA_N_QUERY,
    TA_AT_RUN,
    TA_N_RUN,
    TA_AT_MASK,
    TA_N_MASK,
    TA_AT_MERGE,
    TA_N_MERGE,
    TA_AT_INPUT,
    TA_N_INPUT,
    TA_AT_PAGE,
    TA_N_PAGE
};
/* A launch: starts when the one before has ended, or beside it. Its groups and merges are independent of each other. */
enum ta_launch_word { TA_L_CONCURRENT, TA_L_GROUPS, TA_L_MERGES, TA_LAUNCH_WORDS };
/*
 * A group: its queries x its runs of tokens, once for every KV head. Query k of it (its number is in section query,
 * at TA_G_QUERY + k) sees run r of it (in section run, at TA_G_RUN + r) if TA_G_MASK is -1, or bit k * TA_G_RUNS + r
 * is set, counted from bit 0 of word TA_G_MASK of section mask. Its partial result goes to slot TA_G_SLOT + k; -1: it
 * is the query's output. TA_G_TILE_M, _N: rows x tokens of the tile the plan is made for, 0: any. TA_G_KIND: how the
 * strategy's own kernel reads the mask, a ta_mask_kind.
 */
enum ta_mask_kind {
    TA_MASK_NONE,
    TA_MASK_RUN_WORDS,
    TA_MASK_TOKEN_WORDS,
    TA_MASK_QUERY_WORDS,
    TA_MASK_DENSE
};
enum ta_group_word {
    TA_G_LAUNCH,
    TA_G_TILE_M,
    TA_G_TILE_N,
    TA_G_QUERY,
    TA_G_QUERIES,
    TA_G_RUN,
    TA_G_RUNS,
    TA_G_TOKENS,
    TA_G_MASK,
    TA_G_SLOT,
    TA_G_KIND,
    TA_GROUP_WORDS = 12
};
/* A run: TA_R_TOKENS tokens, which begin with token TA_R_OFFSET of the page that stands in section page at TA_R_PAGE,
 * and go on in the pages behind it. They are tokens TA_R_BEGIN .. of node TA_R_NODE. TA_R_POSITION: tokens above the
 * first of them. */
enum ta_run_word { TA_R_PAGE, TA_R_OFFSET, TA_R_TOKENS, TA_R_NODE, TA_R_BEGIN, TA_R_POSITION, TA_RUN_WORDS };
/* A merge: TA_M_INPUTS slots (in section input, at TA_M_INPUT) become one, in slot TA_M_SLOT; -1: the output of query
 * TA_M_QUERY. Without inputs the query sees nothing: O = 0, LSE = -inf. TA_M_ONCHIP: a slot whose group may hand it
 * over in registers, or -1. */
enum ta_merge_word {
    TA_M_QUERY,
    TA_M_LAUNCH,
    TA_M_INPUT,
    TA_M_INPUTS,
    TA_M_SLOT,
    TA_M_ONCHIP,
    TA_MERGE_WORDS
};

struct ta_packed {
    uint32_t size;
    const int32_t *words; /* the context's; until the next ta_plan */
    int64_t n_words;
};

/*
 * The plan of the context's tree by a strategy of `treeattn list strategies`: "pat", or with options,
 * "pat:rule=artifact". "auto", or NULL, is the plan of treeattn's own strategy that its cost model of the machine
 * finds cheapest. "again" is the strategy of the last plan, with the options that it chose then: an engine lets
 * "auto" choose now and then, and plans the steps between by "again", which takes a fraction of the time.
 */
int ta_plan(struct ta_ctx *c, const struct ta_shape *shape, const char *strategy, struct ta_packed *out);

/* What the step costs with the plan of "auto", and if no request shared anything: each request alone, planned by the
 * same rules. */
struct ta_price {
    uint32_t size;
    double shared_us, alone_us; /* microseconds of one layer's attention on the machine, by the cost model */
    int64_t shared_bytes, alone_bytes; /* of K and V to be read: each token once, or once a request */
};
int ta_get_price(struct ta_ctx *c, const struct ta_shape *shape, struct ta_price *out);

#ifdef __cplusplus
}
#endif

#endif
