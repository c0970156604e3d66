#include "verify/model/simulate_steps.h"
#include "ref/tails.h"
#include "verify/judge/cover.h"
#include "verify/io/crash.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PORTIONS = 64 }; /* of a trace's steps */

/* What planners may add up: every query with all that it sees; K, V and all forms of the scores in 8 bytes. A plan is priced
 * only when it is known how much that can come to (price_most). */
static double most_of(const struct nform *nf, const struct heads *heads)
{
    double pairs = 0;
    for (int32_t i = 0; i < nf->n_nodes; i++)
        pairs += ((double)nf->len[i] + 1) * ((double)nf->q1[i] - nf->q0[i]);
    return pairs * heads->h_q * (4.0 * heads->d + 8) * 8;
}

static bool ledger_within(const struct ledger *l, double most)
{
    bool within = true;
#define X(field, meaning) within = within && (double)l->field <= most;
    LEDGER_FIELDS(X)
#undef X
    return within;
}

static void add_times(struct simulated_times *sum, const struct simulated_times *x)
{
#define X(field, of) sum->field += x->field;
    SIMULATED_TIMES(X)
#undef X
    sum->trip_s += x->trip_s;
    sum->fitted_s += x->fitted_s;
    sum->kv += x->kv;
    sum->unseen += x->unseen;
}

static struct simulated_times time_plan(const struct simulation *s, int32_t i, const struct plan *p)
{
    enum { OF_NOTHING, OF_KERNEL, OF_ATTENTION };
    struct time_model c = time_model_plan(p, &s->env.heads, s->env.machine, &s->coefs, 0, CLOCK_TOTALS);
    const double time[] = {[OF_NOTHING] = 1, [OF_KERNEL] = c.kernel_s, [OF_ATTENTION] = c.attention_s};
    struct simulated_times x = {.trip_s = c.trip_s * s->coefs.kernel,
                                .unseen = s->coefs.unseen > 0 ? price_unseen(p, &s->env.heads) : 0};
#define X(field, of) x.field = (double)c.field * time[of];
    SIMULATED_TIMES(X)
#undef X
    time_model_free(&c);
    double trait[MAX_TRAITS];
    if (s->model)
        s->model->of(p, &s->env.heads, s->env.machine, s->coef[i] + s->model->n, trait);
    for (int32_t j = 0; s->model && j < s->model->n; j++)
        x.fitted_s += s->coef[i][j] * trait[j];
    return x;
}

static bool too_many_bytes(struct err *e)
{
    return err_set(e, "more bytes than 64 bits count (expected fewer tokens, queries, heads or layers)");
}

struct plan *simulation_plan(const struct simulation *s, int32_t i, const struct nform *nf, char why[WHY_MAX])
{
    if (s->command)
        crash_planning(s->use[i].s->name, s->command);
    struct plan *p = strategy_plan(&s->use[i], nf, &s->env, why);
    if (s->command)
        crash_done();
    return p;
}

/* One strategy on one tree, added to its row. False with *e set if the plan is wrong, or a field is above `most`. */
static bool add_plan(const struct simulation *s, int32_t i, const struct nform *nf, int64_t step,
                     bool checked, double most, double floor, struct simulated_row *row, struct err *e)
{
    char why[WHY_MAX];
    struct plan *p = simulation_plan(s, i, nf, why);
    if (!p) {
        row->skipped_at = step;
        memcpy(row->why, why, sizeof why);
        return true;
    }
    if (checked && !cover_check_of(p, s->use[i].s->name, e, "step %" PRId64, step)) {
        plan_free(p); /* who counts trusts its indices */
        return false;
    }
    if (price_most(p, &s->env.heads) >= 0x1p62) {
        plan_free(p);
        return too_many_bytes(e);
    }
    struct ledger moved = count_plan(p, &s->env.heads, s->mode);
    bool good = ledger_within(&moved, most) || too_many_bytes(e);
    if (good)
        ledger_add(&row->moved, &moved);
    row->floor += floor;
    row->steps++;
    row->groups += p->n_groups;
    if (s->timed) {
        struct simulated_times time = time_plan(s, i, p);
        time.kv = (double)(s->mode == COUNT_TRUE ? moved.kv : ledger_of_plan(p, &s->env.heads).kv);
        add_times(&row->time, &time);
    }
    plan_free(p);
    return good;
}

