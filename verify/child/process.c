#include "verify/child/process.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CHILD_IN = 3, CHILD_OUT = 4, LOG_BYTES = 512 };

struct process {
    struct process_limits limits;
    pid_t keeper;    /* our process, which waits for the child, */
    pid_t session;   /* and the child, as the keeper calls it: the leader of its session */
    ino_t space;     /* its process namespace; 0: it has ours */
    int to, from;    /* the child's descriptors 3 and 4 */
    int log, status; /* what it prints; how it ended, from the keeper */
    int lifeline;    /* the keeper ends when we close it, or are gone */
    char line[PROCESS_MAX_LINE + 1];
    int32_t n_line, n_taken; /* bytes read; of the line that was handed out last */
    char said[LOG_BYTES];    /* the last bytes of the log, */
    bool log_closed;         /* which has an end */
    int32_t n_said;
    char clean[LOG_BYTES + 1];
    int ended; /* as wait() tells it, if has_ended */
    bool has_ended;
};

struct process_limits process_default_limits(void)
{
    return (struct process_limits){.memory = (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE) / 2,
                                   .processes = 64};
}

/* ---- the keeper: after clone() without exec, so only what may be called in a signal handler ------------- */

struct ends {
    int in, out, log, status, lifeline; /* the keeper's and the child's ends */
};

/* Its own process has the rights of the user that started us, and no others. */
static void keep_user(uid_t uid, gid_t gid)
{
    const char *const path[] = {"/proc/self/setgroups", "/proc/self/uid_map", "/proc/self/gid_map"};
    char text[3][40] = {"deny"};
    snprintf(text[1], sizeof text[1], "%u %u 1", uid, uid);
    snprintf(text[2], sizeof text[2], "%u %u 1", gid, gid);
    for (int i = 0; i < 3; i++) {
        int fd = open(path[i], O_WRONLY | O_CLOEXEC);
        if (fd >= 0 && write(fd, text[i], strlen(text[i])) < 0)
            text[i][0] = 0; /* it then has no name, which harms nothing */
        if (fd >= 0)
            close(fd);
    }
}

/* In a process namespace /proc must be that of the namespace: drivers of a GPU look themselves up there by getpid(). */
static bool own_proc(void)
{
    return mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
           mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) == 0;
}

static void only(const struct ends *n)
{
    const int keep[] = {n->in, n->out, n->log, n->status, n->lifeline};
    for (int fd = 3; fd < 4096; fd++) {
        bool kept = false;
        for (int i = 0; i < 5; i++)
            kept = kept || fd == keep[i];
        if (!kept)
            close(fd);
    }
}

static void become_child(const struct ends *n, const char *command)
{
    int null = open("/dev/null", O_RDONLY);
    /* first out of the way of 3 and 4 */
    int in = fcntl(n->in, F_DUPFD, 10), out = fcntl(n->out, F_DUPFD, 10);
    dup2(null, 0);
    dup2(n->log, 1);
    dup2(n->log, 2);
    dup2(in, CHILD_IN);
    dup2(out, CHILD_OUT);
    for (int fd = CHILD_OUT + 1; fd < 4096; fd++)
        close(fd);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    for (int s = 1; s < NSIG; s++)
        signal(s, SIG_DFL);
    setsid();
    putenv((char *)"TREEATTN_CHILD=1"); /* a program that people start, too, knows by this whom it serves */
    execl("/bin/sh", "sh", "-c", command, (char *)NULL);
    syscall(SYS_exit_group, 127);
}

/* The folder with the files in it, without opendir(), which allocates. */
static void remove_folder(const char *path)
{
    struct entry {
        uint64_t ino, off;
        unsigned short size;
        unsigned char type;
        char name[];
    };
    _Alignas(struct entry) char some[4096];
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (long n; fd >= 0 && (n = syscall(SYS_getdents64, fd, some, sizeof some)) > 0;)
        for (long at = 0; at < n;) {
            const struct entry *x = (const struct entry *)(some + at);
            unlinkat(fd, x->name, 0); /* "." and "..", too, which fails */
            at += x->size;
        }
    if (fd >= 0)
        close(fd);
    rmdir(path);
}

/* Waits for the child, or for us to let go, with a byte, or without one if we were killed; all that the child started ends
 * with this process. */
