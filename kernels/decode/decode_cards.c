/*
 * decode_cards.c - a decoder made of one decoder for each card of a host, each driven by a thread of its own.
 *
 *   tensor     a card has some heads, and the columns of W_O that belong to them; MLP and head are split alike. Cards add up the
 *              residual stream after O and after the MLP: two all-reduces a layer.
 *   otherwise  a card computes Q, K and V of all heads, keeps K and V of its pages, and attends to them. O and LSE of all cards
 *              are gathered; each card merges those of the heads that it multiplies by W_O. Then as above. (Helix parallelism,
 *              Bhatia et al., 2025, has the same split of the products.)
 *
 * Tokens that move from card to card go through the host: accepted tokens of speculative decoding, now and then.
 */
#include "kernels/decode/decode_cards.h"
#include "kernels/decode/link.h"

#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

struct card;
/* Something that a card's thread does. */
typedef bool (*card_work)(struct card *c, void *arg, struct err *e);

struct card {
    struct cards *all;
    int32_t rank;
    pthread_t thread;
    bool running, joined, good;
    struct err e;
    struct decoder *d;
    struct decoder_spec spec;
    struct card_view view; /* of the step to come; not with PARALLEL_TENSOR */
    struct problem p;
    int64_t *slot; /* [max_queries] */
};

struct cards {
    struct decoder base;
    struct decoder_type shown; /* base.type: called as the type of its cards */
    const struct decoder_type *inner;
    int32_t n;
    int64_t room; /* pages of a card; behind them are those of tokens that another card keeps */
    struct placement *placement;
    struct cards_link link;
    struct card card[CARDS_MOST];
    pthread_mutex_t lock;
    pthread_cond_t given, done;
    int64_t jobs;    /* given so far */
    int32_t working; /* cards that have not finished the last one */
    card_work work;
    void *arg;
};

static struct cards *self(struct decoder *d)
{
    return (struct cards *)d;
}

/* ---- threads --------------------------------------------------------------------------------------------- */

static void *card_thread(void *arg)
{
    struct card *c = arg;
    struct cards *x = c->all;
    omp_set_num_threads((int)max_i64(1, omp_get_num_procs() / x->n));
    for (int64_t job = 1;; job++) {
        pthread_mutex_lock(&x->lock);
        while (x->jobs < job)
            pthread_cond_wait(&x->given, &x->lock);
        card_work work = x->work;
        pthread_mutex_unlock(&x->lock);
        c->e = (struct err){0};
        c->good = !work || work(c, x->arg, &c->e);
        if (!c->good)
            link_break(&x->link);
        pthread_mutex_lock(&x->lock);
        if (--x->working == 0)
            pthread_cond_signal(&x->done);
        pthread_mutex_unlock(&x->lock);
        if (!work)
            return NULL;
    }
}

/* With `alone` only one of the cards is there. */
static bool is_there(const struct cards *x, int32_t card)
{
    return !x->base.spec.alone || card == x->base.spec.rank;
}

static int32_t first_card(const struct cards *x)
{
    return x->base.spec.alone ? x->base.spec.rank : 0;
}

/* All cards do it, side by side. The error is that of the first card with one of its own: others only notice. work NULL: the
 * threads end. */
static bool on_all(struct cards *x, card_work work, void *arg, struct err *e)
{
    bool good = true;
    pthread_mutex_lock(&x->lock);
    x->work = work;
    x->arg = arg;
    x->working = x->base.spec.alone ? 1 : x->n;
    x->jobs++;
    pthread_cond_broadcast(&x->given);
    while (x->working > 0)
        pthread_cond_wait(&x->done, &x->lock);
    pthread_mutex_unlock(&x->lock);
    for (int32_t c = 0; c < x->n; c++)
        if (is_there(x, c) && !x->card[c].good) {
            good = false;
            if (x->card[c].e.code && e && !e->code)
                *e = x->card[c].e;
        }
    return good || err_set(e, "the cards do not go on after one of them failed");
}

/* ---- open and close -------------------------------------------------------------------------------------- */

static bool do_open(struct card *c, void *arg, struct err *e)
{
    (void)arg;
    const struct decoder_type *type = c->all->inner;
    if (c->spec.link && type->join && !type->join(c->spec.link, c->rank, e))
        return false;
    c->joined = c->spec.link != NULL;
    c->d = decoder_open(type, &c->spec, e);
    return c->d != NULL;
}

