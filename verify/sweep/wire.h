/*
 * wire.h - what the processes of a sweep say to each other, over sockets and MPI alike: frames, a head and bytes.
 */
#ifndef TREEATTN_VERIFY_SWEEP_WIRE_H
#define TREEATTN_VERIFY_SWEEP_WIRE_H

#include "ref/base.h"

BEGIN_C

enum frame_kind {
    FRAME_HELLO,  /* what has to be alike in all processes, as text; id: how many tasks it does at once */
    FRAME_PHASE,  /* phase `phase` has these tasks: struct frame_task[] */
    FRAME_START,  /* workers are wanted */
    FRAME_TASKS,  /* do these: int64_t[] of ids, ~id for one that is to run alone */
    FRAME_RESULT, /* of task id, in so many seconds of a processor: bytes */
    FRAME_OVER,   /* phase `phase` is: no more of its tasks */
    FRAME_CRASH,  /* a worker ended: how, as text */
    FRAME_FATAL,  /* the sweep ends: why, as text */
    FRAME_QUIT,
    FRAME_BEAT    /* a sign of life; the first has the host's name */
};

struct frame {
    uint32_t kind, phase; /* enum frame_kind */
    int64_t id;
    double seconds;
    uint64_t size; /* bytes behind it */
};
struct frame_task {
    int64_t id;
    double cost;
    int64_t alone; /* 1: with all threads, beside no other */
};

/* Bytes that grow at the end and are taken from the front. */
struct wire_bytes {
    char *at;
    int64_t n, cap, taken;
};
void wire_add(struct wire_bytes *b, const struct frame *f, const void *bytes);
/* The next whole frame, its bytes in *bytes until the next call that adds; false: there is none. */
bool wire_take(struct wire_bytes *b, struct frame *f, const char **bytes);
static inline int64_t wire_waiting(const struct wire_bytes *b)
{
    return b->n - b->taken;
}
/* n bytes more, as they came. */
void wire_append(struct wire_bytes *b, const void *bytes, int64_t n);
void wire_clear(struct wire_bytes *b);

/* One end of a socket. */
struct wire {
    int fd; /* -1: closed */
    struct wire_bytes in, out;
};
/* Reads what is there into w->in, without waiting. False: the other end is closed. */
bool wire_read(struct wire *w);
/* Writes of w->out what goes without waiting; wait: all of it. False: the other end is closed. */
bool wire_write(struct wire *w, bool wait);

/* Of results: values one after the other. What is read beyond the end is zero, and `short_of` tells. */
struct unpack {
    const char *at, *end;
    bool short_of;
};
void unpack(struct unpack *u, void *to, size_t size);
/* A string, in the bytes themselves. */
const char *unpack_text(struct unpack *u);

END_C

#endif
