/*
 * check_decode.c - whole decode steps: models, the plain-C decode step through small traces under every strategy, and
 * that the judges notice what is wrong.
 */
#include "verify/replay/decode_run.h"

#include "tests/auto.h"
#include "tests/shared.h"
#include "tests/suites.h"

AUTO_FREE(decoder, decoder, decoder_close)

#include <math.h>

/* ---- a trace through a decoder ---------------------------------------------------------------------- */

enum { NO_FAULT, OTHER_THETA, OTHER_EPSILON, LOST_MOVE, ONE_TOKEN_LESS };

struct trip {
    const char *model, *trace, *strategy;
    enum dtype dtype;
    int32_t page_size;
    int64_t prompt, max_seq, steps;
    bool topology;
    int32_t n_cards;
    enum parallel parallel;
    /* What goes wrong on purpose, in every step: */
    int fault;
};

/* The last token of the longest run that several queries read is left out. */
static void cut_run(struct plan *plan)
{
    int64_t longest = -1;
    for (int64_t i = 0; i < plan->n_groups; i++)
        if (longest < 0 || plan->group[i].n_kv > plan->group[longest].n_kv)
            longest = i;
    struct group *g = &plan->group[longest];
    struct run *run = &plan->run[g->run1 - 1];
    if (run->end - run->begin > 1) {
        run->end--;
        g->n_kv--;
    }
}

static bool one_step(struct decode_run *r, const struct trip *trip, struct pool *pool,
                     const struct trace *trace, int64_t t, struct err *e)
{
    CLEARED(step) x;
    struct plan_env env = decode_env(&r->decoder->spec);
    struct decode_time time;
    struct strategy_use use = strategy_of(trip->strategy);
    bool good = step_new(&x, trace, t, pool, &use, &env, e);
    if (trip->fault == LOST_MOVE)
        x.moved.n_moves = 0;
    if (trip->fault == ONE_TOKEN_LESS && x.plan)
        cut_run(x.plan);
    good = good && decode_run_advance(r, &x, e) && x.plan && decode_run_step(r, &x, true, true, e) &&
           decoder_wait(r->decoder, &time, e);
    if (r->decoder->spec.alone) /* what one card computes is of no use but for its time */
        return good && time.whole_s > 0;
    return good && decode_run_check(r, &x, e);
}

/* The trip, or its first error. sum gets what was judged, by *witness if there is one already (of the same model). */
static bool travel(const struct trip *trip, struct witness **witness, struct logits_check_sum *sum,
                   struct err *e)
{
    struct model other = *model_find(trip->model, NULL);
    struct trace_opts opts = {.prompt = trip->prompt, .max_seq = trip->max_seq, .topology = trip->topology};
    AUTO(trace) trace = trace_open(trip->trace, &opts, e);
    ck_assert_msg(trace, "%s", e->msg);
    struct decoder_spec spec = {.model = model_find(trip->model, NULL),
                                .dtype = trip->dtype,
                                .page_size = trip->page_size,
                                .n_pages = 4000 / trip->page_size + 64,
                                .max_queries = 64,
                                .seed = 7,
                                .n_cards = trip->n_cards,
                                .parallel = trip->parallel};
    if (trip->fault == OTHER_THETA)
        other.rope_theta *= 1.5;
    if (trip->fault == OTHER_EPSILON)
        other.norm_eps += 1e-3;
    struct decoder_spec wrong = spec;
    wrong.model = trip->fault == OTHER_THETA || trip->fault == OTHER_EPSILON ? &other : spec.model;
    AUTO(decoder) d = decoder_open(decoder_type_find("cpu", NULL), &wrong, e);
    ck_assert_msg(d, "%s", e->msg);
    CLEARED_BY(decode_run_close) struct decode_run r;
    ck_assert(decode_run_open(&r, d, false, false, e));
    if (!*witness) /* it knows the right model */
        *witness = logits_check_new(spec.model, spec.dtype, spec.seed);
    r.witness = *witness;
    AUTO(pool) pool = pool_new(spec.page_size, spec.n_pages);
    bool good = true;
    for (int64_t t = 1; t <= trace_steps(trace) && t <= trip->steps && good; t++)
        good = one_step(&r, trip, pool, trace, t, e);
    *sum = r.sum;
    ck_assert(!good || pool_drain(pool) == 0);
    r.witness = NULL;
    return good;
}

static const struct trip branching = {.model = "tiny",
                                      .trace = "embedded:reasoning",
                                      .strategy = "pat",
                                      .dtype = DT_F64,
                                      .page_size = 16,
                                      .prompt = 14,
                                      .max_seq = 200,
                                      .steps = 4};
