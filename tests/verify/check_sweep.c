/*
 * check_sweep.c - sweeps: who does which tasks, in simulated time; and runs under mpirun, which come to the same as one process,
 * also when a rank or a worker is killed. Those skip where there is no mpirun.
 */
#include "ref/csv.h"
#include "ref/rng.h"
#include "verify/judge/judged.h"
#include "verify/report/outcome_json.h"
#include "verify/sweep/schedule.h"

#include "tests/auto.h"
#include "tests/shared.h"
#include "tests/suites.h"
#include "tests/verify/faulty.h"

#include <math.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- simulated time ------------------------------------------------------------------------------------- */

/* Cases of a run, in their order: what was predicted, and seconds of a processor. */
static struct {
    double *predicted, *seconds;
    int64_t n;
} recorded;

static void read_costs(void)
{
    CLEARED_BY(csv_clear) struct csv c = {0};
    struct err e = {0};
    ck_assert_msg(csv_read("tests/verify/sweep_costs.csv", &c, &e), "%s", e.msg);
    recorded.n = c.n_rows;
    recorded.predicted = xcalloc((size_t)c.n_rows, sizeof(double));
    recorded.seconds = xcalloc((size_t)c.n_rows, sizeof(double));
    for (int64_t i = 0; i < c.n_rows; i++)
        ck_assert(csv_f64(&c, i, csv_find(&c, "predicted"), &recorded.predicted[i], &e) &&
                  csv_f64(&c, i, csv_find(&c, "processor_seconds"), &recorded.seconds[i], &e));
}

/* What is simulated. */
struct given {
    int64_t n;
    int32_t ranks;
    int32_t slow, far;    /* so many of the first ranks are a quarter as fast; of the last are 100 ms away */
    int32_t dies;         /* that rank, -1: none, */
    double dies_at, told; /* then; so much later the master takes it for dead */
    bool blind;           /* costs are not predicted */
};

/* Seconds: a message's way, and what the master and the front take for a result, as measured (verify/sweep/README.md). */
#define WAY 2e-3
#define FAR_WAY 0.1
#define MASTER 20e-6
#define FRONT 60e-6

enum event_kind { FINISHES, RESULT, ARRIVES, TICK, DIES, TOLD };
struct event {
    double at;
    enum event_kind kind;
    int32_t rank;
    int64_t task, n; /* of ARRIVES: n tasks of `many` */
    int64_t *many;
};

struct simulated_rank {
    int64_t *queue, n, cap, first;
    bool at_work, dead;
    double speed, way;
};

struct simulated {
    const struct given *given;
    struct schedule *schedule;
    struct simulated_rank *rank;
    const int32_t *of; /* [n] which recorded case a task is */
    struct event *heap;
    int64_t n_heap, cap_heap;
    double master_free, front_free, work, dead_work;
    int64_t counted, lost, done_twice;
    bool *has; /* [n] its result was counted */
};

static void push(struct simulated *s, struct event e)
{
    s->heap = xgrow(s->heap, &s->cap_heap, s->n_heap + 1, sizeof *s->heap);
    int64_t i = s->n_heap++;
    for (; i > 0 && e.at < s->heap[(i - 1) / 2].at; i = (i - 1) / 2)
        s->heap[i] = s->heap[(i - 1) / 2];
    s->heap[i] = e;
}

static struct event pop(struct simulated *s)
{
    struct event top = s->heap[0], last = s->heap[--s->n_heap];
    int64_t i = 0;
    for (int64_t k = 1; k < s->n_heap; k = 2 * i + 1) {
        k += k + 1 < s->n_heap && s->heap[k + 1].at < s->heap[k].at;
        if (last.at <= s->heap[k].at)
            break;
        s->heap[i] = s->heap[k];
        i = k;
    }
    s->heap[i] = last;
    return top;
}

static void begin_next(struct simulated *s, int32_t r, double now)
{
    struct simulated_rank *x = &s->rank[r];
    x->at_work = !x->dead && x->first < x->n;
    if (!x->at_work)
        return;
    int64_t i = x->queue[x->first++];
    double seconds = recorded.seconds[s->of[i]] / x->speed;
    push(s, (struct event){.at = now + seconds, .kind = FINISHES, .rank = r, .task = i});
}

