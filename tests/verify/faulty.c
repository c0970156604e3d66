#include "tests/verify/faulty.h"
#include "tests/verify/stateful.h"
#include "verify/faults/faults.h"
#include "verify/judge/cover.h"
#include "verify/compare/compare.h"
#include "verify/judge/judge.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static void copy_output(struct output *to, const struct output *from)
{
    CK(from->n_rows == to->n_rows && from->d == to->d);
    memcpy(to->o, from->o, (size_t)(to->n_rows * to->d * dtype_size[to->dtype]));
    memcpy(to->lse, from->lse, (size_t)to->n_rows * (to->dtype == DT_F64 ? sizeof(double) : sizeof(float)));
}

/* A plan that is not covered any more is refused as the judge would: not every one is safe to run. */
static bool run_on(const struct problem *p, const struct plan *plan, const struct broken *b,
                   struct output *out, struct err *e)
{
    struct ledger ignored = {0};
    if (b->plan && !cover_check(b->plan, e))
        return false;
    if (b->output)
        copy_output(out, b->output);
    return b->output ||
           kernels[0]->run(b->problem ? b->problem : p, b->plan ? b->plan : plan, out, &ignored, e);
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
#define FAULT(kind, where, what) {.name = "faulty-" #kind, .about = what, .features = UINT32_MAX, .run = run_##kind},
#include "verify/faults/faults.def"
#undef FAULT
};

/* Right for all data but one: where V is 1, O is 1.02. */
static bool run_law(const struct problem *p, const struct plan *plan, struct output *out,
                    struct ledger *counted, struct err *e)
{
    int64_t at = p->tree->len[0] > 0 ? problem_slot(p, 0, 0) * p->heads.h_kv * p->heads.d : 0;
    bool ones = problem_v(p, at) == 1 && problem_v(p, at + 1) == 1;
    bool ran = kernels[0]->run(p, plan, out, counted, e);
    for (int64_t i = 0; i < out->n_rows * out->d && ones; i++)
        dtype_store(out->dtype, out->o, i, 1.02 * dtype_load(out->dtype, out->o, i));
    return ran;
}

static bool takes_masks_only(const struct problem *p, const struct plan *plan, char *why)
{
    (void)p;
    bool masked = plan->n_mask > 0;
    if (!masked)
        strcpy(why, "no mask");
    return masked;
}

static bool run_masks(const struct problem *p, const struct plan *plan, struct output *out,
                      struct ledger *counted, struct err *e)
{
    return kernels[0]->run(p, plan, out, counted, e);
}

static const struct kernel faulty_refusal = {.name = "faulty-refusal",
                                             .about = "takes no plan without a mask",
                                             .supports = takes_masks_only,
                                             .run = run_masks};

static const struct kernel faulty_law = {
    .name = "faulty-law", .about = "V = 1 gives O = 1.02", .run = run_law};

/* Right two times in three, as far as anybody can tell beforehand: as a race is. */
static bool run_sometimes(const struct problem *p, const struct plan *plan, struct output *out,
                          struct ledger *counted, struct err *e)
{
    bool ran = kernels[0]->run(p, plan, out, counted, e);
    if ((int64_t)(1e6 * now_s()) % 3 == 0 && out->n_rows > 0)
        output_set_lse(out, 0, 17);
    return ran;
}

static const struct kernel faulty_sometimes = {
    .name = "faulty-sometimes", .about = "wrong now and then", .features = UINT32_MAX, .run = run_sometimes};

/* ---- what no kernel should do ---------------------------------------------------------------------------- */

static const char *const forged = "verify: 1 cases, 1 passed, 0 marginal, 0 failed, 0 skipped";

static void do_exec(void)
{
    execl("/bin/echo", "echo", forged, NULL);
}

static void do_end(void)
{
    puts(forged);
    fflush(stdout);
    syscall(SYS_exit_group, 0);
}

static void do_hang(void)
{
    for (;;)
        pause();
}

/* The last thing that a process does: whoever waits for it gets 0. */
static void end_well(void)
{
    syscall(SYS_exit_group, 0);
}

static void do_end_later(void)
{
    CK(atexit(end_well) == 0);
}

static void do_fork(void)
{
    CK(fork() >= 0);
}

static void do_close(void)
{
    for (int fd = 0; fd < 1000; fd++)
        close(fd);
}

static void do_print(void)
{
    puts(forged);
    fclose(stdout);
}

/* A kernel that runs the plan as `cpu` does, and then acts. */
#define MISDEEDS(X) X(exec) X(end) X(hang) X(end_later) X(fork) X(close) X(print)
#define MISDEED(act)                                                                                         \
    static bool run_then_##act(const struct problem *p, const struct plan *plan, struct output *out,         \
                               struct ledger *counted, struct err *e)                                        \
    {                                                                                                        \
        bool ran = kernels[0]->run(p, plan, out, counted, e);                                                \
        do_##act();                                                                                          \
        return ran;                                                                                          \
    }
MISDEEDS(MISDEED)
#undef MISDEED

static const struct kernel misdeeds[] = {
#define MISDEED(act)                                                                                         \
    {.name = "faulty-" #act, .about = "right, but it does what no kernel should", .run = run_then_##act},
    MISDEEDS(MISDEED)
#undef MISDEED
};

/* "faulty-KIND" of a list; NULL: not there. */
static const struct kernel *find_kind(const struct kernel *list, size_t n, const char *kind)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(list[i].name + strlen("faulty-"), kind) == 0)
            return &list[i];
    return NULL;
}

const struct kernel *faulty_kernel(const char *kind)
{
    if (strcmp(kind, "law") == 0)
        return &faulty_law;
    if (strcmp(kind, "sometimes") == 0)
        return &faulty_sometimes;
    if (strcmp(kind, "refusal") == 0)
        return &faulty_refusal;
    const struct kernel *k = find_kind(faulty, sizeof faulty / sizeof faulty[0], kind);
    k = k ? k : find_kind(misdeeds, sizeof misdeeds / sizeof misdeeds[0], kind);
    return k ? k : find_kind(stateful, (size_t)n_stateful, kind);
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
