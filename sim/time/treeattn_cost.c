/* treeattn_cost.c - bills of plans, their times, and how these grow with the coefficients. */
#include "sim/time/treeattn_cost.h"

#include "sim/time/tiles.h"

#include <math.h>
#include <string.h>

enum {
    NARROW_HEAD = 64,
    WIDE_HEAD = 128,
    /* Thresholds of kernels/cuda/host/tiling.def, where they say what each gained: */
    PAIR_FEW_TOKENS = 1536, /* FEW_TOKENS: pairs that are fewer than SMs have fewer tokens on average */
    TEAMS_TOKENS = 256,     /* FEW_WIDE_STEPS steps of 64: tokens of the longest of few tiles that are shared out */
    MASKED_TOKENS = 64,     /* one step: tiles with a mask are shared out from more tokens on average */
    OTHERS = 4              /* LONGER_BESIDE: times the longest tile, that what runs beside few tiles may take */
};

const struct tile_coefs tile_coefs = {
#define COEF(name, value) .name = value,
#include "sim/time/treeattn_cost.def"
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

/* Of groups with a mask, keeps the one with most tokens. */
static void keep_longest(struct tile_load *x, double seen, double hidden, double runs)
{
    if (seen + hidden > x->longest_seen + x->longest_hidden) {
        x->longest_seen = seen;
        x->longest_hidden = hidden;
        x->longest_runs = runs;
    }
}

static void add_load(struct tile_load *to, const struct tile_load *x, double times)
{
    to->ctas += times * x->ctas;
    to->plain += times * x->plain;
    to->seen += times * x->seen;
    to->hidden += times * x->hidden;
    to->runs += times * x->runs;
    to->longest = max_f64(to->longest, x->longest);
    keep_longest(to, x->longest_seen, x->longest_hidden, x->longest_runs);
}

static const enum tile_kind kind_of[] = {
    [4] = ROWS_16, [5] = ROWS_32, [6] = ROWS_64, [7] = PAIRS}; /* by tile_shift */

struct tile_weight tile_weight(int32_t m)
{
    /* tiles of 64 rows with a mask are shared out to two teams */
    enum tile_kind kind = m == TILE_TEAM_ROWS ? TWO_TEAMS : kind_of[tile_shift(m)];
    const struct tile_kind_coefs *c = &tile_coefs.of[kind];
    return (struct tile_weight){.hidden = c->waiting_hidden / c->waiting, .run = c->waiting_run / c->waiting};
}

static double tiles_of(int64_t rows, int shift)
{
    return (double)((rows + (1 << shift) - 1) >> shift);
}

static void add_plain(struct tile_load *to, int64_t n_tokens, int64_t longest, double tiles)
{
    to->plain += tiles * (double)n_tokens;
    to->longest = max_f64(to->longest, (double)longest);
}

void tile_bill_add(struct tile_bill *b, const struct tile_part *part, int32_t gqa, double times, bool direct,
                   bool paired)
{
    int shift = tile_shift(part->m);
    double tiles = times * tiles_of(part->nq * gqa, shift), tokens = (double)part->n_kv;
    bool alike = kind_of[shift] <= ROWS_64 && paired && part->n_kv >= TILE_PAIR_TOKENS;
    struct tile_load *to = alike ? &b->alike[kind_of[shift]] : &b->of[kind_of[shift]];
    to->ctas += tiles;
    if (part->own > 0) {
        double seen = tokens - (double)part->own;
        double hidden = (double)part->own - (kind_of[shift] == PAIRS ? 0.5 * (double)part->few : 0);
        to->seen += tiles * seen;
        to->hidden += tiles * hidden;
        to->runs += tiles * (double)part->runs;
        keep_longest(to, seen, hidden, (double)part->runs);
    } else {
        add_plain(to, part->n_kv, part->n_kv, tiles);
    }
    b->reads += tiles * tokens;
    b->q += times * (double)part->nq;
    b->slots += direct ? 0 : times * (double)part->nq;
}

static void add_stretch(struct tile_load *to, const struct tile_stretch *s, double tiles)
{
    to->ctas += tiles * (double)s->n;
    add_plain(to, s->tokens, s->longest, tiles);
}

void tile_bill_add_stretches(struct tile_bill *b, const struct tile_stretches *s, int32_t m, int64_t nq,
                             int32_t gqa, double times)
{
    int shift = tile_shift(m);
    enum tile_kind kind = kind_of[shift];
    double tiles = times * tiles_of(nq * gqa, shift);
    double queries = times * (double)nq * (double)(s->alone.n + s->paired.n);
    add_stretch(&b->of[kind], &s->alone, tiles);
    add_stretch(kind <= ROWS_64 ? &b->alike[kind] : &b->of[kind], &s->paired, tiles);
    b->reads += tiles * (double)(s->alone.tokens + s->paired.tokens);
    b->q += queries;
    b->slots += queries;
}

int32_t tile_tall_rows(int32_t m, int tall)
{
    return m < TILE_TEAM_ROWS && m << tall >= TILE_TEAM_ROWS ? TILE_TEAM_ROWS : m;
}

/* The kind whose tiles are taller with this, and not with one less. */
static enum tile_kind tall_kind(int tall)
{
    return tall == 1 ? ROWS_32 : ROWS_16;
}

bool tile_bill_grows(const struct tile_bill *b, int tall)
{
    return tall == 0 || b->of[tall_kind(tall)].ctas + b->alike[tall_kind(tall)].ctas > 0;
}

static void move_load(struct tile_load *to, struct tile_load *from)
{
    add_load(to, from, 1);
    *from = (struct tile_load){.ctas = 0};
}

struct tile_bill tile_bill_tall(const struct tile_bill *b, int tall)
{
    struct tile_bill t = *b;
    for (int i = 1; i <= tall; i++) {
        move_load(&t.of[ROWS_64], &t.of[tall_kind(i)]);
        move_load(&t.alike[ROWS_64], &t.alike[tall_kind(i)]);
    }
    return t;
}

static double longest_of(const struct tile_load *x)
{
    return max_f64(x->longest, x->longest_seen + x->longest_hidden);
}

/* Are tiles of 64 rows that are no pairs shared out to two teams each? */
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

/* Moves the loads to the kinds as which they will run. */
static void settle_kinds(const struct tile_bill *b, double h_kv, double sms,
                         struct tile_load of[N_TILE_KINDS])
{
    const struct tile_load *x = &b->alike[ROWS_64];
    double alike = x->ctas * h_kv;
    bool pairs = alike > sms || (4 * alike > 3 * sms && x->plain < PAIR_FEW_TOKENS * x->ctas);
    memcpy(of, b->of, sizeof b->of);
    for (int k = 0; k < ROWS_64; k++)
        add_load(&of[k], &b->alike[k], 1);
    add_load(&of[pairs ? PAIRS : ROWS_64], x, pairs ? 0.5 : 1);
    if (are_shared_out(of, h_kv, sms)) {
        of[TWO_TEAMS] = of[ROWS_64];
        of[ROWS_64] = (struct tile_load){.ctas = 0};
    }
}

bool tile_bill_is_wave(const struct tile_bill *b, const struct tile_env *env)
{
    struct tile_load of[N_TILE_KINDS];
    settle_kinds(b, env->h_kv, env->sms, of);
    return (of[ROWS_64].ctas + of[PAIRS].ctas + of[TWO_TEAMS].ctas) * env->h_kv <= env->sms;
}

/* What a token takes of an SM in a tile of 16 rows with K and V in 8 bits, as a share of what it takes in 16: measured on an H200 with
 * 4,096 tokens a tile. Taller tiles took as long as in 16 bits. */
static const double leaf_of_fp8 = 0.55;

struct tile_env tile_env_of(const struct plan_env *env)
{
    const struct machine *mc = env->machine, *h200 = machine_find("h200");
    return (struct tile_env){
        .h_kv = env->heads.h_kv,
        .sms = mc->sms,
        .row = (double)env->heads.h_q * env->heads.d * heads_elt_bytes(&env->heads),
        .token = (double)heads_token_bytes(&env->heads),
        .partial = env->heads.h_q * (heads_d_v(&env->heads) + 1) * 4.0,
        .bandwidth = mc->bandwidth,
        .l2_bandwidth = mc->l2_bandwidth,
        .narrow = (WIDE_HEAD - env->heads.d) / (double)NARROW_HEAD,
        .leaf = heads_fp8(&env->heads) ? leaf_of_fp8 : 1,
        .per_sm = h200->tensor_flops / h200->sms / (mc->tensor_flops / mc->sms),
    };
}

/* Coefficients with heads of this size, as shares of those with 128. */
static struct tile_kind_coefs of_head(const struct tile_env *env, const struct tile_kind_coefs *narrow)
{
#define X(_, name, from, least, most, share, about) .name = 1 + (narrow->name - 1) * env->narrow,
    return (struct tile_kind_coefs){TILE_KIND_COEFS(X, )};
#undef X
}

/* Coefficients of a kind with K and V of this type, as shares of those in 16 bits. */
static struct tile_kind_coefs of_type(const struct tile_env *env, int kind)
{
#define X(_, name, from, least, most, share, about) .name = 1,
    struct tile_kind_coefs of = {TILE_KIND_COEFS(X, )};
#undef X
    if (kind == ROWS_16)
        of.token = of.seen = of.hidden = env->leaf;
    return of;
}

static struct tile_kind_coefs with_head(const struct tile_kind_coefs *kind,
                                        const struct tile_kind_coefs *head)
{
#define X(_, name, from, least, most, share, about) .name = kind->name * head->name,
    return (struct tile_kind_coefs){TILE_KIND_COEFS(X, )};
#undef X
}

/* Time of an SM for all CTAs of one KV head, others running beside them. */
static double work_of(const struct tile_load *x, const struct tile_kind_coefs *c)
{
    return x->ctas * c->begin + x->plain * c->token + x->seen * c->seen + x->hidden * c->hidden +
           x->runs * c->run;
}

/* Time of all these CTAs by themselves, one after the other. */
static double wait_of(const struct tile_load *x, const struct tile_kind_coefs *c)
{
    return x->ctas * c->alone + (x->plain + x->seen) * c->waiting + x->hidden * c->waiting_hidden +
           x->runs * c->waiting_run;
}

/* Time for all KV heads on all SMs, over the time of one SM for one head. */
static double on_all_sms(const struct tile_env *env)
{
    return env->per_sm * env->h_kv / env->sms;
}

/* Does a CTA of this kind have an SM to itself? */
static bool has_sm(int kind)
{
    return kind == PAIRS || kind == TWO_TEAMS;
}

/* The parts of a plan's time, in microseconds. */
struct terms {
    struct tile_load of[N_TILE_KINDS];
    double alone[N_TILE_KINDS];   /* of the longest CTA of the kind, by itself */
    bool is_masked[N_TILE_KINDS]; /* has that CTA a mask? */
    int longest;                  /* the kind of the longest CTA of all */
    int longest_turn;             /* and of the longest that has an SM to itself */
    int kernels;
    double idle;                   /* share of the SMs idle in the last wave of CTAs with an SM each; 0 for one wave */
    double memory, l2, sms, turns; /* turns: of those waves, if there are more than one */
    double together;               /* 12-norm of these four and of the longest CTA: a little more than the largest */
    double partial;                /* bytes of partial results */
    double beside;                 /* of the longest CTAs of the other kinds */
};

static double eleventh_power(double x)
{
    double cube = x * x * x;
    return cube * cube * cube * x * x;
}

static double twelfth_power(double x)
{
    return eleventh_power(x) * x;
}

/* ctas: those that have an SM each; all: the time that they take on all SMs together. */
static void find_turns(struct terms *t, double ctas, double all, double sms, double uneven)
{
    double waves = ctas / sms;
    if (waves <= 1)
        return;
    t->idle = ceil(waves) - waves;
    t->turns = all + uneven * t->idle * t->alone[t->longest_turn];
}

static void find_terms(struct terms *t, const struct tile_bill *b, const struct tile_env *env,
                       const struct tile_coefs *c, const struct tile_kind_coefs *head)
{
    double on_all = on_all_sms(env), ctas = 0, all = 0; /* as in find_turns */
    *t = (struct terms){.longest = 0, .longest_turn = PAIRS};
    settle_kinds(b, env->h_kv, env->sms, t->of);
    for (int k = 0; k < N_TILE_KINDS; k++) {
        const struct tile_load *x = &t->of[k];
        if (x->ctas == 0)
            continue;
        struct tile_kind_coefs type = of_type(env, k), kind = with_head(&c->of[k], head);
        kind = with_head(&kind, &type);
        t->sms += on_all * work_of(x, &kind);
        double plain = x->longest * kind.waiting;
        double masked = x->longest_seen * kind.waiting + x->longest_hidden * kind.waiting_hidden +
                        x->longest_runs * kind.waiting_run;
        t->is_masked[k] = masked > plain;
        t->alone[k] = env->per_sm * (kind.alone + max_f64(plain, masked));
        t->longest = t->alone[k] > t->alone[t->longest] ? k : t->longest;
        t->beside += t->alone[k];
        t->kernels++;
        if (has_sm(k)) {
            ctas += env->h_kv * x->ctas;
            all += on_all * wait_of(x, &kind);
            t->longest_turn = t->alone[k] > t->alone[t->longest_turn] ? k : t->longest_turn;
        }
    }
    find_turns(t, ctas, all, env->sms, c->uneven);
    double rest = (b->queries + b->q) * env->row;
    t->partial = b->slots * env->partial;
    t->beside -= t->alone[t->longest];
    t->memory = 1e6 * (b->tokens * env->token + rest + c->of_partial * 2 * t->partial) /
                (c->of_bandwidth * env->bandwidth);
    t->l2 = 1e6 * (b->reads * env->token + rest + 2 * t->partial) / (c->of_l2 * env->l2_bandwidth);
    t->together = pow(twelfth_power(t->memory) + twelfth_power(t->l2) + twelfth_power(t->sms) +
                          twelfth_power(t->turns) + twelfth_power(t->alone[t->longest]),
                      1 / 12.0);
}

static double price_of(const struct terms *t, const struct tile_env *env, const struct tile_coefs *c)
{
    double merge = t->partial > 0 ? c->merge + c->of_merge * 1e6 * t->partial / env->bandwidth : 0;
    return t->kernels * c->kernel + t->together + c->beside * t->beside + merge;
}

double tile_price(const struct tile_bill *b, const struct tile_env *env, const struct tile_coefs *c)
{
    struct tile_kind_coefs head = of_head(env, &c->narrow);
    struct terms t;
    find_terms(&t, b, env, c, &head);
    return price_of(&t, env, c);
}

/* The derivative of `together` by one of its terms. */
static double of_together(const struct terms *t, double term)
{
    return t->together > 0 ? eleventh_power(term / t->together) : 0;
}

double treeattn_cost_slopes(const struct tile_bill *b, const struct tile_env *env, const struct tile_coefs *c,
                         struct tile_coefs *slope)
{
    struct tile_kind_coefs head = of_head(env, &c->narrow);
    struct terms t;
    find_terms(&t, b, env, c, &head);
    *slope = (struct tile_coefs){.kernel = t.kernels, .beside = t.beside};
    if (t.partial > 0) {
        slope->merge = 1;
        slope->of_merge = 1e6 * t.partial / env->bandwidth;
    }
    double memory = of_together(&t, t.memory), turns = of_together(&t, t.turns);
    double on_all = on_all_sms(env);
    slope->uneven = turns * t.idle * t.alone[t.longest_turn];
    slope->of_bandwidth = -memory * t.memory / c->of_bandwidth;
    slope->of_partial = memory * 1e6 * 2 * t.partial / (c->of_bandwidth * env->bandwidth);
    slope->of_l2 = -of_together(&t, t.l2) * t.l2 / c->of_l2;
    for (int k = 0; k < N_TILE_KINDS; k++) {
        const struct tile_load *x = &t.of[k];
        if (x->ctas == 0)
            continue;
        struct tile_kind_coefs type = of_type(env, k);
        struct tile_kind_coefs by = {0}; /* derivatives by the coefficients of this head size and type */
        double sms = of_together(&t, t.sms) * on_all;
        by.begin = sms * x->ctas;
        by.token = sms * x->plain;
        by.seen = sms * x->seen;
        by.hidden = sms * x->hidden;
        by.run = sms * x->runs;
        by.alone = env->per_sm * (k == t.longest ? of_together(&t, t.alone[k]) : c->beside);
        by.alone += env->per_sm * (k == t.longest_turn ? turns * c->uneven * t.idle : 0);
        by.waiting = by.alone * (t.is_masked[k] ? x->longest_seen : x->longest);
        by.waiting_hidden = by.alone * (t.is_masked[k] ? x->longest_hidden : 0);
        by.waiting_run = by.alone * (t.is_masked[k] ? x->longest_runs : 0);
        if (has_sm(k)) {
            double each = turns * on_all;
            by.alone += each * x->ctas;
            by.waiting += each * (x->plain + x->seen);
            by.waiting_hidden += each * x->hidden;
            by.waiting_run += each * x->runs;
        }
#define X(_, name, from, least, most, share, about)                                                          \
    slope->of[k].name = by.name * head.name * type.name;                                                     \
    slope->narrow.name += by.name * c->of[k].name * env->narrow * type.name;
        TILE_KIND_COEFS(X, )
#undef X
    }
    return price_of(&t, env, c);
}
