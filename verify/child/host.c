/*
 * host.c - the program `treeattn-host`: a child (child.h) that runs a plug-in (treeattn_plugin.h).
 *
 *     treeattn-host ./mine.so
 *
 * It has no oracle and no judge in it: besides this file it is answer.c, fence.c and tensors.c, and base.c, dtype.c and json_text.c of ref/.
 * Inputs and outputs of the plug-in lie between pages that nobody may touch, so that what runs beyond an array ends there.
 */
#include "ref/dtype.h"
#include "ref/json_text.h"
#include "ref/problem.h" /* PAGE_POISON */
#include "verify/child/answer.h"
#include "verify/child/fence.h"
#include "verify/child/tensors.h"
#include "verify/child/treeattn_plugin.h"

#include <dlfcn.h>
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static FILE *to_judge;

/* ---- what the plug-in asks for -------------------------------------------------------------------------- */

/* How often memory was asked for since `counting` was set. */
static atomic_bool counting;
static _Atomic int64_t asked_for;

#ifdef __SANITIZE_ADDRESS__ /* which has an allocator of its own */
static const bool counts = false;
#else
static const bool counts = true;

void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t n);
void *__libc_memalign(size_t alignment, size_t n);

static void note_request(void)
{
    if (counting)
        asked_for++;
}

void *malloc(size_t n)
{
    note_request();
    return __libc_malloc(n);
}

void *calloc(size_t n, size_t size)
{
    note_request();
    return __libc_calloc(n, size);
}

void *realloc(void *p, size_t n)
{
    note_request();
    return __libc_realloc(p, n);
}

void *aligned_alloc(size_t alignment, size_t n)
{
    note_request();
    return __libc_memalign(alignment, n);
}

int posix_memalign(void **p, size_t alignment, size_t n)
{
    note_request();
    *p = __libc_memalign(alignment, n);
    return *p ? 0 : ENOMEM;
}
#endif

/* ---- answers -------------------------------------------------------------------------------------------- */

/* The only line of a host that has nothing to run. */
static int refuse(const char *sentence)
{
    fputs("{\"hello\":1,\"refused\":", to_judge);
    print_json_text(to_judge, sentence);
    fputs("}\n", to_judge);
    fflush(to_judge);
    return EXIT_BAD_INPUT;
}

/* ---- the plug-in -------------------------------------------------------------------------------------- */

/* A plug-in of 1.0 ends before these fields; of a later one only what we know is read. */
enum { SIZE_OF_1_0 = offsetof(struct ta_plugin, partial) };

/* False with a sentence in why. */
static bool load(const char *path, struct ta_plugin *out, char *why, size_t size)
{
    const char *slash = strchr(path, '/'); /* dlopen looks elsewhere for a name without one */
    char *name = slash ? xstrdup(path) : xasprintf("./%s", path);
    void *object = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    free(name);
    if (!object) {
        snprintf(why, size, "%s", dlerror());
        return false;
    }
    union {
        void *symbol;
        const struct ta_plugin *(*get)(uint32_t);
    } f = {.symbol = dlsym(object, "treeattn_plugin")};
    if (!f.symbol) {
        snprintf(why, size, "%s: no symbol treeattn_plugin (expected the function of treeattn_plugin.h)",
                 path);
        return false;
    }
    const struct ta_plugin *p = f.get(TA_ABI);
    bool known = p && p->abi >= 1 && p->abi <= TA_ABI && p->size >= SIZE_OF_1_0;
    *out = (struct ta_plugin){.size = 0};
    if (known)
        memcpy(out, p, p->size < sizeof *out ? p->size : sizeof *out);
    const char *wrong = !p                                          ? "it does not know this ABI"
                        : p->size < SIZE_OF_1_0                     ? "its struct ta_plugin is too small"
                        : p->abi < 1 || p->abi > TA_ABI             ? "it is of another ABI"
                        : !out->name                                ? "name must be there"
                        : !out->run && !out->partial && !out->merge ? "run, partial or merge must be there"
                        : out->run && !out->view                    ? "view must be there"
                                                                    : NULL;
    if (wrong)
        snprintf(why, size,
                 "%s: %s (expected ABI %d, at least %d bytes; it has ABI %" PRIu32 ", %" PRIu32 " bytes)",
                 path, wrong, TA_ABI, (int)SIZE_OF_1_0, p ? p->abi : 0, p ? p->size : 0);
    return !wrong;
}

