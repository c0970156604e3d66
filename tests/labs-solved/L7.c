/*
 * L7.c - lab 7: many partitions of a tree, each priced by a small simulation of the machine; the cheapest one is said.
 *
 * Nodes are cut where queries end. Pieces follow depth first, so that the queries that see a piece are a range. A partition is made
 * in one walk: pieces fill blocks of some tokens; a block ends where another piece would bring too many rows.
 */
#include "lab.h"

#include <math.h>
#include <string.h>

/* Tokens of a node, and the queries that see them, numbered depth first. */
struct piece {
    int node, q0, q1;
    int64_t begin, end;
};

struct work {
    const struct lab_tree *t;
    const struct lab_env *env;
    struct piece *piece;
    int n_pieces, cap_pieces;
    int *query, n_queries; /* depth first */
    int *child, *next;     /* lists of children, in order */
};

/* ---- pieces ------------------------------------------------------------------------------------------------ */

static void *grown(void *p, int n, int *cap, size_t size)
{
    if (n <= *cap)
        return p;
    *cap = n > 2 * *cap ? n : 2 * *cap;
    p = realloc(p, (size_t)*cap * size);
    if (!p)
        abort();
    return p;
}

/* The least place behind `from` where a query on the node ends, or its end. */
static int64_t next_cut(const struct lab_tree *t, int node, int64_t from)
{
    int64_t cut = t->len[node];
    for (int q = 0; q < t->n_queries; q++)
        if (t->query_node[q] == node && t->query_upto[q] > from && t->query_upto[q] < cut)
            cut = t->query_upto[q];
    return cut;
}

static void add_queries(struct work *w, int node, int64_t upto)
{
    for (int q = 0; q < w->t->n_queries; q++)
        if (w->t->query_node[q] == node && w->t->query_upto[q] == upto)
            w->query[w->n_queries++] = q;
}

static void walk(struct work *w, int node)
{
    int first = w->n_pieces;
    for (int64_t begin = 0; begin < w->t->len[node];) {
        int64_t end = next_cut(w->t, node, begin);
        w->piece = grown(w->piece, w->n_pieces + 1, &w->cap_pieces, sizeof *w->piece);
        w->piece[w->n_pieces++] =
            (struct piece){.node = node, .q0 = w->n_queries, .begin = begin, .end = end};
        add_queries(w, node, end);
        begin = end;
    }
    int last = w->n_pieces;
    for (int c = w->child[node]; c >= 0; c = w->next[c])
        walk(w, c);
    for (int i = first; i < last; i++)
        w->piece[i].q1 = w->n_queries;
}

static void find_pieces(struct work *w)
{
    int n = w->t->n_nodes;
    w->query = malloc((size_t)(w->t->n_queries + 1) * sizeof *w->query);
    w->child = malloc((size_t)(n + 1) * sizeof *w->child);
    w->next = malloc((size_t)(n + 1) * sizeof *w->next);
    for (int i = 0; i < n; i++)
        w->child[i] = -1;
    for (int i = n - 1; i >= 0; i--) {
        int parent = w->t->parent[i];
        w->next[i] = parent >= 0 ? w->child[parent] : -1;
        if (parent >= 0)
            w->child[parent] = i;
    }
    for (int i = 0; i < n; i++)
        if (w->t->parent[i] < 0)
            walk(w, i);
    int kept = 0; /* of those that somebody sees */
    for (int i = 0; i < w->n_pieces; i++)
        if (w->piece[i].q0 < w->piece[i].q1)
            w->piece[kept++] = w->piece[i];
    w->n_pieces = kept;
}

/* ---- partitions -------------------------------------------------------------------------------------------- */

/* A group: the pieces of a block, cut. */
struct block {
    int run0, n_runs, q0, q1;
    int64_t tokens;
    double cost; /* of a CTA by itself */
};

struct partition {
    struct block *block;
    struct piece *run;
    int n_blocks, cap_blocks, n_runs, cap_runs;
};

