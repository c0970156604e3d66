/*
 * fuzz.c - block tables, right and wrong, drawn by the million against libtreeattn.so; linked with that alone.
 *
 *     fuzz TABLES [SEED [THREADS]]     each thread has a context of its own
 *     fuzz drawn [TABLES]              tables of trees: 64 requests, three levels of sharing, pages of 16 tokens
 *     fuzz bench                       times of rebuilding and of steps, the best of many
 *
 * Of each table that is right: any two requests share in the tree what their lists begin with; the tree that was kept
 * from step to step is the one made anew; nodes part where they end. Of some, plans: each query sees each of its
 * tokens once, in its page. Of each that is wrong: the call fails, with a sentence, and the next one is right again.
 * No call allocates.
 */
#include <treeattn.h>

#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- who allocates? ------------------------------------------------------------------------------------- */

static _Thread_local int64_t allocations;
#ifndef FUZZ_SANITIZED
void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t n);
void *malloc(size_t n)
{
    allocations++;
    return __libc_malloc(n);
}
void *calloc(size_t n, size_t size)
{
    allocations++;
    return __libc_calloc(n, size);
}
void *realloc(void *p, size_t n)
{
    allocations++;
    return __libc_realloc(p, n);
}
#endif

/* ---- tables --------------------------------------------------------------------------------------------- */

enum { ROWS = 12, STRIDE = 9, MOST_PAGE = 4, TOKENS = STRIDE * MOST_PAGE, QUERIES = 3 * ROWS };

struct table {
    int32_t n, page_size;
    int32_t page[ROWS][STRIDE], length[ROWS], queries[ROWS], kept[ROWS];
    int32_t indptr[ROWS + 1], index[ROWS * STRIDE], last[ROWS]; /* the same in CSR */
};

struct fuzz {
    uint64_t seed, state;
    int64_t tables, done;
    struct ta_ctx *kept, *anew;
    struct table t;
};

