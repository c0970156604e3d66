/* suspects.c - see suspects.h. */
#include "verify/lab/detective/suspects.h"

#include "ref/rng.h"
#include "verify/cases/case.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum group_of_faults { SCORES, HEADS, TOKENS, TREE, SOFTMAX, MERGE, N_FAMILIES_OF_FAULTS };
enum {
    MOST_TOKENS = 64,
    MOST_NODES = 32,
    MOST_QUERIES = 16,
    MOST_HEADS = 16,
    MOST_D = 16,
    MOST_PAGE = 64,
    TILE = 2 /* tokens */
};

static const struct suspect_fault faults[] = {
#define FAULT(family_, name_, least_, says_, ...)                                                            \
    {.name = name_, .says = says_, .family = family_, .least = least_, .wrong = {__VA_ARGS__}},
#include "verify/lab/detective/suspects.def"
#undef FAULT
};
enum { N_FAULTS = sizeof faults / sizeof faults[0] };

const struct suspect_fault *suspect_faults(int32_t *n)
{
    *n = N_FAULTS;
    return faults;
}

const struct suspect_fault *suspect_fault_find(const char *name, struct err *e)
{
    for (int32_t i = 0; i < N_FAULTS; i++)
        if (strcmp(faults[i].name, name) == 0)
            return &faults[i];
    err_set(e, "no fault '%.60s' (expected a name of the list that treeattn lab 6 prints)", name);
    return NULL;
}

void suspects_draw(uint64_t seed, const struct suspect_fault *fault[SUSPECTS])
{
    _Static_assert((int)SUSPECTS == (int)N_FAMILIES_OF_FAULTS, "one of each family");
    for (int32_t k = 0; k < SUSPECTS; k++) {
        int32_t n = 0, at = 0;
        for (int32_t i = 0; i < N_FAULTS; i++)
            n += faults[i].family == k;
        int64_t nth = rng_below(seed, 61, (uint64_t)k, n);
        while (faults[at].family != k || nth-- > 0)
            at++;
        int64_t place = rng_below(seed, 62, (uint64_t)k, k + 1); /* among those before */
        fault[k] = fault[place];
        fault[place] = &faults[at];
    }
}

/* ---- cases ---------------------------------------------------------------------------------------------- */

static bool has_key(const char *text, const char *key)
{
    size_t n = strlen(key);
    for (const char *at = text; at; at = strchr(at, ';'), at = at ? at + 1 : NULL)
        if (strncmp(at, key, n) == 0 && at[n] == '=')
            return true;
    return false;
}

/* Numbers of a list of levels, before there is a tree of so many nodes. */
static bool numbers_are_small(const char *text, struct err *e)
{
    const char *at = strstr(text, "tree=levels:"), *end = at ? at + strcspn(at, ";") : NULL;
    for (at = at ? at + strlen("tree=levels:") : NULL; at && at < end; at++)
        if (strtoll(at, NULL, 10) > MOST_TOKENS)
            return err_set(e, "the case is too large (expected at most %d tokens)", MOST_TOKENS);
    return true;
}

static bool keys_are_ours(const char *text, struct err *e)
{
    static const char *const no[] = {"dtype", "strategy", "kernel", "partials", "pool", "aligned"};
    if (strlen(text) > SUSPECT_CASE_TEXT)
        return err_set(e, "the case has %zu characters (expected at most %d)", strlen(text),
                       SUSPECT_CASE_TEXT);
    for (size_t i = 0; i < sizeof no / sizeof no[0]; i++)
        if (has_key(text, no[i]))
            return err_set(
                e, "case key '%s' (expected tree, heads, d, page, fill, seed, scale, scatter or poison)",
                no[i]);
    return numbers_are_small(text, e);
}

static bool is_small(const struct suspect_case *c, const struct problem_spec *s, struct err *e)
{
    const struct {
        const char *what;
        int64_t is, most;
    } limit[] = {{"tokens", tree_tokens(c->tree), MOST_TOKENS}, {"nodes", c->tree->n_nodes, MOST_NODES},
                 {"queries", c->tree->n_queries, MOST_QUERIES}, {"query heads", s->heads.h_q, MOST_HEADS},
                 {"elements a head", s->heads.d, MOST_D},       {"tokens a page", s->page_size, MOST_PAGE}};
    for (size_t i = 0; i < sizeof limit / sizeof limit[0]; i++)
        if (limit[i].is > limit[i].most)
            return err_set(e, "the case has %" PRId64 " %s (expected at most %" PRId64 ")", limit[i].is,
                           limit[i].what, limit[i].most);
    return c->tree->n_queries > 0 || err_set(e, "the case has no query (expected one at least)");
}