static bool do_close(struct card *c, void *arg, struct err *e)
{
    (void)arg;
    (void)e;
    bool leaves = c->joined && c->all->inner->leave, broken = c->all->link.broken;
    if (leaves && broken) /* nothing waits for others any more */
        c->all->inner->leave(&c->all->link, c->rank);
    decoder_close(c->d);
    if (leaves && !broken)
        c->all->inner->leave(&c->all->link, c->rank);
    return true;
}

static void cards_close(struct decoder *base)
{
    struct cards *x = self(base);
    if (x->card[first_card(x)].running) {
        on_all(x, do_close, NULL, NULL);
        on_all(x, NULL, NULL, NULL);
    }
    for (int32_t c = 0; c < x->n; c++) {
        if (x->card[c].running)
            pthread_join(x->card[c].thread, NULL);
        card_view_clear(&x->card[c].view);
        free(x->card[c].slot);
    }
    placement_free(x->placement);
    link_close(&x->link);
    pthread_mutex_destroy(&x->lock);
    pthread_cond_destroy(&x->given);
    pthread_cond_destroy(&x->done);
    free(x);
}

static bool check_split(const struct decoder_spec *s, struct err *e)
{
    const struct model *m = s->model;
    struct heads heads = model_heads(m, s->dtype);
    struct heads_part part;
    if (s->n_cards > CARDS_MOST)
        return err_set(e, "%d cards (expected at most %d)", s->n_cards, CARDS_MOST);
    if (s->graph && !s->alone)
        return err_set(e, "a step as one CUDA graph is for one card (expected no graph)");
    if (!cards_model(m, s->n_cards, e))
        return false;
    return s->parallel != PARALLEL_TENSOR || cards_heads(&heads, s->parallel, s->n_cards, 0, &part, e);
}

/* ---- steps ------------------------------------------------------------------------------------------------ */

static bool is_split(const struct cards *x) /* the tree, and not the heads */
{
    return x->placement != NULL;
}

int32_t decoder_card_problems(struct decoder *d, const struct problem *p,
                              const struct problem *out[CARDS_MOST])
{
    if (decoder_cards(&d->spec) == 1)
        return 0;
    struct cards *x = self(d);
    if (is_split(x))
        placement_advance(x->placement, p->tree, p->page_off, p->page_table, p->page_size);
    int32_t n = 0;
    for (int32_t i = 0; i < x->n; i++) {
        struct card *c = &x->card[i];
        if (!is_there(x, i))
            continue;
        struct heads_part h = decoder_heads(&c->spec);
        card_view_clear(&c->view);
        c->p = *p;
        c->p.heads.h_q = h.n_q;
        c->p.heads.h_kv = h.n_kv;
        c->p.n_pages = c->spec.n_pages;
        out[n++] = &c->p;
        if (!is_split(x))
            continue;
        c->view = placement_view(x->placement, i, p->tree, p->page_off, p->page_table, p->page_size, true);
        c->p.tree = c->view.tree;
        c->p.page_off = c->view.page_off;
        c->p.page_table = c->view.page_table;
    }
    return is_split(x) ? n : 1;
}

/* The card's own slot for one of the pool, the tree being split; -1: another card has its page. */
static int64_t local_slot(const struct cards *x, int32_t card, int64_t slot)
{
    int32_t size = x->base.spec.page_size;
    int32_t page = placement_local(x->placement, card, (int32_t)(slot / size));
    return page < 0 ? -1 : (int64_t)page * size + slot % size;
}

/* Where the card keeps K and V of query q's own token: in its page, or, if another card has that, where nobody looks. */
static int64_t own_slot(const struct card *c, int64_t slot, int32_t q)
{
    const struct cards *x = c->all;
    if (!is_split(x))
        return slot;
    int64_t own = local_slot(x, c->rank, slot);
    return own < 0 ? x->room * c->spec.page_size + q : own;
}

static bool do_step(struct card *c, void *arg, struct err *e)
{
    const struct decode_step *s = arg;
    struct decode_step own = *s;
    for (int32_t q = 0; q < s->p->tree->n_queries; q++)
        c->slot[q] = own_slot(c, s->slot[q], q);
    own.p = &c->p;
    own.slot = c->slot;
    own.plan = s->plan ? s->card_plan[is_split(c->all) ? c->rank - first_card(c->all) : 0] : NULL;
    own.card_plan = NULL;
    return decoder_step(c->d, &own, e);
}

static bool cards_step(struct decoder *d, const struct decode_step *s, struct err *e)
{
    return on_all(self(d), do_step, (void *)s, e);
}

static bool do_finish(struct card *c, void *arg, struct err *e)
{
    (void)arg;
    return decoder_finish(c->d, e);
}

static bool cards_finish(struct decoder *d, struct err *e)
{
    return on_all(self(d), do_finish, NULL, e);
}

