/* A queue of messages of a process to itself, for a process that is both ends of an exchange. No
 * transport carries them, and they do not count as sent. A lent payload is not copied; its loan
 * ends when the message is freed, as with shared memory. Messages stay queued in the order in which
 * they were sent until they are taken, so sending never calls the receiver. One thread. */
#ifndef PSR_COMM_OWN_MESSAGES_H
#define PSR_COMM_OWN_MESSAGES_H

#include "net/transport.h"

typedef struct psr_own_messages psr_own_messages;

/* NOMEM. The caller owns *ret_messages. */
PSR_MUST_CHECK psr_err psr_own_messages_new(psr_peer self, psr_own_messages **ret_messages);
/* Frees those that wait too. NULL allowed. */
void psr_own_messages_free(psr_own_messages *messages);

/* As psr_transport_send. payload NULL: none. NOMEM. */
PSR_MUST_CHECK psr_err psr_own_messages_send(psr_own_messages *messages, const psr_head *head,
                                             const psr_payload *payload);
/* The oldest, owned by the caller; NULL: there is none. */
psr_message *psr_own_messages_take(psr_own_messages *messages);

#endif
