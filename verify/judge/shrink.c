/* shrink.c - smaller and smaller cases that still fail. */
#include "verify/judge/shrink.h"
#include "verify/io/rerun.h"
#include "verify/io/text.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

struct shrinker {
    struct case_spec *c; /* the smallest so far */
    struct tree *t;      /* its tree */
    shrink_fails *fails;
    void *context;
    struct shrink_limits limit;
    struct shrink_report report;
    double start, last; /* last: seconds of the latest trial */
    bool spent;         /* of the limits */
    uint64_t reseeds;   /* how many seeds to try where the case's own does not fail */
    int64_t trees;      /* kept steps that changed the tree */
};

struct shrink_limits shrink_default_limits(void)
{
    return (struct shrink_limits){.trials = 20000, .seconds = 10};
}

/* ---- one trial ---------------------------------------------------------------------------------------- */

static bool try_once(struct shrinker *s, const struct case_spec *c)
{
    double before = now_s();
    s->spent =
        s->spent || s->report.trials >= s->limit.trials || before + s->last - s->start > s->limit.seconds;
    if (s->spent)
        return false;
    s->report.trials++;
    bool fails = s->fails(c, s->context);
    s->last = now_s() - before;
    s->report.kept += fails;
    return fails;
}

/* With the case's own seed first: other data may be what the failure needs once the tree has changed. */
static bool try_case(struct shrinker *s, struct case_spec *c)
{
    uint64_t own = c->spec.seed;
    bool fails = try_once(s, c);
    for (uint64_t seed = 1; seed <= s->reseeds && !fails; seed++)
        if (seed != own) {
            c->spec.seed = seed;
            fails = try_once(s, c);
        }
    return fails;
}

/* Takes t. True if the case fails with that tree and data, which are then the case's. Without any node there is no
 * case, and a case that lost its last query tells nothing. */
static bool try_tree_fill(struct shrinker *s, struct tree *t, enum fill fill)
{
    struct case_spec c = *s->c;
    bool fails = false;
    c.src = (struct tree_source){0};
    c.spec.fill = fill;
    if (!s->spent && t->n_nodes > 0 && (t->n_queries > 0 || s->t->n_queries == 0)) {
        c.src = tree_source_from_tree(t);
        fails = try_case(s, &c);
    }
    if (!fails) {
        tree_source_clear(&c.src);
        tree_free(t);
        return false;
    }
    tree_source_clear(&s->c->src);
    *s->c = c;
    tree_free(s->t);
    s->t = t;
    s->trees++;
    return true;
}

static bool try_tree(struct shrinker *s, struct tree *t)
{
    return try_tree_fill(s, t, s->c->spec.fill);
}

/* A case that differs from the smallest in anything but the tree. */
static bool try_change(struct shrinker *s, struct case_spec c)
{
    bool fails = problem_spec_check(&c.spec, NULL) && try_case(s, &c);
    if (fails)
        *s->c = c;
    return fails;
}

/* ---- fewer queries, fewer nodes ------------------------------------------------------------------------ */

/* Halves of the queries, quarters, ... single ones. */
static void drop_queries(struct shrinker *s)
{
    for (int32_t chunk = (s->t->n_queries + 1) / 2; chunk > 0 && !s->spent; chunk = chunk / 2)
        for (int32_t i = 0; i < s->t->n_queries && !s->spent;) {
            int32_t end = (int32_t)min_i64(s->t->n_queries, (int64_t)i + chunk);
            struct tree *x = tree_copy(s->t);
            memmove(x->query + i, x->query + end, (size_t)(x->n_queries - end) * sizeof *x->query);
            x->n_queries -= end - i;
            if (!try_tree(s, x))
                i = end;
        }
}

/* Without the nodes marked. Children of such a node go to the next node up that stays; so do its queries, to
 * that node's end, if `lift`, else they are dropped, as they are where no node up stays. */
static struct tree *without_nodes(const struct tree *t, const bool *drop, bool lift)
{
    struct tree *x = tree_new(t->n_nodes, t->n_queries);
    int32_t *to = xcalloc((size_t)t->n_nodes, sizeof *to); /* new number of the node, or of the one above */
    x->n_nodes = x->n_queries = 0;
    for (int32_t i = 0; i < t->n_nodes; i++) {
        int32_t up = t->parent[i] < 0 ? -1 : to[t->parent[i]];
        to[i] = drop[i] ? up : x->n_nodes;
        if (drop[i])
            continue;
        x->parent[x->n_nodes] = up;
        x->len[x->n_nodes++] = t->len[i];
    }
    for (int32_t q = 0; q < t->n_queries; q++) {
        int32_t node = t->query[q].node;
        if (drop[node] && (!lift || to[node] < 0))
            continue;
        x->query[x->n_queries++] =
            (struct query){.node = to[node], .upto = drop[node] ? x->len[to[node]] : t->query[q].upto};
    }
    free(to);
    return x;
}

