/*
 * gen_trace.h - seeded traces of the project's own; internal to traces/.
 */
#ifndef TREEATTN_TRACES_GENERATE_GEN_TRACE_H
#define TREEATTN_TRACES_GENERATE_GEN_TRACE_H

#include "traces/steps.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A reasoning tree of the shape that Graph-of-Thoughts' sorting task has: depth ten, ten children a branch,
 * one of which branches again; 101 nodes of some hundred tokens. Free with reasoning_free. */
struct reasoning *reasoning_gen(uint64_t seed);

/* A token tree of n_tokens (at least 1), four candidates deep, and 400 accepted lengths of 1 to 5 tokens.
 * Free with speculative_free. */
struct speculative *speculative_gen(int32_t n_tokens, uint64_t seed);

/* n requests (at least 1): a dozen conversations at a time, most of which begin with one of three system
 * prompts; each turn sends all of the conversation again. Free with requests_free. */
struct requests *requests_gen(int32_t n, uint64_t seed);

#ifdef __cplusplus
}
#endif

#endif
