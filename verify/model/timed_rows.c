#include "verify/model/timed_rows.h"

#include "ref/file.h"
#include "verify/io/text.h"

#include <stdlib.h>
#include <string.h>

/* ---- names -------------------------------------------------------------------------------------------- */

static uint64_t hash(const char *s)
{
    uint64_t h = UINT64_C(14695981039346656037); /* FNV-1a */
    for (; *s; s++)
        h = (h ^ (unsigned char)*s) * UINT64_C(1099511628211);
    return h;
}

static int32_t *find_slot(const struct names *s, const char *name)
{
    uint64_t at = hash(name) & (uint64_t)(s->n_slots - 1);
    while (s->slot[at] && strcmp(s->name[s->slot[at] - 1], name) != 0)
        at = (at + 1) & (uint64_t)(s->n_slots - 1);
    return &s->slot[at];
}

int32_t names_add(struct names *s, const char *name)
{
    if (2 * (s->n + 1) > s->n_slots) {
        free(s->slot);
        s->n_slots = s->n_slots ? 2 * s->n_slots : 64;
        s->slot = xcalloc((size_t)s->n_slots, sizeof *s->slot);
        for (int32_t i = 0; i < s->n; i++)
            *find_slot(s, s->name[i]) = i + 1;
    }
    int32_t *slot = find_slot(s, name);
    if (!*slot) {
        s->name = xgrow(s->name, &s->cap, s->n + 1, sizeof *s->name);
        s->name[s->n] = xstrdup(name);
        *slot = ++s->n;
    }
    return *slot - 1;
}

void names_clear(struct names *s)
{
    for (int32_t i = 0; i < s->n; i++)
        free(s->name[i]);
    free(s->name);
    free(s->slot);
    *s = (struct names){0};
}

/* ---- one row ------------------------------------------------------------------------------------------ */

static bool read_dtype(const struct csv *c, int64_t row, int32_t column, enum dtype *out, struct err *e)
{
    const char *s = csv_peek(c, row, column);
    return dtype_parse(strcmp(s, "fp16") == 0 ? "f16" : s, out) ||
           csv_error(e, c->name, c->line[row], "dtype is '%.40s' (expected f16, fp16, bf16, f32 or f64)", s);
}

/* What a configuration is called: all that a time depends on but strategy and kernel. */
static char *config_name(const struct timed_row *r)
{
    char *tree = tree_source_print(&r->tree);
    char *name = xasprintf("%s %d/%d %d %s", tree, (int)r->heads.h_q, (int)r->heads.h_kv, (int)r->heads.d,
                           dtype_name[r->heads.dtype]);
    free(tree);
    return name;
}

/* What plan a released kernel runs, by the names of shared/peers/README.md: of several strategies the first that applies to the
 * tree. What is not here cannot be planned: pat_pub is pat with its streams created anew for every call. */
static const struct peer {
    const char *method, *strategies;
} peers[] = {
    {"pat", "pat:rule=artifact"},
    {"ft", "fasttree:rule=artifact fasttree"},
    {"ft_node", "fasttree-no-greedy:rule=artifact fasttree-no-greedy"},
    {"deft", "deft-flatten:rule=artifact"},
    {"fi_cascade", "cascade"},
    {"fi_decode", "radix-attention"},
    {"fi_tc", "flashinfer"},
    {"sdpa", "flash-decoding"},
};

static const struct peer *find_peer(const char *method)
{
    for (size_t i = 0; i < sizeof peers / sizeof peers[0]; i++)
        if (strcmp(peers[i].method, method) == 0)
            return &peers[i];
    return NULL;
}

/* Up to two strategies, with a blank between them. */
static bool parse_uses(const char *text, struct strategy_use use[2], struct err *e)
{
    char *copy = xstrdup(text), *rest = copy;
    use[0].s = use[1].s = NULL;
    bool good = true;
    for (int i = 0; i < 2 && rest && good; i++)
        good = strategy_parse(text_next(&rest, ' '), &use[i], e);
    free(copy);
    return good;
}

static bool check_row(const struct timed_row *r, struct err *e)
{
    if (r->heads.h_q < 1 || r->heads.h_kv < 1 || r->heads.h_q % r->heads.h_kv != 0)
        return err_set(e, "heads %d/%d (expected query heads that are a multiple of KV heads)",
                       (int)r->heads.h_q, (int)r->heads.h_kv);
    return r->seconds > 0 || err_set(e, "a time of %g s (expected more than 0)", r->seconds);
}

