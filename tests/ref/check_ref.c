/* check_ref.c - tree, normal form, dtypes, generator, problem, oracle, LSE merge. */
#include "ref/csv.h"
#include "ref/decimal.h"
#include "ref/lse.h"
#include "ref/nform.h"
#include "ref/oracle.h"
#include "ref/tails.h"
#include "ref/rng.h"
#include "traces/formats/formats.h"

#include "tests/auto.h"
#include "tests/shared.h"
#include "tests/suites.h"

#include <math.h>

/* Root of 10 tokens; two children of 4 and 0 tokens; a grandchild of 3. Queries: two on the grandchild, one
 * inside the root, one that sees nothing, one at the end of the empty node. */
static struct tree *sample(void)
{
    static const struct query query[] = {{3, 3}, {0, 7}, {0, 0}, {3, 3}, {2, 0}};
    return tree_of(4, (int32_t[]){-1, 0, 0, 1}, (int64_t[]){10, 4, 0, 3}, 5, query);
}

TEST(errors_are_one_printable_line)
{
    struct err e = {0};
    ck_assert(!err_set(&e, "%s:1: \"%s\" (expected %d)", "dir\x1b[2J/a\nb\x7f", "\xc3\xa9", 3));
    ck_assert_str_eq(e.msg, "dir?[2J/a?b?:1: \"\xc3\xa9\" (expected 3)");
    ck_assert(!err_missing(&e, "later"));
    ck_assert(e.code == EXIT_BAD_INPUT && strncmp(e.msg, "dir?", 4) == 0);

    /* One that does not fit keeps both ends; one that just fits stays whole. */
    char name[2000];
    for (size_t n = sizeof e.msg - 40; n < sizeof name; n++) {
        memset(name, 'x', n);
        name[n] = '\0';
        e = (struct err){0};
        err_set(&e, "file: %s (expected less)", name);
        size_t whole = strlen("file:  (expected less)") + n;
        ck_assert_int_eq(strlen(e.msg), whole < sizeof e.msg ? whole : sizeof e.msg - 1);
        ck_assert((strstr(e.msg, "x...x") != NULL) == (whole >= sizeof e.msg));
        ck_assert(strncmp(e.msg, "file: x", 7) == 0 && strstr(e.msg, "x (expected less)"));
    }
}

/* In any room: all names, or as many as leave it for what says that there are more; nothing behind that, and no byte too many. */
TEST(listings_end_where_there_is_no_room)
{
    static const char *const name[] = {"a", "long-name", "bc", "...", "d"};
    char whole[64] = "";
    for (size_t i = 0; i < 5; i++) {
        strcat(whole, i ? ", " : "");
        strcat(whole, name[i]);
    }
    for (size_t size = 8; size < 40; size++) {
        char list[48];
        memset(list, '#', sizeof list);
        list[0] = '\0';
        for (size_t i = 0; i < 5; i++)
            listing_add(list, size, name[i]);
        size_t n = strlen(list), end = n - 3;
        ck_assert(n < size && list[size] == '#');
        ck_assert_msg(strncmp(list, whole, end) == 0, "'%s'", list);
        ck_assert(strcmp(list, whole) == 0 || strcmp(list + end, "...") == 0);
    }
    char list[32] = "";
    listing_add(list, sizeof list, "first");
    listing_add(list, sizeof list, "second");
    ck_assert_str_eq(list, "first, second");
    listing_add(list, sizeof list, "a third that does not fit");
    listing_add(list, sizeof list, "4");
    ck_assert_str_eq(list, "first, second, ...");
}

TEST(tree_check_names_the_fault)
{
    AUTO(tree) t = sample();
    ck_assert(tree_check(t, NULL));
    struct err e = {0};
    t->parent[1] = 1;
    FAILS_WITH("node 1 has parent 1 (expected -1 or a smaller node number)", tree_check, t);
    t->parent[1] = 0;
    t->query[0].upto = 4;
    e = (struct err){0};
    ck_assert(!tree_check(t, &e));
    ck_assert_int_eq(e.code, EXIT_BAD_INPUT);
    t->query[0].upto = 3;
    t->len[2] = INT64_MAX;
    e = (struct err){0};
    ck_assert(!tree_check(t, &e));
}

TEST(contexts_follow_the_path)
{
    AUTO(tree) t = sample();
    int64_t ctx[5];
    tree_contexts(t, ctx);
    int64_t want[] = {17, 7, 0, 17, 10};
    ck_assert_mem_eq(ctx, want, sizeof want);
    ck_assert_int_eq(tree_tokens(t), 17);
    ck_assert_int_eq(tree_depth(t), 3);
}

