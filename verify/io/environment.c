#include "verify/io/environment.h"
#include "verify/io/origin.h"
#include "verify/io/text.h"

#include <ctype.h>
#include <gnu/libc-version.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

/* Takes the value; NULL is what is not known. */
static void set(json_t *to, const char *name, json_t *value)
{
    CK(json_object_set_new(to, name, value ? value : json_null()) == 0);
}

static json_t *text_or_null(const char *s)
{
    return s && s[0] ? json_string(s) : NULL; /* NULL as well where it is not UTF-8 */
}

/* A number of a file or of nvidia-smi; "N/A", "[Not Supported]" and the like are none. */
static json_t *number_or_null(const char *s)
{
    char *end;
    if (!s || !isdigit((unsigned char)s[0]))
        return NULL;
    double x = strtod(s, &end);
    return *end ? NULL : x == (double)(json_int_t)x ? json_integer((json_int_t)x) : json_real(x);
}

/* ---- files of the system ------------------------------------------------------------------------------- */

/* What stands behind `key` and `between` on the first line that begins with key, without quotes; of key "" the first
 * line. */
static bool line_of(const char *path, const char *key, const char *between, char *out, size_t size)
{
    FILE *f = fopen(path, "r");
    char line[1024];
    bool found = false;
    while (f && !found && fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = 0;
        const char *at = line + strlen(key);
        if (strncmp(line, key, strlen(key)) != 0)
            continue;
        at += strspn(at, between);
        snprintf(out, size, "%s", at);
        out[strcspn(out, "\"")] = 0;
        found = true;
    }
    if (f)
        fclose(f);
    return found;
}

static json_t *file_text(const char *path, const char *key, const char *between)
{
    char text[256];
    return line_of(path, key, between, text, sizeof text) ? text_or_null(text) : NULL;
}

static json_t *file_number(const char *path, double unit)
{
    char text[64];
    if (!line_of(path, "", "", text, sizeof text))
        return NULL;
    json_t *n = number_or_null(text);
    json_t *scaled = n ? json_real(json_number_value(n) * unit) : NULL;
    json_decref(n);
    return scaled;
}

/* Folders or files of that pattern, which has one %d, from 0 on. */
static int count_numbered(const char *pattern)
{
    char path[128];
    int n = 0;
    for (;; n++) {
        snprintf(path, sizeof path, pattern, n);
        if (access(path, F_OK) != 0)
            return n;
    }
}

/* ---- the card ------------------------------------------------------------------------------------------ */

/* A column of nvidia-smi, as text, or as a number, or as whether it is "Enabled". */
static const struct column {
    const char *name, *query;
    enum { AS_TEXT, AS_NUMBER, AS_SWITCH } as;
} columns[] = {
    {"name", "name", AS_TEXT},
    {"driver", "driver_version", AS_TEXT},
    {"vbios", "vbios_version", AS_TEXT},
    {"memory_mib", "memory.total", AS_NUMBER},
    {"sm_mhz_most", "clocks.max.sm", AS_NUMBER},
    {"memory_mhz_most", "clocks.max.mem", AS_NUMBER},
    {"sm_mhz_applications", "clocks.applications.graphics", AS_NUMBER},
    {"power_cap_w", "power.limit", AS_NUMBER},
    {"power_cap_w_default", "power.default_limit", AS_NUMBER},
    {"ecc", "ecc.mode.current", AS_SWITCH},
    {"persistence", "persistence_mode", AS_SWITCH},
    {"mig", "mig.mode.current", AS_SWITCH},
};
enum { N_COLUMNS = sizeof columns / sizeof columns[0] };

static json_t *cell(const struct column *c, const char *s)
{
    switch (c->as) {
    case AS_NUMBER:
        return number_or_null(s);
    case AS_SWITCH:
        return strcmp(s, "Enabled") == 0 ? json_true() : strcmp(s, "Disabled") == 0 ? json_false() : NULL;
    case AS_TEXT:
        break;
    }
    return s[0] == '[' || strcmp(s, "N/A") == 0 ? NULL : text_or_null(s);
}

