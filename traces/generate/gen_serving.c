/*
 * gen_serving.c - the end-to-end workloads of FastTree and PAT, as requests whose prompts are made of parts.
 *
 * What the papers give is used as it is; what they leave open is ours, and marked so:
 *
 *   prompt      FastTree 6.2 (A): a system prompt in levels of 459, 38, 584 and 2,112 tokens. Ours: how many values the
 *               fields between the levels take (4, 2 and 2), drawn for each request
 *   shots       (B): a system prompt of 3,193 tokens, 8 combinations of 20 shots, 16 questions each. Ours: 150 tokens a
 *               shot
 *   chains      (C): the same system prompt, four chains for each question. Ours: 16 tokens that set a chain apart
 *   documents   (D): several documents before a question, no system prompt. Ours: an ordered choice of 3 of 4 parts of
 *               2,000 tokens
 *               all four: 128 requests at once, 256 tokens each. Ours: questions of 40 to 120 tokens
 *   conversation  PAT 8.2: a system prompt in levels of 46, 348 and 2,123 tokens (Llama-3's tokenizer), language and
 *               country drawn, and a user's prompt. Ours: 8 and 16 values, or as the trace says; prompts and answers of exponential length with
 *               means of 250 and 200 tokens (prompts 8 to 4,000, answers 8 to 1,000); five arrivals a second, Poisson
 */
#include "traces/generate/gen_trace.h"

#include "ref/rng.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_PARTS = 8, N_BATCH = 128, BATCH_OUTPUT = 256, SYSTEM = 3193 };

/* Streams of the generator. */
enum { STREAM_FIELD = 64, STREAM_QUESTION, STREAM_ANSWER, STREAM_GAP };

/* A request being made. `key` says which text a part is, given the parts before it. */
struct draft {
    struct requests *r;
    int64_t cap_request, cap_block, cap_end, next_id;
    struct {
        int64_t above, key, id;
    } * known; /* parts that others may share */
    int64_t n_known, cap_known;
    struct request *q;
};

static void begin_request(struct draft *d, int64_t arrival, int64_t output)
{
    struct requests *r = d->r;
    r->request = xgrow(r->request, &d->cap_request, r->n + 1, sizeof *r->request);
    d->q = &r->request[r->n++];
    *d->q = (struct request){.arrival = arrival, .output = output, .first = r->n_blocks, .line = r->n};
}

static int64_t find_part(struct draft *d, int64_t above, int64_t key)
{
    for (int64_t i = 0; i < d->n_known; i++)
        if (d->known[i].above == above && d->known[i].key == key)
            return d->known[i].id;
    d->known = xgrow(d->known, &d->cap_known, d->n_known + 1, sizeof *d->known);
    d->known[d->n_known].above = above;
    d->known[d->n_known].key = key;
    d->known[d->n_known].id = d->next_id++;
    return d->known[d->n_known++].id;
}

static void add_part_id(struct draft *d, int64_t tokens, int64_t id)
{
    struct requests *r = d->r;
    r->block = xgrow(r->block, &d->cap_block, r->n_blocks + 1, sizeof *r->block);
    r->end = xgrow(r->end, &d->cap_end, r->n_blocks + 1, sizeof *r->end);
    d->q->input += tokens;
    d->q->n_blocks++;
    r->block[r->n_blocks] = id;
    r->end[r->n_blocks++] = d->q->input;
}

/* The next tokens of the prompt, the same for all whose prompts are the same so far and who have the same key. */
static void add_part(struct draft *d, int64_t tokens, int64_t key)
{
    int64_t above = d->q->n_blocks > 0 ? d->r->block[d->r->n_blocks - 1] : -1;
    add_part_id(d, tokens, find_part(d, above, key));
}

/* ... and a part that nobody shares. */
static void add_own(struct draft *d, int64_t tokens)
{
    add_part_id(d, tokens, d->next_id++);
}

static int64_t question(uint64_t seed, int64_t i)
{
    return 40 + rng_below(seed, STREAM_QUESTION, (uint64_t)i, 81);
}

static int64_t field(uint64_t seed, int64_t i, int64_t which, int64_t values)
{
    return rng_below(seed, STREAM_FIELD, (uint64_t)(MOST_PARTS * i + which), values);
}

static void levels_of_prompt(struct draft *d, uint64_t seed, int64_t i)
{
    add_part(d, 459, 0);
    add_part(d, 38, field(seed, i, 0, 4));
    add_part(d, 584, field(seed, i, 1, 2));
    add_part(d, 2112, field(seed, i, 2, 2));
    add_own(d, question(seed, i));
}

