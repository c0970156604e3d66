/*
 * lab3_cause.c - why a partition is wrong. A cause is looked for among pairs of a query and a token: a mistake says which pairs of a
 * tree are then wrong, and must say so exactly, of all trees.
 */
#include "verify/lab/lab3.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_PAIRS = 300000 /* of larger trees no cause is looked for */ };

enum kind { HOLE, DOUBLE, LEAK, MASK, N_KINDS };
enum mistake {
#define WRONG(kind, name, invariant, sentence) name,
#include "verify/lab/lab3_wrong.def"
#undef WRONG
    N_MISTAKES
};
static const struct {
    enum kind kind;
    int32_t invariant;
    const char *says;
} wrongs[N_MISTAKES] = {
#define WRONG(kind, name, invariant, sentence) {kind, invariant, sentence},
#include "verify/lab/lab3_wrong.def"
#undef WRONG
};

/* ---- pairs ---------------------------------------------------------------------------------------------- */

/* A tree, and how often each pair of a query and a token is in a group. */
struct pairs {
    const struct lab3_asked *a;
    int64_t *first, n; /* [n_nodes] number of a node's first token; all tokens */
    uint8_t *times;    /* [n_queries][n] */
    uint8_t *ends, *begins,
        *last; /* [n + 1] does a run end before this token, begin with it, or end with it after others? */
    int32_t *children; /* [n_nodes] */
};

static bool sees(const struct tree *t, int32_t q, int32_t node, int64_t token)
{
    int32_t at = t->query[q].node;
    if (at == node)
        return token < t->query[q].upto;
    while (at > node)
        at = t->parent[at];
    return at == node;
}

/* How masks are read: as they were given, or as a mistake would have given them. */
static bool is_hidden(const struct lab3_asked *a, int64_t group, int64_t k, int64_t r, enum mistake how)
{
    const struct said *g = &a->p.group[group];
    bool any = false;
    if (how == N_MISTAKES)
        return g->hidden[k * g->nr + r];
    if (how == MASK_NONE_GIVEN) { /* who is in the group sees some of it */
        bool some = false;
        for (int64_t i = 0; i < g->nr && !some; i++)
            some = sees(a->t, (int32_t)g->query[k], (int32_t)g->run[3 * i], g->run[3 * i + 2] - 1);
        return some && !sees(a->t, (int32_t)g->query[k], (int32_t)g->run[3 * r], g->run[3 * r + 2] - 1);
    }
    if (how == MASK_INVERTED)
        return memchr(g->hidden, 1, (size_t)(g->nq * g->nr)) && !g->hidden[k * g->nr + r];
    for (int64_t i = 0; i < a->p.n_hidden && !any; i++) {
        const int64_t *x = a->p.hide + 3 * i;
        any = x[0] == group &&
              (how == MASK_SWAPPED ? x[1] == r && x[2] == k : x[1] == g->query[k] && x[2] == r);
    }
    return any;
}

static void count_pairs(struct pairs *p, enum mistake how)
{
    const struct lab3_asked *a = p->a;
    memset(p->times, 0, (size_t)(p->n * a->t->n_queries));
    for (int64_t i = 0; i < a->p.n_groups; i++)
        for (int64_t k = 0; k < a->p.group[i].nq; k++)
            for (int64_t r = 0; r < a->p.group[i].nr; r++) {
                const int64_t *x = a->p.group[i].run + 3 * r;
                uint8_t *row = p->times + a->p.group[i].query[k] * p->n + p->first[x[0]];
                if (is_hidden(a, i, k, r, how))
                    continue;
                for (int64_t token = x[1]; token < x[2]; token++)
                    row[token] = (uint8_t)min_i64(row[token] + 1, 200);
            }
}

static void pairs_clear(struct pairs *p)
{
    free(p->first);
    free(p->times);
    free(p->ends);
    free(p->begins);
    free(p->last);
    free(p->children);
}