static void keep(const struct ends *n, const char *command, const char *folder)
{
    setpgid(0, 0); /* who kills our group leaves this to clean up */
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    only(n);
    sigset_t child;
    sigfillset(&child);
    sigprocmask(SIG_SETMASK, &child, NULL);
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    int signals = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
    pid_t pid = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    if (pid == 0)
        become_child(n, command);
    if (write(n->status, &pid, sizeof pid) < 0)
        syscall(SYS_exit_group, 1);
    close(n->in);
    close(n->out);
    close(n->log);
    struct pollfd wait_for[] = {{.fd = signals, .events = POLLIN}, {.fd = n->lifeline, .events = POLLIN}};
    for (;;) {
        poll(wait_for, 2, -1);
        if (wait_for[1].revents)
            break;
        struct signalfd_siginfo info;
        while (read(signals, &info, sizeof info) > 0)
            continue;
        int status;
        for (pid_t gone; (gone = waitpid(-1, &status, WNOHANG)) > 0;)
            if (gone == pid) {
                if (write(n->status, &status, sizeof status) < 0)
                    break;
                pid = 0;
            }
    }
    if (pid > 0)
        kill(-pid, SIGKILL); /* its session; in a namespace of its own the rest goes with us */
    if (pid > 0)
        kill(pid, SIGKILL);
    char byte;
    if (read(n->lifeline, &byte, 1) == 0 && folder)
        remove_folder(folder);
    syscall(SYS_exit_group, 0);
}

/* write() to who may be gone: an error, and no signal. */
static ssize_t write_quietly(int fd, const char *text, size_t n)
{
    sigset_t pipe, before;
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe, &before);
    ssize_t done = write(fd, text, n);
    int error = errno;
    if (done < 0 && error == EPIPE)
        sigtimedwait(&pipe, NULL, &(struct timespec){0});
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = error;
    return done;
}

/* ---- starting and stopping ---------------------------------------------------------------------------- */

static ino_t namespace_of(pid_t pid)
{
    char path[64];
    struct stat st;
    snprintf(path, sizeof path, "/proc/%d/ns/pid", (int)pid);
    return stat(path, &st) == 0 ? st.st_ino : 0;
}

/* What the keeper writes first, or -1: it ended without a word. */
static pid_t first_word(pid_t keeper, int status)
{
    pid_t said;
    for (struct pollfd on = {.fd = status, .events = POLLIN}; poll(&on, 1, 100) <= 0;) {
        siginfo_t ended = {0};
        if (waitid(P_PID, (id_t)keeper, &ended, WEXITED | WNOHANG | WNOWAIT) == 0 && ended.si_pid == keeper)
            return -1;
    }
    return read(status, &said, sizeof said) == sizeof said ? said : -1;
}

/* The keeper, in a process namespace of its own if that may be. *session is the child as the keeper calls it, or -1 if it is gone
 * already, which the next line that is asked for tells. status: our end of what the keeper writes. */
static pid_t start_keeper(const struct ends *n, const char *command, const char *folder, int status,
                          pid_t *session)
{
    const unsigned long space = CLONE_NEWPID | CLONE_NEWNS, ways[] = {space, space | CLONE_NEWUSER, 0};
    uid_t uid = getuid();
    gid_t gid = getgid();
    for (int i = 0; i < 3; i++) {
        pid_t no_proc = 0, pid = (pid_t)syscall(SYS_clone, ways[i] | SIGCHLD, 0, 0, 0, 0);
        if (pid == 0) {
            if (ways[i] & CLONE_NEWUSER)
                keep_user(uid, gid);
            if (ways[i] && !own_proc())
                syscall(SYS_exit_group, write(n->status, &no_proc, sizeof no_proc) < 0);
            keep(n, command, folder);
        }
        if (pid > 0 && (*session = first_word(pid, status)) != no_proc)
            return pid;
        if (pid > 0)
            waitpid(pid, NULL, 0);
    }
    return -1;
}

static void close_both(int fd[2])
{
    for (int i = 0; i < 2; i++)
        if (fd[i] >= 0)
            close(fd[i]);
}

