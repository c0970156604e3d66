#include "sim/strategy.h"
#include "ref/decimal.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define STRATEGY(symbol) extern const struct strategy symbol;
#include "sim/strategies/strategies.def"
#undef STRATEGY

const struct strategy *const strategies[] = {
#define STRATEGY(symbol) &symbol,
#include "sim/strategies/strategies.def"
#undef STRATEGY
    NULL};
const int32_t n_strategies = (int32_t)(sizeof strategies / sizeof strategies[0]) - 1;

bool why_not(char *why, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(why, WHY_MAX, fmt, ap);
    va_end(ap);
    return false;
}

struct strategy_use strategy_default(const struct strategy *s)
{
    struct strategy_use u = {.s = s};
    for (int i = 0; s->opts && s->opts[i].key; i++) {
        CK(i < STRATEGY_MAX_OPTS);
        u.opt[i] = s->opts[i].def;
    }
    return u;
}

/* "a, b, c" of what a user may write. */
static void list_names(char *out, size_t size, const struct strategy *s)
{
    out[0] = 0;
    for (int i = 0; s && s->opts && s->opts[i].key; i++)
        listing_add(out, size, s->opts[i].key);
    for (int32_t i = 0; !s && i < n_strategies; i++)
        listing_add(out, size, strategies[i]->name);
}

const char *const rule_names[] = {"paper", "artifact", NULL}, *const any_number[] = {NULL};

static bool parse_value(const struct strategy_opt *o, const char *text, double *out)
{
    for (int i = 0; o->names && o->names[i]; i++)
        if (strcmp(o->names[i], text) == 0) {
            *out = i;
            return true;
        }
    return !opt_has_names(o) && decimal_parse(text, out) && *out >= o->min && *out <= o->max &&
           (o->names == any_number || *out == floor(*out));
}

/* What a value may be: "one of paper, artifact" or "a whole number from 0 to 1". */
static void list_values(char *out, size_t size, const struct strategy_opt *o)
{
    static const char one_of[] = "one of ";
    char min[DECIMAL_SIZE], max[DECIMAL_SIZE], *names = out + strlen(one_of);
    if (!opt_has_names(o)) {
        snprintf(out, size, "a %snumber from %s to %s", o->names ? "" : "whole ", decimal_print(min, o->min),
                 decimal_print(max, o->max));
        return;
    }
    strcpy(out, one_of);
    for (int i = 0; o->names[i]; i++)
        listing_add(names, size - strlen(one_of), o->names[i]);
}

static bool parse_option(struct strategy_use *u, char *pair, bool *given, struct err *e)
{
    char names[256];
    char *eq = strchr(pair, '=');
    if (eq)
        *eq = 0;
    for (int i = 0; u->s->opts && u->s->opts[i].key; i++) {
        const struct strategy_opt *o = &u->s->opts[i];
        if (strcmp(o->key, pair) != 0)
            continue;
        if (given[i])
            return err_set(e, "option %s of strategy %s is given twice (expected once)", o->key, u->s->name);
        given[i] = true;
        if (eq && parse_value(o, eq + 1, &u->opt[i]))
            return true;
        list_values(names, sizeof names, o);
        return err_set(e, "option %s of strategy %s is '%.60s' (expected %s)", o->key, u->s->name,
                       eq ? eq + 1 : "", names);
    }
    list_names(names, sizeof names, u->s);
    return err_set(e, "strategy %s has no option '%.60s' (expected %s)", u->s->name, pair,
                   names[0] ? names : "none: it takes no options");
}

bool strategy_parse(const char *text, struct strategy_use *out, struct err *e)
{
    char *copy = xstrdup(text);
    char *options = strchr(copy, ':');
    if (options)
        *options++ = 0;
    bool ok = true;
    out->s = NULL;
    for (int32_t i = 0; i < n_strategies; i++)
        if (strcmp(strategies[i]->name, copy) == 0)
            *out = strategy_default(strategies[i]);
    if (!out->s) {
        char names[400];
        list_names(names, sizeof names, NULL);
        ok = err_set(e, "no strategy '%.60s' (expected one of %s)", copy, names);
    }
    bool given[STRATEGY_MAX_OPTS] = {false};
    for (char *pair; ok && (pair = strsep(&options, ","));)
        ok = parse_option(out, pair, given, e);
    free(copy);
    return ok;
}

char *strategy_opt_text(const struct strategy_opt *o, double value)
{
    char number[DECIMAL_SIZE];
    return xstrdup(opt_has_names(o) ? o->names[(int)value] : decimal_print(number, value));
}

/* "k=v,..": all options, or those that differ from the defaults. */
static char *print_options(const struct strategy_use *u, bool all)
{
    struct strategy_use def = strategy_default(u->s);
    char *s = xstrdup("");
    for (int i = 0; u->s->opts && u->s->opts[i].key; i++) {
        const struct strategy_opt *o = &u->s->opts[i];
        if (!all && u->opt[i] == def.opt[i])
            continue;
        char *value = strategy_opt_text(o, u->opt[i]);
        xappend(&s, "%s%s=%s", s[0] ? "," : "", o->key, value);
        free(value);
    }
    return s;
}

char *strategy_params(const struct strategy_use *u)
{
    return print_options(u, true);
}

char *strategy_label(const struct strategy_use *u)
{
    char *options = print_options(u, false),
         *s = xasprintf("%s%s%s", u->s->name, options[0] ? ":" : "", options);
    free(options);
    return s;
}

static bool is_applicable(const struct strategy_use *u, const struct nform *nf, const struct plan_env *env,
                          char *why)
{
    return !u->s->applicable || u->s->applicable(nf, env, u->s, u->opt, why);
}

struct plan_env plan_env_default(struct heads heads)
{
    return (struct plan_env){.heads = heads, .machine = machine_default()};
}

struct strategy_use strategy_chosen(const struct strategy_use *u, const struct nform *nf,
                                    const struct plan_env *env)
{
    struct strategy_use chosen = *u;
    char why[WHY_MAX];
    if (u->s->choose && is_applicable(u, nf, env, why))
        u->s->choose(nf, env, u->opt, chosen.opt);
    return chosen;
}

struct plan *strategy_plan(const struct strategy_use *u, const struct nform *nf, const struct plan_env *env,
                           char *why)
{
    CK(env->heads.h_kv >= 1 && env->heads.h_q % env->heads.h_kv == 0 && env->machine);
    why[0] = 0;
    if (!is_applicable(u, nf, env, why)) {
        CK(why[0]); /* "not applicable" comes with a sentence */
        return NULL;
    }
    struct plan *p = u->s->plan(nf, env, u->s, u->opt);
    CK(p);
    free(p->params);
    p->params = strategy_params(u);
    return p;
}
