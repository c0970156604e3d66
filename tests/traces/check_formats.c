/* check_formats.c - level strings, tree files, files into memory, seeded families. */
#include "ref/file.h"
#include "traces/formats/formats.h"
#include "traces/formats/text.h"
#include "traces/trace.h"

#include "tests/auto.h"
#include "tests/shared.h"
#include "tests/suites.h"

#include <inttypes.h>
#include <unistd.h>

/* ---- helpers ------------------------------------------------------------------------------------------- */

/* "parent:length" of each node, then the node of each query. */
static char *describe(const struct tree *t)
{
    char *text;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    for (int32_t i = 0; i < t->n_nodes; i++)
        fprintf(f, "%d:%lld ", t->parent[i], (long long)t->len[i]);
    for (int32_t q = 0; q < t->n_queries; q++) {
        ck_assert_int_eq(t->query[q].upto, t->len[t->query[q].node]);
        fprintf(f, "q%d ", t->query[q].node);
    }
    fclose(f);
    return text;
}

static void assert_tree(struct tree *t, const char *want, const struct err *e)
{
    ck_assert_msg(t != NULL, "%s", e->msg);
    ck_assert(tree_check(t, NULL));
    FREED char *got = describe(t);
    ck_assert_str_eq(got, want);
    tree_free(t);
}

/* Messages go to a terminal: one sentence, printable. */
static void assert_says(const struct err *e, const char *says, const char *input)
{
    ck_assert_int_eq(e->code, EXIT_BAD_INPUT);
    ck_assert_msg(strstr(e->msg, says) != NULL, "\"%s\" gives \"%s\" (expected \"%s\")", input, e->msg, says);
    for (const char *p = e->msg; *p; p++)
        ck_assert_msg(*p >= ' ' && *p <= '~', "byte %d in \"%s\"", *p, e->msg);
}

/* ---- level strings ------------------------------------------------------------------------------------- */

TEST(levels_build_the_tree_they_say)
{
    static const struct {
        const char *text, *want;
    } c[] = {
        {"1 10", "-1:10 q0 "},
        {"1,2 10,3", "-1:10 0:3 0:3 q1 q2 "},
        {"1,2;10,3", "-1:10 0:3 0:3 q1 q2 "},
        {"1,2_10,3", "-1:10 0:3 0:3 q1 q2 "},
        {" 1,2 ; 10,3\r\n", "-1:10 0:3 0:3 q1 q2 "},
        {"2,4 5,1", "-1:5 -1:5 0:1 0:1 1:1 1:1 q2 q3 q4 q5 "},
        {"1,2,3 5,0,1", "-1:5 0:0 0:0 1:1 1:1 2:1 q3 q4 q5 "},
        {"3,2 1,1",
         "-1:1 -1:1 -1:1 0:1 1:1 q2 q3 q4 "}, /* fewer below than above: the third root is a leaf */
    };
    for (size_t i = 0; i < sizeof c / sizeof c[0]; i++) {
        struct err e = {0};
        assert_tree(levels_parse(c[i].text, &e), c[i].want, &e);
    }
    AUTO(tree) t = levels_parse("1,4,16 1024,256,32", NULL);
    ck_assert_int_eq(t->n_nodes, 21);
    ck_assert_int_eq(t->n_queries, 16);
    ck_assert_int_eq(tree_tokens(t), 1024 + 4 * 256 + 16 * 32);
}

TEST(too_many_levels_are_an_error)
{
    /* More levels than any tree: an error, not a long run. */
    FREED char *many = xmalloc(20001 + 2);
    for (int i = 0; i < 10000; i++)
        memcpy(many + 2 * i, "1,", 2);
    memcpy(many + 20000, "1 1", 3);
    many[20002] = '\0';
    struct err e = {0};
    ck_assert_ptr_null(levels_parse(many, &e));
}

/* ---- tree files ---------------------------------------------------------------------------------------- */

static struct tree *parse(const char *text, struct err *e)
{
    return fasttree_file_parse(text, strlen(text), "t.tree", e);
}

