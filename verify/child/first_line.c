#include "verify/child/first_line.h"

#include <math.h>
#include <string.h>

/* Key of an object as a choice: its number in name[n], or `otherwise` where it is not there. */
static bool read_choice(const json_t *o, const char *key, const char *const *name, int32_t n,
                        int32_t otherwise, int32_t *out, struct err *e)
{
    const json_t *v = json_object_get(o, key);
    *out = otherwise;
    if (!v)
        return otherwise >= 0 || err_set(e, "the child's first line has no \"%s\"", key);
    char list[256] = "";
    for (int32_t i = 0; i < n; i++) {
        listing_add(list, sizeof list, name[i]);
        if (json_is_string(v) && strcmp(json_string_value(v), name[i]) == 0) {
            *out = i;
            return true;
        }
    }
    return err_set(e, "the child's \"%s\" is %s%.40s (expected one of %s)", key,
                   json_is_string(v) ? "" : "no text", json_is_string(v) ? json_string_value(v) : "", list);
}

/* A number of 0 or more; 0 where it is not there. */
static bool read_count(const json_t *o, const char *key, int64_t *out, struct err *e)
{
    const json_t *v = json_object_get(o, key);
    double x = json_number_value(v);
    *out = v && x >= 0 && x < 9e18 ? (int64_t)x : 0;
    return !v || (json_is_number(v) && x >= 0 && x < 9e18) ||
           err_set(e, "the child's \"%s\" is no number of 0 or more", key);
}

/* Whole numbers over 0, ending in 0. */
static bool read_list(const json_t *o, const char *key, int32_t out[CHILD_MAX_LIST], struct err *e)
{
    const json_t *v = json_object_get(o, key);
    size_t n = json_array_size(v);
    bool good = !v || (json_is_array(v) && n < CHILD_MAX_LIST);
    for (size_t i = 0; i < n && good; i++) {
        int64_t x = json_integer_value(json_array_get(v, i));
        good = x > 0 && x <= INT32_MAX;
        out[i] = (int32_t)x;
    }
    return good || err_set(e, "the child's \"%s\" (expected a list of at most %d whole numbers over 0)", key,
                           CHILD_MAX_LIST - 1);
}

static bool read_dtypes(const json_t *o, struct child_caps *caps, struct err *e)
{
    const json_t *v = json_object_get(o, "dtypes");
    for (int t = 0; t < N_DTYPES; t++)
        caps->dtype[t] = !v;
    bool good = !v || json_is_array(v);
    for (size_t i = 0; good && i < json_array_size(v); i++) {
        const char *name = json_string_value(json_array_get(v, i));
        enum dtype t;
        good = name && dtype_parse(name, &t);
        if (good)
            caps->dtype[t] = true;
    }
    return good ||
           err_set(e, "the child's \"dtypes\" (expected a list of \"f64\", \"f32\", \"f16\", \"bf16\")");
}

static bool read_features(const json_t *o, struct child_caps *caps, struct err *e)
{
    const json_t *v = json_object_get(o, "features");
    bool good = !v || json_is_array(v);
    for (size_t i = 0; good && i < json_array_size(v); i++) {
        const char *name = json_string_value(json_array_get(v, i));
        uint32_t one = 0;
        good = name && features_parse(name, &one, NULL);
        caps->features |= one;
    }
    char known[FEATURES_LISTED];
    features_list(known);
    return good || err_set(e, "the child's \"features\" (expected a list of some of: %s)", known);
}

static bool read_points(const json_t *o, struct child_caps *caps, struct err *e)
{
    const json_t *v = json_object_get(o, "points");
    int32_t n = 0;
    caps->point[POINT_ATTENTION] = !v;
    for (size_t i = 0; i < json_array_size(v); i++) {
        const char *name = json_string_value(json_array_get(v, i));
        for (int k = 0; k < N_KERNEL_POINTS; k++)
            if (name && strcmp(name, kernel_point_name[k]) == 0)
                caps->point[k] = ++n;
    }
    return !v || (n > 0 && n == (int32_t)json_array_size(v)) ||
           err_set(e, "the child's \"points\" (expected a list of \"attention\", \"partial\", \"merge\")");
}

/* Texts for people and tables. */
static void read_name(const json_t *o, const char *key, char out[CHILD_MAX_NAME])
{
    const char *s = json_string_value(json_object_get(o, key));
    int32_t n = 0;
    for (; s && *s && n < CHILD_MAX_NAME - 1; s++)
        out[n++] = *s > ' ' && *s < 127 && !strchr(",;'\"\\", *s) ? *s : '_';
    out[n] = 0;
}

