/* Views that have come to a member and have not begun, in the order of epoch and first step. The
 * scheduler may replace a view that nobody has begun: a view that comes drops the waiting ones that
 * would begin at its first step or later. One thread at a time. */
#ifndef PSR_COMM_VIEW_QUEUE_H
#define PSR_COMM_VIEW_QUEUE_H

#include "comm/view/view.h"

/* The scheduler issues a planned view when all members have changed to the one before. Changes by
 * hand may add one each time that a planned view has begun somewhere and not here. */
#define PSR_VIEWS_MAX 4

/* All zero: empty. */
typedef struct psr_view_queue {
    const psr_view *items[PSR_VIEWS_MAX]; /* each held by the queue; the next one to begin first */
    uint32_t count;
} psr_view_queue;

/* Adds it after the others, in place of those that begin no earlier. false: there is no room, and
 * the view stays the caller's. true: the queue has taken over the caller's hold. */
PSR_MUST_CHECK bool psr_view_queue_put(psr_view_queue *queue, const psr_view *view);
/* The next one to begin. Borrowed until it is taken or replaced. NULL: there is none. */
const psr_view *psr_view_queue_first(const psr_view_queue *queue);
/* Removes the first one; the caller owns its hold (psr_view_release). NULL: there is none. */
const psr_view *psr_view_queue_take(psr_view_queue *queue);
/* Releases all views. */
void psr_view_queue_done(psr_view_queue *queue);

#endif