TEST(normal_form_cuts_and_numbers)
{
    AUTO(tree) t = sample();
    AUTO(nform) nf = nform_new(t);
    ck_assert_int_eq(nf->n_nodes, 5); /* the root is cut at 7 */
    int32_t parent[] = {-1, 0, 1, 1, 2}, src[] = {0, 0, 1, 2, 3};
    int64_t len[] = {7, 3, 4, 0, 3}, off[] = {0, 7, 0, 0, 0};
    ck_assert_mem_eq(nf->parent, parent, sizeof parent);
    ck_assert_mem_eq(nf->src, src, sizeof src);
    ck_assert_mem_eq(nf->len, len, sizeof len);
    ck_assert_mem_eq(nf->off, off, sizeof off);
    /* depth first: the root's own query, the grandchild's two, the empty node's, then the one that sees
     * nothing */
    int32_t orig[] = {1, 0, 3, 4, 2}, at[] = {0, 4, 4, 3, -1};
    ck_assert_mem_eq(nf->orig, orig, sizeof orig);
    ck_assert_mem_eq(nf->at, at, sizeof at);
    ck_assert_int_eq(nf->q0[0], 0);
    ck_assert_int_eq(nf->q1[0], 4);
    ck_assert_int_eq(nf->q0[1], 1);
    ck_assert_int_eq(nf->q1[1], 4);
    ck_assert_int_eq(nform_own(nf, 0), 1);
    ck_assert_int_eq(nform_own(nf, 4), 2);
    for (int32_t q = 0; q < nf->n_queries; q++) {
        int64_t ctx[5];
        tree_contexts(t, ctx);
        ck_assert_int_eq(nform_context(nf, q), ctx[nf->orig[q]]);
    }
}

TEST(normal_form_keeps_uncut_trees)
{
    int32_t parent[] = {-1, 0, 0, -1};
    AUTO(tree) t = tree_of(4, parent, (int64_t[]){1, 2, 3, 4}, 0, NULL);
    ck_assert_int_eq(t->n_queries, 3);
    AUTO(nform) nf = nform_new(t);
    ck_assert_int_eq(nf->n_nodes, 4);
    ck_assert_mem_eq(nf->parent, parent, sizeof parent);
    ck_assert_int_eq(nf->n_roots, 2);
    ck_assert_int_eq(nform_live_roots(nf), 2);
}

TEST(normal_form_of_nothing)
{
    AUTO(tree) t = tree_new(0, 0);
    ck_assert(tree_check(t, NULL));
    AUTO(nform) nf = nform_new(t);
    ck_assert_int_eq(nf->n_nodes, 0);
    ck_assert_int_eq(nform_live_roots(nf), 0);
}

TEST(narrow_floats_round_to_nearest_even)
{
    for (uint32_t i = 0; i < 65536; i++) { /* every value survives the round trip */
        uint16_t h = (uint16_t)i;
        double f = f16_to_double(h), b = bf16_to_double(h);
        if (isnan(f))
            ck_assert(isnan(f16_to_double(f16_from_double(f))));
        else
            ck_assert_uint_eq(f16_from_double(f), h);
        if (isnan(b))
            ck_assert(isnan(bf16_to_double(bf16_from_double(b))));
        else
            ck_assert_uint_eq(bf16_from_double(b), h);
    }
    for (uint32_t i = 0; i < 0x7BFF; i++) { /* halfway goes to the even neighbour, a hair above goes up */
        double lo = f16_to_double((uint16_t)i), hi = f16_to_double((uint16_t)(i + 1)),
               mid = lo + (hi - lo) / 2;
        ck_assert_uint_eq(f16_from_double(mid), i & 1 ? i + 1 : i);
        ck_assert_uint_eq(f16_from_double(nextafter(mid, INFINITY)), i + 1);
        ck_assert_uint_eq(f16_from_double(nextafter(mid, 0)), i);
    }
    ck_assert_uint_eq(f16_from_double(65520), 0x7C00);
    ck_assert_uint_eq(f16_from_double(-65519), 0xFBFF);
    ck_assert_uint_eq(f16_from_double(0x1p-25), 0);
    ck_assert_uint_eq(f16_from_double(0x1.8p-25), 1);
    ck_assert_uint_eq(f16_from_double(-INFINITY), 0xFC00);
    ck_assert_uint_eq(bf16_from_double(1e39), 0x7F80);
}

TEST(generator_is_a_function_of_its_arguments)
{
    /* Fixed values: the same bits on every machine, now and later. */
    ck_assert_uint_eq(rng_mix(0), 0);
    ck_assert_uint_eq(rng_u64(1, 2, 3), rng_u64(1, 2, 3));
    ck_assert(rng_u64(1, 2, 3) != rng_u64(1, 2, 4));
    ck_assert(rng_u64(1, 2, 3) != rng_u64(1, 3, 3));
    ck_assert(rng_u64(1, 2, 3) != rng_u64(2, 2, 3));
    double sum = 0, sq = 0, n = 200000;
    for (uint64_t i = 0; i < 200000; i++) {
        double x = rng_bell(9, 1, i);
        sum += x;
        sq += x * x;
        check_each(fabs(x) < 3.5, "number %d is %g", (int)i, x);
    }
    ck_assert(fabs(sum / n) < 0.01);
    ck_assert(fabs(sq / n - 1) < 0.01);
}

TEST(merge_has_an_identity)
{
    double a[2] = {0, 0}, la = -INFINITY, b[2] = {0, 0};
    lse_merge(a, &la, b, -INFINITY, 2);
    ck_assert(a[0] == 0 && a[1] == 0 && la == -INFINITY);
    double x[2] = {0.1, -3e-310}; /* bit for bit, subnormals too */
    lse_merge(a, &la, x, 0.7, 2);
    ck_assert_mem_eq(a, x, sizeof x);
    ck_assert(la == 0.7);
    lse_merge(a, &la, b, -INFINITY, 2);
    ck_assert_mem_eq(a, x, sizeof x);
}

