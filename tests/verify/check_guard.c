/* check_guard.c - a kernel of somebody's that breaks its word: who is blamed, and that nobody else suffers. */
#include "verify/faults/faults.h"
#include "verify/io/crash.h"
#include "verify/cases/random_cases.h"
#include "verify/judge/judge.h"
#include "verify/judge/shrink.h"

#include "tests/auto.h"
#include "tests/shared.h"
#include "tests/suites.h"

#include <fenv.h>
#include <malloc.h>
#include <math.h>
#include <omp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

AUTO_FREE(test_case, test_case, test_case_free)

static const char *const plain = "tree=levels:1,3,6_70,33,5;heads=4/2;d=32;dtype=f32;page=16;strategy=pat";

/* ---- kernels that break their word ---------------------------------------------------------------------- */

enum spot {
    SPOT_Q,
    SPOT_K,
    SPOT_K_TURNED, /* every number of it, as by a kernel that wants the other sign */
    SPOT_V_BEHIND, /* behind a node's last token, where a tile ends */
    SPOT_PAGE,
    SPOT_PAGE_AWAY,
    SPOT_SCALE, /* as by a kernel that works in base 2 */
    SPOT_POINTER,
    SPOT_LEN,
    SPOT_QUERY,
    SPOT_ORIG,
    SPOT_NF_LEN,
    SPOT_RUN,
    SPOT_TILE,
    SPOT_BEFORE_O,
    SPOT_BEHIND_O,
    SPOT_BEFORE_LSE,
    SPOT_BEHIND_LSE,
    N_SPOTS
};
static const char *const blame[N_SPOTS] = {"wrote to Q",
                                           "wrote to K",
                                           "wrote to K",
                                           "wrote to V",
                                           "wrote to the page table",
                                           "wrote to the page table",
                                           "wrote to the problem's numbers or pointers",
                                           "wrote to the problem's numbers or pointers",
                                           "wrote to the tree",
                                           "wrote to the tree",
                                           "wrote to the normal form",
                                           "wrote to the normal form",
                                           "wrote to the plan",
                                           "wrote to the plan",
                                           "wrote before O",
                                           "wrote behind O",
                                           "wrote before LSE",
                                           "wrote behind LSE"};
static enum spot spot;

static void overwrite(const struct problem *p, const struct plan *plan, struct output *out)
{
    struct problem *mine = (struct problem *)p;
    float *k = p->k, *v = p->v, *o = out->o, *lse = out->lse;
    switch (spot) {
    case SPOT_Q:
        ((float *)p->q)[(int64_t)p->tree->n_queries * p->heads.h_q * p->heads.d - 1] *= 2;
        break;
    case SPOT_K:
        k[problem_slot(p, 1, 32) * p->heads.h_kv * p->heads.d] += 1;
        break;
    case SPOT_K_TURNED:
        for (int64_t i = 0; i < p->n_pages * p->page_size * p->heads.h_kv * p->heads.d; i++)
            k[i] = -k[i];
        break;
    case SPOT_V_BEHIND:
        v[(problem_slot(p, 1, 32) + 1) * p->heads.h_kv * p->heads.d] = 0;
        break;
    case SPOT_PAGE:
        p->page_table[0] = p->page_table[1];
        break;
    case SPOT_PAGE_AWAY:
        p->page_table[0] = -1000000;
        break;
    case SPOT_SCALE:
        mine->scale *= 1.4427;
        break;
    case SPOT_POINTER:
        mine->v = mine->k;
        break;
    case SPOT_LEN:
        p->tree->len[1]++;
        break;
    case SPOT_QUERY:
        p->tree->query[0].upto--;
        break;
    case SPOT_ORIG:
        plan->nf->orig[0] = plan->nf->orig[1];
        break;
    case SPOT_NF_LEN:
        plan->nf->len[0]++;
        break;
    case SPOT_RUN:
        plan->run[0].end--;
        break;
    case SPOT_TILE:
        plan->group[0].tile_m++;
        break;
    case SPOT_BEFORE_O:
        o[-1] += 1;
        break;
    case SPOT_BEHIND_O:
        o[out->n_rows * out->d] = 0;
        break;
    case SPOT_BEFORE_LSE:
        lse[-100] = 0;
        break;
    default:
        lse[out->n_rows] += 1;
    }
}

static bool run_and_overwrite(const struct problem *p, const struct plan *plan, struct output *out,
                              struct ledger *counted, struct err *e)
{
    bool good = kernels[0]->run(p, plan, out, counted, e);
    overwrite(p, plan, out);
    return good;
}

static bool run_and_round(const struct problem *p, const struct plan *plan, struct output *out,
                          struct ledger *counted, struct err *e)
{
    bool good = kernels[0]->run(p, plan, out, counted, e);
    fesetround(FE_DOWNWARD);
    return good;
}

static int64_t more_kv, more_q; /* than there is */

static bool run_and_count(const struct problem *p, const struct plan *plan, struct output *out,
                          struct ledger *counted, struct err *e)
{
    bool good = kernels[0]->run(p, plan, out, counted, e);
    counted->kv += more_kv;
    counted->q += more_q;
    return good;
}

static bool run_in_silence(const struct problem *p, const struct plan *plan, struct output *out,
                           struct ledger *counted, struct err *e)
{
    (void)p, (void)plan, (void)out, (void)counted, (void)e;
    return false;
}

static bool succeed_with_an_error(const struct problem *p, const struct plan *plan, struct output *out,
                                  struct ledger *counted, struct err *e)
{
    err_set(e, "page 7 is none");
    return kernels[0]->run(p, plan, out, counted, NULL);
}

static bool refuse_in_silence(const struct problem *p, const struct plan *plan, char *why)
{
    (void)p, (void)plan, (void)why;
    return false;
}

static struct test_case *bench(struct case_spec *c, const char *text)
{
    struct err e = {0};
    ck_assert_msg(case_parse(text, c, &e), "%s: %s", text, e.msg);
    struct test_case *b = test_case_new(c, NULL, &e);
    ck_assert_msg(b != NULL, "%s", e.msg);
    return b;
}

/* ---- tests ---------------------------------------------------------------------------------------------- */

LOOP_TEST(who_overwrites_is_named, N_SPOTS)
{
    struct kernel mine = {.name = "mine", .run = run_and_overwrite};
    CLEARED_BY(case_clear) struct case_spec c;
    AUTO(test_case) b = bench(&c, plain);
    spot = (enum spot)_i;
    struct result r = judge_case(b, &c.use, &mine);
    ck_assert_int_eq(r.verdict, V_FAIL);
    ck_assert_int_eq(r.stage, STAGE_KERNEL);
    ck_assert_str_eq(r.why, blame[_i]);
    r = judge_case(b, &c.use, kernels[0]);
    ck_assert_msg(r.verdict == V_PASS, "the next kernel: %s", r.why);
}

