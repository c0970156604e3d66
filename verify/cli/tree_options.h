/*
 * tree_options.h - the options that say where a tree comes from.
 */
#ifndef TREEATTN_VERIFY_CLI_TREE_OPTIONS_H
#define TREEATTN_VERIFY_CLI_TREE_OPTIONS_H

#include "verify/judge/tree_source.h"

#include <argp.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A child parser for any subcommand; its input is this. */
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
extern const struct argp tree_source_argp;
/* Settle what --seed means for the tree, once all options are read. `need`: having no source is an error. */
bool tree_source_finish(struct tree_source_cli *cli, bool need, struct err *e);
/* Before that: whether a --steps N (0: none given), which takes N steps of a trace, goes with the source. */
bool tree_source_takes_steps(const struct tree_source_cli *cli, int64_t steps, struct err *e);

#ifdef __cplusplus
}
#endif

#endif
