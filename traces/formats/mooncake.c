/*
 * mooncake.c - request traces in the format of Mooncake's release (FAST 2025): a line each {"timestamp": ms,
 * "input_length": tokens, "output_length": tokens, "hash_ids": [...]}.
 *
 * hash_ids has an id per block of 512 prompt tokens. The last block is partial unless the length is a
 * multiple. An id stands for a block together with all before it, so equal ids mean equal prefixes. So an id
 * must have the same predecessor and the same number of tokens wherever it occurs, and the lists form a trie.
 * Timestamps never decrease. Blank lines are passed over.
 */
#include "traces/formats/mooncake.h"

#include "traces/formats/json.h"

#include <stdlib.h>
#include <string.h>

/* ---- one line ------------------------------------------------------------------------------------------ */

static bool read_blocks(struct requests *r, int64_t *cap, const json_t *list, struct request *q,
                        const struct json_at *at, struct err *e)
{
    int64_t want = ceil_div(q->input, REQUEST_BLOCK);
    if ((int64_t)json_array_size(list) != want)
        return json_err(at, e, "%zu ids in \"hash_ids\" (expected %lld, one per %d tokens of the prompt)",
                        json_array_size(list), (long long)want, REQUEST_BLOCK);
    q->first = r->n_blocks;
    q->n_blocks = (int32_t)want;
    r->block = xgrow(r->block, cap, r->n_blocks + want, sizeof *r->block);
    for (int64_t i = 0; i < want; i++) {
        char what[48];
        snprintf(what, sizeof what, "entry %lld of \"hash_ids\"", (long long)i);
        if (!json_int(json_array_get(list, (size_t)i), 0, INT64_MAX, &r->block[r->n_blocks], at, what, e))
            return false;
        r->n_blocks++;
    }
    return true;
}

static bool read_request(struct requests *r, int64_t *cap, const struct json_doc *doc, struct request *q,
                         struct err *e)
{
    const struct json_at at = {.doc = doc, .label = ""};
    if (!json_is_object(doc->root))
        return json_err(&at, e, "the line holds %s (expected an object with timestamp, lengths and hash_ids)",
                        json_type_name(doc->root));
    int64_t before = r->n > 0 ? r->request[r->n - 1].arrival : 0;
    q->line = doc->first_line;
    if (!json_member_int(doc->root, "timestamp", 0, TREE_MAX_TOKENS, &q->arrival, &at, e) ||
        !json_member_int(doc->root, "input_length", 1, TREE_MAX_TOKENS, &q->input, &at, e) ||
        !json_member_int(doc->root, "output_length", 1, MOONCAKE_MAX_OUTPUT, &q->output, &at, e))
        return false;
    if (q->arrival < before)
        return json_err(&at, e, "timestamp %lld after %lld (expected order of arrival)",
                        (long long)q->arrival, (long long)before);
    const json_t *list = json_member(doc->root, "hash_ids", JSON_ARRAY, &at, e);
    return list && read_blocks(r, cap, list, q, &at, e);
}

/* ---- the trie ------------------------------------------------------------------------------------------ */

/* One block of one request. */
struct use {
    int64_t id, before; /* before: the id of the block above, -1 for a first block */
    int32_t request, tokens;
};

static int use_compare(const void *a, const void *b)
{
    const struct use *x = a, *y = b;
    if (x->id != y->id)
        return x->id < y->id ? -1 : 1;
    return (x->request > y->request) - (x->request < y->request);
}

static struct use *list_uses(const struct requests *r)
{
    struct use *use = xmalloc((size_t)r->n_blocks * sizeof *use);
    int64_t n = 0;
    for (int32_t i = 0; i < r->n; i++) {
        const struct request *q = &r->request[i];
        const int64_t *block = r->block + q->first;
        for (int32_t k = 0; k < q->n_blocks; k++)
            use[n++] = (struct use){
                .id = block[k],
                .before = k > 0 ? block[k - 1] : -1,
                .request = i,
                .tokens = (int32_t)min_i64(REQUEST_BLOCK, q->input - (int64_t)k * REQUEST_BLOCK),
            };
    }
    return use;
}

