/* check_score_layout.c - where scores, tokens and parts of O lie of a plan that materialises scores, followed as the kernels do. */
#include "kernels/cuda/host/score_layout.h"
#include "ref/base.h"
#include "ref/rng.h"
#include "tests/auto.h"
#include "tests/suites.h"

enum { SEED = 9, MOST_GROUPS = 60, SMS = 132 };

/* Elements begin .. end of an array of n are one row's, or block's, alone. */
static void take(uint8_t *taken, int64_t n, int64_t begin, int64_t end, const char *what)
{
    check_each(begin >= 0 && begin < end && end <= n, "%s %ld .. %ld of %ld", what, (long)begin, (long)end,
               (long)n);
    for (int64_t i = begin; i < end; i++)
        check_each(!taken[i]++, "%s %ld twice", what, (long)i);
}

static void all_taken(uint8_t *taken, int64_t n, const char *what)
{
    for (int64_t i = 0; i < n; i++)
        check_each(taken[i], "%s %ld is nobody's", what, (long)i);
    free(taken);
}

/* Rows have scores of their own and begin where 16 bytes can be read at once. */
static void follow_rows(const struct scores *s, const struct cuda_item *item, const struct unfused_row *row)
{
    uint8_t *score = xcalloc((size_t)s->n_scores, 1);
    int64_t at = 0;
    for (int64_t i = 0; i < s->n_groups; i++)
        for (int32_t h = 0; h < s->h_kv; h++)
            for (int32_t r = 0; r < item[i].n_rows; r++) {
                const struct unfused_row *x = &row[at++];
                check_each(x->item == i && x->kv_head == h && x->row == r, "row %ld is of another group",
                           (long)at);
                check_each(x->n == item[i].n_kv && x->ld >= x->n && x->ld <= s->most_scores,
                           "row %ld: %d of %d scores", (long)at, x->n, x->ld);
                check_each(x->score % 8 == 0 && x->ld % 8 == 0, "row %ld begins at %ld", (long)at,
                           (long)x->score);
                take(score, s->n_scores, x->score, x->score + x->ld, "score");
            }
    check_each(at == s->n_rows, "%ld rows of %ld", (long)at, (long)s->n_rows);
    all_taken(score, s->n_scores, "score");
}

/* The blocks of a group of few rows: each token once, O where its rows look for their parts. */
static void follow_skinny(const struct scores *s, const struct cuda_item *item, const struct unfused_row *row,
                          const struct skinny_block *block, uint8_t *o)
{
    const struct skinny_block *b = block;
    for (int64_t i = 0, row0 = 0; i < s->n_groups; row0 += (int64_t)item[i++].n_rows * s->h_kv) {
        int32_t token = 0, part = 0;
        if (item[i].n_rows > SKINNY_ROWS)
            continue;
        check_each(item[i].n_rows <= s->most_rows, "group %ld has more rows than any", (long)i);
        for (; token < item[i].n_kv; token = b++->end, part++) {
            check_each(b < block + s->n_skinny, "too few blocks");
            check_each(b->item == i && b->token == token && token % SKINNY_STEP == 0, "block %ld at %d of %d",
                       (long)(b - block), b->token, b->item);
            check_each(b->end > token && b->end - token <= s->block_tokens && b->end <= item[i].n_kv,
                       "block %ld: tokens %d .. %d", (long)(b - block), b->token, b->end);
            check_each(b->score == row[row0].score && b->ld == row[row0].ld,
                       "block %ld writes scores elsewhere", (long)(b - block));
            for (int64_t r = 0; r < (int64_t)item[i].n_rows * s->h_kv; r++) {
                const struct unfused_row *x = &row[row0 + r];
                check_each(x->score == b->score + r * b->ld, "row %ld has its scores elsewhere", (long)r);
                check_each(x->o + (int64_t)part * x->next == b->o + r, "part %d of row %ld lies elsewhere",
                           part, (long)r);
                take(o, s->n_o, b->o + r, b->o + r + 1, "row of O");
            }
        }
        check_each(row[row0].parts == part, "group %ld: %d parts, %d blocks", (long)i, row[row0].parts, part);
    }
    check_each(b == block + s->n_skinny, "%ld blocks of %ld", (long)(b - block), (long)s->n_skinny);
}

