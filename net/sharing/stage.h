/* A shared arena of slots, for payloads in memory that cannot be shared, such as a program's own
 * arrays. The sender copies the payload into a slot and lends the slot, and the receiver reads it
 * there: one copy. A socket copies twice, and the kernel allocates pages in between.
 *
 * The slot that was returned last is used first, since it is still in the cache; so little of the
 * arena is touched. When all slots are lent, payloads are sent as messages: nobody waits for a
 * slot. One thread. */
#ifndef PSR_NET_SHARING_STAGE_H
#define PSR_NET_SHARING_STAGE_H

#include "net/sharing/shared_arena.h"
#include "net/transport.h"

/* The largest payload that fits a slot: that of any message. */
#define PSR_STAGE_SLOT_BYTES ((size_t)PSR_PAYLOAD_BYTES_MAX)
#define PSR_STAGE_SLOTS 64u

typedef struct psr_stage psr_stage;

/* Errors: those of psr_shared_arena_new. The caller owns *ret_stage. */
PSR_MUST_CHECK psr_err psr_stage_new(psr_stage **ret_stage);
/* Only when no slot is lent. NULL allowed. */
void psr_stage_free(psr_stage *stage);

/* The arena to lend from. Borrowed for the stage's life. */
const psr_shared_arena *psr_stage_arena(const psr_stage *stage);

/* Copies the payload's bytes into a slot. *ret_staged lends them, and its release frees the slot.
 * The caller still ends the payload's own loan. false: no slot is free, or the payload does not fit
 * one. */
bool psr_stage_put(psr_stage *stage, const psr_payload *payload, psr_payload *ret_staged);

#endif
