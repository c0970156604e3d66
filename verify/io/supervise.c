#include "verify/io/supervise.h"
#include "verify/io/crash.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* What a record begins with. The last one is the exit code, and whether the output is kept. */
enum { TO_OUT = 'o', TO_ERR = CRASH_SAYS, LAST = 'l' };
enum {
    MOST_BYTES = 1 << 15,  /* of a record that is printed: far less than sockets take at once */
    MOST_RECORD = 1 << 17, /* last words have a command */
    TICK_MS = 100,
    MOST_SHOWN = 1 << 16, /* bytes of what kernels print */
    MANY_FILES = 500      /* the socket's number is beyond what a loop over open files reaches first */
};
#define PATIENCE 10.0 /* seconds that the child has to end once it said its last word, or got a signal */

static int channel = -1;  /* the child's end, */
static ino_t channel_is;  /* and what it is */
static int terminal = -1; /* the parent's standard error; -1: there is no parent */

/* Of mpirun's terminal treeattn-mpi knows. */
static bool is_terminal(void)
{
    return isatty(STDERR_FILENO) == 1 || getenv("TREEATTN_TERMINAL");
}

bool supervise_terminal(void)
{
    return terminal < 0 ? is_terminal() : terminal == 1;
}

/* ---- the child ------------------------------------------------------------------------------------------ */

static bool send_record(char kind, const char *bytes, size_t n)
{
    struct iovec part[2] = {{&kind, 1}, {(char *)bytes, n}};
    struct msghdr m = {.msg_iov = part, .msg_iovlen = 2};
    ssize_t sent;
    do
        sent = sendmsg(channel, &m, MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    return sent == (ssize_t)n + 1;
}

static ssize_t write_stream(void *kind, const char *bytes, size_t n)
{
    for (size_t at = 0, part; at < n; at += part) {
        part = n - at < MOST_BYTES ? n - at : MOST_BYTES;
        if (!send_record(*(const char *)kind, bytes + at, part))
            return 0; /* an error, to stdio */
    }
    return (ssize_t)n;
}

static FILE *open_stream(const char *kind, int buffering)
{
    FILE *f = fopencookie((void *)kind, "w", (cookie_io_functions_t){.write = write_stream});
    CK(f && setvbuf(f, NULL, buffering, MOST_BYTES) == 0);
    return f;
}

/* said: where all that is not the judge's goes. */
static void become_judge(int end, int said, pid_t parent, struct outfile *out)
{
    static const char to_out = TO_OUT, to_err = TO_ERR;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(EXIT_FAILED);
    channel = fcntl(end, F_DUPFD_CLOEXEC, MANY_FILES);
    channel = channel < 0 ? end : channel;
    struct stat st;
    CK(fstat(channel, &st) == 0);
    channel_is = st.st_ino;
    if (channel != end)
        close(end);
    if (out->path)
        close(fileno(out->f));
    dup2(said, STDOUT_FILENO);
    dup2(said, STDERR_FILENO);
    close(said);
    setvbuf(stdout, NULL, _IOLBF, BUFSIZ);
    stderr = open_stream(&to_err, _IONBF);
    crash_child(channel);
    free(out->path); /* the parent's, and nobody here removes them any more */
    free(out->tmp);
    *out = (struct outfile){.f = open_stream(&to_out, _IOFBF)};
}

void supervise_back(pid_t was)
{
    struct stat st;
    if (getpid() != was)
        crash_twice();
    if (channel >= 0 && (fstat(channel, &st) != 0 || st.st_ino != channel_is))
        for (;;)
            syscall(SYS_exit_group, EXIT_FAILED);
}

void supervise_end(bool keep, int code)
{
    fflush(stdout);
    if (channel >= 0)
        send_record(LAST, (const char[]){(char)code, keep}, 2);
}

/* ---- the parent ----------------------------------------------------------------------------------------- */

struct parent {
    pid_t child;
    int channel, said; /* -1: closed */
    struct outfile *out;
    bool last, keep; /* the last record came, and what it says */
    int code;
    bool ended; /* the child, */
    int status; /* so */
    bool line_begun;
    int64_t shown, dropped; /* bytes of what is not the judge's */
    double until;           /* the child is killed then; 0: not yet known */
    const char *late;       /* why, where it is the child's own fault */
};

static volatile sig_atomic_t caught;
static pid_t forward_to;

static void forward(int number)
{
    caught = number;
    kill(forward_to, number);
}

/* One record; false where there is none. */
static bool take_record(struct parent *x)
{
    static char bytes[MOST_RECORD];
    char control[CMSG_SPACE(sizeof(struct ucred))];
    struct iovec part = {bytes, sizeof bytes};
    struct msghdr m = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    ssize_t n = recvmsg(x->channel, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (n == 0) {
        close(x->channel);
        x->channel = -1;
    }
    if (n <= 0)
        return false;
    struct ucred from = {0};
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c))
        if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_CREDENTIALS)
            memcpy(&from, CMSG_DATA(c), sizeof from);
    if (from.pid != x->child || x->last) /* who forks has two, who said the last word has said it */
        return true;
    if (bytes[0] == TO_OUT)
        fwrite(bytes + 1, 1, (size_t)n - 1, x->out->f);
    else if (bytes[0] == TO_ERR)
        fflush(x->out->f), fwrite(bytes + 1, 1, (size_t)n - 1, stderr);
    else if (bytes[0] == LAST && n == 3)
        x->last = true, x->code = bytes[1], x->keep = bytes[2] != 0;
    if (x->last)
        x->until = now_s() + PATIENCE;
    return true;
}

