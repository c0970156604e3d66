/*
 * wrong.h - attention computed wrongly on purpose: what a kernel with a given mistake would write.
 *
 * A mistake is a struct wrong: what differs from the right evaluation, each field 0 where nothing does. Evaluated in double, a
 * row (query x head) at a time, from the problem alone, and from the plan where the mistake is in how parts of a context are
 * joined. verify/compare/hypotheses.def lists mistakes; verify/compare/cause.h tells which of them explains a failure.
 */
#ifndef TREEATTN_VERIFY_COMPARE_WRONG_H
#define TREEATTN_VERIFY_COMPARE_WRONG_H

#include "kernels/kernel.h"
#include "ref/oracle.h"
#include "sim/plan.h"
#include "verify/compare/compare.h"

BEGIN_C

/* Which tokens a row reads, in the place of its own. x is the field `n`. */
enum wrong_tokens {
    READ_OWN,
    READ_QUERY,          /* those of another query (field `query`) */
    READ_LESS_LAST,      /* without the last x */
    READ_LESS_FIRST,     /* without the first x */
    READ_NEXT_SLOT,      /* and the x slots behind the last one */
    READ_NEXT_TOKEN,     /* and the next x of the node */
    READ_NEXT_LIST,      /* and the first of the next query's list */
    READ_SHIFTED,        /* the list begins x entries late or early, in those of all queries */
    READ_WHOLE_PAGE,     /* to the end of the last page */
    READ_WHOLE_PAGES,    /* of every node */
    READ_FULL_PAGES,     /* without a last page that is not full, */
    READ_FULL_PAGE_LOST, /* or that is full */
    READ_FULL_PAGE_MORE, /* and the page that lists have behind one that is full */
    READ_LESS_PAGE,      /* without the last page */
    READ_FIRST_PAGE_LOST,
    READ_FLOOR,            /* down to a multiple of x */
    READ_CEIL,             /* up to one, in slots behind the last */
    READ_SLOTS,            /* slots 0, 1, .. */
    READ_SLOTS_FROM_FIRST, /* slots one after the other from the first of the list on */
    READ_LOGICAL,          /* the page table ignored: pages in the order of nodes */
    READ_PAGES,            /* the page table ignored: pages 0, 1, .. */
    READ_PAGE_OFF,         /* page numbers off by x */
    READ_SLOT_OFF,         /* slots off by x */
    READ_ENTRY_OFF,        /* entries of the list of pages off by x */
    READ_PAGE_SIZE,        /* pages of x tokens, or of -x times as many */
    READ_PAGE_STRIDE,      /* pages lie x tokens apart */
    READ_ONE_PAGE,         /* the first page again and again */
    READ_LEAF,             /* the query's own node alone */
    READ_ROOT,             /* the first node alone */
    READ_OWN_NODE,
    READ_ROOT_NODE,
    READ_LESS_ROOT_NODE, /* of which these take an empty node as well */
    READ_LESS_ROOT,
    READ_LESS_LEAF,
    READ_LESS_PARENT,
    READ_WHOLE_NODE,   /* the own node to its end */
    READ_FOREST,       /* everything that somebody sees (x > 0: that is stored), */
    READ_TREE,         /* or that is under the same root, */
    READ_LOWER,        /* or that is in nodes of no larger number, */
    READ_LOWER_OF_ALL, /* under whatever root, */
    READ_SIBLINGS,     /* or that is in siblings of nodes of the path, */
    READ_COUSINS,      /* or in siblings of the last one alone */
    READ_GROUP,        /* or in groups of the plan that have the query */
    READ_MASK_MSB,     /* bits of the mask from the other end of each byte */
    READ_MASK_TURNED,  /* mask read as tokens x queries */
    READ_MASK_ROWS,    /* mask rows padded to bytes */
    READ_PIECES_LAST,  /* the last token of each piece lost (field `cut`) */
    READ_PIECES_FIRST,
    READ_PIECES_MORE, /* the first of the next piece read with each */
    READ_RUNS, /* page offsets counted from the run, not from the node: that of the plan, or each x tokens */
    READ_ROOT_TWICE,
    READ_LEAF_TWICE,
    READ_LAST_TWICE,
    READ_FIRST_TWICE,
    READ_TAIL,       /* of a request of several queries: x tokens more behind the own one, as far as it goes, */
    READ_TAIL_WHOLE, /* all of it, */
    READ_TAIL_FIRST, /* its first tokens, one more than queries stand before, */
    READ_TAIL_OTHER, /* or as if it had as many queries as the request x places behind */
    READ_WINDOW_OFF, /* of a window that is asked for, x tokens more in front, or -x less */
    READ_WINDOW_BY_INDEX, /* the window along the order of nodes (x 0), of the tree depth first (1), of slots (2), not along the path */
    READ_WINDOW,          /* the last x alone */
    READ_HEAD,       /* the first x alone */
    READ_EVERY_OTHER
};

