/*
 * steps_requests.c - continuous batching: requests join in order of arrival when a place is free, decode a
 * token a step, and leave.
 *
 * A request is in flight at the steps start .. end = start + output - 1, both included. Starts never
 * decrease, so a step finds its requests by bisection and a walk back. Its tree is made from the requests'
 * block lists alone: sorted, neighbours share a prefix, and a run of neighbours is split where they share
 * the least.
 */
#include "traces/steps.h"

#include <stdlib.h>

struct requests *requests_new(void)
{
    struct requests *r = xcalloc(1, sizeof *r);
    r->block_tokens = REQUEST_BLOCK;
    return r;
}

void requests_free(struct requests *r)
{
    if (r) {
        free(r->request);
        free(r->block);
        free(r->end);
    }
    free(r);
}

/* ---- order by prefix ----------------------------------------------------------------------------------- */

/* Blocks that two requests have in common. Where their lists differ they do to the end, so this bisects. */
static int32_t common_blocks(const struct requests *r, int32_t a, int32_t b)
{
    const struct request *x = &r->request[a], *y = &r->request[b];
    int32_t lo = 0, hi = (int32_t)min_i64(x->n_blocks, y->n_blocks);
    while (lo < hi) {
        int32_t mid = lo + (hi - lo) / 2;
        if (r->block[x->first + mid] == r->block[y->first + mid])
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

/* Depth first in the trie of all requests; requests with the same list in order of arrival. */
static int prefix_compare(const void *a, const void *b, void *arg)
{
    const struct requests *r = arg;
    int32_t i = *(const int32_t *)a, j = *(const int32_t *)b, n = common_blocks(r, i, j);
    const struct request *x = &r->request[i], *y = &r->request[j];
    if (n < x->n_blocks && n < y->n_blocks)
        return r->block[x->first + n] < r->block[y->first + n] ? -1 : 1;
    if (x->n_blocks != y->n_blocks)
        return x->n_blocks < y->n_blocks ? -1 : 1;
    return (i > j) - (i < j);
}

static int32_t *rank_requests(const struct requests *r)
{
    int32_t *order = xmalloc((size_t)r->n * sizeof *order), *rank = xmalloc((size_t)r->n * sizeof *rank);
    for (int32_t i = 0; i < r->n; i++)
        order[i] = i;
    qsort_r(order, (size_t)r->n, sizeof *order, prefix_compare, (void *)r);
    for (int32_t i = 0; i < r->n; i++)
        rank[order[i]] = i;
    free(order);
    return rank;
}

/* ---- who is in flight when ----------------------------------------------------------------------------- */

/* The earliest end is on top. */
static void heap_replace_top(int64_t *heap, int32_t n, int64_t x)
{
    int32_t i = 0;
    for (int32_t child = 1; child < n; child = 2 * i + 1) {
        if (child + 1 < n && heap[child + 1] < heap[child])
            child++;
        if (heap[child] >= x)
            break;
        heap[i] = heap[child];
        i = child;
    }
    heap[i] = x;
}

/* Starts and ends of all requests, with `places` places and steps of step_ms (0: all have arrived). */
static void schedule(struct batching *b, int32_t places, int64_t step_ms)
{
    const struct requests *r = b->requests;
    int64_t *heap = xcalloc((size_t)places, sizeof *heap); /* last step of who holds each place */
    /* Step `base` begins at base_ms; the clock starts anew after a time without requests. */
    int64_t base = 1, base_ms = r->request[0].arrival, start = 1, last = 0;
    for (int32_t i = 0; i < r->n; i++) {
        const struct request *q = &r->request[i];
        start = max_i64(start, heap[0] + 1);
        if (step_ms > 0) {
            start = max_i64(start, base + ceil_div(max_i64(0, q->arrival - base_ms), step_ms));
            if (start > last + 1) {
                base = start = last + 1;
                base_ms = q->arrival;
            }
        }
        b->start[i] = start;
        b->end[i] = start + q->output - 1;
        b->end_before[i] = last = max_i64(last, b->end[i]);
        heap_replace_top(heap, places, b->end[i]);
    }
    free(heap);
}

/* Requests in flight at step t, in order of arrival; returns how many. */
static int32_t in_flight(const struct batching *b, int64_t t, int32_t *out)
{
    int32_t lo = 0, hi = b->requests->n, n = 0;
    while (lo < hi) {
        int32_t mid = lo + (hi - lo) / 2;
        if (b->start[mid] <= t)
            lo = mid + 1;
        else
            hi = mid;
    }
    for (int32_t i = lo - 1; i >= 0 && b->end_before[i] >= t; i--)
        if (b->end[i] >= t)
            out[n++] = i;
    for (int32_t i = 0; i < n / 2; i++) {
        int32_t other = out[n - 1 - i];
        out[n - 1 - i] = out[i];
        out[i] = other;
    }
    return n;
}

/* ---- a step's tree ------------------------------------------------------------------------------------- */

/* A request in flight. */
struct flight {
    int32_t request, rank, query; /* query: its place in order of arrival */
    int32_t common;               /* blocks shared with the one before it in order of rank */
};

/* flight[begin .. end), whose first `from` blocks are in the tree already, as far as `parent`. */
struct span {
    int32_t begin, end, parent, from;
};

static int flight_compare(const void *a, const void *b)
{
    const struct flight *x = a, *y = b;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

static struct flight *sorted_flights(const struct batching *b, int64_t t, int32_t *n)
{
    int32_t *id = xmalloc((size_t)b->places * sizeof *id);
    *n = in_flight(b, t, id);
    CK(*n >= 1);
    struct flight *flight = xcalloc((size_t)*n, sizeof *flight);
    for (int32_t i = 0; i < *n; i++)
        flight[i] = (struct flight){.request = id[i], .rank = b->rank[id[i]], .query = i};
    free(id);
    qsort(flight, (size_t)*n, sizeof *flight, flight_compare);
    for (int32_t i = 1; i < *n; i++)
        flight[i].common = common_blocks(b->requests, flight[i - 1].request, flight[i].request);
    return flight;
}

/* What a step's tree is made with. */
struct maker {
    const struct batching *b;
    int64_t t;
    struct flight *flight;
    struct tree *tree;
    struct span *span;
    int32_t n_spans;
    struct trace_parts *parts; /* NULL: nobody asks */
    int64_t n_pieces, cap_pieces;
};

/* Tokens of the first n blocks of a request's prompt. */
static int64_t prompt_tokens(const struct requests *r, const struct request *q, int32_t n)
{
    if (r->end)
        return n > 0 ? r->end[q->first + n - 1] : 0;
    return min_i64(q->input, n * r->block_tokens);
}

/* Blocks from .. to of a request's prompt are the last node's next pieces, each by its id. */
static void add_blocks(struct maker *m, const struct request *q, int32_t from, int32_t to)
{
    const struct requests *r = m->b->requests;
    struct trace_parts *parts = m->parts;
    parts->piece = xgrow(parts->piece, &m->cap_pieces, m->n_pieces + to - from + 1, sizeof *parts->piece);
    for (int32_t k = from; k < to; k++)
        parts->piece[m->n_pieces++] = (struct trace_piece){
            .name = r->block[q->first + k],
            .tokens = prompt_tokens(r, q, k + 1) - prompt_tokens(r, q, k),
        };
    parts->piece0[m->tree->n_nodes] = (int32_t)m->n_pieces;
}

/* What a request has decoded is a piece below all ids. */
static void add_decoded(struct maker *m, int32_t request)
{
    m->parts->piece[m->n_pieces++] =
        (struct trace_piece){.name = -1 - (int64_t)request, .tokens = m->t - m->b->start[request] + 1};
    m->parts->piece0[m->tree->n_nodes] = (int32_t)m->n_pieces;
}

/* One request alone: the rest of its prompt, and what it has decoded. */
static void add_leaf(struct maker *m, const struct span *s)
{
    const struct flight *x = &m->flight[s->begin];
    const struct request *q = &m->b->requests->request[x->request];
    int32_t leaf = m->tree->n_nodes++;
    m->tree->parent[leaf] = s->parent;
    m->tree->len[leaf] =
        q->input - prompt_tokens(m->b->requests, q, s->from) + m->t - m->b->start[x->request] + 1;
    m->tree->query[x->query] = (struct query){.node = leaf, .upto = m->tree->len[leaf]};
    if (m->parts) {
        add_blocks(m, q, s->from, q->n_blocks);
        add_decoded(m, x->request);
        m->parts->query[x->query] = x->request;
    }
}

/* Several requests: a node for what all of them share, if anything, then a span for each way they part. */
static void add_shared(struct maker *m, const struct span *s)
{
    const struct flight *flight = m->flight;
    const struct request *q = &m->b->requests->request[flight[s->begin].request];
    int32_t common = q->n_blocks, parent = s->parent;
    for (int32_t i = s->begin + 1; i < s->end; i++)
        common = (int32_t)min_i64(common, flight[i].common);
    if (common > s->from) {
        parent = m->tree->n_nodes++;
        m->tree->parent[parent] = s->parent;
        m->tree->len[parent] =
            prompt_tokens(m->b->requests, q, common) - prompt_tokens(m->b->requests, q, s->from);
        if (m->parts)
            add_blocks(m, q, s->from, common);
    }
    for (int32_t i = s->begin, j; i < s->end; i = j) {
        for (j = i + 1; j < s->end && flight[j].common > common; j++)
            ;
        m->span[m->n_spans++] = (struct span){.begin = i, .end = j, .parent = parent, .from = common};
    }
}

static struct tree *requests_step(const struct trace *tr, int64_t t, struct trace_parts *parts)
{
    int32_t n;
    struct maker m = {.b = tr->self, .t = t, .flight = sorted_flights(tr->self, t, &n), .parts = parts};
    /* A span has one request or is split in two or more: 2n - 1 spans at most, each with one node or none. */
    m.tree = tree_new(2 * n - 1, n);
    if (parts)
        *parts = (struct trace_parts){.piece0 = xcalloc((size_t)(2 * n), sizeof *parts->piece0),
                                      .query = xmalloc((size_t)n * sizeof *parts->query)};
    m.tree->n_nodes = 0;
    m.span = xmalloc((size_t)(2 * n - 1) * sizeof *m.span);
    m.span[m.n_spans++] = (struct span){.begin = 0, .end = n, .parent = -1, .from = 0};
    for (int32_t k = 0; k < m.n_spans; k++) {
        const struct span s = m.span[k];
        if (s.end - s.begin == 1)
            add_leaf(&m, &s);
        else
            add_shared(&m, &s);
    }
    free(m.flight);
    free(m.span);
    return m.tree;
}

/* ---- the trace ----------------------------------------------------------------------------------------- */

static void close_batching(void *self)
{
    struct batching *b = self;
    requests_free(b->requests);
    free(b->rank);
    free(b->start);
    free(b->end);
    free(b->end_before);
    free(b);
}

const struct trace_kind requests_kind = {.step = requests_step, .close = close_batching, .has_places = true};

/* Drop the first k requests. */
static void begin_at(struct requests *r, int32_t k)
{
    r->n -= k;
    for (int32_t i = 0; i < r->n; i++)
        r->request[i] = r->request[i + k];
}

static bool check_options(const struct requests *r, const char *source, const struct trace_opts *o,
                          struct err *e)
{
    if (o->prompt != 0 || o->max_seq != 0)
        return err_set(e,
                       "%s: prompt %lld and max_seq %lld (expected neither: requests have their own lengths)",
                       source, (long long)o->prompt, (long long)o->max_seq);
    if (o->tree_index >= r->n)
        return err_set(e, "%s: no request %d to begin with (expected an index below %d)", source,
                       o->tree_index, r->n);
    return true;
}

struct trace *replay_requests(struct requests *r, const char *source, const struct trace_opts *o,
                              struct err *e)
{
    if (!check_options(r, source, o, e)) {
        requests_free(r);
        return NULL;
    }
    begin_at(r, o->tree_index);
    struct batching *b = xcalloc(1, sizeof *b);
    size_t n = (size_t)r->n;
    *b = (struct batching){.requests = r,
                           .places = o->batch > 0 ? o->batch : TRACE_BATCH,
                           .rank = rank_requests(r),
                           .start = xmalloc(n * sizeof *b->start),
                           .end = xmalloc(n * sizeof *b->end),
                           .end_before = xmalloc(n * sizeof *b->end_before)};
    schedule(b, b->places, o->step_ms);
    struct trace *tr = trace_new(&requests_kind, b);
    tr->n_items = 0;
    tr->n_steps = b->end_before[r->n - 1];
    for (int32_t i = 0; i < r->n; i++)
        tr->generated += r->request[i].output;
    char *clock = o->step_ms > 0 ? xasprintf("%lld ms a step", (long long)o->step_ms) : xstrdup("no clock");
    tr->title = xasprintf("requests, %s, from request %d, B = %d, %s, %lld steps", source, o->tree_index,
                          b->places, clock, (long long)tr->n_steps);
    free(clock);
    return tr;
}
