#include "verify/io/crash.h"
#include "ref/base.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* What a thread runs. Never freed: a signal handler may look at any of them. */
struct running {
    const char *what, *name;       /* "kernel", "cpu" */
    const char *planted;           /* NULL: nothing */
    _Atomic(const char *) command; /* NULL: runs nothing */
    unsigned turn;                 /* in which runs began */
    struct running *next;
};

static _Atomic(struct running *) threads;
static pid_t ours; /* what a kernel forks is not */
static atomic_uint turns;
static _Thread_local struct running *mine;

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

static void remove_unfinished(void)
{
    for (int i = 0; i < MAX_UNFINISHED; i++) {
        const char *path = atomic_load(&unfinished[i]);
        if (path)
            unlink(path);
    }
}

/* ---- what is said --------------------------------------------------------------------------------------- */

/* Nothing here but what is safe in a signal handler. */
static void say(const char *s)
{
    ssize_t ignored = write(STDERR_FILENO, s, strlen(s));
    (void)ignored;
}

static void say_number(int number)
{
    const char digits[] = {(char)('0' + number / 10 % 10), (char)('0' + number % 10), 0};
    say(number < 10 ? digits + 1 : digits);
}

/* Of all threads that run something, the one that began last or first; NULL: none does. */
static const struct running *find_running(bool last)
{
    const struct running *found = NULL;
    for (const struct running *r = atomic_load(&threads); r; r = r->next)
        if (atomic_load(&r->command) && (!found || (r->turn > found->turn) == last))
            found = r;
    return found;
}

/* This thread's; of threads of the kernel's own, which ask here as well, what began last. */
static const struct running *find_here(void)
{
    return mine && atomic_load(&mine->command) ? mine : find_running(true);
}

/* One line: who did what, with which number, on what. */
static void tell(const struct running *r, const char *did, int number, const char *behind, const char *on)
{
    say("treeattn: ");
    say(r->what);
    say(" ");
    say(r->name);
    say(did);
    say_number(number);
    say(behind);
    if (r->planted) {
        say(", given the planted fault ");
        say(r->planted);
        say(",");
    }
    say(on);
    say(atomic_load(&r->command));
    say("\n");
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
    remove_unfinished();
    signal(number, SIG_DFL);
    raise(number);
}

/* Of several threads the one that hangs is the one that began first. */
static void tell_end(int number)
{
    const struct running *longest = find_running(false);
    if (longest)
        tell(longest, " was running when signal ", number, " came", longest->planted ? " on: " : ", on: ");
    end_by(number);
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

/* The user or a limit ends what runs; or the output failed, which is not its fault. */
static const struct {
    int number;
    void (*handler)(int number);
} sent[] = {{SIGINT, tell_end},  {SIGQUIT, tell_end}, {SIGTERM, tell_end}, {SIGHUP, tell_end},
            {SIGALRM, tell_end}, {SIGXCPU, tell_end}, {SIGPIPE, end_by},   {SIGXFSZ, end_by}};

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
        struct sigaction end = {.sa_handler = sent[i].handler, .sa_flags = SA_ONSTACK};
        if (sigaction(sent[i].number, NULL, &now) == 0 && now.sa_handler != SIG_IGN) /* as SIGHUP by nohup */
            sigaction(sent[i].number, &end, NULL);
    }
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
    mine = xcalloc(1, sizeof *mine);
    mine->next = atomic_load(&threads);
    while (!atomic_compare_exchange_weak(&threads, &mine->next, mine))
        continue;
    return mine;
}

void crash_planning(const char *strategy, const char *command)
{
    struct running *r = this_thread();
    bring_stack();
    r->what = "strategy";
    r->name = strategy;
    if (!command)
        return;
    r->planted = NULL;
    r->turn = atomic_fetch_add(&turns, 1);
    atomic_store(&r->command, command);
}

void crash_running(const char *kernel)
{
    struct running *r = this_thread();
    r->what = "kernel";
    r->name = kernel;
}

void crash_planted(const char *fault)
{
    this_thread()->planted = fault;
}

void crash_done(void)
{
    atomic_store(&this_thread()->command, NULL);
}
