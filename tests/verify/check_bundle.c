/*
 * check_bundle.c - steps of an engine: the tree that its page tables are made of comes back, its numbers are judged, and no file
 * does harm.
 */
#include "verify/bundle/bundle.h"
#include "ref/rng.h"
#include "verify/cases/case.h"

#include "tests/auto.h"
#include "tests/shared.h"
#include "tests/suites.h"

#include <unistd.h>

/* ---- trees ---------------------------------------------------------------------------------------------- */

enum { PAGE = 16, REQUESTS = 64 };

static int64_t draw(uint64_t seed, uint64_t *at, int64_t n)
{
    return (int64_t)(rng_u64(seed, 7, (*at)++) % (uint64_t)n);
}

/* Three levels below a root: whole pages of PAGE tokens on inner nodes, anything on leaves, one query each. */
static struct tree *drawn_tree(uint64_t seed)
{
    uint64_t at = 0;
    int32_t first = (int32_t)draw(seed, &at, 5) + 2, second = (int32_t)draw(seed, &at, 4) + 2,
            inner = 1 + first + first * second;
    struct tree *t = tree_new(inner + REQUESTS, REQUESTS);
    for (int32_t i = 0; i < inner; i++) {
        t->parent[i] = i == 0 ? -1 : i <= first ? 0 : 1 + (i - 1 - first) / second;
        t->len[i] = PAGE * (1 + draw(seed, &at, 9));
    }
    for (int32_t r = 0; r < REQUESTS; r++) { /* two children at least for each inner node */
        int32_t at_least =
            r < 2 * first * second ? 1 + first + r / 2 : 1 + first + (int32_t)draw(seed, &at, first * second);
        t->parent[inner + r] = at_least;
        t->len[inner + r] = 1 + draw(seed, &at, 5 * PAGE);
        t->query[r] = (struct query){inner + r, t->len[inner + r]};
    }
    return t;
}

/* Lists of pages that lie anywhere in a pool: of the queries' paths. */
static struct request_pages lists_of(const struct tree *t, uint64_t seed)
{
    struct request_pages x = {.n_requests = t->n_queries, .page_size = PAGE};
    int64_t pages = 0, n = 0;
    FREED int64_t *off = xcalloc((size_t)t->n_nodes + 1, sizeof *off);
    for (int32_t i = 0; i < t->n_nodes; i++)
        off[i + 1] = off[i] + ceil_div(t->len[i], PAGE);
    pages = off[t->n_nodes];
    FREED int32_t *physical = pages_shuffled(2 * pages, seed, 5),
                  *path = xcalloc((size_t)t->n_nodes, sizeof *path);
    x.ptr = xcalloc((size_t)t->n_queries + 1, sizeof *x.ptr);
    x.len = xcalloc((size_t)t->n_queries, sizeof *x.len);
    x.q_len = xcalloc((size_t)t->n_queries, sizeof *x.q_len);
    x.page = xcalloc((size_t)(pages * t->n_queries), sizeof *x.page);
    for (int32_t r = 0; r < t->n_queries; r++) {
        int32_t depth = tree_path(t->parent, t->query[r].node, path);
        for (int32_t k = 0; k < depth; k++) {
            x.len[r] += k == depth - 1 ? t->query[r].upto : t->len[path[k]];
            for (int64_t i = off[path[k]]; i < off[path[k] + 1]; i++)
                x.page[n++] = physical[i];
        }
        x.q_len[r] = 1;
        x.ptr[r + 1] = n;
    }
    return x;
}

/* The same tree, whatever its nodes are called: paths of the same lengths, and one name for each node. */
static void check_same(const struct tree *a, const struct tree *b)
{
    FREED int32_t *name = xcalloc((size_t)a->n_nodes, sizeof *name),
                  *p = xcalloc((size_t)a->n_nodes, sizeof *p), *q = xcalloc((size_t)b->n_nodes, sizeof *q);
    ck_assert(a->n_nodes == b->n_nodes && a->n_queries == b->n_queries && tree_tokens(a) == tree_tokens(b));
    memset(name, -1, (size_t)a->n_nodes * sizeof *name);
    for (int32_t r = 0; r < a->n_queries; r++) {
        int32_t depth = tree_path(a->parent, a->query[r].node, p);
        check_each(depth == tree_path(b->parent, b->query[r].node, q) && a->query[r].upto == b->query[r].upto,
                   "query %d", r);
        for (int32_t k = 0; k < depth; k++) {
            check_each(a->len[p[k]] == b->len[q[k]] && (name[p[k]] < 0 || name[p[k]] == q[k]),
                       "query %d, node %d", r, k);
            name[p[k]] = q[k];
        }
    }
}

