/*
 * coefficient_file.h - files of fitted coefficients: written by `treeattn fit`, read by it and by `treeattn sim`.
 *
 *   machine,model,part,coefficient,value,error
 *   h200,linear,pat,serial,5.36e-06,2.1e-07
 *
 * The machine is a name of machines.def, the model says which coefficients there are, the part is a kernel, a strategy
 * (quoted where it has commas) or `all`. Lines that begin with # are notes: where the rows came from.
 */
#ifndef TREEATTN_VERIFY_MODEL_COEFFICIENT_FILE_H
#define TREEATTN_VERIFY_MODEL_COEFFICIENT_FILE_H

#include "sim/time/time_model.h"
#include "sim/fit/models.h"

#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

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
    bool *given;                   /* [n] set for those that the file names; NULL: nobody asks */
};

/*
 * value[n] from the file; what it does not name keeps its value. False with *e set ("file:line: ..."): a
 * machine or coefficient that does not exist, a value out of bounds, a coefficient said twice, nothing said
 * of what is wanted, several parts where one must be chosen. The whole file is checked, other machines' and
 * parts' lines too.
 */
bool coefs_parse(const char *text, size_t size, const char *name, const struct coef_want *want, double *value,
                 struct err *e);
bool coefs_read(const char *path, const struct coef_want *want, double *value, struct err *e);

/* Instead of a file: what is used where nothing was fitted. */
#define COEFS_BUILT_IN "built-in"
/* What a file does not name, "launch latency"; empty: it names all. */
enum { COEFS_REST = 2048 };

/* All coefficients of a model of plans, value[n + n_inner]: what the file does not name is as built in, or 0 where
 * nothing is, and stands in `rest` (NULL: nobody asks). part NULL: the only one. */
bool coefs_read_model(const char *path, const char *machine, const struct fit_model *model,
                      const char *part, double *value, char rest[COEFS_REST], struct err *e);

/* The same for the time model, all of it: what the file does not name stays as in *out. */
bool coefs_read_clock(const char *path, const char *machine, const char *part, struct time_model_coefs *out,
                      char rest[COEFS_REST], struct err *e);

/* What times of the time model rest on, for headings: the file (NULL: none was given) and what it does not name; or that
 * coefficients are the built-in ones, and where fitted ones of that machine are. The caller frees. */
char *coefs_title(const char *path, const char *machine, const char *rest);

#ifdef __cplusplus
}
#endif

#endif
