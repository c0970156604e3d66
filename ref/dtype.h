/*
 * dtype.h - the types in which Q, K, V and O are stored, and conversion from and to double.
 */
#ifndef TREEATTN_REF_DTYPE_H
#define TREEATTN_REF_DTYPE_H

#include "ref/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Q and O are of one of the first N_DTYPES. K and V may be in 8 bits besides, with scales beside them (ref/heads.h). */
enum dtype {
    DT_F64,
    DT_F32,
    DT_F16,
    DT_BF16,
    N_DTYPES,
    DT_E4M3 = N_DTYPES, /* OCP FP8 (2023), "e4m3fn": to 448, no infinities, one NaN of either sign */
    DT_E5M2,            /* OCP FP8: the upper half of f16, to 57344 */
    N_STORED
};

extern const char *const dtype_name[N_STORED]; /* "f64" "f32" "f16" "bf16" "e4m3" "e5m2" */
extern const int32_t dtype_size[N_STORED];     /* bytes */
extern const double dtype_unit[N_STORED]; /* unit roundoff u: half the gap between 1 and the next number */
/* "f16", or "f16+e4m3" where K and V are of another type than Q. */
const char *dtype_pair_name(enum dtype q, enum dtype kv);
/* Of the first N_DTYPES. */
bool dtype_parse(const char *s, enum dtype *out);
/* Of the others. */
bool dtype_parse_fp8(const char *s, enum dtype *out);

/* NaN that says where it comes from. All conversions here hand that on, and so does arithmetic, but not that of every machine. In 8
 * bits there is no room for it: NaN there is poison, for nobody computes such numbers. */
enum nan_kind {
    NAN_COMPUTED, /* of no kind below */
    NAN_UNWRITTEN,
    NAN_POISON /* memory that is nobody's */
};
double nan_of(enum nan_kind kind);
enum nan_kind nan_kind(double x);

uint16_t f16_from_double(double x); /* to nearest even, subnormals and infinities kept, NaN quiet */
double f16_to_double(uint16_t h);
uint16_t bf16_from_double(double x);
double bf16_to_double(uint16_t h);
/* To nearest even, subnormals kept; what is too large, infinities too, becomes the largest number of that sign. */
uint8_t e4m3_from_double(double x);
double e4m3_to_double(uint8_t b);
uint8_t e5m2_from_double(double x);
double e5m2_to_double(uint8_t b);

/* Element i of an array of that type. dtype_store rounds to nearest even. */
double dtype_load(enum dtype t, const void *p, int64_t i);
void dtype_store(enum dtype t, void *p, int64_t i, double x);
/* x into the first n elements. */
void dtype_fill(enum dtype t, void *p, int64_t n, double x);
/* n consecutive elements, converted; src and dst do not overlap. Exact for to_double; to_float is exact for
 * all others and must not be called with DT_F64. */
void dtype_to_double(enum dtype t, const void *src, int64_t first, double *dst, int64_t n);
void dtype_to_float(enum dtype t, const void *src, int64_t first, float *dst, int64_t n);

#ifdef __cplusplus
}
#endif

#endif
