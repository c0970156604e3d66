/*
 * on_machine.h - steps simulated: attention by the time model (sim/time/time_model.h), the rest by bytes and operations.
 */
#ifndef TREEATTN_VERIFY_REPLAY_ON_MACHINE_H
#define TREEATTN_VERIFY_REPLAY_ON_MACHINE_H

#include "kernels/decode/decode.h"
#include "ref/model.h"
#include "sim/time/time_model.h"
#include "verify/replay/run.h"

BEGIN_C

struct replay_machine {
    const struct machine *mc;
    const struct model *model;
    struct heads heads;
    struct time_model_coefs coefs;
    struct plan_env env; /* what cards plan their parts with */
    int32_t n_cards;     /* over 1: such machines, linked as machines.def says */
    enum parallel parallel;
    bool alone; /* as in struct replay */
    int32_t rank;
    char name[DECODER_CARDS_NAME + 16];
};
struct executor replay_on_machine(struct replay_machine *m);
/* Seconds of everything but attention in a step of n queries: a product is max(its bytes / bandwidth, its operations /
 * tensor peak), at the shares of these that products reach; what stands between products is its bytes / bandwidth. Each kernel takes
 * launch_ns and kernel_ns besides. */
double replay_other_s(const struct replay_machine *m, int64_t n);
/* On several cards, collectives included: NCCL's rings (Thakur, Rabenseifner and Gropp, 2005, sections 3 and 4). An all-reduce of
 * so many bytes: 2 (n - 1) hops of a share each; an all-gather of so many from each card: n - 1 hops of them. */
double replay_sum_s(const struct replay_machine *m, double bytes);
double replay_gather_s(const struct replay_machine *m, double bytes);

END_C

#endif
