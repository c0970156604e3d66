/* cta.c - see cta.h. */
#include "verify/lab/tile/cta.h"

#include "ref/rng.h"
#include "tests/labs/include/lab.h"

#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#endif

enum { SHARED_ARRAYS = 32, NO_THREAD = -1 };
#define GUARD ((size_t)4 << 20) /* below each stack: who takes more than a stack ends there */

/* An element of shared memory. Rounds are counted from 1: a barrier begins the next. 0: never. */
struct cell {
    float x;
    int32_t written, read; /* the round of the last one */
    int32_t writer, write_line;
    int32_t reader[2], read_line[2]; /* of that round: the first one, and one that is not the first */
    bool before;                     /* it was written in an earlier round as well */
};
struct shared {
    char name[CTA_NAME];
    struct cell *cell;
    int64_t n;
};
/* Other arrays. loads: of K and V, who loaded an element first. */
struct load {
    int32_t thread, line; /* line 0: nobody */
};
enum global { Q, K, V, PAGE_TABLE, RUN_END, MASK, O, LSE, N_GLOBALS };
static const char *const global_name[] = {"q", "k", "v", "page_table", "run_end", "mask", "o", "lse"};

enum state { READY, WAITS, ENDED };
struct thread {
    ucontext_t at;
    struct lab_cta c;
    enum state state;
    int32_t line; /* of the barrier at which it waits */
    int64_t work;
    void *fake_stack;
};

/* All that the object may write to: threads that talk there talk behind the back of shared memory. It is looked at after each turn. */
struct statics {
    uintptr_t inside; /* an address in the object */
    char *at, *was;
    size_t size;
    bool too_much; /* more than anybody needs, or variables of the system's threads */
};

/* The one CTA that runs. What a handle of an array points to is not there: it is a number, from 1. */
static struct {
    const struct cta_run *run;
    void (*tile)(const struct lab_cta *c);
    struct cta_said *said;
    ucontext_t judge;
    char *stacks;
    struct thread thread[CTA_THREADS];
    int32_t n_threads, me, round;
    struct shared shared[SHARED_ARRAYS];
    int32_t n_shared;
    struct load *load[2], *output[2]; /* K, V; O, LSE */
    int64_t size[N_GLOBALS];
    struct statics statics;
    struct cta_said unset; /* a read of what nobody had written, of this round: it may become a race */
} cta;

/* ---- from thread to thread ------------------------------------------------------------------------------ */

static char *stack_of(int32_t thread)
{
    return cta.stacks + (size_t)thread * (GUARD + CTA_STACK) + GUARD;
}

static void leave_judge(struct thread *t)
{
#ifdef __SANITIZE_ADDRESS__
    void *fake;
    __sanitizer_start_switch_fiber(&fake, stack_of(cta.me), CTA_STACK);
#endif
    swapcontext(&cta.judge, &t->at);
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_finish_switch_fiber(fake, NULL, NULL);
#endif
}

#ifdef __SANITIZE_ADDRESS__
static const void *judge_stack;
static size_t judge_stack_size;
#endif

static void leave_thread(struct thread *t)
{
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_start_switch_fiber(t->state == ENDED ? NULL : &t->fake_stack, judge_stack, judge_stack_size);
#endif
    swapcontext(&t->at, &cta.judge);
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_finish_switch_fiber(t->fake_stack, NULL, NULL);
#endif
}

static void thread_main(void)
{
    struct thread *t = &cta.thread[cta.me];
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_finish_switch_fiber(NULL, &judge_stack, &judge_stack_size);
#endif
    cta.tile(&t->c);
    t->state = ENDED;
    leave_thread(t);
}

/* Ends the run: no thread goes on. */
static void fail(struct cta_said what, const char *array)
{
    struct cta_said *said = cta.said;
    if (!said->fault) {
        memcpy(what.loads, said->loads, sizeof what.loads);
        *said = what;
        snprintf(said->array, sizeof said->array, "%s", array);
    }
    cta.thread[cta.me].state = ENDED;
    leave_thread(&cta.thread[cta.me]);
    abort(); /* nobody comes back to a run that has ended */
}

static void barrier(int line)
{
    struct thread *t = &cta.thread[cta.me];
    t->line = line;
    t->state = WAITS;
    leave_thread(t);
}

/* ---- shared memory -------------------------------------------------------------------------------------- */

