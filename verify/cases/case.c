#include "verify/cases/case.h"
#include "kernels/kernel.h"
#include "ref/decimal.h"
#include "ref/file.h"
#include "verify/io/text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Of a list of cases. */
enum { MAX_LIST_BYTES = 1 << 24 };

struct problem_spec case_default_spec(void)
{
    return (struct problem_spec){.heads = {4, 2, 64, DT_F16},
                                 .page_size = 16,
                                 .scattered = true,
                                 .poison = true,
                                 .fill = FILL_RANDOM,
                                 .seed = 1};
}

/* ---- strategies and kernels by name ------------------------------------------------------------------- */

bool case_kernel(const char *name, const struct kernel **out, struct err *e)
{
    *out = kernel_find(name);
    return *out || err_set(e, "no kernel '%.60s' (see treeattn list kernels)", name);
}

struct uses {
    struct strategy_use *use;
    int32_t n;
    int64_t cap;
};

/* "name:key=a/b,..": once with each of the values of the first key that has several, and so on. */
static bool add_uses(struct uses *u, const char *item, struct err *e)
{
    const char *value = strchr(item, '/');
    while (value && value > item && value[-1] != '=' && value[-1] != ',')
        value--;
    if (!value || value == item || value[-1] != '=') {
        struct strategy_use use;
        if (!strategy_parse(item, &use, e))
            return false;
        if (u->n == CASE_MAX_STRATEGIES)
            return err_set(e, "more than %d strategies (expected fewer)", CASE_MAX_STRATEGIES);
        u->use = xgrow(u->use, &u->cap, u->n + 1, sizeof *u->use);
        u->use[u->n++] = use;
        return true;
    }
    size_t end = (size_t)(value - item) + strcspn(value, ",");
    bool good = true;
    for (const char *from = value; from <= item + end && good;) {
        size_t n = strcspn(from, "/,");
        char *one = xasprintf("%.*s%.*s%s", (int)(value - item), item, (int)n, from, item + end);
        good = add_uses(u, one, e);
        free(one);
        from += n + 1;
    }
    return good;
}

bool case_strategies(const char *list, struct strategy_use **out, int32_t *n, struct err *e)
{
    struct uses u = {0};
    if (!list || strcmp(list, "all") == 0) {
        *out = xcalloc((size_t)n_strategies, sizeof **out);
        for (*n = 0; *n < n_strategies; (*n)++)
            (*out)[*n] = strategy_default(strategies[*n]);
        return true;
    }
    char *copy = xstrdup(list), *rest = copy;
    bool good = true;
    for (char *item = text_next(&rest, ','); item && good; item = text_next(&rest, ',')) {
        /* a piece "key=value" without a name before it continues the options of the strategy before it */
        while (rest && strcspn(rest, "=") < strcspn(rest, ":,")) {
            rest[-1] = ',';
            (void)text_next(&rest, ',');
        }
        good = add_uses(&u, item, e);
    }
    free(copy);
    if (!good) {
        free(u.use);
        u = (struct uses){0};
    }
    *out = u.use;
    *n = u.n;
    return good;
}

/* ---- parsing ------------------------------------------------------------------------------------------ */

static bool get_i32(const char *value, const char *key, int64_t hi, int32_t *out, struct err *e)
{
    int64_t x;
    if (!text_i64(value, key, 1, hi, &x, e))
        return false;
    *out = (int32_t)x;
    return true;
}

static bool get_flag(const char *value, const char *key, bool *out, struct err *e)
{
    int64_t x = 0;
    bool good = text_i64(value, key, 0, 1, &x, e);
    *out = x;
    return good;
}

/* Elements of K's heads, and behind a slash of V's where these are others. */
static bool get_d(char *value, struct heads *h, struct err *e)
{
    char *of_v = strchr(value, '/');
    if (of_v && h->d_v > 0)
        return err_set(e, "case: dv, and d has V's elements as well (expected one of them)");
    if (of_v)
        *of_v++ = 0;
    h->v_apart = of_v != NULL;
    return get_i32(value, "d", PROBLEM_MAX_ROW, &h->d, e) &&
           (!of_v || get_i32(of_v, "d of V", PROBLEM_MAX_D, &h->d_v, e));
}

