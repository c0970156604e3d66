#include "kernels/cuda/engine/unpack.h"
#include "sim/engine/treeattn.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* The words, and where its sections are. */
struct words {
    const int32_t *at;
    int64_t n;
    struct err *e;
};

static bool wrong(const struct words *w, int64_t at, const char *expected)
{
    return err_set(w->e, "word %" PRId64 " of the plan is %" PRId32 " (expected %s)", at, w->at[at],
                   expected);
}

/* Word `at` lies in least .. most. */
static bool in(const struct words *w, int64_t at, int64_t least, int64_t most, const char *expected)
{
    return (w->at[at] >= least && w->at[at] <= most) || wrong(w, at, expected);
}

/* n entries from `from` on lie in a section of `of` entries; from and n are the words at `at` and at `count`. */
static bool within(const struct words *w, int64_t at, int64_t count, int64_t of, const char *expected)
{
    int64_t from = w->at[at], n = w->at[count];
    return (from >= 0 && n >= 0 && from + n <= of) || wrong(w, from < 0 || from > of ? at : count, expected);
}

static bool check_header(const struct words *w)
{
    static const struct {
        enum ta_word at;
        int32_t width;
    } section[] = {{TA_AT_LAUNCH, TA_LAUNCH_WORDS},
                   {TA_AT_GROUP, TA_GROUP_WORDS},
                   {TA_AT_QUERY, 1},
                   {TA_AT_RUN, TA_RUN_WORDS},
                   {TA_AT_MASK, 1},
                   {TA_AT_MERGE, TA_MERGE_WORDS},
                   {TA_AT_INPUT, 1},
                   {TA_AT_PAGE, 1}};
    if (w->n < TA_HEADER)
        return err_set(w->e, "%" PRId64 " words (expected a packed plan, which has %d at least)", w->n,
                       TA_HEADER);
    if (w->at[TA_W_MAGIC] != TA_MAGIC || w->at[TA_W_PACKING] != TA_PACKING)
        return err_set(w->e, "words that are no packed plan (expected those of ta_plan, packing %d)",
                       TA_PACKING);
    if (!in(w, TA_W_WORDS, w->n, w->n, "as many words as are given") ||
        !in(w, TA_W_PAGE_SIZE, 1, 65536, "1 to 65536 tokens") ||
        !in(w, TA_W_QUERIES, 0, TREE_MAX_QUERIES, "queries") || !in(w, TA_W_SLOTS, 0, INT32_MAX, "slots") ||
        !in(w, TA_W_F16, 0, 1, "0 or 1") || !in(w, TA_W_WEIGHT, 0, 1, "0 or 1"))
        return false;
    for (size_t i = 0; i < sizeof section / sizeof section[0]; i++) {
        int64_t at = w->at[section[i].at], n = w->at[section[i].at + 1];
        if (at < TA_HEADER || n < 0 || at + n * section[i].width > w->n)
            return wrong(w, section[i].at, "where a section begins that ends within the words");
    }
    return true;
}

static int64_t section(const struct words *w, enum ta_word at, int64_t i, int32_t width)
{
    return w->at[at] + i * width;
}

/* ---- sections ------------------------------------------------------------------------------------------- */

static bool read_launches(const struct words *w, struct plan *p)
{
    p->n_launches = w->at[TA_N_LAUNCH];
    p->launch = xcalloc((size_t)p->n_launches + 1, sizeof *p->launch);
    for (int32_t l = 0; l < p->n_launches; l++) {
        int64_t at = section(w, TA_AT_LAUNCH, l, TA_LAUNCH_WORDS);
        if (!in(w, at + TA_L_CONCURRENT, 0, 1, "0 or 1"))
            return false;
        p->launch[l] = (struct launch){
            .name = "launch", .order = w->at[at + TA_L_CONCURRENT] ? LAUNCH_CONCURRENT : LAUNCH_SERIAL};
    }
    return true;
}

/* Runs, and with them the nodes that they are in: their lengths and where their pages begin. */
static bool read_runs(const struct words *w, struct unpacked *x)
{
    struct plan *p = x->plan;
    int64_t size = w->at[TA_W_PAGE_SIZE], pages = w->at[TA_N_PAGE];
    int32_t nodes = (int32_t)pages; /* each has a page at least */
    p->n_runs = w->at[TA_N_RUN];
    p->run = xcalloc((size_t)p->n_runs + 1, sizeof *p->run);
    x->tree.len = xcalloc((size_t)nodes + 1, sizeof *x->tree.len);
    x->p.page_off = xcalloc((size_t)nodes + 2, sizeof *x->p.page_off);
    for (int64_t i = 0; i < p->n_runs; i++) {
        int64_t at = section(w, TA_AT_RUN, i, TA_RUN_WORDS);
        const int32_t *r = w->at + at;
        if (!in(w, at + TA_R_PAGE, 0, pages - 1, "an entry of section page") ||
            !in(w, at + TA_R_OFFSET, 0, size - 1, "less than a page has") ||
            !in(w, at + TA_R_TOKENS, 1, (pages - r[TA_R_PAGE]) * size - r[TA_R_OFFSET],
                "1 to what the pages hold") ||
            !in(w, at + TA_R_NODE, 0, nodes - 1, "a node") ||
            !in(w, at + TA_R_BEGIN, 0, (int64_t)r[TA_R_PAGE] * size + r[TA_R_OFFSET],
                "tokens of the pages before"))
            return false;
        int64_t end = (int64_t)r[TA_R_BEGIN] + r[TA_R_TOKENS], first = r[TA_R_PAGE] - r[TA_R_BEGIN] / size;
        int32_t node = r[TA_R_NODE];
        if (r[TA_R_BEGIN] % size != r[TA_R_OFFSET] || (x->tree.len[node] > 0 && x->p.page_off[node] != first))
            return wrong(w, at + TA_R_BEGIN, "a token of the node that its other runs are in");
        x->p.page_off[node] = first;
        x->tree.len[node] = max_i64(x->tree.len[node], end);
        p->run[i] = (struct run){.node = node, .begin = r[TA_R_BEGIN], .end = end};
    }
    x->tree.n_nodes = nodes;
    x->p.page_off[nodes] = pages;
    return true;
}

