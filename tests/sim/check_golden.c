/*
 * check_golden.c - our planners against what the published FastTree and PAT schedulers decide.
 *
 * ../shared/golden (TREEATTN_SHARED names another folder) lists trees with head counts and the decisions;
 * every row must come out letter by letter. Without the folder the tests say that they skip. Histograms are
 * "QUERIESxTOKENS:COUNT ..." in ascending order.
 */
#include "sim/strategies/edge_planners.h"
#include "tests/auto.h"
#include "tests/shared.h"
#include "tests/suites.h"
#include "traces/formats/formats.h"

#include <inttypes.h>

extern const struct strategy strategy_fasttree, strategy_pat;

/* ---- tables ----------------------------------------------------------------------------------------- */

enum { MAX_FIELDS = 20 };

/* Cut a CSV line in place; a quoted field may hold commas, none of ours holds quotes. */
static int split_csv(char *line, char **field)
{
    int n = 0;
    line[strcspn(line, "\r\n")] = 0;
    for (char *p = line; p && n < MAX_FIELDS; n++) {
        char stop = ',';
        if (*p == '"') {
            stop = '"';
            p++;
        }
        field[n] = p;
        p = strchr(p, stop);
        if (p)
            *p++ = 0;
        if (p && stop == '"')
            p = *p ? p + 1 : NULL;
    }
    return n;
}

static char *golden_path(const char *name)
{
    const char *shared = getenv("TREEATTN_SHARED");
    return xasprintf("%s/golden/%s", shared ? shared : "../shared", name);
}

/* The tree of a row: a level string, or a file beside the tables. */
static struct tree *golden_tree(const char *spec)
{
    struct err e = {0};
    struct tree *t;
    if (strncmp(spec, "trees/", 6) == 0) {
        FREED char *path = golden_path(spec);
        t = fasttree_file_read(path, &e);
    } else {
        t = levels_parse(spec, &e);
    }
    ck_assert_msg(t, "%s", e.msg);
    return t;
}

/* Call row(fields) for every row but the heading; returns how many, or -1 with a message if there is no
 * table. */
static int for_rows(const char *table, int fields, void (*row)(char **field))
{
    FREED char *path = golden_path(table);
    FILE *f = fopen(path, "r");
    if (!f) {
        printf("golden: %s is absent, skipped\n", path);
        return -1;
    }
    char *line = NULL, *field[MAX_FIELDS];
    size_t cap = 0;
    int rows = -1;
    while (getline(&line, &cap, f) > 0) {
        ck_assert_int_eq(split_csv(line, field), fields);
        if (rows >= 0)
            row(field);
        rows++;
    }
    free(line);
    fclose(f);
    printf("golden: all %d rows of %s match\n", rows, table);
    return rows;
}

static struct plan_env env_of(const char *h_q, const char *h_kv)
{
    return plan_env_default((struct heads){atoi(h_q), atoi(h_kv), 128, DT_F16});
}

/* ---- writing decisions down as the tables do -------------------------------------------------------- */

struct shape {
    int64_t nq, len;
};

static int by_shape(const void *a, const void *b)
{
    const struct shape *x = a, *y = b;
    if (x->nq != y->nq)
        return x->nq < y->nq ? -1 : 1;
    return x->len < y->len ? -1 : x->len > y->len;
}

static char *histogram(struct shape *s, int64_t n)
{
    char *text = NULL;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    qsort(s, (size_t)n, sizeof *s, by_shape);
    for (int64_t i = 0, j; i < n; i = j) {
        for (j = i; j < n && by_shape(&s[i], &s[j]) == 0;)
            j++;
        fprintf(f, "%s%" PRId64 "x%" PRId64 ":%" PRId64, i ? " " : "", s[i].nq, s[i].len, j - i);
    }
    fclose(f);
    return text;
}

static char *plan_histogram(const struct plan *p)
{
    FREED struct shape *s = xcalloc((size_t)p->n_groups, sizeof *s);
    for (int64_t i = 0; i < p->n_groups; i++)
        s[i] = (struct shape){p->group[i].nq, p->group[i].n_kv};
    char *text = histogram(s, p->n_groups);
    return text;
}

