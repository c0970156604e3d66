/*
 * launch.c - the program treeattn-mpi: `mpirun -n N treeattn COMMAND ..` becomes N of it. It speaks MPI, and starts the command as
 * processes beside it that do not: on rank 0 the front, which prints; on every rank a worker. So nothing that is judged shares a
 * process with MPI, and treeattn itself is not linked with it.
 *
 * Rank 0 is the master as well: it hands out what verify/sweep/schedule.h says, and passes the first result of each task on to the
 * front. A rank that is silent for SILENCE seconds is taken for dead until it says something.
 */
#include "verify/sweep/schedule.h"
#include "verify/sweep/wire.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <mpi.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { TO_MASTER = 1, TO_MEMBER, MOST_BYTES = 1 << 20, SOCKET = 3, HOST_NAME = 64 };
#define SILENCE 5.0    /* seconds until a rank is taken for dead, */
#define BEAT 0.5       /* between signs of life, */
#define ORPHAN 30.0    /* and until a rank that hears nothing of rank 0 ends */
#define TICK_MS 1      /* MPI has nothing to poll */
#define GATHER 0.005   /* seconds that results wait for others, to go together */

static int my_rank, n_ranks;
static char **my_argv;
static char *program;

/* A sweep that cannot go on: one line, and mpirun ends all ranks. */
static void die(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("treeattn: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    MPI_Abort(MPI_COMM_WORLD, EXIT_MISSING);
    exit(EXIT_MISSING);
}

/* ---- messages ------------------------------------------------------------------------------------------- */

/* Sent, and not yet arrived. What goes to a rank that is dead stays here. */
static struct sent {
    MPI_Request request;
    char *bytes;
} *sent;
static int64_t n_sent, cap_sent;

static void settle_sent(void)
{
    int64_t kept = 0;
    for (int64_t i = 0; i < n_sent; i++) {
        int done = 0;
        MPI_Test(&sent[i].request, &done, MPI_STATUS_IGNORE);
        if (done)
            free(sent[i].bytes);
        else
            sent[kept++] = sent[i];
    }
    n_sent = kept;
}

/* Takes the bytes. */
static void send_bytes(int rank, int tag, struct wire_bytes *b)
{
    if (wire_waiting(b) == 0)
        return;
    sent = xgrow(sent, &cap_sent, n_sent + 1, sizeof *sent);
    wire_append(b, NULL, 0);
    int64_t n = wire_waiting(b);
    if (n > INT_MAX)
        die("a result of %" PRId64 " bytes is too large to be sent", n);
    sent[n_sent].bytes = xmalloc((size_t)n);
    memcpy(sent[n_sent].bytes, b->at + b->taken, (size_t)n);
    MPI_Isend(sent[n_sent].bytes, (int)n, MPI_BYTE, rank, tag, MPI_COMM_WORLD, &sent[n_sent].request);
    n_sent++;
    wire_clear(b);
}

static void post(int rank, int tag, struct frame f, const void *bytes)
{
    struct wire_bytes b = {0};
    wire_add(&b, &f, bytes);
    send_bytes(rank, tag, &b);
}

/* The next message of that tag into *b; the rank that sent it, -1: there is none. */
static int receive(int tag, struct wire_bytes *b)
{
    int there = 0, n = 0;
    MPI_Message message;
    MPI_Status status;
    if (MPI_Improbe(MPI_ANY_SOURCE, tag, MPI_COMM_WORLD, &there, &message, &status) != MPI_SUCCESS || !there)
        return -1;
    MPI_Get_count(&status, MPI_BYTE, &n);
    char *bytes = xmalloc((size_t)n);
    MPI_Mrecv(bytes, n, MPI_BYTE, &message, &status);
    wire_append(b, bytes, n);
    free(bytes);
    return status.MPI_SOURCE;
}

/* ---- processes ------------------------------------------------------------------------------------------ */

struct process {
    pid_t pid; /* 0: there is none */
    struct wire wire;
};

/* Threads that do not crowd out those of the other ranks of this host, unless somebody said how many. */
static void choose_threads(void)
{
    const char *local = getenv("OMPI_COMM_WORLD_LOCAL_SIZE");
    cpu_set_t mine;
    int64_t cpus = sched_getaffinity(0, sizeof mine, &mine) == 0 ? CPU_COUNT(&mine) : 1,
            part = sysconf(_SC_NPROCESSORS_ONLN) / max_i64(1, local ? strtol(local, NULL, 10) : 1);
    char text[24];
    snprintf(text, sizeof text, "%" PRId64, max_i64(1, min_i64(cpus, part)));
    setenv("OMP_NUM_THREADS", text, 0);
    setenv("OMP_WAIT_POLICY", "passive", 0);
}

/* Processes that are started know nothing of MPI. */
static void leave_mpi(void)
{
    static const char *const begins[] = {"OMPI_", "PMIX_", "PMI_", "ORTE_"};
    for (char **v = environ; *v;) {
        bool of_mpi = false;
        for (size_t i = 0; i < sizeof begins / sizeof *begins; i++)
            of_mpi = of_mpi || strncmp(*v, begins[i], strlen(begins[i])) == 0;
        char *name = of_mpi ? strndup(*v, strcspn(*v, "=")) : NULL;
        if (name)
            unsetenv(name); /* moves the others up */
        else
            v++;
        free(name);
    }
}

/* Is standard error of mpirun a terminal? It is no rank's. */
static bool has_terminal(void)
{
    char path[64], to[64];
    snprintf(path, sizeof path, "/proc/%d/fd/2", (int)getppid());
    ssize_t n = readlink(path, to, sizeof to - 1);
    to[n > 0 ? n : 0] = 0;
    return strncmp(to, "/dev/pts/", 9) == 0 || strncmp(to, "/dev/tty", 8) == 0;
}

static void start(struct process *p, bool front)
{
    int end[2];
    bool terminal = front && has_terminal();
    pid_t parent = getpid();
    *p = (struct process){.wire.fd = -1};
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, end) != 0 || (p->pid = fork()) < 0)
        die("a process cannot be started: %s", strerror(errno));
    if (p->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(EXIT_FAILED);
        int none = open("/dev/null", O_RDWR);
        if (!front) {
            dup2(none, STDIN_FILENO);
            dup2(none, STDOUT_FILENO);
        }
        if (end[1] == SOCKET)
            fcntl(SOCKET, F_SETFD, 0);
        else
            dup2(end[1], SOCKET);
        close_range(SOCKET + 1, ~0U, 0);
        leave_mpi();
        setenv("TREEATTN_SWEEP", front ? "front:3" : "worker:3", 1);
        if (terminal)
            setenv("TREEATTN_TERMINAL", "1", 1);
        if (!front)
            choose_threads();
        execv(program, my_argv);
        fprintf(stderr, "treeattn: %s cannot be run: %s\n", program, strerror(errno));
        _exit(EXIT_MISSING);
    }
    close(end[1]);
    p->wire.fd = end[0];
}

