/* Each fiber begins by setcontext. From then on _setjmp and _longjmp go from one to the other:
 * swapcontext would ask the kernel twice for signals that nobody changes. glibc's check of jumps
 * takes other stacks for a mistake.
 *
 * A thread of the operating system keeps its fibers for the next grid: to make them, with the pages
 * of their stacks, takes longer than most kernels. */
#undef _FORTIFY_SOURCE
#include "tests/emulator/cuda/fibers.h"

#include "model/cuda/kernels/device.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#if defined(__SANITIZE_ADDRESS__)
#define FIBERS_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define FIBERS_ASAN 1
#endif
#endif
#ifdef FIBERS_ASAN
#include <sanitizer/common_interface_defs.h>
#define STACK_BYTES ((size_t)128 << 10)
#else
#define STACK_BYTES ((size_t)32 << 10)
#endif

/* Where the next stack begins: they would all meet in a few lines of the caches otherwise. */
#define STACK_STEP (STACK_BYTES + (size_t)9 * 64)

#define MOST_THREADS 1024
#define SHARED_BYTES ((size_t)48 << 10) /* what a block has without asking for more */
#define SHARED_ARRAYS 16
#define GUARD_BYTES 64
#define GUARD 0x5a

typedef enum fiber_state { READY, WAITING, ENDED } fiber_state;

typedef struct fiber {
    jmp_buf at;
    bool begun;
    fiber_state state;
    const char *file; /* of the barrier at which it waits */
    int line;
    uint32_t arrays; /* shared arrays that it has asked for in this block */
} fiber;

typedef struct shared_array {
    size_t offset, bytes;
} shared_array;

/* What a thread of the operating system keeps between grids. */
typedef struct pool {
    fiber *fibers;
    ucontext_t *contexts; /* how each begins */
    unsigned char *stacks;
    unsigned char *shared;
    uint32_t count; /* of fibers */
} pool;

/* A grid under way. */
typedef struct run {
    const psr_fibers_grid *grid;
    void (*body)(const void *arguments);
    const void *arguments;
    uint64_t random;
    uint32_t number, round; /* of the grid; of the block under way */
    jmp_buf main_at;
    fiber *fibers;
    const ucontext_t *contexts;
    unsigned char *stacks;
    fiber *now; /* NULL: the thread is a plain call, whose shared arrays plain counts */
    bool over;  /* fibers that are resumed end for good */
    unsigned char *shared;
    shared_array arrays[SHARED_ARRAYS];
    uint32_t array_count;
    char *problem;          /* "": none yet */
    const void *main_stack; /* for the sanitizer */
    size_t main_stack_bytes;
} run;

_Thread_local psr_emulated_place psr_emulated_at;
static _Thread_local run *running;
static _Thread_local uint32_t runs;
static _Thread_local pool *own_pool;
static pthread_once_t key_once = PTHREAD_ONCE_INIT;
static pthread_key_t key; /* its value is own_pool, so that a thread that ends frees it */

