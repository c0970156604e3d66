/*
 * replay.c - what an engine does with libtreeattn.so: at every step its block table to a tree and a plan. It is a
 * program outside of the tree, built by what the package says and nothing else:
 *
 *     cc replay.c $(pkg-config --cflags --libs treeattn) -o replay && ./replay [STRATEGY [STEP [FILE]]] <steps
 *
 * Standard input has the steps: "step N PAGE_SIZE", then a line for each request, "QUERY TOKENS ID ID ..", where
 * QUERY is what the request is called in the plan that is printed. Of one STEP the plan is printed as `treeattn plan
 * --csv` prints it, and FILE gets the tree as `treeattn plan --tree-file` reads it; no step behind it is read. At the
 * end a line on standard error says what was saved.
 */
#include <treeattn.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REQUESTS = 64, STRIDE = 1024, LINE = 16 * STRIDE };

static int32_t pages[REQUESTS][STRIDE], before[REQUESTS][STRIDE], lengths[REQUESTS], kept[REQUESTS],
    name[REQUESTS];
static int32_t had[REQUESTS]; /* pages that the step before had */

static int fail(const char *what, const char *why)
{
    fprintf(stderr, "replay: %s: %s\n", what, why);
    return 1;
}

/* Of a plan's query k: what its request is called. */
static int32_t called(const int32_t *w, const int32_t *g, int32_t k)
{
    return name[w[w[TA_AT_QUERY] + g[TA_G_QUERY] + k]];
}

static int sees(const int32_t *w, const int32_t *g, int32_t k, int32_t r)
{
    int64_t bit = (int64_t)k * g[TA_G_RUNS] + r;
    return g[TA_G_MASK] < 0 || ((uint32_t)w[w[TA_AT_MASK] + g[TA_G_MASK] + bit / 32] >> bit % 32 & 1);
}

/* "0-2,5": numbers that follow each other are a range. */
static void print_list(const int32_t *x, int32_t n)
{
    for (int32_t i = 0, end; i < n; i = end) {
        for (end = i + 1; end < n && x[end] == x[end - 1] + 1;)
            end++;
        printf("%s%" PRId32, i > 0 ? "," : "", x[i]);
        if (end > i + 1)
            printf("-%" PRId32, x[end - 1]);
    }
}

static int ascending(const void *a, const void *b)
{
    return *(const int32_t *)a - *(const int32_t *)b;
}

static void print_group(const int32_t *w, const char *strategy, int32_t i)
{
    static const char *const mask[] = {"none", "run-words", "token-words", "query-words", "dense"};
    const int32_t *g = w + w[TA_AT_GROUP] + i * TA_GROUP_WORDS, n = g[TA_G_QUERIES];
    int32_t query[REQUESTS];
    printf("%s,%" PRId32 ",%" PRId32 ",%" PRId32 ",%" PRId32 ",%s,%" PRId32 ",%" PRId32 ",\"", strategy, i,
           g[TA_G_LAUNCH], g[TA_G_TILE_M], g[TA_G_TILE_N], mask[g[TA_G_KIND]], n, g[TA_G_TOKENS]);
    for (int32_t k = 0; k < n; k++)
        query[k] = called(w, g, k);
    print_list(query, n);
    printf("\",\"");
    for (int32_t r = 0; r < g[TA_G_RUNS]; r++) {
        const int32_t *run = w + w[TA_AT_RUN] + (g[TA_G_RUN] + r) * TA_RUN_WORDS;
        int32_t seeing = 0;
        for (int32_t k = 0; k < n; k++)
            if (sees(w, g, k, r))
                query[seeing++] = called(w, g, k);
        printf("%sn%" PRId32 "[%" PRId32 ",%" PRId32 ")", r > 0 ? " " : "", run[TA_R_NODE], run[TA_R_BEGIN],
               run[TA_R_BEGIN] + run[TA_R_TOKENS]);
        if (seeing == n)
            continue;
        qsort(query, (size_t)seeing, sizeof *query, ascending);
        printf("{");
        print_list(query, seeing);
        printf("}");
    }
    printf("\",%" PRId32 "\n", g[TA_G_SLOT]);
}

