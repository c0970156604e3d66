/* text.h - small pieces of text from users: numbers, pairs, lists. Nothing here prints or exits. */
#ifndef TREEATTN_VERIFY_IO_TEXT_H
#define TREEATTN_VERIFY_IO_TEXT_H

#include "ref/base.h"

BEGIN_C

/* A whole decimal number in [lo, hi], no more. On failure *out is untouched; `what` names it in *e. */
bool text_i64(const char *s, const char *what, int64_t lo, int64_t hi, int64_t *out, struct err *e);
/* The same for 64 unsigned bits (seeds); 0x... is read too. */
bool text_u64(const char *s, const char *what, uint64_t *out, struct err *e);
/* "8/2": query heads / KV heads, within the limits of a problem. */
bool text_heads(const char *s, int32_t *h_q, int32_t *h_kv, struct err *e);

/* Cut the next field off *s at the first `sep` (which becomes zero); NULL when nothing is left. */
char *text_next(char **s, char sep);
/* The next line of *s that says something, without blanks around it; NULL: there is none. Empty lines and those that begin with # say
 * nothing. *number, at first 0: which line it is. */
char *text_entry(char **s, int64_t *number);

/* ';' and '%' cannot be in a value of a case string: written as %3B and %25, and back. Caller frees. */
char *text_escape(const char *s);
char *text_unescape(const char *s);
/* For a shell, in single quotes; a single quote inside ends them, stands alone, and begins them again. Caller frees. */
char *text_quote(const char *s);
/* A cell of CSV, in double quotes where it has to be. Caller frees. */
char *text_csv(const char *s);

END_C

#endif
