#include "sim/tile_price.h"

#include "sim/tiles.h"

#include <math.h>
#include <string.h>

enum {
    PAIR_TOKENS = 192,      /* of tiles that are two to a CTA, at least; */
    PAIR_FEW_TOKENS = 1536, /* and fewer than so many, if CTAs are fewer than SMs */
    TEAMS_TOKENS = 256,     /* of the longest of few tiles that are shared out; */
    MASKED_TOKENS = 64,     /* and of those with a mask more than so many on average */
    OTHERS = 4              /* times the longest, that what runs beside few tiles may take */
};

const struct tile_coefs tile_coefs = {
#define COEF(name, value) .name = value,
#include "sim/tile_price.def"
#undef COEF
};

struct tile_coefs tile_coefs_of(const double *value)
{
    struct tile_coefs c;
    memcpy(&c, value, sizeof c);
    return c;
}

/* log2 of the rows of the tile. */
static int tile_shift(int64_t rows)
{
    _Static_assert(TILE_MIN == 1 << 4 && TILE_MAX == 1 << 7, "16 to 128 rows");
    return rows <= 16 ? 4 : rows <= 32 ? 5 : rows <= 64 ? 6 : 7;
}

int32_t tile_rows(int64_t rows)
{
    return 1 << tile_shift(rows);
}

static double larger(double x, double y) /* of numbers: fmax looks for NaN */
{
    return x > y ? x : y;
}

/* Of groups with a mask. */
static void keep_longest(struct tile_load *x, double seen, double hidden)
{
    if (seen + hidden > x->longest_seen + x->longest_hidden) {
        x->longest_seen = seen;
        x->longest_hidden = hidden;
    }
}

static void add_load(struct tile_load *to, const struct tile_load *x, double times)
{
    to->ctas += times * x->ctas;
    to->plain += times * x->plain;
    to->seen += times * x->seen;
    to->hidden += times * x->hidden;
    to->longest = larger(to->longest, x->longest);
    keep_longest(to, x->longest_seen, x->longest_hidden);
}

void tile_bill_add(struct tile_bill *b, const struct tile_part *part, int32_t gqa, double times, bool direct,
                   bool paired)
{
    static const enum tile_kind kind_of[] = {[4] = ROWS_16, [5] = ROWS_32, [6] = ROWS_64, [7] = PAIRS};
    int64_t rows = part->nq * gqa;
    int shift = tile_shift(rows);
    double tiles = times * (double)((rows + (1 << shift) - 1) >> shift), tokens = (double)part->n_kv;
    bool alike = kind_of[shift] == ROWS_64 && paired && part->n_kv >= PAIR_TOKENS;
    struct tile_load *to = alike ? &b->alike : &b->of[kind_of[shift]];
    to->ctas += tiles;
    if (part->own > 0) {
        double seen = tokens - (double)part->own;
        double hidden = (double)part->own - (kind_of[shift] == PAIRS ? 0.5 * (double)part->few : 0);
        to->seen += tiles * seen;
        to->hidden += tiles * hidden;
        keep_longest(to, seen, hidden);
    } else {
        to->plain += tiles * tokens;
        to->longest = larger(to->longest, tokens);
    }
    b->reads += tiles * tokens;
    b->q += times * (double)part->nq;
    b->slots += direct ? 0 : times * (double)part->nq;
}

/* CTAs that have an SM each end in waves; many come out even. */
static double in_waves(double waves, double uneven)
{
    return waves <= 1 || waves >= 4 ? waves : fmin(ceil(waves), uneven * waves);
}

static double longest_of(const struct tile_load *x)
{
    return larger(x->longest, x->longest_seen + x->longest_hidden);
}