TEST(the_tree_of_page_tables_is_the_one_drawn)
{
    int64_t trees = getenv("TREEATTN_QUICK") ? 100 : 1000;
    for (int64_t seed = 0; seed < trees; seed++) {
        AUTO(tree) t = drawn_tree((uint64_t)seed);
        CLEARED(request_pages) lists = lists_of(t, (uint64_t)seed);
        FREED int32_t *table = NULL;
        AUTO(tree) again = tree_of_pages(&lists, &table);
        ck_assert(tree_check(again, NULL));
        check_same(t, again);
    }
}

static struct tree *tree_of_lists(int32_t page_size, int32_t n, const char *const *lists, const int64_t *len,
                                  const int32_t *q_len)
{
    struct request_pages x = {.n_requests = n, .page_size = page_size};
    int64_t ptr[8] = {0}, lens[8];
    int32_t page[64], q[8], *table = NULL;
    for (int32_t r = 0; r < n; r++) {
        ptr[r + 1] = ptr[r] + (int64_t)strlen(lists[r]);
        for (int64_t i = ptr[r]; i < ptr[r + 1]; i++)
            page[i] = lists[r][i - ptr[r]];
        lens[r] = len[r];
        q[r] = q_len[r];
    }
    x.ptr = ptr, x.page = page, x.len = lens, x.q_len = q;
    struct tree *t = tree_of_pages(&x, &table);
    free(table);
    ck_assert(tree_check(t, NULL));
    return t;
}

TEST(pages_make_the_nodes_that_one_expects)
{
    /* Two requests share "ab"; one ends in the middle of b, where the other goes on; the third shares nothing. */
    static const char *const lists[] = {"abc", "ab", "x"};
    AUTO(tree) t = tree_of_lists(4, 3, lists, (const int64_t[]){10, 6, 3}, (const int32_t[]){2, 1, 1});
    ck_assert_int_eq(t->n_nodes, 2);
    ck_assert(t->len[0] == 10 && t->len[1] == 3 && t->parent[0] == -1 && t->parent[1] == -1);
    static const struct query want[] = {{0, 9}, {0, 10}, {0, 6}, {1, 3}};
    for (int i = 0; i < 4; i++)
        ck_assert_msg(t->query[i].node == want[i].node && t->query[i].upto == want[i].upto, "query %d", i);
    /* The same last page, seen to different lengths, as after a fork before a copy; a request without tokens. */
    static const char *const forks[] = {"pq", "pq", "pr", ""};
    AUTO(tree) f = tree_of_lists(4, 4, forks, (const int64_t[]){5, 7, 8, 0}, (const int32_t[]){1, 1, 3, 2});
    ck_assert_int_eq(f->n_nodes, 3);
    ck_assert(f->len[0] == 4 && f->len[1] == 3 && f->len[2] == 4);
    ck_assert(f->query[0].upto == 1 && f->query[1].upto == 3 && f->query[2].upto == 2 &&
              f->query[4].upto == 4);
    ck_assert(f->query[5].upto == 0 && f->query[6].upto == 0);
    /* Nobody has a token. */
    static const char *const none[] = {""};
    AUTO(tree) e = tree_of_lists(4, 1, none, (const int64_t[]){0}, (const int32_t[]){1});
    ck_assert(e->n_nodes == 1 && e->n_queries == 1 && tree_tokens(e) == 0);
}

/* ---- files ---------------------------------------------------------------------------------------------- */

/* A problem on a drawn tree as a bundle: `csr` or a block table, what the oracle says as O and LSE. */
struct step {
    struct tree *t;
    struct request_pages lists;
    struct problem *p;
    struct output *out;
    struct tensors file;
    char *path;
};

