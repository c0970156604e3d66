/*
 * lab2.c - lab 2, count before you run: plans of all strategies that keep scores on the chip, counted by the student and by
 * sim/plan_ledger.h.
 */
#include "verify/lab/lab.h"
#include "verify/lab/trees.h"

#include "ref/rng.h"
#include "sim/draw/bytes_svg.h"
#include "sim/draw/plan_svg.h"
#include "sim/plan_ledger.h"
#include "sim/strategy.h"
#include "tests/labs/include/lab.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    FIELD_KV,
    FIELD_Q,
    FIELD_MASK,
    FIELD_WRITTEN,
    FIELD_READ,
    FIELD_OUTPUT,
    FIELD_ROWS,
    FIELD_TOKENS,
    N_FIELDS,
    HAND_TREES = 3,
    HAND_STRATEGIES = 4,
    PLANS = 200,
    SHOWN = 3 /* groups: plans of so few are shown whole */
};
static const char *const field_name[N_FIELDS] = {
    "kv", "q", "mask", "partials_written", "partials_read", "output", "padded_rows", "padded_tokens"};

enum mistake {
    RIGHT,
#define WRONG(field, name, sentence) name,
#include "verify/lab/lab2_wrong.def"
#undef WRONG
};
static const struct {
    int32_t field;
    enum mistake mistake;
    const char *says;
} wrongs[] = {
#define WRONG(field, name, sentence) {field, name, sentence},
#include "verify/lab/lab2_wrong.def"
#undef WRONG
};
enum { N_WRONGS = sizeof wrongs / sizeof wrongs[0] };

/* A plan, what it costs, and what the student says. */
struct counted {
    char *about;
    struct plan *whole; /* the plan as the program has it */
    struct nform *nf;   /* with its tree, of `whole` */
    struct heads heads;
    struct lab_plan plan; /* its lists are ours */
    int64_t right[N_FIELDS], got[N_FIELDS];
    enum run_end end;
    struct err why;
};

/* ---- plans as the student sees them --------------------------------------------------------------------- */

/* False: it has what lab.h does not tell of. */
static bool take_plan(const struct plan *p, const struct heads *h, struct counted *c)
{
    struct lab_plan_group *g = xcalloc((size_t)p->n_groups, sizeof *g);
    struct lab_plan_merge *m = xcalloc((size_t)p->n_merges, sizeof *m);
    bool good = !p->unfused && p->slot_o == SLOT_O_F32 && p->n_groups <= 4000;
    for (int64_t i = 0; i < p->n_groups && good; i++) {
        const struct group *x = &p->group[i];
        good = x->tile_m > 0 && x->tile_n > 0 && (x->mask == MASK_NONE || x->mask == MASK_RUN_WORDS);
        g[i] = (struct lab_plan_group){.queries = x->nq,
                                       .runs = (int)(x->run1 - x->run0),
                                       .tokens = x->n_kv,
                                       .tile_m = x->tile_m,
                                       .tile_n = x->tile_n,
                                       .masked = x->mask != MASK_NONE,
                                       .partial = x->slot0 != PLAN_NO_SLOT};
    }
    for (int64_t i = 0; i < p->n_merges && good; i++) {
        const struct merge_step *x = &p->merge[i];
        good = x->onchip == PLAN_NO_SLOT;
        m[i] = (struct lab_plan_merge){.inputs = (int)(x->in1 - x->in0), .to_output = x->out == PLAN_NO_SLOT};
    }
    struct ledger l = ledger_of_plan(p, h);
    const int64_t right[N_FIELDS] = {l.kv,
                                     l.q,
                                     l.mask,
                                     l.partial_o_write + l.partial_w_write,
                                     l.partial_o_read + l.partial_w_read,
                                     l.out,
                                     l.pad_rows,
                                     l.pad_tokens};
    memcpy(c->right, right, sizeof right);
    c->plan = (struct lab_plan){.q_heads = h->h_q,
                                .kv_heads = h->h_kv,
                                .head_dim = h->d,
                                .element_bytes = heads_elt_bytes(h),
                                .weight_numbers = p->slot_weight == SLOT_MAX_SUM ? 2 : 1,
                                .n_groups = (int)p->n_groups,
                                .n_merges = (int)p->n_merges,
                                .group = g,
                                .merge = m};
    return good;
}

