#include "verify/cli/manual.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Text as roff takes it: a dash is one to be copied, and no line begins with a command. */
static void print_roff(const char *s)
{
    bool first = true; /* of a line */
    for (; *s; s++) {
        if (first && (*s == '.' || *s == '\''))
            fputs("\\&", stdout);
        if (*s == '\\')
            fputs("\\e", stdout);
        else if (*s == '-')
            fputs("\\-", stdout);
        else
            putchar(*s);
        first = *s == '\n';
    }
}

/* Each line as it is. */
static void print_paragraphs(const char *s)
{
    for (; *s; s += strspn(s, "\n")) {
        size_t n = strcspn(s, "\n");
        char *line = xasprintf("%.*s", (int)n, s);
        printf(".PP\n");
        print_roff(line);
        putchar('\n');
        free(line);
        s += n;
    }
}

static void print_examples(const char *line)
{
    printf(".PP\n.nf\n.RS\n");
    while (*line) {
        size_t n = strcspn(line, "\n");
        char *example = xasprintf("treeattn %.*s\n", (int)n, line);
        print_roff(example);
        free(example);
        line += n + (line[n] == '\n');
    }
    printf(".RE\n.fi\n");
}

static void print_option(const struct opt *x)
{
    printf(".TP\n.B ");
    if (x->letter)
        printf("\\-%c, ", x->letter);
    print_roff("--");
    print_roff(x->name);
    if (x->arg) {
        printf(" \\fI");
        print_roff(x->arg);
        printf("\\fR");
    }
    putchar('\n');
    char *text = options_text(x);
    print_roff(text);
    putchar('\n');
    free(text);
}

void manual_print(const struct options *o, const char *command)
{
    printf(".SS \"treeattn %s", command);
    print_roff(" [OPTION...]");
    if (o->words) {
        putchar(' ');
        print_roff(o->words);
    }
    printf("\"\n");
    print_paragraphs(o->about);
    if (o->examples)
        print_examples(o->examples);
    for (int32_t i = 0; i < o->n; i++) {
        const struct opt *x = &o->opt[i];
        if (x->kind == OPT_HEADING) {
            printf(".PP\n.I ");
            print_roff(x->name);
            putchar('\n');
        } else if (x->kind != OPT_REFUSED) {
            print_option(x);
        }
    }
    if (o->details)
        print_paragraphs(o->details);
}

void manual_print_words(const struct options *o)
{
    for (int32_t i = 0; i < o->n; i++) {
        const struct opt *x = &o->opt[i];
        if (x->kind == OPT_HEADING || x->kind == OPT_REFUSED)
            continue;
        printf("--%s", x->name);
        if (x->arg)
            printf(" %s", x->arg);
        for (int64_t k = 0; x->kind == OPT_WORD && k < x->most; k++)
            printf(" %s", x->list[k]);
        putchar('\n');
    }
}
