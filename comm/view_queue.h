/* Views that have come to a member and have not begun, by epoch and first step. The scheduler may
 * replace a view that nobody has begun: whoever gets one that begins no later than some that wait
 * drops those. Any number of users, one thread or the owner's lock. */
#ifndef PSR_COMM_VIEW_QUEUE_H
#define PSR_COMM_VIEW_QUEUE_H

#include "comm/view.h"

/* The scheduler issues a planned view when all stand on the one before; changes by hand may add
 * one each time that a planned one has begun somewhere and not here. */
#define PSR_VIEWS_MAX 4

/* Zero: empty. */
typedef struct psr_view_queue {
    const psr_view *items[PSR_VIEWS_MAX]; /* held; the next one to begin first */
    uint32_t count;
} psr_view_queue;

/* Behind the others, in the place of those that begin no earlier. false: there is no room; view
 * stays the caller's. true: the queue has taken over the caller's hold. */
PSR_MUST_CHECK bool psr_view_queue_put(psr_view_queue *queue, const psr_view *view);
/* The next one to begin. Borrowed until it is taken or replaced. NULL: there is none. */
const psr_view *psr_view_queue_first(const psr_view_queue *queue);
/* Takes the first one out. ret owns its hold (psr_view_release). NULL: there is none. */
const psr_view *psr_view_queue_take(psr_view_queue *queue);
/* Releases all. */
void psr_view_queue_done(psr_view_queue *queue);

#endif
