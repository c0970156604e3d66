/*
 * exchange.h - a question to a child, as README.md here says: a line of JSON, a file of tensors, the answer, and what became
 * of it.
 */
#ifndef TREEATTN_VERIFY_CHILD_EXCHANGE_H
#define TREEATTN_VERIFY_CHILD_EXCHANGE_H

#include "kernels/kernel.h"
#include "verify/child/process.h"
#include "verify/child/tensors.h"

#include <jansson.h>

BEGIN_C

/* A folder of our own for tensors, in memory if that may be; NULL with *e set. Those of judges that are gone are removed.
 * code: what lies in it may be run and loaded. The caller ends it with exchange_remove, and frees its path. */
char *exchange_folder(bool code, struct err *e);
/* The folder with the files in it. */
void exchange_remove(const char *path);

/* Starts a child and reads its first line, into *hello, which the caller releases. NULL with *e set: it is no child, or
 * refuses; *hello is NULL then. seconds: that the first line may take. */
struct process *exchange_start(const char *command, const char *folder, const struct process_limits *limits,
                               double seconds, json_t **hello, struct err *e);

struct exchange {
    const char *line; /* that asks, */
    int64_t number;   /* with this number */
    const char *in, *out;
    const struct tensors *given; /* what is in the file `in` while the child has it */
    double seconds;              /* that the answer may take */
    int64_t *allocations;        /* NULL, or where the child's count goes, if it has one */
    struct own_timing *timing;       /* NULL, or where its times go */
};
/* Asks, and waits. RUN_DONE: it says that there is an answer in `out`, which nobody has looked at. Else *why is set; its
 * code is EXIT_MISSING if the question could not be asked, which is no fault of the child's. Not
 * *sound: the child is of no more use. `in` is removed, `out` is left to the caller. */
enum run_end exchange_ask(struct process *p, const struct exchange *x, bool *sound, struct err *why);

END_C

#endif
