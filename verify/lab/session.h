/*
 * session.h - a student's code in a child: compiled, loaded by treeattn-lab-host, and asked. The child has limits of time and
 * memory, may start no process, and knows no answer.
 */
#ifndef TREEATTN_VERIFY_LAB_SESSION_H
#define TREEATTN_VERIFY_LAB_SESSION_H

#include "kernels/kernel.h"
#include "verify/child/tensors.h"

BEGIN_C

struct lab_session;
/* What is asked from now on is of this gate. */
void lab_part(struct lab_session *s, int32_t gate);
/* path: lab.c, which is compiled by $LAB_CC or cc, or a shared object. functions: what it must define, with blanks between. NULL with
 * *e set: it does not compile, lacks one of them, or something is missing here. seconds: that an answer may take. *said, which the
 * caller frees: up to four lines that belong to an error, each with a line break before it; or a line about warnings; or NULL. */
struct lab_session *lab_open(const char *path, const char *functions, double seconds, char **said,
                             struct err *e);
void lab_close(struct lab_session *s);

/*
 * Calls function `point` of the student's with these tensors and numbers (JSON, ",\"key\":value", or ""). RUN_DONE: *answer is
 * what came, of at most `most` bytes, to be freed with tensors_free. Else *why says what happened, and the next question goes
 * to a new child.
 *
 * Not everything is asked of code that ends its child or gives no answer. Within a gate (lab_part), a function is asked no more
 * after one answer that did not come in time, or LAB_MOST_CRASHES ends of the child. A function that gave no answer in time is
 * tried once more, in another gate, with half the time (LAB_MOST_HANGS). All such questions take LAB_ALL_LOST times as long as
 * an answer may, and all answers LAB_ALL_ANSWERS times as long. What is not asked then is LAB_UNASKED; *why begins with "not
 * asked".
 */
enum { LAB_MOST_CRASHES = 2, LAB_MOST_HANGS = 2, LAB_ALL_LOST = 2, LAB_ALL_ANSWERS = 6 };
#define LAB_UNASKED N_RUN_ENDS
enum run_end lab_ask(struct lab_session *s, const char *point, const char *numbers,
                     const struct tensors *given, int64_t most, struct tensors *answer, struct err *why);

/* What came of a question, as reports call it: "CRASH" .., "UNASKED". */
const char *lab_end_name(enum run_end end);

/* Could a question not be asked, for want of room, say? Then no answer counts, and *e says why. */
bool lab_lacks(const struct lab_session *s, struct err *e);

END_C

#endif
