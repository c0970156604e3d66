/*
 * lab.h - the course labs (tests/labs): a student's code runs in a child, which has no answer, and is judged here.
 *
 * A lab has gates. A gate is passed or not, and has points. Whatever a gate says of a wrong answer is tested: a cause is named
 * only if that mistake, made on purpose, gives the student's answers, the wrong ones and the right ones.
 */
#ifndef TREEATTN_VERIFY_LAB_LAB_H
#define TREEATTN_VERIFY_LAB_LAB_H

#include "ref/base.h"
#include "verify/lab/session.h"

#include <stdio.h>

BEGIN_C

enum { LAB_MAX_GATES = 16 };

struct lab_gate {
    int32_t lab, number; /* both from 0 or 1, as they are called */
    double points;
    int32_t invariant; /* of the lab's README.md */
    const char *name;
};

/* What became of a gate. Texts are the result's, NULL for none. */
struct lab_result {
    const char *code;  /* "OK", "NUMBERS", "CRASH", ..; NULL: the gate was not run */
    char *checked;     /* what was asked */
    char *question;    /* that, whole, as C for the structs of tests/labs/include/lab.h */
    int32_t invariant; /* that was broken; 0: the gate's. lab_broken reads it */
    char *got;         /* what came, and what should have */
    char *seen;        /* what is true of all wrong answers of this gate */
    char *why;         /* the cause, if one was found */
    char *picture;     /* the wrong answer as SVG, written by lab_picture; NULL: there is none */
    char *caption;     /* what the picture shows, a sentence for those who cannot see it, too */
    size_t picture_bytes;
    const char *figure; /* what was measured, for a leaderboard: less is better; NULL: nothing */
    double value;
    bool hidden; /* it passed, but not on a seed that nobody may see */
};
/* The file to which the picture of a result is to be written, one SVG; fclose finishes it. It replaces what was drawn before. */
FILE *lab_picture(struct lab_result *r, const char *caption);

/* For printf: NaN has no sign, which says nothing, and which machines set as they like. */
static inline double lab_plain(double x)
{
    return x == x ? x : __builtin_nan("");
}

struct lab {
    int32_t number;
    const char *title, *functions;
    int32_t minutes;
    /* Asks and judges, with the cases of that seed, into r[], a result a gate in order, all of them zero before. */
    void (*judge)(struct lab_session *s, uint64_t seed, struct lab_result *r);
    /* Instead of that: judges a file of answers to the questions of that seed. False with *e set if it is none. */
    bool (*mark)(const char *path, uint64_t seed, struct lab_result *r, struct err *e);
    void (*print)(FILE *f, uint64_t seed); /* its questions */
};
bool lab_passed(const struct lab_result *r);
/* Behind a cause: how many wrong and right answers, of one gate or of all, that mistake gives. */
void lab_append_evidence(char **text, int32_t wrong, int32_t right, bool of_gate);
/* The invariant that a result is against; 0: none, it passed, or there was no answer that could be. */
int32_t lab_broken(const struct lab_gate *g, const struct lab_result *r);
/* NULL with *e set: there is none of that number. */
const struct lab *lab_find(int64_t number, struct err *e);
/* The gates of a lab in order; *n of them. */
const struct lab_gate *lab_gates(int32_t lab, int32_t *n);

/* A run of a lab. */
struct lab_job {
    const struct lab *lab;
    const char *path; /* lab.c or lab.so, as it was given */
    uint64_t seed;
    bool
        hides; /* the seed is a secret: gates are judged on LAB_PUBLIC_SEED, and again on this one, of which nothing is told */
    double seconds; /* that one answer may take */
};
#define LAB_PUBLIC_SEED UINT64_C(1)

struct lab_report {
    const struct lab_job *job;
    struct lab_result result[LAB_MAX_GATES];
    double points, most;
    int32_t passed, gates;
    double seconds;
    char *refused;  /* why nothing was judged, in lines: the first one is that of *e. Or NULL */
    char *warnings; /* a line about what the compiler warned of, or NULL */
};
/* False with *e set, and as report->refused, if there is nothing to judge: it does not compile, say. Free with lab_report_clear
 * in both cases. */
bool lab_run(const struct lab_job *job, struct lab_report *report, struct err *e);
void lab_report_clear(struct lab_report *r);

/* The report for people, as JSON of our own, and as results.json of Gradescope. */
void lab_print_text(FILE *f, const struct lab_report *r);
void lab_print_json(FILE *f, const struct lab_report *r);
void lab_print_gradescope(FILE *f, const struct lab_report *r);
/* As one page for a browser, the same bytes in every run. */
void lab_print_html(FILE *f, const struct lab_report *r);
/* The result whose figure was measured, the last one; NULL: nothing was. */
const struct lab_result *lab_measured(const struct lab_report *r);
/* The seed that may be told: of a quiz everybody knows it. */
uint64_t lab_shown_seed(const struct lab_report *r);
/* What an invariant says, as Markdown on one line, from the lab's README.md, which the program carries. The caller frees. NULL: there is
 * none of that number. */
char *lab_invariant(int32_t lab, int32_t number);

/* Of labs.def: judges. */
/* Lab 0: its questions; and the mark of answers. */
void lab0_print(FILE *f, uint64_t seed);
bool lab0_mark(const char *path, uint64_t seed, struct lab_result *r, struct err *e);
void lab1_judge(struct lab_session *s, uint64_t seed, struct lab_result *r);
void lab2_judge(struct lab_session *s, uint64_t seed, struct lab_result *r);
void lab3_judge(struct lab_session *s, uint64_t seed, struct lab_result *r);
void lab4_judge(struct lab_session *s, uint64_t seed, struct lab_result *r);
void lab5_judge(struct lab_session *s, uint64_t seed, struct lab_result *r);
void lab7_judge(struct lab_session *s, uint64_t seed, struct lab_result *r);
/* Lab 6: its faults, and the mark of what was found. */
void lab6_print(FILE *f, uint64_t seed);
bool lab6_mark(const char *path, uint64_t seed, struct lab_result *r, struct err *e);
/* What a suspect ("3"), or a kernel with a named fault, answers to a case (verify/lab/detective/suspects.h). False with *e set: there is no
 * such suspect, or it is no case. */
bool lab6_show(FILE *f, uint64_t seed, const char *suspect, const char *text, bool *passes, struct err *e);

END_C

#endif
