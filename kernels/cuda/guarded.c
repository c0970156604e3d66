#include "kernels/cuda/guarded.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { GUARD = 256, CANARY = 0xFF }; /* NaN in every float type, -1 as a page */

static const char *const part_name[] = {"Q", "K", "V", "page table", "O", "LSE", "workspace"};

static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
static struct guarded_tally tally; /* under turn, as what follows */
static uint8_t *arena;
static int64_t arena_bytes;
static void *side_stream;

/* ---- layout ----------------------------------------------------------------------------------------------- */

struct guarded_layout guarded_layout(const struct problem *p, int64_t workspace)
{
    int64_t elt = dtype_size[p->dtype], rows = (int64_t)p->tree->n_queries * p->h_q;
    int64_t pool = p->n_pages * p->page_size * p->h_kv * p->d * elt;
    struct guarded_layout l = {.size = {rows * p->d * elt, pool, pool,
                                        p->page_off[p->tree->n_nodes] * (int64_t)sizeof *p->page_table,
                                        rows * p->d * elt, rows * (int64_t)sizeof(float), workspace}};
    int64_t at = GUARD;
    for (int i = 0; i < N_PARTS; i++) {
        l.at[i] = at;
        at = ceil_div(at + l.size[i], GUARD) * GUARD + GUARD;
    }
    l.head = l.at[PART_WORKSPACE];
    l.total = at;
    return l;
}

uint8_t *guarded_image(const struct guarded_layout *l, const struct problem *p)
{
    const void *from[] = {p->q, p->k, p->v, p->page_table};
    uint8_t *image = xmalloc((size_t)l->head);
    memset(image, CANARY, (size_t)l->head);
    for (int i = 0; i <= PART_PAGES; i++)
        memcpy(image + l->at[i], from[i], (size_t)l->size[i]);
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

/* Both agree on [begin, end), or *e names the first byte at which they do not. */
static bool same(const struct guarded_layout *l, const uint8_t *a, const uint8_t *b, int64_t begin,
                 int64_t end, struct err *e)
{
    if (memcmp(a + begin, b + begin, (size_t)(end - begin)) == 0)
        return true;
    while (a[begin] == b[begin])
        begin++;
    return blame(l, begin, e);
}

bool guarded_check(const struct guarded_layout *l, const uint8_t *before, const uint8_t *after, struct err *e)
{
    int64_t lse_end = l->at[PART_LSE] + l->size[PART_LSE];
    return same(l, before, after, 0, l->at[PART_O], e) &&
           same(l, before, after, l->at[PART_O] + l->size[PART_O], l->at[PART_LSE], e) &&
           same(l, before, after, lse_end, l->head, e);
}

/* ---- one run ---------------------------------------------------------------------------------------------- */

static bool make_room(int64_t bytes, struct err *e)
{
    if (!side_stream && !(side_stream = gpu_stream_new(e)))
        return false;
    if (bytes <= arena_bytes)
        return true;
    gpu_free(arena);
    arena_bytes = 0;
    arena = gpu_alloc(bytes, e);
    if (arena)
        arena_bytes = bytes;
    return arena != NULL;
}

/* The canary behind the workspace, which is too large to be looked at as a whole. */
static bool check_tail(const struct guarded_layout *l, struct err *e)
{
    int64_t end = l->at[PART_WORKSPACE] + l->size[PART_WORKSPACE], n = l->total - end;
    uint8_t tail[2 * GUARD];
    CK(n <= (int64_t)sizeof tail);
    if (!gpu_download(tail, arena + end, n, e))
        return false;
    for (int64_t i = 0; i < n; i++)
        if (tail[i] != CANARY)
            return blame(l, end + i, e);
    return true;
}

/* Everything a run writes, and the canary behind it. */
static bool poison(const struct guarded_layout *l, void *stream, struct err *e)
{
    return gpu_fill(arena + l->at[PART_O], CANARY, l->total - l->at[PART_O], stream, e);
}

static bool replay(struct cuda_plan *cp, const struct guarded_layout *l, const struct cuda_args *a,
                   struct err *e)
{
    if (!gpu_capture_begin(side_stream, e))
        return false;
    bool launched = cuda_run(cp, a, side_stream, e);
    void *graph = gpu_capture_end(side_stream, e);
    bool good =
        launched && graph && poison(l, side_stream, e) && gpu_graph_run(graph, side_stream, e) && gpu_sync(e);
    gpu_graph_free(graph);
    return good;
}

/* `image` is what was uploaded, `after` room for as much. */
static bool run_both(struct cuda_plan *cp, const struct guarded_layout *l, const uint8_t *image,
                     uint8_t *after, struct err *e)
{
    struct cuda_args a = {.q = arena + l->at[PART_Q],
                          .k = arena + l->at[PART_K],
                          .v = arena + l->at[PART_V],
                          .page_table = (const int32_t *)(const void *)(arena + l->at[PART_PAGES]),
                          .o = arena + l->at[PART_O],
                          .lse = (float *)(void *)(arena + l->at[PART_LSE]),
                          .workspace = arena + l->at[PART_WORKSPACE]};
    if (!gpu_upload(arena, image, l->head, e) || !poison(l, NULL, e) || !cuda_run(cp, &a, NULL, e) ||
        !gpu_sync(e) || !gpu_download(after, arena, l->head, e) || !guarded_check(l, image, after, e) ||
        !check_tail(l, e))
        return false;
    tally.runs++;
    for (int i = 0; i <= N_PARTS; i++)
        tally.guard_bytes +=
            (i < N_PARTS ? l->at[i] : l->total) - (i > 0 ? l->at[i - 1] + l->size[i - 1] : 0);
    int64_t from = l->at[PART_O], n = l->head - from;
    uint8_t *again = xmalloc((size_t)n);
    bool good = replay(cp, l, &a, e) && gpu_download(again, arena + from, n, e);
    if (good && memcmp(again, after + from, (size_t)n) != 0)
        good = err_set(e, "the replay of a CUDA graph wrote other bits than the run itself");
    tally.replays += good;
    free(again);
    return good;
}

/* With the plan on the device. */
static bool run_planned(struct cuda_plan *cp, const struct problem *p, struct output *out, struct err *e)
{
    struct guarded_layout l = guarded_layout(p, cuda_workspace(cp));
    if (!make_room(l.total, e))
        return false;
    uint8_t *image = guarded_image(&l, p), *after = xmalloc((size_t)l.head);
    bool good = run_both(cp, &l, image, after, e);
    if (!good && e)
        e->code = EXIT_BAD_INPUT; /* memory there was */
    if (good) {
        memcpy(out->o, after + l.at[PART_O], (size_t)l.size[PART_O]);
        memcpy(out->lse, after + l.at[PART_LSE], (size_t)l.size[PART_LSE]);
    }
    free(after);
    free(image);
    return good;
}

bool guarded_run(const struct plan *plan, const struct cuda_options *opt, const struct problem *p,
                 struct output *out, struct err *e)
{
    pthread_mutex_lock(&turn);
    struct cuda_plan *cp = cuda_plan_new(p, plan, opt, e);
    bool good = cp && run_planned(cp, p, out, e);
    cuda_plan_free(cp);
    pthread_mutex_unlock(&turn);
    return good;
}

struct guarded_tally guarded_tally(void)
{
    pthread_mutex_lock(&turn);
    struct guarded_tally t = tally;
    pthread_mutex_unlock(&turn);
    return t;
}
