/* traits.c - lab 6: what a fault does on some case, and never does. */
#include "verify/lab/detective/suspects.h"

/* The same for all, and for every seed. */
static const char *const probes[] = {
    "tree=nodes:-1.1:0.1;heads=1/1",
    "tree=nodes:-1.1:0.1;heads=1/1;d=3;fill=sunk",
    "tree=nodes:-1.7:0.7;heads=1/1;d=2;page=2",
    "tree=nodes:-1.7:0.7;heads=1/1;d=8;fill=huge",
    "tree=nodes:-1.8:0.8,0.5,0.0;heads=2/1;d=7;page=3",
    "tree=nodes:-1.1,0.1:1.1;heads=1/1;d=5",
    "tree=nodes:-1.3,0.1,1.4:2.4;heads=1/1;d=5;page=2",
    "tree=nodes:-1.3,0.2,0.4,1.1,1.5:3.1,4.5,2.4;heads=1/1;d=8",
    "tree=nodes:-1.3,0.2,0.4,1.1,1.5:3.1,4.5,2.4,0.2;heads=6/3;d=8;seed=2",
    "tree=nodes:-1.5,-1.4,0.3,1.2,2.1:4.1,3.2,2.3,1.2;heads=8/4;d=3;seed=3",
    "tree=nodes:-1.1,0.1:1.1;heads=6/3;d=9;seed=4",
    "tree=nodes:-1.1:0.1;heads=6/3;d=7;page=2",
    "tree=nodes:-1.1:0.0,0.1;heads=1/1;d=7",
    "tree=nodes:-1.0,0.1:1.0,1.1,0.0;heads=4/2;d=7",
    "tree=nodes:-1.0,0.1,0.0:2.0,1.1;heads=1/1;d=7",
    "tree=nodes:-1.1:0.1;heads=2/1;fill=count",
    "tree=nodes:-1.1,0.3,0.2,2.1:3.1,1.3,2.1;heads=2/1;d=4;fill=count;seed=2",
    "tree=nodes:-1.9,0.9:1.9,0.4;heads=4/2;d=4;fill=sunk;scale=0.012",
};
enum { N_PROBES = sizeof probes / sizeof probes[0] };

const char *const suspect_trait_says[N_SUSPECT_TRAITS] = {
    "changes LSE", "changes O", "shows with one KV head", "shows on a tree of one node",
    "shows on a tree of one token"};

void suspect_traits_on(const struct suspect_case *c, const struct suspect_fault *f,
                       bool has[N_SUSPECT_TRAITS])
{
    struct output *out = suspect_run(c, f);
    bool lse = false, o = false;
    for (int64_t r = 0; r < out->n_rows; r++) {
        lse = lse || !suspect_right_at(c, out, r, -1);
        for (int32_t e = 0; e < out->d; e++)
            o = o || !suspect_right_at(c, out, r, e);
    }
    output_free(out);
    has[CHANGES_LSE] |= lse;
    has[CHANGES_O] |= o;
    has[WITH_ONE_KV_HEAD] |= (lse || o) && c->p->heads.h_kv == 1;
    has[ON_ONE_NODE] |= (lse || o) && c->tree->n_nodes == 1;
    has[ON_ONE_TOKEN] |= (lse || o) && tree_tokens(c->tree) == 1;
}

int32_t suspect_traits(const struct suspect_fault *f, bool has[N_SUSPECT_TRAITS])
{
    for (int i = 0; i < N_PROBES; i++) {
        struct suspect_case c;
        CK(suspect_case_open(probes[i], &c, NULL));
        suspect_traits_on(&c, f, has);
        suspect_case_close(&c);
    }
    return N_PROBES;
}
