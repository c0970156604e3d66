#include "verify/cli/shared_options.h"
#include "ref/model.h"
#include "sim/time/machine.h"
#include "verify/io/text.h"

#include <stdlib.h>
#include <string.h>

/* ---- what is printed ----------------------------------------------------------------------------------- */

void output_options(struct options *o, struct cmd_output *out)
{
    const struct opt own[] = {
        HEADING("What is printed:"),
        SET("csv", &out->style, STYLE_CSV, "comma-separated values"),
        SET("json", &out->style, STYLE_JSON, "a JSON array (infinity is written as 1.797e308)"),
        FLAG("quiet", &out->quiet, "only what did not pass, and the totals", .letter = 'q'),
        TEXT("output", "FILE", &out->path, NULL,
             "write to FILE, which appears once it is complete; -: standard output", .letter = 'o'),
        {0},
    };
    options_add(o, own);
}

void supervision_options(struct options *o, struct supervision *s)
{
    const struct opt own[] = {
        HEADING("How it is run:"),
        I64("seconds-a-case", "S", &s->seconds, 0, 1000000, "600",
            "a plan and a kernel that take longer for one case end the run, exit code 1; 0: no limit. Of "
            "--exec and "
            "--plugin that case alone is a HANG (60 where nothing is said)",
            .given = &s->given),
        FLAG("no-fork", &s->off,
             "judge in this process, for profilers; under a debugger, or with TREEATTN_NO_FORK set, that is "
             "so "
             "anyway"),
        {0},
    };
    options_add(o, own);
}

/* ---- heads and storage --------------------------------------------------------------------------------- */

static bool set_heads(void *self, const char *value, struct err *e)
{
    struct heads *h = self;
    return text_heads(value, &h->h_q, &h->h_kv, e);
}

struct opt heads_option(struct heads *h, const char *def, bool *given)
{
    return (struct opt)CALL("heads", "Q/KV", set_heads, h, def, "query heads / KV heads", .given = given);
}

struct opt dtype_option(enum dtype *dtype, const char *def, const char *help)
{
    return (struct opt)WORD("dtype", "TYPE", dtype, dtype_name, N_DTYPES, def, help);
}

static bool set_kv(void *self, const char *value, struct err *e)
{
    return dtype_parse_fp8(value, self) || err_set(e, "--kv '%.40s' (expected e4m3 or e5m2)", value);
}

void problem_options(struct options *o, struct problem_given *p)
{
    struct problem_spec *s = &p->spec;
    const struct opt own[] = {
        HEADING("Heads and storage:"),
        heads_option(&s->heads, NULL, &p->heads),
        I32("head-dim", "D", &s->heads.d, 1, PROBLEM_MAX_D, NULL, "elements of a head", .given = &p->d),
        WORD("dtype", "TYPE", &s->heads.dtype, dtype_name, N_DTYPES, NULL,
             "of Q, K, V and O:", .given = &p->dtype),
        CALL("kv", "TYPE", set_kv, &s->heads.kv_fp8, NULL,
             "of K and V: e4m3 or e5m2, with scales (default: as Q)"),
        I32("page", "SIZE", &s->page_size, 1, 65536, NULL, "tokens of a page of the KV pool",
            .given = &p->page),
        WORD("fill", "KIND", &s->fill, fill_name, N_FILLS, NULL, "values of Q, K and V:", .given = &p->fill),
        I64("window", "N", &s->window, 0, TREE_MAX_TOKENS, NULL, "tokens at the end of its path that a query sees",
            .zero = "all", .given = &p->window),
        {0},
    };
    options_add(o, own);
}

void problem_defaults(struct options *o)
{
    options_default(o, "heads", "32/8", NULL);
    options_default(o, "head-dim", "128", NULL);
    options_default(o, "dtype", "f16", NULL);
    options_default(o, "page", "16", NULL);
    options_default(o, "fill", "random", NULL);
}

static bool set_arch(void *self, const char *value, struct err *e)
{
    bool ampere = strcmp(value, "80") == 0;
    *(int32_t *)self = ampere ? 80 : 0;
    return ampere || strcmp(value, "auto") == 0 || err_set(e, "--arch '%.40s' (expected auto or 80)", value);
}

struct opt arch_option(int32_t *arch)
{
    return (struct opt)CALL("arch", "80|auto", set_arch, arch, "auto",
                            "kernels of a GPU; 80: the Ampere path on a newer card");
}

bool set_llm(void *self, const char *value, struct err *e)
{
    const struct model *m = *(const struct model **)self = model_find(value, e);
    return m && model_needs_whole(m, e);
}

bool set_machine(void *self, const char *value, struct err *e)
{
    return machine_parse(value, self, e);
}

/* ---- where the tree comes from ------------------------------------------------------------------------- */

static bool set_source(struct cmd_tree *t, enum tree_source_kind kind, const char *text, struct err *e)
{
    if (t->src.kind != SRC_NONE && t->src.kind != kind)
        return err_set(e, "two trees given (expected one of --levels, --tree-file, --gen, --trace)");
    t->src.kind = kind;
    free(t->src.text);
    t->src.text = text ? xstrdup(text) : NULL;
    return true;
}

static bool set_levels(void *self, const char *value, struct err *e)
{
    return set_source(self, SRC_LEVELS, value, e);
}

static bool set_file(void *self, const char *value, struct err *e)
{
    return set_source(self, SRC_FILE, value, e);
}

