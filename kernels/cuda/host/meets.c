/* meets.c - clusters by what merges have as inputs. */
#include "kernels/cuda/host/meets.h"
#include "ref/base.h"

#include <stdlib.h>
#include <string.h>

struct meets meets_new(const struct plan *plan, const struct meets_card *card)
{
    return (struct meets){.plan = plan, .card = *card};
}

void meets_free(struct meets *m)
{
    free(m->step_of_slot);
    free(m->met);
}

static void find_steps(struct meets *m)
{
    const struct plan *plan = m->plan;
    m->step_of_slot = xcalloc((size_t)plan->n_slots, sizeof *m->step_of_slot);
    memset(m->step_of_slot, -1, (size_t)plan->n_slots * sizeof *m->step_of_slot);
    for (int64_t s = 0; s < plan->n_merges; s++)
        for (int64_t i = plan->merge[s].in0; i < plan->merge[s].in1; i++)
            m->step_of_slot[plan->merge_in[i]] = s;
}

/* The step to the output that has this slot as an input, or NULL. */
static const struct merge_step *step_of(const struct meets *m, int64_t slot)
{
    int64_t step = slot < 0 || slot >= m->plan->n_slots ? -1 : m->step_of_slot[slot];
    const struct merge_step *s = step < 0 ? NULL : &m->plan->merge[step];
    return s && s->out == PLAN_NO_SLOT ? s : NULL;
}

static int32_t inputs_of(const struct merge_step *s)
{
    return s->in1 - s->in0 > CUDA_MEET_MOST ? 0 : (int32_t)(s->in1 - s->in0);
}

/* The queries that a tile has rows of: so many from that of its first row on. */
static int32_t queries_of(const struct meets *m, const struct cuda_item *it)
{
    return (it->row0 % m->card.gqa + it->n_rows - 1) / m->card.gqa + 1;
}

/* Rows that a tile has of its query k. */
static int32_t rows_of(const struct meets *m, const struct cuda_item *it, int32_t k)
{
    int32_t gqa = m->card.gqa, first = it->row0 / gqa * gqa + k * gqa, end = it->row0 + it->n_rows;
    return (int32_t)(min_i64(first + gqa, end) - (first > it->row0 ? first : it->row0));
}

/* A CTA: the first input of the merge of its first query, which all of its cluster have; its place among them. */
struct met_cta {
    int64_t first;
    int32_t row0, place;
    int64_t item;
};

static int by_cluster(const void *x, const void *y)
{
    const struct met_cta *a = x, *b = y;
    if (a->first != b->first)
        return a->first < b->first ? -1 : 1;
    return a->row0 != b->row0 ? (a->row0 > b->row0) - (a->row0 < b->row0)
                              : (a->place > b->place) - (a->place < b->place);
}

/* Is the tile of each of these CTAs, the t-th, of the same rows, whose merges have them as inputs in this order? */
static bool tiles_meet(const struct meets *m, const struct cuda_item *item, const struct met_cta *cta,
                       int32_t ctas, int32_t t)
{
    const struct cuda_item *it = &item[cta->item + t];
    if (it->n_rows == 0) {
        for (int32_t i = 1; i < ctas; i++)
            if (item[cta[i].item + t].n_rows > 0)
                return false;
        return true;
    }
    for (int32_t k = 0; k < queries_of(m, it); k++) {
        const struct merge_step *s = step_of(m, it->slot0 < 0 ? -1 : (int64_t)it->slot0 + k);
        if (!s || inputs_of(s) != ctas)
            return false;
        for (int32_t i = 0; i < ctas; i++) {
            const struct cuda_item *other = &item[cta[i].item + t];
            if (other->row0 != it->row0 || other->n_rows != it->n_rows || other->slot0 < 0 ||
                m->plan->merge_in[s->in0 + i] != other->slot0 + k)
                return false;
        }
    }
    return true;
}

/* Finds the clusters of CTAs that are sorted. Of each merge that they do, counts the rows of a head in met_rows. */
static bool clusters_meet(const struct meets *m, const struct cuda_item *item, const struct met_cta *cta,
                          int64_t n_ctas, int32_t tiles, int32_t ctas, int32_t *met_rows)
{
    for (int64_t i = 0; i < n_ctas; i += ctas) {
        for (int32_t t = 0; t < tiles; t++) {
            const struct cuda_item *it = &item[cta[i].item + t];
            if (!tiles_meet(m, item, &cta[i], ctas, t))
                return false;
            for (int32_t k = 0; it->n_rows > 0 && k < queries_of(m, it); k++)
                met_rows[m->step_of_slot[it->slot0 + k]] += rows_of(m, it, k);
        }
    }
    for (int64_t s = 0; s < m->plan->n_merges; s++)
        if (met_rows[s] != 0 && met_rows[s] != m->card.gqa)
            return false;
    return true;
}

/* Places each CTA in its cluster; returns the CTAs of one, or 0. */
static int32_t place_ctas(const struct meets *m, const struct cuda_item *item, struct met_cta *cta,
                          int64_t n_ctas, int32_t tiles)
{
    int32_t ctas = 0;
    for (int64_t i = 0; i < n_ctas; i++) {
        const struct cuda_item *it = &item[i * tiles];
        const struct merge_step *s = step_of(m, it->slot0);
        if (!s || (i > 0 && inputs_of(s) != ctas))
            return 0;
        ctas = inputs_of(s);
        cta[i] = (struct met_cta){.first = m->plan->merge_in[s->in0], .row0 = it->row0, .item = i * tiles};
        while (m->plan->merge_in[s->in0 + cta[i].place] != it->slot0)
            cta[i].place++;
    }
    return ctas < 2 || n_ctas % ctas != 0 ? 0 : ctas;
}

int32_t meets_sort(struct meets *m, struct cuda_item *item, int64_t n_items, int32_t tiles,
                   const int32_t *clusters)
{
    int64_t n_ctas = n_items / tiles, n_merges = m->plan->n_merges;
    if (!m->card.everywhere && n_ctas * m->card.h_kv > m->card.sms)
        return 0;
    if (!m->step_of_slot)
        find_steps(m);
    struct met_cta *cta = xcalloc((size_t)n_ctas, sizeof *cta);
    int32_t ctas = place_ctas(m, item, cta, n_ctas, tiles);
    int32_t fit = ctas == 0 ? 0 : clusters[ctas];
    if (fit == 0 || (!m->card.everywhere && n_ctas / ctas * m->card.h_kv > fit)) {
        free(cta);
        return 0;
    }
    int32_t *met_rows = xcalloc((size_t)n_merges, sizeof *met_rows);
    qsort(cta, (size_t)n_ctas, sizeof *cta, by_cluster);
    bool meet = clusters_meet(m, item, cta, n_ctas, tiles, ctas, met_rows);
    if (meet) {
        struct cuda_item *sorted = xcalloc((size_t)n_items, sizeof *sorted);
        for (int64_t i = 0; i < n_ctas; i++)
            memcpy(sorted + i * tiles, item + cta[i].item, (size_t)tiles * sizeof *sorted);
        memcpy(item, sorted, (size_t)n_items * sizeof *item);
        free(sorted);
        if (!m->met)
            m->met = xcalloc((size_t)n_merges, sizeof *m->met);
        for (int64_t s = 0; s < n_merges; s++)
            m->met[s] |= met_rows[s] > 0;
    }
    free(met_rows);
    free(cta);
    return meet ? ctas : 0;
}
