/* fuzz_mooncake.c - Mooncake's requests, and their replay. */
#include "tests/fuzz/fuzz_json.h"
#include "traces/formats/mooncake.h"

/* Written and read again, nothing changes but the lines. */
static void round_trip(const struct requests *r)
{
    struct err e = {0};
    char *text;
    size_t n;
    FILE *f = open_memstream(&text, &n);
    CK(mooncake_write(f, r) && fclose(f) == 0);
    struct requests *back = n <= MOONCAKE_MAX_BYTES ? mooncake_read(text, n, FUZZ_FILE, NULL, &e) : NULL;
    CK(back && back->n == r->n && back->n_blocks == r->n_blocks);
    CK(memcmp(back->block, r->block, (size_t)r->n_blocks * sizeof *r->block) == 0);
    for (int32_t i = 0; i < r->n; i++) {
        const struct request *a = &r->request[i], *b = &back->request[i];
        CK(a->arrival == b->arrival && a->input == b->input && a->output == b->output &&
           a->first == b->first);
    }
    requests_free(back);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct trace_opts runs[] = {{0}, {.batch = 2, .step_ms = 3}, {.batch = 1, .tree_index = 1}};
    if (size > MOONCAKE_MAX_BYTES)
        return 0;
    for (size_t i = 0; i < sizeof runs / sizeof runs[0]; i++) {
        struct err e = {0};
        struct requests *r = mooncake_read((const char *)data, size, FUZZ_FILE, NULL, &e);
        fuzz_verdict(r, &e, false);
        if (!r)
            return 0;
        if (i == 0)
            round_trip(r);
        struct trace *tr = replay_requests(r, FUZZ_SPEC, &runs[i], &e);
        fuzz_verdict(tr, &e, true);
        fuzz_trace(tr);
    }
    return 0;
}
