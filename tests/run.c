/*
 * run.c - all Check suites: a process each, as many at a time as there are cores (or $TREEATTN_JOBS).
 * `tests/run NAME...` runs these alone: seconds each. All take six minutes on two cores, and `make check`, which runs
 * everything else as well, takes ten (tests/README.md has the other tiers: fuzz targets, mutants, the stand-in for a GPU).
 *
 * $TREEATTN_SHARED names the data that the project does not ship; tests that need them say that they skip. With
 * $TREEATTN_QUICK, as under sanitizers, there are fewer cases. With $TREEATTN_STOP the first suite that fails is the last.
 * What a suite prints appears when it has ended; the tests that failed and the totals of all come last. A process each,
 * because Check's runner keeps much of what its tests tell it, and every test that it forks later inherits that. Each has
 * a folder of its own for what its tests write ($TMPDIR), which is removed whatever becomes of them.
 */
#include "tests/suites.h"

#include "ref/base.h"

#include <errno.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST_SUITES = 64 };
static char *suites[MOST_SUITES]; /* names */
static int n_suites;

static struct enrolled *first_enrolled, **end_enrolled = &first_enrolled;

void enrol(struct enrolled *x)
{
    *end_enrolled = x;
    end_enrolled = &x->next;
}

/* "plan" of ".../check_plan.c"; the caller frees. */
static char *suite_of(const char *file)
{
    static const char begin[] = "check_";
    const char *base = strrchr(file, '/') ? strrchr(file, '/') + 1 : file;
    base += strncmp(base, begin, strlen(begin)) == 0 ? strlen(begin) : 0;
    return xasprintf("%.*s", (int)strcspn(base, "."), base);
}

static void add_suite(const char *name)
{
    for (int i = 0; i < n_suites; i++)
        if (strcmp(suites[i], name) == 0)
            return;
    CK(n_suites < MOST_SUITES);
    suites[n_suites++] = xstrdup(name);
}

/* Those of suites.def in its order, then all others. */
static void find_suites(void)
{
#define SUITE(module) add_suite(#module);
#include "tests/suites.def"
#undef SUITE
    for (const struct enrolled *x = first_enrolled; x; x = x->next) {
        char *name = suite_of(x->file);
        add_suite(name);
        free(name);
    }
}

/* Tests that share nothing, and after each FROM_HERE the next ones, are a case. */
static Suite *make_suite(const char *of)
{
    Suite *s = suite_create(of);
    TCase *c = NULL;
    bool left_out = false;
    for (const struct enrolled *x = first_enrolled; x; x = x->next) {
        char *name = suite_of(x->file);
        bool wanted = strcmp(name, of) == 0;
        free(name);
        if (!wanted)
            continue;
        if (!x->test)
            left_out = x->wanted && !x->wanted();
        if (left_out)
            continue;
        if (!c || !x->test)
            suite_add_tcase(s, c = tcase_create(of));
        if (x->test && x->exit_code)
            tcase_add_exit_test(c, x->test, x->exit_code);
        else if (x->test)
            tcase_add_loop_test(c, x->test, 0, x->times);
        if (x->seconds)
            tcase_set_timeout(c, x->seconds);
        if (x->setup && x->once)
            tcase_add_unchecked_fixture(c, x->setup, x->teardown);
        else if (x->setup)
            tcase_add_checked_fixture(c, x->setup, x->teardown);
    }
    return s;
}

struct tally {
    int checks, failures, errors;
};

struct running {
    pid_t pid;    /* 0: not begun, or ended */
    double begin; /* now_s */
    char *folder;
    FILE *said;
    FILE *failed; /* a line for each test that failed */
};

static void add(struct tally *to, const struct tally *t)
{
    to->checks += t->checks;
    to->failures += t->failures;
    to->errors += t->errors;
}

/* The process of a suite, to its end. */
static _Noreturn void run_suite(const char *name, const struct running *r, struct tally *t)
{
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    setpgid(0, 0); /* Check hands SIGTERM on to its test, or, between tests, to its own group */
    CK(setenv("TMPDIR", r->folder, 1) == 0);
    CK(dup2(fileno(r->said), STDOUT_FILENO) >= 0 && dup2(fileno(r->said), STDERR_FILENO) >= 0);
    SRunner *runner = srunner_create(make_suite(name));
    srunner_run_all(runner, CK_ENV);
    TestResult **bad = srunner_failures(runner);
    int n = srunner_ntests_failed(runner);
    for (int i = 0; i < n; i++) {
        if (tr_rtype(bad[i]) == CK_FAILURE)
            t->failures++;
        fprintf(r->failed, "failed: %s: %s:%d: %s\n", name, tr_lfile(bad[i]), tr_lno(bad[i]), tr_msg(bad[i]));
    }
    fflush(r->failed);
    t->errors = n - t->failures;
    t->checks = srunner_ntests_run(runner);
    free(bad);
    srunner_free(runner);
    exit(EXIT_SUCCESS);
}

static struct running start(const char *name, const char *root, struct tally *t)
{
    struct running r = {.begin = now_s(), .folder = xasprintf("%s/%s", root, name), .said = tmpfile(),
                        .failed = tmpfile()};
    CK(r.said && r.failed && mkdir(r.folder, 0700) == 0);
    fflush(stdout);
    r.pid = fork();
    CK(r.pid >= 0);
    if (r.pid == 0)
        run_suite(name, &r, t);
    return r;
}

