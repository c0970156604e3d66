#include "verify/judge/judged.h"
#include "verify/judge/properties.h"
#include "verify/sweep/wire.h"

#include <stdlib.h>
#include <string.h>

/* Which strategy a result is of: an entry of the list, or one of these. */
enum { OF_CASE = -1, OF_NONE = -2 };

void judged_free(struct judged *d)
{
    for (int32_t i = 0; i < d->n && d->string && !d->bytes; i++)
        free(d->string[i]);
    free(d->string);
    free(d->result);
    free(d->bytes);
    free(d);
}

/* What is copied as it is, of a result and of the whole. Texts follow, those without an end in their arrays. */
#define OF_RESULT(X)                                                                                         \
    X(verdict)                                                                                               \
    X(stage)                                                                                                 \
    X(end)                                                                                                   \
    X(planned)                                                                                               \
    X(refused)                                                                                               \
    X(ran)                                                                                                   \
    X(by_itself)                                                                                             \
    X(compared)                                                                                              \
    X(ledger)                                                                                                \
    X(n_groups)                                                                                              \
    X(n_launches)                                                                                            \
    X(plan_s)                                                                                                \
    X(run_s)                                                                                                 \
    X(cause.wrong)                                                                                           \
    X(cause.right)
#define OF_WHOLE(X)                                                                                          \
    X(n)                                                                                                     \
    X(heads)                                                                                                 \
    X(names_kernel)                                                                                          \
    X(family)                                                                                                \
    X(census)                                                                                                \
    X(held)                                                                                                  \
    X(tally)                                                                                                 \
    X(line)                                                                                                  \
    X(e)

static void put(FILE *to, const void *from, size_t size)
{
    fwrite(from, 1, size, to);
}

static void put_text(FILE *to, const char *text)
{
    put(to, text, strlen(text) + 1);
}

/* A comparison without its sentence, which comes last. */
static const size_t NUMBERS = offsetof(struct comparison, why);

static void pack_result(const struct result *r, const char *string, const struct judged *d, const struct strategy_use *use,
                        FILE *to)
{
    int32_t law = r->law ? (int32_t)(r->law - properties) : -1,
            of = r->use == &d->own ? OF_CASE : r->use->s ? (int32_t)(r->use - use) : OF_NONE;
#define X(field) put(to, &r->field, sizeof r->field);
    OF_RESULT(X)
#undef X
    put(to, &law, sizeof law);
    put(to, &of, sizeof of);
    put(to, &r->cmp, NUMBERS);
    if (r->cause.wrong > 0 || r->cause.right > 0)
        put(to, &r->cause.set, sizeof r->cause.set);
    put_text(to, r->strategy);
    put_text(to, r->kernel);
    put_text(to, r->tile);
    put_text(to, r->cmp.why);
    put_text(to, r->why);
    put_text(to, r->cause.text);
    put_text(to, string);
}

void judged_pack(const struct judged *d, const struct strategy_use *use, FILE *to)
{
#define X(field) put(to, &d->field, sizeof d->field);
    OF_WHOLE(X)
#undef X
    for (int32_t i = 0; i < d->n; i++)
        pack_result(&d->result[i], d->string[i], d, use, to);
}

static void take_text(struct unpack *u, char *to, size_t size)
{
    snprintf(to, size, "%s", unpack_text(u));
}

/* False: it names what is not there. */
static bool unpack_result(struct unpack *u, struct judged *d, int32_t i, const struct strategy_use *use, int32_t n_use)
{
    static const struct strategy_use none = {.s = NULL};
    struct result *r = &d->result[i];
    int32_t law, of;
#define X(field) unpack(u, &r->field, sizeof r->field);
    OF_RESULT(X)
#undef X
    unpack(u, &law, sizeof law);
    unpack(u, &of, sizeof of);
    unpack(u, &r->cmp, NUMBERS);
    if (r->cause.wrong > 0 || r->cause.right > 0)
        unpack(u, &r->cause.set, sizeof r->cause.set);
    r->strategy = unpack_text(u);
    r->kernel = unpack_text(u);
    take_text(u, r->tile, sizeof r->tile);
    take_text(u, r->cmp.why, sizeof r->cmp.why);
    take_text(u, r->why, sizeof r->why);
    take_text(u, r->cause.text, sizeof r->cause.text);
    d->string[i] = (char *)unpack_text(u);
    if (u->short_of || law >= n_properties || of >= n_use || of < OF_NONE)
        return false;
    r->law = law >= 0 ? &properties[law] : NULL;
    r->use = of >= 0 ? &use[of] : of == OF_NONE ? &none : &d->own;
    struct case_spec c = {0};
    if (of == OF_CASE && !d->own.s && case_parse(d->string[i], &c, NULL)) {
        d->own = c.use;
        case_clear(&c);
    }
    return true;
}

struct judged *judged_unpack(const char *bytes, size_t size, const struct strategy_use *use, int32_t n_use)
{
    struct judged *d = xcalloc(1, sizeof *d);
    d->bytes = xmalloc(size);
    memcpy(d->bytes, bytes, size);
    struct unpack u = {.at = d->bytes, .end = d->bytes + size};
#define X(field) unpack(&u, &d->field, sizeof d->field);
    OF_WHOLE(X)
#undef X
    bool good = !u.short_of && d->n >= 0 && d->n <= (int64_t)size;
    d->n = good ? d->n : 0;
    d->result = xcalloc((size_t)d->n, sizeof *d->result);
    d->string = xcalloc((size_t)d->n, sizeof *d->string);
    for (int32_t i = 0; i < d->n && good; i++)
        good = unpack_result(&u, d, i, use, n_use);
    if (good && u.at == u.end)
        return d;
    judged_free(d);
    return NULL;
}
