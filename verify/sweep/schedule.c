#include "verify/sweep/schedule.h"

#include <stdlib.h>
#include <string.h>

enum {
    GUIDE = 3,     /* a range is this part of what a rank has still to expect; */
    FIRST = 64,    /* of its whole part, while nobody knows how fast it is */
    LARGE = 50,    /* a task over this part of a rank's whole part goes first */
    MOST_COPIES = 2
};
#define MOST_SECONDS 1.0 /* of a range: what a rank that is lost takes with it */
#define AHEAD 0.05       /* seconds of work that cover the way of a message and back */
#define LATE 1.0         /* seconds, and twice what was predicted, until what a rank is at is done by another, too */

struct holder {
    int64_t *task; /* [n] in the order in which they are done; -1: it is not the rank's any more */
    int64_t n, cap, first, held;
    double cost;             /* of what is held, */
    double last;             /* and of the range that was handed out last */
    double done, busy, from; /* cost that was done, in so many seconds before `from`; from < 0: it has no work */
    double heard;            /* when it was handed something, or did something, last */
    int32_t width;           /* 0: it takes no part */
};

struct schedule {
    int64_t n, left, repeated, next;
    double pool, whole; /* cost that was not handed out yet, and of all */
    double *cost;
    int64_t *order;     /* [n] as they are handed out */
    uint8_t *done, *copies, *crashes;
    int64_t *again, n_again, cap_again, first_again; /* of ranks that were lost */
    int64_t twice;
    struct holder *rank;
    int32_t n_ranks;
    int64_t *out, n_out, cap_out;
};

static int dearest_first(const void *a, const void *b, void *cost)
{
    const double *cost_of = cost;
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return cost_of[x] > cost_of[y] ? -1 : cost_of[x] < cost_of[y] ? 1 : (x > y) - (x < y);
}

struct schedule *schedule_new(const double *cost, int64_t n, int32_t n_ranks)
{
    struct schedule *s = xcalloc(1, sizeof *s);
    *s = (struct schedule){.n = n, .left = n, .n_ranks = n_ranks, .twice = -1};
    s->cost = xcalloc((size_t)n, sizeof *s->cost);
    s->order = xcalloc((size_t)n, sizeof *s->order);
    s->done = xcalloc((size_t)n, 1);
    s->copies = xcalloc((size_t)n, 1);
    s->crashes = xcalloc((size_t)n, 1);
    s->rank = xcalloc((size_t)n_ranks, sizeof *s->rank);
    for (int64_t i = 0; i < n; i++)
        s->whole += s->cost[i] = cost ? cost[i] : 1;
    double large = s->whole / n_ranks / LARGE;
    int64_t k = 0;
    for (int64_t i = 0; i < n; i++)
        if (s->cost[i] > large)
            s->order[k++] = i;
    qsort_r(s->order, (size_t)k, sizeof *s->order, dearest_first, s->cost);
    for (int64_t i = 0; i < n; i++)
        if (!(s->cost[i] > large))
            s->order[k++] = i;
    s->pool = s->whole;
    return s;
}

void schedule_free(struct schedule *s)
{
    if (!s)
        return;
    for (int32_t r = 0; r < s->n_ranks; r++)
        free(s->rank[r].task);
    free(s->cost);
    free(s->order);
    free(s->done);
    free(s->copies);
    free(s->crashes);
    free(s->again);
    free(s->rank);
    free(s->out);
    free(s);
}

void schedule_join(struct schedule *s, int32_t rank, int32_t width)
{
    s->rank[rank].width = width;
    s->rank[rank].from = -1;
}

/* Cost a second; 0: not known. */
static double rate_of(const struct holder *h, double now)
{
    double seconds = h->busy + (h->from >= 0 ? now - h->from : 0);
    return h->done > 0 && seconds > 0 ? h->done / seconds : 0;
}

