/*
 * host.c - the program `treeattn-host`: a child (child.h) that runs a plug-in (treeattn_plugin.h).
 *
 *     treeattn-host ./mine.so
 *
 * It has no oracle and no judge in it: what it is made of besides this file is ref/base.c, ref/json_text.c and tensors.c.
 * Inputs and outputs of the plug-in lie between pages that nobody may touch, so that what runs beyond an array ends there.
 */
#include "ref/json_text.h"
#include "verify/child/tensors.h"
#include "verify/child/treeattn_plugin.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static FILE *to_judge;

/* {"key":number,"why":sentence} */
static void answer(const char *key, int64_t number, const char *why)
{
    fprintf(to_judge, "{\"%s\":%" PRId64, key, number);
    if (why) {
        fputs(",\"why\":", to_judge);
        print_json_text(to_judge, why);
    }
    fputs("}\n", to_judge);
    fflush(to_judge);
}

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

/* Of ABI 1: all of it, since there is no older one. */
static const struct ta_plugin *load(const char *path, char *why, size_t size)
{
    const char *slash = strchr(path, '/'); /* dlopen looks elsewhere for a name without one */
    char *name = slash ? xstrdup(path) : xasprintf("./%s", path);
    void *object = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    free(name);
    if (!object) {
        snprintf(why, size, "%s", dlerror());
        return NULL;
    }
    union {
        void *symbol;
        const struct ta_plugin *(*get)(uint32_t);
    } f = {.symbol = dlsym(object, "treeattn_plugin")};
    if (!f.symbol) {
        snprintf(why, size, "%s: no symbol treeattn_plugin (expected the function of treeattn_plugin.h)",
                 path);
        return NULL;
    }
    const struct ta_plugin *p = f.get(TA_ABI);
    const char *wrong = !p                                ? "it does not know this ABI"
                        : p->size < sizeof *p             ? "its struct ta_plugin is too small"
                        : p->abi < 1 || p->abi > TA_ABI   ? "it is of another ABI"
                        : !p->name || !p->view || !p->run ? "name, view and run must be there"
                                                          : NULL;
    if (wrong)
        snprintf(why, size, "%s: %s (expected ABI %d, %zu bytes; it has ABI %" PRIu32 ", %" PRIu32 " bytes)",
                 path, wrong, TA_ABI, sizeof *p, p ? p->abi : 0, p ? p->size : 0);
    return wrong ? NULL : p;
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

static void say_hello(const struct ta_plugin *p)
{
    fputs("{\"hello\":1", to_judge);
    say_text("name", p->name);
    say_text("version", p->version);
    say_text("view", p->view);
    say_text("layout", p->layout);
    if (p->dtypes) {
        char *words = xstrdup(p->dtypes), *rest = words;
        const char *between = ",\"dtypes\":[";
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
    fprintf(to_judge, ",\"sum_block\":%" PRId64 ",\"merge_chain\":%" PRId64 "}\n", p->sum_block,
            p->merge_chain);
    fflush(to_judge);
}

/* ---- memory with forbidden pages around it ------------------------------------------------------------ */

/* An array at a multiple of 64 bytes, between pages that nobody may touch. What is left before and behind it is filled with
 * CANARY: behind it less than 64 bytes. */
struct fenced {
    char *map, *data;
    size_t map_size, size;
};
enum { CANARY = 0xa5, ALIGNMENT = 64 };

static struct fenced fence(const void *from, int64_t n_bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), size = (size_t)n_bytes,
           rounded = (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT,
           body = (rounded + page - 1) / page * page;
    struct fenced f = {.map_size = body + 2 * page, .size = size};
    f.map = mmap(NULL, f.map_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CK(f.map != MAP_FAILED);
    mprotect(f.map, page, PROT_NONE);
    mprotect(f.map + page + body, page, PROT_NONE);
    f.data = f.map + page + body - rounded;
    memset(f.map + page, CANARY, body - rounded);
    memset(f.data + size, CANARY, rounded - size);
    if (from)
        memcpy(f.data, from, size);
    return f;
}

static bool fence_holds(const struct fenced *f)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    bool whole = true;
    for (const char *c = f->map + page; c < f->data; c++)
        whole = whole && (unsigned char)*c == CANARY;
    for (const char *c = f->data + f->size; c < f->map + f->map_size - page; c++)
        whole = whole && (unsigned char)*c == CANARY;
    return whole;
}

static void fence_free(const struct fenced *f)
{
    munmap(f->map, f->map_size);
}

/* ---- a case ------------------------------------------------------------------------------------------- */

static const struct {
    uint8_t code, bits;
} dlpack[N_ELEMENTS] = {[EL_F64] = {2, 64}, [EL_I64] = {0, 64},  [EL_F32] = {2, 32}, [EL_I32] = {0, 32},
                        [EL_F16] = {2, 16}, [EL_BF16] = {4, 16}, [EL_U8] = {1, 8}};

struct array {
    struct fenced memory;
    int64_t strides[TA_MAX_DIMS];
    struct tensor t;
};

static struct ta_tensor ta_tensor_of(struct array *a, const struct tensor *t, bool copied)
{
    a->t = *t;
    a->memory = fence(copied ? t->data : NULL, tensor_bytes(t));
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

/* NaN in every element, with bits of its own that the judge knows (ref/problem.h). */
static void fill_unwritten(const struct array *a)
{
    for (int64_t i = 0; i < tensor_elements(&a->t); i++)
        switch (a->t.type) {
        case EL_F64:
            ((uint64_t *)a->memory.data)[i] = UINT64_C(0x7ff8000000000000);
            break;
        case EL_F32:
            ((uint32_t *)a->memory.data)[i] = 0x7fc00000;
            break;
        case EL_F16:
            ((uint16_t *)a->memory.data)[i] = 0x7e00;
            break;
        default:
            ((uint16_t *)a->memory.data)[i] = 0x7fc0;
        }
}

struct request {
    int64_t number, heads, kv_heads, head_dim, page_size;
    double scale;
    const char *in, *out;
    bool lse_by_head;
};

static void run_case(const struct ta_plugin *p, const struct request *r)
{
    struct tensors in;
    struct err e = {0};
    if (!tensors_read(r->in, INT64_MAX / 2, &in, &e)) {
        answer("error", r->number, e.msg);
        return;
    }
    struct array array[TENSORS_MAX + 2];
    struct ta_tensor index[TENSORS_MAX];
    const char *name[TENSORS_MAX];
    struct ta_case c = {.size = sizeof c,
                        .n_heads = (int32_t)r->heads,
                        .n_kv_heads = (int32_t)r->kv_heads,
                        .head_dim = (int32_t)r->head_dim,
                        .page_size = (int32_t)r->page_size,
                        .scale = r->scale,
                        .index = index,
                        .index_name = name};
    int32_t n = 0;
    enum element type = EL_F32;
    for (; n < in.n; n++) {
        struct tensor *t = &in.at[n];
        struct ta_tensor x = ta_tensor_of(&array[n], t, true);
        if (strcmp(t->name, "q") == 0) {
            c.q = x;
            c.n_queries = (int32_t)t->shape[0];
            type = t->type;
        } else if (strcmp(t->name, "k") == 0) {
            c.k = x;
        } else if (strcmp(t->name, "v") == 0) {
            c.v = x;
        } else {
            name[c.n_index] = t->name;
            index[c.n_index++] = x;
        }
    }
    struct tensors out = {0};
    int64_t n_q = c.n_queries, rows[2] = {r->lse_by_head ? r->heads : n_q, r->lse_by_head ? n_q : r->heads};
    struct tensor *o = tensors_add(&out, "o", type, NULL, false, 3, (int64_t[]){n_q, r->heads, r->head_dim}),
                  *lse = tensors_add(&out, "lse", type == EL_F64 ? EL_F64 : EL_F32, NULL, false, 2, rows);
    c.o = ta_tensor_of(&array[n], o, false);
    c.lse = ta_tensor_of(&array[n + 1], lse, false);
    fill_unwritten(&array[n]);
    fill_unwritten(&array[n + 1]);
    o->data = c.o.data;
    lse->data = c.lse.data;

    char why[TA_WHY] = "";
    int status = p->run(&c, why);
    why[TA_WHY - 1] = 0;
    const char *touched = NULL, *wrote = NULL;
    for (int32_t i = 0; i < n; i++) {
        touched = fence_holds(&array[i].memory) ? touched : in.at[i].name;
        if (memcmp(array[i].memory.data, in.at[i].data, array[i].memory.size) != 0)
            wrote = in.at[i].name;
    }
    touched = !fence_holds(&array[n].memory) ? "o" : !fence_holds(&array[n + 1].memory) ? "lse" : touched;
    char text[TA_WHY + 80];
    if (touched) {
        snprintf(text, sizeof text, "wrote outside of %s", touched);
        answer("wrote_outside", r->number, text);
    } else if (wrote) {
        snprintf(text, sizeof text, "wrote to %s", wrote);
        answer("wrote_input", r->number, text);
    } else if (status != TA_OK) {
        static const char *const key[] = {
            [TA_UNSUPPORTED] = "unsupported", [TA_NO_MEMORY] = "memory", [TA_DEVICE_FAULT] = "device_fault"};
        bool known = status == TA_UNSUPPORTED || status == TA_NO_MEMORY || status == TA_DEVICE_FAULT;
        snprintf(text, sizeof text, "%s%s", known || status == TA_ERROR ? "" : "(a status of its own) ", why);
        answer(known ? key[status] : "error", r->number, text);
    } else if (!tensors_write(r->out, &out, &e)) {
        answer("error", r->number, e.msg);
    } else {
        answer("done", r->number, NULL);
    }
    for (int32_t i = 0; i < n + 2; i++)
        fence_free(&array[i].memory);
    tensors_free(&in);
}

static bool read_request(const json_t *o, struct request *r)
{
    *r = (struct request){.number = json_integer_value(json_object_get(o, "run")),
                          .heads = json_integer_value(json_object_get(o, "heads")),
                          .kv_heads = json_integer_value(json_object_get(o, "kv_heads")),
                          .head_dim = json_integer_value(json_object_get(o, "head_dim")),
                          .page_size = json_integer_value(json_object_get(o, "page_size")),
                          .scale = json_number_value(json_object_get(o, "scale")),
                          .in = json_string_value(json_object_get(o, "in")),
                          .out = json_string_value(json_object_get(o, "out"))};
    return r->number > 0 && r->in && r->out;
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
    const struct ta_plugin *p = NULL;
    while (getline(&line, &size, from_judge) > 0) {
        json_t *o = json_loads(line, 0, NULL);
        struct request r;
        if (json_object_get(o, "hello") && !p) {
            p = load(argv[1], why, sizeof why);
            if (!p)
                return refuse(why);
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
