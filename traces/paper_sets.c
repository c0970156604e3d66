#include "traces/paper_sets.h"

#include <stdlib.h>
#include <string.h>

const struct paper_tree paper_trees[] = {
#define PAPER_TREE(paper, number, levels) {paper, number, levels},
#include "traces/papers.def"
#undef PAPER_TREE
};
const int32_t n_paper_trees = sizeof paper_trees / sizeof paper_trees[0];

enum { MAX_SET_HEADS = 4 };

static const struct set {
    const char *name, *paper;
    int32_t heads[MAX_SET_HEADS][2];
} sets[] = {
    {"fasttree-fig9", "fasttree", {{32, 32}, {32, 8}, {16, 1}}},
    {"pat-fig9", "pat", {{32, 32}, {16, 8}, {32, 8}, {64, 8}}},
    {"speculative", "speculative", {{32, 32}, {32, 8}, {64, 8}}},
};
enum { N_SETS = sizeof sets / sizeof sets[0] };

static const struct set *find_set(const char *name, struct err *e)
{
    for (int s = 0; s < N_SETS; s++)
        if (strcmp(name, sets[s].name) == 0)
            return &sets[s];
    err_set(e, "--sets '%.40s' (expected fasttree-fig9, pat-fig9 or speculative)", name);
    return NULL;
}

struct paper_case *paper_sets(const char *list, const struct heads *heads, bool own_heads, int32_t *n,
                              struct err *e)
{
    char *copy = xstrdup(list), *rest = copy;
    struct paper_case *out = NULL;
    int64_t cap = 0;
    bool good = true;
    *n = 0;
    for (char *name; good && (name = strsep(&rest, ","));) {
        const struct set *s = find_set(name, e);
        good = s != NULL;
        for (int32_t i = 0; good && i < n_paper_trees; i++) {
            const struct paper_tree *t = &paper_trees[i];
            if (strcmp(t->paper, s->paper) != 0)
                continue;
            for (int h = 0; h < (own_heads ? 1 : MAX_SET_HEADS) && s->heads[h][0]; h++) {
                out = xgrow(out, &cap, *n + 1, sizeof *out);
                out[*n] = (struct paper_case){s->name, t, *heads};
                if (!own_heads) {
                    out[*n].heads.h_q = s->heads[h][0];
                    out[*n].heads.h_kv = s->heads[h][1];
                }
                ++*n;
            }
        }
    }
    free(copy);
    if (good)
        return out;
    free(out);
    *n = 0;
    return NULL;
}
