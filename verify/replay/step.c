#include "verify/replay/step.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

bool step_new(struct step *s, const struct trace *trace, int64_t t, struct pool *pool,
              const struct strategy_use *use, const struct plan_env *env, struct err *e)
{
    int64_t cap = 0;
    *s = (struct step){.t = t, .use = use};
    s->tree = trace_step(trace, t, &s->parts);
    double begin = now_s();
    s->page_off = xcalloc((size_t)s->tree->n_nodes + 1, sizeof *s->page_off);
    if (!pool_advance(pool, s->tree, &s->parts, t, &s->moved, e))
        return false;
    pool_table(pool, s->tree, &s->parts, s->page_off, &s->page_table, &cap);
    double pooled = now_s();
    s->nf = nform_new(s->tree);
    s->plan = use ? strategy_plan(use, s->nf, env, s->why) : NULL;
    s->pool_s = pooled - begin;
    s->plan_s = now_s() - pooled;
    return true;
}

void step_free(struct step *s)
{
    plan_free(s->plan);
    nform_free(s->nf);
    for (int32_t c = 0; c < s->n_views; c++)
        card_view_clear(&s->view[c]);
    free(s->view);
    free(s->page_off);
    free(s->page_table);
    trace_parts_free(&s->parts);
    tree_free(s->tree);
    *s = (struct step){0};
}

/* ---- sums ---------------------------------------------------------------------------------------------- */

void replay_add(struct replay_total *sum, const struct replay_total *x)
{
    if (sum->fate == FATE_RAN && x->fate != FATE_RAN) {
        sum->fate = x->fate;
        memcpy(sum->why, x->why, sizeof sum->why);
    }
    sum->needs = fmax(sum->needs, x->needs);
    sum->looked_at += x->looked_at;
#define X(field, how, about)                                                                                 \
    sum->field = how == SUM_MOST ? max_i64(sum->field, x->field) : sum->field + x->field;
    REPLAY_COUNTS(X)
#undef X
#define X(field, how, about)                                                                                 \
    sum->time.field = how == SUM_MOST ? fmax(sum->time.field, x->time.field) /* leaves NaN out */            \
                                      : sum->time.field + x->time.field;
    REPLAY_TIMES(X)
#undef X
}

void replay_add_row(struct replay_total *sum, const struct replay_row *row)
{
    struct replay_total one = {.looked_at = 1};
    const int64_t times[] = {
        [SUM_ALL] = 1, [SUM_WEIGHTED] = row->weight, [SUM_PLANNED] = row->planned, [SUM_MOST] = 1};
#define X(field, how, about) one.field = row->field * times[how];
    REPLAY_COUNTS(X)
#undef X
#define X(field, how, about) one.time.field = row->time.field * (double)times[how];
    REPLAY_TIMES(X)
#undef X
    replay_add(sum, &one);
}
