#include "tests/shared.h"
#include "ref/decimal.h"
#include "ref/file.h"

#include <check.h>
#include <errno.h>
#include <glob.h>
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

bool in_a_hurry(void)
{
    return getenv("TREEATTN_QUICK") != NULL;
}

int64_t fewer(int64_t few, int64_t all)
{
    return in_a_hurry() ? few : all;
}

char *shared_path(const char *name)
{
    const char *root = getenv("TREEATTN_SHARED");
    char *path = xasprintf("%s/%s", root ? root : "../shared", name);
    if (access(path, R_OK) == 0)
        return path;
    printf("skip: %s is not here\n", path);
    free(path);
    return NULL;
}

bool shared_csv(struct csv *c, const char *name)
{
    char *path = shared_path(name);
    struct err e = {0};
    if (path)
        ck_assert_msg(csv_read(path, c, &e) && csv_whole(c, &e), "%s", e.msg);
    free(path);
    return path != NULL;
}

int64_t csv_number(const struct csv *c, int64_t row, const char *column, int64_t none)
{
    const char *s = csv_text(c, row, column);
    int64_t x = none;
    ck_assert_msg(!*s || decimal_i64(s, &x), "%s:%d: %s is '%s' (expected a whole number)", c->name,
                  (int)c->line[row], column, s);
    return x;
}

char *told_from(const char *phrase)
{
    glob_t readmes;
    char *found = NULL;
    glob("README.md", 0, NULL, &readmes);
    glob("*/README.md", GLOB_APPEND, NULL, &readmes);
    glob("*/*/README.md", GLOB_APPEND, NULL, &readmes);
    for (size_t i = 0; i < readmes.gl_pathc && !found; i++) {
        char *text = file_text(readmes.gl_pathv[i]), *flat = xstrdup(text);
        for (char *c = flat; (c = strchr(c, '\n'));)
            *c = ' ';
        const char *at = strstr(flat, phrase);
        found = at ? xstrdup(text + (at - flat)) : NULL;
        free(flat);
        free(text);
    }
    globfree(&readmes);
    return found;
}

static const char *program(void)
{
    const char *name = getenv("TREEATTN_BIN");
    return name && *name ? name : "build/treeattn";
}

bool program_built(void)
{
    if (access(program(), X_OK) == 0)
        return true;
    printf("skip: %s is not built\n", program());
    return false;
}

const char *program_file(void)
{
    static char path[PATH_MAX];
    ck_assert_msg(realpath(program(), path), "%s is not there", program());
    return path;
}

const char *quote(const char *path, char quoted[4 * PATH_MAX + 3])
{
    char *to = quoted;
    *to++ = '\'';
    for (const char *c = path; *c; c++) {
        if (*c == '\'')
            to = stpcpy(to, "'\\'");
        *to++ = *c;
    }
    strcpy(to, "'");
    return quoted;
}

const char *program_path(void)
{
    static char quoted[4 * PATH_MAX + 3];
    return quote(program_file(), quoted);
}

const char *faulty_path(void)
{
    static char path[PATH_MAX], quoted[4 * PATH_MAX + 3];
    char *name = xstrdup(program_file()), *wanted;
    *strrchr(name, '/') = 0;
    wanted = xasprintf("%s/tests/treeattn-faulty", name);
    ck_assert_msg(realpath(wanted, path), "%s is not there", wanted);
    free(wanted);
    free(name);
    return quote(path, quoted);
}

const char *plugin_path(const char *name)
{
    static char quoted[4 * PATH_MAX + 3];
    const char *program = program_file();
    char *path = xasprintf("%.*s/tests/plugin/%s.so", (int)(strrchr(program, '/') - program), program, name);
    quote(path, quoted);
    free(path);
    return quoted;
}

int run_shell(char *out, size_t size, const char *format, ...)
{
    char *command, rest[4096];
    va_list args;
    va_start(args, format);
    CK(vasprintf(&command, format, args) >= 0);
    va_end(args);
    FILE *f = popen(command, "r");
    ck_assert_msg(f, "%s: %s", command, strerror(errno));
    free(command);
    out[fread(out, 1, size - 1, f)] = 0;
    while (fread(rest, 1, sizeof rest, f) > 0)
        continue;
    int status = pclose(f);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

char *file_text(const char *path)
{
    size_t size;
    struct err e = {0};
    char *text = file_slurp(path, 64 << 20, &size, &e);
    ck_assert_msg(text, "%s", e.msg);
    return text;
}

void write_bytes(const char *path, const void *bytes, size_t size)
{
    FILE *f = fopen(path, "wb");
    ck_assert_msg(f && fwrite(bytes, 1, size, f) == size && fclose(f) == 0, "%s: %s", path, strerror(errno));
}

char *scratch_folder(void)
{
    const char *root = getenv("TMPDIR");
    char *path = xasprintf("%s/XXXXXX", root ? root : "/tmp");
    ck_assert_msg(mkdtemp(path), "%s: %s", path, strerror(errno));
    return path;
}

char *scratch_file(const void *bytes, size_t size)
{
    char *folder = scratch_folder(), *path = xasprintf("%s/file", folder);
    write_bytes(path, bytes, size);
    free(folder);
    return path;
}

struct tree *tree_of(int32_t n, const int32_t *parent, const int64_t *len, int32_t nq,
                     const struct query *query)
{
    struct tree *t = tree_new(n, nq);
    memcpy(t->parent, parent, (size_t)n * sizeof *parent);
    memcpy(t->len, len, (size_t)n * sizeof *len);
    if (nq > 0)
        memcpy(t->query, query, (size_t)nq * sizeof *query);
    else
        tree_query_leaves(t);
    return t;
}

void assert_same_tree(const struct tree *a, const struct tree *b)
{
    ck_assert(a->n_nodes == b->n_nodes && a->n_queries == b->n_queries);
    ck_assert_mem_eq(a->parent, b->parent, (size_t)a->n_nodes * sizeof *a->parent);
    ck_assert_mem_eq(a->len, b->len, (size_t)a->n_nodes * sizeof *a->len);
    for (int32_t q = 0; q < a->n_queries; q++)
        ck_assert(a->query[q].node == b->query[q].node && a->query[q].upto == b->query[q].upto);
}

struct strategy_use strategy_of(const char *text)
{
    struct strategy_use use;
    struct err e = {0};
    ck_assert_msg(strategy_parse(text, &use, &e), "%s", e.msg);
    return use;
}

struct plan *must_plan(const char *text, const struct nform *nf, const struct plan_env *env)
{
    struct strategy_use use = strategy_of(text);
    char why[WHY_MAX];
    struct plan *p = strategy_plan(&use, nf, env, why);
    ck_assert_msg(p, "%s: %s", text, why);
    return p;
}

struct plan_env env_h200(int32_t h_q, int32_t h_kv)
{
    return (struct plan_env){.heads = {h_q, h_kv, 128, DT_F16}, .machine = machine_find("h200")};
}

/* ---- a wrong strategy ---------------------------------------------------------------------------------- */

static struct plan *forget(const struct nform *nf, const struct plan_env *env, const struct strategy *s,
                           const double *opt)
{
    (void)s, (void)opt;
    struct plan *p = must_plan("flash-decoding", nf, env);
    if (p->n_groups == 0) /* nobody sees a token */
        return p;
    p->group[0].n_kv -= p->run[p->group[0].run0].end - p->run[p->group[0].run0].begin;
    p->group[0].run0++;
    return p;
}

const struct strategy forgetful = {.name = "forgetful", .about = "", .plan = forget};
