#include "tests/verify/faulty.h"
#include "verify/faults/faults.h"
#include "verify/judge/cover.h"
#include "verify/judge/compare.h"
#include "verify/judge/judge.h"

#include <stdlib.h>
#include <string.h>

static void copy_output(struct output *to, const struct output *from)
{
    CK(from->n_rows == to->n_rows && from->d == to->d);
    memcpy(to->o, from->o, (size_t)(to->n_rows * to->d * dtype_size[to->dtype]));
    memcpy(to->lse, from->lse, (size_t)to->n_rows * (to->dtype == DT_F64 ? sizeof(double) : sizeof(float)));
}

/* A plan that is not covered any more is refused as the judge would: not every one is safe to run. */
static bool run_on(const struct problem *p, const struct plan *plan, const struct broken *b, struct output *out,
                   struct err *e)
{
    struct ledger ignored = {0};
    if (b->plan && !cover_check(b->plan, e))
        return false;
    if (b->output)
        copy_output(out, b->output);
    return b->output || kernels[0]->run(b->problem ? b->problem : p, b->plan ? b->plan : plan, out, &ignored, e);
}

static bool run_with(const char *kind, const struct problem *p, const struct plan *plan, struct output *out,
                     struct ledger *counted, struct err *e)
{
    struct output *good = output_new(p);
    struct oracle *orc = oracle_new(p);
    struct fault_case fc = {.tree = "case",
                            .problem = p,
                            .oracle = orc,
                            .nf = plan->nf,
                            .plan = plan,
                            .kernel = kernels[0],
                            .good = good,
                            .arith = arithmetic_of(p, plan, kernels[0])};
    struct broken b = {.seed = 1};
    bool ran = kernels[0]->run(p, plan, good, counted, e);
    if (ran && fault_find(kind)->plant(&fc, &b))
        ran = run_on(p, plan, &b, out, e);
    else if (ran)
        copy_output(out, good);
    broken_clear(&b);
    oracle_free(orc);
    output_free(good);
    return ran;
}

#define FAULT(name, where, about)                                                                            \
    static bool run_##name(const struct problem *p, const struct plan *plan, struct output *out,             \
                           struct ledger *counted, struct err *e)                                            \
    {                                                                                                        \
        return run_with(#name, p, plan, out, counted, e);                                                    \
    }
#include "verify/faults/faults.def"
#undef FAULT

static const struct kernel faulty[] = {
#define FAULT(kind, where, what) {.name = "faulty-" #kind, .about = what, .run = run_##kind},
#include "verify/faults/faults.def"
#undef FAULT
};

/* Right for all data but one: where V is 1, O is 1.02. */
static bool run_law(const struct problem *p, const struct plan *plan, struct output *out,
                    struct ledger *counted, struct err *e)
{
    int64_t at = p->tree->len[0] > 0 ? problem_slot(p, 0, 0) * p->heads.h_kv * p->heads.d : 0;
    bool ones = dtype_load(p->heads.dtype, p->v, at) == 1 && dtype_load(p->heads.dtype, p->v, at + 1) == 1;
    bool ran = kernels[0]->run(p, plan, out, counted, e);
    for (int64_t i = 0; i < out->n_rows * out->d && ones; i++)
        dtype_store(out->dtype, out->o, i, 1.02 * dtype_load(out->dtype, out->o, i));
    return ran;
}

static const struct kernel faulty_law = {
    .name = "faulty-law", .about = "V = 1 gives O = 1.02", .run = run_law};

const struct kernel *faulty_kernel(const char *kind)
{
    if (strcmp(kind, "law") == 0)
        return &faulty_law;
    for (size_t i = 0; i < sizeof faulty / sizeof faulty[0]; i++)
        if (strcmp(faulty[i].name + strlen("faulty-"), kind) == 0)
            return &faulty[i];
    return NULL;
}

bool faulty_can(const char *kind)
{
    return strcmp(kind, "nan_in_oracle") && strcmp(kind, "rows_differ") && strcmp(kind, "d_differs");
}

const struct kernel *__real_kernel_find(const char *name);
const struct kernel *__wrap_kernel_find(const char *name);
const struct kernel *__wrap_kernel_find(const char *name)
{
    bool ours = strncmp(name, "faulty-", strlen("faulty-")) == 0;
    return ours ? faulty_kernel(name + strlen("faulty-")) : __real_kernel_find(name);
}
