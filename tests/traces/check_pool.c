/*
 * check_pool.c - the KV pool against a naive cache that knows of every slot which token it holds.
 *
 * The naive side keeps, for every piece, the list of its tokens, each a number of its own. It carries out
 * what the pool says (moves, then fresh tokens) slot by slot, and then looks whether the page table leads every token
 * of the step's tree to the slot that holds it.
 */
#include "ref/rng.h"
#include "traces/pool.h"

#include "tests/auto.h"
#include "tests/suites.h"

/* ---- the naive cache ----------------------------------------------------------------------------------- */

struct content {
    int64_t name, n, cap, seen;
    int64_t *token; /* [n] */
};

struct cache {
    int64_t n_slots, next_token;
    int32_t page_size;
    int64_t *slot; /* [n_slots] the token it holds; 0: none */
    bool *read;    /* [n_slots] one of the step's moves reads it */
    int32_t n_contents;
    int64_t cap;
    struct content *content;
};

enum fault { FAULT_NONE, FAULT_MOVE, FAULT_FRESH, FAULT_TABLE, N_FAULTS };

static struct cache cache_new(int32_t page_size, int64_t n_pages)
{
    int64_t n = page_size * n_pages;
    return (struct cache){.n_slots = n,
                          .page_size = page_size,
                          .next_token = 1,
                          .slot = xcalloc((size_t)n, sizeof(int64_t)),
                          .read = xcalloc((size_t)n, sizeof(bool))};
}

static void cache_free(struct cache *c)
{
    for (int32_t i = 0; i < c->n_contents; i++)
        free(c->content[i].token);
    free(c->content);
    free(c->slot);
    free(c->read);
}

static struct content *content_of(struct cache *c, int64_t name)
{
    for (int32_t i = 0; i < c->n_contents; i++)
        if (c->content[i].name == name)
            return &c->content[i];
    c->content = xgrow(c->content, &c->cap, c->n_contents + 1, sizeof *c->content);
    c->content[c->n_contents] = (struct content){.name = name};
    return &c->content[c->n_contents++];
}

static void content_add(struct content *x, int64_t token)
{
    x->token = xgrow(x->token, &x->cap, x->n + 1, sizeof *x->token);
    x->token[x->n++] = token;
}

/* What every piece holds at this step. */
static void next_contents(struct cache *c, const struct tree *tree, const struct trace_parts *parts,
                          int64_t t)
{
    for (int32_t k = 0; k < parts->n_accepts; k++) {
        int64_t token = content_of(c, parts->accept[k].from)->token[0];
        content_add(content_of(c, parts->accept[k].to), token);
    }
    for (int32_t k = 0; k < parts->piece0[tree->n_nodes]; k++) {
        struct content *x = content_of(c, parts->piece[k].name);
        while (x->n < parts->piece[k].tokens)
            content_add(x, c->next_token++);
        x->seen = t;
    }
    for (int32_t i = 0; i < c->n_contents; i++)
        if (c->content[i].seen != t) {
            free(c->content[i].token);
            c->content[i--] = c->content[--c->n_contents];
        }
}

/* Token j of node i. */
static int64_t wanted(struct cache *c, const struct trace_parts *parts, int32_t i, int64_t j)
{
    int32_t k = parts->piece0[i];
    while (j >= parts->piece[k].tokens)
        j -= parts->piece[k++].tokens;
    return content_of(c, parts->piece[k].name)->token[j];
}

/* Moves must be free to run in any order: none writes where another reads. */
static bool run_moves(struct cache *c, const struct pool_step *step, enum fault fault)
{
    bool good = true;
    memset(c->read, 0, (size_t)c->n_slots * sizeof *c->read);
    for (int64_t k = 0; k < step->n_moves; k++)
        c->read[step->move[k].from] = true;
    for (int64_t k = 0; k < step->n_moves - (fault == FAULT_MOVE); k++) {
        good = good && !c->read[step->move[k].to];
        c->slot[step->move[k].to] = c->slot[step->move[k].from];
    }
    return good;
}

