#include "ref/json_text.h"
#include "ref/base.h"

#include <jansson.h>

void print_json_text(FILE *f, const char *s)
{
    json_t *j = json_string(s);
    if (!j)
        j = json_string("?");
    CK(j);
    json_dumpf(j, f, JSON_ENCODE_ANY);
    json_decref(j);
}
