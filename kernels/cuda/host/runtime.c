/*
 * runtime.c - what a plan may be, and the order in which its kernels are enqueued.
 *
 * Launches that the plan calls concurrent run side by side, and so do kernels of one launch that differ in shape. The longest
 * begins first.
 *
 * On the Ampere path they run on side streams between two events. From Hopper on they are a chain of programmatic dependent
 * launches: a kernel may start when all CTAs of the one before have begun. Side by side it waits for nothing, because groups do
 * not read what others wrote. Else it waits until the one before has ended, before it writes or reads partial results.
 *
 * DEVIATION: a partial that a plan hands over on chip (relay's fused merge) goes through its slot in memory,
 * and the merge is a kernel after the groups of that launch. ledger_of_plan does not count that traffic.
 * DEVIATION: partials that CTAs of a cluster merge (meets.h) go through no slot, and their merges are part of the group kernel.
 * The ledger has them as the plan does.
 * DEVIATION: masks are one bit per (query, run) for every mask_kind.
 */
#include "kernels/cuda/host/calls.h"
#include "kernels/cuda/host/device.h"
#include "kernels/cuda/host/tiling.h"
#include "kernels/cuda/host/unfused.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    HOPPER = 90, /* compute capability from which kernels may start early */
    WGMMA_MOST_D = 128,
    MOST_LINES = 4096 /* of the page table, or of the plan's arrays, that the first kernel asks the L2 for */
};

/* ---- what is supported ------------------------------------------------------------------------------ */

