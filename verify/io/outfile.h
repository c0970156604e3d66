/* outfile.h - where results go: standard output, or a file of the user's that is whole or not there. */
#ifndef TREEATTN_VERIFY_IO_OUTFILE_H
#define TREEATTN_VERIFY_IO_OUTFILE_H

#include "ref/base.h"

#include <stdio.h>

BEGIN_C

/* Standard output, or a file. A file has a temporary name until everything went well. Links are followed. A device or a
 * pipe is written to as it is. */
struct outfile {
    FILE *f;
    char *path; /* NULL for standard output */
    char *tmp;  /* NULL for what is written to as it is */
};
/* Is it "-", /dev/stdout or the like? NULL: no. */
bool outfile_is_stdout(const char *path);
/* Before any work: can all of these be written, and is each a file of its own? NULL: not asked for. */
bool outfiles_check(const char *const *path, int32_t n, struct err *e);
/* Is `path` another file than `read`, which is only read? Either may be NULL. */
bool outfile_spares(const char *path, const char *read, struct err *e);
/* path NULL or "-": standard output. False with *e set if it cannot be written. Close with outfile_close. */
bool outfile_open(struct outfile *o, const char *path, struct err *e);
/* Flush and rename if `keep`, else remove. False with *e set if the bytes did not reach the file. */
bool outfile_close(struct outfile *o, bool keep, struct err *e);

END_C

#endif
