/*
 * runtime.c - the CUDA runtime, as far as kernels/cuda calls it.
 *
 * Emulated   Memory: every allocation is one of the host's, of its exact size, so that sanitizers see accesses outside. It is full
 *            of NaN until written. The card's memory can run out.
 *            Streams and events: work is done when somebody waits for it, not before. Of the work that may run, the last enqueued
 *            runs first. So a missing wait, or a buffer that is written again too early, shows as a wrong result.
 *            Capture: a call that waits or allocates breaks it, and so does a stream that does not join again. Graphs, their
 *            nodes, and updates of graphs that have the same kernels.
 *            Failures: any one call fails, by its number. The last error stays until it is asked for.
 *            A kernel that breaks the device: nothing runs any more, and every call that waits or enqueues says so.
 * Not        time, other than the host's when a recorded event is reached; a second device; clusters; streams that wait for the
 *            default stream, because none is made so.
 */
#include "tests/stand_in/stand_in.h"

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEEPEST = 256 /* work in the queue, from which on the device no longer waits */ };

struct stand_in stand_in = {.fail_at = -1};
const char *const stand_in_kind_name[N_LIVE] = {"device memory", "pinned memory", "streams",
                                                "events",        "graphs",        "executable graphs"};

/* ---- the card, calls that fail ------------------------------------------------------------------------- */

static const struct stand_in_card cards[] = {
    {"h200", 90, 132, 232448, 233472, 60 << 20, INT64_C(141) << 30},
    {"a100", 80, 108, 166912, 167936, 40 << 20, INT64_C(80) << 30},
    {"ada", 89, 142, 101376, 102400, 96 << 20, INT64_C(48) << 30},
    {"mig", 90, 16, 232448, 233472, 8 << 20, INT64_C(18) << 30}, /* a slice of an H200 */
};

static const struct stand_in_card *card = cards;
static const char *fault = "";

static void __attribute__((constructor)) read_environment(void)
{
    const char *name = getenv("STAND_IN_CARD");
    if (getenv("STAND_IN_FAULT"))
        fault = getenv("STAND_IN_FAULT");
    for (size_t i = 0; i < sizeof cards / sizeof cards[0] && name; i++) {
        card = &cards[i];
        if (strcmp(name, card->name) == 0)
            return;
    }
    CK(!name); /* it is one of the cards */
}

const struct stand_in_card *stand_in_card(void)
{
    return card;
}

bool stand_in_fault(const char *name)
{
    return strcmp(fault, name) == 0;
}

static _Thread_local cudaError_t last_error;

int stand_in_fail(int status)
{
    last_error = (cudaError_t)status;
    return status;
}

/* The status of every call after a kernel has broken the device, or 0. */
static cudaError_t broken;

void stand_in_break(void)
{
    __atomic_store_n(&broken, cudaErrorIllegalAddress, __ATOMIC_SEQ_CST); /* by CTAs side by side */
}

int stand_in_call(const char *name)
{
    if (broken != cudaSuccess)
        return stand_in_fail(broken);
    if (__atomic_fetch_add(&stand_in.calls, 1, __ATOMIC_SEQ_CST) != stand_in.fail_at)
        return cudaSuccess;
    stand_in.failed = name;
    return stand_in_fail(stand_in.fail_with);
}

static cudaError_t fail(cudaError_t status)
{
    return (cudaError_t)stand_in_fail(status);
}

/* A call that may fail begins so. */
#define CALL()                                                                                               \
    do {                                                                                                     \
        cudaError_t status_ = (cudaError_t)stand_in_call(__func__);                                          \
        if (status_ != cudaSuccess)                                                                          \
            return status_;                                                                                  \
    } while (0)

static void count(enum stand_in_kind kind, int n)
{
    __atomic_fetch_add(&stand_in.live[kind], n, __ATOMIC_SEQ_CST);
}

cudaError_t cudaGetLastError(void)
{
    cudaError_t status = last_error;
    last_error = cudaSuccess;
    return status;
}

