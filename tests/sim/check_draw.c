/* check_draw.c - pictures: that they are XML, that text meets no text, and that what is drawn is what was counted. */
#include "sim/draw/bytes_svg.h"
#include "sim/draw/merges_svg.h"
#include "sim/draw/plan_svg.h"
#include "sim/draw/raster.h"
#include "sim/draw/timeline_svg.h"

#include "ref/oracle.h"
#include "ref/rng.h"
#include "sim/plan_ledger.h"
#include "sim/strategy.h"
#include "tests/auto.h"
#include "tests/shared.h"
#include "tests/sim/svg_check.h"
#include "tests/suites.h"
#include "traces/formats/formats.h"
#include "verify/faults/faults.h"
#include "verify/judge/cover.h"

#include <inttypes.h>

enum { TREES = 60, QUICK_TREES = 10, MOST_BYTES = 1 << 20 };

static const struct heads settings[] = {{8, 2, 64, DT_F16}, {4, 4, 16, DT_F32}, {6, 1, 8, DT_F16}};

static char *drawn(const struct plan *p, const struct heads *h, const struct plan_flaw *flaw)
{
    char *text;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    plan_print_svg(f, p, h, flaw);
    ck_assert(fclose(f) == 0 && size < MOST_BYTES);
    return text;
}

/* data-pairs of a class, each as often as there are groups alike. */
static double pairs_of(const struct svg_read *r, const char *class)
{
    double sum = 0;
    for (int64_t i = 0; i < r->n; i++)
        if (svg_is(&r->at[i], class))
            sum += svg_number(&r->at[i], "data-pairs", NAN) * svg_number(&r->at[i], "data-alike", 1);
    return sum;
}

/* What the text says of groups that are not drawn. */
static void add_rest(const struct svg_read *r, double *used, double *hidden, double *padding)
{
    FREED char *text = svg_texts(r);
    for (char *c = text; *c; c++) /* lines are broken anywhere */
        *c = *c == '\n' ? ' ' : *c;
    const char *at = strstr(text, "their tiles compute ");
    double u, h, p;
    if (!at)
        return;
    ck_assert_int_eq(
        sscanf(at, "their tiles compute %lf pairs that are used, %lf that are hidden, %lf of padding", &u, &h,
               &p),
        3);
    *used += u;
    *hidden += h;
    *padding += p;
}

static double pairs_seen(const struct nform *nf)
{
    double sum = 0;
    for (int32_t q = 0; q < nf->n_queries; q++)
        sum += (double)nform_context(nf, q);
    return sum;
}

/* The matrix has every pair once; tiles have what the ledger counts as multiply-adds, of d for QK^T and d for PV each. */
static void check_sums(const struct plan *p, const struct heads *h, const struct svg_read *r)
{
    struct ledger l = ledger_of_plan(p, h);
    double each = 2.0 * h->d * h->h_kv;
    double used = pairs_of(r, "used"), hidden = pairs_of(r, "hidden"), padding = pairs_of(r, "padding");
    add_rest(r, &used, &hidden, &padding);
    FREED char *text = svg_texts(r);
    check_each(pairs_of(r, "pairs") == pairs_seen(p->nf), "%s: %g pairs", p->strategy, pairs_of(r, "pairs"));
    check_each((used + hidden) * each == (double)l.mac_useful + (double)l.mac_masked, "%s: computed %g, %g",
               p->strategy, used, hidden);
    check_each(padding * each == (double)l.mac_padded, "%s: padding %g", p->strategy, padding);
    if (!strstr(text, "are drawn coarsely"))
        check_each(used * each == (double)l.mac_useful, "%s: used %g", p->strategy, used);
}

static bool check_plan_of(const struct nform *nf, const struct strategy *s, const struct heads *h)
{
    struct plan_env env = plan_env_default(*h);
    struct strategy_use use = strategy_default(s);
    char why[WHY_MAX];
    AUTO(plan) p = strategy_plan(&use, nf, &env, why);
    if (!p)
        return false;
    FREED char *text = drawn(p, h, NULL);
    CLEARED_BY(svg_read_clear) struct svg_read r = svg_read(text);
    svg_check_layout(&r);
    check_sums(p, h, &r);
    check_each(!strstr(text, "class=\"wrong\""), "%s: right, and something is red", s->name);
    return true;
}