TEST(merge_keeps_nan_and_weighs)
{
    double a[1] = {1}, la = 0, b[1] = {NAN};
    lse_merge(a, &la, b, 0, 1);
    ck_assert(isnan(a[0]));
    a[0] = 1;
    la = 0;
    b[0] = 2;
    lse_merge(a, &la, b, NAN, 1);
    ck_assert(isnan(la));
    a[0] = 1;
    la = log(3);
    b[0] = 5;
    lse_merge(a, &la, b, 0, 1); /* weights 3 : 1 */
    ck_assert(fabs(a[0] - 2) < 1e-15);
    ck_assert(fabs(la - log(4)) < 1e-15);
}

/* OCP 8-bit Floating Point Specification, table 1, and torch.float8_e4m3fn, torch.float8_e5m2: some codes, their numbers. */
TEST(fp8_numbers)
{
    static const struct {
        enum dtype t;
        uint8_t code;
        double is;
    } all[] = {{DT_E4M3, 0x00, 0},        {DT_E4M3, 0x01, 0x1p-9},  {DT_E4M3, 0x07, 0x1.Cp-7},
               {DT_E4M3, 0x08, 0x1p-6},   {DT_E4M3, 0x38, 1},       {DT_E4M3, 0x3C, 1.5},
               {DT_E4M3, 0x77, 240},      {DT_E4M3, 0x78, 256},     {DT_E4M3, 0x7E, 448},
               {DT_E4M3, 0xBF, -1.875},   {DT_E5M2, 0x01, 0x1p-16}, {DT_E5M2, 0x03, 0x1.8p-15},
               {DT_E5M2, 0x04, 0x1p-14},  {DT_E5M2, 0x3C, 1},       {DT_E5M2, 0x7B, 57344},
               {DT_E5M2, 0x7C, INFINITY}, {DT_E5M2, 0xC1, -2.5}};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        check_each(dtype_load(all[i].t, &all[i].code, 0) == all[i].is, "%s %x", dtype_name[all[i].t],
                   all[i].code);
    ck_assert(dtype_size[DT_E4M3] == 1 && dtype_size[DT_E5M2] == 1 && dtype_unit[DT_E4M3] == 0x1p-4 &&
              dtype_unit[DT_E5M2] == 0x1p-3);
}

/* All codes come back, in order of their numbers; what lies between two goes to the nearer one, or the even one; the rest saturates. */
LOOP_TEST(fp8_is_rounded_to_nearest_even, 2)
{
    enum dtype t = _i ? DT_E5M2 : DT_E4M3;
    uint8_t most = t == DT_E4M3 ? 0x7E : 0x7B, code, next, got;
    for (int i = 0; i < 256; i++) {
        code = (uint8_t)i;
        double x = dtype_load(t, &code, 0);
        bool number = (i & 0x7F) <= most;
        check_each(number == isfinite(x), "%s %x", dtype_name[t], i);
        dtype_store(t, &got, 0, x);
        check_each(!number || got == code, "%s %x comes back as %x", dtype_name[t], i, got);
        if (!number || (i & 0x7F) == most)
            continue;
        next = (uint8_t)(i + 1);
        double y = dtype_load(t, &next, 0), middle = (x + y) / 2, tiny = fabs(y - x) * 0x1p-30;
        check_each(fabs(y) > fabs(x), "%s %x", dtype_name[t], i);
        double toward = i & 0x80 ? -1 : 1;
        dtype_store(t, &got, 0, middle - toward * tiny);
        check_each(got == code, "%s below %x, %x", dtype_name[t], i, i + 1);
        dtype_store(t, &got, 0, middle + toward * tiny);
        check_each(got == next, "%s above %x, %x", dtype_name[t], i, i + 1);
        dtype_store(t, &got, 0, middle);
        check_each(got == (code & 1 ? next : code), "%s between %x and %x", dtype_name[t], i, i + 1);
    }
    for (int sign = 0; sign < 2; sign++) {
        const double large[] = {1e3, 6e4, 1e5, 1e300, INFINITY}, small[] = {0, 0x1p-20, 0x1p-1060};
        for (int i = t == DT_E4M3 ? 0 : 1; i < 5; i++) {
            dtype_store(t, &got, 0, sign ? -large[i] : large[i]);
            check_each(got == (most | sign << 7), "%s %g", dtype_name[t], large[i]);
        }
        for (int i = 0; i < 3; i++) {
            dtype_store(t, &got, 0, sign ? -small[i] : small[i]);
            check_each(got == sign << 7, "%s %g", dtype_name[t], small[i]);
        }
        dtype_store(t, &got, 0, sign ? -(double)NAN : (double)NAN);
        double back = dtype_load(t, &got, 0);
        ck_assert(isnan(back) && nan_kind(back) == NAN_POISON);
    }
    enum dtype parsed = DT_F32;
    ck_assert(dtype_parse_fp8(dtype_name[t], &parsed) && parsed == t &&
              !dtype_parse(dtype_name[t], &parsed) && !dtype_parse_fp8("f16", &parsed));
}

