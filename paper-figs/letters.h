/*
 * letters.h - how wide text is, so that a drawing can be laid out before anything draws it.
 *
 * Figures name a generic font, and a reader's may be any. Widths are those of DejaVu Sans, among the widest that are common:
 * what fits with it fits with Arial.
 */
#ifndef TREEATTN_PAPER_FIGS_LETTERS_H
#define TREEATTN_PAPER_FIGS_LETTERS_H

#include <stdint.h>

/* Sizes of text in pixels of an SVG; style.gp makes points of them for a PNG. */
enum { TEXT_SIZE = 17, SMALL_SIZE = 14, TITLE_SIZE = 19, CAPTION_SIZE = 14 };

/* What letters reach above and below their base line, as shares of the size. */
#define LETTERS_ASCENT 0.76
#define LETTERS_DESCENT 0.24

/* Pixels of a line of UTF-8; what is no ASCII counts as one wide letter. */
double letters_width(const char *text, double size);
/* A copy with line breaks, no line wider than `width` pixels as far as words allow, in *lines their number (may be NULL). A
 * line ends at a blank; a word that is too wide also behind a hyphen, and as Relay|Attention does. The caller frees. */
char *letters_wrap(const char *text, double size, double width, int32_t *lines);
/* Pixels of the widest line of such a copy. */
double letters_widest(const char *wrapped, double size);

#endif
