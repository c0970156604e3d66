/*
 * bench_gpu.h - `treeattn bench-gpu`: plans timed on a GPU, each beside what the card could do at best.
 *
 * Protocol of one tree and head count:
 *
 *   1. All strategies plan, for an H200 whatever the card. Plans go to the device before any data exist.
 *   2. Q, K, V and the page table are drawn on the device. The exact answer is computed there in double
 *      (kernels/cuda/host/exact.h). The host checks a sample of its rows against its own sums.
 *   3. For each strategy the run is captured in a CUDA graph. Before each replay O, LSE and partial results are poisoned. Then
 *      256 MB are written and read to empty the L2 cache, which is cold and clean afterwards. Both are outside of the timed span.
 *      The span is one replay between two events, merges inside (runs have no counters).
 *   4. What the last timed replay wrote is compared with the exact answer, every element, in units of the
 *      derived bound.
 *
 * A row begins when memory is as fast as ever, or after three seconds of waiting for that. Where a plan's
 * workspace had tens of GB, the driver clears them after they are freed. Plans of the next second would take
 * up to 1.14 of their time.
 *
 * The floor is max(unique bytes / read bandwidth, operations / tensor peak): each token that some query sees read once,
 * Q read once, O written once; 4 d operations for each (query head, visible token). Bandwidth and peak are measured in
 * the same run.
 *
 * No kernel of plans reaches the floor of a small tree: launch, item, page, K and V, and result follow each other, and a merge
 * waits for partial results. A probe without arithmetic (kernels/cuda/probe) measures that least chain in the same run, by the
 * same protocol. So the limit is floor + chain. A time under floor + 0.8 chain is INVALID.
 */
#ifndef TREEATTN_VERIFY_BENCH_BENCH_GPU_H
#define TREEATTN_VERIFY_BENCH_BENCH_GPU_H

#include "kernels/cuda/host/cuda.h"
#include "kernels/cuda/probe/chain.h"
#include "sim/strategy.h"
#include "verify/cases/tree_source.h"
#include "verify/io/table.h"
#include "verify/compare/compare.h"

BEGIN_C

/* ---- timing (card_limits.c) ------------------------------------------------------------------------------ */

/* Something enqueued on a stream; turn counts from 0. */
typedef bool gpu_action(void *of, int64_t turn, void *stream, struct err *e);
/* `before` (may be NULL), then `timed` between two events, n times in a row; microseconds of each into us[n]. */
bool gpu_time_each(gpu_action *before, gpu_action *timed, void *of, int64_t n, void *stream, double *us,
                   struct err *e);

struct gpu_time {
    double median_us, mad_us, min_us, p90_us; /* mad: median distance from the median */
    int64_t reps;
};
/* Sorts us. n >= 1. */
struct gpu_time gpu_time_of(double *us, int64_t n);

/* Device memory that is read or copied. */
struct gpu_span {
    uint8_t *from, *to;
    int64_t bytes;
    int way; /* of reading: 0 .. GPU_READ_WAYS - 1 */
};
/* Reads all of a struct gpu_span; what is left of it goes to `to`. */
gpu_action gpu_do_read;

/* ---- limits and floors ----------------------------------------------------------------------------------- */

struct gpu_limits {
    /* Bytes per second, of the fastest of 20: reading 16 GiB less reading 2 GiB, so without the cost of a launch; copying,
     * read and written together. */
    double read_bps, copy_bps;
    double tensor_flops; /* of an 8192^3 bf16 product on random data */
};
bool gpu_limits_measure(struct gpu_limits *x, struct err *e);

/* What a tree cannot do without. */
struct gpu_need {
    double bytes, operations;
};
struct gpu_need gpu_need(const struct nform *nf, const struct problem_spec *s);
/* Bytes of K and V that some query sees, each token once. */
int64_t gpu_unique_kv(const struct nform *nf, const struct problem_spec *s);
double gpu_floor_us(const struct gpu_need *need, const struct gpu_limits *x);

