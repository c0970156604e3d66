/*
 * main.c - the program `treeattn`: finds the subcommand and returns its exit code.
 *
 * 0 all good; 1 a verification failed; 2 bad input or usage; 3 something the run needs is missing.
 */
#include "kernels/kernel.h"
#include "sim/strategy.h"
#include "verify/cli/cmd.h"
#include "verify/io/crash.h"
#include "verify/io/origin.h"

#include <inttypes.h>
#include <jansson.h>
#include <malloc.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_THREADS = 256 };

/* A command, or without `run` the purpose of those that follow. */
static const struct {
    const char *name, *about;
    int (*run)(int argc, char **argv);
} commands[] = {
#define PURPOSE(text) {text, NULL, NULL},
#define COMMAND(name, word, about) {word, about, cmd_##name},
#include "verify/cli/commands.def"
#undef COMMAND
#undef PURPOSE
};
enum { N_COMMANDS = sizeof commands / sizeof commands[0] };

static const char *const lesson = "Many queries that share prefixes form a tree: each node holds tokens, "
                                  "each query sees the tokens on its path.\n"
                                  "A plan cuts that attention into groups (some queries x some runs of "
                                  "tokens) that run as one tile loop each,\n"
                                  "and merges the partial results. Every published tree-attention method is "
                                  "a strategy: a rule from tree to plan.\n"
                                  "treeattn makes the plans, counts what they read, runs them on the CPU, "
                                  "and compares every result with exact\n"
                                  "attention computed from the tree alone.\n";

static const char *const examples =
    "examples:\n"
    "  treeattn compare --levels \"1,4,16 1024,256,32\"            every strategy on one tree, in one table\n"
    "  treeattn plan --levels \"1,4 512,64\" --strategy pat         the groups of one plan\n"
    "  treeattn plan --gen bushy:7 --strategy deft-flatten --format svg -o plan.svg    the same as a picture\n"
    "  treeattn verify --trees 100 --seed 7                       random trees, every strategy, judged\n"
    "  treeattn verify --case 'tree=gen:bushy:7;strategy=pat'     one case again, as a failure prints it\n"
    "  treeattn sim --trace embedded:reasoning --tree all          bytes over whole traces, a row per "
    "strategy\n"
    "  treeattn replay --machine h100                             whole decode steps: DeFT's tables, "
    "simulated\n"
    "  treeattn trace deft:FILE --prompt 4000 --max-seq 6000      what a trace asks of attention, step by "
    "step\n"
    "exit codes: 0 good, 1 a verification failed, 2 bad input or usage, 3 something needed is missing\n";

static void print_help(FILE *f)
{
    fprintf(f, "usage: treeattn COMMAND [OPTION...]\n\n%s", lesson);
    for (int i = 0; i < N_COMMANDS; i++)
        if (commands[i].run)
            fprintf(f, "  %-11s %s\n", commands[i].name, commands[i].about);
        else
            fprintf(f, "\n%s:\n", commands[i].name);
    fprintf(f,
            "\n`treeattn COMMAND --help` explains a command; `treeattn --version` says what was built, and "
            "finds the GPU.\n\n%s",
            examples);
}

/* What a report of a fault should begin with. */
static void print_version(void)
{
    struct cuda_caps c;
    struct err e = {0};
    printf("treeattn, commit %s, compiled by %s %s\n", origin_commit(),
#ifdef __clang__
           "clang",
#else
           "gcc",
#endif
           __VERSION__);
    if (!cuda_caps(&c, &e)) {
        printf("no GPU to run on: %s\n", e.msg);
        return;
    }
    char *device = origin_device(&c);
    printf("%s, compute capability %d.%d\n", device, c.arch / 10, c.arch % 10);
    free(device);
}