static struct problem_spec spec(enum dtype dtype, enum fill fill)
{
    return (struct problem_spec){.heads = {4, 2, 16, dtype},
                                 .page_size = 4,
                                 .scattered = true,
                                 .poison = true,
                                 .fill = fill,
                                 .seed = 5};
}

/* Attention of one row by the definition, in long double, without any shared code; and what the bound wants to know. */
struct definition {
    long double o[16], low[16], high[16], lse, gap;
};

static void by_definition(const struct problem *p, int32_t q, int32_t h, struct definition *x)
{
    const struct tree *t = p->tree;
    long double top = -INFINITY, second = -INFINITY, sum = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (int32_t c = 0; c < p->heads.d; c++) {
            x->o[c] = 0;
            x->low[c] = INFINITY;
            x->high[c] = -INFINITY;
        }
        for (int32_t node = t->query[q].node; node >= 0; node = t->parent[node]) {
            int64_t end = node == t->query[q].node ? t->query[q].upto : t->len[node];
            for (int64_t j = 0; j < end; j++) {
                int64_t at =
                    (problem_slot(p, node, j) * p->heads.h_kv + h / heads_gqa(&p->heads)) * p->heads.d;
                long double s = 0;
                int32_t kv_head = h / heads_gqa(&p->heads);
                enum dtype kv = heads_kv_dtype(&p->heads);
                for (int32_t c = 0; c < p->heads.d; c++)
                    s += (long double)dtype_load(p->heads.dtype, p->q,
                                                 ((int64_t)q * p->heads.h_q + h) * p->heads.d + c) *
                         dtype_load(kv, p->k, at + c);
                s *= p->scale;
                if (p->k_scale)
                    s *= p->k_scale[kv_head];
                if (pass == 0) {
                    second = s > top ? top : s > second ? s : second;
                    top = s > top ? s : top;
                    continue;
                }
                long double w = expl(s - top);
                sum += w;
                for (int32_t c = 0; c < p->heads.d; c++) {
                    long double v = dtype_load(kv, p->v, at + c);
                    if (p->v_scale)
                        v *= p->v_scale[kv_head];
                    x->o[c] += w * v;
                    x->low[c] = v < x->low[c] ? v : x->low[c];
                    x->high[c] = v > x->high[c] ? v : x->high[c];
                }
            }
        }
    }
    for (int32_t c = 0; c < p->heads.d; c++)
        x->o[c] = sum > 0 ? x->o[c] / sum : 0;
    x->lse = sum > 0 ? top + logl(sum) : -INFINITY;
    x->gap = isinf(second) ? INFINITY : top - second;
}

TEST(oracle_is_the_definition)
{
    AUTO(tree) t = sample();
    for (int dt = 0; dt < N_DTYPES * 3; dt++)
        for (int fill = 0; fill < N_FILLS; fill++) {
            struct problem_spec s = spec((enum dtype)(dt / 3), (enum fill)fill);
            s.heads.kv_fp8 = dt % 3 == 1 ? DT_E4M3 : dt % 3 == 2 ? DT_E5M2 : DT_F64;
            s.head_scales = dt % 3 == 1;
            AUTO(problem) p = problem_new(t, &s, NULL);
            AUTO(oracle) orc = oracle_new(p);
            for (int32_t q = 0; q < t->n_queries; q++)
                for (int32_t h = 0; h < p->heads.h_q; h++) {
                    struct definition x;
                    by_definition(p, q, h, &x);
                    int64_t row = (int64_t)q * p->heads.h_q + h;
                    if (isinf(x.lse))
                        ck_assert(orc->lse[row] == -INFINITY);
                    else
                        ck_assert(fabsl(orc->lse[row] - x.lse) <= 1e-12L * (1 + fabsl(x.lse)));
                    ck_assert(orc->gap[row] == x.gap ||
                              fabsl(orc->gap[row] - x.gap) <= 1e-14L * (1 + orc->abs_dot[row]));
                    for (int32_t c = 0; c < p->heads.d; c++) {
                        ck_assert(fabsl(orc->o[row * p->heads.d + c] - x.o[c]) <=
                                  1e-11L * (1 + orc->logit[row]) * orc->max_v[row * p->heads.d + c]);
                        ck_assert(orc->range_o[row * p->heads.d + c] ==
                                  (isinf(x.lse) ? 0 : (double)(x.high[c] - x.low[c])));
                    }
                }
        }
}

