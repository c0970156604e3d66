/*
 * shrink_failure.c - shrinking what the judge failed, and telling people.
 */
#include "verify/judge/shrink.h"
#include "verify/io/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Shells and exec() take an argument of up to 128 KiB; what is longer could not be pasted. */
enum { LONGEST_ARGUMENT = 100000 };

/* A kernel that is torn by other threads fails now and then. */
enum { REPEATS = 5 };

/* A case that first failed one way and then another would be about something else: what is wrong by a hundredth and more must not
 * end as what looks like rounding. */
struct failure {
    enum failure_stage stage;
    bool gross;
    const struct property *law;
};
#define GROSS 1e-2 /* of a row, whose numbers may be next to nothing, */
#define TINY 1e-4  /* and no less than this */

static struct failure failure_of(const struct result *r)
{
    const struct comparison *c = &r->cmp;
    double off = fabs(c->got - c->want);
    bool much = !isfinite(c->worst) || fmax(c->rel_o, c->rel_lse) >= GROSS;
    return (struct failure){r->stage, r->stage == STAGE_NUMBERS && (!isfinite(off) || (much && off > TINY)),
                            r->law};
}

static bool alike(struct failure is, struct failure was)
{
    return is.stage == was.stage && is.law == was.law && is.gross >= was.gross;
}

/* False if the case cannot be had, as when memory would not do. */
static bool judge_again(const struct case_spec *c, const struct property *law, struct result *r)
{
    struct test_case *b = test_case_new(c, NULL, NULL);
    if (!b)
        return false;
    *r = judge_case(b, &c->use, c->kernel);
    if (law && r->verdict != V_FAIL) /* as verify does */
        *r = judge_law(b, &c->use, c->kernel, law);
    r->use = NULL;
    test_case_free(b);
    return true;
}

static bool fails_alike(const struct case_spec *c, void *context)
{
    const struct failure *want = context;
    struct result r;
    return judge_again(c, want->law, &r) && r.verdict == V_FAIL && alike(failure_of(&r), *want);
}

struct shrink_report shrink_result(struct case_spec *c, struct result *r, const struct shrink_limits *limits)
{
    struct failure kind = failure_of(r);
    struct shrink_report report = shrink_case(c, fails_alike, &kind, limits);
    report.steady = report.failed;
    for (int i = 0; i < REPEATS && report.steady; i++)
        report.steady = judge_again(c, kind.law, r) && r->verdict == V_FAIL;
    return report;
}

void shrink_print(FILE *f, const char *program, const struct case_spec *failed, const struct result *result)
{
    struct shrink_limits limits = shrink_default_limits();
    struct case_spec c = *failed;
    struct result r = *result;
    c.src = tree_source_copy(&failed->src);
    struct shrink_report report = shrink_result(&c, &r, &limits);
    char *text = case_print(&c), why[RESULT_SENTENCE];
    struct result again;
    if (!report.failed && judge_again(&c, r.law, &again) && again.verdict == V_SKIP) {
        fprintf(f, "smallest: not looked for, the case cannot run again here: %s\n",
                result_sentence(&again, why));
    } else if (!report.steady) {
        fprintf(
            f,
            "smallest: not reproducible, %s passed when it was run again (run is called from several threads "
            "at once: does the kernel keep state, or do its own threads share what they should not? try "
            "OMP_NUM_THREADS=1; does it read behind an array? try make SAN=1)\n",
            report.failed ? "a smaller case" : "the case");
    } else if (strlen(text) > LONGEST_ARGUMENT) {
        fprintf(f, "smallest: %" PRId32 " nodes after %.0f s, too long for a command line\n", report.nodes,
                report.seconds);
    } else {
        char *quoted = text_quote(text);
        fprintf(f,
                "smallest: %s verify %s--case %s\n  nodes %" PRId32 ", queries %" PRId32 ", tokens %" PRId64
                ", after %" PRId64 " trials%s: %s\n",
                program, r.law ? "--properties " : "", quoted, report.nodes, report.queries, report.tokens,
                report.trials, report.fixed ? "" : " (out of time)", result_sentence(&r, why));
        free(quoted);
        /* A small case hides what a large one shows: of one token O is V whatever the softmax. */
        if (result->guess[0])
            fprintf(f, "  perhaps %s\n", result->guess);
        if (r.guess[0] && strcmp(r.guess, result->guess) != 0)
            fprintf(f, "  of the smallest alone: perhaps %s\n", r.guess);
    }
    free(text);
    case_clear(&c);
}
