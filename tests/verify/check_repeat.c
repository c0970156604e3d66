/* check_repeat.c - small cases run again, changed in place: a kernel that keeps something is seen, and nothing else changes. */
#include "tests/verify/stateful.h"
#include "verify/cases/random_cases.h"
#include "verify/judge/judge.h"
#include "verify/judge/outside.h"
#include "verify/judge/repeat.h"

#include "tests/auto.h"
#include "tests/shared.h"
#include "tests/suites.h"

AUTO_FREE(test_case, test_case, test_case_free)

static struct case_spec parse(const char *text)
{
    struct case_spec c;
    struct err e = {0};
    ck_assert_msg(case_parse(text, &c, &e), "%s", e.msg);
    return c;
}

static struct result judged(const struct case_spec *c, const struct kernel *k)
{
    AUTO(test_case) b = MUST(test_case_new, c, NULL);
    return judge_case(b, &c->use, k);
}

/* ---- kernels that keep something ------------------------------------------------------------------------ */

/* Merges, several heads, nodes of different lengths. */
static const char *const plain =
    "tree=levels:1,3,6_70,33,5;heads=4/2;d=32;dtype=f32;page=8;poison=0;strategy=pat";

TEST(what_a_kernel_keeps_is_seen)
{
    static const struct {
        const char *name, *cause;
    } known[] = {{"faulty-keeps_answer", "the answer of an earlier run"},
                 {"faulty-keeps_q", "Q of an earlier run"},
                 {"faulty-keeps_k", "K of an earlier run"},
                 {"faulty-keeps_v", "V of an earlier run"},
                 {"faulty-keeps_pages", "the page table of an earlier run"},
                 {"faulty-sums_left", ""}};
    size_t seen = 0;
    CLEARED_BY(case_clear) struct case_spec c = parse(plain);
    for (int32_t i = 0; i < n_stateful; i++) {
        struct result r = judged(&c, &stateful[i]);
        bool alone = stateful_shows_alone(&stateful[i]);
        ck_assert_msg((r.verdict == V_FAIL) == alone, "%s: %s", stateful[i].name, r.why);
        ck_assert_int_eq(r.stage, alone ? STAGE_REPEAT : STAGE_NONE);
        for (size_t j = 0; j < sizeof known / sizeof known[0]; j++)
            if (strcmp(known[j].name, stateful[i].name) == 0) {
                ck_assert_msg(known[j].cause[0] ? strstr(r.cause.text, known[j].cause) != NULL : !r.cause.text[0],
                              "%s: %s", known[j].name, r.cause.text);
                seen++;
            }
    }
    ck_assert_uint_eq(seen, sizeof known / sizeof known[0]);
}

/* Which change shows it: the sentence says what differed. */
TEST(the_sentence_names_the_change)
{
    CLEARED_BY(case_clear) struct case_spec c = parse(plain);
    char text[RESULT_SENTENCE];
    for (int32_t i = 0; i < n_stateful; i++) {
        bool lengths = strcmp(stateful[i].name, "faulty-keeps_lengths") == 0;
        if (!lengths && strcmp(stateful[i].name, "faulty-keeps_k") != 0)
            continue;
        struct result r = judged(&c, &stateful[i]);
        result_sentence(&r, text);
        const char *says = lengths ? "again with other lengths," : "again with the same plan,";
        ck_assert_msg(strncmp(text, says, strlen(says)) == 0, "%s", text);
    }
}

static int64_t calls;

/* Right twice, then it writes where it may not. */
static bool run_and_write(const struct problem *p, const struct plan *plan, struct output *out,
                          struct ledger *counted, struct err *e)
{
    bool ran = kernels[0]->run(p, plan, out, counted, e);
    if (++calls == 3)
        memset(p->k, 1, 64);
    return ran;
}

TEST(a_later_run_is_guarded)
{
    static const struct kernel mine = {.name = "late", .run = run_and_write};
    CLEARED_BY(case_clear) struct case_spec c = parse(plain);
    AUTO(test_case) b = MUST(test_case_new, &c, NULL);
    calls = 0;
    struct result r = judge_case(b, &c.use, &mine);
    ck_assert_msg(r.verdict == V_FAIL && r.stage == STAGE_REPEAT && strstr(r.why, "kernel: wrote to K"), "%s",
                  r.why);
    ck_assert_int_eq(calls, 3);
    ck_assert_ptr_null(guarded_change(&b->inputs, b->p));
    ck_assert_int_eq(judge_case(b, &c.use, kernels[0]).verdict, V_PASS);
}

/* An answer that is grossly wrong on other contents: always, or only after a run on the first ones. */
static struct {
    bool by_itself, asked;
    float first;
} spoiled;

static enum run_end attend_first(const struct kernel *k, const struct question *ask, struct output *out,
                                 struct err *why)
{
    (void)k;
    const struct problem *p = ask->p;
    struct nform *nf = nform_new(p->tree);
    struct strategy_use use = strategy_of("flash-decoding");
    struct plan_env env = plan_env_default(p->heads);
    struct ledger counted = {0};
    char reason[WHY_MAX];
    struct plan *plan = strategy_plan(&use, nf, &env, reason);
    ck_assert_msg(plan && kernels[0]->run(p, plan, out, &counted, why), "%s", why->msg);
    float now = ((const float *)p->q)[0];
    if (!spoiled.asked)
        spoiled.first = now;
    spoiled.asked = true;
    if (now != spoiled.first && (spoiled.by_itself || !ask->fresh))
        ((float *)out->o)[1] += 3;
    plan_free(plan);
    nform_free(nf);
    return RUN_DONE;
}

