/*
 * decode_run.h - a trace's steps through a decoder: prompts, moves, steps, and what came out judged.
 *
 * Acceptance of speculative tokens is mocked. A trace may accept tokens that are no path of its token tree;
 * it always does where it hangs them flat. Their K and V were computed for other positions, and no sequence
 * decoded alone has such.
 *
 * Tokens are random, a function of the seed and of where they are (verify/replay/logits_check.h). Prompts are decoded as causal
 * chains of queries, unless `filled`: then the whole pool holds random K and V from the beginning, which is enough for
 * timing, and steps may be left out.
 */
#ifndef TREEATTN_VERIFY_REPLAY_DECODE_RUN_H
#define TREEATTN_VERIFY_REPLAY_DECODE_RUN_H

#include "kernels/decode/decode.h"
#include "sim/strategy.h"
#include "traces/pool.h"
#include "verify/compare/compare.h"
#include "verify/replay/logits_check.h"
#include "verify/replay/step.h"

BEGIN_C

struct decode_run {
    struct decoder *decoder;
    bool filled;
    struct tokens *tokens;
    struct witness *witness; /* NULL: logits are not judged */
    struct logits_check_sum sum;
    double attention_worst; /* of layers that were checked, in bounds */
    /* Of a step on several cards: */
    double plan_s;     /* host: each card's part planned, since the caller set it to 0 */
    int32_t merges;    /* longest chain of merges in a card's plan */
    bool inapplicable; /* the strategy that failed is not for a card's part of the tree */
};

/* decoder is kept, not owned. judge: compare logits with the sequential replay (small models, never with filled). */
bool decode_run_open(struct decode_run *r, struct decoder *decoder, bool filled, bool judge, struct err *e);
void decode_run_close(struct decode_run *r);

/* Tokens and their K and V move: in order, for every step of the trace. */
bool decode_run_advance(struct decode_run *r, const struct step *s, struct err *e);
/* Fresh prompts, then the step itself, which is enqueued: decoder_wait waits for it. parts, keep: as in
 * struct decode_step. */
bool decode_run_step(struct decode_run *r, const struct step *s, bool parts, bool keep, struct err *e);
/* The same step, which was asked to keep and has been waited for: attention of every layer against the oracle, for up to
 * CHECKED_QUERIES queries; and all logits against the witness, if there is one. False with *e set (EXIT_FAILED) where
 * something is wrong. */
enum { CHECKED_QUERIES = 64 };
bool decode_run_check(struct decode_run *r, const struct step *s, struct err *e);

struct plan_env decode_env(const struct decoder_spec *s);

/* The problem that a step is to kernels, without Q, K and V. */
struct problem decode_problem(const struct decoder_spec *s, const struct tree *tree, const int64_t *page_off,
                              int32_t *page_table);

END_C

#endif
