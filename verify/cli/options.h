/*
 * options.h - a command's options as data: one table, one parser, one help.
 *
 * A default is text. The parser reads it like a value that was given, and the help prints it. So a command states its
 * default once, and no help shows that of another command.
 */
#ifndef TREEATTN_VERIFY_CLI_OPTIONS_H
#define TREEATTN_VERIFY_CLI_OPTIONS_H

#include "ref/base.h"

BEGIN_C

enum opt_kind {
    OPT_END,
    OPT_HEADING,
    OPT_REFUSED,
    OPT_FLAG,
    OPT_SET,
    OPT_TEXT,
    OPT_I64,
    OPT_I32,
    OPT_U64,
    OPT_WORD,
    OPT_CALL
};

struct opt {
    enum opt_kind kind;
    const char *name; /* without its dashes; OPT_HEADING: the heading */
    const char *arg;  /* what the help calls the value; NULL: the option takes none */
    const char *def;  /* the default, as a user would write it; NULL: the variable stays as it is */
    const char *help; /* OPT_REFUSED: why. OPT_WORD: behind a final ':' the help lists the words */
    union {
        bool *flag;
        const char **text;
        int64_t *i64;
        int32_t *i32;
        uint64_t *u64;
        unsigned *word; /* an enum */
        void *self;
    } to;
    int64_t least, most;     /* of a number */
    const char *zero;        /* what 0 stands for, which is the default then; NULL: nothing special */
    const char *const *list; /* [most] the words, by the enum's values */
    unsigned value;          /* of OPT_SET */
    bool (*call)(void *self, const char *value, struct err *e);
    bool *given; /* set when the user gives the option; may be NULL */
    char letter; /* 0: it has none */
};

/* A line of a table. The last arguments may set further fields: .given = &x, .letter = 'o', .zero = "none". */
#define OPT(kind_, name_, arg_, help_, ...)                                                                  \
    {                                                                                                        \
        .kind = kind_, .name = name_, .arg = arg_, .help = help_, __VA_ARGS__                                \
    }
#define HEADING(text) OPT(OPT_HEADING, text, NULL, NULL, )
#define FLAG(name, to_, help, ...) OPT(OPT_FLAG, name, NULL, help, .to.flag = to_, __VA_ARGS__)
/* Sets an enum, which was 0, to a value; options that set the same enum exclude each other. */
#define SET(name, to_, value_, help, ...)                                                                    \
    OPT(OPT_SET, name, NULL, help, .to.word = to_, .value = value_, __VA_ARGS__)
#define TEXT(name, arg, to_, def_, help, ...)                                                                \
    OPT(OPT_TEXT, name, arg, help, .to.text = to_, .def = def_, __VA_ARGS__)
#define I64(name, arg, to_, least_, most_, def_, help, ...)                                                  \
    OPT(OPT_I64, name, arg, help, .to.i64 = to_, .least = least_, .most = most_, .def = def_, __VA_ARGS__)
#define I32(name, arg, to_, least_, most_, def_, help, ...)                                                  \
    OPT(OPT_I32, name, arg, help, .to.i32 = to_, .least = least_, .most = most_, .def = def_, __VA_ARGS__)
#define U64(name, arg, to_, def_, help, ...)                                                                 \
    OPT(OPT_U64, name, arg, help, .to.u64 = to_, .def = def_, __VA_ARGS__)
/* One of n words, list_[0 .. n); its number goes to an enum. */
#define WORD(name, arg, to_, list_, n, def_, help, ...)                                                      \
    OPT(OPT_WORD, name, arg, help, .to.word = to_, .list = list_, .most = n, .def = def_, __VA_ARGS__)
/* Whatever call_(self_, value, e) makes of it. */
#define CALL(name, arg, call_, self_, def_, help, ...)                                                       \
    OPT(OPT_CALL, name, arg, help, .call = call_, .to.self = self_, .def = def_, __VA_ARGS__)

enum { OPTIONS_MAX = 80 };

/* A command line: what it is for and what it takes. */
struct options {
    const char *about;
    const char *examples; /* command lines without the leading "treeattn ", one a line; may be NULL */
    const char *details;  /* below the options in the help; may be NULL */
    const char *needs;    /* the complaint when nothing is given; NULL: the command runs without options */
    const char *words;    /* what the usage line calls arguments that are no options; NULL: there are none */
    const char **word;    /* [max_words] they are left here, */
    int32_t max_words, n_words; /* so many */
    struct opt opt[OPTIONS_MAX];
    int32_t n;
};

/* Append a table, which ends with {0}; texts and variables must outlive *o. */
void options_add(struct options *o, const struct opt *table);
/* From now on a user who gives one of these ("levels gen") is told why not; the help leaves them out. */
void options_refuse(struct options *o, const char *names, const char *why);
/* Another default, and another help text unless NULL, for an option of a shared table. */
void options_default(struct options *o, const char *name, const char *def, const char *help);

/*
 * Read argv[1 ..]; argv[0] is the command's name. False with *e set at the first thing that is wrong. --help prints and
 * exits with 0, and so do --help=man and --help=words (manual.h). Where nothing is given and something is needed, it says what the command is for and exits with 2.
 */
bool options_parse(struct options *o, int argc, char **argv, struct err *e);

/* What the help says of an option: its text, its words, its default. Free it. */
char *options_text(const struct opt *x);

/* Is a name near enough to a wrong word to be suggested? */
bool options_near(const char *word, const char *name);

END_C

#endif