static struct shared *shared_of(const struct lab_shared *a, int64_t i, int line)
{
    uintptr_t number = (uintptr_t)a;
    static struct shared none = {.name = "an array that is none"};
    struct shared *s = &none;
    if (number >= 1 && number <= (uintptr_t)cta.n_shared)
        s = &cta.shared[number - 1];
    if (i < 0 || i >= s->n)
        fail((struct cta_said){.fault = CTA_BOUNDS, .thread = cta.me, .line = line, .index = i, .size = s->n},
             s->name);
    cta.thread[cta.me].work++;
    return s;
}

static struct lab_shared *declare(const char *name, int64_t n, int line)
{
    int64_t all = 0;
    int32_t i = 0;
    while (i < cta.n_shared && strncmp(cta.shared[i].name, name, CTA_NAME - 1) != 0)
        all += cta.shared[i++].n;
    struct cta_said what = {.fault = CTA_TWO_SIZES, .thread = cta.me, .line = line, .index = n};
    if (i < cta.n_shared && cta.shared[i].n != n) {
        what.size = cta.shared[i].n;
        fail(what, name);
    }
    if (i < cta.n_shared)
        return (struct lab_shared *)(uintptr_t)(i + 1);
    what.fault = CTA_TOO_MUCH;
    what.size = n < 0 || n > INT32_MAX ? n : (all + n) * (int64_t)sizeof(float);
    if (n < 0 || n > INT32_MAX || what.size > CTA_SHARED_BYTES || i == SHARED_ARRAYS)
        fail(what, name);
    struct shared *s = &cta.shared[cta.n_shared++];
    snprintf(s->name, sizeof s->name, "%s", name);
    s->cell = xcalloc((size_t)n + 1, sizeof *s->cell);
    s->n = n;
    return (struct lab_shared *)(uintptr_t)cta.n_shared;
}

static void race(const struct shared *s, const struct cell *e, int64_t i, int32_t reader, int32_t read_line,
                 int32_t writer, int32_t write_line)
{
    fail((struct cta_said){.fault = CTA_RACE,
                           .thread = reader,
                           .line = read_line,
                           .other = writer,
                           .other_line = write_line,
                           .index = i,
                           .again = e->before},
         s->name);
}

static float get_shared(struct lab_shared *a, int64_t i, int line)
{
    struct shared *s = shared_of(a, i, line);
    struct cell *e = &s->cell[i];
    if (e->written == cta.round && e->writer != cta.me)
        race(s, e, i, cta.me, line, e->writer, e->write_line);
    if (e->written == 0 && !cta.unset.fault) {
        cta.unset =
            (struct cta_said){.fault = CTA_UNSET, .thread = cta.me, .line = line, .index = i, .size = s->n};
        memcpy(cta.unset.array, s->name, sizeof s->name);
    }
    if (e->read != cta.round) {
        e->read = cta.round;
        e->reader[0] = cta.me;
        e->read_line[0] = line;
        e->reader[1] = NO_THREAD;
    } else if (e->reader[0] != cta.me && e->reader[1] == NO_THREAD) {
        e->reader[1] = cta.me;
        e->read_line[1] = line;
    }
    return e->x;
}

static void set_shared(struct lab_shared *a, int64_t i, float x, int line)
{
    struct shared *s = shared_of(a, i, line);
    struct cell *e = &s->cell[i];
    e->before = e->before || (e->written > 0 && e->written < cta.round);
    for (int k = 0; k < 2 && e->read == cta.round; k++)
        if (e->reader[k] != cta.me && e->reader[k] != NO_THREAD)
            race(s, e, i, e->reader[k], e->read_line[k], cta.me, line);
    if (e->written == cta.round && e->writer != cta.me)
        fail((struct cta_said){.fault = CTA_TWO_WRITE,
                               .thread = cta.me,
                               .line = line,
                               .other = e->writer,
                               .other_line = e->write_line,
                               .index = i},
             s->name);
    e->x = x;
    e->written = cta.round;
    e->writer = cta.me;
    e->write_line = line;
}

/* ---- other arrays --------------------------------------------------------------------------------------- */

