/*
 * lab4.c - lab 4, pack: an assignment of edges, against the least cost of all assignments.
 *
 * The least cost is found as sim/strategies/optimal.h does it: f(v, a) is that of everything below v when v's group begins at its
 * ancestor a; at v, a knapsack over the children by the queries that they take out. A mistake is a cost that is wrong: the student's
 * assignment is an optimum of it, on all trees.
 */
#include "verify/lab/lab.h"
#include "verify/lab/lab4_draw.h"
#include "verify/lab/trees.h"

#include "ref/nform.h"
#include "ref/rng.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TREES = 120, STARS = 30, SHOWN = 8 };

enum cost {
#define WRONG(name, sentence) name,
#include "verify/lab/lab4_wrong.def"
#undef WRONG
    RIGHT /* also the number of mistakes */
};
static const char *const says[RIGHT] = {
#define WRONG(name, sentence) sentence,
#include "verify/lab/lab4_wrong.def"
#undef WRONG
};

struct asked {
    bool star;              /* a root and its leaves */
    struct lab_shape shape; /* whose arrays are ours */
    struct lab_price price;
    unsigned char *join;
    enum run_end end;
    struct err why;
    bool valid;
    double cost, least, gap; /* gap: how much more than the least, as a share */
};

/* ---- costs ---------------------------------------------------------------------------------------------- */

static double group_cost(const struct asked *a, enum cost how, int64_t queries, int64_t tokens)
{
    struct lab_price p = a->price;
    if (how == FREE_PARTIALS)
        p.partial = 0;
    if (how == READ_ONCE)
        p.pack = 1 << 30;
    if (how == READ_BY_EACH)
        p.pack = 1;
    return lab_price_of(&p, queries, tokens);
}

static double cost_of(const struct asked *a, enum cost how, const unsigned char *join)
{
    const struct lab_shape *s = &a->shape;
    int64_t *stay = xcalloc((size_t)s->n_nodes, sizeof *stay),
            *tokens = xcalloc((size_t)s->n_nodes, sizeof *tokens);
    double sum = 0;
    for (int i = 0; i < s->n_nodes; i++) {
        stay[i] = s->queries[i];
        tokens[i] = s->len[i] + (join[i] && how != OWN_TOKENS ? tokens[s->parent[i]] : 0);
        if (join[i] && how != QUERIES_STAY)
            stay[s->parent[i]] -= s->queries[i];
    }
    for (int i = 0; i < s->n_nodes; i++)
        sum += group_cost(a, how, stay[i], tokens[i]);
    free(stay);
    free(tokens);
    return sum;
}

/* Adds a child to a knapsack: apart, or joined, which takes `takes` queries out. n: most that can be out so far; the new most. */
static int knap_add(double *knap, int n, int takes, double apart, double joined)
{
    for (int t = n + 1; t <= n + takes; t++)
        knap[t] = INFINITY;
    for (int t = n + takes; t >= 0; t--) {
        double without = t <= n ? knap[t] + apart : INFINITY,
               with = t >= takes ? knap[t - takes] + joined : INFINITY;
        knap[t] = fmin(without, with);
    }
    return n + takes;
}

static int depth_of(const struct lab_shape *s, int v)
{
    int d = 0;
    while ((v = s->parent[v]) >= 0)
        d++;
    return d;
}

/* What an edge may be. */
enum { EITHER, APART, JOINED };

/* Children before parents; f[v * n + depth of a]. edge[n_nodes]: NULL, all may be either. */
static double least_with(const struct asked *a, enum cost how, const unsigned char *edge)
{
    const struct lab_shape *s = &a->shape;
    int n = s->n_nodes, most = 1;
    for (int i = 0; i < n; i++)
        most += s->queries[i];
    double *f = xcalloc((size_t)n * (size_t)n, sizeof *f), *knap = xcalloc((size_t)most, sizeof *knap),
           sum = 0;
    for (int v = n - 1; v >= 0; v--) {
        int64_t tokens = 0;
        int depth = depth_of(s, v);
        for (int at = v, d = depth; at >= 0; at = s->parent[at], d--) {
            int in = 0;
            tokens += how == OWN_TOKENS && at != v ? 0 : s->len[at];
            knap[0] = 0;
            for (int c = v + 1; c < n; c++)
                if (s->parent[c] == v)
                    in = knap_add(knap, in, how == QUERIES_STAY ? 0 : s->queries[c],
                                  edge && edge[c] == JOINED ? INFINITY : f[c * n + depth + 1],
                                  edge && edge[c] == APART ? INFINITY : f[c * n + d]);
            double best = INFINITY;
            for (int t = 0; t <= in; t++)
                best = fmin(best, knap[t] + group_cost(a, how, s->queries[v] - t, tokens));
            f[v * n + d] = best;
        }
        sum += s->parent[v] < 0 ? f[v * n] : 0;
    }
    free(f);
    free(knap);
    return sum;
}

