/* The borrowing end of shared memory: listens for processes of the same user on this host, maps the arenas that they pass, makes
 * messages whose payloads lie there, and gives each back when the message is freed.
 *
 * Nothing is ever read from the memory but values: where a payload lies and how long it is stands in the message that refers to it, which is
 * checked against the size that was mapped. Whoever wrote the memory may change it under a reader, and what comes of that is a wrong
 * number of its own.
 *
 * What is freed while the owner is busy is given back before it waits next (psr_borrower_settle), in one go; what is freed on another thread while
 * the owner waits, at once. Messages may outlive the borrower: their memory stays mapped, and nobody is told when they are freed. One thread but for
 * the messages. */
#ifndef PSR_NET_BORROWER_H
#define PSR_NET_BORROWER_H

#include "net/share_wire.h"
#include "net/transport.h"

/* More processes than a host runs; and of those that have not said who they are, so many. */
#define PSR_BORROWER_SOURCES_MAX 1024
#define PSR_BORROWER_UNKNOWN_MAX 16

typedef struct psr_borrower psr_borrower;

typedef struct psr_borrower_options {
    const char *path; /* of the socket, borrowed for the call; it is removed at the end */
    unsigned user;    /* whose processes are heard */
    int epoll;        /* borrowed for life: watches its descriptors, whose data is NULL */
    void *context;
    /* Whose channel has that routing id. false: nobody's yet. */
    bool (*known)(void *context, const uint8_t id[PSR_ROUTING_ID_BYTES], psr_peer *ret_peer);
    /* Somebody unknown was turned away. */
    void (*stranger)(void *context, const char *line);
} psr_borrower_options;

/* IO. ret owns. */
PSR_MUST_CHECK psr_err psr_borrower_new(const psr_borrower_options *options, psr_borrower **ret_borrower);
/* NULL allowed. */
void psr_borrower_free(psr_borrower *borrower);

/* What has come from any of them, without waiting. PROTOCOL: a member passed what it may not. Also when a member may have become known. */
PSR_MUST_CHECK psr_err psr_borrower_serve(psr_borrower *borrower);

/* The message whose payload the reference of a channel's sender says. PROTOCOL: it lies in no memory of that sender's, or is no payload
 * that may. ret owns. */
PSR_MUST_CHECK psr_err psr_borrower_take(psr_borrower *borrower, const uint8_t id[PSR_ROUTING_ID_BYTES],
                                         psr_peer from, const psr_head *head, uint64_t payload_bytes,
                                         const psr_reference *reference, psr_message **ret_message);

/* Where in the memory of others a payload lies. */
typedef struct psr_borrowed_place {
    uint64_t arena; /* a number that the borrower gives once: no other arena of its life has it */
    uint64_t offset;
} psr_borrowed_place;

#define PSR_BORROWED_NOWHERE ((psr_borrowed_place){.arena = UINT64_MAX}) /* no payload's place */

/* Any borrower's. false: the message's payload was sent. */
bool psr_borrowed_place_of(const psr_message *message, psr_borrowed_place *ret_place);

/* Gives back what was freed: the owner may wait next, and until psr_borrower_busy what is freed is given back at once. */
void psr_borrower_settle(psr_borrower *borrower);
/* The owner has something to do, and will settle. */
void psr_borrower_busy(psr_borrower *borrower);

/* That member has left: its memory goes when its last message is freed. */
void psr_borrower_retire(psr_borrower *borrower, psr_peer peer);

#endif
