/*
 * bench_gpu.h - `treeattn bench-gpu`: plans timed on a GPU, each beside what the card could do at best.
 *
 * Protocol of one tree and head count:
 *
 *   1. All strategies plan, for an H200 whatever the card. Plans go to the device before any data exist.
 *   2. Q, K, V and the page table are drawn on the device. The exact answer is computed there in double
 *      (kernels/cuda/host/exact.h). The host checks a sample of its rows against its own sums.
 *   3. For each strategy the run is captured in a CUDA graph. Before each replay O, LSE and partial results
 *      are poisoned, and 256 MB are written to empty the L2 cache, both outside of the timed span. The span is
 *      one replay between two events, merges inside (runs have no counters).
 *   4. What the last timed replay wrote is compared with the exact answer, every element, in units of the
 *      derived bound.
 *
 * A row begins when memory is as fast as ever, or after three seconds of waiting for that. Where a plan's
 * workspace had tens of GB, the driver clears them after they are freed. Plans of the next second would take
 * up to 1.14 of their time.
 *
 * The floor is max(unique bytes / read bandwidth, operations / tensor peak): each token that some query sees read once,
 * Q read once, O written once; 4 d operations for each (query head, visible token). Bandwidth and peak are measured in
 * the same run. A time under the floor is INVALID.
 */
#ifndef TREEATTN_VERIFY_BENCH_BENCH_GPU_H
#define TREEATTN_VERIFY_BENCH_BENCH_GPU_H

#include "sim/strategy.h"
#include "verify/bench/card_limits.h"
#include "verify/judge/compare.h"
#include "verify/cases/tree_source.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a plan launches at once: CTAs of all groups, and how uneven they are in tokens. */
struct gpu_grid {
    int64_t ctas;
    double longest; /* over the mean */
};
struct gpu_grid gpu_grid_of(const struct plan *plan, int32_t h_q, int32_t h_kv);

enum gpu_verdict { GPU_PASS, GPU_MARGINAL, GPU_FAIL, GPU_SKIP, GPU_INVALID };
extern const char *const gpu_verdict_name[];

struct gpu_config {
    const char *set; /* "fasttree-fig9", or "-" */
    int32_t number;  /* in its set; 0: none */
    struct tree_source src;
    struct problem_spec spec;
};

struct gpu_row {
    const struct gpu_config *config;
    const struct strategy_use *use;
    enum gpu_verdict verdict;
    struct gpu_time time;
    struct gpu_need need;
    struct gpu_grid grid;
    double floor_us;
    struct ledger ledger; /* of the plan */
    int64_t bytes;        /* its sum */
    int64_t unique_kv;
    double plan_ms, upload_ms;
    double worst; /* error in bounds */
    char why[256];
};
/* Verdict of a row that was timed, judged and is not a SKIP. */
enum gpu_verdict gpu_verdict_of(enum verdict compared, double median_us, double floor_us);
/* Has it a time that may be shown beside others? */
bool gpu_row_counts(const struct gpu_row *r);

/* All bytes that a plan moves, by its ledger. */
int64_t gpu_ledger_bytes(const struct ledger *a);

struct gpu_bench {
    struct cuda_options opt;
    const struct kernel *kernel; /* what opt.kernel is called; says whether probabilities are narrow */
    int64_t reps;
    struct gpu_limits limits;
    int32_t sms;
    uint64_t seed;
    bool distinct;        /* a plan that a strategy before has made already is no row */
    bool fastest;         /* of a strategy's plans only the fastest is a row, timed once more */
    bool flush_reads;     /* what empties the L2 is read once more: none of it is left to be written back */
    void *flush, *stream; /* made by gpu_bench_open */
    /* Microseconds that reading 256 MB takes at best; how often and for how long rows waited until it took no longer;
     * rows that began when it did. */
    double probe_us, waited_s;
    int64_t waits, disturbed;
};
bool gpu_bench_open(struct gpu_bench *b, struct err *e);
void gpu_bench_close(struct gpu_bench *b);
/* Every strategy on one tree; of rows[n_use] *n_rows are filled, all but where b->distinct or b->fastest. False with *e set
 * if the card fails; a strategy that does not apply, or a tree too large for the card's memory, is a SKIP. */
bool gpu_bench_config(struct gpu_bench *b, const struct gpu_config *c, const struct strategy_use *use,
                      int32_t n_use, struct gpu_row *rows, int32_t *n_rows, struct err *e);

/* "fasttree-fig9,pat-fig9,speculative": *out is an array of *n; free each src with tree_source_clear, then the array. spec
 * gives all but the heads, which are those of the set unless `heads` (then spec's). number > 0: only that tree. */
bool gpu_sets(const char *list, const struct problem_spec *spec, bool heads, int64_t number,
              struct gpu_config **out, int32_t *n, struct err *e);

#ifdef __cplusplus
}
#endif

#endif
