#include "verify/cli/options.h"
#include "verify/cli/cmd.h"
#include "verify/cli/manual.h"
#include "verify/io/text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH = 79, HELP_COLUMN = 28 };

/* ---- tables -------------------------------------------------------------------------------------------- */

void options_add(struct options *o, const struct opt *table)
{
    for (; table->kind != OPT_END; table++) {
        CK(o->n < OPTIONS_MAX);
        o->opt[o->n++] = *table;
    }
}

static struct opt *find(struct options *o, const char *name)
{
    for (int32_t i = 0; i < o->n; i++)
        if (o->opt[i].kind != OPT_HEADING && strcmp(o->opt[i].name, name) == 0)
            return &o->opt[i];
    return NULL;
}

void options_refuse(struct options *o, const char *names, const char *why)
{
    char copy[200], *rest = copy;
    CK(snprintf(copy, sizeof copy, "%s", names) < (int)sizeof copy);
    for (char *name; (name = text_next(&rest, ' '));) {
        struct opt *x = find(o, name);
        CK(x);
        *x = (struct opt){.kind = OPT_REFUSED, .name = x->name, .letter = x->letter, .help = why};
    }
}

void options_default(struct options *o, const char *name, const char *def, const char *help)
{
    struct opt *x = find(o, name);
    CK(x);
    x->def = def;
    x->help = help ? help : x->help;
}

/* ---- values -------------------------------------------------------------------------------------------- */

/* "a, b or c" */
static char *word_list(const struct opt *x)
{
    char *list = xstrdup("");
    for (int64_t i = 0; i < x->most; i++) {
        const char *between = i == 0 ? "" : i + 1 == x->most ? " or " : ", ";
        xappend(&list, "%s%s", between, x->list[i]);
    }
    return list;
}

static bool set_word(const struct opt *x, const char *value, struct err *e)
{
    for (int64_t i = 0; i < x->most; i++)
        if (strcmp(x->list[i], value) == 0) {
            *x->to.word = (unsigned)i;
            return true;
        }
    char *list = word_list(x);
    err_set(e, "--%s '%.60s' (expected %s)", x->name, value, list);
    free(list);
    return false;
}

static bool set_number(const struct opt *x, const char *value, struct err *e)
{
    int64_t number;
    char what[80];
    snprintf(what, sizeof what, "--%s", x->name);
    if (x->kind == OPT_U64)
        return text_u64(value, what, x->to.u64, e);
    if (!text_i64(value, what, x->least, x->most, &number, x->zero ? NULL : e))
        return err_set(e, "%s '%.60s' (expected a whole number from %" PRId64 " to %" PRId64 "; 0: %s)", what,
                       value, x->least, x->most, x->zero);
    if (x->kind == OPT_I32)
        *x->to.i32 = (int32_t)number;
    else
        *x->to.i64 = number;
    return true;
}

/* Two options that set the same enum to different values exclude each other. */
static bool set_value(const struct options *o, const struct opt *x, struct err *e)
{
    for (int32_t i = 0; i < o->n; i++) {
        const struct opt *other = &o->opt[i];
        if (other->kind == OPT_SET && other->to.word == x->to.word && other->value == *x->to.word &&
            other != x)
            return err_set(e, "--%s and --%s exclude each other (expected one)", other->name, x->name);
    }
    *x->to.word = x->value;
    return true;
}

static bool set(const struct options *o, const char *command, const struct opt *x, const char *value,
                struct err *e)
{
    switch (x->kind) {
    case OPT_REFUSED:
        return err_set(e, "%s: --%s: %s", command, x->name, x->help);
    case OPT_FLAG:
        return *x->to.flag = true;
    case OPT_SET:
        return set_value(o, x, e);
    case OPT_TEXT:
        *x->to.text = value;
        return true;
    case OPT_I64:
    case OPT_I32:
    case OPT_U64:
        return set_number(x, value, e);
    case OPT_WORD:
        return set_word(x, value, e);
    case OPT_CALL:
        return x->call(x->to.self, value, e);
    case OPT_HEADING:
    case OPT_END:
        break;
    }
    CK(!"an option");
    return false;
}

/* ---- words that are wrong ------------------------------------------------------------------------------ */

