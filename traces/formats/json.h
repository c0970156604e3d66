/*
 * json.h - jansson with sentences: typed access that says what is wrong and on which line; internal to
 * traces/.
 */
#ifndef TREEATTN_TRACES_FORMATS_JSON_H
#define TREEATTN_TRACES_FORMATS_JSON_H

#include "ref/base.h"

#include <jansson.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A parsed document with the text it came from. */
struct json_doc {
    json_t *root;
    const char *text, *name;
    size_t size;
    int first_line; /* of the text within the file: JSON lines are documents of one line each */
};

/* False with *e set to "NAME:LINE: ...". Duplicate keys, NaN, integers of 2^63 and more, invalid UTF-8 and
 * deep nesting are errors. The text must outlive the document; free with json_doc_clear. */
bool json_doc_read(struct json_doc *d, const char *text, size_t size, const char *name, int first_line,
                   struct err *e);
void json_doc_clear(struct json_doc *d);

/* A value of the document, for messages: its path from the root, and in words. */
enum { JSON_MAX_PATH = 4 };
struct json_at {
    const struct json_doc *doc;
    const char *label; /* "item 3, node 5"; "" for the whole document */
    int32_t depth;
    struct json_step {
        const char *key; /* NULL: an array's element */
        size_t index;
    } path[JSON_MAX_PATH];
};

/* Set *e to "NAME:LINE: LABEL: ...", the line being the one on which that value begins. Always returns false.
 * jansson does not keep lines; the text is read again to find it, which only a failure pays for. */
bool json_err(const struct json_at *at, struct err *e, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* The value of a key of `obj`, which is an object; its type must be `type`. */
json_t *json_member(json_t *obj, const char *key, json_type type, const struct json_at *at, struct err *e);
/* An integer in lo .. hi (a real such as 1.0 is none); `what` names it in the message. */
bool json_int(const json_t *value, int64_t lo, int64_t hi, int64_t *out, const struct json_at *at,
              const char *what, struct err *e);
bool json_member_int(const json_t *obj, const char *key, int64_t lo, int64_t hi, int64_t *out,
                     const struct json_at *at, struct err *e);
const char *json_type_name(const json_t *value);

/* A string as JSON text in ASCII, quotes included; the caller frees. */
char *json_quote(const char *s);

#ifdef __cplusplus
}
#endif

#endif