/* The queries of a group, as ranges. */
static bool read_queries(const struct words *w, struct plan *p, int64_t from, int64_t n)
{
    for (int64_t k = 0; k < n; k++) {
        int64_t at = section(w, TA_AT_QUERY, from + k, 1);
        if (!in(w, at, 0, w->at[TA_W_QUERIES] - 1, "a query"))
            return false;
        int32_t q = w->at[at];
        if (k > 0 && p->qr[p->n_qr - 1].end == q) {
            p->qr[p->n_qr - 1].end++;
            continue;
        }
        p->qr = xgrow(p->qr, &p->cap_qr, p->n_qr + 1, sizeof *p->qr);
        p->qr[p->n_qr++] = (struct qrange){q, q + 1};
    }
    return true;
}

static bool read_mask(const struct words *w, struct plan *p, int64_t at, int64_t bits)
{
    p->mask = xgrow(p->mask, &p->cap_mask, p->n_mask + bits, 1);
    for (int64_t b = 0; b < bits; b++)
        p->mask[p->n_mask++] = (uint32_t)w->at[at + b / 32] >> b % 32 & 1;
    return true;
}

static bool read_group(const struct words *w, struct plan *p, int64_t at, struct group *g)
{
    const int32_t *x = w->at + at;
    if (!in(w, at + TA_G_LAUNCH, 0, p->n_launches - 1, "a launch") ||
        !in(w, at + TA_G_TILE_M, 0, 65536, "rows of a tile") ||
        !in(w, at + TA_G_TILE_N, 0, 65536, "tokens of a tile") ||
        !in(w, at + TA_G_QUERIES, 1, INT32_MAX, "a query at least") ||
        !in(w, at + TA_G_RUNS, 1, INT32_MAX, "a run at least") ||
        !within(w, at + TA_G_QUERY, at + TA_G_QUERIES, w->at[TA_N_QUERY], "entries of section query") ||
        !within(w, at + TA_G_RUN, at + TA_G_RUNS, w->at[TA_N_RUN], "entries of section run") ||
        !in(w, at + TA_G_SLOT, -1, max_i64(-1, (int64_t)w->at[TA_W_SLOTS] - x[TA_G_QUERIES]),
            "-1, or slots for all queries") ||
        !in(w, at + TA_G_KIND, 0, N_MASK_KINDS - 1, "a kind of mask"))
        return false;
    int64_t bits = (int64_t)x[TA_G_QUERIES] * x[TA_G_RUNS], tokens = 0;
    for (int64_t r = x[TA_G_RUN]; r < x[TA_G_RUN] + x[TA_G_RUNS]; r++)
        tokens += p->run[r].end - p->run[r].begin;
    if (!in(w, at + TA_G_TOKENS, tokens, tokens, "the tokens of its runs") ||
        !in(w, at + TA_G_MASK, -1, max_i64(-1, w->at[TA_N_MASK] - ceil_div(bits, 32)),
            "-1, or a word of section mask that a bit for each pair follows"))
        return false;
    *g = (struct group){.qr0 = p->n_qr,
                        .run0 = x[TA_G_RUN],
                        .run1 = x[TA_G_RUN] + x[TA_G_RUNS],
                        .n_kv = tokens,
                        .nq = x[TA_G_QUERIES],
                        .mask = x[TA_G_MASK] < 0 ? MASK_NONE : MASK_RUN_WORDS,
                        .mask0 = p->n_mask,
                        .tile_m = x[TA_G_TILE_M],
                        .tile_n = x[TA_G_TILE_N],
                        .launch = x[TA_G_LAUNCH],
                        .slot0 = x[TA_G_SLOT] < 0 ? PLAN_NO_SLOT : x[TA_G_SLOT]};
    if (!read_queries(w, p, x[TA_G_QUERY], g->nq) ||
        (x[TA_G_MASK] >= 0 && !read_mask(w, p, section(w, TA_AT_MASK, x[TA_G_MASK], 1), bits)))
        return false;
    g->qr1 = p->n_qr;
    return true;
}

