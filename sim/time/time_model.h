/*
 * time_model.h - how long a plan takes on a machine: CTAs on SM slots that share bandwidth and tensor cores.
 *
 *   CTAs      a group is ceil(nq * g / tile_m) Q tiles x h_kv heads, in this order (heads fastest); a merge step
 *             is h_kv CTAs (ctas.h). They move the bytes that plan_ledger.h prices, unless `unseen` is
 *             below 1, and multiply whole tiles.
 *   alone     a CTA by itself takes start + max(DRAM bytes / c_d, bytes / c_l, operations / c_o), where c_d
 *             and c_l are what it has in flight / the round trip to DRAM or L2, and c_o is an SM's tensor peak
 *   shared    what the running CTAs would draw together may exceed the machine's DRAM bandwidth, L2 bandwidth
 *             or tensor peak; then all of them slow down by the factor that makes it fit (Little's law:
 *             queues lengthen everybody's latency alike)
 *   slots     a tile's shared memory, registers and threads say how many of its CTAs an SM holds; CTAs start
 *             in grid order on the least loaded SM as soon as there is room
 *   launches  concurrent launches feed one queue; a serial one waits for all before it and costs a launch
 *   L2        tokens that were read before hit the L2 if CTAs that run at the same time read them, or if less
 *             than the L2's size was fetched since; a query's own copy (replicated storage) is never shared
 *
 * Deterministic, no state, no globals. All times in seconds, all sizes in bytes, operations are floating-point
 * operations (two per multiply-add).
 */
#ifndef TREEATTN_SIM_TIME_TIME_MODEL_H
#define TREEATTN_SIM_TIME_TIME_MODEL_H

#include "sim/time/machine.h"
#include "sim/plan_ledger.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * What no data sheet says: X(name, default, least, most, meaning). Defaults were measured by probes or are
 * reasoned; time_model.c says which. Coefficients of `treeattn fit` replace them.
 *     latency = base + launch * serial launches + concurrent * concurrent launches
 *               + kernel * (time of all CTAs) + planning
 */
#define CLOCK_COEFS(X)                                                                                       \
    X(base, 2.4e-6, 0, 1, "seconds of every call")                                                           \
    X(launch, 1, 0, 1e6, "cost of a serial launch, in the machine's launch_ns")                              \
    X(concurrent, 0.5, 0, 1e6, "cost of a concurrent launch, in the same unit")                              \
    X(kernel, 1, 1e-6, 1e6, "seconds per simulated second of CTAs")                                          \
    X(latency, 3, 1e-3, 1e6, "round trip of a KV tile, in the machine's latency_ns")                         \
    X(l2_latency, 0.45, 1e-3, 1, "the same when it hits the L2, as a share of that")                         \
    X(start, 2, 0, 1e6, "a CTA's time before its first tile and after its last, in such round trips")        \
    X(tensor, 0.5, 1e-3, 1, "share of the tensor peak that a fused attention loop reaches")                  \
    X(bandwidth, 0.93, 1e-3, 1, "share of the data sheet's bandwidth that reads reach")                      \
    X(l2, 0.8, 1e-3, 1, "share of the L2's bandwidth that reads reach")                                      \
    X(stages, 2, 2, 16, "K or V tiles that a CTA has room for; all but one are in flight")                   \
    X(unseen, 1, 0, 1, "share that is read of the tokens that a mask hides from all rows of a Q tile")

struct time_model_coefs {
#define X(name, value, least, most, about) double name;
    CLOCK_COEFS(X)
#undef X
};
struct time_model_coefs time_model_coefs_default(void);
/* Every coefficient a number within its bounds; else one sentence in *e. */
bool time_model_coefs_check(const struct time_model_coefs *c, struct err *e);

