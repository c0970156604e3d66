/*
 * workloads.h - the papers' end-to-end workloads by name.
 */
#ifndef TREEATTN_TRACES_WORKLOADS_H
#define TREEATTN_TRACES_WORKLOADS_H

#include "traces/trace.h"

#ifdef __cplusplus
extern "C" {
#endif

struct workload {
    const char *name, *group, *trace, *about;
    struct trace_opts opts;
};
extern const struct workload workloads[];
extern const int32_t n_workloads;

/* Those of a comma-separated list of names and groups, in that order: *out is an array of *n that the caller frees. On a
 * wrong name the sentence lists what there is. */
bool workloads_pick(const char *list, const struct workload ***out, int32_t *n, struct err *e);
/* Its trace with `data` in the place of @; the caller frees. */
char *workload_spec(const struct workload *w, const char *data);
/* A file that it needs and that is not there, or NULL; the caller frees. */
char *workload_lacks(const struct workload *w, const char *data);

#ifdef __cplusplus
}
#endif

#endif