/* K and V in 8 bits stand for what they are in 16, rounded: nothing saturates, and scales differ. */
LOOP_TEST(fp8_problems_are_those_of_16_bits_rounded, N_FILLS)
{
    AUTO(tree) t = sample();
    int alike = 0;
    for (uint64_t seed = 0; seed < 40; seed++) {
        struct problem_spec wide = spec(DT_F32, (enum fill)_i), narrow = wide;
        wide.seed = narrow.seed = seed;
        narrow.heads.kv_fp8 = seed % 2 ? DT_E5M2 : DT_E4M3;
        narrow.head_scales = seed / 2 % 2;
        AUTO(problem) a = problem_new(t, &wide, NULL);
        AUTO(problem) b = problem_new(t, &narrow, NULL);
        enum dtype kv = narrow.heads.kv_fp8;
        double end = kv == DT_E4M3 ? 448 : 57344, most[2] = {0, 0};
        for (int32_t node = 0; node < t->n_nodes; node++)
            for (int64_t j = 0; j < t->len[node]; j++) {
                if (a->page_table[a->page_off[node] + j / a->page_size] == PAGE_POISON)
                    continue;
                int64_t from = problem_slot(a, node, j) * 2 * 16, to = problem_slot(b, node, j) * 2 * 16;
                for (int64_t c = 0; c < 2 * 16; c++)
                    for (int v = 0; v < 2; v++) {
                        double x = dtype_load(DT_F32, v ? a->v : a->k, from + c),
                               y = (v ? problem_v : problem_k)(b, to + c),
                               scale = (double)(v ? b->v_scale : b->k_scale)[c / 16];
                        if (isnan(x))
                            continue;
                        bool same = _i != FILL_SPAN && _i != FILL_SUNK && !(_i == FILL_ONESIGN && v);
                        most[v] = fmax(most[v], fabs(y / scale));
                        check_each(isfinite(y) && fabs(y / scale) <= end, "seed %ld: %g", (long)seed, y);
                        check_each(!same || fabs(x - y) <= fmax(dtype_unit[kv] * fabs(x), scale * 0x1p-10),
                                   "seed %ld, %s: %g for %g", (long)seed, v ? "V" : "K", y, x);
                    }
            }
        check_each(most[0] < end || _i == FILL_SPAN || _i == FILL_SUNK, "seed %ld: K saturates", (long)seed);
        check_each(most[0] > end / 256 / 64 / 64 && most[1] > 0, "seed %ld: %g, %g", (long)seed, most[0],
                   most[1]);
        for (int v = 0; v < 2; v++) {
            const float *of = v ? b->v_scale : b->k_scale;
            double ratio = (double)(of[0] / of[1]);
            check_each(narrow.head_scales ? fabs(log(ratio)) > 0.05 : ratio == 1, "seed %ld: %g", (long)seed,
                       ratio);
        }
        alike += fabs(log((double)(b->k_scale[0] / b->v_scale[0]))) < 0.1;
        ck_assert_int_eq(problem_features(b), problem_spec_features(&narrow));
    }
    ck_assert_int_le(alike, _i == FILL_RANDOM || _i == FILL_ONEHOT || _i == FILL_IDENTICAL ? 0 : 3);
}

/* Contexts stay, inner nodes end at page edges, and there is nothing more to align. */
TEST(aligned_trees_have_whole_pages_and_the_same_queries)
{
    for (int32_t page = 1; page < 9; page++) {
        AUTO(tree) t = sample();
        AUTO(tree) x = tree_aligned(t, page);
        AUTO(tree) again = tree_aligned(x, page);
        int64_t before[16], after[16];
        ck_assert(tree_check(x, NULL) && x->n_queries == t->n_queries && t->n_queries <= 16);
        tree_contexts(t, before);
        tree_contexts(x, after);
        ck_assert_mem_eq(before, after, (size_t)t->n_queries * sizeof *before);
        for (int32_t i = 0; i < x->n_nodes; i++)
            ck_assert(x->parent[i] < 0 || x->len[x->parent[i]] % page == 0);
        ck_assert_int_eq(again->n_nodes, x->n_nodes);
        ck_assert_mem_eq(again->len, x->len, (size_t)x->n_nodes * sizeof *x->len);
        ck_assert(page > 1 || tree_tokens(x) == tree_tokens(t));
    }
}

/* A pool of 2^33 elements costs what is touched of it; the scale is the one given. */
TEST(pools_may_be_far_larger_than_trees)
{
    AUTO(tree) t = sample();
    struct problem_spec s = spec(DT_F16, FILL_RANDOM);
    s.poison = false;
    s.pool = 1 << 26;
    s.scale = 0.3;
    ck_assert_int_lt(problem_bytes(t, &s), 1 << 20);
    struct err e = {0};
    AUTO(problem) p = problem_new(t, &s, &e);
    ck_assert_msg(p, "%s", e.msg);
    int64_t last = 0;
    for (int64_t i = 0; i < p->page_off[t->n_nodes]; i++)
        last = max_i64(last, p->page_table[i]);
    ck_assert(p->n_pages == s.pool && last * s.page_size * 2 * 16 > INT64_C(1) << 32 && p->scale == 0.3);
    s.poison = true;
    ck_assert_int_gt(problem_bytes(t, &s), INT64_C(1) << 33);
    s.scale = NAN;
    ck_assert(!problem_spec_check(&s, NULL));
}

