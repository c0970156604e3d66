/* wrong_read.c - which tokens a row reads, wrongly; see wrong.h. */
#include "verify/compare/wrong_read.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- lists -------------------------------------------------------------------------------------------- */

static void add(struct wrong_row *r, int64_t slot, int64_t at)
{
    struct items *x = &r->items;
    bool known = r->c->merged || (slot >= 0 && slot < r->c->p->n_pages * r->c->p->page_size);
    x->outside = x->outside || !known;
    x->item = xgrow(x->item, &x->cap, x->n + 1, sizeof *x->item);
    x->item[x->n++] = (struct item){slot, at, 1};
}

static void cut_here(struct wrong_row *r, int32_t outer)
{
    struct items *x = &r->items;
    if (x->n == (x->n_pieces > 0 ? x->end[x->n_pieces - 1] : 0))
        return;
    x->end = xgrow(x->end, &x->cap_pieces, x->n_pieces + 1, sizeof *x->end);
    x->outer = xgrow(x->outer, &x->cap_outer, x->n_pieces + 1, sizeof *x->outer);
    x->end[x->n_pieces] = x->n;
    x->outer[x->n_pieces++] = outer;
}

/* Where token j of a node lies, whatever its number; -1: nowhere. */
static int64_t slot_of(const struct problem *p, int32_t node, int64_t j)
{
    int64_t i = p->page_off[node] + j / p->page_size;
    if (j < 0 || i >= p->page_off[p->tree->n_nodes])
        return -1;
    return (int64_t)p->page_table[i] * p->page_size + j % p->page_size;
}

static void add_run(struct wrong_row *r, int32_t node, int64_t begin, int64_t end)
{
    int32_t i = 0;
    while (i < r->n_path && r->path[i].node != node)
        i++;
    int64_t own = i < r->n_path ? r->path[i].n : 0; /* of its tokens are the row's own */
    for (int64_t j = begin; j < end; j++)
        add(r, slot_of(r->c->p, node, j), j < own ? r->path[i].at + j : -1);
}

static void add_own(struct wrong_row *r, int64_t begin, int64_t end)
{
    for (int64_t i = max_i64(begin, 0); i < min_i64(end, r->n); i++)
        add(r, r->slot[i], i);
}

/* The window with x tokens more in front, or -x less. */
static void add_window(struct wrong_row *r, int64_t x)
{
    const struct problem *p = r->c->p;
    int64_t since = p->tree->since[r->q], n = since + r->n, *slot = xcalloc((size_t)n + 1, sizeof *slot);
    problem_path_slots(p, r->q, n, slot);
    for (int64_t i = since > 0 ? max_i64(0, since - min_i64(x, n)) : 0; i < n;
         i++) /* who sees all has no edge */
        add(r, slot[i], i >= since ? i - since : -1);
    free(slot);
}

/* Where each node's tokens begin, as nodes lie one behind the other by number, or depth first; the caller frees. */
static int64_t *node_begins(const struct tree *t, bool depth_first)
{
    int64_t *first = xcalloc((size_t)t->n_nodes + 1, sizeof *first), *below = xcalloc((size_t)t->n_nodes, sizeof *below),
            *next = xcalloc((size_t)t->n_nodes + 1, sizeof *next); /* of a node's children; [n_nodes]: of the roots */
    for (int32_t i = t->n_nodes; i-- > 0;) {
        below[i] += t->len[i];
        if (t->parent[i] >= 0)
            below[t->parent[i]] += below[i];
    }
    for (int32_t i = 0; i < t->n_nodes; i++) {
        int64_t *at = &next[t->parent[i] >= 0 ? t->parent[i] : t->n_nodes];
        first[i + 1] = first[i] + t->len[i];
        below[i] = (*at += below[i]) - below[i]; /* where it begins depth first, from here on */
        next[i] = below[i] + t->len[i];
    }
    if (depth_first)
        memcpy(first, below, (size_t)t->n_nodes * sizeof *first);
    free(below);
    free(next);
    return first;
}

