/*
 * decode.h - a whole decode step around tree attention: a decoder holds a model's weights and the paged KV pool of all
 * its layers, and runs steps.
 *
 * Two types, one interface: `cpu` computes in plain C with any kernel that runs on the host, for small models and for
 * checks; `cuda` is the one that is timed. Who plans, and who owns pages, is the caller: a step is given the tree, the
 * page table, the plan, and the slot that each query's own K and V go to.
 *
 *   x = embedding[token]
 *   each layer   h = norm(x); q, k, v = Wqkv h; (norm of heads of q and k;) rotate by position; k, v to their slots;
 *                attention by the plan; x += Wo o; h = norm(x); x += Wdown (silu(Wgate h) * Wup h)
 *   logits = Whead norm(x)
 *
 * Rotation: element i < d / 2 of a head turns with element i + d / 2 by position * theta^(-2 i / d) (Su et al., RoFormer,
 * in the pairing of the released weights).
 */
#ifndef TREEATTN_KERNELS_DECODE_DECODE_H
#define TREEATTN_KERNELS_DECODE_DECODE_H

#include "kernels/kernel.h"
#include "ref/model.h"
#include "sim/cards.h"

#ifdef __cplusplus
extern "C" {
#endif

struct cards_link; /* kernels/decode/link.h */

struct decoder_spec {
    const struct model *model;
    enum dtype dtype; /* of weights, activations and KV; cuda: bf16 or f16 */
    int32_t page_size;
    int64_t n_pages;             /* in the pool; a page holds page_size tokens' K and V of every layer */
    int32_t max_queries;         /* of a step */
    uint64_t seed;               /* of weights and of decoder_fill */
    const struct kernel *kernel; /* cpu: what runs the plans; NULL: the first of the registry */
    int32_t arch;                /* cuda: as in cuda_options */
    bool graph;                  /* cuda: a step's kernels as one CUDA graph: pays where the host is ahead */
    /* Over 1: the step is spread over so many cards of one host, GPUs or, of type cpu, shares of host memory. Every way splits O,
     * MLP and head by Megatron-LM's rule; n_pages and all that a caller sees are of the whole. decode_cards.c */
    int32_t n_cards;
    enum parallel parallel;
    /* Only card `rank` of them is there: steps take the time of its part, without what cards tell each other. Their results are of
     * no use. */
    bool alone;
    int32_t rank;
    /* Set by decode_cards.c, for the decoder of one card; n_pages is that card's. */
    bool card;
    struct cards_link *link; /* NULL: it is alone */
};

/* Such cards by name, in out: "h200", "2 x h200, tensor", "card 1 of 2 x h200, tensor". Returns out. */
enum { DECODER_CARDS_NAME = 128 };
char *decoder_cards_name(const struct decoder_spec *s, const char *card, char out[DECODER_CARDS_NAME]);

/* What a decoder has of the model: all of it, or a card's part. Heads that it computes attention for; and those, of the model's
 * query heads, whose O it multiplies by its columns of W_O. */
struct heads_part decoder_heads(const struct decoder_spec *s);
struct heads_part decoder_outputs(const struct decoder_spec *s);
static inline int32_t decoder_cards(const struct decoder_spec *s)
{
    return s->n_cards > 1 ? s->n_cards : 1;
}
/* Its share of what is dealt out evenly: columns of the MLP, words of the head. */
static inline int32_t decoder_share(const struct decoder_spec *s, int32_t of)
{
    return s->card ? of / s->n_cards : of;
}
/* The same of a weight: stretches of its rows, one behind the other, and of each row the columns from col on. */
struct weight_part {
    struct weight_spec whole;
    int64_t rows, cols, col;
    int32_t n;
    int64_t row0[3], n_rows[3]; /* [n] of the whole */
};
struct weight_part decoder_weight(const struct decoder_spec *s, enum weight w);

/* Elements of K, and of V, in the pool of one layer. */
static inline int64_t decoder_layer_elements(const struct decoder_spec *s)
{
    return s->n_pages * s->page_size * decoder_heads(s).n_kv * s->model->d;
}

/* Bytes of weights, of the pool, of the rest (activations, logits): what an open decoder takes. Partial results come on
 * top, as the plans want them. */
struct decoder_bytes {
    int64_t weights, pool, rest;
};
struct decoder_bytes decoder_bytes(const struct decoder_spec *s);

struct decode_step {
    /* Tree, heads, d, dtype, scale, page size, n_pages, page_off and page_table of this step; q, k, v are not looked
     * at. Queries are numbered as the tree numbers them: n = p->tree->n_queries of them. */
    const struct problem *p;
    const struct plan *plan; /* NULL: no attention (its output is taken to be Q): the upper bound */
    /* On several cards: plans of what decoder_card_problems gave for this p, used where `plan` is not NULL. */
    const struct plan *const *card_plan;
    const int32_t *token;    /* [n] 0 .. vocab - 1 */
    const int32_t *position; /* [n] along the path, from 0 */
    const int64_t
        *slot;  /* [n] where the query's own K and V go before attention, 0 .. n_pages * page_size - 1 */
    bool parts; /* time the parts of the step: some events more on the device */
    bool keep;  /* keep Q, O and LSE of every layer for decoder_kept; cuda: memory for it at first use */
};

/* Seconds. The first are of the device between its events (cpu: of the host). */
struct decode_time {
    double whole_s;     /* first kernel of the step to its last */
    double attention_s; /* all layers, merge included; 0 unless asked for in parts */
    double idle_s; /* from the end of the step before to `whole`, less moves: uploads, waiting for the host */
    double
        move_s; /* decoder_move and decoder_copy since the step before, slot numbers to the device included */
    double layout_s;  /* host: the plan to arrays */
    double enqueue_s; /* host: everything else in decoder_step */
    int64_t upload_bytes;
};

struct decoder {
    const struct decoder_type *type;
    struct decoder_spec spec;
    int32_t n; /* queries of the last step */
    int32_t under_way;
};

/* What a type of decoder can do; callers use the functions below. */
struct decoder_type {
    const char *name, *about;
    bool (*ready)(struct err *e); /* NULL: always */
    /* Whether a step with this plan can be run; if not, a sentence in why[256]. */
    bool (*supports)(const struct decoder *d, const struct problem *p, const struct plan *plan, char *why);
    struct decoder *(*open)(const struct decoder_spec *s, struct err *e);
    void (*close)(struct decoder *d);
    bool (*step)(struct decoder *d, const struct decode_step *s, struct err *e);
    bool (*finish)(struct decoder *d, struct err *e); /* NULL: a step has run when step() returns */
    bool (*wait)(struct decoder *d, struct decode_time *t, struct err *e);
    bool (*move)(struct decoder *d, int64_t n, const int64_t *from, const int64_t *to, struct err *e);
    bool (*copy)(struct decoder *d, int64_t n, const int64_t *from, const int64_t *to, struct err *e);
    bool (*fill)(struct decoder *d, int64_t first, int64_t n, struct err *e);
    bool (*logits)(struct decoder *d, double *out, int64_t n, struct err *e);
    bool (*kept)(struct decoder *d, int32_t layer, int64_t n, void *q, void *o, double *lse, struct err *e);
    bool (*kv)(struct decoder *d, int32_t layer, int64_t first, int64_t n, void *k, void *v, struct err *e);
    /* The other way round: K and V of a slot, [h_kv][d]. */
    bool (*put)(struct decoder *d, int32_t layer, int64_t slot, const void *k, const void *v, struct err *e);
    /* Of a card, by the thread that then does all for it, before open and after close. NULL: nothing to do. */
    bool (*join)(struct cards_link *link, int32_t rank, struct err *e);
    void (*leave)(struct cards_link *link, int32_t rank);
};
extern const struct decoder_type decoder_cpu, decoder_cuda;
extern const struct decoder_type *const decoder_types[]; /* cpu, cuda; NULL-terminated */
const struct decoder_type *decoder_type_find(const char *name, struct err *e);

/* For steps on several GPUs, before any call of CUDA: kernels are loaded when a GPU is opened, and not at their first launch. Loading waits
 * for a GPU, and that for another, whose thread may wait for the loader. What the environment says is left as it is. */
void decoder_several_gpus(void);

/* NULL with *e set: something missing (a GPU, cuBLAS, memory: "needs X GiB, Y free"), or a spec that the type does not
 * take (dtype, heads). K and V of the pool hold NaN until written. */
struct decoder *decoder_open(const struct decoder_type *type, const struct decoder_spec *s, struct err *e);
void decoder_close(struct decoder *d);

/* What cards plan of the step p that comes next: out[i] is problem i, without Q, K and V, until the next call; pages that are new
 * get a card. Returns how many: one for each card that is there, or 1, where all have the same plan; 0: there is one card. */
int32_t decoder_card_problems(struct decoder *d, const struct problem *p,
                              const struct problem *out[CARDS_MOST]);

/* Enqueue a step. It returns before the device has run it, so that the host can plan the next one meanwhile; everything
 * the step points to may be changed or freed on return. At most DECODE_AHEAD steps may be under way (CK). */
enum { DECODE_AHEAD = 3 };
bool decoder_step(struct decoder *d, const struct decode_step *s, struct err *e);
/* Wait until all steps under way have run. How long they took decoder_wait says later, which takes time itself. */
bool decoder_finish(struct decoder *d, struct err *e);
/* Wait for the oldest step under way and say how long it took; t may be NULL. CK: there is one. */
bool decoder_wait(struct decoder *d, struct decode_time *t, struct err *e);

/* In every layer, K and V of slot to[i] become those of slot from[i], as if all were read before any is written: tokens
 * accepted in speculative decoding. Enqueued behind the steps under way. */
bool decoder_move(struct decoder *d, int64_t n, const int64_t *from, const int64_t *to, struct err *e);
/* The same where no slot is in both from and to: nothing is held between reading and writing. */
bool decoder_copy(struct decoder *d, int64_t n, const int64_t *from, const int64_t *to, struct err *e);
/* Slots first .. first + n of every layer get random K and V (bell-shaped, variance 1, by seed, layer and slot): the
 * stand-in for a prefill that nobody needs the values of. */
bool decoder_fill(struct decoder *d, int64_t first, int64_t n, struct err *e);

/* Of the last step, which must have been waited for: */
bool decoder_logits(struct decoder *d, double *out /* [n][vocab] */, struct err *e);
/* What attention of a layer was given and gave; the step was asked to keep it. q, o: [n][h_q][d] of the dtype, lse:
 * [n][h_q] natural log; o and lse are undefined after a step without attention. */
bool decoder_kept(struct decoder *d, int32_t layer, void *q, void *o, double *lse, struct err *e);
/* K and V of a layer as they are now, slots first .. first + n, [n][h_kv][d] of the dtype. */
bool decoder_kv(struct decoder *d, int32_t layer, int64_t first, int64_t n, void *k, void *v, struct err *e);

#ifdef __cplusplus
}
#endif

#endif
