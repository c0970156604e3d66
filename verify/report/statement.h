/* statement.h - what a project says of its kernel in its release notes, as JSON: verify/schema/statement.json describes it. */
#ifndef TREEATTN_VERIFY_REPORT_STATEMENT_H
#define TREEATTN_VERIFY_REPORT_STATEMENT_H

#include "verify/report/reports.h"

#include <stdio.h>

BEGIN_C

void statement_print(FILE *f, const struct row_outcome *o, int64_t n, const struct judged_what *what, int64_t left,
                     int64_t expired);

END_C

#endif
