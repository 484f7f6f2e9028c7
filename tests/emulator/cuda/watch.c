/* What the compiler calls before each access to memory in code that it compiles with
 * -fsanitize=thread. Its own library takes that for threads of the operating system; this one takes
 * it for a GPU's. */
#include "tests/emulator/cuda/watch.h"

#include <stdlib.h>
#include <string.h>

/* A thread that read or wrote two bytes. */
typedef struct toucher {
    uint32_t block, round, thread;
    bool is;     /* false: nobody yet */
    bool atomic; /* a write that others may repeat */
} toucher;

typedef struct place {
    uintptr_t at; /* address / 2; 0: this entry is free */
    uint32_t run;
    uint32_t of_block;               /* of shared memory */
    toucher write, read, other_read; /* other_read: by another thread than read */
} place;

/* An open hash table. Entries of earlier grids are free again. */
typedef struct table {
    place *places;
    size_t room, used;
    uint32_t run;
} table;

static _Thread_local table watched;

static size_t slot_of(const table *t, uintptr_t at)
{
    return (size_t)((uint64_t)at * 0x9e3779b97f4a7c15u >> 32) & (t->room - 1);
}

static place *find(table *t, uintptr_t at, uint32_t run)
{
    size_t i = slot_of(t, at);
    while (t->places[i].run == run && t->places[i].at != at)
        i = (i + 1) & (t->room - 1);
    return &t->places[i];
}

static void make_room(table *t, uint32_t run)
{
    if (t->run != run) {
        t->run = run;
        t->used = 0;
    }
    if (t->room != 0 && t->used < t->room / 2)
        return;
    const table old = *t;
    t->room = old.room == 0 ? (size_t)1 << 12 : 2 * old.room;
    t->places = calloc(t->room, sizeof *t->places);
    if (t->places == NULL)
        abort();
    for (size_t i = 0; i < old.room; i++)
        if (old.places[i].run == run)
            *find(t, old.places[i].at, run) = old.places[i];
    free(old.places);
}

void psr_watch_forget(void)
{
    free(watched.places);
    watched = (table){0};
}

static bool same_thread(const toucher *a, const toucher *b)
{
    return a->block == b->block && a->thread == b->thread;
}

/* Whether nothing orders the two. */
static bool meet(const toucher *before, const toucher *now)
{
    return before->is && !same_thread(before, now) && !(before->atomic && now->atomic) &&
           (before->block != now->block || before->round == now->round);
}

static void report(const toucher *before, const toucher *now, const char *what, uintptr_t at)
{
    psr_fibers_report("%s of one place (%#zx), and no barrier between: thread %u of block %u, "
                      "thread %u of block %u",
                      what, (size_t)at * 2, before->thread, before->block, now->thread, now->block);
}

static void touch(uintptr_t at, bool shared, const toucher *now, uint32_t run, bool write)
{
    make_room(&watched, run);
    place *p = find(&watched, at, run);
    if (p->run != run) {
        *p = (place){.at = at, .run = run, .of_block = now->block};
        watched.used++;
    }
    /* Each block has shared memory of its own. */
    if (shared && p->of_block != now->block)
        *p = (place){.at = at, .run = run, .of_block = now->block};
    if (meet(&p->write, now))
        report(&p->write, now, write ? "two writes" : "a write and a read", at);
    if (!write) {
        if (p->read.is && !same_thread(&p->read, now))
            p->other_read = p->read;
        p->read = *now;
        return;
    }
    if (meet(&p->read, now))
        report(&p->read, now, "a read and a write", at);
    if (meet(&p->other_read, now))
        report(&p->other_read, now, "a read and a write", at);
    p->write = *now;
}

static void access_memory(const volatile void *memory, size_t bytes, bool write, bool atomic)
{
    const void *at = (const void *)(uintptr_t)memory;
    psr_fibers_now now;
    if (!psr_fibers_are_at(&now) || psr_fibers_own(at))
        return;
    const toucher by = {now.block, now.round, now.thread, true, atomic};
    const bool shared = psr_fibers_shared(at);
    const uintptr_t first = (uintptr_t)at / 2, last = ((uintptr_t)at + bytes - 1) / 2;
    for (uintptr_t half = first; half <= last; half++)
        touch(half, shared, &by, now.run, write);
}

/* ---- the compiler's calls ---- */

void __tsan_init(void);
void __tsan_init(void)
{
}

void __tsan_func_entry(void *caller);
void __tsan_func_entry(void *caller)
{
    (void)caller;
}

void __tsan_func_exit(void);
void __tsan_func_exit(void)
{
}

#define ACCESS(name, bytes, write)                                                                 \
    void __tsan_##name(void *at);                                                                  \
    void __tsan_##name(void *at)                                                                   \
    {                                                                                              \
        access_memory(at, bytes, write, false);                                                    \
    }
ACCESS(read1, 1, false)
ACCESS(read2, 2, false)
ACCESS(read4, 4, false)
ACCESS(read8, 8, false)
ACCESS(read16, 16, false)
ACCESS(write1, 1, true)
ACCESS(write2, 2, true)
ACCESS(write4, 4, true)
ACCESS(write8, 8, true)
ACCESS(write16, 16, true)
ACCESS(unaligned_read2, 2, false)
ACCESS(unaligned_read4, 4, false)
ACCESS(unaligned_read8, 8, false)
ACCESS(unaligned_read16, 16, false)
ACCESS(unaligned_write2, 2, true)
ACCESS(unaligned_write4, 4, true)
ACCESS(unaligned_write8, 8, true)
ACCESS(unaligned_write16, 16, true)

#define RANGE(name, write)                                                                         \
    void __tsan_##name(void *at, size_t bytes);                                                    \
    void __tsan_##name(void *at, size_t bytes)                                                     \
    {                                                                                              \
        if (bytes > 0)                                                                             \
            access_memory(at, bytes, write, false);                                                \
    }
RANGE(read_range, false)
RANGE(write_range, true)

void *__tsan_memcpy(void *to, const void *from, size_t bytes);
void *__tsan_memcpy(void *to, const void *from, size_t bytes)
{
    __tsan_read_range((void *)(uintptr_t)from, bytes);
    __tsan_write_range(to, bytes);
    return memcpy(to, from, bytes);
}

void *__tsan_memset(void *at, int byte, size_t bytes);
void *__tsan_memset(void *at, int byte, size_t bytes)
{
    __tsan_write_range(at, bytes);
    return memset(at, byte, bytes);
}

void __tsan_atomic32_store(volatile int *at, int value, int order);
void __tsan_atomic32_store(volatile int *at, int value, int order)
{
    (void)order;
    access_memory(at, sizeof *at, true, true);
    __atomic_store_n(at, value, __ATOMIC_RELAXED);
}