/* How a walk makes blocks. */
struct rule {
    int64_t tokens; /* of a block, at most */
    int rows;       /* beyond which a block gets no other piece */
    int even;       /* a long piece is cut in equal parts */
};

static int least(int a, int b)
{
    return a < b ? a : b;
}

/* The block at n_blocks is being filled; it counts when it is full. */
static void begin_block(struct partition *p)
{
    p->block = grown(p->block, p->n_blocks + 1, &p->cap_blocks, sizeof *p->block);
    p->block[p->n_blocks] = (struct block){.run0 = p->n_runs};
}

static void make(struct work *w, const struct rule *r, struct partition *p)
{
    p->n_blocks = p->n_runs = 0;
    begin_block(p);
    for (int i = 0; i < w->n_pieces; i++) {
        struct piece x = w->piece[i];
        int64_t len = x.end - x.begin, parts = (len + r->tokens - 1) / r->tokens,
                part = r->even ? (len + parts - 1) / parts : r->tokens;
        while (x.begin < x.end) {
            struct block *b = &p->block[p->n_blocks];
            int q0 = b->n_runs ? least(b->q0, x.q0) : x.q0, q1 = b->n_runs && b->q1 > x.q1 ? b->q1 : x.q1;
            int other = b->n_runs && (x.q0 != b->q0 || x.q1 != b->q1);
            if (b->n_runs &&
                (b->tokens >= r->tokens || (other && ((q1 - q0) * w->env->ratio > r->rows ||
                                                      (r->even && b->tokens + len > r->tokens))))) {
                p->n_blocks++;
                begin_block(p);
                continue;
            }
            int64_t n = x.end - x.begin, room = r->tokens - b->tokens;
            n = n < room ? n : room;
            n = r->even && parts > 1 && n > part ? part : n;
            p->run = grown(p->run, p->n_runs + 1, &p->cap_runs, sizeof *p->run);
            p->run[p->n_runs++] = (struct piece){x.node, x.q0, x.q1, x.begin, x.begin + n};
            b = &p->block[p->n_blocks];
            b->n_runs++;
            b->q0 = q0;
            b->q1 = q1;
            b->tokens += n;
            x.begin += n;
            if (r->even && parts > 1) {
                p->n_blocks++;
                begin_block(p);
            }
        }
    }
    p->n_blocks += p->block[p->n_blocks].n_runs > 0;
}

/* Each query reads its path alone: nothing is merged. */
static void make_alone(struct work *w, struct partition *p)
{
    p->n_blocks = p->n_runs = 0;
    for (int q = 0; q < w->n_queries; q++) {
        begin_block(p);
        struct block *b = &p->block[p->n_blocks];
        for (int i = 0; i < w->n_pieces; i++)
            if (w->piece[i].q0 <= q && q < w->piece[i].q1) {
                p->run = grown(p->run, p->n_runs + 1, &p->cap_runs, sizeof *p->run);
                p->run[p->n_runs++] = w->piece[i];
                b->n_runs++;
                b->tokens += w->piece[i].end - w->piece[i].begin;
            }
        b->q0 = q;
        b->q1 = q + 1;
        p->n_blocks += b->n_runs > 0;
    }
}

/* ---- price ------------------------------------------------------------------------------------------------- */

/* CTAs that are alike: of a tile of a group, one for each KV head. */
struct batch {
    double alone, dram, l2, ops, share;
    double end;
    int n;
};

struct machine {
    const struct lab_env *env;
    struct batch *running;
    int n, cap;
    double dram, l2, ops, load, now, progress;
};

static void change(struct machine *m, const struct batch *b, int n)
{
    double rate = n / b->alone;
    m->dram += b->dram * rate;
    m->l2 += b->l2 * rate;
    m->ops += b->ops * rate;
    m->load += n * b->share;
}

