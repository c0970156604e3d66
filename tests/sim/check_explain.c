/* check_explain.c - plan --explain: each line is the product it says it is, and all of them are the ledger. */
#include "sim/plan_explain.h"

#include "sim/plan_ledger.h"
#include "sim/strategy.h"
#include "tests/auto.h"
#include "tests/suites.h"
#include "traces/formats/formats.h"

#include <ctype.h>
#include <inttypes.h>

enum { TREES = 200, QUICK_TREES = 20 };

static const struct heads settings[] = {
    {8, 2, 64, DT_F16}, {4, 4, 16, DT_F32}, {6, 1, 8, DT_F64}, {32, 8, 128, DT_BF16}};

/* ---- arithmetic in words ---------------------------------------------------------------------------------- */

/*
 *   sum      product {("-" | "+") product}
 *   product  factor {("x" | "/") factor}     / rounds up
 *   factor   (number | "(" sum ")") {words}  words: anything else, and parentheses without a number
 */
static int64_t sum_of(const char **at);

static void skip_words(const char **at)
{
    for (;;) {
        const char *s = *at + strspn(*at, " ,");
        const char *end = *s == '(' ? s + strcspn(s, ")") + 1 : s + strcspn(s, " ,()");
        bool number = false;
        for (const char *c = s; c < end; c++)
            number |= isdigit((unsigned char)*c);
        *at = s;
        if (end == s || number || (end == s + 1 && strchr("x/+-)", *s)))
            return;
        *at = end;
    }
}

static int64_t factor_of(const char **at)
{
    int64_t x;
    *at += strspn(*at, " ");
    if (**at == '(') {
        ++*at;
        x = sum_of(at);
        check_each(**at == ')', "no ')' at '%s'", *at);
        ++*at;
    } else {
        char *end;
        check_each(isdigit((unsigned char)**at), "no number at '%s'", *at);
        x = strtoll(*at, &end, 10);
        *at = end;
    }
    skip_words(at);
    return x;
}

static int64_t product_of(const char **at)
{
    int64_t x = factor_of(at);
    while (**at == 'x' || **at == '/') {
        bool times = *(*at)++ == 'x';
        int64_t y = factor_of(at);
        x = times ? x * y : ceil_div(x, y);
    }
    return x;
}

static int64_t sum_of(const char **at)
{
    int64_t x = product_of(at);
    while (**at == '-' || **at == '+') {
        bool plus = *(*at)++ == '+';
        int64_t y = product_of(at);
        x += plus ? y : -y;
    }
    return x;
}

/* "65,536 B" */
static int64_t result_of(const char *s)
{
    int64_t x = 0;
    for (; isdigit((unsigned char)*s) || *s == ','; s++)
        x = *s == ',' ? x : 10 * x + (*s - '0');
    return x;
}

TEST(words_are_read_as_arithmetic)
{
    static const struct {
        const char *text;
        int64_t is;
    } cases[] = {{"64 tokens x 2 (K, V) x 128 numbers", 64 * 2 * 128},
                 {"(6 queries / 64 a word, rounded up) x 8 B", 8},
                 {"(128 numbers x 4 B + 1 LSE x 4 B)", 516},
                 {"100 tokens / 16 a tile, rounded up", 7},
                 {"(32 rows x 16 tokens of all tiles - 4 rows x 10 tokens) x 2 (QK, PV)", 944}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *at = cases[i].text;
        ck_assert_int_eq(sum_of(&at), cases[i].is);
        ck_assert(!*at);
    }
    ck_assert_int_eq(result_of("1,065,536 B"), 1065536);
}

/* ---- the text ---------------------------------------------------------------------------------------------- */

/* X(what a line is called, what the ledger has) */
#define LINES(X)                                                                                             \
    X("K and V read", l->kv)                                                                                 \
    X("Q read", l->q)                                                                                        \
    X("masks read", l->mask)                                                                                 \
    X("scores written and read", ledger_scores(l))                                                           \
    X("partial results written", l->partial_o_write + l->partial_w_write)                                    \
    X("partial results read", l->partial_o_read + l->partial_w_read)                                         \
    X("output written", l->out)                                                                              \
    X("multiply-adds that count", l->mac_useful)                                                             \
    X("multiply-adds that masks hide", l->mac_masked)                                                        \
    X("multiply-adds of padding", l->mac_padded)                                                             \
    X("padded rows", l->pad_rows)                                                                            \
    X("padded tokens", l->pad_tokens)

