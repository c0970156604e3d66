/*
 * coefficient_file.h - files of fitted coefficients: written by `treeattn fit`, read by it and by `treeattn sim`.
 *
 *   machine,model,part,coefficient,value,error
 *   h200,linear,pat,serial,5.36e-06,2.1e-07
 *
 * The machine is a name of machines.def. The model says which coefficients there are. The part is a kernel, a
 * strategy (quoted where it has commas) or `all`. Lines that begin with # are notes: where the rows came
 * from.
 */
#ifndef TREEATTN_VERIFY_MODEL_COEFFICIENT_FILE_H
#define TREEATTN_VERIFY_MODEL_COEFFICIENT_FILE_H

#include "sim/time/time_model.h"
#include "sim/fit/models.h"

#include <stdio.h>

BEGIN_C

void coefs_write_header(FILE *f);
void coefs_write(FILE *f, const char *machine, const char *model, const char *part, const char *coefficient,
                 double value, double error);

struct coef_bound {
    const char *name;
    double least, most;
};

/* The coefficients of one model and part on one machine. */
struct coef_want {
    const char *machine, *model;
    const char *part; /* NULL: the file has only one */
    int32_t n;
    const struct coef_bound *coef; /* [n] */
    bool *given;                   /* [n] set for those that the file names; may be NULL */
};

/*
 * value[n] from the file; a coefficient that it does not name keeps its value. The whole file is checked,
 * lines of other machines and parts too. False with *e set ("file:line: ..."): a machine or coefficient that
 * does not exist, a value out of bounds, a coefficient named twice, none of those wanted, or several parts
 * where one must be chosen.
 */
bool coefs_parse(const char *text, size_t size, const char *name, const struct coef_want *want, double *value,
                 struct err *e);
bool coefs_read(const char *path, const struct coef_want *want, double *value, struct err *e);

/* Instead of a file: what is used where nothing was fitted. */
#define COEFS_BUILT_IN "built-in"
/* What a file does not name, "launch latency"; empty: it names all. */
enum { COEFS_REST = 2048 };

/* All coefficients of a model of plans, value[n + n_inner]. A coefficient that the file does not name is the
 * built-in one, or 0 where there is none. Its name is put into `rest`, which may be NULL. part NULL: the only
 * one. */
bool coefs_read_model(const char *path, const char *machine, const struct fit_model *model, const char *part,
                      double *value, char rest[COEFS_REST], struct err *e);

/* The same for the time model, all of it: what the file does not name stays as in *out. */
bool coefs_read_clock(const char *path, const char *machine, const char *part, struct time_model_coefs *out,
                      char rest[COEFS_REST], struct err *e);

/* A hash of the values. */
uint32_t coefs_sum(const struct time_model_coefs *c);

/* For headings: which coefficients the times rest on. The file, and what it does not name (`rest`). Or, where
 * path is NULL, that they are built in, and where fitted ones of that machine are. The caller frees. */
char *coefs_title(const char *path, const char *machine, const char *rest);

END_C

#endif