static void hand_out(struct simulated *s, int32_t r, double now)
{
    const int64_t *task;
    int64_t n = schedule_hand(s->schedule, r, now, &task);
    if (n == 0)
        return;
    int64_t *many = xcalloc((size_t)n, sizeof *many);
    memcpy(many, task, (size_t)n * sizeof *many);
    push(s, (struct event){.at = now + s->rank[r].way, .kind = ARRIVES, .rank = r, .many = many, .n = n});
}

static void happen(struct simulated *s, struct event e)
{
    struct simulated_rank *x = &s->rank[e.rank];
    switch (e.kind) {
    case FINISHES:
        if (x->dead)
            return;
        s->work += recorded.seconds[s->of[e.task]];
        push(s, (struct event){.at = e.at + x->way, .kind = RESULT, .rank = e.rank, .task = e.task});
        begin_next(s, e.rank, e.at);
        return;
    case RESULT:
        s->master_free = fmax(s->master_free, e.at) + MASTER;
        if (schedule_done(s->schedule, e.rank, e.task, s->master_free)) {
            check_each(!s->has[e.task], "task %lld counts twice", (long long)e.task);
            s->has[e.task] = true;
            s->counted++;
            s->front_free = fmax(s->front_free, s->master_free) + FRONT;
        } else {
            s->done_twice++;
        }
        hand_out(s, e.rank, s->master_free);
        return;
    case ARRIVES:
        x->queue = xgrow(x->queue, &x->cap, x->n + e.n, sizeof *x->queue);
        memcpy(x->queue + x->n, e.many, (size_t)e.n * sizeof *x->queue);
        x->n += e.n;
        free(e.many);
        if (!x->at_work)
            begin_next(s, e.rank, e.at);
        return;
    case TICK:
        for (int32_t r = 0; r < s->given->ranks; r++)
            hand_out(s, r, e.at);
        if (schedule_left(s->schedule) > 0)
            push(s, (struct event){.at = e.at + 0.01, .kind = TICK});
        return;
    case DIES:
        x->dead = true;
        return;
    case TOLD:
        s->lost = schedule_lost(s->schedule, e.rank, false);
        return;
    }
}

/* Efficiency: work of all tasks over what the ranks could have done until the front had the last result. *more: results that did not
 * count; *held: tasks that the dead rank held. */
static double simulate(const struct given *g, int64_t *more, int64_t *held)
{
    struct simulated s = {.given = g};
    int32_t *of = xcalloc((size_t)g->n, sizeof *of);
    double *cost = xcalloc((size_t)g->n, sizeof *cost), capacity = 0, useful = 0, now = 0;
    for (int64_t i = 0; i < g->n; i++) {
        of[i] = (int32_t)(g->n <= recorded.n ? i : rng_below(55, 0, (uint64_t)i, recorded.n));
        cost[i] = recorded.predicted[of[i]];
        useful += recorded.seconds[of[i]];
    }
    s.of = of;
    s.has = xcalloc((size_t)g->n, sizeof *s.has);
    s.rank = xcalloc((size_t)g->ranks, sizeof *s.rank);
    s.schedule = schedule_new(g->blind ? NULL : cost, g->n, g->ranks);
    for (int32_t r = 0; r < g->ranks; r++) {
        s.rank[r].speed = r < g->slow ? 0.25 : 1;
        s.rank[r].way = r >= g->ranks - g->far ? FAR_WAY : WAY;
        schedule_join(s.schedule, r, 1);
    }
    push(&s, (struct event){.kind = TICK});
    if (g->dies >= 0) {
        push(&s, (struct event){.at = g->dies_at, .kind = DIES, .rank = g->dies});
        push(&s, (struct event){.at = g->dies_at + g->told, .kind = TOLD, .rank = g->dies});
    }
    while (schedule_left(s.schedule) > 0) {
        struct event e = pop(&s);
        now = e.at;
        check_each(now < 2000, "nothing happens any more, and %lld tasks are left", (long long)schedule_left(s.schedule));
        happen(&s, e);
    }
    now = fmax(now, s.front_free);
    for (int32_t r = 0; r < g->ranks; r++)
        capacity += s.rank[r].speed * (r == g->dies ? fmin(now, g->dies_at) : now);
    ck_assert_int_eq(s.counted, g->n); /* each once */
    *more = s.done_twice;
    *held = s.lost;
    while (s.n_heap > 0)
        free(pop(&s).many);
    for (int32_t r = 0; r < g->ranks; r++)
        free(s.rank[r].queue);
    free(s.rank);
    free(s.heap);
    free(s.has);
    free(of);
    free(cost);
    schedule_free(s.schedule);
    return useful / capacity;
}

