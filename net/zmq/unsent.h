/* How many messages wait to leave towards one peer. libzmq's queues tell nothing, but it says when
 * it lets go of bytes that are its to send: then a message has left, or never will. Those that
 * still wait may outlive their count's owner. */
#ifndef PSR_NET_ZMQ_UNSENT_H
#define PSR_NET_ZMQ_UNSENT_H

#include "base/err.h"

#include <stddef.h>

typedef struct psr_unsent psr_unsent;

/* NOMEM. The caller owns *ret_unsent. */
PSR_MUST_CHECK psr_err psr_unsent_new(psr_unsent **ret_unsent);
/* NULL allowed. */
void psr_unsent_free(psr_unsent *unsent);

/* One more is to be sent. Its owner's thread. */
void psr_unsent_add(psr_unsent *unsent);
/* One of them has left. Any thread. */
void psr_unsent_left(psr_unsent *unsent);
size_t psr_unsent_count(const psr_unsent *unsent);

#endif
