/*
 * lab_host.c - the program `treeattn-lab-host`: a child (verify/child/README.md) that runs what a student wrote (lab.h).
 *
 *     treeattn-lab-host DIR/lab.so          answers questions on descriptors 3 and 4
 *     treeattn-lab-host -c COMMAND          runs a command, without rights
 *
 * It has no oracle and no judge in it. Started by root it becomes the owner of DIR. What it loads may start no process, trace none, and
 * open no connection: the system ends it. Arrays lie between pages that nobody may touch.
 */
#include "ref/json_text.h"
#include "tests/labs/include/lab.h"
#include "verify/child/answer.h"
#include "verify/child/fence.h"
#include "verify/child/tensors.h"
#include "verify/lab/tile/cta.h"
#include "verify/lab/rights.h"

#include <dlfcn.h>
#include <grp.h>
#include <inttypes.h>
#include <jansson.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static FILE *to_judge;

#ifdef __SANITIZE_ADDRESS__
/* What ends a student's code must be seen as it is; to look for leaks it would start a process. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "detect_leaks=0:handle_segv=0:handle_sigbus=0:handle_abort=0";
}
#endif

/* ---- what it may not ---------------------------------------------------------------------------------- */

/* Root becomes the owner of that folder, or nobody. */
static void become_owner(const char *folder)
{
    struct stat st;
    bool owned = folder && stat(folder, &st) == 0 && st.st_uid != 0;
    uid_t who = owned ? st.st_uid : LAB_NOBODY;
    if (geteuid() != 0 || setgroups(0, NULL) != 0 || setresgid(who, who, who) != 0)
        return;
    if (setresuid(who, who, who) != 0)
        _exit(EXIT_MISSING);
}

#if defined __x86_64__
#define LAB_ARCH AUDIT_ARCH_X86_64
#elif defined __aarch64__
#define LAB_ARCH AUDIT_ARCH_AARCH64
#endif
#define ENDS(name)                                                                                           \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##name, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)

/* A thread may be started, a process not. Where there is no such filter, the judge counts processes. */
static void start_no_process(void)
{
    struct sock_filter filter[] = {
#ifdef LAB_ARCH /* calls of another architecture have other numbers */
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, LAB_ARCH, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
#endif
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        ENDS(execve),
        ENDS(execveat),
#ifdef SYS_fork
        ENDS(fork),
        ENDS(vfork),
#endif
        ENDS(kill),
        ENDS(ptrace),
        ENDS(process_vm_readv),
        ENDS(process_vm_writev),
        ENDS(socket),
        ENDS(unshare),
        ENDS(setns),
        ENDS(mount),
        ENDS(bpf),
        ENDS(io_uring_setup),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone3, 0, 1), /* libc then takes clone */
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 38 /* ENOSYS */),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, CLONE_THREAD, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    };
    struct sock_fprog program = {sizeof filter / sizeof filter[0], filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0)
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

static void limit_memory(void)
{
#ifndef __SANITIZE_ADDRESS__ /* which takes terabytes of addresses */
    const struct rlimit most = {(rlim_t)LAB_MEMORY_GIB << 30, (rlim_t)LAB_MEMORY_GIB << 30};
    setrlimit(RLIMIT_AS, &most);
#endif
}

/* ---- a question --------------------------------------------------------------------------------------- */

/* Inputs in the order of the file, and behind them outputs. */
struct job {
    const json_t *request;
    void *function;
    struct tensors in, out;
    struct fenced memory[2 * TENSORS_MAX];
    int32_t n;
};

static int64_t number(const struct job *j, const char *key)
{
    return json_integer_value(json_object_get(j->request, key));
}

/* An input, by its name. */
static void *input(struct job *j, const char *name)
{
    const struct tensor *t = tensors_find(&j->in, name);
    return t ? j->memory[t - j->in.at].data : NULL;
}

/* n floats to write to: copies of `from`, or NaN. */
static float *output(struct job *j, const char *name, int64_t n, const float *from)
{
    struct fenced *f = &j->memory[j->n++];
    *f = fence(from, n * (int64_t)sizeof(float));
    for (int64_t i = 0; i < n && !from; i++)
        ((uint32_t *)f->data)[i] = 0x7fc0dead; /* LAB1_UNWRITTEN, by which it is known */
    tensors_add(&j->out, name, EL_F32, f->data, false, 1, &n);
    return (float *)f->data;
}