/* One key; unknown ones are refused, so that a typing error cannot silently test something else. */
static bool parse_key(struct case_spec *c, const char *key, char *value, struct err *e)
{
    struct problem_spec *s = &c->spec;
    if (strcmp(key, "tree") == 0) {
        tree_source_clear(&c->src);
        char *text = text_unescape(value);
        bool good = tree_source_parse(text, &c->src, e);
        free(text);
        return good;
    }
    if (strcmp(key, "heads") == 0)
        return text_heads(value, &s->heads.h_q, &s->heads.h_kv, e);
    if (strcmp(key, "d") == 0)
        return get_d(value, &s->heads, e);
    if (strcmp(key, "dv") == 0)
        return !s->heads.v_apart ? get_i32(value, "dv", PROBLEM_MAX_ROW, &s->heads.d_v, e)
                                 : err_set(e, "case: dv, and d has V's elements already (expected one of them)");
    if (strcmp(key, "dtype") == 0)
        return dtype_parse(value, &s->heads.dtype) ||
               err_set(e, "dtype '%.60s' (expected f64, f32, f16 or bf16)", value);
    if (strcmp(key, "page") == 0)
        return get_i32(value, "page", 1 << 16, &s->page_size, e);
    if (strcmp(key, "scatter") == 0)
        return get_flag(value, "scatter", &s->scattered, e);
    if (strcmp(key, "poison") == 0)
        return get_flag(value, "poison", &s->poison, e);
    if (strcmp(key, "fill") == 0)
        return fill_parse(value, &s->fill) || err_set(e, "fill '%.60s' (expected " FILL_KINDS("") ")", value);
    if (strcmp(key, "seed") == 0)
        return text_u64(value, "seed", &s->seed, e);
    if (strcmp(key, "scale") == 0)
        return (decimal_parse(value, &s->scale) && s->scale > 0) || /* its limits: problem_spec_check */
               err_set(e, "scale '%.60s' (expected a number above 0)", value);
    if (strcmp(key, "softcap") == 0)
        return (decimal_parse(value, &s->soft_cap) && s->soft_cap > 0) ||
               err_set(e, "softcap '%.60s' (expected a number above 0)", value);
    if (strcmp(key, "sinks") == 0)
        return get_flag(value, "sinks", &s->sinks, e);
    if (strcmp(key, "window") == 0)
        return text_i64(value, "window", 1, TREE_MAX_TOKENS, &s->window, e);
    if (strcmp(key, "kv") == 0)
        return dtype_parse_fp8(value, &s->heads.kv_fp8) ||
               err_set(e, "kv '%.60s' (expected e4m3 or e5m2)", value);
    if (strcmp(key, "headscales") == 0)
        return get_flag(value, "headscales", &s->head_scales, e);
    if (strcmp(key, "pool") == 0)
        return get_i32(value, "pool", INT32_MAX - 1, &s->pool, e);
    if (strcmp(key, "aligned") == 0)
        return get_flag(value, "aligned", &c->aligned, e);
    if (strcmp(key, "strategy") == 0)
        return strategy_parse(value, &c->use, e);
    if (strcmp(key, "kernel") == 0)
        return case_kernel(value, &c->kernel, e);
    if (strcmp(key, "partials") == 0) {
        c->narrow_partials = strcmp(value, "f16") == 0;
        return c->narrow_partials || strcmp(value, "f32") == 0 ||
               err_set(e, "partials '%.60s' (expected f32 or f16)", value);
    }
    return err_set(
        e,
        "case key '%.60s' (expected tree, heads, d, dv, dtype, page, scatter, poison, fill, seed, "
        "scale, softcap, sinks, window, kv, headscales, pool, aligned, strategy, kernel or partials)",
        key);
}

