#include "verify/crash.h"

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

struct running {
    const char *kernel, *command; /* NULL: nothing */
};

static _Thread_local struct running running;
static struct running
    *volatile last; /* of the thread that began last: threads of the kernel's own ask here */

static const int deadly[] = {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL};
enum { N_DEADLY = sizeof deadly / sizeof deadly[0] };
static struct sigaction before[N_DEADLY];

/* What was said to a thread that overflowed its stack has to stand elsewhere. */
enum { STACK_BYTES = 1 << 15 };
static _Thread_local char stack[STACK_BYTES];

static void say(const char *s)
{
    ssize_t ignored = write(STDERR_FILENO, s, strlen(s));
    (void)ignored;
}

/* Nothing here but what is safe in a signal handler. */
static void tell(int number, siginfo_t *info, void *context)
{
    (void)context;
    const struct running *here = running.kernel || !last ? &running : last;
    const char digits[] = {(char)('0' + number / 10), (char)('0' + number % 10), 0};
    if (here->kernel) {
        say("treeattn: kernel ");
        say(here->kernel);
        say(" crashed (signal ");
        say(number < 10 ? digits + 1 : digits);
        say(here == &running ? ") on: " : ", in a thread of its own) on, perhaps: ");
        say(here->command);
        say("\n");
    }
    for (int i = 0; i < N_DEADLY; i++)
        if (deadly[i] == number)
            sigaction(number, &before[i], NULL);
    if (info->si_code <= 0) /* sent by somebody; what the processor met is met again on return */
        raise(number);
}

void crash_tell(void)
{
    struct sigaction action = {.sa_sigaction = tell, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    for (int i = 0; i < N_DEADLY; i++)
        sigaction(deadly[i], &action, &before[i]);
}

/* Sanitizers bring a stack for signals; theirs stays. */
static void bring_stack(void)
{
    stack_t is;
    if (sigaltstack(NULL, &is) == 0 && is.ss_flags & SS_DISABLE)
        sigaltstack(&(stack_t){.ss_sp = stack, .ss_size = sizeof stack}, NULL);
}

void crash_running(const char *kernel, const char *command)
{
    if (kernel)
        bring_stack();
    running = (struct running){kernel, command};
    last = kernel ? &running : NULL;
}
