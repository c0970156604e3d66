/* cmd_decode.c - `treeattn decode`: the decode step around tree attention, checked on small models, or timed. */
#include "kernels/cuda/host/cuda.h"
#include "ref/model.h"
#include "verify/cli/cmd.h"
#include "verify/replay/decode_job.h"

#include <stdlib.h>
#include <string.h>

struct decode_args {
    struct cmd_tree tree;
    struct cmd_output out;
    const char *decoder, *strategies;
    struct decode_job job;
};

static bool read_options(struct decode_args *a, int argc, char **argv, struct err *e)
{
    struct decode_job *j = &a->job;
    struct options o = {
        .about =
            "Takes a trace through whole decode steps: embedding, norms, products, rotation, paged KV, tree "
            "attention, MLP, head; one strategy after the other. Checked are the attention of every layer "
            "against exact attention, the logits of every query against its sequence decoded alone (no "
            "sharing, no plan), and its best token wherever the bound leaves no doubt.",
        .examples = "decode\n"
                    "decode --decoder cuda --dtype f16 --strategy pat,fasttree\n"
                    "decode --time --trace fewshot:20 --prompt 4000 --max-seq 4400 --step 200 --strategy pat",
        .details = "With --time, tokens of K and V are random, and the host plans a step while the device "
                   "runs the one before. Columns, in microseconds a step: step (wall), device (first kernel "
                   "to last), attention (all layers), idle (device between steps, without moves), pool, "
                   "plan, layout, enqueue (host).\n"
                   "With --gaps also kernels (a step), busy (the time in which some kernel runs, without "
                   "moves) and outside_%, the share of a step that is not busy: launches, uploads, moves, "
                   "waiting for the host."};
    tree_options(&o, &a->tree);
    options_refuse(&o, "levels tree-file gen", "a tree alone is no trace (expected --trace SPEC)");
    options_refuse(&o, "q-len", "steps have the queries of their trace (expected none)");
    options_default(
        &o, "trace", NULL,
        "a trace: embedded:reasoning, deft:FILE ... (default: two small ones; see treeattn list formats)");
    options_default(&o, "step", NULL, "the first decode step that is judged or timed (default 1)");
    const struct opt own[] = {
        HEADING("What is decoded:"),
        TEXT("decoder", "NAME", &a->decoder, NULL, "cpu or cuda (default: cuda where there is a GPU)"),
        CALL("llm", "NAME", set_llm, &j->model, NULL,
             "the model's shapes (see treeattn list models; default: the tiny ones, with --time llama-3-8b)"),
        WORD("dtype", "TYPE", &j->dtype, dtype_name, N_DTYPES, NULL,
             "weights, activations and KV (default: f64 on the CPU, bf16 on a GPU):"),
        TEXT("strategy", "LIST", &a->strategies, NULL, "only these: NAME[:K=V,..],.. (default: all)"),
        I64("page", "N", &j->page, 1, 1 << 16, "16", "tokens of a page"),
        I64("steps", "N", &j->steps, 1, 1 << 30, "12", "steps of the trace"),
        FLAG("graph", &j->graph, "a step's kernels as one CUDA graph"),
        I64("gpus", "N", &j->gpus, 1, CARDS_MOST, "1",
            "spread each step over N GPUs of this host by NCCL; with --decoder cpu over N shares of its "
            "memory"),
        WORD("parallel", "HOW", &j->parallel, parallel_name, N_PARALLEL, "tensor",
             "what --gpus spreads; tensor: heads; context: equal stretches of the tree; subtree: whole "
             "subtrees; "
             "replicate: these, with what is above them on all GPUs; HOW is"),
        arch_option(&j->arch),
        HEADING("Timed:"),
        FLAG("time", &j->time, "time steps instead of checking them"),
        FLAG("gaps", &j->gaps,
             "with --time: the steps once more, every kernel traced by CUPTI: how long none was running"),
        {0},
    };
    options_add(&o, own);
    output_options(&o, &a->out);
    options_refuse(&o, "quiet", "every strategy has a row (expected none)");
    return options_parse(&o, argc, argv, e);
}

/* Options that contradict each other, and what they leave open. */
static bool settle(struct decode_args *a, struct strategy_use **use, struct err *e)
{
    struct decode_job *j = &a->job;
    struct cuda_caps caps;
    struct err no_gpu = {0};
    if (!tree_finish(&a->tree, false, e))
        return false;
    if (j->gpus > 1)
        decoder_several_gpus();
    if (j->time && a->tree.src.kind != SRC_TRACE)
        return err_set(e, "decode: --time: no trace given (expected --trace SPEC)");
    if (j->gpus == 1 && j->parallel != PARALLEL_TENSOR)
        return err_set(e, "decode: --parallel says how a step is spread over GPUs (expected --gpus N)");
    if (j->gpus > 1 && (j->graph || j->gaps))
        return err_set(e, "decode: --graph and --gaps are of one GPU (expected no --gpus)");
    if (j->gaps && !j->time)
        return err_set(e, "decode: --gaps is of timed steps (expected --time)");
    j->src = a->tree.src;
    j->seed = a->tree.seed;
    j->type = decoder_type_find(a->decoder ? a->decoder : cuda_caps(&caps, &no_gpu) ? "cuda" : "cpu", e);
    if (!j->type || !case_strategies(a->strategies, use, &j->n_use, e))
        return false;
    j->use = *use;
    return true;
}

int cmd_decode(int argc, char **argv)
{
    struct err e = {0};
    struct decode_args a = {.job.dtype = N_DTYPES};
    struct decode_job *j = &a.job;
    struct strategy_use *use = NULL;
    struct outfile out;
    bool good =
        read_options(&a, argc, argv, &e) && settle(&a, &use, &e) && outfile_open(&out, a.out.path, &e);
    if (good) {
        char *notes = cmd_notes(strcmp(j->type->name, "cuda") == 0, argc, argv);
        struct printer t = {.f = out.f,
                            .style = a.out.style,
                            .column = j->time ? decode_time_columns : decode_check_columns,
                            .notes = notes};
        j->t = &t;
        cuda_force_arch(j->arch);
        good = j->time ? decode_measure(j, &e) : decode_check(j, &e);
        if (good)
            table_end(&t);
        good = outfile_close(&out, good, &e) && good;
        free(notes);
    }
    free(use);
    tree_source_clear(&a.tree.src);
    if (!good)
        return cmd_error(&e);
    return j->wrong > 0 ? EXIT_FAILED : EXIT_GOOD;
}
