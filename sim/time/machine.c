#include "sim/time/machine.h"
#include "ref/decimal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* clang-format off */
const struct machine machines[] = {
#define FIGURE(field, value, from) .field = value, .source[MACHINE_##field] = from,
#define MACHINE(short_name, long_name, figures) {.name = short_name, .title = long_name, figures},
#include "sim/time/machines.def"
#undef MACHINE
#undef FIGURE
};
/* clang-format on */
const int32_t n_machines = (int32_t)(sizeof machines / sizeof machines[0]);

const struct machine_figure machine_figures[N_MACHINE_FIGURES] = {
#define X(type, field, unit, least, most, about) {#field, unit, about, least, most},
    MACHINE_FIGURES(X)
#undef X
};

bool machine_borrows(const struct machine *m, int32_t figure)
{
    const char *source = m->source[figure];
    return source && (strncmp(source, "assumed", strlen("assumed")) == 0 || strstr(source, ", of "));
}

double machine_get(const struct machine *m, int32_t figure)
{
    switch (figure) {
#define X(type, field, unit, least, most, about)                                                             \
    case MACHINE_##field:                                                                                    \
        return (double)m->field;
        MACHINE_FIGURES(X)
#undef X
    default:
        CK_FOUND("a figure");
    }
}

static void set_figure(struct machine *m, int32_t figure, double value)
{
    switch (figure) {
#define X(type, field, unit, least, most, about)                                                             \
    case MACHINE_##field:                                                                                    \
        m->field = (type)value;                                                                              \
        break;
        MACHINE_FIGURES(X)
#undef X
    default:
        CK_FOUND("a figure");
    }
    m->source[figure] = "given";
}

const struct machine *machine_find(const char *name)
{
    for (int32_t i = 0; i < n_machines; i++)
        if (strcmp(machines[i].name, name) == 0)
            return &machines[i];
    return NULL;
}

/* Is the model of a title, "H100" in "NVIDIA H100 SXM5 80GB", a word of the device's name? */
static bool same_model(const char *title, const char *device)
{
    const char *model = strchr(title, ' ');
    model = model ? model + 1 : title;
    size_t n = strcspn(model, " -");
    if (strcspn(model, "0123456789") >= n) /* a brand */
        return false;
    for (const char *at = strchr(device, ' '); at; at = strchr(at + 1, ' '))
        if (strncmp(at + 1, model, n) == 0 && strchr(" -", at[1 + n]) != NULL)
            return true;
    return false;
}

const struct machine *machine_of_device(const char *device)
{
    const struct machine *found = NULL;
    for (int32_t i = n_machines - 1; i >= 0; i--)
        if (strcmp(machines[i].title, device) == 0)
            return &machines[i];
        else if (same_model(machines[i].title, device))
            found = &machines[i];
    return found;
}

const struct machine *machine_default(void)
{
    const struct machine *m = machine_find("h200");
    CK(m);
    return m;
}

/* ---- text to machine ---------------------------------------------------------------------------------- */

static bool is_whole(int32_t figure)
{
#define X(type, field, unit, least, most, about) [MACHINE_##field] = (type)0.5 == 0,
    static const bool whole[N_MACHINE_FIGURES] = {MACHINE_FIGURES(X)};
#undef X
    return whole[figure];
}

static bool unknown_machine(const char *name, struct err *e)
{
    char list[200] = "";
    for (int32_t i = 0; i < n_machines; i++)
        listing_add(list, sizeof list, machines[i].name);
    return err_set(e, "no machine '%.60s' (expected one of %s)", name, list);
}

/* figure: N_MACHINE_FIGURES where nothing has that name. */
static bool no_such_figure(const char *machine, const char *name, int32_t figure, struct err *e)
{
    char list[400] = "";
    for (int32_t i = 0; i < N_MACHINE_GIVEN; i++)
        listing_add(list, sizeof list, machine_figures[i].name);
    if (figure < N_MACHINE_FIGURES)
        return err_set(e, "machine %s: %s is for reference, no model rests on it (expected one of %s)",
                       machine, name, list);
    return err_set(e, "machine %s has no figure '%.60s' (expected one of %s)", machine, name, list);
}

/* "bandwidth=4.5e12" */
static bool parse_figure(struct machine *m, char *pair, bool *given, struct err *e)
{
    char *value = strchr(pair, '=');
    if (!value)
        return err_set(e, "machine %s: '%.60s' (expected figure=value)", m->name, pair);
    *value++ = 0;
    int32_t i = 0;
    while (i < N_MACHINE_FIGURES && strcmp(machine_figures[i].name, pair) != 0)
        i++;
    if (i >= N_MACHINE_GIVEN)
        return no_such_figure(m->name, pair, i, e);
    const struct machine_figure *f = &machine_figures[i];
    double x = 0;
    if (given[i])
        return err_set(e, "machine %s: %s is given twice (expected once)", m->name, f->name);
    given[i] = true;
    if (!decimal_parse(value, &x) || !(x >= f->least && x <= f->most) ||
        (is_whole(i) && x != (double)(int64_t)x))
        return err_set(e, "machine %s: %s=%.60s (expected a %snumber from %g to %g)", m->name, f->name, value,
                       is_whole(i) ? "whole " : "", f->least, f->most);
    set_figure(m, i, x);
    return true;
}

bool machine_parse(const char *text, struct machine *out, struct err *e)
{
    char *copy = xstrdup(text), *options = strchr(copy, ':');
    if (options)
        *options++ = 0;
    const struct machine *base = machine_find(copy);
    bool good = base ? true : unknown_machine(copy, e);
    if (good) {
        struct machine m = *base;
        bool given[N_MACHINE_FIGURES] = {false};
        for (char *pair; good && (pair = strsep(&options, ","));)
            good = parse_figure(&m, pair, given, e);
        if (good && m.smem_per_cta > m.smem_per_sm)
            good = err_set(e, "machine %s: smem_per_cta=%lld (expected at most smem_per_sm, %lld)", m.name,
                           (long long)m.smem_per_cta, (long long)m.smem_per_sm);
        if (good)
            *out = m;
    }
    free(copy);
    return good;
}
