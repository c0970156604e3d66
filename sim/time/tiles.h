/*
 * tiles.h - which tile shapes a machine runs well, and which of them a pack gets (PAT section 5.2).
 *
 * A tile is m query rows x n KV tokens of head dimension d. Both are powers of two from 16 on (constraint 3,
 * what tensor-core instructions take); we look no further than 128.
 */
#ifndef TREEATTN_SIM_TIME_TILES_H
#define TREEATTN_SIM_TIME_TILES_H

#include "sim/time/machine.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { TILE_MIN = 16, TILE_MAX = 128, TILES_MAX = 16, TILE_THREADS = 128 };
enum { TILE_SMEM_RESERVED = 1024 }; /* bytes that every resident CTA costs besides its own: the guide */

struct tile {
    int32_t m, n;
};

/* The first constraint that a tile breaks, numbered as in PAT figure 7b but for registers, which are part
 * of 1. */
enum tile_fault {
    TILE_FITS,
    TILE_SMEM,      /* constraint 1: shared memory of a CTA */
    TILE_REGISTERS, /* constraint 1: registers of a thread, or not one CTA's registers on an SM */
    TILE_BANDWIDTH, /* constraint 2: too few bytes in flight to hide the latency of global memory */
    TILE_SHAPE,     /* constraint 3: not powers of two from 16 on */
    N_TILE_FAULTS
};
extern const char *const tile_fault_name[N_TILE_FAULTS];

/* Bytes of shared memory that a CTA of tile t asks for: Q, one tile of K or V, and fp32 intermediates. */
int64_t tile_smem(struct tile t, int32_t d, int32_t elt_bytes);
/* Threads of a CTA and registers of a thread: reported by a compiler (tile_regs.def), else estimated (tiles.c). */
struct tile_code {
    int32_t threads, registers;
    const char *source; /* of the report, or "estimated" */
};
struct tile_code tile_code(struct tile t, int32_t d, int32_t elt_bytes);
/* What bounds the number of CTAs on an SM. */
enum tile_bound { BOUND_SMEM, BOUND_REGISTERS, BOUND_THREADS, BOUND_CTAS, N_TILE_BOUNDS };
extern const char *const tile_bound_name[N_TILE_BOUNDS];
/* How many CTAs with this code and that much shared memory an SM holds at a time; 0: not even one. *bound
 * (may be NULL) gets what bounds them. */
int64_t tile_fit(const struct machine *mc, const struct tile_code *code, int64_t smem,
                 enum tile_bound *bound);
/* The same with tile_smem() and tile_code(). */
int64_t tile_resident(const struct machine *mc, struct tile t, int32_t d, int32_t elt_bytes);
/* Bytes of K or V in flight on the whole machine, and how many its latency times its bandwidth asks for. */
double tile_in_flight(const struct machine *mc, struct tile t, int32_t d, int32_t elt_bytes);
double tile_in_flight_least(const struct machine *mc);
enum tile_fault tile_check(const struct machine *mc, struct tile t, int32_t d, int32_t elt_bytes);

/* The tiles that keep all constraints, by m and then n ascending, into out[TILES_MAX]; returns how many. */
int32_t tiles_feasible(const struct machine *mc, int32_t d, int32_t elt_bytes, struct tile *out);

struct tile_set {
    struct tile tile[TILES_MAX];
    int32_t n;
    const char *note; /* NULL, or which constraint had to be dropped for want of any feasible tile */
};
/* As tiles_feasible, but never empty: drops the bandwidth constraint, then all but the shape (one tile, 16 x
 * 16). */
struct tile_set tiles_for(const struct machine *mc, int32_t d, int32_t elt_bytes);

/* A tile of the set for `rows` query rows over n_kv tokens. Rows: the smallest m that holds them all, else
 * the largest m. Tokens: the largest n that a context of this length does not pad much more than the smallest
 * n. */
struct tile tiles_select(const struct tile_set *set, int64_t rows, int64_t n_kv);

#ifdef __cplusplus
}
#endif

#endif
