#include "verify/io/crash.h"
#include "ref/base.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { MOST_NAME = 64, MOST_COMMAND = 100000 };

/* What a thread runs. Never freed: a signal handler may look at any of them. Texts are copies, for a parent reads them, too. */
struct running {
    char what[MOST_NAME], name[MOST_NAME]; /* "kernel", "cpu" */
    char planted[MOST_NAME];               /* "": nothing */
    char command[MOST_COMMAND];            /* cut off, if need be */
    atomic_uint turn;                      /* in which runs began, from 1; 0: runs nothing */
    struct running *next;                  /* in the process that runs them */
};

/* What a parent and its child see both. */
static struct shared {
    struct running thread[CRASH_MOST_THREADS];
    atomic_int n_threads;
    atomic_bool told, lacked_memory;
    atomic_bool twice;     /* what was judged came back in a process that it had forked, too: */
    struct running astray; /* the first that did */
} * shared;

static _Atomic(struct running *) threads;
static pid_t ours; /* what a kernel forks is not */
static atomic_uint turns;
static _Thread_local struct running *mine;
static _Thread_local const char *own_command, *own_name; /* a process that is forked has its own */

static const int deadly[] = {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL}; /* raised by the planner or kernel */
enum { N_DEADLY = sizeof deadly / sizeof deadly[0] };
static struct sigaction before[N_DEADLY];

/* What was said to a thread that overflowed its stack has to stand elsewhere. */
enum { STACK_BYTES = 1 << 15 };
static _Thread_local char stack[STACK_BYTES];

/* ---- files ---------------------------------------------------------------------------------------------- */

enum { MAX_UNFINISHED = 16 };
static _Atomic(const char *) unfinished[MAX_UNFINISHED];

/* Puts `to` where the first `from` is. */
static void replace(const char *from, const char *to)
{
    for (int i = 0; i < MAX_UNFINISHED; i++)
        if (atomic_load(&unfinished[i]) == from) {
            atomic_store(&unfinished[i], to);
            return;
        }
}

void crash_removes(const char *path)
{
    crash_tell();
    replace(NULL, path);
}

void crash_spares(const char *path)
{
    replace(path, NULL);
}

/* False if there is none. */
static bool remove_unfinished(void)
{
    bool any = false;
    for (int i = 0; i < MAX_UNFINISHED; i++) {
        const char *path = atomic_load(&unfinished[i]);
        any = (path && unlink(path) == 0) || any;
    }
    return any;
}

/* ---- what is said --------------------------------------------------------------------------------------- */

static int say_to = STDERR_FILENO; /* or the socket to a parent, which wants a record */

/* These texts, up to NULL, at once. Nothing here but what is safe in a signal handler. */
static void say(const char *const *text)
{
    enum { MOST_TEXTS = 16 };
    char kind = CRASH_SAYS;
    struct iovec part[1 + MOST_TEXTS] = {{&kind, 1}};
    int n = 1;
    for (; *text && n <= MOST_TEXTS; text++)
        part[n++] = (struct iovec){(char *)*text, strlen(*text)};
    bool bare = say_to == STDERR_FILENO;
    ssize_t ignored = writev(say_to, part + bare, n - bare);
    (void)ignored;
}

/* Of all threads that run something, the one that began last or first; NULL: none does. */
static const struct running *find_running(bool last)
{
    const struct running *found = NULL;
    for (const struct running *r = atomic_load(&threads); r; r = r->next)
        if (r->turn && (!found || (r->turn > found->turn) == last))
            found = r;
    return found;
}

/* This thread's; of threads of the kernel's own, which ask here as well, what began last. */
static const struct running *find_here(void)
{
    return mine && mine->turn ? mine : find_running(true);
}

/* One line: who did what, with which number, on what. */
static void tell(const struct running *r, const char *did, int number, const char *behind, const char *on)
{
    const char digits[] = {(char)('0' + number / 10 % 10), (char)('0' + number % 10), 0};
    say((const char *const[]){"treeattn: ", r->what, " ", r->name, did, number < 10 ? digits + 1 : digits,
                              behind, r->planted[0] ? ", given the planted fault " : "", r->planted,
                              r->planted[0] ? "," : "", on, r->command, "\n", NULL});
    if (shared)
        shared->told = true;
}