static int in_fp8; /* what is overwritten: a scale of K, of V, the last byte of a K */

static bool run_and_overwrite_fp8(const struct problem *p, const struct plan *plan, struct output *out,
                                  struct ledger *counted, struct err *e)
{
    bool good = kernels[0]->run(p, plan, out, counted, e);
    if (in_fp8 < 2)
        (in_fp8 ? p->v_scale : p->k_scale)[p->heads.h_kv - 1] *= 2;
    else
        ((uint8_t *)p->k)[(problem_slot(p, 1, 32) + 1) * p->heads.h_kv * p->heads.d - 1] ^= 0x80;
    return good;
}

LOOP_TEST(who_overwrites_fp8_is_named, 3)
{
    struct kernel mine = {.name = "mine", .features = FEATURES_FP8, .run = run_and_overwrite_fp8};
    CLEARED_BY(case_clear) struct case_spec c;
    FREED char *text = xasprintf("%s;kv=e4m3;headscales=1", plain);
    AUTO(test_case) b = bench(&c, text);
    in_fp8 = _i;
    struct result r = judge_case(b, &c.use, &mine);
    ck_assert_msg(r.verdict == V_FAIL && r.stage == STAGE_KERNEL, "%s", r.why);
    ck_assert_str_eq(r.why, _i < 2 ? "wrote to the scales of K and V" : "wrote to K");
    r = judge_case(b, &c.use, kernels[0]);
    ck_assert_msg(r.verdict == V_PASS, "the next kernel: %s", r.why);
}

/* Nor does the next kernel compute with it. */
TEST(who_rounds_otherwise_is_named)
{
    struct kernel mine = {.name = "mine", .run = run_and_round};
    CLEARED_BY(case_clear) struct case_spec c;
    AUTO(test_case) b = bench(&c, plain);
    struct result r = judge_case(b, &c.use, &mine);
    ck_assert_int_eq(r.verdict, V_FAIL);
    ck_assert_int_eq(r.stage, STAGE_KERNEL);
    ck_assert_str_eq(r.why, "left another rounding mode, or numbers next to 0 as 0");
    ck_assert_int_eq(fegetround(), FE_TONEAREST);
}

/* All of them, as they are. */
TEST(counts_are_those_of_the_plan)
{
    struct kernel mine = {.name = "mine", .run = run_and_count};
    CLEARED_BY(case_clear) struct case_spec c;
    AUTO(test_case) b = bench(&c, plain);
    more_kv = more_q = 0;
    struct result r = judge_case(b, &c.use, &mine);
    ck_assert_msg(r.verdict == V_PASS, "%s", r.why);
    more_kv = 1;
    r = judge_case(b, &c.use, &mine);
    ck_assert_msg(r.stage == STAGE_KERNEL && strncmp(r.why, "counted ", 8) == 0, "%s", r.why);
    ck_assert_msg(strstr(r.why, "for \"K and V read\", the plan has "), "%s", r.why);
    more_kv = 0;
    more_q = -r.ledger.q; /* forgotten */
    ck_assert_int_lt(more_q, 0);
    r = judge_case(b, &c.use, &mine);
    ck_assert_msg(r.verdict == V_FAIL && strstr(r.why, "counted 0 for \"Q read\""), "%s", r.why);
}

static bool not_ready(struct err *e)
{
    e->code = EXIT_MISSING;
    strcpy(e->msg, "no accelerator");
    return false;
}

static bool not_ready_in_silence(struct err *e)
{
    (void)e;
    return false;
}

TEST(what_is_not_ready_says_why)
{
    struct kernel mine = {.name = "mine", .ready = not_ready};
    struct err e = {0};
    ck_assert(!kernel_ready(&mine, NULL)); /* the kernel gets a place for it all the same */
    ck_assert(!kernel_ready(&mine, &e) && e.code == EXIT_MISSING);
    ck_assert_str_eq(e.msg, "no accelerator");
    mine.ready = not_ready_in_silence;
    e = (struct err){0};
    ck_assert(!kernel_ready(&mine, &e) && e.code == EXIT_MISSING);
    ck_assert_str_eq(e.msg, "kernel mine is not ready, without a reason given");
    mine.ready = NULL;
    ck_assert(kernel_ready(&mine, NULL));
}

/* A pool of untouched pages stays untouched: the sum reads what has tokens, and where pages without any begin. */
TEST(sums_are_of_what_somebody_may_read)
{
    CLEARED_BY(case_clear) struct case_spec c;
    AUTO(test_case) b = bench(&c, "tree=levels:1,3_40,40;d=16;page=4096;poison=0;scatter=0;strategy=pat");
    struct guarded before = guarded_inputs(b->p);
    uint16_t *k = b->p->k;
    int64_t slot = b->p->heads.h_kv * b->p->heads.d;
    k[4000 * slot] ^= 1;
    ck_assert(!guarded_change(&before, b->p));
    k[100 * slot] ^= 1;
    ck_assert_str_eq(guarded_change(&before, b->p), "K");
}

/* Pages that no node has are somebody else's. */
TEST(pages_of_others_are_watched)
{
    for (int poison = 0; poison < 2; poison++) {
        CLEARED_BY(case_clear) struct case_spec c;
        AUTO(test_case) b = bench(&c, poison ? "tree=levels:1,3_40,40;d=16;page=16;poison=1;strategy=pat"
                                             : "tree=levels:1,3_40,40;d=16;page=16;poison=0;strategy=pat");
        struct problem *p = b->p;
        struct guarded before = guarded_inputs(p);
        int64_t n = p->page_off[p->tree->n_nodes], slot = p->heads.h_kv * p->heads.d, others = 0;
        for (int64_t page = 0; page < p->n_pages; page++) {
            bool held = false;
            for (int64_t i = 0; i < n; i++)
                held = held || p->page_table[i] == page;
            if (held)
                continue;
            uint16_t *v = (uint16_t *)p->v + (page * p->page_size + 5) * slot;
            *v ^= 1;
            ck_assert_str_eq(guarded_change(&before, p), "V");
            *v ^= 1;
            others++;
        }
        ck_assert_int_gt(others, 0);
        ck_assert(!guarded_change(&before, p));
    }
}

/* On the plain case, by this verdict for this reason. */
static void ends_with(const struct kernel *k, enum verdict verdict, const char *why)
{
    CLEARED_BY(case_clear) struct case_spec c;
    AUTO(test_case) b = bench(&c, plain);
    struct result r = judge_case(b, &c.use, k);
    char text[RESULT_SENTENCE];
    ck_assert_int_eq(r.verdict, verdict);
    ck_assert_str_eq(result_sentence(&r, text), why);
}