bool case_parse(const char *text, struct case_spec *out, struct err *e)
{
    *out = (struct case_spec){.spec = case_default_spec()};
    char *copy = xstrdup(text), *rest = copy;
    const char **given = NULL;
    int64_t n = 0, cap = 0;
    bool good = true;
    for (char *item = text_next(&rest, ';'); item && good; item = text_next(&rest, ';')) {
        char *value = strchr(item, '=');
        if (!value) {
            good = err_set(e, "case: '%.60s' (expected KEY=VALUE)", item);
        } else {
            *value++ = 0;
            for (int64_t i = 0; i < n && good; i++)
                good = strcmp(given[i], item) != 0 ||
                       err_set(e, "case: %.60s is given twice (expected once)", item);
            good = good && parse_key(out, item, value, e);
            given = xgrow(given, &cap, n + 1, sizeof *given);
            given[n++] = item;
        }
    }
    free(given);
    free(copy);
    if (good && out->src.kind == SRC_NONE)
        good = err_set(e, "case has no tree (expected tree=...)");
    good = good && problem_spec_check(&out->spec, e);
    if (!good)
        case_clear(out);
    return good;
}

void case_clear(struct case_spec *c)
{
    tree_source_clear(&c->src);
}

bool case_at_line(const char *path, int64_t line, const struct err *why, struct err *e)
{
    err_set(e, "%s:%" PRId64 ": %.300s", path, line, why->msg);
    if (e && why->code)
        e->code = why->code;
    return false;
}

bool case_read_list(const char *path, struct case_spec **out, int64_t *n, struct err *e)
{
    size_t size;
    int64_t cap = 0, number = 0;
    char *text = file_slurp(path, MAX_LIST_BYTES, &size, e), *rest = text;
    *out = NULL;
    *n = 0;
    if (!text)
        return false;
    bool good = strlen(text) == size || err_set(e, "%s: a zero byte (expected text)", path);
    for (char *line; good && (line = text_entry(&rest, &number));) {
        *out = xgrow(*out, &cap, *n + 1, sizeof **out);
        struct err own = {0};
        good = case_parse(line, &(*out)[*n], &own) || case_at_line(path, number, &own, e);
        (*out)[*n].line = number;
        *n += good;
    }
    free(text);
    for (int64_t i = 0; i < *n && !good; i++)
        case_clear(&(*out)[i]);
    if (!good) {
        free(*out);
        *out = NULL;
        *n = 0;
    }
    return good;
}

char *case_print(const struct case_spec *c)
{
    const struct problem_spec *s = &c->spec;
    char *raw = tree_source_print(&c->src), *tree = text_escape(raw);
    char *strategy = c->use.s ? strategy_label(&c->use) : NULL, buf[DECIMAL_SIZE];
    char *scale = s->scale > 0 ? xasprintf(";scale=%s", decimal_print(buf, s->scale)) : xstrdup("");
    char *cap = s->soft_cap > 0 ? xasprintf(";softcap=%s", decimal_print(buf, s->soft_cap)) : xstrdup("");
    char *window = s->window > 0 ? xasprintf(";window=%" PRId64, s->window) : xstrdup("");
    char *kv = heads_fp8(&s->heads)
                   ? xasprintf(";kv=%s%s", dtype_name[s->heads.kv_fp8], s->head_scales ? ";headscales=1" : "")
                   : xstrdup("");
    char *dv = s->heads.d_v > 0 ? xasprintf("%s%" PRId32, s->heads.v_apart ? "/" : ";dv=", s->heads.d_v) : xstrdup("");
    char *pool = s->pool > 0 ? xasprintf(";pool=%" PRId32, s->pool) : xstrdup("");
    char *text = xasprintf(
        "tree=%s;heads=%" PRId32 "/%" PRId32 ";d=%" PRId32 "%s;dtype=%s;page=%" PRId32
        ";scatter=%d;poison=%d;fill=%s;seed=%" PRIu64 "%s%s%s%s%s%s%s%s%s%s%s%s",
        tree, s->heads.h_q, s->heads.h_kv, s->heads.d, dv, dtype_name[s->heads.dtype], s->page_size, s->scattered,
        s->poison, fill_name[s->fill], s->seed, scale, cap, s->sinks ? ";sinks=1" : "", window, kv, pool,
        c->aligned ? ";aligned=1" : "", strategy ? ";strategy=" : "", strategy ? strategy : "",
        c->kernel && !c->kernel->option ? ";kernel=" : "",
        c->kernel && !c->kernel->option ? c->kernel->name : "", c->narrow_partials ? ";partials=f16" : "");
    free(raw);
    free(tree);
    free(strategy);
    free(scale);
    free(cap);
    free(window);
    free(kv);
    free(pool);
    free(dv);
    return text;
}