static int32_t *narrow(const int64_t *x, int64_t n)
{
    int32_t *y = xcalloc((size_t)n + 1, sizeof *y);
    for (int64_t i = 0; i < n; i++)
        y[i] = (int32_t)x[i];
    return y;
}

static void add_lists(struct step *x, bool csr)
{
    const struct request_pages *l = &x->lists;
    int64_t n = l->n_requests, most = 0;
    if (csr) {
        int32_t *tail = xcalloc((size_t)n, sizeof *tail);
        for (int32_t r = 0; r < n; r++)
            tail[r] = (int32_t)((l->len[r] - 1) % PAGE + 1);
        tensors_add(&x->file, "kv_indptr", EL_I32, narrow(l->ptr, n + 1), true, 1, (int64_t[]){n + 1});
        tensors_add(&x->file, "kv_indices", EL_I32, l->page, false, 1, (int64_t[]){l->ptr[n]});
        tensors_add(&x->file, "kv_last_page_len", EL_I32, tail, true, 1, (int64_t[]){n});
        return;
    }
    for (int32_t r = 0; r < n; r++)
        most = max_i64(most, l->ptr[r + 1] - l->ptr[r]);
    int32_t *table = xcalloc((size_t)(n * (most + 1)), sizeof *table);
    memset(table, 0x7F, (size_t)(n * (most + 1)) * sizeof *table); /* junk behind the last page */
    for (int32_t r = 0; r < n; r++)
        memcpy(table + r * (most + 1), l->page + l->ptr[r],
               (size_t)(l->ptr[r + 1] - l->ptr[r]) * sizeof *table);
    tensors_add(&x->file, "block_table", EL_I32, table, true, 2, (int64_t[]){n, most + 1});
    tensors_add(&x->file, "seq_lens", EL_I64, l->len, false, 1, (int64_t[]){n});
}

static struct step step_of(uint64_t seed, bool csr, const struct problem_spec *spec)
{
    static const enum element element[] = {EL_F64, EL_F32, EL_F16, EL_BF16, EL_E4M3, EL_E5M2};
    struct step x = {.t = drawn_tree(seed)};
    tree_set_window(x.t, spec->window);
    x.p = MUST(problem_new, x.t, spec);
    x.lists = lists_of(x.t, seed);
    /* the problem's own pages instead of those drawn */
    FREED int32_t *path = xcalloc((size_t)x.t->n_nodes, sizeof *path);
    int64_t n = 0;
    for (int32_t r = 0; r < x.t->n_queries; r++) {
        int32_t depth = tree_path(x.t->parent, x.t->query[r].node, path);
        for (int32_t k = 0; k < depth; k++)
            for (int64_t i = x.p->page_off[path[k]]; i < x.p->page_off[path[k] + 1]; i++)
                x.lists.page[n++] =
                    x.p->page_table[i] == PAGE_POISON ? 0 : x.p->page_table[i]; /* behind every window */
    }
    x.out = output_new(x.p);
    AUTO(oracle) orc = oracle_new(x.p);
    for (int64_t i = 0; i < orc->n_rows * orc->d; i++)
        dtype_store(x.out->dtype, x.out->o, i, orc->o[i]);
    for (int64_t row = 0; row < orc->n_rows; row++)
        output_set_lse(x.out, row, orc->lse[row]);
    const struct heads *h = &x.p->heads;
    int64_t q[] = {x.t->n_queries, h->h_q, h->d}, kv[] = {x.p->n_pages, PAGE, h->h_kv, h->d};
    tensors_add(&x.file, "q", element[h->dtype], x.p->q, false, 3, q);
    tensors_add(&x.file, "k", element[heads_kv_dtype(h)], x.p->k, false, 4, kv);
    tensors_add(&x.file, "v", element[heads_kv_dtype(h)], x.p->v, false, 4, kv);
    tensors_add(&x.file, "o", element[h->dtype], x.out->o, false, 3, q);
    tensors_add(&x.file, "lse", h->dtype == DT_F64 ? EL_F64 : EL_F32, x.out->lse, false, 2, q);
    add_lists(&x, csr);
    if (x.p->sink)
        tensors_add(&x.file, "sinks", EL_F32, x.p->sink, false, 1, (int64_t[]){h->h_q});
    if (x.p->k_scale) {
        tensors_add(&x.file, "k_scale", EL_F32, x.p->k_scale, false, 1, (int64_t[]){h->h_kv});
        tensors_add(&x.file, "v_scale", EL_F32, x.p->v_scale, false, 1, (int64_t[]){h->h_kv});
    }
    if (spec->soft_cap > 0)
        tensors_add(&x.file, "soft_cap", EL_F64, &x.p->soft_cap, false, 1, (int64_t[]){1});
    FREED char *folder = scratch_folder();
    x.path = xasprintf("%s/step.safetensors", folder);
    return x;
}

