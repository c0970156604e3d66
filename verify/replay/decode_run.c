#include "verify/replay/decode_run.h"
#include "verify/compare/compare.h"
#include "verify/judge/judge.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What prompts are planned with: no mask, no limit, any tree. */
#define PROMPT_STRATEGY "radix-attention"

bool decode_run_open(struct decode_run *r, struct decoder *decoder, bool filled, bool judge, struct err *e)
{
    const struct decoder_spec *s = &decoder->spec;
    CK(!(filled && judge));
    *r = (struct decode_run){.decoder = decoder,
                             .filled = filled,
                             .tokens = tokens_new(s->model->vocab, s->seed),
                             .witness = judge ? logits_check_new(s->model, s->dtype, s->seed) : NULL};
    return !filled || decoder_fill(decoder, 0, s->n_pages * s->page_size, e);
}

void decode_run_close(struct decode_run *r)
{
    tokens_free(r->tokens);
    logits_check_free(r->witness);
}

struct problem decode_problem(const struct decoder_spec *s, const struct tree *tree, const int64_t *page_off,
                              int32_t *page_table)
{
    return (struct problem){.tree = tree,
                            .heads = model_heads(s->model, s->dtype),
                            .scale = 1 / sqrt(s->model->d),
                            .page_size = s->page_size,
                            .n_pages = s->n_pages,
                            .page_off = (int64_t *)page_off, /* read only, like all of it */
                            .page_table = page_table};
}

struct plan_env decode_env(const struct decoder_spec *s)
{
    return plan_env_default(model_heads(s->model, s->dtype));
}

bool decode_run_advance(struct decode_run *r, const struct step *s, struct err *e)
{
    int64_t n = s->moved.n_moves;
    int64_t *from = xcalloc((size_t)n, sizeof *from), *to = xcalloc((size_t)n, sizeof *to);
    for (int64_t i = 0; i < n; i++) {
        from[i] = s->moved.move[i].from;
        to[i] = s->moved.move[i].to;
    }
    if (!r->filled)
        tokens_advance(r->tokens, s->tree, &s->parts);
    bool good = decoder_move(r->decoder, n, from, to, e);
    free(from);
    free(to);
    return good;
}

/* What cards plan of a step. */
struct card_plans {
    int32_t n;
    struct nform *nf[CARDS_MOST];
    struct plan *plan[CARDS_MOST];
};

static void card_plans_clear(struct card_plans *x)
{
    for (int32_t i = 0; i < x->n; i++) {
        plan_free(x->plan[i]);
        nform_free(x->nf[i]);
    }
}

/* use NULL: no attention. */
static bool plan_cards(struct decode_run *r, const struct problem *p, const struct strategy_use *use,
                       struct card_plans *x, struct err *e)
{
    const struct problem *part[CARDS_MOST];
    int32_t n = decoder_card_problems(r->decoder, p, part);
    const struct kernel *kernel = kernel_find(r->decoder->type->name);
    double begin = now_s();
    r->merges = 0;
    for (int32_t i = 0; i < n && use; i++) {
        char why[WHY_MAX];
        struct plan_env env = plan_env_default(part[i]->heads);
        x->n = i + 1;
        x->nf[i] = nform_new(part[i]->tree);
        x->plan[i] = strategy_plan(use, x->nf[i], &env, why);
        r->inapplicable = !x->plan[i];
        if (!x->plan[i])
            return err_missing(e, "card %d: %s", i, why);
        r->merges = (int32_t)max_i64(r->merges, arithmetic_of(part[i], x->plan[i], kernel).merges);
    }
    r->plan_s += now_s() - begin;
    return true;
}