TEST(every_plan_is_drawn_as_it_is_counted)
{
    int64_t n = getenv("TREEATTN_QUICK") ? QUICK_TREES : TREES,
            *ran = xcalloc((size_t)n_strategies, sizeof *ran);
    for (int64_t i = 0; i < n; i++) {
        AUTO(tree) t = gen_tree(gen_family(21, i), gen_seed(21, i));
        AUTO(nform) nf = nform_new(t);
        for (int32_t s = 0; s < n_strategies; s++)
            ran[s] += check_plan_of(nf, strategies[s], &settings[i % 3]);
    }
    for (int32_t s = 0; s < n_strategies; s++)
        ck_assert_msg(ran[s] > 0, "%s ran on no tree", strategies[s]->name);
    free(ran);
}

/* A root, and leaves of one to three tokens. */
static struct tree *broad(int32_t leaves, int64_t root)
{
    struct tree *t = tree_new(1 + leaves, 0);
    t->len[0] = root;
    for (int32_t i = 1; i <= leaves; i++) {
        t->parent[i] = 0;
        t->len[i] = 1 + i % 3;
    }
    tree_query_leaves(t);
    return t;
}

/* Too many queries, columns and kinds of groups: the picture says what it has put together, and loses nothing. */
TEST(large_plans_are_put_together)
{
    static const char *const names[] = {"pat", "deft-flatten", "treeattn", "flash-decoding", "tree-vanilla"};
    static const int32_t leaves[] = {201, 900, 4000};
    for (int k = 0; k < 3; k++) {
        AUTO_WITH_TREE nf = nform_new(broad(leaves[k], 70000));
        for (size_t s = 0; s < sizeof names / sizeof names[0]; s++) {
            struct plan_env env = env_h200(8, 2);
            AUTO(plan) p = must_plan(names[s], nf, &env);
            FREED char *text = drawn(p, &env.heads, NULL);
            CLEARED_BY(svg_read_clear) struct svg_read r = svg_read(text);
            svg_check_layout(&r);
            check_sums(p, &env.heads, &r);
            ck_assert_msg(strstr(text, "Binned: "), "%s", names[s]);
        }
    }
}

/* Small plans are not: every group has its own pairs. */
TEST(small_plans_are_drawn_pair_by_pair)
{
    AUTO_WITH_TREE nf = nform_new(broad(200, 40));
    struct plan_env env = env_h200(8, 2);
    AUTO(plan) p = must_plan("deft-flatten", nf, &env);
    FREED char *text = drawn(p, &env.heads, NULL);
    CLEARED_BY(svg_read_clear) struct svg_read r = svg_read(text);
    double *sum = xcalloc((size_t)p->n_groups, sizeof *sum);
    ck_assert(!strstr(text, "Binned: ") && p->n_groups > 1);
    for (int64_t i = 0; i < r.n; i++)
        if (svg_is(&r.at[i], "pairs"))
            sum[(int64_t)svg_number(&r.at[i], "data-group", 0)] += svg_number(&r.at[i], "data-pairs", 0);
    for (int64_t gi = 0; gi < p->n_groups; gi++) {
        const struct group *g = &p->group[gi];
        double seen = 0;
        for (int32_t k = 0; k < g->nq; k++)
            for (int64_t x = g->run0; x < g->run1; x++)
                if (plan_visible(p, g, k, x - g->run0))
                    seen += (double)(p->run[x].end - p->run[x].begin);
        ck_assert_msg(sum[gi] == seen, "group %" PRId64 ": %g of %g", gi, sum[gi], seen);
    }
    free(sum);
}

/* ---- plans in time ---------------------------------------------------------------------------------------- */

/* data-us of a class, against the time of the CTAs of groups or merge steps: each takes a share of its SM. */
static void check_time(const struct svg_read *r, const struct time_model *c, const char *class, bool merges)
{
    double is = 0, drawn_us = 0;
    for (int64_t i = 0; i < c->n_cta; i++)
        if ((c->cta[i].group < 0) == merges)
            is += 1e6 * (c->cta[i].end - c->cta[i].start) / c->cta[i].resident;
    for (int64_t i = 0; i < r->n; i++)
        if (svg_is(&r->at[i], class))
            drawn_us += svg_number(&r->at[i], "data-us", NAN);
    check_each(fabs(is - drawn_us) <= 1e-6 * is, "%s: %g us are drawn, %g are", class, drawn_us, is);
}

