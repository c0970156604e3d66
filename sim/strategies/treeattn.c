/*
 * treeattn.c - ours: tiles of neighbouring queries with all tokens that any of them sees, so that there are few partial results.
 *
 * The other strategies share tokens at the price of partial results. Take a query that ends in a leaf of 32 tokens, below nodes
 * of 32, 64 and 128 tokens that other queries see as well. It leaves a partial result for each of them. At 4 query heads a KV
 * head, each is written and read again with as many bytes as 8 tokens of K and V have.
 *
 * But a tensor core multiplies at least 16 rows, or 64, and neighbours in the tree fill them at no cost. A mask hides what one of
 * them does not see. So here queries are cut, not nodes. Rows are queries times the query heads of a KV head.
 *
 *   bundle   a topmost node of at most `low` rows, with all nodes below it
 *   trunk    a node of more than `high` rows and at least `trunk` tokens, with all queries below it. Its rows fill tiles where the
 *            heads of a KV head are no power of two, and the prefix of a token tree gets tiles of 128 rows whatever blocks have.
 *   block    at most `high` rows, with every token that any of them sees between the root and the bundles, trunks left out.
 *            Tokens above are read again for every block, mostly from the L2. Tiles of one group would read them as often.
 *
 * A block that has no room for all rows of the next node ends before it, if the node costs more than the rows that are left are
 * worth (goes_on in treeattn_blocks.c). That is nearly always so where branches are long. It is hardly ever so in the token trees
 * of speculative decoding, with one token a node behind thousands that all queries see.
 *
 * Each is a group with a bit mask. A query has at most one partial result of a block and one of a bundle. It has none where low =
 * 0 and there is no trunk, because it is in one block only. In the code all three are a `struct block`; a block that is neither
 * trunk nor bundle is PLAIN.
 *
 * Groups of more than `piece` tokens (bundles: `bundle`) are cut into parts, where nodes end if that is possible. A part has the
 * queries that see any of it. A part of one node has no mask. Groups of at most 32 rows have tiles of 16 and 32 rows, or of 64
 * (`tall`): wgmma multiplies those, and two teams of warps share their tokens.
 *
 * Or the parts of a block take equally long, wherever they end (`even`). Then the few tokens of a token tree's leaves are in one group
 * with the end of its prefix, and that group has fewer tokens than the others. By themselves they had an SM, while the others went
 * over the prefix.
 *
 * In a group with a mask, tokens that all queries see and tokens that some do not take turns (`turns`, interleave.h).
 *
 * Options that are not given are chosen by a model of our kernels (sim/time/treeattn_cost.h): the plan that costs least. The model
 * errs, so `rank` asks for the second or third, which can be timed.
 */
#include "sim/strategies/treeattn_planner.h"

#include <stdio.h>

enum {
    TILE_N = 64,         /* tokens of a step */
    PAIR_TURN = 128,     /* tokens of a turn in tiles of more than 64 rows */
    TURN = 64,           /* and in others */
    LEAST_TURNS_16 = 640 /* tokens of a group in tiles of 16 rows, from which they take turns */
};

static const struct strategy_opt opts[] = {
    [OPT_LOW] = {"low", -1, -1, TILE_MAX,
                 "rows of a bundle at most; 0: no bundles; -1: chosen by the cost model", NULL},
    [OPT_HIGH] = {"high", 0, 0, TILE_MAX, "rows of a block at most; 0: chosen by the cost model", NULL},
    [OPT_PIECE] = {"piece", 0, 0, TREEATTN_MOST_TOKENS,
                   "tokens of a group, or half as many more where nodes end so; 0: chosen by the cost model",
                   NULL},
    [OPT_BUNDLE] =
        {"bundle", 0, 0, TREEATTN_MOST_TOKENS,
         "tokens of a bundle's group; 0: chosen by the cost model, or, if low, high and piece are given, "
         "as `piece`, and 1024 at most",
         NULL},
    [OPT_TRUNK] =
        {"trunk", -1, -1, TREEATTN_MOST_TOKENS,
         "tokens of a trunk's node at least; 0: no trunks; -1: chosen by the cost model, or, if low, high "
         "and piece are given, none",
         NULL},
    [OPT_TALL] =
        {"tall", -1, -1, TILE_TALLEST,
         "1: tiles of 64 rows where 32 would do; 2: where 16 would, too; 0: of 16 and 32; -1: chosen by the "
         "cost model, or, if low, high and piece are given, of 16 and 32",
         NULL},
    [OPT_EVEN] =
        {"even", -1, -1, 1,
         "1: groups of one block take equally long, wherever they end; 0: they end where nodes do; -1: "
         "chosen by the cost model, or, if low, high and piece are given, 0",
         NULL},
    [OPT_TURNS] = {"turns", 1, 0, 1,
                   "1: tokens that all queries see and others take turns, in tiles of 64 rows and more, and "
                   "of 16 where tokens are many; 0: tokens stay as the tree has them",
                   NULL},
    [OPT_RANK] = {"rank", 1, 1, TREEATTN_MOST_RANKS,
                  "use the K-th cheapest plan by the cost model, or the last one there is", NULL},
    [N_OPTS] = {0},
};