/* The window as an order has it that is not the path's. */
static void add_window_by_index(struct wrong_row *r, int order)
{
    enum { BY_NODE, DEPTH_FIRST, BY_SLOT };
    const struct problem *p = r->c->p;
    const struct tree *t = p->tree;
    int64_t since = t->since[r->q], n = since + r->n, window = since > 0 ? r->n : 0;
    for (int32_t q = 0; q < t->n_queries && since == 0; q++)
        window = t->since[q] > 0 ? max_i64(window, r->c->orc->ctx[q]) : window;
    int32_t depth = tree_path(t->parent, t->query[r->q].node, NULL), *node = xcalloc((size_t)depth + 1, sizeof *node);
    int64_t *slot = xcalloc((size_t)n + 1, sizeof *slot), *index = xcalloc((size_t)n + 1, sizeof *index), at = 0;
    int64_t *first = node_begins(t, order == DEPTH_FIRST);
    tree_path(t->parent, t->query[r->q].node, node);
    problem_path_slots(p, r->q, n, slot);
    for (int32_t i = 0; i < depth; i++)
        for (int64_t j = 0, len = i + 1 < depth ? t->len[node[i]] : t->query[r->q].upto; j < len; j++, at++)
            index[at] = order == BY_SLOT ? slot[at] : first[node[i]] + j;
    for (int64_t i = 0; i < n; i++)
        if (window == 0 || index[i] > index[n - 1] - window)
            add(r, slot[i], i >= since ? i - since : -1);
    free(node);
    free(slot);
    free(index);
    free(first);
}

struct stretch *wrong_path(const struct wrong_case *c, int32_t q, int32_t *n)
{
    const struct tree *t = c->p->tree;
    int32_t depth = tree_path(t->parent, t->query[q].node, NULL);
    int32_t *node = xcalloc((size_t)depth + 1, sizeof *node);
    struct stretch *path = xcalloc((size_t)depth + 1, sizeof *path);
    int64_t at = 0, left = tree_since(t, q); /* left: before the window */
    tree_path(t->parent, t->query[q].node, node);
    *n = 0;
    for (int32_t i = 0; i < depth; i++) {
        int64_t tokens = i + 1 < depth ? t->len[node[i]] : t->query[q].upto, out = min_i64(left, tokens);
        if (tokens > out)
            path[(*n)++] = (struct stretch){node[i], tokens - out, at};
        at += tokens - out;
        left -= out;
    }
    free(node);
    return path;
}

int32_t wrong_query(const struct wrong_case *c, int32_t q, enum of_query which)
{
    int32_t n = c->p->tree->n_queries, form = c->form_of[q];
    switch (which) {
    case Q_OWN:
        return q;
    case Q_NEXT:
        return q + 1 < n ? q + 1 : -1;
    case Q_BEFORE:
        return q - 1;
    case Q_FIRST:
        return 0;
    case Q_LAST:
        return n - 1;
    case Q_REVERSED:
        return n - 1 - q;
    case Q_BY_FORM:
        return c->nf->orig[q];
    case Q_OF_FORM:
        return form;
    case Q_BY_NODE:
        return c->by_node[q];
    case Q_OF_NODE:
        return c->node_of[q];
    case Q_NEXT_IN_FORM:
        return form + 1 < n ? c->nf->orig[form + 1] : -1;
    case Q_BEFORE_IN_FORM:
        return form > 0 ? c->nf->orig[form - 1] : -1;
    }
    return -1;
}

/* Slots of another query's context, which are its own where both see them. */
static void add_query(struct wrong_row *r, int32_t q, int64_t begin, int64_t end)
{
    int32_t n;
    struct stretch *path = wrong_path(r->c, q, &n);
    for (int32_t i = 0; i < n; i++) {
        int64_t b = max_i64(begin - path[i].at, 0), e = min_i64(end - path[i].at, path[i].n);
        add_run(r, path[i].node, b, e);
    }
    free(path);
}

/* ---- pages -------------------------------------------------------------------------------------------- */