static const struct trip speculative = {.model = "tiny",
                                        .trace = "spec:32,1",
                                        .strategy = "fasttree",
                                        .dtype = DT_F64,
                                        .page_size = 16,
                                        .prompt = 14,
                                        .max_seq = 100,
                                        .steps = 4,
                                        .topology = true};

/* Under sanitizers and gcov all of this takes twenty times as long: a few short trips then. */
static bool quick(void)
{
    return getenv("TREEATTN_QUICK") != NULL;
}

static struct trip trip_of(const struct trip *from)
{
    struct trip trip = *from;
    if (quick()) {
        trip.prompt = 5;
        trip.steps = 2;
    }
    return trip;
}

TEST(every_strategy_decodes_as_a_sequence_alone)
{
    struct witness *witness = NULL;
    for (int32_t i = 0; i < n_strategies; i += quick() ? 3 : 1) {
        struct trip trip = trip_of(&branching);
        struct logits_check_sum sum;
        struct err e = {0};
        trip.strategy = strategies[i]->name;
        bool good = travel(&trip, &witness, &sum, &e);
        ck_assert_msg(good || e.code == 0, "%s: %s", trip.strategy,
                      e.msg); /* without a message it does not apply */
        if (good)
            ck_assert_msg(sum.queries == 10 * trip.steps && sum.greedy == sum.queries && sum.worst < 1,
                          "%s: %lld queries, %lld greedy", trip.strategy, (long long)sum.queries,
                          (long long)sum.greedy);
    }
    logits_check_free(witness);
}

TEST(accepted_tokens_move_and_decode_on)
{
    static const char *const names[] = {"fasttree", "tree-medusa", "deft-flatten"};
    struct witness *witness = NULL;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct trip trip = trip_of(&speculative);
        struct logits_check_sum sum;
        struct err e = {0};
        trip.strategy = names[i];
        ck_assert_msg(travel(&trip, &witness, &sum, &e), "%s: %s", names[i], e.msg);
        ck_assert_int_eq(sum.greedy, trip.steps * 32);
    }
    logits_check_free(witness);
}

/* All steps are within their bounds, and most best tokens are beyond doubt. */
static void arrives(struct trip *trip)
{
    struct witness *witness = NULL;
    struct logits_check_sum sum;
    MUST(travel, trip, &witness, &sum);
    ck_assert_msg(sum.worst < 1 && sum.greedy > sum.queries / 2, "%g, %lld of %lld", sum.worst,
                  (long long)sum.greedy, (long long)sum.queries);
    logits_check_free(witness);
}

LOOP_TEST(other_shapes_types_and_pages, 4)
{
    static const struct {
        const char *model, *strategy;
        enum dtype dtype;
        int32_t page_size;
    } other[] = {{"tiny-mha", "pat", DT_BF16, 1},
                 {"tiny-qwen", "deft-node-chunk", DT_F16, 32},
                 {"tiny-qwen", "radix-attention", DT_F64, 1},
                 {"tiny-mha", "hydragen-tree", DT_F32, 7}};
    struct trip trip = trip_of(&branching);
    trip.model = other[_i].model;
    trip.strategy = other[_i].strategy;
    trip.dtype = other[_i].dtype;
    trip.page_size = other[_i].page_size;
    arrives(&trip);
}

/* Steps spread over cards, in every way: heads, with a KV head for each card and for several; parts of the tree, whose tokens move
 * from card to card when they are accepted. */
LOOP_TEST(cards_decode_as_a_sequence_alone, 9)
{
    static const struct {
        const char *model, *strategy;
        int32_t cards;
        enum parallel parallel;
        bool moves;
        enum dtype dtype;
    } on[] = {{"tiny", "pat", 2, PARALLEL_TENSOR, true, DT_F64},
              {"tiny", "fasttree", 4, PARALLEL_TENSOR, false, DT_BF16},
              {"tiny-qwen", "treeattn", 8, PARALLEL_TENSOR, false, DT_F64},
              {"tiny", "treeattn", 2, PARALLEL_CONTEXT, true, DT_F64},
              {"tiny-qwen", "deft-flatten", 8, PARALLEL_CONTEXT, false, DT_BF16},
              {"tiny", "cascade", 4, PARALLEL_SUBTREE, true, DT_F64},
              {"tiny-mha", "pat", 2, PARALLEL_SUBTREE, false, DT_F16},
              {"tiny", "radix-attention", 4, PARALLEL_REPLICATE, true, DT_F64},
              {"tiny-mha", "treeattn", 2, PARALLEL_REPLICATE, false, DT_BF16}};
    if (in_a_hurry() && !on[_i].moves)
        return;
    struct trip trip = trip_of(on[_i].moves ? &speculative : &branching);
    trip.model = on[_i].model;
    trip.strategy = on[_i].strategy;
    trip.n_cards = on[_i].cards;
    trip.parallel = on[_i].parallel;
    trip.dtype = on[_i].dtype;
    trip.steps = 2;
    arrives(&trip);
}

