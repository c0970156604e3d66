#include "traces/workloads.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const struct workload workloads[] = {
#define WORKLOAD(n, g, t, p, s, b, ms, top, a)                                                               \
    {.name = n,                                                                                              \
     .group = g,                                                                                             \
     .trace = t,                                                                                             \
     .about = a,                                                                                             \
     .opts = {.prompt = p, .max_seq = s, .batch = b, .step_ms = ms, .topology = top}},
#include "traces/workloads.def"
#undef WORKLOAD
};
const int32_t n_workloads = sizeof workloads / sizeof workloads[0];

static bool no_such(const char *name, struct err *e)
{
    char *list = xstrdup("");
    for (int32_t i = 0; i < n_workloads; i++) {
        bool group = i == 0 || strcmp(workloads[i].group, workloads[i - 1].group) != 0;
        if (group)
            xappend(&list, "%s%s:", i ? "; " : "", workloads[i].group);
        xappend(&list, " %s", workloads[i].name);
    }
    err_set(e, "--workload '%.40s' (expected %s)", name, list);
    free(list);
    return false;
}

bool workloads_pick(const char *list, const struct workload ***out, int32_t *n, struct err *e)
{
    char *copy = xstrdup(list), *rest = copy;
    int64_t cap = 0;
    bool good = true;
    *out = NULL;
    *n = 0;
    for (char *name; good && (name = strsep(&rest, ","));) {
        int32_t before = *n;
        for (int32_t i = 0; i < n_workloads; i++)
            if (strcmp(name, workloads[i].name) == 0 || strcmp(name, workloads[i].group) == 0) {
                *out = xgrow(*out, &cap, *n + 1, sizeof **out);
                (*out)[(*n)++] = &workloads[i];
            }
        good = *n > before || no_such(name, e);
    }
    free(copy);
    return good;
}

char *workload_spec(const struct workload *w, const char *data)
{
    const char *at = strchr(w->trace, '@');
    return at ? xasprintf("%.*s%s/%s", (int)(at - w->trace), w->trace, data, at + 1) : xstrdup(w->trace);
}

char *workload_lacks(const struct workload *w, const char *data)
{
    const char *at = strchr(w->trace, '@');
    char *path = at ? xasprintf("%s/%s", data, at + 1) : NULL;
    if (path && access(path, R_OK) != 0)
        return path;
    free(path);
    return NULL;
}