/* The pages of a query's path, and behind them those of the next queries, as lists one after the other have them, `least` at least
 * where there are so many; the caller frees. */
static int64_t *page_list(const struct wrong_row *r, int64_t least, int64_t *n)
{
    const struct problem *p = r->c->p;
    int64_t *page = NULL, cap = 0;
    *n = 0;
    for (int32_t q = r->q; q < p->tree->n_queries && (q == r->q || *n < least); q++) {
        int32_t depth;
        struct stretch *path = wrong_path(r->c, q, &depth);
        for (int32_t i = 0; i < depth; i++)
            for (int64_t k = 0; k < ceil_div(path[i].n, p->page_size); k++) {
                page = xgrow(page, &cap, *n + 1, sizeof *page);
                page[(*n)++] = p->page_table[p->page_off[path[i].node] + k];
            }
        free(path);
    }
    return page;
}

/* Is only the last page of the path partly filled? Else no list of pages says what the row sees. */
static bool is_aligned(const struct wrong_row *r)
{
    for (int32_t i = 0; i + 1 < r->n_path; i++)
        if (r->path[i].n % r->c->p->page_size != 0)
            return false;
    return true;
}

static void read_list(struct wrong_row *r, const struct wrong *w)
{
    int64_t n, size = r->c->p->page_size;
    int64_t x = w->n < 1 && w->read == READ_PAGE_SIZE ? (int64_t)((double)size * -w->n) : (int64_t)w->n;
    if (x == 0) {
        add_own(r, 0, r->n);
        return;
    }
    int64_t *page = page_list(r, w->read == READ_PAGE_SIZE ? ceil_div(r->n, x) : 0, &n);
    for (int64_t j = 0; j < r->n && is_aligned(r); j++) {
        int64_t i = j / size, off = j % size, slot = -1;
        if (w->read == READ_ENTRY_OFF)
            slot = i + x >= 0 && i + x < n ? page[i + x] * size + off : -1;
        else if (w->read == READ_PAGE_SIZE)
            slot = j / x < n ? page[j / x] * x + j % x : -1;
        else if (w->read == READ_PAGE_STRIDE)
            slot = page[i] * x + off;
        else if (w->read == READ_ONE_PAGE)
            slot = page[0] * size + off;
        add(r, slot, -1);
    }
    free(page);
}

static void read_by_node(struct wrong_row *r, const struct wrong *w)
{
    const struct problem *p = r->c->p;
    int64_t size = p->page_size, x = (int64_t)w->n;
    for (int32_t i = 0; i < r->n_path; i++)
        for (int64_t j = 0; j < r->path[i].n; j++) {
            int64_t off = p->page_off[r->path[i].node], page = p->page_table[off + j / size], slot = -1;
            if (w->read == READ_LOGICAL)
                slot = (off + j / size) * size + j % size;
            else if (w->read == READ_PAGES)
                slot = j;
            else if (w->read == READ_PAGE_OFF)
                slot = (page + x) * size + j % size;
            else if (w->read == READ_SLOT_OFF)
                slot = page * size + j % size + x;
            add(r, slot, -1);
        }
}

/* Each x tokens of a node are read where the node's first x are. */
static void read_runs(struct wrong_row *r, int64_t x)
{
    for (int32_t i = 0; i < r->n_path; i++)
        for (int64_t j = 0; j < r->path[i].n; j++)
            add(r, slot_of(r->c->p, r->path[i].node, j % x), -1);
}

/* Where the last page is full, the page that stands behind it in a list of all queries' pages. */
static void read_page_more(struct wrong_row *r)
{
    int64_t n, size = r->c->p->page_size, own = r->n / size;
    add_own(r, 0, r->n);
    if (r->n == 0 || r->n % size != 0 || !is_aligned(r))
        return;
    int64_t *page = page_list(r, own + 1, &n);
    for (int64_t j = 0; j < size && own < n; j++)
        add(r, page[own] * size + j, -1);
    free(page);
}