/* Letters to add, drop, change or swap with the next to get from a to b; words of up to 31 letters. */
static int distance(const char *a, const char *b)
{
    enum { MOST = 32 };
    int d[MOST][MOST], n = (int)strlen(a), m = (int)strlen(b);
    if (n >= MOST || m >= MOST)
        return MOST;
    for (int i = 0; i <= n; i++)
        for (int j = 0; j <= m; j++) {
            int x = i == 0 ? j : j == 0 ? i : d[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
            if (i > 0 && j > 0) {
                x = d[i - 1][j] + 1 < x ? d[i - 1][j] + 1 : x;
                x = d[i][j - 1] + 1 < x ? d[i][j - 1] + 1 : x;
            }
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && d[i - 2][j - 2] + 1 < x)
                x = d[i - 2][j - 2] + 1;
            d[i][j] = x;
        }
    return d[n][m];
}

bool options_near(const char *word, const char *name)
{
    size_t n = strlen(word);
    return (n >= 2 && strncmp(word, name, n) == 0) || (n >= 4 && strstr(name, word)) ||
           distance(word, name) <= (n > 5 ? 2 : 1);
}

static void add_name(char *list, size_t size, const struct opt *x)
{
    char *name = xasprintf("--%s", x->name);
    listing_add(list, size, name);
    free(name);
}

static bool unknown(const struct options *o, const char *command, const char *arg, size_t n, struct err *e)
{
    char close[200] = "", *word = xasprintf("%.*s", (int)n, arg + 2);
    for (int32_t i = 0; i < o->n && strncmp(arg, "--", 2) == 0; i++)
        if (o->opt[i].kind > OPT_REFUSED && options_near(word, o->opt[i].name))
            add_name(close, sizeof close, &o->opt[i]);
    free(word);
    return err_set(e, "%s: unknown option '%.60s' (%s%s%ssee treeattn %s --help)", command, arg,
                   close[0] ? "did you mean " : "", close, close[0] ? "? " : "", command);
}

/* ---- help ---------------------------------------------------------------------------------------------- */

/* In lines of at most WIDTH columns, `indent` spaces before each but the first, which stands at column `at`. */
static void print_wrapped(FILE *f, int indent, int at, const char *text)
{
    for (int start = at; *text;) {
        size_t n = strcspn(text, " \n");
        if (at > start && at + (int)n + 1 > WIDTH) {
            fprintf(f, "\n%*s", indent, "");
            at = start = indent;
        }
        at += fprintf(f, "%s%.*s", at > start ? " " : "", (int)n, text);
        text += n;
        if (*text == '\n') {
            fprintf(f, "\n%*s", text[1] ? indent : 0, "");
            at = start = indent;
        }
        text += *text != 0;
    }
    fputc('\n', f);
}

static void print_examples(const struct options *o, FILE *f)
{
    for (const char *line = o->examples; line && *line;) {
        size_t n = strcspn(line, "\n");
        fprintf(f, "  treeattn %.*s\n", (int)n, line);
        line += n + (line[n] == '\n');
    }
}

static void teach(const struct options *o, const char *command)
{
    fprintf(stderr, "treeattn: %s: %s (see treeattn %s --help)\n\n", command, o->needs, command);
    print_wrapped(stderr, 0, 0, o->about);
    fputc('\n', stderr);
    print_examples(o, stderr);
    exit(EXIT_BAD_INPUT);
}

char *options_text(const struct opt *x)
{
    bool lists = x->kind == OPT_WORD && x->help[strlen(x->help) - 1] == ':';
    char *list = lists ? word_list(x) : xstrdup("");
    char *def = x->zero  ? xasprintf(" (default 0: %s)", x->zero)
                : x->def ? xasprintf(" (default %s)", x->def)
                         : xstrdup("");
    char *text = xasprintf("%s%s%s%s", x->help, lists ? " " : "", list, def);
    free(def);
    free(list);
    return text;
}

static void print_option(const struct opt *x)
{
    char letter[8] = "    ";
    if (x->letter)
        snprintf(letter, sizeof letter, "-%c, ", x->letter);
    int at = printf("  %s--%s%s%s", letter, x->name, x->arg ? " " : "", x->arg ? x->arg : "");
    if (at + 2 > HELP_COLUMN) {
        putchar('\n');
        at = 0;
    }
    printf("%*s", HELP_COLUMN - at, "");
    char *help = options_text(x);
    print_wrapped(stdout, HELP_COLUMN, HELP_COLUMN, help);
    free(help);
}

