/* chain_gpu.c - how long the least chain of a decode kernel takes on this card, by the protocol of the rows. */
#include "verify/bench/bench_gpu.h"

#include <math.h>

enum { CHAIN_REPS = 51, CHAIN_WARM = 5 };

struct chain_replay {
    const struct gpu_bench *b;
    void *graph;
};

static bool before_chain(void *of, int64_t turn, void *stream, struct err *e)
{
    const struct chain_replay *r = of;
    return gpu_chain_poison(r->b->probe, stream, e) && gpu_flush(r->b, turn, stream, e);
}

static bool do_chain(void *of, int64_t turn, void *stream, struct err *e)
{
    const struct chain_replay *r = of;
    (void)turn;
    return gpu_graph_run(r->graph, stream, e);
}

/* The median of one way, and a look at what the last replay wrote. */
static bool time_way(const struct gpu_bench *b, enum gpu_chain_way way, double *median_us, struct err *e)
{
    struct chain_replay r = {.b = b};
    double us[CHAIN_REPS];
    if (!gpu_capture_begin(b->stream, e))
        return false;
    bool good = gpu_chain_run(b->probe, way, b->stream, e);
    r.graph = gpu_capture_end(b->stream, e);
    good = good && r.graph && gpu_time_each(before_chain, do_chain, &r, CHAIN_WARM, b->stream, us, e) &&
           gpu_time_each(before_chain, do_chain, &r, CHAIN_REPS, b->stream, us, e) &&
           gpu_chain_right(b->probe, way, e);
    if (good)
        *median_us = gpu_time_of(us, CHAIN_REPS).median_us;
    gpu_graph_free(r.graph);
    return good;
}

bool gpu_chain_measure(struct gpu_bench *b, struct err *e)
{
    double us[N_CHAIN_WAYS];
    for (int way = 0; way < N_CHAIN_WAYS; way++)
        if (!time_way(b, (enum gpu_chain_way)way, &us[way], e))
            return false;
    b->empty_us = us[CHAIN_EMPTY];
    b->chain_us[0] = us[CHAIN_DIRECT];
    b->chain_us[1] = fmin(us[CHAIN_MERGE_KERNEL], us[CHAIN_MERGE_LAST]);
    return true;
}