/* How it ended, for people; waits for that. */
static int reap(struct process *p, char *how, size_t size)
{
    int status = 0;
    while (waitpid(p->pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (WIFSIGNALED(status))
        snprintf(how, size, "signal %d", WTERMSIG(status));
    else
        snprintf(how, size, "exit code %d", WEXITSTATUS(status));
    close(p->wire.fd);
    wire_clear(&p->wire.in);
    wire_clear(&p->wire.out);
    *p = (struct process){.wire.fd = -1};
    return WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_FAILED;
}

/* A moment to end by itself; what it starts ends with it. */
static void stop(struct process *p)
{
    if (p->pid == 0)
        return;
    shutdown(p->wire.fd, SHUT_RDWR);
    for (int turn = 0; turn < 100; turn++) {
        int status;
        if (waitpid(p->pid, &status, WNOHANG) != 0)
            return;
        usleep(10000);
    }
    kill(p->pid, SIGKILL);
    waitpid(p->pid, NULL, 0);
}

/* ---- a member: every rank -------------------------------------------------------------------------------- */

static struct {
    struct process worker;
    bool said_hello, wanted, quit;
    bool at_work;           /* tasks of the phase were handed out to it */
    uint32_t phase;         /* that is under way, or comes next */
    struct wire_bytes post; /* to rank 0 */
    double since, beat;     /* when the oldest of it came, and when it was last sent something */
    double heard;           /* when rank 0 last sent something */
} member;

static void tell_master(struct frame f, const void *bytes)
{
    if (wire_waiting(&member.post) == 0)
        member.since = now_s();
    wire_add(&member.post, &f, bytes);
}

static void start_worker(void)
{
    start(&member.worker, false);
    member.said_hello = false;
    for (uint32_t i = 0; i < member.phase; i++)
        wire_add(&member.worker.wire.out, &(struct frame){.kind = FRAME_OVER, .phase = i}, NULL);
}

static void obey(const struct frame *f, const char *bytes)
{
    if (f->kind == FRAME_START && member.worker.pid == 0 && !member.wanted) {
        member.wanted = true;
        start_worker();
    }
    if (f->kind == FRAME_OVER || f->kind == FRAME_TASKS) {
        member.phase = f->phase + (f->kind == FRAME_OVER);
        member.at_work = f->kind == FRAME_TASKS;
    }
    if (f->kind == FRAME_TASKS && member.worker.pid == 0 && member.wanted)
        start_worker();
    if ((f->kind == FRAME_TASKS || f->kind == FRAME_OVER) && member.worker.pid != 0)
        wire_add(&member.worker.wire.out, f, bytes);
    member.quit = member.quit || f->kind == FRAME_QUIT;
}

/* What the worker says goes on to rank 0. */
static bool pass_on(void)
{
    struct frame f;
    const char *bytes;
    bool any = false;
    while (wire_take(&member.worker.wire.in, &f, &bytes)) {
        member.said_hello = member.said_hello || f.kind == FRAME_HELLO;
        tell_master(f, bytes);
        any = true;
    }
    return any;
}

static bool listen_to_worker(void)
{
    struct process *w = &member.worker;
    char how[64];
    if (w->pid == 0)
        return false;
    bool open = wire_write(&w->wire, false) & wire_read(&w->wire), any = pass_on();
    if (open)
        return any;
    while (wire_read(&w->wire) && pass_on()) /* what it said before */
        ;
    pass_on();
    reap(w, how, sizeof how);
    if (member.quit || (member.said_hello && !member.at_work)) /* it has no more phases */
        return true;
    tell_master((struct frame){.kind = member.said_hello ? FRAME_CRASH : FRAME_FATAL, .size = strlen(how) + 1}, how);
    if (member.said_hello)
        start_worker();
    return true;
}

static bool member_step(void)
{
    struct wire_bytes b = {0};
    struct frame f;
    const char *bytes;
    bool any = false;
    for (int turn = 0; turn < 100 && receive(TO_MEMBER, &b) >= 0; turn++, any = true)
        member.heard = now_s();
    while (wire_take(&b, &f, &bytes))
        obey(&f, bytes);
    wire_clear(&b);
    any = listen_to_worker() || any;
    double now = now_s();
    if (now - member.beat > BEAT && wire_waiting(&member.post) == 0)
        tell_master((struct frame){.kind = FRAME_BEAT}, NULL);
    if (wire_waiting(&member.post) > MOST_BYTES || (wire_waiting(&member.post) > 0 && now - member.since > GATHER)) {
        send_bytes(0, TO_MASTER, &member.post);
        member.beat = now;
    }
    if (my_rank != 0 && now - member.heard > ORPHAN) {
        fprintf(stderr, "treeattn: rank %d has not heard of rank 0 for %.0f s, and ends\n", my_rank, ORPHAN);
        stop(&member.worker);
        _exit(EXIT_FAILED);
    }
    return any;
}

/* ---- the master: rank 0 ---------------------------------------------------------------------------------- */

enum state { NEW, READY, SILENT, OUT, GONE };

static struct {
    struct process front;
    char *alike; /* what the front said in its hello */
    struct of_rank {
        enum state state;
        char host[HOST_NAME];
        int32_t width;
        double heard;
    } * rank; /* [n_ranks] */
    bool started, active;
    uint32_t phase;
    struct frame_task *task; /* [n] of the phase, */
    int64_t n, *at, n_at;    /* and at[id]: which of them that is; -1: none */
    struct schedule *schedule;
    FILE *costs;
    double beat;
} master;

static const char *name_of(int rank)
{
    static char text[HOST_NAME + 32];
    snprintf(text, sizeof text, "rank %d on %s", rank, master.rank[rank].host[0] ? master.rank[rank].host : "its host");
    return text;
}

static void post_all(struct frame f)
{
    for (int r = 0; r < n_ranks; r++)
        if (master.rank[r].state != GONE)
            post(r, TO_MEMBER, f, NULL);
}

static void tell_front(struct frame f, const void *bytes)
{
    if (master.front.pid != 0)
        wire_add(&master.front.wire.out, &f, bytes);
}

static void fatal(char *why)
{
    tell_front((struct frame){.kind = FRAME_FATAL, .size = strlen(why) + 1}, why);
    free(why);
}

/* What the rank holds is done by others. Says so. */
static void lose(int rank, const char *what, bool crashed)
{
    int64_t n = master.active ? schedule_lost(master.schedule, rank, crashed) : 0;
    bool any = false;
    fprintf(stderr, "treeattn: %s %s", name_of(rank), what);
    if (n > 0)
        fprintf(stderr, ": others do again what it held (%" PRId64 ")", n);
    fputc('\n', stderr);
    for (int r = 0; r < n_ranks; r++)
        any = any || master.rank[r].state == NEW || master.rank[r].state == READY;
    if (!any)
        fatal(xasprintf("no rank is left"));
}

static void join(int rank)
{
    if (master.active && master.rank[rank].state == READY)
        schedule_join(master.schedule, rank, master.rank[rank].width);
}

static void begin_phase(const struct frame *f, const char *bytes)
{
    master.n = (int64_t)(f->size / sizeof *master.task);
    master.task = xcalloc((size_t)master.n, sizeof *master.task);
    memcpy(master.task, bytes, f->size);
    master.phase = f->phase;
    master.n_at = 0;
    double *cost = xcalloc((size_t)master.n, sizeof *cost);
    for (int64_t k = 0; k < master.n; k++) {
        cost[k] = master.task[k].cost;
        master.n_at = max_i64(master.n_at, master.task[k].id + 1);
    }
    master.at = xcalloc((size_t)master.n_at, sizeof *master.at);
    for (int64_t i = 0; i < master.n_at; i++)
        master.at[i] = -1;
    for (int64_t k = 0; k < master.n; k++)
        master.at[master.task[k].id] = k;
    master.schedule = schedule_new(cost, master.n, n_ranks);
    free(cost);
    master.active = true;
    for (int r = 0; r < n_ranks; r++)
        join(r);
    if (!master.started)
        post_all((struct frame){.kind = FRAME_START});
    master.started = true;
}

static void end_phase(void)
{
    if (!master.active)
        return;
    schedule_free(master.schedule);
    free(master.task);
    free(master.at);
    master.schedule = NULL;
    master.active = false;
    post_all((struct frame){.kind = FRAME_OVER, .phase = master.phase});
}

static void hear_front(const struct frame *f, const char *bytes)
{
    switch (f->kind) {
    case FRAME_HELLO:
        free(master.alike);
        master.alike = xstrdup(bytes);
        break;
    case FRAME_PHASE:
        begin_phase(f, bytes);
        break;
    case FRAME_OVER:
        end_phase();
        break;
    default:
        break;
    }
}

static void take_result(int rank, const struct frame *f, const char *bytes)
{
    int64_t k = f->id >= 0 && f->id < master.n_at ? master.at[f->id] : -1;
    if (k < 0 || !schedule_done(master.schedule, rank, k, now_s()))
        return;
    tell_front(*f, bytes);
    if (master.costs)
        fprintf(master.costs, "%" PRIu32 ",%" PRId64 ",%d,%s,%.6g,%.6g\n", f->phase, f->id, rank, master.rank[rank].host,
                master.task[k].cost, f->seconds);
}

static void greet(int rank, const struct frame *f, const char *text)
{
    struct of_rank *x = &master.rank[rank];
    if (!master.alike || strcmp(text, master.alike) != 0) {
        x->state = OUT;
        fatal(xasprintf("%s is not like rank 0: it has '%.150s' (expected '%.150s')", name_of(rank), text,
                        master.alike ? master.alike : ""));
        return;
    }
    x->state = READY;
    x->width = (int32_t)f->id;
    join(rank);
}

static void hear_rank(int rank, const struct frame *f, const char *bytes)
{
    struct of_rank *x = &master.rank[rank];
    x->heard = now_s();
    if (x->state == SILENT) {
        fprintf(stderr, "treeattn: %s is back\n", name_of(rank));
        x->state = x->width > 0 ? READY : NEW;
        join(rank);
    }
    if (f->kind == FRAME_BEAT && f->size > 0)
        snprintf(x->host, sizeof x->host, "%s", bytes);
    else if (f->kind == FRAME_HELLO)
        greet(rank, f, bytes);
    else if (f->kind == FRAME_RESULT && master.active && f->phase == master.phase)
        take_result(rank, f, bytes);
    else if (f->kind == FRAME_QUIT)
        x->state = GONE;
    else if (f->kind == FRAME_CRASH || f->kind == FRAME_FATAL) {
        char *what = xasprintf("%s (%s)", f->kind == FRAME_CRASH ? "lost its worker" : "could not start its worker", bytes);
        x->state = f->kind == FRAME_CRASH ? NEW : OUT;
        lose(rank, what, f->kind == FRAME_CRASH);
        free(what);
        int64_t twice = master.active ? schedule_twice_crashed(master.schedule) : -1;
        if (twice >= 0)
            fatal(xasprintf("two workers ended at case %" PRId64 " of this sweep, the second time with nothing else to do", master.task[twice].id));
    }
}

static bool hear_ranks(void)
{
    bool any = false;
    for (int turn = 0; turn < 4 * n_ranks + 100; turn++) {
        struct wire_bytes b = {0};
        struct frame f;
        const char *bytes;
        int rank = receive(TO_MASTER, &b);
        if (rank < 0)
            break;
        while (wire_take(&b, &f, &bytes))
            hear_rank(rank, &f, bytes);
        wire_clear(&b);
        any = true;
    }
    return any;
}

static void miss_ranks(void)
{
    double now = now_s();
    for (int r = 0; r < n_ranks; r++) {
        struct of_rank *x = &master.rank[r];
        if (x->state == SILENT || x->state == GONE || x->state == OUT || now - x->heard < SILENCE)
            continue;
        x->state = SILENT;
        lose(r, "says nothing any more", false);
    }
}

static void hand_out(void)
{
    for (int r = 0; r < n_ranks && master.active; r++) {
        const int64_t *task;
        int64_t n = master.rank[r].state == READY ? schedule_hand(master.schedule, r, now_s(), &task) : 0;
        int64_t *id = n > 0 ? xcalloc((size_t)n, sizeof *id) : NULL;
        for (int64_t k = 0; k < n; k++)
            id[k] = master.task[task[k]].alone ? ~master.task[task[k]].id : master.task[task[k]].id;
        if (n > 0)
            post(r, TO_MEMBER, (struct frame){.kind = FRAME_TASKS, .phase = master.phase, .size = (uint64_t)n * sizeof *id}, id);
        free(id);
    }
}

/* False: the front has ended. */
static bool master_step(bool *any)
{
    struct frame f;
    const char *bytes;
    struct wire *w = &master.front.wire;
    bool open = wire_write(w, false) & wire_read(w);
    while (wire_take(&w->in, &f, &bytes)) {
        hear_front(&f, bytes);
        *any = true;
    }
    if (!open)
        return false;
    *any = hear_ranks() || *any;
    miss_ranks();
    hand_out();
    if (now_s() - master.beat > BEAT) {
        post_all((struct frame){.kind = FRAME_BEAT});
        master.beat = now_s();
    }
    return true;
}

static void wait_a_moment(void)
{
    struct pollfd on[2];
    int n = 0;
    if (my_rank == 0 && master.front.pid != 0)
        on[n++] = (struct pollfd){master.front.wire.fd, POLLIN | (wire_waiting(&master.front.wire.out) > 0 ? POLLOUT : 0), 0};
    if (member.worker.pid != 0)
        on[n++] = (struct pollfd){member.worker.wire.fd, POLLIN, 0};
    poll(on, (nfds_t)n, TICK_MS);
}

/* ---- the whole ------------------------------------------------------------------------------------------- */

/* All ranks are told, and those that do not answer are named. The exit code is the front's. */
static int end_sweep(void)
{
    char how[64];
    int code = reap(&master.front, how, sizeof how);
    end_phase();
    post_all((struct frame){.kind = FRAME_QUIT});
    for (bool waiting = true; waiting;) {
        waiting = false;
        settle_sent();
        if (!hear_ranks() && !member_step())
            wait_a_moment();
        if (member.quit) {
            stop(&member.worker);
            master.rank[0].state = GONE;
        }
        miss_ranks();
        for (int r = 0; r < n_ranks; r++)
            waiting = waiting || master.rank[r].state == NEW || master.rank[r].state == READY ||
                      (master.rank[r].state == OUT && now_s() - master.rank[r].heard < SILENCE);
    }
    return code;
}

static void open_master(void)
{
    double now = now_s();
    const char *path = getenv("TREEATTN_SWEEP_COSTS");
    master.rank = xcalloc((size_t)n_ranks, sizeof *master.rank);
    for (int r = 0; r < n_ranks; r++)
        master.rank[r].heard = now;
    if (path && !(master.costs = fopen(path, "w")))
        die("%s: cannot be written: %s", path, strerror(errno));
    if (master.costs)
        setvbuf(master.costs, NULL, _IOLBF, BUFSIZ);
    if (master.costs)
        fprintf(master.costs, "phase,task,rank,host,predicted,processor_seconds\n");
    start(&master.front, true);
}

/* With --enable-recovery mpirun takes no notice of exit codes, and its own is 0. Ended like this it is 1. */
static void tell_mpirun(void)
{
    char path[64], name[16] = "";
    int waiting = 1;
    snprintf(path, sizeof path, "/proc/%d/comm", (int)getppid());
    FILE *f = fopen(path, "r");
    if (f && fscanf(f, "%15s", name) != 1)
        name[0] = 0;
    if (f)
        fclose(f);
    if (!getenv("OMPI_MCA_orte_enable_recovery") ||
        (strcmp(name, "mpirun") != 0 && strcmp(name, "mpiexec") != 0 && strcmp(name, "orterun") != 0))
        return;
    for (int turn = 0; turn < 1000 && (turn < 30 || waiting > 0); turn++) { /* until it has read what the front printed */
        usleep(10000);
        if (ioctl(STDOUT_FILENO, FIONREAD, &waiting) != 0)
            waiting = 0;
    }
    kill(getppid(), SIGTERM);
}

static volatile int last_code;
static void give_up(int number)
{
    (void)number;
    if (last_code != EXIT_GOOD)
        tell_mpirun();
    _exit(last_code);
}

/* Ranks that are dead may keep MPI_Finalize waiting. */
static int finalize(int code)
{
    last_code = code;
    signal(SIGALRM, give_up);
    alarm(5);
    MPI_Finalize();
    alarm(0);
    if (code != EXIT_GOOD)
        tell_mpirun();
    return code;
}

/* The program beside this one, unless it is that which started it. */
static char *find_program(void)
{
    const char *given = getenv("TREEATTN_SWEEP_PROGRAM");
    char self[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    self[n > 0 ? n : 0] = 0;
    char *slash = strrchr(self, '/');
    return given ? xstrdup(given) : xasprintf("%.*s/treeattn", (int)(slash ? slash - self : 0), self);
}

#ifdef __SANITIZE_ADDRESS__
/* MPI keeps what it allocates. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "detect_leaks=0";
}
#endif

int main(int argc, char **argv)
{
    char host[MPI_MAX_PROCESSOR_NAME];
    int length, code = EXIT_GOOD;
    MPI_Init(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &my_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &n_ranks);
    MPI_Get_processor_name(host, &length);
    program = find_program();
    my_argv = argv;
    char *end = strstr(argv[0], "-mpi");
    if (end && end[4] == 0)
        argv[0] = xasprintf("%.*s", (int)(end - argv[0]), argv[0]);
    member.heard = now_s();
    member.worker.wire.fd = -1;
    tell_master((struct frame){.kind = FRAME_BEAT, .size = strlen(host) + 1}, host);
    if (my_rank == 0)
        open_master();
    for (bool going = true; going && !member.quit;) {
        settle_sent();
        bool any = member_step();
        if (my_rank == 0)
            going = master_step(&any);
        if (!any)
            wait_a_moment();
    }
    if (my_rank == 0) {
        code = end_sweep();
    } else {
        stop(&member.worker);
        post(0, TO_MASTER, (struct frame){.kind = FRAME_QUIT}, NULL);
        for (double end_at = now_s() + SILENCE; n_sent > 0 && now_s() < end_at; usleep(1000))
            settle_sent();
    }
    if (master.costs)
        fclose(master.costs);
    return finalize(code);
}
