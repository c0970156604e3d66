/* check_why.c - `figures --why`: the cells that it names are those that a drawn number is made of. */
#include "tests/shared.h"
#include "tests/suites.h"
#include "ref/rng.h"

#include <math.h>

enum { CELLS = 20, SIZE = 1 << 16 };

static const char *figures_program(void)
{
    const char *name = getenv("FIGURES_BIN");
    return name ? name : "build/paper-figs/figures";
}

/* The numbers behind " = " of lines that begin with six blanks, in order; how many. */
static int named_numbers(const char *out, double *x, int most)
{
    int n = 0;
    for (const char *line = out; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        const char *equals = strncmp(line, "      ", 6) == 0 ? strstr(line, " = ") : NULL;
        if (!*line)
            break;
        if (equals && equals < line + strcspn(line, "\n") && n < most)
            x[n++] = atof(equals + 3);
    }
    return n;
}

/* Its points are a time over another one: that of FastTree's plan on the same tree. */
TEST(a_ratio_rests_on_two_measured_times)
{
    struct csv drawn;
    struct err e = {0};
    char *out = xmalloc(SIZE);
    ck_assert_msg(csv_read("paper-figs/drawn/fasttree_fig9_ours.csv", &drawn, &e), "%s", e.msg);
    for (int i = 0, tried = 0; i < CELLS; tried++) {
        int64_t row = (int64_t)(rng_u64(20, 1, (uint64_t)tried) % (uint64_t)drawn.n_rows);
        double ours, x[2];
        if (strncmp(csv_text(&drawn, row, "at"), "tree ", 5) != 0) /* means are over many */
            continue;
        ck_assert(csv_f64(&drawn, row, csv_find(&drawn, "ours"), &ours, &e));
        ck_assert_int_eq(
            run_shell(out, SIZE, "%s --no-data --why fasttree_fig9_ours %d", figures_program(), (int)row + 1),
            0);
        int n = named_numbers(out, x, 2);
        if (n == 0 && ours == 1) /* FastTree's own */
            continue;
        ck_assert_msg(n == 2, "%.900s", out);
        ck_assert_msg(fabs(x[0] / x[1] - ours) < 1e-5 * ours || fabs(x[1] / x[0] - ours) < 1e-5 * ours,
                      "%g: %.900s", ours, out);
        ck_assert_msg(strstr(out, "treeattn bench gpu --sets ") && strstr(out, ", commit "), "%.900s", out);
        i++;
    }
    free(out);
    csv_clear(&drawn);
}

TEST(a_cell_that_is_none_is_refused)
{
    char out[1024];
    ck_assert_int_eq(
        run_shell(out, sizeof out, "%s --no-data --why fasttree_fig9_ours 100000 2>&1", figures_program()),
        2);
    ck_assert_msg(strstr(out, "has no cell '100000'"), "%.900s", out);
    ck_assert_int_eq(
        run_shell(out, sizeof out, "%s --no-data --why fasttree_fig9_ours 2>&1", figures_program()), 2);
    ck_assert_int_eq(run_shell(out, sizeof out,
                               "%s --no-data --why fasttree_fig9_ours 'flash-attention@tree 3'",
                               figures_program()),
                     0);
    ck_assert_msg(strstr(out, "row 3 of drawn/"), "%.900s", out);
}
