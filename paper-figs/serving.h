/*
 * serving.h - a queue in front of continuous batching: what a request waits for when requests arrive at a rate.
 *
 * A discrete-event simulation. Requests arrive as a Poisson process. One starts as soon as fewer than `places` are in flight; its prompt
 * is computed at once, while the others wait, as a step without chunks does. Then all in flight get a token a step, and a step takes
 * what it took with as many in flight (measured, or simulated).
 */
#ifndef TREEATTN_PAPER_FIGS_SERVING_H
#define TREEATTN_PAPER_FIGS_SERVING_H

#include <stdbool.h>
#include <stdint.h>

enum { MOST_LOADS = 8 };
/* How long a step takes, by how many are in flight: straight lines between the points and beyond them. */
struct load {
    int32_t n; /* at least 2, with in_flight rising */
    double in_flight[MOST_LOADS], step_ms[MOST_LOADS];
};
double load_step_ms(const struct load *l, double in_flight);

/* Lengths are exponential with these means, cut at the bounds, as those of the trace (traces/generate/gen_serving.c). */
struct arrivals {
    double rate;              /* requests a second */
    double prompt, most_prompt; /* tokens that no other request has */
    double answer, most_answer;
    double prefill_ms;        /* of a token of the prompt */
    int32_t places;
};
struct served {
    double tpot_ms;   /* mean over the requests: time from first to last token over the tokens between */
    double in_flight; /* on the mean of the steps */
    double wait_ms;   /* for a place, on the mean */
    double ttft_ms;   /* from arrival to the first token, on the mean */
};
/* 2,000 requests, the same at every call but for the rate; the first 400 and the last 400 warm up and drain. */
struct served serve(const struct load *l, const struct arrivals *a);

#endif