const char *cudaGetErrorString(cudaError_t status)
{
    return status == cudaErrorMemoryAllocation           ? "out of memory"
           : status == cudaErrorIllegalAddress           ? "an illegal memory access was encountered"
           : status == cudaErrorStreamCaptureInvalidated ? "a capture was broken"
           : status == cudaErrorStreamCaptureUnjoined    ? "a captured stream was not joined"
           : status == cudaErrorStreamCaptureUnsupported ? "not while a stream is captured"
                                                         : "invalid argument";
}

cudaError_t cudaRuntimeGetVersion(int *version)
{
    *version = CUDART_VERSION;
    return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int *version)
{
    *version = CUDART_VERSION;
    return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int *n)
{
    *n = 1;
    return cudaSuccess;
}

cudaError_t cudaGetDevice(int *device)
{
    *device = 0;
    return cudaSuccess;
}

cudaError_t cudaSetDevice(int device)
{
    return device == 0 ? cudaSuccess : fail(cudaErrorInvalidDevice);
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *p, int device)
{
    const struct stand_in_card *c = stand_in_card();
    CK(device == 0);
    memset(p, 0, sizeof *p);
    snprintf(p->name, sizeof p->name, "stand-in for %s", c->name);
    p->major = c->arch / 10;
    p->minor = c->arch % 10;
    p->multiProcessorCount = c->sms;
    p->totalGlobalMem = (size_t)c->memory;
    p->l2CacheSize = (int)c->l2;
    p->sharedMemPerBlockOptin = (size_t)c->smem_per_cta;
    p->sharedMemPerMultiprocessor = (size_t)c->smem_per_sm;
    return cudaSuccess;
}

/* ---- work, in the order in which it was enqueued ------------------------------------------------------- */

struct CUevent_st {
    int64_t capture; /* the capture in which it was recorded, or 0 */
    int64_t at;      /* number of its record, in the graph or of all that was ever enqueued; -1: none */
    double time;     /* when that was reached */
};

struct op {
    stand_in_work *run;    /* NULL: a record, or a wait for one */
    const void *kernel;    /* NULL: no kernel */
    void *args;            /* its own */
    cudaEvent_t event;     /* that is recorded */
    int64_t stream, after; /* after: of the list, which it waits for; -1: nothing */
    bool beside, done;
};

struct list {
    struct op *op;
    int64_t n, cap;
};

/* The work of a graph, shared by all that may run it. */
struct program {
    struct list list;
    int refs;
};

static int64_t before_in_stream(const struct list *l, int64_t i)
{
    int64_t j = i - 1;
    while (j >= 0 && l->op[j].stream != l->op[i].stream)
        j--;
    return j;
}

static bool ready(const struct list *l, int64_t i)
{
    const struct op *x = &l->op[i];
    int64_t before = before_in_stream(l, i);
    if (x->after >= 0 && !l->op[x->after].done)
        return false;
    if (x->beside && before >= 0 && l->op[before].kernel)
        return l->op[before].done || ready(l, before);
    for (; before >= 0; before = before_in_stream(l, before))
        if (!l->op[before].done)
            return false;
    return true;
}

/* Which work must be done before op `last` is, itself included; the caller frees. */
static bool *needed_by(const struct list *l, int64_t last)
{
    bool *needed = xcalloc((size_t)l->n + 1, sizeof *needed);
    needed[last] = true;
    for (int64_t i = last; i >= 0; i--) {
        if (!needed[i])
            continue;
        int64_t before = before_in_stream(l, i);
        if (before >= 0)
            needed[before] = true;
        if (l->op[i].after >= 0)
            needed[l->op[i].after] = true;
    }
    return needed;
}

static void run_op(struct op *x)
{
    if (x->run && broken == cudaSuccess)
        x->run(x->args);
    if (x->event)
        x->event->time = now_s();
    x->done = true;
}

