#include "paper-figs/figure.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define DATA(name, keep, ...) static const char *const command_##name[] = {__VA_ARGS__, NULL};
#include "paper-figs/data.def"
#undef DATA
const struct data_def data_defs[] = {
#define DATA(name, keep, ...) {#name, keep, command_##name},
#include "paper-figs/data.def"
#undef DATA
};
const int32_t n_data_defs = (int32_t)(sizeof data_defs / sizeof data_defs[0]);

const struct data_def *data_find(const char *name)
{
    for (int32_t i = 0; i < n_data_defs; i++)
        if (strcmp(data_defs[i].name, name) == 0)
            return &data_defs[i];
    return NULL;
}

char *data_path(const struct data_def *d, const struct places *places)
{
    return xasprintf("%s/data/%s.csv", d->keep == KEPT ? places->root : places->scratch, d->name);
}

/* ---- running ---------------------------------------------------------------------------------------- */

/* One run of treeattn: its data, which of the commands, where its output goes meanwhile. */
struct run {
    const struct data_def *data;
    int32_t number;
    char *part;
    pid_t pid;
};

/* The child: DeFT's traces are named as if from their folder, so that no path gets into a file. */
_Noreturn static void exec_run(const struct run *r, const char *program)
{
    char *line = xasprintf("exec '%s' %s --csv", program, r->data->command[r->number]);
    int fd = open(r->part, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    const char *shared = getenv("TREEATTN_SHARED");
    char *folder = xasprintf("%s/traces", shared ? shared : "../shared");
    if (fd < 0 || dup2(fd, STDOUT_FILENO) < 0 || (r->data->keep == KEPT && chdir(folder) != 0)) {
        fprintf(stderr, "figures: %s: %s\n", fd < 0 ? r->part : folder, strerror(errno));
        _exit(EXIT_MISSING);
    }
    execl("/bin/sh", "sh", "-c", line, (char *)NULL);
    _exit(EXIT_MISSING);
}

/* Wait for one of the runs; false after saying that it failed. */
static bool reap(const struct run *run, int32_t n)
{
    int status;
    pid_t pid = wait(&status);
    for (int32_t i = 0; i < n; i++)
        if (run[i].pid == pid && !(WIFEXITED(status) && WEXITSTATUS(status) == 0)) {
            fprintf(stderr, "figures: %s: failed: treeattn %s\n", run[i].data->name,
                    run[i].data->command[run[i].number]);
            return false;
        }
    return true;
}

/* The parts of one data set, which must have the same heading, as one file. */
static bool join(const struct data_def *d, const struct run *run, const struct places *places, struct err *e)
{
    char *path = data_path(d, places), *temp = xasprintf("%s.%d", path, (int)getpid());
    char *heading = NULL, *line = NULL, *rows = NULL;
    size_t cap = 0, size = 0;
    int64_t n = 0;
    FILE *body = open_memstream(&rows, &size), *out = fopen(temp, "w");
    CK(body);
    if (!out)
        err_missing(e, "%s: %s", temp, strerror(errno));
    for (int32_t i = 0; out && d->command[i] && !e->code; i++) {
        FILE *part = fopen(run[i].part, "r");
        bool first = true;
        for (; part && getline(&line, &cap, part) > 0; first = false) {
            if (first && heading && strcmp(heading, line) != 0)
                err_set(e, "%s: treeattn %s has another heading than the first command", d->name,
                        d->command[i]);
            if (!first) {
                fputs(line, body);
                n++;
            } else if (!heading)
                heading = xstrdup(line);
        }
        if (!part || first)
            err_missing(e, "%s: no output from treeattn %s", d->name, d->command[i]);
        if (part)
            fclose(part);
        fprintf(out, "# treeattn %s --csv\n", d->command[i]);
    }
    fclose(body);
    if (out) {
        fprintf(out, "# rows: %" PRId64 "\n%s%s", n, heading ? heading : "", rows);
        bool bad = ferror(out);
        if ((fclose(out) != 0 || bad || e->code || rename(temp, path) != 0)) {
            err_missing(e, "%s: cannot be written: %s", path, strerror(errno));
            remove(temp);
        }
    }
    free(heading);
    free(line);
    free(rows);
    free(path);
    free(temp);
    return !e->code;
}

bool data_make(const struct data_def *const *which, int32_t n, const char *program,
               const struct places *places, int jobs)
{
    struct run *run = NULL;
    int64_t cap = 0;
    int32_t n_runs = 0;
    for (int32_t i = 0; i < n; i++)
        for (int32_t k = 0; which[i]->command[k]; k++) {
            run = xgrow(run, &cap, n_runs + 1, sizeof *run);
            run[n_runs++] = (struct run){
                which[i], k, xasprintf("%s/data/%s.part%d", places->scratch, which[i]->name, k), 0};
        }
    bool good = true;
    int running = 0;
    for (int32_t i = 0; i < n_runs; i++) {
        if (running == jobs && running--)
            good &= reap(run, i);
        run[i].pid = fork();
        CK(run[i].pid >= 0);
        if (run[i].pid == 0)
            exec_run(&run[i], program);
        running++;
    }
    while (running--)
        good &= reap(run, n_runs);
    int32_t first = 0;
    for (int32_t i = 0; i < n; i++) {
        struct err e = {0};
        if (!join(which[i], run + first, places, &e)) {
            fprintf(stderr, "figures: %s\n", e.msg);
            good = false;
        }
        while (first < n_runs && run[first].data == which[i])
            first++;
    }
    for (int32_t i = 0; i < n_runs; i++) {
        remove(run[i].part);
        free(run[i].part);
    }
    free(run);
    return good;
}
