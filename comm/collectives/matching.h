/* How the two ends of a message find each other, and when a rank may send. For group.c only.
 *
 * A message is matched by its sender, its receiver and its tag. Of the receives that fit a message,
 * the one that began first gets it. Of the messages of one sender that fit a receive, the receive
 * gets the one whose send began first. Nothing is numbered by tag, so nothing of a tag is kept when
 * its messages have ended.
 *
 * There are two ways, for each pair of ranks and each direction:
 *   1. At first the sender matches. A receive that names its sender gets a ticket, which is the
 *      number under which its values come, and tells the sender (CREDIT). The sender gives the
 *      ticket to the oldest of its sends with that tag, or keeps it for the next one.
 *   2. When the receiver sends LISTEN it matches itself, until the group ends. It does so when it
 *      begins to receive from any rank or with any tag, or to probe, or when PSR_CREDITS_KEPT of
 *      its tickets are unused. From then on it gives out no more of these tickets. The sender
 *      announces each send that has no ticket (OFFER: tag, type, count), in their order, and the
 *      receiver gives a ticket to an offer. Tickets from before belong to receives that began
 *      before all that are matched now, and the sender gives them out as before; so the order
 *      holds.
 *
 * For a receive from any rank, the offer that came here first decides. This is the only place where
 * the order of arrival matters. A message to oneself is offered at once, by a pointer.
 *
 * Persistent operations need no matching: slot and round identify them. They share the limits. A
 * rank lets the values of PSR_CREDITS_KEPT of them come while it does not know that their sender
 * has begun. Beyond that it sends LISTEN, the sender says which have begun (OFFER), and the values
 * of those may come.
 *
 * Limits. Only heads come unasked. Of each peer this rank keeps at most PSR_CREDITS_KEPT CREDITs
 * and, after it has sent LISTEN, PSR_OFFERS_KEPT OFFERs. More of them, a ticket for an offer that
 * was not made, or a second LISTEN, break the protocol. An honest rank counts what it has sent, and
 * holds back the rest. So PSR_CREDITS_KEPT receives between two ranks that nobody sends, or
 * PSR_OFFERS_KEPT sends that nobody receives, hold up no other message. With more of both, those
 * after them wait, up to their deadline. */
#ifndef PSR_COMM_COLLECTIVES_MATCHING_H
#define PSR_COMM_COLLECTIVES_MATCHING_H

#include "comm/collectives/group.h"

typedef struct psr_stream psr_stream; /* comm/collectives/group_private.h */
/* A message that was announced and is not matched yet. */
typedef struct psr_offer psr_offer;

void psr_matching_done(psr_group *group);
/* Removes the request from all queues. */
void psr_matching_leave(psr_request *request);

/* A message or a probe has begun. It may have ended when this returns. */
PSR_MUST_CHECK psr_err psr_matching_start(psr_group *group, psr_request *request);
/* A persistent operation has begun: lets its values come. */
PSR_MUST_CHECK psr_err psr_matching_open(psr_group *group, psr_request *request);
/* Call it next, when the messages that came before have been looked at: offers the streams that
 * have no credit. */
PSR_MUST_CHECK psr_err psr_matching_opened(psr_group *group, psr_request *request);

/* Takes a CREDIT that belongs to no matched send. *ret_send: the send that it is for; NULL: it is
 * to be kept. PROTOCOL, MISMATCH. */
PSR_MUST_CHECK psr_err psr_matching_ticket(psr_group *group, uint32_t from,
                                           const psr_msg_credit *says, const psr_message *message,
                                           psr_request **ret_send);
/* A CREDIT, the first or a later one, came for a stream to its peer: the stream is no longer
 * offered. */
PSR_MUST_CHECK psr_err psr_matching_credited(psr_group *group, psr_stream *out);
/* VALUES, the first or later ones, came for a stream from its peer. */
PSR_MUST_CHECK psr_err psr_matching_shown(psr_group *group, psr_stream *in);
/* VALUES of a receive say how many values there are. PROTOCOL, MISMATCH. */
PSR_MUST_CHECK psr_err psr_matching_count(psr_group *group, psr_request *receive,
                                          const psr_msg_values *says);

PSR_MUST_CHECK psr_err psr_matching_take_listen(psr_group *group, uint32_t from,
                                                const psr_message *message);
/* Takes *message if it is kept. */
PSR_MUST_CHECK psr_err psr_matching_take_offer(psr_group *group, uint32_t from,
                                               psr_message **message);

#endif
