/*
 * check_live.c - children that are timed beside ours (verify/bench/live_peers.h), on the fake GPU: right and wrong ones, and such as
 * crash, hang, or say what nobody understands. None of them ends the bench.
 */
#include "verify/bench/live_peers.h"

#include "tests/auto.h"
#include "tests/shared.h"
#include "tests/suites.h"
#include "tests/verify/fake_gpu.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const command[] = {
    "TIMED=right exec python3 tests/plugin/timed.py", "TIMED=wrong exec python3 tests/plugin/timed.py",
    "TIMED=crash exec python3 tests/plugin/timed.py", "TIMED=hang exec python3 tests/plugin/timed.py",
    "TIMED=skip exec python3 tests/plugin/timed.py",  "TIMED=empty exec python3 tests/plugin/timed.py",
    "TIMED=fast exec python3 tests/plugin/timed.py",
};
enum { RIGHT, WRONG, CRASH, HANG, SKIP, EMPTY, FAST, N_CHILDREN };
enum { OURS = 2, MOST = OURS + N_CHILDREN };

static bool no_python(void)
{
    char text[256];
    bool none = run_shell(text, sizeof text, "python3 -c 'import struct' 2>&1") != 0;
    if (none)
        printf("skip: no python3\n");
    return none;
}

/* A bench of two strategies, of which one does not apply, and children; what the rows of each tree are. */
struct live_run {
    struct gpu_bench b;
    struct gpu_config config[2];
    struct strategy_use use[OURS];
    struct gpu_row row[2 * MOST];
    int32_t n;
};

static struct live_run *live_run(const char *const *children, int32_t n_children, bool flush_reads, const char *strategy)
{
    struct live_run *x = xcalloc(1, sizeof *x);
    struct err e = {0};
    x->b = (struct gpu_bench){.kernel = kernel_find("cuda"),
                              .reps = 5,
                              .seed = 3,
                              .flush_reads = flush_reads,
                              .probe_us = 100,
                              .chain_us = {1, 1}};
    x->b.live = live_peers_new(children, n_children, 3, &e);
    ck_assert_msg(x->b.live, "%s", e.msg);
    ck_assert(strategy_parse(strategy, &x->use[0], NULL) && strategy_parse("relay", &x->use[1], NULL));
    fake_gpu.there = true;
    fake_gpu.memory = INT64_C(2) << 30;
    ck_assert_msg(gpu_bench_open(&x->b, &e), "%s", e.msg);
    for (int i = 0; i < 2; i++) {
        x->config[i] = (struct gpu_config){.set = "-", .spec = {.heads = {4, 2, 64, DT_F16}, .page_size = 16}};
        ck_assert(tree_source_parse(i ? "levels:1,3_20,5" : "levels:2,4_9,3", &x->config[i].src, NULL));
        int32_t n = 0;
        ck_assert_msg(gpu_bench_config(&x->b, &x->config[i], x->use, OURS, &x->row[x->n], &n, &e), "%s", e.msg);
        x->n += n;
    }
    return x;
}

static void live_run_free(struct live_run *x)
{
    gpu_bench_close(&x->b);
    live_peers_free(x->b.live);
    for (int i = 0; i < 2; i++)
        tree_source_clear(&x->config[i].src);
    free(x);
    ck_assert_int_eq(fake_gpu.live, 0);
}

