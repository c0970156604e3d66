/* session.c - see session.h. */
#include "verify/lab/session.h"
#include "verify/child/exchange.h"
#include "verify/io/origin.h"
#include "verify/io/text.h"
#include "verify/lab/rights.h"

#include "ref/json_text.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    COMPILE_SECONDS = 60,
    START_SECONDS = 20,
    COMPILER_PROCESSES = 16,
    MOST_PARTS = 32,
    MOST_FUNCTIONS = 4
};

struct lab_session {
    const char *path; /* as it was given */
    char *folder, *command;
    struct process *child;       /* NULL: none is running */
    double seconds, spent, lost; /* that an answer may take; that all took; and those that did not come */
    int64_t n_asked;
    int32_t gate, crashes[MOST_PARTS]; /* of a gate: ends of its child, hangs count as many */
    struct {
        char name[16];
        int32_t hangs;
    } function[MOST_FUNCTIONS]; /* that were asked */
    struct err lacks;           /* what this machine has not */
};

/* lab.h, as the judge knows it. */
extern const char lab_header_begin[], lab_header_end[];
__asm__(".pushsection .rodata\n"
        ".global lab_header_begin, lab_header_end\n"
        "lab_header_begin:\n"
        ".incbin \"tests/labs/include/lab.h\"\n"
        "lab_header_end:\n"
        ".byte 0\n"
        ".popsection\n");

/* ---- files of the folder ------------------------------------------------------------------------------ */

static char *in_folder(const struct lab_session *s, const char *name)
{
    return xasprintf("%s/%s", s->folder, name);
}

/* A new file there that the child may read. False with *e set. */
static bool put(const struct lab_session *s, const char *name, const char *text, size_t size, struct err *e)
{
    char *path = in_folder(s, name);
    FILE *f = fopen(path, "wxe");
    bool good = f && fwrite(text, 1, size, f) == size && fchmod(fileno(f), 0644) == 0;
    good = (!f || fclose(f) == 0) && good;
    if (!good)
        err_missing(e, "%s: %s", path, strerror(errno));
    free(path);
    return good;
}

/* All of a file of some size; NULL with *e set. */
static char *read_whole(const char *path, size_t *size, struct err *e)
{
    enum { MOST = 16 << 20 };
    struct stat st;
    FILE *f = fopen(path, "re");
    char *text = NULL;
    if (!f || fstat(fileno(f), &st) != 0)
        err_set(e, "%s: %s (expected lab.c or lab.so)", path, strerror(errno));
    else if (!S_ISREG(st.st_mode) || st.st_size > MOST)
        err_set(e, "%s: no file of at most %d MiB (expected lab.c or lab.so)", path, MOST >> 20);
    else
        text = xcalloc((size_t)st.st_size + 1, 1);
    *size = text ? fread(text, 1, (size_t)st.st_size, f) : 0;
    if (f)
        fclose(f);
    return text;
}

/* ---- programs ----------------------------------------------------------------------------------------- */

/* The program that loads what students write lies beside this one. NULL with *e set. */
static char *host_path(struct err *e)
{
    static const char *const from[] = {"", "/.."}; /* the test runner lies a folder below it */
    char *folder = origin_folder(), *host = NULL;
    for (int i = 0; i < 2 && !host; i++) {
        host = xasprintf("%s%s/treeattn-lab-host", folder, from[i]);
        if (access(host, X_OK) != 0) {
            free(host);
            host = NULL;
        }
    }
    free(folder);
    if (host)
        return host;
    err_missing(e, "treeattn-lab-host is not beside treeattn (make builds it)");
    return NULL;
}

static struct process_limits limits(int32_t processes)
{
    return (struct process_limits){.memory = (int64_t)LAB_MEMORY_GIB << 30, .processes = processes};
}

