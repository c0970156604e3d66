/* plan_print.c - a plan as text, CSV, JSON and Graphviz. */
#include "sim/plan.h"
#include "ref/json_text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

const char *const storage_name[N_STORAGES] = {"shared", "replicated", "replicated below the first prefix"};
const char *const launch_order_name[N_LAUNCH_ORDERS] = {"serial", "concurrent"};
const char *const slot_o_name[N_SLOT_OS] = {"fp32", "fp16"};
const char *const slot_weight_name[N_SLOT_WEIGHTS] = {"LSE", "maximum and sum"};

static int ascending(const void *a, const void *b)
{
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

/* The group's queries as the tree numbers them, in the order of its slots; the caller frees. */
static int32_t *tree_queries(const struct plan *p, const struct group *g)
{
    int32_t *q = xcalloc((size_t)g->nq, sizeof *q);
    plan_queries(p, g, q);
    for (int32_t k = 0; k < g->nq; k++)
        q[k] = p->nf->orig[q[k]];
    return q;
}

/* "0-2,5"; what ascends one by one is a range. */
static void print_ranges(FILE *f, const int32_t *q, int32_t n)
{
    for (int32_t i = 0, end; i < n; i = end) {
        for (end = i + 1; end < n && q[end] == q[end - 1] + 1; end++)
            continue;
        fprintf(f, "%s%" PRId32, i > 0 ? "," : "", q[i]);
        if (end > i + 1)
            fprintf(f, "-%" PRId32, q[end - 1]);
    }
}

static void print_queries(FILE *f, const struct plan *p, const struct group *g, bool sorted)
{
    int32_t *q = tree_queries(p, g);
    if (sorted)
        qsort(q, (size_t)g->nq, sizeof *q, ascending);
    print_ranges(f, q, g->nq);
    free(q);
}

static void print_run(FILE *f, const struct plan *p, int64_t i, const char *before)
{
    struct run r = plan_tree_run(p, &p->run[i]);
    fprintf(f, "%sn%" PRId32 "[%" PRId64 ",%" PRId64 ")", before, r.node, r.begin, r.end);
}

/* The group's queries that see its run r, ascending, where it has a mask; returns how many. out: [nq] */
static int32_t seeing_queries(const struct plan *p, const struct group *g, int64_t r, int32_t *out)
{
    if (g->mask == MASK_NONE)
        return g->nq;
    int32_t *q = tree_queries(p, g), n = 0;
    for (int32_t k = 0; k < g->nq; k++)
        if (plan_visible(p, g, k, r))
            out[n++] = q[k];
    free(q);
    qsort(out, (size_t)n, sizeof *out, ascending);
    return n;
}

/* Runs in text and CSV: behind those that a mask hides from some queries of the group stand those that see them, "n3[0,10){0,2}". */
static void print_seen_runs(FILE *f, const struct plan *p, const struct group *g)
{
    int32_t *q = xcalloc((size_t)g->nq, sizeof *q);
    for (int64_t r = 0; r < g->run1 - g->run0; r++) {
        print_run(f, p, g->run0 + r, r > 0 ? " " : "");
        int32_t n = seeing_queries(p, g, r, q);
        if (n == g->nq)
            continue;
        fprintf(f, "{");
        print_ranges(f, q, n);
        fprintf(f, "}");
    }
    free(q);
}

static void print_launches(FILE *f, const struct plan *p)
{
    int64_t *groups = xcalloc((size_t)p->n_launches, sizeof *groups),
            *steps = xcalloc((size_t)p->n_launches, sizeof *steps);
    for (int64_t i = 0; i < p->n_groups; i++)
        groups[p->group[i].launch]++;
    for (int64_t i = 0; i < p->n_merges; i++)
        steps[p->merge[i].launch]++;
    for (int32_t l = 0; l < p->n_launches; l++)
        fprintf(f, "launch %" PRId32 " %s (%s): %" PRId64 " groups, %" PRId64 " merge steps\n", l,
                p->launch[l].name, launch_order_name[p->launch[l].order], groups[l], steps[l]);
    free(groups);
    free(steps);
}

void plan_print_text(FILE *f, const struct plan *p)
{
    int64_t onchip = 0;
    for (int64_t i = 0; i < p->n_merges; i++)
        onchip += p->merge[i].onchip != PLAN_NO_SLOT;
    fprintf(f, "plan %s%s%s%s: %" PRId64 " groups, %" PRId32 " launches, %" PRId64 " partials", p->strategy,
            p->params[0] ? " (" : "", p->params, p->params[0] ? ")" : "", p->n_groups, p->n_launches,
            p->n_slots);
    if (onchip > 0)
        fprintf(f, " (%" PRId64 " through memory, %" PRId64 " on chip)", p->n_slots - onchip, onchip);
    fprintf(f, ", %" PRId64 " merges\n", p->n_merges);
    fprintf(f, "storage %s; partials O %s with %s%s\n", storage_name[p->storage], slot_o_name[p->slot_o],
            slot_weight_name[p->slot_weight], p->unfused ? "; unfused, scores are materialised" : "");
    if (p->note[0])
        fprintf(f, "note: %s\n", p->note);
    print_launches(f, p);
    for (int64_t i = 0; i < p->n_groups; i++) {
        const struct group *g = &p->group[i];
        fprintf(f,
                "group %" PRId64 " launch %" PRId32 " tile %" PRId32 "x%" PRId32 " mask %s: %" PRId32
                " queries {",
                i, g->launch, g->tile_m, g->tile_n, mask_name[g->mask], g->nq);
        print_queries(f, p, g, true);
        fprintf(f, "} x %" PRId64 " tokens ", g->n_kv);
        print_seen_runs(f, p, g);
        if (g->slot0 == PLAN_NO_SLOT)
            fprintf(f, " -> output\n");
        else
            fprintf(f, " -> slots %" PRId64 "-%" PRId64 "\n", g->slot0, g->slot0 + g->nq - 1);
    }
    for (int64_t i = 0; i < p->n_merges; i++) {
        const struct merge_step *m = &p->merge[i];
        fprintf(f, "merge query %" PRId32 " launch %" PRId32 ":", p->nf->orig[m->query], m->launch);
        for (int64_t k = m->in0; k < m->in1; k++)
            fprintf(f, " %" PRId64 "%s", p->merge_in[k], p->merge_in[k] == m->onchip ? "(on chip)" : "");
        if (m->out == PLAN_NO_SLOT)
            fprintf(f, " -> output\n");
        else
            fprintf(f, " -> slot %" PRId64 "\n", m->out);
    }
}

void plan_print_csv(FILE *f, const struct plan *p)
{
    fprintf(f, "strategy,group,launch,launch_name,tile_m,tile_n,mask,queries,kv_tokens,query_list,runs,first_"
               "slot\n");
    for (int64_t i = 0; i < p->n_groups; i++) {
        const struct group *g = &p->group[i];
        fprintf(f, "%s,%" PRId64 ",%" PRId32 ",%s,%" PRId32 ",%" PRId32 ",%s,%" PRId32 ",%" PRId64 ",\"",
                p->strategy, i, g->launch, p->launch[g->launch].name, g->tile_m, g->tile_n,
                mask_name[g->mask], g->nq, g->n_kv);
        print_queries(f, p, g, false);
        fprintf(f, "\",\"");
        print_seen_runs(f, p, g);
        fprintf(f, "\",%" PRId64 "\n", g->slot0);
    }
}

/* ---- JSON: all of it ---------------------------------------------------------------------------------- */

/* A record of a list begins: one a line. */
static void next_record(FILE *f, int64_t i)
{
    fputs(i > 0 ? ",\n  {" : "\n  {", f);
}

static void print_json_tree(FILE *f, const struct tree *t)
{
    fprintf(f, "\"tree\": {\"nodes\": [");
    for (int32_t i = 0; i < t->n_nodes; i++) {
        next_record(f, i);
        fprintf(f, "\"parent\": %" PRId32 ", \"len\": %" PRId64 "}", t->parent[i], t->len[i]);
    }
    fprintf(f, "],\n\"queries\": [");
    for (int32_t q = 0; q < t->n_queries; q++) {
        next_record(f, q);
        fprintf(f, "\"node\": %" PRId32 ", \"upto\": %" PRId64 "}", t->query[q].node, t->query[q].upto);
    }
    fprintf(f, "]}");
}

/* A row for each query, a bit for each run. */
static void print_json_mask(FILE *f, const struct plan *p, const struct group *g)
{
    fprintf(f, "[");
    for (int32_t k = 0; k < g->nq; k++) {
        fprintf(f, k > 0 ? ", [" : "[");
        for (int64_t r = 0; r < g->run1 - g->run0; r++)
            fprintf(f, "%s%d", r > 0 ? ", " : "", plan_visible(p, g, k, r));
        fprintf(f, "]");
    }
    fprintf(f, "]");
}

static void print_json_group(FILE *f, const struct plan *p, const struct group *g)
{
    fprintf(f, "\"launch\": %" PRId32 ", \"tile\": [%" PRId32 ", %" PRId32 "], \"queries\": [", g->launch,
            g->tile_m, g->tile_n);
    int32_t *q = tree_queries(p, g);
    for (int32_t k = 0; k < g->nq; k++)
        fprintf(f, "%s%" PRId32, k > 0 ? ", " : "", q[k]);
    free(q);
    fprintf(f, "], \"runs\": [");
    for (int64_t i = g->run0; i < g->run1; i++) {
        struct run r = plan_tree_run(p, &p->run[i]);
        fprintf(f, "%s{\"node\": %" PRId32 ", \"begin\": %" PRId64 ", \"end\": %" PRId64 "}",
                i > g->run0 ? ", " : "", r.node, r.begin, r.end);
    }
    fprintf(f, "], \"mask\": \"%s\", \"visible\": ", mask_name[g->mask]);
    if (g->mask == MASK_NONE)
        fprintf(f, "null");
    else
        print_json_mask(f, p, g);
    fprintf(f, ", \"slots\": ");
    for (int32_t k = 0; k < g->nq && g->slot0 != PLAN_NO_SLOT; k++)
        fprintf(f, "%s%" PRId64, k > 0 ? ", " : "[", g->slot0 + k);
    fprintf(f, g->slot0 == PLAN_NO_SLOT ? "null}" : "]}");
}

/* A slot, or null for what is none. */
static void print_json_slot(FILE *f, int64_t slot)
{
    if (slot == PLAN_NO_SLOT)
        fprintf(f, "null");
    else
        fprintf(f, "%" PRId64, slot);
}

static void print_json_merge(FILE *f, const struct plan *p, const struct merge_step *m)
{
    fprintf(f, "\"launch\": %" PRId32 ", \"query\": %" PRId32 ", \"inputs\": [", m->launch,
            p->nf->orig[m->query]);
    for (int64_t i = m->in0; i < m->in1; i++)
        fprintf(f, "%s%" PRId64, i > m->in0 ? ", " : "", p->merge_in[i]);
    fprintf(f, "], \"on_chip\": ");
    print_json_slot(f, m->onchip);
    fprintf(f, ", \"slot\": ");
    print_json_slot(f, m->out);
    fprintf(f, "}");
}

void plan_print_json(FILE *f, const struct plan *p)
{
    fprintf(f, "{\"format\": \"treeattn-plan\", \"version\": %d,\n\"strategy\": ", PLAN_JSON_VERSION);
    print_json_text(f, p->strategy);
    fprintf(f, ", \"parameters\": ");
    print_json_text(f, p->params);
    fprintf(f, ", \"note\": ");
    print_json_text(f, p->note);
    fprintf(f, ",\n\"storage\": \"%s\", \"unfused\": %s,\n", storage_name[p->storage],
            p->unfused ? "true" : "false");
    fprintf(f, "\"partials\": {\"slots\": %" PRId64 ", \"o\": \"%s\", \"weight\": \"%s\"},\n", p->n_slots,
            slot_o_name[p->slot_o], slot_weight_name[p->slot_weight]);
    print_json_tree(f, p->nf->tree);
    fprintf(f, ",\n\"launches\": [");
    for (int32_t l = 0; l < p->n_launches; l++) {
        next_record(f, l);
        fprintf(f, "\"name\": ");
        print_json_text(f, p->launch[l].name);
        fprintf(f, ", \"order\": \"%s\"}", launch_order_name[p->launch[l].order]);
    }
    fprintf(f, "],\n\"groups\": [");
    for (int64_t i = 0; i < p->n_groups; i++) {
        next_record(f, i);
        print_json_group(f, p, &p->group[i]);
    }
    fprintf(f, "],\n\"merges\": [");
    for (int64_t i = 0; i < p->n_merges; i++) {
        next_record(f, i);
        print_json_merge(f, p, &p->merge[i]);
    }
    fprintf(f, "]}\n");
}

/* ---- Graphviz ------------------------------------------------------------------------------------------ */

static const char *launch_colour(int32_t launch)
{
    static const char *const colour[] = {"#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"};
    return colour[(size_t)launch % (sizeof colour / sizeof colour[0])];
}

/* The queries that see some of a node of the tree; i is its first piece in normal form. */
static void print_below(FILE *f, const struct nform *nf, int32_t i)
{
    int32_t n = nf->q1[i] - nf->q0[i], *q = xcalloc((size_t)n, sizeof *q);
    if (n > 0)
        memcpy(q, nf->orig + nf->q0[i], (size_t)n * sizeof *q);
    qsort(q, (size_t)n, sizeof *q, ascending);
    fprintf(f, n == 0 ? "no query" : n == 1 ? "query " : "queries ");
    print_ranges(f, q, n);
    free(q);
}

/* Launches that have groups or merge steps, each in its colour. */
static void print_legend(FILE *f, const struct plan *p)
{
    uint8_t *used = xcalloc((size_t)p->n_launches, sizeof *used);
    for (int64_t i = 0; i < p->n_groups; i++)
        used[p->group[i].launch] = 1;
    for (int64_t i = 0; i < p->n_merges; i++)
        used[p->merge[i].launch] = 1;
    fprintf(f, "  subgraph cluster_launches {\n    label=\"colours: launches\"; fontname=\"Helvetica\"; "
               "fontsize=10;\n");
    for (int32_t l = 0; l < p->n_launches; l++)
        if (used[l])
            fprintf(f, "    l%" PRId32 " [shape=box, color=\"%s\", label=\"launch %" PRId32 ": %s\"];\n", l,
                    launch_colour(l), l, p->launch[l].name);
    fprintf(f, "  }\n");
    free(used);
}

/* Who writes each slot: a group, or n_groups + the launch of a merge step; -1: nobody. Of a plan that may be wrong. */
static int64_t *slot_writers(const struct plan *p)
{
    int64_t *writer = xcalloc((size_t)p->n_slots, sizeof *writer);
    for (int64_t s = 0; s < p->n_slots; s++)
        writer[s] = -1;
    for (int64_t i = 0; i < p->n_groups; i++)
        for (int32_t k = 0; k < p->group[i].nq && p->group[i].slot0 != PLAN_NO_SLOT; k++)
            writer[p->group[i].slot0 + k] = i;
    for (int64_t i = 0; i < p->n_merges; i++)
        if (p->merge[i].out != PLAN_NO_SLOT)
            writer[p->merge[i].out] = p->n_groups + p->merge[i].launch;
    return writer;
}

/* The merge steps of a launch are one box, to which lines lead from all whose partial results they read. */
static void print_merges(FILE *f, const struct plan *p)
{
    int64_t *writer = slot_writers(p), n = p->n_groups + p->n_launches;
    int64_t *partials = xcalloc((size_t)n, sizeof *partials);
    for (int32_t l = 0; l < p->n_launches; l++) {
        int64_t steps = 0;
        memset(partials, 0, (size_t)n * sizeof *partials);
        for (int64_t i = 0; i < p->n_merges; i++) {
            const struct merge_step *m = &p->merge[i];
            steps += m->launch == l;
            for (int64_t k = m->in0; k < m->in1 && m->launch == l; k++) {
                int64_t s = p->merge_in[k];
                if (s >= 0 && s < p->n_slots && writer[s] >= 0)
                    partials[writer[s]]++;
            }
        }
        if (steps == 0)
            continue;
        fprintf(f,
                "  m%" PRId32 " [shape=hexagon, color=\"%s\", label=\"launch %" PRId32 ": %s\\n%" PRId64
                " merge step%s\"];\n",
                l, launch_colour(l), l, p->launch[l].name, steps, steps == 1 ? "" : "s");
        for (int64_t i = 0; i < n; i++)
            if (partials[i] > 0)
                fprintf(f,
                        "  %s%" PRId64 " -> m%" PRId32 " [color=\"%s\", label=\"%" PRId64 " partial%s\"];\n",
                        i < p->n_groups ? "g" : "m", i < p->n_groups ? i : i - p->n_groups, l,
                        launch_colour(l), partials[i], partials[i] == 1 ? "" : "s");
    }
    free(writer);
    free(partials);
}

enum { FEW_QUERIES = 8 }; /* are named on an edge; more are counted */

/* A dashed line from the group to the node of one of its runs. It says which tokens, and, where a mask hides
 * them from some of the group's queries, which queries see them. */
static void print_reads(FILE *f, const struct plan *p, int64_t gi, int64_t r)
{
    const struct group *g = &p->group[gi];
    struct run x = plan_tree_run(p, &p->run[g->run0 + r]);
    int32_t *q = xcalloc((size_t)g->nq, sizeof *q), seeing = seeing_queries(p, g, r, q);
    fprintf(f, "  g%" PRId64 " -> n%" PRId32 " [style=dashed, dir=none, color=\"%s\", constraint=false, ", gi,
            x.node, launch_colour(g->launch));
    fprintf(f, "label=\"[%" PRId64 ",%" PRId64 ")", x.begin, x.end);
    if (seeing < g->nq)
        fprintf(f, "\\nmask: seen by %" PRId32 " of %" PRId32, seeing, g->nq);
    if (seeing < g->nq && seeing <= FEW_QUERIES) {
        fprintf(f, ": ");
        print_ranges(f, q, seeing);
    }
    fprintf(f, "\"];\n");
    free(q);
}

/* The tree in black, each group a box tied to its runs' nodes, merge steps behind the groups, coloured by launch. */
void plan_print_dot(FILE *f, const struct plan *p)
{
    const struct nform *nf = p->nf;
    fprintf(f, "digraph plan {\n  rankdir=TB; node [fontname=\"Helvetica\", fontsize=10];\n"
               "  edge [fontname=\"Helvetica\", fontsize=8];\n");
    fprintf(f, "  label=\"%s %s: %" PRId64 " groups\";\n", p->strategy, p->params, p->n_groups);
    for (int32_t piece = 0; piece < nf->n_nodes; piece++) {
        int32_t i = nf->src[piece];
        if (nf->off[piece] > 0) /* not the first of its node */
            continue;
        fprintf(f, "  n%" PRId32 " [shape=ellipse, label=\"n%" PRId32 "\\n%" PRId64 " tokens\\n", i, i,
                nf->tree->len[i]);
        print_below(f, nf, piece);
        fprintf(f, "\"];\n");
        if (nf->tree->parent[i] >= 0)
            fprintf(f, "  n%" PRId32 " -> n%" PRId32 ";\n", nf->tree->parent[i], i);
    }
    for (int64_t i = 0; i < p->n_groups; i++) {
        const struct group *g = &p->group[i];
        fprintf(f,
                "  g%" PRId64 " [shape=box, color=\"%s\", label=\"group %" PRId64 ": launch %" PRId32
                "\\n%" PRId32 " %s x %" PRId64 " tokens\\n%" PRId32 "x%" PRId32 "\"];\n",
                i, launch_colour(g->launch), i, g->launch, g->nq, g->nq == 1 ? "query" : "queries", g->n_kv,
                g->tile_m, g->tile_n);
        for (int64_t r = 0; r < g->run1 - g->run0; r++)
            print_reads(f, p, i, r);
    }
    print_merges(f, p);
    print_legend(f, p);
    fprintf(f, "}\n");
}
