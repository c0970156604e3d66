/* decode_cards.h - between decode.c and decode_cards.c: a decoder made of one decoder for each card. */
#ifndef TREEATTN_KERNELS_DECODE_DECODE_CARDS_H
#define TREEATTN_KERNELS_DECODE_DECODE_CARDS_H

#include "kernels/decode/decode.h"

/* s->n_cards of that type. NULL with *e set: the model cannot be dealt out evenly, a card is missing or lacks memory. */
struct decoder *decoder_cards_open(const struct decoder_type *type, const struct decoder_spec *s,
                                   struct err *e);

#endif
