#include "comm/psring/waiters.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define SECOND_NS ((int64_t)1000000000)
#define DAY_NS (86400 * SECOND_NS)

void psr_waiters_init(psr_waiters *w)
{
    atomic_init(&w->changes, 0);
    atomic_init(&w->sleepers, 0);
    atomic_init(&w->event_fd, -1);
    atomic_init(&w->event_is_set, false);
}

void psr_waiters_done(psr_waiters *w)
{
    int fd = atomic_exchange(&w->event_fd, -1);
    if (fd >= 0)
        close(fd);
}

/* ---- the word ---- */

/* The fence pairs with the one in psr_waiters_begin: either the sleeper sees what was written
 * before this call, or this call sees the sleeper. */
void psr_waiters_notify(psr_waiters *w)
{
    atomic_thread_fence(memory_order_seq_cst);
    if (atomic_load_explicit(&w->sleepers, memory_order_relaxed) == 0)
        return;
    const int error = errno; /* of what a signal has interrupted */
    atomic_fetch_add(&w->changes, 1);
    (void)syscall(SYS_futex, &w->changes, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
    errno = error;
}

uint32_t psr_waiters_begin(psr_waiters *w)
{
    atomic_fetch_add(&w->sleepers, 1);
    atomic_thread_fence(memory_order_seq_cst);
    return atomic_load(&w->changes);
}

void psr_waiters_sleep(psr_waiters *w, uint32_t begun, int64_t most_ns)
{
    if (most_ns <= 0)
        return;
    if (most_ns > DAY_NS)
        most_ns = DAY_NS;
    const struct timespec most = {.tv_sec = most_ns / SECOND_NS, .tv_nsec = most_ns % SECOND_NS};
    (void)syscall(SYS_futex, &w->changes, FUTEX_WAIT_PRIVATE, begun, &most, NULL, 0);
}

void psr_waiters_end(psr_waiters *w)
{
    atomic_fetch_sub(&w->sleepers, 1);
}

/* ---- the descriptor ---- */

static void set_event(int fd)
{
    const uint64_t one = 1;
    (void)!write(fd, &one, sizeof one);
}

void psr_waiters_ended(psr_waiters *w)
{
    psr_waiters_notify(w);
    const int fd = atomic_load(&w->event_fd);
    if (fd >= 0 && !atomic_exchange(&w->event_is_set, true))
        set_event(fd);
}

/* A request that ends during this call is seen by whoever made the descriptor: it is readable. */
psr_err psr_waiters_event_fd(psr_waiters *w, int *ret_fd)
{
    int fd = atomic_load(&w->event_fd);
    if (fd < 0) {
        fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (fd < 0)
            return psr_fail(PSR_ERR_IO, "eventfd: %s", strerror(errno));
        atomic_store(&w->event_is_set, true);
        atomic_store(&w->event_fd, fd);
        set_event(fd);
    }
    *ret_fd = fd;
    return PSR_OK;
}

/* The descriptor is emptied first. Whoever ends a request between the two steps finds the flag set
 * and writes nothing: the exchange makes what it has done visible to this thread, which now looks
 * at its requests. Whoever ends one later writes. */
void psr_waiters_take_event(psr_waiters *w)
{
    uint64_t count = 0;
    const int fd = atomic_load(&w->event_fd);
    if (fd < 0)
        return;
    (void)!read(fd, &count, sizeof count);
    (void)atomic_exchange(&w->event_is_set, false);
}
