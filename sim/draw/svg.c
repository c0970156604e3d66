#include "sim/draw/svg.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define FONT "DejaVu Sans,Verdana,Helvetica,Arial,sans-serif"
static const double ASCENT = 0.8, DESCENT = 0.25, LINE = 1.4; /* of a font's size */

/* Of Okabe and Ito, apart for all common kinds of colour blindness. */
static const char *const colours[] = {"#56B4E9", "#0072B2", "#F0E442", "#009E73",
                                      "#E69F00", "#D55E00", "#CC79A7"};

const char *svg_colour(int64_t i)
{
    return colours[i % (int64_t)(sizeof colours / sizeof colours[0])];
}

/* ---- text as XML ---------------------------------------------------------------------------------------- */

/* Bytes of the UTF-8 character at s, if XML may have it; 0: none. */
static int utf8_bytes(const unsigned char *s)
{
    int n = s[0] < 0x80 ? 1 : s[0] >= 0xC2 && s[0] < 0xE0 ? 2 : s[0] >= 0xE0 && s[0] < 0xF0 ? 3 : 4;
    uint32_t code = n == 1 ? s[0] : s[0] & (0xFFu >> (n + 1));
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    if (s[0] > 0xF4 || (s[0] >= 0x80 && s[0] < 0xC2))
        return 0;
    for (int i = 1; i < n; i++) {
        if ((s[i] & 0xC0) != 0x80)
            return 0;
        code = code << 6 | (s[i] & 0x3Fu);
    }
    bool fits = code >= least[n] && code <= 0x10FFFF && !(code >= 0xD800 && code < 0xE000);
    return fits && code >= 0x20 && code != 0x7F && (code & 0xFFFE) != 0xFFFE ? n : 0;
}

/* What stands for a character that XML has other uses for; NULL: itself. */
static const char *entity_of(char c)
{
    switch (c) {
    case '<':
        return "&lt;";
    case '>':
        return "&gt;";
    case '&':
        return "&amp;";
    case '"':
        return "&quot;";
    default:
        return NULL;
    }
}

void svg_put_text(FILE *f, const char *text)
{
    for (const char *s = text; *s;) {
        int n = utf8_bytes((const unsigned char *)s);
        const char *entity = entity_of(*s);
        if (entity || n == 0)
            fputs(entity ? entity : "?", f);
        else
            fwrite(s, 1, (size_t)n, f);
        s += n > 0 ? n : 1;
    }
}

/* To a hundredth: what lies closer is the same to the eye. */
static double rounded(double x)
{
    return round(100 * x) / 100;
}

/* ---- the frame ------------------------------------------------------------------------------------------ */

static const char patterns[] =
    "<defs>"
    "<pattern id=\"padding\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\">"
    "<rect width=\"6\" height=\"6\" fill=\"#FFFFFF\"/>"
    "<path d=\"M-1,7 L7,-1 M-1,1 L1,-1 M5,7 L7,5\" stroke=\"#777777\" stroke-width=\"1\"/></pattern>"
    "<pattern id=\"hidden\" width=\"5\" height=\"5\" patternUnits=\"userSpaceOnUse\">"
    "<rect width=\"5\" height=\"5\" fill=\"#C8C8C8\"/><circle cx=\"2.5\" cy=\"2.5\" r=\"1\" "
    "fill=\"#222222\"/></pattern>"
    "<pattern id=\"wrong\" width=\"8\" height=\"8\" patternUnits=\"userSpaceOnUse\">"
    "<path d=\"M-1,9 L9,-1 M-1,-1 L9,9\" stroke=\"#FFFFFF\" stroke-width=\"3.4\"/>"
    "<path d=\"M-1,9 L9,-1 M-1,-1 L9,9\" stroke=\"" SVG_RED "\" stroke-width=\"1.6\"/></pattern>"
    "</defs>\n";

void svg_begin(struct svg *s)
{
    s->f = open_memstream(&s->text, &s->size);
    CK(s->f);
}

void svg_end(struct svg *s, FILE *out, double height, const char *title, const char *words)
{
    CK(fclose(s->f) == 0);
    fprintf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %g\" width=\"%d\" height=\"%g\" "
            "style=\"max-width:100%%;height:auto\" role=\"img\" font-family=\"" FONT "\">\n<title>",
            SVG_WIDTH, ceil(height), SVG_WIDTH, ceil(height));
    svg_put_text(out, title);
    fputs("</title>\n<desc>", out);
    svg_put_text(out, words);
    fprintf(out, "</desc>\n%s<rect width=\"%d\" height=\"%g\" fill=\"#FFFFFF\"/>\n", patterns, SVG_WIDTH,
            ceil(height));
    fwrite(s->text, 1, s->size, out);
    fputs("</svg>\n", out);
    free(s->text);
    free(s->taken);
    *s = (struct svg){0};
}

/* ---- shapes --------------------------------------------------------------------------------------------- */

void svg_rect(struct svg *s, struct svg_box b, const char *fill, const char *more, const char *told)
{
    fprintf(s->f, "<rect x=\"%.10g\" y=\"%.10g\" width=\"%.10g\" height=\"%.10g\" fill=\"%s\"%s%s",
            rounded(b.x), rounded(b.y), rounded(b.w), rounded(b.h), fill, more[0] ? " " : "", more);
    if (told) {
        fputs("><title>", s->f);
        svg_put_text(s->f, told);
        fputs("</title></rect>\n", s->f);
    } else {
        fputs("/>\n", s->f);
    }
}

