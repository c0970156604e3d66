/*
 * tree_source.h - where one tree comes from, as text that a person types and a case string repeats.
 *
 *   gen:FAMILY:SEED            a seeded tree of a family
 *   levels:1,4_100,20          nodes per level, tokens per node (traces/formats/formats.h)
 *   file:PATH                  a tree file, ours or FastTree's
 *   trace:K:P:S:STEP:SPEC      step STEP of a trace: item K, prompt P, length cap S (traces/trace.h);
 *                              topology:K:P:S:STEP:SPEC hangs speculative tokens as their tree says
 *   batched:K:P:S:STEP:B:MS:SPEC   the same for requests: places B, MS milliseconds a step
 *   chain:DEPTH:LEN            nodes of LEN tokens one below the other, a query at the end of each
 *   nodes:P.L,P.L,..:N.U,..    parent and length of every node, then node and upto of every query
 *   q_len:N:SOURCE             one of these, with a query on each of the last N tokens of a request (tree_set_tails)
 */
#ifndef TREEATTN_VERIFY_CASES_TREE_SOURCE_H
#define TREEATTN_VERIFY_CASES_TREE_SOURCE_H

#include "traces/formats/formats.h"
#include "traces/trace.h"

BEGIN_C

enum tree_source_kind { SRC_NONE, SRC_GEN, SRC_LEVELS, SRC_FILE, SRC_TRACE, SRC_CHAIN, SRC_NODES };

/* Of a trace: what a prompt and a length cap may be, and a step. */
enum { TREE_SOURCE_MAX_LEN = INT32_MAX, TREE_SOURCE_MAX_STEP = INT32_MAX };

struct tree_source {
    enum tree_source_kind kind;
    char *text; /* levels, path, trace spec or node list; owned */
    enum family family;
    uint64_t seed;
    struct trace_opts trace;
    int64_t step; /* 1 .. N of the trace */
    int64_t chain_depth, chain_len;
    int32_t q_len; /* queries of a request, at most; 0: as the source has them */
};
enum { TREE_SOURCE_MAX_Q_LEN = 1024 };

/* trace_open of a trace that has that step (0: whichever it has); NULL with *e set if it has not. */
struct trace *trace_open_at(const char *spec, const struct trace_opts *opts, int64_t step, struct err *e);

/* The last of several items of a trace: however many there are. */
enum { TREES_ALL = INT32_MAX };
/* Items opts->tree_index .. last of a trace's source, each opened: (*out)[*n]. if_there: a source of one item gives that one.
 * False with *e set, as for several of requests. The caller closes them and frees the array, also then. */
bool trace_items_open(const char *spec, const struct trace_opts *opts, int64_t last, bool if_there,
                      struct trace ***out, int32_t *n, struct err *e);

/* Zero-initialised is SRC_NONE; free the contents with tree_source_clear. */
bool tree_source_parse(const char *text, struct tree_source *out, struct err *e);
char *tree_source_print(const struct tree_source *s);
void tree_source_clear(struct tree_source *s);
struct tree_source tree_source_copy(const struct tree_source *s);
/* A source (nodes:..) that loads as this tree, which has at least one node. */
struct tree_source tree_source_from_tree(const struct tree *t);
/* The tree; NULL with *e set. It has passed tree_check. */
struct tree *tree_source_load(const struct tree_source *s, struct err *e);

END_C

#endif
