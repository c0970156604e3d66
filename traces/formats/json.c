#include "traces/formats/json.h"

#include "traces/formats/text.h"

#include <stdarg.h>
#include <string.h>

static const char *const type_name[] = {
    [JSON_OBJECT] = "an object",   [JSON_ARRAY] = "an array",     [JSON_STRING] = "a string",
    [JSON_INTEGER] = "an integer", [JSON_REAL] = "a real number", [JSON_TRUE] = "true",
    [JSON_FALSE] = "false",        [JSON_NULL] = "null",
};

const char *json_type_name(const json_t *value)
{
    return value ? type_name[json_typeof(value)] : "missing";
}

bool json_doc_read(struct json_doc *d, const char *text, size_t size, const char *name, int first_line,
                   struct err *e)
{
    *d = (struct json_doc){.text = text, .name = name, .size = size, .first_line = first_line};
    /* Jansson itself bounds the depth of nesting and refuses invalid UTF-8 and integers beyond 64 bits.
     * Its texts quote the input, hence the quotation. */
    json_error_t je;
    d->root = json_loadb(text, size, JSON_REJECT_DUPLICATES, &je);
    if (d->root)
        return true;
    char quote[TEXT_QUOTE];
    return err_set(e, "%s:%d: %s, at column %d (expected JSON)", name,
                   first_line - 1 + (je.line > 0 ? je.line : 1),
                   word_quote(quote, (struct word){je.text, strlen(je.text)}), je.column);
}

void json_doc_clear(struct json_doc *d)
{
    json_decref(d->root);
    d->root = NULL;
}

/* ---- where a value begins in the text, which jansson has found to be good JSON ------------------------- */

static const char *skip_blank(const char *p, const char *end)
{
    while (p < end && (*p == ' ' || *p == '\t' || *p == '\r' || *p == '\n'))
        p++;
    return p;
}

/* p at the opening quote; past the closing one. */
static const char *skip_string(const char *p, const char *end)
{
    for (p++; p < end && *p != '"'; p++)
        if (*p == '\\' && p + 1 < end)
            p++;
    return p < end ? p + 1 : end;
}

static const char *skip_value(const char *p, const char *end)
{
    int32_t depth = 0;
    while (p < end) {
        if (*p == '"') {
            p = skip_string(p, end);
        } else if (depth == 0 && (*p == ',' || *p == ']' || *p == '}')) {
            return p;
        } else {
            depth += *p == '[' || *p == '{' ? 1 : *p == ']' || *p == '}' ? -1 : 0;
            p++;
        }
    }
    return end;
}

/* p at the bracket of an array or object; the value that `step` leads to, NULL if none is found (a key that
 * is spelt with escapes, say). */
static const char *enter(const char *p, const char *end, const struct json_step *step)
{
    bool object = p < end && *p == '{';
    if (object != (step->key != NULL) || (!object && (p == end || *p != '[')))
        return NULL;
    p = skip_blank(p + 1, end);
    for (size_t i = 0; p < end && *p != ']' && *p != '}'; i++) {
        bool found = !object && i == step->index;
        if (object) {
            const char *key = p + 1;
            p = skip_string(p, end);
            found =
                (size_t)(p - 1 - key) == strlen(step->key) && memcmp(key, step->key, strlen(step->key)) == 0;
            p = skip_blank(p, end);
            p = skip_blank(p < end ? p + 1 : end, end); /* the colon */
        }
        if (found)
            return p;
        p = skip_value(p, end);
        p = skip_blank(p < end && *p == ',' ? p + 1 : p, end);
    }
    return NULL;
}

static int line_of(const struct json_at *at)
{
    const struct json_doc *d = at->doc;
    const char *end = d->text + d->size, *p = skip_blank(d->text, end);
    for (int32_t k = 0; k < at->depth; k++) {
        const char *inner = enter(p, end, &at->path[k]);
        if (!inner)
            break;
        p = inner;
    }
    int line = d->first_line;
    for (const char *c = d->text; c < p; c++)
        line += *c == '\n';
    return line;
}

bool json_err(const struct json_at *at, struct err *e, const char *fmt, ...)
{
    char what[sizeof e->msg];
    va_list args;
    va_start(args, fmt);
    vsnprintf(what, sizeof what, fmt, args);
    va_end(args);
    return err_set(e, "%s:%d: %s%s%s", at->doc->name, line_of(at), at->label, at->label[0] ? ": " : "", what);
}

/* ---- typed access -------------------------------------------------------------------------------------- */

json_t *json_member(json_t *obj, const char *key, json_type type, const struct json_at *at, struct err *e)
{
    json_t *value = json_object_get(obj, key);
    if (value && json_typeof(value) == type)
        return value;
    json_err(at, e, "\"%s\" is %s (expected %s)", key, json_type_name(value), type_name[type]);
    return NULL;
}

bool json_int(const json_t *value, int64_t lo, int64_t hi, int64_t *out, const struct json_at *at,
              const char *what, struct err *e)
{
    if (!json_is_integer(value))
        return json_err(at, e, "%s is %s (expected an integer)", what, json_type_name(value));
    *out = json_integer_value(value);
    if (*out < lo || *out > hi)
        return json_err(at, e, "%s is %lld (expected %lld to %lld)", what, (long long)*out, (long long)lo,
                        (long long)hi);
    return true;
}

bool json_member_int(const json_t *obj, const char *key, int64_t lo, int64_t hi, int64_t *out,
                     const struct json_at *at, struct err *e)
{
    char what[TEXT_QUOTE];
    snprintf(what, sizeof what, "\"%s\"", key);
    return json_int(json_object_get(obj, key), lo, hi, out, at, what, e);
}

char *json_quote(const char *s)
{
    json_t *text = json_string(s);
    CK(text);
    char *quoted = json_dumps(text, JSON_ENCODE_ANY | JSON_ENSURE_ASCII);
    json_decref(text);
    CK(quoted);
    return quoted;
}
