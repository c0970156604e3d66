/*
 * schedule.h - which rank of a sweep does which tasks: guided self-scheduling by predicted cost (Polychronopoulos and Kuck,
 * IEEE Transactions on Computers 36, 1987).
 *
 * Ranks are handed ranges that shrink with what is left, a faster rank a larger one. What is expensive beside a rank's whole part is
 * handed out first, the most expensive in front; the rest in its own order, so that results can be printed as they come. When all is
 * handed out, a rank without work does again what the slowest holds. The first result of a task counts.
 *
 * It sends nothing and asks no clock: verify/sweep/launch.c drives it over MPI, tests in simulated time.
 */
#ifndef TREEATTN_VERIFY_SWEEP_SCHEDULE_H
#define TREEATTN_VERIFY_SWEEP_SCHEDULE_H

#include "ref/base.h"

BEGIN_C

struct schedule;

/* Tasks 0 .. n - 1; cost[n] in any unit, each over 0. NULL: all are alike. */
struct schedule *schedule_new(const double *cost, int64_t n, int32_t n_ranks);
void schedule_free(struct schedule *s);

/* From now on that rank takes part, with so many tasks at once. */
void schedule_join(struct schedule *s, int32_t rank, int32_t width);

/* What `rank` is to do behind what it holds, at `now` (seconds): returns the number of tasks; *task is valid until the next call.
 * 0: nothing for now. Ask again when a result came, or a moment later. */
int64_t schedule_hand(struct schedule *s, int32_t rank, double now, const int64_t **task);

/* A result came. False: there was one before, so this one does not count. */
bool schedule_done(struct schedule *s, int32_t rank, int64_t task, double now);

/*
 * The rank does not do what it holds any more: others will, unless they have it already. It joins again, or stays away. Returns the
 * number of tasks. crashed: it ended while it was at some of them. Such a task is handed out alone from then on.
 */
int64_t schedule_lost(struct schedule *s, int32_t rank, bool crashed);
/* A task at which two ranks crashed; -1: there is none. */
int64_t schedule_twice_crashed(const struct schedule *s);

/* Tasks without a result, and those that were handed out more than once so far. */
int64_t schedule_left(const struct schedule *s);
int64_t schedule_repeated(const struct schedule *s);

END_C

#endif
