/*
 * strategy.h - the registry of partitioning strategies.
 *
 * One paper is one file in sim/strategies/; one curve in a figure is one struct strategy and one line in
 * strategies.def. An ablation is a second descriptor in the same file that points at other constants.
 */
#ifndef TREEATTN_SIM_STRATEGY_H
#define TREEATTN_SIM_STRATEGY_H

#include "ref/heads.h"
#include "sim/time/machine.h"
#include "sim/plan.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a planner may know besides the tree. */
struct plan_env {
    struct heads heads;
    const struct machine *machine;
};

/* Plans are made for an H200, whatever card runs them: a tree and heads have one plan, and cards are compared on
 * it. */
struct plan_env plan_env_default(struct heads heads);

#define STRATEGY_MAX_OPTS 12

enum { RULE_PAPER = 0, RULE_ARTIFACT = 1 };

/* A parameter that a user may set: "name:key=value,key=value". */
struct strategy_opt {
    const char *key; /* NULL ends the table */
    double def;
    double min, max; /* allowed range, both ends included */
    const char *about;
    const char *const
        *names; /* NULL-terminated: values 0, 1, .. have names; NULL: a whole number; or any_number */
};
/* For an option "rule", and for one that need not be whole. */
extern const char *const rule_names[], *const any_number[];
static inline bool opt_has_names(const struct strategy_opt *o)
{
    return o->names && o->names != any_number;
}

/* A value of an option as it is written after "key="; the caller frees. */
char *strategy_opt_text(const struct strategy_opt *o, double value);

#define WHY_MAX 256

struct strategy {
    const char *name;
    const char *source;              /* paper, section, algorithm */
    const char *about;               /* one sentence */
    const struct strategy_opt *opts; /* may be NULL */
    bool superlinear;   /* planning takes longer than nodes + queries + runs: dense masks, exact search */
    const void *config; /* constants that tell an ablation from its parent; the file's own type */
    /* Whether the strategy can plan this tree; if not, why[WHY_MAX] gets one sentence. NULL: always. */
    bool (*applicable)(const struct nform *nf, const struct plan_env *env, const struct strategy *s,
                       const double *opt, char *why);
    /* The plan; called only when applicable. opt[i] belongs to opts[i]. */
    struct plan *(*plan)(const struct nform *nf, const struct plan_env *env, const struct strategy *s,
                         const double *opt);
    /* For strategies that take longer to choose options than to plan with them. chosen[] holds a copy of opt;
     * what opt leaves open is replaced by what plan() chooses for this tree. NULL: nothing is left open, or
     * choosing is quick. */
    void (*choose)(const struct nform *nf, const struct plan_env *env, const double *opt, double *chosen);
};

extern const struct strategy *const strategies[];
extern const int32_t n_strategies;

/* A strategy with its parameters filled in. */
struct strategy_use {
    const struct strategy *s;
    double opt[STRATEGY_MAX_OPTS];
};

/* Parse "name" or "name:key=value,...". On a wrong name or key the sentence lists what there is. */
bool strategy_parse(const char *text, struct strategy_use *out, struct err *e);
/* All options at their defaults. */
struct strategy_use strategy_default(const struct strategy *s);
/* "rule=paper,chunk=128", or "" for a strategy without options; the caller frees. */
char *strategy_params(const struct strategy_use *u);
/* "pat", or "pat:rule=artifact" with what differs from the defaults. Caller frees. */
char *strategy_label(const struct strategy_use *u);

/* NULL with a sentence in why[WHY_MAX] when not applicable; else a plan to be freed with plan_free. */
struct plan *strategy_plan(const struct strategy_use *u, const struct nform *nf, const struct plan_env *env,
                           char *why);

/* u with all options that it leaves open as the strategy chooses them for this tree, if it applies.
 * strategy_plan makes the same plan of it, sooner. */
struct strategy_use strategy_chosen(const struct strategy_use *u, const struct nform *nf,
                                    const struct plan_env *env);

/* For applicable(): fill why and return false. */
bool why_not(char *why, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#ifdef __cplusplus
}
#endif

#endif