/* Of a compiler. What ended it without a limit is this machine's doing, and costs nobody points. */
static void no_answer(struct process *p, const struct process_said *said, struct err *e)
{
    const char *log = process_log(p);
    if (said->event == PROCESS_TIMEOUT)
        err_set(e, "the compiler gave no answer within %d s", COMPILE_SECONDS);
    else if (said->event == PROCESS_MEMORY)
        err_set(e, "the compiler took more than %d GiB", LAB_MEMORY_GIB);
    else if (said->event == PROCESS_MANY)
        err_set(e, "the compiler started more than %d processes", COMPILER_PROCESSES);
    else
        err_missing(e, "the compiler was ended before its time (code %d)%s%s", said->code, *log ? ": " : "",
                    log);
}

/* Runs a command in the folder, as a user without rights if we have them all. It waits for our line: what ended before that would be
 * taken for one that says nothing. Its exit code, or -1 with *e set. */
static int run_there(const struct lab_session *s, const char *host, const char *command, struct err *e)
{
    char *all = xasprintf("read -r go <&3; cd %s && %s; echo $? >&4", s->folder, command),
         *quoted = text_quote(all), *program = text_quote(host),
         *whole =
             xasprintf("exec env -i PATH=\"$PATH\" LC_ALL=C TMPDIR=%s %s -c %s", s->folder, program, quoted);
    const struct process_limits few = limits(COMPILER_PROCESSES);
    struct process *p = process_start(whole, NULL, &few, e);
    struct process_said said = {0};
    if (p)
        said = process_ask(p, "", COMPILE_SECONDS);
    int code = p && said.event == PROCESS_LINE ? atoi(said.line) : -1;
    if (p && code < 0)
        no_answer(p, &said, e);
    process_stop(p);
    free(all);
    free(quoted);
    free(program);
    free(whole);
    return code;
}

/* ---- from lab.c to lab.so ----------------------------------------------------------------------------- */

/* Does lab.c include anything of its own beside lab.h? The file "deps" says what: "lab.so: lab.c ./lab.h". */
static bool includes_only_ours(const struct lab_session *s, const char *path, struct err *e)
{
    char *file = in_folder(s, "deps"), *text;
    size_t size;
    text = read_whole(file, &size, e);
    free(file);
    bool good = text != NULL;
    char *rest = text;
    for (char *word; good && (word = strsep(&rest, " \\\n\t"));) {
        size_t n = strlen(word);
        if (n > 0 && word[n - 1] != ':' && strcmp(word, "lab.c") != 0 && strcmp(word, "lab.h") != 0)
            good = err_set(e, "%s includes %s (expected lab.h, and headers of the C library)", path, word);
    }
    free(text);
    return good;
}

/* What the compiler said, with the student's own name of the file; the caller frees. */
static char *compiler_said(const struct lab_session *s)
{
    struct err e = {0};
    char *file = in_folder(s, "said"), *raw, *text = xstrdup(""), *name = xstrdup(s->path);
    size_t size;
    for (char *c = name; *c; c++)
        *c = (unsigned char)*c < ' ' ? '?' : *c;
    raw = read_whole(file, &size, &e);
    free(file);
    char *rest = raw;
    for (char *line; rest && *rest && (line = strsep(&rest, "\n"));) {
        for (char *c = line; *c; c++)
            *c = *c == '\t' ? ' ' : *c < ' ' || *c > 126 ? '?' : *c;
        bool ours = strncmp(line, "lab.c:", 6) == 0;
        xappend(&text, "%s%.300s\n", ours ? name : "", ours ? line + 5 : line);
    }
    free(raw);
    free(name);
    return text;
}

/* The line of text in which a word stands, the first one; NULL: there is none. */
static const char *line_of(const char *text, const char *word)
{
    const char *at = strstr(text, word);
    while (at && at > text && at[-1] != '\n')
        at--;
    return at;
}