#define MUST(condition)                                                                                      \
    do                                                                                                       \
        if (!(condition)) {                                                                                  \
            fprintf(stderr, "fuzz: seed %" PRIu64 " table %" PRId64 ", line %d: %s: %s, %s\n", f->seed,      \
                    f->done, __LINE__, #condition, ta_error(f->kept), ta_error(f->anew));                    \
            exit(1);                                                                                         \
        }                                                                                                    \
    while (0)

static int32_t draw(struct fuzz *f, int32_t n) /* 0 .. n - 1 */
{
    f->state = f->state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (int32_t)((f->state >> 33) % (uint64_t)n);
}

static int32_t pages_of(const struct table *t, int32_t r)
{
    return (t->length[r] + t->page_size - 1) / t->page_size;
}

/* Few ids, so that lists often begin alike; sometimes another request's beginning. */
static void draw_row(struct fuzz *f, int32_t r)
{
    struct table *t = &f->t;
    t->length[r] = draw(f, 8) == 0 ? 0 : draw(f, STRIDE * t->page_size + 1);
    int32_t like = draw(f, 3) > 0 && t->n > 1 ? draw(f, t->n) : -1,
            same = like >= 0 ? draw(f, STRIDE + 1) : 0;
    for (int32_t i = 0; i < STRIDE; i++)
        t->page[r][i] = i < same ? t->page[like][i] : draw(f, 6);
    t->queries[r] = draw(f, 4) == 0 ? draw(f, 4) : 1;
    t->kept[r] = 0;
}

/* The next step: requests grow, go and come; sometimes all is new. */
static void draw_step(struct fuzz *f)
{
    struct table *t = &f->t, before = *t;
    if (t->n == 0 || draw(f, 16) == 0) {
        t->page_size = 1 + draw(f, MOST_PAGE);
        t->n = draw(f, ROWS + 1);
        for (int32_t r = 0; r < t->n; r++)
            draw_row(f, r);
        return;
    }
    for (int32_t r = 0; r < t->n; r++) {
        t->kept[r] = pages_of(t, r);
        switch (draw(f, 8)) {
        case 0:
            draw_row(f, r);
            break;
        case 1: /* back by some tokens, as after a draft that was refused */
            t->length[r] = draw(f, t->length[r] + 1);
            t->kept[r] = pages_of(t, r);
            break;
        case 2: /* trades places */
            if (r > 0) {
                int32_t other = draw(f, r);
                memcpy(t->page[r], before.page[other], sizeof t->page[r]);
                t->length[r] = before.length[other];
                t->kept[r] = 0;
            }
            break;
        default:
            t->length[r] += draw(f, 3);
            if (t->length[r] > STRIDE * t->page_size)
                t->length[r] = STRIDE * t->page_size;
            for (int32_t i = t->kept[r]; i < STRIDE; i++)
                t->page[r][i] = draw(f, 6);
        }
    }
    while (t->n < ROWS && draw(f, 4) == 0)
        draw_row(f, t->n++);
    if (draw(f, 8) == 0)
        t->n = draw(f, t->n + 1);
}

static struct ta_batch batch_of(struct table *t, bool csr)
{
    struct ta_batch b = {.size = sizeof b,
                         .page_size = t->page_size,
                         .n_requests = t->n,
                         .queries = t->queries,
                         .kept = t->kept};
    if (!csr) {
        b.pages = t->page[0];
        b.stride = STRIDE;
        b.lengths = t->length;
        return b;
    }
    for (int32_t r = 0; r < t->n; r++) {
        int32_t n = pages_of(t, r);
        memcpy(t->index + t->indptr[r], t->page[r], (size_t)n * sizeof t->index[0]);
        t->indptr[r + 1] = t->indptr[r] + n;
        t->last[r] = n > 0 ? t->length[r] - (n - 1) * t->page_size : 0;
    }
    b.pages = t->index;
    b.indptr = t->indptr;
    b.last_page = t->last;
    return b;
}

/* ---- is it right? --------------------------------------------------------------------------------------- */

/* Tokens that both see as the same ones, by their lists. */
static int64_t common(const struct table *t, int32_t r, int32_t s, int64_t upto_r, int64_t upto_s)
{
    int32_t n = pages_of(t, r) < pages_of(t, s) ? pages_of(t, r) : pages_of(t, s), i = 0;
    while (i < n && t->page[r][i] == t->page[s][i])
        i++;
    int64_t tokens = (int64_t)i * t->page_size, most = upto_r < upto_s ? upto_r : upto_s;
    return tokens < most ? tokens : most;
}

/* The same by the tree. */
static int64_t common_nodes(const struct ta_nodes *x, struct ta_query a, struct ta_query b)
{
    while (a.node != b.node) {
        struct ta_query *deeper = a.node > b.node ? &a : &b; /* parents have smaller numbers */
        if (x->parent[deeper->node] < 0)
            return 0;
        deeper->node = x->parent[deeper->node];
        deeper->upto = x->len[deeper->node];
    }
    return x->first[a.node] + (a.upto < b.upto ? a.upto : b.upto);
}

static void check_tree(struct fuzz *f, const struct ta_nodes *x)
{
    const struct table *t = &f->t;
    int32_t n = 0, row[QUERIES + ROWS], children[2 * ROWS + 1] = {0};
    int64_t upto[QUERIES + ROWS];
    for (int32_t r = 0; r < t->n; r++)
        for (int32_t i = t->queries[r] - 1; i >= 0; i--, n++) {
            row[n] = r;
            upto[n] = t->length[r] > i ? t->length[r] - i : 0;
        }
    MUST(x->n_queries == n);
    for (int32_t q = 0; q < n; q++) {
        MUST(x->query[q].upto >= 0 && x->query[q].upto <= x->len[x->query[q].node]);
        for (int32_t p = 0; p <= q; p++)
            MUST(common_nodes(x, x->query[p], x->query[q]) == common(t, row[p], row[q], upto[p], upto[q]));
    }
    for (int32_t i = 0; i < x->n_nodes; i++) {
        MUST(x->parent[i] < i);
        if (x->parent[i] >= 0)
            children[x->parent[i]]++;
    }
    for (int32_t i = 0; i < x->n_nodes; i++)
        MUST(children[i] != 1);
}

static void check_same(struct fuzz *f, const struct ta_nodes *x, const struct ta_nodes *y)
{
    MUST(x->n_nodes == y->n_nodes && x->n_queries == y->n_queries);
    for (int32_t i = 0; i < x->n_nodes; i++)
        MUST(x->parent[i] == y->parent[i] && x->len[i] == y->len[i] && x->first[i] == y->first[i]);
    for (int32_t i = 0; i < x->n_queries; i++)
        MUST(x->query[i].node == y->query[i].node && x->query[i].upto == y->query[i].upto);
}

static void check_plan(struct fuzz *f, const struct ta_packed *p)
{
    static _Thread_local uint8_t seen[QUERIES][TOKENS];
    const struct table *t = &f->t;
    const int32_t *w = p->words, *page = w + w[TA_AT_PAGE];
    int32_t row[QUERIES], n = 0;
    int64_t upto[QUERIES], sees = 0;
    for (int32_t r = 0; r < t->n; r++)
        for (int32_t i = t->queries[r] - 1; i >= 0; i--, n++) {
            row[n] = r;
            upto[n] = t->length[r] > i ? t->length[r] - i : 0;
            sees += upto[n];
        }
    MUST(w[TA_W_MAGIC] == TA_MAGIC && w[TA_W_WORDS] == p->n_words && w[TA_W_QUERIES] == n);
    memset(seen, 0, sizeof seen);
    for (int32_t i = 0; i < w[TA_N_GROUP]; i++) {
        const int32_t *g = w + w[TA_AT_GROUP] + i * TA_GROUP_WORDS,
                      *query = w + w[TA_AT_QUERY] + g[TA_G_QUERY];
        for (int32_t k = 0; k < g[TA_G_QUERIES]; k++)
            for (int32_t r = 0; r < g[TA_G_RUNS]; r++) {
                const int32_t *run = w + w[TA_AT_RUN] + (g[TA_G_RUN] + r) * TA_RUN_WORDS;
                int64_t bit = (int64_t)k * g[TA_G_RUNS] + r;
                if (g[TA_G_MASK] >= 0 &&
                    !((uint32_t)w[w[TA_AT_MASK] + g[TA_G_MASK] + bit / 32] >> bit % 32 & 1))
                    continue;
                for (int32_t j = 0; j < run[TA_R_TOKENS]; j++) {
                    int32_t at = run[TA_R_POSITION] + j, place = run[TA_R_OFFSET] + j;
                    MUST(at < upto[query[k]] && !seen[query[k]][at]);
                    seen[query[k]][at] = 1;
                    sees--;
                    MUST(place % t->page_size == at % t->page_size);
                    MUST(page[run[TA_R_PAGE] + place / t->page_size] ==
                         t->page[row[query[k]]][at / t->page_size]);
                }
            }
    }
    MUST(sees == 0);
}

static const char *const strategies[] = {NULL,
                                         "auto",
                                         "pat",
                                         "fasttree",
                                         "deft-flatten",
                                         "cascade",
                                         "flash-decoding",
                                         "treeattn:low=0",
                                         "hydragen",
                                         "relay",
                                         "tree-medusa",
                                         "deft-node-chunk:block=32",
                                         "again",
                                         "no-such",
                                         "pat:rule=9"};
enum { N_STRATEGIES = sizeof strategies / sizeof strategies[0], N_WRONG = 2 };

static void try_plan(struct fuzz *f, struct ta_ctx *c)
{
    struct ta_shape shape = {.size = sizeof shape, .n_heads = 8, .n_kv_heads = 2, .head_dim = 64};
    struct ta_packed p = {.size = sizeof p};
    int32_t which = draw(f, N_STRATEGIES);
    int code = ta_plan(c, &shape, strategies[which], &p);
    if (which >= N_STRATEGIES - N_WRONG) {
        MUST(code == TA_BAD_INPUT && ta_error(c)[0]);
        return;
    }
    if (which < N_STRATEGIES - N_WRONG - 1 ||
        code != TA_BAD_INPUT) /* as long as no plan was made, none is made again */
        MUST(code == TA_DONE || code == TA_DOES_NOT_APPLY);
    if (code == TA_DONE)
        check_plan(f, &p);
    if (code == TA_DONE && draw(f, 2) == 0) { /* of the same tree, the same words */
        static _Thread_local int32_t words[1 << 16];
        int64_t n = p.n_words;
        MUST(n <= (int64_t)(sizeof words / sizeof words[0]));
        memcpy(words, p.words, (size_t)n * sizeof *words);
        MUST(ta_plan(c, &shape, "again", &p) == TA_DONE && p.n_words == n);
        MUST(memcmp(words, p.words, (size_t)n * sizeof *words) == 0);
    }
    struct ta_price price = {.size = sizeof price};
    MUST(ta_get_price(c, &shape, &price) == TA_DONE);
    MUST(price.shared_bytes <= price.alone_bytes && price.shared_us >= 0 && price.alone_us >= 0);
}

/* Something that no engine may say; the context must say so, or make some tree of it, and go on. */
static void try_wrong(struct fuzz *f)
{
    struct table t = f->t;
    bool csr = draw(f, 2), must_fail = true;
    struct ta_batch b = batch_of(&t, csr);
    int32_t r = t.n > 0 ? draw(f, t.n) : 0;
    switch (draw(f, 9)) {
    case 0:
        b.page_size = draw(f, 2) ? 0 : -4;
        break;
    case 1:
        b.n_requests = draw(f, 2) ? -1 : ROWS + 1;
        break;
    case 2: /* an id that is none, where nobody looked yet */
        must_fail = t.n > 0 && t.length[r] > 0;
        if (must_fail)
            (csr ? t.index + t.indptr[r] : t.page[r])[draw(f, pages_of(&t, r))] = draw(f, 2) ? -1 : 1000;
        b.kept = NULL;
        break;
    case 3:
        t.kept[r] = -1;
        must_fail = t.n > 0;
        break;
    case 4:
        t.queries[r] = draw(f, 2) ? -1 : 1000;
        must_fail = t.n > 0;
        break;
    case 5:
        t.length[r] = t.last[r] = draw(f, 2) ? -1 : STRIDE * t.page_size + 1;
        must_fail = t.n > 0;
        break;
    case 6:
        if (csr && t.n > 0)
            t.indptr[r + 1] = -1;
        else
            b.stride = -1;
        must_fail = t.n > 0;
        break;
    case 7:
        b.pages = NULL;
        must_fail = false;
        for (int32_t i = 0; i < t.n; i++)
            must_fail |= t.length[i] > 0;
        break;
    default: /* pages that were not kept: a wrong tree */
        for (int32_t i = 0; i < t.n; i++) {
            t.kept[i] = draw(f, STRIDE + 1);
            for (int32_t k = 0; k < STRIDE; k++)
                t.page[i][k] = draw(f, 6);
        }
        must_fail = false;
        b = batch_of(&t, csr);
    }
    int code = ta_tree(f->kept, &b);
    MUST(!must_fail || code == TA_BAD_INPUT || code == TA_NO_ROOM);
    MUST((code == TA_DONE) == (ta_error(f->kept)[0] == 0));
    struct ta_packed p = {.size = sizeof p};
    struct ta_shape shape = {.size = sizeof shape, .n_heads = 4, .n_kv_heads = 4, .head_dim = 128};
    int planned = ta_plan(f->kept, &shape, "pat", &p);
    MUST((code == TA_DONE && planned == TA_DONE) || (code != TA_DONE && planned == TA_BAD_INPUT));
    b = batch_of(&f->t, csr);
    b.kept = NULL;
    MUST(ta_tree(f->kept, &b) == TA_DONE);
}

static void *fuzz(void *self)
{
    struct fuzz *f = self;
    struct ta_limits limits = {.size = sizeof limits,
                               .requests = ROWS,
                               .queries = QUERIES,
                               .pages = ROWS * STRIDE,
                               .pool_pages = 6,
                               .work_bytes = 4 << 20};
    f->state = f->seed;
    f->kept = ta_open(&limits);
    f->anew = ta_open(&limits);
    MUST(f->kept && f->anew);
    int64_t before = allocations;
    for (f->done = 0; f->done < f->tables; f->done++) {
        struct ta_nodes x = {.size = sizeof x}, y = {.size = sizeof y};
        draw_step(f);
        struct ta_batch b = batch_of(&f->t, draw(f, 2));
        MUST(ta_tree(f->kept, &b) == TA_DONE && ta_get_nodes(f->kept, &x) == TA_DONE);
        check_tree(f, &x);
        if (draw(f, 4) == 0) {
            b.kept = NULL;
            MUST(ta_tree(f->anew, &b) == TA_DONE && ta_get_nodes(f->anew, &y) == TA_DONE);
            check_same(f, &x, &y);
        }
        if (draw(f, 64) == 0)
            try_plan(f, f->kept);
        if (draw(f, 32) == 0)
            try_wrong(f);
    }
    MUST(allocations == before);
    ta_close(f->kept);
    ta_close(f->anew);
    return NULL;
}

/* ---- tables of trees that were drawn ---------------------------------------------------------------------- */

enum { DRAWN_ROWS = 64, DRAWN_NODES = 200, DRAWN_STRIDE = 100, DRAWN_PAGE = 16 };

struct drawn {
    int32_t n, parent[DRAWN_NODES], pages[DRAWN_NODES],
        first_id[DRAWN_NODES]; /* pages have consecutive ids, which nothing depends on */
    int32_t node[DRAWN_ROWS], length[DRAWN_ROWS], page[DRAWN_ROWS][DRAWN_STRIDE];
};

static int32_t draw_node(struct fuzz *f, struct drawn *d, int32_t parent, int32_t *ids)
{
    d->parent[d->n] = parent;
    d->pages[d->n] = 1 + draw(f, 30);
    d->first_id[d->n] = *ids;
    *ids += d->pages[d->n];
    return d->n++;
}

/* Roots, two or more nodes below each, and two or more below each of these. Requests end in leaves, in some two of
 * them, and some at the end of inner nodes. */
static void draw_tree(struct fuzz *f, struct drawn *d)
{
    int32_t ids = 0, rows = 0, ends[DRAWN_ROWS];
    d->n = 0;
    while (rows < DRAWN_ROWS) {
        int32_t root = draw_node(f, d, -1, &ids), left = DRAWN_ROWS - rows;
        if (left < 4) {
            ends[rows++] = root;
            continue;
        }
        for (int32_t kids = 2 + draw(f, 4), i = 0; i < kids && (i < 2 || DRAWN_ROWS - rows >= 4); i++) {
            int32_t middle = draw_node(f, d, root, &ids);
            if (DRAWN_ROWS - rows >= 5 && draw(f, 4) == 0)
                ends[rows++] = middle;
            for (int32_t leaves = 2 + draw(f, 6), k = 0; k < leaves && (k < 2 || DRAWN_ROWS - rows >= 4); k++)
                if (rows < DRAWN_ROWS)
                    ends[rows++] = draw_node(f, d, middle, &ids);
        }
        if (DRAWN_ROWS - rows >= 4 && draw(f, 2) == 0) {
            ends[rows] = ends[rows - 1];
            rows++;
        }
    }
    for (int32_t r = rows - 1; r > 0; r--) { /* in any order */
        int32_t other = draw(f, r + 1), end = ends[r];
        ends[r] = ends[other];
        ends[other] = end;
    }
    bool inner[DRAWN_NODES] = {false};
    for (int32_t i = 0; i < d->n; i++)
        if (d->parent[i] >= 0)
            inner[d->parent[i]] = true;
    for (int32_t r = 0; r < rows; r++) {
        int32_t n = 0;
        for (int32_t x = d->node[r] = ends[r]; x >= 0; x = d->parent[x])
            n += d->pages[x];
        d->length[r] = n * DRAWN_PAGE - (inner[ends[r]] ? 0 : draw(f, DRAWN_PAGE));
        for (int32_t x = ends[r]; x >= 0; x = d->parent[x])
            for (int32_t i = d->pages[x] - 1; i >= 0; i--)
                d->page[r][--n] = d->first_id[x] + i;
    }
}

static int fuzz_drawn(int64_t tables)
{
    static struct drawn d;
    struct ta_limits limits = {.size = sizeof limits, .requests = DRAWN_ROWS};
    struct fuzz x = {.seed = 1, .state = 1, .tables = tables}, *f = &x;
    f->kept = f->anew = ta_open(&limits);
    MUST(f->kept);
    for (; f->done < tables; f->done++) {
        struct ta_batch b = {.size = sizeof b,
                             .page_size = DRAWN_PAGE,
                             .n_requests = DRAWN_ROWS,
                             .pages = d.page[0],
                             .stride = DRAWN_STRIDE,
                             .lengths = d.length};
        struct ta_nodes t = {.size = sizeof t};
        int32_t drawn_as[DRAWN_NODES], tokens[DRAWN_NODES] = {0}, seen = 0;
        draw_tree(f, &d);
        MUST(ta_tree(f->kept, &b) == TA_DONE && ta_get_nodes(f->kept, &t) == TA_DONE);
        MUST(t.n_nodes == d.n && t.n_queries == DRAWN_ROWS);
        memset(drawn_as, -1, sizeof drawn_as);
        for (int32_t r = 0; r < DRAWN_ROWS; r++) { /* both paths upwards */
            int32_t i = t.query[r].node, at = d.node[r];
            MUST(t.first[i] + t.query[r].upto == d.length[r]);
            for (; i >= 0 && at >= 0; i = t.parent[i], at = d.parent[at]) {
                MUST(drawn_as[i] < 0 || drawn_as[i] == at);
                seen += drawn_as[i] < 0;
                drawn_as[i] = at;
                int32_t here = d.length[r] - (int32_t)t.first[i], most = d.pages[at] * DRAWN_PAGE;
                here = here < most ? here : most;
                tokens[i] = here > tokens[i] ? here : tokens[i];
            }
            MUST(i < 0 && at < 0);
        }
        MUST(seen == t.n_nodes);
        for (int32_t i = 0; i < t.n_nodes; i++)
            MUST(t.len[i] == tokens[i]);
    }
    ta_close(f->kept);
    printf("fuzz: %" PRId64 " trees are what was drawn\n", tables);
    return 0;
}

/* ---- times ---------------------------------------------------------------------------------------------- */

static double now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e6 * (double)t.tv_sec + 1e-3 * (double)t.tv_nsec;
}