static char *vnode_histogram(const struct nform *nf, const uint8_t *joined)
{
    FREED int32_t *nq = xcalloc((size_t)nf->n_nodes, sizeof *nq);
    FREED int64_t *len = xcalloc((size_t)nf->n_nodes, sizeof *len);
    FREED struct shape *s = xcalloc((size_t)nf->n_nodes, sizeof *s);
    int64_t n = 0;
    vnode_sizes(nf, joined, nq, len);
    for (int32_t v = 0; v < nf->n_nodes; v++) {
        ck_assert_int_eq(nq[v], vtree_nq(nf, joined, v));
        ck_assert_int_eq(len[v], vtree_len(nf, joined, v));
        if (nq[v] > 0 && len[v] > 0)
            s[n++] = (struct shape){nq[v], len[v]};
    }
    char *text = histogram(s, n);
    return text;
}

/* "0x3 1x2": runs of bits in node order. */
static char *run_lengths(const uint8_t *bit, int32_t n)
{
    char *text = NULL;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    for (int32_t i = 0, j; i < n; i = j) {
        for (j = i; j < n && bit[j] == bit[i];)
            j++;
        fprintf(f, "%s%dx%d", i ? " " : "", bit[i], j - i);
    }
    fclose(f);
    return text;
}

static void expect(char *got, const char *want, char **field, const char *what)
{
    ck_assert_msg(strcmp(got, want) == 0, "%s, heads %s/%s: %s is %s, published: %s", field[0], field[1],
                  field[2], what, got, want);
    free(got);
}

/* ---- FastTree --------------------------------------------------------------------------------------- */

/* tree,q_heads,kv_heads,q_tile_large,q_tile_small,alpha,beta,gamma,edges_assigned_1,edge_assignment_rle,
 * groups */
static void edges_row(char **field)
{
    AUTO_WITH_TREE nf = nform_new(golden_tree(field[0]));
    struct plan_env env = env_of(field[1], field[2]);
    struct fasttree_cost c = fasttree_default_cost(RULE_ARTIFACT, heads_gqa(&env.heads));
    ck_assert_int_eq(c.tile_q[0], atoi(field[3]));
    ck_assert_int_eq(c.tile_q[1], atoi(field[4]));
    c.alpha = atof(field[5]);
    c.beta = atof(field[6]);
    c.gamma = atof(field[7]);
    FREED uint8_t *joined = xcalloc((size_t)nf->n_nodes, 1);
    fasttree_edges(nf, &c, joined);
    int64_t ones = 0;
    for (int32_t v = 0; v < nf->n_nodes; v++)
        ones += joined[v];
    expect(xasprintf("%" PRId64, ones), field[8], field, "number of joined edges");
    expect(run_lengths(joined, nf->n_nodes), field[9], field, "edge assignment");
    expect(vnode_histogram(nf, joined), field[10], field, "groups");
}

TEST(fasttree_edges_as_published)
{
    int rows = for_rows("fasttree_edges.csv", 11, edges_row);
    ck_assert_int_ne(rows, 0);
}

static char *pair(int64_t a, int64_t b)
{
    return xasprintf("%" PRId64 " %" PRId64, a, b);
}

/* tree,q_heads,kv_heads,q_tile_large,q_tile_small,final_q_tiles,final_kv_splits,parallelism_per_phase,
 * ctas_per_phase,edge_assignment_rle,ctas */
static void ctas_row(char **field)
{
    AUTO_WITH_TREE nf = nform_new(golden_tree(field[0]));
    struct plan_env env = env_of(field[1], field[2]);
    struct strategy_use use = strategy_default(&strategy_fasttree);
    use.opt[0] = RULE_ARTIFACT;
    CLEARED(fasttree_prep) f = fasttree_prepare(nf, &env, use.s, use.opt);
    expect(pair(f.cost.tile_q[0], f.cost.tile_q[1]), field[5], field, "final query tiles");
    expect(pair(f.split[0], f.split[1]), field[6], field, "final KV splits");
    expect(pair(f.parallelism[0], f.parallelism[1]), field[7], field, "parallelism");
    expect(run_lengths(f.joined, nf->n_nodes), field[9], field, "edge assignment");

    char why[WHY_MAX];
    AUTO(plan) p = strategy_plan(&use, nf, &env, why);
    ck_assert_msg(p, "%s", why);
    int64_t ctas[2] = {0, 0};
    for (int64_t i = 0; i < p->n_groups; i++)
        ctas[strcmp(p->launch[p->group[i].launch].name, "large tiles") != 0]++;
    expect(pair(ctas[0], ctas[1]), field[8], field, "CTAs per phase");
    expect(plan_histogram(p), field[10], field, "CTAs");
}

TEST(fasttree_ctas_as_published)
{
    int rows = for_rows("fasttree_ctas.csv", 11, ctas_row);
    ck_assert_int_ne(rows, 0);
}

