/* view_plan.h - what views.c and view_plan.c, which make views, share. */
#ifndef TREEATTN_VERIFY_CHILD_VIEW_PLAN_H
#define TREEATTN_VERIFY_CHILD_VIEW_PLAN_H

#include "verify/child/views.h"

BEGIN_C

extern const enum element element_of[N_STORED];
/* Appends an array of n zeros. */
int32_t *add_i32(struct view_data *v, const char *name, int64_t n);
int64_t *add_i64(struct view_data *v, const char *name, int64_t n);
/* Indices of a view are int32. False with *why if n does not fit. */
bool fits(int64_t n, const char *what, struct err *why);

bool view_tree(const struct problem *p, const int64_t *ctx, struct view_data *v, struct err *why);
bool view_plan(const struct problem *p, const int64_t *ctx, struct view_data *v, struct err *why);
/* Adds the segments of view_groups, and the order of their queries. */
bool add_groups(const struct problem *p, struct view_data *v, struct err *why);

END_C

#endif