/* Whose: another query, another head. */
enum of_query {
    Q_OWN,
    Q_NEXT,
    Q_BEFORE,
    Q_FIRST,
    Q_LAST,
    Q_REVERSED,
    Q_BY_FORM,
    Q_OF_FORM,
    Q_BY_NODE, /* the queries of node 0, of node 1, .. */
    Q_OF_NODE,
    Q_NEXT_IN_FORM,
    Q_BEFORE_IN_FORM
};
enum of_head {
    H_OWN,
    H_FIRST,
    H_LAST,
    H_NEXT,
    H_BEFORE,
    H_REVERSED,
    H_MODULO,          /* KV heads: h mod h_kv */
    H_BY_HEADS,        /* h / h_kv, at most the last, */
    H_BY_HEADS_AROUND, /* or from the first on again */
    H_UNDIVIDED,       /* h, beyond the last one too: that is the next token's */
    H_BY_SIZE,         /* h / x, at most the last */
    H_BY_POWER,        /* h over the ratio made a power of two: up, or down (x < 0) */
    H_TURNED,          /* query heads: laid out as ratio x KV heads */
    H_TURNED_BACK
};

/* Where K and V lie. */
enum wrong_pool {
    POOL_OWN,
    POOL_EXCHANGED,
    POOL_V_FOR_K,
    POOL_K_FOR_V,
    POOL_HEAD_MAJOR,
    POOL_TOKEN_MAJOR,
    POOL_ALL_HEAD_MAJOR,
    POOL_PAGES_IN_TURN, /* K and V lie in one array, a page of each in turn, */
    POOL_TOKENS_IN_TURN, /* or a token of each, and are read as if they did not */
    /* where V has fewer elements than K: */
    POOL_K_AS_V,     /* K is read in rows of V's length, */
    POOL_V_AS_K,     /* V in rows of K's length, */
    POOL_KV_AS_V,    /* and both in rows of V's length: V is in K's row */
    POOL_V_LAST,     /* V is taken from the last elements of K's row, not from the first */
    POOL_V_NEXT      /* V is that of the next slot */
};

/* A number on its way. */
enum store {
    STORE_ALL,
    STORE_F16,
    STORE_F16_MOST, /* no infinity: 65504 */
    STORE_BF16,
    STORE_E4M3,
    STORE_E5M2,
    STORE_CLAMPED /* to +-x */,
    STORE_SOFT /* x tanh(. / x) */,
    STORE_FLUSHED
};

/* How the weights of a context come about. */
enum softmax {
    SOFT_RIGHT,
    SOFT_NO_MAX,   /* exp of the scores as they are, in float */
    SOFT_MAX_FROM, /* the maximum begins at x */
    SOFT_HIDDEN,   /* a hidden score is x, and no less */
    SOFT_EVEN,     /* all weights alike */
    SOFT_TOP,      /* the largest alone */
    SOFT_SINK      /* exp(x) more in the sum */
};

/* How the features of a problem are made (ref/problem.h). */
enum wrong_cap {
    CAP_RIGHT,
    CAP_NONE,
    CAP_TWICE,
    CAP_BEFORE_SCALE, /* of q.k, which is multiplied by the scale afterwards */
    CAP_UNDIVIDED,    /* cap tanh(score) */
    CAP_NOT_BACK,     /* tanh(score / cap) */
    CAP_CLAMPED,      /* no tanh */
    CAP_HALVED,       /* another cap */
    CAP_DOUBLED
};
enum wrong_sink {
    SINK_RIGHT,
    SINK_NONE,
    SINK_EACH, /* in each partial result, */
    SINK_OF_LAST_SPLIT, /* or in the last of as many splits as the longest context has: other contexts leave it empty */
    SINK_TWICE,
    SINK_NOT_IN_O,   /* in LSE alone, */
    SINK_NOT_IN_LSE, /* or in O alone */
    SINK_OF_HEAD,    /* of another query head (field `sink_head`) */
    SINK_OF_KV_HEAD,
    SINK_SCALED,     /* times the scale, as a score */
    SINK_CAPPED,     /* through the soft cap, as a score */
    SINK_BASE_2,     /* taken as a logarithm of base 2 */
    SINK_AS_WEIGHT,  /* added to the sum as it is, without exp */
    SINK_NOT_SHIFTED /* exp(sink), where the maximum is subtracted from all scores */
};