/* What does not divide evenly is refused in a sentence. */
TEST(cards_take_even_shares)
{
    struct decoder_spec spec = {
        .model = model_find("tiny-mha", NULL), .page_size = 16, .n_pages = 8, .max_queries = 4, .n_cards = 4};
    struct err e = {0};
    ck_assert(!decoder_open(&decoder_cpu, &spec, &e));
    ck_assert_int_eq(e.code, EXIT_MISSING);
    ck_assert_msg(strstr(e.msg, "4 cards"), "%s", e.msg);
}

/* Kernels are loaded before cards wait for each other; who says otherwise is obeyed. */
TEST(several_gpus_load_their_kernels_first)
{
    unsetenv("CUDA_MODULE_LOADING");
    decoder_several_gpus();
    ck_assert_str_eq(getenv("CUDA_MODULE_LOADING"), "EAGER");
    setenv("CUDA_MODULE_LOADING", "LAZY", 1);
    decoder_several_gpus();
    ck_assert_str_eq(getenv("CUDA_MODULE_LOADING"), "LAZY");
}

/* A card that fails is not waited for: the step fails, with its word. */
static bool breaks(const struct problem *p, const struct plan *plan, struct output *out, struct ledger *l,
                   struct err *e)
{
    (void)plan, (void)out, (void)l;
    return p->tree->n_nodes > 0 && err_set(e, "broken on purpose");
}

TEST(a_card_that_fails_ends_the_step)
{
    static const struct kernel broken = {.name = "cpu", .run = breaks};
    struct trace_opts opts = {.prompt = 10, .max_seq = 40};
    struct err e = {0};
    AUTO(trace) trace = trace_open("fewshot:3", &opts, &e);
    ck_assert_msg(trace, "%s", e.msg);
    struct decoder_spec spec = {.model = model_find("tiny", NULL),
                                .page_size = 16,
                                .n_pages = 32,
                                .max_queries = 4,
                                .kernel = &broken,
                                .n_cards = 2,
                                .parallel = PARALLEL_CONTEXT};
    AUTO(decoder) d = decoder_open(&decoder_cpu, &spec, &e);
    CLEARED_BY(decode_run_close) struct decode_run r;
    ck_assert(d && decode_run_open(&r, d, true, false, &e));
    AUTO(pool) pool = pool_new(spec.page_size, spec.n_pages);
    struct trip trip = {.strategy = "pat"};
    ck_assert(!one_step(&r, &trip, pool, trace, 1, &e));
    ck_assert_str_eq(e.msg, "broken on purpose");
}

/* One of the cards on its own takes the steps that all take, moves among them, and waits for nobody. */
LOOP_TEST(a_card_alone_goes_through_its_steps, 2 * N_PARALLEL)
{
    struct trace_opts opts = {.prompt = 14, .max_seq = 100, .topology = true};
    struct err e = {0};
    AUTO(trace) trace = trace_open("spec:32,1", &opts, &e);
    ck_assert_msg(trace, "%s", e.msg);
    struct decoder_spec spec = {.model = model_find("tiny", NULL),
                                .page_size = 16,
                                .n_pages = 320,
                                .max_queries = 64,
                                .n_cards = 2,
                                .parallel = (enum parallel)(_i / 2),
                                .alone = true,
                                .rank = _i % 2};
    AUTO(decoder) d = decoder_open(&decoder_cpu, &spec, &e);
    CLEARED_BY(decode_run_close) struct decode_run r;
    ck_assert_msg(d && decode_run_open(&r, d, true, false, &e), "%s", e.msg);
    AUTO(pool) pool = pool_new(spec.page_size, spec.n_pages);
    struct trip trip = {.strategy = "pat"};
    for (int64_t t = 1; t <= 3; t++)
        ck_assert_msg(one_step(&r, &trip, pool, trace, t, &e), "%s", e.msg);
    pool_drain(pool);
}

