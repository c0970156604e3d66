/* exchange.c - see exchange.h. */
#include "verify/child/exchange.h"
#include "verify/io/origin.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* ---- what a child says -------------------------------------------------------------------------------- */

/* How a child that gave no line ended, in words. */
static enum run_end how_it_failed(const struct process_said *s, double seconds, struct err *why)
{
    switch (s->event) {
    case PROCESS_EXITED:
        err_set(why, "it exited with code %d", s->code);
        return RUN_EXIT;
    case PROCESS_SIGNALLED:
        err_set(why, "it was ended by signal %d (%s)", s->code, strsignal(s->code));
        return RUN_CRASH;
    case PROCESS_CLOSED:
        err_set(why, "it closed descriptor 4 without an answer");
        return RUN_PROTOCOL;
    case PROCESS_TIMEOUT:
        err_set(why, "no answer after %g s", seconds);
        return RUN_HANG;
    case PROCESS_MEMORY:
        err_set(why, "it holds more memory than it may");
        return RUN_MEMORY;
    case PROCESS_MANY:
        err_set(why, "it has more processes than it may");
        return RUN_PROCESSES;
    case PROCESS_LONG_LINE:
        err_set(why, "a line of over %d bytes on descriptor 4", PROCESS_MAX_LINE);
        return RUN_PROTOCOL;
    case PROCESS_LINE:
        break;
    }
    CK_FOUND("an end of a child");
}

/* What it said last goes behind the sentence. */
static void add_log(struct process *p, struct err *why)
{
    const char *log = process_log(p);
    enum { LAST = 160 };
    size_t n = strlen(log);
    if (n == 0)
        return;
    struct err with = {0};
    err_set(&with, "%s; it said: %s%s", why->msg, n > LAST ? ".." : "", log + (n > LAST ? n - LAST : 0));
    *why = with;
}

struct process *exchange_start(const char *command, const char *folder, const struct process_limits *limits,
                               double seconds, json_t **hello, struct err *e)
{
    *hello = NULL;
    struct process *p = process_start(command, folder, limits, e);
    if (!p)
        return NULL;
    char *line = xasprintf("{\"hello\":1,\"treeattn\":\"%s\"}", origin_commit());
    struct process_said said = process_ask(p, line, seconds);
    free(line);
    json_t *o = said.event == PROCESS_LINE ? json_loads(said.line, 0, NULL) : NULL;
    const char *refused = json_string_value(json_object_get(o, "refused"));
    if (said.event != PROCESS_LINE) {
        struct err why = {0};
        how_it_failed(&said, seconds, &why);
        add_log(p, &why);
        err_set(e, "'%s' is no child: %s (expected a line {\"hello\":1,..} on descriptor 4)", command,
                why.msg);
    } else if (refused) {
        err_set(e, "%s", refused);
    } else if (json_integer_value(json_object_get(o, "hello")) != 1) {
        err_set(e, "'%s' is no child: its first line is '%.60s' (expected {\"hello\":1,..})", command,
                said.line);
    } else {
        *hello = o;
        return p;
    }
    json_decref(o);
    process_stop(p);
    return NULL;
}

/* What a child measured; false with *why where that is not as asked. */
static bool read_times(const json_t *o, struct own_timing *t, struct err *why)
{
    const json_t *us = json_object_get(o, "us"), *plan = json_object_get(o, "plan_ms");
    t->n = (int64_t)json_array_size(us);
    t->plan_ms = json_is_number(plan) ? json_number_value(plan) : NAN;
    bool good = json_is_array(us) && t->n > 0 && t->n <= t->reps;
    for (int64_t i = 0; i < t->n && good; i++) {
        t->us[i] = json_number_value(json_array_get(us, (size_t)i));
        good = t->us[i] > 0 && isfinite(t->us[i]);
    }
    return good || err_set(why, "no times in its answer (expected \"us\": at most %" PRId64 " numbers over 0)", t->reps);
}