static void counted_clear(struct counted *c)
{
    plan_free(c->whole);
    nform_free_with_tree(c->nf);
    free((void *)c->plan.group);
    free((void *)c->plan.merge);
    free(c->about);
}

/* The plan of a strategy for a tree; false: there is none, or none for students. */
static bool make_plan(const struct strategy *s, const struct tree *t, struct heads heads,
                      const char *tree_name, struct counted *c)
{
    struct strategy_use use = strategy_default(s);
    struct plan_env env = plan_env_default(heads);
    char why[WHY_MAX];
    *c = (struct counted){.nf = nform_new(tree_copy(t)), .heads = heads};
    c->whole = strategy_plan(&use, c->nf, &env, why);
    bool good = c->whole && take_plan(c->whole, &heads, c);
    c->about = xasprintf("%s of %s", s->name, tree_name);
    if (!good)
        counted_clear(c);
    return good;
}

static const struct strategy *strategy_named(const char *name)
{
    for (int32_t i = 0; i < n_strategies; i++)
        if (strcmp(strategies[i]->name, name) == 0)
            return strategies[i];
    CK_FOUND("a strategy of lab 2");
}

/* Trees A, B, C of the lab's README. */
static void hand_plans(struct counted all[HAND_TREES][HAND_STRATEGIES])
{
    static const char *const name[HAND_STRATEGIES] = {"flash-attention", "hydragen", "deft-node",
                                                      "deft-flatten"},
                             *const tree_name[HAND_TREES] = {"tree A", "tree B", "tree C"};
    static const struct {
        int32_t levels, wide[3];
        int64_t len[3];
    } tree[HAND_TREES] = {{2, {1, 3}, {256, 40}}, {3, {1, 2, 8}, {512, 100, 20}}, {2, {1, 40}, {1000, 30}}};
    for (int t = 0; t < HAND_TREES; t++) {
        int32_t n = 0, first = -1;
        for (int l = 0; l < tree[t].levels; l++)
            n += tree[t].wide[l];
        struct tree *x = tree_new(n, 0);
        n = 0;
        for (int l = 0; l < tree[t].levels; l++) {
            for (int32_t i = 0; i < tree[t].wide[l]; i++, n++) {
                x->parent[n] = l == 0 ? -1 : first + i * tree[t].wide[l - 1] / tree[t].wide[l];
                x->len[n] = tree[t].len[l];
            }
            first = n - tree[t].wide[l];
        }
        tree_query_leaves(x);
        for (int s = 0; s < HAND_STRATEGIES; s++)
            CK(make_plan(strategy_named(name[s]), x, (struct heads){32, 8, 128, DT_F32}, tree_name[t],
                         &all[t][s]));
        tree_free(x);
    }
}

/* n drawn ones, small ones first. */
static struct counted *drawn_plans(uint64_t seed, int32_t n)
{
    static const int32_t ratios[] = {1, 2, 4, 8}, dims[] = {16, 64, 128}, kv_heads[] = {1, 2, 4, 8};
    struct counted *all = xcalloc((size_t)n, sizeof *all);
    int32_t have = 0;
    for (int32_t i = 0; have < n; i++) {
        struct heads h = {.h_kv = kv_heads[rng_below(seed, 1, (uint64_t)i, 4)],
                          .d = dims[rng_below(seed, 2, (uint64_t)i, 3)],
                          .dtype = rng_below(seed, 3, (uint64_t)i, 3) ? DT_F16 : DT_F32};
        h.h_q = h.h_kv * ratios[rng_below(seed, 4, (uint64_t)i, 4)];
        const struct strategy *s = strategies[rng_below(seed, 5, (uint64_t)i, n_strategies)];
        struct tree *t = lab_tree(seed, have, LAB_TREE_INNER | (have % 5 == 4 ? LAB_TREE_LONG : 0));
        char name[40];
        snprintf(name, sizeof name, "a tree of %" PRId32 " nodes", t->n_nodes);
        have += make_plan(s, t, h, name, &all[have]);
        tree_free(t);
    }
    return all;
}

/* ---- counting, rightly and wrongly ------------------------------------------------------------------------ */

