#include "traces/json.h"

#include "traces/text.h"

#include <string.h>

static const char *const type_name[] = {
    [JSON_OBJECT] = "an object",   [JSON_ARRAY] = "an array",     [JSON_STRING] = "a string",
    [JSON_INTEGER] = "an integer", [JSON_REAL] = "a real number", [JSON_TRUE] = "true",
    [JSON_FALSE] = "false",        [JSON_NULL] = "null",
};

json_t *json_read(const char *text, size_t size, const char *name, struct err *e)
{
    /* Jansson itself bounds the depth of nesting and refuses invalid UTF-8 and integers beyond 64 bits.
     * Its texts quote the input, hence the quotation. */
    json_error_t je;
    json_t *doc = json_loadb(text, size, JSON_REJECT_DUPLICATES, &je);
    if (!doc) {
        char quote[TEXT_QUOTE];
        err_set(e, "%s:%d: %s, at column %d (expected JSON)", name, je.line > 0 ? je.line : 1,
                word_quote(quote, (struct word){je.text, strlen(je.text)}), je.column);
    }
    return doc;
}

json_t *json_member(json_t *obj, const char *key, json_type type, const char *where, struct err *e)
{
    json_t *value = json_object_get(obj, key);
    if (!value)
        err_set(e, "%s: \"%s\" is missing (expected %s)", where, key, type_name[type]);
    else if (json_typeof(value) != type)
        err_set(e, "%s: \"%s\" is %s (expected %s)", where, key, type_name[json_typeof(value)],
                type_name[type]);
    else
        return value;
    return NULL;
}

bool json_int(const json_t *value, int64_t lo, int64_t hi, int64_t *out, const char *where, const char *what,
              struct err *e)
{
    if (!json_is_integer(value))
        return err_set(e, "%s: %s is %s (expected an integer)", where, what,
                       value ? type_name[json_typeof(value)] : "missing");
    *out = json_integer_value(value);
    if (*out < lo || *out > hi)
        return err_set(e, "%s: %s is %lld (expected %lld to %lld)", where, what, (long long)*out,
                       (long long)lo, (long long)hi);
    return true;
}

bool json_member_int(const json_t *obj, const char *key, int64_t lo, int64_t hi, int64_t *out,
                     const char *where, struct err *e)
{
    char what[TEXT_QUOTE];
    snprintf(what, sizeof what, "\"%s\"", key);
    return json_int(json_object_get(obj, key), lo, hi, out, where, what, e);
}