static int print_tree(struct ta_ctx *c, const char *path)
{
    struct ta_nodes x = {.size = sizeof x};
    FILE *f = fopen(path, "w");
    if (!f || ta_get_nodes(c, &x) != TA_DONE)
        return fail(path, f ? ta_error(c) : "cannot be written");
    fprintf(f, "tree %" PRId32 " %" PRId32 "\n", x.n_nodes, x.n_queries);
    for (int32_t i = 0; i < x.n_nodes; i++)
        fprintf(f, "node %" PRId32 " %" PRId32 " %" PRId64 "\n", i, x.parent[i], x.len[i]);
    for (int32_t q = 0; q < x.n_queries; q++)
        for (int32_t r = 0; r < x.n_queries; r++)
            if (name[r] == q) /* queries of the file are numbered by these names */
                fprintf(f, "query %" PRId32 " %" PRId64 "\n", x.query[r].node, x.query[r].upto);
    return fclose(f) == 0 ? 0 : fail(path, "cannot be written");
}

/* The requests of a step into the block table; -1: they are no table. */
static int32_t read_requests(char *line, int32_t page_size)
{
    int32_t n = 0;
    for (; fgets(line, LINE, stdin) && line[0] != '\n'; n++) {
        char *at = line;
        if (n == REQUESTS)
            return -1;
        name[n] = (int32_t)strtol(at, &at, 10);
        lengths[n] = (int32_t)strtol(at, &at, 10);
        int32_t all = (lengths[n] + page_size - 1) / page_size, same = 0;
        for (int32_t i = 0; i < all && i < STRIDE; i++)
            pages[n][i] = (int32_t)strtol(at, &at, 10);
        /* An engine knows this: it appends to its table. */
        while (same < all && same < had[n] && pages[n][same] == before[n][same])
            same++;
        kept[n] = same;
        had[n] = all < STRIDE ? all : STRIDE;
        memcpy(before[n], pages[n], sizeof before[n]);
    }
    memset(had + n, 0, (size_t)(REQUESTS - n) * sizeof *had);
    return n;
}

int main(int argc, char **argv)
{
    const char *strategy = argc > 1 ? argv[1] : "auto";
    long wanted = argc > 2 ? atol(argv[2]) : 0, number, page_size, steps = 0;
    double shared_us = 0, alone_us = 0;
    struct ta_limits limits = {.size = sizeof limits, .requests = REQUESTS, .pages = REQUESTS * STRIDE};
    struct ta_shape shape = {.size = sizeof shape,
                             .n_heads = 32,
                             .n_kv_heads = 8,
                             .head_dim = 128,
                             .dtype = "f16",
                             .machine = "h200"};
    struct ta_ctx *c = ta_open(&limits);
    static char line[LINE];
    if (!c)
        return fail("ta_open", "no memory");
    while (fgets(line, sizeof line, stdin) && sscanf(line, "step %ld %ld", &number, &page_size) == 2) {
        struct ta_packed p = {.size = sizeof p};
        struct ta_price price = {.size = sizeof price};
        struct ta_batch b = {.size = sizeof b,
                             .page_size = (int32_t)page_size,
                             .n_requests = read_requests(line, (int32_t)page_size),
                             .pages = pages[0],
                             .stride = STRIDE,
                             .lengths = lengths,
                             .kept = kept};
        if (ta_tree(c, &b) != TA_DONE || ta_plan(c, &shape, strategy, &p) != TA_DONE ||
            ta_get_price(c, &shape, &price) != TA_DONE)
            return fail("a step", ta_error(c));
        steps++;
        shared_us += price.shared_us;
        alone_us += price.alone_us;
        if (number != wanted)
            continue;
        for (int32_t i = 0; i < p.words[TA_N_GROUP]; i++)
            print_group(p.words, strcmp(strategy, "auto") == 0 ? "treeattn" : strategy, i);
        if (argc > 3 && print_tree(c, argv[3]) != 0)
            return 1;
        break;
    }
    fprintf(stderr, "replay: %ld steps, %.0f us a layer shared, %.0f us alone\n", steps, shared_us, alone_us);
    ta_close(c);
    return 0;
}