/* Does the needed work (NULL: all). Of what is ready, the last one goes first. */
static void run_list(struct list *l, const bool *needed)
{
    for (int64_t i = l->n - 1; i >= 0; i--)
        if ((!needed || needed[i]) && !l->op[i].done && ready(l, i)) {
            run_op(&l->op[i]);
            i = l->n; /* work that it made ready may stand behind it */
        }
    for (int64_t i = 0; i < l->n; i++)
        CK((needed && !needed[i]) || l->op[i].done);
}

static struct op *list_add(struct list *l, const struct op *x)
{
    l->op = xgrow(l->op, &l->cap, l->n + 1, sizeof *l->op);
    l->op[l->n] = *x;
    return &l->op[l->n++];
}

static void list_free(struct list *l)
{
    for (int64_t i = 0; i < l->n; i++)
        free(l->op[i].args);
    free(l->op);
    *l = (struct list){0};
}

/* ---- streams, the queue, capture ------------------------------------------------------------------------ */

struct CUstream_st {
    int64_t id, capture; /* capture: that it is part of, or 0 */
};

static struct list queue;
static int64_t n_done; /* done before the first of the queue */

static struct {
    int64_t id, n; /* id: of the one under way, or 0; n: so far */
    int64_t origin;
    struct list list;
    bool broken;
} capture;

static int64_t id_of(cudaStream_t stream)
{
    return stream ? stream->id : 0;
}

static bool captured(cudaStream_t stream)
{
    return stream && capture.id != 0 && stream->capture == capture.id;
}

static void finish_all(void)
{
    run_list(&queue, NULL);
    n_done += queue.n;
    list_free(&queue);
}

/* Calls that wait for the device, or allocate or free memory, are not allowed in a capture. */
static bool unsafe(void)
{
    capture.broken |= capture.id != 0;
    return capture.id != 0;
}
#define CALL_UNSAFE()                                                                                        \
    do {                                                                                                     \
        CALL();                                                                                              \
        if (unsafe())                                                                                        \
            return fail(cudaErrorStreamCaptureUnsupported);                                                  \
    } while (0)

static void enqueue(cudaStream_t stream, const struct op *x)
{
    struct op op = *x;
    op.stream = id_of(stream);
    if (captured(stream)) {
        list_add(&capture.list, &op);
        return;
    }
    if (queue.n >= DEEPEST && op.after < 0)
        finish_all();
    list_add(&queue, &op);
}

static void *copy_of(const void *from, size_t size)
{
    void *to = xmalloc(size);
    memcpy(to, from, size);
    return to;
}