/* Commands that are spelled nearly so; all of them when nothing is close. */
static void suggest(const char *word, char *out, size_t size)
{
    for (int pass = 0; pass < 2 && !out[0]; pass++)
        for (int i = 0; i < N_COMMANDS; i++)
            if (commands[i].run && (pass == 1 || options_near(word, commands[i].name)))
                listing_add(out, size, commands[i].name);
}

/* `bench [OPTION..] gpu` was the name of bench-gpu, and so for cpu and plan: that one word now. */
static char **join_bench(int *argc, char **argv)
{
    static const char *const kinds[][2] = {{"cpu", "bench-cpu"}, {"plan", "bench-plan"}, {"gpu", "bench-gpu"}};
    for (int i = 2; i < *argc && strcmp(argv[1], "bench") == 0; i++)
        for (int k = 0; k < 3; k++)
            if (strcmp(argv[i], kinds[k][0]) == 0) {
                memmove(argv + 2, argv + 1, (size_t)(i - 1) * sizeof *argv);
                argv[2] = (char *)kinds[k][1];
                --*argc;
                return argv + 1;
            }
    return argv;
}

/* Whoever copies a file to begin with copies its name, too: then one of the two would answer for both. */
static bool check_names(const char *what, const char *(*name)(int32_t), int32_t n, struct err *e)
{
    for (int32_t i = 0; i < n; i++) {
        if (!name(i))
            return err_set(e, "a %s has no name (entry %" PRId32 " of its list)", what, i + 1);
        for (int32_t j = 0; j < i; j++)
            if (strcmp(name(i), name(j)) == 0)
                return err_set(e, "two entries of the %s list are named '%s' (expected names that differ)",
                               what, name(i));
    }
    return true;
}

static const char *name_of_kernel(int32_t i)
{
    return kernels[i]->name;
}

static const char *name_of_strategy(int32_t i)
{
    return strategies[i]->name;
}

int main(int argc, char **argv)
{
    /* Plans, problems and outputs of the same sizes come and go thousands of times. Memory handed back to the system
     * after each faults in again for the next: a plan of 100,000 nodes took half as long again. */
    mallopt(M_MMAP_MAX, 0);
    mallopt(M_TRIM_THRESHOLD, 1 << 30);
    json_set_alloc_funcs(xmalloc, free);
    /* OMP_NUM_THREADS may say anything, and threads that cannot be started end the program */
    if (omp_get_max_threads() > MAX_THREADS)
        omp_set_num_threads(MAX_THREADS);
    crash_tell();
    struct err e = {0};
    if (!check_names("kernel", name_of_kernel, n_kernels, &e) ||
        !check_names("strategy", name_of_strategy, n_strategies, &e))
        return cmd_error(&e);
    if (argc < 2) {
        err_set(&e, "no command given (see treeattn --help)");
        cmd_error(&e);
        fputc('\n', stderr);
        print_help(stderr);
        return EXIT_BAD_INPUT;
    }
    argv = join_bench(&argc, argv);
    const char *name = argv[1];
    if (strcmp(name, "--help") == 0 || strcmp(name, "-?") == 0 || strcmp(name, "-h") == 0 ||
        strcmp(name, "help") == 0) {
        print_help(stdout);
        return cmd_printed();
    }
    if (strcmp(name, "--help=words") == 0) { /* for manual.h */
        for (int i = 0; i < N_COMMANDS; i++)
            if (commands[i].run)
                puts(commands[i].name);
        return cmd_printed();
    }
    if (strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0) {
        print_version();
        return cmd_printed();
    }
    int code = cmd_under_mpirun(name, argv);
    if (code != EXIT_GOOD)
        return code;
    for (int i = 0; i < N_COMMANDS; i++)
        if (commands[i].run && strcmp(commands[i].name, name) == 0)
            return commands[i].run(argc - 1, argv + 1);
    char close[256] = "";
    suggest(name, close, sizeof close);
    err_set(&e, "no command '%.60s' (did you mean %s?)", name, close);
    return cmd_error(&e);
}