/* This rank's part of all that ranks do in a second; *mean: of those whose rate is known. */
static double part_of(const struct schedule *s, int32_t rank, double now, double *mean)
{
    double sum = 0;
    int32_t known = 0, all = 0;
    for (int32_t r = 0; r < s->n_ranks; r++) {
        double rate = s->rank[r].width > 0 ? rate_of(&s->rank[r], now) : 0;
        all += s->rank[r].width > 0;
        known += rate > 0;
        sum += rate;
    }
    *mean = known > 0 ? sum / known : 0;
    sum += *mean * (all - known);
    double own = rate_of(&s->rank[rank], now);
    return sum > 0 ? (own > 0 ? own : *mean) / sum : 1.0 / (all > 0 ? all : 1);
}

static void give(struct schedule *s, int32_t rank, int64_t i)
{
    struct holder *h = &s->rank[rank];
    if (h->first > 0 && h->first >= h->n - h->first) { /* forget what is over */
        memmove(h->task, h->task + h->first, (size_t)(h->n - h->first) * sizeof *h->task);
        h->n -= h->first;
        h->first = 0;
    }
    h->task = xgrow(h->task, &h->cap, h->n + 1, sizeof *h->task);
    h->task[h->n++] = i;
    h->held++;
    h->cost += s->cost[i];
    s->repeated += s->copies[i] > 0;
    s->copies[i]++;
    s->out = xgrow(s->out, &s->cap_out, s->n_out + 1, sizeof *s->out);
    s->out[s->n_out++] = i;
}

/* Is it at one at which another crashed? Then nothing else. */
static bool holds_crashed(const struct schedule *s, const struct holder *h)
{
    for (int64_t k = h->first; k < h->n && h->held == 1; k++)
        if (h->task[k] >= 0)
            return s->crashes[h->task[k]] > 0;
    return false;
}

static bool wants(const struct schedule *s, const struct holder *h, double now)
{
    double rate = rate_of(h, now);
    if (h->width == 0 || holds_crashed(s, h))
        return false;
    return h->held < h->width || h->cost <= max_f64(rate * AHEAD, h->last / 2);
}

/* What is to be done again, before all else. */
static void hand_again(struct schedule *s, int32_t rank)
{
    struct holder *h = &s->rank[rank];
    double most = s->whole / s->n_ranks / FIRST;
    while (s->first_again < s->n_again && (s->n_out == 0 || h->cost < most)) {
        int64_t i = s->again[s->first_again];
        bool alone = s->crashes[i] > 0;
        if (alone && h->held > 0)
            return;
        s->first_again++;
        if (s->done[i] || s->copies[i] > 0)
            continue;
        give(s, rank, i);
        if (alone)
            return;
    }
}

static void hand_range(struct schedule *s, int32_t rank, double now)
{
    struct holder *h = &s->rank[rank];
    double mean, part = part_of(s, rank, now, &mean), rate = rate_of(h, now), cost = 0,
                 most = rate > 0 ? min_f64(s->pool * part / GUIDE, rate * MOST_SECONDS) : s->whole * part / FIRST;
    while (s->next < s->n && (s->n_out == 0 || h->held < h->width || cost < most)) {
        int64_t i = s->order[s->next];
        if (s->n_out > 0 && h->held >= h->width && cost + s->cost[i] > most)
            break;
        s->next++;
        s->pool -= s->cost[i];
        cost += s->cost[i];
        give(s, rank, i);
    }
}

static bool has(const struct holder *h, int64_t i)
{
    for (int64_t k = h->first; k < h->n; k++)
        if (h->task[k] == i)
            return true;
    return false;
}

/* May rank r do again task number k of those that v holds? What v is at only when it is late. */
static bool may_copy(const struct schedule *s, const struct holder *h, const struct holder *v, int64_t k, int64_t before,
                     double now, double rate)
{
    int64_t i = v->task[k];
    if (i < 0 || s->copies[i] >= MOST_COPIES || s->crashes[i] > 0 || has(h, i))
        return false;
    return before >= v->width || now - v->heard > LATE + (rate > 0 ? 2 * s->cost[i] / rate : 0);
}

