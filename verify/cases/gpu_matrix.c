#include "verify/cases/gpu_matrix.h"
#include "ref/rng.h"
#include "verify/cases/random_cases.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Streams of the generator, one per property. */
enum { DRAW_TREE = 2000, DRAW_DATA, DRAW_PREFIX, DRAW_TURN, DRAW_STEP };

const enum dtype gpu_dtypes[GPU_TYPES] = {DT_F16, DT_BF16};
const int32_t gpu_heads[GPU_HEADS][2] = {{32, 32}, {32, 8}, {16, 8}, {64, 8}, {16, 1}, {28, 4}, {71, 1}};
const int32_t gpu_dims[GPU_DIMS] = {64, 128};
const int32_t gpu_pages[GPU_PAGES] = {1, 16, 64, 256};
enum { N_COMBOS = GPU_TYPES * GPU_HEADS * GPU_DIMS * GPU_PAGES };

/* (query, token, head, element) products of a drawn case: the oracle takes about a second for 1e9. */
static const double WORK_MAX = 2.5e8;

const char *gpu_kind_name(int kind)
{
    static const char *const own[] = {"prefix",     "edges",         "docmerge",  "keyword",   "set",
                                      "sorting",    "own reasoning", "32 tokens", "64 tokens", "128 tokens",
                                      "256 tokens", "medusa",        "data",      "sharp"};
    CK(kind >= 0 && kind < N_GPU_KINDS);
    return kind < N_FAMILIES ? family_name[kind] : own[kind - N_FAMILIES];
}

/* ---- building the list ----------------------------------------------------------------------------------- */

struct list {
    struct gpu_case *at;
    int64_t n, cap;
    uint64_t seed;
};

/* The source is owned by the list from now on, as the case is. Data differ from case to case. */
static struct case_spec *add(struct list *l, int kind, struct tree_source src, struct problem_spec spec)
{
    l->at = xgrow(l->at, &l->cap, l->n + 1, sizeof *l->at);
    spec.seed = rng_u64(l->seed, DRAW_DATA, (uint64_t)l->n) >> 40;
    l->at[l->n++] = (struct gpu_case){.c = {.src = src, .spec = spec}, .kind = kind};
    return &l->at[l->n - 1].c;
}

static void add_levels(struct list *l, int kind, char *levels, struct problem_spec spec)
{
    add(l, kind, (struct tree_source){.kind = SRC_LEVELS, .text = levels}, spec);
}

static struct problem_spec spec_of(int type, int head, int dim, int page)
{
    struct problem_spec s = case_default_spec();
    const int32_t *h = gpu_heads[head % GPU_HEADS];
    s.heads = (struct heads){h[0], h[1], gpu_dims[dim % GPU_DIMS], gpu_dtypes[type % GPU_TYPES]};
    s.page_size = gpu_pages[page % GPU_PAGES];
    return s;
}

/* Combination i of the four axes, in an order in which neighbours differ in all of them. */
static struct problem_spec turn(struct list *l, int64_t i)
{
    int64_t k = (i + rng_below(l->seed, DRAW_TURN, 0, N_COMBOS)) * 45 %
                N_COMBOS; /* 45 and 112 have no common divisor */
    return spec_of((int)(k % GPU_TYPES), (int)(k / GPU_TYPES % GPU_HEADS),
                   (int)(k / GPU_TYPES / GPU_HEADS % GPU_DIMS), (int)(k / GPU_TYPES / GPU_HEADS / GPU_DIMS));
}

/* ---- the design ------------------------------------------------------------------------------------------ */

/* A tree of the family, the first drawn that is not too much work; the last resort is a small one. */
static struct tree_source family_tree(uint64_t seed, uint64_t i, enum family f, const struct problem_spec *s)
{
    struct tree_source src = {.kind = SRC_GEN, .family = f};
    for (uint64_t k = 0; k < 64; k++) {
        src.seed = rng_u64(seed, DRAW_TREE, i * 64 + k) >> 40;
        struct tree *t = gen_tree(f, src.seed);
        bool fits = t->n_queries > 0 && tree_tokens(t) > 0 &&
                    (double)visible_pairs(t) * s->heads.h_q * s->heads.d <= WORK_MAX;
        tree_free(t);
        if (fits)
            break;
    }
    return src;
}

