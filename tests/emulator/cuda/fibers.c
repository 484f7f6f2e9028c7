/* Each fiber begins by setcontext. From then on _setjmp and _longjmp go from one to the other:
 * swapcontext would ask the kernel twice for signals that nobody changes. glibc's check of jumps
 * takes other stacks for a mistake. */
#undef _FORTIFY_SOURCE
#include "tests/emulator/cuda/fibers.h"

#include "model/cuda/kernels/device.h"

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

#define MOST_THREADS 1024
#define SHARED_BYTES ((size_t)48 << 10) /* what a block has without asking for more */
#define SHARED_ARRAYS 16
#define GUARD_BYTES 64
#define GUARD 0x5a

typedef enum fiber_state { READY, WAITING, ENDED } fiber_state;

typedef struct fiber {
    ucontext_t context; /* until it has begun */
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

/* A grid under way. */
typedef struct run {
    const psr_fibers_grid *grid;
    void (*body)(const void *arguments);
    const void *arguments;
    uint64_t random;
    uint32_t number, round; /* of the grid; of the block under way */
    jmp_buf main_at;
    fiber *fibers;
    unsigned char *stacks;
    fiber *now; /* NULL: the thread is a plain call, whose shared arrays plain counts */
    bool over;  /* fibers that are resumed end */
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
           (const unsigned char *)at < stacks + running->grid->threads * STACK_BYTES;
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
    __sanitizer_finish_switch_fiber(fake, NULL, NULL);
#endif
}

static void to_fiber(run *r, fiber *f)
{
    r->now = f;
#ifdef FIBERS_ASAN
    void *fake = NULL;
    __sanitizer_start_switch_fiber(&fake, r->stacks + (size_t)(f - r->fibers) * STACK_BYTES,
                                   STACK_BYTES);
#endif
    if (_setjmp(r->main_at) == 0) {
        if (f->begun)
            _longjmp(f->at, 1);
        f->begun = true;
        setcontext(&f->context);
    }
#ifdef FIBERS_ASAN
    __sanitizer_finish_switch_fiber(fake, NULL, NULL);
#endif
    r->now = NULL;
}

/* A fiber plays its thread of one block after the other. */
static void fiber_main(void)
{
    run *r = running;
    fiber *f = r->now;
#ifdef FIBERS_ASAN
    __sanitizer_finish_switch_fiber(NULL, &r->main_stack, &r->main_stack_bytes);
#endif
    while (!r->over) {
        r->body(r->arguments);
        f->state = ENDED;
        to_main(r, f, false);
    }
    to_main(r, f, true);
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
        if (f->state == WAITING && (f->line != first->line || strcmp(f->file, first->file) != 0)) {
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

static void make_fibers(run *r)
{
    const uint32_t count = r->grid->threads;
    r->fibers = must_have(calloc(count, sizeof *r->fibers));
    r->stacks = must_have(aligned_alloc(64, count * STACK_BYTES));
    r->shared = must_have(aligned_alloc(64, SHARED_BYTES + GUARD_BYTES));
    for (uint32_t t = 0; t < count; t++) {
        ucontext_t *context = &r->fibers[t].context;
        getcontext(context);
        context->uc_stack.ss_sp = r->stacks + t * STACK_BYTES;
        context->uc_stack.ss_size = STACK_BYTES;
        context->uc_link = NULL;
        makecontext(context, fiber_main, 0);
    }
}

/* After a problem fibers are left where they are. */
static void end_fibers(run *r)
{
    r->over = true;
    for (uint32_t t = 0; t < r->grid->threads && r->problem[0] == '\0'; t++)
        to_fiber(r, &r->fibers[t]);
    free(r->fibers);
    free(r->stacks);
    free(r->shared);
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
    running = &r;
    shuffle(&r, blocks, grid->blocks);
    if (grid->barriers)
        make_fibers(&r);
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
        end_fibers(&r);
    running = NULL;
    free(blocks);
    return ret_problem[0] == '\0';
}