static void attend(struct job *j)
{
    __typeof__(lab_attend) *f = j->function;
    int d = (int)number(j, "d");
    float *o = output(j, "o", d, NULL), *lse = output(j, "lse", 1, NULL);
    f(input(j, "q"), input(j, "k"), input(j, "v"), (int)number(j, "n"), d,
      (float)json_number_value(json_object_get(j->request, "scale")), o, lse);
}

static void merge(struct job *j)
{
    __typeof__(lab_merge) *f = j->function;
    int d = (int)number(j, "d");
    float *o = output(j, "o", d, input(j, "o1")), *lse = output(j, "lse", 1, input(j, "lse1"));
    f(o, lse, input(j, "o2"), *(float *)input(j, "lse2"), d);
}

/* n whole numbers to write to, all of them 0. */
static int64_t *whole_numbers(struct job *j, const char *name, int64_t n)
{
    int64_t *zero = xcalloc((size_t)n, sizeof *zero);
    struct fenced *f = &j->memory[j->n++];
    *f = fence(zero, n * (int64_t)sizeof *zero);
    free(zero);
    tensors_add(&j->out, name, EL_I64, f->data, false, 1, &n);
    return (int64_t *)f->data;
}

static int64_t rows_of(struct job *j, const char *name)
{
    const struct tensor *t = tensors_find(&j->in, name);
    return t ? t->shape[0] : 0;
}

static void answers(struct job *j)
{
    memcpy(whole_numbers(j, "answers", 12), j->function, 12 * sizeof(int64_t));
}

/* A group is a row of 7 numbers, a merge one of 2. */
static void count(struct job *j)
{
    __typeof__(lab_count) *f = j->function;
    int64_t n_groups = rows_of(j, "groups"), n_merges = rows_of(j, "merges");
    const int64_t *x = input(j, "groups"), *y = input(j, "merges");
    struct lab_plan_group *g = xcalloc((size_t)n_groups, sizeof *g);
    struct lab_plan_merge *m = xcalloc((size_t)n_merges, sizeof *m);
    for (int64_t i = 0; i < n_groups; i++, x += 7)
        g[i] =
            (struct lab_plan_group){(int)x[0], (int)x[1], x[2], (int)x[3], (int)x[4], (int)x[5], (int)x[6]};
    for (int64_t i = 0; i < n_merges; i++, y += 2)
        m[i] = (struct lab_plan_merge){(int)y[0], (int)y[1]};
    struct fenced groups = fence(g, n_groups * (int64_t)sizeof *g),
                  merges = fence(m, n_merges * (int64_t)sizeof *m);
    const struct lab_plan p = {.q_heads = (int)number(j, "q_heads"),
                               .kv_heads = (int)number(j, "kv_heads"),
                               .head_dim = (int)number(j, "head_dim"),
                               .element_bytes = (int)number(j, "element_bytes"),
                               .weight_numbers = (int)number(j, "weight_numbers"),
                               .n_groups = (int)n_groups,
                               .n_merges = (int)n_merges,
                               .group = (void *)groups.data,
                               .merge = (void *)merges.data};
    f(&p, (struct lab_bytes *)whole_numbers(j, "bytes", sizeof(struct lab_bytes) / sizeof(int64_t)));
    fence_free(&groups);
    fence_free(&merges);
    free(g);
    free(m);
}

static void put_list(struct job *j, const char *name, const struct lab_list *l)
{
    struct fenced *f = &j->memory[j->n++];
    *f = fence(l->x, l->n * (int64_t)sizeof *l->x);
    tensors_add(&j->out, name, EL_I64, f->data, false, 1, &l->n);
}

