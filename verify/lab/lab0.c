/*
 * lab0.c - lab 0, look: eight questions about a drawn tree and what strategies make of it, with four answers each. Each wrong answer is
 * what comes of a misunderstanding, which is told.
 */
#include "verify/lab/lab.h"
#include "verify/lab/trees.h"

#include "ref/nform.h"
#include "ref/rng.h"
#include "sim/draw/plan_svg.h"
#include "sim/plan_ledger.h"
#include "sim/strategy.h"
#include "verify/io/text.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { QUESTIONS = 8, CHOICES = 4, RATIO = 4, NODES = 7 };

/* Choice 0 is right; order[] is how they are shown. */
struct item {
    char *asks;
    int64_t choice[CHOICES];
    const char *why[CHOICES]; /* of choice 0: NULL */
    const struct plan *about; /* a plan that shows it */
    int32_t order[CHOICES];
};

struct world {
    struct tree *t;
    struct nform *nf;
    struct plan *node, *flatten, *alone; /* of deft-node, deft-flatten and flash-attention */
    struct heads heads;
    uint64_t seed;
};

static struct plan *plan_of(const struct world *w, const char *name)
{
    struct strategy_use use;
    struct plan_env env = plan_env_default(w->heads);
    char why[WHY_MAX];
    CK(strategy_parse(name, &use, NULL));
    struct plan *p = strategy_plan(&use, w->nf, &env, why);
    CK(p);
    return p;
}

/* Seven nodes: a root, what hangs from it, and a query at the end of each leaf. */
static struct world world_new(uint64_t seed)
{
    static const int32_t parents[3][NODES] = {
        {-1, 0, 0, 1, 1, 2, 2}, {-1, 0, 0, 1, 1, 1, 3}, {-1, 0, 0, 0, 2, 2, 5}};
    struct world w = {.seed = seed, .heads = {32, 8, 128, DT_F16}};
    const int32_t *parent = parents[rng_below(seed, 1, 0, 3)];
    w.t = tree_new(NODES, 0);
    for (int32_t i = 0; i < NODES; i++) {
        w.t->parent[i] = parent[i];
        w.t->len[i] = i == 0 ? 150 + rng_below(seed, 2, 0, 100) : 11 + rng_below(seed, 2, (uint64_t)i, 80);
    }
    tree_query_leaves(w.t);
    w.nf = nform_new(w.t);
    w.node = plan_of(&w, "deft-node");
    w.flatten = plan_of(&w, "deft-flatten");
    w.alone = plan_of(&w, "flash-attention");
    return w;
}

static void world_free(struct world *w)
{
    plan_free(w->node);
    plan_free(w->flatten);
    plan_free(w->alone);
    nform_free(w->nf);
    tree_free(w->t);
}

/* ---- facts ---------------------------------------------------------------------------------------------- */

static int64_t context(const struct world *w, int32_t q)
{
    int64_t *all = xcalloc((size_t)w->t->n_queries, sizeof *all), x;
    tree_contexts(w->t, all);
    x = all[q];
    free(all);
    return x;
}

static int32_t depth(const struct world *w, int32_t node)
{
    int32_t d = 0;
    for (; node >= 0; node = w->t->parent[node])
        d++;
    return d;
}

/* And the node itself. */
static int64_t nodes_below(const struct world *w, int32_t node)
{
    int64_t n = 0;
    for (int32_t i = node; i < NODES; i++) {
        int32_t at = i;
        while (at > node)
            at = w->t->parent[at];
        n += at == node;
    }
    return n;
}

static int64_t below(const struct world *w, int32_t node)
{
    return w->nf->q1[node] - w->nf->q0[node];
}

/* Groups of the plan that have tokens of the node. */
static int64_t groups_with(const struct plan *p, int32_t node)
{
    int64_t n = 0;
    for (int64_t i = 0; i < p->n_groups; i++) {
        bool has = false;
        for (int64_t r = p->group[i].run0; r < p->group[i].run1; r++)
            has = has || p->nf->src[p->run[r].node] == node;
        n += has;
    }
    return n;
}

