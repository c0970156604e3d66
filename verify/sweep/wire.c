#include "verify/sweep/wire.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

void wire_append(struct wire_bytes *b, const void *bytes, int64_t n)
{
    if (b->taken > 0 && b->taken >= b->n - b->taken) {
        memmove(b->at, b->at + b->taken, (size_t)(b->n - b->taken));
        b->n -= b->taken;
        b->taken = 0;
    }
    if (n == 0)
        return;
    if (b->n + n > b->cap) { /* not xgrow: the limit there is of arrays, and a rank may be long behind */
        b->cap = max_i64(2 * b->cap, b->n + n);
        b->at = xrealloc(b->at, (size_t)b->cap, 1);
    }
    memcpy(b->at + b->n, bytes, (size_t)n);
    b->n += n;
}

void wire_add(struct wire_bytes *b, const struct frame *f, const void *bytes)
{
    wire_append(b, f, sizeof *f);
    wire_append(b, bytes, (int64_t)f->size);
}

bool wire_take(struct wire_bytes *b, struct frame *f, const char **bytes)
{
    int64_t there = wire_waiting(b);
    if (there < (int64_t)sizeof *f)
        return false;
    memcpy(f, b->at + b->taken, sizeof *f);
    if (there - (int64_t)sizeof *f < (int64_t)f->size)
        return false;
    *bytes = b->at + b->taken + sizeof *f;
    b->taken += (int64_t)(sizeof *f + f->size);
    return true;
}

void wire_clear(struct wire_bytes *b)
{
    free(b->at);
    *b = (struct wire_bytes){0};
}

bool wire_read(struct wire *w)
{
    char bytes[1 << 16];
    for (int turn = 0; turn < 64; turn++) {
        ssize_t n = recv(w->fd, bytes, sizeof bytes, MSG_DONTWAIT);
        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR))
            return false;
        if (n < 0)
            return true;
        wire_append(&w->in, bytes, n);
    }
    return true;
}

bool wire_write(struct wire *w, bool wait)
{
    while (wire_waiting(&w->out) > 0) {
        ssize_t n = send(w->fd, w->out.at + w->out.taken, (size_t)wire_waiting(&w->out), MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n > 0) {
            w->out.taken += n;
            continue;
        }
        if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)
            return false;
        if (!wait)
            return true;
        struct pollfd on = {w->fd, POLLOUT, 0};
        poll(&on, 1, 100);
    }
    return true;
}

void unpack(struct unpack *u, void *to, size_t size)
{
    if (u->short_of || (size_t)(u->end - u->at) < size) {
        u->short_of = true;
        memset(to, 0, size);
        return;
    }
    memcpy(to, u->at, size);
    u->at += size;
}

const char *unpack_text(struct unpack *u)
{
    const char *text = u->at, *end = u->short_of ? NULL : memchr(text, 0, (size_t)(u->end - text));
    if (!end) {
        u->short_of = true;
        return "";
    }
    u->at = end + 1;
    return text;
}
