/*
 * sweep.c - the program $(BUILD)/tests/stand-in-sweep: every call of the runtime in turn fails once, while a plan is made, runs,
 * is captured, replayed, changed and runs again.
 *
 * Each time the failure must be reported with the right code, and no error may be left behind for others to find. What is still
 * there must go on: the plan, changed back, gives the same bits as if nothing had happened. When all is freed, as many objects
 * live as before. If nothing fails, a plan that changes again and again without a wait gives the right results.
 */
#include "kernels/cuda/host/cuda.h"
#include "kernels/cuda/probe/chain.h"
#include "kernels/decode/decode.h"
#include "tests/stand_in/stand_in.h"
#include "verify/judge/judge.h"

#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Two plans of one problem; one becomes the other. */
static const struct {
    const char *first, *second;
} pairs[] = {
    {"pat", "deft-node-chunk"}, {"cascade", "relay"}, {"deft-flatten", "optimal"}, {"naive", "tree-medusa"}};
static const int32_t archs[] = {0, 80};
/* The last two are lacks: of memory, and of a card that nobody else holds alone. */
static const cudaError_t errors[] = {cudaErrorInvalidValue, cudaErrorMemoryAllocation,
                                     cudaErrorDevicesUnavailable};
enum { N_PAIRS = sizeof pairs / sizeof pairs[0], N_ARCHS = 2, N_ERRORS = 3 };

struct scene {
    const struct problem *p;
    struct plan *plan[2];
    struct cuda_options opt;
    int64_t q_bytes, kv_bytes, page_bytes, out_bytes; /* out: O, and behind it LSE */
};

/* The device memory of a scene. */
struct props {
    struct cuda_plan *cp;
    void *data, *workspace, *stream; /* data: Q, K, V, O, LSE and the page table */
    int64_t room;                    /* bytes of the workspace */
    struct cuda_args a;
};

enum { RUN, REPLAY, CHANGED, N_OUT };

static bool load(const struct scene *s, struct props *x, struct err *e)
{
    char *at = x->data;
    x->a.q = at;
    x->a.k = at + s->q_bytes;
    x->a.v = at + s->q_bytes + s->kv_bytes;
    x->a.o = at + s->q_bytes + 2 * s->kv_bytes;
    x->a.lse = (float *)(void *)((char *)x->a.o + s->q_bytes);
    x->a.page_table = (int32_t *)(void *)((char *)x->a.o + s->out_bytes);
    return gpu_upload((void *)x->a.q, s->p->q, s->q_bytes, e) &&
           gpu_upload((void *)x->a.k, s->p->k, s->kv_bytes, e) &&
           gpu_upload((void *)x->a.v, s->p->v, s->kv_bytes, e) &&
           gpu_upload((void *)x->a.page_table, s->p->page_table, s->page_bytes, e);
}

/* Makes what is not there yet. */
static bool set_up(const struct scene *s, struct props *x, struct err *e)
{
    int64_t bytes = s->q_bytes + 2 * s->kv_bytes + s->out_bytes + s->page_bytes;
    return (x->stream || (x->stream = gpu_stream_new(e))) && (x->data || (x->data = gpu_alloc(bytes, e))) &&
           load(s, x, e) && (x->cp || (x->cp = cuda_plan_new(s->p, s->plan[0], &s->opt, e)));
}

/* Makes room for the partial results of the plan as it is now. */
static bool make_room(struct props *x, struct err *e)
{
    int64_t bytes = max_i64(cuda_workspace(x->cp), 1);
    bool good = gpu_grow(&x->workspace, &x->room, bytes, bytes, e);
    x->a.workspace = x->workspace;
    return good;
}

static bool run(const struct scene *s, struct props *x, uint8_t *out, struct err *e)
{
    return gpu_fill(x->a.o, 0xFF, s->out_bytes, x->stream, e) && cuda_run(x->cp, &x->a, x->stream, e) &&
           gpu_sync(e) && gpu_download(out, x->a.o, s->out_bytes, e);
}

static bool replay(const struct scene *s, struct props *x, uint8_t *out, struct err *e)
{
    if (!gpu_capture_begin(x->stream, e))
        return false;
    bool launched = cuda_run(x->cp, &x->a, x->stream, e);
    void *graph = gpu_capture_end(x->stream, e);
    bool good = launched && graph && gpu_fill(x->a.o, 0xFF, s->out_bytes, x->stream, e) &&
                gpu_graph_run(graph, x->stream, e) && gpu_sync(e) &&
                gpu_download(out, x->a.o, s->out_bytes, e);
    gpu_graph_free(graph);
    return good;
}

