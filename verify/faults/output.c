/*
 * output.c - faults in what the kernel wrote, and in what the comparator is given.
 *
 * They start from the sound output, so that nothing but the fault is wrong; the plan is untouched.
 */
#include "ref/rng.h"
#include "verify/faults/kinds.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- rows -------------------------------------------------------------------------------------------- */

/* A random row whose query sees at least `least` tokens (0: whose query sees none, exactly); -1 if none. */
static int64_t draw_row(const struct fault_case *fc, struct broken *b, int64_t least)
{
    int64_t h_q = fc->problem->heads.h_q;
    EACH_INDEX (b, row, fc->oracle->n_rows) {
        int64_t ctx = fc->oracle->ctx[row / h_q];
        if (least == 0 ? ctx == 0 : ctx >= least) {
            fault_place(b, "query %" PRId64 " head %" PRId64, row / h_q, row % h_q);
            return row;
        }
    }
    return -1;
}

/* Element of O, through the storage type. */
static double get_o(const struct output *out, int64_t row, int64_t col)
{
    return dtype_load(out->dtype, out->o, row * out->d + col);
}

static void set_o(struct output *out, int64_t row, int64_t col, double x)
{
    dtype_store(out->dtype, out->o, row * out->d + col, x);
}

/* O and LSE; both outputs have the type and width of the problem. */
static void copy_row(struct output *to, int64_t row, const struct output *from, int64_t from_row)
{
    for (int32_t c = 0; c < to->d; c++)
        set_o(to, row, c, get_o(from, from_row, c));
    output_set_lse(to, row, output_lse(from, from_row));
}

/* LSE alone of a row whose query sees `least` tokens or, if 0, none. Gives the row; -1 if there is none. */
static int64_t break_lse(const struct fault_case *fc, struct broken *b, int64_t least, double lse)
{
    int64_t row = draw_row(fc, b, least);
    if (row >= 0)
        output_set_lse(fault_edit_output(fc, b), row, lse);
    return row;
}

/* LSE and all of O. */
static bool break_row(const struct fault_case *fc, struct broken *b, int64_t least, double o, double lse)
{
    int64_t row = break_lse(fc, b, least, lse);
    for (int32_t c = 0; row >= 0 && c < fc->good->d; c++)
        set_o(b->output, row, c, o);
    return row >= 0;
}

/* Does `edit` break one of so many rows drawn? Each has a query that sees `least` tokens. */
static bool break_one(const struct fault_case *fc, struct broken *b, int64_t least, int64_t tries,
                      bool (*edit)(const struct fault_case *fc, struct broken *b, int64_t row))
{
    for (int64_t i = 0, row; i < tries && (row = draw_row(fc, b, least)) >= 0; i++)
        if (edit(fc, b, row))
            return true;
    return false;
}

/* A kind that breaks one row: its body is the `edit` of break_one. */
#define ROW_KIND(name, least, tries)                                                                         \
    static bool name(const struct fault_case *fc, struct broken *b, int64_t row);                            \
    KIND(name, break_one(fc, b, least, tries, name))                                                         \
    static bool name(const struct fault_case *fc, struct broken *b, int64_t row)

/* One element of O, and the same of the reference; 0: it stays as it is. */
static bool break_element(const struct fault_case *fc, struct broken *b, double got, double want)
{
    int64_t row = draw_row(fc, b, 1), col = fault_draw(b, fc->good->d);
    if (row < 0)
        return false;
    struct output *out = fault_edit_output(fc, b);
    if (got != 0)
        set_o(out, row, col, got);
    if (want != 0) {
        b->oracle = oracle_new(fc->problem);
        b->oracle->o[row * fc->oracle->d + col] = want;
    }
    return true;
}

/* O and LSE of two heads of one query. */
ROW_KIND(heads_swapped, 1, 1)
{
    int64_t h_q = fc->problem->heads.h_q;
    if (h_q < 2)
        return false;
    int64_t other = row / h_q * h_q + (row % h_q + 1 + fault_draw(b, h_q - 1)) % h_q;
    struct output *out = fault_edit_output(fc, b);
    copy_row(out, row, fc->good, other);
    copy_row(out, other, fc->good, row);
    return true;
}

