/*
 * machine.h - what a plan needs to know of the machine it is made for.
 *
 * Data-sheet and white-paper figures, each with its source in machines.def. Nothing here was measured.
 */
#ifndef TREEATTN_SIM_MACHINE_H
#define TREEATTN_SIM_MACHINE_H

#include "ref/base.h"

struct machine {
    const char *name;
    const char *title;
    int32_t sms;
    int64_t smem_per_sm;  /* bytes usable as shared memory */
    int64_t smem_per_cta; /* bytes one CTA can address */
    int32_t regs_per_sm;  /* 32-bit */
    double bandwidth;     /* HBM, bytes per second */
    double l2_bytes;
    double latency_ns;   /* inherent latency of a global load (PAT Table 1 and Figure 7a for A100) */
    double tensor_flops; /* dense fp16/bf16 with fp32 accumulation */
    const char *source;
};

/* NULL-terminated by count; the order of machines.def. */
extern const struct machine machines[];
extern const int32_t n_machines;
const struct machine *machine_find(const char *name);
/* The machine plans are made for when nobody says otherwise. */
const struct machine *machine_default(void);

#endif
