/*
 * mooncake.c - request traces in the format of Mooncake's release (FAST 2025): a line each {"timestamp": ms,
 * "input_length": tokens, "output_length": tokens, "hash_ids": [...]}.
 *
 * hash_ids has an id per block of 512 prompt tokens. Traces of other services in this format have other blocks, and timestamps
 * in seconds with fractions. The last block is partial unless the length is a multiple. An id stands for a block together with all
 * before it, so equal ids mean equal prefixes. So an id must have the same predecessor and the same number of tokens wherever it
 * occurs, and the lists form a trie.
 * Timestamps never decrease. Blank lines are passed over.
 */
#include "traces/formats/mooncake.h"

#include "traces/formats/json.h"
#include "traces/formats/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- one line ------------------------------------------------------------------------------------------ */

/* What is being read. */
struct reading {
    struct requests *r;
    int64_t cap, block_cap;
    enum time_unit unit;
};

/* The smallest power of two that is the size of n blocks of so many tokens; 0 if none is, or any. */
static int64_t block_of(int64_t tokens, int64_t n)
{
    for (int64_t block = 1; n > 1 && block <= MOONCAKE_MAX_BLOCK; block *= 2)
        if (ceil_div(tokens, block) == n)
            return block;
    return 0;
}

/* How to say what the line at hand seems to be; "" if nothing is known. */
static const char *advice(const struct reading *x, json_t *line, char text[96])
{
    int64_t tokens = json_integer_value(json_object_get(line, "input_length"));
    int64_t n = (int64_t)json_array_size(json_object_get(line, "hash_ids"));
    bool fits = tokens < 1 || ceil_div(tokens, x->r->block_tokens) == n;
    int64_t block = fits ? 0 : block_of(tokens, n);
    bool seconds = x->unit == WHOLE_MS && json_is_real(json_object_get(line, "timestamp"));
    char size[32] = "";
    if (block > 0)
        snprintf(size, sizeof size, ",block=%lld", (long long)block);
    text[0] = '\0';
    if (block > 0 || seconds)
        snprintf(text, 96, "; or is this mooncake:FILE%s%s?", size,
                 seconds || x->unit == SECONDS ? ",unit=s"
                 : x->unit == ANY_MS           ? ",unit=ms"
                                               : "");
    return text;
}

static bool read_blocks(struct reading *x, json_t *list, struct request *q, const struct json_at *at,
                        struct err *e)
{
    struct requests *r = x->r;
    char how[96];
    int64_t want = ceil_div(q->input, r->block_tokens);
    if ((int64_t)json_array_size(list) != want)
        return json_err(at, e, "%zu ids in \"hash_ids\" (expected %lld, one per %lld tokens of the prompt%s)",
                        json_array_size(list), (long long)want, (long long)r->block_tokens,
                        advice(x, at->doc->root, how));
    q->first = r->n_blocks;
    q->n_blocks = (int32_t)want;
    r->block = xgrow(r->block, &x->block_cap, r->n_blocks + want, sizeof *r->block);
    for (int64_t i = 0; i < want; i++) {
        char what[48];
        snprintf(what, sizeof what, "entry %lld of \"hash_ids\"", (long long)i);
        if (!json_int(json_array_get(list, (size_t)i), 0, INT64_MAX, &r->block[r->n_blocks], at, what, e))
            return false;
        r->n_blocks++;
    }
    return true;
}

static bool read_arrival(const struct reading *x, const struct json_at *at, int64_t *ms, struct err *e)
{
    char how[96];
    json_t *value = json_object_get(at->doc->root, "timestamp");
    if (x->unit != WHOLE_MS && json_is_number(value)) {
        double t = json_number_value(value) * (x->unit == SECONDS ? 1000 : 1);
        *ms = t >= 0 && t <= (double)TREE_MAX_TOKENS ? llround(t) : -1;
        return *ms >= 0 ||
               json_err(at, e, "\"timestamp\" is %g ms (expected 0 to %lld)", t, (long long)TREE_MAX_TOKENS);
    }
    if (json_is_real(value))
        return json_err(at, e,
                        "\"timestamp\" is a real number (expected whole milliseconds, or the unit by unit=ms "
                        "or unit=s%s)",
                        advice(x, at->doc->root, how));
    return json_member_int(at->doc->root, "timestamp", 0, TREE_MAX_TOKENS, ms, at, e);
}