/* All heads of two queries, of which one at least sees something. */
static int64_t other_query(const struct fault_case *fc, struct broken *b, int64_t q)
{
    int64_t n = fc->problem->tree->n_queries;
    return n < 2 ? -1 : (q + 1 + fault_draw(b, n - 1)) % n;
}

ROW_KIND(queries_swapped, 1, 1)
{
    int64_t h_q = fc->problem->heads.h_q, other = other_query(fc, b, row / h_q);
    if (other < 0)
        return false;
    struct output *out = fault_edit_output(fc, b);
    for (int64_t h = 0; h < h_q; h++) {
        copy_row(out, row / h_q * h_q + h, fc->good, other * h_q + h);
        copy_row(out, other * h_q + h, fc->good, row / h_q * h_q + h);
    }
    return true;
}

/* What another query left in a buffer that was not overwritten. */
ROW_KIND(row_stale, 1, 1)
{
    int64_t h_q = fc->problem->heads.h_q, other = other_query(fc, b, row / h_q);
    if (other < 0)
        return false;
    copy_row(fault_edit_output(fc, b), row, fc->good, other * h_q + row % h_q);
    return true;
}

/* output_new fills with NaN: this is how a row looks that no kernel touched. */
KIND(row_unwritten, break_row(fc, b, 1, NAN, NAN))

/* The empty partial where there is something to see: all inputs of a merge lost. */
KIND(row_emptied, break_row(fc, b, 1, 0, -INFINITY))

/* All numbers of the row are there, none in its place. */
ROW_KIND(row_rotated, 1, 1)
{
    if (fc->good->d < 2)
        return false;
    struct output *out = fault_edit_output(fc, b);
    for (int32_t c = 0; c < out->d; c++)
        set_o(out, row, (c + 1) % out->d, get_o(fc->good, row, c));
    return true;
}

/* O times its sum of exp(logit): what is left when the last division is forgotten. */
ROW_KIND(row_not_divided, 2, fc->oracle->n_rows + 1)
{
    if (!(fabs(fc->oracle->lse[row]) > 0.1)) /* dividing by 1 changes nothing */
        return false;
    struct output *out = fault_edit_output(fc, b);
    for (int32_t c = 0; c < out->d; c++)
        set_o(out, row, c, get_o(fc->good, row, c) * exp(fc->oracle->lse[row]));
    return true;
}

/* ---- halves of a context ----------------------------------------------------------------------------- */

/* Exact attention of one row over the first or second half of its context: what a merge would combine. */
struct half {
    double o[PROBLEM_MAX_ROW], sum,
        top; /* O not divided by sum; sum of exp(logit - LSE); largest logit - LSE */
};

static struct half attend_half(const struct fault_case *fc, int64_t row, bool second)
{
    const struct problem *p = fc->problem;
    int32_t q = (int32_t)(row / p->heads.h_q), head = (int32_t)(row % p->heads.h_q),
            kv_head = head / heads_gqa(&p->heads);
    int64_t ctx = fc->oracle->ctx[q], *slot = xcalloc((size_t)ctx, sizeof *slot);
    struct half h = {.top = -INFINITY};
    problem_path_slots(p, q, ctx, slot);
    for (int64_t i = 0; i < ctx; i++) {
        bool late = 2 * (ctx - i) <= ctx;
        if (late != second)
            continue;
        double w = fault_weight(fc, q, head, slot[i]);
        h.sum += w;
        h.top = fmax(h.top, log(w));
        for (int32_t c = 0; c < fc->good->d; c++)
            h.o[c] += w * problem_v(p, (slot[i] * p->heads.h_kv + kv_head) * p->heads.d + c);
    }
    free(slot);
    return h;
}

/* The classical error of a split: partials averaged without their LSE. */
ROW_KIND(merge_unweighted, 3, 50)
{
    struct half one = attend_half(fc, row, false), two = attend_half(fc, row, true);
    if (!(fabs(one.sum - two.sum) > 0.1)) /* halves of equal weight: their plain mean is right */
        return false;
    struct output *out = fault_edit_output(fc, b);
    for (int32_t c = 0; c < out->d; c++)
        set_o(out, row, c, 0.5 * (one.o[c] / one.sum + two.o[c] / two.sum));
    return true;
}

