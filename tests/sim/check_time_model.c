/*
 * check_time_model.c - laws of the time model on random trees, all strategies, all machines; hand-made cases with
 * their times by hand; the effects that papers describe.
 */
#include "ref/rng.h"
#include "sim/time/time_model.h"
#include "sim/count.h"
#include "sim/time/ctas.h"
#include "sim/strategies/tree_parts.h"
#include "tests/auto.h"
#include "tests/shared.h"
#include "tests/suites.h"
#include "traces/formats/formats.h"

#include <math.h>
#include <omp.h>

enum { TREES = 16, SMALL_TREES = 3, SEED = 4 };
static const double ROUNDING = 1e-9;

static const int32_t heads[][2] = {{32, 8}, {4, 4}, {6, 2}, {16, 1}};

/* A tree, a strategy and a machine, planned. */
struct job {
    struct tree *tree;
    struct nform *nf;
    struct plan *p; /* NULL: not applicable */
    struct heads env;
    const struct machine *mc;
};

static struct job job_new(struct tree *t, const struct strategy *s, const struct machine *mc, int32_t h_q,
                          int32_t h_kv)
{
    struct job j = {.tree = t, .nf = nform_new(t), .mc = mc};
    j.env = (struct heads){h_q, h_kv, 64, DT_F16};
    struct plan_env env = {.heads = {h_q, h_kv, 64, DT_F16}, .machine = mc};
    struct strategy_use use = strategy_default(s);
    char why[WHY_MAX];
    j.p = strategy_plan(&use, j.nf, &env, why);
    return j;
}

static struct job job_levels(const char *levels, const char *strategy, const struct machine *mc, int32_t h_q,
                             int32_t h_kv)
{
    return job_new(levels_parse(levels, NULL), strategy_of(strategy).s, mc, h_q, h_kv);
}

static void job_free(struct job *j)
{
    plan_free(j->p);
    nform_free(j->nf);
    tree_free(j->tree);
}

static struct time_model job_clock(const struct job *j, const struct machine *mc, int want)
{
    struct time_model_coefs coefs = time_model_coefs_default();
    return time_model_plan(j->p, &j->env, mc, &coefs, 0, want);
}

static double token_bytes(const struct heads *env)
{
    return 2.0 * env->h_kv * env->d * heads_elt_bytes(env);
}

/* Tokens that anybody sees, each once. */
static int64_t union_tokens(const struct nform *nf)
{
    int64_t sum = 0;
    for (int32_t i = 0; i < nf->n_nodes; i++)
        sum += nf->q1[i] > nf->q0[i] ? nf->len[i] : 0;
    return sum;
}

static double ledger_bytes(const struct ledger *l)
{
    return (double)(l->kv + l->q + l->mask + ledger_scores(l) + ledger_partials(l) + l->out);
}

static bool near(double a, double b)
{
    return fabs(a - b) <= ROUNDING * fmax(fabs(a), fabs(b));
}

/* ---- laws --------------------------------------------------------------------------------------------- */

static void law_bounds(const struct job *j, const struct time_model *c)
{
    struct time_model_coefs coefs = time_model_coefs_default();
    double least = fmax(c->dram_bytes / (j->mc->bandwidth * coefs.bandwidth),
                        c->ops / (j->mc->tensor_flops * coefs.tensor));
    least = fmax(least, fmax(c->l2_bytes / (j->mc->l2_bandwidth * coefs.l2), c->longest_s));
    ck_assert_msg(c->kernel_s >= least * (1 - ROUNDING), "%.9g s is less than %.9g", c->kernel_s, least);
    ck_assert_msg(c->kernel_s <= c->serial_s * (1 + ROUNDING), "%.9g s is more than %.9g", c->kernel_s,
                  c->serial_s);
    ck_assert(c->dram_bytes <= c->l2_bytes * (1 + ROUNDING));
    double unique = (double)union_tokens(j->nf) * token_bytes(&j->env);
    ck_assert_msg(c->dram_bytes >= unique * (1 - ROUNDING), "%.0f bytes of %.0f", c->dram_bytes, unique);
    const double share[] = {c->bandwidth_use, c->l2_use, c->tensor_use, c->sm_use, c->slot_use, c->low_share};
    for (int i = 0; i < 6; i++)
        ck_assert_msg(share[i] >= 0 && share[i] <= 1 + ROUNDING, "share %d is %g", i, share[i]);
    ck_assert(c->sm_use >= c->slot_use - ROUNDING);
    ck_assert(c->attention_s >= 0 && c->merge_s >= 0 && near(c->attention_s + c->merge_s, c->kernel_s));
    ck_assert(near(c->latency_s, c->overhead_s + c->launch_s + c->attention_s + c->merge_s + c->planning_s));
}

/* The ledger counts with code of its own. */
static void law_ledger(const struct job *j, const struct time_model *c)
{
    struct ledger l = ledger_of_plan(j->p, &j->env);
    double ops = 2.0 * (double)(l.mac_useful + l.mac_masked + l.mac_padded);
    ck_assert_msg(near(c->l2_bytes, ledger_bytes(&l)), "%.1f bytes of %.1f", c->l2_bytes, ledger_bytes(&l));
    ck_assert_msg(near(c->ops, ops), "%.1f operations of %.1f", c->ops, ops);
    ck_assert(l.kv >= (int64_t)((double)union_tokens(j->nf) * token_bytes(&j->env)));
}

