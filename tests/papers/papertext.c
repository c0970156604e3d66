#include "tests/papers/papertext.h"
#include "ref/file.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool text_read(struct text *t, const char *path, struct err *e)
{
    size_t size;
    *t = (struct text){.all = file_slurp(path, 1 << 20, &size, e)};
    if (!t->all)
        return false;
    char *rest = t->all, *line;
    while ((line = strsep(&rest, "\n"))) {
        t->line = xgrow(t->line, &t->cap, t->n + 1, sizeof *t->line);
        t->line[t->n++] = line;
    }
    return true;
}

void text_free(struct text *t)
{
    free(t->all);
    free(t->line);
}

static const char *skip_markup(const char *line)
{
    return line + strspn(line, "#* ");
}

/* Whether a line is the caption of `place` ("Table 5"), or of anything for NULL. */
static bool is_caption(const char *line, const char *place)
{
    line = skip_markup(line);
    size_t kind = strncmp(line, "Table ", 6) == 0 ? 6 : strncmp(line, "Figure ", 7) == 0 ? 7 : 0;
    size_t number = kind ? strspn(line + kind, "0123456789") : 0;
    if (!number || !strchr(":.", line[kind + number]))
        return false;
    return !place || (strlen(place) == kind + number && strncmp(line, place, kind + number) == 0);
}

/* The id of a section's heading ("8.3", "A.7", "B") as its length, with *id where it begins; else 0. */
static size_t heading(const char *line, const char **id)
{
    if (strlen(line) > 100)
        return 0;
    line = skip_markup(line);
    if (strncmp(line, "Appendix ", 9) == 0)
        line += 9;
    size_t n = isupper((unsigned char)*line) ? 1 : strspn(line, "0123456789");
    while (n && line[n] == '.' && isdigit((unsigned char)line[n + 1]))
        n += 1 + strspn(line + n + 1, "0123456789");
    const char *title = line + n + (line[n] == '.');
    *id = line;
    return n && *title == ' ' && isupper((unsigned char)*skip_markup(title)) ? n : 0;
}

static bool is_abstract(const char *line)
{
    line = skip_markup(line);
    return strncasecmp(line, "abstract", 8) == 0 && strlen(line) < 16;
}

/* Lines [*begin, *end) of a section; the last heading of that id counts, the first may be a table of contents. */
static bool find_section(const struct text *t, const char *place, int64_t *begin, int64_t *end)
{
    const char *want = strchr(place, ' ') ? strchr(place, ' ') + 1 : NULL, *id;
    size_t length = want ? strcspn(want, ":") : 0;
    *begin = -1;
    for (int64_t i = 0; i < t->n; i++) {
        size_t n = heading(t->line[i], &id);
        if (want ? n && length == n && strncmp(id, want, n) == 0 : is_abstract(t->line[i]))
            *begin = i + 1;
    }
    if (*begin < 0)
        return false;
    for (*end = *begin; *end < t->n && !heading(t->line[*end], &id);)
        (*end)++;
    return true;
}

static int64_t find_caption(const struct text *t, const char *place)
{
    for (int64_t i = 0; i < t->n; i++)
        if (is_caption(t->line[i], place))
            return i;
    return -1;
}

enum { TIMES = 1 }; /* stands for a multiplication sign, however it was written */

/* LaTeX, markup and UTF-8 signs reduced to what tells numbers apart; the caller frees. */
static char *plain(const char *line)
{
    char *out = xmalloc(strlen(line) + 1), *o = out;
    while (*line) {
        if (strncmp(line, "\\times", 6) == 0) {
            *o++ = TIMES;
            line += 6;
        } else if (strncmp(line, "\u00d7", 2) == 0) {
            *o++ = TIMES;
            line += 2;
        } else if (strncmp(line, "\u2013", 3) == 0) {
            *o++ = '-';
            line += 3;
        } else if (strncmp(line, "\\text", 5) == 0) {
            line += 5;
        } else if (*line == '\\' && isalpha((unsigned char)line[1])) {
            *o++ = ' ';
            for (line++; isalpha((unsigned char)*line);)
                line++;
        } else if (strchr("\\${}*", *line)) {
            line++;
        } else {
            *o++ = *line++;
        }
    }
    *o = 0;
    return out;
}

