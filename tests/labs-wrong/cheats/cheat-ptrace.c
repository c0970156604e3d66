/*
 * cheat-ptrace.c - it takes hold of its parent
 * code: PROCESSES
 */
#include "lab.h"

#include <sys/ptrace.h>
#include <unistd.h>

void lab_attend(const float *q, const float *k, const float *v, int n, int d, float scale, float *o, float *lse)
{
    (void)q, (void)k, (void)v, (void)n, (void)d, (void)scale, (void)o, (void)lse;
    ptrace(PTRACE_ATTACH, getppid(), NULL, NULL);
    *lse = 1;
}

void lab_merge(float *o, float *lse, const float *o2, float lse2, int d)
{
    (void)o, (void)lse, (void)o2, (void)lse2, (void)d;
    ptrace(PTRACE_ATTACH, getppid(), NULL, NULL);
    *lse = 1;
}