static bool set_trace(void *self, const char *value, struct err *e)
{
    return set_source(self, SRC_TRACE, value, e);
}

static bool set_gen(void *self, const char *value, struct err *e)
{
    struct cmd_tree *t = self;
    struct tree_source gen;
    t->family_only = strchr(value, ':') == NULL;
    char *text = xasprintf("gen:%s%s", value, t->family_only ? ":1" : "");
    bool good = set_source(t, SRC_GEN, NULL, e) && tree_source_parse(text, &gen, e);
    if (good) {
        t->src.family = gen.family;
        t->src.seed = gen.seed;
    }
    free(text);
    return good;
}

/* "K", and where several trees are allowed "K-L" or "all". */
static bool set_items(void *self, const char *value, struct err *e)
{
    struct cmd_tree *t = self;
    int64_t first = 0, last = TREES_ALL;
    char *copy = xstrdup(value), *rest = copy;
    bool all = t->many && strcmp(value, "all") == 0;
    bool good =
        all || text_i64(t->many ? text_next(&rest, '-') : value, "--tree", 0, INT32_MAX - 1, &first, e);
    if (good && !all) {
        last = first;
        good = !t->many || !rest || text_i64(rest, "--tree", first, INT32_MAX - 1, &last, e);
    }
    free(copy);
    t->src.trace.tree_index = (int32_t)first;
    t->last = (int32_t)last;
    return good;
}

void tree_options(struct options *o, struct cmd_tree *t)
{
    struct trace_opts *of = &t->src.trace;
    const struct opt own[] = {
        HEADING("Where the tree comes from:"),
        CALL("levels", "TEXT", set_levels, t, NULL,
             "nodes per level and tokens per node: \"1,4,16 1024,256,32\""),
        CALL("tree-file", "FILE", set_file, t, NULL,
             "a tree file, ours or FastTree's (see treeattn list formats)"),
        CALL("gen", "FAMILY[:SEED]", set_gen, t, NULL,
             "a seeded tree: bushy, deep, wide, caterpillar, forest, token, degenerate"),
        U64("seed", "N", &t->seed, "1", "seed of whatever is drawn", .given = &t->has_seed),
        I32("q-len", "N", &t->src.q_len, 0, TREE_SOURCE_MAX_Q_LEN, NULL,
            "queries of a request, on the last N tokens of its node: a prompt that is extended, drafted tokens",
            .zero = "as the tree has them"),
        CALL("trace", "SPEC", set_trace, t, NULL,
             "a trace: embedded:reasoning, deft:FILE ... (see treeattn list formats)"),
        CALL("tree", t->many ? "K|K-L|all" : "K", set_items, t, NULL, "which item of the trace (default 0)",
             .given = &t->has_tree),
        I64("prompt", "P", &of->prompt, 0, INT32_MAX, NULL, "tokens of the prompt",
            .zero = "the trace's own"),
        I64("max-seq", "S", &of->max_seq, 0, INT32_MAX, NULL, "sequence length at which the run ends",
            .zero = "none"),
        I64("step", "T", &t->src.step, 1, INT32_MAX, NULL,
            t->many ? "only this decode step of the trace, from 1 (default: all)"
                    : "decode step of the trace, from 1 (default 1)"),
        FLAG("topology", &of->topology, "speculative records: hang tokens as their tree says, not flat"),
        I32("batch", "B", &of->batch, 1, TRACE_MAX_BATCH, NULL, "requests: how many are decoded at a time"),
        I64("step-ms", "MS", &of->step_ms, 0, INT32_MAX, NULL, "requests: milliseconds that a step takes",
            .zero = "nobody waits for an arrival"),
        {0},
    };
    options_add(o, own);
}

bool tree_takes_steps(const struct cmd_tree *t, int64_t steps, struct err *e)
{
    if (steps > 0 && t->src.kind != SRC_TRACE)
        return err_set(e, "--steps belongs to --trace (none was given)");
    return steps == 0 || t->src.step == 0 || err_set(e, "--step and --steps (expected one of them)");
}

bool tree_finish(struct cmd_tree *t, bool need, struct err *e)
{
    struct tree_source *s = &t->src;
    const struct trace_opts *o = &s->trace;
    if (need && s->kind == SRC_NONE && t->has_seed) {
        s->kind = SRC_GEN;
        s->family = (enum family)(t->seed % N_FAMILIES);
        t->family_only = true;
    }
    if (s->kind == SRC_GEN && t->family_only)
        s->seed = t->seed;
    if (s->kind == SRC_TRACE && s->step == 0 && !t->many)
        s->step = 1;
    if (need && s->kind == SRC_NONE)
        return err_set(e, "no tree given (expected --levels, --tree-file, --gen, --seed or --trace)");
    if (s->q_len > 0 && s->kind == SRC_NONE)
        return err_set(e, "--q-len belongs to a tree (expected --levels, --tree-file, --gen or --trace)");
    if (s->kind != SRC_TRACE &&
        (s->step || o->prompt || o->max_seq || t->has_tree || o->topology || o->batch || o->step_ms))
        return err_set(e, "--tree, --prompt, --max-seq, --step, --topology, --batch and --step-ms belong to "
                          "--trace (none was given)");
    if (o->topology && (o->batch || o->step_ms))
        return err_set(
            e, "--topology is for speculative records, --batch and --step-ms for requests (expected one)");
    return true;
}
