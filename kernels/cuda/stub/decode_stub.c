/* What stands in for the decode step on a GPU in a build without nvcc. */
#include "kernels/cuda/host/cuda.h"
#include "kernels/decode/decode.h"

static bool ready(struct err *e)
{
    struct cuda_caps caps;
    return cuda_caps(&caps, e);
}

const struct decoder_type decoder_cuda = {
    .name = "cuda",
    .about = "on a GPU: products by cuBLAS, attention by the kernel cuda",
    .ready = ready,
};