/* ---- the data of one tree on a card, and the exact answer for it (exact_gpu.c) ---------------------------- */

struct gpu_data {
    struct problem *p; /* the caller's: no Q, K, V; the page table from gpu_data_draw on */
    uint64_t seed;
    int64_t pool;                      /* elements of K, and of V; from gpu_data_draw on */
    void *q, *k, *v, *pages, *o, *lse; /* on the device */
    void *k_scale, *v_scale;           /* of K and V in 8 bits */
    struct oracle *truth;              /* on the host, from gpu_exact on */
};
/* Pages, Q, K and V of x->p from x->seed, and room for O and LSE. For after every plan was made. False with *e set if the
 * card fails; gpu_data_free in either case. */
bool gpu_data_draw(struct gpu_data *x, void *stream, struct err *e);
void gpu_data_free(struct gpu_data *x);
/* The exact answer into x->truth, and a sample of it checked. */
bool gpu_exact(struct gpu_data *x, void *stream, struct err *e);
/* What the card wrote against it: all rows, by all cores, some queries at a time. The worst error, in units of its bound, into
 * *worst if it is larger, and into why the first words on the worst verdict. */
enum verdict gpu_exact_compare(const struct gpu_data *x, const struct output *out, const struct arithmetic *a,
                               double *worst, char why[256]);

/* ---- rows of a bench (bench_gpu.c) ------------------------------------------------------------------------ */

/* What a plan launches at once: CTAs of all groups, and how uneven they are in tokens. */
struct gpu_grid {
    int64_t ctas;
    double longest; /* over the mean */
};
struct gpu_grid gpu_grid_of(const struct plan *plan, int32_t h_q, int32_t h_kv);

/* Why a plan's kernel need not come near the read bandwidth. ONE_ROW: most tokens are read by tiles that have one row. */
enum gpu_excuse { EXCUSE_NONE, EXCUSE_SERIAL, EXCUSE_UNFUSED, EXCUSE_ONE_ROW };
enum gpu_excuse gpu_excuse_of(const struct plan *plan, int32_t h_q, int32_t h_kv);

enum gpu_verdict { GPU_PASS, GPU_MARGINAL, GPU_FAIL, GPU_SKIP, GPU_INVALID };
extern const char *const gpu_verdict_name[];

struct gpu_config {
    char set[32];   /* "fasttree-fig9", or "-" */
    int32_t number; /* in its set; 0: none */
    struct tree_source src;
    struct problem_spec spec;
};

struct gpu_row {
    const struct gpu_config *config;
    const struct strategy_use *use;
    const char *peer, *peer_version; /* NULL: a plan of ours; else the name of a child, and there is no use */
    enum gpu_verdict verdict;
    struct gpu_time time;
    double again_us; /* the median of ours after all children; NAN: there were none */
    struct gpu_need need;
    struct gpu_grid grid;
    enum gpu_excuse excuse;
    double floor_us, chain_us; /* chain_us: from its timing on */
    struct ledger ledger;      /* of the plan */
    int64_t bytes;             /* its sum */
    int64_t unique_kv;
    double plan_ms, upload_ms; /* plan_ms of a child NAN: it does not say */
    double worst; /* error in bounds */
    char why[256];
};
/* Verdict of a row that was timed, judged and is not a SKIP. */
enum gpu_verdict gpu_verdict_of(enum verdict compared, double median_us, double floor_us, double chain_us);
/* Time over floor + chain; 1 is the limit. */
double gpu_over_limit(const struct gpu_row *r);
/* Has it a time that may be shown beside others? */
bool gpu_row_counts(const struct gpu_row *r);

