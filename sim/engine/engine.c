/* The functions of treeattn.h. */
#include "sim/engine/engine.h"
#include "ref/nform.h"
#include "sim/strategies/treeattn.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(sizeof(struct ta_query) == sizeof(struct query) &&
                   offsetof(struct ta_query, upto) == offsetof(struct query, upto),
               "a query of the tree is handed out as it is");
_Static_assert((int)TA_MASK_DENSE == MASK_DENSE && N_MASK_KINDS == MASK_DENSE + 1,
               "kinds of masks have the same numbers");
_Static_assert((int)TA_N_PAGE < TA_HEADER, "the header has room");

enum { MOST_REQUESTS = 1 << 20, MOST_PAGE = 65536, MOST_HEADS = 4096, MOST_DIM = 65536 };
static const int64_t most_words = INT32_MAX;

const char *ta_version(void)
{
    return "1.0";
}

/* A struct of the caller's, which may be older than this library and then shorter. */
static void take(void *to, size_t to_size, const void *from, uint32_t from_size)
{
    memset(to, 0, to_size);
    memcpy(to, from, from_size < to_size ? from_size : to_size);
}

/* Likewise back. Its size stays. */
static void give(void *to, const void *from, size_t from_size)
{
    uint32_t size;
    memcpy(&size, to, sizeof size);
    if (size > sizeof size)
        memcpy((char *)to + sizeof size, (const char *)from + sizeof size,
               (size < from_size ? size : from_size) - sizeof size);
}

/* ---- open and close ------------------------------------------------------------------------------------ */

static bool set_limits(struct ta_limits *x, const struct ta_limits *limits)
{
    if (!limits)
        return false;
    take(x, sizeof *x, limits, limits->size);
    if (x->requests < 1 || x->requests > MOST_REQUESTS)
        return false;
    x->queries = x->queries ? x->queries : x->requests;
    if (x->queries < 0 || x->queries > TREE_MAX_QUERIES)
        return false;
    x->pages = x->pages ? x->pages : 65536;
    x->pool_pages = x->pool_pages ? x->pool_pages : INT32_MAX;
    x->work_bytes = x->work_bytes ? x->work_bytes : (UINT64_C(64) << 20) + (uint64_t)x->queries * (64 << 10);
    if (x->pages < 1 || x->pages > most_words || x->pool_pages < 1 || x->slots < 0 ||
        x->work_bytes > UINT64_C(1) << 46)
        return false;
    x->plan_words = x->plan_words ? x->plan_words : min_i64(most_words, x->pages + 16384 + 256 * x->queries);
    return x->plan_words >= TA_HEADER && x->plan_words <= most_words;
}

/* The next n bytes of a context's memory; at NULL they are counted only. */
static void *part(char *memory, size_t *at, size_t n)
{
    char *p = memory ? memory + *at : NULL;
    *at += (n + 63) / 64 * 64;
    return p;
}

/* Gives the context its arrays; returns the bytes of all. memory NULL: they are counted only. */
static size_t lay_out(struct ta_ctx *c, char *memory)
{
    const struct ta_limits *x = &c->limits;
    size_t at = 0, rows = (size_t)x->requests, nodes = 2 * rows + 1;
    part(memory, &at, sizeof *c);
    void *trie = part(memory, &at, prefix_tree_bytes(x->requests));
    c->tree.parent = part(memory, &at, nodes * sizeof *c->tree.parent);
    c->tree.len = part(memory, &at, nodes * sizeof *c->tree.len);
    c->tree.query = part(memory, &at, (size_t)x->queries * sizeof *c->tree.query);
    c->extra = part(memory, &at, nodes * sizeof *c->extra);
    c->first = part(memory, &at, nodes * sizeof *c->first);
    c->request = part(memory, &at, nodes * sizeof *c->request);
    c->pages = part(memory, &at, rows * sizeof *c->pages);
    c->length = part(memory, &at, rows * sizeof *c->length);
    c->queries = part(memory, &at, rows * sizeof *c->queries);
    c->order = part(memory, &at, nodes * sizeof *c->order);
    c->count = part(memory, &at, (rows + 2) * sizeof *c->count);
    c->words = part(memory, &at, (size_t)x->plan_words * sizeof *c->words);
    c->arena.size = x->work_bytes / 64 * 64;
    c->arena.memory = part(memory, &at, c->arena.size);
    if (memory)
        prefix_tree_init(&c->trie, x->requests, trie);
    return at;
}

