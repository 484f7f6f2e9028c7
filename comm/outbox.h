/* Where a machine's messages go: the only way out of what is free of I/O. */
#ifndef PSR_COMM_OUTBOX_H
#define PSR_COMM_OUTBOX_H

#include "net/transport.h"

typedef struct psr_outbox {
    void *context;
    psr_err (*send)(void *context, psr_peer to, const psr_head *head, const psr_payload *payload);
    /* All that was lent of one thing has come back (comm/operations/loan.h): whoever waits for that may look. Called on any thread. NULL:
     * nobody waits. */
    void (*returned)(void *context);
    /* Whether what is lent to it now stays where it lies (psr_transport_lends_to), and so has no way to go. NULL: to nobody. */
    bool (*lends_to)(void *context, psr_peer to);
    /* Messages that wait to leave for it (psr_transport_waiting). NULL: none ever does. */
    size_t (*waiting)(void *context, psr_peer to);
} psr_outbox;

#endif
