/*
 * bytes_svg.h - what strategies move, as stacked bars with the floor that no plan is below.
 */
#ifndef TREEATTN_SIM_DRAW_BYTES_SVG_H
#define TREEATTN_SIM_DRAW_BYTES_SVG_H

#include "ref/base.h"
#include "sim/plan_ledger.h"

#include <stdio.h>

BEGIN_C

/* X(name, what it is, from a ledger l) */
#define BYTES_PARTS(X)                                                                                       \
    X(KV, "K and V", l->kv)                                                                                  \
    X(QO, "Q and O", l->q + l->out)                                                                          \
    X(MASKS, "masks", l->mask)                                                                               \
    X(SCORES, "scores", ledger_scores(l))                                                                    \
    X(PARTIALS, "partial results", ledger_partials(l))
enum bytes_part {
#define X(name, what, field) BYTES_##name,
    BYTES_PARTS(X)
#undef X
        N_BYTES_PARTS
};

struct bytes_bar {
    const char *name; /* the strategy, with options as a user writes them */
    const char *why;  /* it has no bytes; NULL: it has */
    double part[N_BYTES_PARTS];
};
/* Of `times` such ledgers; why is NULL. */
struct bytes_bar bytes_bar_of(const char *name, const struct ledger *l, double times);

/*
 * One SVG. what: of which trees, a sentence. floor 0: none is drawn. A bar that would make all others too short is cut, and its number stands beside it
 * all the same. Parts have the class "part", and their bytes in data-bytes.
 */
void bytes_print_svg(FILE *out, const char *what, const struct bytes_bar *bar, int32_t n, double floor);

END_C

#endif