/* Who is wrong in a fresh process, too, keeps nothing: its numbers are to blame, not its state. */
LOOP_TEST(a_fresh_process_tells_state_from_numbers, 2)
{
    static const struct kernel_arithmetic single = {
        .accumulate = DT_F32, .probability = DT_F32, .partial_o = DT_F32, .merge_chain = 64};
    static const struct kernel mine = {
        .name = "first", .attend = attend_first, .declared = &single, .lse_unit = 1, .view = "tree"};
    CLEARED_BY(case_clear) struct case_spec c = parse(plain);
    AUTO(test_case) b = MUST(test_case_new, &c, NULL);
    struct result r;
    spoiled.by_itself = _i == 1;
    spoiled.asked = false;
    ck_assert_int_eq(outside_points(b, &mine, &c.use, 1, false, &r), 1);
    ck_assert_msg(r.verdict == V_FAIL && r.stage == STAGE_REPEAT, "%s", r.why);
    ck_assert(result_is_gross(&r));
    ck_assert_msg((strcmp(result_code(&r), "STATE") == 0) == (_i == 0), "%s", result_code(&r));
}

/* ---- what is changed ------------------------------------------------------------------------------------- */

static int64_t pages_of(const struct tree *t, int32_t page)
{
    int64_t n = 0;
    for (int32_t i = 0; i < t->n_nodes; i++)
        n += ceil_div(t->len[i], page);
    return n;
}

/* Tokens, pages and addresses are those of before; lengths or contents are not. Then all is as it was. */
static void check_changes(const struct test_case *b, int64_t seen[N_REPEAT_CHANGES])
{
    const struct problem *p = b->p;
    struct problem was = *p;
    struct tree *before = tree_copy(b->tree);
    for (enum repeat_change i = REPEAT_CONTENTS; i < N_REPEAT_CHANGES; i++) {
        if (!repeat_make(b->repeat, i))
            continue;
        seen[i]++;
        ck_assert(memcmp(&was, p, sizeof was) == 0 && tree_check(b->tree, NULL));
        bool same = memcmp(before->len, b->tree->len, (size_t)before->n_nodes * sizeof *before->len) == 0;
        ck_assert(same == (i == REPEAT_CONTENTS));
        if (tree_tokens(before) > 0 && before->n_queries > 0)
            ck_assert_ptr_nonnull(guarded_change(&b->inputs, p));
        ck_assert_int_eq(tree_tokens(before), tree_tokens(b->tree));
        ck_assert_int_eq(pages_of(before, p->page_size), pages_of(b->tree, p->page_size));
        ck_assert_ptr_null(guarded_change(repeat_inputs(b->repeat), p));
        for (int32_t n = 0; n < before->n_nodes && b->c->aligned; n++)
            if (before->len[n] % p->page_size == 0 && n + 1 < before->n_nodes && before->parent[n + 1] == n)
                ck_assert_int_eq(b->tree->len[n] % p->page_size, 0);
    }
    repeat_make(b->repeat, REPEAT_AS_WAS);
    ck_assert_ptr_null(guarded_change(&b->inputs, p));
    ck_assert(memcmp(before->query, b->tree->query, (size_t)before->n_queries * sizeof *before->query) == 0);
    ck_assert(memcmp(before->len, b->tree->len, (size_t)before->n_nodes * sizeof *before->len) == 0);
    tree_free(before);
}

TEST(changes_keep_counts_and_addresses)
{
    int64_t seen[N_REPEAT_CHANGES] = {0}, small = 0, aligned = 0;
    int64_t n;
    struct case_spec *list = sharp_cases(&n);
    for (int64_t i = 0; i < n; i++) {
        AUTO(test_case) b = test_case_new(&list[i], NULL, NULL);
        if (b && b->repeat) {
            small++;
            aligned += b->c->aligned;
            check_changes(b, seen);
        }
        case_clear(&list[i]);
    }
    free(list);
    ck_assert_msg(small >= 60 && aligned >= 10, "%d small, %d aligned", (int)small, (int)aligned);
    ck_assert_int_eq(seen[REPEAT_CONTENTS], small);
    ck_assert_msg(seen[REPEAT_LENGTHS] >= small * 3 / 4, "%d of %d", (int)seen[REPEAT_LENGTHS], (int)small);
}

TEST(large_cases_run_once)
{
    static const char *const large[] = {"tree=levels:1,30_200,50;heads=4/2",
                                        "tree=levels:1_3;heads=1/1;pool=500000"};
    for (size_t i = 0; i < sizeof large / sizeof large[0]; i++) {
        CLEARED_BY(case_clear) struct case_spec c = parse(large[i]);
        AUTO(test_case) b = MUST(test_case_new, &c, NULL);
        ck_assert_ptr_null(b->repeat);
    }
}

/* Of one node there are no other lengths; of two as long, some tokens move. */
TEST(lengths_that_can_be_others)
{
    static const struct {
        const char *text;
        bool can;
    } all[] = {{"tree=levels:1_30", false},
               {"tree=levels:1,2_16,16", true},
               {"tree=levels:1,2_16,1;page=16", true},
               {"tree=levels:1,2_16,1;page=16;aligned=1", false},
               {"tree=levels:1,2_16,7;page=16;aligned=1", true}};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        CLEARED_BY(case_clear) struct case_spec c = parse(all[i].text);
        AUTO(test_case) b = MUST(test_case_new, &c, NULL);
        ck_assert_ptr_nonnull(b->repeat);
        ck_assert_msg(repeat_make(b->repeat, REPEAT_LENGTHS) == all[i].can, "%s", all[i].text);
    }
}
