/*
 * arena.h - what the engine library has in the place of ref/memory.c: the planners' allocators take from one block of
 * memory, and a check that fails, or memory that runs out, ends the call and not the process.
 *
 * The planners know no context. So the arena of the call that runs is a variable of its thread, set from arena_enter
 * to arena_leave and NULL otherwise. What an arena gave is gone with arena_leave.
 *
 * The library is linked with --wrap=free and --wrap=qsort: planners free what xmalloc gave, and glibc's qsort allocates.
 */
#ifndef TREEATTN_SIM_ENGINE_ARENA_H
#define TREEATTN_SIM_ENGINE_ARENA_H

#include "ref/base.h"
#include "sim/engine/treeattn.h"

#include <setjmp.h>

BEGIN_C

enum { ARENA_WHY = 256, ARENA_CLASSES = 48 };

struct arena {
    char *memory;
    size_t size, used, peak;
    void *freed[ARENA_CLASSES]; /* blocks of 2^class bytes, each with the address of the next */
    jmp_buf out;                /* where a call goes on that fails */
    enum ta_code code;
    char why[ARENA_WHY];
};

/*
 * int f(struct ta_ctx *c, ..)
 * {
 *     arena_enter(&c->arena);
 *     if (setjmp(c->arena.out) == 0)
 *         ..                            any depth of calls, which may end with arena_fail
 *     return arena_leave(&c->arena);
 * }
 */
void arena_enter(struct arena *a);
enum ta_code arena_leave(struct arena *a);

/* Ends the call of the arena that is entered with that code and sentence. */
void arena_fail(enum ta_code code, const char *fmt, ...) __attribute__((noreturn, format(printf, 2, 3)));

END_C

#endif