static void tell_crash(int number, siginfo_t *info, void *context)
{
    (void)context;
    const struct running *here = find_here();
    if (here)
        tell(here, " crashed (signal ", number, ")",
             here == mine ? " on: " : " in a thread of its own, on, perhaps: ");
    remove_unfinished();
    for (int i = 0; i < N_DEADLY; i++)
        if (deadly[i] == number)
            sigaction(number, &before[i], NULL);
    if (info->si_code <= 0) /* sent by somebody; what the processor met is met again on return */
        raise(number);
}

static void end_by(int number)
{
    signal(number, SIG_DFL);
    raise(number);
}

/* Of several threads the one that hangs is the one that began first. */
static void tell_end(int number)
{
    const struct running *longest = find_running(false);
    bool unfinished_files = remove_unfinished();
    if (longest && number != SIGPIPE) { /* whose reader went is the output */
        tell(longest, " was running when signal ", number, " came", longest->planted[0] ? " on: " : ", on: ");
    } else if (say_to == STDERR_FILENO &&
               (number != SIGPIPE || unfinished_files)) { /* head and the like want to hear nothing */
        say((const char *const[]){"treeattn: ended by SIG", sigabbrev_np(number),
                                  unfinished_files ? ": its output was not finished and is removed" : "",
                                  "\n", NULL});
    }
    end_by(number);
}

/* Whoever writes more than ulimit -f allows gets an error, and says so. */
static void tell_limit(int number, siginfo_t *info, void *context)
{
    (void)context;
    if (info->si_pid != getpid())
        tell_end(number);
}

static void end_now(int status) __attribute__((noreturn));
static void end_now(int status)
{
    for (;;)
        syscall(SYS_exit_group, status);
}

/* Whatever a kernel exits with, it has not passed: 0 and 3 would say so. Our own exits within a run, for lack of memory, keep
 * their status. */
void crash_exits(int status)
{
    if (getpid() != ours)
        return;
    const struct running *here = find_here();
    remove_unfinished();
    if (!here)
        return;
    tell(here, " ended the program (exit code ", status, ")", " on: ");
    if (shared)
        shared->lacked_memory = memory_ran_out;
    if (!memory_ran_out)
        end_now(EXIT_FAILED);
}

static void tell_exit(int status, void *unused)
{
    (void)unused;
    crash_exits(status);
}

static void tell_quick_exit(void)
{
    crash_exits(0);
}

/* All others that end a program: the user, a timer or a limit ends what runs. */
static const int sent[] = {SIGINT,  SIGQUIT, SIGTERM,   SIGHUP, SIGUSR1, SIGUSR2, SIGALRM, SIGVTALRM,
                           SIGPROF, SIGXCPU, SIGSTKFLT, SIGIO,  SIGPWR,  SIGPIPE, SIGSYS,  SIGTRAP};

void crash_tell(void)
{
    static bool told;
    ours = getpid();
    if (told)
        return;
    told = true;
    struct sigaction crash = {.sa_sigaction = tell_crash, .sa_flags = SA_SIGINFO | SA_ONSTACK}, now;
    for (int i = 0; i < N_DEADLY; i++)
        sigaction(deadly[i], &crash, &before[i]);
    for (size_t i = 0; i < sizeof sent / sizeof sent[0]; i++) {
        struct sigaction end = {.sa_handler = tell_end, .sa_flags = SA_ONSTACK};
        if (sigaction(sent[i], NULL, &now) == 0 && now.sa_handler != SIG_IGN) /* as SIGHUP by nohup */
            sigaction(sent[i], &end, NULL);
    }
    struct sigaction limit = {.sa_sigaction = tell_limit, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART};
    if (sigaction(SIGXFSZ, NULL, &now) == 0 && now.sa_handler != SIG_IGN)
        sigaction(SIGXFSZ, &limit, NULL);
    on_exit(tell_exit, NULL);
    at_quick_exit(tell_quick_exit);
}