static void step_free(struct step *x)
{
    tensors_free(&x->file);
    output_free(x->out);
    problem_free(x->p);
    request_pages_free(&x->lists);
    tree_free(x->t);
    free(x->path);
}

static void write_step(struct step *x)
{
    unlink(x->path);
    MUST(tensors_write, x->path, &x->file);
}

static struct problem_spec small_spec(void)
{
    struct problem_spec s = case_default_spec();
    s.heads = (struct heads){.h_q = 8, .h_kv = 2, .d = 32, .dtype = DT_F16};
    s.page_size = PAGE;
    s.scattered = true;
    return s;
}

TEST(right_numbers_pass_and_wrong_ones_have_their_cause)
{
    struct problem_spec spec[6];
    for (int i = 0; i < 6; i++)
        spec[i] = small_spec();
    spec[1].heads.dtype = DT_F32;
    spec[1].soft_cap = 5;
    spec[2].heads.kv_fp8 = DT_E4M3;
    spec[2].head_scales = true;
    spec[3].sinks = true;
    spec[4].heads.dtype = DT_BF16;
    spec[5].window = 100;
    for (int i = 0; i < 6; i++) {
        CLEARED(step) x = step_of((uint64_t)i, i % 2, &spec[i]);
        CLEARED(bundle) b = {.p = NULL};
        int64_t window = spec[i].window;
        if (window)
            tensors_add(&x.file, "window", EL_I64, &window, false, 1, (int64_t[]){1});
        write_step(&x);
        MUST(bundle_read, x.path, &spec[0], &b);
        check_same(x.t, b.tree);
        struct bundle_verdict v = bundle_judge(&b);
        ck_assert_msg(v.cmp.verdict == V_PASS, "%d: %s", i, v.cmp.why);
        bundle_free(&b);
        for (int64_t row = 0; row < x.out->n_rows; row++) /* base 2 */
            output_set_lse(x.out, row, output_lse(x.out, row) / 0.6931471805599453);
        write_step(&x);
        MUST(bundle_read, x.path, &spec[0], &b);
        v = bundle_judge(&b);
        ck_assert_msg(v.cmp.verdict == V_FAIL && strstr(v.cause.text, "base 2"), "%d: %s", i, v.cause.text);
    }
}

/* Without LSE O is judged; without O nothing; a declaration moves the bound. */
TEST(what_is_not_there_is_not_judged)
{
    struct problem_spec spec = small_spec();
    spec.heads.dtype = DT_BF16;
    CLEARED(step) x = step_of(9, false, &spec);
    CLEARED(bundle) b = {.p = NULL};
    x.file.at[4].name = "unknown"; /* lse */
    write_step(&x);
    MUST(bundle_read, x.path, &spec, &b);
    ck_assert(!b.has_lse && bundle_judge(&b).cmp.verdict == V_PASS);
    double narrow_p = bundle_judge(&b).cmp.worst_o;
    bundle_free(&b);
    static char exact[] = "{\"probability\":\"f32\"}", wrong[] = "{\"accumulate\":\"f16\"}";
    for (int64_t e = 0; e < x.out->d; e++) { /* a little wrong */
        double o = dtype_load(DT_BF16, x.out->o, e);
        dtype_store(DT_BF16, x.out->o, e, o + 0.008 * fabs(o));
    }
    tensors_add(&x.file, "declares", EL_U8, exact, false, 1, (int64_t[]){sizeof exact - 1});
    write_step(&x);
    MUST(bundle_read, x.path, &spec, &b);
    ck_assert_msg(bundle_judge(&b).cmp.verdict == V_FAIL, "%g", narrow_p);
    bundle_free(&b);
    x.file.at[x.file.n - 1].data = wrong;
    x.file.at[x.file.n - 1].shape[0] = sizeof wrong - 1;
    write_step(&x);
    FAILS("\"declares\": the child's \"accumulate\" is f16", bundle_read, x.path, &spec, &b);
    x.file.n--;
    x.file.at[3].name = "unknown, too";
    write_step(&x);
    MUST(bundle_read, x.path, &spec, &b);
    ck_assert(b.p && !b.out);
}