/* One prefix and at most 64 tokens below it, on one level or two. */
static char *prefix_levels(uint64_t seed, uint64_t i)
{
    int32_t x[5];
    for (uint64_t k = 0; k < 5; k++)
        x[k] = (int32_t)(rng_u64(seed, DRAW_PREFIX, i * 5 + k) >> 40 & 0xFFFF);
    int32_t prefix = 40 + x[0] % 600, fan = 2 + x[1] % 7;
    if (x[2] % 2)
        return xasprintf("1,%d_%d,%d", fan, prefix, 1 + x[3] % (64 / fan));
    int32_t leaves = fan * (1 + x[4] % 3), inner = 1 + x[3] % ((64 - leaves) / fan);
    int32_t leaf = (64 - fan * inner) / leaves;
    return xasprintf("1,%d,%d_%d,%d,%d", fan, leaves, prefix, inner, leaf < 1 ? 1 : leaf > 4 ? 4 : leaf);
}

static void add_design(struct list *l)
{
    for (int t = 0; t < GPU_TYPES; t++)
        for (int d = 0; d < GPU_DIMS; d++)
            for (int p = 0; p < GPU_PAGES; p++)
                for (int h = 0; h < GPU_HEADS; h++) {
                    int64_t other = (t * GPU_DIMS + d) * GPU_PAGES + p, i = other * GPU_HEADS + h;
                    struct problem_spec s = spec_of(t, h, d, p);
                    /* for each of the other three axes' values h runs over all families, and the reverse */
                    enum family f = (enum family)((h + other + rng_below(l->seed, DRAW_TURN, 1, N_FAMILIES)) %
                                                  N_FAMILIES);
                    add(l, (int)f, family_tree(l->seed, (uint64_t)i, f, &s), s);
                    add_levels(l, GPU_PREFIX, prefix_levels(l->seed, (uint64_t)i), s);
                }
}

/* ---- edges, data, sharp cases ---------------------------------------------------------------------------- */

static const int32_t edge[] = {1, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 255, 256, 257};
enum { N_EDGES = sizeof edge / sizeof edge[0] };

/* Lengths of nodes for every page size; numbers of queries, with one query head a KV head and with several. */
static void add_edges(struct list *l)
{
    for (int e = 0; e < N_EDGES; e++)
        for (int p = 0; p < GPU_PAGES; p++)
            add_levels(
                l, GPU_EDGES,
                xasprintf("1,3,6_%d,%d,%d", edge[e], edge[(e + 5 + p) % N_EDGES], edge[(e + 11) % N_EDGES]),
                spec_of(e + p, e * GPU_PAGES + p, e / 2 + p, p));
    for (int e = 0; e < N_EDGES; e++)
        for (int k = 0; k < 2; k++)
            add_levels(l, GPU_EDGES, xasprintf("1,%d_%d,%d", edge[e], 70 + 61 * k, 1 + e % 3),
                       spec_of(e + k, k ? 2 : 0, e / 2, e + 2 * k));
}

static void add_data(struct list *l)
{
    for (int fill = 0; fill < N_FILLS; fill++)
        for (int i = 0; i < 8; i++) {
            struct problem_spec s = turn(l, fill * 8 + i);
            s.fill = (enum fill)fill;
            s.poison = s.scattered = i != 7;
            add_levels(l, GPU_DATA, xstrdup(i % 2 ? "1,3,12_150,37,9" : "1,20_260,2"), s);
        }
}

/* The list of sharp cases, in the types and head sizes that matter here: those for all strategies, or those that name
 * one. */
static void add_sharp(struct list *l, bool named)
{
    for (int32_t i = 0; i < n_sharp_texts; i++) {
        struct gpu_case x = {.kind = GPU_SHARP};
        struct err e = {0};
        CK(case_parse(sharp_text[i], &x.c, &e));
        if ((x.c.use.s != NULL) != named) {
            case_clear(&x.c);
            continue;
        }
        struct problem_spec s = x.c.spec;
        s.heads.dtype = gpu_dtypes[i % GPU_TYPES];
        problem_spec_restrict(&s, ~(UINT32_C(1) << FEATURE_LATENT | UINT32_C(1) << FEATURE_NARROW_V));
        s.heads.d = s.heads.d <= 64 ? 64 : 128;
        add(l, GPU_SHARP, x.c.src, s)->use = x.c.use;
    }
}