static int64_t group_count(const struct lab_plan *p, const struct lab_plan_group *g, int32_t field,
                           enum mistake wrong)
{
    int64_t ratio = p->q_heads / p->kv_heads, rows = g->queries * ratio, m = g->tile_m, n = g->tile_n,
            d = p->head_dim, tiles = ceil_div(rows, m), kv_tiles = ceil_div(g->tokens, n),
            heads = p->kv_heads, bytes = p->element_bytes, words = ceil_div(g->queries, 64),
            partial = d * 4 + 4 * p->weight_numbers, out = d * bytes + 4;
    switch (wrong) {
    case KV_Q_HEADS:
    case MASK_Q_HEADS:
    case TOKENS_Q_HEADS:
        heads = p->q_heads;
        break;
    case KV_ONE_HEAD:
    case Q_ONE_HEAD:
    case MASK_ONCE:
    case ROWS_ONE_HEAD:
    case TOKENS_ONE_HEAD:
        heads = 1;
        break;
    case KV_ELEMENTS:
    case Q_ELEMENTS:
        bytes = 1;
        break;
    case KV_NO_TILES:
    case MASK_NO_TILES:
    case TOKENS_NO_TILES:
        tiles = 1;
        break;
    case KV_PER_QUERY:
        tiles = g->queries;
        break;
    case KV_QUERY_TILES:
        tiles = ceil_div(g->queries, m);
        break;
    case KV_ROUNDED_DOWN:
        tiles = rows / m;
        break;
    case KV_ALL_ROWS:
        tiles = ceil_div(rows * p->kv_heads, m);
        break;
    case Q_NO_HEADS:
        rows = g->queries;
        heads = 1;
        break;
    case Q_KV_HEADS:
    case ROWS_QUERIES:
        rows = g->queries;
        tiles = ceil_div(rows, m);
        break;
    case Q_PADDED:
        rows = tiles * m;
        break;
    case WRITTEN_NO_WEIGHT:
        partial = d * 4;
        break;
    case WRITTEN_ONE_NUMBER:
        partial = d * 4 + 4;
        break;
    case WRITTEN_ELEMENT:
        partial = d * bytes + 4 * p->weight_numbers;
        break;
    case WRITTEN_NUMBERS:
        partial = d + p->weight_numbers;
        break;
    case OUTPUT_NO_LSE:
        out = d * bytes;
        break;
    case OUTPUT_LSE_ELEMENT:
        out = (d + 1) * bytes;
        break;
    case OUTPUT_FLOAT:
        out = (d + 1) * 4;
        break;
    default:
        break;
    }
    switch (field) {
    case FIELD_KV:
        return heads * tiles * (wrong == KV_PADDED ? kv_tiles * n : g->tokens) * (wrong == KV_HALF ? 1 : 2) *
               d * bytes;
    case FIELD_Q:
        return heads * rows * d * bytes * (wrong == Q_KV_TILES ? kv_tiles : 1);
    case FIELD_MASK:
        return (g->masked || wrong == MASK_ALL) * heads * tiles *
               (wrong == MASK_TOKENS ? g->tokens : g->runs) *
               (wrong == MASK_BYTES ? ceil_div(g->queries, 8) : words * (wrong == MASK_WORDS ? 1 : 8));
    case FIELD_WRITTEN:
        return (g->partial || wrong == WRITTEN_ALL) * (wrong == WRITTEN_GROUPS ? 1 : g->queries) *
               (wrong == WRITTEN_KV_HEADS ? p->kv_heads : p->q_heads) * partial;
    case FIELD_OUTPUT:
        return (!g->partial && wrong != OUTPUT_NO_GROUPS) * g->queries *
               (wrong == OUTPUT_KV_HEADS ? p->kv_heads : p->q_heads) * out;
    case FIELD_ROWS:
        return heads * (tiles * m - rows) *
               (wrong == ROWS_KV_TILES    ? kv_tiles
                : wrong == ROWS_ALL_TILES ? tiles
                                          : 1);
    case FIELD_TOKENS:
        return heads * tiles * (kv_tiles * n - g->tokens);
    default:
        return 0;
    }
}

