/* chain.c - the probe of the least chain on the stand-in. */
#include "tests/stand_in/chain.h"
#include "tests/stand_in/stand_in.h"

#include <cuda_runtime_api.h>

struct chain_work {
    struct cuda_chain_args a;
    enum gpu_chain_way way;
};

static void run_chain(const void *args)
{
    const struct chain_work *w = args;
    chain_on_host(w->way, &w->a);
}

int cuda_launch_chain(enum gpu_chain_way way, const struct cuda_chain_args *a, int early, void *stream)
{
    struct chain_work w = {*a, way};
    (void)early;
    if (way < 0 || way >= N_CHAIN_WAYS)
        return stand_in_fail(cudaErrorInvalidValue);
    CK(stand_in_on_device(a->out, a->ctas * (int64_t)sizeof(uint32_t) * 4 * CHAIN_LANES));
    return stand_in_launch("probe", cuda_launch_chain, run_chain, &w, sizeof w, false, stream);
}