static bool do_wait(struct card *c, void *arg, struct err *e)
{
    struct decode_time *t = arg;
    return decoder_wait(c->d, &t[c->rank], e);
}

/* Of each time the card's that took longest. */
static bool cards_wait(struct decoder *d, struct decode_time *t, struct err *e)
{
    struct decode_time time[CARDS_MOST] = {0};
    bool good = on_all(self(d), do_wait, time, e);
    *t = (struct decode_time){0}; /* as are those of cards that are not there */
    for (int32_t c = 0; c < self(d)->n; c++) {
        t->whole_s = fmax(t->whole_s, time[c].whole_s);
        t->attention_s = fmax(t->attention_s, time[c].attention_s);
        t->idle_s = fmax(t->idle_s, time[c].idle_s);
        t->move_s = fmax(t->move_s, time[c].move_s);
        t->layout_s = fmax(t->layout_s, time[c].layout_s);
        t->enqueue_s = fmax(t->enqueue_s, time[c].enqueue_s);
        t->upload_bytes += time[c].upload_bytes;
    }
    return good;
}

static bool cards_supports(const struct decoder *d, const struct problem *p, const struct plan *plan,
                           char *why)
{
    const struct cards *x = (const struct cards *)d;
    const struct card *c = &x->card[first_card(x)];
    struct heads_part h = decoder_heads(&c->spec);
    struct problem own = *p;
    own.heads.h_q = h.n_q;
    own.heads.h_kv = h.n_kv;
    return !c->d->type->supports || c->d->type->supports(c->d, &own, plan, why);
}

/* ---- K and V ----------------------------------------------------------------------------------------------- */

/* What moves: for each card those tokens that it has in both places; and those that cross. */
struct moves {
    bool in_place; /* none is in from and to */
    int64_t n[CARDS_MOST], crossing;
    int64_t *from[CARDS_MOST], *to[CARDS_MOST];
    struct crossing {
        int32_t from_card, to_card;
        int64_t from, to; /* slots of these */
    } * cross;
    char *held; /* [crossing][layers][2][a token] */
    int64_t token;
    bool write;
};

static bool do_cross(struct card *c, void *arg, struct err *e)
{
    struct moves *m = arg;
    int32_t layers = c->spec.model->layers;
    bool good = true;
    for (int64_t i = 0; i < m->crossing && good; i++)
        for (int32_t l = 0; l < layers && good; l++) {
            const struct crossing *x = &m->cross[i];
            char *k = m->held + (i * layers + l) * 2 * m->token, *v = k + m->token;
            if (m->write ? x->to_card == c->rank : x->from_card == c->rank)
                good = m->write ? c->d->type->put(c->d, l, x->to, k, v, e)
                                : decoder_kv(c->d, l, x->from, 1, k, v, e);
        }
    return good;
}

static bool do_moves(struct card *c, void *arg, struct err *e)
{
    const struct moves *m = arg;
    return m->in_place ? decoder_copy(c->d, m->n[c->rank], m->from[c->rank], m->to[c->rank], e)
                       : decoder_move(c->d, m->n[c->rank], m->from[c->rank], m->to[c->rank], e);
}

static void sort_move(struct cards *x, struct moves *m, int64_t from, int64_t to)
{
    int32_t size = x->base.spec.page_size, source = 0;
    if (is_split(x)) {
        placement_follow(x->placement, (int32_t)(from / size), (int32_t)(to / size));
        while (source < x->n && local_slot(x, source, from) < 0)
            source++;
        if (source == x->n) /* nobody has it: a page that no step has had */
            return;
    }
    for (int32_t c = 0; c < x->n; c++) {
        int64_t here = is_split(x) ? local_slot(x, c, from) : from,
                there = is_split(x) ? local_slot(x, c, to) : to;
        if (there < 0 || !is_there(x, c))
            continue;
        if (here < 0 && !is_there(x, source))
            continue;
        if (here >= 0) {
            m->from[c][m->n[c]] = here;
            m->to[c][m->n[c]++] = there;
        } else {
            m->cross[m->crossing++] = (struct crossing){source, c, local_slot(x, source, from), there};
        }
    }
}

