/*
 * cmd_judge.c - `treeattn judge`: a step of a running engine, recorded in a file: judged, and priced under every strategy.
 */
#include "sim/plan_ledger.h"
#include "sim/time/time_model.h"
#include "verify/bundle/bundle.h"
#include "verify/cases/case.h"
#include "verify/cli/cmd.h"
#include "verify/io/crash.h"
#include "verify/judge/cover.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct args {
    const char *file;
    struct problem_given given;
    struct cmd_output out;
    const char *strategies;
    struct machine machine;
};

static bool read_options(struct args *a, int argc, char **argv, struct err *e)
{
    struct options o = {
        .about =
            "Reads one step of a running engine from a safetensors file (a bundle): page tables, and Q, K, "
            "V, O and LSE. Requests "
            "that begin with the same pages share them: that is the tree. O and LSE are judged by exact "
            "attention. Then the "
            "step is priced: what each strategy would read, and how long that would take on a simulated GPU.",
        .examples = "judge step.safetensors\n"
                    "judge step.safetensors --strategy flash-attention,cascade,pat,treeattn --machine h100\n"
                    "judge workload.safetensors --heads 32/8 --head-dim 128 --page 1",
        .details =
            "Tensors of a bundle (verify/child/treeattn.py: record() writes one):\n"
            "block_table [R, most], seq_lens [R]: the pages of R requests, and tokens of each. Or "
            "kv_indptr [R+1], kv_indices, "
            "kv_last_page_len [R]\n"
            "query_start_loc [R+1] or qo_indptr: queries of each, on its last tokens; none: one each\n"
            "q [n, heads, d]; k, v [pages, page, KV heads, d]; o [n, heads, d], lse [n, heads], "
            "natural logarithm\n"
            "scale, soft_cap, window: one number each; sinks [heads], k_scale, v_scale [KV heads]\n"
            "declares: how the kernel computes, as a child says it in its first line "
            "(verify/child/README.md). Without: sums "
            "in f32 in order, P rounded to the type of Q, 128 merges\n"
            "Files with lists alone, as flashinfer-bench keeps them, are priced: --heads, --head-dim, "
            "--dtype and --page say "
            "what the lists do not. The price is of one layer.\n"
            "kv_bytes, KV MiB: K and V read; of_alone: against each query on its own; of_least: against each "
            "token that somebody sees "
            "once; time_us: simulated",
        .needs = "no file given (expected a bundle)",
        .words = "FILE",
        .word = &a->file,
        .max_words = 1};
    problem_options(&o, &a->given);
    problem_defaults(&o);
    options_refuse(&o, "fill kv window", "the file says that (expected none)");
    const struct opt own[] = {
        HEADING("What is priced:"),
        TEXT("strategy", "LIST", &a->strategies, NULL, "only these: NAME[:K=V,..],.. (default: all)"),
        CALL("machine", "NAME", set_machine, &a->machine, "h200",
             "GPU that the time is simulated on (treeattn list machines)"),
        {0},
    };
    options_add(&o, own);
    output_options(&o, &a->out);
    options_refuse(&o, "quiet", "every strategy has a row (expected none)");
    return options_parse(&o, argc, argv, e) && (o.n_words == 1 || err_set(e, "%s", o.needs));
}

/* ---- the verdict ---------------------------------------------------------------------------------------- */

static void print_tree(FILE *f, const char *lead, const struct bundle *b)
{
    const struct tree *t = b->tree;
    const struct heads *h = &b->spec.heads;
    int64_t listed = b->lists.ptr[b->lists.n_requests], tokens = 0;
    for (int32_t r = 0; r < b->lists.n_requests; r++)
        tokens += b->lists.len[r];
    fprintf(f,
            "%s%" PRId32 " requests, %" PRId32 " queries, %" PRId64 " tokens on %" PRId64 " pages of %" PRId32
            "\n",
            lead, b->lists.n_requests, t->n_queries, tokens, listed, b->spec.page_size);
    fprintf(f, "%s%" PRId32 " query heads, %" PRId32 " KV heads, d = %" PRId32 ", %s\n", lead, h->h_q,
            h->h_kv, h->d, heads_dtype_name(h));
    fprintf(f, "%stree: %" PRId32 " nodes, %" PRId64 " tokens, %" PRId32 " nodes deep\n", lead, t->n_nodes,
            tree_tokens(t), tree_depth(t));
}

