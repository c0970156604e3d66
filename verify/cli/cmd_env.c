/* cmd_env.c - `treeattn env`: the machine that figures measured here come from. */
#include "verify/cli/cmd.h"
#include "verify/io/environment.h"

#include <stdlib.h>

enum env_form { ENV_TEXT, ENV_JSON };

static void print_text(FILE *f, const json_t *x)
{
    const char *section, *name;
    json_t *facts, *value;
    json_object_foreach((json_t *)x, section, facts)
    {
        if (json_is_null(facts))
            fprintf(f, "%s\n  none\n", section);
        if (!json_is_object(facts))
            continue;
        fprintf(f, "%s\n", section);
        json_object_foreach(facts, name, value)
        {
            char *text = json_dumps(value, JSON_ENCODE_ANY);
            CK(text);
            fprintf(f, "  %-20s %s\n", name,
                    json_is_null(value)     ? "unknown"
                    : json_is_string(value) ? json_string_value(value)
                                            : text);
            free(text);
        }
    }
}

int cmd_env(int argc, char **argv)
{
    struct err e = {0};
    struct outfile out;
    const char *path = NULL;
    unsigned form = ENV_TEXT;
    struct options o = {
        .about = "Prints the machine that measured figures come from: program, compiler, operating system, "
                 "processor, and the "
                 "card that CUDA takes first, with its clocks, power cap and ECC. Files of measured rows "
                 "have this in a line "
                 "that begins with `# environment`.",
        .examples = "env\n"
                    "env --json -o env.json",
        .details =
            "What is not known is null. The card is what nvidia-smi says of it; without one it is null."};
    const struct opt own[] = {
        HEADING("What is printed:"),
        SET("json", &form, ENV_JSON, "JSON"),
        TEXT("output", "FILE", &path, NULL,
             "write to FILE, which appears once it is complete; -: standard output", .letter = 'o'),
        {0},
    };
    options_add(&o, own);
    if (!options_parse(&o, argc, argv, &e) || !outfile_open(&out, path, &e))
        return cmd_error(&e);
    json_t *x = environment();
    if (form == ENV_JSON) {
        json_dumpf(x, out.f, JSON_INDENT(2));
        fputc('\n', out.f);
    } else {
        print_text(out.f, x);
    }
    json_decref(x);
    return outfile_close(&out, true, &e) ? EXIT_GOOD : cmd_error(&e);
}
