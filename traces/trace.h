/*
 * trace.h - a trace: the sequence of trees that a workload goes through, one tree and its queries per decode
 * step.
 */
#ifndef TREEATTN_TRACES_TRACE_H
#define TREEATTN_TRACES_TRACE_H

#include "ref/tree.h"

struct trace_opts {
    int32_t tree_index; /* which usable item of the file; incomplete items are skipped before numbering */
    int64_t prompt;     /* P: tokens of the root; 0: the file's own */
    int64_t max_seq;    /* S: the run ends after S - P - 1 iterations; 0: no cap */
    bool topology;      /* speculative records: hang the tokens as Tree_Structure says, not flat */
};

struct trace; /* opaque */

/*
 * Open a trace by a spec string:
 *   deft:FILE       DeFT's reasoning templates (a JSON array) or speculative records (a JSON object)
 *   fewshot:W       W branches off one prompt (needs prompt and max_seq)
 *   embedded:NAME   one of the traces shipped inside the program (trace_embedded)
 *   reasoning:SEED  a seeded reasoning trace of the project's own, same shape family as DeFT's sorting task
 *   spec:T,SEED     a seeded speculative trace of the project's own with T token-tree queries
 * NULL with *e set: "FILE:LINE: what is wrong (what was expected)". Free with trace_close.
 */
struct trace *trace_open(const char *spec, const struct trace_opts *opts, struct err *e);
void trace_close(struct trace *tr);

/* One line about it: kind, source, tree index, P, S. Owned by the trace. */
const char *trace_title(const struct trace *tr);
/* Remarks of the loader (dropped zero-value nodes, say), one sentence; "" if none. */
const char *trace_remark(const struct trace *tr);
/* Decode iterations N; steps are numbered 1 .. N. */
int64_t trace_steps(const struct trace *tr);
/* generated_len as DeFT counts it. */
int64_t trace_generated(const struct trace *tr);
/* The tree at step t (1 .. N): present nodes only, one query per live leaf, in ascending id order of the
 * trace. The caller frees with tree_free. Cost proportional to the trace's nodes, not to t. */
struct tree *trace_tree(const struct trace *tr, int64_t t);

/* Counters of one step, as ../shared/traces/README.md section 5 names them. */
struct trace_count {
    int64_t queries;   /* q(t) */
    int64_t nodes;     /* present nodes, root included */
    int64_t kv_tree;   /* A(t): KV tokens present, each node once */
    int64_t kv_seq;    /* B(t): sum over queries of context length */
    int64_t kv_node32; /* C(t): sum over present nodes of len * ceil(queries below / 32) */
};
struct trace_count trace_count_tree(const struct tree *t);

/* Names of the embedded traces, NULL-terminated. */
extern const char *const trace_embedded[];

#endif