static void say_text(const char *key, const char *value)
{
    if (!value)
        return;
    fprintf(to_judge, ",\"%s\":", key);
    print_json_text(to_judge, value);
}

static void say_list(const char *key, const int32_t *list)
{
    if (!list)
        return;
    fprintf(to_judge, ",\"%s\":[", key);
    for (int32_t i = 0; list[i]; i++)
        fprintf(to_judge, "%s%" PRId32, i ? "," : "", list[i]);
    fputs("]", to_judge);
}

/* "f16 bf16" as a list; NULL: nothing is said. */
static void say_words(const char *key, const char *text)
{
    if (!text)
        return;
    char *words = xstrdup(text), *rest = words;
    const char *between = "";
    fprintf(to_judge, ",\"%s\":[", key);
    for (char *word; (word = strsep(&rest, " ,"));) {
        if (!*word)
            continue;
        fputs(between, to_judge);
        print_json_text(to_judge, word);
        between = ",";
    }
    fputs("]", to_judge);
    free(words);
}

static void say_hello(const struct ta_plugin *p)
{
    fputs("{\"hello\":1", to_judge);
    say_text("name", p->name);
    say_text("version", p->version);
    const char *const point[] = {p->run ? "attention" : NULL, p->partial ? "partial" : NULL,
                                 p->merge ? "merge" : NULL};
    const char *before = ",\"points\":[";
    for (int i = 0; i < 3; i++)
        if (point[i]) {
            fprintf(to_judge, "%s\"%s\"", before, point[i]);
            before = ",";
        }
    fputs("]", to_judge);
    say_text("view", p->view);
    say_text("layout", p->layout);
    say_text("mask", p->mask);
    say_words("dtypes", p->dtypes);
    say_words("features", p->features);
    say_list("head_dims", p->head_dims);
    say_list("ratios", p->ratios);
    say_list("page_sizes", p->page_sizes);
    fprintf(to_judge, ",\"max_context\":%" PRId64 ",\"max_queries\":%" PRId64 ",\"max_pairs\":%" PRId64,
            p->max_context, p->max_queries, p->max_pairs);
    say_text("lse", p->lse);
    say_text("lse_order", p->lse_order);
    say_text("empty_lse", p->empty_lse);
    say_text("accumulate", p->accumulate);
    say_text("probability", p->probability);
    say_text("partial_o", p->partial_o);
    say_text("probability_sum", p->probability_sum);
    fputs(",\"sparse\":1", to_judge);
    fprintf(to_judge, ",\"sum_block\":%" PRId64 ",\"merge_chain\":%" PRId64 "}\n", p->sum_block,
            p->merge_chain);
    fflush(to_judge);
}

/* ---- a case ------------------------------------------------------------------------------------------- */

static const struct {
    uint8_t code, bits;
} dlpack[N_ELEMENTS] = {
    [EL_F64] = {2, 64},  [EL_I64] = {0, 64}, [EL_F32] = {2, 32},  [EL_I32] = {0, 32}, [EL_F16] = {2, 16},
    [EL_BF16] = {4, 16}, [EL_U8] = {1, 8},   [EL_E4M3] = {10, 8}, [EL_E5M2] = {12, 8}};

struct array {
    struct fenced memory;
    int64_t strides[TENSOR_MAX_DIMS];
    struct tensor t;
};

static struct ta_tensor ta_tensor_of(struct array *a, const struct tensor *t)
{
    a->t = *t;
    a->memory = fence(NULL, tensor_bytes(t));
    int64_t stride = 1;
    for (int32_t i = t->n_dims; i-- > 0; stride *= t->shape[i])
        a->strides[i] = stride;
    return (struct ta_tensor){.data = a->memory.data,
                              .device_type = 1,
                              .ndim = t->n_dims,
                              .code = dlpack[t->type].code,
                              .bits = dlpack[t->type].bits,
                              .lanes = 1,
                              .shape = a->t.shape,
                              .strides = a->strides};
}

/* NaN in every element of an output, which says that nobody wrote it. */
static void fill_unwritten(const struct array *a)
{
    static const enum dtype type[N_ELEMENTS] = {
        [EL_F64] = DT_F64, [EL_F32] = DT_F32, [EL_F16] = DT_F16, [EL_BF16] = DT_BF16};
    dtype_fill(type[a->t.type], a->memory.data, tensor_elements(&a->t), nan_of(NAN_UNWRITTEN));
}