/* The error, and up to four lines behind it: gcc's picture of the line, and notes. The caller frees *more. */
static void take_errors(const struct lab_session *s, char **more, struct err *e)
{
    char *said = compiler_said(s);
    const char *at = line_of(said, "undefined reference"); /* before the linker's "error: ld returned" */
    at = at ? at : line_of(said, "error: ");
    at = at ? at : line_of(said, "not found");
    size_t n = at ? strcspn(at, "\n") : 0;
    int lines = 4;
    const char *symbol = at ? strstr(at, "undefined reference") : NULL;
    if (symbol && symbol < at + n) { /* before it, only what a linker calls the place */
        n -= (size_t)(symbol - at);
        at = symbol;
        lines = 0;
    }
    err_set(e,
            "%s does not compile: %.*s (cc -std=gnu11 -O2 -Wall -Wextra -fPIC -shared -I tests/labs/include "
            "%s -lm)",
            s->path, at ? (int)min_i64((int64_t)n, 300) : 100, at ? at : "the compiler says no more of it",
            s->path);
    *more = xstrdup("");
    for (int i = 0; i < lines && at && at[n] && at[n + 1]; i++) {
        at += n + 1;
        n = strcspn(at, "\n");
        xappend(more, "\n%.*s", (int)n, at);
    }
    free(said);
}

/* "3 warnings, the first: my/lab.c:9:5: warning: .."; NULL: there are none. The caller frees. */
static char *warnings(const struct lab_session *s)
{
    char *said = compiler_said(s), *text = NULL;
    const char *first = line_of(said, "warning: ");
    int32_t n = 0;
    for (const char *at = said; (at = strstr(at, "warning: ")); at++)
        n++;
    if (first && n == 1)
        text = xasprintf("1 warning: %.*s", (int)strcspn(first, "\n"), first);
    else if (first)
        text = xasprintf("%" PRId32 " warnings, the first: %.*s", n, (int)strcspn(first, "\n"), first);
    free(said);
    return text;
}

static bool compile(const struct lab_session *s, const char *host, const char *path, char **said,
                    struct err *e)
{
    const char *cc = getenv("LAB_CC");
    char *compiler = text_quote(cc && *cc ? cc : "cc"),
         *first = xasprintf("%s -std=gnu11 -I. -MM -MF deps lab.c 2>said", compiler),
         *second =
             xasprintf("%s -std=gnu11 -O2 -g -Wall -Wextra -fPIC -shared -Wl,-z,defs -I. lab.c -o lab.so -lm "
                       "2>said",
                       compiler);
    int code = run_there(s, host, first, e);
    bool good = code == 0 && includes_only_ours(s, path, e);
    if (good)
        code = run_there(s, host, second, e);
    if (code > 0)
        take_errors(s, said, e);
    else if (code == 0 && good)
        *said = warnings(s);
    free(compiler);
    free(first);
    free(second);
    return good && code == 0;
}

/* Puts the object into the folder. */
static bool bring(const struct lab_session *s, const char *host, const char *path, char **said, struct err *e)
{
    size_t size, n = strlen(path);
    bool source = n > 2 && strcmp(path + n - 2, ".c") == 0;
    if (!source && !(n > 3 && strcmp(path + n - 3, ".so") == 0))
        return err_set(e, "%s: neither C nor an object (expected a name that ends in .c or .so)", path);
    char *text = read_whole(path, &size, e);
    if (!text)
        return false;
    bool good =
        put(s, source ? "lab.c" : "lab.so", text, size, e) &&
        (!source || (put(s, "lab.h", lab_header_begin, (size_t)(lab_header_end - lab_header_begin), e) &&
                     compile(s, host, path, said, e)));
    free(text);
    return good;
}

/* ---- the child ---------------------------------------------------------------------------------------- */

/* Does it have all of these functions? */
static bool has_all(const json_t *hello, const char *path, const char *functions, struct err *e)
{
    char *list = xstrdup(functions), *rest = list;
    bool good = true;
    for (char *name; good && (name = text_next(&rest, ' '));) {
        size_t i = 0;
        const json_t *has = json_object_get(hello, "functions");
        while (i < json_array_size(has) && strcmp(json_string_value(json_array_get(has, i)), name) != 0)
            i++;
        good = i < json_array_size(has) ||
               err_set(e, "%s does not define %s (expected the functions of lab.h)", path, name);
    }
    free(list);
    return good;
}