/* O right, LSE of a part: what a fused merge leaves if it forgets to add the sums. */
ROW_KIND(lse_of_half, 2, 50)
{
    struct half one = attend_half(fc, row, false);
    if (!(one.sum < 0.99)) /* nearly all of the weight: no fault to speak of */
        return false;
    output_set_lse(fault_edit_output(fc, b), row, fc->oracle->lse[row] + log(one.sum));
    return true;
}

/* log of the sum forgotten. */
ROW_KIND(lse_maximum, 2, 50)
{
    double top = fmax(attend_half(fc, row, false).top, attend_half(fc, row, true).top);
    if (!(top < -0.01)) /* one key has it all: its logit is the LSE */
        return false;
    output_set_lse(fault_edit_output(fc, b), row, fc->oracle->lse[row] + top);
    return true;
}

/* ---- the whole array --------------------------------------------------------------------------------- */

/* Every element of O times `factor` plus `more`. */
static bool break_all(const struct fault_case *fc, struct broken *b, double factor, double more)
{
    if (!fault_any_seen(fc))
        return false;
    struct output *out = fault_edit_output(fc, b);
    for (int64_t i = 0; i < out->n_rows * out->d; i++)
        dtype_store(out->dtype, out->o, i, factor * dtype_load(out->dtype, fc->good->o, i) + more);
    return true;
}

/* Small, uniform, and invisible to a cosine distance. */
KIND(output_scaled, break_all(fc, b, 1 + fmax(1e-3, 8 * dtype_unit[fc->good->dtype]), 0))

KIND(output_zero, break_all(fc, b, 0, 0))

/* The first element everywhere: finite and of the right size. */
KIND(output_constant, fc->good->n_rows > 0 && break_all(fc, b, 0, get_o(fc->good, 0, 0)))

bool plant_output_random(const struct fault_case *fc, struct broken *b)
{
    if (!fault_any_seen(fc))
        return false;
    struct output *out = fault_edit_output(fc, b);
    for (int64_t row = 0; row < out->n_rows; row++)
        for (int32_t c = 0; c < out->d; c++) {
            uint64_t index = (uint64_t)(row * out->d + c);
            set_o(out, row, c, fabs(get_o(fc->good, row, 0)) * rng_bell(b->seed, UINT64_MAX, index));
        }
    return true;
}

/* ---- LSE --------------------------------------------------------------------------------------------- */

/* Kernels that use exp2 inside must convert at the border. */
bool plant_lse_base_2(const struct fault_case *fc, struct broken *b)
{
    if (!fault_any_seen(fc))
        return false;
    struct output *out = fault_edit_output(fc, b);
    for (int64_t row = 0; row < out->n_rows; row++)
        output_set_lse(out, row, output_lse(fc->good, row) / log(2));
    return true;
}

/* The whole row counted twice, or half of it. */
ROW_KIND(lse_shifted, 1, 1)
{
    output_set_lse(fault_edit_output(fc, b), row,
                   output_lse(fc->good, row) + (fault_draw(b, 2) ? log(2) : -log(2)));
    return true;
}

/* The convention of some libraries; ours is -inf, the identity of the merge. */
KIND(empty_plus_inf, break_lse(fc, b, 0, INFINITY) >= 0)

KIND(empty_zero, break_lse(fc, b, 0, 0) >= 0)

/* 0/0, the usual result of dividing by an empty sum. */
KIND(empty_nan, break_row(fc, b, 0, NAN, -INFINITY))

/* ---- the comparator's inputs ------------------------------------------------------------------------- */

KIND(nan_in_o, break_element(fc, b, NAN, 0))

KIND(nan_in_lse, break_lse(fc, b, 1, NAN) >= 0)

/* A reference that is broken judges nothing: it must not pass anything either. */
KIND(nan_in_oracle, break_element(fc, b, 0, NAN))

/* NaN - NaN compares neither greater nor smaller: the trap of comparators that ask `err > bound`. */
KIND(nan_in_both, break_element(fc, b, NAN, NAN))

KIND(inf_in_o, break_element(fc, b, INFINITY, 0))

/* -inf is right for queries that see nothing only. */
KIND(inf_in_lse, break_lse(fc, b, 1, -INFINITY) >= 0)

/* Fewer rows, shorter rows: everything that is there is right and may be read. */
bool plant_rows_differ(const struct fault_case *fc, struct broken *b)
{
    if (fc->good->n_rows == 0)
        return false;
    fault_edit_output(fc, b)->n_rows--;
    return true;
}

