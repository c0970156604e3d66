/* json_text.h - text as a string of JSON. */
#ifndef TREEATTN_REF_JSON_TEXT_H
#define TREEATTN_REF_JSON_TEXT_H

#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Quoted and escaped; "?" where it is not UTF-8: a path, say. What does not reach the file shows in ferror(). */
void print_json_text(FILE *f, const char *s);

#ifdef __cplusplus
}
#endif

#endif