/* What a planner may see is the shape of the very problem; a path's slots are those of its tokens, root first. */
TEST(a_shell_and_paths_are_the_problems)
{
    AUTO(tree) t = sample();
    struct problem_spec s = spec(DT_F16, FILL_RANDOM);
    for (int scattered = 0; scattered < 2; scattered++) {
        s.scattered = scattered;
        AUTO(problem) p = problem_new(t, &s, NULL);
        AUTO(problem) bare = problem_shell(t, &s);
        ck_assert(bare->n_pages == p->n_pages && bare->page_size == p->page_size && bare->scale == p->scale);
        ck_assert(heads_equal(&bare->heads, &p->heads) && !bare->page_table && !bare->k);
        ck_assert_mem_eq(bare->page_off, p->page_off, 5 * sizeof *p->page_off);
        int64_t slot[17];
        problem_path_slots(p, 0, 17, slot); /* 10 of the root, 4 of its child, 3 of the grandchild */
        for (int64_t j = 0; j < 17; j++)
            ck_assert_int_eq(slot[j], j < 10   ? problem_slot(p, 0, j)
                                      : j < 14 ? problem_slot(p, 1, j - 10)
                                               : problem_slot(p, 3, j - 14));
        problem_path_slots(p, 1, 7, slot);
        ck_assert_int_eq(slot[6], problem_slot(p, 0, 6));
        problem_path_slots(p, 2, 0, slot);
        struct err e = {0};
        ck_assert_int_eq(problem_page(p, 0, 0, &e), p->page_table[0]);
        p->page_table[0] = (int32_t)p->n_pages;
        ck_assert_int_eq(problem_page(p, 0, 0, &e), -1);
        ck_assert(strstr(e.msg, "page 0 of node 0 is"));
    }
}

/* ---- requests of several queries ------------------------------------------------------------------------- */

/* Leaves of 6 and of 1 below a root of 3, and a query at its end that three could go on behind; one that sees nothing. */
TEST(queries_a_token_apart_are_a_request)
{
    AUTO(tree) t = tree_new(4, 9);
    static const struct query query[] = {{1, 6}, {0, 3}, {1, 4}, {2, 1}, {1, 5}, {0, 0}, {1, 1}, {1, 1}, {3, 0}};
    static const int32_t first[] = {0, 2, 5, 6, 7, 8, 9}, order[] = {1, 3, 2, 4, 0, 5, 6, 7, 8};
    t->len[0] = 3;
    t->len[1] = 6;
    t->len[2] = 1;
    t->parent[1] = t->parent[2] = 0;
    t->parent[3] = 2; /* an empty node: its query sees what that of node 2 sees */
    memcpy(t->query, query, sizeof query);
    struct tails *r = tails_of(t);
    ck_assert_int_eq(r->n, 6);
    ck_assert_mem_eq(r->first, first, sizeof first);
    ck_assert_mem_eq(r->order, order, sizeof order);
    ck_assert(tails_last(r, 1) == 0 && tails_len(r, 1) == 3 && tails_before(r, 4) == 1 && r->of[4] == 1);
    tails_free(r);
}

/* The token that a path ends with, n tokens before that of the query; node -1: there is none. */
static struct query end_of(const struct tree *t, struct query x, int64_t n)
{
    for (;;) {
        int64_t take = min_i64(n, x.upto);
        x.upto -= take;
        n -= take;
        if (x.upto > 0 || x.node < 0)
            return x;
        x.node = t->parent[x.node];
        x.upto = x.node < 0 ? 0 : t->len[x.node];
    }
}

/* Each request's queries see one path, a token more each; all queries are in one, and none could be longer. */
LOOP_TEST(requests_of_every_tree, N_FAMILIES)
{
    for (uint64_t seed = 1; seed < 40; seed++) {
        AUTO(tree) t = gen_tree((enum family)_i, seed);
        ck_assert(tree_set_tails(t, 1 + (int32_t)(seed % 5), NULL) && tree_check(t, NULL));
        struct tails *r = tails_of(t);
        FREED int64_t *ctx = xcalloc((size_t)t->n_queries, sizeof *ctx);
        FREED int32_t *met = xcalloc((size_t)t->n_queries, sizeof *met);
        tree_contexts(t, ctx);
        for (int32_t i = 0; i < r->n; i++)
            for (int32_t k = r->first[i]; k < r->first[i + 1]; k++) {
                int32_t q = r->order[k], last = tails_last(r, i);
                struct query own = end_of(t, t->query[q], 0), path = end_of(t, t->query[last], ctx[last] - ctx[q]);
                met[q]++;
                check_each(r->of[q] == i && (k == r->first[i] || ctx[q] == ctx[r->order[k - 1]] + 1), "query %d", q);
                check_each(own.node == path.node && own.upto == path.upto, "seed %d: query %d is not on the path of %d",
                           (int)seed, q, last);
            }
        for (int32_t q = 0; q < t->n_queries; q++)
            check_each(met[q] == 1, "query %d", q);
        tails_free(r);
    }
}

TEST(tails_are_the_last_tokens_of_a_node)
{
    AUTO(tree) t = levels_parse("1,2 10,2", NULL);
    t->len[2] = 9;
    tree_query_leaves(t);
    ck_assert(tree_set_tails(t, 3, NULL));
    static const struct query want[] = {{1, 1}, {1, 2}, {2, 7}, {2, 8}, {2, 9}};
    ck_assert_int_eq(t->n_queries, 5);
    for (int q = 0; q < 5; q++)
        ck_assert(t->query[q].node == want[q].node && t->query[q].upto == want[q].upto);
    struct tails *r = tails_of(t);
    ck_assert(r->n == 2 && tails_len(r, 0) == 2 && tails_len(r, 1) == 3);
    tails_free(r);
    AUTO(tree) wide = levels_parse("1,60000 10,600", NULL);
    FAILS("36000000 queries, 600 a request", tree_set_tails, wide, 600);
}