/* ---- PAT -------------------------------------------------------------------------------------------- */

/* tree,q_heads,kv_heads,max_queries_per_pack,rule,packs,kv_tokens_loaded,query_partials,packs */
static void packs_row(char **field)
{
    AUTO_WITH_TREE nf = nform_new(golden_tree(field[0]));
    struct plan_env env = env_of(field[1], field[2]);
    FREED char *text = xasprintf("pat:rule=%s,split=0", field[4]);
    struct strategy_use use = strategy_of(text);
    ck_assert_int_eq((int)use.opt[1] / heads_gqa(&env.heads), atoi(field[3]));
    char why[WHY_MAX];
    AUTO(plan) p = strategy_plan(&use, nf, &env, why);
    ck_assert_msg(p, "%s", why);
    int64_t tokens = 0, partials = 0;
    for (int64_t i = 0; i < p->n_groups; i++) {
        tokens += p->group[i].n_kv;
        partials += p->group[i].nq;
    }
    expect(xasprintf("%" PRId64, p->n_groups), field[5], field, "number of packs");
    expect(xasprintf("%" PRId64, tokens), field[6], field, "KV tokens loaded");
    expect(xasprintf("%" PRId64, partials), field[7], field, "partials");
    expect(plan_histogram(p), field[8], field, "packs");
}

TEST(pat_packs_as_published)
{
    int rows = for_rows("pat_packs.csv", 9, packs_row);
    ck_assert_int_ne(rows, 0);
}

/* The released scheduler at work: what the notes of ../shared/peers say of the packs that were timed. Columns
 * set,idx,N,C,hq,hk,dtype,B,T,method,cold_us,hot_us,timing,rel_l2,status,lb_us,cold_over_lb,kv_MB,note; a note says
 * "C rounded up to C; page=.. kernels=.. ctas=.. maxsplit=..", the first part where lengths were no whole pages. */
static bool peer_row(char *line)
{
    char *field[MAX_FIELDS], why[WHY_MAX];
    if (split_csv(line, field) < 19 || strcmp(field[9], "pat") != 0 || strcmp(field[14], "ok") != 0)
        return false;
    const char *rounded = "C rounded up to ";
    char *note = field[18], *lengths = field[3];
    if (strncmp(note, rounded, strlen(rounded)) == 0) {
        lengths = note + strlen(rounded);
        note = strchr(note, ';');
        *note++ = 0;
    }
    const char *page = strstr(note, "page="), *ctas = strstr(note, "ctas="),
               *split = strstr(note, "maxsplit=");
    ck_assert(page && ctas && split);
    FREED char *levels = xasprintf("%s %s", field[2], lengths),
               *text = xasprintf("pat:rule=artifact,block=%d", atoi(page + strlen("page=")));
    struct strategy_use use = strategy_of(text);
    AUTO(tree) t = golden_tree(levels);
    AUTO(nform) nf = nform_new(t);
    struct plan_env env = env_of(field[4], field[5]);
    AUTO(plan) p = strategy_plan(&use, nf, &env, why);
    ck_assert_msg(p, "%s", why);
    int32_t *partials = xcalloc((size_t)nf->n_queries, sizeof *partials), most = 0;
    for (int64_t i = 0; i < p->n_qr; i++)
        for (int32_t q = p->qr[i].begin; q < p->qr[i].end; q++)
            most = ++partials[q] > most ? partials[q] : most;
    ck_assert_msg(p->n_groups == atoi(ctas + strlen("ctas=")) && most == atoi(split + strlen("maxsplit=")),
                  "%s at %s/%s: %" PRId64 " packs, at most %d a query (expected %s)", levels, field[4],
                  field[5], p->n_groups, most, ctas);
    free(partials);
    return true;
}

TEST(pat_packs_as_timed)
{
    static const char *const table[] = {"h200_pat_fig9_a.csv", "h200_pat_fig9_b.csv",
                                        "h200_fasttree_fig9.csv", "h200_speculative.csv"};
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        FREED char *name = xasprintf("../peers/%s", table[i]), *path = golden_path(name), *line = NULL;
        FILE *f = fopen(path, "r");
        size_t cap = 0;
        int rows = 0;
        while (f && getline(&line, &cap, f) > 0)
            rows += peer_row(line);
        if (f)
            fclose(f);
        printf("golden: %s%s\n", path, f ? "" : " is absent, skipped");
        ck_assert(!f || rows > 0);
    }
}