/* Is every token where the table says? */
static bool cache_step(struct cache *c, const struct tree *tree, const struct trace_parts *parts,
                       const struct pool *pool, const struct pool_step *step, int64_t t, enum fault fault)
{
    int64_t *off = xmalloc(((size_t)tree->n_nodes + 1) * sizeof *off), cap = 0;
    FREED int32_t *table = NULL;
    bool good = true;
    int64_t first_new = c->next_token;
    next_contents(c, tree, parts, t);
    pool_table(pool, tree, parts, off, &table, &cap);
    good = run_moves(c, step, fault);
    for (int64_t k = 0; k < step->n_fresh - (fault == FAULT_FRESH); k++)
        for (int64_t j = step->fresh[k].begin; j < step->fresh[k].end; j++) {
            int32_t i = step->fresh[k].node;
            int64_t at = (int64_t)table[off[i] + j / c->page_size] * c->page_size + j % c->page_size;
            c->slot[at] = wanted(c, parts, i, j);
            good = good && c->slot[at] >= first_new; /* nobody can write a token that is no longer known */
        }
    if (fault == FAULT_TABLE)
        table[off[tree->n_nodes] - 1]++;
    for (int32_t i = 0; i < tree->n_nodes && good; i++) {
        good = off[i + 1] - off[i] == ceil_div(tree->len[i], c->page_size);
        for (int64_t j = 0; j < tree->len[i] && good; j++) {
            int64_t at = (int64_t)table[off[i] + j / c->page_size] * c->page_size + j % c->page_size;
            good = at < c->n_slots && c->slot[at] == wanted(c, parts, i, j);
        }
    }
    struct pool_stats s = pool_stats(pool);
    good = good && s.in_use == off[tree->n_nodes] && s.tokens == tree_tokens(tree);
    free(off);
    return good;
}

/* ---- random prefix forests ----------------------------------------------------------------------------- */

/* Requests come and go on a fixed trie of pieces; each has a tail of its own that grows by a token a step. */
enum { TRIE = 24, PLACES = 7, LONGEST = 40 };

struct forest {
    int32_t parent[TRIE];
    int64_t tokens[TRIE];
    int32_t at[PLACES]; /* piece that the request's prompt ends with; -1: nobody */
    int64_t tail[PLACES], name[PLACES], next_name;
};

static struct forest forest_new(uint64_t seed)
{
    struct forest f = {.next_name = 1000};
    for (int32_t m = 0; m < TRIE; m++) {
        f.parent[m] = (int32_t)rng_below(seed, 1, m, m + 1) - 1;
        f.tokens[m] = 1 + rng_below(seed, 2, m, LONGEST);
    }
    for (int32_t r = 0; r < PLACES; r++)
        f.at[r] = -1;
    return f;
}

static void forest_step(struct forest *f, uint64_t seed, int64_t t)
{
    for (int32_t r = 0; r < PLACES; r++) {
        uint64_t at = (uint64_t)(t * PLACES + r);
        f->tail[r]++;
        if (rng_below(seed, 3, at, 6) > 0)
            continue;
        f->at[r] = (int32_t)rng_below(seed, 4, at, TRIE + 8);
        f->at[r] = f->at[r] < TRIE ? f->at[r] : -1;
        f->tail[r] = 1;
        f->name[r] = f->next_name++;
    }
    if (f->at[0] < 0) {
        f->at[0] = (int32_t)(t % TRIE);
        f->tail[0] = 1;
        f->name[0] = f->next_name++;
    }
}

static void add_piece(struct trace_parts *parts, const struct tree *tree, int64_t name, int64_t tokens)
{
    int32_t k = parts->piece0[tree->n_nodes]++;
    parts->piece[k] = (struct trace_piece){name, tokens};
    tree->len[tree->n_nodes - 1] += tokens;
}

static void open_node(struct tree *tree, struct trace_parts *parts, int32_t parent)
{
    tree->parent[tree->n_nodes++] = parent;
    parts->piece0[tree->n_nodes] = parts->piece0[tree->n_nodes - 1];
}

/* A node below tree node `above` with piece m and those after it that the same requests have. */
static void grow_forest(const struct forest *f, int32_t m, const int32_t *below, int32_t above,
                        struct tree *tree, struct trace_parts *parts)
{
    open_node(tree, parts, above);
    int32_t node = tree->n_nodes - 1, next = m;
    while (next >= 0) {
        m = next;
        next = -1;
        add_piece(parts, tree, m, f->tokens[m]);
        for (int32_t k = m + 1; k < TRIE; k++)
            if (f->parent[k] == m && below[k] == below[m])
                next = k;
    }
    for (int32_t r = 0; r < PLACES; r++)
        if (f->at[r] == m && below[m] == 1) {
            add_piece(parts, tree, f->name[r], f->tail[r]);
            tree->query[tree->n_queries++] = (struct query){node, tree->len[node]};
        }
    for (int32_t k = m + 1; k < TRIE; k++)
        if (f->parent[k] == m && below[k] > 0)
            grow_forest(f, k, below, node, tree, parts);
    for (int32_t r = 0; r < PLACES; r++)
        if (f->at[r] == m && below[m] > 1) {
            open_node(tree, parts, node);
            add_piece(parts, tree, f->name[r], f->tail[r]);
            tree->query[tree->n_queries++] = (struct query){tree->n_nodes - 1, f->tail[r]};
        }
}

