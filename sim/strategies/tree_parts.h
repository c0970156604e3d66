/*
 * tree_parts.h - what several strategies need of a tree: live nodes in order, contexts, the common prefix,
 * pieces.
 *
 * A node is live when it has tokens and a query below it. Nothing else is ever read.
 */
#ifndef TREEATTN_SIM_STRATEGIES_TREE_PARTS_H
#define TREEATTN_SIM_STRATEGIES_TREE_PARTS_H

#include "sim/strategy.h"
#include "sim/time/tiles.h"

#ifdef __cplusplus
extern "C" {
#endif

static inline bool node_live(const struct nform *nf, int32_t v)
{
    return nf->len[v] > 0 && nf->q1[v] > nf->q0[v];
}

/* A live node with what planners ask about it. In an order other than by id, each array of the normal form
 * would be another cache miss. */
struct live {
    int32_t node, depth, q0, q1; /* as in struct nform */
    int64_t len;
};
/* The live nodes, *n of them, depth first with children by id; the caller frees. */
struct live *live_depth_first(const struct nform *nf, int32_t *n);

/*
 * Selects one query after the other with its whole path, root first. All of them together cost the nodes and the runs
 * written, not the paths.
 *
 *     struct paths w = paths_of(nf, 0);
 *     for (int32_t q = 0; q < nf->n_queries; q++)
 *         ... *paths_next(&w, q) ...
 *     paths_free(&w);
 */
struct paths {
    struct live *live;
    int32_t n, at; /* live nodes, and the first that no query was below so far */
    int32_t *end;  /* of each run of sel: the first query after those below its node */
    struct sel sel;
    const struct nform *nf;
    struct sel seen; /* with windows: what the query sees of sel */
};
/* Paths without the first `above` live nodes, which all queries must share. */
struct paths paths_of(const struct nform *nf, int64_t above);
/* q must exceed the one asked for before. The selection is valid until the next call. */
const struct sel *paths_next(struct paths *w, int32_t q);
void paths_free(struct paths *w);

/* Tokens that each query sees, out[nf->n_queries]; the caller frees. Linear in nodes and queries; with windows in runs of paths. */
int64_t *query_contexts(const struct nform *nf);

/* Runs of all paths together: nodes with tokens, counted once for each query that sees them. */
int64_t count_path_runs(const struct nform *nf);

/* Select the queries below v besides those selected before. Nodes must come depth first: their ranges then
 * start in ascending order, and remembering where the last range ends is enough for the union. */
void sel_queries_below(struct sel *s, const struct live *v);

/* Every live node, depth first, with every query that sees a token; clears s first. */
void sel_live_tree(struct sel *s, const struct nform *nf);

/*
 * The longest token sequence that every query starts with (queries that see nothing aside), and these
 * queries; clears s first. The runs are the first live nodes, one each. Empty when the queries start with
 * different nodes or none sees anything.
 */
void sel_common_prefix(struct sel *s, const struct nform *nf);
/* applicable() of the single-prefix methods: is there such a prefix, and do all of these queries see all of it? */
bool has_common_prefix(const struct nform *nf, const struct plan_env *env, const struct strategy *s,
                       const double *opt, char *why);

/* Two launches of groups in one tile: "prefix" has the prefix that all queries share, which there must be, for all of them; `rest`
 * has what each query sees below it, a group a query. A query that ends with the prefix has no group there. The merge is the
 * caller's. */
void prefix_then_rest(struct plan *p, const struct nform *nf, struct tile tile, const char *rest);

/* The selection as groups of `chunk` tokens each, the last one shorter; *g says the rest and asks for no
 * piece. Linear in what it adds. Returns the number of groups. */
int64_t group_pieces(struct plan *p, const struct sel *s, const struct group_spec *g, int64_t chunk);

/*
 * A launch for each depth that has a live node, a group for each live node with all queries below it. The
 * tile follows from the mean number of rows of the level's groups. Groups stand depth first, whatever their
 * launch, so that a query's partials are wired side by side. Returns the number of groups.
 */
int32_t level_groups(struct plan *p, const struct nform *nf, int32_t gqa,
                     struct tile (*tile)(double mean_rows));

/*
 * FlashAttention's split heuristic (version 2.6): into how many parts to cut contexts of at most `blocks` KV
 * tiles. Uncut, `ctas` CTAs would run; the machine holds sms * resident at a time. One part if the CTAs alone
 * nearly fill it. Else the fewest parts whose last wave is about as full as the fullest possible.
 */
int64_t split_parts(const struct plan_env *env, int64_t ctas, int64_t blocks, int64_t resident);
/* Tokens per part when `tokens` are cut into at most `parts` of whole tiles. */
int64_t split_chunk(int64_t tokens, int64_t parts, int32_t tile_n);

#ifdef __cplusplus
}
#endif

#endif
