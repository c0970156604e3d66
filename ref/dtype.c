#include "ref/problem.h"

#include <math.h>
#include <string.h>
#ifdef __F16C__
#include <immintrin.h>
#endif

/* Where NaN comes from is in the highest bits of its mantissa, as many as all types of 16 bits have. All ones and
 * negative is what memory of a GPU is filled with. */
enum { NAN_BITS = 7, NAN_QUIET = 1 << (NAN_BITS - 1), NAN_ALL = (1 << NAN_BITS) - 1 };
static const int nan_mark[] = {NAN_QUIET, NAN_QUIET | 0x15, NAN_QUIET | 0x2A};

/* Quiet, with these bits of the mantissa. */
static double nan_from(bool negative, uint64_t mantissa)
{
    uint64_t bits = UINT64_C(0x7FF8) << 48 | mantissa | (uint64_t)negative << 63;
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

double nan_of(enum nan_kind kind)
{
    return nan_from(false, (uint64_t)nan_mark[kind] << (52 - NAN_BITS));
}

enum nan_kind nan_kind(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    int mark = (int)(bits >> (52 - NAN_BITS)) & NAN_ALL;
    if (mark == nan_mark[NAN_UNWRITTEN] || (mark == NAN_ALL && bits >> 63))
        return NAN_UNWRITTEN;
    return mark == nan_mark[NAN_POISON] ? NAN_POISON : NAN_COMPUTED;
}

/*
 * Round a double to a narrow format of `mant` stored mantissa bits, bias `bias` and largest exponent field
 * `emax` (all ones: infinity and NaN). From double in one step: going through float would round twice.
 */
static uint16_t narrow(double x, int mant, int bias, int emax)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    uint16_t sign = (uint16_t)(bits >> 48 & 0x8000);
    uint16_t inf = (uint16_t)(emax << mant);
    int e = (int)(bits >> 52 & 0x7FF);
    uint64_t frac = bits & ((UINT64_C(1) << 52) - 1);
    if (e == 0x7FF)
        return (uint16_t)(sign | inf | (frac ? 1 << (mant - 1) | (int)(frac >> (52 - mant)) : 0));
    int field = e - 1023 + bias, shift = 52 - mant;
    if (field < 1) { /* subnormals share the exponent of the smallest normal */
        shift += 1 - field;
        field = 1;
    }
    if (e == 0 || shift > 53) /* below half of the smallest subnormal */
        return sign;
    uint64_t full = frac | UINT64_C(1) << 52, kept = full >> shift;
    uint64_t rest = full & ((UINT64_C(1) << shift) - 1), half = UINT64_C(1) << (shift - 1);
    if (rest > half || (rest == half && (kept & 1)))
        kept++; /* to nearest even; the hidden bit carries into the exponent field */
    uint64_t out = kept + ((uint64_t)(field - 1) << mant);
    return (uint16_t)(sign | (out >= inf ? inf : out));
}

static double widen(uint16_t h, int mant, int bias, int emax)
{
    int field = (h & 0x7FFF) >> mant;
    int frac = h & ((1 << mant) - 1);
    double sign = h & 0x8000 ? -1 : 1;
    if (field == emax && frac)
        return nan_from((h & 0x8000) != 0, (uint64_t)frac << (52 - mant));
    if (field == emax)
        return sign * (double)INFINITY;
    if (field == 0)
        return sign * ldexp(frac, 1 - bias - mant);
    return sign * ldexp(frac + (1 << mant), field - bias - mant);
}

uint16_t f16_from_double(double x)
{
    return narrow(x, 10, 15, 31);
}
double f16_to_double(uint16_t h)
{
    return widen(h, 10, 15, 31);
}
uint16_t bf16_from_double(double x)
{
    return narrow(x, 7, 127, 255);
}
double bf16_to_double(uint16_t h)
{
    uint32_t bits = (uint32_t)h << 16; /* bfloat16 is the upper half of a float */
    float f;
    memcpy(&f, &bits, sizeof f);
    return (double)f;
}

enum { E4M3_NAN = 0x7F, E4M3_MOST = 0x7E, E5M2_NAN = 0x7F, E5M2_INFINITY = 0x7C, E5M2_MOST = 0x7B };

/* `emax` as in narrow; `most` is the code of the largest number. */
static uint8_t narrow_fp8(double x, int mant, int bias, int emax, int most)
{
    uint16_t h = narrow(x, mant, bias, emax), magnitude = h & 0x7FFF;
    return (uint8_t)((h & 0x8000) >> 8 | (magnitude > most ? most : magnitude));
}