struct gpu_bench {
    struct cuda_options opt;
    const struct kernel *kernel; /* what opt.kernel is called; says whether probabilities are narrow */
    int64_t reps;
    struct gpu_limits limits;
    int32_t sms;
    uint64_t seed;
    bool distinct;        /* a plan that a strategy before has made already is no row */
    bool fastest;         /* of a strategy's plans only the fastest is a row, timed once more */
    struct live_peers *live; /* NULL, or children that are timed after ours, on the same data (live_peers.h) */
    bool flush_reads;     /* what empties the L2 is read once more: none of it is left to be written back */
    void *flush, *stream; /* made by gpu_bench_open */
    struct gpu_chain *probe; /* likewise */
    /* Microseconds of an empty kernel, and of the least chain without and with a merge; 0 before the first row is timed. */
    double empty_us, chain_us[2];
    /* Microseconds that reading 256 MB takes at best; how often and for how long rows waited until it took no longer;
     * rows that began when it did. */
    double probe_us, waited_s;
    int64_t waits, disturbed;
};
bool gpu_bench_open(struct gpu_bench *b, struct err *e);
void gpu_bench_close(struct gpu_bench *b);
/* Empties the L2, enqueued; what the bytes become changes with the turn. */
bool gpu_flush(const struct gpu_bench *b, int64_t turn, void *stream, struct err *e);
/* Times the probe into empty_us and chain_us: medians, of a merge the least of the ways to it (chain_gpu.c). */
bool gpu_chain_measure(struct gpu_bench *b, struct err *e);
/* Every strategy on one tree, then every child; of rows[n_use + children] *n_rows are filled, all but where b->distinct or b->fastest. False with *e set
 * if the card fails; a strategy that does not apply, or a tree too large for the card's memory, is a SKIP. */
bool gpu_bench_config(struct gpu_bench *b, const struct gpu_config *c, const struct strategy_use *use,
                      int32_t n_use, struct gpu_row *rows, int32_t *n_rows, struct err *e);

/* "fasttree-fig9,pat-fig9,FILE.csv" (sets_gpu.c): *out is an array of *n; free each src with tree_source_clear, then the array. spec
 * gives all but the heads, which are those of the set unless `heads` (then spec's). A file is a table with columns tree and heads,
 * perhaps set and number; a row that it has before is left out. */
bool gpu_sets(const char *names, const struct problem_spec *spec, bool heads, struct gpu_config **out,
              int32_t *n, struct err *e);

/* ---- kernels that others released, as somebody timed them: the format of ../shared/peers/README.md --------- */

struct gpu_peer {
    char *tree; /* "1,10_4096,416" */
    int32_t h_q, h_kv;
    char method[16];
    double us;
    double read_bps; /* of its own card, in its own run */
};
struct gpu_peers {
    int64_t n, cap;
    struct gpu_peer *at;
};
/* Every *.csv of a folder. Files with other columns and rows that were not measured are left out; a row that is cut off is an
 * error, and so is a folder without timings. Free with gpu_peers_free. */
bool gpu_peers_read(const char *dir, struct gpu_peers *out, struct err *e);
void gpu_peers_free(struct gpu_peers *p);
/* Of the card that the peers ran on: bytes per second, operations per second. */
#define PEER_READ_BPS 4525e9
#define PEER_TENSOR_FLOPS 790e12

/* ---- rows for people and programs (rows_gpu.c) ------------------------------------------------------------ */

/* Time over floor, ours against a peer's, over the rows that both have; the floor of each is its own card's. */
struct gpu_match {
    int64_t n, better;
    double ratio; /* geometric mean of ours / the peer's; under 1 we are nearer to our floor */
};
/* strategy, as strategy_label says it, or NULL: the best of ours on each tree; method NULL: the best of the peers. */
struct gpu_match gpu_match(const struct gpu_row *rows, int64_t n_rows, const struct gpu_peers *peers,
                           const char *strategy, const char *method);

/* The bars of issue and README, in words, each line after `lead`. */
void gpu_summary(FILE *f, const char *lead, const struct gpu_bench *b, const struct gpu_row *rows,
                 int64_t n_rows, const struct gpu_peers *peers);

extern const char *const gpu_columns[];
extern const int32_t gpu_width[];
void gpu_row_print(struct printer *t, const struct gpu_bench *b, const char *device, const struct gpu_row *r);

END_C

#endif