/* ---- questions ------------------------------------------------------------------------------------------ */

/* Four numbers, the right one first; equal ones are moved apart. */
static void set(struct item *x, char *asks, const int64_t choice[CHOICES], const char *why1, const char *why2,
                const char *why3)
{
    const char *const why[CHOICES] = {NULL, why1, why2, why3};
    x->asks = asks;
    for (int i = 0; i < CHOICES; i++) {
        x->choice[i] = choice[i];
        x->why[i] = why[i];
        for (int k = 0; k < i; k++)
            if (x->choice[k] == x->choice[i]) {
                x->choice[i]++;
                x->why[i] = "count again";
                k = -1;
            }
    }
}

static void ask_all(const struct world *w, struct item q[QUESTIONS])
{
    const struct tree *t = w->t;
    int32_t some = (int32_t)rng_below(w->seed, 3, 0, t->n_queries), node = t->query[some].node,
            inner = t->parent[node] > 0 ? t->parent[node] : 1;
    int64_t tokens = tree_tokens(t), nq = t->n_queries, alone = 0,
            kv_node = ledger_of_plan(w->node, &w->heads).kv;
    for (int32_t i = 0; i < nq; i++)
        alone += context(w, i);
    set(&q[0],
        xasprintf("How many tokens does query %" PRId32 " see? It stands at the end of node %" PRId32 ".",
                  some, node),
        (int64_t[]){context(w, some), t->len[node], tokens, context(w, some) - t->len[node]},
        "that is its own node alone: it sees all nodes above, too",
        "those are all tokens of the tree: it sees its own path alone",
        "those are the nodes above: it sees its own, too");
    set(&q[1], xasprintf("How many queries see the tokens of node %" PRId32 "?", inner),
        (int64_t[]){below(w, inner), nq, nodes_below(w, inner), 0},
        "those are all queries: the others do not stand at or below it",
        "those are the nodes at or below it, not the queries", "queries at or below it see it");
    set(&q[2], xstrdup("How many groups does deft-node make?"),
        (int64_t[]){w->node->n_groups, nq, w->flatten->n_groups, NODES + nq},
        "that is a group for each query: deft-node has one for each node",
        "those are the groups of deft-flatten", "those are nodes and queries together");
    set(&q[3],
        xstrdup("How many groups does deft-flatten make? It cuts all tokens, side by side, every 128."),
        (int64_t[]){w->flatten->n_groups, NODES, tokens / 128, 2 * w->flatten->n_groups},
        "that is a group for each node: deft-flatten cuts every 128 tokens",
        "the last piece, which is not full, is a group, too",
        "each piece is one group: its mask says which query sees what");
    set(&q[4], xstrdup("How many groups of deft-flatten have tokens of node 0?"),
        (int64_t[]){groups_with(w->flatten, 0), 1 + groups_with(w->flatten, 0), w->flatten->n_groups + 1, 0},
        "one fewer: a piece that begins behind the node's end has none of it",
        "not all pieces, and there are fewer pieces than that", "its tokens must be somewhere");
    set(&q[5], xasprintf("How many partial results of query %" PRId32 " does deft-node merge?", some),
        (int64_t[]){depth(w, node), 1, NODES, depth(w, node) - 1}, "one is there for each node on its path",
        "that is one for each node of the tree: it reads its path alone", "its own node leaves one, too");
    set(&q[6], xstrdup("How many tokens does flash-attention read, a KV head, for all queries together?"),
        (int64_t[]){alone, tokens, alone * RATIO, tokens * nq},
        "each query reads its whole path: shared tokens are read again",
        "query heads that share a KV head are rows of one tile: they read its tokens together",
        "each query reads its own path, not the whole tree");
    set(&q[7],
        xstrdup("How many bytes of K and V does deft-node read, with 8 KV heads of 128 numbers of 2 bytes?"),
        (int64_t[]){kv_node, kv_node / 2, kv_node * RATIO, kv_node / 8}, "that is K, or V: both are read",
        "that is once per query head: K and V are read once per KV head", "that is one KV head of 8");
    for (int i = 0; i < QUESTIONS; i++) {
        q[i].about = i == 3 || i == 4 ? w->flatten : i == 6 ? w->alone : w->node;
        int32_t first = (int32_t)rng_below(w->seed, 4, (uint64_t)i, CHOICES);
        for (int k = 0; k < CHOICES; k++)
            q[i].order[(first + k) % CHOICES] = k;
    }
}