void svg_line(struct svg *s, double x0, double y0, double x1, double y1, const char *more)
{
    fprintf(s->f, "<line x1=\"%.10g\" y1=\"%.10g\" x2=\"%.10g\" y2=\"%.10g\" %s/>\n", rounded(x0),
            rounded(y0), rounded(x1), rounded(y1), more);
}

/* ---- text ----------------------------------------------------------------------------------------------- */

/* Of the font's size, at least what DejaVu Sans has. */
static double character_width(unsigned char c)
{
    return c >= 0x80                             ? 1
           : strchr(" .,:;'|!()[]-/`ijlIftr", c) ? 0.42
           : strchr("mwMW%@#+<=>~^&", c)         ? 1
           : c >= 'A' && c <= 'Z'                ? 0.79
                                                 : 0.64;
}

double svg_text_width(const struct svg_font *font, const char *text)
{
    double sum = 0;
    for (const char *c = text; *c; c++)
        if (((unsigned char)*c & 0xC0) != 0x80) /* the first byte of a character */
            sum += character_width((unsigned char)*c);
    return sum * font->size * (font->bold ? 1.13 : 1);
}

struct svg_box svg_text_box(double x, double y, const struct svg_font *font, const char *text)
{
    double w = svg_text_width(font, text);
    double left = font->anchor == SVG_START ? x : font->anchor == SVG_MIDDLE ? x - w / 2 : x - w;
    return (struct svg_box){left, y - ASCENT * font->size, w, (ASCENT + DESCENT) * font->size};
}

static bool boxes_meet(const struct svg_box *a, const struct svg_box *b)
{
    return a->x < b->x + b->w && b->x < a->x + a->w && a->y < b->y + b->h && b->y < a->y + a->h;
}

void svg_text(struct svg *s, double x, double y, const struct svg_font *font, const char *text)
{
    static const char *const anchor[] = {"start", "middle", "end"};
    if (!text[0])
        return;
    s->taken = xgrow(s->taken, &s->cap_taken, s->n_taken + 1, sizeof *s->taken);
    s->taken[s->n_taken] = svg_text_box(x, y, font, text);
    if (font->plate)
        svg_rect(s, s->taken[s->n_taken], "#FFFFFF", "fill-opacity=\"0.8\"", NULL);
    s->n_taken++;
    fprintf(s->f, "<text x=\"%.10g\" y=\"%.10g\" font-size=\"%.10g\"", rounded(x), rounded(y), font->size);
    if (font->anchor != SVG_START)
        fprintf(s->f, " text-anchor=\"%s\"", anchor[font->anchor]);
    if (font->bold)
        fputs(" font-weight=\"bold\"", s->f);
    if (font->colour)
        fprintf(s->f, " fill=\"%s\"", font->colour);
    if (font->halo)
        fputs(" stroke=\"#FFFFFF\" stroke-width=\"2\" paint-order=\"stroke\"", s->f);
    fputs(">", s->f);
    svg_put_text(s->f, text);
    fputs("</text>\n", s->f);
}

bool svg_text_if_free(struct svg *s, double x, double y, const struct svg_font *font,
                      const struct svg_box *in, const char *text)
{
    struct svg_box b = svg_text_box(x, y, font, text);
    if (in && (b.x < in->x || b.y < in->y || b.x + b.w > in->x + in->w || b.y + b.h > in->y + in->h))
        return false;
    for (int64_t i = 0; i < s->n_taken; i++)
        if (boxes_meet(&b, &s->taken[i]))
            return false;
    svg_text(s, x, y, font, text);
    return true;
}

/* Bytes of the first line of `text`: up to a blank, to behind a comma, or within a word that is longer than the line. */
static size_t line_length(const char *text, double width, const struct svg_font *font)
{
    double sum = 0;
    size_t end = 0, i = 0;
    for (; text[i]; i++) {
        bool first = ((unsigned char)text[i] & 0xC0) != 0x80;
        char one[2] = {text[i], 0};
        sum += first ? svg_text_width(font, one) : 0;
        end = text[i] == ' ' || (i > 0 && text[i - 1] == ',') ? i : end;
        if (sum > width && i > 0 && first)
            return end > 0 ? end : i;
    }
    return i;
}

double svg_paragraph(struct svg *s, double x, double y, double width, const struct svg_font *font,
                     const char *text)
{
    while (*text == ' ')
        text++;
    while (*text) {
        size_t n = line_length(text, width, font);
        char *line = xasprintf("%.*s", (int)n, text);
        svg_text(s, x, y, font, line);
        free(line);
        y += LINE * font->size;
        for (text += n; *text == ' '; text++)
            continue;
    }
    return y;
}

double svg_title(struct svg *s, const char *text, const char *strategy)
{
    static const struct svg_font font = {.size = 18, .bold = true};
    const char *colour = svg_strategy_colour(strategy);
    double x = SVG_MARGIN, y = 34;
    if (colour) {
        svg_rect(s, (struct svg_box){x, y - 14, 15, 15}, colour, "stroke=\"#000000\" stroke-width=\"0.6\"",
                 NULL);
        x += 24;
    }
    return svg_paragraph(s, x, y, SVG_WIDTH - SVG_MARGIN - x, &font, text);
}
