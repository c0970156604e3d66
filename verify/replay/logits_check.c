#include "verify/replay/logits_check.h"
#include "ref/rng.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    REPLICAS = 4,    /* noisy copies of each sequence; each gives a spread over all of the vocabulary */
    SPREADS = 6,     /* a logit's error may be so many times the spread that noise makes */
    SERIES_TOKEN = 5 /* rng: tokens; noise takes its own seed */
};

/* ---- tokens ----------------------------------------------------------------------------------------- */

struct piece {
    int64_t name, n, cap;
    int32_t *token;
    bool seen;
};

struct tokens {
    int32_t vocab;
    uint64_t seed;
    int64_t n, cap;
    struct piece *piece; /* by name */
};

struct tokens *tokens_new(int32_t vocab, uint64_t seed)
{
    struct tokens *x = xcalloc(1, sizeof *x);
    *x = (struct tokens){.vocab = vocab, .seed = seed};
    return x;
}

void tokens_free(struct tokens *x)
{
    for (int64_t i = 0; x && i < x->n; i++)
        free(x->piece[i].token);
    if (x)
        free(x->piece);
    free(x);
}

/* Where the name is, or would be. */
static int64_t place_of(const struct tokens *x, int64_t name)
{
    int64_t low = 0, high = x->n;
    while (low < high) {
        int64_t middle = (low + high) / 2;
        if (x->piece[middle].name < name)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static struct piece *piece_of(struct tokens *x, int64_t name)
{
    int64_t i = place_of(x, name);
    if (i < x->n && x->piece[i].name == name)
        return &x->piece[i];
    x->piece = xgrow(x->piece, &x->cap, x->n + 1, sizeof *x->piece);
    memmove(x->piece + i + 1, x->piece + i, (size_t)(x->n - i) * sizeof *x->piece);
    x->n++;
    x->piece[i] = (struct piece){.name = name};
    return &x->piece[i];
}

static void add_token(struct piece *p, int32_t token)
{
    p->token = xgrow(p->token, &p->cap, p->n + 1, sizeof *p->token);
    p->token[p->n++] = token;
}

void tokens_advance(struct tokens *x, const struct tree *tree, const struct trace_parts *parts)
{
    for (int32_t i = 0; i < parts->n_accepts; i++) {
        int32_t token = piece_of(x, parts->accept[i].from)->token[0];
        add_token(piece_of(x, parts->accept[i].to), token);
    }
    for (int64_t i = 0; i < x->n; i++)
        x->piece[i].seen = false;
    for (int32_t i = 0; i < parts->piece0[tree->n_nodes]; i++) {
        struct piece *p = piece_of(x, parts->piece[i].name);
        CK(p->n <= parts->piece[i].tokens);
        while (p->n < parts->piece[i].tokens)
            add_token(
                p, (int32_t)rng_below(x->seed + (uint64_t)p->name, SERIES_TOKEN, (uint64_t)p->n, x->vocab));
        p->seen = true;
    }
    int64_t kept = 0;
    for (int64_t i = 0; i < x->n; i++) {
        if (x->piece[i].seen)
            x->piece[kept++] = x->piece[i];
        else
            free(x->piece[i].token);
    }
    x->n = kept;
}

int32_t tokens_at(const struct tokens *x, const struct trace_parts *parts, int32_t node, int64_t j)
{
    for (int32_t i = parts->piece0[node]; i < parts->piece0[node + 1]; i++) {
        if (j < parts->piece[i].tokens)
            return x->piece[place_of(x, parts->piece[i].name)].token[j];
        j -= parts->piece[i].tokens;
    }
    CK_FOUND("a token of the node");
}

int64_t tokens_path(const struct tokens *x, const struct tree *tree, const struct trace_parts *parts,
                    struct query q, int32_t **out)
{
    int64_t n = q.upto;
    for (int32_t i = tree->parent[q.node]; i >= 0; i = tree->parent[i])
        n += tree->len[i];
    int64_t end = n;
    *out = xcalloc((size_t)n, sizeof **out);
    for (int32_t i = q.node; i >= 0; i = tree->parent[i]) {
        int64_t len = i == q.node ? q.upto : tree->len[i];
        for (int64_t j = 0; j < len; j++)
            (*out)[end - len + j] = tokens_at(x, parts, i, j);
        end -= len;
    }
    return n;
}

/* ---- the witness ------------------------------------------------------------------------------------ */

struct remembered {
    int64_t n, cap;
    int32_t *token; /* [n] */
    struct sequence *exact, *noisy[REPLICAS];
};

/* The answer to a question that has been asked: other strategies will ask it again. */
struct answer {
    uint64_t path; /* a hash of all tokens */
    int64_t n;
    double limit, *exact; /* [vocab] */
};

struct witness {
    const struct model *m;
    struct sequence_model *weights;
    double unit;
    uint64_t seed;
    int64_t n, cap;
    struct remembered *known; /* [n] by number */
    int64_t n_answers, cap_answers;
    struct answer *answer;
    double *noisy; /* [vocab] */
};

struct witness *logits_check_new(const struct model *m, enum dtype t, uint64_t seed)
{
    struct witness *w = xcalloc(1, sizeof *w);
    /* where sums are no wider than what is stored, each of them errs as well: 16 covers products of some hundred terms */
    *w = (struct witness){.m = m,
                          .weights = sequence_model_new(m, t, seed),
                          .unit = dtype_unit[t] * (t == DT_F64 || t == DT_F32 ? 16 : 1),
                          .seed = seed,
                          .noisy = xcalloc((size_t)m->vocab, sizeof(double))};
    return w;
}

static void forget(struct remembered *r)
{
    sequence_free(r->exact);
    for (int i = 0; i < REPLICAS; i++)
        sequence_free(r->noisy[i]);
    free(r->token);
}

void logits_check_free(struct witness *w)
{
    if (!w)
        return;
    for (int64_t i = 0; i < w->n; i++)
        forget(&w->known[i]);
    sequence_model_free(w->weights);
    for (int64_t i = 0; i < w->n_answers; i++)
        free(w->answer[i].exact);
    free(w->answer);
    free(w->known);
    free(w->noisy);
    free(w);
}

/* The sequence of that number, cut to what it has in common with token[n - 1]. */
static struct remembered *remember(struct witness *w, int32_t number, const int32_t *token, int64_t n)
{
    w->known = xgrow(w->known, &w->cap, number + 1, sizeof *w->known);
    for (; w->n <= number; w->n++) {
        struct remembered *r = &w->known[w->n];
        *r = (struct remembered){.exact = sequence_new(w->weights, 0, 0)};
        for (int i = 0; i < REPLICAS; i++)
            r->noisy[i] = sequence_new(w->weights, w->unit, rng_u64(w->seed, (uint64_t)w->n, (uint64_t)i));
    }
    struct remembered *r = &w->known[number];
    int64_t same = 0;
    while (same < r->n && same < n - 1 && r->token[same] == token[same])
        same++;
    r->n = same;
    sequence_cut(r->exact, same);
    for (int i = 0; i < REPLICAS; i++)
        sequence_cut(r->noisy[i], same);
    return r;
}

/* Exact logits into exact[vocab]; returns the bound of each. */
static double evaluate(struct witness *w, int32_t number, const int32_t *token, int64_t n, double *exact)
{
    struct remembered *r = remember(w, number, token, n);
    double squares = 0;
    for (; r->n < n; r->n++) {
        bool last = r->n == n - 1;
        r->token = xgrow(r->token, &r->cap, r->n + 1, sizeof *r->token);
        r->token[r->n] = token[r->n];
        sequence_append(r->exact, token[r->n], last ? exact : NULL);
        for (int i = 0; i < REPLICAS; i++) {
            sequence_append(r->noisy[i], token[r->n], last ? w->noisy : NULL);
            for (int32_t j = 0; j < w->m->vocab && last; j++)
                squares += (w->noisy[j] - exact[j]) * (w->noisy[j] - exact[j]);
        }
    }
    return SPREADS * sqrt(squares / ((double)w->m->vocab * REPLICAS));
}

static const struct answer *ask(struct witness *w, int32_t number, const int32_t *token, int64_t n)
{
    uint64_t path = 0;
    for (int64_t i = 0; i < n; i++)
        path = rng_mix(path + (uint64_t)token[i] + 1);
    for (int64_t i = 0; i < w->n_answers; i++)
        if (w->answer[i].path == path && w->answer[i].n == n)
            return &w->answer[i];
    w->answer = xgrow(w->answer, &w->cap_answers, w->n_answers + 1, sizeof *w->answer);
    struct answer *x = &w->answer[w->n_answers++];
    *x = (struct answer){.path = path, .n = n, .exact = xcalloc((size_t)w->m->vocab, sizeof *x->exact)};
    x->limit = evaluate(w, number, token, n, x->exact);
    return x;
}

bool logits_check_judge(struct witness *w, int32_t number, const int32_t *token, int64_t n,
                        const double *logits, struct logits_check_sum *sum, char *why)
{
    const struct answer *x = ask(w, number, token, n);
    double limit = x->limit, worst = 0;
    int32_t at = 0, best = 0, got = 0;
    for (int32_t i = 0; i < w->m->vocab; i++) {
        double error = fabs(logits[i] - x->exact[i]) / limit;
        if (!(error <= worst)) { /* NaN is the worst */
            worst = isnan(error) ? INFINITY : error;
            at = i;
        }
        best = x->exact[i] > x->exact[best] ? i : best;
        got = logits[i] > logits[got] ? i : got;
    }
    double second = -INFINITY;
    for (int32_t i = 0; i < w->m->vocab; i++)
        second = i != best ? fmax(second, x->exact[i]) : second;
    bool certain = x->exact[best] - second > 2 * limit, good = worst <= 1 && (!certain || got == best);
    sum->queries++;
    sum->greedy += certain && got == best;
    sum->worst = fmax(sum->worst, worst);
    if (!good)
        snprintf(why, 256,
                 "token %lld of sequence %d: logit %d is %.9g, alone it is %.9g (off by %.3g bounds); best "
                 "token %d, "
                 "alone %d",
                 (long long)n - 1, number, at, logits[at], x->exact[at], worst, got, best);
    return good;
}