static bool read_groups(const struct words *w, struct plan *p)
{
    int64_t n = w->at[TA_N_GROUP];
    p->group = xcalloc((size_t)n + 1, sizeof *p->group);
    for (; p->n_groups < n; p->n_groups++)
        if (!read_group(w, p, section(w, TA_AT_GROUP, p->n_groups, TA_GROUP_WORDS), &p->group[p->n_groups]))
            return false;
    return true;
}

static bool read_merges(const struct words *w, struct plan *p)
{
    int64_t slots = w->at[TA_W_SLOTS];
    p->n_merge_in = w->at[TA_N_INPUT];
    p->merge_in = xcalloc((size_t)p->n_merge_in + 1, sizeof *p->merge_in);
    for (int64_t i = 0; i < p->n_merge_in; i++) {
        int64_t at = section(w, TA_AT_INPUT, i, 1);
        if (!in(w, at, 0, slots - 1, "a slot"))
            return false;
        p->merge_in[i] = w->at[at];
    }
    p->n_merges = w->at[TA_N_MERGE];
    p->merge = xcalloc((size_t)p->n_merges + 1, sizeof *p->merge);
    for (int64_t i = 0; i < p->n_merges; i++) {
        int64_t at = section(w, TA_AT_MERGE, i, TA_MERGE_WORDS);
        const int32_t *m = w->at + at;
        if (!in(w, at + TA_M_QUERY, 0, w->at[TA_W_QUERIES] - 1, "a query") ||
            !in(w, at + TA_M_LAUNCH, 0, p->n_launches - 1, "a launch") ||
            !within(w, at + TA_M_INPUT, at + TA_M_INPUTS, p->n_merge_in, "entries of section input") ||
            !in(w, at + TA_M_SLOT, -1, slots - 1, "-1, or a slot") ||
            !in(w, at + TA_M_ONCHIP, -1, slots - 1, "-1, or a slot"))
            return false;
        p->merge[i] = (struct merge_step){.in0 = m[TA_M_INPUT],
                                          .in1 = (int64_t)m[TA_M_INPUT] + m[TA_M_INPUTS],
                                          .out = m[TA_M_SLOT] < 0 ? PLAN_NO_SLOT : m[TA_M_SLOT],
                                          .query = m[TA_M_QUERY],
                                          .launch = m[TA_M_LAUNCH],
                                          .onchip = m[TA_M_ONCHIP] < 0 ? PLAN_NO_SLOT : m[TA_M_ONCHIP]};
    }
    return true;
}

/* ---- the whole ------------------------------------------------------------------------------------------ */

static int32_t *counted(int32_t n)
{
    int32_t *x = xcalloc((size_t)n + 1, sizeof *x);
    for (int32_t i = 0; i < n; i++)
        x[i] = i;
    return x;
}

/* Pages of the pool as far as the plan knows it. */
static int64_t pool_pages(const struct words *w, bool *good)
{
    int64_t most = 0;
    for (int64_t i = 0; i < w->at[TA_N_PAGE] && *good; i++) {
        *good = in(w, section(w, TA_AT_PAGE, i, 1), 0, INT32_MAX - 1, "a page");
        most = max_i64(most, (int64_t)w->at[section(w, TA_AT_PAGE, i, 1)] + 1);
    }
    return most;
}

bool unpack_plan(const int32_t *words, int64_t n, struct unpacked *x, struct err *e)
{
    struct words w = {.at = words, .n = n, .e = e};
    unpacked_free(x);
    if (!check_header(&w))
        return false;
    x->plan = plan_new(&x->nf, "packed");
    bool good = read_launches(&w, x->plan) && read_runs(&w, x) && read_groups(&w, x->plan) &&
                read_merges(&w, x->plan);
    x->p.n_pages = pool_pages(&w, &good);
    if (!good) {
        unpacked_free(x);
        return false;
    }
    x->plan->n_slots = words[TA_W_SLOTS];
    x->plan->slot_o = words[TA_W_F16] ? SLOT_O_F16 : SLOT_O_F32;
    x->plan->slot_weight = words[TA_W_WEIGHT] ? SLOT_MAX_SUM : SLOT_LSE;
    x->tree.n_queries = words[TA_W_QUERIES];
    x->nf.tree = x->p.tree = &x->tree;
    x->nf.n_nodes = x->tree.n_nodes;
    x->nf.n_queries = x->tree.n_queries;
    x->nf.len = x->tree.len;
    x->nf.src = counted(x->tree.n_nodes);
    x->nf.off = xcalloc((size_t)x->tree.n_nodes + 1, sizeof *x->nf.off);
    x->nf.orig = counted(x->tree.n_queries);
    x->p.page_size = words[TA_W_PAGE_SIZE];
    x->page_at = words[TA_AT_PAGE];
    return true;
}

void unpacked_free(struct unpacked *x)
{
    plan_free(x->plan);
    free(x->tree.len);
    free(x->nf.src);
    free(x->nf.off);
    free(x->nf.orig);
    free(x->p.page_off);
    *x = (struct unpacked){.plan = NULL};
}
