#include "kernels/cuda/host/guard_gpu.h"
#include "kernels/cuda/host/exact.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { GUARD = 256, CANARY = 0xFF }; /* NaN in every float type, -1 as a page */

static const char *const part_name[] = {"Q",           "K",           "V", "page table", "sinks",
                                        "scales of K", "scales of V", "O", "LSE"};

/* Device memory that grows as needed. */
struct room {
    uint8_t *at;
    int64_t bytes;
};

/* What a thread has on the device, and its copy on the host. */
struct seat {
    struct guarded_layout l;
    uint8_t *image, *after; /* [l.total] on the host: as uploaded; after a run, from O on */
    bool current;           /* the device holds the image */
    struct room dev, kept;  /* kept: another copy of all that runs may only read */
};

static _Thread_local struct seat seat;
static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
static struct guarded_tally tally; /* under turn, as what follows */
static struct room work;           /* canary, workspace, canary */
static void *side_stream, *flag;

/* ---- layout ----------------------------------------------------------------------------------------------- */

struct guarded_layout guarded_layout(const struct problem *p)
{
    int64_t elt = heads_elt_bytes(&p->heads), rows = (int64_t)p->tree->n_queries * p->heads.h_q;
    int64_t pool = p->n_pages * p->page_size * p->heads.h_kv * p->heads.d * heads_kv_bytes(&p->heads);
    int64_t scales = p->k_scale ? p->heads.h_kv * (int64_t)sizeof *p->k_scale : 0;
    struct guarded_layout l = {.size = {rows * p->heads.d * elt, pool, pool,
                                        p->page_off[p->tree->n_nodes] * (int64_t)sizeof *p->page_table,
                                        p->sink ? p->heads.h_q * (int64_t)sizeof *p->sink : 0, scales, scales,
                                        rows * p->heads.d * elt, rows * (int64_t)sizeof(float)}};
    int64_t at = GUARD;
    for (int i = 0; i < N_PARTS; i++) {
        l.at[i] = at;
        at = ceil_div(at + l.size[i], GUARD) * GUARD + GUARD;
    }
    l.total = at;
    return l;
}

/* Where the uploaded parts come from. */
static const void *part_of(const struct problem *p, int part)
{
    const void *from[] = {p->q, p->k, p->v, p->page_table, p->sink, p->k_scale, p->v_scale};
    return from[part];
}

uint8_t *guarded_image(const struct guarded_layout *l, const struct problem *p)
{
    uint8_t *image = xmalloc((size_t)l->total);
    memset(image, CANARY, (size_t)l->total);
    for (int i = 0; i < PART_O; i++)
        if (l->size[i] > 0)
            memcpy(image + l->at[i], part_of(p, i), (size_t)l->size[i]);
    return image;
}

static bool blame(const struct guarded_layout *l, int64_t byte, struct err *e)
{
    int part = 0;
    while (part + 1 < N_PARTS && byte >= l->at[part + 1])
        part++;
    int64_t in = byte - l->at[part];
    if (in >= 0 && in < l->size[part])
        return err_set(e, "%s was overwritten at byte %lld", part_name[part], (long long)in);
    if (in < 0)
        return err_set(e, "the canary before %s was overwritten, %lld bytes before it", part_name[part],
                       (long long)-in);
    return err_set(e, "the canary behind %s was overwritten, %lld bytes past its end", part_name[part],
                   (long long)(in - l->size[part]));
}

/* Do both agree on [begin, end)? If not, *e names the first byte at which they do not. */
static bool same(const struct guarded_layout *l, const uint8_t *a, const uint8_t *b, int64_t begin,
                 int64_t end, struct err *e)
{
    if (begin >= end || memcmp(a + begin, b + begin, (size_t)(end - begin)) == 0)
        return true;
    while (a[begin] == b[begin])
        begin++;
    return blame(l, begin, e);
}

bool guarded_check(const struct guarded_layout *l, const uint8_t *before, const uint8_t *after, int64_t from,
                   struct err *e)
{
    int64_t o_end = l->at[PART_O] + l->size[PART_O], lse_end = l->at[PART_LSE] + l->size[PART_LSE];
    return same(l, before, after, from, l->at[PART_O], e) &&
           same(l, before, after, max_i64(from, o_end), l->at[PART_LSE], e) &&
           same(l, before, after, max_i64(from, lse_end), l->total, e);
}

