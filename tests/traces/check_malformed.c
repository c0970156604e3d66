/*
 * check_malformed.c - every entry of malformed.def, to its parser and to the program.
 *
 * The parser gives one printable sentence that names file, line and expectation. The program ends with 2,
 * that sentence on one line, nothing on standard output, and no output file ($TREEATTN_BIN, default
 * build/treeattn; skipped where that is not built).
 */
#include "ref/file.h"
#include "traces/formats/deft.h"
#include "traces/formats/formats.h"
#include "traces/formats/medusa.h"
#include "traces/formats/mooncake.h"
#include "verify/model/coefficient_file.h"
#include "verify/model/timed_rows.h"

#include "tests/auto.h"
#include "tests/shared.h"
#include "tests/suites.h"

#include <fcntl.h>
#include <math.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* MEDUSA asks for the topology "a", MEDUSA_ALL for the first; OTHERS are requests in blocks of 16, timed in seconds. */
enum format { LEVELS, FASTTREE, MASK, TEXT, DEFT, MEDUSA, MEDUSA_ALL, MOONCAKE, OTHERS, CSV, MEASURED, COEFS };

#define NODE(id, value, start, end, children)                                                                \
    "\"" #id "\":{\"id\":" #id ",\"value\":" #value ",\"start\":" #start ",\"end\":" #end                    \
    ",\"children\":" children "}"
#define ITEM(data) "[{\"incompleted\":false,\"prompt\":\"\",\"data\":{" data "}}]"
#define ROOT(children) NODE(0, 3, -2, 0, children)
#define SPEC(size, structure, accept)                                                                        \
    "{\"Token_Tree_size\":" size ",\"Tree_Structure\":" structure ",\"Records\":[{\"Accept_length\":" accept \
    "}]}"

#define LINE(time, input, output, ids)                                                                       \
    "{\"timestamp\":" time ",\"input_length\":" input ",\"output_length\":" output ",\"hash_ids\":" ids "}"  \
    "\n"
#define GOOD LINE("5", "600", "2", "[1,2]")

#define OWN "tree,heads,d,dtype,strategy,time_us\n"
#define PEERS "set,N,C,hq,hk,dtype,method,cold_us,timing,status\n"
#define COEF "machine,model,part,coefficient,value,error\n"

static const struct entry {
    enum format format;
    const char *text, *says;
} entry[] = {
#define MALFORMED(format, text, says) {format, text, says},
#include "tests/traces/malformed.def"
#undef MALFORMED
};
enum { N_ENTRIES = sizeof entry / sizeof entry[0] };

/* Speculative records need a prompt, and so do topologies. */
static int64_t prompt_of(const struct entry *x)
{
    return x->format == MEDUSA || x->format == MEDUSA_ALL || (x->format == DEFT && x->text[0] == '{') ? 100
                                                                                                      : 0;
}

/* Tree files are told apart by their first word; if that is no use, neither parser is asked. */
static const char neither[] = "(expected a node count, `tree NODES QUERIES` or `mask QUERIES TOKENS`)";

/* What every complaint must be; the file is called FILE in it. What only the replay of a sound file finds (no
 * branches, say) has no line. */
static void check_sentence(const struct entry *x, const char *msg)
{
    bool says = strstr(msg, x->says) || (x->format <= TEXT && strstr(msg, neither));
    ck_assert_msg(says, "'%s' gives \"%s\" (expected \"%s\")", x->text, msg, x->says);
    ck_assert_msg(strstr(msg, "(expected ") && msg[strlen(msg) - 1] == ')', "'%s' gives \"%s\"", x->text,
                  msg);
    for (const char *p = msg; *p; p++)
        ck_assert_msg(*p >= ' ' && *p <= '~', "byte %d in \"%s\"", *p, msg);
    const char *file = strstr(msg, "FILE:");
    bool line = file && file[5] >= '1' && file[5] <= '9';
    ck_assert_msg(line || x->format == LEVELS || strstr(msg, "deft:FILE: "), "'%s' gives \"%s\"", x->text,
                  msg);
}

/* Coefficients of fit --time-model linear for the rows of `measured_good`. */
static const char measured_good[] = OWN "levels:1_64,32/8,128,f16,cascade,9\n";
static const struct coef_bound bound[] = {{"base", 0, INFINITY}, {"serial", 0, INFINITY}};
static const struct coef_want want = {
    .machine = "h200", .model = "linear", .part = "all", .n = 2, .coef = bound};