static bool read_request(struct reading *x, const struct json_doc *doc, struct request *q, struct err *e)
{
    struct requests *r = x->r;
    const struct json_at at = {.doc = doc, .label = ""};
    if (!json_is_object(doc->root))
        return json_err(&at, e, "the line holds %s (expected an object with timestamp, lengths and hash_ids)",
                        json_type_name(doc->root));
    int64_t before = r->n > 0 ? r->request[r->n - 1].arrival : 0;
    q->line = doc->first_line;
    if (!read_arrival(x, &at, &q->arrival, e) ||
        !json_member_int(doc->root, "input_length", 1, TREE_MAX_TOKENS, &q->input, &at, e) ||
        !json_member_int(doc->root, "output_length", 1, MOONCAKE_MAX_OUTPUT, &q->output, &at, e))
        return false;
    if (q->arrival < before)
        return json_err(&at, e, "timestamp %lld after %lld (expected order of arrival)",
                        (long long)q->arrival, (long long)before);
    if (!json_object_get(doc->root, "hash_ids"))
        return json_err(
            &at, e,
            "\"hash_ids\" is missing (expected an id per block of the prompt: lengths alone do not say which "
            "prompts begin alike; requests:N,SEED draws some)");
    json_t *list = json_member(doc->root, "hash_ids", JSON_ARRAY, &at, e);
    return list && read_blocks(x, list, q, &at, e);
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
                .tokens = (int32_t)min_i64(r->block_tokens, q->input - k * r->block_tokens),
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

/* What stands in place of an object is some other file. */
static bool begins_well(const struct reading *x, const char *p, const char *stop, const char *name, int line,
                        struct err *e)
{
    char quote[TEXT_QUOTE];
    while (p < stop && (*p == ' ' || *p == '\t'))
        p++;
    if (*p == '[')
        return err_set(
            e, "%s:%d: the line holds an array (expected an object a line, as jq -c '.[]' makes of one)",
            name, line);
    if (*p == '{' || x->r->n > 0)
        return true;
    return err_set(
        e,
        "%s:%d: \"%s\" (expected a line of JSON with timestamp, input_length, output_length and hash_ids: a "
        "table of lengths does not say which prompts begin alike; requests:N,SEED draws some)",
        name, line, word_quote(quote, (struct word){p, (size_t)(stop - p)}));
}

static bool read_lines(struct reading *x, const char *text, size_t size, const char *name, struct err *e)
{
    const char *end = text + size;
    struct requests *r = x->r;
    int line = 0;
    for (const char *p = text, *next; p < end; p = next) {
        const char *lf = memchr(p, '\n', (size_t)(end - p)), *stop = lf ? lf : end;
        next = lf ? lf + 1 : end;
        line++;
        if (is_blank(p, stop))
            continue;
        struct json_doc doc;
        if (!begins_well(x, p, stop, name, line, e) ||
            !json_doc_read(&doc, p, (size_t)(stop - p), name, line, e))
            return false;
        struct request q = {0};
        bool good = read_request(x, &doc, &q, e);
        json_doc_clear(&doc);
        if (!good)
            return false;
        r->request = xgrow(r->request, &x->cap, r->n + 1, sizeof *r->request);
        r->request[r->n++] = q;
    }
    return r->n > 0 ||
           err_set(e, "%s:%d: no request (expected a JSON object a line)", name, line > 0 ? line : 1);
}

struct requests *mooncake_read(const char *text, size_t size, const char *name,
                               const struct mooncake_form *form, struct err *e)
{
    CK(size <= MOONCAKE_MAX_BYTES);
    struct requests *r = requests_new();
    struct reading x = {.r = r, .unit = form ? form->timestamp : WHOLE_MS};
    r->block_tokens = form ? form->block : REQUEST_BLOCK;
    if (read_lines(&x, text, size, name, e) && check_trie(r, name, e))
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

/* FILE,block=B,unit=U to FILE, and its options to *form. */
static bool cut_options(char *file, struct mooncake_form *form, struct err *e)
{
    char *last, *equals;
    while ((last = strrchr(file, ',')) && (equals = strchr(last, '=')) && !strchr(last, '/')) {
        struct word key = {last + 1, (size_t)(equals - last - 1)}, value = {equals + 1, strlen(equals + 1)};
        bool block = key.n == 5 && memcmp(key.p, "block", 5) == 0,
             unit = key.n == 4 && memcmp(key.p, "unit", 4) == 0;
        bool ms = strcmp(value.p, "ms") == 0, good = ms || strcmp(value.p, "s") == 0;
        if (block)
            good = word_int(value, 1, MOONCAKE_MAX_BLOCK, &form->block);
        if ((!block && !unit) || !good)
            return err_set(e, "mooncake: '%.60s' (expected FILE, block=B from 1 to %d, unit=ms or unit=s)",
                           last + 1, MOONCAKE_MAX_BLOCK);
        if (unit)
            form->timestamp = ms ? ANY_MS : SECONDS;
        *last = '\0';
    }
    return true;
}

struct trace *trace_open_mooncake(const char *arg, const char *spec, const struct trace_opts *o,
                                  struct err *e)
{
    struct mooncake_form form = {.block = REQUEST_BLOCK};
    char *file = xstrdup(arg), *text = NULL;
    size_t size;
    struct requests *r = NULL;
    if (cut_options(file, &form, e) && (text = trace_slurp(file, MOONCAKE_MAX_BYTES, &size, e)))
        r = mooncake_read(text, size, file, &form, e);
    free(text);
    free(file);
    return r ? replay_requests(r, spec, o, e) : NULL;
}