/* Which array a handle is, where i is in it. */
static enum global global_of(const void *a, enum global first, enum global last, int64_t i, int line)
{
    uintptr_t number = (uintptr_t)a - 1;
    bool known = number >= (uintptr_t)first && number <= (uintptr_t)last;
    int64_t size = known ? cta.size[number] : 0;
    if (i < 0 || i >= size)
        fail((struct cta_said){.fault = CTA_BOUNDS, .thread = cta.me, .line = line, .index = i, .size = size},
             known ? global_name[number] : "an array that is none");
    return (enum global)number;
}

static float get_float(const struct lab_floats *a, int64_t i, int line)
{
    enum global g = global_of(a, Q, V, i, line);
    const struct cta_run *r = cta.run;
    if (g == Q)
        return r->q[i];
    struct cta_said *said = cta.said;
    struct load *l = &cta.load[g - K][i];
    cta.thread[cta.me].work++;
    said->loads[g - K]++;
    if (l->line && !said->twice[0] && !said->twice[1]) {
        said->twice_index = i;
        said->twice_thread = l->thread;
        said->twice_line = l->line;
        said->twice_other = cta.me;
        said->twice_other_line = line;
    }
    said->twice[g - K] += l->line > 0;
    if (!l->line)
        *l = (struct load){cta.me, line};
    return g == K ? r->k[i] : r->v[i];
}

static int64_t get_int(const struct lab_ints *a, int64_t i, int line)
{
    const struct cta_run *r = cta.run;
    const int64_t *const of[] = {r->page_table, r->run_end, r->mask};
    return of[global_of(a, PAGE_TABLE, MASK, i, line) - PAGE_TABLE][i];
}

static void set_output(struct lab_outputs *a, int64_t i, float x, int line)
{
    enum global g = global_of(a, O, LSE, i, line);
    const struct lab_cta *c = cta.run->shape;
    int64_t row = g == O ? i / c->head_dim : i, head = row % (c->kv_heads * c->ratio);
    struct load *l = &cta.output[g - O][i];
    struct cta_said what = {
        .fault = CTA_OUTPUT_OF_OTHERS, .thread = cta.me, .line = line, .index = i, .size = head};
    if (head / c->ratio != c->kv_head)
        fail(what, global_name[g]);
    what.fault = CTA_OUTPUT_TWICE;
    what.other = l->thread;
    what.other_line = l->line;
    if (l->line)
        fail(what, global_name[g]);
    *l = (struct load){cta.me, line};
    (g == O ? cta.run->o : cta.run->lse)[i] = x;
}

static const struct lab_device device = {declare,    get_float,  get_int, get_shared,
                                         set_shared, set_output, barrier};

/* ---- variables of the object ------------------------------------------------------------------------------ */

static int find_statics(struct dl_phdr_info *info, size_t size, void *to)
{
    (void)size;
    struct statics *s = to;
    enum { MOST = 64 << 10 };
    bool here = false;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        uintptr_t at = info->dlpi_addr + p->p_vaddr;
        here = here || (p->p_type == PT_LOAD && s->inside >= at && s->inside < at + p->p_memsz);
    }
    for (int i = 0; i < info->dlpi_phnum && here; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        if (p->p_type == PT_TLS)
            s->too_much = true;
        if (p->p_type != PT_LOAD || !(p->p_flags & PF_W))
            continue;
        s->at = (char *)(info->dlpi_addr + p->p_vaddr);
        s->size = p->p_memsz;
        s->too_much = s->too_much || s->size > MOST;
    }
    return here;
}

static void statics_keep(struct statics *s, uintptr_t inside)
{
    *s = (struct statics){.inside = inside};
    dl_iterate_phdr(find_statics, s);
    s->was = xmalloc(s->size + 1);
    if (!s->too_much && s->size > 0)
        memcpy(s->was, s->at, s->size);
}

static bool statics_changed(const struct statics *s)
{
    return s->too_much || (s->size > 0 && memcmp(s->at, s->was, s->size) != 0);
}

/* ---- a round ---------------------------------------------------------------------------------------------- */

