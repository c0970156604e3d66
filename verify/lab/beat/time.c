/* time.c - the machine of lab 7, times of plans on it, and what would make a student's plans faster. */
#include "verify/lab/beat/lab7.h"

#include "sim/time/ctas.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TILE_M = 32, TILE_N = 128 };

const struct heads lab7_heads = {32, 8, 128, DT_F16};

const struct machine *lab7_machine(void)
{
    const struct machine *m = machine_find("h200");
    CK(m);
    return m;
}

struct lab_env lab7_env(void)
{
    const struct machine *mc = lab7_machine();
    struct time_model_coefs c = time_model_coefs_default();
    const struct group g = {.tile_m = TILE_M, .tile_n = TILE_N};
    double trip = c.latency * mc->latency_ns * 1e-9;
    return (struct lab_env){.ratio = heads_gqa(&lab7_heads),
                            .tile_m = TILE_M,
                            .tile_n = TILE_N,
                            .most_tokens = LAB7_MOST_TOKENS,
                            .kv_heads = lab7_heads.h_kv,
                            .head_dim = lab7_heads.d,
                            .element_bytes = heads_elt_bytes(&lab7_heads),
                            .sms = mc->sms,
                            .per_sm = grid_resident(mc, &g, &lab7_heads, c.stages),
                            .bandwidth = mc->bandwidth * c.bandwidth,
                            .l2_bandwidth = mc->l2_bandwidth * c.l2,
                            .flops = mc->tensor_flops * c.tensor,
                            .latency = trip,
                            .l2_latency = trip * c.l2_latency,
                            .start = c.start * trip,
                            .base = c.base,
                            .launch = c.launch * mc->launch_ns * 1e-9};
}

struct time_model lab7_timeline(const struct plan *p)
{
    struct time_model_coefs c = time_model_coefs_default();
    return time_model_plan(p, &lab7_heads, lab7_machine(), &c, 0, CLOCK_TIMELINE);
}

double lab7_time(const struct plan *p)
{
    struct time_model_coefs c = time_model_coefs_default();
    return time_model_plan(p, &lab7_heads, lab7_machine(), &c, 0, CLOCK_TOTALS).latency_s;
}
