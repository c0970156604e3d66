/*
 * link.h - what the cards of one decoder tell each other. Each card has a thread of its own in one process. Here is what threads
 * need, and collectives in host memory, for cards that are only shares of it; GPUs use NCCL (kernels/decode/nccl.h).
 */
#ifndef TREEATTN_KERNELS_DECODE_LINK_H
#define TREEATTN_KERNELS_DECODE_LINK_H

#include "sim/cards.h"

#include <pthread.h>

enum { LINK_ID = 128 }; /* bytes, as NCCL has them */

struct cards_link {
    int32_t n;
    pthread_mutex_t lock;
    pthread_cond_t met;
    int32_t there;
    int64_t round;
    bool broken; /* a card has failed: no others wait for it any more */
    const void *at[CARDS_MOST];
    char id[LINK_ID];       /* NCCL's name of a group of GPUs */
    void *card[CARDS_MOST]; /* what a type keeps of each card */
};
void link_open(struct cards_link *l, int32_t n);
void link_close(struct cards_link *l);

/* Wait until every card has come here. False: one has failed. */
bool link_meet(struct cards_link *l);
/* This card has failed. */
void link_break(struct cards_link *l);

/* Collectives in host memory: every card calls them in the same order. x[n] becomes the sum of all cards' x, added in the order
 * of cards. all[cards][bytes] gets every card's part. False: a card has failed. */
bool link_sum(struct cards_link *l, int32_t rank, double *x, int64_t n);
bool link_gather(struct cards_link *l, int32_t rank, const void *part, void *all, int64_t bytes);

#endif