static double all_time(const struct svg_read *r)
{
    double us = 0;
    for (int64_t i = 0; i < r->n; i++)
        us += svg_number(&r->at[i], "data-us", 0);
    return us;
}

static void check_timeline(const struct plan *p, const struct heads *h, const struct machine *mc)
{
    struct time_model_coefs coefs = time_model_coefs_default();
    struct time_model c = time_model_plan(p, h, mc, &coefs, 0, CLOCK_TIMELINE);
    FREED char *text = NULL;
    size_t size;
    double is = 0;
    FILE *f = open_memstream(&text, &size);
    time_model_print_svg(f, &c, p, mc);
    ck_assert(fclose(f) == 0 && size < MOST_BYTES);
    CLEARED_BY(svg_read_clear) struct svg_read r = svg_read(text);
    svg_check_layout(&r);
    if (c.n_cta <= 200 && mc->sms <= 160) { /* else a cell may have some of both, and belongs to one */
        check_time(&r, &c, "cta", false);
        check_time(&r, &c, "merge", true);
    }
    for (int64_t i = 0; i < c.n_cta; i++)
        is += 1e6 * (c.cta[i].end - c.cta[i].start) / c.cta[i].resident;
    check_each(fabs(is - all_time(&r)) <= 1e-6 * is, "%s on %s: %g us are drawn, %g are", p->strategy,
               mc->name, all_time(&r), is);
    time_model_free(&c);
}

/* Machines of few SMs, of one more than there are rows, and of very many. */
TEST(every_timeline_is_drawn_as_it_is_timed)
{
    static const char *const names[] = {"h200", "h200:sms=3", "l40s:sms=161", "h100:sms=5000"};
    int64_t n = getenv("TREEATTN_QUICK") ? 4 : 20;
    for (int64_t i = 0; i < n; i++) {
        AUTO(tree) t = gen_tree(gen_family(22, i), gen_seed(22, i));
        AUTO(nform) nf = nform_new(t);
        struct machine mc;
        MUST(machine_parse, names[i % 4], &mc);
        for (int32_t s = 0; s < n_strategies; s++) {
            struct plan_env env = {.heads = settings[i % 3], .machine = &mc};
            struct strategy_use use = strategy_default(strategies[s]);
            char why[WHY_MAX];
            AUTO(plan) p = strategy_plan(&use, nf, &env, why);
            if (p)
                check_timeline(p, &env.heads, &mc);
        }
    }
}

/* ---- bytes ------------------------------------------------------------------------------------------------- */

static double all_bytes(const struct ledger *l)
{
    return (double)(l->kv + l->q + l->mask + ledger_scores(l) + ledger_partials(l) + l->out);
}

static char *drawn_bars(const struct bytes_bar *bar, int32_t n, double floor)
{
    char *text;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    bytes_print_svg(f, "a <tree>: all that plans read & write.", bar, n, floor);
    ck_assert(fclose(f) == 0);
    return text;
}

/* The sum of data-bytes. */
static double drawn_bytes(const struct svg_read *r)
{
    double sum = 0;
    for (int64_t i = 0; i < r->n; i++)
        if (svg_is(&r->at[i], "part"))
            sum += svg_number(&r->at[i], "data-bytes", NAN);
    return sum;
}

/* K and V of what any query sees, from the tree alone, and Q, O and LSE. */
static double floor_of(const struct tree *t, const struct heads *h)
{
    int64_t *seen = xcalloc((size_t)t->n_nodes, sizeof *seen),
            *context = xcalloc((size_t)t->n_queries, sizeof *context);
    double tokens = 0, elt = heads_elt_bytes(h), bytes = 0;
    tree_contexts(t, context);
    for (int32_t q = 0; q < t->n_queries; q++) {
        int32_t node = t->query[q].node;
        seen[node] = max_i64(seen[node], t->query[q].upto);
        for (int32_t i = t->parent[node]; i >= 0; i = t->parent[i])
            seen[i] = t->len[i];
        bytes += h->h_q * ((context[q] > 0) * h->d * elt + h->d * elt + heads_float_bytes(h));
    }
    for (int32_t i = 0; i < t->n_nodes; i++)
        tokens += (double)seen[i];
    free(seen);
    free(context);
    return bytes + tokens * 2 * h->h_kv * h->d * elt;
}