uint8_t e4m3_from_double(double x)
{
    /* All ones in the exponent are numbers, but for the last one; so infinity would be one exponent further. */
    return isnan(x) ? (uint8_t)(E4M3_NAN | (signbit(x) ? 0x80 : 0)) : narrow_fp8(x, 3, 7, 16, E4M3_MOST);
}
double e4m3_to_double(uint8_t b)
{
    bool is_nan = (b & 0x7F) == E4M3_NAN;
    return is_nan ? nan_of(NAN_POISON) : widen((uint16_t)((b & 0x80) << 8 | (b & 0x7F)), 3, 7, 16);
}
uint8_t e5m2_from_double(double x)
{
    return isnan(x) ? (uint8_t)(E5M2_NAN | (signbit(x) ? 0x80 : 0)) : narrow_fp8(x, 2, 15, 31, E5M2_MOST);
}
double e5m2_to_double(uint8_t b)
{
    return (b & 0x7F) > E5M2_INFINITY ? nan_of(NAN_POISON) : f16_to_double((uint16_t)(b << 8));
}

/* All values of the types of 16 and of 8 bits, so that bulk conversion is a load. Filled before main by the constructor. */
static float f16_table[65536], fp8_table[N_STORED - N_DTYPES][256];

__attribute__((constructor)) static void fill_tables(void)
{
    for (uint32_t i = 0; i < 65536; i++)
        f16_table[i] = (float)f16_to_double((uint16_t)i);
    for (uint32_t i = 0; i < 256; i++) {
        fp8_table[DT_E4M3 - N_DTYPES][i] = (float)e4m3_to_double((uint8_t)i);
        fp8_table[DT_E5M2 - N_DTYPES][i] = (float)e5m2_to_double((uint8_t)i);
    }
}

double dtype_load(enum dtype t, const void *p, int64_t i)
{
    switch (t) {
    case DT_F64:
        return ((const double *)p)[i];
    case DT_F32:
        return (double)((const float *)p)[i];
    case DT_F16:
        return (double)f16_table[((const uint16_t *)p)[i]];
    case DT_BF16:
        return bf16_to_double(((const uint16_t *)p)[i]);
    case DT_E4M3:
    case DT_E5M2:
        return (double)fp8_table[t - N_DTYPES][((const uint8_t *)p)[i]];
    default:
        CK_FOUND("a dtype");
    }
}

void dtype_store(enum dtype t, void *p, int64_t i, double x)
{
    switch (t) {
    case DT_F64:
        ((double *)p)[i] = x;
        break;
    case DT_F32:
        ((float *)p)[i] = (float)x;
        break;
    case DT_F16:
        ((uint16_t *)p)[i] = f16_from_double(x);
        break;
    case DT_BF16:
        ((uint16_t *)p)[i] = bf16_from_double(x);
        break;
    case DT_E4M3:
        ((uint8_t *)p)[i] = e4m3_from_double(x);
        break;
    case DT_E5M2:
        ((uint8_t *)p)[i] = e5m2_from_double(x);
        break;
    default:
        CK_FOUND("a dtype");
    }
}

void dtype_fill(enum dtype t, void *p, int64_t n, double x)
{
    size_t all = (size_t)n * (size_t)dtype_size[t], done = (size_t)dtype_size[t];
    if (n > 0)
        dtype_store(t, p, 0, x);
    for (size_t more; done < all; done += more) {
        more = done < all - done ? done : all - done;
        memcpy((char *)p + done, p, more);
    }
}

void dtype_to_float(enum dtype t, const void *src, int64_t first, float *dst, int64_t n)
{
    CK(t != DT_F64);
    if (t == DT_F32) {
        memcpy(dst, (const float *)src + first, (size_t)n * sizeof *dst);
        return;
    }
    if (t == DT_E4M3 || t == DT_E5M2) {
        for (int64_t i = 0; i < n; i++)
            dst[i] = fp8_table[t - N_DTYPES][((const uint8_t *)src)[first + i]];
        return;
    }
    const uint16_t *s = (const uint16_t *)src + first;
    int64_t i = 0;
    if (t == DT_BF16) {
        for (; i < n; i++) {
            uint32_t bits = (uint32_t)s[i] << 16;
            memcpy(&dst[i], &bits, sizeof bits);
        }
        return;
    }
#ifdef __F16C__
    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(dst + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(s + i))));
#endif
    for (; i < n; i++)
        dst[i] = f16_table[s[i]];
}

void dtype_to_double(enum dtype t, const void *src, int64_t first, double *dst, int64_t n)
{
    if (t == DT_F64) {
        memcpy(dst, (const double *)src + first, (size_t)n * sizeof *dst);
        return;
    }
    float part[64]; /* every narrower type is exact in float, and both steps are vector code */
    for (int64_t i = 0; i < n; i += 64) {
        int64_t m = min_i64(64, n - i);
        dtype_to_float(t, src, first + i, part, m);
        for (int64_t j = 0; j < m; j++)
            dst[i + j] = (double)part[j];
    }
}
