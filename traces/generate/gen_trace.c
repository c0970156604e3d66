#include "traces/generate/gen_trace.h"

#include "ref/rng.h"

#include <stdlib.h>

/* Shape of the reasoning tree; the ranges of lengths are near those of the sorting task's recorded runs. */
enum { FANOUT = 10, DEPTH = 10 };

/* Streams of the counter-based generator, one per quantity. */
enum {
    STREAM_LEAF,
    STREAM_BRANCH,
    STREAM_WHICH,
    STREAM_PROMPT,
    STREAM_PARENT,
    STREAM_ACCEPT,
    STREAM_REQUEST
};

struct reasoning *reasoning_gen(uint64_t seed)
{
    struct reasoning *r = reasoning_new(1 + FANOUT * DEPTH);
    int64_t prompt = 1060 + rng_below(seed, STREAM_PROMPT, 0, 80);
    r->node[0] = (struct reasoning_node){.parent = -1, .value = prompt, .start = 1 - prompt, .end = 0};
    int32_t parent = 0;
    for (int32_t level = 0; level < DEPTH; level++) {
        int32_t first = 1 + level * FANOUT,
                branch = first + (int32_t)rng_below(seed, STREAM_WHICH, level, FANOUT);
        for (int32_t i = first; i < first + FANOUT; i++) {
            /* The smaller of two draws: many short thoughts, a few that run on beside the next levels. */
            int64_t a = rng_below(seed, STREAM_LEAF, 2 * i, 1100),
                    b = rng_below(seed, STREAM_LEAF, 2 * i + 1, 1100);
            int64_t value = 120 + min_i64(a, b);
            if (i == branch)
                value = 320 + rng_below(seed, STREAM_BRANCH, level, 160);
            if (level == 0)
                value += 240; /* the first attempt writes the whole answer, later ones correct it */
            int64_t start = r->node[parent].end + 1;
            r->node[i] = (struct reasoning_node){parent, value, start, start + value - 1};
        }
        parent = branch;
    }
    return r;
}

