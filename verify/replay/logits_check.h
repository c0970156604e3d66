/*
 * logits_check.h - a decode step's logits against those of its sequences, each decoded alone from its first token on
 * (ref/sequence.h), and the tokens that a trace is made of.
 */
#ifndef TREEATTN_VERIFY_REPLAY_LOGITS_CHECK_H
#define TREEATTN_VERIFY_REPLAY_LOGITS_CHECK_H

#include "ref/sequence.h"
#include "traces/trace.h"

BEGIN_C

/* Which token is where. Traces have lengths only: the i-th token of a piece is a function of (seed, name, i), and
 * follows the piece when it is accepted. */
struct tokens;
struct tokens *tokens_new(int32_t vocab, uint64_t seed);
void tokens_free(struct tokens *x);
/* The next step; parts as trace_step gave them. */
void tokens_advance(struct tokens *x, const struct tree *tree, const struct trace_parts *parts);
/* Token j of the node in the step last advanced to. */
int32_t tokens_at(const struct tokens *x, const struct trace_parts *parts, int32_t node, int64_t j);
/* All tokens that a query (node, upto) sees, in order; returns how many, *out is the caller's. */
int64_t tokens_path(const struct tokens *x, const struct tree *tree, const struct trace_parts *parts,
                    struct query q, int32_t **out);

/* What the judgement over some queries amounts to. */
struct logits_check_sum {
    int64_t queries, greedy; /* judged; those whose best token is beyond doubt, and was found */
    double worst;            /* largest |logit - exact| in units of its bound */
};

/* Sequences are remembered by a number: one that has grown, or has parted from what it was, costs its new tokens only. */
struct witness;
/* t: the type in which the decoder under test stores; noise is drawn from seed. */
struct witness *logits_check_new(const struct model *m, enum dtype t, uint64_t seed);
void logits_check_free(struct witness *w);
/* The logits[vocab] that a decoder gave for the last of token[n]. False, with why[256], if one is further off than the
 * bound, or another token is the best although the best two are further apart than twice the bound. */
bool logits_check_judge(struct witness *w, int32_t number, const int32_t *token, int64_t n,
                        const double *logits, struct logits_check_sum *sum, char *why);

END_C

#endif