struct tree *simulation_tree(const struct simulation_source *src, int64_t step, struct err *e)
{
    if (!src->trace)
        return tree_copy(src->tree);
    struct tree *t = trace_tree(src->trace, step);
    if (src->q_len > 0 && !tree_set_tails(t, src->q_len, e)) {
        tree_free(t);
        return NULL;
    }
    tree_set_window(t, src->window);
    return t;
}

static bool run_step(const struct simulation *s, const struct simulation_source *src, int64_t step,
                     double most, struct simulated_row *row, struct err *e)
{
    struct tree *t = simulation_tree(src, step, e);
    if (!t)
        return false;
    struct nform *nf = nform_new(t);
    bool good = most_of(nf, &s->env.heads) < 0x1p63 || too_many_bytes(e);
    double floor = price_floor(nf, &s->env.heads);
    for (int32_t i = 0; i < s->n_use && good; i++)
        if (row[i].skipped_at == 0)
            good = add_plan(s, i, nf, step, (step - src->first) % COVER_EVERY == 0, most, floor, &row[i], e);
    nform_free(nf);
    tree_free(t);
    return good;
}

void simulated_add(struct simulated_row *sum, const struct simulated_row *r)
{
    ledger_add(&sum->moved, &r->moved);
    add_times(&sum->time, &r->time);
    sum->floor += r->floor;
    sum->steps += r->steps;
    sum->groups += r->groups;
    if (sum->skipped_at == 0 && r->skipped_at > 0) {
        sum->skipped_at = r->skipped_at;
        memcpy(sum->why, r->why, sizeof sum->why);
    }
}

void simulated_add_layers(struct simulated_row *sum, const struct simulated_row *r, int64_t n)
{
    struct simulated_row all = *r;
#define X(field, meaning) all.moved.field *= n;
    LEDGER_FIELDS(X)
#undef X
#define X(field, of) all.time.field *= (double)n;
    SIMULATED_TIMES(X)
#undef X
    all.moved.launches = r->moved.launches;
    all.time.trip_s *= (double)n;
    all.time.fitted_s *= (double)n;
    all.time.kv *= (double)n;
    all.time.unseen *= (double)n;
    all.floor *= (double)n;
    all.steps = sum->steps > 0 ? 0 : r->steps;
    simulated_add(sum, &all);
}

bool simulate_steps(const struct simulation *s, const struct simulation_source *src, int64_t times,
                    struct simulated_row *row, struct progress *progress, struct err *e)
{
    int64_t n = src->last - src->first + 1, portions = min_i64(n, PORTIONS);
    double most = 0x1p62 / (double)times / (double)n; /* of a field, of a layer in a step */
    bool good = true;
    struct simulated_row *part = xcalloc((size_t)(portions * s->n_use), sizeof *part);
#pragma omp parallel for schedule(dynamic, 1) reduction(&& : good)
    for (int64_t k = 0; k < portions; k++)
        for (int64_t i = k * n / portions; i < (k + 1) * n / portions; i++) {
            struct err x = {0};
            if (!run_step(s, src, src->first + i, most, part + k * s->n_use, &x)) {
                good = false;
#pragma omp critical
                if (e && e->code == 0)
                    *e = x;
            }
            if (progress)
#pragma omp critical
                progress_step(progress);
        }
    memset(row, 0, (size_t)s->n_use * sizeof *row);
    for (int64_t k = 0; k < portions; k++)
        for (int32_t i = 0; i < s->n_use; i++)
            simulated_add(&row[i], &part[k * s->n_use + i]);
    free(part);
    return good;
}
