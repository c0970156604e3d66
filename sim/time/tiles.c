/*
 * tiles.c - tile constraints and tile selector of PAT section 5.2.
 *
 * DEVIATION: the paper reads registers off a compiler's report. Without one (tile_regs.def) those of a thread
 *            are estimated: its share of the fp32 accumulators of O (m x d) and S (m x n) over TILE_THREADS
 *            threads, and OTHER_REGISTERS for addresses, fragments, maxima and sums.
 * DEVIATION: the paper compares shared memory with that of an SM. A CTA can address a little less (its
 *            table 1 says 163 KB for A100); that is what is compared here.
 * DEVIATION: the paper profiles each n over KV lengths and encodes the outcome as a decision tree that it
 *            does not print. Here a larger n is taken as long as the bubble of its last tile costs at most
 *            an eighth of the tokens that the smallest n runs. 192 tokens get n = 64, the paper's example;
 *            1024 and more get 128.
 */
#include "sim/time/tiles.h"

enum {
    MAX_THREAD_REGISTERS = 255, /* PAT section 5.2, table 1 */
    OTHER_REGISTERS = 40,       /* ours */
    BUBBLE_SHARE = 8            /* ours: one eighth */
};

int64_t tile_smem(struct tile t, int32_t d, int32_t elt_bytes)
{
    return (int64_t)d * ((int64_t)t.m * elt_bytes + (int64_t)t.n * elt_bytes + (int64_t)t.m * 4);
}

const char *const tile_bound_name[N_TILE_BOUNDS] = {"shared memory", "registers", "threads", "CTAs"};
const char *const tile_fault_name[N_TILE_FAULTS] = {"fits", "shared memory", "registers", "bytes in flight",
                                                    "power of two"};

struct tile_code tile_code(struct tile t, int32_t d, int32_t elt_bytes)
{
    static const struct {
        struct tile t;
        int32_t d, elt_bytes;
        struct tile_code code;
    } reported[] = {
#define TILE_REGS(m, n, d, elt, threads, registers, source) {{m, n}, d, elt, {threads, registers, source}},
#include "sim/time/tile_regs.def"
#undef TILE_REGS
        {.d = 0}};
    for (int32_t i = 0; reported[i].d; i++)
        if (reported[i].t.m == t.m && reported[i].t.n == t.n && reported[i].d == d &&
            reported[i].elt_bytes == elt_bytes)
            return reported[i].code;
    int64_t accumulators = ceil_div((int64_t)t.m * (d + t.n), TILE_THREADS);
    return (struct tile_code){TILE_THREADS, (int32_t)(accumulators + OTHER_REGISTERS), "estimated"};
}

int64_t tile_fit(const struct machine *mc, const struct tile_code *code, int64_t smem, enum tile_bound *bound)
{
    const int64_t most[N_TILE_BOUNDS] = {
        [BOUND_SMEM] = mc->smem_per_sm / (smem + TILE_SMEM_RESERVED),
        [BOUND_REGISTERS] = mc->regs_per_sm / ((int64_t)code->registers * code->threads),
        [BOUND_THREADS] = mc->threads_per_sm / code->threads,
        [BOUND_CTAS] = mc->ctas_per_sm,
    };
    int least = 0;
    for (int i = 1; i < N_TILE_BOUNDS; i++)
        if (most[i] < most[least])
            least = i;
    if (bound)
        *bound = (enum tile_bound)least;
    return most[least];
}

int64_t tile_resident(const struct machine *mc, struct tile t, int32_t d, int32_t elt_bytes)
{
    struct tile_code code = tile_code(t, d, elt_bytes);
    int64_t smem = tile_smem(t, d, elt_bytes);
    return smem > mc->smem_per_cta ? 0 : tile_fit(mc, &code, smem, NULL);
}

double tile_in_flight(const struct machine *mc, struct tile t, int32_t d, int32_t elt_bytes)
{
    return (double)mc->sms * (double)tile_resident(mc, t, d, elt_bytes) * t.n * d * elt_bytes;
}

double tile_in_flight_least(const struct machine *mc)
{
    return mc->latency_ns * 1e-9 * mc->bandwidth;
}

static bool tile_side(int32_t x)
{
    return x >= TILE_MIN && (x & (x - 1)) == 0;
}

enum tile_fault tile_check(const struct machine *mc, struct tile t, int32_t d, int32_t elt_bytes)
{
    if (!tile_side(t.m) || !tile_side(t.n))
        return TILE_SHAPE;
    if (tile_smem(t, d, elt_bytes) > mc->smem_per_cta)
        return TILE_SMEM;
    if (tile_code(t, d, elt_bytes).registers > MAX_THREAD_REGISTERS ||
        tile_resident(mc, t, d, elt_bytes) == 0)
        return TILE_REGISTERS;
    /* n >= ceil(L B / (S C h b)) says the same of whole tokens */
    return tile_in_flight(mc, t, d, elt_bytes) < tile_in_flight_least(mc) ? TILE_BANDWIDTH : TILE_FITS;
}

/* The tiles without a fault, and those whose first fault is `forgiven`. */
static int32_t collect(const struct machine *mc, int32_t d, int32_t elt_bytes, enum tile_fault forgiven,
                       struct tile *out)
{
    int32_t n = 0;
    for (int32_t m = TILE_MIN; m <= TILE_MAX; m *= 2)
        for (int32_t k = TILE_MIN; k <= TILE_MAX; k *= 2) {
            enum tile_fault fault = tile_check(mc, (struct tile){m, k}, d, elt_bytes);
            if (fault == TILE_FITS || fault == forgiven)
                out[n++] = (struct tile){m, k};
        }
    return n;
}

int32_t tiles_feasible(const struct machine *mc, int32_t d, int32_t elt_bytes, struct tile *out)
{
    return collect(mc, d, elt_bytes, TILE_FITS, out);
}

struct tile_set tiles_for(const struct machine *mc, int32_t d, int32_t elt_bytes)
{
    struct tile_set set = {.n = 0};
    set.n = tiles_feasible(mc, d, elt_bytes, set.tile);
    if (set.n > 0)
        return set;
    set.note = "no tile keeps enough bytes in flight, so that constraint is dropped";
    set.n = collect(mc, d, elt_bytes, TILE_BANDWIDTH, set.tile);
    if (set.n > 0)
        return set;
    set.note = "no tile fits the machine, so 16x16 is taken";
    set.tile[0] = (struct tile){TILE_MIN, TILE_MIN};
    set.n = 1;
    return set;
}

/* Tokens that tiles of n, a power of two, run for a context of n_kv. */
static int64_t padded(int64_t n_kv, int32_t n)
{
    return (n_kv + n - 1) & -(int64_t)n;
}

struct tile tiles_select(const struct tile_set *set, int64_t rows, int64_t n_kv)
{
    CK(set->n > 0);
    int32_t i = 0; /* first tile of the smallest m that holds the rows, or of the largest m */
    for (int32_t k = 1; k < set->n && set->tile[i].m < rows; k++)
        if (set->tile[k].m > set->tile[i].m)
            i = k;
    struct tile best = set->tile[i];
    int64_t least = padded(n_kv, best.n);
    for (i++; i < set->n && set->tile[i].m == best.m; i++)
        if ((padded(n_kv, set->tile[i].n) - least) * BUBBLE_SHARE <= least)
            best.n = set->tile[i].n;
    return best;
}
