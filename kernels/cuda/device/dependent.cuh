/*
 * dependent.cuh - programmatic dependent launch: a kernel may begin when all CTAs of the one before in its stream let it,
 * and waits for that one's end where it needs what it wrote.
 */
#ifndef TREEATTN_KERNELS_CUDA_DEVICE_DEPENDENT_CUH
#define TREEATTN_KERNELS_CUDA_DEVICE_DEPENDENT_CUH

#include <cuda_runtime.h>

namespace treeattn {

/* Both do nothing in a kernel launched the ordinary way. */
__device__ inline void let_next_start()
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

__device__ inline void wait_for_previous()
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/* Bytes of dynamic shared memory that the kernel may be launched with; returns a cudaError_t. An SM divides L1 and shared memory
 * anew only when it is empty: kernels that are to run beside each other on it ask for the same division. */
template <typename F> int allow_smem(F *kernel, int bytes)
{
    const cudaError_t status = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    return status != cudaSuccess ? status
                                 : cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout,
                                                        cudaSharedmemCarveoutMaxShared);
}

/* early: it may begin so; else once the kernel before has ended. smem: bytes of dynamic shared memory. cluster: CTAs of one, or 0.
 * Returns a cudaError_t. */
template <typename... P, typename... A>
int launch_clusters(void (*kernel)(P...), dim3 grid, int threads, size_t smem, bool early, int cluster, cudaStream_t stream,
                    const A &...args)
{
    cudaLaunchAttribute asked[2] = {};
    cudaLaunchConfig_t c = {};
    c.gridDim = grid;
    c.blockDim = dim3((unsigned)threads);
    c.dynamicSmemBytes = smem;
    c.stream = stream;
    c.attrs = asked;
    if (early) {
        asked[c.numAttrs].id = cudaLaunchAttributeProgrammaticStreamSerialization;
        asked[c.numAttrs++].val.programmaticStreamSerializationAllowed = 1;
    }
    if (cluster > 0) {
        asked[c.numAttrs].id = cudaLaunchAttributeClusterDimension;
        asked[c.numAttrs].val.clusterDim.x = (unsigned)cluster;
        asked[c.numAttrs].val.clusterDim.y = asked[c.numAttrs].val.clusterDim.z = 1;
        c.numAttrs++;
    }
    return cudaLaunchKernelEx(&c, kernel, P(args)...);
}

/* The same without clusters. */
template <typename... P, typename... A>
int launch_dependent(void (*kernel)(P...), dim3 grid, int threads, size_t smem, bool early, cudaStream_t stream,
                     const A &...args)
{
    return launch_clusters(kernel, grid, threads, smem, early, 0, stream, args...);
}

} // namespace treeattn

#endif
