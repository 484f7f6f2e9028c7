/* Messages that came before their receiver was ready: for an operation that this process has not
 * begun, for a member that has no roster yet, for a thread that has not asked. Each is kept under a
 * key, and those of one key come out in the order in which they went in. They are kept until they
 * are taken, or freed with this. One thread at a time. */
#ifndef PSR_COMM_EARLY_H
#define PSR_COMM_EARLY_H

#include "net/message.h"

typedef struct psr_early psr_early;

#define PSR_EARLY_UNBOUNDED SIZE_MAX /* no limit: the sender limits them, and is trusted */

/* Keys 0 .. keys-1; at most limit messages, over all keys together. NOMEM. The caller owns
 * *ret_early. */
PSR_MUST_CHECK psr_err psr_early_new(uint32_t keys, size_t limit, psr_early **ret_early);
/* Frees the messages too. NULL allowed. */
void psr_early_free(psr_early *early);

/* Takes *message. It must not be full: call psr_early_full first, so that the caller can word the
 * error for a sender that sent too much. Allocates nothing. */
void psr_early_put(psr_early *early, uint32_t key, psr_message **message);
bool psr_early_full(const psr_early *early);

/* The oldest message of key, owned by the caller; NULL: there is none. */
psr_message *psr_early_take(psr_early *early, uint32_t key);
bool psr_early_any(const psr_early *early, uint32_t key);

#endif
