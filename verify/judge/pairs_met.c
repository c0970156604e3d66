#include "verify/judge/pairs_met.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

static const char *const axis_name[] = {"dtype", "heads", "d", "page", "tree", "fill", "strategy"};

static int32_t value_of(struct pairs_met *v, enum gpu_axis axis, const char *name)
{
    for (int32_t i = 0; i < v->n; i++)
        if (v->value[i].axis == axis && strcmp(v->value[i].name, name) == 0)
            return i;
    CK(v->n < MAX_AXIS_VALUES);
    struct axis_value *x = &v->value[v->n];
    *x = (struct axis_value){.axis = axis};
    snprintf(x->name, sizeof x->name, "%s", name);
    return v->n++;
}

static void require(struct pairs_met *v, enum gpu_axis axis, const char *name)
{
    v->value[value_of(v, axis, name)].required = true;
}

static const char *number(char *text, size_t size, int32_t a, int32_t b)
{
    if (b)
        snprintf(text, size, "%" PRId32 "/%" PRId32, a, b);
    else
        snprintf(text, size, "%" PRId32, a);
    return text;
}

void pairs_met_init(struct pairs_met *v, const struct strategy_use *use, int32_t n_use)
{
    char text[32];
    for (int i = 0; i < GPU_TYPES; i++)
        require(v, AXIS_DTYPE, dtype_name[gpu_dtypes[i]]);
    for (int i = 0; i < GPU_HEADS; i++)
        require(v, AXIS_HEADS, number(text, sizeof text, gpu_heads[i][0], gpu_heads[i][1]));
    for (int i = 0; i < GPU_DIMS; i++)
        require(v, AXIS_D, number(text, sizeof text, gpu_dims[i], 0));
    for (int i = 0; i < GPU_PAGES; i++)
        require(v, AXIS_PAGE, number(text, sizeof text, gpu_pages[i], 0));
    for (int i = 0; i <= GPU_PREFIX; i++)
        require(v, AXIS_TREE, gpu_kind_name(i));
    for (int32_t i = 0; i < n_use; i++)
        require(v, AXIS_STRATEGY, use[i].s->name);
}

/* The same sentence with other numbers is the same reason. */
static void count_skip(struct pairs_met *v, const struct result *r)
{
    char text[160], why[RESULT_SENTENCE];
    size_t n = (size_t)snprintf(text, sizeof text, "%s: ", r->strategy);
    for (const char *c = result_sentence(r, why); *c && n + 1 < sizeof text; c++)
        if (!isdigit((unsigned char)*c))
            text[n++] = *c;
        else if (text[n - 1] != '#')
            text[n++] = '#';
    text[n] = 0;
    for (int32_t i = 0; i < v->n_skips; i++)
        if (strcmp(v->skip[i].text, text) == 0) {
            v->skip[i].n++;
            return;
        }
    if (v->n_skips == MAX_SKIPS)
        return;
    struct skip_reason *x = &v->skip[v->n_skips++];
    memcpy(x->text, text, sizeof text);
    x->n = 1;
}

void pairs_met_add(struct pairs_met *v, const struct gpu_case *x, const struct result *r)
{
    const struct problem_spec *s = &x->c.spec;
    char text[32];
    int32_t at[N_GPU_AXES];
    at[AXIS_DTYPE] = value_of(v, AXIS_DTYPE, dtype_name[s->heads.dtype]);
    at[AXIS_HEADS] = value_of(v, AXIS_HEADS, number(text, sizeof text, s->heads.h_q, s->heads.h_kv));
    at[AXIS_D] = value_of(v, AXIS_D, number(text, sizeof text, s->heads.d, 0));
    at[AXIS_PAGE] = value_of(v, AXIS_PAGE, number(text, sizeof text, s->page_size, 0));
    at[AXIS_TREE] = value_of(v, AXIS_TREE, gpu_kind_name(x->kind));
    at[AXIS_FILL] = value_of(v, AXIS_FILL, fill_name[s->fill]);
    at[AXIS_STRATEGY] = value_of(v, AXIS_STRATEGY, r->strategy);
    for (int a = 0; a < N_GPU_AXES; a++) {
        struct axis_value *y = &v->value[at[a]];
        y->n[r->verdict]++;
        y->worst_o = fmax(y->worst_o, r->cmp.worst_o);
        y->worst_lse = fmax(y->worst_lse, r->cmp.worst_lse);
        for (int b = 0; b < N_GPU_AXES && r->verdict != V_SKIP; b++)
            if (at[a] < at[b])
                v->pair[at[a]][at[b]]++;
    }
    if (r->verdict == V_SKIP)
        count_skip(v, r);
}

int64_t pairs_met_pairs(const struct pairs_met *v, int64_t *met, FILE *f)
{
    int64_t n = 0;
    *met = 0;
    for (int32_t i = 0; i < v->n; i++)
        for (int32_t j = i + 1; j < v->n; j++) {
            const struct axis_value *a = &v->value[i], *b = &v->value[j];
            if (!a->required || !b->required || a->axis == b->axis)
                continue;
            if (v->pair[i][j] == 0 && a->axis == AXIS_TREE && b->axis == AXIS_STRATEGY)
                continue; /* said under skips */
            n++;
            *met += v->pair[i][j] > 0;
            if (v->pair[i][j] == 0 && f)
                fprintf(f, "not run: %s %s with %s %s\n", axis_name[a->axis], a->name, axis_name[b->axis],
                        b->name);
        }
    return n;
}

void pairs_met_print(FILE *f, const struct pairs_met *v, bool whole)
{
    fprintf(f, "%-9s %-20s %8s %8s %9s %7s %7s %9s %9s\n", "axis", "value", "cases", "pass", "marginal",
            "fail", "skip", "worst O", "worst LSE");
    for (int axis = 0; axis < N_GPU_AXES; axis++)
        for (int32_t i = 0; i < v->n; i++) {
            const struct axis_value *x = &v->value[i];
            if ((int)x->axis != axis)
                continue;
            int64_t all = x->n[V_PASS] + x->n[V_MARGINAL] + x->n[V_FAIL] + x->n[V_SKIP];
            fprintf(f,
                    "%-9s %-20s %8" PRId64 " %8" PRId64 " %9" PRId64 " %7" PRId64 " %7" PRId64
                    " %9.3g %9.3g\n",
                    axis_name[axis], x->name, all, x->n[V_PASS], x->n[V_MARGINAL], x->n[V_FAIL], x->n[V_SKIP],
                    x->worst_o, x->worst_lse);
        }
    for (int32_t i = 0; i < v->n_skips; i++)
        fprintf(f, "skip %7" PRId64 "  %s\n", v->skip[i].n, v->skip[i].text);
    int64_t met, pairs = pairs_met_pairs(v, &met, whole ? f : NULL);
    fprintf(f, "pairs of axis values: %" PRId64 " of %" PRId64 " run\n", met, pairs);
}
