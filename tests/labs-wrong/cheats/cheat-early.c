/*
 * cheat-early.c - it runs before it is asked
 * code: REFUSED
 * says: signal 31
 */
#include "lab.h"

#include <unistd.h>

__attribute__((constructor)) static void early(void)
{
    execl("/bin/true", "true", (char *)NULL);
}

void lab_attend(const float *q, const float *k, const float *v, int n, int d, float scale, float *o, float *lse)
{
    (void)q, (void)k, (void)v, (void)n, (void)d, (void)scale, (void)o, (void)lse;
    *lse = 1;
}

void lab_merge(float *o, float *lse, const float *o2, float lse2, int d)
{
    (void)o, (void)lse, (void)o2, (void)lse2, (void)d;
    *lse = 1;
}
