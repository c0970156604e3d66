/*
 * cta.h - a CTA without a GPU: its threads run one after the other, in an order that is drawn at each barrier, each to the next
 * barrier. Every access to memory is looked at: where two threads meet at an element without a barrier between, it is found in any
 * order. Linked into treeattn-lab-host; the judge reads what it says.
 */
#ifndef TREEATTN_VERIFY_LAB_TILE_CTA_H
#define TREEATTN_VERIFY_LAB_TILE_CTA_H

#include "ref/base.h"

BEGIN_C

enum { CTA_SHARED_BYTES = 48 << 10, CTA_THREADS = 64 /* at most */, CTA_NAME = 40, CTA_STACK = 256 << 10 };

/* The first thing that no CTA may do ends the run. */
enum cta_fault {
    CTA_GOOD,
    CTA_RACE,             /* thread reads what other writes, at line and other_line */
    CTA_TWO_WRITE,        /* two threads write an element of shared memory */
    CTA_UNSET,            /* reads shared memory that nobody wrote */
    CTA_BOUNDS,           /* an index below 0, or not below size; of shared memory, or of other arrays */
    CTA_ENDED,            /* other waits at other_line, and thread has ended */
    CTA_APART,            /* thread waits at line, other at other_line */
    CTA_TOO_MUCH,         /* size: bytes of shared memory with that array */
    CTA_TWO_SIZES,        /* of one array: index and size elements */
    CTA_OUTPUT_TWICE,     /* an output is written twice, by thread and other */
    CTA_OUTPUT_OF_OTHERS, /* row of another CTA */
    CTA_STATIC,           /* a variable of the object has changed: threads of a GPU share none */
    N_CTA_FAULTS
};

/* What there is to say of a run: whole numbers, as they come in a tensor. */
struct cta_said {
    int64_t fault, thread, line, other, other_line, index, size;
    int64_t again;    /* of CTA_RACE: the element was written before the barrier, too */
    int64_t loads[2]; /* of elements of K, V */
    int64_t twice[2]; /* elements of K, V that were loaded more than once; of the first one of them: */
    int64_t twice_index, twice_thread, twice_line, twice_other, twice_other_line;
    int64_t busiest, busiest_part,
        all;              /* the thread that loads and reads shared memory most, how often; all of them */
    char array[CTA_NAME]; /* of the fault; ends with 0 */
};
enum { CTA_NUMBERS = offsetof(struct cta_said, array) / sizeof(int64_t) };

struct lab_cta;
/* A run: sizes are those of the arrays; o and lse hold what is there where nothing is written. */
struct cta_run {
    const struct lab_cta *shape; /* all but thread and the arrays */
    const float *q, *k, *v;
    const int64_t *page_table, *run_end, *mask;
    float *o, *lse;
    int64_t n_q, n_kv, n_pages, n_o; /* elements; of LSE: n_o / head_dim */
    uint64_t order;                  /* of threads */
};
/* device: the variable by which the object reaches us. */
void cta_run(const struct cta_run *run, void (*tile)(const struct lab_cta *c), const void **device,
             struct cta_said *said);

END_C

#endif
