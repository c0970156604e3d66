/* run.c - a lab from the student's file to a report. */
#include "verify/lab/lab.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const struct lab all_labs[] = {
#define LAB(n, title_, minutes_, functions_)                                                                 \
    {.number = n, .title = title_, .functions = functions_, .minutes = minutes_, .judge = lab##n##_judge},
#define QUIZ(n, title_, minutes_)                                                                            \
    {.number = n, .title = title_, .minutes = minutes_, .mark = lab##n##_mark, .print = lab##n##_print},
#define GATE(n, gate, points, invariant, name)
#include "verify/lab/labs.def"
#undef LAB
#undef QUIZ
#undef GATE
};
enum { N_LABS = sizeof all_labs / sizeof all_labs[0] };

static const struct lab_gate gates[] = {
#define LAB(n, title_, minutes_, functions_)
#define QUIZ(n, title_, minutes_)
#define GATE(n, gate, points_, invariant_, name_) {n, gate, points_, invariant_, name_},
#include "verify/lab/labs.def"
#undef LAB
#undef QUIZ
#undef GATE
};
enum { N_GATES = sizeof gates / sizeof gates[0] };

const struct lab *lab_find(int64_t number, struct err *e)
{
    char list[80] = "";
    for (int i = 0; i < N_LABS; i++) {
        char name[16];
        snprintf(name, sizeof name, "%" PRId32, all_labs[i].number);
        listing_add(list, sizeof list, name);
        if (all_labs[i].number == number)
            return &all_labs[i];
    }
    err_set(e, "no lab %" PRId64 " (expected one of: %s)", number, list);
    return NULL;
}

const struct lab_gate *lab_gates(int32_t lab, int32_t *n)
{
    int first = 0;
    while (first < N_GATES && gates[first].lab != lab)
        first++;
    *n = 0;
    while (first + *n < N_GATES && gates[first + *n].lab == lab)
        ++*n;
    return &gates[first];
}

static void result_clear(struct lab_result *r)
{
    free(r->checked);
    free(r->question);
    free(r->got);
    free(r->seen);
    free(r->why);
    free(r->picture);
    free(r->caption);
    *r = (struct lab_result){0};
}

FILE *lab_picture(struct lab_result *r, const char *caption)
{
    free(r->picture);
    free(r->caption);
    r->caption = xstrdup(caption);
    FILE *f = open_memstream(&r->picture, &r->picture_bytes);
    CK(f);
    return f;
}

void lab_report_clear(struct lab_report *r)
{
    for (int i = 0; i < LAB_MAX_GATES; i++)
        result_clear(&r->result[i]);
    free(r->refused);
    free(r->warnings);
}

bool lab_passed(const struct lab_result *r)
{
    return r->code && strcmp(r->code, "OK") == 0;
}

void lab_append_evidence(char **text, int32_t wrong, int32_t right, bool of_gate)
{
    xappend(text,
            " [gives %" PRId32 " of %" PRId32 " wrong answers%s, and %" PRId32 " of %" PRId32 " right ones]",
            wrong, wrong, of_gate ? " of this gate" : "", right, right);
}

int32_t lab_broken(const struct lab_gate *g, const struct lab_result *r)
{
    bool ended = !r->code || lab_passed(r);
    for (int end = 0; end <= N_RUN_ENDS && !ended; end++)
        ended = strcmp(r->code, lab_end_name((enum run_end)end)) == 0;
    return ended ? 0 : r->invariant ? r->invariant : g->invariant;
}

/* A gate that was passed where all can look must be passed with the secret seed, too. Of that one only code and cause are told:
 * no case and no picture of one, and nothing that the child said. */
static void take_hidden(struct lab_result *shown, struct lab_result *secret)
{
    if (lab_passed(shown) && !lab_passed(secret)) {
        result_clear(shown);
        shown->code = secret->code;
        shown->why = secret->why;
        shown->invariant = secret->invariant;
        shown->hidden = true;
        secret->why = NULL;
    }
    shown->figure = secret->figure; /* ranks go by a seed that nobody could try */
    shown->value = secret->value;
    result_clear(secret);
}

/* A question that was not asked is none that was answered wrongly. */
static void strip_unasked(struct lab_result *r)
{
    if (!r->code || strcmp(r->code, lab_end_name(LAB_UNASKED)) != 0)
        return;
    struct lab_result bare = {.code = r->code, .got = r->got, .hidden = r->hidden};
    r->got = NULL;
    result_clear(r);
    *r = bare;
}

/* Code, in a child. False with *e set: there is none to run. */
static bool judge_code(const struct lab_job *job, struct lab_report *report, struct err *e)
{
    char *said;
    struct lab_session *s = lab_open(job->path, job->lab->functions, job->seconds, &said, e);
    if (s)
        report->warnings = said;
    else
        report->refused = said; /* lab_run puts the error before it */
    if (s)
        job->lab->judge(s, job->hides ? LAB_PUBLIC_SEED : job->seed, report->result);
    if (s && job->hides) {
        struct lab_result secret[LAB_MAX_GATES] = {0};
        job->lab->judge(s, job->seed, secret);
        for (int32_t i = 0; i < report->gates; i++)
            take_hidden(&report->result[i], &secret[i]);
    }
    for (int32_t i = 0; i < report->gates; i++)
        strip_unasked(&report->result[i]);
    bool good = s && !lab_lacks(s, e);
    lab_close(s);
    return good;
}

bool lab_run(const struct lab_job *job, struct lab_report *report, struct err *e)
{
    double began = now_s();
    const struct lab_gate *gate = lab_gates(job->lab->number, &report->gates);
    report->job = job;
    CK(report->gates <= LAB_MAX_GATES);
    for (int32_t i = 0; i < report->gates; i++)
        report->most += gate[i].points;
    struct err why = {0};
    bool judged = job->lab->mark ? job->lab->mark(job->path, job->seed, report->result, &why)
                                 : judge_code(job, report, &why);
    for (int32_t i = 0; i < report->gates; i++)
        if (lab_passed(&report->result[i])) {
            report->points += gate[i].points;
            report->passed++;
        }
    report->seconds = now_s() - began;
    if (!judged) {
        char *behind = report->refused;
        report->refused = xasprintf("%s%s", why.msg, behind ? behind : "");
        free(behind);
        *e = why;
    }
    return judged;
}
