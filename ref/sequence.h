/*
 * sequence.h - the transformer of ref/model.h on one sequence, token by token, in double: the oracle of whole decode
 * steps, as ref/oracle.h is that of attention. No batch, no tree, no pages, no plan; K and V of the sequence's own
 * tokens one after the other. The only thing it shares with what it judges are the weights, rounded to the type in
 * which they are stored.
 *
 * How far a decoder that stores in 16 bits may be from it has no useful closed form: an error of the first
 * layer goes through all others. It is measured instead, on the sequence itself. Every number that such a
 * decoder stores is multiplied by 1 + unit * xi, xi uniform in [-1, 1] and independent. A rounding is never
 * worse (Parker, Monte Carlo Arithmetic, 1997). A bound is made from how far the logits spread.
 */
#ifndef TREEATTN_REF_SEQUENCE_H
#define TREEATTN_REF_SEQUENCE_H

#include "ref/model.h"

#ifdef __cplusplus
extern "C" {
#endif

struct sequence_model; /* weights as double */
struct sequence_model *sequence_model_new(const struct model *m, enum dtype t, uint64_t seed);
void sequence_model_free(struct sequence_model *w);

struct sequence; /* opaque */
/* unit 0: exact. The model must outlive it; free with sequence_free. */
struct sequence *sequence_new(const struct sequence_model *w, double unit, uint64_t noise_seed);
void sequence_free(struct sequence *s);
/* Forget all but the first n tokens. */
void sequence_cut(struct sequence *s, int64_t n);
/* One token more; its logits into out[vocab] (NULL: not wanted). */
void sequence_append(struct sequence *s, int32_t token, double *out);

#ifdef __cplusplus
}
#endif

#endif
