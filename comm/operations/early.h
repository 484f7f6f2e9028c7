/* Messages that came before whoever takes them is there: of an operation that this process has not
 * begun, for a member that has no roster yet, for a thread that has not asked. Each is kept under a
 * key (what it is of), and those of one key come out in the order in which they went in. Holds them
 * until they are taken, or frees them. One thread at a time. */
#ifndef PSR_COMM_EARLY_H
#define PSR_COMM_EARLY_H

#include "net/message.h"

typedef struct psr_early psr_early;

#define PSR_EARLY_UNBOUNDED SIZE_MAX /* the sender bounds it, and is trusted with that */

/* Keys 0 .. keys-1; at most limit messages, over all keys together. NOMEM. ret owns. */
PSR_MUST_CHECK psr_err psr_early_new(uint32_t keys, size_t limit, psr_early **ret_early);
/* Frees the messages too. NULL allowed. */
void psr_early_free(psr_early *early);

/* Takes *message. Only while it is not full: who asks psr_early_full first has the words for a
 * sender that went too far. Allocates nothing. */
void psr_early_put(psr_early *early, uint32_t key, psr_message **message);
bool psr_early_full(const psr_early *early);

/* The oldest message of key, owned by the caller; NULL: there is none. */
psr_message *psr_early_take(psr_early *early, uint32_t key);
bool psr_early_any(const psr_early *early, uint32_t key);

#endif