/* The mark behind a number; the ends of a range share the last one's. */
static char mark_behind(const char *p)
{
    while ((*p == '-' || *p == '/') && isdigit((unsigned char)p[1]))
        p = past_number(p + 1);
    if (*p == '%')
        return '%';
    if ((*p == 'x' || *p == 'k' || *p == 'K') && !isalnum((unsigned char)p[1]))
        return *p == 'x' ? 'x' : 'k';
    p += strspn(p, " ");
    return *p == TIMES ? 'x' : 0;
}

void numbers_in(const char *place, struct numbers *out)
{
    char *text = plain(place);
    for (const char *p = text; *p;) {
        if (isalpha((unsigned char)*p) || *p == '_') {
            while (isalnum((unsigned char)*p) || *p == '_' || (*p == '.' && isdigit((unsigned char)p[1])))
                p++; /* a name such as A100, Qwen3 or v0.9.0 */
            continue;
        }
        const char *end = past_number(p);
        if (end == p) {
            p++;
            continue;
        }
        struct number x = {0};
        size_t n = 0;
        for (const char *from = p;;) { /* 38,315 */
            for (; from < end && n + 1 < sizeof x.digits; from++)
                x.digits[n++] = *from;
            if (*end != ',' || strspn(end + 1, "0123456789") != 3)
                break;
            from = end + 1;
            end = past_number(from);
        }
        x.mark = mark_behind(end);
        out->v = xgrow(out->v, &out->cap, out->n + 1, sizeof *out->v);
        out->v[out->n++] = x;
        for (p = end; isalpha((unsigned char)*p); p++) /* 16K, 80GB */
            ;
    }
    free(text);
}

/* Append a line to a string that grows. */
static void append(char **all, const char *line)
{
    char *longer = xasprintf("%s%s\n", *all, line);
    free(*all);
    *all = longer;
}

char *text_place(const struct text *t, const char *place, struct err *e)
{
    int64_t begin, end;
    char *out = xstrdup("");
    if (place[0] == 'T' || place[0] == 'F') {
        begin = find_caption(t, place);
        for (end = begin; end >= 0 && end < t->n && *t->line[end];)
            end++;
        while (begin > 0 && *t->line[begin - 1])
            begin--;
        for (; begin < end; begin++)
            append(&out, t->line[begin]);
    } else if (find_section(t, place, &begin, &end)) {
        const char *head = strchr(place, ':') ? strchr(place, ':') + 2 : "";
        for (; begin < end; begin++)
            if (!strchr(t->line[begin], '\t') && !is_caption(t->line[begin], NULL) &&
                strncmp(skip_markup(t->line[begin]), head, strlen(head)) == 0)
                append(&out, t->line[begin]);
    }
    if (*out)
        return out;
    free(out);
    err_set(e, "no %s", place);
    return NULL;
}

/* ---- printed tables --------------------------------------------------------------------------------- */

/* Drop tags, dollars and blanks at the ends, in place. */
static char *clean(char *cell)
{
    char *o = cell, *in = cell;
    while (*in) {
        if (*in == '<' && strchr(in, '>'))
            in = strchr(in, '>') + 1;
        else if (*in == '$' || (*in == '\\' && in[1] == '%'))
            in++;
        else
            *o++ = *in++;
    }
    *o = 0;
    cell += strspn(cell, " ");
    while (*cell && cell[strlen(cell) - 1] == ' ')
        cell[strlen(cell) - 1] = 0;
    return cell;
}

static void copy_digits(char *to, const char *from, const char *end)
{
    snprintf(to, 24, "%.*s", (int)(end - from), from);
}

