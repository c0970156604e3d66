/*
 * wgmma.cuh - the products of a warpgroup (4 warps), for sm_90a: C[64][N] += A[64][16] B[16][N], fp32 accumulation. A
 * and C are in registers, laid out as for mma.sync (ptx.cuh), 16 rows a warp; B is in shared memory, in panels of 64
 * columns as 3_group.cuh writes them.
 */
#ifndef TREEATTN_KERNELS_CUDA_DEVICE_WGMMA_CUH
#define TREEATTN_KERNELS_CUDA_DEVICE_WGMMA_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <stdint.h>

namespace treeattn {

/* For the compiler: c[n] is written before this, and read after it. */
template <int n> __device__ inline void pin(float (*c)[4])
{
#pragma unroll
    for (int i = 0; i < n; i++)
        asm volatile("" : "+f"(c[i][0]), "+f"(c[i][1]), "+f"(c[i][2]), "+f"(c[i][3]) : : "memory");
}

/* c[n] and shared memory are as the products to come should see them. */
template <int n> __device__ inline void wgmma_fence(float (*c)[4])
{
    pin<n>(c);
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

/* The products since wgmma_fence are done, and in c[n]. */
template <int n> __device__ inline void wgmma_end(float (*c)[4])
{
    asm volatile("wgmma.commit_group.sync.aligned;\n\twgmma.wait_group.sync.aligned 0;" ::: "memory");
    pin<n>(c);
}

/* The products since wgmma_fence are a group. */
__device__ inline void wgmma_commit()
{
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

/* All but the last `pending` groups are done; pin() what they have written. */
template <int pending> __device__ inline void wgmma_wait()
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" : : "n"(pending) : "memory");
}

/* What this thread wrote or copied to shared memory, wgmma and the copy engine may read after the next barrier. */
__device__ inline void publish_to_async()
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/* The matrix that begins at an address within a panel of rows of 128 bytes, 8 of them a swizzled block of 1,024. */
__device__ inline uint64_t panel_of_rows(uint32_t at)
{
    const uint64_t swizzle_128 = (uint64_t)1 << 62, next_block = (uint64_t)(1024 >> 4) << 32, unused = 1 << 16;
    return swizzle_128 | next_block | unused | (at & 0x3FFFF) >> 4;
}

/* The same of as many columns as there are: panels follow each other every so many bytes. Of a B whose columns lie along a
 * panel's rows. */
template <int panel> __device__ inline uint64_t panels_of_columns(uint32_t at)
{
    return (panel_of_rows(at) & ~((uint64_t)0x3FFF << 16)) | (uint64_t)(panel >> 4) << 16;
}

/* The same so many bytes further on: one addition, where a matrix from its address is five instructions, one after the other. */
__device__ inline uint64_t further(uint64_t matrix, uint32_t bytes)
{
    const uint32_t low = (uint32_t)matrix + (bytes >> 4); /* addresses of shared memory do not carry */
    return matrix >> 32 << 32 | low;
}

/* B's columns along a panel's rows (`across`), or its rows. If not `add`, C is overwritten. */
template <typename T, int N, bool across>
__device__ __forceinline__ void wgmma(float (*c)[4], const uint32_t a[4], uint64_t b, bool add);

/* Operands of the instruction by the number of floats that a thread has of C: C itself, A, B, and whether to add. */
#define C4(i) "+f"(c[i][0]), "+f"(c[i][1]), "+f"(c[i][2]), "+f"(c[i][3])
#define C_16 C4(0), C4(1), C4(2), C4(3)
#define C_32 C_16, C4(4), C4(5), C4(6), C4(7)
#define C_64 C_32, C4(8), C4(9), C4(10), C4(11), C4(12), C4(13), C4(14), C4(15)
#define NAMES_16 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
#define NAMES_32 NAMES_16 ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define NAMES_64 NAMES_32 ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47" \
                          ", %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define A_16 "%16, %17, %18, %19"
#define A_32 "%32, %33, %34, %35"
#define A_64 "%64, %65, %66, %67"
#define B_16 "%20"
#define B_32 "%36"
#define B_64 "%68"
#define ADD_16 "%21"
#define ADD_32 "%37"
#define ADD_64 "%69"
#define WGMMA(T, PTX, N, ACROSS, FLOATS)                                                                     \
    template <>                                                                                              \
    __device__ __forceinline__ void wgmma<T, N, ACROSS>(float (*c)[4], const uint32_t a[4], uint64_t b,      \
                                                        bool add)                                            \
    {                                                                                                        \
        asm volatile("{\n\t.reg .pred p;\n\tsetp.ne.b32 p, " ADD_##FLOATS ", 0;\n\t"                         \
                     "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." PTX "." PTX                           \
                     " {" NAMES_##FLOATS "}, {" A_##FLOATS "}, " B_##FLOATS ", p, 1, 1, " #ACROSS ";\n\t}"   \
                     : C_##FLOATS                                                                            \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"((int)add));                   \
    }
WGMMA(__half, "f16", 32, 0, 16)
WGMMA(__half, "f16", 64, 0, 32)
WGMMA(__half, "f16", 64, 1, 32)
WGMMA(__half, "f16", 128, 1, 64)
WGMMA(__nv_bfloat16, "bf16", 32, 0, 16)
WGMMA(__nv_bfloat16, "bf16", 64, 0, 32)
WGMMA(__nv_bfloat16, "bf16", 64, 1, 32)
WGMMA(__nv_bfloat16, "bf16", 128, 1, 64)
#undef WGMMA

} // namespace treeattn

#endif
