/* draw.c - lab 7: a student's plan in time, above that of treeattn. */
#include "verify/lab/beat/lab7.h"

#include "sim/draw/timeline_svg.h"

#include <stdlib.h>
#include <string.h>

static char *timeline(const struct plan *p)
{
    char *text = NULL;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    CK(f);
    struct time_model c = lab7_timeline(p);
    time_model_print_svg(f, &c, p, lab7_machine());
    time_model_free(&c);
    fclose(f);
    return text;
}

/* What follows the attribute in the first tag. */
static double attribute(const char *svg, const char *name)
{
    const char *at = strstr(svg, name);
    CK(at);
    return strtod(at + strlen(name), NULL);
}

/* What lies in the outermost element; without its patterns, where another picture has them already. */
static void put_inner(FILE *f, const char *svg, bool patterns)
{
    const char *begin = strchr(svg, '>') + 1, *end = strstr(begin, "</svg>"), *defs = strstr(begin, "<defs>"),
               *behind = defs ? strstr(defs, "</defs>") : NULL;
    if (!patterns && behind) {
        fwrite(begin, 1, (size_t)(defs - begin), f);
        begin = behind + strlen("</defs>");
    }
    fwrite(begin, 1, (size_t)(end - begin), f);
}

void lab7_draw(FILE *f, const struct plan *theirs, const struct plan *other)
{
    char *above = timeline(theirs), *below = timeline(other);
    double high = attribute(above, " height=\""), all = high + attribute(below, " height=\""),
           wide = attribute(above, " width=\"");
    fprintf(f,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %g %g\" width=\"%g\" height=\"%g\" "
            "style=\"max-width:100%%;height:auto\" role=\"img\" "
            "font-family=\"DejaVu Sans,Verdana,Helvetica,Arial,sans-serif\">\n<g>",
            wide, all, wide, all);
    put_inner(f, above, true);
    fprintf(f, "</g>\n<g transform=\"translate(0,%g)\">", high);
    put_inner(f, below, false);
    fputs("</g>\n</svg>\n", f);
    free(above);
    free(below);
}