/* ---- what runs ------------------------------------------------------------------------------------------ */

/* Sanitizers bring a stack for signals; theirs stays. */
static void bring_stack(void)
{
    stack_t is;
    if (sigaltstack(NULL, &is) == 0 && is.ss_flags & SS_DISABLE)
        sigaltstack(&(stack_t){.ss_sp = stack, .ss_size = sizeof stack}, NULL);
}

static struct running *this_thread(void)
{
    if (mine)
        return mine;
    int slot = shared ? atomic_fetch_add(&shared->n_threads, 1) : CRASH_MOST_THREADS;
    mine = slot < CRASH_MOST_THREADS ? &shared->thread[slot] : xcalloc(1, sizeof *mine);
    mine->next = atomic_load(&threads);
    while (!atomic_compare_exchange_weak(&threads, &mine->next, mine))
        continue;
    return mine;
}

static void copy_text(char *to, size_t size, const char *from)
{
    size_t n = strnlen(from, size - 1);
    memcpy(to, from, n);
    to[n] = 0;
}

void crash_planning(const char *strategy, const char *command)
{
    struct running *r = this_thread();
    bring_stack();
    copy_text(r->what, sizeof r->what, "strategy");
    copy_text(r->name, sizeof r->name, strategy);
    own_name = strategy;
    if (!command)
        return;
    own_command = command;
    r->planted[0] = 0;
    copy_text(r->command, sizeof r->command, command);
    atomic_store(&r->turn, atomic_fetch_add(&turns, 1) + 1);
}

void crash_running(const char *kernel)
{
    struct running *r = this_thread();
    own_name = kernel;
    copy_text(r->what, sizeof r->what, "kernel");
    copy_text(r->name, sizeof r->name, kernel);
}

void crash_planted(const char *fault)
{
    struct running *r = this_thread();
    copy_text(r->planted, sizeof r->planted, fault ? fault : "");
}

void crash_done(void)
{
    atomic_store(&this_thread()->turn, 0);
}

/* ---- a parent and its child ----------------------------------------------------------------------------- */

void crash_shares(void)
{
    void *p = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    shared = p == MAP_FAILED ? NULL : p; /* zero */
}

void crash_child(int to)
{
    ours = getpid();
    say_to = to;
    for (int i = 0; i < MAX_UNFINISHED; i++) /* the parent's */
        atomic_store(&unfinished[i], NULL);
}

unsigned crash_turn_of_child(int thread)
{
    return shared ? atomic_load(&shared->thread[thread].turn) : 0;
}

bool crash_child_told(void)
{
    return shared && shared->told;
}

bool crash_child_lacked_memory(void)
{
    return shared && shared->lacked_memory;
}

void crash_twice(void)
{
    if (shared && own_command && !atomic_exchange(&shared->twice, true)) {
        copy_text(shared->astray.name, sizeof shared->astray.name, own_name);
        copy_text(shared->astray.command, sizeof shared->astray.command, own_command);
    }
    end_now(EXIT_FAILED);
}

/* By the parent, of what a child ran. */
static void tell_of(const struct running *r, const char *did, bool alone)
{
    fprintf(stderr, "treeattn: %s %s %s%s%s on%s: %s\n", r->what, r->name, did,
            r->planted[0] ? ", given the planted fault " : "", r->planted, alone ? "" : ", perhaps",
            r->command);
}

bool crash_child_twice(void)
{
    if (shared && shared->twice)
        fprintf(stderr, "treeattn: %s came back in a process of its own as well, on: %s\n",
                shared->astray.name, shared->astray.command);
    return shared && shared->twice;
}

bool crash_tell_child(const char *did)
{
    int n = 0;
    for (int i = 0; i < CRASH_MOST_THREADS; i++)
        n += crash_turn_of_child(i) != 0;
    for (int i = 0; i < CRASH_MOST_THREADS; i++)
        if (crash_turn_of_child(i) != 0)
            tell_of(&shared->thread[i], did, n == 1);
    return n > 0;
}
