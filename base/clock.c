#include "base/clock.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>

#define RUNS INT64_MIN

/* A process has one clock. The process's command thread or its signal handler writes it, and all
 * threads read it. It is a seqlock, since a thread may be stopped between reading the time and
 * reading what the clock leaves out. */
static struct {
    _Atomic uint32_t changes;   /* odd while the clock is being changed */
    _Atomic int64_t stands_ns;  /* the time while it stands still, or RUNS */
    _Atomic int64_t skipped_ns; /* how long it has stood still in total */
} state = {.stands_ns = RUNS};

static int64_t monotonic_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int64_t psr_clock_ns(void)
{
    for (;;) {
        uint32_t before = atomic_load(&state.changes);
        int64_t stands_ns = atomic_load(&state.stands_ns),
                skipped_ns = atomic_load(&state.skipped_ns);
        int64_t now_ns = stands_ns != RUNS ? stands_ns : monotonic_ns() - skipped_ns;
        if (before % 2 == 0 && before == atomic_load(&state.changes))
            return now_ns;
    }
}

int64_t psr_clock_skipped_ns(void)
{
    return atomic_load(&state.skipped_ns);
}

void psr_clock_stop(void)
{
    if (atomic_load(&state.stands_ns) != RUNS)
        return;
    atomic_fetch_add(&state.changes, 1);
    atomic_store(&state.stands_ns, monotonic_ns() - atomic_load(&state.skipped_ns));
    atomic_fetch_add(&state.changes, 1);
}

void psr_clock_go_on(void)
{
    int64_t stands_ns = atomic_load(&state.stands_ns);
    if (stands_ns == RUNS)
        return;
    atomic_fetch_add(&state.changes, 1);
    atomic_store(&state.skipped_ns, monotonic_ns() - stands_ns);
    atomic_store(&state.stands_ns, RUNS);
    atomic_fetch_add(&state.changes, 1);
}

/* Only async-signal-safe calls. */
static void stop_with_clock(int signo)
{
    int saved = errno;
    (void)signo;
    psr_clock_stop();
    (void)raise(SIGSTOP);
    psr_clock_go_on();
    errno = saved;
}

/* The signal comes to the main thread, wherever that is. oneDNN's generated code lets the stack
 * pointer point into a buffer of the heap: so the handler has a stack of its own, or what the
 * kernel saves there would overwrite what lies below that buffer. */
void psr_clock_stops_with_process(void)
{
    static _Alignas(64) char stack[64 << 10]; /* AMX registers alone are 8 KiB of what is saved */
    const stack_t own = {.ss_sp = stack, .ss_size = sizeof stack};
    struct sigaction action = {.sa_handler = stop_with_clock, .sa_flags = SA_RESTART | SA_ONSTACK};
    sigemptyset(&action.sa_mask);
    (void)sigaltstack(&own, NULL);
    (void)sigaction(SIGTSTP, &action, NULL);
}

int64_t psr_clock_ms(void)
{
    return psr_clock_ns() / 1000000;
}

struct timespec psr_clock_after_ns(int64_t duration_ns)
{
    int64_t later_ns = monotonic_ns() + duration_ns;
    return (struct timespec){later_ns / 1000000000, later_ns % 1000000000};
}

double psr_clock_s(void)
{
    return (double)psr_clock_ns() * 1e-9;
}

/* Half a deadline. Two looks fill a quarter of it each. A shorter gap is not an absence, since a
 * busy machine causes such gaps. */
#define PRESENT_MS 200

psr_presence_clock psr_presence_clock_for(int64_t now_ms, int64_t deadline_ms)
{
    return (psr_presence_clock){.longest_ms =
                                    deadline_ms / 2 > PRESENT_MS ? deadline_ms / 2 : PRESENT_MS,
                                .seen_ms = now_ms,
                                .back_ms = now_ms};
}

int64_t psr_presence_clock_ms(psr_presence_clock *clock, int64_t now_ms)
{
    int64_t away_ms = now_ms - clock->seen_ms;
    if (away_ms > clock->longest_ms) {
        clock->absent_ms += away_ms;
        clock->back_ms = now_ms;
    }
    clock->seen_ms = now_ms;
    return now_ms - clock->absent_ms;
}

int64_t psr_presence_clock_every_ms(const psr_presence_clock *clock)
{
    return clock->longest_ms / 2;
}
