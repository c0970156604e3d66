/* The kernel of wide tiles in clusters whose CTAs merge their rows. */
#include "kernels/cuda/device/wide_launch.cuh"

using namespace treeattn;

extern "C" int cuda_prepare_wide_meet(const cuda_shape *s)
{
    return prepare_wide<true>(s);
}

extern "C" int cuda_launch_wide_meet(const cuda_shape *s, const cuda_group_args *a, int early, void *stream)
{
    return launch_wide<true>(s, a, early, stream);
}

extern "C" int cuda_wide_clusters(int ctas, int *clusters)
{
    /* All kernels of wide tiles have as many threads, and an SM for a CTA. */
    const auto kernel = wide_kernel<__half, 128, true, false, false, true>;
    constexpr int smem = wide_layout<128, true, false, false>::bytes;
    cudaLaunchAttribute cluster = {};
    cudaLaunchConfig_t c = {};
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim.x = (unsigned)ctas;
    cluster.val.clusterDim.y = cluster.val.clusterDim.z = 1;
    c.gridDim = dim3((unsigned)ctas);
    c.blockDim = dim3(WIDE_THREADS);
    c.dynamicSmemBytes = smem;
    c.attrs = &cluster;
    c.numAttrs = 1;
    const int status = allow_smem(kernel, smem);
    return status != cudaSuccess ? status : cudaOccupancyMaxActiveClusters(clusters, kernel, &c);
}
