/*
 * suspects.h - lab 6: attention kernels with a fault each, and what they answer to a small case.
 *
 * A suspect is a mistake of suspects.def, evaluated in double by what the judge uses to find causes (verify/compare/wrong.h).
 */
#ifndef TREEATTN_VERIFY_LAB_SUSPECTS_H
#define TREEATTN_VERIFY_LAB_SUSPECTS_H

#include "verify/compare/compare.h"
#include "verify/compare/wrong.h"

BEGIN_C

enum { SUSPECTS = 6, SUSPECT_CASE_TEXT = 600 };

struct suspect_fault {
    const char *name, *says;
    int32_t family, least; /* least: tokens of the smallest tree on which it shows */
    struct wrong wrong;
};
/* All of them; *n. */
const struct suspect_fault *suspect_faults(int32_t *n);
/* NULL with *e set: there is none of that name. */
const struct suspect_fault *suspect_fault_find(const char *name, struct err *e);
/* Which faults the suspects of that seed have: one of each family, in a drawn order. */
void suspects_draw(uint64_t seed, const struct suspect_fault *fault[SUSPECTS]);

/* A case: tree, Q, K, V, and exact attention. */
struct suspect_case {
    struct tree *tree;
    struct problem *p;
    struct oracle *right;
    struct arithmetic a;
};
/*
 * Of "tree=nodes:-1.2,0.1:1.1;heads=4/2;..": a case string (verify/cases/case.h) of keys tree (nodes, levels, chain), heads, d,
 * page, fill, seed, scale, scatter and poison. Where it says nothing: heads 4/2, d 4, pages of 4. Numbers are double. False with
 * *e set if it is none, or larger than 64 tokens, 32 nodes, 16 queries, 16 heads, 16 elements, pages of 64. Close with
 * suspect_case_close.
 */
bool suspect_case_open(const char *text, struct suspect_case *c, struct err *e);
void suspect_case_close(struct suspect_case *c);

/* What a kernel with that fault answers; NULL: one without. Free with output_free. */
struct output *suspect_run(const struct suspect_case *c, const struct suspect_fault *f);
/* Is that the right answer? */
bool suspect_passes(const struct suspect_case *c, const struct output *out);
/* Is element e of row r of O as it should be; e = -1: is its LSE? */
bool suspect_right_at(const struct suspect_case *c, const struct output *out, int64_t r, int32_t e);

/* What a fault may do, on some case or on none. */
enum suspect_trait { CHANGES_LSE, CHANGES_O, WITH_ONE_KV_HEAD, ON_ONE_NODE, ON_ONE_TOKEN, N_SUSPECT_TRAITS };
extern const char *const suspect_trait_says[N_SUSPECT_TRAITS];
/* Sets has[] where it does so on that case, or on one of some that are the same for all, of which the number is returned; a test
 * looks for others on which it does more. */
void suspect_traits_on(const struct suspect_case *c, const struct suspect_fault *f,
                       bool has[N_SUSPECT_TRAITS]);
int32_t suspect_traits(const struct suspect_fault *f, bool has[N_SUSPECT_TRAITS]);

END_C

#endif