/* Whether the parser takes it. */
static bool parse(const struct entry *x, struct err *e)
{
    const struct trace_opts o = {.prompt = prompt_of(x)};
    size_t size = strlen(x->text);
    AUTO(tree) t = NULL;
    AUTO(trace) tr = NULL;
    AUTO(requests) r = NULL;
    CLEARED_BY(csv_clear) struct csv csv = {0};
    CLEARED_BY(timed_rows_clear) struct timed_rows m = {0};
    double value[2];
    bool taken = false;
    switch (x->format) {
    case LEVELS:
        t = levels_parse(x->text, e);
        break;
    case FASTTREE:
        t = fasttree_file_parse(x->text, size, "FILE", e);
        break;
    case TEXT:
        t = tree_text_parse(x->text, size, "FILE", e);
        break;
    case MASK:
        t = mask_text_parse(x->text, size, "FILE", e);
        break;
    case DEFT:
        tr = deft_open(x->text, size, "FILE", "deft:FILE", &o, e);
        break;
    case MEDUSA:
        tr = medusa_open(x->text, size, "FILE", "a", "medusa:FILE,a", &o, e);
        break;
    case MEDUSA_ALL:
        tr = medusa_open(x->text, size, "FILE", "", "medusa:FILE", &o, e);
        break;
    case OTHERS:
        r = mooncake_read(x->text, size, "FILE", &(struct mooncake_form){16, SECONDS}, e);
        break;
    case MOONCAKE:
        r = mooncake_read(x->text, size, "FILE", NULL, e);
        break;
    case CSV:
        taken = csv_parse(x->text, size, "FILE", &csv, e);
        break;
    case MEASURED:
        taken = timed_rows_parse(x->text, size, "FILE", &m, e);
        break;
    case COEFS:
        taken = coefs_parse(x->text, size, "FILE", &want, value, e);
        break;
    }
    return taken || t || tr || r;
}

LOOP_TEST(parsers_give_a_sentence, N_ENTRIES)
{
    struct err e = {0};
    ck_assert_msg(!parse(&entry[_i], &e), "'%s' is taken", entry[_i].text);
    ck_assert_int_eq(e.code, EXIT_BAD_INPUT);
    check_sentence(&entry[_i], e.msg);
}

/* ---- the program --------------------------------------------------------------------------------------- */

/* Runs argv, without a shell; standard output and error into files. Returns the exit code, 128 on a crash. */
static int spawn(char *const *argv, const char *out, const char *err)
{
    posix_spawn_file_actions_t files;
    pid_t pid;
    int status;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, 1, out, O_WRONLY | O_TRUNC, 0600);
    posix_spawn_file_actions_addopen(&files, 2, err, O_WRONLY | O_TRUNC, 0600);
    ck_assert_int_eq(posix_spawn(&pid, argv[0], &files, NULL, argv, environ), 0);
    posix_spawn_file_actions_destroy(&files);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

/* The message with every mention of the path made FILE. The caller frees. */
static char *name_file(const char *msg, const char *path)
{
    char *text;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    for (const char *at; (at = strstr(msg, path)); msg = at + strlen(path))
        fprintf(f, "%.*sFILE", (int)(at - msg), msg);
    fprintf(f, "%s", msg);
    fclose(f);
    return text;
}

LOOP_TEST(the_program_ends_with_2_and_writes_nothing, N_ENTRIES)
{
    const struct entry *x = &entry[_i];
    if (!program_built() || _i % fewer(8, 1) != 0) /* the test above has them all */
        return;
    char *program = (char *)program_file();
    FREED char *in = scratch_file(x->text, strlen(x->text)), *out = scratch_file("", 0),
               *err = scratch_file("", 0), *result = xasprintf("%s.out", in);
    FREED char *good = scratch_file(measured_good, strlen(measured_good)),
               *prompt = xasprintf("%lld", (long long)prompt_of(x));
    FREED char *source = x->format == LEVELS       ? xstrdup(x->text)
                         : x->format == DEFT       ? xasprintf("deft:%s", in)
                         : x->format == MEDUSA     ? xasprintf("medusa:%s,a", in)
                         : x->format == MEDUSA_ALL ? xasprintf("medusa:%s", in)
                         : x->format == OTHERS     ? xasprintf("mooncake:%s,block=16,unit=s", in)
                         : x->format == MOONCAKE   ? xasprintf("mooncake:%s", in)
                                                   : xstrdup(in);
    char *option = x->format == LEVELS ? "--levels" : x->format <= TEXT ? "--tree-file" : "--trace";
    char *plan[] = {program, "plan", "--strategy", "cascade", "-o", result, option, source, NULL, NULL, NULL};
    char *fit[] = {program, "fit", "-o", result, x->format == COEFS ? good : in, NULL, NULL, NULL, NULL};
    if (x->format > TEXT) {
        plan[8] = "--prompt";
        plan[9] = prompt;
    }
    if (x->format == COEFS) {
        fit[5] = "--coefficients";
        fit[6] = in;
    }
    char *const *argv = x->format < CSV ? plan : fit;
    ck_assert_int_eq(spawn(argv, out, err), EXIT_BAD_INPUT);
    size_t size, said;
    FREED char *text = file_slurp(out, 1 << 20, &size, NULL), *msg = file_slurp(err, 1 << 20, &said, NULL);
    ck_assert_msg(size == 0, "'%s' prints %s", x->text, text);
    ck_assert_msg(access(result, F_OK) != 0, "'%s' leaves %s", x->text, result);
    ck_assert_msg(strncmp(msg, "treeattn: ", 10) == 0, "'%s' says %s", x->text, msg);
    char *lf = strchr(msg, '\n');
    ck_assert_msg(lf && lf[1] == '\0', "'%s' says more than one line: %s", x->text, msg);
    *lf = '\0';
    FREED char *named = name_file(msg + strlen("treeattn: "), in);
    check_sentence(x, named);
}