/* What goes wrong must be seen, also by storage in 16 bits. */
LOOP_TEST(a_wrong_step_is_noticed, 7)
{
    static const struct {
        int fault;
        enum dtype dtype;
        const char *by;
    } wrong[] = {{OTHER_THETA, DT_F64, "alone it is"},
                 {OTHER_THETA, DT_BF16, "alone it is"},
                 {OTHER_EPSILON, DT_F64, "alone it is"},
                 {LOST_MOVE, DT_F64, "nan"},
                 {LOST_MOVE, DT_BF16, "nan"},
                 {ONE_TOKEN_LESS, DT_F64, "attention of layer 0"},
                 {ONE_TOKEN_LESS, DT_BF16, "attention of layer 0"}};
    struct trip trip = trip_of(wrong[_i].fault == LOST_MOVE ? &speculative : &branching);
    struct witness *witness = NULL;
    struct logits_check_sum sum;
    struct err e = {0};
    trip.fault = wrong[_i].fault;
    trip.dtype = wrong[_i].dtype;
    ck_assert(!travel(&trip, &witness, &sum, &e));
    ck_assert_int_eq(e.code, EXIT_FAILED);
    ck_assert_msg(strstr(e.msg, wrong[_i].by), "%s", e.msg);
    logits_check_free(witness);
}

/* ---- the decoder's own duties ----------------------------------------------------------------------- */

static struct decoder *small_decoder(enum dtype t)
{
    struct decoder_spec spec = {.model = model_find("tiny", NULL),
                                .dtype = t,
                                .page_size = 4,
                                .n_pages = 4,
                                .max_queries = 4,
                                .seed = 3};
    struct decoder *d = decoder_open(decoder_type_find("cpu", NULL), &spec, NULL);
    ck_assert_ptr_nonnull(d);
    return d;
}

TEST(moves_read_before_they_write)
{
    enum { SLOTS = 16, TOKEN = 2 * 64 };
    AUTO(decoder) d = small_decoder(DT_F64);
    static double k[2][SLOTS * TOKEN], v[2][SLOTS * TOKEN], k_then[2][SLOTS * TOKEN],
        v_then[2][SLOTS * TOKEN];
    ck_assert(decoder_kv(d, 0, 5, 1, k[0], v[0], NULL));
    ck_assert(isnan(k[0][0]) && isnan(v[0][TOKEN - 1])); /* never written */
    ck_assert(decoder_fill(d, 0, SLOTS, NULL));
    for (int l = 0; l < 2; l++)
        ck_assert(decoder_kv(d, l, 0, SLOTS, k[l], v[l], NULL));
    ck_assert(k[0][0] != k[1][0] && k[0][0] != v[0][0]);
    const int64_t from[] = {3, 4, 9}, to[] = {4, 3, 0};
    ck_assert(decoder_move(d, 3, from, to, NULL));
    for (int l = 0; l < 2; l++) {
        ck_assert(decoder_kv(d, l, 0, SLOTS, k_then[l], v_then[l], NULL));
        for (int64_t slot = 0; slot < SLOTS; slot++) {
            int64_t was = slot == 4 ? 3 : slot == 3 ? 4 : slot == 0 ? 9 : slot;
            ck_assert_mem_eq(k_then[l] + slot * TOKEN, k[l] + was * TOKEN, TOKEN * sizeof(double));
            ck_assert_mem_eq(v_then[l] + slot * TOKEN, v[l] + was * TOKEN, TOKEN * sizeof(double));
        }
    }
}

static bool fail_step(struct decoder *d, const struct decode_step *s, struct err *e)
{
    (void)d, (void)s;
    return err_set(e, "refused");
}

/* Nobody may wait for a step that was not taken. */
TEST(a_refused_step_is_not_under_way)
{
    AUTO(decoder) d = small_decoder(DT_F64);
    struct decoder_type refusing = *d->type;
    const struct decoder_type *type = d->type;
    AUTO(tree) tree = tree_new(1, 1);
    int64_t page_off[2] = {0, 1}, slot = 0;
    int32_t page = 0, token = 0, position = 0;
    tree->parent[0] = -1;
    tree->len[0] = 3;
    tree_query_leaves(tree);
    struct problem p = decode_problem(&d->spec, tree, page_off, &page);
    refusing.step = fail_step;
    d->type = &refusing;
    FAILS_WITH("refused", decoder_step, d,
               &(struct decode_step){.p = &p, .token = &token, .position = &position, .slot = &slot});
    ck_assert_int_eq(d->under_way, 0);
    d->type = type;
}

TEST(what_does_not_fit_says_so)
{
    struct decoder_spec spec = {.model = model_find("llama-3-8b", NULL),
                                .dtype = DT_F16,
                                .page_size = 64,
                                .n_pages = 10,
                                .max_queries = 4};
    struct err e = {0};
    ck_assert_ptr_null(decoder_open(decoder_type_find("cpu", NULL), &spec, &e));
    ck_assert_int_eq(e.code, EXIT_MISSING);
    ck_assert_msg(strstr(e.msg, "59.8 GiB"), "%s", e.msg);
    struct decoder_bytes b = decoder_bytes(&spec);
    ck_assert_int_eq(b.pool, 640 * INT64_C(131072));
}

