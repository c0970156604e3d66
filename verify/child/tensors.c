#include "verify/child/tensors.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

const char *const element_name[N_ELEMENTS] = {"F64",  "I64", "F32",     "I32",    "F16",
                                              "BF16", "U8",  "F8_E4M3", "F8_E5M2"};
const int32_t element_size[N_ELEMENTS] = {8, 8, 4, 4, 2, 2, 1, 1, 1};

enum { MAX_HEADER = 1 << 16, LENGTH_BYTES = 8, MAPPED_FROM = 1 << 30 };

int64_t tensor_elements(const struct tensor *t)
{
    int64_t n = 1;
    for (int32_t i = 0; i < t->n_dims; i++)
        n *= t->shape[i];
    return n;
}

int64_t tensor_bytes(const struct tensor *t)
{
    return tensor_elements(t) * element_size[t->type];
}

double tensor_float(const struct tensor *t, int64_t i)
{
    double x;
    float narrow;
    if (t->type == EL_F64) {
        memcpy(&x, (char *)t->data + i * 8, sizeof x);
        return x;
    }
    memcpy(&narrow, (char *)t->data + i * 4, sizeof narrow);
    return (double)narrow;
}

const char *tensor_shape_text(const struct tensor *t, char text[TENSOR_SHAPE_TEXT])
{
    int n = 0;
    text[0] = 0;
    for (int32_t i = 0; i < t->n_dims; i++)
        n += snprintf(text + n, (size_t)(TENSOR_SHAPE_TEXT - n), "%s%" PRId64, i ? " x " : "", t->shape[i]);
    return text;
}

struct tensor *tensors_add(struct tensors *t, const char *name, enum element type, void *data, bool owned,
                           int32_t n_dims, const int64_t *shape)
{
    CK(t->n < TENSORS_MAX && n_dims <= TENSOR_MAX_DIMS);
    struct tensor *x = &t->at[t->n];
    *x = (struct tensor){.name = name, .type = type, .n_dims = n_dims, .data = data};
    memcpy(x->shape, shape, (size_t)n_dims * sizeof *shape);
    t->owned[t->n++] = owned;
    return x;
}

struct tensor *tensors_find(struct tensors *t, const char *name)
{
    for (int32_t i = 0; i < t->n; i++)
        if (strcmp(t->at[i].name, name) == 0)
            return &t->at[i];
    return NULL;
}

void tensors_free(struct tensors *t)
{
    for (int32_t i = 0; i < t->n; i++)
        if (t->owned[i])
            free(t->at[i].data);
    if (t->mapped) {
        munmap(t->file, (size_t)t->file_size);
        close(t->fd);
    } else {
        free(t->file);
    }
    free(t->part);
    free(t->names);
    *t = (struct tensors){0};
}

/* ---- writing ------------------------------------------------------------------------------------------ */

/* The header, padded with blanks so that the data begins at a multiple of 64; the caller frees. */
static char *header_of(const struct tensors *t, size_t *size)
{
    char *text = NULL;
    FILE *f = open_memstream(&text, size);
    CK(f);
    const char *between = "{";
    int64_t at = 0;
    for (int type = 0; type < N_ELEMENTS; type++)
        for (int32_t i = 0; i < t->n; i++) {
            const struct tensor *x = &t->at[i];
            if ((int)x->type != type)
                continue;
            fprintf(f, "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[", between, x->name, element_name[type]);
            for (int32_t k = 0; k < x->n_dims; k++)
                fprintf(f, "%s%" PRId64, k ? "," : "", x->shape[k]);
            fprintf(f, "],\"data_offsets\":[%" PRId64 ",%" PRId64 "]}", at, at + tensor_bytes(x));
            at += tensor_bytes(x);
            between = ",";
        }
    fputs(t->n ? "}" : "{}", f);
    fflush(f);
    while ((LENGTH_BYTES + *size) % 64 != 0) {
        fputc(' ', f);
        fflush(f);
    }
    fclose(f);
    return text;
}

static bool write_at(int fd, const void *data, size_t n, int64_t at)
{
    for (const char *p = data; n > 0;) {
        ssize_t done = pwrite(fd, p, n, at);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return false;
        p += done;
        at += done;
        n -= (size_t)done;
    }
    return true;
}

