/* cmd_verify.c - `treeattn verify`: every strategy and kernel against exact attention. */
#include "kernels/cuda/host/cuda.h"
#include "sim/plan_file.h"
#include "verify/child/child.h"
#include "verify/cli/cmd.h"
#include "verify/io/origin.h"
#include "verify/io/crash.h"
#include "verify/io/text.h"
#include "verify/judge/verify_run.h"
#include "verify/sweep/sweep.h"
#include "verify/suites/suites.h"

#include <errno.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct verify_args {
    struct cmd_tree tree;
    struct cmd_output out;
    const char *strategies, *kernel, *exec, *plugin;
    const char *known, *statement, *features, *plan;
    struct plan_file *plan_file; /* of plan */
    struct rows_spec rows;
    char sha256[SHA256_TEXT]; /* of the suite */
    char *options, *judged;   /* for reports, and for files of rows */
    int32_t arch;
    int64_t memory, n_children;
    bool nan_tails;
    struct children *children; /* of exec or plugin */
    struct supervision watch;
    struct verify_job job;
};

static bool set_features(void *self, const char *value, struct err *e)
{
    struct verify_args *a = self;
    struct problem_given *given = &a->job.given;
    a->features = value;
    given->features = true;
    given->mixed = strcmp(value, "all") == 0;
    if (given->mixed)
        return true;
    if (!features_parse(value, &given->only, e))
        return false;
    return (given->only & FEATURES_FP8) != UINT32_C(1) << FEATURE_HEAD_SCALES ||
           err_set(e, "--features '%.60s': headscales are of e4m3 or e5m2 (expected one of them, too)",
                   value);
}

/* "K/N", K from 1. */
static bool set_shard(void *self, const char *value, struct err *e)
{
    struct verify_job *j = self;
    int64_t k = 0;
    char *text = xstrdup(value), *rest = text, *first = text_next(&rest, '/');
    bool good = rest && text_i64(rest, "N of --shard K/N", 1, 1000000, &j->shards, e) &&
                text_i64(first, "K of --shard K/N", 1, j->shards, &k, e);
    j->shard = k - 1;
    free(text);
    return good || err_set(e, "--shard '%.40s' (expected K/N: the K-th of N parts)", value);
}

static bool add_report(void *self, const char *value, struct err *e)
{
    struct verify_job *j = &((struct verify_args *)self)->job;
    return reports_add_file(j->reports, value, e);
}