/* Of K and V in 8 bits: what they are multiplied by. */
enum wrong_scales {
    SCALES_RIGHT,
    SCALES_NONE,
    SCALES_TWICE,
    SCALES_DIVIDED,  /* divided by */
    SCALES_OF_OTHER, /* K by that of V, V by that of K */
    SCALES_OF_HEAD   /* of another KV head (field `scale_head`) */
};
/* And how they are read. */
enum wrong_bits {
    BITS_RIGHT,
    BITS_OTHER,   /* e4m3 as e5m2, e5m2 as e4m3 */
    BITS_BIAS,    /* exponents are one less */
    BITS_FNUZ,    /* and -0 is NaN: e4m3fnuz, e5m2fnuz */
    BITS_FLUSHED, /* subnormals are 0 */
    BITS_F16,     /* times the scale, they are rounded */
    BITS_BF16
};

/* How a context is cut into pieces whose partial results are joined. */
enum wrong_cut {
    CUT_NONE,
    CUT_ANY /* each of those below that can be */,
    CUT_PLAN,
    CUT_NODES,
    CUT_PREFIX,
    CUT_COMMON,
    CUT_BLOCKS,
    CUT_NODE_BLOCKS, /* of each node */
    CUT_PARTS
};

/* What is wrong in a partial result, in its sum over tiles, or in the merge. */
enum join {
    JOIN_RIGHT,
    /* in the merge */
    JOIN_FIRST,
    JOIN_LAST,
    JOIN_LESS_FIRST,
    JOIN_LESS_LAST,
    JOIN_LESS_ANY,
    JOIN_FIRST_TWICE,
    JOIN_LAST_TWICE,
    JOIN_ANY_TWICE,
    JOIN_MEAN,
    JOIN_SUM,
    JOIN_WEIGHTED_SUM,
    JOIN_BY_LSE,
    JOIN_SQUARED,
    JOIN_SWAPPED,
    JOIN_BY_SUMS,
    JOIN_EXP2,
    JOIN_BY_COUNT,
    JOIN_LSE_ADDED,
    JOIN_LSE_LOG2,
    JOIN_LSE_MAX,
    JOIN_LSE_OF_LAST,
    JOIN_LSE_OF_FIRST,
    JOIN_LSE_TWICE,
    JOIN_LSE_MEAN,
    JOIN_EMPTY,     /* 1 to 8 empty ones, with an LSE of 0, */
    JOIN_EMPTY_TOP, /* or those of the row, with the largest LSE */
    JOIN_SINKS,     /* exp(x) in each */
    /* of each partial result */
    JOIN_UNDIVIDED,
    JOIN_DIVIDED_TWICE,
    JOIN_PART_F16,
    JOIN_PART_BF16,
    /* from tile to tile */
    TILES_O_KEPT,
    TILES_SUM_KEPT,
    TILES_BOTH_KEPT,
    TILES_NEW_O_KEPT,
    TILES_NEW_KEPT,
    TILES_LAST_MAX,
    TILES_P_F16,
    TILES_P_BF16,
    TILES_P_E4M3,
    TILES_SUM_F16,
    TILES_SUM_BF16
};

/* Elements that are read or written otherwise. */
enum columns {
    COL_OWN,
    COL_FIRST_HALF,
    COL_HALVES_APART,
    COL_LESS_LAST,
    COL_FIRST_X,
    COL_FLOOR,
    COL_OF_V,     /* as many as V has, */
    COL_BEYOND_V, /* or the others */
    COL_TURNED    /* Q's elements beyond those stand first */
};
enum written {
    WRITTEN_OWN,
    WRITTEN_ROTATED,
    WRITTEN_ROTATED_BACK,
    WRITTEN_REVERSED,
    WRITTEN_HALVES,
    WRITTEN_PAIRS,
    WRITTEN_UNPAIRED,
    WRITTEN_TURNED,
    WRITTEN_FIRST_X,
    WRITTEN_ROUNDED /* field store */,
    WRITTEN_TIMES_SUM,
    WRITTEN_TIMES_EXP_LSE,
    WRITTEN_BY_SUM,
    WRITTEN_BY_COUNT,
    WRITTEN_TIMES,
    WRITTEN_TIMES_SCALE,
    WRITTEN_ZERO,
    WRITTEN_CONSTANT,
    WRITTEN_NAN,
    WRITTEN_TRUNCATED
};
/* Which of the two outputs `row_query`, `row_head` and `row_turned` are about. */
enum outputs { BOTH, ONLY_O, ONLY_LSE };
enum row_turned { ROWS_OWN, ROWS_TURNED /* as [head][query] */, ROWS_TURNED_BACK };

/* Of each piece, where a context is cut (field `cut`), else of the row. LSE = on_max * maximum + on_log * log(sum of exp(score - maximum)), or else. */
enum lse {
    LSE_RIGHT,
    LSE_COMBINED,  /* and `plus` */
    LSE_OF_SCORES, /* as it should be, whatever O is */
    LSE_NO_LOG,
    LSE_SUM_ALONE,
    LSE_EXP,
    LSE_ZERO,
    LSE_NAN,
    LSE_EMPTY,
    LSE_UNSCALED,    /* the maximum has no scale, */
    LSE_OF_UNSCALED, /* or no score has */
    LSE_TIMES_SCALE
};

