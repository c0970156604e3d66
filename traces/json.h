/*
 * json.h - jansson with sentences: typed access that says what is wrong and where; internal to traces/.
 */
#ifndef TREEATTN_TRACES_JSON_H
#define TREEATTN_TRACES_JSON_H

#include "ref/base.h"

#include <jansson.h>

/* The document; NULL with *e set to "NAME:LINE: ...". Free with json_decref. Duplicate keys, NaN, integers of
 * 2^63 and more, invalid UTF-8 and deep nesting are errors. */
json_t *json_read(const char *text, size_t size, const char *name, struct err *e);

/* The value of a key of `obj`, which is an object, and its type must be `type`. `where` starts the message.
 */
json_t *json_member(json_t *obj, const char *key, json_type type, const char *where, struct err *e);
/* An integer in lo .. hi (a real such as 1.0 is none); `what` names it in the message. */
bool json_int(const json_t *value, int64_t lo, int64_t hi, int64_t *out, const char *where, const char *what,
              struct err *e);
bool json_member_int(const json_t *obj, const char *key, int64_t lo, int64_t hi, int64_t *out,
                     const char *where, struct err *e);

#endif