static bool same_at(int fd, const void *data, size_t n, int64_t at)
{
    static _Thread_local char there[1 << 16];
    for (const char *p = data; n > 0;) {
        ssize_t got = pread(fd, there, n < sizeof there ? n : sizeof there, at);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0 || memcmp(p, there, (size_t)got) != 0)
            return false;
        p += got;
        at += got;
        n -= (size_t)got;
    }
    return true;
}

/* The parts of tensor i that a file has, one after the other: part k. False: there are no more. */
static bool part_of(const struct tensors *t, int32_t i, int64_t k, int64_t *from, int64_t *to)
{
    *from = t->sparse[i] && k < t->n_parts ? t->part[k][0] : 0;
    *to = t->sparse[i] && k < t->n_parts ? t->part[k][1] : tensor_bytes(&t->at[i]);
    return t->sparse[i] ? k < t->n_parts : k == 0;
}

/* What `each` does with every part of a file, and where: false as soon as it is. *end: the size of the file. */
static bool all_parts(const struct tensors *t, int fd,
                      bool (*each)(int fd, const void *data, size_t n, int64_t at), int64_t *end)
{
    size_t size;
    char *header = header_of(t, &size);
    uint64_t length = size; /* the machine is little-endian, as all that treeattn runs on are */
    bool good = each(fd, &length, sizeof length, 0) && each(fd, header, size, LENGTH_BYTES);
    int64_t at = LENGTH_BYTES + (int64_t)size, from, to;
    for (int type = 0; type < N_ELEMENTS; type++)
        for (int32_t i = 0; i < t->n; i++) {
            if ((int)t->at[i].type != type)
                continue;
            for (int64_t k = 0; good && part_of(t, i, k, &from, &to); k++)
                good = each(fd, (const char *)t->at[i].data + from, (size_t)(to - from), at + from);
            at += tensor_bytes(&t->at[i]);
        }
    free(header);
    *end = at;
    return good;
}

bool tensors_write(const char *path, const struct tensors *t, struct err *e)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return err_set(e, "%s: %s", path, strerror(errno));
    int64_t end;
    bool good = all_parts(t, fd, write_at, &end) && ftruncate(fd, end) == 0;
    if (!good)
        err_missing(e, "%s: %s", path, strerror(errno));
    close(fd);
    if (!good)
        unlink(path);
    return good;
}

bool tensors_are_in(const char *path, const struct tensors *t)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    int64_t end = 0;
    bool same = fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && all_parts(t, fd, same_at, &end) &&
                st.st_size == end;
    if (fd >= 0)
        close(fd);
    return same;
}

/* ---- reading: a stranger wrote it --------------------------------------------------------------------- */

/* One entry of the header into *x, but for its name. */
static bool read_entry(const json_t *entry, char *data, int64_t n_bytes, struct tensor *x)
{
    const char *dtype = json_string_value(json_object_get(entry, "dtype"));
    const json_t *shape = json_object_get(entry, "shape"), *offsets = json_object_get(entry, "data_offsets");
    if (!dtype || !json_is_array(shape) || json_array_size(shape) > TENSOR_MAX_DIMS ||
        json_array_size(offsets) != 2)
        return false;
    int type = 0;
    while (type < N_ELEMENTS && strcmp(dtype, element_name[type]) != 0)
        type++;
    if (type == N_ELEMENTS)
        return false;
    *x = (struct tensor){.type = (enum element)type, .n_dims = (int32_t)json_array_size(shape)};
    int64_t bytes = element_size[type];
    for (int32_t i = 0; i < x->n_dims; i++) {
        const json_t *v = json_array_get(shape, (size_t)i);
        x->shape[i] = json_integer_value(v);
        if (!json_is_integer(v) || x->shape[i] < 0 || __builtin_mul_overflow(bytes, x->shape[i], &bytes))
            return false;
    }
    const json_t *from = json_array_get(offsets, 0), *to = json_array_get(offsets, 1);
    int64_t begin = json_integer_value(from), end = json_integer_value(to);
    if (!json_is_integer(from) || !json_is_integer(to) || begin < 0 || end < begin || end > n_bytes ||
        end - begin != bytes)
        return false;
    x->data = data + begin;
    return true;
}

