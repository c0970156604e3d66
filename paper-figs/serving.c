#include "paper-figs/serving.h"

#include "ref/base.h"
#include "ref/rng.h"

#include <math.h>
#include <stdlib.h>

double load_step_ms(const struct load *l, double in_flight)
{
    int32_t i = 1;
    while (i + 1 < l->n && l->in_flight[i] < in_flight)
        i++;
    double slope = (l->step_ms[i] - l->step_ms[i - 1]) / (l->in_flight[i] - l->in_flight[i - 1]);
    return l->step_ms[i] + slope * (in_flight - l->in_flight[i]);
}

/* In (0, 1], a different one for each i. */
static double unit(uint64_t i)
{
    return ((double)(rng_mix((i + 1) * UINT64_C(0x9E3779B97F4A7C15)) >> 11) + 1) * 0x1p-53;
}

static double exponential(uint64_t i, double mean, double least, double most)
{
    return fmin(most, fmax(least, -mean * log(unit(i))));
}

enum { REQUESTS = 2000, WARM = 400, DRAIN = 400, RING = 4096, LEAST = 8 };

struct request {
    double arrival, first; /* ms */
    int32_t answer, next;  /* next: of those that end at the same step, or -1 */
    double prompt;
};

struct served serve(const struct load *l, const struct arrivals *a)
{
    struct request *r = xcalloc(REQUESTS, sizeof *r);
    int32_t *ends = xmalloc(RING * sizeof *ends), in_flight = 0, next = 0, left = REQUESTS, counted = 0;
    double now = 0, tpot = 0, ttft = 0, wait = 0, sum = 0, steps = 0;
    CK(a->most_answer < RING && l->n >= 2);
    for (int32_t i = 0; i < RING; i++)
        ends[i] = -1;
    for (int32_t i = 0; i < REQUESTS; i++) {
        uint64_t k = 3 * (uint64_t)i;
        now += exponential(k, 1e3 / a->rate, 0, INFINITY);
        r[i] = (struct request){.arrival = now,
                                .prompt = exponential(k + 1, a->prompt, LEAST, a->most_prompt),
                                .answer = (int32_t)exponential(k + 2, a->answer, LEAST, a->most_answer)};
    }
    now = 0;
    for (int32_t step = 0; left > 0; step++) {
        if (in_flight == 0)
            now = fmax(now, r[next].arrival);
        int32_t joined = next;
        double tokens = 0;
        for (; next < REQUESTS && in_flight < a->places && r[next].arrival <= now; next++, in_flight++) {
            tokens += r[next].prompt;
            wait += next >= WARM && next < REQUESTS - DRAIN ? now - r[next].arrival : 0;
        }
        now += tokens * a->prefill_ms;
        for (; joined < next; joined++) { /* the first token is the prompt's */
            int32_t at = (step + r[joined].answer - 2) % RING;
            r[joined].first = now;
            r[joined].next = ends[at];
            ends[at] = joined;
        }
        now += load_step_ms(l, in_flight);
        sum += in_flight;
        steps++;
        for (int32_t i = ends[step % RING]; i >= 0; i = r[i].next, in_flight--, left--)
            if (i >= WARM && i < REQUESTS - DRAIN) {
                tpot += (now - r[i].first) / (r[i].answer - 1);
                ttft += r[i].first - r[i].arrival;
                counted++;
            }
        ends[step % RING] = -1;
    }
    free(r);
    free(ends);
    return (struct served){tpot / counted, sum / steps, wait / counted, ttft / counted};
}