static void at_least(double bar, const struct given *g, const char *what)
{
    int64_t more, held;
    double got = simulate(g, &more, &held);
    fprintf(stderr, "sweep: efficiency %.4f of %lld cases on %d ranks, %s; %lld results more, %lld tasks of a dead rank\n", got,
            (long long)g->n, (int)g->ranks, what, (long long)more, (long long)held);
    ck_assert_msg(got >= bar, "efficiency %.4f (expected %.2f or more): %s", got, bar, what);
    ck_assert_int_le(more, g->n / 100 + 2 * g->ranks);
}

/* ---- results as bytes ----------------------------------------------------------------------------------- */

/* What a process reads is what another one wrote: every column of every row, right and wrong ones. */
TEST(results_survive_the_way)
{
    struct err e = {0};
    struct strategy_use use[] = {strategy_of("flash-decoding"), strategy_of("relay")};
    const struct kernel *kernel[] = {kernel_find("cpu"), faulty_kernel("heads_swapped"), faulty_kernel("refusal")};
    struct case_spec c = {0};
    ck_assert_msg(case_parse("tree=levels:1,3 300,40;heads=4/2;d=16;strategy=cascade", &c, &e), "%s", e.msg);
    struct test_case *x = test_case_new(&c, NULL, &e);
    struct judged d = {.n = 9, .own = c.use, .heads = c.spec.heads, .held = 5, .line = 7, .census = {1, 2, 3}};
    d.result = xcalloc(9, sizeof *d.result);
    d.string = xcalloc(9, sizeof *d.string);
    for (int32_t i = 0; i < d.n; i++) {
        d.result[i] = judge_case(x, i % 3 < 2 ? &use[i % 3] : &d.own, kernel[i / 3]);
        c.use = *d.result[i].use;
        d.string[i] = case_print(&c);
    }
    char *bytes;
    size_t size;
    FILE *f = open_memstream(&bytes, &size);
    judged_pack(&d, use, f);
    fclose(f);
    struct judged *back = judged_unpack(bytes, size, use, 2);
    ck_assert_ptr_nonnull(back);
    ck_assert(back->n == 9 && back->held == 5 && back->line == 7 && back->census[2] == 3);
    for (int32_t i = 0; i < d.n; i++) {
        struct row_outcome a = result_outcome(&d.result[i], &d.heads, d.string[i]),
                           b = result_outcome(&back->result[i], &back->heads, back->string[i]);
        json_t *one = outcome_json(&a), *two = outcome_json(&b);
        FREED char *was = strategy_label(d.result[i].use), *is = strategy_label(back->result[i].use);
        ck_assert(json_equal(one, two));
        ck_assert_str_eq(was, is);
        json_decref(one);
        json_decref(two);
        ck_assert(result_is_gross(&back->result[i]) == result_is_gross(&d.result[i]));
        ck_assert(memcmp(&back->result[i].cause.set, &d.result[i].cause.set, sizeof d.result[i].cause.set) == 0);
        ck_assert_str_eq(back->result[i].cmp.why, d.result[i].cmp.why);
        outcome_clear(&a);
        outcome_clear(&b);
    }
    judged_free(back);
    for (size_t n = 0; n < size; n += 1 + size / 200) /* cut anywhere, it is refused */
        check_each(!judged_unpack(bytes, n, use, 2), "%zu of %zu bytes", n, size);
    check_each(!judged_unpack(bytes, size, use, 0), "strategies that are not there");
    free(bytes);
    for (int32_t i = 0; i < d.n; i++)
        free(d.string[i]);
    free(d.string);
    free(d.result);
    test_case_free(x);
    case_clear(&c);
}