static void check_bars(const struct tree *t, const struct heads *h)
{
    AUTO(nform) nf = nform_new(t);
    struct bytes_bar *bar = xcalloc((size_t)n_strategies, sizeof *bar);
    char why[64][WHY_MAX];
    double floor = price_floor(nf, h), is = 0;
    ck_assert(n_strategies <= 64);
    check_each(floor == floor_of(t, h), "the floor is %g, not %g", floor_of(t, h), floor);
    for (int32_t s = 0; s < n_strategies; s++) {
        struct plan_env env = plan_env_default(*h);
        struct strategy_use use = strategy_default(strategies[s]);
        AUTO(plan) p = strategy_plan(&use, nf, &env, why[s]);
        struct ledger l = p ? ledger_of_plan(p, h) : (struct ledger){0};
        bar[s] = bytes_bar_of(strategies[s]->name, &l, 3);
        bar[s].why = p ? NULL : why[s];
        is += 3 * all_bytes(&l);
        check_each(!p || all_bytes(&l) >= floor, "%s: %g bytes are below the floor", p->strategy,
                   all_bytes(&l));
    }
    FREED char *text = drawn_bars(bar, n_strategies, 3 * floor);
    CLEARED_BY(svg_read_clear) struct svg_read r = svg_read(text);
    svg_check_layout(&r);
    check_each(drawn_bytes(&r) == is, "%g bytes are drawn, %g are", drawn_bytes(&r), is);
    free(bar);
}

TEST(bars_are_what_plans_move)
{
    int64_t n = getenv("TREEATTN_QUICK") ? QUICK_TREES : TREES;
    for (int64_t i = 0; i < n; i++) {
        AUTO(tree) t = gen_tree(gen_family(24, i), gen_seed(24, i));
        check_bars(t, &settings[i % 3]);
    }
}

/* No bytes, long names, reasons that do not fit, one bar a million times the others. */
TEST(bars_of_any_size)
{
    struct bytes_bar bar[] = {
        {.name = "naive", .part = {1e18, 2e17, 5, 0, 1}},
        {.name = "pat:rule=artifact,max_rows=64,split=1,block=32,and=so,on=and,so=on", .part = {1e6}},
        {.name = "<&>",
         .why = "it is a strategy that nobody has ever seen, and this reason is longer than a picture is "
                "wide, so that it cannot be shown at all in a line of it, however small"},
        {.name = "x", .part = {0}}};
    for (int32_t n = 0; n <= 4; n++) {
        FREED char *text = drawn_bars(bar + (n == 4 ? 0 : 4 - n), n, n == 2 ? 0 : 9e5);
        CLEARED_BY(svg_read_clear) struct svg_read r = svg_read(text);
        svg_check_layout(&r);
        ck_assert_int_eq(strstr(text, "white strokes") != NULL, n == 4);
    }
}

/* ---- merges ------------------------------------------------------------------------------------------------ */

/* The LSE that the words name is the oracle's; shares of all parts are one. */
static void check_merges(const struct plan *p, const struct problem *values, const struct oracle *exact,
                         int32_t query, int32_t head)
{
    FREED char *text = NULL;
    size_t size;
    double sum = 0, lost = 0, lse = exact->lse[(int64_t)query * values->heads.h_q + head], says = -INFINITY;
    FILE *f = open_memstream(&text, &size);
    plan_print_merges_svg(f, p, values, query, head);
    ck_assert(fclose(f) == 0 && size < MOST_BYTES);
    CLEARED_BY(svg_read_clear) struct svg_read r = svg_read(text);
    svg_check_layout(&r);
    for (int64_t i = 0; i < r.n; i++)
        if (svg_is(&r.at[i], "share"))
            sum += svg_number(&r.at[i], "data-share", NAN);
    const char *words = r.at[2].text, *many = strstr(words, "(their LSE - "), *one = strstr(words, "LSE is "),
               *rest = strstr(words, "together ");
    if (many)
        sscanf(many, "(their LSE - %lf", &says);
    if (one)
        sscanf(one, "LSE is %lf", &says);
    if (rest)
        sscanf(rest, "together %lf", &lost);
    check_each(isinf(lse) ? says == lse : fabs(says - lse) <= 1e-5 * fmax(1, fabs(lse)),
               "%s: LSE %g, exactly %g", p->strategy, says, lse);
    check_each(isinf(lse) || fabs(sum + lost / 100 - 1) < (rest ? 1e-3 : 1e-9), "%s: shares are %g",
               p->strategy, sum);
}