/* Each thread to its next barrier or its end, in the order of this round. False: the run is over. */
static bool go_round(void)
{
    int32_t order[CTA_THREADS] = {0}, n = cta.n_threads;
    for (int32_t i = 0; i < n; i++) {
        int32_t k = (int32_t)rng_below(cta.run->order, (uint64_t)cta.round, (uint64_t)i, i + 1);
        order[i] = order[k];
        order[k] = i;
    }
    for (int32_t i = 0; i < n; i++) {
        cta.me = order[i];
        leave_judge(&cta.thread[cta.me]);
        if (statics_changed(&cta.statics)) /* so that what came of it does not count */
            *cta.said = (struct cta_said){.fault = CTA_STATIC, .thread = cta.me};
        if (cta.said->fault)
            return false;
    }
    if (cta.unset.fault)
        *cta.said = cta.unset;
    int32_t ended = NO_THREAD, waits = NO_THREAD;
    for (int32_t i = n - 1; i >= 0; i--)
        *(cta.thread[i].state == ENDED ? &ended : &waits) = i;
    if (cta.said->fault || waits == NO_THREAD)
        return false;
    const struct thread *w = &cta.thread[waits];
    struct cta_said what = {.fault = CTA_ENDED, .thread = ended, .other = waits, .other_line = w->line};
    for (int32_t i = 0; i < n && ended == NO_THREAD; i++)
        if (cta.thread[i].line != w->line) {
            what.fault = CTA_APART;
            what.thread = ended = i;
            what.line = cta.thread[i].line;
        }
    if (ended != NO_THREAD) {
        *cta.said = what;
        return false;
    }
    cta.round++;
    return true;
}

/* What a handle of it points to: nothing, but its number, from 1. */
static void *handle(enum global g)
{
    return (void *)(uintptr_t)(g + 1);
}

static void begin(void)
{
    const struct lab_cta *shape = cta.run->shape;
    cta.n_threads = shape->threads;
    CK(cta.n_threads > 0 && cta.n_threads <= CTA_THREADS);
    if (!cta.stacks) {
        cta.stacks = mmap(NULL, CTA_THREADS * (GUARD + CTA_STACK), PROT_NONE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        CK(cta.stacks != MAP_FAILED);
        for (int32_t i = 0; i < CTA_THREADS; i++)
            CK(mprotect(stack_of(i), CTA_STACK, PROT_READ | PROT_WRITE) == 0);
    }
    for (int32_t i = 0; i < cta.n_threads; i++) {
        struct thread *t = &cta.thread[i];
        t->c = *shape;
        t->c.thread = i;
        t->c.q = handle(Q);
        t->c.k = handle(K);
        t->c.v = handle(V);
        t->c.page_table = handle(PAGE_TABLE);
        t->c.run_end = handle(RUN_END);
        t->c.mask = handle(MASK);
        t->c.o = handle(O);
        t->c.lse = handle(LSE);
        t->state = READY;
        t->work = 0;
        CK(getcontext(&t->at) == 0);
        t->at.uc_stack.ss_sp = stack_of(i);
        t->at.uc_stack.ss_size = CTA_STACK;
        t->at.uc_link = NULL;
        makecontext(&t->at, thread_main, 0);
    }
    const struct cta_run *r = cta.run;
    int64_t lse = r->n_o / shape->head_dim;
    const int64_t size[] = {r->n_q, r->n_kv, r->n_kv, r->n_pages, shape->runs, shape->runs, r->n_o, lse};
    memcpy(cta.size, size, sizeof size);
    for (int i = 0; i < 2; i++) {
        cta.load[i] = xcalloc((size_t)r->n_kv + 1, sizeof(struct load));
        cta.output[i] = xcalloc((size_t)(i == 0 ? r->n_o : lse) + 1, sizeof(struct load));
    }
    statics_keep(&cta.statics, (uintptr_t)cta.tile);
    cta.n_shared = 0;
    cta.round = 1;
    cta.unset.fault = CTA_GOOD;
}

static void finish(void)
{
    free(cta.statics.was);
    for (int32_t i = 0; i < cta.n_threads; i++) {
        int64_t work = cta.thread[i].work;
        cta.said->all += work;
        if (work > cta.said->busiest_part) {
            cta.said->busiest_part = work;
            cta.said->busiest = i;
        }
    }
    for (int32_t i = 0; i < cta.n_shared; i++)
        free(cta.shared[i].cell);
    for (int i = 0; i < 2; i++) {
        free(cta.load[i]);
        free(cta.output[i]);
    }
}

void cta_run(const struct cta_run *run, void (*tile)(const struct lab_cta *c), const void **to_device,
             struct cta_said *said)
{
    *said = (struct cta_said){.fault = CTA_GOOD};
    *to_device = &device;
    cta.run = run;
    cta.tile = tile;
    cta.said = said;
    begin();
    while (go_round())
        ;
    finish();
}
