/* readmes.c - the texts of the labs (tests/labs/LN/README.md), which the program carries, so that what they say stands once. */
#include "verify/lab/lab.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Each behind its mark. */
extern const char lab_readmes_begin[], lab_readmes_end[];
#define README(n) ".ascii \"\\001" #n "\\n\"\n.incbin \"tests/labs/L" #n "/README.md\"\n"
#define LAB(n, title, minutes, functions) README(n)
#define QUIZ(n, title, minutes) README(n)
#define GATE(n, gate, points, invariant, name)
__asm__(".pushsection .rodata\n"
        ".global lab_readmes_begin, lab_readmes_end\n"
        "lab_readmes_begin:\n"
#include "verify/lab/labs.def"
        "lab_readmes_end:\n"
        ".byte 0\n"
        ".popsection\n");
#undef LAB
#undef QUIZ
#undef GATE

/* From the mark of a lab to that of the next one; the caller frees. */
static char *readme_of(int32_t lab)
{
    char *mark = xasprintf("\001%" PRId32 "\n", lab), *text = NULL;
    const char *at = strstr(lab_readmes_begin, mark);
    if (at)
        text = xasprintf("%.*s", (int)strcspn(at + 1, "\001"), at + 1);
    free(mark);
    return text;
}

/* An item of a list, whose further lines are indented, on one line. */
static char *one_line(const char *item)
{
    char *text = xstrdup("");
    for (bool more = true; more;) {
        size_t n = strcspn(item, "\n");
        xappend(&text, "%s%.*s", *text ? " " : "", (int)n, item);
        item += n;
        more = item[0] == '\n' && item[1] == ' ';
        item += strspn(item, "\n ");
    }
    return text;
}

char *lab_invariant(int32_t lab, int32_t number)
{
    char *all = readme_of(lab), *mark = xasprintf("\n%" PRId32 ". ", number), *text = NULL;
    char *from = all ? strstr(all, "\n## Invariants\n") : NULL,
         *end = from ? strstr(from + 1, "\n## ") : NULL;
    if (end)
        *end = 0;
    const char *at = from ? strstr(from, mark) : NULL;
    if (at)
        text = one_line(at + strlen(mark));
    free(all);
    free(mark);
    return text;
}
