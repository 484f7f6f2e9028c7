/* What moves a node (comm/node/node.h): the progress loop by turns (comm/psring/progress_engine.h), orders down and waiting up. Without a
 * transport, for a rank that is alone, the caller's thread does it all. One thread at a time calls it. */
#ifndef PSR_COMM_PSRING_DRIVER_H
#define PSR_COMM_PSRING_DRIVER_H

#include "comm/node/node.h"

typedef struct psr_driver psr_driver;

typedef struct psr_driver_options {
    /* NULL: alone. Borrowed for life, and touched by nobody else from psr_driver_start on. */
    psr_transport *transport;
    psr_member *member;
    const psr_view *view; /* borrowed for life */
    uint32_t rank;
    bool together; /* as psr_node_options */
    int64_t deadline_ms;
} psr_driver_options;

/* NOMEM. ret owns. */
PSR_MUST_CHECK psr_err psr_driver_new(const psr_driver_options *options, psr_driver **ret_driver);
/* Its progress thread; what was ordered before comes before anything that others say. Alone: there is none. IO. */
PSR_MUST_CHECK psr_err psr_driver_start(psr_driver *driver);
/* Ends the progress thread. The node answers on: a last time it may be looked at. NULL allowed. */
void psr_driver_stop(psr_driver *driver);
/* After its transport. With the node and what it has. NULL allowed. */
void psr_driver_free(psr_driver *driver);

/* Borrowed: for what is marked [owner], and its reports of progress. */
psr_node *psr_driver_node(const psr_driver *driver);

/* psr_node_take, now or soon. NOMEM: it is not done. */
PSR_MUST_CHECK psr_err psr_driver_order(psr_driver *driver, psr_node_order order, void *object);
/* The same, but when this rank next orders something, or waits, or hears something: for what is waited for at once, and what can wait. */
PSR_MUST_CHECK psr_err psr_driver_order_later(psr_driver *driver, psr_node_order order, void *object);

/* Waits until reached says so, which is asked after each change, at most timeout_ms. false: it never did. */
bool psr_driver_wait(psr_driver *driver, bool (*reached)(void *context), void *context, int64_t timeout_ms);
/* The same, but the progress thread moves what was ordered. */
bool psr_driver_wait_beside(psr_driver *driver, bool (*reached)(void *context), void *context,
                            int64_t timeout_ms);
/* Until the coordinator has said how everything failed for this rank, at most timeout_ms; not where nobody can. */
void psr_driver_wait_verdict(psr_driver *driver, int64_t timeout_ms);
/* How long all of these have waited. */
int64_t psr_driver_waited_ns(const psr_driver *driver);

/* Tells the coordinator that this rank leaves, and waits for its answer, at most timeout_ms; 0: does not wait. */
void psr_driver_leave(psr_driver *driver, int64_t timeout_ms);

#endif