static bool read_header(struct tensors *t, const char *path, struct err *e)
{
    uint64_t length;
    if (t->file_size < LENGTH_BYTES)
        return err_set(e, "%s: %" PRId64 " bytes (expected a safetensors file)", path, t->file_size);
    memcpy(&length, t->file, sizeof length);
    if (length > MAX_HEADER || (int64_t)length > t->file_size - LENGTH_BYTES)
        return err_set(e, "%s: a header of %" PRIu64 " bytes (expected at most %d, and within the file)",
                       path, length, MAX_HEADER);
    json_error_t at;
    const char *text = t->file + LENGTH_BYTES;
    json_t *root = json_loadb(text, (size_t)length, JSON_REJECT_DUPLICATES, &at);
    if (!json_is_object(root)) {
        json_decref(root);
        return err_set(e, "%s: the header is no JSON object (%s)", path, root ? "another value" : at.text);
    }
    char *data = t->file + LENGTH_BYTES + length;
    int64_t n_bytes = t->file_size - LENGTH_BYTES - (int64_t)length;
    t->names = xmalloc((size_t)length + 1);
    char *name = t->names; /* names of the header are no longer than it */
    const char *key;
    json_t *entry;
    bool good = true;
    json_object_foreach(root, key, entry)
    {
        if (strcmp(key, "__metadata__") == 0)
            continue;
        if (t->n == TENSORS_MAX) {
            good = err_set(e, "%s: more than %d tensors", path, TENSORS_MAX);
            break;
        }
        if (!read_entry(entry, data, n_bytes, &t->at[t->n])) {
            good = err_set(e,
                           "%s: tensor \"%.40s\" (expected dtype, shape of at most %d dimensions, and "
                           "data_offsets within the file that fit them)",
                           path, key, TENSOR_MAX_DIMS);
            break;
        }
        t->at[t->n++].name = strcpy(name, key);
        name += strlen(key) + 1;
    }
    json_decref(root);
    return good;
}

/* Up to n bytes; how many there were, or -1. */
static int64_t read_all(int fd, char *to, int64_t n)
{
    int64_t got = 0;
    while (got < n) {
        ssize_t now = read(fd, to + got, (size_t)(n - got));
        if (now < 0 && errno != EINTR)
            return -1;
        if (now == 0)
            break;
        got += max_i64(now, 0);
    }
    return got;
}

bool tensors_read_open(int fd, const char *path, int64_t most, struct tensors *t, struct err *e)
{
    *t = (struct tensors){0};
    struct stat st;
    if (fd < 0)
        return err_set(e, "%s: %s", path, strerror(errno));
    most += MAX_HEADER + LENGTH_BYTES;
    bool good = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size <= most;
    if (!good) {
        err_set(e, "%s: no regular file of at most %" PRId64 " bytes", path, most);
    } else {
        t->file = xaligned((size_t)st.st_size, 1);
        t->file_size = read_all(fd, t->file, st.st_size);
        good = t->file_size >= 0 || err_set(e, "%s: %s", path, strerror(errno));
    }
    close(fd);
    if (good && read_header(t, path, e))
        return true;
    tensors_free(t);
    return false;
}

bool tensors_read(const char *path, int64_t most, struct tensors *t, struct err *e)
{
    return tensors_read_open(open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC), path, most, t, e);
}

bool tensors_map(const char *path, struct tensors *t, struct err *e)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    bool large = fd >= 0 && fstat(fd, &st) == 0 && st.st_size >= MAPPED_FROM;
    if (!large) {
        if (fd >= 0)
            close(fd);
        return tensors_read(path, INT64_MAX / 2, t, e);
    }
    *t = (struct tensors){.file_size = st.st_size, .fd = fd, .mapped = true};
    t->file = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE | MAP_NORESERVE, fd, 0);
    if (t->file == MAP_FAILED) {
        err_missing(e, "%s: %s", path, strerror(errno));
        close(fd);
        *t = (struct tensors){0};
        return false;
    }
    if (read_header(t, path, e))
        return true;
    tensors_free(t);
    return false;
}

bool tensors_copy(const struct tensors *t, int32_t i, char *to)
{
    const char *data = t->at[i].data;
    int64_t begin = data - t->file, end = begin + tensor_bytes(&t->at[i]);
    if (!t->mapped) {
        memcpy(to, data, (size_t)(end - begin));
        return true;
    }
    for (off_t from = begin, next; from < end; from = next) {
        from = lseek(t->fd, from, SEEK_DATA);
        if (from < 0 || from >= end) /* a hole to the end */
            return from >= end || errno == ENXIO;
        next = lseek(t->fd, from, SEEK_HOLE);
        if (next < 0)
            return false;
        int64_t n = min_i64(next, end) - from;
        memcpy(to + (from - begin), t->file + from, (size_t)n);
    }
    return true;
}
