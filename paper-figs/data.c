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

/* The folder of DeFT's traces. The caller frees. */
static char *traces_folder(const struct places *places)
{
    const char *shared = getenv("TREEATTN_SHARED");
    return places->traces ? xstrdup(places->traces) : xasprintf("%s/traces", shared ? shared : "../shared");
}

char *data_missing_trace(const struct data_def *const *which, int32_t n, const struct places *places)
{
    static const char key[] = "deft:";
    char *folder = traces_folder(places), *missing = NULL;
    for (int32_t i = 0; i < n; i++)
        for (int32_t k = 0; !missing && which[i]->keep == KEPT && which[i]->command[k]; k++) {
            const char *name = strstr(which[i]->command[k], key);
            if (!name)
                continue;
            name += sizeof key - 1;
            missing = xasprintf("%s/%.*s", folder, (int)strcspn(name, " "), name);
            if (access(missing, R_OK) == 0) {
                free(missing);
                missing = NULL;
            }
        }
    free(folder);
    return missing;
}

/* The child: DeFT's traces are named as if from their folder, so that no path gets into a file. */
_Noreturn static void exec_run(const struct run *r, const char *program, const struct places *places)
{
    char *line =
        xasprintf("exec \"$0\" %s --csv", r->data->command[r->number]); /* $0: a path may hold anything */
    int fd = open(r->part, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    char *folder = traces_folder(places);
    if (fd < 0 || dup2(fd, STDOUT_FILENO) < 0 || (r->data->keep == KEPT && chdir(folder) != 0)) {
        fprintf(stderr, "figures: %s: %s\n", fd < 0 ? r->part : folder, strerror(errno));
        _exit(EXIT_MISSING);
    }
    execl("/bin/sh", "sh", "-c", line, program, (char *)NULL);
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

/* Processor time of whoever ran the command: another one each time, and nothing that is drawn. */
static bool is_host_time(const char *column)
{
    return strncmp(column, "host_", 5) == 0 || strcmp(column, "exposed_s") == 0;
}

/* The heading (row -1) or a row. */
static void put_row(FILE *out, const struct csv *t, int64_t row)
{
    const char *comma = "";
    for (int32_t c = 0; c < t->n_columns; c++) {
        const char *cell = row < 0 ? t->column[c] : csv_peek(t, row, c);
        if (is_host_time(t->column[c]))
            continue;
        fprintf(out, cell[strcspn(cell, ",")] ? "%s\"%s\"" : "%s%s", comma, cell);
        comma = ",";
    }
    fputc('\n', out);
}

static bool same_heading(const struct csv *a, const struct csv *b)
{
    bool same = a->n_columns == b->n_columns;
    for (int64_t c = 0; same && c < a->n_columns; c++)
        same = strcmp(a->column[c], b->column[c]) == 0;
    return same;
}

/* The parts of one data set, which must have the same heading, as one file. */
static bool join(const struct data_def *d, const struct run *run, const struct places *places, struct err *e)
{
    char *path = data_path(d, places), *temp = xasprintf("%s.%d", path, (int)getpid());
    struct csv *part = NULL;
    int64_t cap = 0, rows = 0;
    int32_t n = 0;
    for (; d->command[n] && !e->code; n++) {
        part = xgrow(part, &cap, n + 1, sizeof *part);
        if (result_read(run[n].part, d->name, &part[n], e) && n > 0 && !same_heading(&part[0], &part[n]))
            err_set(e, "%s: treeattn %s has another heading than the first command", d->name, d->command[n]);
        rows += part[n].n_rows;
    }
    FILE *out = e->code ? NULL : fopen(temp, "w");
    if (out) {
        for (int32_t i = 0; i < n; i++)
            fprintf(out, "# treeattn %s --csv\n", d->command[i]);
        fprintf(out, "# rows: %" PRId64 "\n", rows);
        put_row(out, &part[0], -1);
        for (int32_t i = 0; i < n; i++)
            for (int64_t r = 0; r < part[i].n_rows; r++)
                put_row(out, &part[i], r);
    }
    if (!e->code && (!out || ferror(out) || fclose(out) != 0 || rename(temp, path) != 0)) {
        err_missing(e, "%s: cannot be written: %s", path, strerror(errno));
        remove(temp);
    }
    for (int32_t i = 0; i < n; i++)
        csv_clear(&part[i]);
    free(part);
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
            exec_run(&run[i], program, places);
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