TEST(silence_is_told)
{
    struct kernel mine = {.name = "mine", .run = run_in_silence};
    ends_with(&mine, V_FAIL, "kernel: failed without saying why");
    mine.supports = refuse_in_silence;
    ends_with(&mine, V_SKIP, "not supported, without a reason given");
}

TEST(errors_count_whatever_is_returned)
{
    struct kernel mine = {.name = "mine", .run = succeed_with_an_error};
    ends_with(&mine, V_FAIL, "kernel: returned true, but said: page 7 is none");
}

static bool refuse_in_lines(const struct problem *p, const struct plan *plan, char *why)
{
    (void)p, (void)plan;
    strcpy(why, "a\tb\nc\rd");
    return false;
}

/* A kernel may say what it likes: lines and tabs are the tables'. */
TEST(a_reason_stays_in_its_cell)
{
    struct kernel mine = {.name = "mine", .supports = refuse_in_lines, .run = kernels[0]->run};
    ends_with(&mine, V_SKIP, "a b c d");
}

/* Without `supports`, as verify has it; and what is overwritten there is an alarm. */
TEST(faults_are_planted_with_any_kernel)
{
    struct kernel mine = {.name = "mine", .run = kernels[0]->run};
    struct strategy_use use;
    ck_assert(strategy_parse("flash-attention", &use, NULL));
    struct fault_report *r = faults_run(&use, 1, &mine, 1, NULL, NULL);
    ck_assert(r->cases > 0 && r->alarms == 0);
    fault_report_free(r);
    struct fault_tree *g = fault_tree_new(0, 1, &mine);
    struct fault_case fc;
    struct result sound;
    mine.run = run_and_overwrite;
    spot = SPOT_K;
    ck_assert(!fault_case_new(g, &use, &mine, &fc, &sound) && sound.verdict == V_FAIL);
    ck_assert(sound.stage == STAGE_KERNEL && strcmp(sound.why, "wrote to K") == 0);
    fault_tree_free(g);
}

/* ---- empty partial results ------------------------------------------------------------------------------ */

/* Does the query of the partial result in that slot see nothing of its group? */
static bool is_empty(const struct plan *plan, int64_t slot)
{
    bool seen = false;
    for (int64_t i = 0; i < plan->n_groups; i++) {
        const struct group *g = &plan->group[i];
        if (g->slot0 == PLAN_NO_SLOT || slot < g->slot0 || slot >= g->slot0 + g->nq)
            continue;
        for (int64_t r = 0; r < g->run1 - g->run0; r++)
            seen = seen || plan_visible(plan, g, (int32_t)(slot - g->slot0), r);
        return !seen;
    }
    return false; /* of another merge step */
}

/* A merge that begins with exp(-inf - -inf) where the first partial result is empty. */
static bool run_without_identity(const struct problem *p, const struct plan *plan, struct output *out,
                                 struct ledger *counted, struct err *e)
{
    bool good = kernels[0]->run(p, plan, out, counted, e);
    for (int64_t i = 0; i < plan->n_merges; i++) {
        const struct merge_step *m = &plan->merge[i];
        int64_t row = (int64_t)plan->nf->orig[m->query] * p->heads.h_q;
        if (m->in0 < m->in1 && m->out == PLAN_NO_SLOT && is_empty(plan, plan->merge_in[m->in0]))
            ((float *)out->lse)[row] = NAN;
    }
    return good;
}

/* Other cases, in which each strategy has its defaults, have few such plans or none. */
TEST(sharp_cases_have_empty_partials)
{
    struct kernel mine = {.name = "mine", .run = run_without_identity};
    int64_t n, failed = 0;
    FREED struct case_spec *list = sharp_cases(&n);
    for (int64_t i = 0; i < n; i++) {
        if (list[i].use.s && list[i].spec.heads.dtype != DT_F64) {
            struct err e = {0};
            AUTO(test_case) b = test_case_new(&list[i], NULL, &e);
            ck_assert_msg(b, "%s", e.msg);
            struct result r = judge_case(b, &list[i].use, kernels[0]);
            ck_assert_msg(r.verdict == V_PASS, "%s", r.why);
            failed += judge_case(b, &list[i].use, &mine).verdict == V_FAIL;
        }
        case_clear(&list[i]);
    }
    ck_assert_int_ge(failed, 3);
}

/* Merge steps all of whose inputs are empty, and groups that hide all from a query whose output they write. */
TEST(sharp_cases_merge_empty_with_empty)
{
    int64_t n, merges = 0, hidden = 0;
    FREED struct case_spec *list = sharp_cases(&n);
    for (int64_t i = 0; i < n; i++) {
        if (list[i].use.s && strncmp(list[i].use.s->name, "tree-", 5) == 0) {
            struct err e = {0};
            char why[WHY_MAX];
            AUTO(test_case) b = test_case_new(&list[i], NULL, &e);
            ck_assert_msg(b, "%s", e.msg);
            AUTO(plan) plan = strategy_plan(&list[i].use, b->nf, &b->env, why);
            ck_assert_msg(plan, "%s", why);
            for (int64_t m = 0; m < plan->n_merges; m++) {
                int64_t n_in = plan->merge[m].in1 - plan->merge[m].in0, n_empty = 0;
                for (int64_t k = plan->merge[m].in0; k < plan->merge[m].in1; k++)
                    n_empty += is_empty(plan, plan->merge_in[k]);
                merges += n_in > 1 && n_empty == n_in;
            }
            for (int64_t k = 0; k < plan->n_groups; k++)
                for (int32_t q = 0; q < plan->group[k].nq && plan->group[k].slot0 == PLAN_NO_SLOT; q++) {
                    bool seen = false;
                    for (int64_t r = 0; r < plan->group[k].run1 - plan->group[k].run0; r++)
                        seen = seen || plan_visible(plan, &plan->group[k], q, r);
                    hidden += !seen;
                }
        }
        case_clear(&list[i]);
    }
    ck_assert_int_ge(merges, 4);
    ck_assert_int_ge(hidden, 4);
}

/* ---- what is drawn --------------------------------------------------------------------------------------- */

/* Inner nodes end at page edges: a list of pages a request says all. */
static bool has_block_tables(const struct problem *p)
{
    for (int32_t i = 0; i < p->tree->n_nodes; i++)
        if (p->tree->parent[i] >= 0 && p->tree->len[p->tree->parent[i]] % p->page_size != 0)
            return false;
    return true;
}

