#include "tests/verify/stateful.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool run_right(const struct problem *p, const struct plan *plan, struct output *out,
                      struct ledger *counted, struct err *e)
{
    return kernels[0]->run(p, plan, out, counted, e);
}

/* Bytes that were kept under an address. */
struct kept {
    const void *at;
    size_t bytes;
    char *copy;
};

/* What lies at that address, as it was when it was first asked for; a buffer of another size is another one. */
static void *keep(struct kept *x, const void *at, size_t bytes)
{
    if (x->at != at || x->bytes != bytes) {
        free(x->copy);
        *x = (struct kept){at, bytes, xmalloc(bytes)};
        memcpy(x->copy, at, bytes);
    }
    return x->copy;
}

static size_t pool_bytes(const struct problem *p)
{
    return (size_t)(p->n_pages * p->page_size * p->heads.h_kv * p->heads.d * heads_kv_bytes(&p->heads));
}

static size_t o_bytes(const struct output *out)
{
    return (size_t)(out->n_rows * out->d * dtype_size[out->dtype]);
}

/* ---- by address --------------------------------------------------------------------------------------------- */

/* The answer of a plan that it ran before. */
static bool run_keeps_answer(const struct problem *p, const struct plan *plan, struct output *out,
                             struct ledger *counted, struct err *e)
{
    static _Thread_local const struct plan *of;
    static _Thread_local struct kept o, lse;
    size_t lse_bytes = (size_t)out->n_rows * (out->dtype == DT_F64 ? sizeof(double) : sizeof(float));
    if (of == plan && o.bytes == o_bytes(out) && lse.bytes == lse_bytes) {
        memcpy(out->o, o.copy, o.bytes);
        memcpy(out->lse, lse.copy, lse.bytes);
        return true;
    }
    if (!run_right(p, plan, out, counted, e))
        return false;
    of = plan;
    o.at = lse.at = NULL;
    keep(&o, out->o, o_bytes(out));
    keep(&lse, out->lse, lse_bytes);
    return true;
}

/* K is brought into another layout, once for each pool. */
static bool run_keeps_k(const struct problem *p, const struct plan *plan, struct output *out,
                        struct ledger *counted, struct err *e)
{
    static _Thread_local struct kept k;
    struct problem mine = *p;
    mine.k = keep(&k, p->k, pool_bytes(p));
    return run_right(&mine, plan, out, counted, e);
}

static bool run_keeps_v(const struct problem *p, const struct plan *plan, struct output *out,
                        struct ledger *counted, struct err *e)
{
    static _Thread_local struct kept v;
    struct problem mine = *p;
    mine.v = keep(&v, p->v, pool_bytes(p));
    return run_right(&mine, plan, out, counted, e);
}

static bool run_keeps_q(const struct problem *p, const struct plan *plan, struct output *out,
                        struct ledger *counted, struct err *e)
{
    static _Thread_local struct kept q;
    struct problem mine = *p;
    mine.q = keep(&q, p->q, (size_t)(out->n_rows * out->d * heads_elt_bytes(&p->heads)));
    return run_right(&mine, plan, out, counted, e);
}

/* The page table is uploaded where its address is new. */
static bool run_keeps_pages(const struct problem *p, const struct plan *plan, struct output *out,
                            struct ledger *counted, struct err *e)
{
    static _Thread_local struct kept pages;
    struct problem mine = *p;
    mine.page_table =
        keep(&pages, p->page_table, (size_t)p->page_off[p->tree->n_nodes] * sizeof *p->page_table);
    return run_right(&mine, plan, out, counted, e);
}

/* ---- by counts ---------------------------------------------------------------------------------------------- */

/* Runs of a plan are uploaded where their number is new. What they say beyond a node's end is not read. */
static bool run_keeps_lengths(const struct problem *p, const struct plan *plan, struct output *out,
                              struct ledger *counted, struct err *e)
{
    static _Thread_local int64_t n_runs, n_groups, n_nodes;
    static _Thread_local struct run *run;
    struct ledger ignored = {0};
    struct plan *mine = plan_copy(plan);
    (void)counted;
    if (run && n_runs == plan->n_runs && n_groups == plan->n_groups && n_nodes == plan->nf->n_nodes) {
        for (int64_t i = 0; i < n_runs; i++) {
            struct run *r = &mine->run[i];
            int64_t len = plan->nf->len[r->node], begin = min_i64(run[i].begin, len - 1);
            *r = (struct run){r->node, begin, max_i64(min_i64(run[i].end, len), begin + 1)};
        }
        for (int64_t i = 0; i < n_groups; i++) {
            mine->group[i].n_kv = 0;
            for (int64_t r = mine->group[i].run0; r < mine->group[i].run1; r++)
                mine->group[i].n_kv += mine->run[r].end - mine->run[r].begin;
        }
    } else {
        free(run);
        n_runs = plan->n_runs;
        n_groups = plan->n_groups;
        n_nodes = plan->nf->n_nodes;
        run = xcalloc((size_t)n_runs, sizeof *run);
        if (n_runs > 0)
            memcpy(run, plan->run, (size_t)n_runs * sizeof *run);
    }
    bool ran = run_right(p, mine, out, &ignored, e);
    plan_free(mine);
    return ran;
}