/* ---- kinds of file ------------------------------------------------------------------------------------ */

enum { N, C, HQ, HK, DTYPE, METHOD, COLD, STATUS, TIMING, N_PEER_COLUMNS };
static const char *const peer_column[] = {"N",      "C",       "hq",     "hk",    "dtype",
                                          "method", "cold_us", "status", "timing"};

/* What a reader of rows makes of one: taken, left out, or *e. */
enum taken { TAKEN, LEFT_OUT, BAD };

static enum taken peer_row(const struct csv *c, int64_t i, const int32_t *at, struct timed_row *r,
                           const char **kernel, struct err *e)
{
    struct err why = {0};
    if (strcmp(csv_peek(c, i, 0), "bw") == 0) /* what the card reached in that run */
        return LEFT_OUT;
    *kernel = csv_cell(c, i, at[METHOD], e);
    if (!*kernel)
        return BAD;
    const struct peer *p = find_peer(*kernel);
    if (!*csv_peek(c, i, at[STATUS])) {
        csv_error(e, c->name, c->line[i], "no status (expected ok, or why there is no time)");
        return BAD;
    }
    if (!p || strcmp(csv_peek(c, i, at[STATUS]), "ok") != 0 ||
        strcmp(csv_peek(c, i, at[TIMING]), "graph") != 0)
        return LEFT_OUT;
    int64_t h_q, h_kv;
    double us;
    if (!csv_i64(c, i, at[HQ], 1, 1 << 20, &h_q, e) || !csv_i64(c, i, at[HK], 1, 1 << 20, &h_kv, e) ||
        !csv_f64(c, i, at[COLD], &us, e) || !read_dtype(c, i, at[DTYPE], &r->heads.dtype, e))
        return BAD;
    r->heads.h_q = (int32_t)h_q;
    r->heads.h_kv = (int32_t)h_kv;
    r->heads.d = 128; /* shared/peers/README.md: all rows */
    r->seconds = us * 1e-6;
    char *source = xasprintf("levels:%s_%s", csv_peek(c, i, at[N]), csv_peek(c, i, at[C]));
    bool good = tree_source_parse(source, &r->tree, &why) && parse_uses(p->strategies, r->use, &why) &&
                check_row(r, &why);
    free(source);
    if (!good)
        csv_error(e, c->name, c->line[i], "%s", why.msg);
    return good ? TAKEN : BAD;
}

enum { TREE, HEADS, D, M_DTYPE, STRATEGY, TIME, N_OWN_COLUMNS };
static const char *const own_column[] = {"tree", "heads", "d", "dtype", "strategy", "time_us"};

static enum taken own_row(const struct csv *c, int64_t i, const int32_t *at, struct timed_row *r,
                          const char **kernel, struct err *e)
{
    struct err why = {0};
    int32_t verdict = csv_find(c, "verdict"), named = csv_find(c, "kernel");
    const char *judged = verdict >= 0 ? csv_peek(c, i, verdict) : "PASS";
    if (strcmp(judged, "PASS") != 0 && strcmp(judged, "MARGINAL") != 0)
        return LEFT_OUT;
    *kernel = named >= 0 ? csv_peek(c, i, named) : "all";
    int64_t d;
    double us;
    if (!csv_i64(c, i, at[D], 1, PROBLEM_MAX_D, &d, e) || !csv_f64(c, i, at[TIME], &us, e) ||
        !read_dtype(c, i, at[M_DTYPE], &r->heads.dtype, e))
        return BAD;
    r->heads.d = (int32_t)d;
    r->seconds = us * 1e-6;
    bool good = tree_source_parse(csv_peek(c, i, at[TREE]), &r->tree, &why) &&
                text_heads(csv_peek(c, i, at[HEADS]), &r->heads.h_q, &r->heads.h_kv, &why) &&
                strategy_parse(csv_peek(c, i, at[STRATEGY]), &r->use[0], &why) && check_row(r, &why);
    r->use[1].s = NULL;
    if (!good)
        csv_error(e, c->name, c->line[i], "%s", why.msg);
    return good ? TAKEN : BAD;
}

static const struct kind {
    const char *const *column;
    int32_t n;
    enum taken (*row)(const struct csv *c, int64_t i, const int32_t *at, struct timed_row *r,
                      const char **kernel, struct err *e);
} kinds[] = {{own_column, N_OWN_COLUMNS, own_row}, {peer_column, N_PEER_COLUMNS, peer_row}};
enum { MAX_COLUMNS = 16 };