/* Until the next CTAs end, which leave. */
static void advance(struct machine *m)
{
    double most =
               fmax(m->dram / m->env->bandwidth, fmax(m->l2 / m->env->l2_bandwidth, m->ops / m->env->flops)),
           next = INFINITY;
    for (int i = 0; i < m->n; i++)
        next = fmin(next, m->running[i].end);
    m->now += (next - m->progress) * fmax(1, most);
    m->progress = next;
    for (int i = 0; i < m->n; i++)
        if (m->running[i].end <= next * (1 + 1e-9)) {
            change(m, &m->running[i], -m->running[i].n);
            m->running[i--] = m->running[--m->n];
        }
}

static void run(struct machine *m, struct batch b)
{
    while (b.n > 0) {
        int n = (int)((m->env->sms - m->load) / b.share + 1e-6);
        if (n > b.n)
            n = b.n;
        if (n <= 0) {
            advance(m);
            continue;
        }
        struct batch now = b;
        now.n = n;
        now.end = m->progress + b.alone;
        m->running = grown(m->running, m->n + 1, &m->cap, sizeof *m->running);
        m->running[m->n++] = now;
        change(m, &now, n);
        b.n -= n;
    }
}

static double row_bytes(const struct lab_env *e)
{
    return (double)e->head_dim * e->element_bytes;
}

/* A tile over the block's tokens. first: its tokens come from memory, else from the L2. */
static struct batch batch_of(const struct lab_env *e, const struct block *b, int rows, int first, int partial)
{
    double row = row_bytes(e), flight = e->tile_n * row, tiles = ceil((double)b->tokens / e->tile_n);
    struct batch x = {.n = e->kv_heads, .share = 1.0 / e->per_sm};
    double written = rows * (partial ? 4.0 * e->head_dim + 4 : row + 4);
    x.l2 = 2 * row * (double)b->tokens + rows * row + written;
    x.dram = (first ? 2 * row * (double)b->tokens : 0) + rows * row + written;
    x.ops = e->tile_m * tiles * e->tile_n * 4 * e->head_dim;
    x.alone = e->start + fmax(x.dram * e->latency / flight,
                              fmax(x.l2 * e->l2_latency / flight, x.ops * e->sms / e->flops));
    return x;
}

static void run_block(struct machine *m, const struct block *b, int partial)
{
    int rows = (b->q1 - b->q0) * m->env->ratio;
    for (int r = 0; r < rows; r += m->env->tile_m)
        run(m, batch_of(m->env, b, least(m->env->tile_m, rows - r), r == 0, partial));
}

static void finish(struct machine *m)
{
    while (m->n > 0)
        advance(m);
    m->progress = m->dram = m->l2 = m->ops = m->load = 0;
}

static int longest_first(const void *a, const void *b)
{
    double x = ((const struct block *)a)->cost, y = ((const struct block *)b)->cost;
    return x < y ? 1 : x > y ? -1 : 0;
}

/* Long CTAs come first, so that no SM is left with one at the end. */
static void sort_blocks(const struct lab_env *e, struct partition *p)
{
    for (int i = 0; i < p->n_blocks; i++)
        p->block[i].cost = batch_of(e, &p->block[i], e->tile_m, 1, 1).alone;
    qsort(p->block, (size_t)p->n_blocks, sizeof *p->block, longest_first);
}

/* Does the query see a run of the block? */
static int has(const struct partition *p, const struct block *b, int q)
{
    for (int r = b->run0; r < b->run0 + b->n_runs; r++)
        if (p->run[r].q0 <= q && q < p->run[r].q1)
            return 1;
    return 0;
}