static bool read_options(struct verify_args *a, int argc, char **argv, struct err *e)
{
    struct verify_job *j = &a->job;
    struct options o = {
        .about =
            "Plans every tree with every strategy, checks each plan's coverage, runs it, and compares O and "
            "LSE with exact attention. Errors are in units of a derived bound: over 0.5 is MARGINAL, over 1 "
            "is FAIL. The exit code is 1 if anything failed, and 3 if every case was skipped.",
        .examples = "verify\n"
                    "verify --trees 20 --seed 7 --strategy pat -q\n"
                    "verify --trace embedded:reasoning --steps 10 --kernel cpu\n"
                    "verify --case 'tree=gen:bushy:7;strategy=pat'\n"
                    "verify --suite decode-1 --plugin ./mine.so --report junit.xml --known known.txt\n"
                    "verify --suite full-1 --exec 'python3 mine.py' --rows mine.jsonl --failed-first --max-time 300",
        .details = "A result line is tab-separated: strategy/kernel/dtype/tile, verdict, numbers, a reason, "
                   "and the case string that `treeattn verify --case` takes.\n"
                   "A failure is reduced to a smallest case that fails likewise, for at most ten seconds; "
                   "the command line of that case stands below it, once it failed in processes of its own. "
                   "Up to three strategies get one. With more "
                   "than 20 cases these lines are printed again at the end.\n"
                   "Under mpirun its processes share the cases, and print what one process prints (verify/sweep/README.md).\n"
                   "Random trees and the cases of gpu-check draw their heads and storage; a tree or trace "
                   "that is given has the defaults."};
    tree_options(&o, &a->tree);
    problem_options(&o, &j->given);
    options_refuse(&o, "kv", "K and V in 8 bits are features (expected --features e4m3 or e5m2)");
    options_default(&o, "heads", NULL, "query heads / KV heads (default of a tree given: 4/2)");
    options_default(&o, "head-dim", NULL,
                    "elements of a head (default of a tree given: 64, and 128 from 32 query heads on)");
    options_default(&o, "dtype", NULL, "of Q, K, V and O (default of a tree given: f16):");
    options_default(&o, "page", NULL, "tokens of a page of the KV pool (default of a tree given: 16)");
    options_default(&o, "fill", NULL, "values of Q, K and V (default of a tree given: random):");
    const struct opt own[] = {
        HEADING("What is judged:"),
        I64("trees", "N", &j->trees, 1, 1000000, NULL,
            "N random trees from --seed, then the list of sharp cases (default 100, where no tree is given)"),
        I64("steps", "N", &j->steps, 1, 1000000, NULL,
            "with --trace: N steps spread over it (default: --step alone)"),
        TEXT("suite", "NAME", &j->suite, NULL,
             "a fixed list of cases, as it was released: smoke-1, decode-1 .. (see treeattn list suites)"),
        TEXT("case", "STRING", &j->text, NULL, "one case, as a result line prints it"),
        TEXT("cases", "FILE", &j->list, NULL, "such cases, one a line; # begins a comment"),
        FLAG("wide", &j->wide,
             "the wide cases: contexts, queries, partial results, page numbers and pools of more than 16, "
             "17, 20, 31 and 32 "
             "bits, up to 128 heads. Ten minutes on two cores, 4 GiB"),
        FLAG("gpu-cases", &j->gpu_cases,
             "the design of make gpu-check from --seed: types x heads x head sizes x pages x trees, edges, "
             "traces (the default for --kernel of a GPU)"),
        I64("sample", "N", &j->sample, 1, 1000000, NULL, "only every N-th tree of that design"),
        TEXT("strategy", "LIST", &a->strategies, NULL,
             "only these: NAME[:K=V,..],.. (default: the case's, or all); like --kernel, --heads and --dtype "
             "it replaces what a case names"),
        TEXT("plan", "FILE", &a->plan, NULL,
             "a plan made elsewhere, with its tree, as treeattn plan --json writes it: is it right, and what comes of it?"),
        TEXT("kernel", "NAME", &a->kernel, NULL, "only this one (default: the case's, or all)"),
        CALL("features", "LIST", set_features, a, NULL,
             "what every case has besides, and nothing else: softcap (30, where a case names no other), "
             "sinks, window (64), e4m3 or e5m2 (K and V; of both one), headscales (theirs), latent (V in K's row), "
             "narrowv (V of fewer elements), or none; all: each in some of the cases (default: "
             "what a case names; each is in one random tree of seven)"),
        arch_option(&a->arch),
        HEADING("A kernel of yours, in a process of its own (verify/child/README.md):"),
        TEXT("plugin", "FILE.so", &a->plugin, NULL, "a shared object that treeattn_plugin.h describes"),
        TEXT("exec", "CMD", &a->exec, NULL, "a program that speaks the protocol: of treeattn.py, say"),
        I64("memory", "MiB", &a->memory, 1, INT32_MAX, NULL,
            "what it may hold (default: half of this machine's)"),
        I64("children", "N", &a->n_children, 1, MAX_CHILDREN, NULL,
            "processes at once (default: a core each)"),
        FLAG("nan-tails", &a->nan_tails,
             "NaN, not large numbers, behind the last token of a page: does it tolerate that?"),
        HEADING("How:"),
        FLAG("properties", &j->properties,
             "also check laws of attention that need no oracle: the order of keys is irrelevant, V = 1 gives "
             "O = 1, and six more. A law that is broken is a row of its own. Takes 20 to 40 times as long. "
             "Of a kernel of yours: does it tolerate NaN in tails of pages, repeat its bits, and take each "
             "query as if it were alone? "
             "That is counted, and fails nothing"),
        CALL("shard", "K/N", set_shard, j, "1/1",
             "only the K-th of N parts, which together are the whole; a case of a suite or file stays in its part"),
        I64("max-time", "S", &j->max_seconds, 0, INT32_MAX, "0",
            "begin no case after S seconds; what is left out is said, and gives exit code 3", .zero = "any time"),
        FLAG("fail-fast", &j->fail_fast, "begin no case after one that failed"),
        TEXT("known", "FILE", &a->known, NULL,
             "failures that do not count, a line each: PATTERN CODE LAST-DAY REASON, as in '*page=1;* NUMBERS "
             "2027-03-31 bug 17'. A line past its day fails the run"),
        TEXT("rows", "FILE", &a->rows.path, NULL, "keep all rows there as the run goes, as JSON lines"),
        FLAG("resume", &a->rows.resume, "do not run again what --rows FILE has: go on after a run that was stopped"),
        FLAG("failed-first", &a->rows.failed_first, "begin with the cases that failed by --rows FILE, which is then written anew"),
        TEXT(
            "error-map", "FILE.svg", &j->error_map, NULL,
            "draw which queries and heads of the worst answer are wrong: stripes are heads, triangles masks"),
        FLAG("no-sharp", &j->no_sharp, "random trees without the sharp list"),
        FLAG("require-all", &j->require_all,
             "a plan that the kernel does not take is not good enough: exit code 3, unless something failed"),
        FLAG("no-shrink", &j->no_shrink, "print failures as they are, without reducing them"),
        {0},
    };
    options_add(&o, own);
    output_options(&o, &a->out);
    const struct opt more[] = {
        CALL("report", "FILE", add_report, a, NULL,
             "also all rows for other programs, by the name's end: .xml (JUnit), .tap (TAP 14), .csv or .json; may be given "
             "several times"),
        TEXT("statement", "FILE", &a->statement, NULL,
             "with --suite: what came of it, as JSON for release notes: suite and its digest, kernel, counts, environment"),
        {0},
    };
    options_add(&o, more);
    options_default(&o, "quiet", NULL, "only FAIL and MARGINAL, and the totals");
    supervision_options(&o, &a->watch);
    return options_parse(&o, argc, argv, e);
}

