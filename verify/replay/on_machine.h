/*
 * on_machine.h - steps simulated: attention by the time model (sim/time/time_model.h), the rest by bytes and operations.
 */
#ifndef TREEATTN_VERIFY_REPLAY_ON_MACHINE_H
#define TREEATTN_VERIFY_REPLAY_ON_MACHINE_H

#include "ref/model.h"
#include "sim/time/time_model.h"
#include "verify/replay/run.h"

BEGIN_C

struct replay_machine {
    const struct machine *mc;
    const struct model *model;
    struct heads heads;
    struct time_model_coefs coefs;
    char name[96];
};
struct executor replay_on_machine(struct replay_machine *m);
/* Seconds of everything but attention in a step of n queries: a product is max(its bytes / bandwidth, its operations /
 * tensor peak), what stands between products is its bytes / bandwidth; each costs a launch. */
double replay_other_s(const struct replay_machine *m, int64_t n);

END_C

#endif