/* ---- models ----------------------------------------------------------------------------------------- */

/* Parameters as the publishers count them. */
TEST(published_models_have_their_parameters)
{
    static const struct {
        const char *name;
        int64_t parameters;
    } published[] = {
        {"llama-2-7b", 6738415616},     {"llama-3-8b", 8030261248},     {"codellama-7b", 6738546688},
        {"codellama-13b", 13016028160}, {"codellama-34b", 33743970304}, {"mistral-7b", 7241732096},
        {"qwen3-8b", 8190735360},       {"qwen3-32b", 32762123264},     {"yi-6b", 6061035520},
    };
    for (size_t i = 0; i < sizeof published / sizeof published[0]; i++) {
        const struct model *m = model_find(published[i].name, NULL);
        ck_assert_ptr_nonnull(m);
        ck_assert_int_eq(model_weight_bytes(m, DT_BF16), 2 * published[i].parameters);
    }
    const struct model *m = model_find("llama-3-8b", NULL);
    ck_assert_int_eq(model_step_bytes(m, DT_BF16), 16060522496 - INT64_C(2) * 128256 * 4096);
    ck_assert_int_eq(model_kv_bytes(m, DT_BF16), 131072);
    ck_assert_double_eq(model_attention_flops(m, 1000), 4.0 * 32 * 32 * 128 * 1000);
}

/* What is known of attention alone: K and V of a token, and layers with windows. */
TEST(models_of_other_families_are_known_by_their_attention)
{
    static const struct {
        const char *name;
        int64_t kv_bytes;
    } published[] = {
        {"gemma-3-12b", INT64_C(2) * 48 * 8 * 256 * 2},
        {"gpt-oss-120b", INT64_C(2) * 36 * 8 * 64 * 2},
        {"mistral-7b-v0.1", 131072},
        {"deepseek-v3", 70272}, /* 61 x 576 x 2 */
    };
    for (size_t i = 0; i < sizeof published / sizeof published[0]; i++) {
        const struct model *m = model_find(published[i].name, NULL);
        struct err e = {0};
        ck_assert_ptr_nonnull(m);
        ck_assert_int_eq(model_kv_bytes(m, DT_BF16), published[i].kv_bytes);
        ck_assert(!model_is_whole(m) && !model_needs_whole(m, &e));
        ck_assert_msg(strstr(e.msg, m->name), "%s", e.msg);
    }
    for (int32_t i = 0; i < n_models; i++) {
        const struct model *m = &models[i];
        ck_assert_msg(m->window_layers <= m->layers && (m->window > 0) == (m->window_layers > 0), "%s",
                      m->name);
        ck_assert_msg(m->h_q % m->h_kv == 0 && m->d_v <= m->d, "%s", m->name);
    }
    const struct model *oss = model_find("gpt-oss-20b", NULL), *latent = model_find("deepseek-v3", NULL);
    ck_assert(oss->sinks && oss->window_layers == 12);
    /* half of the layers see 128 of 1,000 tokens */
    ck_assert_double_eq(model_attention_flops(oss, 1000), 4.0 * 64 * 64 * (12 * 1000 + 12 * 128));
    ck_assert_double_eq(model_attention_flops(latent, 10), 2.0 * 61 * 128 * (576 + 512) * 10);
}

TEST(unknown_models_are_told_what_there_is)
{
    struct err e = {0};
    ck_assert_ptr_null(model_find("gpt-2", &e));
    ck_assert_int_eq(e.code, EXIT_BAD_INPUT);
    for (int32_t i = 0; i < n_models; i++)
        ck_assert_msg(strstr(e.msg, models[i].name), "%s", e.msg);
}

TEST(weights_are_a_function_of_seed_tensor_layer_and_index)
{
    const struct model *m = model_find("tiny-qwen", NULL);
    double all[64], one, other;
    model_weights(m, W_QKV, 1, 5, DT_F64, 100, 64, all);
    model_weights(m, W_QKV, 1, 5, DT_F64, 131, 1, &one);
    ck_assert_double_eq(all[31], one);
    for (int i = 0; i < 3; i++) {
        model_weights(m, i == 0 ? W_O : W_QKV, i == 1 ? 2 : 1, i == 2 ? 6 : 5, DT_F64, 131, 1, &other);
        ck_assert_double_ne(one, other);
    }
}
