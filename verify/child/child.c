#include "verify/child/child.h"
#include "verify/child/exchange.h"
#include "verify/child/first_line.h"
#include "ref/json_text.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

struct children {
    struct kernel kernel[N_KERNEL_POINTS]; /* whose config points here */
    char *name[N_KERNEL_POINTS];
    struct child_caps caps;
    struct child_limits limits;
    char *command, *folder, *option;
    pthread_mutex_t lock;
    pthread_cond_t freed;
    int32_t n_busy;
    struct process *idle[MAX_CHILDREN]; /* [n_idle] */
    int32_t n_idle;
    int64_t n_asked; /* the number of the last case */
};

/* x if it is in the list, else the largest that is not larger, else the smallest. */
static int32_t nearest(const int32_t *list, int32_t x)
{
    int32_t below = 0, least = *list;
    for (const int32_t *at = list; *at; at++) {
        below = *at <= x && *at > below ? *at : below;
        least = *at < least ? *at : least;
    }
    return *list == 0 ? x : below ? below : least;
}

static bool suit(const struct kernel *k, struct problem_spec *s)
{
    const struct child_caps *c = &((const struct children *)k->config)->caps;
    struct heads *h = &s->heads;
    int32_t n = 0, ratio = nearest(c->ratios, h->h_q / h->h_kv);
    for (int t = 0; t < N_DTYPES; t++)
        n += c->dtype[t];
    uint64_t pick = s->seed % (uint64_t)n;
    for (int t = 0; t < N_DTYPES && !c->dtype[h->dtype]; t++)
        if (c->dtype[t] && pick-- == 0)
            h->dtype = (enum dtype)t;
    if (ratio != h->h_q / h->h_kv) {
        h->h_kv = (int32_t)max_i64(h->h_q / ratio, 1);
        h->h_q = h->h_kv * ratio;
    }
    problem_spec_restrict(s, c->features);
    h->d = nearest(c->head_dims, h->d);
    bool long_row = h->d > PROBLEM_MAX_D && (c->features >> FEATURE_LATENT & 1); /* V is in it */
    h->v_apart = h->v_apart && !long_row;
    if (h->d_v > h->d || (long_row && h->d_v == 0))
        h->d_v = problem_usual_d_v(h);
    s->page_size = nearest(c->page_sizes, s->page_size);
    return c->point[POINT_ATTENTION] &&
           (c->view == VIEW_paged || c->view == VIEW_block_table || c->view == VIEW_extend ||
            c->view == VIEW_prefix);
}

static bool in_list(const int32_t *list, int32_t x)
{
    if (!*list)
        return true;
    while (*list && *list != x)
        list++;
    return *list == x;
}

static const struct heads *heads_of(const struct question *ask)
{
    return ask->p ? &ask->p->heads : &ask->partials->heads;
}

/* What a question is large in. */
struct size {
    int64_t queries, context, pairs;
};

static struct size size_of(const struct question *ask)
{
    if (ask->partials) {
        const struct partials *x = ask->partials;
        return (struct size){x->n, x->inputs, x->inputs * x->n * x->heads.h_q};
    }
    int64_t n = ask->p->tree->n_queries, *ctx = xcalloc((size_t)n, sizeof *ctx);
    struct size s = {.queries = n};
    tree_contexts(ask->p->tree, ctx);
    for (int64_t q = 0; q < n; q++) {
        s.context = max_i64(s.context, ctx[q]);
        s.pairs += ctx[q] * ask->p->heads.h_q;
    }
    free(ctx);
    return s;
}

/* Does the child say that it takes this? If not, what not in *why. */
static bool takes(const struct kernel *k, const struct child_caps *c, const struct question *ask,
                  struct err *why)
{
    const struct heads *h = heads_of(ask);
    struct size s = size_of(ask);
    if (ask->timing && (!k->times || c->layout != KV_NHD || heads_fp8(h) || h->d_v > 0))
        return err_set(why, k->times ? "timed are kernels of layout NHD, K and V in 16 bits" : "it does not time itself");
    if (!c->dtype[h->dtype])
        return err_set(why, "it does not take %s", dtype_name[h->dtype]);
    if (ask->p && !kernel_has_features(k, ask->p, why))
        return false;
    if (!in_list(c->head_dims, h->d))
        return err_set(why, "it does not take heads of %" PRId32, h->d);
    if (ask->p && !in_list(c->ratios, heads_gqa(h)))
        return err_set(why, "it does not take %" PRId32 " query heads on a KV head", heads_gqa(h));
    if (ask->p && !in_list(c->page_sizes, ask->p->page_size))
        return err_set(why, "it does not take pages of %" PRId32, ask->p->page_size);
    if (c->max_context && s.context > c->max_context)
        return err_set(why, "a context of %" PRId64 " tokens (it takes %" PRId64 ")", s.context,
                       c->max_context);
    if (c->max_queries && s.queries > c->max_queries)
        return err_set(why, "%" PRId64 " queries (it takes %" PRId64 ")", s.queries, c->max_queries);
    if (c->max_pairs && s.pairs > c->max_pairs)
        return err_set(why, "%" PRId64 " pairs of a query head and a token (it takes %" PRId64 ")", s.pairs,
                       c->max_pairs);
    return true;
}

