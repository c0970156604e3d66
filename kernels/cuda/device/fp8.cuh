/*
 * fp8.cuh - K and V in 8 bits, e4m3 or e5m2 (OCP FP8, 2023): from storage to operands of products.
 *
 * Every number of both formats is an fp16 number. So kernels of such K and V multiply in fp16, whatever the type of Q and O: e5m2 is
 * the upper byte of fp16, and e4m3 has an instruction from sm_89 on. Q in bf16 is made fp16 row by row, times a power of two that
 * brings the row's largest number below 2^15: numbers that then fall below fp16's are less than 2^-38 of that. The power of two, and
 * the scale of the KV head, go into the scale of scores; the scale of V into what O is multiplied by when a row is complete.
 *
 * Between ldmatrix and mma.sync four numbers that lie side by side become two operands. A product does not care in which order it
 * adds: of K a lane's four numbers are four columns of one token, and Q has its columns in the same order. Of V they are two columns of
 * two tokens, and each operand is one column: the columns of O are in another order, until a row is complete (finish_fp8).
 */
#ifndef TREEATTN_KERNELS_CUDA_DEVICE_FP8_CUH
#define TREEATTN_KERNELS_CUDA_DEVICE_FP8_CUH

#include <type_traits>

#include "kernels/cuda/device/launch.h"
#include "kernels/cuda/device/ptx.cuh"

namespace treeattn {

/* In place of the type of K and V: either format, as the launch says, or one. */
struct fp8 {};
struct fp8_e4m3 {};
struct fp8_e5m2 {};
template <typename KV>
constexpr bool is_fp8 = std::is_same_v<KV, fp8> || std::is_same_v<KV, fp8_e4m3> || std::is_same_v<KV, fp8_e5m2>;

/* In place of the type of Q and O beside them: either 16-bit type, as the launch says. Products are of fp16. */
struct beside_fp8 {};
template <> struct narrow<beside_fp8> : narrow<__half> {};
template <typename T> using multiplied = std::conditional_t<std::is_same_v<T, beside_fp8>, __half, T>;

/* do_it(0) of the type that Q and O are stored in. */
template <typename T, typename F> __device__ __forceinline__ void of_stored(const cuda_group_args &a, F do_it)
{
    if constexpr (!std::is_same_v<T, beside_fp8>)
        do_it(T());
    else if (a.fp8.bf16)
        do_it(__nv_bfloat16());
    else
        do_it(__half());
}

/* Two numbers, in bytes 0 and 1 and in bytes 2 and 3, as fp16. */
template <typename KV> __device__ __forceinline__ void widen_halves(uint32_t x, uint32_t &low, uint32_t &high)
{
    if constexpr (std::is_same_v<KV, fp8_e5m2>) {
        low = __byte_perm(x, 0, 0x1404);
        high = __byte_perm(x, 0, 0x3424);
    } else {
#if !defined __CUDA_ARCH__ || __CUDA_ARCH__ >= 890
        asm("{ .reg .b16 low, high; mov.b32 {low, high}, %2; cvt.rn.f16x2.e4m3x2 %0, low; cvt.rn.f16x2.e4m3x2 %1, high; }"
            : "=r"(low), "=r"(high)
            : "r"(x));
#else
        /* Shifted to where fp16 has exponent and mantissa, it is 2^8 times too small. */
        auto widen = [](uint32_t y) {
            const uint32_t bits = (y & 0x80008000) | (y >> 1 & 0x3F803F80);
            const __half2 z = __hmul2(*(const __half2 *)&bits, __half2half2(__ushort_as_half(0x5C00)));
            return *(const uint32_t *)&z;
        };
        low = widen(__byte_perm(x, 0, 0x1404));
        high = widen(__byte_perm(x, 0, 0x3424));
#endif
    }
}

/* The pairs (0, 2) and (1, 3) of four numbers. */
template <typename KV> __device__ __forceinline__ void widen_columns(uint32_t x, uint32_t &even, uint32_t &odd)
{
    if constexpr (std::is_same_v<KV, fp8_e5m2>) {
        even = __byte_perm(x, 0, 0x2404);
        odd = __byte_perm(x, 0, 0x3414);
    } else {
        widen_halves<KV>(__byte_perm(x, 0, 0x3120), even, odd);
    }
}

/* One number, without the scale of its head. */
__device__ inline float fp8_to_float(uint8_t x, const cuda_fp8 &f)
{
    uint32_t low, high;
    if (f.e5m2)
        widen_halves<fp8_e5m2>(x, low, high);
    else
        widen_halves<fp8_e4m3>(x, low, high);
    return __half2float(__ushort_as_half((unsigned short)low));
}

/* Q of a warp's 16 rows, an operand of products, to fp16; of a lane's two rows scale[] is what they are too large by, inverted. */
template <int KS> __device__ __forceinline__ void narrow_q(uint32_t (*q)[4], bool bf16, float scale[2])
{
    scale[0] = scale[1] = 1;
    if (!bf16)
        return;
#pragma unroll
    for (int h = 0; h < 2; h++) {
        __nv_bfloat162 most = __float2bfloat162_rn(0);
#pragma unroll
        for (int kk = 0; kk < KS; kk++)
#pragma unroll
            for (int i = h; i < 4; i += 2)
                most = __hmax2(most, __habs2(*(const __nv_bfloat162 *)&q[kk][i]));
        float top = fmaxf(__low2float(most), __high2float(most));
        top = fmaxf(top, __shfl_xor_sync(~0u, top, 1));
        top = fmaxf(top, __shfl_xor_sync(~0u, top, 2));
        /* Exponents as floats have them, 127 too large: the row's, and of what brings it to 14, or as near as floats can. */
        const int of_row = __float_as_int(top) >> 23, by = min(127 + 14 + 127 - of_row, 253);
        const float times = __int_as_float(by << 23);
        scale[h] = __int_as_float((2 * 127 - by) << 23);
#pragma unroll
        for (int kk = 0; kk < KS; kk++)
#pragma unroll
            for (int i = h; i < 4; i += 2)
                q[kk][i] = pack<__half>(__int_as_float((int)(q[kk][i] << 16)) * times,
                                        __int_as_float((int)(q[kk][i] & 0xFFFF0000)) * times);
    }
}

/* What scores of a lane's two rows are multiplied by: in base 2, or those of tanh, and before a soft cap. */
struct row_scales {
    float log2[2], cap[2];
};

/* scale: of narrow_q(), or 1. */
__device__ __forceinline__ row_scales scales_of_rows(const cuda_group_args &a, int kv_head, const float scale[2])
{
    const float of_k = __ldg(a.fp8.k_scale + kv_head);
    row_scales r;
#pragma unroll
    for (int h = 0; h < 2; h++) {
        r.log2[h] = a.cap_scale != 0 ? a.scale_log2 : a.scale_log2 * of_k * scale[h];
        r.cap[h] = a.cap_scale * of_k * scale[h];
    }
    return r;
}

/* O of a lane's two rows in the order of 16-bit V but for the piece that columns are of: those of a pair of blocks lie side by side,
 * four by four (store_rows). */
template <int OB> __device__ __forceinline__ void finish_fp8(float (*o)[4], float factor)
{
#pragma unroll
    for (int ob = 0; ob < OB; ob += 2)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const float second = o[ob + 1][2 * h], third = o[ob][2 * h + 1];
            o[ob][2 * h] *= factor;
            o[ob][2 * h + 1] = second * factor;
            o[ob + 1][2 * h] = third * factor;
            o[ob + 1][2 * h + 1] *= factor;
        }
}

} // namespace treeattn

#endif