static int by_place(const void *a, const void *b)
{
    const struct time_model_cta *x = *(const struct time_model_cta *const *)a,
                                *y = *(const struct time_model_cta *const *)b;
    if (x->sm != y->sm)
        return x->sm < y->sm ? -1 : 1;
    if (x->slot != y->slot)
        return x->slot < y->slot ? -1 : 1;
    return (x->start > y->start) - (x->start < y->start);
}

/* Work is conserved, no slot has two CTAs, spans say the same as CTAs. */
static void law_timeline(const struct job *j, const struct time_model *c)
{
    double dram = 0, l2 = 0, ops = 0, slot_s = 0, end = 0;
    const struct time_model_cta **order = xcalloc((size_t)c->n_cta, sizeof *order);
    ck_assert_int_eq(c->n_cta, c->ctas);
    for (int64_t i = 0; i < c->n_cta; i++) {
        const struct time_model_cta *x = order[i] = &c->cta[i];
        dram += x->dram;
        l2 += x->l2;
        ops += x->ops;
        slot_s += x->end - x->start;
        end = fmax(end, x->end);
        check_each(x->end > x->start && x->sm >= 0 && x->sm < j->mc->sms && x->slot >= 0 && x->slot < 32,
                   "CTA %ld", (long)i);
        check_each(i == 0 || x->start >= x[-1].start, "CTA %ld", (long)i);
        check_each((x->group >= 0) != (x->merge >= 0), "CTA %ld", (long)i);
    }
    ck_assert(near(dram, c->dram_bytes) && near(l2, c->l2_bytes) && near(ops, c->ops));
    ck_assert(end == c->kernel_s);
    qsort(order, (size_t)c->n_cta, sizeof *order, by_place);
    for (int64_t i = 1; i < c->n_cta; i++)
        check_each(order[i - 1]->sm != order[i]->sm || order[i - 1]->slot != order[i]->slot ||
                       order[i - 1]->end <= order[i]->start,
                   "CTAs %ld and the next by place", (long)i - 1);
    free(order);
    double span_dram = 0, span_l2 = 0, span_ops = 0, span_cta_s = 0, at = 0;
    for (int64_t i = 0; i < c->n_span; i++) {
        const struct time_model_span *x = &c->span[i];
        double s = x->end - x->start;
        check_each(x->start == at && s > 0 && x->ctas <= c->most_ctas && x->sms <= j->mc->sms, "span %ld",
                   (long)i);
        check_each(x->dram <= 1 + ROUNDING && x->l2 <= 1 + ROUNDING && x->ops <= 1 + ROUNDING, "span %ld",
                   (long)i);
        at = x->end;
        span_dram += x->dram * s * j->mc->bandwidth;
        span_l2 += x->l2 * s * j->mc->l2_bandwidth;
        span_ops += x->ops * s * j->mc->tensor_flops;
        span_cta_s += x->ctas * s;
    }
    ck_assert_msg(near(span_dram, dram) && near(span_l2, l2) && near(span_ops, ops),
                  "spans %.17g %.17g %.17g, CTAs %.17g %.17g %.17g", span_dram, span_l2, span_ops, dram, l2,
                  ops);
    ck_assert(near(span_cta_s, slot_s) && at == c->kernel_s);
}

/* All rates times k; a latency is the inverse of one. */
static struct machine faster(const struct machine *mc, double k)
{
    struct machine m = *mc;
    m.bandwidth *= k;
    m.l2_bandwidth *= k;
    m.tensor_flops *= k;
    m.latency_ns /= k;
    return m;
}

static void law_rates(const struct job *j, const struct time_model *c)
{
    static const double factors[] = {2, 0.125, 3.7};
    for (int i = 0; i < 3; i++) {
        struct machine m = faster(j->mc, factors[i]);
        struct time_model k = job_clock(j, &m, CLOCK_TOTALS);
        ck_assert_msg(near(k.kernel_s * factors[i], c->kernel_s), "times %g: %.17g, not %.17g", factors[i],
                      k.kernel_s * factors[i], c->kernel_s);
        ck_assert(near(k.sm_use, c->sm_use) && near(k.bandwidth_use, c->bandwidth_use));
        ck_assert(k.launch_s == c->launch_s);
    }
}

/* Above all fields of all three counts, and not by much: it refuses what could be counted. */
static void law_most(const struct job *j)
{
    double most = price_most(j->p, &j->env), largest = 0;
    for (int mode = 0; mode < N_COUNT_MODES; mode++) {
        struct ledger l = count_plan(j->p, &j->env, (enum count_mode)mode);
#define X(field, meaning) largest = fmax(largest, (double)l.field);
        LEDGER_FIELDS(X)
#undef X
    }
    ck_assert_msg(largest <= most && most <= 16 * largest + 1e7, "%g, at most %g", largest, most);
}

/* Round trips are all of the time where rates are endless, and nothing where they take no time. */
static void law_trips(const struct job *j, const struct time_model *c)
{
    struct machine endless = faster(j->mc, 1e6), at_once = *j->mc;
    endless.latency_ns = j->mc->latency_ns;
    at_once.latency_ns = 1e-3;
    struct time_model a = job_clock(j, &endless, CLOCK_TOTALS), b = job_clock(j, &at_once, CLOCK_TOTALS);
    ck_assert(c->trip_s >= 0 && c->trip_s <= c->kernel_s * (1 + ROUNDING));
    ck_assert_msg(a.trip_s >= 0.99 * a.kernel_s, "%g of %g", a.trip_s, a.kernel_s);
    ck_assert_msg(b.trip_s <= 0.05 * b.kernel_s, "%g of %g", b.trip_s, b.kernel_s);
}