struct request {
    int64_t number, heads, kv_heads, head_dim, head_dim_v, page_size;
    double scale, soft_cap;
    const char *in, *out, *point;
    bool lse_by_head;
};

/* What a request says, as a plug-in is given it: inputs, and behind them O and LSE. */
struct job {
    const struct ta_plugin *plugin;
    const struct request *r;
    struct tensors in, out;
    int32_t n;
    struct array array[TENSORS_MAX + 2];
    struct ta_tensor given[TENSORS_MAX + 2];
};

static const struct ta_tensor *input(const struct job *j, const char *name)
{
    for (int32_t i = 0; i < j->n; i++)
        if (strcmp(j->in.at[i].name, name) == 0)
            return &j->given[i];
    return NULL;
}

static const int32_t *numbers(const struct job *j, const char *name)
{
    const struct ta_tensor *t = input(j, name);
    return t && t->code == 0 && t->bits == 32 ? t->data : NULL;
}

static void add_output(struct job *j, const char *name, enum element type, int32_t n_dims,
                       const int64_t *shape)
{
    int32_t i = j->n + j->out.n;
    struct tensor *t = tensors_add(&j->out, name, type, NULL, false, n_dims, shape);
    j->given[i] = ta_tensor_of(&j->array[i], t);
    fill_unwritten(&j->array[i]);
    t->data = j->given[i].data;
}

/* O and LSE for n rows of queries, like an input of that type. */
static void add_outputs(struct job *j, int64_t n, enum element type)
{
    int64_t h = j->r->heads, by_head[] = {h, n}, by_query[] = {n, h};
    add_output(j, "o", type, 3, (int64_t[]){n, h, j->r->head_dim_v});
    add_output(j, "lse", type == EL_F64 ? EL_F64 : EL_F32, 2, j->r->lse_by_head ? by_head : by_query);
}

/* Room for shape and strides of K or V that are parts of an array. */
struct part {
    int64_t shape[TA_MAX_DIMS], strides[TA_MAX_DIMS];
};

/* The first elements of K's rows, which are V where it has no tensor. */
static struct ta_tensor v_in_k(const struct job *j, const struct ta_tensor *k, struct part *x)
{
    struct ta_tensor t = *k;
    memmove(x->shape, k->shape, (size_t)k->ndim * sizeof *x->shape);
    memmove(x->strides, k->strides, (size_t)k->ndim * sizeof *x->strides);
    x->shape[k->ndim - 1] = j->r->head_dim_v;
    t.shape = x->shape;
    t.strides = x->strides;
    return t;
}

/* K (0) or V (1), which may lie together in "kv". */
static struct ta_tensor kv_of(const struct job *j, int which, struct part *x)
{
    const struct ta_tensor *own = input(j, which ? "v" : "k"), *kv = input(j, "kv"),
                           *strides = input(j, "kv_strides"), *shape = input(j, "kv_shape");
    if (own)
        return *own;
    if (!kv)
        return v_in_k(j, input(j, "k"), x);
    struct ta_tensor t = *kv;
    int64_t offset = strides ? ((int64_t *)strides->data)[5 * which] : which * kv->strides[1];
    for (int i = 0; i < TA_MAX_DIMS; i++) {
        x->shape[i] = strides ? ((int64_t *)shape->data)[i] : kv->shape[i ? i + 1 : 0];
        x->strides[i] = strides ? ((int64_t *)strides->data)[5 * which + 1 + i] : kv->strides[i ? i + 1 : 0];
    }
    t.data = (char *)t.data + offset * (t.bits / 8);
    t.ndim = TA_MAX_DIMS;
    t.shape = x->shape;
    t.strides = x->strides;
    return which ? v_in_k(j, &t, x) : t;
}