static int64_t merge_count(const struct lab_plan *p, const struct lab_plan_merge *m, int32_t field,
                           enum mistake wrong)
{
    int64_t d = p->head_dim, bytes = p->element_bytes, weights = p->weight_numbers,
            heads = wrong == READ_KV_HEADS || wrong == WRITTEN_KV_HEADS || wrong == OUTPUT_KV_HEADS
                        ? p->kv_heads
                        : p->q_heads,
            partial = wrong == READ_NO_WEIGHT || wrong == WRITTEN_NO_WEIGHT     ? d * 4
                      : wrong == READ_ONE_NUMBER || wrong == WRITTEN_ONE_NUMBER ? d * 4 + 4
                      : wrong == READ_ELEMENT || wrong == WRITTEN_ELEMENT       ? d * bytes + 4 * weights
                      : wrong == READ_NUMBERS || wrong == WRITTEN_NUMBERS       ? d + weights
                                                                                : d * 4 + 4 * weights,
            out = wrong == OUTPUT_NO_LSE        ? d * bytes
                  : wrong == OUTPUT_LSE_ELEMENT ? (d + 1) * bytes
                  : wrong == OUTPUT_FLOAT       ? (d + 1) * 4
                                                : d * bytes + 4;
    switch (field) {
    case FIELD_READ:
        return heads * partial *
               (wrong == READ_MERGES ? 1 : max_i64(m->inputs - (wrong == READ_NO_FIRST), 0));
    case FIELD_WRITTEN:
        return (!m->to_output && wrong != WRITTEN_NO_MERGES) * heads * partial;
    case FIELD_OUTPUT:
        return ((m->to_output && wrong != OUTPUT_NO_MERGES) || wrong == OUTPUT_ALL_MERGES) * heads * out;
    default:
        return 0;
    }
}

static int64_t count(const struct lab_plan *p, int32_t field, enum mistake wrong)
{
    int64_t sum = 0;
    for (int32_t i = 0; i < p->n_groups; i++)
        sum += group_count(p, &p->group[i], field, wrong);
    for (int32_t i = 0; i < p->n_merges; i++)
        sum += merge_count(p, &p->merge[i], field, wrong);
    if (wrong == WRITTEN_TWICE)
        sum += count(p, FIELD_READ, RIGHT);
    return sum;
}

/* ---- asking --------------------------------------------------------------------------------------------- */

/* Field f of a lab_plan_group or _merge is number f of its row. */
static void ask_count(struct lab_session *s, struct counted *c)
{
    const struct lab_plan *p = &c->plan;
    int64_t *groups = xcalloc((size_t)p->n_groups * 7, sizeof *groups),
            *merges = xcalloc((size_t)p->n_merges * 2, sizeof *merges);
    for (int32_t i = 0; i < p->n_groups; i++) {
        const struct lab_plan_group *g = &p->group[i];
        const int64_t row[7] = {g->queries, g->runs, g->tokens, g->tile_m, g->tile_n, g->masked, g->partial};
        memcpy(groups + 7 * i, row, sizeof row);
    }
    for (int32_t i = 0; i < p->n_merges; i++) {
        merges[2 * i] = p->merge[i].inputs;
        merges[2 * i + 1] = p->merge[i].to_output;
    }
    struct tensors given = {0}, answer;
    tensors_add(&given, "groups", EL_I64, groups, true, 2, (int64_t[]){p->n_groups, 7});
    tensors_add(&given, "merges", EL_I64, merges, true, 2, (int64_t[]){p->n_merges, 2});
    char *numbers = xasprintf(
        ",\"q_heads\":%d,\"kv_heads\":%d,\"head_dim\":%d,\"element_bytes\":%d,\"weight_numbers\":%d",
        p->q_heads, p->kv_heads, p->head_dim, p->element_bytes, p->weight_numbers);
    c->end = lab_ask(s, "count", numbers, &given, 8 * N_FIELDS, &answer, &c->why);
    const struct tensor *got = tensors_find(&answer, "bytes");
    if (c->end == RUN_DONE && (!got || tensor_bytes(got) != 8 * N_FIELDS)) {
        c->end = RUN_PROTOCOL;
        err_set(&c->why, "its answer is none of this question");
    }
    if (c->end == RUN_DONE)
        memcpy(c->got, got->data, sizeof c->got);
    tensors_free(&answer);
    tensors_free(&given);
    free(numbers);
}

