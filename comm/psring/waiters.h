/* How the threads of a program learn that something has changed, besides the one that waits in the
 * progress loop: they sleep on a word (futex(2)), or in a poll of their own on a descriptor that
 * they have asked for. In place; one for each driver. */
#ifndef PSR_COMM_PSRING_WAITERS_H
#define PSR_COMM_PSRING_WAITERS_H

#include "base/err.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct psr_waiters {
    _Atomic uint32_t changes; /* counts them while somebody sleeps */
    _Atomic uint32_t sleepers;
    _Atomic int event_fd; /* -1: nobody has asked for it */
    /* The event was written and not taken since: it need not be written again. */
    _Atomic bool event_is_set;
} psr_waiters;

void psr_waiters_init(psr_waiters *waiters);
void psr_waiters_done(psr_waiters *waiters); /* closes the descriptor */

/* ---- any thread ---- */

/* Something has changed that a sleeper may wait for. A signal handler may call it too. */
void psr_waiters_notify(psr_waiters *waiters);
/* The same; a request has ended, so the descriptor becomes readable. */
void psr_waiters_ended(psr_waiters *waiters);

/* Between begin and end the caller may sleep: begin, look whether what it waits for has happened,
 * and if not sleep with what begin has returned. sleep ends with the next notify after begin, or
 * after most_ns, or before. */
uint32_t psr_waiters_begin(psr_waiters *waiters);
void psr_waiters_sleep(psr_waiters *waiters, uint32_t begun, int64_t most_ns);
void psr_waiters_end(psr_waiters *waiters);

/* Makes the descriptor at the first call; it is readable then. One thread at a time. IO. */
PSR_MUST_CHECK psr_err psr_waiters_event_fd(psr_waiters *waiters, int *ret_fd);
/* It is not readable any more until psr_waiters_ended. What ended before is visible to the caller
 * after that. */
void psr_waiters_take_event(psr_waiters *waiters);

#endif