/* Queries of p->tree, each of which writes the last token that it sees, through the decoder. use: what cards plan with. */
static bool enqueue(struct decode_run *r, const struct problem *p, const struct trace_parts *parts,
                    const struct plan *plan, const struct strategy_use *use, bool timed, bool keep,
                    struct err *e)
{
    const struct tree *t = p->tree;
    size_t n = (size_t)t->n_queries;
    int32_t *token = xcalloc(n, sizeof *token), *position = xcalloc(n, sizeof *position);
    int64_t *slot = xcalloc(n, sizeof *slot), *above = xcalloc((size_t)t->n_nodes, sizeof *above);
    for (int32_t i = 0; i < t->n_nodes; i++)
        above[i] = t->parent[i] < 0 ? 0 : above[t->parent[i]] + t->len[t->parent[i]];
    for (int32_t q = 0; q < t->n_queries; q++) {
        struct query x = t->query[q];
        CK(x.upto > 0);
        position[q] = (int32_t)(above[x.node] + x.upto - 1);
        slot[q] = problem_slot(p, x.node, x.upto - 1);
        token[q] = r->filled ? (int32_t)(slot[q] % r->decoder->spec.model->vocab)
                             : tokens_at(r->tokens, parts, x.node, x.upto - 1);
    }
    struct card_plans cards = {0};
    bool good = plan_cards(r, p, plan ? use : NULL, &cards, e);
    struct decode_step step = {.p = p,
                               .plan = plan,
                               .card_plan = (const struct plan *const *)cards.plan,
                               .token = token,
                               .position = position,
                               .slot = slot,
                               .parts = timed,
                               .keep = keep};
    good = good && decoder_step(r->decoder, &step, e);
    card_plans_clear(&cards);
    free(token);
    free(position);
    free(slot);
    free(above);
    return good;
}

/* ---- prompts ---------------------------------------------------------------------------------------- */

/* Queries on the tree's tokens `query`, planned here. */
static bool decode_chain(struct decode_run *r, const struct step *s, struct query *query, int32_t n,
                         struct err *e)
{
    const struct decoder_spec *spec = &r->decoder->spec;
    struct tree chain = *s->tree;
    chain.query = query;
    chain.n_queries = n;
    struct problem p = decode_problem(spec, &chain, s->page_off, s->page_table);
    struct plan_env env = decode_env(spec);
    struct strategy_use use;
    CK(strategy_parse(PROMPT_STRATEGY, &use, NULL));
    struct nform *nf = nform_new(&chain);
    char why[WHY_MAX];
    struct plan *plan = strategy_plan(&use, nf, &env, why);
    bool good = enqueue(r, &p, &s->parts, plan, &use, false, false, e) && decoder_wait(r->decoder, NULL, e);
    plan_free(plan);
    nform_free(nf);
    return good;
}

static bool own_token(const struct tree *t, int32_t node, int64_t j)
{
    for (int32_t q = 0; q < t->n_queries; q++)
        if (t->query[q].node == node && t->query[q].upto == j + 1)
            return true;
    return false;
}

/* Every fresh token that is not a query's own, in as few steps as the decoder takes. Nodes come after their parents, so
 * a token's path is written before it or beside it. */
static bool decode_prompts(struct decode_run *r, const struct step *s, struct err *e)
{
    int32_t most = r->decoder->spec.max_queries, n = 0;
    struct query *query = xcalloc((size_t)most, sizeof *query);
    bool good = true;
    for (int32_t node = 0; node < s->tree->n_nodes && good; node++)
        for (int64_t i = 0; i < s->moved.n_fresh && good; i++) {
            const struct pool_fresh *f = &s->moved.fresh[i];
            for (int64_t j = f->begin; j < f->end && f->node == node && good; j++) {
                if (own_token(s->tree, node, j))
                    continue;
                query[n++] = (struct query){.node = node, .upto = j + 1};
                if (n == most) {
                    good = decode_chain(r, s, query, n, e);
                    n = 0;
                }
            }
        }
    good = good && (n == 0 || decode_chain(r, s, query, n, e));
    free(query);
    return good;
}

/* ---- judging ---------------------------------------------------------------------------------------- */

/* Rows of the chosen queries, one behind the other. */
static void *gather(const void *from, int64_t row_bytes, const int32_t *query, int32_t n)
{
    char *to = xcalloc((size_t)n, (size_t)row_bytes);
    for (int32_t i = 0; i < n; i++)
        memcpy(to + i * row_bytes, (const char *)from + query[i] * row_bytes, (size_t)row_bytes);
    return to;
}