TEST(tree_files_read)
{
    static const struct {
        const char *text, *want;
    } c[] = {
        {"1\n-1 0 5 0\n", "-1:5 q0 "},
        {"1\n-1 0 5 0", "-1:5 q0 "},
        {"3\n-1 0 5 2\n0 1 2 0\n0 2 0 0\n", "-1:5 0:2 0:0 q1 q2 "},
        {"3\r\n-1 0 5 2\r\n0 1 2 0\r\n0 2 0 0\r\n", "-1:5 0:2 0:0 q1 q2 "},
        {"\n 3 \n\n0 2 7 0\n\t-1 0  5 2 \n0 1 2 0\n\n", "-1:5 0:2 0:7 q1 q2 "}, /* any order, any blanks */
        {"2\n-1 0 1 0\n-1 1 2 0\n", "-1:1 -1:2 q0 q1 "},
    };
    for (size_t i = 0; i < sizeof c / sizeof c[0]; i++) {
        struct err e = {0};
        assert_tree(parse(c[i].text, &e), c[i].want, &e);
    }
}

TEST(tree_files_round_trip)
{
    FREED char *path = scratch_file("", 0);
    for (uint64_t seed = 0; seed < 60; seed++) {
        AUTO(tree) t = gen_tree((enum family)(seed % N_FAMILIES), seed);
        tree_query_leaves(t);
        FILE *f = fopen(path, "w");
        ck_assert(fasttree_file_write(f, t, NULL));
        fclose(f);
        FREED char *want = describe(t);
        struct err e = {0};
        assert_tree(seed % 2 ? fasttree_file_read(path, &e) : tree_file_read(path, &e), want, &e);
    }
}

TEST(only_trees_with_leaf_queries_are_written)
{
    AUTO(tree) t = levels_parse("1,3 9,4", NULL);
    FREED char *text;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    struct err e = {0};
    t->query[1].upto = 3;
    ck_assert(!fasttree_file_write(f, t, &e));
    assert_says(&e, "cannot be said in a tree file", "upto");
    t->query[1] = (struct query){.node = 0, .upto = 9};
    ck_assert(!fasttree_file_write(f, t, NULL));
    t->query[1] = (struct query){.node = 2, .upto = 4};
    t->n_queries = 2;
    ck_assert(!fasttree_file_write(f, t, NULL));
    t->n_queries = 3;
    ck_assert(fasttree_file_write(f, t, NULL));
    fclose(f);
    ck_assert_str_eq(text, "4\n-1 0 9 3\n0 1 4 0\n0 2 4 0\n0 3 4 0\n");
}

/* ---- the project's own text ---------------------------------------------------------------------------- */

static struct tree *parse_text(const char *text, struct err *e)
{
    return tree_text_parse(text, strlen(text), "t.tree", e);
}

TEST(tree_text_reads)
{
    static const char text[] = "# two prompts\n\n tree 3 4 # nodes, queries\r\nnode 0 -1 12 # c\n#node "
                               "9\n\tnode 1 0  0\nnode 2 -1 5 #\n"
                               "query 1 0\nquery 0 7 #x y z\nquery 0 12 \nquery 0 7\n   # end\n";
    struct err e = {0};
    AUTO(tree) t = MUST(parse_text, text);
    ck_assert(tree_check(t, NULL));
    ck_assert(t->n_nodes == 3 && t->n_queries == 4);
    ck_assert(t->parent[0] == -1 && t->parent[1] == 0 && t->parent[2] == -1);
    ck_assert(t->len[0] == 12 && t->len[1] == 0 && t->len[2] == 5);
    static const struct query want[] = {{1, 0}, {0, 7}, {0, 12}, {0, 7}};
    for (int q = 0; q < 4; q++)
        ck_assert(t->query[q].node == want[q].node && t->query[q].upto == want[q].upto);
    tree_free(t);
    t = parse_text("tree 0 0", &e);
    ck_assert(t && t->n_nodes == 0 && t->n_queries == 0);
}

/* What a writer makes of a tree, NULL if it refuses. The caller frees. */
static char *written(bool (*write)(FILE *, const struct tree *, struct err *), const struct tree *t,
                     struct err *e)
{
    char *text;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    bool good = write(f, t, e);
    fclose(f);
    ck_assert(good || size == 0); /* who refuses has written nothing */
    if (good)
        return text;
    free(text);
    return NULL;
}

LOOP_TEST(tree_text_says_every_tree, N_FAMILIES)
{
    for (uint64_t seed = 0; seed < 200; seed++) {
        AUTO(tree) t = gen_tree((enum family)_i, seed);
        struct err e = {0};
        FREED char *text = MUST(written, tree_text_write, t);
        AUTO(tree) back = MUST(tree_file_parse, text, strlen(text), "t");
        assert_same_tree(t, back);
        tree_free(back);

        /* The other formats say a tree exactly, or refuse it. */
        free(text);
        text = written(fasttree_file_write, t, NULL);
        back = text ? tree_file_parse(text, strlen(text), "t", &e) : NULL;
        ck_assert(!text == !tree_has_leaf_queries(t));
        if (text)
            assert_same_tree(t, back);
        tree_free(back);
        free(text);
        text = written(levels_write, t, NULL);
        back = text ? levels_parse(text, &e) : NULL;
        if (text)
            assert_same_tree(t, back);
    }
}

