#include "traces/formats/python_lists.h"

#include "traces/formats/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct reader {
    const char *p, *end;
    int line;
    FILE *json;
};

/* ---- characters ---------------------------------------------------------------------------------------- */

static char peek(const struct reader *r)
{
    return r->p < r->end ? *r->p : '\0';
}

static bool is_name(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

static bool opens(char c)
{
    return c == '[' || c == '(';
}

/* Blanks within a line; `lines`: also ends of lines and comments, which the JSON gets as ends of lines. */
static void skip_blank(struct reader *r, bool lines)
{
    for (; r->p < r->end; r->p++) {
        if (lines && *r->p == '#')
            while (r->p + 1 < r->end && r->p[1] != '\n')
                r->p++;
        else if (lines && *r->p == '\n')
            r->line += fputc('\n', r->json) == '\n';
        else if (*r->p != ' ' && *r->p != '\t' && *r->p != '\r')
            return;
    }
}

static void skip_line(struct reader *r)
{
    while (r->p < r->end && *r->p != '\n')
        r->p++;
}

/* `text` is what stands there; it is passed. */
static bool skip_text(struct reader *r, const char *text)
{
    size_t n = strlen(text);
    bool is = (size_t)(r->end - r->p) >= n && memcmp(r->p, text, n) == 0;
    r->p += is ? n : 0;
    return is;
}

/* Always false. */
static bool unexpected(const struct reader *r, const char *wanted, struct err *e)
{
    enum { SHOWN = 24 };
    char quote[TEXT_QUOTE];
    size_t n = (size_t)min_i64(r->end - r->p, SHOWN);
    const char *lf = memchr(r->p, '\n', n);
    if (n == 0)
        return err_set(e, "the text ends early (expected %s)", wanted);
    return err_set(e, "'%s' (expected %s)",
                   word_quote(quote, (struct word){r->p, lf ? (size_t)(lf - r->p) : n}), wanted);
}

/* ---- one list ------------------------------------------------------------------------------------------ */

static bool read_number(struct reader *r, struct err *e)
{
    const char *begin = r->p;
    r->p += peek(r) == '-' || peek(r) == '+';
    const char *digits = r->p;
    while (peek(r) >= '0' && peek(r) <= '9')
        r->p++;
    if (r->p == digits || is_name(peek(r)) || peek(r) == '.') {
        r->p = begin;
        return unexpected(r, "whole numbers in lists or tuples: [[0], [0, 0]] or [(0,), (0, 0)]", e);
    }
    begin += *begin == '+';
    fwrite(begin, 1, (size_t)(r->p - begin), r->json);
    return true;
}

/* A list whose end has not come. */
struct open_list {
    char close;
    int64_t n;  /* items so far */
    bool comma; /* behind the last of them */
};

/* At its bracket. Only what can stand there in Python is taken, so that the JSON is good. */
static bool read_list(struct reader *r, struct err *e)
{
    enum { DEEPEST = 8 };
    struct open_list open[DEEPEST + 1] = {{0}}; /* around the list there is none */
    int depth = 0;
    do {
        struct open_list *at = &open[depth];
        char c = peek(r);
        if (depth > 0 && c == at->close) {
            if (c == ')' && at->n == 1 && !at->comma)
                return unexpected(r, "a comma: a tuple of one is (0,)", e);
            fputc(']', r->json);
            depth--;
            r->p++;
        } else if (at->n > 0 && !at->comma) {
            if (c != ',')
                return unexpected(r, at->close == ']' ? "a comma or ]" : "a comma or )", e);
            at->comma = true;
            r->p++;
        } else {
            if (at->comma)
                fputc(',', r->json);
            at->n++;
            at->comma = false;
            if (!opens(c)) {
                if (!read_number(r, e))
                    return false;
            } else if (depth == DEEPEST) {
                return unexpected(r, "a list of paths, [[0], [0, 0]]", e);
            } else {
                open[++depth] = (struct open_list){.close = c == '[' ? ']' : ')'};
                fputc('[', r->json);
                r->p++;
            }
        }
        if (depth > 0)
            skip_blank(r, true);
    } while (depth > 0);
    return true;
}

/* A list, or a string that holds one. */
static bool read_quoted(struct reader *r, struct err *e)
{
    char quote = peek(r) == '"' || peek(r) == '\'' ? peek(r) : '\0';
    r->p += quote != '\0';
    skip_blank(r, false);
    if (!read_list(r, e))
        return false;
    skip_blank(r, false);
    if (quote && peek(r) != quote)
        return unexpected(r, "the end of the string", e);
    r->p += quote != '\0';
    return true;
}

/* Does a list begin here, in a string or not? */
static bool at_list(const struct reader *r)
{
    const char *p = r->p + (peek(r) == '"' || peek(r) == '\'');
    while (p > r->p && p < r->end && *p == ' ')
        p++;
    return p < r->end && opens(*p);
}

/* ---- statements ---------------------------------------------------------------------------------------- */

/* To the value of a statement NAME = VALUE, NAME: TYPE = VALUE or NAME: VALUE; false with *e set if it is none. */
static bool find_value(struct reader *r, struct err *e)
{
    skip_blank(r, false);
    if (peek(r) == ':') {
        r->p++;
        skip_blank(r, false);
        const char *lf = memchr(r->p, '\n', (size_t)(r->end - r->p)), *stop = lf ? lf : r->end;
        const char *assigned = at_list(r) ? NULL : memchr(r->p, '=', (size_t)(stop - r->p));
        r->p = assigned ? assigned + 1 : r->p;
    } else if (peek(r) == '=' && r->end - r->p > 1 && r->p[1] != '=') {
        r->p++;
    } else {
        return unexpected(r, "NAME = [[0], [0, 0], ...]: no other statement is read", e);
    }
    skip_blank(r, false);
    return true;
}

/* A statement whose value is a list makes a member of the object, the `n` of them so far. */
static bool read_statement(struct reader *r, int64_t *n, struct err *e)
{
    struct word name = {.p = r->p};
    while (is_name(peek(r)))
        r->p++;
    name.n = (size_t)(r->p - name.p);
    if ((name.n == 6 && memcmp(name.p, "import", 6) == 0) ||
        (name.n == 4 && memcmp(name.p, "from", 4) == 0)) {
        skip_line(r);
        return true;
    }
    if (name.n == 0)
        return unexpected(r, "a JSON object, name -> list of paths; or NAME = [[0], [0, 0], ...]", e);
    if (!find_value(r, e))
        return false;
    if (peek(r) == '{')
        return unexpected(r, "a list of paths, [[0], [0, 0], ...]; or a file of JSON alone", e);
    if (!at_list(r)) {
        skip_line(r);
        return true;
    }
    fprintf(r->json, "%s\"%.*s\":", (*n)++ > 0 ? "," : "", (int)min_i64((int64_t)name.n, INT32_MAX), name.p);
    if (!read_quoted(r, e))
        return false;
    skip_blank(r, false);
    if (r->p < r->end && !strchr("#\n;", peek(r)))
        return unexpected(r, "nothing behind the list", e);
    r->p += peek(r) == ';';
    return true;
}

/* True also if there is none. */
static bool skip_docstring(struct reader *r, struct err *e)
{
    const char *quotes = skip_text(r, "\"\"\"") ? "\"\"\"" : skip_text(r, "'''") ? "'''" : NULL;
    while (quotes && r->p < r->end && !skip_text(r, quotes)) {
        if (*r->p == '\n')
            r->line += fputc('\n', r->json) == '\n';
        if (++r->p == r->end)
            return unexpected(r, quotes, e);
    }
    return true;
}

static bool read_file(struct reader *r, struct err *e)
{
    int64_t n = 0;
    fputc('{', r->json);
    skip_blank(r, true);
    bool good = true;
    if (at_list(r)) {
        fprintf(r->json, "\"paths\":");
        good = read_quoted(r, e);
        skip_blank(r, true);
        if (good && r->p < r->end)
            return unexpected(r, "nothing behind the list", e);
        n = 1;
    }
    for (; good && r->p < r->end; skip_blank(r, true))
        good = skip_docstring(r, e) && (skip_blank(r, true), r->p == r->end || read_statement(r, &n, e));
    fputc('}', r->json);
    return good && (n > 0 || err_set(e, "no list of paths (expected NAME = [[0], [0, 0], ...])"));
}

static char *to_json(struct reader *r, bool (*read)(struct reader *r, struct err *e), struct err *e)
{
    char *text = NULL;
    size_t size;
    r->json = open_memstream(&text, &size);
    CK(r->json);
    bool good = read(r, e);
    fclose(r->json);
    if (good)
        return text;
    free(text);
    return NULL;
}

char *python_lists_json(const char *text, size_t size, const char *name, struct err *e)
{
    struct reader r = {.p = text, .end = text + size, .line = 1};
    struct err why = {0};
    char *json = to_json(&r, read_file, &why);
    if (!json)
        err_set(e, "%s:%d: %s", name, r.line, why.msg);
    return json;
}

/* All of the text. */
static bool read_all(struct reader *r, struct err *e)
{
    skip_blank(r, true);
    if (!read_list(r, e))
        return false;
    skip_blank(r, true);
    return r->p == r->end || unexpected(r, "nothing behind the list", e);
}

char *python_list_json(const char *s, struct err *e)
{
    struct reader r = {.p = s, .end = s + strlen(s)};
    return to_json(&r, read_all, e);
}