/* ---- the answer --------------------------------------------------------------------------------------- */

/* Element i; the file need not align what it holds. */
/* O and LSE as the child wrote them, into ours; its row i is ours of order[i], if that is not NULL. */
static enum run_end take_answer(const struct child_caps *c, const struct heads *h, const int32_t *order,
                                const char *path, struct output *out, struct err *why)
{
    int64_t rows = out->n_rows, n = rows / h->h_q;
    int32_t d = heads_d_v(h);
    struct tensors t;
    struct err e = {0};
    if (access(path, F_OK) != 0) {
        err_set(why, "it says that it is done, and \"out\" is not there");
        return RUN_UNWRITTEN;
    }
    if (!tensors_read(path, rows * (d + 1) * 8, &t, &e)) {
        size_t folder = (size_t)(strrchr(path, '/') + 1 - path); /* of no use to anybody */
        err_set(why, "its answer %s", e.msg + (strncmp(e.msg, path, folder) == 0 ? folder : 0));
        return RUN_PROTOCOL;
    }
    struct tensor *o = tensors_find(&t, "o"), *lse = tensors_find(&t, "lse");
    enum run_end end = RUN_DONE;
    enum element want = (enum element[]){EL_F64, EL_F32, EL_F16, EL_BF16}[h->dtype];
    int64_t lse_rows[2] = {c->lse_by_head ? h->h_q : n, c->lse_by_head ? n : h->h_q};
    if (!o || (c->lse_unit != 0 && !lse)) {
        end = RUN_UNWRITTEN;
        err_set(why, "its answer has no \"%s\"", o ? "lse" : "o");
    } else if (o->type != want || (c->lse_unit != 0 && lse->type != EL_F32 && lse->type != EL_F64)) {
        end = RUN_DTYPE;
        err_set(why, "its O is %s, its LSE %s (expected %s, and F32 or F64)", element_name[o->type],
                lse ? element_name[lse->type] : "not there", element_name[want]);
    } else if (o->n_dims != 3 || o->shape[0] != n || o->shape[1] != h->h_q || o->shape[2] != d) {
        end = RUN_SHAPE;
        err_set(why, "its O has the shape %s (expected %" PRId64 " x %" PRId32 " x %" PRId32 ")",
                tensor_shape_text(o, (char[TENSOR_SHAPE_TEXT]){0}), n, h->h_q, d);
    } else if (c->lse_unit != 0 &&
               (lse->n_dims != 2 || lse->shape[0] != lse_rows[0] || lse->shape[1] != lse_rows[1])) {
        end = RUN_SHAPE;
        err_set(why, "its LSE has the shape %s (expected %" PRId64 " x %" PRId64 ")",
                tensor_shape_text(lse, (char[TENSOR_SHAPE_TEXT]){0}), lse_rows[0], lse_rows[1]);
    }
    size_t o_bytes = (size_t)h->h_q * (size_t)d * (size_t)dtype_size[h->dtype];
    for (int64_t i = 0; end == RUN_DONE && i < n; i++) {
        int64_t q = order ? order[i] : i;
        memcpy((char *)out->o + (size_t)q * o_bytes, (char *)o->data + (size_t)i * o_bytes, o_bytes);
        for (int64_t k = 0; k < h->h_q && c->lse_unit != 0; k++) {
            int64_t at = c->lse_by_head ? k * n + i : i * h->h_q + k;
            double x = tensor_float(lse, at);
            if (c->empty_is_plus_inf && x == INFINITY)
                x = -INFINITY;
            output_set_lse(out, q * h->h_q + k, x * c->lse_unit);
        }
    }
    tensors_free(&t);
    return end;
}