static bool read_arithmetic(const json_t *o, struct kernel_arithmetic *a, struct err *e)
{
    const char *rounded[N_DTYPES + 1] = {[N_DTYPES] = "input"};
    static const char *const sums[] = {"exact", "rounded"};
    int32_t accumulate, probability, partial, sum;
    int64_t block, chain;
    memcpy(rounded, dtype_name, N_DTYPES * sizeof *dtype_name);
    if (!read_choice(o, "accumulate", dtype_name, N_DTYPES, DT_F32, &accumulate, e) ||
        !read_choice(o, "probability", rounded, N_DTYPES + 1, accumulate, &probability, e) ||
        !read_choice(o, "probability_sum", sums, 2, 0, &sum, e) ||
        !read_choice(o, "partial_o", rounded, N_DTYPES + 1, accumulate, &partial, e) ||
        !read_count(o, "sum_block", &block, e) || !read_count(o, "merge_chain", &chain, e))
        return false;
    if (accumulate > DT_F32)
        return err_set(e,
                       "the child's \"accumulate\" is %s (expected f32 or f64: there is no bound for less)",
                       dtype_name[accumulate]);
    *a = (struct kernel_arithmetic){.accumulate = (enum dtype)accumulate,
                                    .probability = (enum dtype)probability,
                                    .partial_o = (enum dtype)partial,
                                    .sum_narrow = sum == 1,
                                    .sum_run = block,
                                    .merge_chain = chain};
    return true;
}

bool child_arithmetic(const char *text, size_t size, struct kernel_arithmetic *a, struct err *e)
{
    json_error_t at;
    json_t *o = json_loadb(text, size, JSON_REJECT_DUPLICATES, &at);
    bool good = json_is_object(o) ? read_arithmetic(o, a, e) : err_set(e, "no JSON object (%.80s)", o ? "another value" : at.text);
    json_decref(o);
    return good;
}

bool first_line_read(const json_t *o, struct child_caps *caps, struct err *e)
{
    static const char *const lse[] = {"none", "e", "2"}, *const order[] = {"qh", "hq"},
                             *const empty[] = {"-inf", "+inf"};
    int32_t view = 0, layout_at, mask_at, lse_at, order_at, empty_at;
    *caps = (struct child_caps){.name = ""};
    read_name(o, "name", caps->name);
    read_name(o, "version", caps->version);
    if (!caps->name[0])
        return err_set(e, "the child's first line has no \"name\"");
    if (!read_points(o, caps, e) ||
        (caps->point[POINT_ATTENTION] && !read_choice(o, "view", view_name, N_VIEWS, -1, &view, e)) ||
        !read_choice(o, "layout", kv_layout_name, N_KV_LAYOUTS, KV_NHD, &layout_at, e) ||
        !read_choice(o, "mask", mask_form_name, N_MASK_FORMS, MASK_BITS, &mask_at, e) ||
        !read_choice(o, "lse", lse, 3, 1, &lse_at, e) ||
        !read_choice(o, "lse_order", order, 2, 0, &order_at, e) ||
        !read_choice(o, "empty_lse", empty, 2, 0, &empty_at, e) || !read_dtypes(o, caps, e) ||
        !read_list(o, "head_dims", caps->head_dims, e) || !read_list(o, "ratios", caps->ratios, e) ||
        !read_list(o, "page_sizes", caps->page_sizes, e) || !read_features(o, caps, e) ||
        !read_count(o, "max_context", &caps->max_context, e) ||
        !read_count(o, "max_queries", &caps->max_queries, e) ||
        !read_count(o, "max_pairs", &caps->max_pairs, e) || !read_arithmetic(o, &caps->arithmetic, e))
        return false;
    caps->sparse = json_integer_value(json_object_get(o, "sparse")) == 1;
    caps->view = (enum view)view;
    caps->layout = (enum kv_layout)layout_at;
    caps->mask = (enum mask_form)mask_at;
    caps->graph = json_is_true(json_object_get(o, "graph"));
    caps->time = json_is_true(json_object_get(o, "time"));
    caps->lse_unit = lse_at == 0 ? 0 : lse_at == 1 ? 1 : M_LN2;
    caps->arithmetic.lse_scaled = lse_at == 2;
    caps->lse_by_head = order_at == 1;
    caps->empty_is_plus_inf = empty_at == 1;
    return true;
}
