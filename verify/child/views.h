/*
 * views.h - a case as a kernel of an engine wants it: named tensors. views.def lists them.
 *
 * A tree of nodes says more than some interfaces can. Where a view would lose something of a case there is none, and a
 * sentence says why. What a view holds are copies: whoever writes to them does not reach the problem.
 */
#ifndef TREEATTN_VERIFY_CHILD_VIEWS_H
#define TREEATTN_VERIFY_CHILD_VIEWS_H

#include "kernels/kernel.h"
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
    KV_NHD,         /* [page][token][KV head][d] */
    KV_HND,         /* [page][KV head][token][d] */
    KV_INTERLEAVED, /* both in one array: [page][2][token][KV head][d] */
    KV_STRIDES, /* in one array, as its strides say: one of the above or [page][token][2][KV head][d], with room between the
                     * pages, and an offset; which of them, the case says */
    N_KV_LAYOUTS
};
extern const char *const kv_layout_name[N_KV_LAYOUTS];

/* How view masked says which query of a segment sees which of its tokens. */
enum mask_form {
    MASK_BITS,  /* the least bit first, query by query without a gap; each segment begins with a byte */
    MASK_WORDS, /* 32 of them in an int32, and each query begins with one */
    MASK_BOOL,  /* a byte each, 0 or 1 */
    N_MASK_FORMS
};
extern const char *const mask_form_name[N_MASK_FORMS];

/* What is in the slots of a page behind the last token that anybody reads there. */
enum tail {
    TAIL_FINITE, /* large numbers: they show where a mask is missing */
    TAIL_NAN     /* NaN: a weight of 0 does not hide them */
};

struct view_form {
    enum kv_layout layout;
    enum tail tail;
    enum mask_form mask;
    bool no_kv; /* K and V are elsewhere, and the problem has none */
};

/* Rows of Q, O and LSE are the tree's queries, or order[] of them, if it is not NULL. */
struct view_data {
    struct tensors tensors;
    int32_t *order; /* [n_rows] row i of the view is query order[i] */
    int64_t n_rows;
    const struct plan *plan; /* that it was made of */
};
/* The tensors of a view: "q" [n, h_q, d], "k" and "v", and those of views.def. Of K and V in 8 bits there are "k_scale" and "v_scale"
 * [h_kv]. V that is in K's row is no tensor; V of fewer elements has rows of its own length. Of KV_INTERLEAVED there is "kv" in the place of the two. Of KV_STRIDES there are "kv" [elements], "kv_shape" [4] as of NHD,
 * and "kv_strides" [2, 5]: of K and V offset, and strides. The plan is NULL but for VIEW_plan. False with a sentence in *why, if the
 * view cannot say the case. Free with view_free. */
bool view_make(enum view view, const struct view_form *form, const struct problem *p, const struct plan *plan,
               struct view_data *out, struct err *why);
/* The same for the groups of a plan, each a segment as of VIEW_masked, without a mask where all see all. Rows are the queries of
 * the first group, then those of the second, and so on. */
bool view_groups(const struct view_form *form, const struct problem *p, const struct plan *plan,
                 struct view_data *out, struct err *why);
/* "o_in" and "lse_in"; LSE in units of lse_unit, heads first where lse_by_head, and +inf of empty ones where empty_is_plus_inf. */
struct merge_form {
    double lse_unit;
    bool lse_by_head, empty_is_plus_inf;
};
void view_partials(const struct partials *x, struct merge_form form, struct view_data *out);
void view_free(struct view_data *v);

END_C

#endif