/* All is handed out: half of what the slowest has before it, from its end. */
static void hand_copies(struct schedule *s, int32_t rank, double now)
{
    struct holder *h = &s->rank[rank];
    double mean, longest = 0, rate = (part_of(s, rank, now, &mean), rate_of(h, now));
    struct holder *slowest = NULL;
    rate = rate > 0 ? rate : mean;
    for (int32_t r = 0; r < s->n_ranks; r++) {
        struct holder *v = &s->rank[r];
        double its = rate_of(v, now), time = v->cost / (its > 0 ? its : mean > 0 ? mean : 1);
        bool any = false;
        if (r == rank || v->held == 0 || time <= longest)
            continue;
        for (int64_t k = v->first, before = 0; k < v->n && !any; k++) {
            any = may_copy(s, h, v, k, before, now, rate);
            before += v->task[k] >= 0;
        }
        if (any) {
            longest = time;
            slowest = v;
        }
    }
    double cost = 0, most = slowest ? slowest->cost / 2 : 0;
    int64_t before = slowest ? slowest->held : 0;
    for (int64_t k = slowest ? slowest->n - 1 : -1; slowest && k >= slowest->first && (s->n_out == 0 || cost < most); k--) {
        before -= slowest->task[k] >= 0;
        if (!may_copy(s, h, slowest, k, before, now, rate))
            continue;
        cost += s->cost[slowest->task[k]];
        give(s, rank, slowest->task[k]);
    }
}

int64_t schedule_hand(struct schedule *s, int32_t rank, double now, const int64_t **task)
{
    struct holder *h = &s->rank[rank];
    double before = h->cost;
    s->n_out = 0;
    *task = s->out;
    if (s->left == 0 || !wants(s, h, now))
        return 0;
    bool idle = h->held == 0;
    hand_again(s, rank);
    if (s->n_out == 0 && s->next < s->n)
        hand_range(s, rank, now);
    if (s->n_out == 0 && idle)
        hand_copies(s, rank, now);
    if (s->n_out == 0)
        return 0;
    h->last = h->cost - before;
    h->from = idle ? now : h->from;
    h->heard = idle ? now : h->heard;
    *task = s->out;
    return s->n_out;
}

/* Whoever holds it does no more. */
static void take_back(struct schedule *s, struct holder *h, int64_t i, double now)
{
    for (int64_t k = h->first; k < h->n; k++)
        if (h->task[k] == i) {
            h->task[k] = -1;
            h->held--;
            h->cost = h->held > 0 ? h->cost - s->cost[i] : 0;
            while (h->first < h->n && h->task[h->first] < 0)
                h->first++;
            if (h->held == 0 && h->from >= 0) {
                h->busy += now - h->from;
                h->from = -1;
            }
            return;
        }
}

bool schedule_done(struct schedule *s, int32_t rank, int64_t task, double now)
{
    struct holder *h = &s->rank[rank];
    CK(task >= 0 && task < s->n);
    h->heard = now;
    h->done += s->cost[task];
    if (s->done[task])
        return false;
    s->done[task] = 1;
    s->left--;
    take_back(s, h, task, now);
    for (int32_t r = 0; r < s->n_ranks && s->copies[task] > 1; r++)
        take_back(s, &s->rank[r], task, now);
    return true;
}

int64_t schedule_lost(struct schedule *s, int32_t rank, bool crashed)
{
    struct holder *h = &s->rank[rank];
    int64_t n = 0;
    for (int64_t k = h->first; k < h->n; k++) {
        int64_t i = h->task[k];
        if (i < 0)
            continue;
        if (crashed && n < h->width && ++s->crashes[i] > 1 && s->twice < 0)
            s->twice = i;
        n++;
        if (--s->copies[i] == 0) {
            s->again = xgrow(s->again, &s->cap_again, s->n_again + 1, sizeof *s->again);
            s->again[s->n_again++] = i;
            s->repeated++; /* it will be handed out once more */
        }
    }
    free(h->task);
    *h = (struct holder){.from = -1};
    return n;
}

int64_t schedule_twice_crashed(const struct schedule *s)
{
    return s->twice;
}

int64_t schedule_left(const struct schedule *s)
{
    return s->left;
}

int64_t schedule_repeated(const struct schedule *s)
{
    return s->repeated;
}