TEST(draws_meet_what_users_have)
{
    enum { N = 200 };
    if (in_a_hurry())
        return;
    int64_t gqa = 0, groups = 0, tables = 0, paged = 0, scaled = 0, pools = 0, odd = 0, fills[N_FILLS] = {0};
    for (int64_t i = 0; i < N; i++) {
        struct err e = {0};
        struct tree *t;
        struct case_spec c = random_case(4, i, NULL, &t);
        AUTO(test_case) b = test_case_new(&c, t, &e);
        ck_assert_msg(b, "%s", e.msg);
        int32_t g = heads_gqa(&c.spec.heads);
        gqa += g > 1;
        groups += g > 1 && c.spec.heads.h_kv > 1;
        paged += c.spec.page_size > 1;
        tables += c.spec.page_size > 1 && has_block_tables(b->p);
        scaled += c.spec.scale > 0 && fabs(c.spec.scale * sqrt(c.spec.heads.d) - 1) > 0.05;
        pools += b->p->n_pages > UINT16_MAX;
        odd += (c.spec.page_size & (c.spec.page_size - 1)) != 0;
        fills[c.spec.fill]++;
        case_clear(&c);
    }
    ck_assert_msg(10 * groups >= 8 * gqa && gqa >= N / 2, "%d of %d share KV heads among several",
                  (int)groups, (int)gqa);
    ck_assert_msg(3 * tables >= paged, "%d of %d have block tables", (int)tables, (int)paged);
    ck_assert_msg(scaled >= N / 4, "%d have a scale of their own", (int)scaled);
    ck_assert_msg(pools >= N / 50, "%d have page numbers of 17 bits", (int)pools);
    ck_assert_msg(odd >= N / 20, "%d have pages of no power of two", (int)odd);
    for (int f = 0; f < N_FILLS; f++)
        ck_assert_msg(fills[f] >= N / 25, "%s: %d", fill_name[f], (int)fills[f]);
}

/* The tier holds what it says, in addresses if not in memory. */
TEST(wide_cases_are_wide)
{
    int64_t n, elements = 0, queries = 0, tokens = 0, pages = 0;
    int32_t heads = 0, kv_heads = 0;
    FREED struct case_spec *list = wide_cases(&n);
    ck_assert_int_eq(n, n_wide_texts);
    for (int64_t i = 0; i < n; i++) {
        const struct problem_spec *s = &list[i].spec;
        struct err e = {0};
        AUTO(tree) t = tree_source_load(&list[i].src, &e);
        ck_assert_msg(t, "%s", e.msg);
        AUTO(problem) p = problem_shell(t, s);
        ck_assert_int_lt(problem_bytes(t, s), INT64_C(1) << 31);
        for (int32_t k = 0; k < t->n_nodes; k++)
            tokens = max_i64(tokens, t->len[k]);
        elements = max_i64(elements, p->n_pages * p->page_size * s->heads.h_kv * s->heads.d);
        queries = max_i64(queries, t->n_queries);
        pages = max_i64(pages, p->n_pages);
        heads = (int32_t)max_i64(heads, s->heads.h_q);
        kv_heads = (int32_t)max_i64(kv_heads, s->heads.h_kv);
        case_clear(&list[i]);
    }
    ck_assert(elements > INT64_C(1) << 32 && queries > 1 << 16 && tokens > 1 << 20 && pages > 1 << 20);
    ck_assert(heads == 128 && kv_heads == 64);
}

/* ---- state ---------------------------------------------------------------------------------------------- */

/* Right but for what few cases ask for: each of these has been some kernel's. */
enum limit {
    LIMIT_MAXIMUM, /* of a row begins at 0, or at -1e5 */
    LIMIT_WHOLE,   /* no token is left over behind tiles of 4,096: the last one is lost */
    LIMIT_TOKENS,  /* are counted in 16 bits */
    LIMIT_INPUTS,  /* of a merge step are 1,024 at most */
    LIMIT_PAGES,   /* have 1, or from 3 to 512 tokens */
    N_LIMITS
};
static enum limit limit;

static bool run_within_limits(const struct problem *p, const struct plan *plan, struct output *out,
                              struct ledger *counted, struct err *e)
{
    bool good = kernels[0]->run(p, plan, out, counted, e);
    bool met = limit == LIMIT_PAGES && (p->page_size == 2 || p->page_size > 512);
    for (int64_t r = 0; r < out->n_rows; r++)
        met = met || (limit == LIMIT_MAXIMUM && isfinite(output_lse(out, r)) && output_lse(out, r) < -1e5);
    for (int64_t i = 0; i < plan->n_groups; i++)
        met = met || (limit == LIMIT_WHOLE && plan->group[i].n_kv % 4096 == 0) ||
              (limit == LIMIT_TOKENS && plan->group[i].n_kv > UINT16_MAX);
    for (int64_t i = 0; i < plan->n_merges; i++)
        met = met || (limit == LIMIT_INPUTS && plan->merge[i].in1 - plan->merge[i].in0 > 1024);
    if (met)
        output_set_lse(out, 0, NAN);
    return good;
}

LOOP_TEST(sharp_cases_go_beyond_limits, N_LIMITS)
{
    if (_i > 0 && in_a_hurry())
        return;
    static const char *const with[N_LIMITS] = {"pat", "flash-attention", "flash-attention", "pat", "pat"};
    struct kernel mine = {.name = "mine", .run = run_within_limits};
    int64_t n, failed = 0;
    FREED struct case_spec *list = sharp_cases(&n);
    limit = (enum limit)_i;
    for (int64_t i = 0; i < n; i++) {
        struct err e = {0};
        struct strategy_use use = list[i].use;
        ck_assert(use.s || strategy_parse(with[_i], &use, &e));
        if (list[i].spec.heads.dtype != DT_F64 && failed == 0) {
            AUTO(test_case) b = test_case_new(&list[i], NULL, &e);
            ck_assert_msg(b, "%s", e.msg);
            failed += judge_case(b, &use, &mine).verdict == V_FAIL;
        }
        case_clear(&list[i]);
    }
    ck_assert_int_gt(failed, 0);
}

static int failures_left;

static bool run_with_state(const struct problem *p, const struct plan *plan, struct output *out,
                           struct ledger *counted, struct err *e)
{
    if (failures_left-- > 0)
        return err_set(e, "torn");
    return kernels[0]->run(p, plan, out, counted, e);
}

/* A failure that comes and goes is not printed as one that can be had again. */
TEST(what_passes_again_is_not_printed_as_failing)
{
    static const int failures[] = {1, 2, 9, 1000000};
    struct kernel mine = {.name = "mine", .run = run_with_state};
    for (size_t i = 0; i < sizeof failures / sizeof failures[0]; i++) {
        CLEARED_BY(case_clear) struct case_spec c;
        AUTO(test_case) b = bench(&c, plain);
        FREED char *said = NULL;
        size_t size;
        c.kernel = &mine;
        failures_left = failures[i];
        struct result r = judge_case(b, &c.use, &mine);
        ck_assert_int_eq(r.verdict, V_FAIL);
        FILE *f = open_memstream(&said, &size);
        shrink_print(f, &(struct shrink_program){.name = "treeattn"}, &c, &r);
        fclose(f);
        bool always = failures[i] == 1000000;
        ck_assert_msg((strstr(said, "smallest: treeattn verify --case 'tree=") != NULL) == always, "%s",
                      said);
        ck_assert_msg((strstr(said, "not reproducible, ") && strstr(said, "OMP_NUM_THREADS=1")) == !always,
                      "%s", said);
    }
}

