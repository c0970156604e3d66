#include "paper-figs/letters.h"
#include "ref/base.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST = ' ', WIDEST = 1000 };
/* Thousandths of the size, of ' ' to '~': the advance widths of DejaVu Sans 2.37. */
static const int16_t advance[] = {
    318,  401, 460, 838, 636, 950, 780, 275, 390, 390, 500, 838, 318, 361, 318, 337, /* to '/' */
    636,  636, 636, 636, 636, 636, 636, 636, 636, 636, 337, 337, 838, 838, 838, 531, /* to '?' */
    1000, 684, 686, 698, 770, 632, 575, 775, 752, 295, 295, 656, 557, 863, 748, 787, /* to 'O' */
    603,  787, 695, 635, 611, 732, 684, 989, 685, 611, 685, 390, 337, 390, 838, 500, /* to '_' */
    500,  613, 635, 550, 635, 615, 352, 635, 634, 278, 278, 579, 278, 974, 634, 612, /* to 'o' */
    635,  635, 411, 521, 392, 634, 592, 818, 592, 592, 525, 636, 337, 636, 838       /* to '~' */
};

/* Of the first n bytes. */
static double width_of(const char *text, size_t n, double size)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)text[i];
        if ((c & 0xC0) != 0x80) /* the first byte of a character */
            sum += c >= FIRST && c < FIRST + sizeof advance / sizeof advance[0] ? advance[c - FIRST] : WIDEST;
    }
    return sum * size / 1000;
}

double letters_width(const char *text, double size)
{
    return width_of(text, strlen(text), size);
}

/* Whether a word may be parted before byte i: behind a hyphen between letters, or where RelayAttention has its second half. */
static bool parts_at(const char *s, size_t i)
{
    unsigned char before = (unsigned char)s[i - 1], at = (unsigned char)s[i];
    return (before == '-' && i > 1 && isalpha((unsigned char)s[i - 2]) && isalpha(at)) ||
           (islower(before) && isupper(at));
}

/* Bytes of the word at s, which has n, that stand together: a part of it where all of it is too wide. */
static size_t part_of_word(const char *s, size_t n, double size, double width)
{
    size_t end = 0;
    if (width_of(s, n, size) <= width)
        return n;
    for (size_t i = 1; i < n; i++)
        if (parts_at(s, i) && (end == 0 || width_of(s, i, size) <= width))
            end = i;
    return end ? end : n;
}

char *letters_wrap(const char *text, double size, double width, int32_t *lines)
{
    size_t room = 2 * strlen(text) + 2, start = 0, at = 0;
    char *out = xcalloc(room, 1);
    int32_t n_lines = 1;
    bool glued = false; /* to what stands before it: the rest of a word */
    for (const char *s = text; *s;) {
        size_t word = strcspn(s, " "), n = part_of_word(s, word, size, width), blank = at > start && !glued;
        double wide = width_of(out + start, at - start, size) + (blank ? width_of(" ", 1, size) : 0) +
                      width_of(s, n, size);
        if (at > start && wide > width) {
            out[at++] = '\n';
            start = at;
            n_lines++;
        } else if (blank)
            out[at++] = ' ';
        memcpy(out + at, s, n);
        at += n;
        s += n;
        glued = n < word;
        while (*s == ' ')
            s++;
    }
    if (lines)
        *lines = n_lines;
    return out;
}

double letters_widest(const char *wrapped, double size)
{
    double most = 0;
    for (const char *s = wrapped; *s; s += s[strcspn(s, "\n")] ? strcspn(s, "\n") + 1 : strlen(s)) {
        double w = width_of(s, strcspn(s, "\n"), size);
        most = w > most ? w : most;
    }
    return most;
}
