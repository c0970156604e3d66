/*
 * known.h - failures that are known: a file of lines `PATTERN CODE UNTIL REASON`, where UNTIL is the last day on which a line
 * holds (2027-03-31), and PATTERN (*, ?, [..] as in a shell) must match all of a row's case string, with or without a ; behind its
 * last key, or of the row's first column.
 * CODE is that of a FAIL, or * for any. A known failure counts as skipped, with the code KNOWN.
 */
#ifndef TREEATTN_VERIFY_REPORT_KNOWN_H
#define TREEATTN_VERIFY_REPORT_KNOWN_H

#include "verify/report/outcome.h"

#include <stdio.h>

BEGIN_C

struct known;
/* `today` as in the file; NULL: this day, UTC. NULL with *e set: file, line, what is wrong, what was expected. */
struct known *known_read(const char *path, const char *today, struct err *e);
void known_free(struct known *k);
/* Turns a failure that is known into a SKIP; true if it did. Lines past their day turn none. */
bool known_apply(struct known *k, struct row_outcome *o);
/* Lines past their day: each is a failure of the run. */
int64_t known_expired(const struct known *k);
/* Says which lines have expired, and, if a `whole` run is over, which match nothing, and of which nothing fails any more. */
void known_print(FILE *f, const struct known *k, bool whole);

END_C

#endif
