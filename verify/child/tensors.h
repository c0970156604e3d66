/*
 * tensors.h - named tensors in a file: the safetensors format (huggingface.co/docs/safetensors), which many languages read
 * with ten lines: 8 bytes length of a header, little-endian; a JSON object, name -> dtype, shape, data_offsets; the data.
 *
 * This file and tensors.c need nothing but libc, POSIX and jansson. treeattn-host, which has no oracle, is made of them.
 */
#ifndef TREEATTN_VERIFY_CHILD_TENSORS_H
#define TREEATTN_VERIFY_CHILD_TENSORS_H

#include "ref/base.h"

BEGIN_C

/* In the order in which a file has them: the largest elements first, so that each tensor is aligned to its elements. */
enum element { EL_F64, EL_I64, EL_F32, EL_I32, EL_F16, EL_BF16, EL_U8, EL_E4M3, EL_E5M2, N_ELEMENTS };
extern const char *const element_name[N_ELEMENTS]; /* as safetensors spells them: "F64" .. */
extern const int32_t element_size[N_ELEMENTS];     /* bytes */

enum { TENSOR_MAX_DIMS = 5, TENSORS_MAX = 32 };
struct tensor {
    const char *name;
    enum element type;
    int32_t n_dims;
    int64_t shape[TENSOR_MAX_DIMS];
    void *data; /* dense, the last dimension fastest */
};
int64_t tensor_elements(const struct tensor *t);
int64_t tensor_bytes(const struct tensor *t);
/* Element i of one of F32 or F64, which need not be aligned. */
double tensor_float(const struct tensor *t, int64_t i);
/* "3 x 8 x 64" */
enum { TENSOR_SHAPE_TEXT = 96 };
const char *tensor_shape_text(const struct tensor *t, char text[TENSOR_SHAPE_TEXT]);

struct tensors {
    int32_t n;
    struct tensor at[TENSORS_MAX];
    bool owned[TENSORS_MAX]; /* data is freed by tensors_free */
    /* Of tensors that are nearly all 0: the bytes from, to of what is not, in order. A file has holes elsewhere. */
    bool sparse[TENSORS_MAX];
    int64_t (*part)[2], n_parts; /* of all of them; freed by tensors_free */
    /* of tensors_read and tensors_map */
    char *file;
    int64_t file_size;
    int fd; /* of tensors_map where the file was mapped, which `mapped` says */
    bool mapped;
    char *names;
};
/* Appends a tensor; `owned` hands its data over. */
struct tensor *tensors_add(struct tensors *t, const char *name, enum element type, void *data, bool owned,
                           int32_t n_dims, const int64_t *shape);
/* By name; NULL: there is none. */
struct tensor *tensors_find(struct tensors *t, const char *name);
void tensors_free(struct tensors *t);

/* Writes a new file, which must not exist. False with *e set; then no file is left. */
bool tensors_write(const char *path, const struct tensors *t, struct err *e);
/* Is that file what tensors_write wrote? What is in its holes is not looked at. */
bool tensors_are_in(const char *path, const struct tensors *t);
/* Reads a file of somebody who is trusted: one of 1 GiB and more is mapped, so that its holes take no memory. */
bool tensors_map(const char *path, struct tensors *t, struct err *e);
/* The bytes of tensor i, which tensors_map read, to `to`, which has 0 everywhere. */
bool tensors_copy(const struct tensors *t, int32_t i, char *to);
/* Reads a regular file that is not a link, of at most `most` bytes of data. A stranger may have written it and may still
 * do, so that it is copied, and nothing in it is trusted. False with *e set. Free with tensors_free. */
bool tensors_read(const char *path, int64_t most, struct tensors *t, struct err *e);
/* The same of a file that the caller has opened, and may have reached by a link; it is closed. fd < 0: errno says why not. */
bool tensors_read_open(int fd, const char *path, int64_t most, struct tensors *t, struct err *e);

END_C

#endif