static int run_attention(struct job *j, char why[TA_WHY])
{
    struct ta_tensor index[TENSORS_MAX];
    const char *name[TENSORS_MAX];
    struct part parts[2];
    const struct ta_tensor *q = input(j, "q"), k = kv_of(j, 0, &parts[0]), v = kv_of(j, 1, &parts[1]);
    struct ta_case c = {.size = sizeof c,
                        .n_queries = (int32_t)q->shape[0],
                        .n_heads = (int32_t)j->r->heads,
                        .n_kv_heads = (int32_t)j->r->kv_heads,
                        .head_dim = (int32_t)j->r->head_dim,
                        .page_size = (int32_t)j->r->page_size,
                        .scale = j->r->scale,
                        .soft_cap = j->r->soft_cap,
                        .head_dim_v = (int32_t)j->r->head_dim_v,
                        .q = *q,
                        .k = k,
                        .v = v,
                        .o = j->given[j->n],
                        .lse = j->given[j->n + 1],
                        .index = index,
                        .index_name = name};
    for (int32_t i = 0; i < j->n; i++) {
        const struct ta_tensor *t = &j->given[i];
        if (t == q || t == input(j, "k") || t == input(j, "v"))
            continue;
        name[c.n_index] = j->in.at[i].name;
        index[c.n_index++] = *t;
    }
    asked_for = 0;
    counting = true;
    int status = j->plugin->run(&c, why);
    counting = false;
    return status;
}

/* Rows of queries from `first` on, n of them; by head they are apart. */
static struct ta_tensor rows_of(const struct ta_tensor *t, int32_t dim, int64_t first,
                                int64_t shape[TA_MAX_DIMS])
{
    struct ta_tensor x = *t;
    x.data = (char *)t->data + first * t->strides[dim] * (t->bits / 8);
    x.shape = shape;
    return x;
}

/* A group of queries and tokens at a time. */
static int run_partial(struct job *j, char why[TA_WHY])
{
    const struct ta_tensor *q = input(j, "q"), *groups = input(j, "qo_indptr"), *o = &j->given[j->n],
                           *lse = &j->given[j->n + 1];
    const int32_t *qo = numbers(j, "qo_indptr"), *kv = numbers(j, "kv_indptr"),
                  *token = numbers(j, "kv_indices"), *at = numbers(j, "mask_indptr");
    const struct ta_tensor *k_scale = input(j, "k_scale"), *v_scale = input(j, "v_scale");
    const uint8_t *mask = input(j, "mask")->data;
    struct part part;
    int status = TA_OK;
    for (int64_t g = 0; g + 1 < groups->shape[0] && status == TA_OK; g++) {
        int32_t n = qo[g + 1] - qo[g], tokens = kv[g + 1] - kv[g];
        uint8_t *sees = at[g] == at[g + 1] ? NULL : xcalloc((size_t)n * (size_t)tokens, 1);
        for (int64_t i = 0; sees && i < (int64_t)n * tokens; i++)
            sees[i] = mask[at[g] + i / 8] >> (i % 8) & 1;
        bool by_head = j->r->lse_by_head;
        int64_t rows[TA_MAX_DIMS] = {n, j->r->heads, j->r->head_dim},
                o_rows[TA_MAX_DIMS] = {n, j->r->heads, j->r->head_dim_v},
                lse_rows[TA_MAX_DIMS] = {n, j->r->heads};
        if (by_head) {
            lse_rows[0] = j->r->heads;
            lse_rows[1] = n;
        }
        struct ta_partial c = {.size = sizeof c,
                               .n_queries = n,
                               .n_heads = (int32_t)j->r->heads,
                               .n_kv_heads = (int32_t)j->r->kv_heads,
                               .head_dim = (int32_t)j->r->head_dim,
                               .n_tokens = tokens,
                               .scale = j->r->scale,
                               .soft_cap = j->r->soft_cap,
                               .q = rows_of(q, 0, qo[g], rows),
                               .k = *input(j, "k"),
                               .v = kv_of(j, 1, &part),
                               .head_dim_v = (int32_t)j->r->head_dim_v,
                               .o = rows_of(o, 0, qo[g], o_rows),
                               .lse = rows_of(lse, by_head, qo[g], lse_rows),
                               .k_scale = k_scale ? k_scale->data : NULL,
                               .v_scale = v_scale ? v_scale->data : NULL,
                               .token = token + kv[g],
                               .sees = sees};
        status = j->plugin->partial(&c, why);
        free(sees);
    }
    return status;
}

