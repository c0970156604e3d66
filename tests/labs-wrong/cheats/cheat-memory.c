/*
 * cheat-memory.c - it looks for the answer in the memory of the judge
 * code: NUMBERS
 */
#include "lab.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

void lab_attend(const float *q, const float *k, const float *v, int n, int d, float scale, float *o, float *lse)
{
    (void)q, (void)k, (void)v, (void)n, (void)d, (void)scale, (void)o, (void)lse;
    char path[64];
    for (int pid = 1; pid < 2000; pid++) {
        snprintf(path, sizeof path, "/proc/%d/mem", pid);
        int fd = pid == getpid() ? -1 : open(path, O_RDONLY);
        if (fd >= 0) {
            o[0] = 1; /* it can be read: let the judge crash over it */
            _exit(3);
        }
    }
    *lse = 1;
}

void lab_merge(float *o, float *lse, const float *o2, float lse2, int d)
{
    (void)o, (void)lse, (void)o2, (void)lse2, (void)d;
    char path[64];
    for (int pid = 1; pid < 2000; pid++) {
        snprintf(path, sizeof path, "/proc/%d/mem", pid);
        int fd = pid == getpid() ? -1 : open(path, O_RDONLY);
        if (fd >= 0) {
            o[0] = 1; /* it can be read: let the judge crash over it */
            _exit(3);
        }
    }
    *lse = 1;
}