static bool move_tokens(struct cards *x, int64_t n, const int64_t *from, const int64_t *to, bool in_place,
                        struct err *e)
{
    const struct decoder_spec *s = &x->base.spec;
    struct moves m = {.in_place = in_place,
                      .token =
                          (int64_t)decoder_heads(&x->card[0].spec).n_kv * s->model->d * dtype_size[s->dtype]};
    for (int32_t c = 0; c < x->n; c++) {
        m.from[c] = xcalloc((size_t)n, sizeof *m.from[c]);
        m.to[c] = xcalloc((size_t)n, sizeof *m.to[c]);
    }
    m.cross = xcalloc((size_t)(n * x->n), sizeof *m.cross);
    for (int64_t i = 0; i < n; i++)
        sort_move(x, &m, from[i], to[i]);
    m.held = xcalloc((size_t)(m.crossing * s->model->layers), (size_t)(2 * m.token));
    bool good = (m.crossing == 0 || on_all(x, do_cross, &m, e)) && on_all(x, do_moves, &m, e);
    m.write = true;
    good = good && (m.crossing == 0 || on_all(x, do_cross, &m, e));
    for (int32_t c = 0; c < x->n; c++) {
        free(m.from[c]);
        free(m.to[c]);
    }
    free(m.cross);
    free(m.held);
    return good;
}

static bool cards_move(struct decoder *d, int64_t n, const int64_t *from, const int64_t *to, struct err *e)
{
    return move_tokens(self(d), n, from, to, false, e);
}

static bool cards_copy(struct decoder *d, int64_t n, const int64_t *from, const int64_t *to, struct err *e)
{
    return move_tokens(self(d), n, from, to, true, e);
}

struct slots {
    int64_t first, n;
};

/* A card that has pages of its own fills all of them: which of the pool's they will be is not known yet. */
static bool do_fill(struct card *c, void *arg, struct err *e)
{
    struct slots s = *(struct slots *)arg;
    if (is_split(c->all))
        s = (struct slots){0, c->spec.n_pages * c->spec.page_size};
    return decoder_fill(c->d, s.first, s.n, e);
}

static bool cards_fill(struct decoder *d, int64_t first, int64_t n, struct err *e)
{
    return on_all(self(d), do_fill, &(struct slots){first, n}, e);
}

/* ---- results ---------------------------------------------------------------------------------------------- */

/* Each card's rows of `bytes` side by side: to[rows][cards][bytes]. */
static void side_by_side(char *to, int32_t cards, int32_t card, int64_t rows, int64_t bytes, const void *from)
{
    for (int64_t i = 0; i < rows; i++)
        memcpy(to + (i * cards + card) * bytes, (const char *)from + i * bytes, (size_t)bytes);
}

struct wanted_logits {
    double *out;
    int64_t n;
};

static bool do_logits(struct card *c, void *arg, struct err *e)
{
    const struct wanted_logits *w = arg;
    int32_t words = decoder_share(&c->spec, c->spec.model->vocab);
    double *own = xcalloc((size_t)(w->n * words), sizeof *own);
    bool good = decoder_logits(c->d, own, e);
    if (good)
        side_by_side((char *)w->out, c->all->n, c->rank, w->n, words * (int64_t)sizeof *own, own);
    free(own);
    return good;
}

static bool cards_logits(struct decoder *d, double *out, int64_t n, struct err *e)
{
    return on_all(self(d), do_logits, &(struct wanted_logits){out, n}, e);
}

struct wanted_kept {
    int32_t layer;
    int64_t n;
    void *q, *o;
    double *lse;
};

static bool do_kept(struct card *c, void *arg, struct err *e)
{
    const struct wanted_kept *w = arg;
    int32_t cards = c->all->n, heads = decoder_heads(&c->spec).n_q, outputs = decoder_outputs(&c->spec).n_q;
    int64_t row = (int64_t)c->spec.model->d * dtype_size[c->spec.dtype];
    void *q = xcalloc((size_t)(w->n * heads), (size_t)row),
         *o = xcalloc((size_t)(w->n * outputs), (size_t)row);
    double *lse = xcalloc((size_t)(w->n * outputs), sizeof *lse);
    bool good = decoder_kept(c->d, w->layer, q, o, lse, e);
    if (good) {
        side_by_side(w->o, cards, c->rank, w->n, outputs * row, o);
        side_by_side((char *)w->lse, cards, c->rank, w->n, outputs * (int64_t)sizeof *lse, lse);
        if (!is_split(c->all))
            side_by_side(w->q, cards, c->rank, w->n, heads * row, q);
        else if (c->rank == 0) /* all have the same */
            memcpy(w->q, q, (size_t)(w->n * heads * row));
    }
    free(q);
    free(o);
    free(lse);
    return good;
}

static bool cards_kept(struct decoder *d, int32_t layer, int64_t n, void *q, void *o, double *lse,
                       struct err *e)
{
    return on_all(self(d), do_kept, &(struct wanted_kept){layer, n, q, o, lse}, e);
}