/* Are tiles of 64 rows that are no pairs shared out? */
static bool are_shared_out(const struct tile_load of[N_TILE_KINDS], double h_kv, double sms)
{
    const struct tile_load *x = &of[ROWS_64];
    double tokens = x->plain + x->seen + x->hidden, ctas = x->ctas * h_kv, others = 0;
    if (x->seen + x->hidden > 0 && tokens > MASKED_TOKENS * x->ctas)
        return true;
    for (int k = 0; k < N_TILE_KINDS; k++)
        others += k == ROWS_64 ? 0 : (of[k].plain + of[k].seen + of[k].hidden) * h_kv;
    double longest = longest_of(x) * sms;
    return longest_of(x) >= TEAMS_TOKENS &&
           ((4 * ctas <= 3 * sms && OTHERS * longest >= others) || (ctas < sms && longest >= others));
}

/* Each kind as it will run. */
static void settle_kinds(const struct tile_bill *b, double h_kv, double sms,
                         struct tile_load of[N_TILE_KINDS])
{
    double alike = b->alike.ctas * h_kv;
    bool pairs = alike > sms || (4 * alike > 3 * sms && b->alike.plain < PAIR_FEW_TOKENS * b->alike.ctas);
    memcpy(of, b->of, sizeof b->of);
    add_load(&of[pairs ? PAIRS : ROWS_64], &b->alike, pairs ? 0.5 : 1);
    if (are_shared_out(of, h_kv, sms)) {
        of[TWO_TEAMS] = of[ROWS_64];
        of[ROWS_64] = (struct tile_load){.ctas = 0};
    }
}

static double twelfth_power(double x)
{
    double cube = x * x * x;
    return cube * cube * cube * cube;
}

struct tile_env tile_env_of(const struct plan_env *env)
{
    const struct machine *mc = env->machine, *h200 = machine_find("h200");
    return (struct tile_env){
        .h_kv = env->h_kv,
        .sms = mc->sms,
        .row = (double)env->h_q * env->d * env->elt_bytes,
        .token = 2.0 * env->h_kv * env->d * env->elt_bytes,
        .partial = env->h_q * (env->d + 1) * 4.0,
        .bandwidth = mc->bandwidth,
        .l2_bandwidth = mc->l2_bandwidth,
        .per_sm = h200->tensor_flops / h200->sms / (mc->tensor_flops / mc->sms),
    };
}

double tile_price(const struct tile_bill *b, const struct tile_env *env, const struct tile_coefs *c)
{
    struct tile_load of[N_TILE_KINDS];
    settle_kinds(b, env->h_kv, env->sms, of);
    double sms = 0, alone = 0, kernels = 0;
    for (int k = 0; k < N_TILE_KINDS; k++) {
        const struct tile_load *x = &of[k];
        const struct tile_kind_coefs *kind = &c->of[k];
        if (x->ctas == 0)
            continue;
        double waves = x->ctas * env->h_kv / env->sms;
        double us =
            x->ctas * kind->begin + x->plain * kind->token + x->seen * kind->seen + x->hidden * kind->hidden;
        sms += us / x->ctas * (k == PAIRS || k == TWO_TEAMS ? in_waves(waves, c->uneven) : waves);
        double longest = larger(x->longest * kind->waiting,
                                x->longest_seen * kind->waiting + x->longest_hidden * kind->waiting_hidden);
        alone = larger(alone, kind->alone + longest);
        kernels++;
    }
    double rest = (b->queries + b->q) * env->row, partial = 2 * b->slots * env->partial;
    double memory =
        1e6 * (b->tokens * env->token + rest + c->of_partial * partial) / (c->of_bandwidth * env->bandwidth);
    double l2 = 1e6 * (b->reads * env->token + rest + partial) / (c->of_l2 * env->l2_bandwidth);
    /* These overlap, as a norm says: little is added to the longest. */
    double sum = twelfth_power(memory) + twelfth_power(l2) + twelfth_power(env->per_sm * sms) +
                 twelfth_power(env->per_sm * alone);
    return kernels * c->kernel + (b->slots > 0 ? c->merge : 0) + pow(sum, 1 / 12.0);
}