static int64_t complaints;

static void complain(const struct scene *s, const char *what, const char *detail)
{
    if (complaints++ < 10)
        printf("stand-in-sweep: %s, arch %d: %s fails: %s%s\n", s->plan[0]->strategy, s->opt.arch,
               stand_in.failed ? stand_in.failed : "nothing", what, detail);
}

static bool change(const struct scene *s, struct props *x, int to, uint8_t *out, struct err *e)
{
    if (cuda_plan_update(x->cp, s->p, s->plan[to], x->stream, e))
        return make_room(x, e) && run(s, x, out, e);
    if (cuda_run(x->cp, &x->a, x->stream, NULL))
        complain(s, "a plan whose update failed runs", "");
    return false;
}

static bool play(const struct scene *s, struct props *x, uint8_t *out[N_OUT], struct err *e)
{
    return set_up(s, x, e) && make_room(x, e) && run(s, x, out[RUN], e) && replay(s, x, out[REPLAY], e) &&
           change(s, x, 1, out[CHANGED], e);
}

/* The plan becomes one, then the other, with the host as far ahead as it can be. Each run must give the right results. */
static bool run_ahead(const struct scene *s, struct props *x, uint8_t *const should[N_OUT], uint8_t *out,
                      struct err *e)
{
    enum { TIMES = 10 };
    char *kept = gpu_alloc(TIMES * s->out_bytes, e);
    bool good = kept;
    for (int i = 0; i < TIMES && good; i++)
        good = cuda_plan_update(x->cp, s->p, s->plan[i % 3 == 1], x->stream, e) && make_room(x, e) &&
               cuda_run(x->cp, &x->a, x->stream, e) &&
               gpu_copy(kept + i * s->out_bytes, x->a.o, s->out_bytes, x->stream, e);
    good = good && gpu_sync(e);
    for (int i = 0; i < TIMES && good; i++)
        good = gpu_download(out, kept + i * s->out_bytes, s->out_bytes, e) &&
               (memcmp(out, should[i % 3 == 1 ? CHANGED : RUN], (size_t)s->out_bytes) == 0 ||
                err_set(e, "run %d of some in a row gives other bits", i));
    gpu_free(kept);
    return good;
}

static void clear(struct props *x)
{
    cuda_plan_free(x->cp);
    gpu_free(x->data);
    gpu_free(x->workspace);
    gpu_stream_free(x->stream);
}

/* Makes call number n fail with that error; false: there are not so many calls. */
static bool fail_once(const struct scene *s, int64_t n, cudaError_t with, uint8_t *const should[N_OUT],
                      uint8_t *out[N_OUT])
{
    int64_t before[N_LIVE];
    struct props x = {0};
    struct err e = {0}, later = {0};
    memcpy(before, stand_in.live, sizeof before);
    stand_in.calls = 0;
    stand_in.fail_at = n;
    stand_in.fail_with = with;
    stand_in.failed = NULL;
    bool good = play(s, &x, out, &e);
    stand_in.fail_at = -1;
    if (stand_in.failed && good)
        complain(s, "nobody says so", "");
    if (stand_in.failed && with != cudaErrorInvalidValue && !good && e.code != EXIT_MISSING)
        complain(s, "the code is not that of a lack: ", e.msg);
    if (cudaGetLastError() != cudaSuccess)
        complain(s, "its error is left behind", "");
    if (!set_up(s, &x, &later) || !change(s, &x, 0, out[RUN], &later))
        complain(s, "nothing runs any more: ", later.msg);
    else if (memcmp(out[RUN], should[RUN], (size_t)s->out_bytes) != 0)
        complain(s, "the next run gives other bits", "");
    clear(&x);
    for (int i = 0; i < N_LIVE; i++)
        if (stand_in.live[i] != before[i])
            complain(s, "not freed: ", stand_in_kind_name[i]);
    return stand_in.failed != NULL;
}

static struct plan *plan_of(const struct test_case *b, const char *name)
{
    char why[WHY_MAX];
    struct strategy_use use;
    CK(strategy_parse(name, &use, NULL));
    struct plan *plan = strategy_plan(&use, b->nf, &b->env, why);
    CK(plan);
    return plan;
}