int stand_in_launch(const char *name, const void *kernel, stand_in_work *run, const void *args, size_t size,
                    bool beside, void *stream)
{
    int status = stand_in_call(name);
    if (status == cudaSuccess)
        enqueue(stream, &(struct op){.run = run,
                                     .kernel = kernel,
                                     .args = copy_of(args, size),
                                     .after = -1,
                                     .beside = beside || stand_in_fault("beside")});
    return status;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags)
{
    static int64_t made;
    CALL();
    CK(flags == cudaStreamNonBlocking);
    *stream = xcalloc(1, sizeof **stream);
    (*stream)->id = ++made;
    count(LIVE_STREAM, 1);
    return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    CK(stream && !captured(stream));
    free(stream); /* the work that is left in it is done all the same */
    count(LIVE_STREAM, -1);
    return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize(void)
{
    CALL_UNSAFE();
    finish_all();
    return broken;
}

static void finish_up_to(int64_t last)
{
    bool *needed = needed_by(&queue, last);
    run_list(&queue, needed);
    free(needed);
}

static void finish_stream(cudaStream_t stream)
{
    int64_t last = queue.n - 1;
    while (last >= 0 && queue.op[last].stream != id_of(stream))
        last--;
    if (last >= 0)
        finish_up_to(last);
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    CALL_UNSAFE();
    finish_stream(stream);
    return broken;
}

/* ---- events ------------------------------------------------------------------------------------------------ */

static cudaError_t make_event(cudaEvent_t *event)
{
    *event = xcalloc(1, sizeof **event);
    (*event)->at = -1;
    count(LIVE_EVENT, 1);
    return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t *event)
{
    CALL();
    return make_event(event);
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags)
{
    CALL();
    CK(flags == cudaEventDisableTiming);
    return make_event(event);
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    CK(event);
    for (int64_t i = 0; i < queue.n; i++)
        if (queue.op[i].event == event)
            queue.op[i].event = NULL;
    free(event);
    count(LIVE_EVENT, -1);
    return cudaSuccess;
}

static void record(cudaEvent_t event, cudaStream_t stream, bool external)
{
    bool within = captured(stream);
    enqueue(stream, &(struct op){.event = event, .after = -1});
    if (within && external)
        return; /* it is recorded when the graph runs */
    event->capture = within ? capture.id : 0;
    event->at = within ? capture.list.n - 1 : n_done + queue.n - 1;
    if (within)
        capture.list.op[event->at].event = NULL; /* it only orders the graph */
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    CALL();
    if (!event)
        return fail(cudaErrorInvalidResourceHandle);
    record(event, stream, false);
    return cudaSuccess;
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags)
{
    CALL();
    if (!event)
        return fail(cudaErrorInvalidResourceHandle);
    record(event, stream, flags == cudaEventRecordExternal);
    return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags)
{
    CALL();
    CK(flags == 0);
    if (!event)
        return fail(cudaErrorInvalidResourceHandle);
    if (event->capture != 0) {
        if (event->capture != capture.id || !stream)
            return fail(cudaErrorStreamCaptureIsolation);
        stream->capture = capture.id; /* from here on it is part of it */
    } else if (captured(stream)) {
        return fail(cudaErrorStreamCaptureIsolation);
    }
    int64_t after = event->capture != 0 ? event->at : event->at - n_done;
    if (after >= 0)
        enqueue(stream, &(struct op){.after = stand_in_fault("wait") ? -1 : after});
    return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    CALL_UNSAFE();
    if (!event || event->capture != 0)
        return fail(event ? cudaErrorCapturedEvent : cudaErrorInvalidResourceHandle);
    if (event->at >= n_done)
        finish_up_to(event->at - n_done);
    return broken;
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t begin, cudaEvent_t end)
{
    CALL();
    *ms = (float)((end->time - begin->time) * 1e3);
    return cudaSuccess;
}

/* ---- memory ------------------------------------------------------------------------------------------------ */

static struct {
    struct piece {
        char *p;
        int64_t bytes;
    } * piece;
    int64_t n, cap, bytes;
} memory;

bool stand_in_on_device(const void *p, int64_t bytes)
{
    const char *from = p;
    for (int64_t i = 0; i < memory.n; i++)
        if (from >= memory.piece[i].p && from + bytes <= memory.piece[i].p + memory.piece[i].bytes)
            return true;
    return false;
}

cudaError_t cudaMemGetInfo(size_t *bytes_free, size_t *total)
{
    CALL();
    *total = (size_t)stand_in_card()->memory;
    *bytes_free = *total - (size_t)memory.bytes;
    return cudaSuccess;
}

cudaError_t cudaMalloc(void **p, size_t bytes)
{
    CALL_UNSAFE();
    if (memory.bytes + (int64_t)bytes > stand_in_card()->memory)
        return fail(cudaErrorMemoryAllocation);
    CK(posix_memalign(p, 256, bytes) == 0);
    memset(*p, 0xFF, bytes);
    memory.piece = xgrow(memory.piece, &memory.cap, memory.n + 1, sizeof *memory.piece);
    memory.piece[memory.n++] = (struct piece){*p, (int64_t)bytes};
    memory.bytes += (int64_t)bytes;
    stand_in.most_bytes = max_i64(stand_in.most_bytes, memory.bytes);
    count(LIVE_DEVICE, 1);
    return cudaSuccess;
}

cudaError_t cudaFree(void *p)
{
    int64_t i = 0;
    while (i < memory.n && memory.piece[i].p != (char *)p)
        i++;
    CK(i < memory.n && !unsafe());
    finish_all(); /* it waits for the device */
    memory.bytes -= memory.piece[i].bytes;
    memory.piece[i] = memory.piece[--memory.n];
    free(p);
    count(LIVE_DEVICE, -1);
    return cudaSuccess;
}

cudaError_t cudaHostAlloc(void **p, size_t bytes, unsigned flags)
{
    CALL_UNSAFE();
    CK(flags == cudaHostAllocDefault);
    *p = xmalloc(bytes);
    count(LIVE_PINNED, 1);
    return cudaSuccess;
}

cudaError_t cudaFreeHost(void *p)
{
    CK(!unsafe());
    free(p);
    count(LIVE_PINNED, -1);
    return cudaSuccess;
}

struct copy {
    void *to;
    const void *from;
    int byte; /* where nothing is copied */
    size_t bytes;
};

static void run_copy(const void *args)
{
    const struct copy *x = args;
    if (x->from)
        memmove(x->to, x->from, x->bytes);
    else
        memset(x->to, x->byte, x->bytes);
}

static void check_copy(const void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind)
{
    CK(stand_in_on_device(to, (int64_t)bytes) == (kind != cudaMemcpyDeviceToHost));
    CK(stand_in_on_device(from, (int64_t)bytes) == (kind != cudaMemcpyHostToDevice));
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                            cudaStream_t stream)
{
    struct copy x = {.to = to, .from = from, .bytes = bytes};
    CALL();
    check_copy(to, from, bytes, kind);
    enqueue(stream, &(struct op){.run = run_copy, .args = copy_of(&x, sizeof x), .after = -1});
    return cudaSuccess;
}

/* A copy of memory that is not pinned: in the default stream, and it waits for that. */
cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind)
{
    CALL_UNSAFE();
    check_copy(to, from, bytes, kind);
    finish_stream(NULL);
    if (broken == cudaSuccess)
        memcpy(to, from, bytes);
    return broken;
}