static bool no(char *why, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static bool no(char *why, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(why, 256, fmt, ap);
    va_end(ap);
    return false;
}

/* A kernel that runs all items has CTAs of one size. Others are asked when their tiles are known (prepare). */
static bool fits_card(enum cuda_kernel kernel, const struct problem *p, const struct cuda_caps *caps,
                      char *why)
{
    struct cuda_shape s = {.d = p->heads.d};
    int32_t smem = chooses_kernel(kernel) ? 0 : cuda_launcher_of(kernel)->smem(&s, false, false, 0);
    return smem <= caps->smem_per_cta ||
           no(why, "this rung of the ladder wants %d bytes of shared memory, a CTA of this GPU has %lld",
              smem, (long long)caps->smem_per_cta);
}

bool cuda_supports(const struct problem *p, const struct plan *plan, const struct cuda_options *opt,
                   char *why)
{
    struct cuda_caps caps;
    struct err e = {0};
    if (!cuda_card(&caps, &e))
        return no(why, "%.250s", e.msg);
    if (opt && opt->arch != 0 && opt->arch != 80 && opt->arch != caps.arch)
        return no(why, "there is no path for compute capability %d.%d (8.0, or that of the card)",
                  opt->arch / 10, opt->arch % 10);
    if (p->heads.dtype != DT_F16 && p->heads.dtype != DT_BF16)
        return no(why, "the CUDA kernels take f16 and bf16, not %s", dtype_name[p->heads.dtype]);
    if (p->heads.d != 64 && p->heads.d != 128 && p->heads.d != 256)
        return no(why, "the CUDA kernels take heads of 64, 128 and 256 elements, not %d", p->heads.d);
    if (heads_fp8(&p->heads) && p->heads.d > 128)
        return no(why, "the CUDA kernels take K and V in 8 bits with heads of 64 and 128 elements, not %d",
                  p->heads.d);
    if (heads_fp8(&p->heads) && (plan->unfused || (opt && opt->kernel == CUDA_SMEM)))
        return no(why, "K and V in 8 bits are not for %s",
                  plan->unfused ? "materialised scores"
                                : "this rung of the ladder (the kernel cuda has them)");
    if (opt && !fits_card(opt->kernel, p, &caps, why))
        return false;
    if (!(p->scale > 0))
        return no(why, "the CUDA kernels take a positive scale, not %g", p->scale);
    if (plan->unfused)
        return unfused_supports(p, plan, opt, why);
    if (plan->slot_o == SLOT_O_F16 && plan->slot_weight == SLOT_MAX_SUM)
        return no(why, "a partial O that is not normalised does not fit fp16");
    for (int64_t i = 0; i < plan->n_groups; i++)
        if (plan->group[i].tile_m > CUDA_TILE_MAX)
            return no(why, "a tile of %d rows (the CUDA kernels have up to %d)", plan->group[i].tile_m,
                      CUDA_TILE_MAX);
    return true;
}

/* ---- a plan ------------------------------------------------------------------------------------------ */

/* Makes side streams and events for the most kernels that run side by side. */
static bool make_streams(struct cuda_plan *cp, struct err *e)
{
    int32_t widest = 1;
    for (int32_t l = 0, end; l < cp->n_launches; l = end) {
        int32_t calls = 0;
        end = end_of_set(cp, l);
        for (int32_t i = 0; i < cp->n_calls; i++)
            calls += cp->call[i].launch >= l && cp->call[i].launch < end;
        widest = calls > widest ? calls : widest;
    }
    if (cp->n_side >= widest - 1)
        return true;
    cp->side = xrealloc(cp->side, (size_t)widest - 1, sizeof *cp->side);
    cp->joined = xrealloc(cp->joined, (size_t)widest - 1, sizeof *cp->joined);
    if (!cp->forked && !cuda_ok(cudaEventCreateWithFlags(&cp->forked, cudaEventDisableTiming), "event", e))
        return false;
    for (int32_t i = cp->n_side; i < widest - 1; i++) {
        if (!cuda_ok(cudaStreamCreateWithFlags(&cp->side[i], cudaStreamNonBlocking), "stream", e))
            return false;
        if (!cuda_ok(cudaEventCreateWithFlags(&cp->joined[i], cudaEventDisableTiming), "event", e)) {
            cudaStreamDestroy(cp->side[i]);
            return false;
        }
        cp->n_side++;
    }
    return true;
}

/* Kernels with the longest items first. Among about equals, within a factor of two, those come first that do not hold up others,
 * then those that would find no room later, then those with the lowest tiles, which keep memory busiest. */
static int by_work(const void *x, const void *y)
{
    const struct cuda_call *a = x, *b = y;
    int order = tiling_longer(a->longest, b->longest);
    if (order == 0)
        order =
            tiling_holds_up(&a->ctas, a->longest, a->mean) - tiling_holds_up(&b->ctas, b->longest, b->mean);
    if (order == 0)
        order = b->first - a->first;
    if (order == 0)
        order = a->m - b->m;
    return order ? order : (a->item0 > b->item0) - (a->item0 < b->item0);
}

/* Kernels first of whose CTAs the card holds fewest. */
static int by_size(const void *x, const void *y)
{
    const struct cuda_call *a = x, *b = y;
    return a->ctas.slots != b->ctas.slots ? (a->ctas.slots < b->ctas.slots ? -1 : 1) : by_work(x, y);
}

/* Orders kernels that run side by side: longest first. If all of them run at once, the largest CTAs come first. Behind small ones
 * they would find no SM with enough room, and wait for those to end. */
static void order_calls(struct cuda_plan *cp, int32_t sms)
{
    for (int32_t l = 0, end, call = 0; l < cp->n_launches; l = end) {
        int32_t call0 = call;
        struct tiling_set set = {.sms = sms};
        end = end_of_set(cp, l);
        for (; call < cp->n_calls && cp->call[call].launch < end; call++)
            tiling_add(&set, &cp->call[call].ctas);
        for (struct cuda_call *c = cp->call + call0; c < cp->call + call; c++)
            c->first = tiling_goes_first(&set, &c->ctas, c->longest);
        if (call > call0)
            qsort(cp->call + call0, (size_t)(call - call0), sizeof *cp->call,
                  tiling_share_sms(&set) ? by_size : by_work);
    }
}

static const struct cuda_launcher *launcher_of_call(const struct cuda_plan *cp, const struct cuda_call *c)
{
    return cuda_launcher_of(chooses_kernel(cp->kernel) ? c->kernel : cp->kernel);
}

static bool prepare(struct cuda_plan *cp, int64_t smem_per_cta, struct err *e)
{
    for (int32_t i = 0; i < cp->n_calls; i++) {
        const struct cuda_call *c = &cp->call[i];
        const struct cuda_launcher *launcher = launcher_of_call(cp, c);
        struct cuda_shape s = shape_of_call(cp, c);
        int32_t smem = launcher->smem(&s, c->masked, c->q_shared, c->q_rows);
        if (smem > smem_per_cta)
            return err_missing(
                e, "a tile of %d x %d wants %d bytes of shared memory, a CTA of this GPU has %lld", c->m,
                c->n, smem, (long long)smem_per_cta);
        if (launcher->prepare && !cuda_ok(launcher->prepare(&s), "shared memory of a kernel", e))
            return false;
    }
    return true;
}

/* Lines of an array that the first kernel asks the L2 for. Each begins within the array. */
static uint32_t lines_of(int64_t bytes)
{
    return (uint32_t)min_i64(ceil_div(bytes, CUDA_LINE), MOST_LINES);
}

/* All arrays into one block of device memory: one copy. */
static bool upload(struct cuda_plan *cp, const struct items *b, cudaStream_t stream, struct err *e)
{
    const struct {
        const struct list *l;
        size_t size;
        const void **to;
    } part[] = {
        {&b->item, sizeof(struct cuda_item), (const void **)&cp->item},
        {&b->run, sizeof(struct cuda_kv_run), (const void **)&cp->run},
        {&b->piece, sizeof(struct cuda_kv_run), (const void **)&cp->piece},
        {&b->query, sizeof(int32_t), (const void **)&cp->query},
        {&b->mask, sizeof(uint32_t), (const void **)&cp->mask},
        {&b->step, sizeof(struct cuda_merge_step), (const void **)&cp->step},
        {&b->merge_in, sizeof(int32_t), (const void **)&cp->merge_in},
    };
    enum { PARTS = sizeof part / sizeof part[0] };
    int64_t at[PARTS + 1] = {0};
    for (int i = 0; i < PARTS; i++)
        at[i + 1] = cuda_align(at[i] + part[i].l->n * (int64_t)part[i].size);
    cp->bytes = at[PARTS];
    char *host = upload_begin(&cp->block, cp->bytes, e);
    if (!host)
        return false;
    for (int i = 0; i < PARTS; i++) {
        if (part[i].l->n > 0)
            memcpy(host + at[i], part[i].l->p, (size_t)part[i].l->n * part[i].size);
        *part[i].to = (char *)cp->block.dev + at[i];
    }
    return upload_end(&cp->block, cp->bytes, stream, e);
}

/* The plan's arrays, on the device, and the kernels that run them. */
static bool lay_out(struct cuda_plan *cp, const struct problem *p, const struct plan *plan,
                    const struct cuda_caps *card, cudaStream_t stream, struct err *e)
{
    struct items items = items_new(p, plan, cp->wgmma, cp->kernel == CUDA_WIDE, card->sms);
    bool good = calls_make(cp, &items, card, e) && upload(cp, &items, stream, e) &&
                (!plan->unfused || unfused_fill(cp, items.item.p, items.item.n, card->sms, stream, e));
    items_free(&items);
    return good;
}

/* Makes everything anew that depends on the plan. Device memory, side streams and events stay and grow. */
static bool fill_plan(struct cuda_plan *cp, const struct problem *p, const struct plan *plan,
                      cudaStream_t stream, struct err *e)
{
    char why[256];
    struct cuda_caps caps;
    struct cuda_options opt = {.kernel = cp->kernel, .arch = cp->arch};
    cp->filled = false;
    if (!cuda_supports(p, plan, &opt, why))
        return err_missing(e, "%s", why);
    if (!cuda_card(&caps, e))
        return false;
    if (p->n_pages * p->page_size > INT32_MAX / p->heads.h_kv ||
        p->page_off[p->tree->n_nodes] * p->page_size > INT32_MAX ||
        (int64_t)p->tree->n_queries * p->heads.h_q > INT32_MAX || items_slots(p, plan) > INT32_MAX ||
        plan->n_merge_in + p->tree->n_queries > INT32_MAX / 2)
        return err_missing(
            e, "more than 2^31 rows of K or Q, or partial results, are too many for the CUDA kernels");
    bool f16 =
        plan->slot_o == SLOT_O_F16 && plan->n_slots > 0; /* slots that sinks alone want are no plan's */
    int64_t n_slots = items_slots(p, plan), slot_rows = n_slots * p->heads.h_q,
            weights = plan->slot_weight == SLOT_MAX_SUM ? 2 : 1;
    cp->early = caps.arch >= HOPPER && (cp->arch == 0 || cp->arch >= HOPPER);
    cp->wgmma = chooses_kernel(cp->kernel) && caps.arch == HOPPER && cp->early &&
                p->heads.d <= WGMMA_MOST_D && p->soft_cap == 0;
    cp->t = p->heads.dtype == DT_F16 ? CUDA_F16 : CUDA_BF16;
    cp->fp8 = (struct cuda_fp8){.e5m2 = heads_kv_dtype(&p->heads) == DT_E5M2, .bf16 = cp->t == CUDA_BF16};
    cp->heads = p->heads;
    cp->page_size = p->page_size;
    cp->page_shift = shift_of(p->page_size);
    cp->gqa_shift = shift_of(heads_gqa(&p->heads));
    cp->scale_log2 = (float)((p->soft_cap > 0 ? p->soft_cap : p->scale) * M_LOG2E);
    cp->cap_scale = p->soft_cap > 0 ? (float)(p->scale / p->soft_cap) : 0;
    cp->sink_slot = p->sink ? n_slots - 1 : -1;
    cp->slot_f16 = f16;
    cp->slot_max_sum = plan->slot_weight == SLOT_MAX_SUM;
    cp->n_launches = plan->n_launches;
    cp->concurrent = xrealloc(cp->concurrent, (size_t)plan->n_launches, 1);
    cp->n_calls = cp->n_merges = 0;
    cp->fused = !plan->unfused;
    cp->slot_w_at = cuda_align(slot_rows * p->heads.d * (f16 ? 2 : 4));
    cp->workspace = cp->slot_w_at + cuda_align(slot_rows * weights * 4);
    for (int32_t l = 0; l < plan->n_launches; l++)
        cp->concurrent[l] = plan->launch[l].order == LAUNCH_CONCURRENT;
    if (!lay_out(cp, p, plan, &caps, stream, e))
        return false;
    order_calls(cp, caps.sms);
    cp->table_lines = lines_of(p->page_off[p->tree->n_nodes] * (int64_t)sizeof *p->page_table);
    cp->filled = (cp->early || make_streams(cp, e)) && prepare(cp, caps.smem_per_cta, e);
    return cp->filled;
}

struct cuda_plan *cuda_plan_new(const struct problem *p, const struct plan *plan,
                                const struct cuda_options *opt, struct err *e)
{
    struct cuda_plan *cp = cuda_plan_empty(opt);
    if (fill_plan(cp, p, plan, NULL, e) && cuda_ok(cudaStreamSynchronize(NULL), "upload of a plan", e))
        return cp;
    cuda_plan_free(cp);
    return NULL;
}

struct cuda_plan *cuda_plan_empty(const struct cuda_options *opt)
{
    struct cuda_plan *cp = xcalloc(1, sizeof *cp);
    cp->kernel = opt ? opt->kernel : CUDA_GROUP;
    cp->arch = opt ? opt->arch : 0;
    return cp;
}

bool cuda_plan_update(struct cuda_plan *cp, const struct problem *p, const struct plan *plan, void *stream,
                      struct err *e)
{
    return fill_plan(cp, p, plan, stream, e);
}

void cuda_plan_free(struct cuda_plan *cp)
{
    if (!cp)
        return;
    unfused_free(cp->unfused);
    for (int32_t i = 0; i < cp->n_side; i++) {
        cudaStreamDestroy(cp->side[i]);
        cudaEventDestroy(cp->joined[i]);
    }
    if (cp->forked)
        cudaEventDestroy(cp->forked);
    upload_free(&cp->block);
    free(cp->side);
    free(cp->joined);
    free(cp->call);
    free(cp->merge);
    free(cp->concurrent);
    free(cp);
}

int64_t cuda_workspace(const struct cuda_plan *cp)
{
    return cp->workspace;
}

int64_t cuda_plan_bytes(const struct cuda_plan *cp)
{
    return cp->bytes;
}

/* ---- running ---------------------------------------------------------------------------------------- */

/* How a kernel follows the one before it in the stream: an ordinary launch; it may start early and waits; it may start early and
 * waits for nothing. */
enum follows { FOLLOWS_NOTHING, FOLLOWS_EARLY, FOLLOWS_BESIDE };

static bool run_call(const struct cuda_plan *cp, const struct cuda_args *x, const struct cuda_call *c,
                     enum follows follows, cudaStream_t stream, struct err *e)
{
    struct cuda_shape s = shape_of_call(cp, c);
    bool is_first = c == cp->call; /* of the run */
    struct cuda_group_args a = {
        .q = x->q,
        .k = x->k,
        .v = x->v,
        .page_table = x->page_table,
        .o = x->o,
        .lse = x->lse,
        .slot_o = x->workspace,
        .slot_w = (float *)((char *)x->workspace + cp->slot_w_at),
        .item = cp->item + c->item0,
        .run = cp->run,
        .piece = cp->piece,
        .query = cp->query,
        .mask = cp->mask,
        .n_items = (int32_t)c->n_items,
        .h_q = cp->heads.h_q,
        .h_kv = cp->heads.h_kv,
        .gqa = heads_gqa(&cp->heads),
        .gqa_shift = cp->gqa_shift,
        .page_size = cp->page_size,
        .page_shift = cp->page_shift,
        .scale_log2 = cp->scale_log2,
        .cap_scale = cp->cap_scale,
        .slot_f16 = cp->slot_f16,
        .slot_max_sum = cp->slot_max_sum,
        .masked = c->masked,
        .kv_once = c->kv_once,
        .block = cp->block.dev,
        .table_lines = is_first ? cp->table_lines : 0,
        .block_lines = is_first ? lines_of(cp->bytes) : 0,
        .by_head = c->ctas.by_head,
        .n_ctas = c->ctas.n,
        .q_rows = c->q_rows,
        .q_shared = c->q_shared,
        .beside = follows == FOLLOWS_BESIDE,
        .fp8 = cp->fp8,
    };
    a.fp8.k_scale = x->k_scale;
    a.fp8.v_scale = x->v_scale;
    memcpy(a.segment, c->ctas.segment, sizeof a.segment);
    return cuda_ok(launcher_of_call(cp, c)->launch(&s, &a, follows != FOLLOWS_NOTHING, stream),
                   "launch of a group kernel", e);
}

static bool run_merge(const struct cuda_plan *cp, const struct cuda_args *x, const struct cuda_merge *m,
                      bool early, cudaStream_t stream, struct err *e)
{
    struct cuda_shape s = {.d = cp->heads.d, .t = cp->t};
    struct cuda_merge_args a = {
        .o = x->o,
        .lse = x->lse,
        .slot_o = x->workspace,
        .slot_w = (float *)((char *)x->workspace + cp->slot_w_at),
        .step = cp->step + m->step0,
        .merge_in = cp->merge_in,
        .n_steps = m->n_steps,
        .h_q = cp->heads.h_q,
        .warps = m->warps,
        .many_rows = m->many_rows,
        .slot_f16 = cp->slot_f16,
        .slot_max_sum = cp->slot_max_sum,
        .whole_lines = (uintptr_t)x->workspace % CUDA_LINE == 0,
    };
    return cuda_ok(cuda_launch_merge(&s, &a, early, stream), "launch of the merge kernel", e);
}

/* The slot of sinks, before anything else: what follows is an ordinary launch, which waits for it. */
static bool run_sinks(const struct cuda_plan *cp, const struct cuda_args *x, cudaStream_t stream,
                      struct err *e)
{
    struct cuda_sink_args a = {
        .sink = x->sink,
        .slot_o = x->workspace,
        .slot_w = (float *)((char *)x->workspace + cp->slot_w_at),
        .slot = cp->sink_slot,
        .h_q = cp->heads.h_q,
        .d = cp->heads.d,
        .slot_f16 = cp->slot_f16,
        .slot_max_sum = cp->slot_max_sum,
    };
    return x->sink ? cuda_ok(cuda_launch_sinks(&a, stream), "launch of the kernel for sinks", e)
                   : err_set(e, "cuda_run: the plan is of a problem with sinks, and there are none");
}

/* Enqueues kernels that run side by side, as a chain of dependent launches. */
static bool run_chain(const struct cuda_plan *cp, const struct cuda_args *x, int32_t call0, int32_t call1,
                      enum follows first, cudaStream_t stream, struct err *e)
{
    for (int32_t i = call0; i < call1; i++)
        if (!run_call(cp, x, &cp->call[i], i == call0 ? first : FOLLOWS_BESIDE, stream, e))
            return false;
    return true;
}

/* The same on streams: the first kernel in the main stream, the others between two events. */
static bool run_side_by_side(const struct cuda_plan *cp, const struct cuda_args *x, int32_t call0,
                             int32_t call1, cudaStream_t stream, struct err *e)
{
    if (call1 - call0 > 1 && !cuda_ok(cudaEventRecord(cp->forked, stream), "event", e))
        return false;
    if (!run_call(cp, x, &cp->call[call0], FOLLOWS_NOTHING, stream, e))
        return false;
    for (int32_t i = call0 + 1; i < call1; i++) {
        cudaStream_t side = cp->side[i - call0 - 1];
        cudaEvent_t joined = cp->joined[i - call0 - 1];
        if (!cuda_ok(cudaStreamWaitEvent(side, cp->forked, 0), "event", e) ||
            !run_call(cp, x, &cp->call[i], FOLLOWS_NOTHING, side, e) ||
            !cuda_ok(cudaEventRecord(joined, side), "event", e))
            return false;
    }
    for (int32_t i = call0 + 1; i < call1; i++)
        if (!cuda_ok(cudaStreamWaitEvent(stream, cp->joined[i - call0 - 1], 0), "event", e))
            return false;
    return true;
}

bool cuda_run(struct cuda_plan *cp, const struct cuda_args *x, void *stream_, struct err *e)
{
    cudaStream_t stream = stream_;
    if (!cp->filled)
        return err_set(e, "cuda_run: the plan is empty (expected cuda_plan_update, and that it went well)");
    if (cp->sink_slot >= 0 && !run_sinks(cp, x, stream, e))
        return false;
    if (!cp->fused && !unfused_run(cp, x, stream, e))
        return false;
    int32_t call = 0, merge = 0;
    bool follows = false; /* the last thing in the stream is a kernel of this run */
    for (int32_t l = 0, end; l < cp->n_launches; l = end) {
        int32_t call0 = call, n;
        end = end_of_set(cp, l);
        while (call < cp->n_calls && cp->call[call].launch < end)
            call++;
        n = call - call0;
        enum follows first = follows ? FOLLOWS_EARLY : FOLLOWS_NOTHING;
        if (n > 0 && !(cp->early ? run_chain(cp, x, call0, call, first, stream, e)
                                 : run_side_by_side(cp, x, call0, call, stream, e)))
            return false;
        follows = follows || n > 0;
        for (; merge < cp->n_merges && cp->merge[merge].launch < end; merge++) {
            if (!run_merge(cp, x, &cp->merge[merge], cp->early && follows, stream, e))
                return false;
            follows = true;
        }
    }
    return true;
}
