/*
 * check_environment.c - `treeattn env`, and that files of measured rows have it: what is known of the machine, of a card that a stand-in
 * for nvidia-smi describes, and null for the rest.
 */
#include "tests/auto.h"
#include "tests/shared.h"
#include "tests/suites.h"

#include <jansson.h>
#include <sys/stat.h>

enum { SIZE = 1 << 16 };

/* `treeattn env --json` where nvidia-smi is this shell script; the caller's. */
static json_t *environment_with(const char *smi, const char *variables)
{
    char *folder = scratch_folder(), *path = xasprintf("%s/nvidia-smi", folder), *out = xmalloc(SIZE);
    write_bytes(path, smi, strlen(smi));
    ck_assert_int_eq(chmod(path, 0755), 0);
    ck_assert_int_eq(
        run_shell(out, SIZE, "PATH='%s':$PATH %s %s env --json", folder, variables, program_path()), 0);
    json_t *x = json_loads(out, 0, NULL);
    ck_assert_msg(json_is_object(x), "%s", out);
    free(folder);
    free(path);
    free(out);
    return x;
}

static const json_t *fact(const json_t *x, const char *section, const char *name)
{
    const json_t *found = json_object_get(json_object_get(x, section), name);
    ck_assert_msg(found, "%s.%s", section, name);
    return found;
}

TEST(an_environment_says_what_is_known)
{
    if (!program_built())
        return;
    json_t *x = environment_with("#!/bin/sh\n"
                                 "case \"$*\" in *' -i 3') ;; *) exit 1 ;; esac\n"
                                 "echo 'NVIDIA H200, 580.159.04, [N/A], 143771, 1980, 3201, [N/A], "
                                 "650.00, 700.50, Enabled, Disabled, [N/A]'\n",
                                 "CUDA_VISIBLE_DEVICES=3,1");
    ck_assert_str_eq(json_string_value(fact(x, "gpu", "name")), "NVIDIA H200");
    ck_assert_str_eq(json_string_value(fact(x, "gpu", "driver")), "580.159.04");
    ck_assert_int_eq(json_integer_value(fact(x, "gpu", "memory_mib")), 143771);
    ck_assert_int_eq(json_integer_value(fact(x, "gpu", "sm_mhz_most")), 1980);
    ck_assert_int_eq(json_integer_value(fact(x, "gpu", "power_cap_w")), 650);
    ck_assert(json_real_value(fact(x, "gpu", "power_cap_w_default")) == 700.5);
    ck_assert(json_is_null(fact(x, "gpu", "sm_mhz_applications")));
    ck_assert(json_is_null(fact(x, "gpu", "vbios")));
    ck_assert(json_is_true(fact(x, "gpu", "ecc")));
    ck_assert(json_is_false(fact(x, "gpu", "persistence")));
    ck_assert(json_is_null(fact(x, "gpu", "mig")));
    ck_assert_int_gt(json_integer_value(fact(x, "cpu", "cores")), 0);
    ck_assert_int_gt(json_integer_value(fact(x, "cpu", "memory_mib")), 0);
    ck_assert(strncmp(json_string_value(fact(x, "system", "kernel")), "Linux ", 6) == 0);
    ck_assert(json_is_string(fact(x, "treeattn", "compiler")));
    json_decref(x);
}

TEST(a_machine_without_a_card_has_none)
{
    if (!program_built())
        return;
    static const char *const smi[] = {"#!/bin/sh\nexit 9\n", "#!/bin/sh\nexit 0\n",
                                      "#!/bin/sh\necho 'NVIDIA H200'; exit 6\n"};
    for (size_t i = 0; i < sizeof smi / sizeof smi[0]; i++) {
        json_t *x = environment_with(smi[i], "");
        ck_assert(json_is_null(json_object_get(x, "gpu")));
        json_decref(x);
    }
}

/* The command, where and when, and the machine stand above what each of these measures; rows of JSON have it in their first line. */
TEST(files_of_rows_say_the_machine)
{
    static const char of_case[] = "--kernel cpu --case 'tree=gen:bushy:3;strategy=pat'";
    FREED char *d = scratch_folder(), *verify = xasprintf("verify %s --csv", of_case),
               *report = xasprintf("verify -q %s --report %s/r.csv >/dev/null && cat %s/r.csv", of_case, d, d),
               *rows = xasprintf("verify -q %s --rows %s/rows >/dev/null && "
                                 "sed -n '1s/.*\"environment\":\\(.*\\)}$/# environment \\1/p' %s/rows", of_case, d, d);
    const char *const commands[] = {
        "replay --machine h200 --workload few-shot-20 --strategy pat --csv --every 200",
        "decode --decoder cpu --llm tiny --strategy pat --steps 1 --csv "
        "--trace deft:tests/fuzz/corpus/deft/reasoning",
        "bench-cpu --reps 1 --head-dim 8 --csv",
        "bench-plan --reps 1 --strategy tree-medusa --csv",
        verify,
        report,
        rows,
    };
    static const char mark[] = "# environment ";
    FREED char *out = xmalloc(SIZE);
    for (size_t i = 0; program_built() && i < sizeof commands / sizeof commands[0]; i++) {
        ck_assert_int_eq(run_shell(out, SIZE, "%s %s 2>/dev/null", program_path(), commands[i]), 0);
        char *line = strstr(out, mark), *end = line ? strchr(line, '\n') : NULL;
        ck_assert_msg(end, "%s: %s", commands[i], out);
        *end = 0;
        json_t *x = json_loads(line + strlen(mark), 0, NULL);
        ck_assert_msg(x, "%s: %s", commands[i], line);
        ck_assert(json_is_string(fact(x, "cpu", "model")) && json_object_get(x, "gpu"));
        json_decref(x);
        *line = 0;
        ck_assert_msg(commands[i] == rows || (strstr(out, "treeattn ") && strstr(out, "commit ") && strstr(out, " UTC")),
                      "%s: %s", commands[i], out);
        ck_assert_msg(commands[i] == rows || (end[1] && end[1] != '#'), "%s: no heading below its notes", commands[i]);
    }
}