/* The student's table, into got[FIELD_KV] of each. */
static void ask_answers(struct lab_session *s, struct counted all[HAND_TREES][HAND_STRATEGIES])
{
    struct tensors given = {0}, answer;
    struct err why = {0};
    enum run_end end = lab_ask(s, "answers", "", &given, 8 * HAND_TREES * HAND_STRATEGIES, &answer, &why);
    const struct tensor *got = tensors_find(&answer, "answers");
    bool there = end == RUN_DONE && got && tensor_bytes(got) == 8 * HAND_TREES * HAND_STRATEGIES;
    for (int t = 0; t < HAND_TREES; t++)
        for (int k = 0; k < HAND_STRATEGIES; k++) {
            struct counted *c = &all[t][k];
            c->end = there || end != RUN_DONE ? end : RUN_PROTOCOL;
            c->why = why;
            if (there)
                c->got[FIELD_KV] = ((const int64_t *)got->data)[t * HAND_STRATEGIES + k];
        }
    tensors_free(&answer);
    tensors_free(&given);
}

/* ---- what is told ----------------------------------------------------------------------------------------- */

/* Some plans, and one field of what was said of them. */
struct gate {
    struct counted *const *plan;
    int32_t n, field;
};

static bool is_wrong(const struct gate *g, int32_t i)
{
    return g->plan[i]->end != RUN_DONE || g->plan[i]->got[g->field] != g->plan[i]->right[g->field];
}

/* The sentence, or NULL; the caller frees. A mistake must give every number, the right ones, too. */
static char *cause(const struct gate *g)
{
    char *says = xstrdup("");
    int32_t found = 0, wrong = 0;
    bool any = false; /* zeros alone are no evidence */
    for (int32_t i = 0; i < g->n; i++) {
        wrong += is_wrong(g, i);
        any = any || (is_wrong(g, i) && g->plan[i]->got[g->field] != 0);
    }
    for (int32_t w = 0; w < N_WRONGS && any && found < 3; w++) {
        bool fits = wrongs[w].field == g->field;
        for (int32_t i = 0; i < g->n && fits; i++)
            fits = g->plan[i]->end == RUN_DONE &&
                   count(&g->plan[i]->plan, g->field, wrongs[w].mistake) == g->plan[i]->got[g->field];
        if (fits)
            xappend(&says, "%s%s", found++ ? "; or " : "", wrongs[w].says);
    }
    if (found == 0 || found > 2) {
        free(says);
        return NULL;
    }
    xappend(&says,
            " [gives %" PRId32 " of %" PRId32 " wrong numbers, and %" PRId32 " of %" PRId32 " right ones]",
            wrong, wrong, g->n - wrong, g->n - wrong);
    return says;
}

/* A plan as C, for the structs of lab.h. */
static char *question(const struct lab_plan *p)
{
    char *text = xstrdup("const struct lab_plan_group group[] = {");
    for (int i = 0; i < p->n_groups; i++) {
        const struct lab_plan_group *g = &p->group[i];
        xappend(&text, "%s{%d, %d, %" PRId64 ", %d, %d, %d, %d}", i ? ", " : "", g->queries, g->runs,
                g->tokens, g->tile_m, g->tile_n, g->masked, g->partial);
    }
    xappend(&text, "};\nconst struct lab_plan_merge merge[] = {");
    for (int i = 0; i < p->n_merges; i++)
        xappend(&text, "%s{%d, %d}", i ? ", " : "", p->merge[i].inputs, p->merge[i].to_output);
    xappend(&text, "%s};\nconst struct lab_plan plan = {%d, %d, %d, %d, %d, %d, %d, group, merge};\n",
            p->n_merges ? "" : "{0}", p->q_heads, p->kv_heads, p->head_dim, p->element_bytes,
            p->weight_numbers, p->n_groups, p->n_merges);
    return text;
}

static char *checked(const struct counted *c, int32_t field)
{
    const struct lab_plan *p = &c->plan;
    char *text = xasprintf("%s, %s: %d/%d heads of %d, %d B a number, %d number%s beside O",
                           field_name[field], c->about, p->q_heads, p->kv_heads, p->head_dim,
                           p->element_bytes, p->weight_numbers, p->weight_numbers == 1 ? "" : "s");
    if (p->n_groups > SHOWN || p->n_merges > 2 * SHOWN) {
        xappend(&text, "; %d groups, %d merges", p->n_groups, p->n_merges);
        return text;
    }
    for (int i = 0; i < p->n_groups; i++) {
        const struct lab_plan_group *g = &p->group[i];
        xappend(&text, "; group %d: %d quer%s x %" PRId64 " tokens in %d run%s, tile %dx%d%s%s", i,
                g->queries, g->queries == 1 ? "y" : "ies", g->tokens, g->runs, g->runs == 1 ? "" : "s",
                g->tile_m, g->tile_n, g->masked ? ", masked" : "", g->partial ? ", partial" : "");
    }
    for (int i = 0; i < p->n_merges; i++)
        xappend(&text, "; merge %d: %d inputs%s", i, p->merge[i].inputs,
                p->merge[i].to_output ? " to output" : "");
    return text;
}