/* All nodes that no query is on or below. */
static void drop_dead(struct shrinker *s)
{
    int32_t n = s->t->n_nodes, dead = 0;
    bool *drop = xcalloc((size_t)n, sizeof *drop);
    for (int32_t i = 0; i < n; i++)
        drop[i] = true;
    for (int32_t q = 0; q < s->t->n_queries; q++)
        drop[s->t->query[q].node] = false;
    for (int32_t i = n - 1; i >= 0; i--) {
        if (!drop[i] && s->t->parent[i] >= 0)
            drop[s->t->parent[i]] = false;
        dead += drop[i];
    }
    if (dead > 0)
        try_tree(s, without_nodes(s->t, drop, false));
    free(drop);
}

/* Parents first, so that the largest go first. */
static void drop_subtrees(struct shrinker *s)
{
    for (int32_t i = 0; i < s->t->n_nodes && !s->spent;) {
        bool *drop = xcalloc((size_t)s->t->n_nodes, sizeof *drop);
        for (int32_t x = i; x < s->t->n_nodes; x++)
            drop[x] = x == i || (s->t->parent[x] >= 0 && drop[s->t->parent[x]]);
        i += !try_tree(s, without_nodes(s->t, drop, false));
        free(drop);
    }
}

/* Nodes out of the middle of paths: halves of all nodes, quarters, ... single ones. */
static void drop_nodes(struct shrinker *s)
{
    for (int32_t chunk = (s->t->n_nodes + 1) / 2; chunk > 0 && !s->spent; chunk = chunk / 2)
        for (int32_t i = 0; i < s->t->n_nodes && !s->spent;) {
            int32_t end = (int32_t)min_i64(s->t->n_nodes, (int64_t)i + chunk);
            bool *drop = xcalloc((size_t)s->t->n_nodes, sizeof *drop);
            for (int32_t x = i; x < end; x++)
                drop[x] = true;
            if (!try_tree(s, without_nodes(s->t, drop, true)))
                i = end;
            free(drop);
        }
}

/* Nodes joined with the one above: the tokens stay, the queries of both go to the end. */
static void join_nodes(struct shrinker *s)
{
    bool *drop = xcalloc((size_t)s->t->n_nodes, sizeof *drop);
    for (int32_t i = s->t->n_nodes - 1; i > 0 && !s->spent; i--) {
        int32_t up = s->t->parent[i];
        if (up < 0)
            continue;
        struct tree *x = tree_copy(s->t);
        x->len[up] += x->len[i];
        for (int32_t q = 0; q < x->n_queries; q++)
            if (x->query[q].node == up)
                x->query[q].upto = x->len[up];
        drop[i] = true;
        try_tree(s, without_nodes(x, drop, true));
        drop[i] = false;
        tree_free(x);
    }
    free(drop);
}

/* ---- shorter nodes, plainer queries -------------------------------------------------------------------- */

/* Nodes begin .. end - 1, and queries in them, not beyond `len`; queries at their ends stay there. */
static bool try_lens(struct shrinker *s, int32_t begin, int32_t end, int64_t len)
{
    struct tree *x = tree_copy(s->t);
    for (int32_t i = begin; i < end; i++)
        x->len[i] = min_i64(x->len[i], len);
    for (int32_t q = 0; q < x->n_queries; q++)
        if (x->query[q].node >= begin && x->query[q].node < end)
            x->query[q].upto = min_i64(x->query[q].upto, len);
    return try_tree(s, x);
}

static bool try_len(struct shrinker *s, int32_t i, int64_t len)
{
    return try_lens(s, i, i + 1, len);
}

static bool try_upto(struct shrinker *s, int32_t q, int64_t upto)
{
    struct tree *x = tree_copy(s->t);
    x->query[q].upto = upto;
    return try_tree(s, x);
}

