/*
 * lab5.h - lab 5, one tile: the questions, and what a program answers that is written wrongly on purpose.
 */
#ifndef TREEATTN_VERIFY_LAB_TILE_LAB5_H
#define TREEATTN_VERIFY_LAB_TILE_LAB5_H

#include "verify/lab/tile/cta.h"
#include "verify/lab/lab1_wrong.h"

BEGIN_C

enum lab5_gate {
    LAB5_NOTHING = 1,
    LAB5_ONE,
    LAB5_SEVERAL,
    LAB5_PAGES,
    LAB5_ROWS,
    LAB5_MASKS,
    LAB5_SCORES,
    LAB5_LONG,
    LAB5_LOADS, /* these two are judged on questions of the others */
    LAB5_WORK
};

/* A run of lab_kernel: struct lab_cta of lab.h says what the arrays are. */
struct lab5_call {
    enum lab5_gate gate;
    const char *about; /* what is special, for people */
    int32_t threads, queries, ratio, kv_heads, kv_head, d, tokens, runs, page_size, tile_n;
    int32_t n_pages; /* of K and V: more than the group has */
    float scale, *q, *k, *v;
    int64_t *page_table, *run_end, *mask;
    int64_t order; /* of threads */
};
/* All questions of that seed, small ones of a gate first, into *out; returns how many. Free each with lab5_call_clear. */
int32_t lab5_calls(uint64_t seed, struct lab5_call **out);
void lab5_call_clear(struct lab5_call *c);

static inline int32_t lab5_rows(const struct lab5_call *c)
{
    return c->queries * c->ratio;
}
/* Where row r of this CTA stands in Q, O and LSE: among all rows of the group. */
static inline int32_t lab5_place(const struct lab5_call *c, int32_t r)
{
    return r / c->ratio * c->kv_heads * c->ratio + c->kv_head * c->ratio + r % c->ratio;
}
/* Where number 0 of token t stands in K and V. */
static inline int64_t lab5_token(const struct lab5_call *c, int32_t t)
{
    int64_t slot = c->page_table[t / c->page_size] * c->page_size + t % c->page_size;
    return (slot * c->kv_heads + c->kv_head) * c->d;
}
/* Does the row see the token? */
bool lab5_sees(const struct lab5_call *c, int32_t row, int32_t t);
/* One SVG of a call: who sees what, in which runs, pages and tiles. wrong: which of its rows are, or NULL. */
void lab5_draw(FILE *out, const struct lab5_call *c, const bool *wrong);
/* One SVG of two threads at an element of shared memory, in both orders: of CTA_RACE and CTA_TWO_WRITE. */
void lab5_draw_race(FILE *out, const struct cta_said *said);

/* ---- mistakes: lab5_wrong.def --------------------------------------------------------------------------- */

int32_t lab5_mistakes(void);
const char *lab5_mistake_text(int32_t mistake);
/* Two ways to write the loop: a maximum of each tile, or of each token. */
enum { LAB5_VARIANTS = 2 };
/*
 * Does a program with that mistake give what was answered? o and lse are all rows of the group; right[] is that of each row of the
 * CTA. Where the run ended with a fault, the mistake must lead to it.
 */
enum lab1_fit lab5_gives(const struct lab5_call *c, int32_t mistake, int32_t variant, int64_t fault,
                         const struct lab1_answer *right, const float *o, const float *lse);

END_C

#endif