/* Factors that say what was forgotten. */
static const int32_t factors[] = {2, 3, 4, 5, 6, 7, 8, 16, 32, 64, 128};
enum { N_FACTORS = sizeof factors / sizeof factors[0], N_RATIOS = 2 * N_FACTORS };

/* Ratio i in words: multiples first, then parts. */
static void ratio_text(int32_t i, char *text, size_t size)
{
    int32_t k = factors[i % N_FACTORS];
    if (k == 2)
        snprintf(text, size, "%s", i < N_FACTORS ? "twice" : "half of");
    else
        snprintf(text, size, i < N_FACTORS ? "%" PRId32 " times" : "1/%" PRId32 " of", k);
}

/* Which of them it is, or -1: none. */
static int32_t ratio_of(int64_t got, int64_t right)
{
    for (int32_t i = 0; i < N_FACTORS && got > 0 && right > 0; i++) {
        if (got % right == 0 && got / right == factors[i])
            return i;
        if (right % got == 0 && right / got == factors[i])
            return N_FACTORS + i;
    }
    return -1;
}

/* ": 5 are half of what they should be, 7 are twice", where there are simple ratios: each may be a mistake of its own. */
static void append_ratios(char **text, const struct gate *g)
{
    int32_t count[N_RATIOS] = {0}, shown = 0;
    for (int32_t i = 0; i < g->n; i++) {
        int32_t ratio = ratio_of(g->plan[i]->got[g->field], g->plan[i]->right[g->field]);
        if (ratio >= 0 && g->plan[i]->end == RUN_DONE)
            count[ratio]++;
    }
    for (; shown < 3; shown++) {
        int32_t best = 0;
        char name[20];
        for (int32_t i = 1; i < N_RATIOS; i++)
            best = count[i] > count[best] ? i : best;
        if (count[best] == 0)
            return;
        ratio_text(best, name, sizeof name);
        xappend(text, "%s %" PRId32 " %s %s what %s should be", shown ? "," : ":", count[best],
                count[best] == 1 ? "is" : "are", name, count[best] == 1 ? "it" : "they");
        count[best] = 0;
    }
}

/* "3 of 200 numbers are wrong: each is 4 times what it should be" */
static char *seen(const struct gate *g)
{
    int32_t n = 0, of = 0;
    double ratio = 0;
    bool same = g->n > HAND_TREES; /* the ratio and the answer would be the right number */
    for (int32_t i = 0; i < g->n; i++) {
        const struct counted *c = g->plan[i];
        of += c->end != LAB_UNASKED;
        if (!is_wrong(g, i) || c->end == LAB_UNASKED)
            continue;
        double x = (double)c->got[g->field] / (double)c->right[g->field];
        same = same && c->right[g->field] != 0 && (n == 0 || x == ratio);
        ratio = x;
        n++;
    }
    char *text = xasprintf("%" PRId32 " of %" PRId32 " numbers are wrong", n, of);
    if (same && n > 1)
        xappend(&text, ratio == 0 ? ": each is 0" : ": each is %.6g times what it should be", ratio);
    else if (g->n > HAND_TREES)
        append_ratios(&text, g);
    return text;
}

/* Of the table, the right numbers are not told: three runs would give all of it. */
static char *hand_got(const struct gate *g)
{
    char *text = xstrdup("");
    for (int32_t i = 0; i < g->n; i++) {
        int64_t got = g->plan[i]->got[g->field], right = g->plan[i]->right[g->field];
        int32_t ratio = ratio_of(got, right);
        char name[20];
        xappend(&text, "%stree %c: %s", i ? "; " : "", 'A' + i,
                got == right  ? "right"
                : got == 0    ? "0"
                : got < right ? "too small"
                              : "too large");
        if (ratio < 0)
            continue;
        ratio_text(ratio, name, sizeof name);
        xappend(&text, ", %s what it should be", name);
    }
    return text;
}