/* Times of two cards are not one set of rows. */
static bool check_device(const struct csv *c, int64_t i, struct timed_rows *m, struct err *e)
{
    int32_t at = csv_find(c, "device");
    if (at < 0)
        return true;
    const char *device = csv_peek(c, i, at);
    return names_add(&m->devices, device) == 0 ||
           csv_error(e, c->name, c->line[i], "device '%.40s' after '%.40s' (expected rows of one card)",
                     device, m->devices.name[0]);
}

/* Append a row that was taken; takes its tree over. */
static bool add_row(struct timed_rows *m, struct timed_row *r, const char *kernel, struct err *e)
{
    struct err why = {0};
    char *config = config_name(r);
    int32_t known = m->configs.n;
    r->config = names_add(&m->configs, config);
    r->kernel = names_add(&m->kernels, kernel);
    free(config);
    m->row = xgrow(m->row, &m->cap, m->n + 1, sizeof *m->row);
    m->row[m->n++] = *r;
    struct tree *t =
        r->config == known ? tree_source_load(&r->tree, &why) : NULL; /* a wrong tree is found here */
    tree_free(t);
    return !why.code || csv_error(e, r->file, r->line, "%s", why.msg);
}

static bool read_rows(const struct csv *c, const struct kind *kind, struct timed_rows *m, struct err *e)
{
    int32_t at[MAX_COLUMNS];
    for (int32_t k = 0; k < kind->n; k++)
        if ((at[k] = csv_column(c, kind->column[k], e)) < 0)
            return false;
    int32_t number = names_add(&m->files, c->name);
    for (int64_t i = 0; i < c->n_rows; i++) {
        struct timed_row r = {.file = m->files.name[number], .line = c->line[i]};
        const char *kernel;
        enum taken taken = kind->row(c, i, at, &r, &kernel, e);
        m->left_out += taken == LEFT_OUT;
        if (taken != TAKEN)
            tree_source_clear(&r.tree);
        if (taken == BAD || (taken == TAKEN && !(add_row(m, &r, kernel, e) && check_device(c, i, m, e))))
            return false;
    }
    return true;
}

bool timed_rows_parse(const char *text, size_t size, const char *name, struct timed_rows *m, struct err *e)
{
    struct csv c;
    if (!csv_parse(text, size, name, &c, e))
        return false;
    const struct kind *kind = &kinds[csv_find(&c, "method") >= 0];
    int64_t before = m->n;
    bool good = (!c.cut || csv_error(e, name, c.line[c.n_rows - 1],
                                     "the last row has no end (expected a whole file)")) &&
                csv_words(&c, "verdict", CSV_VERDICTS, e) && read_rows(&c, kind, m, e);
    if (good && m->n == before)
        good = csv_error(e, name, 1, "no row can be used (expected rows of measured times that passed)");
    csv_clear(&c);
    return good;
}

bool timed_rows_read(const char *path, struct timed_rows *m, struct err *e)
{
    size_t size;
    char *text = file_slurp(path, CSV_MAX_BYTES, &size, e);
    bool good = text && timed_rows_parse(text, size, path, m, e);
    free(text);
    return good;
}

void timed_rows_clear(struct timed_rows *m)
{
    for (int64_t i = 0; i < m->n; i++)
        tree_source_clear(&m->row[i].tree);
    free(m->row);
    names_clear(&m->configs);
    names_clear(&m->kernels);
    names_clear(&m->files);
    names_clear(&m->devices);
    *m = (struct timed_rows){0};
}

/* ---- plans -------------------------------------------------------------------------------------------- */

struct nform *timed_row_nform(const struct timed_row *r, struct err *e)
{
    struct err why = {0};
    struct tree *tree = tree_source_load(&r->tree, &why);
    if (tree)
        return nform_new(tree);
    csv_error(e, r->file, r->line, "%s", why.msg);
    return NULL;
}

struct plan *timed_row_plan(const struct timed_row *r, const struct nform *nf, struct err *e)
{
    struct plan_env env = plan_env_default(r->heads);
    char not [WHY_MAX] = "";
    struct plan *p = NULL;
    for (int i = 0; i < 2 && !p && r->use[i].s; i++)
        p = strategy_plan(&r->use[i], nf, &env, not );
    if (!p)
        csv_error(e, r->file, r->line, "%s does not apply: %s (expected a strategy that does)",
                  r->use[0].s->name, not );
    return p;
}