/* A number made as small as it goes: 0, 1, else by halves, quarters, ... by one. */
static void reduce(struct shrinker *s, bool (*set)(struct shrinker *, int32_t, int64_t), int32_t i, int64_t x)
{
    if (x == 0 || set(s, i, 0) || x == 1 || set(s, i, 1))
        return;
    for (int64_t step = x / 2; step > 0 && !s->spent;)
        if (x - step > 1 && set(s, i, x - step))
            x -= step;
        else
            step /= 2;
}

/* First all nodes at once, to the smallest power of two that will do. */
static void shorten_nodes(struct shrinker *s)
{
    int64_t longest = 0;
    bool kept = false;
    for (int32_t i = 0; i < s->t->n_nodes; i++)
        longest = max_i64(longest, s->t->len[i]);
    for (int64_t len = 1; len < longest && !kept && !s->spent; len *= 2)
        kept = try_lens(s, 0, s->t->n_nodes, len);
    for (int32_t i = 0; i < s->t->n_nodes && !s->spent; i++)
        reduce(s, try_len, i, s->t->len[i]);
}

/* Queries to the ends of their nodes, all or one by one; where that will not do, as near the front as it
 * goes. */
static void plain_queries(struct shrinker *s)
{
    struct tree *x = tree_copy(s->t);
    bool partial = false;
    for (int32_t q = 0; q < x->n_queries; q++) {
        partial = partial || x->query[q].upto < x->len[x->query[q].node];
        x->query[q].upto = x->len[x->query[q].node];
    }
    if (!partial)
        tree_free(x);
    else if (!try_tree(s, x))
        for (int32_t q = 0; q < s->t->n_queries && !s->spent; q++) {
            int64_t upto = s->t->query[q].upto, len = s->t->len[s->t->query[q].node];
            if (upto < len && !try_upto(s, q, len))
                reduce(s, try_upto, q, upto);
        }
}

/* ---- everything else ----------------------------------------------------------------------------------- */

static void fewer_heads(struct shrinker *s)
{
    static const int32_t heads[][2] = {{1, 1}, {2, 1}, {2, 2}, {3, 1}, {4, 1}, {4, 2}, {8, 2}, {8, 8}};
    for (size_t i = 0; i < sizeof heads / sizeof heads[0]; i++) {
        struct case_spec c = *s->c;
        c.spec.heads.h_q = heads[i][0];
        c.spec.heads.h_kv = heads[i][1];
        bool fewer = c.spec.heads.h_q < s->c->spec.heads.h_q ||
                     (c.spec.heads.h_q == s->c->spec.heads.h_q && c.spec.heads.h_kv < s->c->spec.heads.h_kv);
        if (fewer && try_change(s, c))
            return;
    }
}

/* A number of the spec, from least to the case's own; the first that fails. */
static void smaller_number(struct shrinker *s, size_t offset, int32_t least)
{
    struct case_spec c = *s->c;
    int32_t *x = (int32_t *)((char *)&c.spec + offset), own = *x;
    for (*x = least; *x < own && !try_change(s, c);)
        *x *= 2;
}

/* Below 16 elements a head is nobody's. */
static void smaller_numbers(struct shrinker *s)
{
    smaller_number(s, offsetof(struct problem_spec, heads.d), 16);
    smaller_number(s, offsetof(struct problem_spec, page_size), 1);
}

static void plainer_storage(struct shrinker *s)
{
    struct case_spec c = *s->c;
    c.spec.scattered = false;
    if (s->c->spec.scattered)
        try_change(s, c);
    c = *s->c;
    c.spec.poison = false;
    if (s->c->spec.poison)
        try_change(s, c);
    c = *s->c;
    c.spec.scale = 0;
    if (s->c->spec.scale > 0)
        try_change(s, c);
    for (int i = 0; i < N_FEATURES; i++) {
        c = *s->c;
        problem_spec_restrict(&c.spec, ~(UINT32_C(1) << i));
        if (problem_spec_features(&s->c->spec) >> i & 1)
            try_change(s, c);
    }
    c = *s->c;
    c.spec.pool = 0;
    if (s->c->spec.pool > 0)
        try_change(s, c);
    c = *s->c;
    c.aligned = false;
    if (s->c->aligned)
        try_change(s, c);
    c = *s->c;
    c.spec.heads.dtype = DT_F64;
    while (c.spec.heads.dtype < s->c->spec.heads.dtype && !try_change(s, c))
        c.spec.heads.dtype++;
}