TEST(lists_alone_make_a_tree)
{
    struct problem_spec spec = small_spec();
    for (int csr = 0; csr < 2; csr++) {
        CLEARED(step) x = step_of(3, csr, &spec);
        CLEARED(bundle) b = {.p = NULL};
        for (int i = 0; i < 5; i++)
            x.file.at[i].name = "unknown";
        for (int i = 1; i < 5; i++)
            x.file.at[i].name += i;
        write_step(&x);
        MUST(bundle_read, x.path, &spec, &b);
        check_same(x.t, b.tree);
        ck_assert(!b.p && !b.out && b.spec.heads.h_q == 8);
    }
}

/* ---- files that are wrong -------------------------------------------------------------------------------- */

static struct tensor *tensor_of(struct step *x, const char *name)
{
    return tensors_find(&x->file, name);
}

TEST(files_that_are_wrong_are_refused_with_a_sentence)
{
    struct problem_spec spec = small_spec();
    static int64_t one[1];
    static double number[1];
    for (int i = 0; i < 12; i++) {
        CLEARED(step) x = step_of(5, i % 2, &spec); /* odd: lists */
        struct bundle b;
        const char *words = NULL;
        int32_t *list;
        switch (i) {
        case 0:
            ((int32_t *)tensor_of(&x, "block_table")->data)[1] = -3,
                                      words = "\"block_table\"[1] is -3 (expected a page of k)";
            break;
        case 1:
            ((int32_t *)tensor_of(&x, "kv_indices")->data)[2] = INT32_MAX,
                                      words = "\"kv_indices\"[2] is 2147483647";
            break;
        case 2:
            ((int64_t *)tensor_of(&x, "seq_lens")->data)[0] = 1 << 20, words = "\"seq_lens\"[0] is 1048576";
            break;
        case 3:
            list = tensor_of(&x, "kv_indptr")->data, list[1] = list[2] + 1, words = "\"kv_indptr\"[2] is";
            break;
        case 4:
            tensor_of(&x, "seq_lens")->name = "seqlens", words = "no \"seq_lens\" beside \"block_table\"";
            break;
        case 5:
            ((int32_t *)tensor_of(&x, "kv_last_page_len")->data)[3] = 17,
                                      words = "\"kv_last_page_len\"[3] is 17 (expected 1 to the";
            break;
        case 6:
            tensor_of(&x, "q")->shape[0]--, tensor_of(&x, "o")->shape[0]--,
                words = "\"q\" has 63 queries, the lists 64";
            break;
        case 7:
            tensor_of(&x, "o")->shape[2]--, words = "\"o\" is F16, 64 x 8 x 31 (expected the same as \"q\")";
            break;
        case 8:
            tensor_of(&x, "v")->name = "w", words = "no \"v\" beside \"k\"";
            break;
        case 9:
            number[0] = NAN, tensors_add(&x.file, "scale", EL_F64, number, false, 1, (int64_t[]){1}),
            words = "\"scale\" is nan";
            break;
        case 10:
            one[0] = 3, tensors_add(&x.file, "query_start_loc", EL_I64, one, false, 1, (int64_t[]){1}),
            words = "\"query_start_loc\" is I64, 1 (expected I32, one more than there are requests)";
            break;
        default:
            tensor_of(&x, "kv_indptr")->name = "indptr", words = "no \"block_table\" or \"kv_indptr\"";
        }
        write_step(&x);
        FAILS(words, bundle_read, x.path, &spec, &b);
    }
    struct bundle b;
    FAILS("nowhere: No such file", bundle_read, "nowhere", &spec, &b);
}