/* ---- conversation ------------------------------------------------------------------------------------- */

/* Starts a child and reads what it declares. */
static struct process *start(const struct children *c, struct child_caps *caps, struct err *e)
{
    json_t *hello;
    struct process *p =
        exchange_start(c->command, c->folder, &c->limits.process, c->limits.start_seconds, &hello, e);
    bool good = p && first_line_read(hello, caps, e);
    json_decref(hello);
    if (good)
        return p;
    process_stop(p);
    return NULL;
}

/* A child that is free, or a new one; waits where there are as many as may be. */
static struct process *borrow(struct children *c, bool fresh, int64_t *number, struct err *e)
{
    struct process *p = NULL;
    pthread_mutex_lock(&c->lock);
    while (c->n_busy == c->limits.n)
        pthread_cond_wait(&c->freed, &c->lock);
    c->n_busy++;
    *number = ++c->n_asked;
    if (c->n_idle > 0)
        p = c->idle[--c->n_idle];
    pthread_mutex_unlock(&c->lock);
    struct child_caps again;
    if (p && fresh) {
        process_stop(p);
        p = NULL;
    }
    return p ? p : start(c, &again, e);
}

/* Back, or ended if it is of no more use. */
static void give_back(struct children *c, struct process *p, bool sound)
{
    if (!sound) {
        process_stop(p);
        p = NULL;
    }
    pthread_mutex_lock(&c->lock);
    c->n_busy--;
    if (p)
        c->idle[c->n_idle++] = p;
    pthread_cond_signal(&c->freed);
    pthread_mutex_unlock(&c->lock);
}

/* The line that asks for case `number`; the caller frees. */
static char *request(const struct children *c, const struct kernel *k, const struct question *ask,
                     int64_t rows, int64_t number, const char *in, const char *out)
{
    const struct heads *h = heads_of(ask);
    char *text = NULL;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    CK(f);
    fprintf(f, "{\"run\":%" PRId64 ",\"point\":\"%s\"", number, kernel_point_name[k->point]);
    if (k->point == POINT_ATTENTION)
        fprintf(f, ",\"view\":\"%s\"", view_name[c->caps.view]);
    fprintf(f, ",\"in\":");
    print_json_text(f, in);
    fprintf(f, ",\"out\":");
    print_json_text(f, out);
    fprintf(f, ",\"dtype\":\"%s\",\"queries\":%" PRId64 ",\"heads\":%" PRId32 ",\"head_dim\":%" PRId32,
            dtype_name[h->dtype], rows, h->h_q, h->d);
    if (ask->p)
        fprintf(f, ",\"kv_heads\":%" PRId32 ",\"page_size\":%" PRId32 ",\"scale\":%.17g", h->h_kv,
                ask->p->page_size, ask->p->scale);
    if (h->d_v > 0)
        fprintf(f, ",\"head_dim_v\":%" PRId32, h->d_v);
    if (ask->p && heads_fp8(h))
        fprintf(f, ",\"kv_dtype\":\"%s\"", dtype_name[h->kv_fp8]);
    if (ask->p && ask->p->soft_cap > 0)
        fprintf(f, ",\"soft_cap\":%.17g", ask->p->soft_cap);
    if (ask->graph)
        fprintf(f, ",\"graph\":true");
    if (ask->timing) {
        fprintf(f, ",\"time\":{\"reps\":%" PRId64 ",\"flush_bytes\":%" PRId64 ",\"flush_reads\":%s},\"pool\":",
                ask->timing->reps, ask->timing->flush_bytes, ask->timing->flush_reads ? "true" : "false");
        print_json_text(f, ask->timing->pool);
    }
    fprintf(f, ",\"seconds\":%g}", c->limits.case_seconds);
    fclose(f);
    return text;
}

/* The tensors of a question; false with *why if there are none. */
static bool tensors_of(const struct children *c, const struct kernel *k, const struct question *ask,
                       struct view_data *v, struct err *why)
{
    struct view_form form = {c->caps.layout, ask->nan_tails ? TAIL_NAN : c->limits.tail, c->caps.mask,
                             .no_kv = ask->timing != NULL};
    if (k->point == POINT_PARTIAL)
        return view_groups(&form, ask->p, ask->plan, v, why);
    if (k->point == POINT_ATTENTION)
        return view_make(c->caps.view, &form, ask->p, ask->plan, v, why);
    view_partials(ask->partials,
                  (struct merge_form){c->caps.lse_unit > 0 ? c->caps.lse_unit : 1, c->caps.lse_by_head,
                                      c->caps.empty_is_plus_inf},
                  v);
    return true;
}

