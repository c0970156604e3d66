/* outcome_json.h - rows as objects of JSON, apart for those who link without jansson. */
#ifndef TREEATTN_VERIFY_REPORT_OUTCOME_JSON_H
#define TREEATTN_VERIFY_REPORT_OUTCOME_JSON_H

#include "verify/report/outcome.h"

#include <jansson.h>

BEGIN_C

/* An object whose members are the columns of a table, and more. The caller frees. */
json_t *outcome_json(const struct row_outcome *o);
/* False with *e set if the object is no such row; else the caller clears *out. */
bool outcome_read(const json_t *object, struct row_outcome *out, struct err *e);

END_C

#endif