static int run_merge(struct job *j, char why[TA_WHY])
{
    const struct ta_tensor *o = input(j, "o_in");
    struct ta_merge c = {.size = sizeof c,
                         .n_inputs = (int32_t)o->shape[0],
                         .n_queries = (int32_t)o->shape[1],
                         .n_heads = (int32_t)j->r->heads,
                         .head_dim = (int32_t)j->r->head_dim,
                         .o_in = *o,
                         .lse_in = *input(j, "lse_in"),
                         .o = j->given[j->n],
                         .lse = j->given[j->n + 1]};
    return j->plugin->merge(&c, why);
}

/* ---- who touches what it may not ------------------------------------------------------------------------ */

static const struct job *running; /* NULL: none is */

static void say(int fd, const char *text)
{
    if (write(fd, text, strlen(text)) < 0)
        _exit(EXIT_FAILED);
}

/* Is that where the page would lie whose number unused entries of block tables have? What is beyond all addresses comes without
 * one. */
static bool is_poison_page(const struct ta_tensor *t, const siginfo_t *info)
{
    if (t->ndim != 4)
        return false;
    intptr_t page = (intptr_t)t->strides[0] * (t->bits / 8), from = (intptr_t)t->data + page * PAGE_POISON,
             off = (intptr_t)info->si_addr - from;
    bool beyond = info->si_code == SI_KERNEL && from >> 47 != 0;
    return beyond || (off >= 0 && off < page);
}

/* A signal handler: what is sealed was written to, or a page around an array was touched. The first is the judge's to hear, the
 * other is said on standard error, and the signal does what it does. */
static void on_fault(int sig, siginfo_t *info, void *context)
{
    char number[24], *digit = number + sizeof number;
    int side = 0;
    (void)context;
    for (int32_t i = 0; running && i < running->n + running->out.n; i++) {
        const struct tensors *of = i < running->n ? &running->in : &running->out;
        const char *name = of->at[i < running->n ? i : i - running->n].name;
        if (!fence_has(&running->array[i].memory, info->si_addr, &side))
            continue;
        if (side == 0 && i < running->n) {
            *--digit = 0;
            for (int64_t n = running->r->number; n > 0; n /= 10)
                *--digit = (char)('0' + n % 10);
            say(4, "{\"wrote_input\":");
            say(4, digit);
            say(4, ",\"why\":\"wrote to ");
            say(4, name);
            say(4, "\"}\n");
            _exit(EXIT_FAILED);
        }
        say(2, side < 0 ? "touched what lies before " : "touched what lies behind ");
        say(2, name);
        say(2, "\n");
    }
    for (int32_t i = 0; running && i < running->n; i++)
        if (is_poison_page(&running->given[i], info)) {
            say(2, "took a page number from an entry that is no page's: padding, or behind the end\n");
            break;
        }
    signal(sig, SIG_DFL);
    raise(sig);
}

/* Until `running` is NULL again. Stacks that overflow have a stack of their own to say so. */
static void watch(const struct job *j)
{
    static char stack[1 << 16];
    const stack_t other = {.ss_sp = stack, .ss_size = sizeof stack};
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};
    for (int32_t i = 0; i < j->n; i++)
        fence_seal(&j->array[i].memory);
    running = j;
    sigaltstack(&other, NULL);
    sigaction(SIGSEGV, &action, NULL);
    sigaction(SIGBUS, &action, NULL);
}

/* What there is to say of a run, besides "done": the key of the line, and the sentence in text. NULL: nothing. */
static const char *complaint(const struct job *j, int status, const char *why, char *text, size_t size)
{
    const char *touched = NULL, *wrote = NULL;
    for (int32_t i = 0; i < j->n; i++) {
        touched = fence_holds(&j->array[i].memory) ? touched : j->in.at[i].name;
        if (!j->in.mapped && memcmp(j->array[i].memory.data, j->in.at[i].data, j->array[i].memory.size) != 0)
            wrote = j->in.at[i].name;
    }
    for (int32_t i = 0; i < j->out.n; i++)
        touched = fence_holds(&j->array[j->n + i].memory) ? touched : j->out.at[i].name;
    if (touched || wrote) {
        snprintf(text, size, "wrote %s %s", touched ? "outside of" : "to", touched ? touched : wrote);
        return touched ? "wrote_outside" : "wrote_input";
    }
    static const char *const key[] = {
        [TA_UNSUPPORTED] = "unsupported", [TA_NO_MEMORY] = "memory", [TA_DEVICE_FAULT] = "device_fault"};
    bool known = status == TA_UNSUPPORTED || status == TA_NO_MEMORY || status == TA_DEVICE_FAULT;
    snprintf(text, size, "%s%s", known || status == TA_ERROR ? "" : "(a status of its own) ", why);
    return status == TA_OK ? NULL : known ? key[status] : "error";
}

