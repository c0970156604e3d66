/*
 * on_decoder.h - a decode step on a decoder (kernels/decode/decode.h): what a replay runs on a GPU, and on the CPU for tiny
 * models.
 *
 * The pool holds random K and V from the beginning, so prompts cost nothing and steps may be left out; every looked-at
 * step writes its own tokens' K and V. Times are the device's between events: attention, everything else, moves, and
 * the time that it waits for the host, which is known only if no step is left out. Moves are those since the last step that
 * was looked at.
 */
#ifndef TREEATTN_VERIFY_REPLAY_ON_DECODER_H
#define TREEATTN_VERIFY_REPLAY_ON_DECODER_H

#include "verify/replay/decode_run.h"
#include "verify/replay/run.h"

BEGIN_C

struct replay_device {
    struct decoder *decoder;
    struct decode_run run;
    bool begun, every_step, first;
    int32_t cold;  /* steps yet to be run for nothing */
    double cold_s; /* moves that were timed with these */
    int32_t n_ready;
    struct step_times ready[DECODE_AHEAD]; /* waited for before somebody collects */
    char name[160];
};

/* every_step: none is left out. False with *e set as decoder_open does. */
bool replay_device_open(struct replay_device *d, const struct decoder_type *type,
                        const struct decoder_spec *spec, bool every_step, struct err *e);
void replay_device_close(struct replay_device *d);
struct executor replay_on_device(struct replay_device *d);

END_C

#endif