/* Tokens that take turns in a tile of so many rows; 0: they do not. */
static int64_t tokens_of_turn(int32_t m, int64_t n_kv)
{
    if (m > TILE_TEAM_ROWS)
        return PAIR_TURN;
    return m == TILE_TEAM_ROWS || (m < TILE_TEAM_ROWS / 2 && n_kv >= LEAST_TURNS_16) ? TURN : 0;
}

/* Puts the group's tokens in order. Tokens that some queries do not see are one sort. In tiles of more than 64 rows they are two,
 * because a warpgroup passes over what only the other half of the tile sees. by: the queries that see each run of the group. */
static void take_turns(struct treeattn_planner *p, struct sel *group, const struct tile_part *x,
                       const struct qrange *by)
{
    int64_t turn = tokens_of_turn(x->m, x->n_kv);
    if (turn == 0 || x->own == 0)
        return;
    p->sort = xgrow(p->sort, &p->cap_sort, group->n_runs, sizeof *p->sort);
    for (int64_t r = 0; r < group->n_runs; r++) {
        bool all = by[r].end - by[r].begin == x->nq;
        int64_t first_row = (int64_t)(by[r].begin - group->qr->begin) * p->gqa;
        p->sort[r] = all ? 0 : x->m > TILE_TEAM_ROWS && first_row >= TILE_TEAM_ROWS ? 2 : 1;
    }
    interleave(group, p->sort, turn, p->spare);
}

static void add_groups(struct plan *plan, struct treeattn_planner *p, const struct block *b,
                       const struct piece *piece, bool turns)
{
    struct sel_place at = {0};
    treeattn_see(p, b);
    treeattn_find_parts(p, b, piece);
    pieces_reset_at(&p->it, &p->seen.sel, p->parts.end, p->parts.n);
    for (const struct qrange *by = p->seen.by; pieces_next(&p->it); by = p->seen.by + at.run) {
        struct tile_part x = treeattn_next_part(p, b, &at, p->it.piece.n_kv);
        x.m = tile_tall_rows(x.m, p->cut.tall);
        treeattn_select_queries(p, &p->it.piece, b, by);
        if (turns)
            take_turns(p, &p->it.piece, &x, by);
        struct group_spec g = {
            .mask = x.own > 0 ? MASK_RUN_WORDS : MASK_NONE, .tile_m = x.m, .tile_n = TILE_N, .launch = 0};
        plan_group(plan, &p->it.piece, &g);
    }
}

static void choose_options(const struct nform *nf, const struct plan_env *env, const double *opt,
                           double *chosen)
{
    struct treeattn_planner p = treeattn_planner_new(nf, env);
    struct choice best = treeattn_choose(&p, opt);
    treeattn_write_options(&best, opt, chosen);
    treeattn_planner_free(&p);
}

static struct plan *plan(const struct nform *nf, const struct plan_env *env, const struct strategy *s,
                         const double *opt)
{
    struct treeattn_planner p = treeattn_planner_new(nf, env);
    struct plan *plan = plan_new(nf, s->name);
    struct choice best = treeattn_choose(&p, opt);
    plan_launch(plan, "attention", LAUNCH_SERIAL);
    plan_reserve(plan, p.n_blocks, p.n);
    int64_t count[BUNDLE + 1] = {0}, longest = 0;
    for (const struct block *b = p.block; b < p.block + p.n_blocks; b++) {
        count[b->kind]++;
        add_groups(plan, &p, b, &best.piece, opt[OPT_TURNS] == 1);
    }
    for (const struct group *g = plan->group; g < plan->group + plan->n_groups; g++)
        longest = max_i64(longest, g->n_kv);
    plan_merge_flat(plan, "merge", true);
    char chosen[144] = "";
    if (treeattn_chooses(opt)) {
        double x[N_OPTS];
        treeattn_write_options(&best, opt, x);
        snprintf(chosen, sizeof chosen,
                 ": low=%.0f,high=%.0f,piece=%.0f,bundle=%.0f,trunk=%.0f,tall=%.0f,even=%.0f", x[OPT_LOW],
                 x[OPT_HIGH], x[OPT_PIECE], x[OPT_BUNDLE], x[OPT_TRUNK], x[OPT_TALL], x[OPT_EVEN]);
    }
    plan_note(
        plan,
        "%lld bundles of at most %lld rows, %lld blocks of at most %lld, %lld trunks, in %lld groups of "
        "at most %lld tokens%s",
        (long long)count[BUNDLE], (long long)best.cut.low, (long long)count[PLAIN], (long long)best.cut.high,
        (long long)count[TRUNK], (long long)plan->n_groups, (long long)longest, chosen);
    treeattn_planner_free(&p);
    return plan;
}

const struct strategy strategy_treeattn = {
    .name = "treeattn",
    .source = "ours",
    .about =
        "Tiles of neighbouring queries with all that any of them sees, masked: few partial results, or none.",
    .opts = opts,
    .plan = plan,
    .choose = choose_options,
};