/* Returns how many calls failed. */
static int64_t sweep(const struct test_case *b, const char *first, const char *second,
                     struct cuda_options opt)
{
    const struct problem *p = b->p;
    int64_t rows = (int64_t)p->tree->n_queries * p->heads.h_q, n = 0;
    struct scene s = {.p = p, .plan = {plan_of(b, first), plan_of(b, second)}, .opt = opt};
    uint8_t *should[N_OUT], *out[N_OUT];
    struct props x = {0};
    struct err e = {0};
    s.q_bytes = rows * p->heads.d * 2;
    s.kv_bytes = p->n_pages * p->page_size * p->heads.h_kv * p->heads.d * 2;
    s.page_bytes = p->page_off[p->tree->n_nodes] * (int64_t)sizeof *p->page_table;
    s.out_bytes = s.q_bytes + rows * (int64_t)sizeof(float);
    for (int i = 0; i < N_OUT; i++) {
        should[i] = xmalloc((size_t)s.out_bytes);
        out[i] = xmalloc((size_t)s.out_bytes);
    }
    stand_in.failed = NULL;
    if (!play(&s, &x, should, &e))
        complain(&s, "not even so: ", e.msg);
    else if (memcmp(should[RUN], should[REPLAY], (size_t)s.out_bytes) != 0)
        complain(&s, "a replay gives other bits", "");
    else if (!run_ahead(&s, &x, should, out[RUN], &e))
        complain(&s, "updates in a row: ", e.msg);
    clear(&x);
    for (int i = 0; i < N_ERRORS; i++)
        for (int64_t call = 0; complaints == 0; call++, n++)
            if (!fail_once(&s, call, errors[i], should, out))
                break;
    for (int i = 0; i < N_OUT; i++) {
        free(should[i]);
        free(out[i]);
    }
    plan_free(s.plan[0]);
    plan_free(s.plan[1]);
    return n;
}

/* A decoder takes no more memory than decoder_bytes() said, except to align its tensors. Here it gets as far as its weights. */
static void decoder_takes_what_it_says(void)
{
    enum { TENSORS = 64 };
    struct err e = {0};
    struct decoder_spec s = {
        .model = model_find("tiny", &e), .dtype = DT_F16, .page_size = 16, .n_pages = 4, .max_queries = 8};
    struct decoder_bytes b = decoder_bytes(&s);
    stand_in.most_bytes = 0;
    struct decoder *d = decoder_open(&decoder_cuda, &s, &e);
    int64_t most = b.weights + b.pool + b.rest + TENSORS * 256;
    if (d || stand_in.most_bytes < b.weights || stand_in.most_bytes > most) {
        complaints++;
        printf("stand-in-sweep: a decoder took %lld bytes (expected %lld to %lld), %s\n",
               (long long)stand_in.most_bytes, (long long)b.weights, (long long)most,
               d ? "and opened" : e.msg);
    }
    decoder_close(d);
}

/* The probe of the least chain, captured and replayed twice as the bench does it, writes what it should. */
static void probe_is_right(void)
{
    struct err e = {0};
    void *stream = gpu_stream_new(&e);
    struct gpu_chain *x = gpu_chain_new(132, &e);
    bool good = stream && x;
    for (int way = 0; way < N_CHAIN_WAYS && good; way++) {
        good = gpu_capture_begin(stream, &e) && gpu_chain_run(x, (enum gpu_chain_way)way, stream, &e);
        void *graph = gpu_capture_end(stream, &e);
        for (int turn = 0; turn < 2 && good; turn++)
            good = graph && gpu_chain_poison(x, stream, &e) && gpu_graph_run(graph, stream, &e) &&
                   gpu_sync(&e) && gpu_chain_right(x, (enum gpu_chain_way)way, &e);
        gpu_graph_free(graph);
    }
    if (!good) {
        complaints++;
        printf("stand-in-sweep: %s\n", e.msg);
    }
    gpu_chain_free(x);
    gpu_stream_free(stream);
}

int main(void)
{
    int64_t failed = 0;
    struct case_spec c;
    struct err e = {0};
    CK(case_parse("tree=levels:1,3,6_70,17,5;heads=8/2;d=64;dtype=f16;page=16", &c, &e));
    struct test_case *b = test_case_new(&c, NULL, &e);
    CK(b);
    for (int i = 0; i < N_PAIRS; i++)
        for (int k = 0; k < N_ARCHS; k++)
            failed +=
                sweep(b, pairs[i].first, pairs[i].second,
                      (struct cuda_options){.kernel = i % 2 == 0 ? CUDA_WIDE : CUDA_GROUP, .arch = archs[k]});
    test_case_free(b);
    case_clear(&c);
    decoder_takes_what_it_says();
    probe_is_right();
    printf("stand-in-sweep: %lld calls failed in turn, %lld complaints\n", (long long)failed,
           (long long)complaints);
    return complaints == 0 && failed > 0 ? EXIT_GOOD : EXIT_FAILED;
}
