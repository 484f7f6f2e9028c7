/* An emulated link between this process and the others: a rate in each direction, and a delay. For
 * machines that can make no networks of their own (--link-rate, --link-delay); net/transport.h
 * keeps messages here until they are due.
 *
 * What is sent leaves one message after another, each for as long as its bytes take at the rate,
 * and arrives `delay` later. What arrives was on the sender's link just before, so it needs no
 * second time here, unless another message occupies this end: then it follows that. So a process
 * to which n others send at once receives no faster than its own link. Each end has its own
 * machine; the two need no common clock.
 *
 * The machine has no clock and does no I/O: the caller tells the time, in nanoseconds. One
 * thread. */
#ifndef PSR_NET_LINK_H
#define PSR_NET_LINK_H

#include "net/transport.h"

/* What a message counts for beside its payload: its head, and what TCP and Ethernet add. */
#define PSR_LINK_HEAD_BYTES 128

typedef struct psr_link psr_link;

/* rate: bits per second, 0: as fast as can be. delay_s: at least 0. NOMEM. The caller owns
 * *ret_link. */
PSR_MUST_CHECK psr_err psr_link_new(uint64_t rate_bits_per_s, double delay_s, psr_link **ret_link);
/* Ends the loans of what has not left, and frees what was not taken. NULL allowed. */
void psr_link_free(psr_link *link);

/* Takes a message that is to be sent. A payload that is not lent is copied. NOMEM; the loan has
 * ended then. */
PSR_MUST_CHECK psr_err psr_link_send(psr_link *link, int64_t now_ns, psr_peer to,
                                     const psr_head *head, const psr_payload *payload);

typedef struct psr_link_sent {
    psr_peer to;
    psr_head head;
    bool has_payload;
    psr_payload payload; /* its loan is the caller's to end; a copy is lent too */
} psr_link_sent;

/* The next message that has left by now; false: there is none. */
bool psr_link_next_sent(psr_link *link, int64_t now_ns, psr_link_sent *ret_sent);

/* Takes a message that has come, and owns it. NOMEM; it is freed then. */
PSR_MUST_CHECK psr_err psr_link_receive(psr_link *link, int64_t now_ns, psr_message *message);
/* The next message that has arrived by now, which the caller owns; NULL: there is none. */
psr_message *psr_link_next_received(psr_link *link, int64_t now_ns);

/* When the next message is due in either direction; INT64_MAX: there is none. */
int64_t psr_link_due_ns(const psr_link *link);
bool psr_link_has_unsent(const psr_link *link);

/* Drops what has not left for that peer; loans end. */
void psr_link_forget(psr_link *link, psr_peer peer);

#endif
