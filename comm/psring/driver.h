/* Drives a node (comm/node/node.h): it hands orders to the progress loop, which two threads drive
 * by turns (comm/loop.h), and waits for results. A rank that is alone has no
 * transport; the caller's threads do all work then.
 *
 * The threads of the program exclude each other by the mutex `calls`, which whoever calls a
 * function here has locked. Those that wait let it go meanwhile: one of them waits in the loop, and
 * drives it by turns with the progress thread; the others sleep beside it (comm/psring/waiters.h),
 * and one of them takes its place when it leaves. */
#ifndef PSR_COMM_PSRING_DRIVER_H
#define PSR_COMM_PSRING_DRIVER_H

#include "comm/members/member.h"
#include "comm/node/node.h"

#include <pthread.h>

typedef struct psr_driver psr_driver;

typedef struct psr_driver_options {
    /* NULL: this rank is alone. Borrowed for life; nobody else may use them after
     * psr_driver_start. */
    psr_transport *transport;
    psr_member *member;
    const psr_view *view; /* borrowed for life */
    uint32_t rank;
    int64_t deadline_ms;
    pthread_mutex_t *calls; /* borrowed for life */
} psr_driver_options;

/* NOMEM. The caller owns *ret_driver. */
PSR_MUST_CHECK psr_err psr_driver_new(const psr_driver_options *options, psr_driver **ret_driver);
/* Starts the progress thread. Orders that were given before are carried out before any message of
 * others is read. A rank that is alone has no such thread. IO. */
PSR_MUST_CHECK psr_err psr_driver_start(psr_driver *driver);
/* Ends the progress thread. The node's state can still be read afterwards. NULL allowed. */
void psr_driver_stop(psr_driver *driver);
/* Frees the driver, its node and all that the node owns. To be called after the transport is freed.
 * NULL allowed. */
void psr_driver_free(psr_driver *driver);

/* Borrowed; for the functions marked [owner] and psr_node_progress. */
psr_node *psr_driver_node(const psr_driver *driver);

/* Gives the node an order (psr_node_take), which it carries out now or soon. NOMEM: the order was
 * not given. */
PSR_MUST_CHECK psr_err psr_driver_order(psr_driver *driver, psr_node_order order, void *object);
/* The same, but the node may take the order only at this rank's next order, wait or message. For
 * orders that are waited for at once anyway, and for those that are not urgent. */
PSR_MUST_CHECK psr_err psr_driver_order_later(psr_driver *driver, psr_node_order order,
                                              void *object);

/* An arena of the owner's from which the transport lends (psr_transport_lend_from). */
typedef struct psr_driver_arena {
    psr_shared_arena arena;
    _Atomic bool ended; /* nothing is lent from it, and nothing will be */
} psr_driver_arena;

/* Lends from the arena from now on, or soon. The driver has a transport that shares memory. arena
 * is borrowed until psr_driver_lend_no_more returns true, or until the driver is freed. NOMEM:
 * nothing is lent from it. */
PSR_MUST_CHECK psr_err psr_driver_lend_from(psr_driver *driver, psr_driver_arena *arena);
/* Lends nothing from the arena any more, and tells the ranks that have mapped it to unmap it. The
 * caller knows that nothing in it is lent now. false: the driver has failed, or there is no memory;
 * the arena stays borrowed. */
bool psr_driver_lend_no_more(psr_driver *driver, psr_driver_arena *arena);

/* Waits until reached returns true, at most timeout_ms, without the mutex: other threads make calls
 * meanwhile. reached is called after each change, without the mutex too, by any thread. false: it
 * never returned true. */
bool psr_driver_wait(psr_driver *driver, bool (*reached)(void *context), void *context,
                     int64_t timeout_ms);
/* The same, but the progress thread carries out what was ordered. */
bool psr_driver_wait_beside(psr_driver *driver, bool (*reached)(void *context), void *context,
                            int64_t timeout_ms);
/* The same as the first, or with beside as the second, but psr_driver_wake ends it too. */
bool psr_driver_wait_wakeable(psr_driver *driver, bool beside, bool (*reached)(void *context),
                              void *context, int64_t timeout_ms);
/* Ends all waits under way that are wakeable; if there is none, the next one that has to wait.
 * Needs no mutex, and a signal handler may call it. */
void psr_driver_wake(psr_driver *driver);
/* Something has changed for which threads of the program wait, under the mutex. */
void psr_driver_changed_here(psr_driver *driver);

/* The descriptor that is readable when a request has ended; from the first call on the progress
 * thread waits for nobody. Borrowed for life. IO. */
PSR_MUST_CHECK psr_err psr_driver_event_fd(psr_driver *driver, int *ret_fd);
/* Makes it unreadable (psr_waiters_take_event). Needs no mutex. */
void psr_driver_take_event(psr_driver *driver);

/* Waits until the coordinator has told this rank the failure that broke everything, at most
 * timeout_ms. Returns at once if no coordinator can tell it. */
void psr_driver_wait_verdict(psr_driver *driver, int64_t timeout_ms);
/* How long these functions have waited in all, in nanoseconds. */
int64_t psr_driver_waited_ns(const psr_driver *driver);

/* Tells the coordinator that this rank leaves, and waits for its answer, at most timeout_ms; 0:
 * does not wait. */
void psr_driver_leave(psr_driver *driver, int64_t timeout_ms);

#endif