/* \mathcal{O}(coefficient term) of DeFT's Table 12. */
static bool parse_term(const char *c, struct printed *out)
{
    static const char *const terms[][2] = {
        {"d_{head}\\sum_{i=1}^lN_i)", "d_head*sum(N_i)"},
        {"\\sum_{i=1}^lN_i)", "sum(N_i)"},
        {"d_{head}N_{tree})", "d_head*N_tree"},
        {"l_nN_{tree})", "l_n*N_tree"},
        {"l_nN_{tree}/64)", "l_n*N_tree/64"},
        {"d_{head}N_{tree}l_n)", "d_head*N_tree*l_n"},
        {"N_{tree})", "N_tree"},
    };
    static const char big_o[] = "\\mathcal{O}(";
    if (strncmp(c, big_o, strlen(big_o)) != 0)
        return false;
    c += strlen(big_o);
    const char *end = past_number(c);
    copy_digits(out->value, end > c ? c : "1", end > c ? end : c + 1);
    char term[64] = "";
    for (size_t n = 0; *end && n + 1 < sizeof term; end++)
        if (*end != ' ')
            term[n++] = *end;
    for (size_t i = 0; i < sizeof terms / sizeof terms[0]; i++)
        if (strcmp(term, terms[i][0]) == 0)
            out->unit = terms[i][1];
    return out->unit;
}

/* How many values a cell holds (0, 1, or 2 for A/B), in out[0..1]; labels untouched. */
static int parse_cell(const char *c, struct printed out[2])
{
    out[0] = out[1] = (struct printed){0};
    if (strcmp(c, "*") == 0 || strcmp(c, "X") == 0) {
        copy_digits(out->value, "oom", "oom" + 3);
        return 1;
    }
    if (strcmp(c, "-") == 0) {
        copy_digits(out->value, "none", "none" + 4);
        return 1;
    }
    const char *end = past_number(c), *exponent = "\\times 10^{", *spread = "\u00b1 ";
    if (end == c)
        return parse_term(c, out);
    copy_digits(out->value, c, end);
    if (strcmp(end, "\u00d7") == 0 || strcmp(end, "x") == 0)
        out->mark = 'x';
    else if (strcmp(end, "%") == 0)
        out->mark = '%';
    else if (*end == '/') {
        const char *last = past_number(end + 1);
        copy_digits(out[1].value, end + 1, last);
        return *last == 0 && last > end + 1 ? 2 : 0;
    } else if (*end == ' ' && strncmp(end + 1, exponent, strlen(exponent)) == 0) {
        char *tail;
        long power = strtol(end + 1 + strlen(exponent), &tail, 10);
        size_t n = strlen(out->value);
        snprintf(out->value + n, sizeof out->value - n, "e%ld", power);
        return strcmp(tail, "}") == 0;
    } else if (*end == ' ' && strncmp(end + 1, spread, strlen(spread)) == 0) {
        const char *from = end + 1 + strlen(spread), *last = past_number(from);
        copy_digits(out->spread, from, last);
        return *last == 0 && last > from;
    } else if (*end) {
        return 0;
    }
    return 1;
}

enum { MAX_CELLS = 24 };
struct line {
    char *cell[MAX_CELLS];
    int n;
};

/* Cells of a line; one whose tabs were lost (label, then values parted by blanks) is cut as well. */
static bool cut_line(char *own, struct line *out)
{
    *out = (struct line){0};
    for (char *c; (c = strsep(&own, "\t"));) {
        if (out->n == MAX_CELLS)
            return false;
        out->cell[out->n++] = clean(c);
    }
    for (int i = 1; i < out->n; i++)
        if (*out->cell[i])
            return true;
    struct printed value[2];
    char *first = out->cell[0], *blank;
    out->n = 1;
    while ((blank = strrchr(first, ' ')) && parse_cell(blank + 1, value) && out->n < MAX_CELLS) {
        *blank = 0;
        memmove(&out->cell[2], &out->cell[1], (size_t)(out->n - 1) * sizeof out->cell[0]);
        out->cell[1] = blank + 1;
        out->n++;
    }
    return true;
}