cudaError_t cudaMemsetAsync(void *to, int byte, size_t bytes, cudaStream_t stream)
{
    struct copy x = {.to = to, .byte = byte, .bytes = bytes};
    CALL();
    CK(stand_in_on_device(to, (int64_t)bytes));
    enqueue(stream, &(struct op){.run = run_copy, .args = copy_of(&x, sizeof x), .after = -1});
    return cudaSuccess;
}

/* ---- graphs ------------------------------------------------------------------------------------------------ */

struct CUgraph_st {
    struct program *program;
};

struct CUgraphExec_st {
    struct program *program;
};

static void release(struct program *p)
{
    if (--p->refs > 0)
        return;
    list_free(&p->list);
    free(p);
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode)
{
    CALL();
    CK(mode == cudaStreamCaptureModeThreadLocal && capture.id == 0);
    if (!stream)
        return fail(cudaErrorStreamCaptureUnsupported);
    capture.id = stream->capture = ++capture.n;
    capture.origin = stream->id;
    capture.broken = false;
    return cudaSuccess;
}

/* Does the stream in which the capture began wait for all others? */
static bool joined(void)
{
    const struct list *l = &capture.list;
    int64_t last = l->n - 1;
    while (last >= 0 && l->op[last].stream != capture.origin)
        last--;
    bool all = last >= 0, *needed = all ? needed_by(l, last) : NULL;
    for (int64_t i = 0; i < l->n && all; i++)
        all = needed[i];
    free(needed);
    return all || l->n == 0;
}

