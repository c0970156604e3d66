#include "verify/judge/verify_run.h"
#include "kernels/cuda/host/guard_gpu.h"

#include <inttypes.h>

/* How often each strategy could be used, over all drawn cases and over the family that suits it best. */
static void print_admission(FILE *f, const struct verify_run *run)
{
    int64_t all = run->census.n;
    fprintf(f, "%-20s %10s  %s\n", "admitted", "all trees", "its best family");
    for (int32_t s = 0; s < run->job->n_use; s++) {
        const int64_t *n = run->admitted + s * N_FAMILIES;
        int64_t sum = 0;
        int best = 0;
        for (int fam = 0; fam < N_FAMILIES; fam++) {
            sum += n[fam];
            if (n[fam] * max_i64(run->drawn[best], 1) > n[best] * max_i64(run->drawn[fam], 1))
                best = fam;
        }
        fprintf(f, "  %-18s %9.1f%%  %s %.1f%%\n", run->job->use[s].s->name, 100 * (double)sum / (double)all,
                family_name[best], 100 * (double)n[best] / (double)max_i64(run->drawn[best], 1));
    }
}

/* What a GPU ran, besides the results: nothing where none did. */
static void print_device(FILE *f)
{
    struct guarded_tally t = guarded_tally();
    struct cuda_caps c;
    if (t.runs == 0 || !cuda_caps(&c, NULL))
        return;
    fprintf(f,
            "%s: %" PRId64 " runs, %" PRId64 " KiB of canaries untouched; %" PRId64
            " replays of a CUDA graph with the same bits\n",
            c.name, t.runs, t.guard_bytes >> 10, t.replays);
}

bool verify_any_ran(const struct verify_run *run)
{
    return totals_cases(&run->totals) > run->totals.n[V_SKIP];
}

void verify_report_absent(void)
{
    for (int32_t k = 0; k < n_kernels; k++) {
        struct err e = {0};
        if (!kernel_ready(kernels[k], &e))
            fprintf(stderr, "not here: %s: %s\n", kernels[k]->name, e.msg);
    }
}

void verify_report(FILE *f, const struct verify_run *run)
{
    if (run->census.n > 0) {
        census_print(f, &run->census);
        print_admission(f, run);
    }
    if (run->cover)
        pairs_met_print(f, run->cover, run->whole);
    print_device(f);
    if (run->compared)
        fprintf(f, "worst error %.3g of its bound\n", run->totals.worst);
    if (run->job->properties)
        fprintf(f, "laws: %" PRId64 " held, %" PRId64 " broken\n", run->held, run->broken);
    for (int32_t k = 0; k < n_kernels; k++)
        if (run->refused[k] > 0)
            fprintf(f, "%s skipped %" PRId64 " plans, the first because %s\n", kernels[k]->name,
                    run->refused[k], run->refusal[k]);
    if (run->smallest && totals_cases(&run->totals) > MANY) /* rows stand between */
        fputs(run->smallest, f);
    if (!verify_any_ran(run))
        fprintf(f, "no case ran: all were skipped, the first because %s\n", run->skipped);
    totals_print(f, "verify", &run->totals);
}