static int parent_compare(const void *a, const void *b)
{
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

struct speculative *speculative_gen(int32_t n_tokens, uint64_t seed)
{
    enum { N_STEPS = 400, MAX_DEPTH = 4, MAX_ACCEPT = MAX_DEPTH + 1 };
    struct speculative *s = speculative_new(n_tokens, N_STEPS);
    s->prompt = 900 + rng_below(seed, STREAM_PROMPT, 0, 200);

    /* Early tokens get more children, as the likelier candidates do. Sorting keeps every parent before its
     * children and makes the order breadth first, so that depths never decrease and the last inner node is a
     * bound. */
    for (int32_t i = 1; i < n_tokens; i++)
        s->parent[i] = (int32_t)min_i64(rng_below(seed, STREAM_PARENT, 2 * (uint64_t)i, i),
                                        rng_below(seed, STREAM_PARENT, 2 * (uint64_t)i + 1, i));
    qsort(s->parent, (size_t)n_tokens, sizeof *s->parent, parent_compare);
    int32_t *depth = xcalloc((size_t)n_tokens, sizeof *depth), last_inner = 0;
    for (int32_t i = 1; i < n_tokens; i++) {
        if (depth[s->parent[i]] == MAX_DEPTH)
            s->parent[i] = last_inner;
        depth[i] = depth[s->parent[i]] + 1;
        if (depth[i] < MAX_DEPTH)
            last_inner = i;
    }
    free(depth);

    for (int32_t i = 0; i < N_STEPS; i++) {
        int64_t n = 1;
        for (int32_t k = 1;
             k < MAX_ACCEPT && rng_below(seed, STREAM_ACCEPT, (uint64_t)i * MAX_ACCEPT + k, 4) > 0; k++)
            n++;
        s->accept[i] = min_i64(n, n_tokens);
    }
    return s;
}

/* ---- requests ------------------------------------------------------------------------------------------ */

enum { N_SYSTEMS = 3, N_TALKS = 12, TALK_MAX_BLOCKS = 24 };
#define TALK_MAX_TOKENS (TALK_MAX_BLOCKS * REQUEST_BLOCK)

/* What a conversation, or a system prompt, has in the cache. */
struct talk {
    int64_t tokens;
    int64_t block[TALK_MAX_BLOCKS];
};

/* Draw `which` of request i, below n. */
static int64_t draw(uint64_t seed, int64_t i, int64_t which, int64_t n)
{
    return rng_below(seed, STREAM_REQUEST, (uint64_t)(8 * i + which), n);
}

/* Make it longer. A block that was partial has other text from now on, and so another id. */
static void lengthen(struct talk *talk, int64_t tokens, int64_t *next_id)
{
    int64_t whole = talk->tokens / REQUEST_BLOCK;
    talk->tokens += tokens;
    for (int64_t k = whole; k < ceil_div(talk->tokens, REQUEST_BLOCK); k++)
        talk->block[k] = (*next_id)++;
}

struct requests *requests_gen(int32_t n, uint64_t seed)
{
    enum { INTERVAL, WHICH, FRESH, SYSTEM, QUESTION, ANSWER_A, ANSWER_B };
    struct requests *r = requests_new();
    struct talk system[N_SYSTEMS] = {0}, talk[N_TALKS] = {0};
    int64_t next_id = 0, cap = 0, now = 0;
    for (int32_t k = 0; k < N_SYSTEMS; k++)
        lengthen(&system[k], (2 + 2 * k) * REQUEST_BLOCK, &next_id);
    r->request = xcalloc((size_t)n, sizeof *r->request);
    for (; r->n < n; r->n++) {
        int64_t i = r->n, question = 60 + draw(seed, i, QUESTION, 1400);
        struct talk *x = &talk[draw(seed, i, WHICH, N_TALKS)];
        now += i > 0 ? draw(seed, i, INTERVAL, 500) : 0;
        if (x->tokens == 0 || x->tokens + question > TALK_MAX_TOKENS)
            *x = draw(seed, i, FRESH, 8) > 0 ? system[draw(seed, i, SYSTEM, N_SYSTEMS)] : (struct talk){0};
        lengthen(x, question, &next_id);
        struct request *q = &r->request[i];
        *q = (struct request){
            .arrival = now,
            .input = x->tokens,
            .output = 16 + min_i64(draw(seed, i, ANSWER_A, 300), draw(seed, i, ANSWER_B, 300)),
            .first = r->n_blocks,
            .n_blocks = (int32_t)ceil_div(x->tokens, REQUEST_BLOCK),
            .line = r->n + 1,
        };
        r->block = xgrow(r->block, &cap, r->n_blocks + q->n_blocks, sizeof *r->block);
        for (int32_t k = 0; k < q->n_blocks; k++)
            r->block[r->n_blocks++] = x->block[k];
    }
    return r;
}

struct trace *trace_open_reasoning(const char *arg, const char *spec, const struct trace_opts *o,
                                   struct err *e)
{
    int64_t seed;
    if (!spec_seed(arg, &seed)) {
        err_set(e, "%s: not a seed (expected reasoning:SEED, an integer from 0)", spec);
        return NULL;
    }
    return spec_only_tree(spec, o, e) ? replay_reasoning(reasoning_gen((uint64_t)seed), spec, o, e) : NULL;
}

struct trace *trace_open_spec(const char *arg, const char *spec, const struct trace_opts *o, struct err *e)
{
    enum { MAX_TOKENS = 1 << 16 };
    int64_t n_tokens, seed;
    if (!spec_count_seed(arg, MAX_TOKENS, &n_tokens, &seed)) {
        err_set(e, "%s: not a token count and a seed (expected spec:T,SEED with T from 1 to %d)", spec,
                MAX_TOKENS);
        return NULL;
    }
    if (!spec_only_tree(spec, o, e))
        return NULL;
    return replay_speculative(speculative_gen((int32_t)n_tokens, (uint64_t)seed), spec, o, e);
}

struct trace *trace_open_requests(const char *arg, const char *spec, const struct trace_opts *o,
                                  struct err *e)
{
    enum { MAX_REQUESTS = 1 << 20 };
    int64_t n, seed;
    if (!spec_count_seed(arg, MAX_REQUESTS, &n, &seed)) {
        err_set(e, "%s: not a count and a seed (expected requests:N,SEED with N from 1 to %d)", spec,
                MAX_REQUESTS);
        return NULL;
    }
    return replay_requests(requests_gen((int32_t)n, (uint64_t)seed), spec, o, e);
}