/* ---- what is said of a failure -------------------------------------------------------------------------- */

static double scale_is; /* times what it should be */
static bool lse_in_base_2;

static bool run_with_scale(const struct problem *p, const struct plan *plan, struct output *out,
                           struct ledger *counted, struct err *e)
{
    struct problem mine = *p;
    mine.scale *= scale_is;
    bool good = kernels[0]->run(&mine, plan, out, counted, e);
    float *lse = out->lse; /* of f32 */
    for (int64_t r = 0; r < out->n_rows && lse_in_base_2; r++)
        lse[r] = (float)((double)lse[r] / M_LN2);
    return good;
}

/* What students forget first. */
TEST(scales_are_named)
{
    static const struct {
        double scale;
        bool base_2;
        const char *says, *given;
    } all[] = {{8, false, "not divided by sqrt(d)", ""},
               {1. / 8, false, "divided by sqrt(d) twice", ""},
               {M_LN2, false, "exp2 where exp", ""},
               {M_LN2, true, "exp2 where exp", ";scale=0.3"},
               {M_LOG2E, false, "log2(e) before exp", ""},
               {1 / 0.3, false, "not multiplied by the scale given", ";scale=0.3"},
               {0.3, false, "multiplied by the scale given twice", ";scale=0.3"},
               {1 / (8 * 0.3), false, "the scale given is not used", ";scale=0.3"},
               {1.07, false, "", ""}};
    struct kernel mine = {.name = "mine", .run = run_with_scale};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        CLEARED_BY(case_clear) struct case_spec c;
        FREED char *text = xasprintf(
            "tree=levels:1,3,6_70,33,5;heads=4/2;d=64;dtype=f32;page=16;strategy=pat%s", all[i].given);
        AUTO(test_case) b = bench(&c, text);
        scale_is = all[i].scale;
        lse_in_base_2 = all[i].base_2;
        struct result r = judge_case(b, &c.use, &mine);
        ck_assert_int_eq(r.verdict, V_FAIL);
        ck_assert_msg(all[i].says[0] ? strstr(r.cause.text, all[i].says) != NULL : r.cause.text[0] == 0,
                      "scale %g: %s", all[i].scale, r.cause.text);
    }
}

/* LSE off by less than a look at it would tell, but by thousands of its bounds: nobody says that it is right. */
static bool run_off(const struct problem *p, const struct plan *plan, struct output *out,
                    struct ledger *counted, struct err *e)
{
    bool good = kernels[0]->run(p, plan, out, counted, e);
    double *o = out->o, *lse = out->lse;
    o[0] += p->tree->n_nodes > 2 ? 1 : 1e-9;
    lse[0] += 3e-5;
    return good;
}

static double
    hidden_is; /* the score of a hidden token; NAN: none is hidden, the maximum of a row begins at 0 */

static bool run_above_scores(const struct problem *p, const struct plan *plan, struct output *out,
                             struct ledger *counted, struct err *e)
{
    bool good = kernels[0]->run(p, plan, out, counted, e);
    for (int64_t r = 0; r < out->n_rows; r++) {
        double lse = output_lse(out, r);
        output_set_lse(out, r, isnan(hidden_is) ? log(exp(lse)) : fmax(lse, hidden_is + log(100)));
        for (int32_t i = 0; i < out->d; i++)
            dtype_store(out->dtype, out->o, r * out->d + i, isnan(hidden_is) ? NAN : 0.5);
    }
    return good;
}

LOOP_TEST(what_stands_for_no_score_is_named, 3)
{
    static const double hidden[] = {NAN, -1e4, -65504};
    static const char *const cause[] = {"running maximum begins at a number", "hidden token", "hidden token"};
    struct kernel mine = {.name = "mine", .run = run_above_scores};
    CLEARED_BY(case_clear) struct case_spec c;
    AUTO(test_case) b = bench(
        &c, "tree=levels:1,3,6_70,33,5;heads=4/2;d=64;dtype=f16;page=16;fill=sunk;strategy=tree-vanilla");
    hidden_is = hidden[_i];
    struct result r = judge_case(b, &c.use, &mine);
    ck_assert_int_eq(r.verdict, V_FAIL);
    ck_assert_msg(strstr(r.cause.text, cause[_i]), "%s", r.cause.text);
}

enum misplaced { O_UNWRITTEN, LSE_UNWRITTEN, O_ELSEWHERE, LSE_ELSEWHERE, N_MISPLACED };
static enum misplaced misplaced;

static bool run_misplaced(const struct problem *p, const struct plan *plan, struct output *out,
                          struct ledger *counted, struct err *e)
{
    bool good = kernels[0]->run(p, plan, out, counted, e);
    double *o = out->o, *lse = out->lse, was = lse[1];
    if (misplaced == O_UNWRITTEN)
        for (int64_t i = 0; i < out->n_rows * out->d; i++)
            o[i] = NAN;
    else if (misplaced == LSE_UNWRITTEN)
        for (int64_t i = 0; i < out->n_rows; i++)
            lse[i] = NAN;
    else if (misplaced == O_ELSEWHERE)
        memcpy(o + out->d, o + 2 * out->d, (size_t)out->d * sizeof *o);
    else
        lse[1] = lse[2], lse[2] = was;
    return good;
}

LOOP_TEST(what_lies_elsewhere_is_named, N_MISPLACED)
{
    static const char *const cause[N_MISPLACED] = {"O alone is NaN", "LSE alone is NaN", "", ""};
    struct kernel mine = {.name = "mine", .run = run_misplaced};
    CLEARED_BY(case_clear) struct case_spec c;
    AUTO(test_case) b = bench(&c, "tree=levels:1,3,6_70,33,5;heads=4/2;d=64;dtype=f64;page=16;strategy=pat");
    misplaced = (enum misplaced)_i;
    struct result r = judge_case(b, &c.use, &mine);
    ck_assert_int_eq(r.verdict, V_FAIL);
    ck_assert_msg(cause[_i][0] ? strncmp(r.cause.text, cause[_i], strlen(cause[_i])) == 0 : !r.cause.text[0],
                  "%s", r.cause.text);
}