TEST(merges_add_up_to_the_oracle)
{
    int64_t n = getenv("TREEATTN_QUICK") ? QUICK_TREES : 40;
    for (int64_t i = 0; i < n; i++) {
        AUTO(tree) t = gen_tree(gen_family(25, i), gen_seed(25, i));
        const struct heads *h = &settings[i % 3];
        struct problem_spec spec = {.heads = *h,
                                    .page_size = 16,
                                    .scattered = true,
                                    .poison = true,
                                    .fill = i % 4 ? FILL_RANDOM : FILL_SUNK,
                                    .seed = 3};
        AUTO(nform) nf = nform_new(t);
        AUTO(problem) values = problem_new(t, &spec, NULL);
        AUTO(oracle) exact = oracle_new(values);
        for (int32_t s = 0; s < n_strategies && t->n_queries > 0; s++) {
            struct plan_env env = plan_env_default(*h);
            struct strategy_use use = strategy_default(strategies[s]);
            char why[WHY_MAX];
            AUTO(plan) p = strategy_plan(&use, nf, &env, why);
            for (int k = 0; k < 3 && p; k++)
                check_merges(p, values, exact, (int32_t)rng_below(25, (uint64_t)i, (uint64_t)k, t->n_queries),
                             (int32_t)rng_below(26, (uint64_t)i, (uint64_t)k, h->h_q));
        }
    }
}

/* More parts than are drawn, and steps of steps. */
TEST(many_merges_are_drawn)
{
    static const char *const names[] = {"deft-flatten:block=16", "cascade", "flash-decoding:chunk=32"};
    AUTO(tree) t = tree_new(30, 0);
    for (int32_t i = 0; i < 30; i++) {
        t->parent[i] = i - 1;
        t->len[i] = 40;
    }
    tree_query_leaves(t);
    t->query = xrealloc(t->query, 30, sizeof *t->query);
    t->n_queries = 30;
    for (int32_t q = 0; q < 30; q++)
        t->query[q] = (struct query){q, 40};
    struct problem_spec spec = {.heads = {8, 2, 64, DT_F16}, .page_size = 16, .seed = 3};
    struct plan_env env = plan_env_default(spec.heads);
    AUTO(nform) nf = nform_new(t);
    AUTO(problem) values = problem_new(t, &spec, NULL);
    AUTO(oracle) exact = oracle_new(values);
    for (int i = 0; i < 3; i++) {
        AUTO(plan) p = must_plan(names[i], nf, &env);
        check_merges(p, values, exact, 29, 7);
        check_merges(p, values, exact, 4, 0);
    }
}

/* ---- names from anywhere ---------------------------------------------------------------------------------- */

TEST(any_name_is_text)
{
    static const char *const names[] = {"<script>alert(\"1\")</script>",
                                        "a & b ]]> &amp; <!-- -->",
                                        "\x01\x02\x1b[31m\x7f",
                                        "\xff\xfe\xc0\x80 \xed\xa0\x80",
                                        "\xef\xbf\xbe \xef\xbf\xbf \xe6\xa8\xb9",
                                        "'\"><rect/>",
                                        "%s%n%d",
                                        ""};
    AUTO_WITH_TREE nf = nform_new(broad(3, 20));
    struct plan_env env = env_h200(8, 2);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        AUTO(plan) p = must_plan("pat", nf, &env);
        struct plan_flaw flaw = {.why = names[i], .pair = {.query = -1}};
        FREED char *longer = xasprintf("x%s%0900d%s", names[i], 0, names[i]);
        p->strategy = longer;
        free(p->note);
        p->note = xasprintf("%s, %s", names[i], longer);
        FREED char *text = drawn(p, &env.heads, &flaw);
        CLEARED_BY(svg_read_clear) struct svg_read r = svg_read(text);
        svg_check_layout(&r);
        ck_assert(!strstr(text, "<script") && !strstr(text, "<!--") && !strchr(text, 0x1b));
    }
    struct plan_flaw flaw = {.why = "1 < 2 & 3", .pair = {.query = -1}};
    AUTO(plan) p = must_plan("pat", nf, &env);
    FREED char *text = drawn(p, &env.heads, &flaw);
    ck_assert(strstr(text, "This plan is wrong: 1 &lt; 2 &amp; 3"));
}

/* ---- what is wrong ---------------------------------------------------------------------------------------- */