static struct tree *forest_tree(const struct forest *f, struct trace_parts *parts)
{
    struct tree *tree = tree_new(TRIE + PLACES, PLACES);
    int32_t below[TRIE] = {0};
    tree->n_nodes = tree->n_queries = 0;
    *parts = (struct trace_parts){.piece0 = xcalloc(TRIE + PLACES + 1, sizeof *parts->piece0),
                                  .piece = xcalloc(TRIE + PLACES, sizeof *parts->piece)};
    for (int32_t r = 0; r < PLACES; r++)
        for (int32_t m = f->at[r]; m >= 0; m = f->parent[m])
            below[m]++;
    for (int32_t m = 0; m < TRIE; m++)
        if (f->parent[m] < 0 && below[m] > 0)
            grow_forest(f, m, below, -1, tree, parts);
    return tree;
}

/* Steps of a random forest; true if all was where it should be. */
static bool run_forest(uint64_t seed, int32_t page_size, enum fault fault, int64_t fault_at, int64_t *moved)
{
    enum { STEPS = 120, PAGES = 4096 };
    AUTO(pool) pool = pool_new(page_size, PAGES);
    CLEARED(cache) cache = cache_new(page_size, PAGES);
    struct forest f = forest_new(seed);
    bool good = true;
    for (int64_t t = 1; t <= STEPS && good; t++) {
        CLEARED(trace_parts) parts;
        struct pool_step step;
        forest_step(&f, seed, t);
        AUTO(tree) tree = forest_tree(&f, &parts);
        ck_assert(tree_check(tree, NULL));
        ck_assert(pool_advance(pool, tree, &parts, t, &step, NULL));
        bool now = t >= fault_at &&
                   (fault == FAULT_NONE || fault == FAULT_TABLE ||
                    (fault == FAULT_FRESH && step.n_fresh > 0) || (fault == FAULT_MOVE && step.n_moves > 0));
        good = cache_step(&cache, tree, &parts, pool, &step, t, now ? fault : FAULT_NONE);
    }
    *moved += pool_stats(pool).moved;
    ck_assert_int_eq(pool_drain(pool), 0);
    ck_assert_int_eq(pool_stats(pool).tokens, 0);
    return good;
}

TEST(forests_stay_whole)
{
    static const int32_t pages[] = {1, 2, 7, 16, 64};
    int64_t moved = 0, moved_at_1 = 0;
    for (uint64_t seed = 1; seed <= 12; seed++)
        for (size_t i = 0; i < sizeof pages / sizeof pages[0]; i++) {
            int64_t before = moved;
            ck_assert_msg(run_forest(seed, pages[i], FAULT_NONE, 1, &moved), "seed %d, pages of %d",
                          (int)seed, pages[i]);
            moved_at_1 += pages[i] == 1 ? moved - before : 0;
        }
    ck_assert_int_gt(moved, 1000);
    ck_assert_int_eq(moved_at_1, 0); /* every token begins a page */
}

TEST(faults_are_seen)
{
    int64_t moved = 0;
    for (uint64_t seed = 1; seed <= 4; seed++)
        for (enum fault f = FAULT_MOVE; f < N_FAULTS; f++)
            ck_assert_msg(!run_forest(seed, 16, f, 9, &moved), "seed %d, fault %d", (int)seed, f);
}

/* ---- traces -------------------------------------------------------------------------------------------- */

static void run_trace(const char *spec, struct trace_opts o, int32_t page_size, int64_t most, int64_t moves)
{
    AUTO(trace) tr = MUST(trace_open, spec, &o);
    int64_t n_pages = ceil_div(60000, page_size) + 3000;
    AUTO(pool) pool = pool_new(page_size, n_pages);
    CLEARED(cache) cache = cache_new(page_size, n_pages);
    for (int64_t t = 1; t <= min_i64(most, trace_steps(tr)); t++) {
        CLEARED(trace_parts) parts;
        struct pool_step step;
        AUTO(tree) tree = trace_step(tr, t, &parts), *same = trace_tree(tr, t);
        ck_assert_int_eq(tree->n_nodes, same->n_nodes);
        for (int32_t i = 0; i < tree->n_nodes; i++) {
            int64_t tokens = 0;
            for (int32_t k = parts.piece0[i]; k < parts.piece0[i + 1]; k++)
                tokens += parts.piece[k].tokens;
            ck_assert_int_eq(tokens, tree->len[i]);
        }
        MUST(pool_advance, pool, tree, &parts, t, &step);
        ck_assert_int_ge(step.fresh_tokens, tree->n_queries); /* each query's own at least */
        ck_assert_msg(cache_step(&cache, tree, &parts, pool, &step, t, FAULT_NONE), "%s: step %lld", spec,
                      (long long)t);
    }
    if (moves >= 0)
        ck_assert_int_eq(pool_stats(pool).moved, moves);
    ck_assert_int_eq(pool_drain(pool), 0);
}