/* ---- masks ----------------------------------------------------------------------------------------------- */

/* Which tokens query q sees, one a byte, nodes in id order. */
static void seen_by(const struct tree *t, int32_t q, char *row)
{
    int64_t at = 0;
    for (int32_t i = 0; i < t->n_nodes; i++) {
        int64_t sees = 0;
        for (int32_t up = t->query[q].node; up >= 0 && sees == 0; up = t->parent[up])
            sees = up != i ? 0 : up == t->query[q].node ? t->query[q].upto : t->len[i];
        for (int64_t j = 0; j < t->len[i]; j++)
            row[at++] = j < sees ? '1' : '0';
    }
}

static int64_t both_see(const char *x, const char *y, int64_t n)
{
    int64_t both = 0;
    for (int64_t k = 0; k < n; k++)
        both += x[k] == '1' && y[k] == '1';
    return both;
}

/* The tree that is read has as many tokens for each query, and as many for each two together. */
LOOP_TEST(masks_of_trees_are_trees, N_FAMILIES)
{
    for (uint64_t seed = 1; seed < 60; seed++) {
        AUTO(tree) t = gen_tree((enum family)_i, seed);
        int64_t n = tree_tokens(t);
        if (n < 1 || t->n_queries > 60)
            continue;
        FREED char *row = xcalloc((size_t)(n * t->n_queries) + 1, 1),
                   *text = xasprintf("mask %" PRId32 " %" PRId64 "\n", t->n_queries, n);
        for (int32_t q = 0; q < t->n_queries; q++) {
            seen_by(t, q, row + q * n);
            xappend(&text, "%.*s\n", (int)n, row + q * n);
        }
        AUTO(tree) back = MUST(tree_file_parse, text, strlen(text), "t");
        ck_assert(tree_check(back, NULL));
        int64_t m = tree_tokens(back);
        FREED char *again = xcalloc((size_t)(m * t->n_queries) + 1, 1);
        ck_assert_int_eq(back->n_queries, t->n_queries);
        for (int32_t q = 0; q < t->n_queries; q++)
            seen_by(back, q, again + q * m);
        for (int32_t q = 0; q < t->n_queries; q++)
            for (int32_t k = 0; k <= q; k++)
                check_each(both_see(row + q * n, row + k * n, n) == both_see(again + q * m, again + k * m, m),
                           "seed %d: queries %d and %d", (int)seed, q, k);
    }
}

TEST(a_mask_is_read_as_nodes_that_are_chains)
{
    static const char text[] = "mask 4 6\r\n110000\n\n111010\n110100\n000000\n";
    AUTO(tree) t = MUST(mask_text_parse, text, strlen(text), "t.mask");
    ck_assert(t->n_nodes == 3 && t->n_queries == 4); /* nobody sees token 5 */
    static const int32_t parent[] = {-1, 0, 0};
    static const int64_t len[] = {2, 2, 1};
    static const struct query want[] = {{0, 2}, {1, 2}, {2, 1}, {0, 0}};
    for (int i = 0; i < 3; i++)
        ck_assert(t->parent[i] == parent[i] && t->len[i] == len[i]);
    for (int q = 0; q < 4; q++)
        ck_assert(t->query[q].node == want[q].node && t->query[q].upto == want[q].upto);
}