LOOP_TEST(laws, n_strategies)
{
    const struct strategy *s = strategies[_i];
    int32_t trees = getenv("TREEATTN_QUICK") ? SMALL_TREES : TREES, ran = 0;
    for (int32_t i = 0; i < trees; i++)
        for (int32_t m = 0; m < n_machines; m++) {
            const int32_t *h = heads[(i + m) % 4];
            CLEARED(job) j =
                job_new(gen_tree(gen_family(SEED, i), gen_seed(SEED, i)), s, &machines[m], h[0], h[1]);
            if (j.p) {
                CLEARED(time_model) c = job_clock(&j, j.mc, CLOCK_TIMELINE);
                law_bounds(&j, &c);
                law_ledger(&j, &c);
                law_timeline(&j, &c);
                law_rates(&j, &c);
                law_most(&j);
                law_trips(&j, &c);
                ran += c.ctas > 0;
            }
        }
    ck_assert_msg(ran > 0, "%s ran on no tree", s->name);
}

/* Machines that nobody builds: laws hold, nothing is NaN, nothing hangs. */
LOOP_TEST(odd_machines, n_strategies)
{
    static const char *const odd[] = {"h200:sms=1",
                                      "h200:sms=32767",
                                      "h200:bandwidth=1e6",
                                      "h200:bandwidth=1e18",
                                      "h200:l2_bandwidth=1e6",
                                      "h200:l2_bytes=0",
                                      "h200:l2_bytes=1e18",
                                      "h200:latency_ns=1e9",
                                      "h200:latency_ns=0.001",
                                      "h200:tensor_flops=1e10",
                                      "h200:ctas_per_sm=1",
                                      "h200:regs_per_sm=1024",
                                      "h200:threads_per_sm=128",
                                      "h200:smem_per_sm=1024,smem_per_cta=1024"};
    for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++) {
        struct machine mc;
        ck_assert(machine_parse(odd[i], &mc, NULL));
        CLEARED(job) j =
            job_new(gen_tree(gen_family(9, (int64_t)i), gen_seed(9, (int64_t)i)), strategies[_i], &mc, 8, 2);
        if (j.p) {
            CLEARED(time_model) c = job_clock(&j, &mc, CLOCK_TIMELINE);
            law_bounds(&j, &c);
            law_ledger(&j, &c);
            law_timeline(&j, &c);
        }
    }
}

/* ---- the same by plain bookkeeping ---------------------------------------------------------------------- */

struct slow_cta {
    const struct grid_batch *b;
    double alone, left, start, end;
    int32_t sm;
    bool running;
};

/* All CTAs of launches that run together, one by one: rates, remaining times and free SMs from scratch at every event.
 * Returns when the last one ends. */
static double slow_run(struct slow_cta *cta, int64_t n, const struct machine *mc, double now)
{
    struct time_model_coefs c = time_model_coefs_default();
    int64_t next = 0, running = 0;
    while (next < n || running > 0) {
        for (; next < n; next++) { /* as long as the next one fits the least loaded SM */
            double least = INFINITY;
            for (int32_t sm = 0; sm < mc->sms; sm++) {
                double load = 0;
                for (int64_t i = 0; i < next; i++)
                    load += cta[i].running && cta[i].sm == sm ? 1.0 / cta[i].b->resident : 0;
                if (load < least - 1e-6) {
                    least = load;
                    cta[next].sm = sm;
                }
            }
            if (least + 1.0 / cta[next].b->resident > 1 + 1e-6)
                break;
            cta[next].start = now;
            cta[next].left = cta[next].alone;
            cta[next].running = true;
            running++;
        }
        double dram = 0, l2 = 0, ops = 0, step = INFINITY;
        for (int64_t i = 0; i < next; i++)
            if (cta[i].running) {
                dram += cta[i].b->dram / cta[i].alone / (mc->bandwidth * c.bandwidth);
                l2 += cta[i].b->l2 / cta[i].alone / (mc->l2_bandwidth * c.l2);
                ops += cta[i].b->ops / cta[i].alone / (mc->tensor_flops * c.tensor);
                step = fmin(step, cta[i].left);
            }
        double slow = fmax(1, fmax(dram, fmax(l2, ops)));
        now += step * slow;
        for (int64_t i = 0; i < next; i++)
            if (cta[i].running && (cta[i].left -= step) <= 1e-9 * now) {
                cta[i].running = false;
                cta[i].end = now;
                running--;
            }
    }
    return now;
}

static double slow_alone(const struct grid_batch *b, const struct machine *mc)
{
    struct time_model_coefs c = time_model_coefs_default();
    double trip = c.latency * mc->latency_ns * 1e-9;
    double dram = b->dram / fmin(b->flight / trip, mc->bandwidth * c.bandwidth);
    double l2 = b->l2 / fmin(b->flight / (trip * c.l2_latency), mc->l2_bandwidth * c.l2);
    return c.start * trip + fmax(dram, fmax(l2, b->ops / (mc->tensor_flops * c.tensor / mc->sms)));
}

