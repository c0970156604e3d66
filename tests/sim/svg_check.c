#include "tests/sim/svg_check.h"

#include "ref/base.h"
#include "tests/suites.h"

#include <ctype.h>

/* ---- XML ------------------------------------------------------------------------------------------------ */

/* Replaces the five entities of XML in place. */
static void decode(char *s)
{
    static const char *const entity[] = {"&lt;", "&gt;", "&amp;", "&quot;", "&apos;"};
    char *to = s;
    while (*s) {
        int i = 0;
        while (*s == '&' && i < 5 && strncmp(s, entity[i], strlen(entity[i])) != 0)
            i++;
        check_each(*s != '&' || i < 5, "an ampersand that is no entity: %.40s", s);
        size_t read = *s == '&' ? strlen(entity[i]) : 1;
        *to++ = *s == '&' ? "<>&\"'"[i] : *s;
        s += read;
    }
    *to = 0;
}

/* name="value" with blanks before each, nothing else. */
static void check_attributes(const char *s)
{
    while (*s) {
        size_t blanks = strspn(s, " "), name = strcspn(s + blanks, "=");
        check_each(blanks > 0 && name > 0 && s[blanks + name + 1] == '"', "no attribute: %.40s", s);
        for (size_t i = 0; i < name; i++)
            check_each(isalnum((unsigned char)s[blanks + i]) || strchr("-:", s[blanks + i]), "no name: %.40s",
                       s);
        s += blanks + name + 2;
        size_t value = strcspn(s, "\"<");
        check_each(s[value] == '"', "a value without an end: %.40s", s);
        s += value + 1;
    }
}

/* What opens at `at`, behind its '<'; returns where it goes on. *closed: it has no content. */
static const char *read_tag(struct svg_read *r, const char *at, bool *closed)
{
    const char *end = strchr(at, '>');
    check_each(end, "a tag without an end: %.40s", at);
    *closed = end[-1] == '/';
    size_t name = strcspn(at, " />"), all = (size_t)(end - at) - *closed;
    r->at = xgrow(r->at, &r->cap, r->n + 1, sizeof *r->at);
    struct svg_element *e = &r->at[r->n++];
    *e = (struct svg_element){xasprintf("%.*s", (int)name, at),
                              xasprintf("%.*s", (int)(all - name), at + name), xstrdup("")};
    check_attributes(e->attributes);
    check_each(strcmp(e->name, "script") != 0 && !strstr(e->attributes, "href"), "a script or link: %.60s",
               at);
    return end + 1;
}

static void check_characters(const char *text)
{
    for (const unsigned char *c = (const unsigned char *)text; *c; c++)
        check_each(*c >= 0x20 || *c == '\n', "a control character: %d", *c);
}

enum { DEEPEST = 16 };

struct svg_read svg_read(const char *text)
{
    struct svg_read r = {0};
    int64_t open[DEEPEST];
    int depth = 0;
    check_characters(text);
    ck_assert(strncmp(text, "<svg ", 5) == 0);
    for (const char *at = text; *at;) {
        size_t n = strcspn(at, "<");
        if (depth > 0)
            xappend(&r.at[open[depth - 1]].text, "%.*s", (int)n, at);
        check_each(depth > 0 || strspn(at, "\n") == n, "text outside: %.40s", at);
        at += n;
        if (!*at)
            break;
        if (at[1] == '/') {
            const char *name = depth > 0 ? r.at[open[depth - 1]].name : "";
            check_each(depth > 0 && strncmp(at + 2, name, strlen(name)) == 0 && at[2 + strlen(name)] == '>',
                       "%s is closed by %.20s", name, at);
            at = strchr(at, '>') + 1;
            depth--;
            continue;
        }
        bool closed;
        check_each(depth > 0 || at == text, "a second root: %.40s", at);
        at = read_tag(&r, at + 1, &closed);
        if (!closed) {
            check_each(depth < DEEPEST, "nested too deep");
            open[depth++] = r.n - 1;
        }
    }
    ck_assert_int_eq(depth, 0);
    for (int64_t i = 0; i < r.n; i++)
        decode(r.at[i].text);
    return r;
}

void svg_read_clear(struct svg_read *r)
{
    for (int64_t i = 0; i < r->n; i++) {
        free(r->at[i].name);
        free(r->at[i].attributes);
        free(r->at[i].text);
    }
    free(r->at);
    *r = (struct svg_read){0};
}

const char *svg_attribute(const struct svg_element *e, const char *name)
{
    static char value[512];
    char *key = xasprintf(" %s=\"", name);
    const char *at = strstr(e->attributes, key);
    if (at)
        snprintf(value, sizeof value, "%.*s", (int)strcspn(at + strlen(key), "\""), at + strlen(key));
    free(key);
    return at ? value : NULL;
}