TEST(level_trees_round_trip)
{
    static const char *const good[] = {
        "1 0",     "1,4,16 1024,256,32", "4,16,256,512 512,32,128,32", /* several roots */
        "3,2 1,1", "2,5,3,7 0,0,1,0",    "1,1,1,1 1,2,3,4",
        "5 9",
    };
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        struct err e = {0};
        AUTO(tree) t = levels_parse(good[i], &e);
        FREED char *text = written(levels_write, t, &e), *want = xasprintf("%s\n", good[i]);
        ck_assert_msg(text != NULL, "%s: %s", good[i], e.msg);
        ck_assert_str_eq(text, want);
    }
    static const char *const bad[] = {
        "tree 0 0",
        "tree 1 0\nnode 0 -1 5",                                    /* a leaf without a query */
        "tree 1 1\nnode 0 -1 5\nquery 0 4",                         /* a query before the end */
        "tree 2 1\nnode 0 -1 5\nnode 1 0 5\nquery 0 5",             /* on an inner node */
        "tree 2 2\nnode 0 -1 5\nnode 1 -1 6\nquery 0 5\nquery 1 6", /* unequal lengths */
        "tree 3 2\nnode 0 -1 5\nnode 1 0 2\nnode 2 0 3\nquery 1 2\nquery 2 3",
        /* hung unevenly: both children of the second root */
        "tree 4 3\nnode 0 -1 5\nnode 1 -1 5\nnode 2 1 2\nnode 3 1 2\nquery 0 5\nquery 2 2\nquery 3 2",
        /* depth first */
        "tree 4 2\nnode 0 -1 5\nnode 1 0 2\nnode 2 -1 5\nnode 3 2 2\nquery 1 2\nquery 3 2",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct err e = {0};
        AUTO(tree) t = MUST(parse_text, bad[i]);
        char *text = written(levels_write, t, &e);
        ck_assert_msg(text == NULL, "%s gives %s", bad[i], text);
        assert_says(&e, "no level string says this tree", bad[i]);
    }
}

/* Several roots: the first level is a forest, and everything below hangs by the same rule. */
TEST(levels_with_several_roots)
{
    AUTO(tree) t = levels_parse("4,16,256,512 512,32,128,32", NULL);
    ck_assert_int_eq(t->n_nodes, 4 + 16 + 256 + 512);
    ck_assert_int_eq(t->n_queries, 512);
    ck_assert_int_eq(tree_tokens(t), 4 * 512 + 16 * 32 + 256 * 128 + 512 * 32);
    int64_t context[512];
    tree_contexts(t, context);
    int32_t below[4] = {0};
    for (int32_t q = 0; q < 512; q++) {
        int32_t i = t->query[q].node;
        ck_assert_int_eq(context[q], 512 + 32 + 128 + 32);
        while (t->parent[i] >= 0)
            i = t->parent[i];
        below[i]++;
    }
    for (int r = 0; r < 4; r++)
        ck_assert_int_eq(below[r], 128);
    AUTO(nform) nf = nform_new(t);
    ck_assert_int_eq(nf->n_roots, 4);
    ck_assert_int_eq(nform_live_roots(nf), 4);
}

TEST(tree_files_are_told_apart)
{
    static const struct {
        const char *text, *says;
    } c[] = {
        {"# ours\n\ntree 1 1\nnode 0 -1 5\nquery 0 5", NULL},
        {"\n1\n-1 0 5 0", NULL},
        {"", "t.tree:1: empty"},
        {"#\n \n", "t.tree:2: empty"},
        {"#\ntrees 1 1\n", "t.tree:2: begins with \"trees\""},
        {"-1", "t.tree:1: the number of nodes is \"-1\""},
        {"tree", "t.tree:1: fewer than 3 words"},
    };
    for (size_t i = 0; i < sizeof c / sizeof c[0]; i++) {
        struct err e = {0};
        struct tree *t = tree_file_parse(c[i].text, strlen(c[i].text), "t.tree", &e);
        if (c[i].says)
            assert_says(&e, c[i].says, c[i].text);
        else
            assert_tree(t, "-1:5 q0 ", &e);
    }
}

/* Cut a good file anywhere, or spoil any byte. */
LOOP_TEST(damaged_trees_do_no_harm, 2)
{
    static const struct {
        struct tree *(*parse)(const char *, size_t, const char *, struct err *);
        const char *good, *bytes;
    } of[] = {{fasttree_file_parse, "4\n-1 0 12 2\n0 1 7 1\n0 2 129 0\n1 3 1 0\n", "90- \nx\xff\x01"},
              {tree_file_parse,
               "#\ntree 3 3\nnode 0 -1 12\nnode 1 0 7\nnode 2 0 129\nquery 1 7\nquery 2 64\nquery 0 0\n",
               "90- \n#x\xff\x01"}};
    size_t n = strlen(of[_i].good);
    for (size_t i = 0; i < n; i++)
        for (const char *c = of[_i].bytes; *c; c++) {
            FREED char *text = xstrdup(of[_i].good);
            text[i] = *c;
            struct err e = {0};
            AUTO(tree) t = of[_i].parse(text, n, "t", &e);
            ck_assert((t != NULL) == (e.code == 0));
            ck_assert(!t || tree_check(t, NULL));
            AUTO(tree) cut = of[_i].parse(of[_i].good, i, "t", NULL);
            ck_assert(!cut || i >= n - 1);
        }
}

