/*
 * trace_spec.c - what the openers of traces share: files, counts, seeds.
 */
#include "ref/file.h"
#include "traces/formats/text.h"
#include "traces/trace_kind.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

char *trace_folder(void)
{
    const char *shared = getenv("TREEATTN_SHARED");
    return xasprintf("%s/traces", shared && *shared ? shared : "../shared");
}

char *trace_slurp(const char *file, size_t max_bytes, size_t *size, struct err *e)
{
    if (!*file || strchr(file, '/') || access(file, F_OK) == 0)
        return file_slurp(file, max_bytes, size, e);
    char *folder = trace_folder(), *path = xasprintf("%s/%s", folder, file), *text = NULL;
    if (access(path, F_OK) == 0)
        text = file_slurp(path, max_bytes, size, e);
    else
        err_set(e, "%s: cannot be opened: neither here nor in %s", file, folder);
    free(folder);
    free(path);
    return text;
}

char *spec_file_name(const char *arg, const char **name)
{
    char *file = xstrdup(arg), *comma = strrchr(file, ',');
    *name = comma ? arg + (comma + 1 - file) : "";
    if (comma)
        *comma = '\0';
    return file;
}

bool spec_seed(const char *arg, int64_t *seed)
{
    return word_int((struct word){arg, strlen(arg)}, 0, INT64_MAX, seed);
}

bool spec_count_seed(const char *arg, int64_t most, int64_t *n, int64_t *seed)
{
    const char *comma = strchr(arg, ',');
    return comma && word_int((struct word){arg, (size_t)(comma - arg)}, 1, most, n) &&
           spec_seed(comma + 1, seed);
}

bool spec_counts(const char *arg, int64_t most, int64_t *a, int64_t *b)
{
    const char *comma = strchr(arg, ',');
    return comma && word_int((struct word){arg, (size_t)(comma - arg)}, 1, most, a) &&
           word_int((struct word){comma + 1, strlen(comma + 1)}, 1, most, b);
}

bool spec_only_tree(const char *spec, const struct trace_opts *o, struct err *e)
{
    return o->tree_index == 0 || err_set(e, "%s: no tree %d (expected 0, there is one)", spec, o->tree_index);
}