static void partition(struct job *j)
{
    __typeof__(lab_partition) *f = j->function;
    const struct lab_tree tree = {.n_nodes = (int)rows_of(j, "parent"),
                                  .n_queries = (int)rows_of(j, "query_node"),
                                  .parent = input(j, "parent"),
                                  .len = input(j, "len"),
                                  .query_node = input(j, "query_node"),
                                  .query_upto = input(j, "query_upto")};
    struct lab_env env; /* the judge has the same lab.h */
    memcpy(&env, input(j, "env"), sizeof env);
    struct lab_out out = {.n_groups = 0};
    f(&tree, &env, &out);
    put_list(j, "groups", &out.groups);
    put_list(j, "hidden", &out.hidden);
    free(out.groups.x);
    free(out.hidden.x);
}

static void pack(struct job *j)
{
    __typeof__(lab_pack) *f = j->function;
    int64_t n = rows_of(j, "parent");
    const struct lab_shape shape = {.n_nodes = (int)n,
                                    .parent = input(j, "parent"),
                                    .len = input(j, "len"),
                                    .queries = input(j, "queries")};
    const struct lab_price price = {.pack = (int)number(j, "pack"),
                                    .partial = json_number_value(json_object_get(j->request, "partial"))};
    unsigned char *zero = xcalloc((size_t)n, 1);
    struct fenced *join = &j->memory[j->n++];
    *join = fence(zero, n);
    free(zero);
    tensors_add(&j->out, "join", EL_U8, join->data, false, 1, &n);
    f(&shape, &price, (unsigned char *)join->data);
}

/* Where the object keeps what its calls of the device go to. */
static const void **to_device;

static void kernel(struct job *j)
{
    __typeof__(lab_kernel) *f = j->function;
    const struct lab_cta shape = {.threads = (int)number(j, "threads"),
                                  .queries = (int)number(j, "queries"),
                                  .ratio = (int)number(j, "ratio"),
                                  .kv_heads = (int)number(j, "kv_heads"),
                                  .kv_head = (int)number(j, "kv_head"),
                                  .head_dim = (int)number(j, "d"),
                                  .tokens = (int)number(j, "tokens"),
                                  .runs = (int)rows_of(j, "mask"),
                                  .page_size = (int)number(j, "page_size"),
                                  .tile_n = (int)number(j, "tile_n"),
                                  .scale = (float)json_number_value(json_object_get(j->request, "scale"))};
    int64_t n_q = rows_of(j, "q"), n_name = CTA_NAME;
    const struct cta_run run = {.shape = &shape,
                                .q = input(j, "q"),
                                .k = input(j, "k"),
                                .v = input(j, "v"),
                                .page_table = input(j, "page_table"),
                                .run_end = input(j, "run_end"),
                                .mask = input(j, "mask"),
                                .o = output(j, "o", n_q, NULL),
                                .lse = output(j, "lse", n_q / shape.head_dim, NULL),
                                .n_q = n_q,
                                .n_kv = rows_of(j, "k"),
                                .n_pages = rows_of(j, "page_table"),
                                .n_o = n_q,
                                .order = (uint64_t)number(j, "order")};
    struct cta_said said;
    cta_run(&run, f, to_device, &said);
    memcpy(whole_numbers(j, "said", CTA_NUMBERS), &said, CTA_NUMBERS * sizeof(int64_t));
    struct fenced *name = &j->memory[j->n++];
    *name = fence(said.array, n_name);
    tensors_add(&j->out, "array", EL_U8, name->data, false, 1, &n_name);
}

static struct {
    const char *point, *symbol;
    void (*call)(struct job *j);
    void *function;
} points[] = {{"attend", "lab_attend", attend, NULL},          {"merge", "lab_merge", merge, NULL},
              {"answers", "lab_answers", answers, NULL},       {"count", "lab_count", count, NULL},
              {"partition", "lab_partition", partition, NULL}, {"pack", "lab_pack", pack, NULL},
              {"kernel", "lab_kernel", kernel, NULL}};
enum { N_POINTS = sizeof points / sizeof points[0] };

/* What there is to say of a run, besides "done": the key of the line, and the sentence in text. NULL: nothing. */
static const char *complaint(const struct job *j, char *text, size_t size)
{
    for (int32_t i = 0; i < j->n; i++) {
        const char *name = i < j->in.n ? j->in.at[i].name : j->out.at[i - j->in.n].name;
        if (!fence_holds(&j->memory[i])) {
            snprintf(text, size, "wrote outside of %s", name);
            return "wrote_outside";
        }
        if (i < j->in.n && memcmp(j->memory[i].data, j->in.at[i].data, j->memory[i].size) != 0) {
            snprintf(text, size, "wrote to %s, which is an input", name);
            return "wrote_input";
        }
    }
    return NULL;
}

