/* Where figures come from. */
#include "verify/io/origin.h"
#include "verify/io/text.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

const char *origin_commit(void)
{
    return TREEATTN_COMMIT; /* the Makefile says it, and compiles this file again when it is another */
}

char *origin_folder(void)
{
    char self[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    self[n > 0 ? n : 0] = 0;
    char *slash = strrchr(self, '/');
    if (slash)
        *slash = 0;
    return xstrdup(self);
}

char *origin_command(const char *name, int argc, char **argv)
{
    char *text = xasprintf("treeattn %s", name);
    for (int i = 1; i < argc; i++) {
        const char *mark = strpbrk(argv[i], "$`\\\"") ? "'" : strpbrk(argv[i], " ;*?|&()<>#'") ? "\"" : "";
        xappend(&text, " %s%s%s", mark, argv[i], mark);
    }
    for (char *c = text; *c; c++)
        if ((unsigned char)*c < ' ')
            *c = '?'; /* it is one line of a file, whatever the arguments */
    return text;
}

void origin_date(char out[ORIGIN_DATE])
{
    time_t now = time(NULL);
    struct tm utc;
    strftime(out, ORIGIN_DATE, "%Y-%m-%d %H:%M UTC", gmtime_r(&now, &utc));
}

/* "580.159.04" of the kernel module's own line, or "unknown". */
static void driver_version(char *out, size_t size)
{
    snprintf(out, size, "unknown");
    FILE *f = fopen("/proc/driver/nvidia/version", "r");
    char line[512] = "";
    if (f && fgets(line, sizeof line, f))
        for (char *rest = line, *word; (word = text_next(&rest, ' '));)
            if (word[0] >= '0' && word[0] <= '9' && strchr(word, '.')) {
                snprintf(out, size, "%s", word);
                break;
            }
    if (f)
        fclose(f);
}

char *origin_device(const struct cuda_caps *c)
{
    char driver[64];
    driver_version(driver, sizeof driver);
    return xasprintf("%s, driver %s (CUDA %d.%d), toolkit %d.%d", c->name, driver, c->driver / 1000,
                     c->driver % 1000 / 10, c->runtime / 1000, c->runtime % 1000 / 10);
}
