/*
 * check_child.c - kernels outside: every view says the whole case, and a child may do what it likes: the run ends with a
 * verdict of its own, and nothing of it is left.
 */
#include "kernels/kernel.h"
#include "sim/strategy.h"
#include "verify/child/views.h"

#include "tests/auto.h"
#include "tests/shared.h"
#include "tests/sim/svg_check.h"
#include "tests/suites.h"

#include <dirent.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

static char text[1 << 16];

/* What verify prints, with these variables set, in `text`; its exit code. */
static int verify(const char *env, const char *args)
{
    return run_shell(text, sizeof text, "%s %s verify %s --no-shrink 2>&1", env, program_path(), args);
}

static int64_t total(const char *word)
{
    const char *line = strstr(text, "\nverify: ");
    const char *at = line ? strstr(line, word) : NULL;
    ck_assert_msg(at != NULL, "no totals: %s", text);
    while (at[-1] == ' ')
        at--;
    while (at[-1] >= '0' && at[-1] <= '9')
        at--;
    return strtoll(at, NULL, 10);
}

/* Folders of judges that are gone: treeattn-child.PID.xxxxxx. Another judge may be at work on this machine, or ending. */
static int64_t left_behind(void)
{
    int64_t n = 1;
    for (int tries = 0; n > 0 && tries < 20; tries++) {
        if (tries > 0)
            usleep(100000);
        DIR *d = opendir("/dev/shm");
        int pid;
        n = 0;
        for (struct dirent *f; d && (f = readdir(d));)
            n += sscanf(f->d_name, "treeattn-child.%d.", &pid) == 1 && kill(pid, 0) != 0;
        if (d)
            closedir(d);
    }
    return n;
}

/* Is it told? "CODE: words" are a cell of a row, and words in another. */
static bool tells(const char *told)
{
    const char *words = strstr(told, ": ");
    FREED char *code = words ? xasprintf("\t%.*s\t", (int)(words - told), told) : xstrdup(told);
    return strstr(text, code) && (!words || strstr(text, words + 2));
}

/* Every view, in every type: right answers pass. Pages of one token are lossless in all of them. */
LOOP_TEST(every_view_says_the_whole_case, N_VIEWS)
{
    if (getenv("TREEATTN_QUICK") && _i % 2)
        return;
    FREED char *env = xasprintf("PLUGIN_VIEW=%s", view_name[_i]),
               *args = xasprintf("--plugin %s --trees %d --seed 5 --no-sharp --page 1 -q%s", plugin_path("plugin"),
                                 (int)fewer(4, 12), _i == VIEW_plan ? " --strategy treeattn" : "");
    ck_assert_msg(verify(env, args) == 0, "%s: %s", view_name[_i], text);
    ck_assert_int_eq(total("passed"), fewer(4, 12));
}

/* Features are given to those who name them, windows not to who is given what queries share. The others get cases without, and are
 * not asked about those that have one. */
LOOP_TEST(features_are_given_to_who_has_them, N_VIEWS)
{
    if (getenv("TREEATTN_QUICK") && _i != VIEW_slots && _i != VIEW_extend && _i != VIEW_tree)
        return;
    bool pages = _i == VIEW_prefix || _i == VIEW_levels;
    FREED char *env = xasprintf("PLUGIN_VIEW=%s PLUGIN_FEATURES='softcap sinks window'", view_name[_i]),
               *without = xasprintf("PLUGIN_VIEW=%s", view_name[_i]),
               *some = xasprintf("%s PLUGIN_FEATURES=sinks", without),
               *args = xasprintf(
                   "--plugin %s --trees 6 --seed 5 --no-sharp --page 1 -q%s --features softcap,sinks%s",
                   plugin_path("plugin"), _i == VIEW_plan ? " --strategy deft-flatten" : "",
                   pages ? "" : ",window"),
               *window = xasprintf("--plugin %s --trees 1 --no-sharp -q --features window", plugin_path("plugin"));
    if (pages)
        ck_assert_msg(verify(env, window) == 3 && strstr(text, "NO_VIEW: a window"), "%s: %s", env, text);
    ck_assert_msg(verify(env, args) == 0 && total("passed") > 3, "%s: %s", env, text);
    if (_i > 0)
        return;
    ck_assert_msg(verify(without, args) == 3 && strstr(text, "UNSUPPORTED: it has no softcap"), "%s: %s",
                  without, text);
    ck_assert_msg(verify(some, args) == 3 && strstr(text, "UNSUPPORTED: it has no softcap"), "%s: %s", some,
                  text);
}