/* What a line that came for that question means. *sound: the child may go on. */
static enum run_end read_reply(const char *line, const struct exchange *x, bool *sound, struct err *why)
{
    json_t *o = json_loads(line, 0, NULL);
    int64_t number = x->number;
    const json_t *count = json_object_get(o, "allocations");
    if (x->allocations && json_is_integer(count))
        *x->allocations = json_integer_value(count);
    static const struct {
        const char *key;
        enum run_end end;
    } kind[] = {{"done", RUN_DONE},
                {"unsupported", RUN_UNSUPPORTED},
                {"error", RUN_ERROR},
                {"wrote_input", RUN_WROTE_INPUT},
                {"wrote_outside", RUN_WROTE_OUTSIDE},
                {"device_fault", RUN_DEVICE_FAULT},
                {"memory", RUN_MEMORY}};
    enum run_end end = RUN_PROTOCOL;
    for (size_t i = 0; i < sizeof kind / sizeof *kind; i++) {
        const json_t *v = json_object_get(o, kind[i].key);
        if (json_is_integer(v) && json_integer_value(v) == number)
            end = kind[i].end;
    }
    const char *said = json_string_value(json_object_get(o, "why"));
    if (end == RUN_PROTOCOL)
        err_set(why, "it answered '%.80s' (expected {\"done\":%" PRId64 "})", line, number);
    else if (end != RUN_DONE)
        err_set(why, "%.300s", said ? said : "it says no more");
    else if (x->timing && !read_times(o, x->timing, why))
        end = RUN_PROTOCOL;
    *sound =
        end != RUN_PROTOCOL && end != RUN_DEVICE_FAULT && end != RUN_WROTE_OUTSIDE && end != RUN_WROTE_INPUT;
    json_decref(o);
    return end;
}

static int64_t file_bytes(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0 && S_ISREG(st.st_mode) ? st.st_size : -1;
}

/* Is the file as it was written? */
static bool still_there(const char *path, int64_t bytes, const struct tensors *wrote)
{
    return file_bytes(path) == bytes && tensors_are_in(path, wrote);
}

enum run_end exchange_ask(struct process *p, const struct exchange *x, bool *sound, struct err *why)
{
    enum run_end end = RUN_ERROR;
    struct err ours = {0};
    *sound = true;
    unlink(x->out);
    if (!tensors_write(x->in, x->given, &ours)) {
        err_missing(why, "%s", ours.msg);
        return end;
    }
    (void)!chmod(x->in, 0644); /* the child may be another user; the folder is private */
    int64_t bytes = file_bytes(x->in);
    struct process_said said = process_ask(p, x->line, x->seconds);
    if (said.event == PROCESS_LINE) {
        end = read_reply(said.line, x, sound, why);
    } else {
        end = how_it_failed(&said, x->seconds, why);
        add_log(p, why);
        *sound = false;
    }
    if (end == RUN_DONE && !still_there(x->in, bytes, x->given)) {
        end = RUN_WROTE_INPUT;
        err_set(why, "wrote to the file of its inputs");
    }
    unlink(x->in);
    return end;
}

/* ---- a folder for tensors ----------------------------------------------------------------------------- */

void exchange_remove(const char *path)
{
    DIR *d = opendir(path);
    for (struct dirent *f; d && (f = readdir(d));) {
        char *file = xasprintf("%s/%s", path, f->d_name);
        unlink(file); /* "." and "..", too, which fails */
        free(file);
    }
    if (d)
        closedir(d);
    rmdir(path);
}

static const char *const folder_start = "treeattn-child.";

/* Where a judge was killed, its folder is still there. */
static void remove_left(const char *where)
{
    DIR *d = opendir(where);
    for (struct dirent *f; d && (f = readdir(d));) {
        size_t n = strlen(folder_start);
        if (strncmp(f->d_name, folder_start, n) != 0)
            continue;
        pid_t owner = (pid_t)atoi(f->d_name + n);
        if (owner > 0 && kill(owner, 0) != 0 && errno == ESRCH) {
            char *path = xasprintf("%s/%s", where, f->d_name);
            exchange_remove(path);
            free(path);
        }
    }
    if (d)
        closedir(d);
}

/* May programs be run from there, and objects loaded? */
static bool runs_code(const char *path)
{
    struct statvfs s;
    return statvfs(path, &s) == 0 && !(s.f_flag & ST_NOEXEC);
}

char *exchange_folder(bool code, struct err *e)
{
    const char *tmp = getenv("TMPDIR"), *const places[] = {"/dev/shm", tmp && *tmp ? tmp : "/tmp"};
    errno = EACCES;
    for (int i = 0; i < 2; i++) {
        remove_left(places[i]);
        if (code && !runs_code(places[i]))
            continue;
        char *path = xasprintf("%s/%s%d.XXXXXX", places[i], folder_start, (int)getpid());
        if (mkdtemp(path))
            return path;
        free(path);
    }
    err_missing(e, "no folder for tensors in %s or %s: %s", places[0], places[1], strerror(errno));
    return NULL;
}