enum {
    BENCH_ROWS = 128,
    BENCH_PAGES = 1000,
    BENCH_STRIDE = BENCH_PAGES + 64,
    BENCH_PAGE = 16,
    BENCH_SHARED = 250,
    BENCH_TIMES = 300
};

/* Microseconds of ta_tree, where these are the least so far. */
static bool time_tree(struct ta_ctx *c, const struct ta_batch *b, double *least)
{
    double begin = now_us();
    bool good = ta_tree(c, b) == TA_DONE;
    double us = now_us() - begin;
    if (!good)
        fprintf(stderr, "fuzz: %s\n", ta_error(c));
    *least = us < *least ? us : *least;
    return good;
}

/* 128 requests of 1,000 pages in groups of 8, which share 250 or 500 pages. */
static int bench(void)
{
    struct ta_limits limits = {
        .size = sizeof limits, .requests = BENCH_ROWS, .pages = BENCH_ROWS * BENCH_STRIDE};
    static int32_t page[BENCH_ROWS][BENCH_STRIDE], length[BENCH_ROWS], kept[BENCH_ROWS];
    struct ta_ctx *c = ta_open(&limits);
    struct ta_batch b = {.size = sizeof b,
                         .page_size = BENCH_PAGE,
                         .n_requests = BENCH_ROWS,
                         .pages = page[0],
                         .stride = BENCH_STRIDE,
                         .lengths = length};
    struct ta_shape shape = {.size = sizeof shape, .n_heads = 32, .n_kv_heads = 8, .head_dim = 128};
    struct ta_packed p = {.size = sizeof p};
    struct ta_price price = {.size = sizeof price};
    double rebuild = 1e9, step = 1e9, plan = 1e9, again = 1e9;
    int32_t next = 0;
    for (int32_t r = 0; r < BENCH_ROWS; r++) {
        length[r] = BENCH_PAGES * BENCH_PAGE - r % BENCH_PAGE;
        for (int32_t i = 0; i < BENCH_STRIDE; i++) {
            int32_t from = i < BENCH_SHARED ? 0 : i < 2 * BENCH_SHARED ? r / 8 * 8 : r;
            page[r][i] = from < r ? page[from][i] : next++;
        }
    }
    for (int t = 0; t < BENCH_TIMES; t++) {
        if (!time_tree(c, &b, &rebuild))
            return 1;
    }
    for (int t = 0; t < BENCH_TIMES; t++) {
        for (int32_t r = 0; r < BENCH_ROWS; r++) { /* each has a token more, and some a page more */
            kept[r] = (length[r] + BENCH_PAGE - 1) / BENCH_PAGE;
            length[r]++;
        }
        b.kept = kept;
        if (!time_tree(c, &b, &step))
            return 1;
    }
    for (int t = 0; t < 20; t++) {
        double begin = now_us();
        int code = ta_plan(c, &shape, "auto", &p);
        double us = now_us() - begin;
        if (code != TA_DONE || ta_get_price(c, &shape, &price) != TA_DONE)
            return fprintf(stderr, "fuzz: %s\n", ta_error(c)), 1;
        plan = us < plan ? us : plan;
        begin = now_us();
        code = ta_plan(c, &shape, "again", &p);
        us = now_us() - begin;
        again = us < again ? us : again;
    }
    printf("rebuild %.1f us, step %.2f us, plan %.0f us, again %.0f us, of %" PRId64 " words, work %" PRIu64
           " bytes\n"
           "shared %.1f us, alone %.1f us; %" PRId64 " and %" PRId64 " bytes\n",
           rebuild, step, plan, again, p.n_words, ta_work(c), price.shared_us, price.alone_us,
           price.shared_bytes, price.alone_bytes);
    ta_close(c);
    return rebuild < 150 && step < 10 ? 0 : 1;
}

int main(int argc, char **argv)
{
    enum { MOST_THREADS = 64 };
    static struct fuzz f[MOST_THREADS];
    pthread_t thread[MOST_THREADS];
    if (argc > 1 && strcmp(argv[1], "bench") == 0)
        return bench();
    if (argc > 1 && strcmp(argv[1], "drawn") == 0)
        return fuzz_drawn(argc > 2 ? atoll(argv[2]) : 1000);
    int64_t tables = argc > 1 ? atoll(argv[1]) : 1000000;
    uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    int threads = argc > 3 ? atoi(argv[3]) : 1;
    if (threads < 1 || threads > MOST_THREADS)
        return 2;
    for (int i = 0; i < threads; i++) {
        f[i].seed = seed + (uint64_t)i;
        f[i].tables = tables / threads;
        if (threads > 1 && pthread_create(&thread[i], NULL, fuzz, &f[i]) != 0)
            return 3;
    }
    if (threads == 1)
        fuzz(&f[0]);
    for (int i = 0; i < threads && threads > 1; i++)
        pthread_join(thread[i], NULL);
    printf("fuzz: %" PRId64 " tables in %d contexts\n", tables / threads * threads, 2 * threads);
    return 0;
}
