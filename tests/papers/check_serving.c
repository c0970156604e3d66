/* check_serving.c - the queue in front of continuous batching, against what queueing theory says of it. */
#include "paper-figs/serving.h"
#include "tests/suites.h"

#include <math.h>

static const struct load flat = {.n = 2, .in_flight = {10, 20}, .step_ms = {10, 10}},
                         rising = {.n = 3, .in_flight = {10, 20, 40}, .step_ms = {11, 12, 14}};

static struct arrivals at_rate(double rate)
{
    return (struct arrivals){.rate = rate,
                             .prompt = 250,
                             .most_prompt = 4000,
                             .answer = 200,
                             .most_answer = 1000,
                             .prefill_ms = 0,
                             .places = 256};
}

TEST(a_step_is_interpolated)
{
    static const struct {
        double in_flight, ms;
    } all[] = {{10, 11}, {15, 11.5}, {30, 13}, {100, 20}, {1, 10.1}};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        ck_assert_msg(fabs(load_step_ms(&rising, all[i].in_flight) - all[i].ms) < 1e-12, "%g in flight",
                      all[i].in_flight);
}

/* Steps of one length: a token takes that, whatever the rate, and by Little's law rate x time in flight are in flight. */
TEST(a_queue_keeps_littles_law)
{
    for (double rate = 5; rate <= 40; rate *= 2) {
        struct arrivals a = at_rate(rate);
        struct served x = serve(&flat, &a);
        ck_assert_msg(fabs(x.tpot_ms - 10) < 1e-9, "%g ms a token", x.tpot_ms);
        double little =
            rate * 200 * 0.01; /* on the mean of the time, of which steps are all but nothing here */
        ck_assert_msg(fabs(x.in_flight / little - 1) < 0.1, "rate %g: %g in flight, not %g", rate,
                      x.in_flight, little);
        ck_assert_msg(x.wait_ms < 10, "%g ms of waiting without a queue",
                      x.wait_ms); /* for the step to end */
    }
}

/* In steady state a step of 10 + b / 10 ms serves rate x 200 tokens a second with b in flight: b = 2 rate / (1 - rate / 50). */
TEST(slower_steps_keep_more_in_flight)
{
    struct arrivals a = at_rate(15);
    struct served x = serve(&rising, &a);
    double b = 0.2 * 15 * 10 / (1 - 0.2 * 15 / 10);
    ck_assert_msg(fabs(x.in_flight / b - 1) < 0.1, "%g in flight, not %g", x.in_flight, b);
    ck_assert_msg(fabs(x.tpot_ms / (10 + b / 10) - 1) < 0.05, "%g ms a token", x.tpot_ms);
}

TEST(places_and_prompts_bound_what_is_served)
{
    struct arrivals a = at_rate(40);
    struct served free = serve(&flat, &a);
    a.places = 16; /* 8 requests a second at most */
    struct served full = serve(&flat, &a);
    ck_assert_msg(full.in_flight <= 16 && full.in_flight > 15 && full.wait_ms > 1e4 && free.wait_ms < 10,
                  "%g in flight, %g ms", full.in_flight, full.wait_ms);
    ck_assert_msg(fabs(full.tpot_ms - 10) < 1e-9, "%g ms a token", full.tpot_ms);
    ck_assert_msg(fabs(full.ttft_ms - full.wait_ms) < 1e-6, "%g ms to the first token", full.ttft_ms);
    a = at_rate(10);
    a.prefill_ms = 0.1; /* 25 ms a request, a quarter of the time */
    struct served slow = serve(&flat, &a);
    ck_assert_msg(fabs(slow.tpot_ms / (10 / 0.75) - 1) < 0.1, "%g ms a token", slow.tpot_ms);
    ck_assert_msg(slow.ttft_ms > slow.wait_ms + 20 && slow.ttft_ms < slow.wait_ms + 40,
                  "%g ms to the first token", slow.ttft_ms);
}