/* Of numbers of a plan; what is below 0 has no length. */
static struct bytes_bar bar_of(const char *name, const int64_t n[N_FIELDS])
{
    struct bytes_bar b = {.name = name};
    b.part[BYTES_KV] = fmax(0, (double)n[FIELD_KV]);
    b.part[BYTES_QO] = fmax(0, (double)n[FIELD_Q]) + fmax(0, (double)n[FIELD_OUTPUT]);
    b.part[BYTES_MASKS] = fmax(0, (double)n[FIELD_MASK]);
    b.part[BYTES_PARTIALS] = fmax(0, (double)n[FIELD_WRITTEN]) + fmax(0, (double)n[FIELD_READ]);
    return b;
}

/* Bytes: all that was said of the plan beside what is right. Padding: the plan's tiles. Of the table nothing: it would show the right
 * numbers. */
static void draw(const struct gate *g, const struct counted *c, struct lab_result *r)
{
    bool padding = g->field == FIELD_ROWS || g->field == FIELD_TOKENS;
    char *says = padding ? xasprintf("The groups of %s, with the padding of their tiles hatched", c->about)
                         : xasprintf("Bytes of %s: yours above, the right ones below", c->about);
    FILE *f = lab_picture(r, says);
    if (padding) {
        plan_print_svg(f, c->whole, &c->heads, NULL);
    } else {
        const struct bytes_bar bar[] = {bar_of("yours", c->got), bar_of("right", c->right)};
        char *what = xasprintf("%s, as you count and as it is. Partial results: written and read.", c->about);
        bytes_print_svg(f, what, bar, 2, price_floor(c->nf, &c->heads));
        free(what);
    }
    fclose(f);
    free(says);
}

static void tell(const struct gate *g, const char *whole, struct lab_result *r)
{
    const struct counted *c = NULL;
    for (int32_t i = 0; i < g->n; i++)
        if (is_wrong(g, i) &&
            (!c || (g->plan[i]->end != LAB_UNASKED && g->plan[i]->plan.n_groups < c->plan.n_groups)))
            c = g->plan[i];
    r->code = "OK";
    if (!c)
        return;
    r->code = c->end == RUN_DONE ? "NUMBERS" : lab_end_name(c->end);
    r->checked = checked(c, g->field);
    bool hand = g->n == HAND_TREES;
    r->got = c->end != RUN_DONE ? xstrdup(c->why.msg)
             : hand             ? hand_got(g)
                    : xasprintf("%" PRId64 ", should be %" PRId64, c->got[g->field], c->right[g->field]);
    r->question = hand ? NULL : question(&c->plan);
    if (c->end != RUN_DONE)
        return;
    if (!hand)
        draw(g, c, r);
    r->seen = seen(g);
    r->why = whole ? xstrdup(whole) : cause(g);
    r->invariant = r->why && hand ? 2 : 0; /* all mistakes that are known of K and V are against that one */
}

static void judge_hand(struct lab_session *s, struct lab_result *r)
{
    struct counted all[HAND_TREES][HAND_STRATEGIES], *plan[HAND_STRATEGIES * HAND_TREES];
    hand_plans(all);
    ask_answers(s, all);
    for (int k = 0; k < HAND_STRATEGIES; k++)
        for (int t = 0; t < HAND_TREES; t++)
            plan[k * HAND_TREES + t] = &all[t][k];
    const struct gate together = {plan, HAND_STRATEGIES * HAND_TREES, FIELD_KV};
    char *whole = cause(&together);
    for (int k = 0; k < HAND_STRATEGIES; k++) {
        const struct gate g = {plan + (ptrdiff_t)k * HAND_TREES, HAND_TREES, FIELD_KV};
        tell(&g, whole, &r[k]);
    }
    free(whole);
    for (int i = 0; i < HAND_STRATEGIES * HAND_TREES; i++)
        counted_clear(plan[i]);
}

void lab2_judge(struct lab_session *s, uint64_t seed, struct lab_result *r)
{
    judge_hand(s, r);
    struct counted *all = drawn_plans(seed, PLANS), *plan[PLANS];
    for (int32_t i = 0; i < PLANS; i++) {
        ask_count(s, &all[i]);
        plan[i] = &all[i];
    }
    for (int32_t f = 0; f < N_FIELDS; f++) {
        const struct gate g = {plan, PLANS, f};
        tell(&g, NULL, &r[HAND_STRATEGIES + f]);
    }
    for (int32_t i = 0; i < PLANS; i++)
        counted_clear(&all[i]);
    free(all);
}
