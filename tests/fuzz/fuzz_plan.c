/*
 * fuzz_plan.c - plans of others: what is read prints as itself, and coverage can be checked whatever it says.
 */
#include "sim/plan_file.h"
#include "tests/fuzz/fuzz.h"
#include "verify/judge/cover.h"

static char *printed(const struct plan *p, size_t *size)
{
    char *text = NULL;
    FILE *f = open_memstream(&text, size);
    CK(f);
    plan_print_json(f, p);
    fclose(f);
    return text;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct err e = {0};
    struct plan_file *x = plan_file_parse((const char *)data, size, "plan", &e);
    CK((x != NULL) == (e.code == EXIT_GOOD));
    if (!x)
        return 0;
    fuzz_tree(x->tree);
    size_t n;
    char *text = printed(x->plan, &n);
    struct plan_file *again = plan_file_parse(text, n, "again", &e);
    CK(again && plan_same(x->plan, again->plan));
    struct err why = {0};
    CK(cover_check(x->plan, &why) == (why.code == EXIT_GOOD));
    plan_file_free(again);
    plan_file_free(x);
    free(text);
    return 0;
}
