/* The outbox: the only way in which a state machine without I/O sends messages. */
#ifndef PSR_COMM_OUTBOX_H
#define PSR_COMM_OUTBOX_H

#include "net/transport.h"

struct psr_observed;

typedef struct psr_outbox {
    void *context;
    psr_err (*send)(void *context, psr_peer to, const psr_head *head, const psr_payload *payload);
    /* All payloads of a loan have come back (comm/operations/loan.h), so a thread that waits for
     * that may look again. Called on any thread. NULL: nobody waits. */
    void (*returned)(void *context);
    /* Whether payloads that are lent to that peer now are read in place (psr_transport_lends_to),
     * and so are not sent. NULL: never. */
    bool (*lends_to)(void *context, psr_peer to);
    /* How many messages wait to leave for that peer (psr_transport_waiting). NULL: always 0. */
    size_t (*waiting)(void *context, psr_peer to);
    /* Tells the observer what its user does (comm/observer.h: psr_outbox_tell). NULL: nobody
     * hears. */
    void (*tell)(void *context, const struct psr_observed *observed);
} psr_outbox;

#endif