/* A root of 10 tokens and a leaf of 6: queries at its end, in its middle, and at place 4 of the root. */
TEST(a_window_is_the_end_of_a_path)
{
    static const int64_t seen[] = {7, 7, 4}, since[] = {9, 6, 0};
    AUTO(tree) t = tree_new(2, 3);
    t->parent[1] = 0;
    t->len[0] = 10;
    t->len[1] = 6;
    t->query[0] = (struct query){1, 6};
    t->query[1] = (struct query){1, 3};
    t->query[2] = (struct query){0, 4};
    tree_set_window(t, 7);
    int64_t ctx[3], slot[7];
    tree_contexts(t, ctx);
    ck_assert_mem_eq(ctx, seen, sizeof seen);
    ck_assert_mem_eq(t->since, since, sizeof since);
    ck_assert(tree_check(t, NULL));
    struct problem_spec s = spec(DT_F32, FILL_RANDOM);
    AUTO(problem) p = problem_new(t, &s, NULL);
    ck_assert_uint_eq(problem_features(p), UINT32_C(1) << FEATURE_WINDOW);
    problem_path_slots(p, 1, 7, slot);
    for (int64_t j = 0; j < 7; j++)
        ck_assert_int_eq(slot[j], j < 4 ? problem_slot(p, 0, 6 + j) : problem_slot(p, 1, j - 4));
    AUTO(nform) nf = nform_new(t);
    for (int32_t q = 0; q < 3; q++)
        ck_assert_int_eq(nform_context(nf, q), seen[nf->orig[q]]);
    t->since[2] = 5; /* behind the end of its path */
    ck_assert(!tree_check(t, NULL));
}

/* What all windows have left behind has no tokens in normal form, and NaN in the pool. */
TEST(nobody_reads_what_all_windows_left_behind)
{
    AUTO(tree) t = tree_new(2, 2);
    t->parent[1] = 0;
    t->len[0] = 10;
    t->len[1] = 6;
    t->query[0] = (struct query){1, 6};
    t->query[1] = (struct query){1, 3};
    tree_set_window(t, 7);
    struct problem_spec s = spec(DT_F32, FILL_RANDOM);
    s.poison = true;
    AUTO(problem) p = problem_new(t, &s, NULL);
    AUTO(nform) nf = nform_new(t);
    int64_t row = (int64_t)p->heads.h_kv * p->heads.d, planned = 0;
    for (int64_t j = 0; j < 10; j++)
        ck_assert_int_eq(isnan(dtype_load(DT_F32, p->k, problem_slot(p, 0, j) * row)) != 0, j < 6);
    for (int32_t i = 0; i < nf->n_nodes; i++)
        planned += nf->len[i];
    ck_assert_int_eq(planned, 10);
}

/* An order has every number once, and another series is another order. */
TEST(pages_are_shuffled)
{
    FREED int32_t *a = pages_shuffled(100, 1, 2), *b = pages_shuffled(100, 1, 3);
    bool seen[100] = {false}, same = true;
    for (int i = 0; i < 100; i++) {
        ck_assert(a[i] >= 0 && a[i] < 100 && !seen[a[i]]);
        seen[a[i]] = true;
        same = same && a[i] == b[i];
    }
    ck_assert(!same);
}

static void whole(const char *text, const char *says)
{
    CLEARED_BY(csv_clear) struct csv c = {0};
    struct err e = {0};
    bool good = csv_parse(text, strlen(text), "f", &c, &e) && csv_whole(&c, &e);
    ck_assert_msg(good == !says && (good || strstr(e.msg, says)), "'%s': %s", text, e.msg);
}

TEST(a_whole_csv_lacks_nothing)
{
    whole("# rows: 2\na,b\n1,2\n3,\"4,5\"\n", NULL);
    whole("a,b\n1,2\n", NULL);
    whole("a,b\n1,2", "f:2: ends inside of a line");
    whole("a,b\n1\n1,2\n", "f:2: 1 fields (expected 2");
    whole("a,b\n\n1,2\n", "f:2: empty");
    whole("# rows: 2\na,b\n1,2\n", "f:3: 1 rows (expected 2");
    const char *text = "# machine: h200\na,b\n# between\n1,2\n";
    CLEARED_BY(csv_clear) struct csv c = {0};
    ck_assert(csv_parse(text, strlen(text), "f", &c, NULL) && c.n_notes == 2);
    ck_assert_str_eq(csv_note(&c, "machine"), "h200");
    ck_assert(!csv_note(&c, "mach") && csv_text(&c, 0, "z")[0] == 0);
    ck_assert_str_eq(csv_text(&c, 0, "b"), "2");
}

TEST(counting_data_counts)
{
    AUTO(tree) t = sample();
    struct problem_spec s = spec(DT_F16, FILL_COUNT);
    AUTO(problem) p = problem_new(t, &s, NULL);
    AUTO(oracle) orc = oracle_new(p);
    for (int64_t row = 0; row < orc->n_rows; row++) {
        int64_t n = orc->ctx[row / p->heads.h_q];
        if (n > 0)
            ck_assert(fabs(orc->lse[row] - log((double)n)) < 1e-14);
        for (int32_t c = 0; c < p->heads.d && n > 0; c++) {
            double codes = orc->o[row * p->heads.d + c] * (double)n;
            ck_assert(fabs(codes - nearbyint(codes)) < 1e-9);
        }
    }
}

