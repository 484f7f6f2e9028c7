/* A shared arena of slots, for payloads that lie in memory which cannot be shared: an array of a program's. Such a payload is copied into a
 * slot, and the slot is lent in its place: one copy, by who sends, and its receiver reads it there. A socket of the kernel's copies
 * twice, and makes pages for what is between.
 *
 * The slot that came back last is given out first, since it is in the cache. So little of the arena is touched, whatever its size. When all
 * slots are lent, payloads are sent as messages: nobody waits for a slot. One thread. */
#ifndef PSR_NET_STAGE_H
#define PSR_NET_STAGE_H

#include "net/shared_arena.h"
#include "net/transport.h"

/* The largest payload that goes through a slot: that of any message. */
#define PSR_STAGE_SLOT_BYTES ((size_t)PSR_PAYLOAD_BYTES_MAX)
#define PSR_STAGE_SLOTS 64u

typedef struct psr_stage psr_stage;

/* What psr_shared_arena_new says. ret owns. */
PSR_MUST_CHECK psr_err psr_stage_new(psr_stage **ret_stage);
/* When nothing is lent from it. NULL allowed. */
void psr_stage_free(psr_stage *stage);

/* Borrowed for the stage's life: to be lent from. */
const psr_shared_arena *psr_stage_arena(const psr_stage *stage);

/* Copies the payload's bytes into a slot: *ret_staged lends them, and its release gives the slot back. The payload's own loan is the
 * caller's to end. false: no slot is free, or it is too large for one. */
bool psr_stage_put(psr_stage *stage, const psr_payload *payload, psr_payload *ret_staged);

#endif