LOOP_TEST(plain_bookkeeping_agrees, n_strategies)
{
    int64_t compared = 0;
    for (int32_t t = 0; t < 12; t++) {
        struct machine mc;
        ck_assert(machine_parse(t % 2 ? "a100-80:sms=5" : "h200:sms=7,bandwidth=1e11", &mc, NULL));
        CLEARED(job) j = job_new(gen_tree(gen_family(7, t), gen_seed(7, t)), strategies[_i], &mc, 4, 2);
        struct time_model_coefs coefs = time_model_coefs_default();
        CLEARED(grid) g = j.p ? grid_of(j.p, &j.env, &mc, &(struct grid_kernel){coefs.stages, coefs.unseen})
                              : (struct grid){0};
        if (g.ctas > 0 && g.ctas < 400) {
            CLEARED(time_model) c = job_clock(&j, &mc, CLOCK_TIMELINE);
            FREED struct slow_cta *cta = xcalloc((size_t)g.ctas, sizeof *cta);
            int64_t n = 0, first = 0;
            double now = 0;
            for (int32_t l = 0; l < j.p->n_launches; l++) {
                for (int64_t i = g.first[l]; i < g.first[l + 1]; i++)
                    for (int64_t k = 0; k < g.batch[i].n; k++)
                        cta[n++] = (struct slow_cta){.b = &g.batch[i], .alone = slow_alone(&g.batch[i], &mc)};
                if (l + 1 == j.p->n_launches || j.p->launch[l + 1].order == LAUNCH_SERIAL) {
                    now = slow_run(cta + first, n - first, &mc, now);
                    first = n;
                }
            }
            ck_assert(n == c.n_cta);
            ck_assert_msg(fabs(now / c.kernel_s - 1) < 1e-6, "tree %d: %.9g and %.9g s", t, now, c.kernel_s);
            for (int64_t i = 0; i < n; i++)
                ck_assert_msg(fabs(cta[i].start - c.cta[i].start) < 1e-6 * now && cta[i].sm == c.cta[i].sm &&
                                  fabs(cta[i].end - c.cta[i].end) < 1e-6 * now,
                              "tree %d, CTA %lld", t, (long long)i);
            compared++;
        }
    }
    ck_assert_int_gt(compared, 0);
}

/* The plan's groups anew, each in `parts` parts, merged flat. */
static struct plan *regroup(const struct plan *p, int64_t parts)
{
    struct plan *out = plan_new(p->nf, "regrouped");
    CLEARED(sel) sel = {0};
    plan_launch(out, "attention", LAUNCH_SERIAL);
    for (int64_t i = 0; i < p->n_groups; i++) {
        const struct group *g = &p->group[i];
        sel_clear(&sel);
        for (int64_t q = g->qr0; q < g->qr1; q++)
            sel_queries(&sel, p->qr[q].begin, p->qr[q].end);
        for (int64_t r = g->run0; r < g->run1; r++)
            sel_run(&sel, p->run[r].node, p->run[r].begin, p->run[r].end);
        int64_t size = ceil_div(sel.n_kv, parts);
        for (int64_t at = 0; at < sel.n_kv; at += size) {
            struct group_spec spec = {.mask = g->mask, .tile_m = g->tile_m, .tile_n = g->tile_n};
            spec.kv_begin = at;
            spec.kv_end = min_i64(at + size, sel.n_kv);
            plan_group(out, &sel, &spec);
        }
    }
    plan_merge_flat(out, "merge", true);
    return out;
}

LOOP_TEST(splitting_never_lowers_partial_bytes, n_strategies)
{
    int32_t more = 0;
    for (int32_t i = 0; i < TREES; i++) {
        CLEARED(job) j = job_new(gen_tree(gen_family(SEED, i), gen_seed(SEED, i)), strategies[_i],
                                 machine_default(), 8, 2);
        int64_t before = 0;
        for (int64_t parts = 1; j.p && parts <= 8; parts *= 2) {
            AUTO(plan) p = regroup(j.p, parts);
            struct ledger l = ledger_of_plan(p, &j.env);
            ck_assert(ledger_partials(&l) >= before);
            more += parts > 1 && ledger_partials(&l) > before;
            before = ledger_partials(&l);
        }
    }
    ck_assert_int_gt(more, 0);
}

/* Sharing factor F_s = tokens read by every query for itself / tokens that there are. */
TEST(query_centric_reads_the_sharing_factor_times)
{
    static const char *const names[] = {"naive", "flash-attention", "flash-decoding", "flashinfer",
                                        "radix-attention"};
    for (int32_t i = 0; i < 40; i++)
        for (int k = 0; k < 5; k++) {
            struct tree *t = gen_tree(gen_family(SEED, i), gen_seed(SEED, i));
            tree_query_leaves(t);
            struct strategy_use use = strategy_of(names[k]);
            CLEARED(job) j = job_new(t, use.s, machine_default(), 8, 2);
            int64_t sum = 0;
            for (int32_t q = 0; q < j.nf->n_queries; q++)
                sum += nform_context(j.nf, q);
            struct ledger l = ledger_of_plan(j.p, &j.env);
            ck_assert_int_eq(l.kv, sum * (int64_t)token_bytes(&j.env));
        }
}

/* ---- hand-made plans ---------------------------------------------------------------------------------- */

/* A forest of separate roots, a query on each. */
static struct tree *roots(const int64_t *len, int32_t n)
{
    struct tree *t = tree_new(n, 0);
    memcpy(t->len, len, (size_t)n * sizeof *len);
    tree_query_leaves(t);
    return t;
}