/* ---- traces ---------------------------------------------------------------------------------------------- */

/* Steps spread over a trace, the last among them. False with *e set if it cannot be opened. */
static bool add_steps(struct list *l, int kind, const char *text, struct trace_opts opts, int n_steps,
                      int first_turn, struct err *e)
{
    struct trace *tr = trace_open(text, &opts, e);
    if (!tr)
        return false;
    int64_t last = trace_steps(tr);
    for (int i = 0; i < n_steps; i++) {
        int64_t share = last / n_steps,
                jitter = share > 1 ? rng_below(l->seed, DRAW_STEP, (uint64_t)l->n, share) : 0;
        add(l, kind,
            (struct tree_source){.kind = SRC_TRACE,
                                 .text = xstrdup(text),
                                 .trace = opts,
                                 .step = i == n_steps - 1 ? last : max_i64(1, i * share + jitter)},
            turn(l, first_turn + i));
    }
    trace_close(tr);
    return true;
}

static const char *const tasks[] = {"docmergeToT", "keywordToT", "set128ToT", "sorting128ToT"};
static const int32_t token_trees[] = {32, 64, 128, 256};
enum { N_TASKS = 4, N_TOKEN_TREES = 4, TASK_STEPS = 4, TOKEN_STEPS = 2 };

static bool add_tasks(struct list *l, const char *dir, bool shared, struct err *e)
{
    bool good = true;
    for (int i = 0; i < N_TASKS && good; i++) {
        struct trace_opts o = {.prompt = i % 2 ? 4000 : 1000, .max_seq = i % 2 ? 6000 : 3000};
        o.tree_index = shared ? (int32_t)rng_below(l->seed, DRAW_STEP, (uint64_t)i, 50) : 0;
        char *text = shared ? xasprintf("deft:%s/%s.json", dir, tasks[i])
                            : xasprintf("reasoning:%" PRIu64, l->seed * N_TASKS + (uint64_t)i);
        good = add_steps(l, GPU_REASONING + (shared ? i : N_TASKS), text, o, TASK_STEPS, i * TASK_STEPS, e);
        free(text);
    }
    return good && add_steps(l, GPU_REASONING + N_TASKS, "embedded:reasoning",
                             (struct trace_opts){.prompt = 500, .max_seq = 1500}, TASK_STEPS, 50, e);
}

/* Flat, as DeFT's release verifies them, and as the tree says. */
static bool add_token_trees(struct list *l, const char *dir, bool shared, struct err *e)
{
    bool good = true;
    for (int i = 0; i < N_TOKEN_TREES && good; i++)
        for (int k = 0; k < 4 && good; k++) {
            struct trace_opts o = {.prompt = 200, .max_seq = 600, .topology = k % 2 == 1};
            char *text =
                shared ? xasprintf("deft:%s/%stree_size%d.json", dir, k < 2 ? "" : "APPS_", token_trees[i])
                       : xasprintf("spec:%d,%" PRIu64, token_trees[i], l->seed + (uint64_t)k);
            good = add_steps(l, GPU_TOKENS + i, text, o, TOKEN_STEPS, (i * 4 + k) * TOKEN_STEPS, e);
            free(text);
        }
    return good && add_steps(l, GPU_TOKENS + N_TOKEN_TREES, "embedded:medusa",
                             (struct trace_opts){.prompt = 200}, 1, 77, e);
}

/* ---- the whole ------------------------------------------------------------------------------------------- */

bool gpu_cases_new(uint64_t seed, struct gpu_case **out, int64_t *n, bool *shared, struct err *e)
{
    char *dir = trace_folder(), *probe = xasprintf("%s/%s.json", dir, tasks[0]);
    *shared = access(probe, R_OK) == 0;
    free(probe);
    struct list l = {.seed = seed};
    /* what takes long comes first, side by side */
    bool good = add_tasks(&l, dir, *shared, e) && add_token_trees(&l, dir, *shared, e);
    free(dir);
    add_sharp(&l, false);
    add_design(&l);
    add_edges(&l);
    add_data(&l);
    add_sharp(&l, true);
    *out = l.at;
    *n = l.n;
    if (good)
        return true;
    gpu_cases_free(l.at, l.n);
    *out = NULL;
    *n = 0;
    return false;
}

void gpu_cases_free(struct gpu_case *list, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        case_clear(&list[i].c);
    free(list);
}