/* K and V in 8 bits, whose scales are those of heads for who says so, in every view and layout. */
LOOP_TEST(fp8_is_given_to_who_has_it, N_VIEWS)
{
    if (getenv("TREEATTN_QUICK") && _i != VIEW_slots && _i != VIEW_paged)
        return;
    FREED char *env = xasprintf(
                   "PLUGIN_VIEW=%s PLUGIN_LAYOUT=%s PLUGIN_FEATURES='e4m3 e5m2 headscales'", view_name[_i],
                   _i == VIEW_slots || _i == VIEW_masked ? "NHD" : kv_layout_name[_i % N_KV_LAYOUTS]),
               *args = xasprintf("--plugin %s --trees %d --seed 5 --no-sharp --page 1 -q%s --features",
                                 plugin_path("plugin"), (int)fewer(3, 8),
                                 _i == VIEW_plan ? " --strategy deft-flatten" : "");
    FREED char *heads = xasprintf("%s e4m3,e5m2,headscales", args), *tensor = xasprintf("%s e5m2", args);
    ck_assert_msg(verify(env, heads) == 0 && total("passed") == fewer(3, 8), "%s: %s", env, text);
    ck_assert_msg(verify(env, tensor) == 0 && total("passed") == fewer(3, 8), "%s: %s", env, text);
    if (_i > 0 || in_a_hurry())
        return;
    ck_assert_msg(verify("PLUGIN_FEATURES=e5m2", tensor) == 0 && total("passed") == 8, "%s", text);
    ck_assert_msg(verify("PLUGIN_FEATURES=e5m2", heads) == 0 && total("skipped") > 3 &&
                      strstr(text, "UNSUPPORTED: it has no e4m3"),
                  "%s", text);
    ck_assert_msg(verify("PLUGIN_POINTS=partial PLUGIN_FEATURES='e4m3 e5m2 headscales'", heads) == 0 &&
                      total("passed") > 4,
                  "%s", text);
}

/* V in K's row, and V of fewer elements than K, in every view and in the layouts that can say them. */
LOOP_TEST(v_of_fewer_elements_is_given_to_who_has_it, N_VIEWS)
{
    static const char *const name[] = {"latent", "narrowv"};
    if (getenv("TREEATTN_QUICK") && _i != VIEW_slots && _i != VIEW_paged)
        return;
    FREED char *strategy = xstrdup(_i == VIEW_plan ? " --strategy deft-flatten" : "");
    for (int i = 0; i < 2; i++)
        for (int layout = 0; layout < (_i == VIEW_paged ? N_KV_LAYOUTS : 1); layout++) {
            FREED char *env = xasprintf("PLUGIN_VIEW=%s PLUGIN_LAYOUT=%s PLUGIN_FEATURES='e4m3 sinks %s'", view_name[_i],
                                        kv_layout_name[layout], name[i]),
                       *args = xasprintf("--plugin %s --trees %d --seed 5 --no-sharp --page %d -q%s --features %s%s",
                                         plugin_path("plugin"), (int)fewer(2, 6), layout ? 16 : 1, strategy, name[i],
                                         layout ? "" : ",sinks,e4m3");
            bool said = layout == KV_NHD || layout == KV_HND || (layout == KV_STRIDES && i == 0);
            ck_assert_msg(verify(env, args) == (said ? 0 : 3), "%s, %s: %s", env, args, text);
            ck_assert_msg(said ? total("passed") >= fewer(1, 4) : strstr(text, "NO_VIEW: K of ") != NULL, "%s: %s", env, text);
        }
    if (_i > 0)
        return;
    FREED char *parts = xasprintf("--plugin %s --trees 6 --seed 5 --no-sharp -q --features latent,e5m2", plugin_path("plugin")),
               *long_rows = xasprintf("--plugin %s --case 'tree=levels:1,3,6_40,20,9;heads=16/1;d=576;dv=512;page=16' -q",
                                      plugin_path("plugin")),
               *apart = xasprintf("--plugin %s --case 'tree=levels:1,3,6_40,20,9;heads=4/4;d=192/128;page=16' -q",
                                  plugin_path("plugin"));
    ck_assert_msg(verify("PLUGIN_POINTS=partial,merge PLUGIN_FEATURES='latent e5m2'", parts) == 0 && total("passed") > 4,
                  "%s", text);
    ck_assert_msg(verify("PLUGIN_FEATURES=latent", long_rows) == 0 && total("passed") == 1, "%s", text);
    ck_assert_msg(verify("PLUGIN_FEATURES=narrowv", apart) == 0 && total("passed") == 1, "%s", text);
    ck_assert_msg(verify("PLUGIN_FEATURES=narrowv", long_rows) == 3 && strstr(text, "UNSUPPORTED: it has no latent"), "%s",
                  text);
}

/* Sinks are none of a partial result's business; the soft cap is. */
TEST(parts_have_the_soft_cap_and_no_sink)
{
    FREED char *args =
        xasprintf("--plugin %s --trees 4 --seed 5 --no-sharp -q --features softcap,sinks", plugin_path("plugin"));
    ck_assert_msg(verify("PLUGIN_POINTS=partial PLUGIN_FEATURES=softcap", args) == 0 && total("passed") > 2,
                  "%s", text);
    ck_assert_msg(verify("PLUGIN_POINTS=partial", args) == 3 && strstr(text, "it has no softcap"), "%s",
                  text);
}