static enum run_end attend(const struct kernel *k, const struct question *ask, struct output *out,
                           struct err *why)
{
    struct children *c = (struct children *)k->config;
    struct view_data v;
    if (!takes(k, &c->caps, ask, why))
        return RUN_UNSUPPORTED;
    if (!tensors_of(c, k, ask, &v, why))
        return RUN_NO_VIEW;
    int64_t number;
    struct process *child = borrow(c, ask->fresh, &number, why);
    if (!child) {
        give_back(c, NULL, false);
        view_free(&v);
        return RUN_ERROR;
    }
    char *in = xasprintf("%s/%" PRId64 ".in", c->folder, number),
         *answer = xasprintf("%s/%" PRId64 ".out", c->folder, number),
         *line = request(c, k, ask, v.n_rows, number, in, answer);
    bool sound;
    const struct exchange x = {
        line, number, in, answer, &v.tensors, c->limits.case_seconds, ask->allocations, ask->timing};
    enum run_end end = exchange_ask(child, &x, &sound, why);
    if (end == RUN_DONE)
        end = take_answer(&c->caps, heads_of(ask), k->point == POINT_ATTENTION ? v.order : NULL, answer, out,
                          why);
    unlink(answer);
    give_back(c, child, sound);
    free(in);
    free(answer);
    free(line);
    view_free(&v);
    return end;
}

/* ---- all of them -------------------------------------------------------------------------------------- */

/* A kernel for each point that is offered, which lead from one to the next. */
static void make_kernels(struct children *c)
{
    struct kernel *last = NULL;
    for (int i = 0; i < N_KERNEL_POINTS; i++) {
        if (!c->caps.point[i])
            continue;
        struct kernel *k = &c->kernel[last ? last - c->kernel + 1 : 0];
        c->name[i] = i == POINT_ATTENTION ? xstrdup(c->caps.name)
                                          : xasprintf("%s.%s", c->caps.name, kernel_point_name[i]);
        *k = (struct kernel){.name = c->name[i],
                             .about = "a child",
                             .attend = attend,
                             .features = c->caps.features,
                             .suit = suit,
                             .point = (enum kernel_point)i,
                             .wants_plan = i != POINT_ATTENTION || c->caps.view == VIEW_plan,
                             .view = view_name[c->caps.view],
                             .declared = &c->caps.arithmetic,
                             .lse_unit = c->caps.lse_unit,
                             .graphs = i == POINT_ATTENTION && c->caps.graph,
                             .times = i == POINT_ATTENTION && c->caps.time,
                             .tails = c->limits.tail == TAIL_FINITE,
                             .sparse = c->caps.sparse && c->caps.layout == KV_NHD,
                             .gaps = i == POINT_ATTENTION && c->caps.layout == KV_STRIDES,
                             .option = c->option,
                             .config = c};
        if (last)
            last->also = k;
        last = k;
    }
}

struct children *children_new(const char *command, const char *option, const struct child_limits *limits,
                              struct err *e)
{
    struct children *c = xcalloc(1, sizeof *c);
    c->limits = *limits;
    c->limits.n = (int32_t)min_i64(max_i64(limits->n, 1), MAX_CHILDREN);
    c->command = xstrdup(command);
    c->option = xstrdup(option);
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->freed, NULL);
    prctl(PR_SET_DUMPABLE, 0); /* no child of the same user may look into our memory */
    c->folder = exchange_folder(false, e);
    struct process *first = c->folder ? start(c, &c->caps, e) : NULL;
    if (!first) {
        children_free(c);
        return NULL;
    }
    c->idle[c->n_idle++] = first;
    make_kernels(c);
    return c;
}

void children_free(struct children *c)
{
    if (!c)
        return;
    for (int32_t i = 0; i < c->n_idle; i++)
        process_stop(c->idle[i]);
    if (c->folder)
        exchange_remove(c->folder);
    pthread_mutex_destroy(&c->lock);
    pthread_cond_destroy(&c->freed);
    free(c->folder);
    free(c->command);
    free(c->option);
    for (int i = 0; i < N_KERNEL_POINTS; i++)
        free(c->name[i]);
    free(c);
}

const struct child_caps *children_caps(const struct children *c)
{
    return &c->caps;
}

const struct kernel *children_kernel(const struct children *c)
{
    return c->kernel;
}