struct ta_ctx *ta_open(const struct ta_limits *limits)
{
    struct ta_ctx sized = {.arena.size = 0};
    if (!set_limits(&sized.limits, limits))
        return NULL;
    char *memory = malloc(lay_out(&sized, NULL) + 63);
    if (!memory)
        return NULL;
    char *aligned = (char *)(((uintptr_t)memory + 63) / 64 * 64);
    struct ta_ctx *c = (struct ta_ctx *)(void *)aligned;
    *c = (struct ta_ctx){.limits = sized.limits, .memory = memory};
    lay_out(c, aligned);
    c->packed = (struct ta_packed){.size = sizeof c->packed, .words = c->words};
    return c;
}

void ta_close(struct ta_ctx *c)
{
    if (c)
        free(c->memory);
}

const char *ta_error(const struct ta_ctx *c)
{
    return c ? c->arena.why : "no context";
}

uint64_t ta_work(const struct ta_ctx *c)
{
    return c ? c->arena.peak : 0;
}

/* ---- a step's lists ------------------------------------------------------------------------------------ */

static void read_block_table(struct ta_ctx *c, const struct ta_batch *b)
{
    if (b->n_requests > 0 && (!b->lengths || b->stride < 0))
        arena_fail(TA_BAD_INPUT,
                   "a block table without lengths, or with a stride below 0 (expected both, or indptr)");
    for (int32_t r = 0; r < b->n_requests; r++) {
        int64_t n = ceil_div(b->lengths[r], b->page_size);
        if (b->lengths[r] < 0 || n > b->stride)
            arena_fail(TA_BAD_INPUT,
                       "request %" PRId32 " has %" PRId32 " tokens (expected 0 to %" PRId64
                       " pages of %" PRId32 ")",
                       r, b->lengths[r], b->stride, b->page_size);
        c->length[r] = b->lengths[r];
        c->pages[r] = (int32_t)n;
    }
}

static void read_csr(struct ta_ctx *c, const struct ta_batch *b)
{
    if (b->indptr[0] < 0 || (b->n_requests > 0 && !b->last_page))
        arena_fail(TA_BAD_INPUT, "CSR begins at %" PRId32 " (expected 0 or more), or has no last_page",
                   b->indptr[0]);
    for (int32_t r = 0; r < b->n_requests; r++) {
        int64_t n = (int64_t)b->indptr[r + 1] - b->indptr[r], last = b->last_page[r];
        int64_t length = (n - 1) * b->page_size + last;
        if (n < 0)
            arena_fail(TA_BAD_INPUT, "request %" PRId32 " ends before it begins, at %" PRId32 " of indptr", r,
                       b->indptr[r + 1]);
        if (last < (n > 0) || last > (n > 0 ? b->page_size : 0) || length > INT32_MAX)
            arena_fail(TA_BAD_INPUT,
                       "request %" PRId32 " has %" PRId64 " tokens in the last of %" PRId64
                       " pages (expected 1 to %" PRId32 ", 0 of no page, and 31 bits of all)",
                       r, last, n, b->page_size);
        c->length[r] = n > 0 ? (int32_t)length : 0;
        c->pages[r] = (int32_t)n;
    }
}

/* Are all of these ids of pages? */
static bool are_pages(const int32_t *page, int64_t n, int32_t most)
{
    uint32_t largest = 0;
    for (int64_t i = 0; i < n; i++)
        largest = (uint32_t)page[i] > largest ? (uint32_t)page[i] : largest;
    return largest < (uint32_t)most;
}