/* A group per query, tiles of m x n, outputs written directly. */
static struct plan *plan_paths(const struct nform *nf, int32_t m, int32_t n)
{
    struct plan *p = plan_new(nf, "paths");
    struct group_spec spec = {.tile_m = m, .tile_n = n};
    CLEARED(paths) paths = paths_of(nf, 0);
    plan_launch(p, "attention", LAUNCH_SERIAL);
    for (int32_t q = 0; q < nf->n_queries; q++)
        plan_group(p, paths_next(&paths, q), &spec);
    plan_merge_flat(p, "merge", true);
    return p;
}

static struct time_model time_model_paths(const int64_t *len, int32_t n_roots, int32_t tile_n,
                                          const char *machine)
{
    struct machine mc;
    MUST(machine_parse, machine, &mc);
    AUTO(tree) t = roots(len, n_roots);
    AUTO(nform) nf = nform_new(t);
    AUTO(plan) p = plan_paths(nf, 16, tile_n);
    struct heads env = {1, 1, 128, DT_F16};
    struct time_model_coefs coefs = time_model_coefs_default();
    struct time_model c = time_model_plan(p, &env, &mc, &coefs, 0, CLOCK_TIMELINE);
    return c;
}

/* Default coefficients: a tile's round trip is 3 latencies, a CTA starts in two of them; 16 x 128 x 512 B in flight. */
TEST(one_cta_takes_its_latencies)
{
    const int64_t len[] = {128000};
    CLEARED(time_model) c = time_model_paths(len, 1, 128, "h200:latency_ns=1000");
    double bytes = 128000 * 512.0 + 256 + 260, flight = 128 * 256;
    ck_assert(near(c.dram_bytes, bytes));
    ck_assert_msg(near(c.kernel_s, 2 * 3e-6 + bytes / (flight / 3e-6)), "%.9g", c.kernel_s);
    ck_assert(near(c.longest_s, c.kernel_s) && near(c.serial_s, c.kernel_s));
    ck_assert_int_eq(c.most_ctas, 1);
    ck_assert(near(c.sm_use, 1.0 / 132));
    ck_assert(near(c.low_share, 1));
}

/* One SM with bandwidth for one CTA: two of them take twice as long together. */
TEST(two_ctas_share_the_bandwidth)
{
    const int64_t len[] = {64000, 64000, 32000};
    static const char *const machine =
        "h200:latency_ns=1,sms=1,bandwidth=1e10,tensor_flops=1e18,l2_bandwidth=1e15";
    CLEARED(time_model) two = time_model_paths(len, 2, 128, machine);
    double limit = 1e10 * 0.93, bytes = 64000 * 512.0 + 256 + 260;
    ck_assert_msg(fabs(two.kernel_s / (2 * bytes / limit) - 1) < 1e-4, "%.9g", two.kernel_s);
    ck_assert_int_eq(two.most_ctas, 2);
    ck_assert(two.cta[0].sm == two.cta[1].sm && two.cta[0].slot != two.cta[1].slot);
    ck_assert_int_eq(two.n_span, 1);
    /* a third, half as long, starts when both end: two are all that fit */
    CLEARED(time_model) three = time_model_paths(len, 3, 128, machine);
    ck_assert_int_eq(three.most_ctas, 2);
    ck_assert(three.cta[2].start == three.cta[0].end);
    ck_assert_msg(fabs(three.kernel_s / (2.5 * bytes / limit) - 1) < 1e-4, "%.9g", three.kernel_s);
}

/*
 * PAT Figure 8: four CTAs of different lengths on an SM. Small tiles let four run at a time, each with a quarter
 * of the bytes in flight: the longest goes on alone at a quarter of the bandwidth. With larger tiles and fewer
 * at a time the tail is shorter, in any order of the CTAs.
 */
TEST(higher_concurrency_larger_bubble)
{
    static const int64_t orders[3][4] = {
        {1000, 2000, 3000, 8000}, {8000, 3000, 2000, 1000}, {2000, 8000, 1000, 3000}};
    /* 4 CTAs of n = 32, 2 of n = 64, 1 of n = 128; a bandwidth that one SM's bytes in flight just fill */
    static const int32_t tile_n[] = {32, 64, 128}, ctas[] = {4, 2, 1};
    for (int o = 0; o < 3; o++) {
        double bubble[3], time[3];
        for (int k = 0; k < 3; k++) {
            CLEARED(time_model) c =
                time_model_paths(orders[o], 4, tile_n[k],
                                 "h200:sms=1,smem_per_cta=100000,smem_per_sm=130000,regs_per_sm=65536,"
                                 "latency_ns=200,bandwidth=5.81e10,l2_bandwidth=1e13,tensor_flops=1e18");
            ck_assert_int_eq(c.most_ctas, ctas[k]);
            bubble[k] = 1 - c.slot_use;
            time[k] = c.kernel_s;
        }
        ck_assert_msg(bubble[0] > bubble[1] + 0.05 && bubble[1] > bubble[2] + 0.05,
                      "order %d: bubbles of %.3f, %.3f, %.3f", o, bubble[0], bubble[1], bubble[2]);
        ck_assert_msg(time[0] > time[1] && time[1] > time[2], "order %d: %.3g %.3g %.3g s", o, time[0],
                      time[1], time[2]);
    }
}