struct process *process_start(const char *command, const char *folder, const struct process_limits *limits,
                              struct err *e)
{
    enum { IN, OUT, LOG, STATUS, LIFE, N_PIPES };
    int fd[N_PIPES][2];
    memset(fd, -1, sizeof fd);
    bool good = true;
    for (int i = 0; i < N_PIPES && good; i++)
        good = pipe2(fd[i], O_CLOEXEC) == 0;
    struct ends n = {fd[IN][0], fd[OUT][1], fd[LOG][1], fd[STATUS][1], fd[LIFE][0]};
    pid_t session, keeper = good ? start_keeper(&n, command, folder, fd[STATUS][0], &session) : -1;
    if (keeper < 0) {
        err_missing(e, "no process for '%s': %s", command, strerror(errno));
        for (int i = 0; i < N_PIPES; i++)
            close_both(fd[i]);
        return NULL;
    }
    close(n.in);
    close(n.out);
    close(n.log);
    close(n.status);
    close(n.lifeline);
    struct process *p = xcalloc(1, sizeof *p);
    p->limits = *limits;
    p->keeper = keeper;
    p->session = session;
    p->space = namespace_of(keeper);
    if (p->space == namespace_of(getpid()))
        p->space = 0;
    p->to = fd[IN][1];
    p->from = fd[OUT][0];
    p->log = fd[LOG][0];
    p->status = fd[STATUS][0];
    p->lifeline = fd[LIFE][1];
    const int quick[] = {p->to, p->from, p->log, p->status};
    for (int i = 0; i < 4; i++)
        fcntl(quick[i], F_SETFL, O_NONBLOCK);
    return p;
}

void process_stop(struct process *p)
{
    if (!p)
        return;
    if (write_quietly(p->lifeline, "q", 1) < 0)
        p->has_ended = true; /* the keeper is gone */
    close(p->lifeline);
    if (p->space)
        kill(p->keeper, SIGKILL); /* and with it the whole namespace */
    while (waitpid(p->keeper, NULL, 0) < 0 && errno == EINTR)
        continue;
    close(p->to);
    close(p->from);
    close(p->log);
    close(p->status);
    free(p);
}

/* ---- what it holds ------------------------------------------------------------------------------------ */

static int64_t resident_bytes(const char *pid)
{
    char path[300];
    int64_t size, resident = 0;
    snprintf(path, sizeof path, "/proc/%s/statm", pid);
    FILE *f = fopen(path, "re");
    if (f && fscanf(f, "%" SCNd64 " %" SCNd64, &size, &resident) != 2)
        resident = 0;
    if (f)
        fclose(f);
    return resident * sysconf(_SC_PAGESIZE);
}

/* Is it one of the child's? Without a namespace only the child's session can be told. */
static bool is_of(const struct process *p, const char *name)
{
    pid_t pid = (pid_t)atoi(name);
    if (pid <= 0 || pid == p->keeper)
        return false;
    return p->space ? namespace_of(pid) == p->space : getsid(pid) == p->session;
}

/* Within its limits? */
static bool within_limits(const struct process *p, enum process_event *broken)
{
    DIR *proc = opendir("/proc");
    int64_t memory = 0;
    int32_t n = 0;
    for (struct dirent *d; proc && (d = readdir(proc));)
        if (isdigit((unsigned char)d->d_name[0]) && is_of(p, d->d_name)) {
            n++;
            memory += resident_bytes(d->d_name);
        }
    if (proc)
        closedir(proc);
    *broken = n > p->limits.processes ? PROCESS_MANY : PROCESS_MEMORY;
    return n <= p->limits.processes && memory <= p->limits.memory;
}

/* ---- lines -------------------------------------------------------------------------------------------- */

/* Keeps the last bytes. */
static void read_log(struct process *p)
{
    char text[4096];
    ssize_t n;
    while ((n = read(p->log, text, sizeof text)) > 0) {
        int32_t take = (int32_t)min_i64(n, LOG_BYTES), keep_n = (int32_t)min_i64(p->n_said, LOG_BYTES - take);
        memmove(p->said, p->said + p->n_said - keep_n, (size_t)keep_n);
        memcpy(p->said + keep_n, text + n - take, (size_t)take);
        p->n_said = keep_n + take;
    }
    p->log_closed = n == 0;
}

static const char *clean_log(struct process *p, bool lines)
{
    read_log(p);
    int32_t n = 0;
    for (int32_t i = 0; i < p->n_said; i++)
        if ((p->said[i] >= ' ' && p->said[i] < 127) || (lines && n > 0 && p->said[i] == '\n'))
            p->clean[n++] = p->said[i];
        else if (n > 0 && p->clean[n - 1] != ' ')
            p->clean[n++] = ' ';
    while (n > 0 && (p->clean[n - 1] == ' ' || p->clean[n - 1] == '\n'))
        n--;
    p->clean[n] = 0;
    return p->clean;
}