/* Attention of a layer for the queries of p->tree, which are query[] of the step: what was kept against the oracle. */
static bool check_layer(struct decode_run *r, struct problem *p, const struct plan *plan,
                        const int32_t *query, int32_t n_step, int32_t layer, struct err *e)
{
    const struct decoder_spec *s = &r->decoder->spec;
    /* a decoder is called like the kernel that it runs plans with, unless told otherwise */
    const struct kernel *kernel = s->kernel ? s->kernel : kernel_find(r->decoder->type->name);
    int64_t size = dtype_size[s->dtype], slots = s->n_pages * s->page_size,
            row = (int64_t)p->heads.h_q * p->heads.d * size;
    void *q = xcalloc((size_t)n_step, (size_t)row), *o = xcalloc((size_t)n_step, (size_t)row);
    double *lse = xcalloc((size_t)n_step * (size_t)p->heads.h_q, sizeof *lse);
    p->k = xcalloc((size_t)slots * (size_t)p->heads.h_kv * (size_t)p->heads.d, (size_t)size);
    p->v = xcalloc((size_t)slots * (size_t)p->heads.h_kv * (size_t)p->heads.d, (size_t)size);
    bool good = decoder_kept(r->decoder, layer, q, o, lse, e) &&
                decoder_kv(r->decoder, layer, 0, slots, p->k, p->v, e);
    if (good) {
        p->q = gather(q, row, query, p->tree->n_queries);
        struct output *out = output_new(p);
        free(out->o);
        out->o = gather(o, row, query, p->tree->n_queries);
        for (int64_t i = 0; i < out->n_rows; i++)
            output_set_lse(out, i, lse[(int64_t)query[i / p->heads.h_q] * p->heads.h_q + i % p->heads.h_q]);
        struct oracle *orc = oracle_new(p);
        struct arithmetic a = arithmetic_of(p, plan, kernel);
        if (decoder_cards(s) > 1) { /* O of a card's part is rounded as it is stored */
            a.merges = r->merges + (s->parallel != PARALLEL_TENSOR ? s->n_cards - 1 : 0);
            a.partial_o = s->parallel != PARALLEL_TENSOR && dtype_size[s->dtype] < dtype_size[a.partial_o]
                              ? s->dtype
                              : a.partial_o;
        }
        struct comparison c = compare_output(p, orc, out, &a);
        r->attention_worst = fmax(r->attention_worst, c.worst);
        if (c.verdict == V_FAIL)
            good = err_failed(e, "attention of layer %d, query %lld: %s", layer,
                              (long long)query[c.row / p->heads.h_q], c.why);
        oracle_free(orc);
        output_free(out);
        free(p->q);
    }
    free(p->k);
    free(p->v);
    free(q);
    free(o);
    free(lse);
    return good;
}

static bool check_attention(struct decode_run *r, const struct problem *step, const struct plan *plan,
                            struct err *e)
{
    const struct tree *t = step->tree;
    int32_t n = (int32_t)min_i64(t->n_queries, CHECKED_QUERIES), query[CHECKED_QUERIES];
    struct query chosen[CHECKED_QUERIES];
    for (int32_t i = 0; i < n; i++) { /* spread over all of them, the first and the last among them */
        query[i] = n == 1 ? 0 : (int32_t)((int64_t)i * (t->n_queries - 1) / (n - 1));
        chosen[i] = t->query[query[i]];
    }
    struct tree few = *t;
    few.query = chosen;
    few.n_queries = n;
    struct problem p = *step;
    p.tree = &few;
    bool good = true;
    for (int32_t l = 0; l < r->decoder->spec.model->layers && good; l++)
        good = check_layer(r, &p, plan, query, t->n_queries, l, e);
    return good;
}

static bool check_logits(struct decode_run *r, const struct step *s, struct err *e)
{
    int32_t n = s->tree->n_queries, vocab = r->decoder->spec.model->vocab;
    double *logits = xcalloc((size_t)n * (size_t)vocab, sizeof *logits);
    bool good = decoder_logits(r->decoder, logits, e);
    for (int32_t q = 0; q < n && good; q++) {
        int32_t *token;
        char why[256];
        int64_t len = tokens_path(r->tokens, s->tree, &s->parts, s->tree->query[q], &token);
        good = logits_check_judge(r->witness, q, token, len, logits + (int64_t)q * vocab, &r->sum, why) ||
               err_failed(e, "query %d: %s", q, why);
        free(token);
    }
    free(logits);
    return good;
}

bool decode_run_step(struct decode_run *r, const struct step *s, bool parts, bool keep, struct err *e)
{
    struct problem p = decode_problem(&r->decoder->spec, s->tree, s->page_off, s->page_table);
    return (r->filled || decode_prompts(r, s, e)) &&
           enqueue(r, &p, &s->parts, s->plan, s->use, parts, keep, e);
}

bool decode_run_check(struct decode_run *r, const struct step *s, struct err *e)
{
    struct problem p = decode_problem(&r->decoder->spec, s->tree, s->page_off, s->page_table);
    return check_attention(r, &p, s->plan, e) && (!r->witness || check_logits(r, s, e));
}