TEST(data_does_not_depend_on_paging)
{
    AUTO(tree) t = sample();
    struct problem_spec a = spec(DT_BF16, FILL_RANDOM), b = a;
    b.page_size = 1;
    b.scattered = false;
    b.poison = false;
    AUTO(problem) p = problem_new(t, &a, NULL), *r = problem_new(t, &b, NULL);
    int64_t row = (int64_t)p->heads.h_kv * p->heads.d;
    for (int32_t node = 0; node < t->n_nodes; node++)
        for (int64_t j = 0; j < t->len[node]; j++) {
            ck_assert_mem_eq((uint16_t *)p->k + problem_slot(p, node, j) * row,
                             (uint16_t *)r->k + problem_slot(r, node, j) * row, (size_t)row * 2);
            ck_assert_mem_eq((uint16_t *)p->v + problem_slot(p, node, j) * row,
                             (uint16_t *)r->v + problem_slot(r, node, j) * row, (size_t)row * 2);
        }
    ck_assert_mem_eq(p->q, r->q, (size_t)t->n_queries * 4 * 16 * 2);
}

TEST(what_nobody_reads_is_poisoned)
{
    AUTO(tree) t = sample();
    t->n_queries = 2; /* both see at most 7 tokens of the root ... */
    t->query[0] = (struct query){0, 7};
    t->query[1] = (struct query){0, 3};
    struct problem_spec s = spec(DT_F32, FILL_RANDOM);
    AUTO(problem) p = problem_new(t, &s, NULL);
    ck_assert_int_ne(p->page_table[1], PAGE_POISON); /* tokens 4-7: 7 is poison, its page is not */
    ck_assert_int_eq(p->page_table[2], PAGE_POISON);
    for (int64_t i = p->page_off[1]; i < p->page_off[4]; i++)
        ck_assert_int_eq(p->page_table[i], PAGE_POISON);
    ck_assert(isnan(dtype_load(DT_F32, p->k, problem_slot(p, 0, 7) * 32)));
    ck_assert(!isnan(dtype_load(DT_F32, p->v, problem_slot(p, 0, 6) * 32)));
    AUTO(oracle) orc = oracle_new(p);
    for (int64_t i = 0; i < orc->n_rows * p->heads.d; i++)
        ck_assert(!isnan(orc->o[i]));
}

TEST(oracle_does_not_hide_nan)
{
    AUTO(tree) t = sample();
    struct problem_spec s = spec(DT_F32, FILL_RANDOM);
    AUTO(problem) p = problem_new(t, &s, NULL);
    dtype_store(DT_F32, p->k, problem_slot(p, 0, 2) * 32, NAN);
    AUTO(oracle) orc = oracle_new(p);
    ck_assert(isnan(orc->o[0]) && isnan(orc->lse[0]));
}

TEST(bad_specs_are_refused)
{
    AUTO(tree) t = sample();
    struct problem_spec good = spec(DT_F32, FILL_RANDOM), s;
    int32_t *field[] = {&s.heads.h_q, &s.heads.h_kv, &s.heads.d, &s.heads.d, &s.page_size};
    int32_t value[] = {3, 0, 0, PROBLEM_MAX_D + 1, 0};
    for (int i = 0; i < 5; i++) {
        s = good;
        *field[i] = value[i];
        struct err e = {0};
        ck_assert(problem_new(t, &s, &e) == NULL);
        ck_assert_int_eq(e.code, EXIT_BAD_INPUT);
        ck_assert(strstr(e.msg, "expected"));
    }
}

TEST(decimals_are_strict_and_read_back)
{
    static const char *const bad[] = {"", " 1", "1 ", "0x10", "nan", "inf", "1e999", "1,5", "-", "e", "1e"};
    static const double exact[] = {
        0, 1, -0.25, 1e9, 1234567, 0.1234567890123456, 0.1, 1.0 / 3, 2e-308, 123456789012345678.0};
    char text[DECIMAL_SIZE];
    double x = 7;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        ck_assert_msg(!decimal_parse(bad[i], &x) && x == 7, "'%s'", bad[i]);
    for (size_t i = 0; i < sizeof exact / sizeof exact[0]; i++)
        ck_assert_msg(decimal_parse(decimal_print(text, exact[i]), &x) && x == exact[i], "%s", text);
    ck_assert_str_eq(decimal_print(text, 0.1), "0.1");
    ck_assert_str_eq(decimal_print(text, 1e9), "1e+09");
    ck_assert_str_eq(decimal_print(text, 1234567), "1234567");
}

/* Room is asked for as it is needed; what cannot be there is not. */
EXIT_TEST(arrays_stay_within_the_memory, EXIT_MISSING)
{
    int64_t cap = 0;
    FREED char *p = xgrow(NULL, &cap, (1 << 24) + 1, 1);
    ck_assert_int_gt(cap, 1 << 24);
    cap = 0;
    ck_assert_ptr_nonnull(freopen("/dev/null", "w", stderr)); /* what it says there is meant */
    xgrow(NULL, &cap, INT64_C(1) << 50, 96);
}