static struct pairs pairs_of(const struct lab3_asked *a)
{
    const struct tree *t = a->t;
    struct pairs p = {.a = a,
                      .first = xcalloc((size_t)t->n_nodes, sizeof *p.first),
                      .children = xcalloc((size_t)t->n_nodes, sizeof *p.children)};
    for (int32_t i = 0; i < t->n_nodes; i++) {
        p.first[i] = p.n;
        p.n += t->len[i] + 1; /* one more, so that the end of a node is no other's begin */
        if (t->parent[i] >= 0)
            p.children[t->parent[i]]++;
    }
    p.times = xcalloc((size_t)p.n + 1, (size_t)t->n_queries + 1);
    p.ends = xcalloc((size_t)p.n + 1, 1);
    p.begins = xcalloc((size_t)p.n + 1, 1);
    p.last = xcalloc((size_t)p.n + 1, 1);
    for (int64_t i = 0; i < a->p.n_groups; i++)
        for (int64_t r = 0; r < a->p.group[i].nr; r++) {
            const int64_t *x = a->p.group[i].run + 3 * r;
            p.ends[p.first[x[0]] + x[2]] = 1;
            p.begins[p.first[x[0]] + x[1]] = 1;
            p.last[p.first[x[0]] + x[2] - 1] |= x[2] - x[1] > 1;
        }
    return p;
}

/* Does node b lie below node a? */
static bool is_below(const struct tree *t, int32_t b, int32_t a)
{
    while (b > a)
        b = t->parent[b];
    return b == a;
}

static bool first_on_node(const struct tree *t, int32_t q)
{
    for (int32_t i = 0; i < q; i++)
        if (t->query[i].node == t->query[q].node)
            return false;
    return true;
}

static bool first_children(const struct tree *t, int32_t node)
{
    for (; t->parent[node] >= 0; node = t->parent[node])
        for (int32_t i = t->parent[node] + 1; i < node; i++)
            if (t->parent[i] == t->parent[node])
                return false;
    return true;
}

/* Does the node or a query on it end there? */
static bool is_cut(const struct tree *t, int32_t node, int64_t token)
{
    bool cut = token == t->len[node];
    for (int32_t q = 0; q < t->n_queries && !cut; q++)
        cut = t->query[q].node == node && t->query[q].upto == token;
    return cut;
}

/* With that mistake, is this pair wrong, in the way of its kind? Of HOLE and DOUBLE, pairs that the query sees. */
static bool predicts(const struct pairs *p, enum mistake m, int32_t q, int32_t node, int64_t token)
{
    const struct tree *t = p->a->t;
    int32_t at = t->query[q].node, root = at;
    int64_t len = t->len[node], place = p->first[node] + token, most = p->a->p.most_tokens;
    bool own = at == node, middle = t->query[q].upto < t->len[at];
    switch (m) {
    case HOLE_INNER:
    case DOUBLE_INNER:
        return p->children[at] > 0;
    case HOLE_MIDDLE:
        return middle;
    case HOLE_MIDDLE_OWN:
    case DOUBLE_MIDDLE_OWN:
        return middle && own;
    case HOLE_OTHER_ROOTS:
        while (t->parent[root] >= 0)
            root = t->parent[root];
        return root != 0;
    case HOLE_OWN:
    case DOUBLE_OWN:
        return own;
    case HOLE_ANCESTORS:
        return !own;
    case HOLE_ROOT:
    case DOUBLE_ROOT:
        return t->parent[node] < 0;
    case HOLE_FAR:
        return !own && t->parent[at] != node;
    case HOLE_BEHIND_END: /* a piece of one token then has none */
        return p->ends[place] ||
               (is_cut(t, node, token + 1) && (token == 0 || is_cut(t, node, token) || p->ends[place - 1]));
    case HOLE_LAST_TILE:
        return token >= len / TILE_N * TILE_N;
    case HOLE_LAST_MOST:
        return token >= len / most * most;
    case HOLE_BEHIND_MOST:
        return token >= most;
    case HOLE_OTHERS:
        return !first_on_node(t, q);
    case HOLE_NOT_FIRST_CHILD:
        return !first_children(t, at);
    case DOUBLE_OVERLAP:
        return p->begins[place] && p->last[place];
    case HOLE_ALL:
    case DOUBLE_ALL:
        return true;
    case LEAK_UPTO:
        return own;
    case LEAK_BELOW:
        return !own && is_below(t, node, at);
    case LEAK_BELOW_UPTO:
        return is_below(t, node, at);
    default:
        return false;
    }
}

/* ---- causes --------------------------------------------------------------------------------------------- */

/* Mistakes that say exactly which pairs are wrong, so far. */
struct suspects {
    bool alive[N_MISTAKES];
    bool occurs[N_KINDS];       /* are there wrong pairs of that kind? */
    bool predicted[N_MISTAKES]; /* does the mistake say of any pair that it is wrong? */
};