/* ---- memory ----------------------------------------------------------------------------------------------- */

static bool make_room(struct room *r, int64_t bytes, struct err *e)
{
    if (bytes <= r->bytes)
        return true;
    gpu_free(r->at);
    *r = (struct room){.at = gpu_alloc(bytes, e)};
    r->bytes = r->at ? bytes : 0;
    return r->at != NULL;
}

/* Is the image what would be uploaded for p? */
static bool image_fits(const struct seat *s, const struct guarded_layout *l, const struct problem *p)
{
    bool fits = s->image && memcmp(&s->l, l, sizeof *l) == 0;
    for (int i = 0; i < PART_O && fits; i++)
        fits = l->size[i] == 0 || memcmp(s->image + l->at[i], part_of(p, i), (size_t)l->size[i]) == 0;
    return fits;
}

static void load_image(struct seat *s, const struct problem *p)
{
    struct guarded_layout l = guarded_layout(p);
    if (image_fits(s, &l, p))
        return;
    free(s->image);
    free(s->after);
    s->l = l;
    s->image = guarded_image(&l, p);
    s->after = xmalloc((size_t)l.total);
    s->current = false;
}

static bool upload(struct seat *s, struct err *e)
{
    if (s->current)
        return true;
    int64_t inputs = s->l.at[PART_O];
    s->current = make_room(&s->dev, s->l.total, e) && make_room(&s->kept, inputs, e) &&
                 gpu_upload(s->dev.at, s->image, s->l.total, e) &&
                 gpu_copy(s->kept.at, s->dev.at, inputs, NULL, e);
    return s->current;
}

/* Bytes of the workspace and of its canaries. */
static int64_t work_bytes(int64_t workspace)
{
    return GUARD + ceil_div(workspace, GUARD) * GUARD + GUARD;
}

/* Everything that runs write, with the canaries behind it. */
static bool poison(const struct seat *s, int64_t workspace, void *stream, struct err *e)
{
    int64_t from = s->l.at[PART_O];
    return gpu_fill(s->dev.at + from, CANARY, s->l.total - from, stream, e) &&
           gpu_fill(work.at, CANARY, work_bytes(workspace), stream, e);
}

/* ---- one run ---------------------------------------------------------------------------------------------- */

static bool check_work_end(const char *where, int64_t from, int64_t n, struct err *e)
{
    uint8_t canary[2 * GUARD];
    CK(n <= (int64_t)sizeof canary);
    if (!gpu_download(canary, work.at + from, n, e))
        return false;
    for (int64_t i = 0; i < n; i++)
        if (canary[i] != CANARY)
            return err_set(e, "the canary %s workspace was overwritten at its byte %lld", where,
                           (long long)i);
    return true;
}

/* After a run or a replay: is all that may only be read as it was, and what is around the workspace? */
static bool check_inputs(const struct seat *s, int64_t workspace, struct err *e)
{
    int64_t outputs = s->l.at[PART_O];
    bool intact;
    if (!gpu_same(s->dev.at, s->kept.at, outputs, flag, &intact, e))
        return false;
    if (!intact)
        return gpu_download(s->after, s->dev.at, outputs, e) &&
               guarded_check(&s->l, s->image, s->after, 0, e) &&
               err_set(e, "the copy of Q, K, V and page table was overwritten, which no run is told of");
    return check_work_end("before", 0, GUARD, e) &&
           check_work_end("behind", GUARD + workspace, work_bytes(workspace) - GUARD - workspace, e);
}

/* After a run: are those, and all other canaries, as they were? What was written is in s->after. */
static bool check_all(const struct seat *s, int64_t workspace, struct err *e)
{
    int64_t outputs = s->l.at[PART_O];
    return gpu_download(s->after + outputs, s->dev.at + outputs, s->l.total - outputs, e) &&
           guarded_check(&s->l, s->image, s->after, outputs, e) && check_inputs(s, workspace, e);
}

