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
 */
#ifndef TREEATTN_VERIFY_JUDGE_TREE_SOURCE_H
#define TREEATTN_VERIFY_JUDGE_TREE_SOURCE_H

#include "traces/formats/formats.h"
#include "traces/trace.h"

#include <argp.h>

#ifdef __cplusplus
extern "C" {
#endif

enum tree_source_kind { SRC_NONE, SRC_GEN, SRC_LEVELS, SRC_FILE, SRC_TRACE, SRC_CHAIN, SRC_NODES };

struct tree_source {
    enum tree_source_kind kind;
    char *text; /* levels, path, trace spec or node list; owned */
    enum family family;
    uint64_t seed;
    struct trace_opts trace;
    int64_t step; /* 1 .. N of the trace */
    int64_t chain_depth, chain_len;
};

/* Zero-initialised is SRC_NONE; free the contents with tree_source_clear. */
bool tree_source_parse(const char *text, struct tree_source *out, struct err *e);
char *tree_source_print(const struct tree_source *s);
void tree_source_clear(struct tree_source *s);
struct tree_source tree_source_copy(const struct tree_source *s);
/* A source (nodes:..) that loads as this tree, which has at least one node. */
struct tree_source tree_source_from_tree(const struct tree *t);
/* The tree; NULL with *e set. It has passed tree_check. */
struct tree *tree_source_load(const struct tree_source *s, struct err *e);

/* The same as command-line options, a child parser for any subcommand; its input is a struct tree_source_cli. */
struct tree_source_cli {
    struct tree_source src;
    bool has_seed;
    uint64_t seed;    /* --seed; with --gen FAMILY, or alone, the seed of a generated tree */
    bool family_only; /* --gen without its own seed */
    bool many;        /* set by the caller: --tree may be K-L or all, and without --step a trace is meant as a
                         whole (src.step stays 0) */
    int32_t tree_last; /* the last of them; TREES_ALL: however many there are */
    struct err *err;   /* what a parser complains about; set by the caller */
};
enum { TREES_ALL = INT32_MAX };
extern const struct argp tree_source_argp;
/* Settle what --seed means for the tree, once all options are read. `need`: having no source is an error. */
bool tree_source_finish(struct tree_source_cli *cli, bool need, struct err *e);
/* Before that: whether a --steps N (0: none given), which takes N steps of a trace, goes with the source. */
bool tree_source_takes_steps(const struct tree_source_cli *cli, int64_t steps, struct err *e);

#ifdef __cplusplus
}
#endif

#endif
