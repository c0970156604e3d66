/* Names and sizes of types; dtype.c converts, and has tables for that. */
#include "ref/dtype.h"

#include <string.h>

const char *const dtype_name[N_STORED] = {"f64", "f32", "f16", "bf16", "e4m3", "e5m2"};
const int32_t dtype_size[N_STORED] = {8, 4, 2, 2, 1, 1};
const double dtype_unit[N_STORED] = {0x1p-53, 0x1p-24, 0x1p-11, 0x1p-8, 0x1p-4, 0x1p-3};

const char *dtype_pair_name(enum dtype q, enum dtype kv)
{
    static const char *const pair[N_STORED - N_DTYPES][N_DTYPES] = {
        {"f64+e4m3", "f32+e4m3", "f16+e4m3", "bf16+e4m3"}, {"f64+e5m2", "f32+e5m2", "f16+e5m2", "bf16+e5m2"}};
    return kv < N_DTYPES ? dtype_name[q] : pair[kv - N_DTYPES][q];
}

static bool parse_among(const char *s, int first, int end, enum dtype *out)
{
    for (int i = first; i < end; i++)
        if (strcmp(s, dtype_name[i]) == 0) {
            *out = (enum dtype)i;
            return true;
        }
    return false;
}

bool dtype_parse(const char *s, enum dtype *out)
{
    return parse_among(s, 0, N_DTYPES, out);
}

bool dtype_parse_fp8(const char *s, enum dtype *out)
{
    return parse_among(s, N_DTYPES, N_STORED, out);
}