/* To the end of the last page of the path, or of all of its nodes. */
static void read_whole_pages(struct wrong_row *r, bool all)
{
    int64_t size = r->c->p->page_size;
    for (int32_t i = 0; i < r->n_path; i++) {
        const struct stretch *s = &r->path[i];
        bool last = i + 1 == r->n_path;
        add_run(r, s->node, 0, all || last ? ceil_div(s->n, size) * size : s->n);
    }
}

/* ---- trees -------------------------------------------------------------------------------------------- */

static bool on_path(const struct wrong_row *r, int32_t node)
{
    int32_t own = r->c->p->tree->query[r->q].node;
    while (own >= 0 && own != node)
        own = r->c->p->tree->parent[own];
    return own == node;
}

static int32_t root_of(const struct tree *t, int32_t node)
{
    while (t->parent[node] >= 0)
        node = t->parent[node];
    return node;
}

/* Does somebody whose mask is ignored see that node? */
static bool sees(const struct wrong_row *r, enum wrong_tokens which, int32_t node)
{
    const struct tree *t = r->c->p->tree;
    int32_t own = t->query[r->q].node;
    switch (which) {
    case READ_FOREST:
        return true;
    case READ_TREE:
        return root_of(t, node) == root_of(t, own);
    case READ_LOWER_OF_ALL:
        return node <= own;
    case READ_LOWER:
        return node <= own && root_of(t, node) == root_of(t, own);
    case READ_SIBLINGS:
        return t->parent[node] >= 0 && on_path(r, t->parent[node]);
    default:
        return t->parent[node] == t->parent[own] && t->parent[own] >= 0;
    }
}

static void read_nodes(struct wrong_row *r, const struct wrong *w)
{
    enum { MOST = 1 << 18 /* tokens: all rows read as many */ };
    const struct tree *t = r->c->p->tree;
    if (tree_tokens(t) > MOST || t->n_nodes > MOST / 16) {
        add_own(r, 0, r->n);
        return;
    }
    for (int32_t i = 0; i < t->n_nodes; i++) {
        int64_t own = 0;
        for (int32_t k = 0; k < r->n_path; k++)
            own = r->path[k].node == i ? r->path[k].n : own;
        bool all = sees(r, w->read, i) &&
                   ((w->read != READ_LOWER && w->read != READ_LOWER_OF_ALL) || i != t->query[r->q].node);
        add_run(r, i, 0, !all ? own : w->n > 0 ? t->len[i] : max_i64(own, r->c->node_seen[i]));
    }
}

/* The mask of one tree of the forest, as verify/child has it: queries x tokens, both in the order of the normal form. */
static void read_mask(struct wrong_row *r, const struct wrong *w)
{
    const struct nform *nf = r->c->nf;
    int32_t form = r->c->form_of[r->q], root = nf->at[form];
    if (root < 0)
        return;
    while (nf->parent[root] >= 0)
        root = nf->parent[root];
    int64_t n = 0, nq = nf->q1[root] - nf->q0[root], mine = form - nf->q0[root];
    int32_t *of = xcalloc((size_t)nf->n_nodes, sizeof *of); /* is it of this tree? */
    for (int32_t i = 0; i < nf->n_nodes; i++) {
        of[i] = i == root || (nf->parent[i] >= 0 && of[nf->parent[i]]);
        n += of[i] && nf->q1[i] > nf->q0[i] ? nf->len[i] : 0;
    }
    int32_t *node = xcalloc((size_t)n + 1, sizeof *node);
    int64_t *token = xcalloc((size_t)n + 1, sizeof *token), k = 0;
    for (int32_t i = 0; i < nf->n_nodes; i++)
        for (int64_t j = 0; of[i] && nf->q1[i] > nf->q0[i] && j < nf->len[i]; j++, k++) {
            node[k] = i;
            token[k] = j;
        }
    for (int64_t j = 0; j < n; j++) {
        int64_t bit = w->read == READ_MASK_TURNED ? j * nq + mine
                      : w->read == READ_MASK_ROWS ? mine * ceil_div(n, 8) * 8 + j
                                                  : (mine * n + j) / 8 * 8 + 7 - (mine * n + j) % 8;
        int64_t q = bit / n, at = bit % n;
        if (q < nq && nf->q0[node[at]] <= q + nf->q0[root] && q + nf->q0[root] < nf->q1[node[at]])
            add_run(r, nf->src[node[j]], nf->off[node[j]] + token[j], nf->off[node[j]] + token[j] + 1);
    }
    free(of);
    free(node);
    free(token);
}

