/*
 * cheat-done.c - it answers in the name of the host
 * code: HANG EXIT PROTOCOL UNWRITTEN
 */
#include "lab.h"

#include <stdio.h>
#include <unistd.h>

void lab_attend(const float *q, const float *k, const float *v, int n, int d, float scale, float *o, float *lse)
{
    (void)q, (void)k, (void)v, (void)n, (void)d, (void)scale, (void)o, (void)lse;
    char line[64];
    for (int i = 1; i < 100; i++)
        (void)!write(4, line, (size_t)snprintf(line, sizeof line, "{\"done\":%d}\n", i));
    _exit(0);
}

void lab_merge(float *o, float *lse, const float *o2, float lse2, int d)
{
    (void)o, (void)lse, (void)o2, (void)lse2, (void)d;
    char line[64];
    for (int i = 1; i < 100; i++)
        (void)!write(4, line, (size_t)snprintf(line, sizeof line, "{\"done\":%d}\n", i));
    _exit(0);
}
