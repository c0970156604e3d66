/*
 * fuzz_case.c - case strings: parsed, printed, parsed again; small ones planned and checked for coverage, which
 * is what a strategy's options are parsed for.
 */
#include "kernels/kernel.h"
#include "tests/fuzz/fuzz.h"
#include "verify/cases/case.h"
#include "verify/judge/cover.h"

/* A name is all that a case needs of a kernel; the real ones would bring OpenBLAS along. */
const struct kernel *kernel_find(const char *name)
{
    static const struct kernel cpu = {.name = "cpu"};
    return strcmp(name, cpu.name) == 0 ? &cpu : NULL;
}

static void check_sentence(const struct err *e)
{
    CK(e->code == EXIT_BAD_INPUT && e->msg[0]);
    CK(strstr(e->msg, "(expected ") || strstr(e->msg, "(see "));
    for (const char *p = e->msg; *p; p++)
        CK((unsigned char)*p >= ' ' && *p != 0x7f); /* names may be in UTF-8 */
}

/* A strategy's plan of a small tree must cover it, whatever the options. */
static void plan_small(const struct case_spec *c, const struct tree *t)
{
    enum { MAX_NODES = 64, MAX_QUERIES = 64, MAX_TOKENS = 2048, MAX_HEADS = 64 };
    if (!c->use.s || t->n_nodes > MAX_NODES || t->n_queries > MAX_QUERIES || tree_tokens(t) > MAX_TOKENS ||
        c->spec.heads.h_q > MAX_HEADS)
        return;
    struct nform *nf = nform_new(t);
    const struct plan_env env = plan_env_default(c->spec.heads);
    char why[WHY_MAX] = "";
    struct plan *plan = strategy_plan(&c->use, nf, &env, why);
    CK(plan || why[0]);
    if (plan) {
        struct err e = {0};
        CK(cover_check(plan, &e));
        plan_free(plan);
    }
    nform_free(nf);
}

/* Files, traces and sixteen million nodes have targets or tests of their own. */
static bool is_light(const struct tree_source *s)
{
    enum { MAX_CHAIN = 256 };
    return s->kind == SRC_GEN || s->kind == SRC_NODES ||
           (s->kind == SRC_CHAIN && s->chain_depth <= MAX_CHAIN);
}

static void load(const struct case_spec *c)
{
    struct err e = {0};
    struct tree *t = tree_source_load(&c->src, &e);
    CK((t != NULL) == (e.code == EXIT_GOOD));
    if (t) {
        fuzz_tree(t);
        plan_small(c, t);
    } else {
        check_sentence(&e);
    }
    tree_free(t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = xmalloc(size + 1);
    memcpy(text, data, size);
    text[size] = '\0';
    struct err e = {0};
    struct case_spec c, again;
    if (case_parse(text, &c, &e)) {
        CK(e.code == EXIT_GOOD);
        char *printed = case_print(&c);
        CK(case_parse(printed, &again, &e));
        char *twice = case_print(&again);
        CK(strcmp(printed, twice) == 0);
        if (is_light(&c.src))
            load(&c);
        free(printed);
        free(twice);
        case_clear(&c);
        case_clear(&again);
    } else {
        check_sentence(&e);
    }
    free(text);
    return 0;
}
