/*
 * partition.h - labs 3 and 7: a student's lab_partition is asked for a tree, and what it says is read, and made a plan.
 */
#ifndef TREEATTN_VERIFY_LAB_PARTITION_H
#define TREEATTN_VERIFY_LAB_PARTITION_H

#include "sim/plan.h"
#include "tests/labs/include/lab.h"
#include "verify/lab/lab.h"

BEGIN_C

/* A group as the student said it. */
struct said {
    int64_t nq, nr;
    const int64_t *query; /* [nq] */
    const int64_t *run;   /* [nr]: node, begin, end */
    uint8_t *hidden;      /* [nq][nr] */
};

struct partition {
    const struct tree *t;   /* the caller's */
    int32_t tile_m, tile_n; /* of all groups */
    int64_t most_tokens;    /* that one may have: whether it has is not looked at */
    enum run_end end;
    const char *code; /* "OK", or what is wrong: */
    struct err why;
    struct said *group;
    int64_t n_groups, n_hidden;
    const int64_t *hide; /* [n_hidden]: group, query, run */
    bool no_place;       /* lab_hide named what is not there */
    struct tensors answer;
};

/* Asks for tree t, and reads what came into *p: p->code is "OK" if it can be made a plan. Free with partition_clear. */
void partition_ask(struct lab_session *s, const struct tree *t, const struct lab_env *env,
                   struct partition *p);
void partition_clear(struct partition *p);

/* The plan of nf, which is the normal form of the tree: one launch, then one merge a query. direct: groups all of whose queries are
 * in no other group write the output themselves. Whether it covers the tree is not known. Free with plan_free. */
struct plan *partition_plan(const struct partition *p, const struct nform *nf, bool direct);

/* A sentence of the coverage check names tokens as plans are printed: "tokens [0, 4) of node 0". The end is not in the range. */
void partition_say_range(struct err *why);

/* Its picture, of a partition that is a plan, with what is wrong with it in red: p->why says it. */
void partition_draw(const struct partition *p, const struct heads *heads, const char *caption,
                    struct lab_result *r);

END_C

#endif
