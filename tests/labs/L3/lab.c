/* lab.c - lab 3, cut a tree. README.md has the task; `make lab N=3` judges this file. */
#include "lab.h"

/* A group for each query, with what it sees of its own node: right where a tree is one node. Invariants 2 to 7 are yours. */
void lab_partition(const struct lab_tree *tree, const struct lab_env *env, struct lab_out *out)
{
    (void)env;
    for (int q = 0; q < tree->n_queries; q++) {
        const struct lab_run own = {tree->query_node[q], 0, tree->query_upto[q]};
        if (own.end > 0)
            lab_group(out, &q, 1, &own, 1);
    }
}