static void run(const json_t *request)
{
    const char *point = json_string_value(json_object_get(request, "point")),
               *in = json_string_value(json_object_get(request, "in")),
               *out = json_string_value(json_object_get(request, "out"));
    int64_t id = json_integer_value(json_object_get(request, "run"));
    struct job j = {.request = request};
    struct err e = {0};
    int at = 0;
    while (at < N_POINTS && (!point || strcmp(points[at].point, point) != 0))
        at++;
    if (at == N_POINTS || !points[at].function || !in || !out ||
        !tensors_read(in, INT64_MAX / 2, &j.in, &e)) {
        answer_print(to_judge, "error", id, "not a question of a lab", -1);
        return;
    }
    for (; j.n < j.in.n; j.n++)
        j.memory[j.n] = fence(j.in.at[j.n].data, tensor_bytes(&j.in.at[j.n]));
    j.function = points[at].function;
    points[at].call(&j);
    char text[200];
    const char *key = complaint(&j, text, sizeof text);
    if (key)
        answer_print(to_judge, key, id, text, -1);
    else if (!tensors_write(out, &j.out, &e))
        answer_print(to_judge, "error", id, e.msg, -1);
    else
        answer_print(to_judge, "done", id, NULL, -1);
    for (int32_t i = 0; i < j.n; i++)
        fence_free(&j.memory[i]);
    tensors_free(&j.in);
}

/* ---- the object --------------------------------------------------------------------------------------- */

/* Loads it and says what it has, or why not. */
static bool load(const char *path)
{
    void *object = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    fprintf(to_judge, "{\"hello\":1");
    if (!object) {
        const char *says = dlerror(), *name = strrchr(path, '/') + 1;
        size_t folder = (size_t)(name - path);
        fputs(",\"refused\":", to_judge);
        print_json_text(to_judge, strncmp(says, path, folder) == 0 ? says + folder : says);
    }
    fputs(",\"functions\":[", to_judge);
    const char *between = "";
    for (int i = 0; i < N_POINTS && object; i++) {
        points[i].function = dlsym(object, points[i].symbol);
        if (points[i].function) {
            fprintf(to_judge, "%s\"%s\"", between, points[i].symbol);
            between = ",";
        }
    }
    static const void *nowhere; /* an object that is made of another lab.h */
    const void **known = object ? dlsym(object, "lab_calls") : NULL;
    to_device = known ? known : &nowhere;
    fputs("]}\n", to_judge);
    fflush(to_judge);
    return object != NULL;
}

int main(int argc, char **argv)
{
    char *folder = argc == 2 ? xstrdup(argv[1]) : NULL, *end = folder ? strrchr(folder, '/') : NULL;
    if (end)
        *end = 0;
    become_owner(folder ? folder : getenv("TMPDIR"));
    free(folder);
    if (argc == 3 && strcmp(argv[1], "-c") == 0) {
        execl("/bin/sh", "sh", "-c", argv[2], (char *)NULL);
        return EXIT_MISSING;
    }
    FILE *from_judge = fdopen(3, "r");
    to_judge = fdopen(4, "w");
    if (!from_judge || !to_judge || argc != 2 || !strchr(argv[1], '/')) {
        fputs("usage: treeattn lab N lab.c (treeattn-lab-host speaks with it on descriptors 3 and 4)\n",
              stderr);
        return EXIT_BAD_INPUT;
    }
    limit_memory();
    start_no_process();
    char *line = NULL;
    size_t size = 0;
    bool loaded = false;
    while (getline(&line, &size, from_judge) > 0) {
        json_t *o = json_loads(line, 0, NULL);
        if (json_object_get(o, "hello") && !loaded)
            loaded = load(argv[1]);
        else if (json_object_get(o, "run") && loaded)
            run(o);
        json_decref(o);
        if (!loaded)
            break;
    }
    _exit(EXIT_GOOD); /* what was loaded has no say in it */
}
