#include "verify/judge/gpu_matrix.h"
#include "ref/rng.h"
#include "verify/judge/random_cases.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Streams of the generator, one per property. */
enum { DRAW_TREE = 2000, DRAW_DATA, DRAW_PREFIX, DRAW_TURN, DRAW_STEP };

static const enum dtype dtypes[] = {DT_F16, DT_BF16};
static const int32_t heads[][2] = {{32, 32}, {32, 8}, {16, 8}, {64, 8}, {16, 1}, {28, 4}, {71, 1}};
static const int32_t dims[] = {64, 128};
static const int32_t pages[] = {1, 16, 64, 256};
enum { N_TYPE = 2, N_HEADS = 7, N_DIM = 2, N_PAGE = 4, N_COMBOS = N_TYPE * N_HEADS * N_DIM * N_PAGE };

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
    const int32_t *h = heads[head % N_HEADS];
    s.heads = (struct heads){h[0], h[1], dims[dim % N_DIM], dtypes[type % N_TYPE]};
    s.page_size = pages[page % N_PAGE];
    return s;
}

/* Combination i of the four axes, in an order in which neighbours differ in all of them. */
static struct problem_spec turn(struct list *l, int64_t i)
{
    int64_t k = (i + rng_below(l->seed, DRAW_TURN, 0, N_COMBOS)) * 45 %
                N_COMBOS; /* 45 and 112 have no common divisor */
    return spec_of((int)(k % N_TYPE), (int)(k / N_TYPE % N_HEADS), (int)(k / N_TYPE / N_HEADS % N_DIM),
                   (int)(k / N_TYPE / N_HEADS / N_DIM));
}

static double products(const struct tree *t, const struct problem_spec *s)
{
    int64_t *ctx = xcalloc((size_t)t->n_queries, sizeof *ctx);
    double sum = 0;
    tree_contexts(t, ctx);
    for (int32_t q = 0; q < t->n_queries; q++)
        sum += (double)ctx[q];
    free(ctx);
    return sum * s->heads.h_q * s->heads.d;
}

/* ---- the design ------------------------------------------------------------------------------------------ */