FROM_HERE(with_costs, .setup = read_costs, .seconds = 120)

/* The bar: 0.95 at 256 ranks and 10^6 cases. */
TEST(schedules_of_many_cases_are_efficient)
{
    /* as many cases a rank, where there are fewer */
    int64_t n = fewer(100000, 1000000);
    int32_t ranks = (int32_t)fewer(26, 256), part = ranks / 4;
    at_least(0.95, &(struct given){.n = n, .ranks = ranks, .dies = -1}, "all alike");
    at_least(0.95, &(struct given){.n = n, .ranks = ranks, .dies = -1, .slow = part, .far = part},
             "a quarter of them slow, others far away");
}

/* The same by equal parts, handed out once: they would not do. */
TEST(equal_parts_are_not_efficient)
{
    const int64_t n = fewer(100000, 1000000), ranks = 256, slow = 64;
    double useful = 0, longest = 0;
    for (int64_t r = 0, i = 0; r < ranks; r++) {
        double part = 0;
        for (; i < n * (r + 1) / ranks; i++)
            part += recorded.seconds[rng_below(55, 0, (uint64_t)i, recorded.n)];
        useful += part;
        longest = fmax(longest, part / (r < slow ? 0.25 : 1));
    }
    double got = useful / (longest * ((double)(ranks - slow) + 0.25 * (double)slow));
    fprintf(stderr, "sweep: efficiency %.4f of equal parts, a quarter of the ranks slow\n", got);
    ck_assert(got < 0.95);
}

TEST(schedules_of_few_cases_are_efficient)
{
    at_least(0.95, &(struct given){.n = recorded.n, .ranks = 4, .dies = -1}, "all alike");
    at_least(0.90, &(struct given){.n = recorded.n, .ranks = 4, .dies = -1, .slow = 1, .far = 1}, "one slow, one far away");
    at_least(0.90, &(struct given){.n = recorded.n, .ranks = 4, .dies = -1, .blind = true}, "costs unknown");
}

/* What it held is done again, and nothing else. */
TEST(a_dead_rank_costs_its_range_once_more)
{
    struct given g = {.n = fewer(20000, 100000), .ranks = 64, .dies = 7, .dies_at = 5, .told = 5};
    int64_t more, held;
    at_least(0.93, &g, "one dies");
    simulate(&g, &more, &held);
    ck_assert_int_gt(held, 0);
    ck_assert_int_le(held, 200); /* two seconds of work */
    g.told = 1e9; /* nobody tells the master */
    simulate(&g, &more, &held);
    ck_assert_int_eq(held, 0);
}

static char text[1 << 16];

/* Built without MPI, one rank says so. The program with faulty kernels lies where no treeattn-mpi is. */
TEST(mpirun_needs_a_program_that_says_so)
{
    if (!program_built())
        return;
    ck_assert_int_eq(run_shell(text, sizeof text, "OMPI_COMM_WORLD_RANK=0 %s gap --trees 1 2>&1", faulty_path()), EXIT_MISSING);
    ck_assert_msg(strstr(text, "treeattn: under mpirun, gap is shared by ") && strstr(text, "libopenmpi-dev"), "%s", text);
    ck_assert_int_eq(run_shell(text, sizeof text, "PMIX_RANK=1 %s gap --trees 1 2>&1", faulty_path()), EXIT_MISSING);
    ck_assert_str_eq(text, "");
    ck_assert_int_eq(run_shell(text, sizeof text, "OMPI_COMM_WORLD_RANK=0 %s list machines >/dev/null", faulty_path()), 0);
}

/* ---- under mpirun --------------------------------------------------------------------------------------- */

