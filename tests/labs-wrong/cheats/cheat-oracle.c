/*
 * cheat-oracle.c - it calls the judge's own attention
 * code: REFUSED
 * says: undefined reference
 */
#include "lab.h"

struct oracle;
extern struct oracle *oracle_new(const void *p);

void lab_attend(const float *q, const float *k, const float *v, int n, int d, float scale, float *o, float *lse)
{
    (void)q, (void)k, (void)v, (void)n, (void)d, (void)scale, (void)o, (void)lse;
    struct oracle *x = oracle_new(o);
    (void)x;
}

void lab_merge(float *o, float *lse, const float *o2, float lse2, int d)
{
    (void)o, (void)lse, (void)o2, (void)lse2, (void)d;
    struct oracle *x = oracle_new(o);
    (void)x;
}