void lab0_print(FILE *f, uint64_t seed)
{
    struct world w = world_new(seed);
    struct item q[QUESTIONS];
    ask_all(&w, q);
    fprintf(f, "lab 0, look: seed %" PRIu64 "\n\nnode  parent  tokens\n", seed);
    for (int32_t i = 0; i < NODES; i++)
        fprintf(f, "%4" PRId32 "  %6" PRId32 "  %6" PRId64 "\n", i, w.t->parent[i], w.t->len[i]);
    for (int32_t i = 0; i < w.t->n_queries; i++)
        fprintf(f, "query %" PRId32 " at the end of node %" PRId32 "\n", i, w.t->query[i].node);
    for (int i = 0; i < QUESTIONS; i++) {
        fprintf(f, "\n%d  %s\n", i + 1, q[i].asks);
        for (int k = 0; k < CHOICES; k++)
            fprintf(f, "   %c  %" PRId64 "\n", 'a' + k, q[i].choice[q[i].order[k]]);
        free(q[i].asks);
    }
    world_free(&w);
}

/* Lines "3 b"; what is not answered is '-'. */
static bool read_answers(const char *path, char answer[QUESTIONS], struct err *e)
{
    FILE *f = fopen(path, "re");
    if (!f)
        return err_set(e, "%s: %s (expected answers, a line each: 1 a)", path, strerror(errno));
    char line[256];
    bool good = true;
    memset(answer, '-', QUESTIONS);
    for (int at = 1; good && fgets(line, sizeof line, f); at++) {
        int number;
        char letter;
        line[strcspn(line, "#\n")] = 0;
        if (line[strspn(line, " \t\r")] == 0)
            continue;
        good = sscanf(line, "%d %c", &number, &letter) == 2 && number >= 1 && number <= QUESTIONS &&
               (letter == '-' || (letter >= 'a' && letter < 'a' + CHOICES));
        if (good)
            answer[number - 1] = letter;
        else
            err_set(e, "%s:%d: '%.40s' (expected a number from 1 to %d and a letter from a to d, or -)", path,
                    at, line, QUESTIONS);
    }
    fclose(f);
    return good;
}

static void draw(const struct world *w, const struct plan *p, struct lab_result *r)
{
    char *says = xasprintf("The tree of this seed, with the groups of %s", p->strategy);
    FILE *f = lab_picture(r, says);
    plan_print_svg(f, p, &w->heads, NULL);
    fclose(f);
    free(says);
}

bool lab0_mark(const char *path, uint64_t seed, struct lab_result *r, struct err *e)
{
    char answer[QUESTIONS];
    if (!read_answers(path, answer, e))
        return false;
    struct world w = world_new(seed);
    struct item q[QUESTIONS];
    ask_all(&w, q);
    for (int i = 0; i < QUESTIONS; i++) {
        int32_t is = answer[i] == '-' ? -1 : q[i].order[answer[i] - 'a'];
        r[i].code = is == 0 ? "OK" : "ANSWER";
        r[i].checked = xstrdup(q[i].asks);
        r[i].got = is < 0 ? xstrdup("no answer") : xasprintf("%c: %" PRId64, answer[i], q[i].choice[is]);
        r[i].why = is > 0 ? xstrdup(q[i].why[is]) : NULL;
        if (is != 0)
            draw(&w, q[i].about, &r[i]);
        free(q[i].asks);
    }
    world_free(&w);
    return true;
}