/* K and V lie as a kernel says that it wants them, or as the case wants them; who looks elsewhere is told. */
LOOP_TEST(layouts_say_the_whole_case, N_KV_LAYOUTS)
{
    FREED char *env = xasprintf("PLUGIN_VIEW=tree PLUGIN_LAYOUT=%s", kv_layout_name[_i]),
               *dense = xasprintf("%s PLUGIN_DOES=dense", env),
               *args = xasprintf("--plugin %s --trees %d --seed 5 --no-sharp -q", plugin_path("plugin"), (int)fewer(3, 10)),
               *few = xasprintf("--plugin %s --trees 3 --seed 5 --no-sharp -q", plugin_path("plugin"));
    ck_assert_msg(verify(env, args) == 0 && total("passed") == fewer(3, 10), "%s: %s", env, text);
    ck_assert_msg(verify(dense, few) == (_i == KV_NHD ? 0 : 1), "%s: %s", dense, text);
}

/* A plan is run as it is: masks, merges in levels, groups of one launch that come later than merges of another. */
TEST(plans_of_all_strategies_are_packed)
{
    FREED char *args = xasprintf("--plugin %s --case 'tree=levels:1,3,6_70,37,9;heads=4/2;d=16;page=16' -q",
                                 plugin_path("plugin")),
               *blind =
                   xasprintf("--plugin %s -q --case 'tree=nodes:-1.140,-1.0,0.9:0.0,1.0,2.9,2.3,0.0,0.140;"
                             "strategy=tree-vanilla:blind=1'",
                             plugin_path("plugin"));
    ck_assert_msg(verify("PLUGIN_VIEW=plan", args) == 0 && total("passed") > 15, "%s", text);
    ck_assert_msg(total("cases") == n_strategies, "%s", text);
    ck_assert_msg(verify("PLUGIN_VIEW=plan PLUGIN_LAYOUT=HND", blind) == 0 && total("passed") == 1, "%s",
                  text);
}

/* Partial results and merges of them: with empty ones, with 1,250 inputs, in every form that may be declared. */
TEST(parts_of_attention_are_judged)
{
    static const char *const env[] = {
        "PLUGIN_POINTS='attention partial merge'",
        "PLUGIN_POINTS='partial merge' PLUGIN_LSE=2 PLUGIN_ORDER=hq PLUGIN_EMPTY=+inf"};
    static const char *const one[] = {"levels:1_20000;heads=1/1;d=64;strategy=flash-decoding:chunk=16",
                                      "levels:4_16;heads=2/2;d=128;fill=vast;strategy=tree-specinfer:chunk=8",
                                      "nodes:-1.40,-1.0,0.9:0.0,1.0,2.9,2.3,0.0,0.40;"
                                      "strategy=tree-specinfer:blind=1,chunk=16"};
    for (int i = 0; i < 2; i++) {
        FREED char *args = xasprintf("--plugin %s --trees 12 --no-sharp -q", plugin_path("plugin"));
        ck_assert_msg(verify(env[i], args) == 0 && total("passed") > 20, "%s: %s", env[i], text);
        for (int k = 0; k < 3; k++) {
            FREED char *alone = xasprintf("--plugin %s --case 'tree=%s'", plugin_path("plugin"), one[k]);
            ck_assert_msg(verify(env[i], alone) == 0 && total("passed") == (i ? 2 : 3), "%s: %s", one[k],
                          text);
            ck_assert_msg(strstr(text, "/test.partial/f16") && strstr(text, "/test.merge/f16"), "%s", text);
        }
    }
}

TEST(strategies_are_for_those_who_get_plans)
{
    FREED char *args = xasprintf("--plugin %s --trees 2 --strategy pat", plugin_path("plugin"));
    ck_assert_msg(verify("", args) == 2 && strstr(text, "test is given no plans"), "%s", text);
}

TEST(parts_that_are_wrong_are_told)
{
    static const char *const wrong[][2] = {{"partial", "no mask"},
                                           {"merge", "lose one"},
                                           {"merge", "mean"},
                                           {"merge", "no empty"},
                                           {"merge", "base e"}};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        FREED char *env =
                       xasprintf("PLUGIN_POINTS=%s PLUGIN_LSE=2 PLUGIN_DOES='%s'", wrong[i][0], wrong[i][1]),
                   *args = xasprintf("--plugin %s --case 'tree=levels:1,3,6_70,37,9;heads=4/2;d=32;"
                                     "strategy=deft-flatten:block=64'",
                                     plugin_path("plugin"));
        ck_assert_msg(verify(env, args) == 1 && strstr(text, "oracle has"), "%s: %s", wrong[i][1], text);
    }
}