/* A tree of the family, the first drawn that is not too much work; the last resort is a small one. */
static struct tree_source family_tree(uint64_t seed, uint64_t i, enum family f, const struct problem_spec *s)
{
    struct tree_source src = {.kind = SRC_GEN, .family = f};
    for (uint64_t k = 0; k < 64; k++) {
        src.seed = rng_u64(seed, DRAW_TREE, i * 64 + k) >> 40;
        struct tree *t = gen_tree(f, src.seed);
        bool fits = t->n_queries > 0 && tree_tokens(t) > 0 && products(t, s) <= WORK_MAX;
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
    for (int t = 0; t < N_TYPE; t++)
        for (int d = 0; d < N_DIM; d++)
            for (int p = 0; p < N_PAGE; p++)
                for (int h = 0; h < N_HEADS; h++) {
                    int64_t other = (t * N_DIM + d) * N_PAGE + p, i = other * N_HEADS + h;
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
        for (int p = 0; p < N_PAGE; p++)
            add_levels(
                l, GPU_EDGES,
                xasprintf("1,3,6_%d,%d,%d", edge[e], edge[(e + 5 + p) % N_EDGES], edge[(e + 11) % N_EDGES]),
                spec_of(e + p, e * N_PAGE + p, e / 2 + p, p));
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
        s.heads.dtype = dtypes[i % N_TYPE];
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

static bool readable(const char *path)
{
    FILE *f = fopen(path, "r");
    if (f)
        fclose(f);
    return f != NULL;
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
    *shared = readable(probe);
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

/* ---- what was run ---------------------------------------------------------------------------------------- */

static const char *const axis_name[] = {"dtype", "heads", "d", "page", "tree", "fill", "strategy"};

static int32_t value_of(struct pairs_met *v, enum gpu_axis axis, const char *name)
{
    for (int32_t i = 0; i < v->n; i++)
        if (v->value[i].axis == axis && strcmp(v->value[i].name, name) == 0)
            return i;
    CK(v->n < MAX_AXIS_VALUES);
    struct axis_value *x = &v->value[v->n];
    *x = (struct axis_value){.axis = axis};
    snprintf(x->name, sizeof x->name, "%s", name);
    return v->n++;
}

static void require(struct pairs_met *v, enum gpu_axis axis, const char *name)
{
    v->value[value_of(v, axis, name)].required = true;
}

static const char *number(char *text, size_t size, int32_t a, int32_t b)
{
    if (b)
        snprintf(text, size, "%" PRId32 "/%" PRId32, a, b);
    else
        snprintf(text, size, "%" PRId32, a);
    return text;
}

void pairs_met_init(struct pairs_met *v, const struct strategy_use *use, int32_t n_use)
{
    char text[32];
    for (int i = 0; i < N_TYPE; i++)
        require(v, AXIS_DTYPE, dtype_name[dtypes[i]]);
    for (int i = 0; i < N_HEADS; i++)
        require(v, AXIS_HEADS, number(text, sizeof text, heads[i][0], heads[i][1]));
    for (int i = 0; i < N_DIM; i++)
        require(v, AXIS_D, number(text, sizeof text, dims[i], 0));
    for (int i = 0; i < N_PAGE; i++)
        require(v, AXIS_PAGE, number(text, sizeof text, pages[i], 0));
    for (int i = 0; i <= GPU_PREFIX; i++)
        require(v, AXIS_TREE, gpu_kind_name(i));
    for (int32_t i = 0; i < n_use; i++)
        require(v, AXIS_STRATEGY, use[i].s->name);
}

/* The same sentence with other numbers is the same reason. */
static void count_skip(struct pairs_met *v, const struct result *r)
{
    char text[160], why[RESULT_SENTENCE];
    size_t n = (size_t)snprintf(text, sizeof text, "%s: ", r->strategy);
    for (const char *c = result_sentence(r, why); *c && n + 1 < sizeof text; c++)
        if (!isdigit((unsigned char)*c))
            text[n++] = *c;
        else if (text[n - 1] != '#')
            text[n++] = '#';
    text[n] = 0;
    for (int32_t i = 0; i < v->n_skips; i++)
        if (strcmp(v->skip[i].text, text) == 0) {
            v->skip[i].n++;
            return;
        }
    if (v->n_skips == MAX_SKIPS)
        return;
    struct skip_reason *x = &v->skip[v->n_skips++];
    memcpy(x->text, text, sizeof text);
    x->n = 1;
}

void pairs_met_add(struct pairs_met *v, const struct gpu_case *x, const struct result *r)
{
    const struct problem_spec *s = &x->c.spec;
    char text[32];
    int32_t at[N_GPU_AXES];
    at[AXIS_DTYPE] = value_of(v, AXIS_DTYPE, dtype_name[s->heads.dtype]);
    at[AXIS_HEADS] = value_of(v, AXIS_HEADS, number(text, sizeof text, s->heads.h_q, s->heads.h_kv));
    at[AXIS_D] = value_of(v, AXIS_D, number(text, sizeof text, s->heads.d, 0));
    at[AXIS_PAGE] = value_of(v, AXIS_PAGE, number(text, sizeof text, s->page_size, 0));
    at[AXIS_TREE] = value_of(v, AXIS_TREE, gpu_kind_name(x->kind));
    at[AXIS_FILL] = value_of(v, AXIS_FILL, fill_name[s->fill]);
    at[AXIS_STRATEGY] = value_of(v, AXIS_STRATEGY, r->strategy);
    for (int a = 0; a < N_GPU_AXES; a++) {
        struct axis_value *y = &v->value[at[a]];
        y->n[r->verdict]++;
        y->worst_o = fmax(y->worst_o, r->cmp.worst_o);
        y->worst_lse = fmax(y->worst_lse, r->cmp.worst_lse);
        for (int b = 0; b < N_GPU_AXES && r->verdict != V_SKIP; b++)
            if (at[a] < at[b])
                v->pair[at[a]][at[b]]++;
    }
    if (r->verdict == V_SKIP)
        count_skip(v, r);
}

int64_t pairs_met_pairs(const struct pairs_met *v, int64_t *met, FILE *f)
{
    int64_t n = 0;
    *met = 0;
    for (int32_t i = 0; i < v->n; i++)
        for (int32_t j = i + 1; j < v->n; j++) {
            const struct axis_value *a = &v->value[i], *b = &v->value[j];
            if (!a->required || !b->required || a->axis == b->axis)
                continue;
            if (v->pair[i][j] == 0 && a->axis == AXIS_TREE && b->axis == AXIS_STRATEGY)
                continue; /* said under skips */
            n++;
            *met += v->pair[i][j] > 0;
            if (v->pair[i][j] == 0 && f)
                fprintf(f, "not run: %s %s with %s %s\n", axis_name[a->axis], a->name, axis_name[b->axis],
                        b->name);
        }
    return n;
}

void pairs_met_print(FILE *f, const struct pairs_met *v, bool whole)
{
    fprintf(f, "%-9s %-20s %8s %8s %9s %7s %7s %9s %9s\n", "axis", "value", "cases", "pass", "marginal",
            "fail", "skip", "worst O", "worst LSE");
    for (int axis = 0; axis < N_GPU_AXES; axis++)
        for (int32_t i = 0; i < v->n; i++) {
            const struct axis_value *x = &v->value[i];
            if ((int)x->axis != axis)
                continue;
            int64_t all = x->n[V_PASS] + x->n[V_MARGINAL] + x->n[V_FAIL] + x->n[V_SKIP];
            fprintf(f,
                    "%-9s %-20s %8" PRId64 " %8" PRId64 " %9" PRId64 " %7" PRId64 " %7" PRId64
                    " %9.3g %9.3g\n",
                    axis_name[axis], x->name, all, x->n[V_PASS], x->n[V_MARGINAL], x->n[V_FAIL], x->n[V_SKIP],
                    x->worst_o, x->worst_lse);
        }
    for (int32_t i = 0; i < v->n_skips; i++)
        fprintf(f, "skip %7" PRId64 "  %s\n", v->skip[i].n, v->skip[i].text);
    int64_t met, pairs = pairs_met_pairs(v, &met, whole ? f : NULL);
    fprintf(f, "pairs of axis values: %" PRId64 " of %" PRId64 " run\n", met, pairs);
}