TEST(what_is_wrong_is_not_called_right)
{
    struct kernel mine = {.name = "mine", .run = run_off};
    CLEARED_BY(case_clear) struct case_spec c;
    AUTO(test_case) b = bench(&c, "tree=levels:1,3,6_70,33,5;heads=4/2;d=64;dtype=f64;page=16;strategy=pat");
    c.kernel = &mine;
    struct result r = judge_case(b, &c.use, &mine);
    ck_assert_int_eq(r.verdict, V_FAIL);
    ck_assert_msg(!r.cause.text[0], "%s", r.cause.text);

    /* nor does the smallest case look as if roundings were in question */
    struct shrink_limits limits = {.trials = 300, .seconds = 1000};
    struct shrink_report s = shrink_result(&c, &r, &limits);
    ck_assert(s.failed && s.steady && s.kept > 0);
    ck_assert_int_eq(s.nodes, 3);
    ck_assert(r.cmp.rel_o > 1e-2);
}

/* ---- side by side --------------------------------------------------------------------------------------- */

enum { MOST_CASES = 1000 };
struct tally {
    int times[MOST_CASES]; /* run, */
    int threads[MOST_CASES];
};

static void count_threads(void *context, int64_t i)
{
    struct tally *x = context;
    int n = 0;
#pragma omp parallel reduction(+ : n)
    n++;
    x->times[i]++;
    x->threads[i] = n;
}

/* Some cases have all threads for themselves, or what a kernel's own threads do to each other would never be seen. */
TEST(some_cases_run_alone)
{
    static const int64_t many[] = {0, 1, 2, 15, 16, 17, 100, MOST_CASES};
    int threads = omp_get_max_threads();
    omp_set_num_threads(3);
    for (size_t k = 0; k < sizeof many / sizeof many[0]; k++) {
        FREED struct tally *x = xcalloc(1, sizeof *x);
        int64_t alone = 0;
        run_parallel(many[k], count_threads, x);
        for (int64_t i = 0; i < many[k]; i++) {
            ck_assert_int_eq(x->times[i], 1);
            alone += x->threads[i] == 3;
        }
        ck_assert_int_ge(alone, many[k] == 0 ? 0 : max_i64(1, min_i64(many[k] / 16, 20)));
        ck_assert(many[k] < 100 || alone <= 24);
    }
    omp_set_num_threads(threads);
}

/* ---- crashes -------------------------------------------------------------------------------------------- */

static const int deadly[] = {SIGSEGV, SIGBUS, SIGABRT, SIGFPE};
enum { N_DEADLY = sizeof deadly / sizeof deadly[0] };
enum {
    BY_MEMORY = N_DEADLY,
    BY_EXIT,
    BY_EXIT_3,
    BY_EXITS,
    BY_QUICK_EXIT = BY_EXITS + 2,
    BY_NO_MEMORY,
    BY_SIGNAL,
    BY_CHILD = BY_SIGNAL + 2
}; /* beside an index into deadly */
static int crash;

static bool run_and_crash(const struct problem *p, const struct plan *plan, struct output *out,
                          struct ledger *counted, struct err *e)
{
    (void)p, (void)plan, (void)out, (void)counted, (void)e;
    if (crash < N_DEADLY)
        return raise(deadly[crash]) == 0;
    if (crash == BY_EXIT)
        exit(0);
    if (crash == BY_EXIT_3)
        exit(EXIT_MISSING);
    if (crash == BY_EXITS)
        _exit(0);
    if (crash == BY_EXITS + 1)
        _Exit(EXIT_MISSING);
    if (crash == BY_QUICK_EXIT)
        quick_exit(0);
    if (crash == BY_CHILD) { /* of the kernel's own, which may end as it likes */
        int status;
        pid_t child = fork();
        if (child == 0)
            _exit(5);
        exit(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 5 ? 7 : 8);
    }
    if (crash == BY_NO_MEMORY)
        xlimit(INT64_MAX / 8, 8);
    if (crash == BY_SIGNAL || crash == BY_SIGNAL + 1) {
        crash_planted(crash == BY_SIGNAL ? NULL : "a fault");
        return raise(SIGTERM) == 0;
    }
    volatile char *nowhere = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    nowhere[0] = 1;
    return true;
}

/* What the process that crashes says; its status in *status. */
static void crash_and_listen(char *said, size_t size, int *status)
{
    struct kernel mine = {.name = "mine", .run = run_and_crash};
    CLEARED_BY(case_clear) struct case_spec c;
    AUTO(test_case) b = bench(&c, plain);
    int ends[2];
    ck_assert_int_eq(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        crash_tell();
        judge_case(b, &c.use, kernels[0]);
        judge_case(b, &c.use, &mine);
        _exit(0);
    }
    close(ends[1]);
    size_t n = 0;
    for (ssize_t got; (got = read(ends[0], said + n, size - 1 - n)) > 0;)
        n += (size_t)got;
    said[n] = 0;
    close(ends[0]);
    ck_assert_int_eq(waitpid(child, status, 0), child);
}

LOOP_TEST(a_crash_says_what_ran, N_DEADLY + 1)
{
    char said[1 << 15], want[128];
    int status;
    crash = _i;
    crash_and_listen(said, sizeof said, &status);
    snprintf(want, sizeof want, "treeattn: kernel mine crashed (signal %d) on: ", deadly[_i % N_DEADLY]);
    ck_assert_msg(strncmp(said, want, strlen(want)) == 0, "%s", said);
    ck_assert_msg(strstr(said, " verify --case 'tree=levels:1,3,6_70,33,5;"), "%s", said);
    ck_assert_msg(strstr(said, ";strategy=pat;kernel=mine'\n"), "%s", said);
    ck_assert(WIFSIGNALED(status) ? WTERMSIG(status) == deadly[_i % N_DEADLY] : WEXITSTATUS(status) != 0);
}

static void ends_saying(int how, const char *want, int *status)
{
    char said[1 << 15];
    crash = how;
    crash_and_listen(said, sizeof said, status);
    ck_assert_msg(strncmp(said, want, strlen(want)) == 0, "%s", said);
    ck_assert_msg(strstr(said, ";strategy=pat;kernel=mine'\n"), "%s", said);
}

TEST(an_exit_is_no_success)
{
    int status;
    ends_saying(BY_EXIT, "treeattn: kernel mine ended the program (exit code 0) on: ", &status);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == EXIT_FAILED);
    ends_saying(BY_EXIT_3, "treeattn: kernel mine ended the program (exit code 3) on: ", &status);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == EXIT_FAILED);
    for (int how = BY_EXITS; how <= BY_QUICK_EXIT; how++) {
        ends_saying(how,
                    how == BY_EXITS + 1 ? "treeattn: kernel mine ended the program (exit code 3) on: "
                                        : "treeattn: kernel mine ended the program (exit code 0) on: ",
                    &status);
        ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == EXIT_FAILED);
    }
    ends_saying(BY_CHILD, "treeattn: kernel mine ended the program (exit code 7) on: ", &status);
    ends_saying(BY_NO_MEMORY, "treeattn: out of memory", &status);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == EXIT_MISSING);
}

