#include "sim/machine.h"

#include <string.h>

const struct machine machines[] = {
#define MACHINE(n, t, sm, ss, sc, rg, bw, l2, lat, tf, src)                                                  \
    {.name = n,                                                                                              \
     .title = t,                                                                                             \
     .sms = sm,                                                                                              \
     .smem_per_sm = ss,                                                                                      \
     .smem_per_cta = sc,                                                                                     \
     .regs_per_sm = rg,                                                                                      \
     .bandwidth = bw,                                                                                        \
     .l2_bytes = l2,                                                                                         \
     .latency_ns = lat,                                                                                      \
     .tensor_flops = tf,                                                                                     \
     .source = src},
#include "sim/machines.def"
#undef MACHINE
};
const int32_t n_machines = (int32_t)(sizeof machines / sizeof machines[0]);

const struct machine *machine_find(const char *name)
{
    for (int32_t i = 0; i < n_machines; i++)
        if (strcmp(machines[i].name, name) == 0)
            return &machines[i];
    return NULL;
}

const struct machine *machine_default(void)
{
    const struct machine *m = machine_find("h200");
    CK(m);
    return m;
}