/* The block of lines with tabs that belongs to a caption. */
static bool find_block(const struct text *t, const struct paper *p, const char *place, int64_t *begin,
                       int64_t *end)
{
    int64_t step = p->captions_below ? -1 : 1, at = find_caption(t, place);
    if (at < 0)
        return false;
    for (at += step; at >= 0 && at < t->n && !strchr(t->line[at], '\t'); at += step)
        if (is_caption(t->line[at], NULL))
            return false;
    *begin = *end = at;
    while (*begin > 0 && strchr(t->line[*begin - 1], '\t'))
        (*begin)--;
    while (*end < t->n && strchr(t->line[*end], '\t'))
        (*end)++;
    return true;
}

static bool has_value(const struct line *l, int labels)
{
    struct printed value[2];
    for (int c = labels; c < l->n; c++)
        if (parse_cell(l->cell[c], value))
            return true;
    return false;
}

bool printed_read(const struct text *t, const struct paper *p, const char *place, const char *layout,
                  struct printed_table *out, struct err *e)
{
    int64_t begin, end;
    bool groups = strncmp(layout, "groups ", 7) == 0, pairs = strncmp(layout, "pairs ", 6) == 0;
    int labels = atoi(strrchr(layout, ' ') ? strrchr(layout, ' ') + 1 : "");
    if (labels < 1 || labels + 2 > MAX_LABELS || (!groups && !pairs && strncmp(layout, "rows ", 5) != 0))
        return err_set(e, "layout '%s' (expected rows L, pairs L or groups L)", layout);
    if (!find_block(t, p, place, &begin, &end))
        return err_set(e, "no table at %s", place);
    struct line first = {0}, heads = {0}, line;
    char *carried[MAX_LABELS] = {0};
    int64_t row = 0; /* where the last row of values begins */
    for (int64_t i = begin; i < end; i++) {
        out->own = xgrow(out->own, &out->cap_own, out->n_own + 1, sizeof *out->own);
        out->own[out->n_own++] = xstrdup(t->line[i]);
        if (!cut_line(out->own[out->n_own - 1], &line))
            return err_set(e, "%s: a line has over %d cells", place, MAX_CELLS);
        if (groups && line.n > 1 && strcmp(line.cell[1], "\u00b1") == 0)
            continue;
        if (!has_value(&line, labels)) {
            if (i == begin)
                first = line;
            heads = line;
            continue;
        }
        if (groups && !*line.cell[0]) { /* the spreads of the row before; what ran out of memory has none */
            for (int c = 1; c < line.n && row + c - 1 < out->n; c++)
                if (past_number(line.cell[c]) > line.cell[c] && !is_marker(out->v[row + c - 1].value))
                    copy_digits(out->v[row + c - 1].spread, line.cell[c],
                                line.cell[c] + strlen(line.cell[c]));
            continue;
        }
        row = out->n;
        bool empty = true; /* a label that is missing is the one above, unless one to its left is new */
        for (int c = 0; c < labels; c++) {
            empty = empty && !*line.cell[c];
            if (!empty)
                carried[c] = line.cell[c];
        }
        char *group = NULL;
        for (int c = labels; c < line.n; c++) {
            struct printed value[2];
            int n = parse_cell(line.cell[c], value);
            if (!n)
                return err_set(e, "%s: '%s' is no value", place, line.cell[c]);
            if (pairs && n == 1)
                value[n++] = value[0];
            if (groups && c < first.n && *first.cell[c])
                group = first.cell[c];
            for (int k = 0; k < n; k++) {
                int at = 0;
                for (int l = 0; l < labels; l++)
                    if (carried[l] && *carried[l])
                        value[k].label[at++] = carried[l];
                if (c < heads.n)
                    value[k].label[at++] = heads.cell[c];
                if (group)
                    value[k].label[at++] = group;
                out->v = xgrow(out->v, &out->cap, out->n + 1, sizeof *out->v);
                out->v[out->n++] = value[k];
            }
        }
    }
    return out->n > 0 || err_set(e, "%s: no values", place);
}

void printed_free(struct printed_table *g)
{
    for (int64_t i = 0; i < g->n_own; i++)
        free(g->own[i]);
    free(g->own);
    free(g->v);
}
