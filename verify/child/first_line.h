/* first_line.h - what a child says of itself when it starts (verify/child/README.md). */
#ifndef TREEATTN_VERIFY_CHILD_FIRST_LINE_H
#define TREEATTN_VERIFY_CHILD_FIRST_LINE_H

#include "verify/child/child.h"

#include <jansson.h>

BEGIN_C

/* The first line, which a stranger wrote, as *caps; all of them are set. False with *e set: what is wrong, what was expected. */
bool first_line_read(const json_t *o, struct child_caps *caps, struct err *e);

END_C

#endif
