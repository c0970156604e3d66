/*
 * machine.h - GPUs as data sheets describe them: what plans are made for and timed on.
 *
 * Every figure has a source of its own (machines.def). Figures measured on a card are fields of their own,
 * never mixed with a data sheet's; 0 means that nobody measured.
 */
#ifndef TREEATTN_SIM_TIME_MACHINE_H
#define TREEATTN_SIM_TIME_MACHINE_H

#include "ref/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* X(type, name, unit, least, most, meaning): the bounds are those of machine_parse. Those that are measured come last:
 * they are for reference, no model rests on them. */
#define MACHINE_FIGURES(X)                                                                                   \
    X(int32_t, sms, "", 1, 32767, "streaming multiprocessors")                                               \
    X(int64_t, smem_per_sm, "B", 1024, 1 << 30, "shared memory of an SM")                                    \
    X(int64_t, smem_per_cta, "B", 1024, 1 << 30, "shared memory that one CTA can address")                   \
    X(int32_t, regs_per_sm, "", 1024, 1 << 30, "32-bit registers of an SM")                                  \
    X(int32_t, threads_per_sm, "", 128, 1 << 20, "resident threads of an SM")                                \
    X(int32_t, ctas_per_sm, "", 1, 32, "resident CTAs of an SM")                                             \
    X(double, memory, "B", 1, 1e18, "global memory")                                                         \
    X(double, bandwidth, "B/s", 1, 1e18, "of global memory")                                                 \
    X(double, latency_ns, "ns", 1e-3, 1e9, "inherent latency of a global load (PAT section 5.2)")            \
    X(double, l2_bytes, "B", 0, 1e18, "size of the L2 cache")                                                \
    X(double, l2_bandwidth, "B/s", 1, 1e18, "L2 to SMs")                                                     \
    X(double, tensor_flops, "FLOP/s", 1, 1e21, "dense fp16 and bf16 products, fp32 accumulation")            \
    X(double, launch_ns, "ns", 0, 1e9, "from the end of a kernel to the start of the next in a graph")       \
    X(double, kernel_ns, "ns", 0, 1e9, "of a kernel of a decode step, besides its bytes and operations")     \
    X(double, link_bandwidth, "B/s", 1, 1e18, "between two cards of a host, one way")                        \
    X(double, link_ns, "ns", 0, 1e9, "a collective of no bytes over no hops: NCCL's own time")               \
    X(double, hop_ns, "ns", 0, 1e9, "a hop of a collective, from card to card")                              \
    X(double, read_measured, "B/s", 0, 1e18, "global memory, read by a kernel; 0: not measured")             \
    X(double, copy_measured, "B/s", 0, 1e18, "the same, copied: read + written")                             \
    X(double, l2_measured, "B/s", 0, 1e18, "L2 to SMs")                                                      \
    X(double, latency_measured, "ns", 0, 1e9, "of one load after the other, over 4 GiB")                     \
    X(double, tensor_measured, "FLOP/s", 0, 1e21, "bf16 product of two large matrices")

enum machine_figure_id {
#define X(type, name, unit, least, most, about) MACHINE_##name,
    MACHINE_FIGURES(X)
#undef X
        N_MACHINE_FIGURES,
    N_MACHINE_GIVEN = MACHINE_read_measured /* the first of these, which models rest on */
};

struct machine {
    const char *name;
    const char *title;
#define X(type, name, unit, least, most, about) type name;
    MACHINE_FIGURES(X)
#undef X
    const char *source[N_MACHINE_FIGURES]; /* of each figure; NULL where there is no figure */
};

struct machine_figure {
    const char *name, *unit, *about;
    double least, most;
};
extern const struct machine_figure machine_figures[N_MACHINE_FIGURES];
double machine_get(const struct machine *m, int32_t figure);
/* By its source, is the figure another card's, or assumed? */
bool machine_borrows(const struct machine *m, int32_t figure);

/* The order of machines.def. */
extern const struct machine machines[];
extern const int32_t n_machines;
const struct machine *machine_find(const char *name);
/* The machine of a GPU's own name, "NVIDIA H100 80GB HBM3". It has that title, or else is the first of the
 * same model. NULL: none. */
const struct machine *machine_of_device(const char *device);
/* The machine plans are made for when nobody says otherwise. */
const struct machine *machine_default(void);

/* "h200", or with other figures, "h200:bandwidth=4.5e12,sms=66". Names, numbers and bounds are checked; the
 * sentence in *e lists what there is. Figures given so have the source "given"; measured ones are not taken. */
bool machine_parse(const char *text, struct machine *out, struct err *e);

#ifdef __cplusplus
}
#endif

#endif
