/* Messages of a process to itself, where it is at both ends of what goes on between members: no transport carries them, and they count as
 * nothing sent. A lent payload is pointed to, and comes back when its message is freed, as through shared memory. They wait in the order
 * in which they were sent until they are taken: so who sends is never called again from within. One thread. */
#ifndef PSR_COMM_OWN_MESSAGES_H
#define PSR_COMM_OWN_MESSAGES_H

#include "net/transport.h"

typedef struct psr_own_messages psr_own_messages;

/* NOMEM. ret owns. */
PSR_MUST_CHECK psr_err psr_own_messages_new(psr_peer self, psr_own_messages **ret_messages);
/* Frees those that wait too. NULL allowed. */
void psr_own_messages_free(psr_own_messages *messages);

/* As psr_transport_send. payload NULL: none. NOMEM. */
PSR_MUST_CHECK psr_err psr_own_messages_send(psr_own_messages *messages, const psr_head *head,
                                             const psr_payload *payload);
/* The oldest, owned by the caller; NULL: there is none. */
psr_message *psr_own_messages_take(psr_own_messages *messages);

#endif