/* ---- requests of several queries --------------------------------------------------------------------- */

/* How many tokens of its request the row sees, by the mistake. */
static int64_t tokens_of_tail(const struct wrong_row *r, const struct wrong *w, int64_t own, int64_t whole)
{
    const struct tails *x = r->c->requests;
    int32_t mine = x->of[r->q], other = mine + (int32_t)w->n, before = tails_before(x, r->q);
    switch (w->read) {
    case READ_TAIL_WHOLE:
        return whole;
    case READ_TAIL_FIRST:
        return before + 1;
    case READ_TAIL_OTHER:
        return other < 0 || other >= x->n ? own : whole - tails_len(x, other) + before + 1;
    default:
        return own + (int64_t)w->n;
    }
}

static void read_tail(struct wrong_row *r, const struct wrong *w)
{
    const struct tree *t = r->c->p->tree;
    int32_t last = tails_last(r->c->requests, r->c->requests->of[r->q]);
    int64_t since = tree_since(t, r->q), own = r->n + since,
            whole = r->c->orc->ctx[last] + tree_since(t, last);
    int64_t n = max_i64(0, min_i64(tokens_of_tail(r, w, own, whole), whole));
    int64_t begin = since > 0 ? max_i64(0, n - r->n) : 0, *slot = xcalloc((size_t)whole + 1, sizeof *slot);
    problem_path_slots(r->c->p, last, whole, slot);
    for (int64_t i = begin; i < n; i++)
        add(r, slot[i], i >= since && i < own ? i - since : -1);
    free(slot);
}

/* ---- the plan ----------------------------------------------------------------------------------------- */

/* The row's groups, in order, as pieces; runs: each run is one. */
static void read_plan(struct wrong_row *r, const struct wrong *w, bool runs)
{
    const struct plan *plan = r->c->plan;
    int32_t form = r->c->form_of[r->q], outer = 0;
    for (int64_t g = 0; g < plan->n_groups; g++) {
        const struct group *x = &plan->group[g];
        int32_t k = 0, mine = -1;
        for (int64_t i = x->qr0; i < x->qr1 && mine < 0; i++) {
            if (plan->qr[i].begin <= form && form < plan->qr[i].end)
                mine = k + form - plan->qr[i].begin;
            k += plan->qr[i].end - plan->qr[i].begin;
        }
        for (int64_t i = x->run0; i < x->run1 && mine >= 0; i++) {
            struct run run = plan_tree_run(plan, &plan->run[i]);
            if (w->read != READ_GROUP && !plan_visible(plan, x, mine, i - x->run0))
                continue;
            if (w->read == READ_RUNS)
                for (int64_t j = run.begin; j < run.end; j++)
                    add(r, slot_of(r->c->p, run.node, j - run.begin), -1);
            else
                add_run(r, run.node, run.begin, run.end);
            if (runs)
                cut_here(r, outer);
        }
        cut_here(r, outer);
        outer += mine >= 0;
    }
}

/* ---- pieces ------------------------------------------------------------------------------------------- */

/* Whole pages that all queries begin with, else the first node. */
static int64_t common_tokens(const struct wrong_row *r)
{
    const struct problem *p = r->c->p;
    int64_t n = INT64_MAX;
    for (int32_t q = 0; q < p->tree->n_queries && n > 0; q++) {
        int32_t k;
        struct stretch *path = wrong_path(r->c, q, &k);
        int64_t same = 0;
        for (int32_t i = 0; i < k && i < r->n_path && path[i].node == r->path[i].node; i++) {
            same = path[i].at + min_i64(path[i].n, r->path[i].n);
            if (path[i].n != r->path[i].n)
                break;
        }
        n = min_i64(n, same);
        free(path);
    }
    return n / p->page_size * p->page_size;
}