/* Whatever it returns, the capture has ended. */
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph)
{
    cudaError_t status = (cudaError_t)stand_in_call(__func__);
    CK(captured(stream));
    *graph = NULL;
    if (status == cudaSuccess && capture.broken)
        status = fail(cudaErrorStreamCaptureInvalidated);
    if (status == cudaSuccess && !joined())
        status = fail(cudaErrorStreamCaptureUnjoined);
    capture.id = 0;
    if (status != cudaSuccess) {
        list_free(&capture.list);
        return status;
    }
    *graph = xcalloc(1, sizeof **graph);
    (*graph)->program = xcalloc(1, sizeof *(*graph)->program);
    *(*graph)->program = (struct program){.list = capture.list, .refs = 1};
    capture.list = (struct list){0};
    count(LIVE_GRAPH, 1);
    return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    release(graph->program);
    free(graph);
    count(LIVE_GRAPH, -1);
    return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long flags)
{
    CALL();
    CK(flags == 0);
    *exec = xcalloc(1, sizeof **exec);
    (*exec)->program = graph->program;
    graph->program->refs++;
    count(LIVE_EXEC, 1);
    return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec)
{
    release(exec->program);
    free(exec);
    count(LIVE_EXEC, -1);
    return cudaSuccess;
}

static void run_graph(const void *args)
{
    struct program *p = *(struct program *const *)args;
    for (int64_t i = 0; i < p->list.n; i++)
        p->list.op[i].done = false;
    run_list(&p->list, NULL);
    release(p);
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream)
{
    CALL();
    exec->program->refs++;
    enqueue(
        stream,
        &(struct op){.run = run_graph, .args = copy_of(&exec->program, sizeof exec->program), .after = -1});
    return cudaSuccess;
}

/* All work is nodes, except waits, which are edges. */
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *node, size_t *n)
{
    const struct list *l = &graph->program->list;
    CALL();
    *n = 0;
    for (int64_t i = 0; i < l->n; i++)
        if (l->op[i].run || l->op[i].event) {
            if (node)
                node[*n] = (cudaGraphNode_t)&l->op[i];
            ++*n;
        }
    return cudaSuccess;
}

cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, enum cudaGraphNodeType *type)
{
    const struct op *x = (const struct op *)node;
    CALL();
    *type = x->kernel ? cudaGraphNodeTypeKernel
            : x->run  ? cudaGraphNodeTypeMemcpy
                      : cudaGraphNodeTypeEventRecord;
    return cudaSuccess;
}

cudaError_t cudaGraphKernelNodeGetAttribute(cudaGraphNode_t node, cudaLaunchAttributeID attribute,
                                            cudaLaunchAttributeValue *value)
{
    CALL();
    CK(node && attribute == cudaLaunchAttributeClusterDimension);
    memset(value, 0, sizeof *value);
    return cudaSuccess;
}

static CUresult kernel_params(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS *params)
{
    memset(params, 0, sizeof *params);
    params->func = (CUfunction)((const struct op *)node)->kernel;
    return CUDA_SUCCESS;
}

#if CUDART_VERSION >= 12050
cudaError_t cudaGetDriverEntryPointByVersion(const char *name, void **found, unsigned version,
                                             unsigned long long flags,
                                             enum cudaDriverEntryPointQueryResult *status)
{
    (void)version;
#else
cudaError_t cudaGetDriverEntryPoint(const char *name, void **found, unsigned long long flags,
                                    enum cudaDriverEntryPointQueryResult *status)
{
#endif
    CK(strcmp(name, "cuGraphKernelNodeGetParams") == 0 && flags == cudaEnableDefault);
    *found = (void *)kernel_params;
    *status = cudaDriverEntryPointSuccess;
    return cudaSuccess;
}

/* Succeeds if both have the same kernels in the same order. */
cudaError_t cudaGraphExecUpdate(cudaGraphExec_t exec, cudaGraph_t graph, cudaGraphExecUpdateResultInfo *info)
{
    const struct list *old = &exec->program->list, *now = &graph->program->list;
    CALL();
    bool same = old->n == now->n;
    for (int64_t i = 0; i < now->n && same; i++)
        same = old->op[i].kernel == now->op[i].kernel && old->op[i].after == now->op[i].after;
    memset(info, 0, sizeof *info);
    if (!same)
        return fail(cudaErrorGraphExecUpdateFailure);
    release(exec->program);
    exec->program = graph->program;
    graph->program->refs++;
    return cudaSuccess;
}