static double least_cost(const struct asked *a, enum cost how)
{
    return least_with(a, how, NULL);
}

/* One of the cheapest, which is like the student's as long as that is possible; the caller frees. */
static unsigned char *cheapest(const struct asked *a)
{
    size_t n = (size_t)a->shape.n_nodes;
    unsigned char *join = xcalloc(n, 1), *edge = xcalloc(n, 1);
    for (size_t i = 0; i < n; i++) {
        join[i] = a->join[i];
        edge[i] = join[i] ? JOINED : APART;
        if (a->shape.parent[i] >= 0 && !(least_with(a, RIGHT, edge) <= a->least * (1 + 1e-9))) {
            join[i] = !join[i];
            edge[i] = join[i] ? JOINED : APART;
        }
    }
    free(edge);
    return join;
}

/* ---- asking --------------------------------------------------------------------------------------------- */

static void ask(struct lab_session *s, struct asked *a)
{
    struct tensors given = {0}, answer;
    int64_t n = a->shape.n_nodes;
    tensors_add(&given, "parent", EL_I32, (void *)a->shape.parent, false, 1, &n);
    tensors_add(&given, "len", EL_I64, (void *)a->shape.len, false, 1, &n);
    tensors_add(&given, "queries", EL_I32, (void *)a->shape.queries, false, 1, &n);
    char *numbers = xasprintf(",\"pack\":%d,\"partial\":%g", a->price.pack, a->price.partial);
    a->join = xcalloc((size_t)n, 1);
    a->end = lab_ask(s, "pack", numbers, &given, n, &answer, &a->why);
    const struct tensor *join = tensors_find(&answer, "join");
    if (a->end == RUN_DONE && (!join || tensor_bytes(join) != n)) {
        a->end = RUN_PROTOCOL;
        err_set(&a->why, "its answer is none of this question");
    }
    if (a->end == RUN_DONE)
        memcpy(a->join, join->data, (size_t)n);
    a->valid = a->end == RUN_DONE;
    for (int i = 0; i < n && a->valid; i++)
        a->valid = a->join[i] <= 1 && !(a->shape.parent[i] < 0 && a->join[i]);
    a->least = least_cost(a, RIGHT);
    if (a->valid)
        a->cost = cost_of(a, RIGHT, a->join);
    a->gap = a->valid ? a->cost / a->least - 1 : INFINITY;
    CK(a->gap > -1e-9);
    tensors_free(&answer);
    tensors_free(&given);
    free(numbers);
}

/* Nodes in normal form, so that every query sees all of each node above it. */
static void take_tree(struct asked *a, struct tree *t)
{
    struct nform *nf = nform_new(t);
    int *parent = xcalloc((size_t)nf->n_nodes, sizeof *parent),
        *queries = xcalloc((size_t)nf->n_nodes, sizeof *queries);
    int64_t *len = xcalloc((size_t)nf->n_nodes, sizeof *len);
    for (int32_t i = 0; i < nf->n_nodes; i++) {
        parent[i] = nf->parent[i];
        len[i] = nf->len[i];
        queries[i] = nf->q1[i] - nf->q0[i];
    }
    a->shape = (struct lab_shape){nf->n_nodes, parent, len, queries};
    nform_free(nf);
    tree_free(t);
}

static struct tree *star(uint64_t seed, int32_t i)
{
    int32_t n = 2 + (int32_t)rng_below(seed, 11, (uint64_t)i, 3 + i);
    struct tree *t = tree_new(n, 0);
    for (int32_t k = 0; k < n; k++) {
        t->parent[k] = k == 0 ? -1 : 0;
        t->len[k] = 1 + rng_below(seed, 12 + (uint64_t)i, (uint64_t)k, k == 0 ? 60 : 30);
    }
    tree_query_leaves(t);
    return t;
}