/* One CTA of the timeline. Times count from the first CTA's start; launches cost nothing there. */
struct time_model_cta {
    double start, end;
    double dram, l2, ops; /* bytes that miss the L2; all bytes; operations with padding */
    int64_t group;        /* plan->group[group], or -1 and */
    int64_t merge;        /* plan->merge[merge], or -1 */
    int32_t tile,
        part; /* Q tile of the group, and which of its alike CTAs: the KV head (unfused: stage part) */
    int32_t launch, sm, slot;
    int32_t resident; /* CTAs of this kind that an SM holds at a time: it takes that share of the SM */
};

/* What the machine did between two events. */
struct time_model_span {
    double start, end;
    double dram, l2, ops; /* share of the machine's bandwidths and tensor peak in use, 0 .. 1 */
    int32_t ctas, sms;    /* running CTAs, SMs that have any */
};

/* A figure of merit each, additive or not, from which a linear model can be fitted: X(name, meaning). */
#define CLOCK_FEATURES(X)                                                                                    \
    X(one, "1")                                                                                              \
    X(serial, "serial launches")                                                                             \
    X(concurrent, "concurrent launches")                                                                     \
    X(kernel_s, "simulated seconds of all CTAs")                                                             \
    X(dram_s, "DRAM bytes / bandwidth")                                                                      \
    X(l2_s, "all bytes / L2 bandwidth")                                                                      \
    X(ops_s, "operations with padding / tensor peak")                                                        \
    X(merge_s, "bytes of merges / bandwidth")                                                                \
    X(longest_s, "the longest CTA alone, summed over serial launches")                                       \
    X(waves, "CTAs / slots, each launch rounded up")

enum time_model_feature {
#define X(name, about) CLOCK_##name,
    CLOCK_FEATURES(X)
#undef X
        N_CLOCK_FEATURES
};
extern const char *const time_model_feature_name[N_CLOCK_FEATURES];

struct time_model {
    double latency_s;   /* all of it: */
    double overhead_s;  /* the coefficient `base` */
    double launch_s;    /* launches */
    double attention_s; /* CTAs of launches with groups */
    double merge_s;     /* CTAs of launches with merge steps only */
    double planning_s;  /* as given */
    double kernel_s; /* attention_s + merge_s before the coefficient `kernel`: what shares below refer to */
    /* By how much kernel_s would be less if round trips to memory (latency_ns) took no time: the time in
     * which no rate of the machine was overdrawn and the CTA that ended next had waited for them. */
    double trip_s;

    double dram_bytes, l2_bytes, ops; /* sums over CTAs; l2_bytes is what ledger_of_plan prices: unseen 1 */
    int64_t ctas, most_ctas;          /* all; at a time */
    double longest_s, serial_s;       /* CTAs alone: the longest, the sum of all */
    double bandwidth_use, l2_use, tensor_use; /* means over kernel_s, 0 .. 1, of the data sheet's figures */
    double sm_use;   /* share of SM seconds with a CTA; the rest are PAT's bubbles (section 3.3), by SM */
    double slot_use; /* share of slot seconds with a CTA; the rest are bubbles by slot */
    double
        low_share; /* of the attention launches' time, with under 5 % of the tensor peak in use (DeFT Table 14) */
    double feature[N_CLOCK_FEATURES];

    int64_t n_cta, n_span; /* with CLOCK_TIMELINE, else none */
    struct time_model_cta *cta; /* [n_cta] in grid order, which is the order of starting */
    struct time_model_span *span;
};

enum { CLOCK_TOTALS = 0, CLOCK_TIMELINE = 1 };

/* Time of the plan for problems of these heads on this machine, whose figures must be valid (machine_parse,
 * machines.def). planning_s is added as it is. Free with time_model_free. */
struct time_model time_model_plan(const struct plan *p, const struct heads *heads, const struct machine *mc,
                                  const struct time_model_coefs *coefs, double planning_s, int want);
void time_model_free(struct time_model *c);

/* A CTA or a span a line, with a header; needs CLOCK_TIMELINE. */
void time_model_print_ctas(FILE *f, const struct time_model *c);
void time_model_print_spans(FILE *f, const struct time_model *c);

#ifdef __cplusplus
}
#endif

#endif