static double price(struct work *w, struct partition *p)
{
    const struct lab_env *e = w->env;
    struct machine m = {.env = e};
    int *parts = calloc((size_t)w->n_queries + 1, sizeof *parts), merges = 0;
    for (int i = 0; i < p->n_blocks; i++)
        for (int q = p->block[i].q0; q < p->block[i].q1; q++)
            parts[q]++;
    for (int i = 0; i < p->n_blocks; i++) {
        int partial = 0;
        for (int q = p->block[i].q0; q < p->block[i].q1; q++)
            partial |= parts[q] > 1;
        for (int q = p->block[i].q0; q < p->block[i].q1; q++) /* who shares a group with it is merged, too */
            parts[q] = partial && parts[q] == 1 ? -1 : parts[q];
        run_block(&m, &p->block[i], partial);
    }
    finish(&m);
    for (int q = 0; q < w->n_queries; q++)
        if (parts[q] != 1 && parts[q] != 0) {
            int n = parts[q] < 0 ? 1 : parts[q];
            double part = e->ratio * (4.0 * e->head_dim + 4), out = e->ratio * (row_bytes(e) + 4),
                   bytes = n * part + out;
            struct batch x = {.n = e->kv_heads, .share = 1.0 / 16, .l2 = bytes, .dram = out};
            x.alone = e->start + fmax(out * e->latency, bytes * e->l2_latency) / 8192;
            run(&m, x);
            merges++;
        }
    finish(&m);
    free(parts);
    free(m.running);
    return e->base + e->launch * (merges ? 2 : 1) + m.now;
}

/* ---- what is said ------------------------------------------------------------------------------------------ */

static void say(struct work *w, struct partition *p, struct lab_out *out)
{
    int *query = malloc((size_t)(w->n_queries + 1) * sizeof *query), most = 1;
    for (int i = 0; i < p->n_blocks; i++)
        most = p->block[i].n_runs > most ? p->block[i].n_runs : most;
    struct lab_run *run = malloc((size_t)most * sizeof *run);
    for (int i = 0; i < p->n_blocks; i++) {
        const struct block *b = &p->block[i];
        int n = 0;
        for (int q = b->q0; q < b->q1; q++)
            if (has(p, b, q))
                query[n++] = q;
        for (int r = 0; r < b->n_runs; r++)
            run[r] = (struct lab_run){p->run[b->run0 + r].node, p->run[b->run0 + r].begin,
                                      p->run[b->run0 + r].end};
        int *said = malloc((size_t)(n + 1) * sizeof *said);
        for (int k = 0; k < n; k++)
            said[k] = w->query[query[k]];
        int g = lab_group(out, said, n, run, b->n_runs);
        free(said);
        for (int k = 0; k < n; k++)
            for (int r = 0; r < b->n_runs; r++) {
                const struct piece *x = &p->run[b->run0 + r];
                if (query[k] < x->q0 || query[k] >= x->q1)
                    lab_hide(out, g, k, r);
            }
    }
    free(query);
    free(run);
}

static void keep_if_cheaper(struct work *w, struct partition *p, struct partition *best, double *least_time)
{
    for (int i = 0; i < p->n_blocks; i++)
        if (p->block[i].tokens > w->env->most_tokens)
            return;
    sort_blocks(w->env, p);
    double time = price(w, p);
    if (time < *least_time) {
        struct partition old = *best;
        *least_time = time;
        *best = *p;
        *p = old;
    }
}

void lab_partition(const struct lab_tree *t, const struct lab_env *env, struct lab_out *out)
{
    static const int64_t tokens[] = {64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048};
    static const int rows[] = {0, 16, 32, 64, 1 << 20};
    struct work w = {.t = t, .env = env};
    struct partition p = {.block = NULL}, best = {.block = NULL};
    double time = INFINITY;
    find_pieces(&w);
    for (size_t i = 0; i < sizeof tokens / sizeof tokens[0]; i++)
        for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++)
            for (int even = 0; even < 2; even++) {
                const struct rule r = {tokens[i], rows[k], even};
                make(&w, &r, &p);
                keep_if_cheaper(&w, &p, &best, &time);
            }
    make_alone(&w, &p);
    keep_if_cheaper(&w, &p, &best, &time);
    say(&w, &best, out);
    free(p.block);
    free(p.run);
    free(best.block);
    free(best.run);
    free(w.piece);
    free(w.query);
    free(w.child);
    free(w.next);
}