struct wanted_kv {
    int32_t layer;
    struct slots slots;
    char *k, *v;
};

/* A stretch of the pool's slots that follow each other on the card, too; heads h.kv0 .. of each. */
static bool read_stretch(struct card *c, const struct wanted_kv *w, int64_t at, int64_t from, int64_t n,
                         struct err *e)
{
    struct heads_part h = decoder_heads(&c->spec);
    int64_t head = (int64_t)c->spec.model->d * dtype_size[c->spec.dtype], own = h.n_kv * head,
            row = c->spec.model->h_kv * head;
    char *k = xcalloc((size_t)n, (size_t)own), *v = xcalloc((size_t)n, (size_t)own);
    bool good = decoder_kv(c->d, w->layer, from, n, k, v, e);
    for (int64_t i = 0; i < n && good; i++) {
        memcpy(w->k + (at + i) * row + h.kv0 * head, k + i * own, (size_t)own);
        memcpy(w->v + (at + i) * row + h.kv0 * head, v + i * own, (size_t)own);
    }
    free(k);
    free(v);
    return good;
}

/* The card's slot for it, if it is the first card that has one. */
static int64_t first_slot(const struct cards *x, int32_t card, int64_t slot)
{
    for (int32_t c = 0; c < card; c++)
        if (local_slot(x, c, slot) >= 0)
            return -1;
    return local_slot(x, card, slot);
}

static bool do_kv(struct card *c, void *arg, struct err *e)
{
    const struct wanted_kv *w = arg;
    struct cards *x = c->all;
    bool good = true;
    if (!is_split(x))
        return read_stretch(c, w, 0, w->slots.first, w->slots.n, e);
    for (int64_t i = 0, n; i < w->slots.n && good; i += n) {
        int64_t from = first_slot(x, c->rank, w->slots.first + i);
        n = 1;
        while (from >= 0 && i + n < w->slots.n && first_slot(x, c->rank, w->slots.first + i + n) == from + n)
            n++;
        good = from < 0 || read_stretch(c, w, i, from, n, e);
    }
    return good;
}

/* Slots in pages that no card has hold what memory held: nobody may read them. */
static bool cards_kv(struct decoder *d, int32_t layer, int64_t first, int64_t n, void *k, void *v,
                     struct err *e)
{
    const struct decoder_spec *s = &d->spec;
    size_t bytes = (size_t)(n * s->model->h_kv * s->model->d * dtype_size[s->dtype]);
    memset(k, 0xFF, bytes);
    memset(v, 0xFF, bytes);
    return on_all(self(d), do_kv, &(struct wanted_kv){layer, {first, n}, k, v}, e);
}

static const struct decoder_type cards_type = {
    .supports = cards_supports,
    .close = cards_close,
    .step = cards_step,
    .finish = cards_finish,
    .wait = cards_wait,
    .move = cards_move,
    .copy = cards_copy,
    .fill = cards_fill,
    .logits = cards_logits,
    .kept = cards_kept,
    .kv = cards_kv,
};

struct decoder *decoder_cards_open(const struct decoder_type *type, const struct decoder_spec *s,
                                   struct err *e)
{
    if (!check_split(s, e))
        return NULL;
    struct cards *x = xcalloc(1, sizeof *x);
    x->inner = type;
    x->shown = cards_type;
    x->shown.name = type->name;
    x->shown.about = type->about;
    x->base = (struct decoder){.type = &x->shown, .spec = *s};
    x->n = s->n_cards;
    x->room = placement_room(s->parallel, x->n, s->n_pages);
    if (s->parallel != PARALLEL_TENSOR)
        x->placement = placement_new(s->parallel, x->n, s->n_pages, x->room);
    link_open(&x->link, x->n);
    pthread_mutex_init(&x->lock, NULL);
    pthread_cond_init(&x->given, NULL);
    pthread_cond_init(&x->done, NULL);
    for (int32_t i = 0; i < x->n; i++) {
        struct card *c = &x->card[i];
        *c = (struct card){.all = x, .rank = i, .spec = *s};
        c->spec.card = true;
        c->spec.link = s->alone ? NULL : &x->link;
        c->spec.rank = i;
        c->spec.n_pages = is_split(x) ? x->room + ceil_div(s->max_queries, s->page_size) : s->n_pages;
        if (!is_there(x, i))
            continue;
        c->slot = xcalloc((size_t)s->max_queries, sizeof *c->slot);
        CK(pthread_create(&c->thread, NULL, card_thread, c) == 0);
        c->running = true;
    }
    if (on_all(x, do_open, NULL, e))
        return &x->base;
    cards_close(&x->base);
    return NULL;
}
