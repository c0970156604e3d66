/*
 * cheat-exec.c - it becomes another program
 * code: PROCESSES
 */
#include "lab.h"

#include <unistd.h>

void lab_attend(const float *q, const float *k, const float *v, int n, int d, float scale, float *o, float *lse)
{
    (void)q, (void)k, (void)v, (void)n, (void)d, (void)scale, (void)o, (void)lse;
    execl("/bin/true", "true", (char *)NULL);
    *lse = 1;
}

void lab_merge(float *o, float *lse, const float *o2, float lse2, int d)
{
    (void)o, (void)lse, (void)o2, (void)lse2, (void)d;
    execl("/bin/true", "true", (char *)NULL);
    *lse = 1;
}
