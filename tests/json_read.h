/* json_read.h - what tests read from JSON: a number, or a text, of an object; 0 or "" where it is not there. */
#ifndef TREEATTN_TESTS_JSON_READ_H
#define TREEATTN_TESTS_JSON_READ_H

#include "tests/auto.h"

#include <jansson.h>

AUTO_FREE(json_t, json_t, json_decref)

static inline double number_of(const json_t *o, const char *key)
{
    return json_number_value(json_object_get(o, key));
}

static inline const char *word_of(const json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));
    return s ? s : "";
}

#endif
