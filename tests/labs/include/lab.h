/*
 * lab.h - what the labs ask you to write. It is the only file that lab.c includes, beside headers of the C library.
 *
 * Do not change it: the judge compiles with its own copy.
 */
#ifndef LAB_H
#define LAB_H

#include <stdint.h>

/* ---- lab 1: attention in parts -------------------------------------------------------------------------- */

/*
 * Exact attention of one query over n tokens.
 *
 *   score of token i   s_i = scale * (q . k_i)
 *   LSE                log(e^s_0 + .. + e^s_(n-1)); -INFINITY where n is 0
 *   O                  the sum of e^(s_i - LSE) * v_i;  0 where n is 0
 *
 * q[d]; k[n * d] and v[n * d], token after token: element x of token i is k[i * d + x]. n from 0, d from 1.
 * Write o[d] and *lse. They hold NaN before.
 */
void lab_attend(const float *q, const float *k, const float *v, int n, int d, float scale, float *o, float *lse);

/*
 * Two results of one query over different tokens become the result over all of these tokens: (o, *lse) and (o2, lse2) into
 * (o, *lse). o[d], o2[d].
 */
void lab_merge(float *o, float *lse, const float *o2, float lse2, int d);

#endif