/* ---- published files ----------------------------------------------------------------------------------- */

/* FastTree's own files, out again byte for byte. */
TEST(published_tree_files)
{
    int found = 0;
    for (int i = 0; i <= 22; i += 2) {
        FREED char *name = xasprintf("golden/trees/rand%02d.tree", i), *path = shared_path(name);
        if (!path)
            return;
        size_t size;
        AUTO(tree) t = MUST(fasttree_file_read, path);
        FREED char *in = file_slurp(path, 1 << 20, &size, NULL), *out = written(fasttree_file_write, t, NULL);
        ck_assert_msg(out && strlen(out) == size && memcmp(in, out, size) == 0, "%s changes when written",
                      path);
        found++;
    }
    ck_assert_int_eq(found, 12);
}

/* ---- files into memory --------------------------------------------------------------------------------- */

TEST(slurp_reads_text_and_nothing_else)
{
    size_t size;
    struct err e = {0};
    FREED char *path = scratch_file("ab\r\nc", 5), *text = file_slurp(path, 5, &size, &e);
    ck_assert_msg(text != NULL, "%s", e.msg);
    ck_assert_int_eq(size, 5);
    ck_assert_mem_eq(text, "ab\r\nc", 6); /* the terminator too */
    free(text);
    ck_assert_ptr_null(file_slurp(path, 4, &size, &e));
    assert_says(&e, "larger than 4 bytes", path);
    free(path);

    path = scratch_file("a\nb\0c", 5);
    e = (struct err){0};
    ck_assert_ptr_null(file_slurp(path, 100, &size, &e));
    assert_says(&e, ":2: zero byte at offset 3", path);
    unlink(path);
    e = (struct err){0};
    ck_assert_ptr_null(file_slurp(path, 100, &size, &e));
    assert_says(&e, "cannot be opened", path);
    free(path);

    path = scratch_file("", 0);
    text = file_slurp(path, 0, &size, NULL);
    ck_assert(text && size == 0 && text[0] == '\0');
    e = (struct err){0};
    ck_assert_ptr_null(file_slurp("/tmp", 100, &size, &e));
    assert_says(&e, "is a directory", "/tmp");
    e = (struct err){0};
    ck_assert_ptr_null(file_slurp("/dev/zero", 100000, &size, &e));
    assert_says(&e, "larger than", "/dev/zero");
}

TEST(integers_and_quotes)
{
    static const struct {
        const char *text;
        bool good;
        int64_t value;
    } c[] = {
        {"0", true, 0},
        {"-0", true, 0},
        {"007", true, 7},
        {"9223372036854775807", true, INT64_MAX},
        {"-9223372036854775808", true, INT64_MIN},
        {"9223372036854775808", false, 0},
        {"-9223372036854775809", false, 0},
        {"", false, 0},
        {"-", false, 0},
        {"+1", false, 0},
        {"1 ", false, 0},
        {"--1", false, 0},
    };
    for (size_t i = 0; i < sizeof c / sizeof c[0]; i++) {
        int64_t x = 0;
        bool good = word_int((struct word){c[i].text, strlen(c[i].text)}, INT64_MIN, INT64_MAX, &x);
        ck_assert_msg(good == c[i].good && (!good || x == c[i].value), "\"%s\"", c[i].text);
    }
    int64_t x;
    ck_assert(!word_int((struct word){"5", 1}, 6, 9, &x));
    ck_assert(!word_int((struct word){"5", 1}, 0, 4, &x));
    char quote[TEXT_QUOTE], text[100];
    memset(text, 'a', sizeof text);
    ck_assert_int_eq(strlen(word_quote(quote, (struct word){text, sizeof text})), TEXT_QUOTE - 1);
    ck_assert_str_eq(quote + TEXT_QUOTE - 5, "a...");
}

/* ---- seeded families ----------------------------------------------------------------------------------- */

static int32_t count_roots(const struct tree *t)
{
    int32_t n = 0;
    for (int32_t i = 0; i < t->n_nodes; i++)
        n += t->parent[i] < 0;
    return n;
}