/* Plainest first: with counts the output says who was read. */
static void plainer_data(struct shrinker *s)
{
    static const enum fill order[] = {FILL_COUNT, FILL_IDENTICAL, FILL_ONEHOT, FILL_RANDOM, FILL_ONESIGN,
                                      FILL_HUGE,  FILL_VAST,      FILL_SUNK,   FILL_SPAN};
    _Static_assert(sizeof order / sizeof order[0] == N_FILLS, "each fill has its place");
    struct case_spec c = *s->c;
    for (int i = 0; order[i] != s->c->spec.fill; i++) {
        c.spec.fill = order[i];
        if (try_change(s, c))
            break;
    }
    uint64_t reseeds = s->reseeds;
    s->reseeds = 0; /* seeds are what is searched here */
    c = *s->c;
    for (c.spec.seed = 1; c.spec.seed < 10 && c.spec.seed < s->c->spec.seed && !try_change(s, c);)
        c.spec.seed++;
    s->reseeds = reseeds;
}

static void default_options(struct shrinker *s)
{
    if (!s->c->use.s || !s->c->use.s->opts)
        return;
    struct strategy_use plain = strategy_default(s->c->use.s);
    for (int i = 0; plain.s->opts[i].key; i++) {
        struct case_spec c = *s->c;
        c.use.opt[i] = plain.opt[i];
        if (s->c->use.opt[i] != plain.opt[i])
            try_change(s, c);
    }
}

/* Where single steps are stuck, a leap: the smallest trees there are, with any data, if they have fewer nodes.
 * A node in the way may be all that keeps the data as the failure needs it. */
static void leap(struct shrinker *s)
{
    static const char *const tiny[] = {"-1.1:0.1",
                                       "-1.2:0.2",
                                       "-1.3:0.3",
                                       "-1.2:0.1",
                                       "-1.2:0.2,0.2",
                                       "-1.2:0.1,0.2",
                                       "-1.1,0.1:1.1",
                                       "-1.2,0.2:1.2",
                                       "-1.1,0.1:0.1,1.1",
                                       "-1.1,-1.1:0.1,1.1",
                                       "-1.2,0.2,0.2:1.2,2.2"};
    bool kept = s->reseeds == 0;
    for (size_t i = 0; i < sizeof tiny / sizeof tiny[0] && !kept; i++)
        for (enum fill fill = 0; fill < N_FILLS && !kept && !s->spent; fill++) {
            struct tree_source src = {.kind = SRC_NODES, .text = (char *)tiny[i]};
            struct tree *t = tree_source_load(&src, NULL);
            CK(t != NULL);
            if (t->n_nodes < s->t->n_nodes)
                kept = try_tree_fill(s, t, fill);
            else
                tree_free(t);
        }
}

/* Small heads first: all that follows is faster then. */
static void (*const passes[])(struct shrinker *s) = {
    fewer_heads,   smaller_numbers, drop_queries,    drop_dead,    drop_subtrees,   drop_nodes, join_nodes,
    shorten_nodes, plain_queries,   plainer_storage, plainer_data, default_options, leap,
};
enum { N_PASSES = sizeof passes / sizeof passes[0], RESEEDS = 4 };

/* All passes until none keeps anything; then with other seeds too, until that keeps nothing. */
static void run_passes(struct shrinker *s)
{
    for (bool more = true; more && !s->spent;) {
        int64_t kept = s->report.kept;
        for (int i = 0; i < N_PASSES && !s->spent; i++)
            passes[i](s);
        more = s->report.kept > kept || s->reseeds == 0;
        s->reseeds = s->report.kept > kept ? s->reseeds : RESEEDS;
    }
}

struct shrink_report shrink_case(struct case_spec *c, shrink_fails *fails, void *context,
                                 const struct shrink_limits *limits)
{
    struct shrinker s = {.c = c, .fails = fails, .context = context, .limit = *limits, .start = now_s()};
    s.t = tree_source_load(&c->src, NULL);
    if (!s.t)
        return s.report;
    struct tree_source own = c->src;
    c->src = tree_source_from_tree(s.t); /* no trial reads a file or replays a trace */
    s.report.failed = try_once(&s, c);
    s.report.kept = 0;
    if (s.report.failed)
        run_passes(&s);
    if (s.trees == 0) {
        tree_source_clear(&c->src);
        c->src = own;
    } else {
        tree_source_clear(&own);
    }
    s.report.fixed = s.report.failed && !s.spent;
    s.report.seconds = now_s() - s.start;
    s.report.nodes = s.t->n_nodes;
    s.report.queries = s.t->n_queries;
    s.report.tokens = tree_tokens(s.t);
    tree_free(s.t);
    return s.report;
}