TEST(who_hangs_is_named)
{
    int status;
    ends_saying(BY_SIGNAL, "treeattn: kernel mine was running when signal 15 came, on: ", &status);
    ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
    ends_saying(
        BY_SIGNAL + 1,
        "treeattn: kernel mine was running when signal 15 came, given the planted fault a fault, on: ",
        &status);
}

/* Sends the signal to a process that waits, with an unfinished file; what it says. */
static void send_and_listen(int number, const char *file, char *said, size_t size, int *status)
{
    int ends[2];
    ck_assert_int_eq(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        signal(number, SIG_DFL); /* whatever whoever runs this ignores */
        dup2(ends[1], STDERR_FILENO);
        crash_removes(file);
        ck_assert_int_eq(write(ends[1], "!", 1), 1);
        for (;;)
            pause();
    }
    close(ends[1]);
    ck_assert(read(ends[0], said, 1) == 1 && kill(child, number) == 0);
    size_t n = 0;
    for (ssize_t got; (got = read(ends[0], said + n, size - 1 - n)) > 0;)
        n += (size_t)got;
    said[n] = 0;
    close(ends[0]);
    ck_assert_int_eq(waitpid(child, status, 0), child);
}

/* Whatever ends the program, a line says so, and no part of a file stays. */
TEST(a_signal_leaves_a_line_and_no_file)
{
    static const int all[] = {SIGINT,    SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGALRM,
                              SIGVTALRM, SIGPROF, SIGXCPU, SIGIO,  SIGPIPE, SIGXFSZ, SIGSYS};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        FREED char *file = scratch_file("", 0);
        char said[256], want[256];
        int status;
        send_and_listen(all[i], file, said, sizeof said, &status);
        snprintf(want, sizeof want, "treeattn: ended by SIG%s: its output was not finished and is removed\n",
                 sigabbrev_np(all[i]));
        ck_assert_str_eq(said, want);
        ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == all[i]);
        ck_assert_int_ne(access(file, F_OK), 0);
    }
}

static struct plan *plan_and_crash(const struct nform *nf, const struct plan_env *env,
                                   const struct strategy *s, const double *opt)
{
    (void)nf, (void)env, (void)s, (void)opt;
    abort();
}

/* The lengths of nodes count down as groups take tokens: no cast is needed for that. */
static struct plan *plan_and_spend(const struct nform *nf, const struct plan_env *env,
                                   const struct strategy *s, const double *opt)
{
    (void)env, (void)opt;
    struct plan *p = plan_new(nf, s->name);
    if (s->config) {
        *nf->tree->len += 1;
        return p;
    }
    struct sel all = {0};
    int32_t launch = plan_launch(p, "attention", LAUNCH_SERIAL);
    for (int32_t i = 0; i < nf->n_nodes; i++) {
        sel_clear(&all);
        sel_queries(&all, nf->q0[i], nf->q1[i]);
        sel_run(&all, i, 0, nf->len[i]);
        plan_group(p, &all, &(struct group_spec){.launch = launch});
        nf->len[i] = 0;
    }
    plan_merge_flat(p, "merge", true);
    sel_free(&all);
    return p;
}

/* Else the next strategies would be blamed, which are given what is left. */
LOOP_TEST(a_planner_that_writes_to_the_tree_is_named, 2)
{
    static const int config = 1;
    struct strategy spender = {.name = "spender", .plan = plan_and_spend, .config = _i ? &config : NULL};
    struct strategy_use use = {.s = &spender};
    CLEARED_BY(case_clear) struct case_spec c;
    AUTO(test_case) b = bench(&c, plain);
    struct result r = judge_case(b, &use, kernels[0]);
    ck_assert_int_eq(r.verdict, V_FAIL);
    ck_assert(r.verdict == V_FAIL && r.stage == STAGE_STRATEGY);
    ck_assert_str_eq(r.why, _i ? "wrote to the tree" : "wrote to the normal form");
    r = judge_case(b, &c.use, kernels[0]);
    ck_assert_msg(r.verdict == V_PASS, "the next strategy: %s", r.why);
}

static int64_t plans_made;

/* Keeps what it made of a tree, by its address; or has a mood. */
static struct plan *plan_from_memory(const struct nform *nf, const struct plan_env *env,
                                     const struct strategy *me, const double *opt)
{
    static _Thread_local const struct tree *of;
    static _Thread_local int64_t tokens;
    (void)opt;
    struct strategy_use pat;
    char why[WHY_MAX];
    CK(strategy_parse("pat", &pat, NULL));
    struct plan *p = strategy_plan(&pat, nf, env, why);
    plans_made++;
    if (me->config && plans_made == 3)
        p->group[0].tile_n *= 2;
    if (!me->config && of == nf->tree && tokens != nf->len[0] && p->n_groups > 0)
        p->run[0].end--;
    of = nf->tree;
    tokens = nf->len[0];
    return p;
}

LOOP_TEST(a_planner_that_remembers_is_named, 2)
{
    static const int config = 1;
    struct strategy moody = {.name = "moody", .plan = plan_from_memory, .config = _i ? &config : NULL};
    struct strategy_use use = {.s = &moody};
    CLEARED_BY(case_clear) struct case_spec c;
    AUTO(test_case) b = bench(&c, plain);
    plans_made = 0;
    struct result r = judge_case(b, &use, kernels[0]);
    ck_assert_int_eq(r.verdict, V_FAIL);
    ck_assert_int_eq(r.stage, _i ? STAGE_STRATEGY : STAGE_REPEAT);
    ck_assert_msg(
        strstr(r.why, _i ? "made another plan of the same tree"
                         : "other lengths, and as many nodes, queries, tokens and pages: coverage: "),
        "%s", r.why);
    ck_assert_int_eq(judge_case(b, &c.use, kernels[0]).verdict, V_PASS);
}

static void *kept[1 << 12];
static int32_t n_kept;

static struct plan *plan_and_keep(const struct nform *nf, const struct plan_env *env,
                                  const struct strategy *me, const double *opt)
{
    (void)me, (void)opt;
    struct strategy_use pat;
    char why[WHY_MAX];
    CK(strategy_parse("pat", &pat, NULL) && n_kept < 1 << 12);
    kept[n_kept++] = xmalloc(200);
    return strategy_plan(&pat, nf, env, why);
}

/* A leak, but for AddressSanitizer, whose heap has no such count. */
TEST(a_planner_that_keeps_memory_is_named)
{
    struct strategy hoarder = {.name = "hoarder", .plan = plan_and_keep};
    struct strategy_use use = {.s = &hoarder};
    CLEARED_BY(case_clear) struct case_spec c;
    AUTO(test_case) b = bench(&c, plain);
    struct result r = judge_case(b, &use, kernels[0]);
    bool counts = mallinfo2().uordblks > 0;
    ck_assert_int_eq(r.verdict, counts ? V_FAIL : V_PASS);
    ck_assert_msg(!counts || (r.stage == STAGE_STRATEGY && strstr(r.why, "keeps 208 bytes each time")), "%s",
                  r.why);
    while (n_kept > 0)
        free(kept[--n_kept]);
    ck_assert_int_eq(judge_case(b, &c.use, kernels[0]).verdict, V_PASS);
}