TEST(traces_stay_whole)
{
    for (int32_t page = 1; page <= 64; page *= 8) {
        run_trace("reasoning:3", (struct trace_opts){.prompt = 300}, page, 900, 0);
        run_trace("fewshot:5", (struct trace_opts){.prompt = 300, .max_seq = 500}, page, 199, 0);
        run_trace("spec:32,7", (struct trace_opts){.prompt = 300, .max_seq = 800}, page, 1 << 20, -1);
        run_trace("spec:32,7", (struct trace_opts){.prompt = 300, .max_seq = 800, .topology = true}, page,
                  1 << 20, -1);
        run_trace("requests:60,5", (struct trace_opts){.batch = 8}, page, 600, -1);
        run_trace("conversation:30,5", (struct trace_opts){.batch = 5}, page, 400, -1);
    }
}

/* Two nodes part while a token is accepted: the page that the accepted token leaves must not be taken yet. */
TEST(moves_do_not_meet)
{
    enum { PAGE = 4, PAGES = 8 };
    int32_t parents[2][4] = {{-1, -1, 1}, {-1, 0, -1}};
    int64_t lens[2][4] = {{5, 4, 1}, {3, 2, 5}};
    int32_t starts[2][4] = {{0, 2, 3, 4}, {0, 1, 2, 3}};
    struct trace_piece pieces[2][4] = {{{1, 3}, {2, 2}, {3, 4}, {4, 1}}, {{1, 3}, {2, 2}, {3, 5}}};
    struct trace_accept accept = {4, 3};
    AUTO(pool) pool = pool_new(PAGE, PAGES);
    CLEARED(cache) cache = cache_new(PAGE, PAGES);
    for (int32_t k = 0; k < 2; k++) {
        struct tree tree = {.n_nodes = 3, .parent = parents[k], .len = lens[k]};
        struct trace_parts parts = {
            .n_accepts = k, .piece0 = starts[k], .piece = pieces[k], .accept = &accept};
        struct pool_step step;
        ck_assert(pool_advance(pool, &tree, &parts, k + 1, &step, NULL));
        ck_assert_int_eq(step.n_moves, k ? 3 : 0);
        ck_assert(cache_step(&cache, &tree, &parts, pool, &step, k + 1, FAULT_NONE));
    }
}

TEST(accepted_tokens_move)
{
    struct trace_opts o = {.prompt = 100, .max_seq = 400};
    for (int topology = 0; topology < 2; topology++) {
        o.topology = topology;
        AUTO(trace) tr = MUST(trace_open, "spec:64,2", &o);
        for (int64_t t = 1; t <= trace_steps(tr); t++) {
            CLEARED(trace_parts) parts, before;
            AUTO(tree) tree = trace_step(tr, t, &parts);
            AUTO(tree) last = trace_step(tr, max_i64(1, t - 1), &before);
            ck_assert_int_eq(parts.n_accepts, tree->len[0] - last->len[0]);
            /* each hangs below the one before it, as long as there is such a path */
            int32_t above = 0;
            for (int32_t k = 0; k < parts.n_accepts; k++) {
                int32_t node = (int32_t)(parts.accept[k].from - before.piece[1].name) + 1;
                ck_assert_int_ge(node, 1);
                ck_assert_int_lt(node, last->n_nodes);
                ck_assert_int_eq(last->parent[node], topology ? above : 0);
                ck_assert(topology || node == k + 1);
                above = node;
            }
        }
    }
}

TEST(a_full_pool_says_so)
{
    struct trace_opts o = {.prompt = 100, .max_seq = 200};
    struct err e = {0};
    AUTO(trace) tr = trace_open("fewshot:4", &o, &e);
    struct pool *pool = pool_new(16, 20); /* 7 for the prompt, 4 x 3 last until step 48, 4 x 4 do not fit */
    int64_t t = 1;
    for (bool good = true; good; t++) {
        CLEARED(trace_parts) parts;
        struct pool_step step;
        AUTO(tree) tree = trace_step(tr, t, &parts);
        good = pool_advance(pool, tree, &parts, t, &step, &e);
    }
    ck_assert_int_eq(t, 50);
    ck_assert_int_eq(e.code, EXIT_MISSING);
    ck_assert_str_eq(e.msg, "step 49: the KV pool is full: all of its 20 pages of 16 tokens are in use, and "
                            "the step's tree has 296 tokens in 5 nodes (expected a model with less KV a "
                            "token, fewer requests at a time, or a shorter run)");
    pool_free(pool);
}