static const char *const arithmetics[] = {"order", "blocked", "p-bf16", "p-bf16-sum", "partial-f16"},
                         *const merges[] = {"order", "tree"};

/* Right kernels in float are right, whatever they say of their sums, if it is so. */
LOOP_TEST(honest_arithmetic_passes, 10)
{
    if (getenv("TREEATTN_QUICK") && _i % 5 != 0)
        return;
    FREED char *env = xasprintf("ARITH=%s ARITH_MERGE=%s", arithmetics[_i / 2], merges[_i % 2]),
               *args = xasprintf("--plugin %s --trees 8 --no-sharp --seed 3 -q", plugin_path("arithmetic"));
    ck_assert_msg(verify(env, args) == 0 && total("passed") > 12, "%s: %s", env, text);
}

/* Who declares less than it does is caught, on a case where an honest one passes. */
TEST(declarations_are_probed)
{
    static const struct {
        const char *does, *says, *tree;
    } all[] = {{"ARITH=order ARITH_MERGE=tree", "ARITH_SAYS=blocked",
                "levels:1_40000;heads=1/1;d=4;dtype=f32"},
               {"ARITH=p-bf16", "ARITH_SAYS=blocked", "levels:1,3_100,9;heads=4/2;d=32;dtype=f16"},
               {"ARITH=p-bf16-sum", "ARITH_SAYS=p-bf16", "levels:1,3_100,9;heads=4/2;d=32;dtype=bf16"},
               {"ARITH=p-bf16", "ARITH_SAYS=partial-f16", "levels:1,12_2,1;heads=4/2;d=32;dtype=f32"},
               {"ARITH=partial-f16", "ARITH_SAYS=blocked", "levels:1,3_100,9;heads=4/2;d=32;dtype=f32"},
               {"ARITH=sum-f16", "ARITH_SAYS=order", "levels:1,3_100,9;heads=4/2;d=32;dtype=f16"},
               {"ARITH=sum-f16 ARITH_MERGE=tree", "ARITH_SAYS=partial-f16",
                "levels:1,3_100,9;heads=4/2;d=32;dtype=f32"},
               {"ARITH_MERGE=order", "ARITH_MERGE_SAYS=tree",
                "levels:1_20000;heads=1/1;d=64;dtype=f16;strategy=flash-decoding:chunk=16"}};
    for (size_t i = getenv("TREEATTN_QUICK") != NULL; i < sizeof all / sizeof all[0];
         i++) { /* the first takes long */
        FREED char *lies = xasprintf("%s %s", all[i].does, all[i].says),
                   *args = xasprintf("--plugin %s --case 'tree=%s'", plugin_path("arithmetic"), all[i].tree);
        ck_assert_msg(verify(lies, args) == 1 && strstr(text, "oracle has"), "%s: %s", lies, text);
        ck_assert_msg(!strstr(text, "is lost"), "rounding is not a part that is lost: %s", text);
        ck_assert_msg(strstr(lies, "sum-f16") || verify(all[i].does, args) == 0, "%s: %s", all[i].does, text);
    }
}

/* Where float cannot tell the weights, an answer that is wrong looks like that of many mistakes. */
TEST(vast_logits_tell_of_no_mistake)
{
    FREED char *vast = xasprintf("--plugin %s --case 'tree=levels:1,6,12_300,40,9;heads=8/2;d=128;dtype=bf16;"
                                 "fill=vast;scale=0.3' --no-shrink",
                                 plugin_path("arithmetic")),
               *usual = xasprintf("--plugin %s --trees 8 --no-sharp --seed 5 --fill random -q",
                                  plugin_path("arithmetic"));
    ck_assert_msg(verify("ARITH=fused ARITH_LSE=none", vast) == 1 && strstr(text, "oracle has"), "%s", text);
    ck_assert_msg(!strstr(text, "cause of"), "%s", text);
    ck_assert_msg(verify("ARITH=fused", usual) == 0, "%s", text);
}

/* How many rows the picture in `path` shows, and in *wrong of what they are of that class. */
static int64_t rows_drawn(const char *path, const char *class, int64_t *wrong)
{
    FREED char *svg = file_text(path);
    struct svg_read r = svg_read(svg);
    int64_t all = 0;
    *wrong = 0;
    svg_check_layout(&r);
    for (int64_t i = 0; i < r.n; i++) {
        if (!svg_is(&r.at[i], "cell"))
            continue;
        int64_t n = (int64_t)svg_number(&r.at[i], "data-cells", 0);
        all += n;
        *wrong += strcmp(svg_attribute(&r.at[i], "data-class"), class) == 0 ? n : 0;
    }
    svg_read_clear(&r);
    return all;
}