static int remove_one(const char *path, const struct stat *s, int type, struct FTW *where)
{
    (void)s, (void)type, (void)where;
    return remove(path);
}

static void remove_folder(const char *path)
{
    nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static double cpu_s(const struct rusage *used)
{
    return (double)(used->ru_utime.tv_sec + used->ru_stime.tv_sec) +
           1e-6 * (double)(used->ru_utime.tv_usec + used->ru_stime.tv_usec);
}

/* All of `from`, which is closed. */
static void hand_on(FILE *from, FILE *to)
{
    char part[4096];
    rewind(from);
    for (size_t n; (n = fread(part, 1, sizeof part, from)) > 0;)
        fwrite(part, 1, n, to);
    fclose(from);
}

/* Show what the suite has said, keep what failed for the end, and add up; a suite that crashed or has checked nothing is
 * an error. */
static void finish(const char *name, struct running *r, int status, const struct rusage *used,
                   const struct tally *t, FILE *failed, struct tally *all)
{
    hand_on(r->said, stdout);
    hand_on(r->failed, failed);
    add(all, t);
    bool crashed = status != 0 || t->checks == 0;
    printf("%s: %.1f s, %.1f s of a core%s\n", name, now_s() - r->begin, cpu_s(used),
           crashed || t->failures + t->errors > 0 ? ", FAILED" : "");
    if (crashed) {
        fprintf(failed, "failed: %s: ended with status %#x after %d checks (expected 0, and some)\n", name,
                (unsigned)status, t->checks);
        all->errors++;
    }
    remove_folder(r->folder);
    free(r->folder);
    *r = (struct running){0};
}

static volatile sig_atomic_t stopped;

static void stop(int sig)
{
    stopped = sig;
}

/* Those with chosen[i], at most `jobs` at a time; a signal ends them all, or, with stop_early, a failure. */
static struct tally run_all(const bool *chosen, const char *root, long jobs, bool stop_early, FILE *failed)
{
    struct running run[MOST_SUITES] = {0};
    struct tally all = {0}, *t = mmap(NULL, n_suites * sizeof *t, PROT_READ | PROT_WRITE,
                                      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CK(t != MAP_FAILED);
    long busy = 0;
    for (int next = 0; next < n_suites || busy > 0;) {
        if (stopped && busy == 0)
            break;
        if (stopped)
            next = n_suites;
        if (next < n_suites && busy < jobs) {
            if (chosen[next]) {
                run[next] = start(suites[next], root, &t[next]);
                busy++;
            }
            next++;
            continue;
        }
        int status;
        struct rusage used;
        pid_t pid = wait4(-1, &status, 0, &used);
        CK(pid > 0 || errno == EINTR);
        for (int i = 0; i < n_suites; i++)
            if (run[i].pid == pid) {
                finish(suites[i], &run[i], status, &used, &t[i], failed, &all);
                busy--;
                if (stop_early && all.failures + all.errors > 0 && !stopped)
                    stopped = SIGTERM;
            }
        for (int i = 0; i < n_suites && stopped; i++)
            if (run[i].pid > 0)
                kill(run[i].pid, SIGTERM);
    }
    munmap(t, n_suites * sizeof *t);
    return all;
}

int main(int argc, char **argv)
{
    /* Threads that wait must not spin while suites share the cores; OpenMP reads this before main. */
    if (!getenv("OMP_WAIT_POLICY") && setenv("OMP_WAIT_POLICY", "passive", 1) == 0)
        execv("/proc/self/exe", argv);
    const char *jobs = getenv("TREEATTN_JOBS"), *folder = getenv("TMPDIR");
    bool chosen[MOST_SUITES] = {0};
    find_suites();
    for (int i = 0; i < n_suites; i++) {
        chosen[i] = argc < 2;
        for (int k = 1; k < argc; k++)
            chosen[i] = chosen[i] || strcmp(argv[k], suites[i]) == 0;
    }
    const struct sigaction on = {.sa_handler = stop};
    sigaction(SIGINT, &on, NULL);
    sigaction(SIGTERM, &on, NULL);
    setenv("CK_DEFAULT_TIMEOUT", "900", 0); /* a loaded machine under sanitizers is slow, not wrong */
    char *root = xasprintf("%s/treeattn-tests-XXXXXX", folder && *folder ? folder : "/tmp");
    FILE *failed = tmpfile();
    CK(failed && mkdtemp(root));
    struct tally all = run_all(chosen, root, jobs ? max_i64(atol(jobs), 1) : sysconf(_SC_NPROCESSORS_ONLN),
                               getenv("TREEATTN_STOP") != NULL, failed);
    remove_folder(root);
    free(root);
    hand_on(failed, stdout);
    int good = all.checks - all.failures - all.errors;
    printf("%d%%: Checks: %d, Failures: %d, Errors: %d\n", all.checks ? 100 * good / all.checks : 0,
           all.checks, all.failures, all.errors);
    return good == all.checks && good > 0 && !stopped ? EXIT_SUCCESS : EXIT_FAILURE;
}