/* ---- buffers of its own -------------------------------------------------------------------------------------- */

/* Adds to sums that are set to 0 only when their buffer is made. */
static bool run_cleared_once(const struct problem *p, const struct plan *plan, struct output *out,
                             struct ledger *counted, struct err *e)
{
    static _Thread_local double *sum;
    static _Thread_local int64_t size;
    int64_t n = out->n_rows * out->d;
    if (!run_right(p, plan, out, counted, e))
        return false;
    if (n > size) {
        free(sum);
        sum = xcalloc((size_t)n, sizeof *sum);
        size = n;
    }
    for (int64_t i = 0; i < n; i++)
        dtype_store(out->dtype, out->o, i, sum[i] += dtype_load(out->dtype, out->o, i));
    return true;
}

/* The running sum of a row begins where the last run left it. */
static bool run_sums_left(const struct problem *p, const struct plan *plan, struct output *out,
                          struct ledger *counted, struct err *e)
{
    static _Thread_local double *left;
    static _Thread_local int64_t n;
    if (!run_right(p, plan, out, counted, e))
        return false;
    double *sum = xcalloc((size_t)out->n_rows, sizeof *sum);
    for (int64_t i = 0; i < out->n_rows; i++) {
        sum[i] = exp(output_lse(out, i));
        if (i < n && isfinite(left[i]))
            output_set_lse(out, i, log(sum[i] + left[i]));
    }
    free(left);
    left = sum;
    n = out->n_rows;
    return true;
}

/* The last row is done by whoever brings a counter to a multiple of three, which is not set back. */
static bool run_counter_left(const struct problem *p, const struct plan *plan, struct output *out,
                             struct ledger *counted, struct err *e)
{
    static _Thread_local int64_t counter;
    bool ran = run_right(p, plan, out, counted, e);
    if (ran && counter++ % 2 == 1 && out->n_rows > 0)
        output_set_lse(out, out->n_rows - 1, NAN);
    return ran;
}

/* ---- from the first case alone -------------------------------------------------------------------------------- */

/* The scale is a constant that the first run sets. */
static bool run_first_scale(const struct problem *p, const struct plan *plan, struct output *out,
                            struct ledger *counted, struct err *e)
{
    static _Thread_local double scale;
    struct problem mine = *p;
    if (scale == 0)
        scale = p->scale;
    mine.scale = scale;
    return run_right(&mine, plan, out, counted, e);
}

/* Rows beyond what the first run had do not fit its buffer. */
static bool run_first_size(const struct problem *p, const struct plan *plan, struct output *out,
                           struct ledger *counted, struct err *e)
{
    static _Thread_local int64_t rows;
    bool ran = run_right(p, plan, out, counted, e);
    if (rows == 0)
        rows = out->n_rows;
    for (int64_t i = rows; i < out->n_rows && ran; i++)
        output_set_lse(out, i, 0);
    return ran;
}

const struct kernel stateful[] = {
    {.name = "faulty-keeps_answer", .about = "keeps answers by a plan's address", .features = UINT32_MAX, .run = run_keeps_answer},
    {.name = "faulty-keeps_q", .about = "keeps Q by its address", .features = UINT32_MAX, .run = run_keeps_q},
    {.name = "faulty-keeps_k", .about = "keeps K by its address", .features = UINT32_MAX, .run = run_keeps_k},
    {.name = "faulty-keeps_v", .about = "keeps V by its address", .features = UINT32_MAX, .run = run_keeps_v},
    {.name = "faulty-keeps_pages", .about = "keeps the page table by its address", .features = UINT32_MAX, .run = run_keeps_pages},
    {.name = "faulty-keeps_lengths", .about = "keeps runs by their number", .features = UINT32_MAX, .run = run_keeps_lengths},
    {.name = "faulty-cleared_once", .about = "sums begin at 0 once", .features = UINT32_MAX, .run = run_cleared_once},
    {.name = "faulty-sums_left", .about = "sums begin where the last run ended", .features = UINT32_MAX, .run = run_sums_left},
    {.name = "faulty-counter_left", .about = "a counter is not set back", .features = UINT32_MAX, .run = run_counter_left},
    {.name = "faulty-first_scale", .about = "keeps the first scale", .features = UINT32_MAX, .run = run_first_scale},
    {.name = "faulty-first_size", .about = "keeps the first number of rows", .features = UINT32_MAX, .run = run_first_size},
};
const int32_t n_stateful = sizeof stateful / sizeof stateful[0];

bool stateful_shows_alone(const struct kernel *k)
{
    return k->run != run_first_scale && k->run != run_first_size;
}