static void shots(struct draft *d, uint64_t seed, int64_t i)
{
    add_part(d, SYSTEM, 0);
    add_part(d, 20 * 150, i / 16);
    add_own(d, question(seed, i));
}

static void chains(struct draft *d, uint64_t seed, int64_t i)
{
    add_part(d, SYSTEM, 0);
    add_part(d, question(seed, i / 4), i / 4);
    add_own(d, 16);
}

static void documents(struct draft *d, uint64_t seed, int64_t i)
{
    int64_t left[] = {0, 1, 2, 3};
    for (int64_t k = 0; k < 3; k++) {
        int64_t pick = k + field(seed, i, k, 4 - k), key = left[pick];
        left[pick] = left[k];
        left[k] = key;
        add_part(d, 2000, key);
    }
    add_own(d, question(seed, i));
}

static const struct {
    const char *name;
    void (*make)(struct draft *d, uint64_t seed, int64_t i);
} batches[] = {{"prompt", levels_of_prompt}, {"shots", shots}, {"chains", chains}, {"documents", documents}};

enum { N_BATCHES = sizeof batches / sizeof batches[0] };

/* FastTree's end-to-end benchmarks: 128 requests at once, that share prefixes. */
static struct requests *batch_gen(int32_t which, uint64_t seed)
{
    struct draft d = {.r = requests_new()};
    for (int64_t i = 0; i < N_BATCH; i++) {
        begin_request(&d, 0, BATCH_OUTPUT);
        batches[which].make(&d, seed, i);
    }
    free(d.known);
    return d.r;
}

/* Exponential with that mean, between two bounds. */
static int64_t exponential(uint64_t seed, uint64_t stream, int64_t i, double mean, int64_t least,
                           int64_t most)
{
    double x = -mean * log(1 - rng_unit(seed, stream, (uint64_t)i));
    return max_i64(least, min_i64(most, llround(x)));
}

/* PAT's conversation workload. */
static struct requests *conversation_gen(int32_t n, uint64_t seed, int64_t languages, int64_t countries)
{
    struct draft d = {.r = requests_new()};
    int64_t now = 0;
    for (int64_t i = 0; i < n; i++) {
        now += i > 0 ? exponential(seed, STREAM_GAP, i, 200, 0, 60000) : 0;
        begin_request(&d, now, exponential(seed, STREAM_ANSWER, i, 200, 8, 1000));
        add_part(&d, 46, 0);
        add_part(&d, 348, field(seed, i, 0, languages));
        add_part(&d, 2123, field(seed, i, 1, countries));
        add_own(&d, exponential(seed, STREAM_QUESTION, i, 250, 8, 4000));
    }
    free(d.known);
    return d.r;
}

struct trace *trace_open_conversation(const char *arg, const char *spec, const struct trace_opts *o,
                                      struct err *e)
{
    enum { MAX_REQUESTS = 1 << 17, MAX_VALUES = 1000 };
    int64_t n, seed, languages = 8, countries = 16;
    char *head = xstrdup(arg), *comma = strchr(head, ','), *rest = comma ? strchr(comma + 1, ',') : NULL;
    if (rest)
        *rest++ = '\0';
    bool good = spec_count_seed(head, MAX_REQUESTS, &n, &seed) &&
                (!rest || spec_counts(rest, MAX_VALUES, &languages, &countries));
    free(head);
    if (!good) {
        err_set(e,
                "%s: not a count and a seed (expected conversation:N,SEED or "
                "conversation:N,SEED,LANGUAGES,COUNTRIES with N from 1 "
                "to %d)",
                spec, MAX_REQUESTS);
        return NULL;
    }
    return replay_requests(conversation_gen((int32_t)n, (uint64_t)seed, languages, countries), spec, o, e);
}

struct trace *trace_open_fasttree(const char *arg, const char *spec, const struct trace_opts *o,
                                  struct err *e)
{
    const char *comma = strchr(arg, ',');
    int64_t seed;
    for (int32_t k = 0; comma && k < N_BATCHES; k++) {
        const char *name = batches[k].name;
        size_t n = strlen(name);
        if (n == (size_t)(comma - arg) && strncmp(arg, name, n) == 0 && spec_seed(comma + 1, &seed))
            return replay_requests(batch_gen(k, (uint64_t)seed), spec, o, e);
    }
    err_set(e,
            "%s: not a benchmark and a seed (expected fasttree:WHICH,SEED with prompt, shots, chains or "
            "documents)",
            spec);
    return NULL;
}