const char *process_log(struct process *p)
{
    return clean_log(p, false);
}

const char *process_log_lines(struct process *p)
{
    return clean_log(p, true);
}

/* The line that begins what was read, if it has an end. */
static bool take_line(struct process *p, struct process_said *said)
{
    char *end = memchr(p->line, '\n', (size_t)p->n_line);
    if (!end)
        return false;
    *end = 0;
    p->n_taken = (int32_t)(end + 1 - p->line);
    *said = (struct process_said){PROCESS_LINE, 0, p->line};
    return true;
}

static void read_status(struct process *p)
{
    int status = SIGKILL; /* if the keeper is gone without a word */
    if (p->has_ended || (read(p->status, &status, sizeof status) < 0 && (errno == EAGAIN || errno == EINTR)))
        return;
    p->ended = status;
    p->has_ended = true;
}

static struct process_said how_it_ended(const struct process *p)
{
    if (WIFSIGNALED(p->ended))
        return (struct process_said){PROCESS_SIGNALLED, WTERMSIG(p->ended), NULL};
    /* of a shell that had a child of its own, which a signal ended */
    if (WEXITSTATUS(p->ended) > 128 && WEXITSTATUS(p->ended) < 128 + NSIG)
        return (struct process_said){PROCESS_SIGNALLED, WEXITSTATUS(p->ended) - 128, NULL};
    return (struct process_said){PROCESS_EXITED, WEXITSTATUS(p->ended), NULL};
}

struct process_said process_ask(struct process *p, const char *line, double seconds)
{
    enum { FIRST_LOOK = 200, LOOK = 100 /* milliseconds between looks at what it holds */ };
    char *text = xasprintf("%s\n", line);
    size_t n_text = strlen(text), sent = 0;
    struct process_said said;
    double began = now_s(), looked = began + (FIRST_LOOK - LOOK) * 1e-3, closed = 0;
    memmove(p->line, p->line + p->n_taken, (size_t)(p->n_line - p->n_taken));
    p->n_line -= p->n_taken;
    p->n_taken = 0;
    for (;;) {
        double now = now_s();
        enum process_event broken;
        read_status(p);
        read_log(p);
        if (sent == n_text && take_line(p, &said))
            break;
        if (p->has_ended && (closed > 0 || sent < n_text)) {
            said = how_it_ended(p);
            break;
        }
        if (closed > 0 && now - closed > 1) {
            said = (struct process_said){PROCESS_CLOSED, 0, NULL};
            break;
        }
        if (p->n_line == PROCESS_MAX_LINE) {
            said = (struct process_said){PROCESS_LONG_LINE, 0, NULL};
            break;
        }
        if (now - looked > LOOK * 1e-3) {
            looked = now;
            if (!within_limits(p, &broken)) {
                said = (struct process_said){broken, 0, NULL};
                break;
            }
        }
        if (now - began > seconds) {
            said = (struct process_said){PROCESS_TIMEOUT, 0, NULL};
            break;
        }
        struct pollfd wait_for[] = {{.fd = closed > 0 ? -1 : p->from, .events = POLLIN},
                                    {.fd = sent < n_text ? p->to : -1, .events = POLLOUT},
                                    {.fd = p->log_closed ? -1 : p->log, .events = POLLIN},
                                    {.fd = p->has_ended ? -1 : p->status, .events = POLLIN}};
        poll(wait_for, 4, closed > 0 ? 10 : 50);
        if (wait_for[1].revents) {
            ssize_t n = write_quietly(p->to, text + sent, n_text - sent);
            if (n > 0)
                sent += (size_t)n;
            else if (n < 0 && errno != EAGAIN && errno != EINTR) /* it does not read any more */
                sent = n_text;
        }
        if (wait_for[0].revents) {
            ssize_t n = read(p->from, p->line + p->n_line, (size_t)(PROCESS_MAX_LINE - p->n_line));
            if (n > 0)
                p->n_line += (int32_t)n;
            else if (n == 0 || (errno != EAGAIN && errno != EINTR))
                closed = now;
        }
    }
    free(text);
    return said;
}