/* What kernels print: marked, and no more of it than anybody reads. */
static bool take_said(struct parent *x)
{
    char bytes[MOST_BYTES];
    ssize_t n = read(x->said, bytes, sizeof bytes);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
        close(x->said);
        x->said = -1;
    }
    for (ssize_t i = 0; i < n; i++) {
        if (x->shown >= MOST_SHOWN) {
            x->dropped += n - i;
            break;
        }
        if (!x->line_begun)
            fputs("| ", stderr);
        fputc(bytes[i], stderr);
        x->line_begun = bytes[i] != '\n';
        x->shown++;
    }
    return n > 0;
}

static void take_all(struct parent *x)
{
    double most = now_s() + 1;
    for (bool more = true; more && now_s() < most;) {
        more = x->channel >= 0 && take_record(x);
        more = (x->said >= 0 && take_said(x)) || more;
    }
    fflush(x->out->f);
}

/* How long the child's threads have been at what they run; true if one is too long at it. Seconds in which this process did not
 * run either, as when somebody stopped both, do not count. */
static bool is_late(double seconds, double passed)
{
    static double age[CRASH_MOST_THREADS];
    static unsigned turn[CRASH_MOST_THREADS];
    bool late = false;
    for (int i = 0; i < CRASH_MOST_THREADS; i++) {
        unsigned now = crash_turn_of_child(i);
        age[i] = now != 0 && now == turn[i] ? age[i] + min_f64(passed, 1) : 0;
        turn[i] = now;
        late = late || (seconds > 0 && age[i] > seconds);
    }
    return late;
}

/* Processes that the child left: a moment for those that come back to say so, then no more of them. */
static void end_strays(void)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
    for (double end = now_s() + 1; waitpid(-1, NULL, WNOHANG) >= 0;) {
        FILE *f = now_s() > end ? fopen(path, "r") : NULL;
        for (int pid; f && fscanf(f, "%d", &pid) == 1;)
            kill(pid, SIGKILL);
        if (f)
            fclose(f);
        else if (now_s() > end + 1)
            break;
        usleep(10000);
    }
}

static void watch(struct parent *x, double seconds)
{
    double before = now_s();
    while (!x->ended) {
        struct pollfd on[] = {{x->channel, POLLIN, 0}, {x->said, POLLIN, 0}};
        poll(on, 2, TICK_MS);
        take_all(x);
        x->ended = waitpid(x->child, &x->status, WNOHANG) == x->child;
        double now = now_s();
        if (caught && x->until == 0)
            x->until = now + PATIENCE;
        if (now - before >= 1e-3 * TICK_MS) {
            if (x->until == 0 && is_late(seconds, now - before)) {
                x->late = "took longer than --seconds-a-case";
                x->until = now;
            }
            before = now;
        }
        if (!x->ended && x->until > 0 && now >= x->until)
            kill(x->child, SIGKILL);
    }
    take_all(x);
    end_strays();
}

