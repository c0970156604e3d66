/*
 * ptx.cuh - the instructions that the kernels are made of: asynchronous copies, ldmatrix, mma.sync, exp2.
 */
#ifndef TREEATTN_KERNELS_CUDA_DEVICE_PTX_CUH
#define TREEATTN_KERNELS_CUDA_DEVICE_PTX_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <stdint.h>

namespace treeattn {

__device__ inline uint32_t smem_address(const void *p)
{
    return (uint32_t)__cvta_generic_to_shared(p);
}

/* Keeps a sum that the compiler takes apart again where its terms are constants of the launch. */
__device__ inline void keep(const char *&p)
{
    asm("" : "+l"(p));
}

/* How long the L2 keeps a line: the high word of what createpolicy.fractional makes on any card from sm_80 to sm_100.
 * Lines that nobody reads again take the place of their like and not of partial results, which a merge is about to read. */
enum : uint32_t { KEEP_NORMAL = 0x10000000, EVICT_FIRST = 0x12f00000 };

/* 16 bytes from global to shared memory, past L1; zeros unless i < n, and then nothing is read. CHOSEN: the L2 keeps them
 * for as long as `keep` says. */
template <bool CHOSEN = false>
__device__ inline void copy_async(uint32_t to, const void *from, int i = 0, int n = 1, uint32_t keep = KEEP_NORMAL)
{
    if constexpr (CHOSEN)
        asm volatile("{ .reg .pred skip; .reg .b64 policy; setp.ge.s32 skip, %2, %3; mov.b64 policy, {0, %4}; "
                     "cp.async.cg.shared.global.L2::cache_hint.L2::128B [%0], [%1], 16, skip, policy; }"
                     :
                     : "r"(to), "l"(from), "r"(i), "r"(n), "r"(keep)
                     : "memory");
    else
        asm volatile("{ .reg .pred skip; setp.ge.s32 skip, %2, %3; "
                     "cp.async.cg.shared.global.L2::128B [%0], [%1], 16, skip; }"
                     :
                     : "r"(to), "l"(from), "r"(i), "r"(n)
                     : "memory");
}

/* A line of global memory to the L2. */
__device__ inline void prefetch_line(const void *from)
{
    asm volatile("prefetch.global.L2 [%0];" : : "l"(from));
}

/* 4 bytes, the same way, but through L1. */
__device__ inline void copy_async_word(uint32_t to, const void *from, bool valid)
{
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;"
                 :
                 : "r"(to), "l"(from), "r"(valid ? 4 : 0)
                 : "memory");
}

__device__ inline void copy_commit()
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

/* All but the last `pending` committed groups have arrived. */
template <int pending> __device__ inline void copy_wait()
{
    asm volatile("cp.async.wait_group %0;" : : "n"(pending) : "memory");
}

/* Four 8x8 matrices of 16-bit elements; lane i points at row i % 8 of matrix i / 8. */
__device__ inline void load_matrix(uint32_t r[4], uint32_t from)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(from)
                 : "memory");
}

__device__ inline void load_matrix_transposed(uint32_t r[4], uint32_t from)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(from)
                 : "memory");
}

/* C[16][8] += A[16][16] B[16][8] over a warp. */
template <typename T> __device__ inline void mma(float c[4], const uint32_t a[4], const uint32_t b[2]);

template <> __device__ inline void mma<__half>(float c[4], const uint32_t a[4], const uint32_t b[2])
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

template <> __device__ inline void mma<__nv_bfloat16>(float c[4], const uint32_t a[4], const uint32_t b[2])
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

/* Two floats to two 16-bit numbers, to nearest even; x in the low half. */
template <typename T> __device__ inline uint32_t pack(float x, float y);

template <> __device__ inline uint32_t pack<__half>(float x, float y)
{
    __half2 h = __floats2half2_rn(x, y);
    return *(uint32_t *)&h;
}

template <> __device__ inline uint32_t pack<__nv_bfloat16>(float x, float y)
{
    __nv_bfloat162 h = __floats2bfloat162_rn(x, y);
    return *(uint32_t *)&h;
}

/* Within 2 units in the last place; 0 at -inf, exact at whole numbers. */
__device__ inline float exp2_fast(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/* Within a unit in the last place; 0 at infinity. */
__device__ inline float reciprocal_fast(float x)
{
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/* Of |x| < 2^23 an even number of at least x, less than 2 above; of others, among them -inf, a number as far from 0, to some
 * units in the last place. Two additions: ceilf takes an instruction of another unit, whose time stands between a row's maximum
 * and its first exponent. */
__device__ inline float even_above(float x)
{
    constexpr float ulp_2 = 0x1.8p24f; /* around it floats are 2 apart, and all as large as that are whole */
    return __fadd_ru(__fadd_ru(x, ulp_2), -ulp_2);
}

/* 2^(from - to) of two whole numbers, from <= to; 0 if from is -inf, 1 if both are. Exact. */
__device__ inline float exp2_whole(float from, float to)
{
    int32_t power = max(-127, __float2int_rn(from - to)); /* -inf saturates, NaN gives 0 */
    return __int_as_float((127 + power) << 23);
}

/* What a 16-bit type wants of probabilities: f16 keeps them up to 2^15, so that none that matters is
 * subnormal; bf16 has the exponents of fp32. */
template <typename T> struct narrow;
template <> struct narrow<__half> {
    static constexpr float bias = 15.0f, unbias = 0x1p-15f;
};
template <> struct narrow<__nv_bfloat16> {
    static constexpr float bias = 0.0f, unbias = 1.0f;
};

} // namespace treeattn

#endif