static void draw(struct asked *a, uint64_t seed, int32_t i)
{
    static const int packs[] = {1, 2, 4, 16};
    static const double partials[] = {4, 16, 40, 100};
    *a = (struct asked){
        .star = i < STARS,
        .price = {packs[rng_below(seed, 1, (uint64_t)i, 4)], partials[rng_below(seed, 2, (uint64_t)i, 4)]}};
    take_tree(a, a->star ? star(seed, i)
                         : lab_tree(seed, i - STARS + 3, i % 3 ? LAB_TREE_INNER : LAB_TREE_FOREST));
}

/* ---- causes --------------------------------------------------------------------------------------------- */

/* Does the mistake give the assignment? *same: the right one has that cost, too. */
static bool explains(const struct asked *a, enum cost how, bool *same)
{
    const struct lab_shape *s = &a->shape;
    bool fits = true;
    *same = a->gap < 1e-9;
    if (how == ALL_APART || how == ALL_JOINED) {
        for (int i = 0; i < s->n_nodes && fits; i++)
            fits = a->join[i] == (how == ALL_JOINED && s->parent[i] >= 0);
        return fits;
    }
    if (how == INVERTED || how == FIRST_LEVEL) {
        unsigned char *other = xcalloc((size_t)s->n_nodes, 1);
        double cost = cost_of(a, RIGHT, a->join);
        for (int i = 0; i < s->n_nodes; i++)
            other[i] = how == INVERTED ? s->parent[i] >= 0 && !a->join[i] : a->join[i];
        for (int i = 0; i < s->n_nodes && how == FIRST_LEVEL; i++)
            if (s->parent[i] >= 0 && s->parent[s->parent[i]] >= 0)
                fits = fits && !a->join[i];
            else if (s->parent[i] >= 0) {
                other[i] = !other[i];
                fits = fits && cost_of(a, RIGHT, other) >= cost - 1e-9;
                other[i] = !other[i];
            }
        if (how == INVERTED)
            fits = cost_of(a, RIGHT, other) <= a->least * (1 + 1e-9);
        free(other);
        return fits;
    }
    return cost_of(a, how, a->join) <= least_cost(a, how) * (1 + 1e-9) + 1e-9;
}

/* The sentence, or NULL; the caller frees. A mistake must give the assignments of all trees. */
static char *cause(const struct asked *all, int32_t n)
{
    for (int how = 0; how < RIGHT; how++) {
        bool fits = true;
        int32_t wrong = 0;
        for (int32_t i = 0; i < n && fits; i++) {
            bool same = true;
            fits = all[i].valid && explains(&all[i], (enum cost)how, &same);
            wrong += !same;
        }
        if (fits && wrong > 0)
            return xasprintf("%s [true of all %" PRId32 " trees; %" PRId32 " have a better one]", says[how],
                             n, wrong);
    }
    return NULL;
}

/* ---- what is told --------------------------------------------------------------------------------------- */

static char *checked(const struct asked *a)
{
    const struct lab_shape *s = &a->shape;
    char *text =
        xasprintf("a tree of %d nodes; pack = %d, partial = %g", s->n_nodes, a->price.pack, a->price.partial);
    if (s->n_nodes > SHOWN)
        return text;
    static const char *const names[] = {"; parent = {", "}, len = {", "}, queries = {", "}; join = {"};
    for (int k = 0; k < 4; k++) {
        xappend(&text, "%s", names[k]);
        for (int i = 0; i < s->n_nodes; i++)
            xappend(&text, "%s%" PRId64, i ? ", " : "",
                    k == 0   ? s->parent[i]
                    : k == 1 ? s->len[i]
                    : k == 2 ? s->queries[i]
                             : a->join[i]);
    }
    xappend(&text, "}");
    return text;
}

