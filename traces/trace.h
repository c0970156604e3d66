/*
 * trace.h - a trace: the sequence of trees that a workload goes through, one tree and its queries per decode
 * step.
 */
#ifndef TREEATTN_TRACES_TRACE_H
#define TREEATTN_TRACES_TRACE_H

#include "ref/tree.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Requests are replayed as continuous batching. They join in order of arrival, each as soon as the one before
 * it has joined and one of B places is free. Prefill takes no step. From then on a request decodes one token
 * a step. Its place is free again at the step after its output_length-th. At its k-th step it has its prompt
 * and k tokens in the cache. With step_ms > 0 a step takes that long, and a request cannot join before it has
 * arrived. While nobody is in flight the clock jumps to the next arrival, so that every step has a tree. With
 * step_ms = 0 all are there from the beginning, and timestamps only give the order.
 *
 * A step's tree is the prefix forest of the requests in flight: every node is a longest chain of blocks with
 * the same requests below. What a single request has for itself, the rest of its prompt and its decoded
 * tokens, is one leaf with its query; queries are in order of arrival.
 */
enum { TRACE_BATCH = 32, TRACE_MAX_BATCH = 1 << 16 };

struct trace_opts {
    int32_t tree_index; /* which usable item of the file (incomplete ones are skipped before numbering);
                           requests: the first of them to replay */
    int64_t prompt;     /* P: tokens of the root; 0: the file's own */
    int64_t max_seq;    /* S: the run ends after S - P - 1 iterations; 0: no cap */
    bool topology;      /* speculative records: hang the tokens as Tree_Structure says, not flat */
    int32_t batch;      /* requests: B; 0: TRACE_BATCH */
    int64_t step_ms;    /* requests: milliseconds a decode step takes; 0: nobody has to wait for an arrival */
};

struct trace; /* opaque */

/*
 * Open a trace by a spec string, WORD:ARGUMENT; trace_kinds.def says which there are. deft:FILE holds reasoning templates (a
 * JSON array) or speculative records (an object). medusa:FILE without ,NAME is the tree_index-th of the file; the last
 * comma counts. fewshot:W needs prompt and max_seq.
 * FILE without a folder that is not in the current one is looked for in trace_folder().
 * NULL with *e set: "FILE:LINE: what is wrong (what was expected)". Free with trace_close.
 */
struct trace *trace_open(const char *spec, const struct trace_opts *opts, struct err *e);
void trace_close(struct trace *tr);
/* Where published traces are: $TREEATTN_SHARED/traces, else ../shared/traces. The caller frees. */
char *trace_folder(void);

/* One line about it: kind, source, tree index, P, S. Owned by the trace. */
const char *trace_title(const struct trace *tr);
/* Remarks of the loader (dropped zero-value nodes, say), one sentence; "" if none. */
const char *trace_remark(const struct trace *tr);
/* P; requests, which have a prompt each: 0. */
int64_t trace_prompt(const struct trace *tr);
/* Items that its source holds, of which tree_index picks one; requests, where it picks the first: 0. */
int64_t trace_items(const struct trace *tr);
/* Decode iterations N; steps are numbered 1 .. N. */
int64_t trace_steps(const struct trace *tr);
/* The k-th, from 0, of n steps spread evenly over 1 .. last; of one, the last. */
int64_t trace_spread(int64_t k, int64_t n, int64_t last);
/* generated_len as DeFT counts it; requests: the sum of output_length. */
int64_t trace_generated(const struct trace *tr);
/* Tokens by which a sequence that lives through steps 1 .. t gets longer: t; speculative: what was accepted, and the
 * token that follows. */
int64_t trace_path_tokens(const struct trace *tr, int64_t t);
/* The tree at step t (1 .. N): present nodes only, one query per live leaf, in ascending id order of the
 * trace. The caller frees with tree_free. Cost proportional to the trace's nodes (requests: to those that
 * have joined since the oldest one in flight), not to t. */
struct tree *trace_tree(const struct trace *tr, int64_t t);

/*
 * What a step's tree is made of, by names that stay the same as long as the trace lives, so that a cache can
 * keep what it holds from step to step. Node i is the pieces piece[piece0[i] .. piece0[i + 1]), one behind
 * the other; each holds `tokens` tokens now. A piece's name is in one node of a step at most. Its tokens
 * never change; more may follow, and only in the last piece of a node. A piece is gone with the first step
 * that does not name it, for good or until it is computed again. Every query's own token, which the step
 * itself writes, is the last one that it sees.
 *
 * Nodes of requests may part or join between steps as others come and go: their pieces are the blocks of the
 * prompt and what a request has decoded. Elsewhere a node is one piece.
 *
 * Speculative decoding keeps some tokens of the step before: accept[] says which pieces, of one token each, have moved
 * behind the end of another since then, in this order. Flat, these are the first of them, as DeFT does it;
 * with `topology` those of the first path that is long enough, root first (verification is mocked: where none is,
 * the longest and then the first others). Their moved-from pieces are not in this step.
 */
struct trace_piece {
    int64_t name, tokens;
};
struct trace_accept {
    int64_t from, to;
};
struct trace_parts {
    int32_t n_accepts;
    int32_t *piece0;           /* [n_nodes + 1] */
    struct trace_piece *piece; /* [piece0[n_nodes]] */
    int64_t *query;            /* [n_queries] who asks: the same sequence, or candidate, the same name */
    struct trace_accept *accept;
};
/* trace_tree, and into *parts what it is made of; free that with trace_parts_free. */
struct tree *trace_step(const struct trace *tr, int64_t t, struct trace_parts *parts);
void trace_parts_free(struct trace_parts *parts);

/* Counters of one step, as ../shared/traces/README.md section 5 names them. */
struct trace_count {
    int64_t queries;   /* q(t) */
    int64_t nodes;     /* present nodes, root included */
    int64_t kv_tree;   /* A(t): KV tokens present, each node once */
    int64_t kv_seq;    /* B(t): sum over queries of context length */
    int64_t kv_node32; /* C(t): sum over present nodes of len * ceil(queries below / 32) */
};
struct trace_count trace_count_tree(const struct tree *t);

/* All that trees can be read from, single trees first; for `treeattn list formats`. */
struct format_info {
    const char *name, *spec, *about;
};
extern const struct format_info formats[];
extern const int32_t n_formats;

/* Names of the embedded traces, NULL-terminated. */
extern const char *const trace_embedded[];

#ifdef __cplusplus
}
#endif

#endif