/* Why there is no last word, and what the child was at. */
static void tell_end(const struct parent *x)
{
    char how[64];
    if (WIFSIGNALED(x->status))
        snprintf(how, sizeof how, "ended the judge (signal %d)", WTERMSIG(x->status));
    else
        snprintf(how, sizeof how, "ended the judge (exit code %d)", WEXITSTATUS(x->status));
    if (!crash_tell_child(x->late ? x->late : how))
        fprintf(stderr, "treeattn: the judge ended without a verdict (%s %d)\n",
                WIFSIGNALED(x->status) ? "signal" : "exit code",
                WIFSIGNALED(x->status) ? WTERMSIG(x->status) : WEXITSTATUS(x->status));
}

/* The exit code. Of a child that said its last word the end may be worse than that, as a sanitizer's is. */
static int settle(struct parent *x)
{
    struct err e = {0};
    int ended = WIFEXITED(x->status) ? WEXITSTATUS(x->status) : EXIT_FAILED;
    if (x->line_begun)
        fputc('\n', stderr);
    if (x->dropped > 0)
        fprintf(stderr, "| ... and %" PRId64 " bytes more\n", x->dropped);
    bool wanted = caught && WIFSIGNALED(x->status);
    if (!x->last && !wanted && !crash_child_told())
        tell_end(x);
    else if (x->last && WIFSIGNALED(x->status))
        fprintf(stderr, "treeattn: the judge was done, and something kept its process from ending\n");
    if (!x->last)
        x->code = crash_child_lacked_memory() ? EXIT_MISSING : EXIT_FAILED;
    else if (x->code == EXIT_GOOD)
        x->code = ended;
    if (crash_child_twice())
        x->code = EXIT_FAILED;
    if (!outfile_close(x->out, x->last && x->keep, &e)) {
        fprintf(stderr, "treeattn: %s\n", e.msg);
        x->code = e.code;
    }
    if (wanted) {
        signal(caught, SIG_DFL);
        raise(caught);
    }
    return x->code;
}

/* Debuggers stay with the process that they have started. */
static bool is_traced(void)
{
    char line[128];
    int by = 0;
    FILE *f = fopen("/proc/self/status", "r");
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "TracerPid: %d", &by) == 1)
            break;
    if (f)
        fclose(f);
    return by != 0;
}

bool supervised(const struct supervision *s, struct outfile *out, int *code)
{
    int end[2], said[2], on = 1;
    if (s->off || getenv("TREEATTN_NO_FORK") || is_traced() ||
        socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, end) != 0)
        return true;
    pid_t parent = getpid();
    CK(setsockopt(end[0], SOL_SOCKET, SO_PASSCRED, &on, sizeof on) == 0 && pipe2(said, O_CLOEXEC) == 0);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    terminal = is_terminal();
    crash_tell();
    crash_shares();
    fflush(NULL);
    struct parent x = {.child = fork(), .channel = end[0], .said = said[0], .out = out};
    CK(x.child >= 0);
    if (x.child == 0) {
        close(end[0]);
        close(said[0]);
        become_judge(end[1], said[1], parent, out);
        return true;
    }
    close(end[1]);
    close(said[1]);
    fcntl(x.said, F_SETFL, O_NONBLOCK);
    static const int sent[] = {SIGINT, SIGQUIT, SIGTERM, SIGHUP};
    struct sigaction now, to = {.sa_handler = forward};
    forward_to = x.child;
    for (size_t i = 0; i < sizeof sent / sizeof sent[0]; i++)
        if (sigaction(sent[i], NULL, &now) == 0 && now.sa_handler != SIG_IGN)
            sigaction(sent[i], &to, NULL);
    watch(&x, (double)s->seconds);
    *code = settle(&x);
    return false;
}
