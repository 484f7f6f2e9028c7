/* The lending end of shared memory: towards one peer, beside the channel to it. Passes this process's arenas to the peer, and once it
 * says that it has mapped one, payloads that lie there need not be sent: a reference does, and the loan ends when the peer gives it back.
 * When the peer is gone, all that it had comes back. What the peer says is checked: it can give back what it has, once. One thread. */
#ifndef PSR_NET_LENDER_H
#define PSR_NET_LENDER_H

#include "net/share_wire.h"
#include "net/shared_arena.h"
#include "net/transport.h"

typedef struct psr_lender psr_lender;

/* Connects to the peer that listens at path, which must be of that user, under the routing id of the channel to it. Never waits. DENIED:
 * another user listens there. IO: nobody does, or the kernel refuses. ret owns. */
PSR_MUST_CHECK psr_err psr_lender_new(psr_peer peer, const char *path, unsigned user,
                                      const uint8_t id[PSR_ROUTING_ID_BYTES], psr_lender **ret_lender);
/* All that is lent comes back. NULL allowed. */
void psr_lender_free(psr_lender *lender);

/* Passes an arena, which outlives the lender. Each once, at most PSR_SHARED_ARENAS_MAX. IO: the peer does not take it in time. */
PSR_MUST_CHECK psr_err psr_lender_offer(psr_lender *lender, const psr_shared_arena *arena);

/* What the peer has said, without waiting: releases are called from here. PROTOCOL: it gave back what it does not have, or said what
 * nobody says. A peer that has hung up is no error: all comes back, and messages do. IO: it does not take an arena, and why. */
PSR_MUST_CHECK psr_err psr_lender_serve(psr_lender *lender);
/* Whether the peer has mapped an arena, and has not hung up. */
bool psr_lender_has_taker(const psr_lender *lender);
/* Whether it has mapped that one. */
bool psr_lender_has_taken(const psr_lender *lender, const psr_shared_arena *arena);
/* To be watched for input; -1: it has hung up. */
int psr_lender_fd(const psr_lender *lender);

/* Lends a lent payload by reference, if it may be, lies in an arena that the peer has mapped and is long enough: takes its loan over then. false:
 * it is to be sent. head: of its message. */
bool psr_lender_refer(psr_lender *lender, const psr_head *head, const psr_payload *payload,
                      psr_reference *ret_reference);
/* The reference was not sent after all: its loan ends. */
void psr_lender_recall(psr_lender *lender, const psr_reference *reference);

#endif