static void check_pages(struct ta_ctx *c, const struct ta_batch *b, const struct page_lists *lists, bool kept)
{
    for (int32_t r = 0; r < b->n_requests; r++) {
        const int32_t *page = c->pages[r] > 0 ? page_list(lists, r) : NULL;
        int32_t i = 0;
        if (b->kept && b->kept[r] < 0)
            arena_fail(TA_BAD_INPUT, "request %" PRId32 " has kept %" PRId32 " pages (expected 0 or more)", r,
                       b->kept[r]);
        if (kept && r < c->trie.n_rows) /* these were looked at */
            i = (int32_t)min_i64(min_i64(b->kept[r], c->trie.row[r].pages), c->pages[r]);
        if (i == c->pages[r] || are_pages(page + i, c->pages[r] - i, c->limits.pool_pages))
            continue;
        while (are_pages(page + i, 1, c->limits.pool_pages))
            i++;
        arena_fail(TA_BAD_INPUT,
                   "page %" PRId32 " of request %" PRId32 " is %" PRId32 " (expected 0 to %" PRId32 ")", i, r,
                   page[i], c->limits.pool_pages - 1);
    }
}

/* ---- the tree of the trie ------------------------------------------------------------------------------ */

/* The nodes that requests pass through, in the order in which the first of them does, into c->order; how many. */
static int32_t touch_nodes(struct ta_ctx *c, int32_t *depths)
{
    struct prefix_node *node = c->trie.node;
    int32_t n = 0;
    for (int32_t x = 0; x < c->trie.n_nodes; x++)
        node[x].number = -1;
    *depths = 0;
    for (int32_t r = 0; r < c->trie.n_rows; r++) {
        int32_t new_ones = 0, x = c->trie.row[r].node;
        for (; x != 0 && node[x].number < 0; x = node[x].parent)
            new_ones++;
        int32_t depth = node[x].depth + new_ones, at = n += new_ones;
        *depths = (int32_t)max_i64(*depths, depth + 1);
        for (x = c->trie.row[r].node; new_ones > 0; new_ones--, x = node[x].parent) {
            node[x].number = 0;
            node[x].depth = depth--;
            c->order[--at] = x;
        }
    }
    return n;
}

/* Numbers by depth; within one, in the order of c->order. */
static void number_nodes(struct ta_ctx *c, int32_t n, int32_t depths)
{
    struct prefix_node *node = c->trie.node;
    memset(c->count, 0, ((size_t)depths + 1) * sizeof *c->count);
    for (int32_t i = 0; i < n; i++)
        c->count[node[c->order[i]].depth + 1]++;
    for (int32_t d = 0; d < depths; d++)
        c->count[d + 1] += c->count[d];
    for (int32_t i = 0; i < n; i++) {
        struct prefix_node *x = &node[c->order[i]];
        int32_t number = x->number = c->count[x->depth]++;
        bool leaf = x->first_child == 0;
        c->tree.parent[number] = x->parent == 0 ? -1 : node[x->parent].number;
        c->first[number] = (int64_t)x->begin * c->page_size;
        c->tree.len[number] = leaf ? 0 : (int64_t)(x->end - x->begin) * c->page_size;
        c->request[number] = x->rep;
        c->extra[number] = (struct node_extra){.row = x->rep, .begin = x->begin, .end = x->end};
    }
    c->tree.n_nodes = n;
}

/* Leaves are as long as their longest request. Where pages of the packed plan begin; the tokens of all nodes. */
static int64_t measure_nodes(struct ta_ctx *c)
{
    int64_t tokens = 0;
    for (int32_t r = 0; r < c->trie.n_rows; r++) {
        const struct prefix_node *x = &c->trie.node[c->trie.row[r].node];
        if (c->pages[r] > 0 && x->first_child == 0)
            c->tree.len[x->number] = max_i64(c->tree.len[x->number], c->length[r] - c->first[x->number]);
    }
    c->n_pages = 0;
    for (int32_t i = 0; i < c->tree.n_nodes; i++) {
        c->extra[i].first_page = c->n_pages;
        c->n_pages += c->extra[i].end - c->extra[i].begin;
        tokens += c->tree.len[i];
    }
    return tokens;
}