/* Of the worst answer, and of wrong ones alone. */
TEST(the_worst_answer_is_drawn)
{
    static const struct {
        const char *does, *tree, *class;
        int64_t all, wrong;
    } drawn[] = {{"modulo", "levels:1,3,12_150,37,9;heads=12/3;d=32;page=16", "3", 144, 72},
                 {"no LSE", "levels:1,3_32,9;heads=8/2;d=16;dtype=f32", "4", 24, 24},
                 {"modulo", "levels:1,700_3,1;heads=4/2;d=16;dtype=f32;fill=onehot", "0", 640, 320}};
    FREED char *folder = scratch_folder(), *path = xasprintf("%s/map.svg", folder);
    for (size_t i = 0; i < sizeof drawn / sizeof drawn[0]; i++) {
        FREED char *env = xasprintf("PLUGIN_DOES='%s'", drawn[i].does),
                   *args = xasprintf("--plugin %s --case 'tree=%s' --no-shrink --error-map %s",
                                     plugin_path("plugin"), drawn[i].tree, path);
        int64_t wrong, code = verify(env, args), all = rows_drawn(path, drawn[i].class, &wrong);
        ck_assert_msg(code == 1 && all == drawn[i].all && wrong == drawn[i].wrong,
                      "%s: %d, %d of %d rows: %s", drawn[i].does, (int)code, (int)wrong, (int)all, text);
        ck_assert_int_eq(unlink(path), 0);
    }
    FREED char *right =
        xasprintf("--plugin %s --case 'tree=levels:1_9' --error-map %s", plugin_path("plugin"), path);
    ck_assert_msg(verify("", right) == 0 && strstr(text, "nothing is drawn: no answer had wrong numbers"),
                  "%s", text);
    ck_assert_int_ne(access(path, F_OK), 0);
}

/* Properties are counted, and no matter of the verdict. */
TEST(properties_are_told_apart)
{
    static const char *const all[][2] = {
        {"", "tolerated 8 of 8, the same bits in three runs 8 of 8, a query alone as in its batch 8 of 8"},
        {"read tails",
         "tolerated 0 of 8, the same bits in three runs 8 of 8, a query alone as in its batch 8 of 8"},
        {"change", "tolerated 8 of 8, the same bits in three runs 0 of 8,"},
        {"batch",
         "tolerated 8 of 8, the same bits in three runs 8 of 8, a query alone as in its batch 0 of 8"}};
    FREED char *list = xstrdup(""), *file = NULL;
    for (int i = 0; i < 8; i++)
        xappend(&list, "tree=levels:1,%d_32,%d;page=16;dtype=f64;heads=2/1;d=16;seed=%d\n", 2 + i, 17 + i, i);
    file = scratch_file(list, strlen(list));
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        FREED char *env = xasprintf("OMP_NUM_THREADS=1 PLUGIN_VIEW=paged PLUGIN_DOES='%s'", all[i][0]),
                   *args =
                       xasprintf("--plugin %s --cases %s --properties --children 1", plugin_path("plugin"), file);
        ck_assert_msg(verify(env, args) == 0 && strstr(text, all[i][1]), "%s: %s", all[i][0], text);
    }
}

/* A process that ran nothing before tells what is kept from what is always so. */
TEST(state_is_told_from_other_lengths)
{
    static const char *const all[][2] = {{"second run", "\tSTATE\t"}, {"41 alone", "\tNUMBERS\t"}};
    FREED char *args = xasprintf(
        "--plugin %s --case 'tree=levels:1,3_32,9;heads=2/1;d=16;dtype=f32' --no-shrink", plugin_path("plugin"));
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        FREED char *env = xasprintf("PLUGIN_DOES='%s'", all[i][0]);
        ck_assert_msg(verify(env, args) == 1 && strstr(text, all[i][1]) && strstr(text, "again with "),
                      "%s: %s", env, text);
    }
}

/* AddressSanitizer has an allocator of its own, where nobody counts. */
TEST(requests_for_memory_are_counted)
{
#ifdef __SANITIZE_ADDRESS__
    static const char *const says[2] = {"its batch 2 of 2\n", "its batch 2 of 2\n"};
#else
    static const char *const says[2] = {"no memory asked for 0 of 2", "no memory asked for 2 of 2"};
#endif
    static const char *const name[2] = {"plugin", "shown"};
    for (int i = 0; i < 2; i++) {
        FREED char *args =
            xasprintf("--plugin %s --trees 2 --no-sharp --dtype f32 --properties -q", plugin_path(name[i]));
        ck_assert_msg(verify("", args) == 0 && strstr(text, says[i]), "%s", text);
    }
}

