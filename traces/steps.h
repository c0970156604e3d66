/*
 * steps.h - what traces are made of, and the four replays of it; internal to traces/.
 *
 * The rules of the first three are those of DeFT's release, with its letters: prompt length P, max_seq
 * length S, G = S - P, iterations t = 1 .. N. Iteration t's tree is what its attention sees: each query's
 * own token is already there.
 */
#ifndef TREEATTN_TRACES_STEPS_H
#define TREEATTN_TRACES_STEPS_H

#include "traces/trace_kind.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A node of a reasoning tree: a leaf that is decoded at the iterations start .. end, both included. Node 0 is
 * the prompt (start = 1 - value, end = 0); a child starts when its parent has ended; parent < child. */
struct reasoning_node {
    int32_t parent;
    int64_t value, start, end; /* tokens = end - start + 1 */
};
struct reasoning {
    int32_t n_nodes;
    struct reasoning_node *node; /* [n_nodes] */
    int64_t *end_below;          /* [n_nodes] the last `end` in each subtree; of a trace */
};

/* Speculative decoding: the token tree, the same at every step, and how many tokens each step accepts. */
struct speculative {
    int32_t n_tokens;
    int32_t *
        parent; /* [n_tokens] token 0 is the last accepted one (-1), every other hangs under an earlier one */
    int64_t n_accept;
    int64_t *accept;   /* [n_accept] */
    int64_t prompt;    /* 0: the file does not say */
    int64_t *root_len; /* [n_steps] R(t + 1); of a trace */
};

/* A request trace: prompts as lists of blocks. Equal ids mean equal blocks under equal prefixes. */
enum { REQUEST_BLOCK = 512 }; /* tokens of a block in Mooncake's traces */
struct request {
    int64_t arrival;       /* ms; never decreases */
    int64_t input, output; /* tokens of the prompt, tokens to decode; both at least 1 */
    int64_t first;         /* its ids are block[first .. first + n_blocks) */
    int32_t n_blocks, line;
};
struct requests {
    int32_t n;
    struct request *request; /* [n] */
    int64_t n_blocks, *block;
    int64_t block_tokens; /* of a block; the last of a prompt may have fewer */
    int64_t *end; /* [n_blocks] tokens of the prompt up to the end of each block; NULL: block_tokens each */
};

/* Who of them is in flight at which steps. */
struct batching {
    struct requests *requests;
    int32_t places;       /* B */
    int32_t *rank;        /* [n] place in depth-first order of the prefix trie */
    int64_t *start, *end; /* [n] first and last step, both included; starts never decrease */
    int64_t *end_before;  /* [n] the largest end so far, that request's included */
};

struct reasoning *reasoning_new(int32_t n_nodes);
void reasoning_free(struct reasoning *r);
struct speculative *speculative_new(int32_t n_tokens, int64_t n_accept);
void speculative_free(struct speculative *s);
struct requests *requests_new(void); /* none yet, in blocks of REQUEST_BLOCK */
void requests_free(struct requests *r);

/* What `self` of a trace points to: struct reasoning, struct speculative, struct batching. */
extern const struct trace_kind reasoning_kind, flat_kind, topology_kind, requests_kind;

/* Each makes a trace; its first argument becomes the trace's own, also when NULL is returned with *e set.
 * `source` goes into titles and messages. */
struct trace *replay_reasoning(struct reasoning *r, const char *source, const struct trace_opts *o,
                               struct err *e);
struct trace *replay_speculative(struct speculative *s, const char *source, const struct trace_opts *o,
                                 struct err *e);
struct trace *replay_requests(struct requests *r, const char *source, const struct trace_opts *o,
                              struct err *e);

/*
 * DeFT's expansion of accepted lengths to the sum G: list entries while their sum stays within G, then
 * uniform integers in [least, largest entry] from CPython's generator seeded with 0, the last one clipped.
 * The result has *n entries and is freed with free(). NULL if the list is empty or all zero.
 */
int64_t *accept_expand(const int64_t *list, int64_t n_list, int64_t g, int64_t *n, struct err *e);

#ifdef __cplusplus
}
#endif

#endif