/* All but the last queries of a request may end in a node above. */
static void place_queries(struct ta_ctx *c)
{
    int32_t q = 0;
    for (int32_t r = 0; r < c->trie.n_rows; r++) {
        for (int32_t i = c->queries[r] - 1; i >= 0; i--) {
            int64_t upto = max_i64(0, c->length[r] - i);
            int32_t x = c->trie.row[r].node;
            while (x != 0 && upto <= (int64_t)c->trie.node[x].begin * c->page_size &&
                   c->trie.node[x].parent != 0)
                x = c->trie.node[x].parent;
            int32_t number = x == 0 ? 0 : c->trie.node[x].number;
            c->tree.query[q++] = (struct query){number, x == 0 ? 0 : upto - c->first[number]};
        }
    }
    c->tree.n_queries = q;
}

static void read_queries(struct ta_ctx *c, const struct ta_batch *b)
{
    int64_t n = 0;
    for (int32_t r = 0; r < b->n_requests; r++) {
        c->queries[r] = b->queries ? b->queries[r] : 1;
        if (c->queries[r] < 0)
            arena_fail(TA_BAD_INPUT, "request %" PRId32 " has %" PRId32 " queries (expected 0 or more)", r,
                       c->queries[r]);
        n += c->queries[r];
    }
    if (n > c->limits.queries)
        arena_fail(TA_NO_ROOM, "%" PRId64 " queries (expected %" PRId64 " at most, by queries of ta_limits)",
                   n, c->limits.queries);
}

static void make_tree(struct ta_ctx *c, const struct ta_batch *batch)
{
    struct ta_batch b;
    if (!batch)
        arena_fail(TA_BAD_INPUT, "no batch given");
    take(&b, sizeof b, batch, batch->size);
    bool kept = b.kept && c->valid && b.page_size == c->page_size;
    struct page_lists lists = {.pages = b.pages, .indptr = b.indptr, .stride = b.stride};
    c->valid = false;
    if (b.page_size < 1 || b.page_size > MOST_PAGE)
        arena_fail(TA_BAD_INPUT, "pages of %" PRId32 " tokens (expected 1 to %d)", b.page_size, MOST_PAGE);
    if (b.n_requests < 0 || b.n_requests > c->limits.requests)
        arena_fail(b.n_requests < 0 ? TA_BAD_INPUT : TA_NO_ROOM,
                   "%" PRId32 " requests (expected 0 to %" PRId32 ")", b.n_requests, c->limits.requests);
    if (b.indptr)
        read_csr(c, &b);
    else
        read_block_table(c, &b);
    read_queries(c, &b);
    bool any = false;
    for (int32_t r = 0; r < b.n_requests; r++)
        any |= c->pages[r] > 0;
    if (any && !b.pages)
        arena_fail(TA_BAD_INPUT, "requests have pages, but no list of them is given");
    check_pages(c, &b, &lists, kept);
    c->page_size = b.page_size;
    prefix_tree_step(&c->trie, &lists, b.n_requests, c->pages, kept ? b.kept : NULL);
    int32_t depths, n = touch_nodes(c, &depths);
    number_nodes(c, n, depths);
    int64_t tokens = measure_nodes(c);
    place_queries(c);
    if (n == 0 && c->tree.n_queries > 0) { /* they see nothing, but have to be somewhere */
        c->tree.n_nodes = 1;
        c->tree.parent[0] = -1;
        c->tree.len[0] = c->first[0] = 0;
        c->request[0] = 0;
        c->extra[0] = (struct node_extra){0};
    }
    if (c->n_pages > c->limits.pages || tokens > TREE_MAX_TOKENS)
        arena_fail(TA_NO_ROOM,
                   "the tree has %" PRId64 " pages (expected %" PRId64 " at most, by pages of ta_limits)",
                   c->n_pages, c->limits.pages);
    c->valid = true;
}