/* Is there one, and was the program for it built? */
static bool has_mpi(void)
{
    const char *program = getenv("TREEATTN_BIN");
    char *launcher = xasprintf("%s-mpi", program ? program : "build/treeattn");
    bool there = access(launcher, X_OK) == 0 && system("command -v mpirun >/dev/null") == 0;
    free(launcher);
    if (!there)
        printf("skip: no mpirun, or no treeattn-mpi beside the program\n");
    return there;
}

FROM_HERE(under_mpirun, .wanted = has_mpi, .seconds = 240)

/* Four ranks, whoever this user is; a dead one ends no other. */
static const char mpirun[] = "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 "
                             "OMPI_MCA_plm_rsh_agent=false mpirun --oversubscribe --enable-recovery -n 4";

/* What a command prints, alone and shared, in two files of `folder`; the exit code of both, which is the same. `env` begins the shared
 * one; `filter` takes the times out. */
static int alone_and_shared(const char *folder, const char *env, const char *args, const char *filter)
{
    /* digits depend on the number of threads */
    setenv("OMP_NUM_THREADS", "1", 1);
    int alone = run_shell(text, sizeof text, "%s %s 2>%s/err1 >%s/out1", program_path(), args, folder, folder);
    int shared = run_shell(text, sizeof text, "%s %s %s %s 2>%s/err4 >%s/out4", env, mpirun, program_path(), args, folder, folder);
    ck_assert_msg((alone == 0) == (shared == 0), "%s: exit code %d, under mpirun %d", args, alone, shared);
    ck_assert_msg(run_shell(text, sizeof text, "%s <%s/out1 >%s/a; %s <%s/out4 >%s/b; cmp %s/a %s/b 2>&1 && test -s %s/a", filter,
                            folder, folder, filter, folder, folder, folder, folder, folder) == 0,
                  "%s: not the same under mpirun: %s", args, text);
    return alone;
}

static const char no_times[] = "cut -f1-14,17-", no_csv_times[] = "grep -v '^#' | cut -d, -f1-14,17-";

TEST(a_shared_run_prints_what_one_process_prints)
{
    FREED char *folder = scratch_folder();
    alone_and_shared(folder, "", "verify --trees 12 --strategy pat,deft-flatten --kernel cpu --no-sharp", no_times);
    alone_and_shared(folder, "", "verify --suite smoke-1 --strategy pat --kernel cpu --csv --shard 1/2", no_csv_times);
    alone_and_shared(folder, "", "verify --trace embedded:reasoning --prompt 200 --max-seq 400 --steps 5 --strategy cascade", no_times);
}

/* Processor time of the host is no two times the same. */
static const char no_host_times[] = "sed -E 's/\"(exposed_s|host_plan_s|host_cache_s)\": [^,}]*//g'";

LOOP_TEST(other_commands_share_their_work, 4)
{
    static const char *const all[4][2] = {
        {"gap --trees 2 --seed 3", "cat"},
        {"selftest -q --strategy naive,flash-decoding", "cat"},
        {"sim --levels '1,{b} 1000,100' --sweep b=2,4,8 --sweep heads=8/2,32/8 --machine h100 --machine a100-80 --strategy pat,treeattn --csv", "cat"},
        {"replay --machine h100 --workload few-shot-50 --every 200 --json", no_host_times}};
    FREED char *folder = scratch_folder();
    ck_assert_int_eq(alone_and_shared(folder, "", all[_i][0], all[_i][1]), 0);
}

TEST(rows_of_a_shared_run_are_gone_on_with)
{
    FREED char *folder = scratch_folder(), *args = xasprintf("verify --suite smoke-1 --strategy pat --kernel cpu -q --rows %s/rows", folder);
    ck_assert_int_eq(run_shell(text, sizeof text, "%s %s %s", mpirun, program_path(), args), 0);
    ck_assert_int_eq(run_shell(text, sizeof text, "head -n 12 %s/rows >%s/r && mv %s/r %s/rows", folder, folder, folder, folder), 0);
    FREED char *on = xasprintf("%s --resume", args);
    ck_assert_int_eq(run_shell(text, sizeof text, "%s %s %s", mpirun, program_path(), on), 0);
    ck_assert_ptr_nonnull(strstr(text, "verify: 24 cases"));
    ck_assert_int_eq(run_shell(text, sizeof text, "grep -c '\"from\"' %s/rows", folder), 0);
    ck_assert_int_eq(atoi(text), 24);
}

