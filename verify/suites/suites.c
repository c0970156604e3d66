/* suites.c - the assembler puts the files of suites.def into the program. Paths are relative to the top of the tree. */
#include "verify/suites/suites.h"
#include "verify/io/text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define SUITE(id, name, about)                                                                               \
    extern const char suite_##id##_begin[], suite_##id##_end[];                                              \
    __asm__(".pushsection .rodata\n"                                                                         \
            ".global suite_" #id "_begin, suite_" #id "_end\n"                                               \
            "suite_" #id "_begin:\n"                                                                         \
            ".incbin \"verify/suites/" name ".txt\"\n"                                                       \
            "suite_" #id "_end:\n"                                                                           \
            ".byte 0\n"                                                                                      \
            ".popsection\n");
#include "verify/suites/suites.def"
#undef SUITE

const struct suite suites[] = {
#define SUITE(id, name, about) {name, about, suite_##id##_begin, suite_##id##_end},
#include "verify/suites/suites.def"
#undef SUITE
};
const int32_t n_suites = sizeof suites / sizeof suites[0];

const struct suite *suite_find(const char *name, struct err *e)
{
    char names[300] = "";
    for (int32_t i = 0; i < n_suites; i++) {
        if (strcmp(suites[i].name, name) == 0)
            return &suites[i];
        listing_add(names, sizeof names, suites[i].name);
    }
    err_set(e, "no suite '%.60s' (expected one of %s)", name, names);
    return NULL;
}

const char *suite_sha256(const struct suite *s, char out[SHA256_TEXT])
{
    return sha256_text(s->begin, (size_t)(s->end - s->begin), out);
}

struct list {
    struct case_spec *c;
    int64_t n, cap;
};

static bool add_lines(struct list *l, const struct suite *s, bool includes, struct err *e);

/* "include NAME SHA256": a suite is what it was when this one was released. */
static bool add_suite(struct list *l, char *text, struct err *e)
{
    char sha[SHA256_TEXT];
    const char *name = text_next(&text, ' ');
    const struct suite *s = suite_find(name, e);
    if (!s)
        return false;
    if (!text || strcmp(text, suite_sha256(s, sha)) != 0)
        return err_set(e, "include %s: its digest is %s (expected the one that stands there)", name, sha);
    return add_lines(l, s, false, e);
}

static bool add_line(struct list *l, char *line, int64_t number, bool includes, struct err *e)
{
    static const char include[] = "include ";
    if (strncmp(line, include, strlen(include)) == 0)
        return includes ? add_suite(l, line + strlen(include), e)
                        : err_set(e, "an include in a suite that is included (expected a case)");
    l->c = xgrow(l->c, &l->cap, l->n + 1, sizeof *l->c);
    if (!case_parse(line, &l->c[l->n], e))
        return false;
    l->c[l->n++].line = number;
    return true;
}

static bool add_lines(struct list *l, const struct suite *s, bool includes, struct err *e)
{
    char *text = xasprintf("%.*s", (int)(s->end - s->begin), s->begin), *rest = text;
    bool good = true;
    int64_t number = 0;
    for (char *line; good && (line = text_entry(&rest, &number));) {
        struct err own = {0};
        good = add_line(l, line, number, includes, &own) || case_at_line(s->name, number, &own, e);
    }
    free(text);
    return good;
}

bool suite_cases(const struct suite *s, struct case_spec **out, int64_t *n, struct err *e)
{
    struct list l = {0};
    bool good = add_lines(&l, s, true, e);
    for (int64_t i = 0; i < l.n && !good; i++)
        case_clear(&l.c[i]);
    if (!good) {
        free(l.c);
        l = (struct list){0};
    }
    *out = l.c;
    *n = l.n;
    return good;
}