int ta_tree(struct ta_ctx *c, const struct ta_batch *batch)
{
    if (!c)
        return TA_BAD_INPUT;
    arena_enter(&c->arena);
    if (setjmp(c->arena.out) == 0)
        make_tree(c, batch);
    return arena_leave(&c->arena);
}

static void need_tree(const struct ta_ctx *c)
{
    if (!c->valid)
        arena_fail(TA_BAD_INPUT, "there is no tree (expected a call of ta_tree before that did not fail)");
}

static void hand_out_nodes(struct ta_ctx *c, struct ta_nodes *out)
{
    need_tree(c);
    if (!out)
        arena_fail(TA_BAD_INPUT, "nowhere to put the nodes");
    struct ta_nodes x = {.n_nodes = c->tree.n_nodes,
                         .n_queries = c->tree.n_queries,
                         .parent = c->tree.parent,
                         .len = c->tree.len,
                         .first = c->first,
                         .request = c->request,
                         .query = (const struct ta_query *)(const void *)c->tree.query};
    give(out, &x, sizeof x);
}

int ta_get_nodes(struct ta_ctx *c, struct ta_nodes *out)
{
    if (!c)
        return TA_BAD_INPUT;
    arena_enter(&c->arena);
    if (setjmp(c->arena.out) == 0)
        hand_out_nodes(c, out);
    return arena_leave(&c->arena);
}

/* ---- plan and price ------------------------------------------------------------------------------------ */

static void must(bool good, const struct err *e)
{
    if (!good)
        arena_fail(TA_BAD_INPUT, "%.*s", ARENA_WHY - 1, e->msg);
}

static struct plan_env env_of(const struct ta_shape *shape, struct machine *machine)
{
    struct ta_shape s;
    struct err e = {0};
    if (!shape)
        arena_fail(TA_BAD_INPUT, "no shape given");
    take(&s, sizeof s, shape, shape->size);
    struct heads h = {.h_q = s.n_heads,
                      .h_kv = s.n_kv_heads,
                      .d = s.head_dim,
                      .dtype = DT_F16,
                      .kv_fp8 = DT_F16,
                      .d_v = s.value_dim};
    if (h.h_kv < 1 || h.h_q < h.h_kv || h.h_q % h.h_kv != 0 || h.h_q > MOST_HEADS)
        arena_fail(TA_BAD_INPUT,
                   "heads %" PRId32 "/%" PRId32
                   " (expected query heads a multiple of KV heads, both 1 to %d)",
                   h.h_q, h.h_kv, MOST_HEADS);
    if (h.d < 1 || h.d > MOST_DIM || h.d_v < 0 || h.d_v > h.d)
        arena_fail(TA_BAD_INPUT,
                   "head_dim %" PRId32 ", value_dim %" PRId32 " (expected 1 to %d, and 0 to head_dim)", h.d,
                   h.d_v, MOST_DIM);
    if (s.dtype && !dtype_parse(s.dtype, &h.dtype))
        arena_fail(TA_BAD_INPUT, "dtype '%.40s' (expected f64, f32, f16 or bf16)", s.dtype);
    if (s.kv && !dtype_parse_fp8(s.kv, &h.kv_fp8))
        arena_fail(TA_BAD_INPUT, "kv '%.40s' (expected e4m3 or e5m2)", s.kv);
    must(machine_parse(s.machine ? s.machine : machine_default()->name, machine, &e), &e);
    return (struct plan_env){.heads = h, .machine = machine};
}

/* The strategy that the text names, with all options that it chooses by itself for this tree. */
static struct strategy_use use_of(const struct ta_ctx *c, const char *text, const struct nform *nf,
                                  const struct plan_env *env)
{
    struct strategy_use use = strategy_default(&strategy_treeattn);
    struct err e = {0};
    if (text && strcmp(text, "again") == 0) {
        if (!c->last.s)
            arena_fail(TA_BAD_INPUT,
                       "no plan was made that could be made again (expected another strategy first)");
        return c->last;
    }
    if (text && strcmp(text, "auto") != 0)
        must(strategy_parse(text, &use, &e), &e);
    return strategy_chosen(&use, nf, env);
}

