/*
 * live_peers.h - kernels that others released, timed in the same run as ours: children of verify/child that time themselves.
 *
 * A child has a CUDA context of its own, and its events are on its side. So it is asked to do what the bench does with our plans:
 * plan, record its launches as a CUDA graph, poison its output and empty the L2 before each replay, and take the time between two
 * events around it (verify/child/README.md, `time`). Times are by its word. What its last replay wrote comes back, and is judged
 * here by the exact answer as ours is. K and V go to all children in one file.
 *
 * Children are asked one after the other while ours rest, so that no two work on the card at a time. Then ours are timed again:
 * what the card did meanwhile shows in that.
 */
#ifndef TREEATTN_VERIFY_BENCH_LIVE_PEERS_H
#define TREEATTN_VERIFY_BENCH_LIVE_PEERS_H

#include "verify/bench/bench_gpu.h"

BEGIN_C

enum { LIVE_MAX = 16 };

struct live_peers;
/* Starts a child for each command; `seconds` is what one answer may take. NULL with *e set: one is no child. */
struct live_peers *live_peers_new(const char *const *command, int32_t n, double seconds, struct err *e);
void live_peers_free(struct live_peers *x);
int32_t live_peers_n(const struct live_peers *x);

/* All of them on the data of a tree, into row[live_peers_n]; what `like`, a row of ours, says of the tree holds for them. Nothing
 * that a child does ends the bench: a crash is a FAIL with its code. False with *e set if the card fails. */
bool live_peers_time(struct live_peers *x, const struct gpu_bench *b, int64_t flush_bytes, struct gpu_data *d,
                     const struct gpu_row *like, struct gpu_row *row, struct err *e);

/* Of each child, over the trees where it and a plan of ours have a time: its time over that of our fastest plan. */
void live_peers_summary(FILE *f, const char *lead, const struct live_peers *x, const struct gpu_row *rows,
                        int64_t n_rows);

END_C

#endif