/* Whether it may pass. */
static bool print_verdict(FILE *f, const char *lead, struct bundle *b)
{
    if (!b->out) {
        fprintf(f, "%snumbers: none in the file\n", lead);
        return true;
    }
    struct bundle_verdict v = bundle_judge(b);
    const char *all = b->has_lse ? "O and LSE" : "O, without LSE";
    if (v.cmp.verdict != V_FAIL)
        fprintf(f, "%snumbers: %s, %s, worst error %.3g of its bound\n", lead, verdict_name[v.cmp.verdict],
                all, v.cmp.worst);
    else
        fprintf(f, "%snumbers: FAIL, %s, worst error %.3g of its bound: %s\n", lead, all, v.cmp.worst,
                v.cmp.why);
    if (v.cause.text[0])
        fprintf(f, "%s  cause: %s\n", lead, v.cause.text);
    return v.cmp.verdict != V_FAIL;
}

/* ---- the price ------------------------------------------------------------------------------------------ */

struct price {
    int64_t kv, groups;
    double time_us;
    char why[WHY_MAX]; /* "": it applies */
};

static struct price price_of(const struct strategy_use *use, const struct nform *nf,
                             const struct plan_env *env)
{
    struct price x = {.kv = 0};
    struct err e = {0};
    struct plan *plan = strategy_plan(use, nf, env, x.why);
    if (!plan)
        return x;
    if (!cover_check(plan, &e)) {
        snprintf(x.why, sizeof x.why, "%.200s", e.msg);
    } else {
        struct time_model_coefs coefs = time_model_coefs_default();
        struct time_model t = time_model_plan(plan, &env->heads, env->machine, &coefs, 0, CLOCK_TOTALS);
        x.kv = ledger_of_plan(plan, &env->heads).kv;
        x.groups = plan->n_groups;
        x.time_us = 1e6 * t.latency_s;
        time_model_free(&t);
    }
    plan_free(plan);
    return x;
}

static void print_prices(const struct args *a, const struct bundle *b, const struct strategy_use *use,
                         int32_t n_use, const struct outfile *out, FILE *human, const char *lead)
{
    static const char *const columns[] = {"strategy", "kv_bytes", "of_alone", "of_least",
                                          "groups",   "time_us",  "why",      NULL};
    static const char *const text_columns[] = {"strategy", "KV MiB",       "of alone", "of least",
                                               "groups",   "simulated us", "why",      NULL};
    static const int32_t width[] = {22, 10, 8, 8, 7, 12, 0};
    struct nform *nf = nform_new(b->tree);
    struct plan_env env = {.heads = b->spec.heads, .machine = &a->machine};
    struct printer t = cmd_table(out, &a->out, a->out.style == STYLE_TEXT ? text_columns : columns, width);
    struct strategy_use base;
    CK(strategy_parse("flash-attention", &base, NULL));
    struct price alone = price_of(&base, nf, &env);
    double least = (double)(nform_seen_tokens(nf) * heads_token_bytes(&b->spec.heads)), best = (double)alone.kv;
    for (int32_t i = 0; i < n_use; i++) {
        struct price x = price_of(&use[i], nf, &env);
        bool there = !x.why[0];
        char *label = strategy_label(&use[i]);
        table_text(&t, label);
        table_bytes_if(&t, there, x.kv);
        table_f64_if(&t, there && alone.kv > 0, (double)x.kv / (double)alone.kv, 3);
        table_f64_if(&t, there && least > 0, (double)x.kv / least, 3);
        table_i64_if(&t, there, x.groups);
        table_f64_if(&t, there, x.time_us, 4);
        table_text(&t, x.why);
        free(label);
        best = there && (double)x.kv < best ? (double)x.kv : best;
    }
    table_end(&t);
    if (least > 0)
        fprintf(human,
                "%seach query alone reads %.2f times the K and V that it must; the best of these plans %.2f "
                "times\n",
                lead, (double)alone.kv / least, best / least);
    nform_free(nf);
}

int cmd_judge(int argc, char **argv)
{
    struct err e = {0};
    struct args a = {.given.spec = case_default_spec()};
    struct bundle b;
    struct outfile out;
    struct strategy_use *use = NULL;
    int32_t n_use = 0;
    crash_tell();
    if (!read_options(&a, argc, argv, &e) || !case_strategies(a.strategies, &use, &n_use, &e) ||
        !bundle_read(a.file, &a.given.spec, &b, &e)) {
        free(use);
        return cmd_error(&e);
    }
    bool passed = true, opened = outfile_open(&out, a.out.path, &e);
    if (opened) {
        FILE *human = a.out.style == STYLE_JSON ? stderr : out.f;
        const char *lead = a.out.style == STYLE_CSV ? "# " : "";
        print_tree(human, lead, &b);
        passed = print_verdict(human, lead, &b);
        print_prices(&a, &b, use, n_use, &out, human, lead);
    }
    bool good = opened && outfile_close(&out, true, &e);
    bundle_free(&b);
    free(use);
    return !good ? cmd_error(&e) : passed ? EXIT_GOOD : EXIT_FAILED;
}
