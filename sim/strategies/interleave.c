/* interleave.c - tokens of a group that take turns. */
#include "sim/strategies/interleave.h"

/* What is left of a sort: from token `at` of a run on. */
struct stream {
    int64_t run, at;
    int64_t units, units_left, tokens_left;
};

/* The sort's next tokens. */
static void take(struct sel *to, const struct sel *from, const uint8_t *sort, int which, struct stream *x,
                 int64_t tokens)
{
    x->tokens_left -= tokens;
    for (int64_t n; tokens > 0; tokens -= n) {
        const struct run *run = &from->run[x->run];
        n = sort[x->run] == which ? min_i64(tokens, run->end - run->begin - x->at) : 0;
        sel_run(to, run->node, run->begin + x->at, run->begin + x->at + n);
        x->at += n;
        if (sort[x->run] != which || run->begin + x->at == run->end) {
            x->run++;
            x->at = 0;
        }
    }
}

/* Has x a larger share of its units left than y? Half a unit counts: of two that have not begun, the one with more. */
static bool has_more_left(const struct stream *x, const struct stream *y)
{
    return (2 * x->units_left - 1) * y->units > (2 * y->units_left - 1) * x->units;
}

void interleave(struct sel *s, const uint8_t *sort, int64_t unit, struct sel *spare)
{
    struct stream of[INTERLEAVE_SORTS] = {{.run = 0}};
    int64_t units = 0;
    int sorts = 0;
    for (int64_t r = 0; r < s->n_runs; r++)
        of[sort[r]].tokens_left += s->run[r].end - s->run[r].begin;
    for (struct stream *x = of; x < of + INTERLEAVE_SORTS; x++) {
        x->units = x->units_left = x->tokens_left / unit;
        units += x->units;
        sorts += x->units > 0;
    }
    if (sorts < 2)
        return;
    spare->n_runs = spare->n_kv = 0;
    for (; units > 0; units--) {
        int next = 0;
        for (int i = 1; i < INTERLEAVE_SORTS; i++)
            if (of[next].units_left == 0 || (of[i].units_left > 0 && has_more_left(&of[i], &of[next])))
                next = i;
        take(spare, s, sort, next, &of[next], unit);
        of[next].units_left--;
    }
    for (int i = 0; i < INTERLEAVE_SORTS; i++)
        take(spare, s, sort, i, &of[i], of[i].tokens_left);
    struct sel was = *s;
    s->run = spare->run;
    s->n_runs = spare->n_runs;
    s->cap_run = spare->cap_run;
    spare->run = was.run;
    spare->cap_run = was.cap_run;
}