/* Failures are reported, explained and counted as by one process; bad input is told of once. */
TEST(shared_failures_are_told_as_by_one_process)
{
    FREED char *folder = scratch_folder();
    FREED char *by = xasprintf("TREEATTN_SWEEP_PROGRAM=%s", faulty_path());
    const char *args = "verify --kernel faulty-heads_swapped --strategy flash-decoding --trees 6 --no-sharp --no-shrink";
    int alone = run_shell(text, sizeof text, "%s %s 2>&1 >%s/a", faulty_path(), args, folder);
    ck_assert_int_eq(alone, EXIT_FAILED);
    int shared = run_shell(text, sizeof text, "%s %s %s-mpi %s 2>&1 >%s/b", by, mpirun, program_file(), args, folder);
    ck_assert_int_eq(shared, EXIT_FAILED);
    ck_assert_msg(run_shell(text, sizeof text, "cd %s; cut -f1-14,17- a >c; cut -f1-14,17- b | cmp - c && grep FAIL c", folder) == 0,
                  "%s", text);
    ck_assert_int_eq(run_shell(text, sizeof text, "%s %s verify --trees none 2>&1 | grep -c '^treeattn: '", mpirun, program_path()), 0);
    ck_assert_int_eq(atoi(text), 1);
}

/* A case that ends the process that judges it is tried on a second rank, and then ends the run. */
TEST(a_case_that_crashes_is_tried_twice)
{
    int code = run_shell(text, sizeof text, "TREEATTN_SWEEP_PROGRAM=%s %s %s-mpi verify --kernel faulty-end --strategy pat --trees 3 --no-sharp 2>&1",
                         faulty_path(), mpirun, program_file());
    ck_assert_int_eq(code, EXIT_FAILED);
    ck_assert_msg(strstr(text, "lost its worker") && strstr(text, "treeattn: two workers ended at case"), "%s", text);
}

/* Once ten cases are over, a rank, or the worker of it, is killed. */
static void kill_one(const char *folder, const char *whom, const char *args)
{
    ck_assert_msg(run_shell(text, sizeof text,
                            "cd %s; : >costs; TREEATTN_SWEEP_COSTS=costs %s %s %s >b 2>err & m=$!\n"
                            "n=0; while [ $n -lt 71 ]; do sleep 0.02; n=$(wc -l <costs); done\n"
                            "for p in $(cat /proc/$m/task/*/children); do\n"
                            "  tr '\\0' '\\n' </proc/$p/environ | grep -q OMPI_COMM_WORLD_RANK=2 && rank=$p; done\n"
                            "worker=$(cat /proc/$rank/task/*/children); kill -9 $%s; wait $m; echo code $?",
                            folder, mpirun, program_path(), args, whom) == 0 &&
                      strstr(text, "code 0"),
                  "%s", text);
    FREED char *err = xasprintf("%s/err", folder), *said = file_text(err);
    ck_assert_msg(strstr(said, "treeattn: rank 2 on "), "%s", said);
    ck_assert_msg(run_shell(text, sizeof text, "cd %s; cut -f1-14,17- a >c; cut -f1-14,17- b | cmp - c 2>&1", folder) == 0, "%s", text);
    /* each case counted once */
    ck_assert_int_eq(run_shell(text, sizeof text, "cd %s; grep -c '^1,' costs; cut -d, -f1,2 costs | sort | uniq -d", folder), 0);
    ck_assert_str_eq(text, "60\n");
}

TEST(what_is_killed_is_done_again)
{
    static const char args[] = "verify --trees 60 --strategy pat --kernel cpu --no-sharp";
    FREED char *folder = scratch_folder();
    setenv("OMP_NUM_THREADS", "1", 1);
    ck_assert_int_eq(run_shell(text, sizeof text, "%s %s >%s/a", program_path(), args, folder), 0);
    kill_one(folder, "worker", args);
    kill_one(folder, "rank", args);
}
