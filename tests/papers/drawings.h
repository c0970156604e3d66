/* drawings.h - what is wrong with the texts of a drawing (check_drawings.c). */
#ifndef TREEATTN_TESTS_PAPERS_DRAWINGS_H
#define TREEATTN_TESTS_PAPERS_DRAWINGS_H

#include <stddef.h>
#include <stdint.h>

/* Of an SVG of gnuplot's: the first text that meets another or leaves the picture, in a sentence of `size` bytes; "" if none
 * does. *n: how many texts there are. */
void drawing_fault(const char *svg, char *fault, size_t size, int32_t *n);

#endif