/* The tree and the price as C, for the structs of lab.h. */
static char *question(const struct asked *a)
{
    static const char *const names[] = {"const int parent[] = {", "};\nconst int64_t len[] = {",
                                        "};\nconst int queries[] = {"};
    const struct lab_shape *s = &a->shape;
    char *text = xstrdup("");
    for (int k = 0; k < 3; k++) {
        xappend(&text, "%s", names[k]);
        for (int i = 0; i < s->n_nodes; i++)
            xappend(&text, "%s%" PRId64, i ? ", " : "",
                    k == 0   ? s->parent[i]
                    : k == 1 ? s->len[i]
                             : s->queries[i]);
    }
    xappend(&text,
            "};\nconst struct lab_shape shape = {%d, parent, len, queries};\n"
            "const struct lab_price price = {%d, %.17g};\n",
            s->n_nodes, a->price.pack, a->price.partial);
    return text;
}

/* The cost, and the edge that would save most if it were changed alone. */
static char *got(const struct asked *a)
{
    if (a->end != RUN_DONE)
        return xstrdup(a->why.msg);
    if (!a->valid)
        return xstrdup("join has something else than 0 and 1, or a root is joined");
    char *text = xasprintf("costs %.6g, the least is %.6g: %.3g %% more", a->cost, a->least, 100 * a->gap);
    double best = a->cost;
    int edge = -1;
    for (int i = 0; i < a->shape.n_nodes; i++) {
        if (a->shape.parent[i] < 0)
            continue;
        a->join[i] = !a->join[i];
        double cost = cost_of(a, RIGHT, a->join);
        a->join[i] = !a->join[i];
        if (cost < best) {
            best = cost;
            edge = i;
        }
    }
    if (edge >= 0)
        xappend(&text, "; join[%d] = %d alone would make it %.6g", edge, !a->join[edge], best);
    else
        xappend(&text, "; no single change helps");
    return text;
}

static void draw_both(const struct asked *a, struct lab_result *r)
{
    unsigned char *join = cheapest(a);
    FILE *f = lab_picture(
        r, "Your assignment at the left, a cheapest one at the right, with edges that differ in red");
    lab4_draw(f, &a->shape, (const unsigned char *const[]){a->join, join},
              (const double[]){a->cost, cost_of(a, RIGHT, join)});
    fclose(f);
    free(join);
}

/* Gate 1, or that the mean gap of some trees is at most a share. */
static void tell(const struct asked *all, int32_t n, double most, const char *whole, struct lab_result *r)
{
    const struct asked *worst = NULL, *invalid = NULL;
    double sum = 0;
    for (int32_t i = 0; i < n; i++) {
        const struct asked *a = &all[i];
        bool smaller = worst && a->shape.n_nodes < worst->shape.n_nodes;
        if (a->gap > 1e-9 && (!worst || smaller))
            worst = a;
        if (!a->valid && !invalid)
            invalid = a;
        sum += a->gap;
    }
    worst = invalid ? invalid : worst;
    bool good = !invalid && (most < 0 || sum / n <= most);
    r->code = good                       ? "OK"
              : !invalid                 ? "PRICE"
              : invalid->end == RUN_DONE ? "PLAN"
                                         : lab_end_name(invalid->end);
    if (good)
        return;
    r->checked = checked(worst);
    r->question = question(worst);
    r->got = got(worst);
    if (invalid)
        return;
    draw_both(worst, r);
    r->seen = xasprintf("%.3g %% above the optimum, the mean of %" PRId32 " trees (at most %.3g %%)",
                        100 * sum / n, n, most < 1e-6 ? 0 : 100 * most);
    r->why = whole ? xstrdup(whole) : NULL;
}

void lab4_judge(struct lab_session *s, uint64_t seed, struct lab_result *r)
{
    struct asked all[STARS + TREES];
    int32_t n = STARS + TREES;
    for (int32_t i = 0; i < n; i++) {
        draw(&all[i], seed, i);
        lab_part(s, i < STARS ? 2 : 3);
        ask(s, &all[i]);
    }
    char *whole = cause(all, n);
    tell(all, n, -1, NULL, &r[0]);
    tell(all, STARS, 1e-9, whole, &r[1]);
    tell(all + STARS, TREES, 0.20, whole, &r[2]);
    tell(all + STARS, TREES, 0.05, whole, &r[3]);
    tell(all + STARS, TREES, 0.01, whole, &r[4]);
    free(whole);
    for (int32_t i = 0; i < n; i++) {
        free((void *)all[i].shape.parent);
        free((void *)all[i].shape.len);
        free((void *)all[i].shape.queries);
        free(all[i].join);
    }
}