static bool starts(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

/* Every child has a row of every tree, whatever it did on the one before. */
TEST(children_are_timed_and_judged)
{
    if (no_python())
        return;
    struct live_run *x = live_run(command, N_CHILDREN, true, "pat");
    ck_assert_int_eq(x->n, 2 * MOST);
    for (int i = 0; i < 2; i++) {
        const struct gpu_row *ours = &x->row[i * MOST], *r = ours + OURS;
        ck_assert(ours[0].verdict == GPU_PASS && ours[0].again_us > 0 && !ours[0].peer);
        ck_assert(isnan(ours[1].again_us) == (ours[1].verdict == GPU_SKIP));
        ck_assert_msg(r[RIGHT].verdict == GPU_PASS, "%s", r[RIGHT].why);
        ck_assert(r[RIGHT].worst > 0 && r[RIGHT].worst < 0.5);
        ck_assert_double_eq_tol(r[RIGHT].time.median_us, 8000, 1e-6);
        ck_assert_double_eq_tol(r[RIGHT].time.min_us, 7000, 1e-6);
        ck_assert(r[RIGHT].time.reps == 5 && r[RIGHT].plan_ms == 2.5);
        ck_assert(r[RIGHT].floor_us == ours[0].floor_us);
        ck_assert_str_eq(r[RIGHT].peer, "right");
        ck_assert_str_eq(r[RIGHT].peer_version, "1.5");
        ck_assert(r[WRONG].verdict == GPU_FAIL && r[WRONG].worst > 1 && isnan(r[WRONG].plan_ms));
        ck_assert_msg(strstr(r[WRONG].why, "oracle has"), "%s", r[WRONG].why);
        ck_assert_msg(r[CRASH].verdict == GPU_FAIL && starts(r[CRASH].why, "CRASH: "), "%s", r[CRASH].why);
        ck_assert_msg(r[HANG].verdict == GPU_FAIL && starts(r[HANG].why, "HANG: "), "%s", r[HANG].why);
        ck_assert_msg(r[SKIP].verdict == GPU_SKIP && strstr(r[SKIP].why, "Saturday"), "%s", r[SKIP].why);
        ck_assert_msg(r[EMPTY].verdict == GPU_FAIL && starts(r[EMPTY].why, "PROTOCOL: "), "%s", r[EMPTY].why);
        ck_assert(r[FAST].verdict == GPU_INVALID);
    }
    for (int i = 0; i < 2; i++) { /* ours 4 and 16 ms: theirs are 2 and 0.5 times that; drift 1.1 */
        x->row[i * MOST].time.median_us = i ? 16000 : 4000;
        x->row[i * MOST].again_us = i ? 17600 : 4400;
        x->row[i * MOST + 1].verdict = GPU_SKIP;
    }
    FREED char *text = NULL;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    live_peers_summary(f, "# ", x->b.live, x->row, x->n);
    fclose(f);
    const char *const lines[] = {
        "# right: 1.000 of the time of our fastest plan (geometric mean of 2 trees and head counts), faster on 1; 0 failed, 0 skipped\n",
        "# wrong: 2 failed, 0 skipped\n", "# skip: 0 failed, 2 skipped\n",
        "# our plans timed again after the children: 1.1000 of before (geometric mean of 2), 1.100 at most\n"};
    for (int i = 0; i < 4; i++)
        ck_assert_msg(strstr(text, lines[i]), "no '%s' in:\n%s", lines[i], text);
    live_run_free(x);
}

/* The flush is the bench's, and without a plan of ours there is nothing to judge by. */
TEST(children_flush_as_ours_do)
{
    if (no_python())
        return;
    struct live_run *x = live_run(command, 1, false, "pat");
    ck_assert_double_eq_tol(x->row[OURS].time.median_us, 1008000, 1e-6);
    live_run_free(x);
    x = live_run(command, 1, true, "relay");
    ck_assert_int_eq(x->n, 2 * (OURS + 1));
    ck_assert_msg(x->row[0].verdict == GPU_SKIP && x->row[OURS].verdict == GPU_SKIP &&
                      strstr(x->row[OURS].why, "nothing to judge by"),
                  "%s", x->row[OURS].why);
    live_run_free(x);
}

/* Who cannot be timed is known before anything is. */
TEST(who_does_not_time_itself_is_no_peer)
{
    if (no_python())
        return;
    static const char *const bad[] = {"TIMED=timeless exec python3 tests/plugin/timed.py", "exit 3"};
    static const char *const words[] = {"does not time itself", "no child"};
    for (int i = 0; i < 2; i++) {
        struct err e = {0};
        ck_assert(!live_peers_new(&bad[i], 1, 3, &e));
        ck_assert_msg(strstr(e.msg, words[i]), "%s", e.msg);
    }
}

/* What the script times when; `program` stands in for treeattn. */
static void live_script(const char *folder, const char *program, const char *says)
{
    char text[1024];
    ck_assert_int_eq(run_shell(text, sizeof text, "TREEATTN='%s' bash paper-figs/measured/live.sh '%s' 2>&1", program, folder), 0);
    ck_assert_msg(strstr(text, says), "no '%s' in: %s", says, text);
}

/* The script that times all trees goes on where a run was ended: a tree some of whose rows are missing is timed again. */
TEST(a_run_that_was_ended_goes_on)
{
    if (no_python())
        return;
    static const char program[] = "#!/usr/bin/env python3\n"
                                  "import csv, sys\n"
                                  "left = list(csv.DictReader(open(sys.argv[sys.argv.index('--sets') + 1])))\n"
                                  "out = csv.writer(sys.stdout, lineterminator='\\n')\n"
                                  "print('# treeattn, by /a/folder of this machine')\n"
                                  "out.writerow(['strategy', 'heads', 'set', 'number', 'tree', 'why'])\n"
                                  "for i in range(4 * 8 - 3):\n" /* the fourth lacks three */
                                  "    x = left[i // 8]\n"
                                  "    out.writerow(['s%d' % (i % 8), x['heads'], x['set'], x['number'], x['tree'], 'at /b/c/d.h'])\n";
    FREED char *folder = scratch_folder(), *stand_in = scratch_file(program, sizeof program - 1);
    char text[256];
    ck_assert_int_eq(run_shell(text, sizeof text, "chmod +x '%s'", stand_in), 0);
    live_script(folder, "false", "0 of 317 trees");
    live_script(folder, stand_in, "3 of 317 trees");
    live_script(folder, stand_in, "6 of 317 trees");
    live_script(folder, "false", "6 of 317 trees");
    FREED char *path = xasprintf("%s/h200_live_peers.csv", folder), *all = file_text(path);
    struct csv x = {0};
    ck_assert(csv_read(path, &x, NULL) && csv_whole(&x, NULL) && x.n_rows == 6 * 8 && x.n_notes == 2);
    ck_assert(!strstr(all, "/a/") && !strstr(all, "/b/") && strstr(all, "at d.h"));
    csv_clear(&x);
}