/* Cut the items, which are in no pieces, as `way` says. */
static void cut_items(struct wrong_row *r, const struct wrong_way *way)
{
    struct items *x = &r->items;
    int64_t n = x->n, begin = 0, prefix = way->cut == CUT_COMMON ? common_tokens(r) : 0;
    int64_t step = way->cut == CUT_BLOCKS  ? way->x
                   : way->cut == CUT_PARTS ? max_i64(1, ceil_div(n, way->x))
                                           : n;
    int32_t node = 0;
    for (int64_t i = 1; i <= n; i++) {
        bool end = i == n || i - begin == step || i == prefix;
        if (way->cut == CUT_NODES || way->cut == CUT_NODE_BLOCKS || way->cut == CUT_PREFIX) {
            while (node < r->n_path && r->path[node].at + r->path[node].n < i)
                node++;
            end = end || (node < r->n_path && r->path[node].at + r->path[node].n == i &&
                          (way->cut != CUT_PREFIX || node == 0));
            end = end || (way->cut == CUT_NODE_BLOCKS && i - begin == way->x);
        }
        if (!end)
            continue;
        x->n = i;
        cut_here(r, (int32_t)x->n_pieces);
        begin = i;
    }
    x->n = n;
}

/* Each piece in tiles. */
static void tile_items(struct wrong_row *r, int64_t tile)
{
    struct items *x = &r->items;
    int64_t n = x->n_pieces, *end = xcalloc((size_t)n + 1, sizeof *end);
    if (n > 0)
        memcpy(end, x->end, (size_t)n * sizeof *end);
    x->n_pieces = 0;
    for (int64_t k = 0, i = 0; k < n; k++)
        while (i < end[k]) {
            i = x->n = min_i64(i + tile, end[k]);
            cut_here(r, (int32_t)k);
        }
    free(end);
}

/* Of each piece the first or last token lost, or the next one's first read as well. */
static void edit_pieces(struct wrong_row *r, enum wrong_tokens which)
{
    struct items *x = &r->items, old = *x;
    *x = (struct items){.item = NULL};
    for (int64_t k = 0, begin = 0; k < old.n_pieces; begin = old.end[k++]) {
        int64_t end = old.end[k];
        for (int64_t i = begin + (which == READ_PIECES_FIRST); i < end - (which == READ_PIECES_LAST); i++)
            add(r, old.item[i].slot, old.item[i].at);
        if (which == READ_PIECES_MORE && end < old.n)
            add(r, old.item[end].slot, old.item[end].at);
    }
    free(old.item);
    free(old.end);
    free(old.outer);
}

/* ---- all of it ---------------------------------------------------------------------------------------- */

static void read_stretches(struct wrong_row *r, enum wrong_tokens which)
{
    const struct tree *t = r->c->p->tree;
    int32_t last = r->n_path - 1, own = t->query[r->q].node, root = root_of(t, own);
    for (int32_t i = 0; i <= last; i++) {
        const struct stretch *s = &r->path[i];
        bool skip =
            (which == READ_LEAF && i != last) || (which == READ_ROOT && i != 0) ||
            (which == READ_OWN_NODE && s->node != own) || (which == READ_ROOT_NODE && s->node != root) ||
            (which == READ_LESS_ROOT_NODE && s->node == root) || (which == READ_LESS_ROOT && i == 0) ||
            (which == READ_LESS_LEAF && i == last) || (which == READ_LESS_PARENT && i == last - 1);
        bool whole = which == READ_WHOLE_NODE && s->node == own;
        if (!skip)
            add_run(r, s->node, 0, whole ? t->len[s->node] : s->n);
        if ((which == READ_ROOT_TWICE && i == 0) || (which == READ_LEAF_TWICE && i == last))
            add_run(r, s->node, 0, s->n);
    }
    if (which == READ_WHOLE_NODE && t->query[r->q].upto == 0)
        add_run(r, own, 0, t->len[own]);
}