/* A bit here and there: refused, or read and judged; never more. */
TEST(files_of_strangers_do_no_harm)
{
    struct problem_spec spec = small_spec();
    spec.heads.d = 16;
    int64_t times = getenv("TREEATTN_QUICK") ? 300 : 2000, read = 0;
    for (int csr = 0; csr < 2; csr++) {
        CLEARED(step) x = step_of(11, csr, &spec);
        write_step(&x);
        FILE *f = fopen(x.path, "r+b");
        char head[4096];
        size_t n = fread(head, 1, sizeof head, f);
        for (int64_t i = 0; i < times; i++) {
            uint64_t at = (uint64_t)i * 8;
            struct bundle b;
            struct err e = {0};
            int64_t changes = 1 + draw(13, &at, 3);
            FREED char *now = xcalloc(n, 1);
            memcpy(now, head, n);
            for (int64_t k = 0; k < changes; k++) { /* the header's length, the header, or the lists */
                int64_t where = draw(13, &at, 3);
                now[where == 0 ? draw(13, &at, 8) : draw(13, &at, (int64_t)n)] ^=
                    (char)(1 << draw(13, &at, 8));
            }
            rewind(f);
            fwrite(now, 1, n, f);
            fflush(f);
            if (bundle_read(x.path, &spec, &b, &e)) {
                read++;
                bundle_free(&b);
            } else {
                check_each(e.msg[0], "no word");
            }
        }
        fclose(f);
    }
    ck_assert_int_gt(read, times / 10);
}

/* ---- the command ------------------------------------------------------------------------------------------ */

static char text[1 << 16];

TEST(the_command_judges_and_prices)
{
    struct problem_spec spec = small_spec();
    CLEARED(step) x = step_of(2, false, &spec);
    write_step(&x);
    ck_assert_int_eq(run_shell(text, sizeof text, "ln -s %s %s.link && %s judge %s.link --strategy flash-attention,pat 2>&1",
                               x.path, x.path, program_path(), x.path),
                     0);
    ck_assert_msg(strstr(text, "64 requests, 64 queries, ") && strstr(text, "numbers: PASS, O and LSE") &&
                      strstr(text, "each query alone reads ") && strstr(text, "\npat "),
                  "%s", text);
    output_set_lse(x.out, 5, 1e3);
    write_step(&x);
    ck_assert_int_eq(
        run_shell(text, sizeof text, "%s judge %s --json 2>&1 >/dev/null", program_path(), x.path), 1);
    ck_assert_msg(strstr(text, "numbers: FAIL") && strstr(text, "query 0 head 5 LSE is 1000"), "%s", text);
    ck_assert_int_eq(run_shell(text, sizeof text, "%s judge %s --csv -o %s.csv; cat %s.csv", program_path(),
                               x.path, x.path, x.path),
                     0);
    ck_assert_msg(strstr(text, "\nstrategy,kv_bytes,of_alone,of_least,groups,time_us,why\n"), "%s", text);
    ck_assert_int_eq(run_shell(text, sizeof text, "%s judge /dev/null 2>&1", program_path()), 2);
    ck_assert_msg(strstr(text, "/dev/null: no regular file"), "%s", text);
}

/* What record() writes is read as it was meant: only pages in use, in either form of lists. */
TEST(python_records_a_step)
{
    if (run_shell(text, sizeof text, "python3 -c 'import numpy' 2>&1") != 0) {
        printf("skip: no python3 with numpy\n");
        return;
    }
    FREED char *folder = scratch_folder();
    for (int csr = 0; csr < 2; csr++)
        for (int wrong = 0; wrong < 2; wrong++) {
            run_shell(text, sizeof text,
                      "PYTHONPATH=verify/child python3 tests/plugin/record.py %s/%d%d %d %d 2>&1 && "
                      "%s judge %s/%d%d --strategy pat 2>&1",
                      folder, csr, wrong, csr, wrong, program_path(), folder, csr, wrong);
            ck_assert_msg(strstr(text, "24 requests") &&
                              strstr(text, wrong ? "numbers: FAIL" : "numbers: PASS"),
                          "%s", text);
            ck_assert_msg(!wrong || strstr(text, "h mod h_kv"), "%s", text);
        }
}
