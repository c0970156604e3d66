/*
 * embedded.c - the assembler puts the files of traces/data into the program, so that it runs with nothing
 * downloaded.
 *
 * Paths are relative to the top of the tree, where make runs. To add one: the file, and a line in
 * embedded.def.
 */
#include "traces/embedded.h"

#include "traces/trace.h"

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

static const struct embedded table[] = {
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

const struct embedded *embedded_find(const char *name)
{
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if (strcmp(table[i].name, name) == 0)
            return &table[i];
    return NULL;
}
