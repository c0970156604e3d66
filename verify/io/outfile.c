#include "verify/io/outfile.h"
#include "verify/io/crash.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Can a file be made there, under another name at first? */
static bool find_folder(const char *path, char **real, struct err *e)
{
    const char *slash = strrchr(path, '/');
    char *folder = slash ? xasprintf("%.*s", (int)(slash - path + 1), path) : xstrdup(".");
    *real = realpath(folder, NULL);
    bool good = *real && access(*real, W_OK | X_OK) == 0;
    if (!good)
        err_set(e, "%s: cannot be written: %m", path);
    free(folder);
    return good;
}

/* What a path leads to, links followed: the file that is to be replaced or made, or (*direct) a device, a pipe or what a process
 * has open (/dev/fd/3), which is there and stays. The caller frees; NULL with *e set. */
static char *find_target(const char *path, bool *direct, struct err *e)
{
    struct stat st;
    char *folder = NULL, *target = NULL;
    bool there = stat(path, &st) == 0;
    bool open_by_number = strncmp(path, "/dev/fd/", 8) == 0 || strncmp(path, "/proc/", 6) == 0;
    *direct =
        there && (S_ISCHR(st.st_mode) || S_ISFIFO(st.st_mode) || (open_by_number && S_ISREG(st.st_mode)));
    if (*direct)
        return xstrdup(path);
    if (there && !S_ISREG(st.st_mode))
        err_set(e, "%s: cannot be written: %s", path,
                S_ISDIR(st.st_mode) ? "it is a folder" : "it is no file");
    else if (there && !(st.st_mode & 0222 && access(path, W_OK) == 0)) /* root may write to any */
        err_set(e, "%s: cannot be written: it is read-only (expected another file, or chmod u+w)", path);
    else if (there)
        target = realpath(path, NULL);
    else if (!path[0])
        err_set(e, "an output without a name (expected a file)");
    else if (lstat(path, &st) == 0)
        err_set(e, "%s: cannot be written: a link that leads nowhere", path);
    else if (find_folder(path, &folder, e))
        target = xasprintf("%s/%s", folder, strrchr(path, '/') ? strrchr(path, '/') + 1 : path);
    if (!target)
        err_set(e, "%s: cannot be written: %m", path);
    free(folder);
    return target;
}

bool outfile_is_stdout(const char *path)
{
    static const char *const name[] = {"-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"};
    bool is = false;
    for (size_t i = 0; i < sizeof name / sizeof name[0] && path; i++)
        is = is || strcmp(path, name[i]) == 0;
    return is;
}

bool outfiles_check(const char *const *path, int32_t n, struct err *e)
{
    char **target = xcalloc((size_t)n, sizeof *target);
    bool good = true;
    for (int32_t i = 0; i < n && good; i++) {
        bool direct = false;
        char *folder = NULL;
        if (path[i] && !outfile_is_stdout(path[i]))
            good = (target[i] = find_target(path[i], &direct, e)) &&
                   (direct || find_folder(target[i], &folder, e));
        free(folder);
        for (int32_t k = 0; k < i && good && target[i] && !direct; k++)
            if (target[k] && strcmp(target[i], target[k]) == 0)
                good = err_set(e, "%s and %s: one file for two outputs (expected two)", path[k], path[i]);
    }
    for (int32_t i = 0; i < n; i++)
        free(target[i]);
    free(target);
    return good;
}

bool outfile_spares(const char *path, const char *read, struct err *e)
{
    struct stat a, b;
    if (!path || !read || stat(path, &a) != 0 || stat(read, &b) != 0 || !S_ISREG(a.st_mode) ||
        a.st_dev != b.st_dev || a.st_ino != b.st_ino)
        return true;
    return err_set(e, "%s: would be written over, and is read (expected another file)", path);
}

bool outfile_open(struct outfile *o, const char *path, struct err *e)
{
    *o = (struct outfile){.f = stdout};
    if (!path || outfile_is_stdout(path))
        return true;
    struct stat st;
    bool direct;
    *o = (struct outfile){.path = find_target(path, &direct, e)};
    if (o->path && direct) {
        o->f = fopen(o->path, "a"); /* nothing of a file that somebody has open is lost */
    } else if (o->path) {
        o->tmp = xasprintf("%s.tmp.%ld", o->path, (long)getpid());
        crash_removes(o->tmp); /* before it is there, so that it never stays */
        o->f = fopen(o->tmp, "wx");
        if (o->f && stat(o->path, &st) == 0 &&
            (fchmod(fileno(o->f), st.st_mode & 07777) != 0 ||
             (st.st_uid != geteuid() && fchown(fileno(o->f), st.st_uid, st.st_gid) != 0)))
            err_set(e, "%s: cannot be replaced by a file of its owner and mode: %m", path);
    }
    if (o->f && !(e && e->code))
        return true;
    err_set(e, "%s: cannot be written: %m", path);
    if (o->f)
        fclose(o->f);
    if (o->f && o->tmp)
        unlink(o->tmp);
    if (o->tmp)
        crash_spares(o->tmp);
    free(o->path);
    free(o->tmp);
    *o = (struct outfile){0};
    return false;
}

/* Why a write failed long ago: the next one fails alike, unless what was in its way has gone. */
static int try_again(FILE *f)
{
    clearerr(f);
    errno = 0;
    return fputc('\n', f) != EOF && fflush(f) == 0 ? EIO : errno;
}

bool outfile_close(struct outfile *o, bool keep, struct err *e)
{
    if (!o->f)
        return true;
    errno = 0;
    bool good = fflush(o->f) == 0 && !ferror(o->f);
    int why = good || errno ? errno : try_again(o->f);
    if (o->path)
        good = fclose(o->f) == 0 && good;
    errno = why ? why : errno;
    if (o->tmp && good && keep)
        good = rename(o->tmp, o->path) == 0;
    if (o->tmp && (!good || !keep))
        unlink(o->tmp);
    if (o->tmp)
        crash_spares(o->tmp);
    if (!good)
        err_set(e, "%s: not all of it could be written: %m", o->path ? o->path : "standard output");
    free(o->path);
    free(o->tmp);
    *o = (struct outfile){0};
    return good;
}