static uint64_t draw(run *r)
{
    /* SplitMix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014). */
    uint64_t z = r->random += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static void shuffle(run *r, uint32_t *order, uint32_t count)
{
    for (uint32_t i = count; i > 1; i--) {
        const uint32_t j = (uint32_t)((draw(r) >> 32) * i >> 32);
        const uint32_t kept = order[i - 1];
        order[i - 1] = order[j];
        order[j] = kept;
    }
}

static void count_up(uint32_t *order, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        order[i] = i;
}

/* The first problem is the one that is told. */
void psr_fibers_report(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    if (running->problem[0] == '\0')
        vsnprintf(running->problem, PSR_FIBERS_PROBLEM_BYTES, format, arguments);
    va_end(arguments);
}

bool psr_fibers_are_at(psr_fibers_now *ret_now)
{
    if (running == NULL)
        return false;
    *ret_now = (psr_fibers_now){.run = running->number,
                                .block = psr_emulated_at.block,
                                .round = running->round,
                                .thread = psr_emulated_at.thread};
    return true;
}

bool psr_fibers_own(const void *at)
{
    const unsigned char *stacks = running->stacks;
    return (const unsigned char *)at >= stacks &&
           (const unsigned char *)at < stacks + running->grid->threads * STACK_STEP;
}

bool psr_fibers_shared(const void *at)
{
    const unsigned char *shared = running->shared;
    return (const unsigned char *)at >= shared &&
           (const unsigned char *)at < shared + SHARED_BYTES + GUARD_BYTES;
}

/* ---- from fiber to fiber ---- */

static void to_main(run *r, fiber *f, bool for_good)
{
#ifdef FIBERS_ASAN
    void *fake = NULL;
    __sanitizer_start_switch_fiber(for_good ? NULL : &fake, r->main_stack, r->main_stack_bytes);
#endif
    if (for_good || _setjmp(f->at) == 0)
        _longjmp(r->main_at, 1);
#ifdef FIBERS_ASAN
    /* Perhaps in another run. */
    __sanitizer_finish_switch_fiber(fake, &running->main_stack, &running->main_stack_bytes);
#endif
}

static void to_fiber(run *r, fiber *f)
{
    r->now = f;
#ifdef FIBERS_ASAN
    void *fake = NULL;
    __sanitizer_start_switch_fiber(&fake, r->stacks + (size_t)(f - r->fibers) * STACK_STEP,
                                   STACK_BYTES);
#endif
    if (_setjmp(r->main_at) == 0) {
        if (f->begun)
            _longjmp(f->at, 1);
        f->begun = true;
        setcontext(&r->contexts[f - r->fibers]);
    }
#ifdef FIBERS_ASAN
    __sanitizer_finish_switch_fiber(fake, NULL, NULL);
#endif
    r->now = NULL;
}

/* A fiber plays its thread of one block after the other, of one grid after the other. */
static void fiber_main(void)
{
    fiber *f = running->now;
#ifdef FIBERS_ASAN
    __sanitizer_finish_switch_fiber(NULL, &running->main_stack, &running->main_stack_bytes);
#endif
    while (!running->over) {
        running->body(running->arguments);
        f->state = ENDED;
        to_main(running, f, false);
    }
    to_main(running, f, true);
}

/* ---- what a kernel calls ---- */

static bool is_barrier(const psr_fibers_barrier *barrier, const char *file, int line)
{
    return barrier->line == line && strcmp(barrier->file, file) == 0;
}

static bool is_left_out(const psr_fibers_barrier *without, const char *file, int line)
{
    return without != NULL && is_barrier(without, file, line);
}

static void see(psr_fibers_barrier *seen, const char *file, int line)
{
    if (seen == NULL)
        return;
    for (uint32_t i = 0; i < PSR_FIBERS_BARRIERS; i++) {
        if (seen[i].file == NULL)
            seen[i] = (psr_fibers_barrier){file, line};
        if (is_barrier(&seen[i], file, line))
            return;
    }
}

void psr_emulated_barrier(const char *file, int line)
{
    run *r = running;
    fiber *f = r->now;
    if (!r->grid->barriers) {
        psr_fibers_report("%s:%d: a barrier in a kernel that is said to have none", file, line);
        return;
    }
    if (is_left_out(r->grid->without, file, line))
        return;
    see(r->grid->seen, file, line);
    f->state = WAITING;
    f->file = file;
    f->line = line;
    to_main(r, f, false);
}

void *psr_emulated_shared(size_t bytes)
{
    run *r = running;
    if (r->now == NULL) {
        psr_fibers_report("shared memory in a kernel that is said to have no barrier");
        abort();
    }
    const uint32_t i = r->now->arrays++;
    if (i < r->array_count) {
        if (r->arrays[i].bytes != bytes)
            psr_fibers_report("shared array %u has %zu bytes for thread %u and %zu for another", i,
                              bytes, psr_emulated_at.thread, r->arrays[i].bytes);
        return r->shared + r->arrays[i].offset;
    }
    const size_t offset =
        i == 0
            ? 0
            : (r->arrays[i - 1].offset + r->arrays[i - 1].bytes + GUARD_BYTES + 15) & ~(size_t)15;
    if (i == SHARED_ARRAYS || offset + bytes > SHARED_BYTES) {
        fprintf(stderr, "a block asks for more than %zu bytes of shared memory\n", SHARED_BYTES);
        abort();
    }
    r->arrays[i] = (shared_array){offset, bytes};
    r->array_count = i + 1;
    memset(r->shared + offset, 0xff, bytes);
    memset(r->shared + offset + bytes, GUARD, GUARD_BYTES);
    return r->shared + offset;
}

/* ---- blocks ---- */

static void check_guards(run *r)
{
    for (uint32_t i = 0; i < r->array_count; i++)
        for (size_t b = 0; b < GUARD_BYTES; b++)
            if (r->shared[r->arrays[i].offset + r->arrays[i].bytes + b] != GUARD)
                psr_fibers_report("block %u writes past the end of shared array %u (%zu bytes)",
                                  psr_emulated_at.block, i, r->arrays[i].bytes);
}

/* All wait at one line, or all have ended. Whether they have. */
static bool check_barrier(run *r)
{
    const fiber *first = &r->fibers[0];
    for (uint32_t t = 1; t < r->grid->threads; t++) {
        const fiber *f = &r->fibers[t];
        if (f->state != first->state) {
            const uint32_t waits = f->state == WAITING ? t : 0;
            psr_fibers_report(
                "block %u: thread %u waits at %s:%d, where thread %u never comes: it ended",
                psr_emulated_at.block, waits, r->fibers[waits].file, r->fibers[waits].line,
                t - waits);
            return true;
        }
        if (f->state == WAITING &&
            (f->line != first->line ||
             (f->file != first->file && strcmp(f->file, first->file) != 0))) {
            psr_fibers_report("block %u: thread 0 waits at %s:%d, and thread %u at %s:%d",
                              psr_emulated_at.block, first->file, first->line, t, f->file, f->line);
            return true;
        }
    }
    return first->state == ENDED;
}

static void run_block(run *r, uint32_t *order)
{
    r->array_count = 0;
    r->round = 0;
    for (uint32_t t = 0; t < r->grid->threads; t++) {
        r->fibers[t].state = READY;
        r->fibers[t].arrays = 0;
    }
    bool ended = false;
    while (!ended && r->problem[0] == '\0') {
        shuffle(r, order, r->grid->threads);
        for (uint32_t i = 0; i < r->grid->threads; i++) {
            psr_emulated_at.thread = order[i];
            to_fiber(r, &r->fibers[order[i]]);
        }
        check_guards(r);
        ended = check_barrier(r);
        r->round++;
    }
}

static void run_block_of_calls(run *r, uint32_t *order)
{
    shuffle(r, order, r->grid->threads);
    for (uint32_t i = 0; i < r->grid->threads && r->problem[0] == '\0'; i++) {
        psr_emulated_at.thread = order[i];
        r->body(r->arguments);
    }
}

static void *must_have(void *memory)
{
    if (memory == NULL) {
        fputs("emulated grid: out of memory\n", stderr);
        abort();
    }
    return memory;
}

/* ---- fibers that are kept ---- */

static void free_memory(pool *p)
{
    free(p->fibers);
    free(p->contexts);
    free(p->stacks);
    free(p->shared);
    free(p);
}

/* All of its fibers lie between two blocks. */
static void free_pool(void *argument)
{
    pool *p = argument;
    run last = {.over = true, .fibers = p->fibers, .contexts = p->contexts, .stacks = p->stacks};
    running = &last;
    for (uint32_t t = 0; t < p->count; t++)
        if (p->fibers[t].begun)
            to_fiber(&last, &p->fibers[t]);
    running = NULL;
    free_memory(p);
}

static void make_key(void)
{
    if (pthread_key_create(&key, free_pool) != 0)
        must_have(NULL);
}

static void keep(pool *p)
{
    pthread_once(&key_once, make_key);
    if (pthread_setspecific(key, p) != 0)
        must_have(NULL);
    own_pool = p;
}

static pool *pool_new(uint32_t count)
{
    pool *p = must_have(calloc(1, sizeof *p));
    p->count = count;
    p->fibers = must_have(calloc(count, sizeof *p->fibers));
    p->contexts = must_have(calloc(count, sizeof *p->contexts));
    p->stacks = must_have(aligned_alloc(64, count * STACK_STEP));
    p->shared = must_have(aligned_alloc(64, SHARED_BYTES + GUARD_BYTES));
    for (uint32_t t = 0; t < count; t++) {
        ucontext_t *context = &p->contexts[t];
        getcontext(context);
        context->uc_stack.ss_sp = p->stacks + t * STACK_STEP;
        context->uc_stack.ss_size = STACK_BYTES;
        context->uc_link = NULL;
        makecontext(context, fiber_main, 0);
    }
    return p;
}

static void take_fibers(run *r)
{
    if (own_pool != NULL && own_pool->count < r->grid->threads) {
        pool *small = own_pool;
        keep(NULL);
        free_pool(small);
    }
    if (own_pool == NULL)
        keep(pool_new(r->grid->threads));
    r->fibers = own_pool->fibers;
    r->contexts = own_pool->contexts;
    r->stacks = own_pool->stacks;
    r->shared = own_pool->shared;
}

/* After a problem they are left where they are. */
static void leave_fibers(const run *r)
{
    if (r->problem[0] == '\0')
        return;
    pool *stuck = own_pool;
    keep(NULL);
    free_memory(stuck);
}

bool psr_fibers_run(const psr_fibers_grid *grid, void (*body)(const void *arguments),
                    const void *arguments, char ret_problem[PSR_FIBERS_PROBLEM_BYTES])
{
    ret_problem[0] = '\0';
    if (grid->blocks == 0 || grid->threads == 0 || grid->threads > MOST_THREADS) {
        snprintf(ret_problem, PSR_FIBERS_PROBLEM_BYTES, "a grid of %u blocks of %u threads",
                 grid->blocks, grid->threads);
        return false;
    }
    run r = {.grid = grid,
             .body = body,
             .arguments = arguments,
             .random = grid->seed,
             .number = ++runs,
             .problem = ret_problem};
    uint32_t threads[MOST_THREADS];
    uint32_t *blocks = must_have(malloc(grid->blocks * sizeof *blocks));
    count_up(threads, grid->threads);
    count_up(blocks, grid->blocks);
    shuffle(&r, blocks, grid->blocks);
    if (grid->barriers)
        take_fibers(&r);
    running = &r;
    psr_emulated_at.blocks = grid->blocks;
    psr_emulated_at.threads = grid->threads;
    for (uint32_t i = 0; i < grid->blocks && ret_problem[0] == '\0'; i++) {
        psr_emulated_at.block = blocks[i];
        if (grid->barriers)
            run_block(&r, threads);
        else
            run_block_of_calls(&r, threads);
    }
    if (grid->barriers)
        leave_fibers(&r);
    running = NULL;
    free(blocks);
    return ret_problem[0] == '\0';
}