static void count(const struct seat *s, int64_t workspace)
{
    int64_t data = workspace;
    for (int i = 0; i < N_PARTS; i++)
        data += s->l.size[i];
    tally.runs++;
    tally.guard_bytes += s->l.total + work_bytes(workspace) - data;
}

static bool replay(struct cuda_plan *cp, const struct seat *s, const struct cuda_args *a, struct err *e)
{
    if (!gpu_capture_begin(side_stream, e))
        return false;
    bool launched = cuda_run(cp, a, side_stream, e);
    void *graph = gpu_capture_end(side_stream, e);
    bool good = launched && graph && poison(s, cuda_workspace(cp), side_stream, e) &&
                gpu_graph_run(graph, side_stream, e) && gpu_sync(e);
    gpu_graph_free(graph);
    return good;
}

static bool run_both(struct cuda_plan *cp, struct seat *s, struct err *e)
{
    const struct guarded_layout *l = &s->l;
    int64_t from = l->at[PART_O], n = l->total - from, workspace = cuda_workspace(cp);
    struct cuda_args a = {.q = s->dev.at + l->at[PART_Q],
                          .k = s->dev.at + l->at[PART_K],
                          .v = s->dev.at + l->at[PART_V],
                          .page_table = (const int32_t *)(const void *)(s->dev.at + l->at[PART_PAGES]),
                          .o = s->dev.at + l->at[PART_O],
                          .lse = (float *)(void *)(s->dev.at + l->at[PART_LSE]),
                          .workspace = work.at + GUARD};
    const float *part[N_PARTS];
    for (int i = PART_SINKS; i < PART_O; i++)
        part[i] = l->size[i] > 0 ? (const float *)(const void *)(s->dev.at + l->at[i]) : NULL;
    a.sink = part[PART_SINKS];
    a.k_scale = part[PART_K_SCALE];
    a.v_scale = part[PART_V_SCALE];
    s->current = false; /* until the run is known to have left it alone */
    if (!poison(s, workspace, NULL, e) || !cuda_run(cp, &a, NULL, e) || !gpu_sync(e) ||
        !check_all(s, workspace, e))
        return false;
    count(s, workspace);
    uint8_t *again = xmalloc((size_t)n);
    bool good = replay(cp, s, &a, e) && gpu_download(again, s->dev.at + from, n, e);
    if (good && memcmp(again, s->after + from, (size_t)n) != 0)
        good = err_set(e, "the replay of a CUDA graph wrote other bits than the run itself");
    good = good && check_inputs(s, workspace, e);
    tally.replays += good;
    s->current = good;
    free(again);
    return good;
}

/* Under turn. */
static bool run_here(const struct plan *plan, const struct cuda_options *opt, const struct problem *p,
                     struct seat *s, struct err *e)
{
    struct cuda_plan *cp = cuda_plan_new(p, plan, opt, e);
    bool good = cp && (side_stream || (side_stream = gpu_stream_new(e))) &&
                (flag || (flag = gpu_alloc(GUARD, e))) && upload(s, e) &&
                make_room(&work, work_bytes(cuda_workspace(cp)), e);
    if (good && !run_both(cp, s, e)) {
        good = false;
        if (e)
            e->code = EXIT_BAD_INPUT; /* memory there was */
    }
    cuda_plan_free(cp);
    return good;
}

bool guarded_run(const struct plan *plan, const struct cuda_options *opt, const struct problem *p,
                 struct output *out, struct err *e)
{
    struct seat *s = &seat;
    load_image(s, p);
    pthread_mutex_lock(&turn);
    bool good = run_here(plan, opt, p, s, e);
    pthread_mutex_unlock(&turn);
    if (good) {
        memcpy(out->o, s->after + s->l.at[PART_O], (size_t)s->l.size[PART_O]);
        memcpy(out->lse, s->after + s->l.at[PART_LSE], (size_t)s->l.size[PART_LSE]);
    }
    return good;
}

struct guarded_tally guarded_tally(void)
{
    pthread_mutex_lock(&turn);
    struct guarded_tally t = tally;
    pthread_mutex_unlock(&turn);
    return t;
}