static bool start(struct lab_session *s, json_t **hello, struct err *e)
{
    const struct process_limits one = limits(1);
    struct err why = {0};
    s->child = exchange_start(s->command, s->folder, &one, START_SECONDS, hello, &why);
    char *how = strstr(why.msg, "is no child: "), *end = how ? strstr(how, " (expected a line") : NULL;
    if (end) /* of no use to anybody: the command, and what a child is */
        err_set(e, "what runs when %s is loaded ends it: %.*s", s->path, (int)(end - how) - 13, how + 13);
    else if (!s->child && why.code == EXIT_MISSING)
        err_missing(e, "%s", why.msg);
    else if (!s->child)
        err_set(e, "%s", why.msg);
    return s->child != NULL;
}

/* Makes the folder that of the student's code (rights.h). */
static bool give_away(const char *folder, struct err *e)
{
    uid_t own = LAB_FIRST_USER + (uid_t)getpid();
    return geteuid() != 0 || chown(folder, own, own) == 0 || chown(folder, LAB_NOBODY, LAB_NOBODY) == 0 ||
           err_missing(e, "%s: %s", folder, strerror(errno));
}

struct lab_session *lab_open(const char *path, const char *functions, double seconds, char **said,
                             struct err *e)
{
    *said = NULL;
    struct lab_session *s = xcalloc(1, sizeof *s);
    s->path = path;
    s->seconds = seconds;
    prctl(PR_SET_DUMPABLE, 0); /* no child of the same user may look into our memory */
    char *host = host_path(e), *program = text_quote(host ? host : "");
    json_t *hello = NULL;
    s->folder = host ? exchange_folder(true, e) : NULL;
    bool good = s->folder != NULL;
    good = good && give_away(s->folder, e) && bring(s, host, path, said, e);
    if (good)
        s->command = xasprintf("exec env -i PATH=\"$PATH\" LC_ALL=C %s %s/lab.so", program, s->folder);
    good = good && start(s, &hello, e) && has_all(hello, path, functions, e);
    json_decref(hello);
    free(host);
    free(program);
    if (good)
        return s;
    lab_close(s);
    return NULL;
}

void lab_close(struct lab_session *s)
{
    if (!s)
        return;
    process_stop(s->child);
    if (s->folder)
        exchange_remove(s->folder);
    free(s->folder);
    free(s->command);
    free(s);
}

/* What a question that was not answered is called. The filter of the host ends whoever starts a process. */
static enum run_end name_end(enum run_end end, struct err *why)
{
    if (end != RUN_CRASH || !strstr(why->msg, strsignal(SIGSYS)))
        return end;
    *why = (struct err){0};
    err_set(why, "it tried to start a process, to reach another one, or to open a connection");
    return RUN_PROCESSES;
}

const char *lab_end_name(enum run_end end)
{
    return end == LAB_UNASKED ? "UNASKED" : run_end_name[end];
}

void lab_part(struct lab_session *s, int32_t gate)
{
    CK(gate >= 0 && gate < MOST_PARTS);
    s->gate = gate;
}

/* Where its hangs are counted. */
static int32_t *hangs_of(struct lab_session *s, const char *point)
{
    int i = 0;
    while (s->function[i].name[0] && strcmp(s->function[i].name, point) != 0)
        CK(++i < MOST_FUNCTIONS);
    snprintf(s->function[i].name, sizeof s->function[i].name, "%s", point);
    return &s->function[i].hangs;
}

/* For answers that do not come. */
static double time_left(const struct lab_session *s)
{
    return LAB_ALL_LOST * s->seconds - s->lost;
}

