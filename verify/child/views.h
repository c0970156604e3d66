/*
 * views.h - a case as a kernel of an engine wants it: named tensors. views.def lists them.
 *
 * A tree of nodes says more than some interfaces can. Where a view would lose something of a case there is none, and a
 * sentence says why. What a view holds are copies: whoever writes to them does not reach the problem.
 */
#ifndef TREEATTN_VERIFY_CHILD_VIEWS_H
#define TREEATTN_VERIFY_CHILD_VIEWS_H

#include "ref/problem.h"
#include "verify/child/tensors.h"

BEGIN_C

enum view {
#define VIEW(id, about) VIEW_##id,
#include "verify/child/views.def"
#undef VIEW
    N_VIEWS
};
extern const char *const view_name[N_VIEWS], *const view_about[N_VIEWS];

/* How K and V of pages lie. Views of slots know NHD alone. */
enum kv_layout {
    KV_NHD, /* [page][token][KV head][d] */
    KV_HND  /* [page][KV head][token][d] */
};

/* What is in the slots of a page behind the last token that anybody reads there. */
enum tail {
    TAIL_FINITE, /* large numbers: they show where a mask is missing */
    TAIL_NAN     /* NaN: a weight of 0 does not hide them */
};

/* Rows of Q, O and LSE are the tree's queries, or order[] of them, if it is not NULL. */
struct view_data {
    struct tensors tensors;
    int32_t *order; /* [n_queries] row i of the view is query order[i] */
};
/* The tensors of a view: "q" [n, h_q, d], "k" and "v", and those of views.def. False with a sentence in *why, if the view
 * cannot say the case. Free with view_free. */
bool view_make(enum view view, enum kv_layout layout, enum tail tail, const struct problem *p,
               struct view_data *out, struct err *why);
void view_free(struct view_data *v);

END_C

#endif