/* Sum of the queries' contexts: what one strategy has to compute. */
static int64_t work(const struct tree *t)
{
    int64_t sum = 0, *context = xcalloc((size_t)t->n_queries, sizeof *context);
    tree_contexts(t, context);
    for (int32_t q = 0; q < t->n_queries; q++)
        sum += context[q];
    free(context);
    return sum;
}

LOOP_TEST(families_are_valid_within_limits_and_repeat, N_FAMILIES)
{
    enum family f = (enum family)_i, parsed;
    ck_assert(family_parse(family_name[f], &parsed) && parsed == f);
    ck_assert_ptr_nonnull(family_about[f]);
    for (uint64_t k = 0; k < 400; k++) {
        uint64_t seed = k < 200 ? k : gen_seed(7, (int64_t)k);
        AUTO(tree) t = gen_tree(f, seed), *again = gen_tree(f, seed);
        struct err e = {0};
        ck_assert_msg(tree_check(t, &e), "%s %llu: %s", family_name[f], (unsigned long long)seed, e.msg);
        ck_assert_int_ge(t->n_nodes, 1);
        ck_assert(t->n_queries >= 1 && t->n_queries <= 400);
        ck_assert_int_le(tree_tokens(t), 3000);
        ck_assert_int_le(work(t), 250000);
        ck_assert_msg(seed % 8 != 0 || t->n_queries > 128, "%s %llu: %d queries", family_name[f],
                      (unsigned long long)seed, t->n_queries);
        if (f == FAM_FOREST)
            ck_assert(count_roots(t) >= 2 && count_roots(t) <= 6);
        else if (f != FAM_DEGENERATE)
            ck_assert_int_eq(count_roots(t), 1);
        ck_assert(t->n_nodes == again->n_nodes && t->n_queries == again->n_queries);
        ck_assert_mem_eq(t->len, again->len, (size_t)t->n_nodes * sizeof *t->len);
    }
}

TEST(token_trees_have_a_query_on_every_token)
{
    int mostly = 0;
    for (uint64_t seed = 0; seed < 200; seed++) {
        AUTO(tree) t = gen_tree(FAM_TOKEN, seed);
        int64_t hidden = 0; /* tokens that not every query sees: all but the prefix and the tree's first */
        for (int32_t q = 0; q < t->n_queries; q++) {
            ck_assert_int_eq(t->len[t->query[q].node], 1);
            ck_assert_int_eq(t->query[q].upto, 1);
            hidden += q > 0;
        }
        ck_assert(t->n_nodes - t->n_queries == 1 || t->n_nodes - t->n_queries == 2);
        ck_assert_int_ge(t->n_queries, 16);
        mostly += hidden <= 64;
    }
    ck_assert_int_ge(mostly, 140);
}

static int compare_i64(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* The drawn trees are not toys: the bars that a verify run of 500 trees must meet, for any seed. */
TEST(mix_of_families_meets_the_bars)
{
    enum { N = 500 };
    static int64_t nodes[N], queries[N], tokens[N];
    for (uint64_t seed = 0; seed < 20; seed++) {
        int large = 0, seen[N_FAMILIES] = {0};
        for (int i = 0; i < N; i++) {
            enum family f = gen_family(seed, i);
            AUTO(tree) t = gen_tree(f, gen_seed(seed, i));
            nodes[i] = t->n_nodes;
            queries[i] = t->n_queries;
            tokens[i] = tree_tokens(t);
            large += t->n_queries > 128;
            seen[f]++;
        }
        qsort(nodes, N, sizeof *nodes, compare_i64);
        qsort(queries, N, sizeof *queries, compare_i64);
        qsort(tokens, N, sizeof *tokens, compare_i64);
        ck_assert_int_ge(nodes[N / 2], 24);
        ck_assert_int_ge(queries[N / 2], 16);
        ck_assert_int_ge(tokens[N / 2], 600);
        ck_assert(large >= N / 10 && large <= N * 14 / 100);
        for (int f = 0; f < N_FAMILIES; f++)
            ck_assert_int_ge(seen[f], N * 8 / 100);
        ck_assert(seen[FAM_FOREST] == N * 12 / 100 && seen[FAM_TOKEN] == N * 20 / 100);
    }
}

TEST(lists_are_complete)
{
    enum family f;
    ck_assert(!family_parse("", &f) && !family_parse("bush", &f));
    ck_assert_int_ge(n_formats, 12);
    for (int32_t i = 0; i < n_formats; i++)
        ck_assert(formats[i].name[0] && formats[i].spec[0] && formats[i].about[0]);
}