/* The other groups: tokens side by side, one O a row. */
static void follow_gathered(const struct scores *s, const struct cuda_item *item,
                            const struct unfused_row *row, const struct unfused_block *block, uint8_t *o)
{
    uint8_t *token = xcalloc((size_t)s->n_tokens + 1, 1);
    const struct unfused_block *b = block;
    for (int64_t i = 0, row0 = 0; i < s->n_groups; row0 += (int64_t)item[i++].n_rows * s->h_kv) {
        if (item[i].n_rows <= SKINNY_ROWS)
            continue;
        for (int32_t t = 0; t < item[i].n_kv; t += UNFUSED_TOKENS, b++) {
            check_each(b < block + s->n_blocks && b->item == i && b->token == t,
                       "block %ld is of another token", (long)(b - block));
            check_each(b->to == s->group[i].token0 + t, "group %ld is torn apart", (long)i);
            take(token, s->n_tokens, b->to, b->to + min_i64(UNFUSED_TOKENS, item[i].n_kv - t), "token");
        }
        for (int64_t r = 0; r < (int64_t)item[i].n_rows * s->h_kv; r++) {
            check_each(row[row0 + r].parts == 1 && row[row0 + r].o == s->group[i].o0 + r,
                       "O of row %ld is not where cuBLAS writes it", (long)r);
            take(o, s->n_o, row[row0 + r].o, row[row0 + r].o + 1, "row of O");
        }
    }
    check_each(b == block + s->n_blocks, "%ld blocks of %ld", (long)(b - block), (long)s->n_blocks);
    all_taken(token, s->n_tokens, "token");
}

TEST(everything_has_a_place_of_its_own)
{
    static const int32_t heads[] = {1, 2, 4, 8, 32}, longest[] = {1, 7, 64, 65, 600, 3000},
                         rows[] = {1, 2, 8, 16, 17, 71};
    struct cuda_item item[MOST_GROUPS];
    CLEARED(scores) s = {0};
    uint64_t at = 0;
    for (int trial = 0; trial < 200; trial++) {
        int32_t h_kv = heads[trial % 5];
        int64_t n = 1 + rng_below(SEED, 0, at++, trial % 4 ? 6 : MOST_GROUPS);
        bool masked = trial % 3 == 0;
        for (int64_t i = 0; i < n; i++) {
            int32_t n_rows = rows[rng_below(SEED, 0, at++, 6)];
            bool large = n > 6 || n_rows * h_kv > 64;
            int64_t most = longest[rng_below(SEED, 0, at++, large ? 4 : 6)];
            item[i] = (struct cuda_item){.n_rows = n_rows,
                                         .n_kv = 1 + (int32_t)rng_below(SEED, 0, at++, most),
                                         .mask0 = masked && i == n / 2 ? 0 : -1};
        }
        /* Few SMs have large blocks, many small ones. */
        scores_lay_out(&s, item, n, h_kv, trial % 2 ? SMS : 1);
        FREED struct unfused_row *row = xcalloc((size_t)s.n_rows, sizeof *row);
        FREED struct unfused_block *block = xcalloc((size_t)s.n_blocks + 1, sizeof *block);
        FREED struct skinny_block *skinny = xcalloc((size_t)s.n_skinny + 1, sizeof *skinny);
        uint8_t *o = xcalloc((size_t)s.n_o, 1);
        scores_fill(&s, row, block, skinny);
        follow_rows(&s, item, row);
        follow_skinny(&s, item, row, skinny, o);
        follow_gathered(&s, item, row, block, o);
        all_taken(o, s.n_o, "row of O");
        check_each(s.masked == masked, "masks are not seen");
    }
}