static void read_next(struct wrong_row *r, const struct wrong *w)
{
    const struct tree *t = r->c->p->tree;
    const struct query *own = &t->query[r->q];
    int64_t x = (int64_t)w->n;
    int32_t next = wrong_query(r->c, r->q, w->query == Q_OWN ? Q_NEXT : w->query),
            before = wrong_query(r->c, r->q, w->query == Q_NEXT_IN_FORM ? Q_BEFORE_IN_FORM : Q_BEFORE);
    switch (w->read) {
    case READ_NEXT_SLOT:
    case READ_CEIL:
        add_own(r, 0, r->n);
        for (int64_t i = 0, n = w->read == READ_CEIL ? ceil_div(r->n, x) * x - r->n : x; i < n && r->n > 0;
             i++)
            add(r, r->slot[r->n - 1] + 1 + i, -1);
        break;
    case READ_NEXT_TOKEN:
        add_own(r, 0, r->n);
        add_run(r, own->node, own->upto, min_i64(own->upto + x, t->len[own->node]));
        break;
    case READ_NEXT_LIST:
        add_own(r, 0, r->n);
        if (next >= 0)
            add_query(r, next, 0, x);
        break;
    default: /* READ_SHIFTED */
        if (x < 0 && before >= 0)
            add_query(r, before, r->c->orc->ctx[before] + x, r->c->orc->ctx[before]);
        add_own(r, max_i64(x, 0), r->n + min_i64(x, 0));
        if (x > 0 && next >= 0)
            add_query(r, next, 0, x);
    }
}

static void read_shorter(struct wrong_row *r, const struct wrong *w)
{
    int64_t x = (int64_t)w->n, n = r->n, size = r->c->p->page_size;
    int64_t last = r->n_path > 0 ? r->path[r->n_path - 1].n : 0,
            in_page = last > 0 ? (last - 1) % size + 1 : 0;
    switch (w->read) {
    case READ_LESS_LAST:
        add_own(r, 0, n - x);
        break;
    case READ_LESS_FIRST:
        add_own(r, x, n);
        break;
    case READ_FULL_PAGES:
        add_own(r, 0, in_page < size ? n - in_page : n);
        break;
    case READ_FULL_PAGE_LOST:
        add_own(r, 0, in_page == size ? n - size : n);
        break;
    case READ_LESS_PAGE:
        add_own(r, 0, n - in_page);
        break;
    case READ_FIRST_PAGE_LOST:
        add_own(r, min_i64(size, r->n_path > 0 ? r->path[0].n : 0), n);
        break;
    case READ_FLOOR:
        add_own(r, 0, n / x * x);
        break;
    case READ_WINDOW_OFF:
        add_window(r, x);
        break;
    case READ_WINDOW_BY_INDEX:
        add_window_by_index(r, (int)x);
        break;
    case READ_WINDOW:
        add_own(r, n - x, n);
        break;
    case READ_HEAD: /* of a merge: those of the first x that are not empty */
        for (int64_t i = 0; i < n; i++)
            if ((r->c->merged ? r->slot[i] : i) < x)
                add_own(r, i, i + 1);
        break;
    case READ_EVERY_OTHER:
        for (int64_t i = 0; i < n; i += 2)
            add_own(r, i, i + 1);
        break;
    default: /* READ_LAST_TWICE, READ_FIRST_TWICE */
        add_own(r, 0, n);
        if (n > 0)
            r->items.item[w->read == READ_LAST_TWICE ? n - 1 : 0].times = 2;
    }
}

