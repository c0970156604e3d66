/* edge_planners.c - virtual nodes and their pieces: what FastTree and PAT share. */
#include "sim/strategies/edge_planners.h"

#include <stdlib.h>

/* With windows it depends on the queries left which tokens above they see. */
static void vnode_sizes_in_windows(const struct nform *nf, const uint8_t *joined, int32_t *nq, int64_t *len)
{
    struct sel s = {0};
    for (int32_t i = 0; i < nf->n_nodes; i++) {
        vtree_select(nf, joined, i, &s);
        nq[i] = (int32_t)s.nq;
        len[i] = s.n_kv;
    }
    sel_free(&s);
}

void vnode_sizes(const struct nform *nf, const uint8_t *joined, int32_t *nq, int64_t *len)
{
    if (nf->since) {
        vnode_sizes_in_windows(nf, joined, nq, len);
        return;
    }
    for (int32_t i = 0; i < nf->n_nodes;
         i++) { /* parents come first, so theirs are final but for what we take */
        nq[i] = nf->q1[i] - nf->q0[i];
        len[i] = nf->len[i];
        if (joined[i]) {
            nq[nf->parent[i]] -= nq[i];
            len[i] += len[nf->parent[i]];
        }
    }
}

void pieces_reset(struct pieces *it, const struct sel *s, int64_t q_step, int64_t kv_step, bool equal)
{
    CK(q_step >= 1 && kv_step >= 1);
    struct sel keep = it->piece;
    *it = (struct pieces){
        .whole = s,
        .piece = keep,
        .q_step = q_step,
        .kv_step = kv_step,
        .kv_parts = ceil_div(s->n_kv, kv_step),
        .equal = equal,
    };
    it->part = it->kv_parts; /* "the queries before the first are done" */
}

void pieces_reset_at(struct pieces *it, const struct sel *s, const int64_t *end, int64_t n)
{
    pieces_reset(it, s, max_i64(s->nq, 1), max_i64(s->n_kv, 1), false);
    it->end = end;
    it->part = it->kv_parts = n;
}

struct pieces pieces_of(const struct sel *s, int64_t q_step, int64_t kv_step, bool equal)
{
    struct pieces it = {0};
    pieces_reset(&it, s, q_step, kv_step, equal);
    return it;
}

void pieces_free(struct pieces *it)
{
    sel_free(&it->piece);
}

static void take_queries(struct pieces *it, int64_t n)
{
    it->piece.n_qr = it->piece.nq = 0;
    while (n > 0) {
        struct qrange r = it->whole->qr[it->q_range];
        int64_t begin = r.begin + it->q_off, take = min_i64(n, r.end - begin);
        sel_queries(&it->piece, (int32_t)begin, (int32_t)(begin + take));
        n -= take;
        it->q_off += take;
        if (begin + take == r.end) {
            it->q_range++;
            it->q_off = 0;
        }
    }
}

static void take_tokens(struct pieces *it, int64_t n)
{
    it->piece.n_runs = it->piece.n_kv = 0;
    sel_take(&it->piece, it->whole, &it->token, n);
}

/* First token of a part; part kv_parts is the end. */
static int64_t part_begin(const struct pieces *it, int64_t part)
{
    int64_t n = it->whole->n_kv;
    if (it->end)
        return part == 0 ? 0 : it->end[part - 1];
    if (!it->equal)
        return min_i64(part * it->kv_step, n);
    int64_t base = n / it->kv_parts, longer = n % it->kv_parts;
    return part * base + min_i64(part, longer);
}

bool pieces_next(struct pieces *it)
{
    if (it->kv_parts == 0)
        return false;
    if (it->part == it->kv_parts) { /* the next queries, from the first token again */
        if (it->q_at == it->whole->nq)
            return false;
        int64_t n = min_i64(it->q_step, it->whole->nq - it->q_at);
        take_queries(it, n);
        it->q_at += n;
        it->part = 0;
        it->token = (struct sel_place){0};
    }
    take_tokens(it, part_begin(it, it->part + 1) - part_begin(it, it->part));
    it->part++;
    return true;
}