/* The plan is a strategy, and its tree the only one. */
static bool read_plan(struct verify_args *a, struct err *e)
{
    struct verify_job *j = &a->job;
    if (!a->plan)
        return true;
    if (j->text || j->list || j->suite || j->trees || j->wide || j->gpu_cases || j->sample || a->strategies || j->given.window ||
        a->tree.src.kind != SRC_NONE)
        return err_set(e, "--plan brings its tree and its strategy (expected no other, and no --window)");
    if (!(a->plan_file = plan_file_read(a->plan, e)))
        return false;
    a->tree.src = tree_source_from_tree(a->plan_file->tree);
    j->no_shrink = true; /* of a smaller tree there is no plan */
    return true;
}

/* Options that contradict each other, and what they leave open. */
static bool settle(struct verify_args *a, struct err *e)
{
    struct verify_job *j = &a->job;
    if (!read_plan(a, e))
        return false;
    bool given = j->text || j->list || j->suite || a->tree.src.kind != SRC_NONE, said = j->trees || given || j->wide;
    const char *path[REPORTS_MOST + 4] = {a->out.path, j->error_map, a->rows.path};
    if (a->statement)
        reports_add_statement(j->reports, a->statement);
    if (!outfiles_check(path, 3 + reports_paths(j->reports, path + 3), e))
        return false;
    if ((a->rows.resume || a->rows.failed_first) && !a->rows.path)
        return err_set(e, "--resume and --failed-first need a file (expected --rows FILE)");
    if (a->rows.resume && a->rows.failed_first)
        return err_set(e, "--resume goes on, --failed-first begins anew (expected one of them)");
    if (a->statement && !j->suite)
        return err_set(e, "--statement is about a suite (expected --suite NAME)");
    if (outfile_is_stdout(a->rows.path) || outfile_is_stdout(a->statement))
        return err_set(e, "--rows and --statement write files (expected a name)");
    if (j->wide && (given || j->trees))
        return err_set(e, "--wide brings its own trees (expected no other tree option)");
    if ((j->gpu_cases || j->sample) && said)
        return err_set(e, "--gpu-cases and --sample bring their own trees (expected no other tree option)");
    if (j->trees && given)
        return err_set(e, "--trees draws random ones (expected no other tree option)");
    if (!!j->text + !!j->list + !!j->suite + (a->tree.src.kind != SRC_NONE) > 1)
        return err_set(e, "--case, --cases and --suite bring their own trees (expected no other tree option)");
    const struct suite *suite = j->suite ? suite_find(j->suite, e) : NULL;
    if (j->suite && (!suite || !suite_cases(suite, &j->cases, &j->n_cases, e)))
        return false;
    if (suite)
        suite_sha256(suite, a->sha256);
    if (a->known && !(j->known = known_read(a->known, NULL, e)))
        return false;
    if (!tree_takes_steps(&a->tree, j->steps, e) || !tree_finish(&a->tree, false, e))
        return false;
    if (!!a->kernel + !!a->exec + !!a->plugin > 1)
        return err_set(e, "--kernel, --exec and --plugin exclude each other (expected one)");
    if (a->kernel && (!case_kernel(a->kernel, &j->kernel, e) || !kernel_ready(j->kernel, e)))
        return false;
    j->gpu_cases = j->gpu_cases || j->sample || (j->kernel && j->kernel->on_gpu && !said);
    j->sample = max_i64(j->sample, 1);
    j->trees = j->trees ? j->trees : 100;
    j->chosen = a->strategies != NULL;
    j->src = a->tree.src;
    j->seed = a->tree.seed;
    j->style = a->out.style;
    j->quiet = a->out.quiet;
    if (!case_strategies(a->plan_file ? strategies[0]->name : a->strategies, &j->use, &j->n_use, e))
        return false;
    if (a->plan_file)
        j->use[0] = strategy_default(&a->plan_file->strategy);
    return true;
}