/* PAT section 6: launches of different tiles fill each other's bubbles when they are concurrent. */
TEST(concurrent_launches_are_not_slower)
{
    static const char *const levels[] = {"1,4,16 256,512,1024", "1,8,64 2048,100,300",
                                         "1,2,4,64 512,64,1000,16"};
    for (int i = 0; i < 3; i++) {
        CLEARED(job) a = job_levels(levels[i], "pat", machine_find("a100-80"), 32, 8);
        CLEARED(job) b = job_levels(levels[i], "pat-serial", machine_find("a100-80"), 32, 8);
        struct time_model x = job_clock(&a, a.mc, CLOCK_TOTALS), y = job_clock(&b, b.mc, CLOCK_TOTALS);
        ck_assert(near(x.l2_bytes, y.l2_bytes) && x.feature[CLOCK_serial] < y.feature[CLOCK_serial]);
        ck_assert_msg(x.kernel_s < y.kernel_s && x.latency_s < y.latency_s, "%s: %.3g us and %.3g us",
                      levels[i], 1e6 * x.latency_s, 1e6 * y.latency_s);
        ck_assert(x.slot_use > y.slot_use);
    }
}

/* DeFT Table 14: 64 queries share a prompt of 4,000 tokens, A100, Llama-3-8B. Unbalanced groups leave the machine under
 * 5 % most of the time (82 % there), flattened ones never (0 %); both throughputs and the latency follow. */
TEST(unbalanced_groups_leave_the_machine_idle)
{
    struct time_model c[2];
    for (int i = 0; i < 2; i++) {
        const char *strategy = i ? "deft-flatten" : "deft-node";
        CLEARED(job) j = job_levels("1,64 4000,1", strategy, machine_find("a100-80"), 32, 8);
        c[i] = job_clock(&j, j.mc, CLOCK_TOTALS);
    }
    ck_assert_msg(c[0].low_share > 0.5 && c[1].low_share < 0.05, "%.3f and %.3f", c[0].low_share,
                  c[1].low_share);
    ck_assert(c[0].bandwidth_use < c[1].bandwidth_use && c[0].tensor_use < c[1].tensor_use);
    ck_assert(c[0].latency_s > 3 * c[1].latency_s);
}

/* ---- what hits the L2 --------------------------------------------------------------------------------- */

static struct time_model time_model_levels(const char *levels, const char *strategy, const char *machine)
{
    struct machine mc;
    ck_assert(machine_parse(machine, &mc, NULL));
    CLEARED(job) j = job_levels(levels, strategy, &mc, 32, 8);
    struct time_model c = job_clock(&j, &mc, CLOCK_TOTALS);
    return c;
}

TEST(shared_storage_hits_the_l2)
{
    static const char *const tree = "1,32 8000,100";
    double token = 2.0 * 8 * 64 * 2, all = 32 * 8100 * token, unique = (8000 + 32 * 100) * token;
    struct time_model shared = time_model_levels(tree, "radix-attention", "h200");
    struct time_model copied = time_model_levels(tree, "flash-decoding", "h200");
    struct time_model no_l2 = time_model_levels(tree, "radix-attention", "h200:l2_bytes=0");
    ck_assert(near(shared.l2_bytes, copied.l2_bytes) && shared.l2_bytes > all);
    ck_assert_msg(shared.dram_bytes > unique && shared.dram_bytes < 1.3 * unique, "%.0f of %.0f",
                  shared.dram_bytes, unique);
    ck_assert(copied.dram_bytes > all);
    ck_assert(near(no_l2.dram_bytes, no_l2.l2_bytes));
    ck_assert(shared.kernel_s < copied.kernel_s);
}

/* Two waves of long paths: the second finds them only in an L2 that holds them all. */
TEST(later_waves_need_the_working_set)
{
    static const char *const tree = "64 20000"; /* 64 roots, all different: nothing is shared */
    struct time_model apart = time_model_levels(tree, "flash-attention", "h200");
    double token = 2.0 * 8 * 64 * 2;
    ck_assert(apart.dram_bytes >= 64 * 20000 * token);
    /* one SM: CTAs come in twos, so a query's path is gone from a small L2 when the next query reads it */
    struct time_model small = time_model_levels("1,64 20000,1", "flash-attention", "h200:sms=1,l2_bytes=1e6");
    struct time_model large = time_model_levels("1,64 20000,1", "flash-attention", "h200:sms=1,l2_bytes=1e9");
    ck_assert(small.dram_bytes > 63 * 20000 * token);
    ck_assert(large.dram_bytes < 2 * 20000 * token);
}

/* DeFT-Node's longest CTA reads a long prefix by itself: all that it does is wait. */
TEST(a_long_cta_waits_for_round_trips)
{
    CLEARED(job) j = job_levels("1,64 4000,1", "deft-node", machine_find("a100-80"), 32, 8);
    struct machine slower = *j.mc;
    slower.latency_ns *= 1.01;
    struct time_model a = job_clock(&j, j.mc, CLOCK_TOTALS), b = job_clock(&j, &slower, CLOCK_TOTALS);
    ck_assert(a.trip_s > 0.9 * a.kernel_s);
    ck_assert_msg(fabs((b.kernel_s - a.kernel_s) / 0.01 / a.trip_s - 1) < 0.02, "%g, %g",
                  (b.kernel_s - a.kernel_s) / 0.01, a.trip_s);
}

/* ---- what a mask hides -------------------------------------------------------------------------------- */

