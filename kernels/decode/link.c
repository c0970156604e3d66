#include "kernels/decode/link.h"

#include <stdlib.h>
#include <string.h>

void link_open(struct cards_link *l, int32_t n)
{
    *l = (struct cards_link){.n = n};
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->met, NULL);
}

void link_close(struct cards_link *l)
{
    pthread_mutex_destroy(&l->lock);
    pthread_cond_destroy(&l->met);
}

bool link_meet(struct cards_link *l)
{
    pthread_mutex_lock(&l->lock);
    int64_t round = l->round;
    if (++l->there == l->n) {
        l->there = 0;
        l->round++;
        pthread_cond_broadcast(&l->met);
    }
    while (l->round == round && !l->broken)
        pthread_cond_wait(&l->met, &l->lock);
    bool good = !l->broken;
    pthread_mutex_unlock(&l->lock);
    return good;
}

void link_break(struct cards_link *l)
{
    pthread_mutex_lock(&l->lock);
    l->broken = true;
    pthread_cond_broadcast(&l->met);
    pthread_mutex_unlock(&l->lock);
}

bool link_sum(struct cards_link *l, int32_t rank, double *x, int64_t n)
{
    double *sum = xcalloc((size_t)n, sizeof *sum);
    l->at[rank] = x;
    bool good = link_meet(l);
    for (int32_t c = 0; c < l->n && good; c++)
        for (int64_t i = 0; i < n; i++)
            sum[i] += ((const double *)l->at[c])[i];
    good = good && link_meet(l); /* all have read */
    if (good)
        memcpy(x, sum, (size_t)n * sizeof *x);
    free(sum);
    return good;
}

bool link_gather(struct cards_link *l, int32_t rank, const void *part, void *all, int64_t bytes)
{
    l->at[rank] = part;
    bool good = link_meet(l);
    for (int32_t c = 0; c < l->n && good; c++)
        memcpy((char *)all + c * bytes, l->at[c], (size_t)bytes);
    return good && link_meet(l);
}