struct wrong {
    enum wrong_tokens read;
    enum of_query query, q_query; /* whose tokens; whose Q */
    enum of_head kv_head, k_head, v_head, q_head;
    enum wrong_pool pool;
    enum columns columns; /* of the scores */
    double n;             /* x above */
    /* scores times factor * scale^to_scale * sqrt(d)^to_root (to_scale 1 is right: see hypotheses.def) */
    double factor;
    int less_scale, to_root; /* scale^(1 - less_scale) */
    int to_root_v;           /* and times sqrt(elements of V)^to_root_v */
    enum store k_store, v_store, q_store, score_store, dot_store;
    enum softmax soft;
    enum wrong_cap cap; /* of problems that have one, as all below */
    enum wrong_sink sink;
    enum of_head sink_head;
    enum wrong_scales k_scales, v_scales;
    enum of_head scale_head;
    enum wrong_bits k_bits, v_bits;
    bool fp8;                   /* of problems whose K and V are in 8 bits alone, */
    bool few_v;                 /* or whose V has fewer elements than K */
    uint32_t features, without; /* bits: the problem must have these, and may not have those */
    enum wrong_cut cut;
    enum join join;
    enum lse lse;
    double on_max, on_log, plus;
    enum written written;
    enum outputs of;
    enum of_query row_query;
    enum of_head row_head;
    enum row_turned row_turned;
    bool elsewhere;  /* the answer of any other row */
    bool only_empty; /* queries that see nothing, in any way */
    bool unwritten;  /* nobody wrote the row: what stood there before says so */
    bool
        gaps; /* of arrays with strides alone; what lies between pages, as NaN without a page that has any shows */
    bool merge;  /* of a merge that is judged alone, else of all but these */
    bool rounds; /* roundings are replayed: some may fall the other way */
    bool some;   /* rows that are right need not have it */
    bool last;   /* named only where nothing else explains */
};

/* What all rows of a case share. */
struct wrong_case;
/* plan: NULL where the kernel was given none. tails: large numbers lie behind the last token of a page (verify/child). strides:
 * arrays have them, with NaN between pages. nan_free: no page has any. All are the caller's, and must outlive the result; free with wrong_case_free. */
struct wrong_case *wrong_case_new(const struct problem *p, const struct oracle *orc, const struct plan *plan,
                                  const struct arithmetic *a, bool tails, bool strides, bool nan_free);
/* The same of a merge: the rows' tokens are the partial results, the scores are their LSEs. */
struct wrong_case *wrong_case_of_merge(const struct problem *shape, const struct oracle *orc,
                                       const struct partials *merged, const struct arithmetic *a);
void wrong_case_free(struct wrong_case *c);
/* Can the mistake be made in such a case? */
bool wrong_applies(const struct wrong_case *c, const struct wrong *w);

enum { WRONG_MAX_COLUMNS = 32 };
/* A row, some of its columns, and what many mistakes need of it; o and lse are what the kernel wrote there. */
struct wrong_row;
struct wrong_row *wrong_row_new(struct wrong_case *c, int64_t row, const int32_t *column, int32_t n_columns,
                                const double *o, double lse);
void wrong_row_free(struct wrong_row *r);

/* The order of a merge. */
enum wrong_order { MERGE_AT_ONCE, MERGE_IN_ORDER, MERGE_IN_PAIRS };

/* A way to evaluate a mistake that leaves something open. */
struct wrong_way {
    enum wrong_cut cut;
    int64_t x;    /* tokens of a block, number of parts */
    int64_t tile; /* tokens of a tile within each piece */
    enum wrong_order order;
};
/* The ways of a mistake, into way[WRONG_MAX_WAYS]; how many. */
enum { WRONG_MAX_WAYS = 256 };
int32_t wrong_ways(const struct wrong_case *c, const struct wrong *w, struct wrong_way *way);
/* In how many variants a row may have it, one of which is enough. */
int32_t wrong_variants(const struct wrong *w);

struct wrong_answer {
    double o[WRONG_MAX_COLUMNS], lse;
    double bound_o[WRONG_MAX_COLUMNS], bound_lse; /* of an honest kernel with that mistake */
    bool nothing; /* the sum of the weights was 0: whether O is then 0 or NaN is not said */
    bool any_o;   /* nothing is said of O */
    bool unsure;  /* nor of anything */
};
/* What row r would be. False where the mistake makes no difference that could be told. */
bool wrong_evaluate(struct wrong_row *r, const struct wrong *w, const struct wrong_way *way, int32_t variant,
                    struct wrong_answer *out);

END_C

#endif
