/* fuzz_child.c - the first line of a child, as JSON: what is taken is in range. */
#include "tests/fuzz/fuzz.h"
#include "verify/child/first_line.h"

#include <math.h>

static void in_range(const struct child_caps *c)
{
    int32_t points = 0;
    for (int k = 0; k < N_KERNEL_POINTS; k++)
        points += c->point[k] > 0;
    CK(points > 0 && c->name[0] && c->view < N_VIEWS && c->layout < N_KV_LAYOUTS && c->mask < N_MASK_FORMS);
    for (const int32_t *x = c->head_dims; *x; x++)
        CK(*x > 0 && x < c->head_dims + CHILD_MAX_LIST);
    CK(c->max_context >= 0 && c->max_queries >= 0 && c->max_pairs >= 0);
    CK(c->arithmetic.accumulate <= DT_F32 && c->arithmetic.sum_run >= 0 && c->arithmetic.merge_chain >= 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    json_error_t at;
    json_t *o = json_loadb((const char *)data, size, JSON_REJECT_DUPLICATES, &at);
    struct child_caps caps;
    struct err e = {0};
    bool good = first_line_read(o, &caps, &e);
    CK(good == (e.code == EXIT_GOOD));
    fuzz_sentence(&e);
    if (good)
        in_range(&caps);
    json_decref(o);
    return 0;
}
