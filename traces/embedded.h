/*
 * embedded.h - traces/data inside the program; internal to traces/.
 */
#ifndef TREEATTN_TRACES_EMBEDDED_H
#define TREEATTN_TRACES_EMBEDDED_H

/* The file's text, [begin, end), not terminated. */
struct embedded {
    const char *name, *file, *begin, *end;
};

/* NULL if there is none of that name. */
const struct embedded *embedded_find(const char *name);

#endif