static bool open_spec(const struct case_spec *spec, struct suspect_case *c, struct err *e)
{
    if (spec->src.kind != SRC_NODES && spec->src.kind != SRC_LEVELS && spec->src.kind != SRC_CHAIN)
        return err_set(e, "the tree of the case (expected nodes:, levels: or chain:)");
    if (spec->src.kind == SRC_CHAIN && spec->src.chain_depth > MOST_NODES)
        return err_set(e, "the case has %" PRId64 " nodes (expected at most %d)", spec->src.chain_depth,
                       MOST_NODES);
    c->tree = tree_source_load(&spec->src, e);
    if (!c->tree || !is_small(c, &spec->spec, e))
        return false;
    c->p = problem_new(c->tree, &spec->spec, e);
    if (!c->p)
        return false;
    c->right = oracle_new(c->p);
    c->a = (struct arithmetic){.accumulate = DT_F64, .partial_o = DT_F64, .merges = c->tree->n_nodes};
    return true;
}

bool suspect_case_open(const char *text, struct suspect_case *c, struct err *e)
{
    *c = (struct suspect_case){.tree = NULL};
    if (!keys_are_ours(text, e))
        return false;
    char *all = xasprintf("%s;dtype=f64%s%s", text, has_key(text, "d") ? "" : ";d=4",
                          has_key(text, "page") ? "" : ";page=4");
    struct case_spec spec;
    bool good = case_parse(all, &spec, e);
    free(all);
    if (!good)
        return false;
    good = open_spec(&spec, c, e);
    case_clear(&spec);
    if (!good)
        suspect_case_close(c);
    return good;
}

void suspect_case_close(struct suspect_case *c)
{
    oracle_free(c->right);
    problem_free(c->p);
    tree_free(c->tree);
    *c = (struct suspect_case){.tree = NULL};
}

/* ---- answers -------------------------------------------------------------------------------------------- */

/* Row r of *out, which holds the right answer. */
static void answer_row(struct wrong_case *made, const struct suspect_case *c, const struct suspect_fault *f,
                       int64_t r, struct output *out)
{
    int32_t d = c->p->heads.d, column[MOST_D] = {0};
    double *o = (double *)out->o + r * d;
    const struct wrong *w = &f->wrong;
    struct wrong_way way = {.cut = w->cut, .tile = w->join >= TILES_O_KEPT ? TILE : 0};
    struct wrong_answer x;
    for (int32_t e = 0; e < d; e++)
        column[e] = e;
    struct wrong_row *row = wrong_row_new(made, r, column, d, o, c->right->lse[r]);
    if (wrong_evaluate(row, w, &way, 0, &x)) {
        for (int32_t e = 0; e < d;
             e++) /* memory beyond the pool is read as NaN; who has no weight at all writes 0 */
            o[e] = x.unsure ? NAN : x.nothing ? 0 : x.o[e];
        output_set_lse(out, r, x.unsure ? NAN : x.nothing ? -INFINITY : x.lse);
    }
    wrong_row_free(row);
}

struct output *suspect_run(const struct suspect_case *c, const struct suspect_fault *f)
{
    struct output *out = output_new(c->p);
    memcpy(out->o, c->right->o, (size_t)(out->n_rows * out->d) * sizeof(double));
    output_set_all_lse(out, c->right->lse);
    if (!f)
        return out;
    struct wrong_case *made = wrong_case_new(c->p, c->right, NULL, &c->a, false, false, false);
    for (int64_t r = 0; r < out->n_rows; r++)
        answer_row(made, c, f, r, out);
    wrong_case_free(made);
    return out;
}

bool suspect_passes(const struct suspect_case *c, const struct output *out)
{
    enum verdict v = compare_output(c->p, c->right, out, &c->a).verdict;
    return v == V_PASS || v == V_MARGINAL;
}

bool suspect_right_at(const struct suspect_case *c, const struct output *out, int64_t r, int32_t e)
{
    double bound[MOST_D], of_lse = compare_bound(c->p, c->right, &c->a, r, bound),
                          is = e < 0 ? output_lse(out, r) : ((const double *)out->o)[r * out->d + e],
                          should = e < 0 ? c->right->lse[r] : c->right->o[r * out->d + e];
    return is == should || fabs(is - should) <= (e < 0 ? of_lse : bound[e]);
}