/* Seven parts are the whole, byte for byte but for times. */
TEST(shards_make_a_whole)
{
    FREED char *d = scratch_folder();
    int code = run_shell(
        text, sizeof text,
        "rows() { %s verify --plugin %s --trees 15 --no-sharp --no-shrink \"$@\" 2>&1 | awk -F'\\t' '"
        "NR == 1 { for (i = 1; i <= NF; i++) keep[i] = $i !~ /_ms$/ } "
        "$2 ~ /^(PASS|FAIL|SKIP|MARGINAL)$/ { row = \"\"; for (i = 1; i <= NF; i++) if (keep[i]) row = row "
        "FS $i; print row }'; }; "
        "rows | sort >%s/whole; for k in 1 2 3 4 5 6 7; do rows --shard $k/7; done | sort >%s/parts; "
        "wc -l <%s/whole; cmp %s/whole %s/parts",
        program_path(), plugin_path("shown"), d, d, d, d, d);
    ck_assert_msg(code == 0 && atoi(text) > 15, "%s", text);
}

/* What was compiled with an older header, or with one to come, runs. */
TEST(plugins_of_other_editions_run)
{
    static const char *const name[] = {"old", "later"};
    for (int i = 0; i < 2; i++) {
        FREED char *args = xasprintf("--plugin %s --trees 3 --no-sharp -q", plugin_path(name[i]));
        ck_assert_msg(verify("", args) == 0 && total("passed") == 3, "%s: %s", name[i], text);
    }
}

/* Nobody need say what a kernel declares: cases of ours are of what it takes, also sharp ones. */
TEST(cases_suit_the_kernel)
{
    FREED char *shown = xasprintf("--plugin %s --trees 10 -q%s", plugin_path("shown"),
                                  in_a_hurry() ? " --shard 1/9" : ""),
               *paged = xasprintf("--plugin %s --trees %d --no-sharp -q", plugin_path("plugin"), (int)fewer(5, 30)),
               *given = xasprintf("--plugin %s --trees 3 --dtype f64 --no-sharp", plugin_path("shown"));
    const char *none[] = {"UNSUPPORTED", "NO_VIEW"};
    ck_assert_msg(verify("", shown) == 0 && total("passed") > fewer(15, 150), "%s", text);
    ck_assert_msg(!strstr(text, none[0]) && !strstr(text, none[1]), "%s", text);
    ck_assert_msg(verify("PLUGIN_VIEW=paged", paged) == 0 && total("passed") >= fewer(5, 30), "%s", text);
    ck_assert_msg(!strstr(text, none[0]) && !strstr(text, none[1]), "%s", text);
    ck_assert_msg(verify("", given) == 3 && strstr(text, "UNSUPPORTED: it does not take f64"), "%s", text);
}

/* Masks as engines write them. */
LOOP_TEST(masks_have_forms, N_MASK_FORMS)
{
    FREED char *env = xasprintf("PLUGIN_VIEW=masked PLUGIN_MASK=%s", mask_form_name[_i]),
               *args = xasprintf("--plugin %s --trees %d --no-sharp -q", plugin_path("plugin"), (int)fewer(4, 20));
    ck_assert_msg(verify(env, args) == 0 && total("passed") >= fewer(2, 18), "%s: %s", env, text);
}

/* Pages that end inside a path cannot be listed, and are told. */
TEST(lossy_views_are_refused)
{
    FREED char *even = xasprintf("--plugin %s --case 'tree=levels:1,3_32,40;page=16' -q", plugin_path("plugin")),
               *odd = xasprintf("--plugin %s --case 'tree=levels:1,3_33,40;page=16' -q", plugin_path("plugin"));
    static const char *const view[] = {"paged", "block_table", "prefix"};
    for (int i = 0; i < 3; i++) {
        FREED char *env = xasprintf("PLUGIN_VIEW=%s", view[i]);
        ck_assert_msg(verify(env, even) == 0 && total("passed") == 1, "%s: %s", view[i], text);
        ck_assert_msg(verify(env, odd) == 3 && strstr(text, "NO_VIEW: node 0 ends inside a page"), "%s: %s",
                      view[i], text);
    }
    ck_assert_msg(verify("PLUGIN_VIEW=levels", odd) == 0, "%s", text);
}

TEST(declared_forms_are_read)
{
    static const char *const env[] = {"PLUGIN_LSE=2", "PLUGIN_ORDER=hq", "PLUGIN_EMPTY=+inf",
                                      "PLUGIN_VIEW=levels PLUGIN_LAYOUT=HND",
                                      "PLUGIN_LSE=none PLUGIN_DOES='no LSE'"};
    for (size_t i = 0; i < sizeof env / sizeof env[0]; i++) {
        FREED char *args =
            xasprintf("--plugin %s --case "
                      "'tree=nodes:-1.129,0.30:0.0,0.129,1.16,1.30;heads=4/2;d=16;dtype=f16;page=16' -q",
                      plugin_path("plugin"));
        ck_assert_msg(verify(env[i], args) == 0 && total("passed") == 1, "%s: %s", env[i], text);
    }
}