/* Sorted, the uses of an id stand side by side: each must say what the first says. */
static bool check_trie(const struct requests *r, const char *name, struct err *e)
{
    struct use *use = list_uses(r);
    const struct use *bad = NULL, *good = NULL; /* the earliest line that contradicts an earlier one */
    qsort(use, (size_t)r->n_blocks, sizeof *use, use_compare);
    int64_t first = 0;
    for (int64_t i = 1; i < r->n_blocks; i++) {
        if (use[i].id != use[first].id)
            first = i;
        bool same = use[i].before == use[first].before && use[i].tokens == use[first].tokens;
        if (!same && (!bad || use[i].request < bad->request)) {
            bad = &use[i];
            good = &use[first];
        }
    }
    if (bad && bad->before != good->before)
        err_set(e, "%s:%d: block %lld follows block %lld (expected %lld as on line %d; -1: none)", name,
                r->request[bad->request].line, (long long)bad->id, (long long)bad->before,
                (long long)good->before, r->request[good->request].line);
    else if (bad)
        err_set(e, "%s:%d: block %lld has %d tokens (expected %d as on line %d)", name,
                r->request[bad->request].line, (long long)bad->id, bad->tokens, good->tokens,
                r->request[good->request].line);
    bool whole = bad == NULL;
    free(use);
    return whole;
}

/* ---- the file ------------------------------------------------------------------------------------------ */

static bool is_blank(const char *p, const char *end)
{
    while (p < end && (*p == ' ' || *p == '\t' || *p == '\r'))
        p++;
    return p == end;
}

static bool read_lines(struct requests *r, const char *text, size_t size, const char *name, struct err *e)
{
    const char *end = text + size;
    int64_t cap = 0, block_cap = 0;
    int line = 0;
    for (const char *p = text, *next; p < end; p = next) {
        const char *lf = memchr(p, '\n', (size_t)(end - p)), *stop = lf ? lf : end;
        next = lf ? lf + 1 : end;
        line++;
        if (is_blank(p, stop))
            continue;
        struct json_doc doc;
        if (!json_doc_read(&doc, p, (size_t)(stop - p), name, line, e))
            return false;
        struct request q = {0};
        bool good = read_request(r, &block_cap, &doc, &q, e);
        json_doc_clear(&doc);
        if (!good)
            return false;
        r->request = xgrow(r->request, &cap, r->n + 1, sizeof *r->request);
        r->request[r->n++] = q;
    }
    return r->n > 0 ||
           err_set(e, "%s:%d: no request (expected a JSON object a line)", name, line > 0 ? line : 1);
}

struct requests *mooncake_read(const char *text, size_t size, const char *name, struct err *e)
{
    CK(size <= MOONCAKE_MAX_BYTES);
    struct requests *r = requests_new();
    if (read_lines(r, text, size, name, e) && check_trie(r, name, e))
        return r;
    requests_free(r);
    return NULL;
}

bool mooncake_write(FILE *f, const struct requests *r)
{
    for (int32_t i = 0; i < r->n; i++) {
        const struct request *q = &r->request[i];
        fprintf(f, "{\"timestamp\": %lld, \"input_length\": %lld, \"output_length\": %lld, \"hash_ids\": [",
                (long long)q->arrival, (long long)q->input, (long long)q->output);
        for (int32_t k = 0; k < q->n_blocks; k++)
            fprintf(f, "%s%lld", k > 0 ? ", " : "", (long long)r->block[q->first + k]);
        fprintf(f, "]}\n");
    }
    return !ferror(f);
}

struct trace *trace_open_mooncake(const char *arg, const char *spec, const struct trace_opts *o,
                                  struct err *e)
{
    size_t size;
    char *text = trace_slurp(arg, MOONCAKE_MAX_BYTES, &size, e);
    if (!text)
        return NULL;
    struct requests *r = mooncake_read(text, size, arg, e);
    free(text);
    return r ? replay_requests(r, spec, o, e) : NULL;
}
