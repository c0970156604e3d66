#include "verify/cli/tree_options.h"
#include "verify/io/text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
    KEY_LEVELS = 0x100,
    KEY_FILE,
    KEY_GEN,
    KEY_TRACE,
    KEY_TREE,
    KEY_PROMPT,
    KEY_MAX_SEQ,
    KEY_STEP,
    KEY_TOPOLOGY,
    KEY_BATCH,
    KEY_STEP_MS,
    KEY_SEED
};

static const struct argp_option options[] = {
    {.doc = "Where the tree comes from:", .group = 1},
    {"levels", KEY_LEVELS, "TEXT", 0, "nodes per level and tokens per node: \"1,4,16 1024,256,32\"", 1},
    {"tree-file", KEY_FILE, "FILE", 0, "a tree file, ours or FastTree's (see treeattn list formats)", 1},
    {"gen", KEY_GEN, "FAMILY[:SEED]", 0,
     "a seeded tree: bushy, deep, wide, caterpillar, forest, token, degenerate", 1},
    {"seed", KEY_SEED, "N", 0, "seed of whatever is drawn (default 1)", 1},
    {"trace", KEY_TRACE, "SPEC", 0,
     "a step of a trace: embedded:reasoning, deft:FILE ... (see treeattn list formats)", 1},
    {"tree", KEY_TREE, "K", 0, "which item of the trace (default 0); sim: or K-L, or all", 1},
    {"prompt", KEY_PROMPT, "P", 0, "tokens of the prompt (0, default: the trace's own)", 1},
    {"max-seq", KEY_MAX_SEQ, "S", 0, "sequence length at which the run ends (0, default: none)", 1},
    {"step", KEY_STEP, "T", 0, "decode step of the trace, from 1 (default 1; sim: all of them)", 1},
    {"topology", KEY_TOPOLOGY, NULL, 0, "speculative records: hang tokens as their tree says, not flat", 1},
    {"batch", KEY_BATCH, "B", 0, "requests: how many are decoded at a time", 1},
    {"step-ms", KEY_STEP_MS, "MS", 0,
     "requests: milliseconds a step takes (0, default: nobody waits for an arrival)", 1},
    {0},
};

static bool set_source(struct tree_source_cli *cli, enum tree_source_kind kind, const char *text)
{
    if (cli->src.kind != SRC_NONE && cli->src.kind != kind)
        return err_set(cli->err, "two trees given (expected one of --levels, --tree-file, --gen, --trace)");
    cli->src.kind = kind;
    free(cli->src.text);
    cli->src.text = text ? xstrdup(text) : NULL;
    return true;
}

static bool set_length(struct tree_source_cli *cli, const char *arg, const char *option, const char *zero,
                       int64_t *out)
{
    return text_i64(arg, option, 0, TREE_SOURCE_MAX_LEN, out, NULL) ||
           err_set(cli->err, "%s '%.60s' (expected a whole number from 0 to %d; 0: %s)", option, arg,
                   TREE_SOURCE_MAX_LEN, zero);
}

static bool set_gen(struct tree_source_cli *cli, const char *arg)
{
    if (!set_source(cli, SRC_GEN, NULL))
        return false;
    cli->family_only = strchr(arg, ':') == NULL;
    char *text = xasprintf("gen:%s%s", arg, cli->family_only ? ":1" : "");
    struct tree_source gen;
    bool good = tree_source_parse(text, &gen, cli->err);
    free(text);
    if (good) {
        cli->src.family = gen.family;
        cli->src.seed = gen.seed;
    }
    return good;
}

/* "K", and where several trees are allowed "K-L" or "all". */
static bool set_trees(struct tree_source_cli *cli, const char *arg)
{
    int64_t first = 0, last = TREES_ALL;
    char *copy = xstrdup(arg), *rest = copy;
    bool all = cli->many && strcmp(arg, "all") == 0;
    bool good = all || text_i64(cli->many ? text_next(&rest, '-') : arg, "--tree", 0, INT32_MAX - 1, &first,
                                cli->err);
    if (good && !all) {
        last = first;
        good = !cli->many || !rest || text_i64(rest, "--tree", first, INT32_MAX - 1, &last, cli->err);
    }
    free(copy);
    cli->src.trace.tree_index = (int32_t)first;
    cli->tree_last = (int32_t)last;
    return good;
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
    struct tree_source_cli *cli = state->input;
    int64_t number;
    bool good = true;
    switch (key) {
    case KEY_LEVELS:
        good = set_source(cli, SRC_LEVELS, arg);
        break;
    case KEY_FILE:
        good = set_source(cli, SRC_FILE, arg);
        break;
    case KEY_GEN:
        good = set_gen(cli, arg);
        break;
    case KEY_TRACE:
        good = set_source(cli, SRC_TRACE, arg);
        break;
    case KEY_TREE:
        good = set_trees(cli, arg);
        break;
    case KEY_PROMPT:
        good = set_length(cli, arg, "--prompt", "the trace's own", &cli->src.trace.prompt);
        break;
    case KEY_MAX_SEQ:
        good = set_length(cli, arg, "--max-seq", "none", &cli->src.trace.max_seq);
        break;
    case KEY_STEP:
        good = text_i64(arg, "--step", 1, TREE_SOURCE_MAX_STEP, &cli->src.step, cli->err);
        break;
    case KEY_BATCH:
        good = text_i64(arg, "--batch", 1, TRACE_MAX_BATCH, &number, cli->err);
        if (good)
            cli->src.trace.batch = (int32_t)number;
        break;
    case KEY_STEP_MS:
        good = text_i64(arg, "--step-ms", 0, INT32_MAX, &cli->src.trace.step_ms, cli->err);
        break;
    case KEY_TOPOLOGY:
        cli->src.trace.topology = true;
        break;
    case KEY_SEED:
        cli->has_seed = true;
        good = text_u64(arg, "--seed", &cli->seed, cli->err);
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return good ? 0 : EINVAL;
}

const struct argp tree_source_argp = {.options = options, .parser = parse_option};

bool tree_source_takes_steps(const struct tree_source_cli *cli, int64_t steps, struct err *e)
{
    if (steps > 0 && cli->src.kind != SRC_TRACE)
        return err_set(e, "--steps belongs to --trace (none was given)");
    return steps == 0 || cli->src.step == 0 || err_set(e, "--step and --steps (expected one of them)");
}

bool tree_source_finish(struct tree_source_cli *cli, bool need, struct err *e)
{
    struct tree_source *s = &cli->src;
    if (!cli->has_seed)
        cli->seed = 1;
    if (need && s->kind == SRC_NONE && cli->has_seed) {
        s->kind = SRC_GEN;
        s->family = (enum family)(cli->seed % N_FAMILIES);
        cli->family_only = true;
    }
    if (s->kind == SRC_GEN && cli->family_only)
        s->seed = cli->seed;
    if (s->kind == SRC_TRACE && s->step == 0 && !cli->many)
        s->step = 1;
    if (need && s->kind == SRC_NONE)
        return err_set(e, "no tree given (expected --levels, --tree-file, --gen, --seed or --trace)");
    const struct trace_opts *o = &s->trace;
    if (s->kind != SRC_TRACE && (s->step || o->prompt || o->max_seq || o->tree_index || cli->tree_last ||
                                 o->topology || o->batch || o->step_ms))
        return err_set(
            e, "--tree, --prompt, --max-seq, --step, --topology, --batch and --step-ms belong to --trace "
               "(none was given)");
    if (o->topology && (o->batch || o->step_ms))
        return err_set(
            e, "--topology is for speculative records, --batch and --step-ms for requests (expected one)");
    return true;
}