/* The card that is the first to CUDA, as nvidia-smi's -i takes it. */
static const char *first_card(void)
{
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    size_t n = visible ? strcspn(visible, ",") : 0;
    static const char plain[] = "0123456789abcdefABCDEFGPUMIG-/";
    static char card[80];
    if (n == 0 || n >= sizeof card || strspn(visible, plain) < n)
        return "0";
    snprintf(card, sizeof card, "%.*s", (int)n, visible);
    return card;
}

static json_t *card(void)
{
    char *command = xstrdup("nvidia-smi --query-gpu="), line[1024] = "", *rest = line, *field;
    for (int i = 0; i < N_COLUMNS; i++)
        xappend(&command, "%s%s", i > 0 ? "," : "", columns[i].query);
    xappend(&command, " --format=csv,noheader,nounits -i %s 2>/dev/null", first_card());
    FILE *f = popen(command, "r");
    free(command);
    bool said = f && fgets(line, sizeof line, f);
    if (!f || pclose(f) != 0 || !said)
        return NULL;
    line[strcspn(line, "\n")] = 0;
    json_t *gpu = json_object();
    for (int i = 0; i < N_COLUMNS; i++) {
        field = text_next(&rest, ',');
        set(gpu, columns[i].name, field ? cell(&columns[i], field + strspn(field, " ")) : NULL);
    }
    return gpu;
}

/* ---- all of it ----------------------------------------------------------------------------------------- */

static json_t *program(void)
{
    json_t *x = json_object();
    set(x, "commit", text_or_null(origin_commit()));
#ifdef __clang__
    set(x, "compiler", json_string(__VERSION__)); /* "Debian Clang 14.0.6" */
#else
    set(x, "compiler", json_string("gcc " __VERSION__));
#endif
    set(x, "threads", json_integer(omp_get_max_threads()));
    return x;
}

static json_t *operating_system(void)
{
    struct utsname u;
    json_t *x = json_object();
    bool known = uname(&u) == 0;
    char *kernel = known ? xasprintf("%s %s", u.sysname, u.release) : NULL;
    set(x, "name", file_text("/etc/os-release", "PRETTY_NAME", "=\""));
    set(x, "kernel", text_or_null(kernel));
    set(x, "machine", text_or_null(known ? u.machine : NULL));
    set(x, "libc", json_string(gnu_get_libc_version()));
    free(kernel);
    return x;
}

static json_t *processor(void)
{
    json_t *x = json_object();
    long cores = sysconf(_SC_NPROCESSORS_ONLN), pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    int nodes = count_numbered("/sys/devices/system/node/node%d");
    set(x, "model", file_text("/proc/cpuinfo", "model name", "\t: "));
    set(x, "cores", cores > 0 ? json_integer(cores) : NULL);
    set(x, "numa_nodes", nodes > 0 ? json_integer(nodes) : NULL);
    set(x, "mhz_most", file_number("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq", 1e-3));
    set(x, "governor", file_text("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "", ""));
    set(x, "memory_mib",
        pages > 0 && page > 0 ? json_integer((json_int_t)((double)pages * (double)page / 0x1p20)) : NULL);
    return x;
}

json_t *environment(void)
{
    json_t *x = json_object();
    set(x, "version", json_integer(1));
    set(x, "treeattn", program());
    set(x, "system", operating_system());
    set(x, "cpu", processor());
    set(x, "gpu", card());
    return x;
}

json_t *environment_then(void)
{
    char date[ORIGIN_DATE];
    json_t *x = environment();
    origin_date(date);
    set(x, "date", json_string(date));
    return x;
}

char *environment_line(void)
{
    json_t *x = environment();
    char *line = json_dumps(x, JSON_COMPACT);
    CK(line);
    json_decref(x);
    return line;
}

char *environment_notes(const char *lead, const char *what, int argc, char **argv)
{
    char date[ORIGIN_DATE], *command = origin_command(argv[0], argc, argv), *machine = environment_line();
    origin_date(date);
    char *notes = xasprintf("%s%s\n%s%s%scommit %s, %s\n%senvironment %s\n", lead, command, lead, what ? what : "",
                            what ? ", " : "", origin_commit(), date, lead, machine);
    free(command);
    free(machine);
    return notes;
}
