/* answer.h - the lines that a host says to the judge (README.md of this folder, "The protocol"). */
#ifndef TREEATTN_VERIFY_CHILD_ANSWER_H
#define TREEATTN_VERIFY_CHILD_ANSWER_H

#include "ref/base.h"

#include <stdio.h>

BEGIN_C

/* {"key":number,"allocations":n,"why":sentence}, and out with it; n negative: nobody counted; why NULL: there is none. */
void answer_print(FILE *to_judge, const char *key, int64_t number, const char *why, int64_t n);

END_C

#endif