static struct grid grid_unseen(const struct job *j, double unseen)
{
    return grid_of(j->p, &j->env, j->mc, &(struct grid_kernel){time_model_coefs_default().stages, unseen});
}

/* A group of 64 queries of a leaf each: a Q tile's rows see the prefix and their own leaves. */
TEST(what_no_row_sees_can_be_left_out)
{
    CLEARED(job) j = job_levels("1,64 256,100", "tree-vanilla", machine_find("h200"), 8, 2);
    ck_assert(j.p && j.p->n_groups == 1 && j.p->group[0].nq == 64);
    const struct group *g = &j.p->group[0];
    CLEARED(grid) all = grid_unseen(&j, 1), none = grid_unseen(&j, 0), half = grid_unseen(&j, 0.5);
    double token = 2.0 * 64 * 2, tokens = 256 + 64 * 100;
    int64_t queries = g->tile_m / 4;
    ck_assert(queries < 64 && all.n == ceil_div(64, queries) && none.n == all.n);
    for (int64_t i = 0; i < all.n; i++) {
        double seen = 256 + 100.0 * (double)min_i64(queries, 64 - i * queries);
        double mask = (double)plan_mask_bytes(g, min_i64(queries, 64 - i * queries)) / tokens;
        ck_assert(near(all.batch[i].l2 - none.batch[i].l2, (tokens - seen) * (token + mask)));
        ck_assert(near(all.batch[i].l2 - half.batch[i].l2, (tokens - seen) * (token + mask) / 2));
        ck_assert(near(none.batch[i].ops, 4.0 * 64 * g->tile_m * g->tile_n * ceil(seen / g->tile_n)));
        ck_assert(all.batch[i].ops > half.batch[i].ops && half.batch[i].ops > none.batch[i].ops);
    }
}

/* Plans without masks are the same, others no more than with it; every token is still read by somebody. */
LOOP_TEST(what_is_left_out_nobody_sees, n_strategies)
{
    int64_t masked = 0;
    for (int32_t t = 0; t < TREES; t++) {
        CLEARED(job) j = job_new(gen_tree(gen_family(SEED, t), gen_seed(SEED, t)), strategies[_i],
                                 machine_find("h200"), 8, 2);
        if (j.p && !j.p->unfused) {
            bool mask = false;
            for (int64_t i = 0; i < j.p->n_groups; i++)
                mask |= j.p->group[i].mask != MASK_NONE;
            CLEARED(grid) all = grid_unseen(&j, 1), none = grid_unseen(&j, 0);
            double dram = 0, left_out = 0;
            ck_assert(all.n == none.n);
            for (int64_t i = 0; i < all.n; i++) {
                const struct grid_batch *a = &all.batch[i], *b = &none.batch[i];
                ck_assert(b->l2 <= a->l2 * (1 + ROUNDING) && b->ops <= a->ops * (1 + ROUNDING) &&
                          b->n == a->n);
                ck_assert(mask || (b->l2 == a->l2 && b->dram == a->dram && b->ops == a->ops));
                dram += b->dram * (double)b->n;
                left_out += (a->l2 - b->l2) * (double)b->n;
            }
            double unseen = price_unseen(j.p, &j.env), masks = (double)ledger_of_plan(j.p, &j.env).mask;
            ck_assert(unseen <= left_out * (1 + ROUNDING) + 1e-6 &&
                      left_out <= (unseen + masks) * (1 + ROUNDING) && (unseen > 0) == (left_out > 0));
            ck_assert(dram * (1 + ROUNDING) >= (double)union_tokens(j.nf) * token_bytes(&j.env));
            struct time_model_coefs fitted = time_model_coefs_default(); /* as a fit may have them */
            fitted.unseen = 0, fitted.stages = 3.03, fitted.latency = 1.06, fitted.start = 0.34;
            CLEARED(time_model) x = time_model_plan(j.p, &j.env, j.mc, &fitted, 0, CLOCK_TOTALS);
            law_bounds(&j, &x);
            masked += mask;
        }
    }
    ck_assert(masked > 0 || strcmp(strategies[_i]->name, "tree-vanilla") != 0);
}

/* ---- edges -------------------------------------------------------------------------------------------- */

LOOP_TEST(nothing_takes_no_time, n_strategies)
{
    CLEARED(job) j = job_new(tree_new(3, 0), strategies[_i], machine_default(), 8, 2);
    if (j.p) {
        CLEARED(time_model) c = job_clock(&j, j.mc, CLOCK_TIMELINE);
        ck_assert(c.kernel_s == 0 && c.ctas == 0 && c.n_span == 0 && c.sm_use == 0 &&
                  !isnan(c.bandwidth_use));
    }
}

LOOP_TEST(same_in_every_thread, n_strategies)
{
    CLEARED(job) j = job_new(gen_tree(FAM_BUSHY, 3), strategies[_i], machine_default(), 32, 8);
    if (j.p) {
        struct time_model one = job_clock(&j, j.mc, CLOCK_TOTALS), many[8];
#pragma omp parallel for num_threads(4)
        for (int i = 0; i < 8; i++)
            many[i] = job_clock(&j, j.mc, CLOCK_TOTALS);
        for (int i = 0; i < 8; i++)
            ck_assert_mem_eq(&many[i], &one, sizeof one);
    }
}