/* ---- what the judge failed ------------------------------------------------------------------------------ */

/* Shells and exec() take an argument of up to 128 KiB; what is longer could not be pasted. */
enum { LONGEST_ARGUMENT = 100000 };

/* A kernel that is torn by other threads fails now and then. */
enum { REPEATS = 5 };

/* A case that first failed one way and then another would be about something else: what is wrong by a hundredth and more must not
 * end as what looks like rounding. */
struct failure {
    enum failure_stage stage;
    bool gross;
    const struct property *law;
};

static struct failure failure_of(const struct result *r)
{
    return (struct failure){r->stage, result_is_gross(r), r->law};
}

static bool alike(struct failure is, struct failure was)
{
    return is.stage == was.stage && is.law == was.law && is.gross >= was.gross;
}

/* False if the case cannot be had, as when memory would not do. */
static bool judge_again(const struct case_spec *c, const struct property *law, struct result *r)
{
    struct test_case *b = test_case_new(c, NULL, NULL);
    if (!b)
        return false;
    b->no_cause = true;
    *r = judge_case(b, &c->use, c->kernel);
    if (law && r->verdict != V_FAIL) /* as verify does */
        *r = judge_law(b, &c->use, c->kernel, law);
    r->use = NULL;
    test_case_free(b);
    return true;
}

static bool fails_alike(const struct case_spec *c, void *context)
{
    const struct failure *want = context;
    struct result r;
    return judge_again(c, want->law, &r) && r.verdict == V_FAIL && alike(failure_of(&r), *want);
}

struct shrink_report shrink_result(struct case_spec *c, struct result *r, const struct shrink_limits *limits)
{
    struct failure kind = failure_of(r);
    struct shrink_report report = shrink_case(c, fails_alike, &kind, limits);
    report.steady = report.failed;
    for (int i = 0; i < REPEATS && report.steady; i++)
        report.steady = judge_again(c, kind.law, r) && r->verdict == V_FAIL;
    return report;
}

/* ---- in a process of its own ---------------------------------------------------------------------------- */

/* What is printed failed so often when it was run alone; a kernel that fails now and then shall not. */
enum { ALONE = 10 };
#define ALONE_SECONDS 20.0 /* that one such run may take */

/* A case as a command line. */
struct alone {
    const struct shrink_program *program;
    const struct property *law;
    char why[RESULT_SENTENCE]; /* what the last run that failed said */
};

/* The caller frees. */
static char *line_of(const struct shrink_program *program, const struct case_spec *c,
                     const struct property *law)
{
    char *text = case_print(c), *quoted = text_quote(text);
    char *line = xasprintf("%s verify %s%s%s--case %s", program->name, law ? "--properties " : "",
                           c->kernel->option ? c->kernel->option : "", c->kernel->option ? " " : "", quoted);
    free(text);
    free(quoted);
    return line;
}

/* Of the first row that is FAIL in a table of text, what stands under "why". */
static void read_why(char *table, char why[RESULT_SENTENCE])
{
    int column = -1, at;
    char *line, *cell, *rest = table;
    while ((line = text_next(&rest, '\n'))) {
        bool fails = strstr(line, "\tFAIL\t") != NULL;
        for (at = 0; (column < 0 || fails) && (cell = text_next(&line, '\t')); at++)
            if (column < 0 && strcmp(cell, "why") == 0)
                column = at;
            else if (fails && at == column)
                snprintf(why, RESULT_SENTENCE, "%s", cell);
        if (fails)
            return;
    }
}

static int run_alone(const struct case_spec *c, struct alone *x)
{
    static char text[1 << 16]; /* failures are reduced one after the other */
    char *line = line_of(x->program, c, x->law), *quiet = xasprintf("%s --no-shrink", line);
    int code = strlen(line) > LONGEST_ARGUMENT ? -1 : rerun(quiet, ALONE_SECONDS, text, sizeof text);
    if (code == EXIT_FAILED)
        read_why(text, x->why);
    free(line);
    free(quiet);
    return code;
}

static bool fails_alone(const struct case_spec *c, void *context)
{
    return run_alone(c, context) == EXIT_FAILED;
}

/* Where it cannot be run, or takes too long, it is not known to pass. */
static bool never_passes_alone(const struct case_spec *c, struct alone *x)
{
    int code = EXIT_FAILED;
    for (int i = 0; i < ALONE && code == EXIT_FAILED; i++)
        code = run_alone(c, x);
    return code != EXIT_GOOD && code != EXIT_MISSING;
}

