/* How the two ends of a message find each other, and who may send when. For group.c alone.
 *
 * A message is matched by its sender, its receiver and its tag, in order: of the receives that fit
 * it, the one that began first; of the messages that fit a receive, of each sender the one that it
 * began to send first. Nothing is numbered by tag, so nothing of a tag is kept when its messages
 * have ended. There are two ways, for each two ranks and each direction:
 *
 * 1. At first the sender matches. A receive that names its sender gets a ticket, the number under
 *    which its values come, and says so to the sender (CREDIT). The sender gives the ticket to the
 *    oldest of its sends with that tag, or keeps it for the next one.
 * 2. When the receiver says LISTEN it matches itself, until the group ends. It does so when it
 *    begins to receive from any rank or with any tag, or to probe, or when PSR_CREDITS_KEPT
 *    tickets are out of which nothing has come. From then on it gives out no more of those. The
 *    sender announces each send that has no ticket (OFFER: tag, type, count), in their order, and
 *    the receiver gives the ticket to that offer. The tickets of before are of receives that began
 *    before all that is matched now, and the sender gives them out as before: so the order holds.
 *
 * Of a receive from any rank, what has been announced here first decides: that is the one place
 * where the order of arrival does. What is sent to oneself is announced at once, by a pointer.
 *
 * Persistent operations go without matching, by slot and round. They share the bounds: a rank lets
 * PSR_CREDITS_KEPT of them come that it knows nothing of at their sender; beyond that it says
 * LISTEN, the sender says which have begun (OFFER), and those are let in.
 *
 * Bounds. Nothing comes unasked but heads, and of those are kept here of each peer at most
 * PSR_CREDITS_KEPT CREDITs and, once this rank has said LISTEN, PSR_OFFERS_KEPT OFFERs; what is
 * more, or of an offer that was not made, or a second LISTEN, is a breach of the protocol. An
 * honest rank counts what it has told and offered, and holds back the rest. So between two ranks
 * PSR_CREDITS_KEPT receives that nobody sends, or PSR_OFFERS_KEPT sends that nobody receives, are
 * no obstacle to others; with more of both, those behind them wait, up to their deadline. */
#ifndef PSR_COMM_COLLECTIVES_MATCHING_H
#define PSR_COMM_COLLECTIVES_MATCHING_H

#include "comm/collectives/group.h"

typedef struct psr_stream psr_stream; /* comm/collectives/group_private.h */
/* A message that was announced and is not matched. */
typedef struct psr_offer psr_offer;

void psr_matching_done(psr_group *group);
/* The request is out of all queues. */
void psr_matching_leave(psr_request *request);

/* A message, or a probe, that has begun. It may be over then. */
PSR_MUST_CHECK psr_err psr_matching_start(psr_group *group, psr_request *request);
/* A persistent operation that has begun: lets its values come. */
PSR_MUST_CHECK psr_err psr_matching_open(psr_group *group, psr_request *request);
/* The same, when what came before of it has been looked at: what has no credit is offered. */
PSR_MUST_CHECK psr_err psr_matching_opened(psr_group *group, psr_request *request);

/* A CREDIT of no send that is matched. *ret_send: the one that it is for; NULL: it is to be kept.
 * PROTOCOL, MISMATCH. */
PSR_MUST_CHECK psr_err psr_matching_ticket(psr_group *group, uint32_t from,
                                           const psr_msg_credit *says, const psr_message *message,
                                           psr_request **ret_send);
/* A CREDIT of a stream to its peer, the first or another: it is not offered any more. */
PSR_MUST_CHECK psr_err psr_matching_credited(psr_group *group, psr_stream *out);
/* VALUES, the first or others, of a stream from its peer. */
PSR_MUST_CHECK psr_err psr_matching_shown(psr_group *group, psr_stream *in);
/* VALUES of a receive say how many there are. PROTOCOL, MISMATCH. */
PSR_MUST_CHECK psr_err psr_matching_count(psr_group *group, psr_request *receive,
                                          const psr_msg_values *says);

PSR_MUST_CHECK psr_err psr_matching_take_listen(psr_group *group, uint32_t from,
                                                const psr_message *message);
/* Takes *message when it is kept. */
PSR_MUST_CHECK psr_err psr_matching_take_offer(psr_group *group, uint32_t from,
                                               psr_message **message);

#endif