bool plant_d_differs(const struct fault_case *fc, struct broken *b)
{
    if (fc->good->d == 1 || fc->good->n_rows == 0)
        return false;
    struct output *out = fault_edit_output(fc, b);
    for (int64_t row = 0; row < out->n_rows; row++)
        for (int32_t c = 0; c < out->d - 1; c++)
            dtype_store(out->dtype, out->o, row * (out->d - 1) + c, get_o(fc->good, row, c));
    out->d--;
    return true;
}

/* What the comparator allows at one place (col -1: LSE): make that place absurd and ask. 0 if it finds
 * another place worse; then the absurd value is left as the fault, and it is the comparator that fails. */
static double bound_at(const struct fault_case *fc, struct output *out, int64_t row, int32_t col)
{
    double absurd = 1e3 * (1 + fabs(col < 0 ? fc->oracle->lse[row] : fc->oracle->o[row * out->d + col]));
    if (col < 0)
        output_set_lse(out, row, absurd);
    else
        set_o(out, row, col, absurd);
    struct comparison c = compare_output(fc->problem, fc->oracle, out, &fc->arith);
    return c.row == row && c.col == col ? c.bound : 0;
}

/* Two bounds off, and more where the storage type would round that away. */
ROW_KIND(o_off_bounds, 1, 1)
{
    int32_t col = (int32_t)fault_draw(b, fc->good->d);
    struct output *out = fault_edit_output(fc, b);
    double want = fc->oracle->o[row * out->d + col], bound = bound_at(fc, out, row, col);
    bool narrow = out->dtype == DT_F16 || out->dtype == DT_BF16;
    if (bound > 0)
        set_o(out, row, col, want + 2 * bound + (narrow ? 2 * dtype_unit[out->dtype] * fabs(want) : 0));
    return true;
}

ROW_KIND(lse_off_bounds, 1, 1)
{
    struct output *out = fault_edit_output(fc, b);
    double bound = bound_at(fc, out, row, -1);
    if (bound > 0)
        output_set_lse(out, row, fc->oracle->lse[row] + (fault_draw(b, 2) ? 2 : -2) * bound);
    return true;
}

/* What the project promises for |logit| <= 32, relative to the row's largest |O| and to max(1, |LSE|): said
 * here once more, so that a loosened tolerance cannot loosen its own test. 0 where nothing is promised:
 * larger logits, and O in a storage type coarser than the promise. */
static double promised(const struct fault_case *fc, bool lse)
{
    for (int64_t row = 0; row < fc->oracle->n_rows; row++)
        if ((fc->oracle->capped ? fc->oracle->abs_dot : fc->oracle->logit)[row] > 32)
            return 0;
    if (!lse && (fc->problem->heads.dtype == DT_F16 || fc->problem->heads.dtype == DT_BF16))
        return 0;
    return fc->problem->heads.dtype == DT_F64 ? 1e-12 : 5e-6;
}

/* And what a dot product may be off besides, where the |q_i k_i| of the row add up to more than 24. */
static double beyond_promise(const struct fault_case *fc, int64_t row)
{
    double u = fc->problem->heads.dtype == DT_F64 ? 0x1p-53 : 0x1p-24;
    return 3 * u * sqrt(fc->problem->heads.d) * fmax(0, fc->oracle->abs_dot[row] - 24);
}

ROW_KIND(o_off_figure, 1, 1)
{
    int32_t d = fc->good->d, col = (int32_t)fault_draw(b, d);
    double figure = promised(fc, false), top = 0;
    if (figure == 0)
        return false;
    const double *want = fc->oracle->o + row * d;
    for (int32_t c = 0; c < d; c++)
        top = fmax(top, fabs(want[c]));
    double off = figure * top + 2 * beyond_promise(fc, row) * fc->oracle->abs_o[row * d + col];
    set_o(fault_edit_output(fc, b), row, col, want[col] + (fault_draw(b, 2) ? 2 : -2) * off);
    return true;
}

ROW_KIND(lse_off_figure, 1, 1)
{
    double figure = promised(fc, true);
    if (figure == 0)
        return false;
    double want = fc->oracle->lse[row], off = figure * fmax(1, fabs(want)) + beyond_promise(fc, row);
    output_set_lse(fault_edit_output(fc, b), row, want + (fault_draw(b, 2) ? 2 : -2) * off);
    return true;
}
