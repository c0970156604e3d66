/* chain.c - the arrays of the probe, and what it must write. */
#include "kernels/cuda/probe/chain.h"
#include "kernels/cuda/host/cuda.h"
#include "ref/rng.h"

#include <stdlib.h>
#include <string.h>

enum { ENTRY_SERIES, SLOT_SERIES, PAGE_SERIES, POOL_SERIES, WORDS = 4 * CHAIN_LANES };
#define CHAIN_SEED UINT64_C(11)

/* All arrays in one piece of memory, host and device; results and partial results last, beside each other. */
struct gpu_chain {
    struct cuda_chain_args host, dev;
    int64_t out_bytes; /* of results and partial results together */
    void *memory;      /* on the device */
};

enum { ITEMS, TABLE, STEPS, ARRIVED, POOL, SLOTS, OUT, N_ARRAYS };

/* Where each array begins, in bytes, and where the last one ends. */
static void find_places(int32_t ctas, int64_t at[N_ARRAYS + 1])
{
    const int64_t n = ctas, row = WORDS * (int64_t)sizeof(uint32_t);
    const int64_t bytes[N_ARRAYS] = {[ITEMS] = n * (int64_t)sizeof(struct cuda_chain_item),
                                     [TABLE] = n * (int64_t)sizeof(int32_t),
                                     [STEPS] = n / 2 * (int64_t)sizeof(struct cuda_chain_step),
                                     [ARRIVED] = n / 2 * (int64_t)sizeof(int32_t),
                                     [POOL] = n * CHAIN_PAGE * 4 * (int64_t)sizeof(uint32_t),
                                     [SLOTS] = n * row,
                                     [OUT] = n * row};
    at[0] = 0;
    for (int i = 0; i < N_ARRAYS; i++)
        at[i + 1] = at[i] + ceil_div(bytes[i], 256) * 256;
}

static struct cuda_chain_args lay_out(void *memory, const int64_t at[N_ARRAYS + 1], int32_t ctas)
{
    uint8_t *b = memory;
    return (struct cuda_chain_args){.item = (const void *)(b + at[ITEMS]),
                                    .page_table = (const void *)(b + at[TABLE]),
                                    .step = (const void *)(b + at[STEPS]),
                                    .arrived = (void *)(b + at[ARRIVED]),
                                    .pool = (const void *)(b + at[POOL]),
                                    .slot = (void *)(b + at[SLOTS]),
                                    .out = (void *)(b + at[OUT]),
                                    .ctas = ctas};
}

/* A random order of 0 .. n - 1. */
static void shuffle(int32_t *x, int32_t n, uint64_t series)
{
    for (int32_t i = 0; i < n; i++) {
        int32_t k = (int32_t)rng_below(CHAIN_SEED, series, (uint64_t)i, i + 1);
        x[i] = x[k];
        x[k] = i;
    }
}

static void draw(const struct cuda_chain_args *a)
{
    struct cuda_chain_item *item = (void *)a->item;
    struct cuda_chain_step *step = (void *)a->step;
    uint32_t *pool = (void *)a->pool;
    int32_t n = a->ctas, *entry = xcalloc((size_t)n, sizeof *entry), *slot = xcalloc((size_t)n, sizeof *slot);
    shuffle(entry, n, ENTRY_SERIES);
    shuffle(slot, n, SLOT_SERIES);
    shuffle((void *)a->page_table, n, PAGE_SERIES);
    for (int32_t i = 0; i < n; i++) /* CTA i and the one n / 2 before or behind it are merged */
        item[i] = (struct cuda_chain_item){entry[i], slot[i], slot[(i + n / 2) % n], i % (n / 2)};
    for (int32_t i = 0; i < n / 2; i++)
        step[i] = (struct cuda_chain_step){{slot[i], slot[i + n / 2]}};
    for (int64_t i = 0; i < (int64_t)n * CHAIN_PAGE * 4; i++)
        pool[i] = (uint32_t)rng_u64(CHAIN_SEED, POOL_SERIES, (uint64_t)i);
    free(entry);
    free(slot);
}

struct gpu_chain *gpu_chain_new(int32_t sms, struct err *e)
{
    struct gpu_chain *x = xcalloc(1, sizeof *x);
    int32_t ctas = sms < 2 ? 2 : sms / 2 * 2;
    int64_t at[N_ARRAYS + 1];
    find_places(ctas, at);
    void *host = xcalloc((size_t)at[N_ARRAYS], 1);
    x->out_bytes = at[N_ARRAYS] - at[SLOTS];
    x->host = lay_out(host, at, ctas);
    draw(&x->host);
    x->memory = gpu_alloc(at[N_ARRAYS], e);
    if (!x->memory || !gpu_upload(x->memory, host, at[N_ARRAYS], e)) {
        gpu_chain_free(x);
        return NULL;
    }
    x->dev = lay_out(x->memory, at, ctas);
    return x;
}

void gpu_chain_free(struct gpu_chain *x)
{
    if (!x)
        return;
    gpu_free(x->memory);
    free((void *)x->host.item);
    free(x);
}

bool gpu_chain_run(const struct gpu_chain *x, enum gpu_chain_way way, void *stream, struct err *e)
{
    return gpu_chain_enqueue(way, &x->dev, stream, e);
}

bool gpu_chain_poison(const struct gpu_chain *x, void *stream, struct err *e)
{
    return gpu_fill(x->dev.slot, 0xFF, x->out_bytes, stream, e);
}

/* What CTA i reads, into x. */
static void read_one(const struct cuda_chain_args *a, int32_t i, uint32_t *x)
{
    const uint32_t *k = a->pool + (int64_t)a->page_table[a->item[i].entry] * CHAIN_PAGE * 4,
                   *v = k + CHAIN_PAGE / 2 * 4;
    for (int w = 0; w < WORDS; w++)
        x[w] = k[w] ^ v[w];
}

bool gpu_chain_right(const struct gpu_chain *x, enum gpu_chain_way way, struct err *e)
{
    const struct cuda_chain_args *a = &x->host;
    int32_t n = a->ctas, results = way == CHAIN_EMPTY ? 0 : way == CHAIN_DIRECT ? n : n / 2;
    if (!gpu_download(a->out, x->dev.out, (int64_t)n * WORDS * (int64_t)sizeof(uint32_t), e))
        return false;
    for (int32_t i = 0; i < results; i++) {
        uint32_t should[WORDS], other[WORDS];
        read_one(a, i, should);
        if (way != CHAIN_DIRECT)
            read_one(a, i + n / 2, other);
        for (int w = 0; w < WORDS && way != CHAIN_DIRECT; w++)
            should[w] ^= other[w];
        if (memcmp(should, a->out + (int64_t)i * WORDS, sizeof should) != 0)
            return err_set(e, "the probe of the least chain wrote a wrong result: %d of %d", i, results);
    }
    return true;
}