/* The program that loads a plug-in lies beside this one. */
static char *host_command(const char *plugin, struct err *e)
{
    char *folder = origin_folder(), *host = xasprintf("%s/treeattn-host", folder), *quoted = text_quote(host),
         *object = text_quote(plugin), *command = xasprintf("exec %s %s", quoted, object);
    bool good = access(host, X_OK) == 0 || err_missing(e, "%s: %m (make builds it)", host);
    free(folder);
    free(host);
    free(quoted);
    free(object);
    if (!good) {
        free(command);
        return NULL;
    }
    return command;
}

/* Starts what --exec or --plugin names. */
static bool start_children(struct verify_args *a, struct err *e)
{
    if (!a->exec && !a->plugin)
        return true;
    char *command = a->exec ? xstrdup(a->exec) : host_command(a->plugin, e);
    if (!command)
        return false;
    struct child_limits limits = {.process = process_default_limits(),
                                  .start_seconds = 120,
                                  .case_seconds =
                                      (double)(a->watch.given && a->watch.seconds ? a->watch.seconds : 60),
                                  .n = a->n_children ? (int32_t)a->n_children : omp_get_max_threads(),
                                  .tail = a->nan_tails ? TAIL_NAN : TAIL_FINITE};
    if (a->memory)
        limits.process.memory = a->memory << 20;
    char *quoted = text_quote(a->exec ? a->exec : a->plugin),
         *option =
             xasprintf("--%s %s%s", a->exec ? "exec" : "plugin", quoted, a->nan_tails ? " --nan-tails" : "");
    a->children = children_new(command, option, &limits, e);
    if (a->children)
        a->job.kernel = children_kernel(a->children);
    free(command);
    free(quoted);
    free(option);
    bool plans = false;
    for (const struct kernel *k = a->children ? a->job.kernel : NULL; k; k = k->also)
        plans = plans || k->wants_plan;
    return a->children && (plans || !a->strategies ||
                           err_set(e,
                                   "--strategy: %s is given no plans (expected a child of view plan, or of "
                                   "point partial or merge)",
                                   a->job.kernel->name));
}

/* What changes cases, or what is asked of them: "--dtype f32 --properties". The caller frees. */
static char *changes_text(const struct verify_args *a)
{
    const struct problem_given *g = &a->job.given;
    const struct problem_spec *s = &g->spec;
    char *text = xstrdup("");
    if (g->heads)
        xappend(&text, " --heads %d/%d", (int)s->heads.h_q, (int)s->heads.h_kv);
    if (g->d)
        xappend(&text, " --head-dim %d", (int)s->heads.d);
    if (g->dtype)
        xappend(&text, " --dtype %s", dtype_name[s->heads.dtype]);
    if (g->page)
        xappend(&text, " --page %d", (int)s->page_size);
    if (g->fill)
        xappend(&text, " --fill %s", fill_name[s->fill]);
    if (g->window)
        xappend(&text, " --window %lld", (long long)s->window);
    if (g->features)
        xappend(&text, " --features %s", a->features);
    if (a->strategies)
        xappend(&text, " --strategy %s", a->strategies);
    if (a->nan_tails)
        xappend(&text, " --nan-tails");
    if (a->arch)
        xappend(&text, " --arch %d", (int)a->arch);
    if (a->job.properties)
        xappend(&text, " --properties");
    memmove(text, text + (text[0] == ' '), strlen(text) + 1 - (text[0] == ' '));
    return text;
}