static enum kind kind_of(bool seen, int times)
{
    return seen && times == 0 ? HOLE : seen && times > 1 ? DOUBLE : !seen && times > 0 ? LEAK : N_KINDS;
}

/* Would the groups be right with other masks? */
static bool repairs(struct pairs *p, enum mistake how)
{
    const struct tree *t = p->a->t;
    bool good = true;
    count_pairs(p, how);
    for (int32_t q = 0; q < t->n_queries; q++)
        for (int32_t i = 0; i < t->n_nodes; i++)
            for (int64_t token = 0; token < t->len[i] && good; token++)
                good = kind_of(sees(t, q, i, token), p->times[q * p->n + p->first[i] + token]) == N_KINDS;
    return good;
}

/* Mistakes of masks are tried where there are masks, or should be. */
static void question_masks(struct suspects *s, const struct lab3_asked *a, struct pairs *p)
{
    bool wrong = strcmp(a->p.code, "OK") != 0;
    s->alive[MASK_NONE_GIVEN] = s->alive[MASK_NONE_GIVEN] && a->p.n_hidden == 0;
    for (int m = 0; m < N_MISTAKES; m++)
        if (wrongs[m].kind == MASK && s->alive[m] && (wrong || a->p.n_hidden > 0))
            s->alive[m] = repairs(p, (enum mistake)m);
}

static void question_pairs(struct suspects *s, const struct lab3_asked *a, struct pairs *p)
{
    const struct tree *t = a->t;
    count_pairs(p, N_MISTAKES);
    for (int32_t q = 0; q < t->n_queries; q++)
        for (int32_t i = 0; i < t->n_nodes; i++)
            for (int64_t token = 0; token < t->len[i]; token++) {
                bool seen = sees(t, q, i, token);
                enum kind kind = kind_of(seen, p->times[q * p->n + p->first[i] + token]);
                if (kind < N_KINDS)
                    s->occurs[kind] = true;
                for (int m = 0; m < N_MISTAKES; m++)
                    if (s->alive[m] && wrongs[m].kind != MASK && seen == (wrongs[m].kind != LEAK)) {
                        bool says = predicts(p, (enum mistake)m, q, i, token);
                        s->alive[m] = says == (kind == wrongs[m].kind);
                        s->predicted[m] = s->predicted[m] || says;
                    }
            }
}

static void question(struct suspects *s, const struct lab3_asked *a)
{
    struct pairs p = pairs_of(a);
    question_masks(s, a, &p);
    if (!a->p.no_place)
        question_pairs(s, a, &p);
    for (int m = 0; m < N_MISTAKES && a->p.no_place; m++)
        s->alive[m] = s->alive[m] && wrongs[m].kind == MASK;
    pairs_clear(&p);
}

bool lab3_too_large(const struct lab3_asked *a)
{
    double bits = 0, rows = 0;
    for (int64_t i = 0; i < a->p.n_groups; i++) {
        bits += (double)(a->p.group[i].nq * a->p.group[i].nr);
        for (int64_t r = 0; r < a->p.group[i].nr; r++)
            rows +=
                (double)(a->p.group[i].nq * (a->p.group[i].run[3 * r + 2] - a->p.group[i].run[3 * r + 1]));
    }
    return (double)(tree_tokens(a->t) + 1) * a->t->n_queries > MOST_PAIRS ||
           bits * (double)(a->p.n_hidden + 1) > 1e8 || rows > 1e8;
}