static void print_help(const struct options *o, const char *command)
{
    printf("usage: treeattn %s [OPTION...]%s%s\n\n", command, o->words ? " " : "", o->words ? o->words : "");
    print_wrapped(stdout, 0, 0, o->about);
    putchar('\n');
    print_examples(o, stdout);
    for (int32_t i = 0; i < o->n; i++)
        if (o->opt[i].kind == OPT_HEADING)
            printf("\n%s\n", o->opt[i].name);
        else if (o->opt[i].kind != OPT_REFUSED)
            print_option(&o->opt[i]);
    if (o->details) {
        putchar('\n');
        print_wrapped(stdout, 0, 0, o->details);
    }
}

/* Prints and exits, if the argument asks for help in any form. */
static void answer_help(const struct options *o, const char *command, const char *arg)
{
    if (strcmp(arg, "--help") == 0 || strcmp(arg, "-?") == 0)
        print_help(o, command);
    else if (strcmp(arg, "--help=man") == 0)
        manual_print(o, command);
    else if (strcmp(arg, "--help=words") == 0)
        manual_print_words(o);
    else
        return;
    exit(cmd_printed());
}

/* ---- parsing ------------------------------------------------------------------------------------------- */

/* The option --NAME, or the only one that begins so. NULL with *e set: there is none, or several. */
static const struct opt *find_long(struct options *o, const char *command, const char *arg, size_t n,
                                   struct err *e)
{
    const struct opt *found = NULL;
    int32_t n_found = 0;
    char names[200] = "";
    for (int32_t i = 0; i < o->n; i++) {
        const struct opt *x = &o->opt[i];
        if (x->kind == OPT_HEADING || strncmp(x->name, arg + 2, n) != 0)
            continue;
        if (!x->name[n])
            return x;
        add_name(names, sizeof names, x);
        found = x;
        n_found++;
    }
    if (n_found == 0)
        unknown(o, command, arg, n, e);
    if (n_found > 1)
        err_set(e, "%s: option '%.60s' begins several names (expected one of %s)", command, arg, names);
    return n_found == 1 ? found : NULL;
}

static bool take(const struct options *o, const struct opt *x, int argc, char **argv, int *i,
                 const char *value, struct err *e)
{
    const char *arg = argv[*i];
    if (x->arg && !value && ++*i >= argc)
        return err_set(e, "%s: option '%.60s' lacks its value %s", argv[0], arg, x->arg);
    if (!x->arg && value && x->kind != OPT_REFUSED)
        return err_set(e, "%s: --%s takes no value (given '%.60s')", argv[0], x->name, value);
    if (!set(o, argv[0], x, value ? value : argv[*i], e))
        return false;
    if (x->given)
        *x->given = true;
    return true;
}

/* -q, -o FILE, -oFILE, -qo FILE */
static bool take_letters(const struct options *o, int argc, char **argv, int *i, struct err *e)
{
    const char *arg = argv[*i];
    for (const char *at = arg + 1; *at; at++) {
        const struct opt *x = o->opt;
        while (x < o->opt + o->n && x->letter != *at)
            x++;
        if (x == o->opt + o->n)
            return unknown(o, argv[0], arg, 0, e);
        const char *value = x->arg && at[1] ? at + 1 : NULL;
        if (!take(o, x, argc, argv, i, value, e))
            return false;
        if (x->arg)
            break;
    }
    return true;
}

static bool take_long(struct options *o, int argc, char **argv, int *i, struct err *e)
{
    const char *arg = argv[*i];
    size_t n = strcspn(arg + 2, "=");
    const struct opt *x = find_long(o, argv[0], arg, n, e);
    return x && take(o, x, argc, argv, i, arg[2 + n] ? arg + 3 + n : NULL, e);
}

bool options_parse(struct options *o, int argc, char **argv, struct err *e)
{
    struct err bad = {0};
    for (int32_t i = 0; i < o->n; i++)
        if (o->opt[i].def)
            CK(set(o, argv[0], &o->opt[i], o->opt[i].def, &bad));
    if (argc < 2 && o->needs)
        teach(o, argv[0]);
    bool options = true, good = true;
    for (int i = 1; i < argc && good; i++) {
        const char *arg = argv[i];
        if (!options || arg[0] != '-' || !arg[1]) {
            if (o->n_words == o->max_words)
                return err_set(e, "%s: argument '%.60s' is one too many (see treeattn %s --help)", argv[0],
                               arg, argv[0]);
            o->word[o->n_words++] = arg;
        } else if (strcmp(arg, "--") == 0) {
            options = false;
        } else {
            answer_help(o, argv[0], arg);
            good = arg[1] == '-' ? take_long(o, argc, argv, &i, e) : take_letters(o, argc, argv, &i, e);
        }
    }
    return good;
}
