/* The wording of a member's breach of the protocol. Any thread. */
#ifndef PSR_NET_VIOLATION_H
#define PSR_NET_VIOLATION_H

#include "net/message.h"

/* Records "worker 1 sent PUSH (wire step 7, bucket 3, offset 128, count 64, answer 1): <what is
 * wrong>" and returns PROTOCOL. */
psr_err psr_violation(const psr_message *message, const char *format, ...) PSR_PRINTF(2, 3);

/* Records "worker 1 does not read what it asks for: 1000 messages wait for it" and returns
 * PROTOCOL. */
psr_err psr_violation_unread(psr_peer peer, size_t waiting);

#endif