static void make_plan(struct ta_ctx *c, const struct ta_shape *shape, const char *strategy,
                      struct ta_packed *out)
{
    struct machine machine;
    char why[WHY_MAX];
    need_tree(c);
    if (!out)
        arena_fail(TA_BAD_INPUT, "nowhere to put the plan");
    struct plan_env env = env_of(shape, &machine);
    struct nform *nf = nform_new(&c->tree);
    struct strategy_use use = use_of(c, strategy, nf, &env);
    struct plan *p = strategy_plan(&use, nf, &env, why);
    if (!p)
        arena_fail(TA_DOES_NOT_APPLY, "%s: %.*s", use.s->name, ARENA_WHY / 2, why);
    pack_plan(c, p);
    c->last = use;
    give(out, &c->packed, sizeof c->packed);
}

int ta_plan(struct ta_ctx *c, const struct ta_shape *shape, const char *strategy, struct ta_packed *out)
{
    if (!c)
        return TA_BAD_INPUT;
    arena_enter(&c->arena);
    if (setjmp(c->arena.out) == 0)
        make_plan(c, shape, strategy, out);
    return arena_leave(&c->arena);
}

/* Tokens that any query sees. */
static int64_t seen_tokens(const struct nform *nf)
{
    int64_t n = 0;
    for (int32_t i = 0; i < nf->n_nodes; i++)
        n += nf->q1[i] > nf->q0[i] ? nf->len[i] : 0;
    return n;
}

static double price_of(const struct nform *nf, const struct plan_env *env)
{
    struct strategy_use use = strategy_default(&strategy_treeattn);
    struct tile_bill bill = treeattn_bill(nf, env, use.opt);
    struct tile_env tiles = tile_env_of(env);
    return tile_price(&bill, &tiles, &tile_coefs) + tile_coefs.base;
}

/* The step's requests, each a root with all of its tokens. */
static struct tree *requests_alone(const struct ta_ctx *c)
{
    struct tree *t = tree_new(c->trie.n_rows, c->tree.n_queries);
    int32_t q = 0;
    int64_t tokens = 0;
    for (int32_t r = 0; r < t->n_nodes; r++) {
        t->len[r] = c->length[r];
        tokens += t->len[r];
        for (int32_t i = c->queries[r] - 1; i >= 0; i--)
            t->query[q++] = (struct query){r, max_i64(0, t->len[r] - i)};
    }
    if (tokens > TREE_MAX_TOKENS)
        arena_fail(TA_NO_ROOM, "the requests have %" PRId64 " tokens together (expected %" PRId64 " at most)",
                   tokens, TREE_MAX_TOKENS);
    return t;
}

static void find_price(struct ta_ctx *c, const struct ta_shape *shape, struct ta_price *out)
{
    struct machine machine;
    need_tree(c);
    if (!out)
        arena_fail(TA_BAD_INPUT, "nowhere to put the price");
    struct plan_env env = env_of(shape, &machine);
    struct ta_price x = {0};
    if (c->tree.n_queries > 0) {
        struct nform *shared = nform_new(&c->tree), *alone = nform_new(requests_alone(c));
        x.shared_bytes = seen_tokens(shared) * heads_token_bytes(&env.heads);
        x.alone_bytes = seen_tokens(alone) * heads_token_bytes(&env.heads);
        x.shared_us = price_of(shared, &env);
        x.alone_us = price_of(alone, &env);
    }
    give(out, &x, sizeof x);
}

int ta_get_price(struct ta_ctx *c, const struct ta_shape *shape, struct ta_price *out)
{
    if (!c)
        return TA_BAD_INPUT;
    arena_enter(&c->arena);
    if (setjmp(c->arena.out) == 0)
        find_price(c, shape, out);
    return arena_leave(&c->arena);
}
