/* interleave.c - tokens of a group that take turns. */
#include "sim/strategies/interleave.h"

/* How far the tokens of a sort are taken. */
struct stream {
    struct sel_place at;
    int64_t units, units_left;
};

/* Has x a larger share of its units left than y? Half a unit counts: of two that have not begun, the one with more. */
static bool has_more_left(const struct stream *x, const struct stream *y)
{
    return (2 * x->units_left - 1) * y->units > (2 * y->units_left - 1) * x->units;
}

void interleave(struct sel *s, const uint8_t *sort, int64_t unit, struct sel spare[INTERLEAVE_SORTS])
{
    struct stream of[INTERLEAVE_SORTS] = {{.units = 0}};
    int64_t units = 0;
    int sorts = 0;
    for (int i = 0; i < INTERLEAVE_SORTS; i++)
        sel_clear(&spare[i]);
    for (int64_t r = 0; r < s->n_runs; r++)
        sel_run(&spare[sort[r]], s->run[r].node, s->run[r].begin, s->run[r].end);
    for (int i = 0; i < INTERLEAVE_SORTS; i++) {
        of[i].units = of[i].units_left = spare[i].n_kv / unit;
        units += of[i].units;
        sorts += of[i].units > 0;
    }
    if (sorts < 2)
        return;
    s->n_runs = s->n_kv = 0;
    for (; units > 0; units--) {
        int next = 0;
        for (int i = 1; i < INTERLEAVE_SORTS; i++)
            if (of[next].units_left == 0 || (of[i].units_left > 0 && has_more_left(&of[i], &of[next])))
                next = i;
        sel_take(s, &spare[next], &of[next].at, unit);
        of[next].units_left--;
    }
    for (int i = 0; i < INTERLEAVE_SORTS; i++)
        sel_take(s, &spare[i], &of[i].at, spare[i].n_kv % unit);
}