/* Who is judged, for reports; and the file of rows, which has to be of the same. */
static bool open_rows(struct verify_args *a, struct err *e)
{
    struct verify_job *j = &a->job;
    const struct child_caps *caps = a->children ? children_caps(a->children) : NULL;
    a->options = changes_text(a);
    j->what = (struct judged_what){.suite = j->suite,
                                   .sha256 = j->suite ? a->sha256 : NULL,
                                   .cases = j->n_cases,
                                   .kernel = j->kernel ? j->kernel->name : "all kernels",
                                   .version = caps ? caps->version : origin_commit(),
                                   .how = j->kernel && j->kernel->option ? j->kernel->option : "inside treeattn",
                                   .options = a->options,
                                   .shard = j->shard,
                                   .shards = j->shards};
    a->judged = xasprintf("%s%s%s, %s%s%s", j->what.kernel, j->what.version[0] ? " " : "", j->what.version, j->what.how,
                          a->options[0] ? ", " : "", a->options);
    a->rows.judged = a->judged;
    return !a->rows.path || (j->rows = rows_open(&a->rows, e));
}

/* A word as it is typed. */
static char *typed(const char *word)
{
    bool plain = *word && word[strcspn(word, " \t\n!\"#$&'()*;<>?[\\]^`{|}~")] == 0;
    return plain ? xstrdup(word) : text_quote(word);
}

/* The whole command line, with the seed of what is drawn; the caller frees. */
static char *command_line(const struct verify_args *a, int argc, char **argv)
{
    char *line = typed(program_invocation_name);
    for (int i = 0; i < argc; i++) {
        char *word = typed(argv[i]), *longer = xasprintf("%s %s", line, word);
        free(word);
        free(line);
        line = longer;
    }
    bool draws = !a->job.text && !a->job.list && !a->job.suite && a->tree.src.kind == SRC_NONE && !a->tree.has_seed;
    char *seeded = xasprintf("%s%s", line, draws ? " --seed 1" : "");
    free(line);
    return seeded;
}

/* One of many processes that do the work of one: what there is to print and to write is the front's. */
static void be_worker(struct verify_args *a)
{
    a->out = (struct cmd_output){.style = STYLE_TEXT};
    a->rows = (struct rows_spec){.path = NULL};
    a->statement = a->known = a->job.error_map = NULL;
    a->job.max_seconds = 0;
    a->job.fail_fast = false;
    reports_free(a->job.reports);
    a->job.reports = reports_new();
}

/* The exit code. */
static int judge(struct verify_args *a, struct outfile *out, int argc, char **argv)
{
    struct err e = {0};
    int code = EXIT_BAD_INPUT;
    crash_tell();
    cuda_force_arch(a->arch);
    bool ready = settle(a, &e) && start_children(a, &e) && open_rows(a, &e);
    const char *path[REPORTS_MOST + 1];
    bool csv = ready && (a->out.style == STYLE_CSV || reports_paths(a->job.reports, path) > 0);
    char *notes = csv ? cmd_notes(a->job.kernel && a->job.kernel->on_gpu, argc, argv) : NULL;
    a->job.what.notes = notes;
    bool done = ready && verify_run(&a->job, out->f, &code, &e), failed = code == EXIT_FAILED;
    bool keep = done || failed, kept = rows_close(a->job.rows, &e);
    if (!outfile_close(out, keep, &e) || !done || !kept)
        code = cmd_error(&e);
    code = failed && !done ? EXIT_FAILED : code; /* whatever ended the run: that is known */
    free(notes);
    children_free(a->children);
    supervise_end(keep, code);
    return code;
}

int cmd_verify(int argc, char **argv)
{
    struct err e = {0};
    struct verify_args a = {.arch = 0, .job.reports = reports_new()};
    struct outfile out = {0};
    int code;
    bool good = read_options(&a, argc, argv, &e);
    if (good && sweep_role() == SWEEP_WORKER)
        be_worker(&a);
    good = good && outfile_open(&out, a.out.path, &e);
    struct supervision watch = a.watch;
    watch.seconds = a.exec || a.plugin ? 0 : a.watch.seconds; /* their processes have limits of their own */
    char *command = command_line(&a, argc, argv);
    a.job.command = command;
    if (!good)
        code = cmd_error(&e);
    else if (supervised(&watch, &out, &code))
        code = judge(&a, &out, argc, argv);
    free(command);
    free(a.job.use);
    plan_file_free(a.plan_file);
    for (int64_t i = 0; i < a.job.n_cases; i++)
        case_clear(&a.job.cases[i]);
    free(a.job.cases);
    free(a.options);
    free(a.judged);
    known_free(a.job.known);
    reports_free(a.job.reports);
    tree_source_clear(&a.tree.src);
    return code;
}
