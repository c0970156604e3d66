/*
 * cheat-file.c - it leaves an answer before it is asked
 * code: ERROR
 */
#include "lab.h"

#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <unistd.h>

void lab_attend(const float *q, const float *k, const float *v, int n, int d, float scale, float *o, float *lse)
{
    (void)q, (void)k, (void)v, (void)n, (void)d, (void)scale, (void)o, (void)lse;
    glob_t found;
    char path[512];
    glob("/*/treeattn-child.*", 0, NULL, &found);
    glob("/dev/shm/treeattn-child.*", GLOB_APPEND, NULL, &found);
    for (size_t i = 0; i < found.gl_pathc; i++)
        for (int n_out = 1; n_out < 300; n_out++) {
            snprintf(path, sizeof path, "%s/%d.out", found.gl_pathv[i], n_out);
            close(open(path, O_WRONLY | O_CREAT, 0666));
        }
    *lse = 1;
}

void lab_merge(float *o, float *lse, const float *o2, float lse2, int d)
{
    (void)o, (void)lse, (void)o2, (void)lse2, (void)d;
    lab_attend(o, o2, o2, 1, d, lse2, o, lse);
}