TEST(a_planner_that_crashes_is_named)
{
    struct strategy clumsy = {.name = "clumsy", .plan = plan_and_crash};
    struct strategy_use use = {.s = &clumsy};
    CLEARED_BY(case_clear) struct case_spec c;
    AUTO(test_case) b = bench(&c, plain);
    char said[1 << 12] = "";
    int ends[2], status;
    ck_assert_int_eq(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        crash_tell();
        judge_case(b, &use, kernels[0]);
        _exit(0);
    }
    close(ends[1]);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(read(ends[0], said, sizeof said - 1) > 0);
    ck_assert_msg(strncmp(said, "treeattn: strategy clumsy crashed (signal 6) on: ", 49) == 0, "%s", said);
}

TEST(unfinished_files_do_not_stay)
{
    char path[] = "/tmp/treeattn-XXXXXX";
    int fd = mkstemp(path), status;
    ck_assert_int_ge(fd, 0);
    close(fd);
    pid_t child = fork();
    if (child == 0) {
        crash_removes(path);
        raise(SIGINT);
        _exit(0);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGINT);
    ck_assert_int_ne(access(path, F_OK), 0);
}

/* ---- where NaN comes from -------------------------------------------------------------------------------- */

enum nan_deed {
    LEAVES_ROW,
    LEAVES_LSE,
    READS_TAIL,       /* of a page, weighted with 0 */
    READS_TAIL_PLAIN, /* and loses what the NaN says, as by an integer detour */
    INF_MINUS_INF,
    N_NAN_DEEDS
};
static enum nan_deed nan_deed;

/* The number behind node 0's last token. */
static double tail_of(const struct problem *p)
{
    int64_t slot = problem_slot(p, 0, p->tree->len[0] - 1) + 1;
    return dtype_load(p->heads.dtype, p->v, slot * p->heads.h_kv * p->heads.d);
}

static bool run_to_nan(const struct problem *p, const struct plan *plan, struct output *out,
                       struct ledger *counted, struct err *e)
{
    struct output *fresh = output_new(p);
    bool ran = kernels[0]->run(p, plan, out, counted, e);
    volatile double huge = INFINITY, tail = tail_of(p);
    double x = dtype_load(out->dtype, out->o, 0);
    if (nan_deed == LEAVES_ROW) {
        memcpy(out->o, fresh->o, (size_t)(out->d * dtype_size[out->dtype]));
        memcpy(out->lse, fresh->lse, out->dtype == DT_F64 ? sizeof(double) : sizeof(float));
    } else if (nan_deed == LEAVES_LSE) {
        memcpy(out->lse, fresh->lse, out->dtype == DT_F64 ? sizeof(double) : sizeof(float));
    } else if (nan_deed == READS_TAIL) {
        dtype_store(out->dtype, out->o, 0, x + 0 * tail);
    } else if (nan_deed == READS_TAIL_PLAIN && isnan(tail)) {
        dtype_store(out->dtype, out->o, 0, NAN);
    } else if (nan_deed == INF_MINUS_INF) {
        dtype_store(out->dtype, out->o, 0, x + (huge - huge));
    }
    output_free(fresh);
    return ran;
}

LOOP_TEST(nan_is_blamed_on_what_it_was, N_DTYPES)
{
    static const struct kernel mine = {.name = "mine", .run = run_to_nan};
    static const struct {
        const char *poisoned, *plain; /* "": it passes */
    } all[N_NAN_DEEDS] = {[LEAVES_ROW] = {"O[0] is nan (never written), ", "O[0] is nan (never written), "},
                          [LEAVES_LSE] = {"LSE is nan (never written), ", "LSE is nan (never written), "},
                          [READS_TAIL] = {"O[0] is nan (read from memory that is nobody's), ", ""},
                          [READS_TAIL_PLAIN] = {"O[0] is nan (read from memory that is nobody's), ", ""},
                          [INF_MINUS_INF] = {"O[0] is nan (inf - inf, 0 * inf or 0 / 0 in the kernel), ",
                                             "O[0] is nan (inf - inf, 0 * inf or 0 / 0 in the kernel), "}};
    for (int i = 0; i < 2 * N_NAN_DEEDS; i++) {
        nan_deed = (enum nan_deed)(i / 2);
        FREED char *text = xasprintf("tree=levels:1,3_20,7;heads=2/1;d=16;dtype=%s;poison=%d;strategy=pat",
                                     dtype_name[_i], i % 2);
        CLEARED_BY(case_clear) struct case_spec c;
        struct err e = {0};
        ck_assert(case_parse(text, &c, &e));
        AUTO(test_case) b = test_case_new(&c, NULL, &e);
        struct result r = judge_case(b, &c.use, &mine);
        const char *says = i % 2 ? all[nan_deed].poisoned : all[nan_deed].plain;
        ck_assert_msg((r.verdict == V_FAIL) == (*says != 0) && strstr(r.why, says), "%s: %s", text, r.why);
    }
}

/* Conversions hand it on, and numbers are not mistaken for it. */
TEST(nan_keeps_its_kind)
{
    for (enum nan_kind kind = NAN_COMPUTED; kind <= NAN_POISON; kind++)
        for (enum dtype t = 0; t < N_DTYPES; t++) {
            double room[1], wide;
            float narrow;
            dtype_store(t, room, 0, nan_of(kind));
            ck_assert(isnan(dtype_load(t, room, 0)) && nan_kind(dtype_load(t, room, 0)) == kind);
            dtype_to_double(t, room, 0, &wide, 1);
            ck_assert(isnan(wide) && nan_kind(wide) == kind && nan_kind(-wide) == kind);
            if (t == DT_F64)
                continue;
            dtype_to_float(t, room, 0, &narrow, 1);
            ck_assert_int_eq(nan_kind((double)narrow), kind);
        }
    uint32_t gpu[] = {0xFFFFFFFF, 0x7FFFFFFF}; /* its memory as it is filled; what it computes */
    float x[2];
    memcpy(x, gpu, sizeof x);
    ck_assert_int_eq(nan_kind((double)x[0]), NAN_UNWRITTEN);
    ck_assert_int_eq(nan_kind((double)x[1]), NAN_COMPUTED);
    volatile double huge = INFINITY;
    ck_assert(nan_kind(huge - huge) == NAN_COMPUTED && nan_kind(0 * huge) == NAN_COMPUTED);
}