static void run_case(const struct ta_plugin *p, const struct request *r)
{
    static const struct {
        const char *name, *like; /* an input with as many rows, */
        int32_t rows;            /* in this dimension */
        int (*run)(struct job *j, char why[TA_WHY]);
    } points[] = {{"attention", "q", 0, run_attention},
                  {"partial", "q", 0, run_partial},
                  {"merge", "o_in", 1, run_merge}};
    struct job j = {.plugin = p, .r = r};
    struct err e = {0};
    int at = 0;
    while (at < 3 && strcmp(points[at].name, r->point) != 0)
        at++;
    if (at == 3 || !tensors_map(r->in, &j.in, &e)) {
        answer_print(to_judge, "error", r->number, at == 3 ? "not a point of this plug-in" : e.msg, -1);
        return;
    }
    bool copied = true;
    for (; j.n < j.in.n; j.n++) {
        j.given[j.n] = ta_tensor_of(&j.array[j.n], &j.in.at[j.n]);
        copied = copied && tensors_copy(&j.in, j.n, j.array[j.n].memory.data);
    }
    CK(copied);
    struct tensor *like = tensors_find(&j.in, points[at].like);
    add_outputs(&j, like->shape[points[at].rows], like->type);

    char why[TA_WHY] = "", text[TA_WHY + 80];
    watch(&j);
    int status = points[at].run(&j, why);
    running = NULL;
    why[TA_WHY - 1] = 0;
    const char *key = complaint(&j, status, why, text, sizeof text);
    if (key)
        answer_print(to_judge, key, r->number, text, -1);
    else if (!tensors_write(r->out, &j.out, &e))
        answer_print(to_judge, "error", r->number, e.msg, -1);
    else
        answer_print(to_judge, "done", r->number, NULL, counts && at == 0 ? asked_for : -1);
    for (int32_t i = 0; i < j.n + j.out.n; i++)
        fence_free(&j.array[i].memory);
    tensors_free(&j.in);
}

static bool read_request(const json_t *o, struct request *r)
{
    *r = (struct request){.number = json_integer_value(json_object_get(o, "run")),
                          .heads = json_integer_value(json_object_get(o, "heads")),
                          .kv_heads = json_integer_value(json_object_get(o, "kv_heads")),
                          .head_dim = json_integer_value(json_object_get(o, "head_dim")),
                          .head_dim_v = json_integer_value(json_object_get(o, "head_dim_v")),
                          .page_size = json_integer_value(json_object_get(o, "page_size")),
                          .scale = json_number_value(json_object_get(o, "scale")),
                          .soft_cap = json_number_value(json_object_get(o, "soft_cap")),
                          .in = json_string_value(json_object_get(o, "in")),
                          .out = json_string_value(json_object_get(o, "out")),
                          .point = json_string_value(json_object_get(o, "point"))};
    if (r->head_dim_v == 0)
        r->head_dim_v = r->head_dim;
    return r->number > 0 && r->in && r->out && r->point;
}

int main(int argc, char **argv)
{
    FILE *from_judge = fdopen(3, "r");
    to_judge = fdopen(4, "w");
    if (!from_judge || !to_judge || argc != 2) {
        fputs("usage: treeattn verify --plugin OBJECT.so (treeattn-host speaks with it on descriptors 3 and "
              "4)\n",
              stderr);
        return EXIT_BAD_INPUT;
    }
    char *line = NULL, why[600];
    size_t size = 0;
    struct ta_plugin plugin, *p = NULL;
    while (getline(&line, &size, from_judge) > 0) {
        json_t *o = json_loads(line, 0, NULL);
        struct request r;
        if (json_object_get(o, "hello") && !p) {
            if (!load(argv[1], &plugin, why, sizeof why))
                return refuse(why);
            p = &plugin;
            say_hello(p);
        } else if (json_object_get(o, "run") && p && read_request(o, &r)) {
            r.lse_by_head = p->lse_order && strcmp(p->lse_order, "hq") == 0;
            run_case(p, &r);
        } else if (json_object_get(o, "bye")) {
            break;
        }
        json_decref(o);
    }
    free(line);
    return EXIT_GOOD;
}