double svg_number(const struct svg_element *e, const char *name, double none)
{
    const char *value = svg_attribute(e, name);
    return value ? atof(value) : none;
}

int svg_is(const struct svg_element *e, const char *class)
{
    const char *value = svg_attribute(e, "class");
    return value && strcmp(value, class) == 0;
}

char *svg_texts(const struct svg_read *r)
{
    char *out = xstrdup("");
    for (int64_t i = 0; i < r->n; i++)
        if (strcmp(r->at[i].name, "text") == 0)
            xappend(&out, "%s\n", r->at[i].text);
    return out;
}

/* ---- text as it is seen ----------------------------------------------------------------------------------- */

/* Advance widths of DejaVu Sans and DejaVu Sans Bold, of which nearly no common font is wider: thousandths of the size, from
 * the blank on. */
static const int regular[] = {
    318, 401, 460, 838, 636, 950, 780, 275, 390, 390, 500, 838, 318, 361,  318, 337, 636, 636, 636,
    636, 636, 636, 636, 636, 636, 636, 337, 337, 838, 838, 838, 531, 1000, 684, 686, 698, 770, 632,
    575, 775, 752, 295, 295, 656, 557, 863, 748, 787, 603, 787, 695, 635,  611, 732, 684, 989, 685,
    611, 685, 390, 337, 390, 838, 500, 500, 613, 635, 550, 635, 615, 352,  635, 634, 278, 278, 579,
    278, 974, 634, 612, 635, 635, 411, 521, 392, 634, 592, 818, 592, 592,  525, 636, 337, 636, 838,
};
static const int bold[] = {
    348, 456,  521, 838, 696, 1002, 872, 306, 457, 457, 523, 838, 380, 415,  380, 365, 696, 696,  696,
    696, 696,  696, 696, 696, 696,  696, 400, 400, 838, 838, 838, 580, 1000, 774, 762, 734, 830,  683,
    683, 821,  837, 372, 372, 775,  637, 995, 837, 850, 733, 850, 770, 720,  682, 812, 774, 1103, 771,
    724, 725,  457, 365, 457, 838,  500, 500, 675, 716, 593, 716, 678, 435,  716, 712, 343, 343,  665,
    343, 1042, 712, 687, 716, 716,  493, 595, 478, 712, 652, 924, 645, 652,  582, 712, 365, 712,  838,
};
static const double ABOVE = 0.76, BELOW = 0.236; /* the base line */

static double width_of(const char *text, const int *table)
{
    double sum = 0;
    for (const unsigned char *c = (const unsigned char *)text; *c; c++)
        sum += *c >= 0x20 && *c < 0x7F ? table[*c - 0x20] : (*c & 0xC0) != 0x80 ? 1000 : 0;
    return sum / 1000;
}

struct box {
    double x0, x1, y0, y1;
    const char *text;
};

static struct box box_of(const struct svg_element *e)
{
    double size = svg_number(e, "font-size", 0), x = svg_number(e, "x", -1), y = svg_number(e, "y", -1);
    double wide = size * width_of(e->text, svg_attribute(e, "font-weight") ? bold : regular);
    const char *anchor = svg_attribute(e, "text-anchor");
    double left = !anchor ? x : strcmp(anchor, "middle") == 0 ? x - wide / 2 : x - wide;
    ck_assert(size >= 9 && (!anchor || strcmp(anchor, "middle") == 0 || strcmp(anchor, "end") == 0));
    return (struct box){left, left + wide, y - ABOVE * size, y + BELOW * size, e->text};
}

void svg_check_layout(const struct svg_read *r)
{
    double wide, high;
    ck_assert_int_eq(sscanf(svg_attribute(&r->at[0], "viewBox"), "0 0 %lf %lf", &wide, &high), 2);
    ck_assert_str_eq(svg_attribute(&r->at[0], "role"), "img");
    ck_assert(strcmp(r->at[1].name, "title") == 0 && r->at[1].text[0]);
    ck_assert(strcmp(r->at[2].name, "desc") == 0 && r->at[2].text[0]);
    struct box *box = xcalloc((size_t)r->n, sizeof *box);
    int64_t n = 0;
    for (int64_t i = 0; i < r->n; i++) {
        if (strcmp(r->at[i].name, "text") != 0)
            continue;
        struct box b = box_of(&r->at[i]);
        check_each(b.x0 >= 0 && b.x1 <= wide && b.y0 >= 0 && b.y1 <= high, "'%s' leaves the picture", b.text);
        for (int64_t k = 0; k < n; k++)
            check_each(b.x0 >= box[k].x1 || b.x1 <= box[k].x0 || b.y0 >= box[k].y1 || b.y1 <= box[k].y0,
                       "'%s' meets '%s'", b.text, box[k].text);
        box[n++] = b;
    }
    ck_assert_int_gt(n, 0);
    free(box);
}