/* Is there time for another question? Else *why says where it went. */
static bool may_ask(const struct lab_session *s, const char *point, int32_t hangs, struct err *why)
{
    if (hangs >= LAB_MOST_HANGS)
        return err_set(why, "not asked: lab_%s gave no answer in time before", point);
    if (s->crashes[s->gate] >= LAB_MOST_CRASHES)
        return err_set(why, "not asked: other questions of this gate had no answer");
    if (time_left(s) < s->seconds / 4)
        return err_set(why, "not asked: answers that did not come took %.1f s", s->lost);
    return s->spent <= LAB_ALL_ANSWERS * s->seconds ||
           err_set(why, "not asked: all answers together took %.1f s", s->spent);
}

/* What it said goes behind the sentence with the line breaks that it had. */
static void break_lines(struct process *p, struct err *why)
{
    static const char mark[] = "; it said: ";
    enum { LAST = 300 };
    char *at = strstr(why->msg, mark);
    if (!at)
        return;
    const char *log = process_log_lines(p);
    size_t n = strlen(log);
    at += strlen(mark);
    snprintf(at, sizeof why->msg - (size_t)(at - why->msg), "%s%s", n > LAST ? ".." : "",
             log + (n > LAST ? n - LAST : 0));
}

/* Asks the child, which runs. *sound: it may go on. */
static enum run_end ask(struct lab_session *s, const char *point, const char *numbers, double seconds,
                        const struct tensors *given, int64_t most, struct tensors *answer, bool *sound,
                        struct err *why)
{
    int64_t number = ++s->n_asked;
    char *in = xasprintf("%s/%" PRId64 ".in", s->folder, number),
         *out = xasprintf("%s/%" PRId64 ".out", s->folder, number),
         *line = xasprintf("{\"run\":%" PRId64 ",\"point\":\"%s\",\"in\":\"%s\",\"out\":\"%s\"%s}", number,
                           point, in, out, numbers);
    const struct exchange x = {line, number, in, out, given, seconds, NULL};
    enum run_end end = name_end(exchange_ask(s->child, &x, sound, why), why);
    if (end == RUN_ERROR && why->code == EXIT_MISSING)
        s->lacks = *why;
    if (!*sound)
        break_lines(s->child, why);
    struct err e = {0};
    if (end == RUN_DONE && !tensors_read(out, most, answer, &e)) {
        err_set(why, "it says that it is done, and its answer is not there");
        end = RUN_UNWRITTEN;
    }
    unlink(out);
    free(in);
    free(out);
    free(line);
    return end;
}

enum run_end lab_ask(struct lab_session *s, const char *point, const char *numbers,
                     const struct tensors *given, int64_t most, struct tensors *answer, struct err *why)
{
    json_t *hello = NULL;
    int32_t *hangs = hangs_of(s, point);
    *answer = (struct tensors){0};
    if (!may_ask(s, point, *hangs, why))
        return LAB_UNASKED;
    double began = now_s();
    if (!s->child && !start(s, &hello, why)) {
        s->crashes[s->gate]++;
        s->lost += now_s() - began;
        if (why->code == EXIT_MISSING)
            s->lacks = *why;
        return RUN_ERROR;
    }
    json_decref(hello);
    bool sound;
    double seconds = floor(10 * fmin(*hangs ? s->seconds / 2 : s->seconds, time_left(s))) / 10;
    enum run_end end = ask(s, point, numbers, seconds, given, most, answer, &sound, why);
    s->spent += now_s() - began;
    if (sound)
        return end;
    s->lost += now_s() - began;
    s->crashes[s->gate] += end == RUN_HANG ? LAB_MOST_CRASHES : 1;
    *hangs += end == RUN_HANG;
    process_stop(s->child);
    s->child = NULL;
    return end;
}

bool lab_lacks(const struct lab_session *s, struct err *e)
{
    return s->lacks.code && !err_missing(e, "%s", s->lacks.msg);
}
