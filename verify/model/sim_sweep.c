/* sim_sweep.c - many trees in one `treeattn sim`: the papers' sets, or every combination of swept values. */
#include "traces/paper_sets.h"
#include "verify/model/sim.h"
#include "verify/io/text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_COMBINATIONS = 1000000 };

/* ---- one more tree -------------------------------------------------------------------------------------- */

/* Takes `src` and `at`. */
static bool add_tree(struct sim_run *run, struct tree_source src, const struct problem_spec *spec, char *at,
                     struct err *e)
{
    run->source = xgrow(run->source, &run->cap_sources, run->n_sources + 1, sizeof *run->source);
    struct sim_source *s = &run->source[run->n_sources++];
    *s = (struct sim_source){.src = src, .spec = *spec, .at = at};
    s->tree = tree_source_load(&s->src, e);
    if (s->tree)
        tree_set_window(s->tree, spec->window);
    s->steps = (struct simulation_source){.tree = s->tree, .first = 1, .last = 1};
    return s->tree && problem_spec_check(spec, e);
}

/* ---- the papers' sets ----------------------------------------------------------------------------------- */

bool sim_open_sets(struct sim_run *run, const char *list, bool heads, struct err *e)
{
    int32_t n;
    struct paper_case *c = paper_sets(list, &run->spec.heads, heads, &n, e);
    bool good = c != NULL;
    for (int32_t i = 0; i < n && good; i++) {
        struct tree_source src = {.kind = SRC_LEVELS, .text = xstrdup(c[i].tree->levels)};
        struct problem_spec spec = run->spec;
        spec.heads = c[i].heads;
        good = add_tree(run, src, &spec, xasprintf("%s %" PRId32, c[i].set, c[i].tree->number), e);
    }
    free(c);
    return good;
}

/* ---- sweeps --------------------------------------------------------------------------------------------- */

bool sim_swept_parse(const char *arg, struct sim_swept *out, struct err *e)
{
    char *rest = xstrdup(arg);
    *out = (struct sim_swept){.name = rest};
    text_next(&rest, '=');
    bool good = out->name[0] && rest && rest[0];
    for (char *value; good && rest && (value = text_next(&rest, ','));) {
        good = value[0] && out->n < SIM_MAX_VALUES;
        if (good)
            out->value[out->n++] = value;
    }
    return good ||
           err_set(e, "--sweep '%.60s' (expected NAME=VALUE,.. of at most %d values)", arg, SIM_MAX_VALUES);
}

void sim_swept_clear(struct sim_swept *s)
{
    free(s->name);
    *s = (struct sim_swept){0};
}

static bool is_heads(const struct sim_swept *s)
{
    return strcmp(s->name, "heads") == 0;
}

static bool is_window(const struct sim_swept *s)
{
    return strcmp(s->name, "window") == 0;
}

/* `text` with `value` wherever it has {name}, in place of it, which is not looked into; false if it has none. */
static bool put_value(char **text, const char *name, const char *value)
{
    char *key = xasprintf("{%s}", name), *rest = *text, *done = xstrdup("");
    bool any = false;
    for (char *found; (found = strstr(rest, key)); rest = found + strlen(key), any = true)
        xappend(&done, "%.*s%s", (int)(found - rest), rest, value);
    xappend(&done, "%s", rest);
    free(key);
    free(*text);
    *text = done;
    return any;
}

/* Combination `number` of all values, the last name's fastest. */
static bool open_combination(struct sim_run *run, const struct sim_swept *swept, int32_t n, int64_t number,
                             struct err *e)
{
    struct tree_source src = tree_source_copy(run->src);
    struct problem_spec spec = run->spec;
    char *at = xstrdup("");
    bool good = true;
    for (int32_t i = n - 1; i >= 0 && good; number /= swept[i].n, i--) {
        const char *value = swept[i].value[number % swept[i].n];
        if (is_heads(&swept[i])) {
            good = text_heads(value, &spec.heads.h_q, &spec.heads.h_kv, e);
            continue;
        }
        good = is_window(&swept[i]) ? text_i64(value, "--sweep window", 0, TREE_MAX_TOKENS, &spec.window, e)
                                    : put_value(&src.text, swept[i].name, value) ||
               err_set(e, "--sweep %.20s: --levels '%.60s' have no {%.20s}", swept[i].name, run->src->text,
                       swept[i].name);
        char *longer = xasprintf("%s=%s%s%s", swept[i].name, value, at[0] ? " " : "", at);
        free(at);
        at = longer;
    }
    if (good)
        return add_tree(run, src, &spec, at, e);
    tree_source_clear(&src);
    free(at);
    return false;
}

bool sim_open_swept(struct sim_run *run, const struct sim_swept *swept, int32_t n, struct err *e)
{
    if (run->src->kind != SRC_LEVELS)
        return err_set(e, "--sweep is of trees by levels (expected --levels)");
    int64_t combinations = 1; /* 64^8 at most */
    for (int32_t i = 0; i < n; i++)
        combinations *= swept[i].n;
    if (combinations > MAX_COMBINATIONS)
        return err_set(e, "--sweep: %" PRId64 " combinations (expected at most %d)", combinations,
                       MAX_COMBINATIONS);
    bool good = true;
    for (int64_t k = 0; k < combinations && good; k++)
        good = open_combination(run, swept, n, k, e);
    return good;
}
