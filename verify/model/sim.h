/*
 * sim.h - what `treeattn sim` has computed, for those who print it.
 */
#ifndef TREEATTN_VERIFY_MODEL_SIM_H
#define TREEATTN_VERIFY_MODEL_SIM_H

#include "ref/model.h"
#include "verify/io/table.h"
#include "verify/cases/tree_source.h"
#include "verify/model/coefficient_file.h"
#include "verify/model/simulate_steps.h"

BEGIN_C

/* A tree, or steps of a trace. */
struct sim_source {
    struct tree_source src;
    struct problem_spec spec;
    char *at;      /* "b=32 p=1024", "pat-fig9 3": which of several trees; NULL if it is the only one */
    int32_t index; /* --tree */
    struct trace *trace;
    struct tree *tree;
    struct simulation_source steps;
};

/* A name and the values it takes, of --sweep; `value` points into `name`. */
enum { SIM_MAX_SWEPT = 8, SIM_MAX_VALUES = 64 };
struct sim_swept {
    char *name, *value[SIM_MAX_VALUES];
    int32_t n;
};

/* A machine as it was asked for. */
struct sim_machine {
    const char *text;
    struct machine m;
    struct time_model_coefs coefs;
    char rest[COEFS_REST];            /* of these, what the file does not name */
    double (*fitted)[2 * MAX_TRAITS]; /* [n_use] coefficients of the run's model; NULL: it has none */
    char fitted_rest[COEFS_REST];     /* of the first strategy's */
};

struct sim_run {
    struct tree_source *src;
    struct problem_spec spec; /* where the source has no heads of its own */
    int64_t layers;
    const struct model *llm; /* rows are sums over its layers, windowed and full ones; NULL: of one of `layers` that are alike */
    enum count_mode mode;
    struct strategy_use *use;
    int32_t n_use;
    struct sim_machine *machine;     /* [n_machines] */
    int32_t n_machines;              /* at least 1: */
    const struct fit_model *model; /* fitted to measured times; NULL: none */
    const char *coefficients;        /* the time model's: a file, or "built-in" */
    const char *fitted_from;         /* the model's: a file */
    bool timed;                      /* without times, plans are made for the default machine */
    struct sim_source *source;
    int64_t n_sources, cap_sources;
    const char *timeline, *timeline_svg, *spans; /* files for one plan in time; NULL: not asked for */
    const char *bytes_svg;                       /* for what all strategies move */
    char *command;                /* what was called; owned */
    struct simulated_row *row;    /* [n_sources][n_machines][n_use] */
};

/* The rows of source k on machine m, one for each strategy. */
static inline struct simulated_row *sim_rows(const struct sim_run *run, int64_t k, int32_t m)
{
    return run->row + (k * run->n_machines + m) * run->n_use;
}
/* What a row is multiplied by, to be of all layers. */
static inline int64_t sim_multiplier(const struct sim_run *run)
{
    return run->llm ? 1 : run->layers;
}
static inline int64_t sim_steps(const struct sim_source *s)
{
    return s->steps.last - s->steps.first + 1;
}

/* "NAME=V,V,..". False with *e set; sim_swept_clear in either case. */
bool sim_swept_parse(const char *arg, struct sim_swept *out, struct err *e);
void sim_swept_clear(struct sim_swept *s);
/* Fill run->source. Sets: all trees of the sets (traces/paper_sets.h), with run->spec's heads if
 * `heads`. Swept: a tree for every combination of values, which replace {NAME} in the levels of run->src; a
 * name `heads` sets the head counts, `window` the window (0: none). */
bool sim_open_sets(struct sim_run *run, const char *list, bool heads, struct err *e);
bool sim_open_swept(struct sim_run *run, const struct sim_swept *swept, int32_t n, struct err *e);

/* The tree of run->src; or, of a trace, its items up to number `last` (TREES_ALL: to the end). */
bool sim_open_trees(struct sim_run *run, int32_t last, struct err *e);

/* Of `treeattn fit`, from a file (NULL: built in), for the time model or run->model. part: which part's, where the file has
 * several; "each": of every strategy its own; or NULL. */
bool sim_read_coefficients(struct sim_run *run, const char *file, const char *part, struct err *e);
/* Source k's strategies on machine m. */
struct simulation sim_of_source(const struct sim_run *run, const struct sim_source *src, int32_t m);
/* The files beside the table. Is one of them standard output, in place of it? */
bool sim_files_printed(const struct sim_run *run);
/* Is there only one plan, where a timeline or spans are asked for, and true bytes of one machine's plans for bars? */
bool sim_files_check(const struct sim_run *run, struct err *e);
/* After sim_simulate. */
bool sim_files_write(const struct sim_run *run, struct err *e);
/* Make run->row. */
bool sim_simulate(struct sim_run *run, struct err *e);
/* All but src and what is in `machine`. */
void sim_clear(struct sim_run *run);

/* A row per source, machine and strategy, for scripts. */
void sim_print_rows(const struct sim_run *run, FILE *f, enum style style);
/* The same for people, with the mean over sources. `quiet`: the mean alone, if there are several sources. */
void sim_print_text(const struct sim_run *run, FILE *f, bool quiet);

END_C

#endif