static void read_items(struct wrong_row *r, const struct wrong *w, const struct wrong_way *way)
{
    int32_t other;
    switch (w->read) {
    case READ_OWN:
    case READ_PIECES_LAST:
    case READ_PIECES_FIRST:
    case READ_PIECES_MORE:
        if (r->c->plan && way->cut != CUT_NONE)
            read_plan(r, w, w->read != READ_OWN);
        else
            add_own(r, 0, r->n);
        break;
    case READ_GROUP:
    case READ_RUNS:
        if (w->n > 0)
            read_runs(r, (int64_t)w->n);
        else if (r->c->plan)
            read_plan(r, w, false);
        else
            add_own(r, 0, r->n);
        break;
    case READ_QUERY:
        other = wrong_query(r->c, r->q, w->query);
        if (other >= 0)
            add_query(r, other, 0, w->n > 0 ? r->n : INT64_MAX / 2);
        else
            add_own(r, 0, r->n);
        break;
    case READ_NEXT_SLOT:
    case READ_NEXT_TOKEN:
    case READ_NEXT_LIST:
    case READ_SHIFTED:
    case READ_CEIL:
        read_next(r, w);
        break;
    case READ_WHOLE_PAGE:
    case READ_WHOLE_PAGES:
        read_whole_pages(r, w->read == READ_WHOLE_PAGES);
        break;
    case READ_FULL_PAGE_MORE:
        read_page_more(r);
        break;
    case READ_SLOTS:
    case READ_SLOTS_FROM_FIRST:
        for (int64_t j = 0; j < r->n; j++)
            add(r, j + (w->read == READ_SLOTS ? 0 : r->slot[0]), -1);
        break;
    case READ_LOGICAL:
    case READ_PAGES:
    case READ_PAGE_OFF:
    case READ_SLOT_OFF:
        read_by_node(r, w);
        break;
    case READ_ENTRY_OFF:
    case READ_PAGE_SIZE:
    case READ_PAGE_STRIDE:
    case READ_ONE_PAGE:
        read_list(r, w);
        break;
    case READ_LEAF:
    case READ_ROOT:
    case READ_LESS_ROOT:
    case READ_LESS_LEAF:
    case READ_LESS_PARENT:
    case READ_WHOLE_NODE:
    case READ_ROOT_TWICE:
    case READ_LEAF_TWICE:
    case READ_OWN_NODE:
    case READ_ROOT_NODE:
    case READ_LESS_ROOT_NODE:
        read_stretches(r, w->read);
        break;
    case READ_FOREST:
    case READ_TREE:
    case READ_LOWER:
    case READ_LOWER_OF_ALL:
    case READ_SIBLINGS:
    case READ_COUSINS:
        read_nodes(r, w);
        break;
    case READ_MASK_MSB:
    case READ_MASK_TURNED:
    case READ_MASK_ROWS:
        read_mask(r, w);
        break;
    case READ_TAIL:
    case READ_TAIL_WHOLE:
    case READ_TAIL_FIRST:
    case READ_TAIL_OTHER:
        read_tail(r, w);
        break;
    default:
        read_shorter(r, w);
    }
}

/* Are these the row's own tokens, each once? */
static bool is_right(const struct wrong_row *r)
{
    const struct items *x = &r->items;
    bool same = x->n == r->n;
    for (int64_t i = 0; i < x->n && same; i++) /* a list of own tokens in their order, or in that of a plan */
        same = x->item[i].at >= 0 && x->item[i].times == 1;
    return same;
}

bool wrong_read(struct wrong_row *r, const struct wrong *w, const struct wrong_way *way)
{
    struct items *x = &r->items;
    bool pieces = w->read == READ_PIECES_LAST || w->read == READ_PIECES_FIRST || w->read == READ_PIECES_MORE;
    if (pieces && way->cut == CUT_NONE)
        return false;
    x->n = x->n_pieces = 0;
    x->outside = false;
    read_items(r, w, way);
    if (way->cut != CUT_NONE && x->n_pieces == 0)
        cut_items(r, way);
    if (pieces)
        edit_pieces(r, w->read);
    if (pieces || way->cut == CUT_NONE) {
        x->n_pieces = 0;
        cut_here(r, 0);
    }
    if (way->tile > 0)
        tile_items(r, way->tile);
    return w->read == READ_OWN || !is_right(r);
}