char *lab3_cause(const struct lab3_asked *all, int32_t n, int32_t gate)
{
    struct suspects s = {.occurs = {false}};
    int32_t wrong = 0, right = 0;
    for (int m = 0; m < N_MISTAKES; m++)
        s.alive[m] = m != HOLE_ALL || gate == 0; /* a gate alone may have one group a tree, which is lost */
    for (int32_t i = 0; i < n; i++)
        if (all[i].p.end != RUN_DONE)
            return NULL; /* it might have told one mistake from another */
    for (int32_t i = 0; i < n; i++) {
        bool bad = strcmp(all[i].p.code, "COVER") == 0 || all[i].p.no_place,
             good = strcmp(all[i].p.code, "OK") == 0 || strcmp(all[i].p.code, "LIMIT") == 0;
        if ((!bad && !good) || (bad && gate > 0 && all[i].gate != gate) || lab3_too_large(&all[i]))
            continue;
        question(&s, &all[i]);
        wrong += bad;
        right += good;
    }
    for (int m = HOLE_ALL + 1; m < N_MISTAKES && s.alive[HOLE_ALL] && s.occurs[HOLE]; m++)
        s.alive[m] = s.alive[m] && wrongs[m].kind != HOLE; /* on small trees, others leave out all, too */
    char *text = xstrdup("");
    for (int kind = MASK; kind >= 0 && wrong > 0; kind--) {
        int found = 0;
        const char *says[2] = {NULL, NULL};
        for (int m = 0; m < N_MISTAKES; m++)
            if (s.alive[m] && (int)wrongs[m].kind == kind &&
                (kind == MASK || (s.occurs[kind] && s.predicted[m])) && found++ < 2)
                says[found - 1] = wrongs[m].says;
        if (found == 1 || found == 2)
            xappend(&text, "%s%s%s%s", *text ? "; and " : "", says[0], found == 2 ? "; or " : "",
                    found == 2 ? says[1] : "");
        if (kind == MASK && *text)
            break; /* that is all of it */
    }
    if (!*text) {
        free(text);
        return NULL;
    }
    xappend(&text,
            " [says which pairs are wrong in %" PRId32 " of %" PRId32 " wrong trees%s, and %" PRId32
            " of %" PRId32 " right ones]",
            wrong, wrong, gate > 0 ? " of this gate" : "", right, right);
    return text;
}

int32_t lab3_invariant(const char *cause)
{
    for (int m = 0; m < N_MISTAKES && cause; m++)
        if (strncmp(cause, wrongs[m].says, strlen(wrongs[m].says)) == 0)
            return wrongs[m].invariant;
    return 0;
}

/* ---- padding -------------------------------------------------------------------------------------------- */

/* Of a group, if it were cut every tile_n tokens, and each piece had the queries alone that see some of it. */
static int64_t padding_if_cut(const struct said *g)
{
    uint8_t *some = xcalloc((size_t)g->nq, 1);
    int64_t room = TILE_N, sum = 0;
    for (int64_t r = 0; r < g->nr; r++)
        for (int64_t left = g->run[3 * r + 2] - g->run[3 * r + 1]; left > 0;) {
            int64_t n = min_i64(left, room);
            for (int64_t k = 0; k < g->nq; k++)
                some[k] |= !g->hidden[k * g->nr + r];
            left -= n;
            room -= n;
            if (room > 0 && (left > 0 || r + 1 < g->nr))
                continue;
            int64_t queries = 0;
            for (int64_t k = 0; k < g->nq; k++) {
                queries += some[k];
                some[k] = 0;
            }
            sum += ceil_div(queries * RATIO, TILE_M) * room;
            room = TILE_N;
        }
    free(some);
    return sum;
}

char *lab3_padding_cause(const struct lab3_asked *all, int32_t n)
{
    int64_t groups = 0, of_one_node = 0, largest = 0, if_cut = 0, reference = 0;
    for (int32_t i = 0; i < n; i++) {
        reference += all[i].flat_padded;
        for (int64_t k = 0; k < all[i].p.n_groups; k++) {
            const struct said *g = &all[i].p.group[k];
            int64_t tokens = 0;
            bool one = true;
            for (int64_t r = 0; r < g->nr; r++) {
                tokens += g->run[3 * r + 2] - g->run[3 * r + 1];
                one = one && g->run[3 * r] == g->run[0];
            }
            groups++;
            of_one_node += one;
            largest = max_i64(largest, tokens);
            if_cut += padding_if_cut(g);
        }
    }
    if (groups == of_one_node)
        return xasprintf(
            "no group has tokens of two nodes, so each piece of a node fills its last tile with padding "
            "[true of all %" PRId64 " groups]",
            groups);
    if (largest < TILE_N)
        return xasprintf("no group fills a tile: tile_n is %d, and the largest group has %" PRId64
                         " tokens [true of all %" PRId64 " groups]",
                         TILE_N, largest, groups);
    if (largest > TILE_N && 10 * if_cut <= MOST_PADDING * reference)
        return xasprintf(
            "groups are cut at more than tile_n tokens: a larger one gathers more queries, so more Q tiles "
            "go over its padding [the same groups, cut every tile_n, have %" PRId64
            " padded tokens: that is within the limit]",
            if_cut);
    return NULL;
}
