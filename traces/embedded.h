/*
 * embedded.h - traces/data inside the program; internal to traces/.
 */
#ifndef TREEATTN_TRACES_EMBEDDED_H
#define TREEATTN_TRACES_EMBEDDED_H

#ifdef __cplusplus
extern "C" {
#endif

/* Which parser reads it. */
enum embedded_kind { EMBEDDED_DEFT, EMBEDDED_MEDUSA, EMBEDDED_MOONCAKE };

/* The file's text, [begin, end), not terminated. */
struct embedded {
    const char *name, *file, *begin, *end;
    enum embedded_kind kind;
};

/* NULL if there is none of that name. */
const struct embedded *embedded_find(const char *name);

#ifdef __cplusplus
}
#endif

#endif
