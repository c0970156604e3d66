/*
 * embedded.c - the assembler puts the files of traces/data into the program, so that it runs with nothing
 * downloaded.
 *
 * Paths are relative to the top of the tree, where make runs. To add one: the file, and a line in
 * embedded.def.
 */
#include "traces/formats/deft.h"
#include "traces/formats/medusa.h"
#include "traces/formats/mooncake.h"

#include <stdlib.h>
#include <string.h>

#define EMBED(name, file, kind)                                                                              \
    extern const char embedded_##name##_begin[], embedded_##name##_end[];                                    \
    __asm__(".pushsection .rodata\n"                                                                         \
            ".global embedded_" #name "_begin, embedded_" #name "_end\n"                                     \
            "embedded_" #name "_begin:\n"                                                                    \
            ".incbin \"traces/data/" file "\"\n"                                                             \
            "embedded_" #name "_end:\n"                                                                      \
            ".byte 0\n"                                                                                      \
            ".popsection\n");
#include "traces/embedded.def"
#undef EMBED

/* The file's text, [begin, end), is not terminated. */
static const struct embedded {
    const char *name, *file, *begin, *end;
    enum { EMBEDDED_DEFT, EMBEDDED_MEDUSA, EMBEDDED_MOONCAKE } kind; /* which parser reads it */
} table[] = {
#define EMBED(name, file, kind)                                                                              \
    {#name, "traces/data/" file, embedded_##name##_begin, embedded_##name##_end, EMBEDDED_##kind},
#include "traces/embedded.def"
#undef EMBED
};

const char *const trace_embedded[] = {
#define EMBED(name, file, kind) #name,
#include "traces/embedded.def"
#undef EMBED
    NULL,
};

static const struct embedded *embedded_find(const char *name)
{
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if (strcmp(table[i].name, name) == 0)
            return &table[i];
    return NULL;
}

static void no_such_embedded(const char *spec, struct err *e)
{
    char names[sizeof e->msg] = "";
    for (int32_t i = 0; trace_embedded[i]; i++)
        listing_add(names, sizeof names, trace_embedded[i]);
    err_set(e, "%s: no such trace in the program (expected one of: %s)", spec, names);
}

struct trace *trace_open_embedded(const char *arg, const char *spec, const struct trace_opts *o,
                                  struct err *e)
{
    /* Parsed like a file, so that a newcomer's first run goes through the code that reads real traces. */
    const char *pick;
    char *name = spec_file_name(arg, &pick);
    const struct embedded *em = embedded_find(name);
    free(name);
    if (!em || (pick[0] && em->kind != EMBEDDED_MEDUSA)) {
        no_such_embedded(spec, e);
        return NULL;
    }
    size_t size = (size_t)(em->end - em->begin);
    if (em->kind == EMBEDDED_DEFT)
        return deft_open(em->begin, size, em->file, spec, o, e);
    if (em->kind == EMBEDDED_MEDUSA)
        return medusa_open(em->begin, size, em->file, pick, spec, o, e);
    struct requests *r = mooncake_read(em->begin, size, em->file, NULL, e);
    return r ? replay_requests(r, spec, o, e) : NULL;
}