TEST(plugins_that_are_none_are_refused)
{
    static const char *const bad[][2] = {
        {"small", "its struct ta_plugin is too small (expected ABI 1, at least 168 bytes; it has ABI 1, 16"},
        {"future", "it is of another ABI (expected ABI 1"},
        {"nameless", "no symbol treeattn_plugin"},
        {"absent", "absent.so: cannot open"}};
    for (int i = 0; i < 4; i++) {
        FREED char *args = xasprintf("--plugin %s --trees 1", plugin_path(bad[i][0]));
        ck_assert_msg(verify("", args) == 2 && strstr(text, bad[i][1]) && strchr(text, '\n')[1] == 0,
                      "%s: %s", bad[i][0], text);
    }
}

/* What a child does, what is told of it, and the exit code. */
TEST(children_may_do_what_they_like)
{
    static const struct {
        const char *command, *told;
        int code;
    } all[] = {{"segv", "CRASH: ", 1},
               {"abort", "CRASH: ", 1},
               {"loop", "HANG: no answer after 2 s", 1},
               {"exit0", "EXIT: ", 1},
               {"exec", "EXIT: ", 1},
               {"close", "HANG: ", 1},
               {"bomb", "PROCESSES: ", 1},
               {"memory", "MEMORY: ", 1},
               {"kill", "FAIL", 1},
               {"input", "WROTE_INPUT: ", 1},
               {"stale", "UNWRITTEN: ", 1},
               {"stderr", "ERROR: tired", 1},
               {"junk", "PROTOCOL: ", 1},
               {"long", "PROTOCOL: ", 1},
               {"link", "PROTOCOL: ", 1},
               {"garbage", "PROTOCOL: ", 1},
               {"fifo", "PROTOCOL: ", 1},
               {"shape", "SHAPE: its O has the shape 1 ", 1},
               {"dtype", "DTYPE: ", 1},
               {"half", "UNWRITTEN: ", 1},
               {"fault", "DEVICE_FAULT: CUDA error 700", 1},
               {"other", "PROTOCOL: it answered", 1},
               {"no", "UNSUPPORTED: no", 3}};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        FREED char *args =
            xasprintf("--exec 'sh tests/plugin/hostile.sh %s' --seconds-a-case %d --memory 256 "
                      "--children 1 --trees 2 --no-sharp --dtype f32",
                      all[i].command, strncmp(all[i].told, "HANG", 4) == 0 ? 2 : 60);
        int code = verify("", args);
        ck_assert_msg(code == all[i].code && tells(all[i].told), "%s: exit %d, %s", all[i].command, code,
                      text);
        ck_assert_msg(total("cases") == 2, "%s: %s", all[i].command, text); /* the next one was judged */
    }
    ck_assert_int_eq(left_behind(), 0);
}

TEST(plugins_that_do_wrong_are_told)
{
    static const struct {
        const char *does, *told;
    } all[] = {{"crash", "CRASH: "},
               {"write K", "WROTE_INPUT: wrote to k"},
               {"write K and back", "WROTE_INPUT: wrote to k"},
               {"write before O", "WROTE_OUTSIDE: wrote outside of o"},
               {"write behind O", "touched what lies behind o"},
               {"no LSE", "LSE is nan (never written)"},
               {"modulo", "oracle has"}};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        FREED char *env = xasprintf("ASAN_OPTIONS=handle_segv=0 PLUGIN_DOES='%s'", all[i].does),
                   *args = xasprintf("--plugin %s --case 'tree=levels:1,3_32,9;heads=8/2;d=16;dtype=f32'",
                                     plugin_path("plugin"));
        ck_assert_msg(verify(env, args) == 1 && tells(all[i].told), "%s: %s", all[i].does, text);
    }
    FREED char *pages = xasprintf("--plugin %s --trees 8 --no-sharp --page 8", plugin_path("plugin"));
    ck_assert_msg(
        verify("ASAN_OPTIONS=handle_segv=0 PLUGIN_VIEW=block_table PLUGIN_DOES='read padding'", pages) == 1 &&
            tells("took a page number from an entry that is no page's"),
        "%s", text);
    FREED char *args = xasprintf("--plugin %s --trees 2 --no-sharp", plugin_path("plugin"));
    ck_assert_msg(verify("PLUGIN_DOES=refuse", args) == 3 &&
                      strstr(text, "test skipped 2 cases, the first because UNSUPPORTED: not today"),
                  "%s", text);
}

/* Killed without a word, the judge leaves nothing to the next. */
TEST(nothing_is_left_of_a_judge_that_was_killed)
{
    run_shell(text, sizeof text,
              "timeout -s KILL 1 %s verify --exec 'sh tests/plugin/hostile.sh loop' --trees 2 --no-sharp "
              "2>&1; sleep 1",
              program_path());
    ck_assert_int_eq(left_behind(), 0);
}

