/* svg_check.h - reads an SVG as XML, and looks at its text as a reader with a wide font would see it. */
#ifndef TREEATTN_TESTS_SIM_SVG_CHECK_H
#define TREEATTN_TESTS_SIM_SVG_CHECK_H

#include <stdint.h>

/* An element: its attributes as they are written, and the text in it, entities replaced. */
struct svg_element {
    char *name, *attributes, *text;
};
struct svg_read {
    struct svg_element *at;
    int64_t n, cap;
};

/* Fails the test where tags, attributes or characters are not those of XML, and where there are scripts or links. Free with
 * svg_read_clear. */
struct svg_read svg_read(const char *text);
void svg_read_clear(struct svg_read *r);

/* The attribute's value, in memory that the next calls overwrite; NULL: the element has none. */
const char *svg_attribute(const struct svg_element *e, const char *name);
double svg_number(const struct svg_element *e, const char *name, double none);
/* Is the element of that class? */
int svg_is(const struct svg_element *e, const char *class);
/* All text elements, a line each; the caller frees. */
char *svg_texts(const struct svg_read *r);

/* Fails the test where text meets other text, or leaves the picture; and without a title, words, and a role. */
void svg_check_layout(const struct svg_read *r);

#endif
