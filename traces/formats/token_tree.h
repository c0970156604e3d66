/*
 * token_tree.h - token trees as Medusa writes them: a list of paths; internal to traces/.
 *
 * [a, b, c] is candidate c of the third head under [a, b]. Paths come in any order, but every prefix of a
 * path must be listed too (nothing is implied), and each path once. The root, the last accepted token, is
 * implicit: n paths make n + 1 tokens.
 */
#ifndef TREEATTN_TRACES_FORMATS_TOKEN_TREE_H
#define TREEATTN_TRACES_FORMATS_TOKEN_TREE_H

#include "traces/formats/json.h"

#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { TOKEN_TREE_MAX = 1 << 20, TOKEN_TREE_MAX_DEPTH = 64 };

/* The array `list`, which stands at `at` and is called `what` in messages, into parent[array size + 1]:
 * token 0 is the root (-1), the others are in order of depth, then of candidates. False with *e set. */
bool token_tree_read(const json_t *list, int32_t *parent, const struct json_at *at, const char *what,
                     struct err *e);

/* The paths of n_tokens tokens whose parents come before them, eight a line; candidates are ranks among
 * siblings. */
void token_tree_write(FILE *f, const int32_t *parent, int32_t n_tokens);

#ifdef __cplusplus
}
#endif

#endif