TEST(coefficients_are_checked)
{
    struct time_model_coefs c = time_model_coefs_default();
    struct err e = {0};
    ck_assert(time_model_coefs_check(&c, &e));
    c.launch = -1;
    ck_assert(!time_model_coefs_check(&c, &e) && e.code == EXIT_BAD_INPUT && strstr(e.msg, "launch"));
    c = time_model_coefs_default();
    c.tensor = NAN;
    e = (struct err){0};
    ck_assert(!time_model_coefs_check(&c, &e) && strstr(e.msg, "tensor"));
}

/* What a coefficient says is added says so exactly: launches, planning, a constant, the kernel's factor. */
LOOP_TEST(latency_is_linear_where_it_says_so, n_strategies)
{
    CLEARED(job) j =
        job_new(levels_parse("1,4,16 256,512,1024", NULL), strategies[_i], machine_default(), 32, 8);
    if (j.p) {
        struct time_model_coefs c = time_model_coefs_default();
        struct time_model a = time_model_plan(j.p, &j.env, j.mc, &c, 0, CLOCK_TOTALS);
        c.base = 1e-3;
        c.launch = 7;
        c.concurrent = 3;
        c.kernel = 2;
        struct time_model b = time_model_plan(j.p, &j.env, j.mc, &c, 5e-3, CLOCK_TOTALS);
        double launches =
            (7 * a.feature[CLOCK_serial] + 3 * a.feature[CLOCK_concurrent]) * j.mc->launch_ns * 1e-9;
        ck_assert(near(b.latency_s, 1e-3 + launches + 2 * a.feature[CLOCK_kernel_s] + 5e-3));
        ck_assert(near(a.kernel_s, b.kernel_s) && near(a.attention_s + a.merge_s, a.kernel_s));
        ck_assert(a.feature[CLOCK_serial] + a.feature[CLOCK_concurrent] == j.p->n_launches);
    }
}

/* As drivers name cards. */
TEST(machines_are_found_by_a_devices_name)
{
    static const struct {
        const char *device, *name;
    } all[] = {{"NVIDIA H100 80GB HBM3", "h100"},
               {"NVIDIA H200", "h200"},
               {"NVIDIA A100-SXM4-80GB", "a100-80"},
               {"NVIDIA A100-PCIE-40GB", "a100-40"},
               {"NVIDIA L40S", "l40s"},
               {"NVIDIA GeForce RTX 4090", "rtx4090"},
               {"NVIDIA GeForce RTX 3090", NULL},
               {"NVIDIA L40", NULL},
               {"NVIDIA H1000", NULL},
               {"", NULL}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        const struct machine *m = machine_of_device(all[i].device);
        ck_assert_msg(all[i].name ? m && strcmp(m->name, all[i].name) == 0 : !m, "'%s' is %s", all[i].device,
                      m ? m->name : "none");
    }
}

TEST(machines_are_parsed)
{
    struct machine m;
    struct err e = {0};
    ck_assert(machine_parse("h200:bandwidth=4.5e12,sms=66", &m, &e));
    ck_assert(m.bandwidth == 4.5e12 && m.sms == 66 && m.l2_bytes == machine_find("h200")->l2_bytes);
    ck_assert_str_eq(m.source[MACHINE_sms], "given");
    ck_assert_str_eq(m.source[MACHINE_l2_bytes], machine_find("h200")->source[MACHINE_l2_bytes]);
    static const char *const wrong[][2] = {
        {"h300", "no machine 'h300'"},
        {"", "no machine ''"},
        {"h200:bandwith=1", "has no figure"},
        {"h200:bandwidth", "expected figure=value"},
        {"h200:bandwidth=0", "bandwidth=0"},
        {"h200:bandwidth=-1", "bandwidth=-1"},
        {"h200:bandwidth=nan", "bandwidth=nan"},
        {"h200:bandwidth=inf", "bandwidth=inf"},
        {"h200:bandwidth=1e12x", "1e12x"},
        {"h200:sms=1.5", "whole number"},
        {"h200:sms=0", "sms=0"},
        {"h200:smem_per_sm=2048", "at most smem_per_sm"},
        {"h200:ctas_per_sm=33", "1 to 32"},
        {"h200:tensor_flops=", "tensor_flops="},
        {"h200:read_measured=1", "read_measured is for reference"},
        {"h200:sms=66,copy_measured=1e12", "copy_measured is for reference"},
        {"h200:l2_measured=1e12", "l2_measured is for reference"},
        {"h200:latency_measured=100", "latency_measured is for reference"},
        {"h200:tensor_measured=1e15", "tensor_measured is for reference"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        e = (struct err){0};
        ck_assert_msg(!machine_parse(wrong[i][0], &m, &e) && e.code == EXIT_BAD_INPUT, "%s", wrong[i][0]);
        ck_assert_msg(strstr(e.msg, wrong[i][1]) != NULL, "%s: %s", wrong[i][0], e.msg);
    }
    for (int32_t i = 0; i < n_machines; i++)
        for (int32_t f = 0; f < N_MACHINE_FIGURES; f++) {
            double x = machine_get(&machines[i], f);
            const struct machine_figure *figure = &machine_figures[f];
            ck_assert_msg((x == 0 || (x >= figure->least && x <= figure->most)) &&
                              (x != 0) == (machines[i].source[f] != NULL),
                          "%s %s", machines[i].name, figure->name);
            ck_assert_msg(f >= N_MACHINE_GIVEN || x != 0, "%s lacks %s", machines[i].name, figure->name);
        }
}
