/*
 * headers.cc - the headers that a kernel or a harness of one's own includes, as C++ and nvcc see them.
 *
 * Nothing runs: `make check-headers` compiles it. A function of each header is declared again, which fails where the header
 * gave it the linkage of C++, under whose name the library does not have it. headers.sh looks at all functions of all headers;
 * here is what it cannot see: inline ones and macros.
 */
#include "kernels/cuda/host/cuda.h"
#include "kernels/kernel.h"
#include "verify/judge/cover.h"
#include "verify/judge/judge.h"

extern "C" {
[[noreturn]] void ck_fail(const char *file, int line, const char *expr);
struct nform *nform_new(const struct tree *t);
struct output *output_new(const struct problem *p);
struct oracle *oracle_new(const struct problem *p);
void plan_free(struct plan *p);
const struct machine *machine_default(void);
struct strategy_use strategy_default(const struct strategy *s);
const struct kernel *kernel_find(const char *name);
void *gpu_alloc(int64_t bytes, struct err *e);
struct tree *levels_parse(const char *text, struct err *e);
void trace_close(struct trace *tr);
void tree_source_clear(struct tree_source *s);
void case_clear(struct case_spec *c);
double compare_bound(const struct problem *p, const struct oracle *orc, const struct arithmetic *a,
                     int64_t row, double *bound_o);
bool cover_check(const struct plan *p, struct err *e);
void test_case_free(struct test_case *b);
}

/* What is inline in them, and the macros. */
int64_t used(const struct problem *p, const struct plan *plan, struct ledger *sum)
{
    CK(plan->n_groups > 0);
    ledger_add(sum, sum);
    struct run r = plan_tree_run(plan, plan->run);
    return problem_slot(p, r.node, r.begin) + plan_visible(plan, plan->group, 0, 0) + ledger_partials(sum);
}
