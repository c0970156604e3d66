/*
 * text.h - small helpers for text that somebody else wrote: lines, words, integers, quotation.
 */
#ifndef TREEATTN_TRACES_FORMATS_TEXT_H
#define TREEATTN_TRACES_FORMATS_TEXT_H

#include "ref/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Text in memory, read line by line; both LF and CR LF end a line. */
struct text {
    const char *p, *end;
    int line; /* number of the line last read; 0 before the first */
};

/* A piece of text, not terminated. */
struct word {
    const char *p;
    size_t n;
};

/* Read the next line that is not blank and split it at blanks and tabs; at most `max` words are stored.
 * Returns how many words it has (max + 1 if more), 0 at the end of the text. */
int32_t text_line(struct text *t, struct word *w, int32_t max);

/* A decimal integer with an optional '-', and nothing else, in lo .. hi. */
bool word_int(struct word w, int64_t lo, int64_t hi, int64_t *out);

/* The word for a message: printable ASCII, at most TEXT_QUOTE - 1 characters, "..." where it was cut. */
enum { TEXT_QUOTE = 64 };
const char *word_quote(char buf[TEXT_QUOTE], struct word w);

#ifdef __cplusplus
}
#endif

#endif