enum {
#define X(what, field) +1
    N_LINES = 0 LINES(X)
#undef X
};

static int line_of(const char *what)
{
    static const char *const names[] = {
#define X(name, field) name,
        LINES(X)
#undef X
    };
    for (int i = 0; i < N_LINES; i++)
        if (strcmp(what, names[i]) == 0)
            return i;
    return -1;
}

/* Sums of the lines of groups and merges, and what stands below "in all". */
struct explained {
    int64_t sum[N_LINES], all[N_LINES];
    int64_t groups;
};

static void read_line(struct explained *x, char *line, bool in_all)
{
    char *colon = strstr(line, ": "), *equals = strstr(line, " = ");
    if (strncmp(line, "  ", 2) != 0 || !colon)
        return;
    *colon = 0;
    int i = line_of(line + 2);
    const char *at = colon + 2;
    if (in_all) {
        check_each(i >= 0 || strcmp(line + 2, "launches") == 0, "'%s' is no line", line);
        if (i >= 0)
            x->all[i] = result_of(at);
        return;
    }
    check_each(equals, "no result: %s", at);
    *equals = 0;
    int64_t is = result_of(equals + 3), says = sum_of(&at);
    check_each(!*at && is == says, "%s: is %" PRId64 ", says %" PRId64 " (%s)", line, says, is, colon + 2);
    if (i >= 0)
        x->sum[i] += is;
}

static struct explained explained_of(const struct plan *p, const struct heads *h)
{
    struct explained x = {.groups = 0};
    FREED char *text;
    size_t size;
    bool in_all = false;
    FILE *f = open_memstream(&text, &size);
    plan_print_explain(f, p, h);
    fclose(f);
    for (char *line = text, *end; (end = strchr(line, '\n')); line = end + 1) {
        *end = 0;
        x.groups += strncmp(line, "group ", 6) == 0;
        in_all |= strcmp(line, "in all") == 0;
        read_line(&x, line, in_all);
    }
    return x;
}

static void check_plan_of(const struct plan *p, const struct heads *h)
{
    struct ledger priced = ledger_of_plan(p, h), *l = &priced;
    struct explained x = explained_of(p, h);
    const int64_t is[] = {
#define X(name, field) field,
        LINES(X)
#undef X
    };
    ck_assert_int_eq(x.groups, p->n_groups);
    for (int i = 0; i < N_LINES; i++) {
        check_each(x.sum[i] == is[i], "%s, line %d: %" PRId64 " of %" PRId64, p->strategy, i, x.sum[i],
                   is[i]);
        check_each(x.all[i] == is[i], "%s, total %d: %" PRId64 " of %" PRId64, p->strategy, i, x.all[i],
                   is[i]);
    }
}

TEST(all_lines_are_the_ledger)
{
    int64_t n = getenv("TREEATTN_QUICK") ? QUICK_TREES : TREES,
            *ran = xcalloc((size_t)n_strategies, sizeof *ran);
    for (int64_t i = 0; i < n; i++) {
        AUTO(tree) t = gen_tree(gen_family(23, i), gen_seed(23, i));
        AUTO(nform) nf = nform_new(t);
        for (int32_t s = 0; s < n_strategies; s++) {
            struct plan_env env = plan_env_default(settings[i % 4]);
            struct strategy_use use = strategy_default(strategies[s]);
            char why[WHY_MAX];
            AUTO(plan) p = strategy_plan(&use, nf, &env, why);
            if (!p)
                continue;
            check_plan_of(p, &env.heads);
            ran[s]++;
        }
    }
    for (int32_t s = 0; s < n_strategies; s++)
        ck_assert_msg(ran[s] > 0, "%s ran on no tree", strategies[s]->name);
    free(ran);
}