TEST(a_command_that_is_no_child_is_refused)
{
    ck_assert_int_eq(verify("", "--exec true --trees 1"), 2);
    ck_assert_msg(strstr(text, "'true' is no child: it exited with code 0"), "%s", text);
    ck_assert_int_eq(verify("", "--exec 'echo hello >&4; sleep 9' --trees 1"), 2);
    ck_assert_msg(strstr(text, "its first line is 'hello'"), "%s", text);
    ck_assert_int_eq(
        verify("", "--exec 'echo {\\\"hello\\\":1,\\\"name\\\":\\\"x\\\",\\\"view\\\":\\\"words\\\"} >&4; "
                   "sleep 9' --trees 1"),
        2);
    ck_assert_msg(strstr(text, "the child's \"view\" is words (expected one of slots, paged"), "%s", text);
}

/* Drivers of a GPU look themselves up there. */
TEST(proc_calls_a_child_as_it_calls_itself)
{
    ck_assert_int_eq(verify("", "--exec 'read pid rest </proc/self/stat; [ $pid = $$ ] && exit 7' --trees 1"),
                     2);
    ck_assert_msg(strstr(text, "it exited with code 7"), "%s", text);
}

/* A child in perl-base, which any Debian has. */
TEST(a_child_in_perl_passes)
{
    ck_assert_msg(
        verify("", "--exec 'perl tests/plugin/child.pl' --dtype f32 --heads 1/1 --trees 30 --no-sharp -q") ==
            0,
        "%s", text);
    ck_assert_msg(total("passed") > 1, "%s", text);
    ck_assert_msg(
        verify("CHILD_GAP=3",
               "--exec 'perl tests/plugin/child.pl' --case 'tree=levels:1,2_9,5;heads=1/1;d=3;dtype=f32'") ==
            0,
        "%s", text);
}

TEST(graphs_are_asked_for_where_there_are_some)
{
    static const char *const all[][2] = {{"CHILD_GRAPH=fresh", "the same bits from a graph 1 of 1"},
                                         {"CHILD_GRAPH=stale", "the same bits from a graph 0 of 1"}};
    const char *args = "--exec 'perl tests/plugin/child.pl' --properties --case "
                       "'tree=levels:1,2_9,5;heads=1/1;d=8;dtype=f32'";
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        ck_assert_msg(verify(all[i][0], args) == 0 && strstr(text, all[i][1]), "%s", text);
    ck_assert_msg(verify("", args) == 0 && !strstr(text, "graph"), "%s", text);
}

/* treeattn.py starts the judge when a person starts it. */
TEST(a_child_in_python_passes)
{
    if (run_shell(text, sizeof text, "python3 -c 'import numpy' 2>&1") != 0) {
        printf("skip: no python3 with numpy\n");
        return;
    }
    int code = run_shell(text, sizeof text,
                         "TREEATTN=%s python3 tests/plugin/child.py --trees 10 --no-sharp --page 1 -q 2>&1",
                         program_path());
    ck_assert_msg(code == 0 && total("passed") > 4, "%s", text);
}

/* 2^32 elements of K, of which memory is what is touched. A kernel that takes no such pools gets smaller ones. */
TEST(pools_of_many_gib_come_as_files_with_holes)
{
    FREED char *far = xasprintf(
                   "--plugin %s --memory 256 --case 'tree=levels:1,3_40,9;heads=16/8;d=128;dtype=f16;"
                   "page=16;pool=1100000;poison=0'",
                   plugin_path("plugin")),
               *wide = xasprintf("--plugin %s --memory 256 --wide --shard 44/100", plugin_path("plugin"));
    ck_assert_msg(verify("PLUGIN_VIEW=tree", far) == 0 && total("passed") == 1, "%s", text);
    ck_assert_msg(verify("ASAN_OPTIONS=handle_segv=0 PLUGIN_VIEW=tree PLUGIN_DOES='32 bits'", far) == 1, "%s",
                  text);
    ck_assert_msg(verify("PLUGIN_VIEW=tree", wide) == 0 && strstr(text, ";pool=200000"), "%s", text);
    ck_assert_msg(verify("PLUGIN_VIEW=tree PLUGIN_LAYOUT=HND", wide) == 0 && !strstr(text, ";pool="), "%s",
                  text);
}

/* The plug-in of README.md, in order and in float, also on a context of 70,000 tokens. */
TEST(the_plugin_that_is_shown_passes)
{
    FREED char *args = xasprintf("--plugin %s --dtype f32 --trees 12 --no-sharp -q", plugin_path("shown")),
               *far = xasprintf("--plugin %s --case 'tree=levels:1,2_70000,17;heads=2/1;d=16;dtype=f32' -q",
                                plugin_path("shown"));
    ck_assert_msg(verify("", args) == 0 && total("passed") == 24, "%s", text);
    ck_assert_msg(verify("", far) == 0 && total("passed") == 2, "%s", text);
}
