/*
 * ledger.h - an additive record of what running a plan moves and wastes.
 *
 * sim/ prices a ledger from a plan. The CPU kernel counts one at its own load and store sites. The two must
 * agree to the byte. The conventions that both follow:
 *   - a group runs once per KV head; each of its Q tiles reads Q rows once, and K, V and mask of all its
 * tokens
 *   - KV and Q bytes are in the problem's storage types; scales of K and V, a number a head, are not counted;
 *     partial O in the slot's type, LSE, maximum and sum
 *     in 4 bytes (8 when the problem is f64, and partial O then too)
 *   - materialised scores count in the storage type of Q, whatever an executor keeps them in
 *   - an on-chip slot is neither written nor read
 *   - a masked-out pair costs multiply-adds like any other: they count as masked, not as useful
 *   - padding: rows up to tile_m, tokens up to tile_n; multiply-adds of a whole tile less those of its pairs
 */
#ifndef TREEATTN_SIM_LEDGER_H
#define TREEATTN_SIM_LEDGER_H

#include <stdint.h>

/* X(field, meaning). Bytes unless said otherwise. */
#define LEDGER_FIELDS(X)                                                                                     \
    X(kv, "K and V read")                                                                                    \
    X(q, "Q read")                                                                                           \
    X(mask, "mask read")                                                                                     \
    X(qk_write, "scores QK^T written (unfused)")                                                             \
    X(qk_read, "scores QK^T read")                                                                           \
    X(scaled_write, "scaled scores written (unfused)")                                                       \
    X(scaled_read, "scaled scores read")                                                                     \
    X(masked_write, "masked scores written (unfused)")                                                       \
    X(masked_read, "masked scores read")                                                                     \
    X(softmax_write, "probabilities written (unfused)")                                                      \
    X(softmax_read, "probabilities read")                                                                    \
    X(partial_o_write, "partial O written")                                                                  \
    X(partial_o_read, "partial O read")                                                                      \
    X(partial_w_write, "partial LSE, or maximum and sum, written")                                           \
    X(partial_w_read, "partial LSE, or maximum and sum, read")                                               \
    X(out, "output O and LSE written")                                                                       \
    X(mac_useful, "multiply-adds of visible pairs")                                                          \
    X(mac_masked, "multiply-adds of pairs that a mask removes")                                              \
    X(mac_padded, "multiply-adds of tile padding")                                                           \
    X(pad_rows, "padded rows, over all Q tiles")                                                             \
    X(pad_tokens, "padded tokens, over all KV tiles")                                                        \
    X(launches, "kernel launches")

struct ledger {
#define X(field, meaning) int64_t field;
    LEDGER_FIELDS(X)
#undef X
};

static inline void ledger_add(struct ledger *a, const struct ledger *b)
{
#define X(field, meaning) a->field += b->field;
    LEDGER_FIELDS(X)
#undef X
}

/* Scores written and read in all their forms. */
static inline int64_t ledger_scores(const struct ledger *a)
{
    return a->qk_write + a->qk_read + a->scaled_write + a->scaled_read + a->masked_write + a->masked_read +
           a->softmax_write + a->softmax_read;
}
/* Partial results written and read. */
static inline int64_t ledger_partials(const struct ledger *a)
{
    return a->partial_o_write + a->partial_o_read + a->partial_w_write + a->partial_w_read;
}

#endif