/* How often a query reads a token. */
static int64_t times_read(const struct plan *p, int32_t q, int32_t node, int64_t token)
{
    int64_t n = 0;
    for (const struct group *g = p->group; g < p->group + p->n_groups; g++)
        for (int32_t k = 0; k < g->nq; k++)
            for (int64_t r = g->run0; r < g->run1 && plan_query(p, g, k) == q; r++)
                n += p->run[r].node == node && p->run[r].begin <= token && token < p->run[r].end &&
                     plan_visible(p, g, k, r - g->run0);
    return n;
}

/* The pair is read as often as it must not be, and is red. */
static void check_wrong(const struct plan *p, const struct heads *h, int64_t *red)
{
    struct err e = {0};
    struct plan_flaw flaw = {.why = e.msg};
    ck_assert(!cover_check_pair(p, &flaw.pair, &e));
    if (!cover_structure(p, NULL))
        return;
    FREED char *text = drawn(p, h, &flaw);
    CLEARED_BY(svg_read_clear) struct svg_read r = svg_read(text);
    svg_check_layout(&r);
    ck_assert(strstr(text, "This plan is wrong: "));
    bool has = strstr(text, "class=\"wrong\"");
    ck_assert_int_eq(has, flaw.pair.query >= 0);
    if (!has)
        return;
    const struct run *x = &flaw.pair.run;
    int32_t q = flaw.pair.query;
    bool sees = q >= p->nf->q0[x->node] && q < p->nf->q1[x->node];
    ck_assert(x->begin < x->end);
    for (int64_t t = x->begin; t < x->end; t++)
        ck_assert_int_ne(times_read(p, q, x->node, t), sees);
    ++*red;
}

TEST(what_is_wrong_is_red)
{
    static const char *const kinds[] = {"run_end",       "run_doubled", "group_dropped",
                                        "group_doubled", "mask_shown",  "mask_hidden"};
    int64_t red = 0;
    for (int32_t shape = 0; shape < 3; shape++) {
        struct fault_tree *ground = fault_tree_new(shape, 5, kernel_find("cpu"));
        for (int32_t s = 0; s < n_strategies; s++) {
            struct strategy_use use = strategy_default(strategies[s]);
            CLEARED(fault_case) fc;
            struct result sound;
            if (!fault_case_new(ground, &use, kernel_find("cpu"), &fc, &sound))
                continue;
            for (uint64_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
                struct broken b = {.seed = k};
                const struct fault *f = fault_find(kinds[k]);
                if (f && f->plant(&fc, &b) && b.plan)
                    check_wrong(b.plan, &fc.problem->heads, &red);
                broken_clear(&b);
            }
        }
        fault_tree_free(ground);
    }
    ck_assert_int_ge(red, 60);
}

/* ---- the grid --------------------------------------------------------------------------------------------- */

/* Rectangles cover the cells that have anything once, and keep all that was added. */
TEST(rectangles_keep_the_sum)
{
    for (uint64_t seed = 0; seed < 200; seed++) {
        double x[11], y[8], added = 0, kept = 0;
        for (int i = 0; i < 11; i++)
            x[i] = i == 0 ? 0 : x[i - 1] + (double)(1 + rng_below(seed, 1, (uint64_t)i, 5));
        for (int i = 0; i < 8; i++)
            y[i] = 2.0 * i;
        struct raster r = raster_new(10, x, 7, y);
        int8_t seen[7][10] = {{0}};
        for (int64_t owner = 0; owner < 6; owner++) {
            double x0 = (double)rng_below(seed, 2, (uint64_t)owner, 10),
                   y0 = (double)rng_below(seed, 3, (uint64_t)owner, 13);
            double x1 = fmin(x[10], x0 + 7), y1 = fmin(14, y0 + 5);
            raster_add(&r, owner, x0, x1, y0, y1);
            added += (x1 - x0) * (y1 - y0);
        }
        int64_t n;
        FREED struct raster_rect *rect = raster_rects(&r, &n);
        for (int64_t i = 0; i < n; i++) {
            kept += rect[i].sum;
            for (int32_t row = rect[i].r0; row < rect[i].r1; row++)
                for (int32_t col = rect[i].c0; col < rect[i].c1; col++) {
                    ck_assert_int_eq(seen[row][col]++, 0);
                    ck_assert_int_eq(r.cell[row * 10 + col].owner, rect[i].owner);
                }
        }
        ck_assert_double_eq_tol(kept, added, 1e-9);
        raster_free(&r);
    }
}