/* Once would be no sign of state: a race fails now and then wherever it runs. */
static bool never_fails_alone(const struct case_spec *c, struct alone *x)
{
    bool fails = false;
    for (int i = 0; i < ALONE && !fails; i++)
        fails = fails_alone(c, x);
    return !fails;
}

/* ---- what is printed ------------------------------------------------------------------------------------- */

/* A case that is reduced, and what came of it. */
struct smallest {
    const struct shrink_program *program;
    const struct case_spec *failed;
    const struct result *result;
    struct case_spec c; /* so far */
    struct result r;    /* of c, in this process */
    struct shrink_report report;
    struct alone alone;
    bool found; /* c fails whenever it is run, also alone where that was tried */
};

/* Once more, with each trial in a process of its own; if the case fails there, c is the smallest that does. */
static void shrink_alone(struct smallest *x)
{
    struct shrink_limits limits = shrink_default_limits();
    case_clear(&x->c);
    x->c = *x->failed;
    x->c.src = tree_source_copy(&x->failed->src);
    if (!fails_alone(&x->c, &x->alone) || !never_passes_alone(&x->c, &x->alone))
        return;
    x->report = shrink_case(&x->c, fails_alone, &x->alone, &limits);
    x->found = never_passes_alone(&x->c, &x->alone);
    snprintf(x->r.why, sizeof x->r.why, "%.599s", x->alone.why);
    x->r.law = NULL; /* all of it stands in the sentence */
    x->r.stage = STAGE_NONE;
    x->r.end = RUN_DONE;
}

static void print_found(FILE *f, const struct smallest *x, const char *line)
{
    char why[RESULT_SENTENCE];
    fprintf(f,
            "smallest: %s\n  nodes %" PRId32 ", queries %" PRId32 ", tokens %" PRId64 ", after %" PRId64
            " trials%s: %s\n",
            line, x->report.nodes, x->report.queries, x->report.tokens, x->report.trials,
            x->report.fixed ? "" : " (out of time)", result_sentence(&x->r, why));
    /* A small case hides what a large one shows: of one token O is V whatever the softmax. */
    if (x->result->cause.text[0])
        fprintf(f, "  cause, of the case as it failed: %s\n", x->result->cause.text);
}

/* Nothing that fails whenever it is run was found. */
static void print_unsteady(FILE *f, struct smallest *x)
{
    char why[RESULT_SENTENCE];
    struct result again;
    if (!x->report.failed && judge_again(x->failed, x->result->law, &again) && again.verdict == V_SKIP)
        fprintf(f, "smallest: not looked for, the case cannot run again here: %s\n",
                result_sentence(&again, why));
    else if (x->report.steady && never_fails_alone(x->failed, &x->alone))
        fprintf(f,
                "smallest: passes in a process of its own; it fails only after other cases, does the kernel "
                "keep something from them? Run: %s\n",
                x->program->whole);
    else
        fprintf(
            f,
            "smallest: not reproducible, %s passed when it was run again (run is called from several threads "
            "at once: does the kernel keep state, or do its own threads share what they should not? try "
            "OMP_NUM_THREADS=1; does it read behind an array? try make SAN=1)\n",
            x->report.failed ? "a smaller case" : "the case");
}

void shrink_print(FILE *f, const struct shrink_program *program, const struct case_spec *failed,
                  const struct result *result)
{
    struct shrink_limits limits = shrink_default_limits();
    struct smallest x = {.program = program,
                         .failed = failed,
                         .result = result,
                         .c = *failed,
                         .r = *result,
                         .alone = {program, result->law, ""}};
    x.c.src = tree_source_copy(&failed->src);
    x.report = shrink_result(&x.c, &x.r, &limits);
    x.found = x.report.steady && (!program->whole || never_passes_alone(&x.c, &x.alone));
    if (!x.found && program->whole)
        shrink_alone(&x);
    char *line = line_of(program, &x.c, result->law);
    if (!x.found)
        print_unsteady(f, &x);
    else if (strlen(line) > LONGEST_ARGUMENT)
        fprintf(f, "smallest: %" PRId32 " nodes after %.0f s, too long for a command line\n", x.report.nodes,
                x.report.seconds);
    else
        print_found(f, &x, line);
    free(line);
    case_clear(&x.c);
}
