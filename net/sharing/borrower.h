/* The borrowing end of shared memory. It listens for processes of the same user on this host, maps
 * the arenas that they pass, makes messages whose payloads lie in those arenas, and returns each
 * payload to its owner when the message is freed.
 *
 * Only values are read from that memory. A payload's offset and length stand in the message that
 * refers to it, and are checked against the mapped size. The memory's owner may change values while
 * they are read; that can only give wrong numbers, which it could have sent anyway.
 *
 * It also maps the pipes that they pass, and shows them the board (net/sharing/pipes_in.h).
 *
 * Returns are collected while the owner's thread is busy, and sent together before it waits next
 * (psr_borrower_settle). What another thread frees while the owner waits is returned at once.
 * Messages may outlive the borrower: their memory then stays mapped, and nobody is told when they
 * are freed. One thread, except that messages may be freed by any thread. */
#ifndef PSR_NET_SHARING_BORROWER_H
#define PSR_NET_SHARING_BORROWER_H

#include "net/sharing/pipes_in.h"
#include "net/sharing/share_wire.h"
#include "net/transport.h"

/* The most lending processes, which is more than one host runs; and the most that have not said yet
 * who they are. */
#define PSR_BORROWER_SOURCES_MAX 1024
#define PSR_BORROWER_UNKNOWN_MAX 16
#define PSR_BORROWER_EVENT ((uint64_t)1 << 63)

typedef struct psr_borrower psr_borrower;

typedef struct psr_borrower_options {
    const char *path;    /* of the socket, borrowed for the call; it is removed at the end */
    unsigned user;       /* the user whose processes may connect */
    int epoll;           /* borrowed for life: watches its descriptors. The data of the one at which
                         it listens is 0, of others PSR_BORROWER_EVENT and more */
    psr_pipes_in *pipes; /* borrowed for life; NULL: it reads no pipes */
    void *context;
    /* Finds the member whose channel has that routing id. false: no member has it yet. */
    bool (*known)(void *context, const uint8_t id[PSR_ROUTING_ID_BYTES], psr_peer *ret_peer);
    /* A process that is no member was refused. */
    void (*stranger)(void *context, const char *line);
} psr_borrower_options;

/* IO. The caller owns *ret_borrower. */
PSR_MUST_CHECK psr_err psr_borrower_new(const psr_borrower_options *options,
                                        psr_borrower **ret_borrower);
/* NULL allowed. */
void psr_borrower_free(psr_borrower *borrower);

/* Reads what has come from lending processes, without waiting. Call it also when a member may have
 * become known. PROTOCOL: a member broke the rules of sharing. */
PSR_MUST_CHECK psr_err psr_borrower_serve(psr_borrower *borrower);
/* The same for the one descriptor with these data. */
PSR_MUST_CHECK psr_err psr_borrower_serve_one(psr_borrower *borrower, uint64_t event);

/* Makes the message whose payload the sender gave as a reference. PROTOCOL: the reference lies
 * outside the arenas that this sender passed, or a payload of this kind may not be referred to. The
 * caller owns *ret_message. */
PSR_MUST_CHECK psr_err psr_borrower_take(psr_borrower *borrower,
                                         const uint8_t id[PSR_ROUTING_ID_BYTES], psr_peer from,
                                         const psr_head *head, uint64_t payload_bytes,
                                         const psr_reference *reference, psr_message **ret_message);

/* Where a borrowed payload is. */
typedef struct psr_borrowed_place {
    uint64_t arena; /* numbered by the borrower, which uses no number twice */
    uint64_t offset;
} psr_borrowed_place;

#define PSR_BORROWED_NOWHERE ((psr_borrowed_place){.arena = UINT64_MAX}) /* no payload's place */

/* The place of a message's payload, whichever borrower made it. false: the payload was sent, not
 * borrowed. */
bool psr_borrowed_place_of(const psr_message *message, psr_borrowed_place *ret_place);

/* Returns everything that was freed. Call it before the owner waits: from now until
 * psr_borrower_busy, what is freed is returned at once. */
void psr_borrower_settle(psr_borrower *borrower);
/* The owner works again: what is freed is collected until psr_borrower_settle. */
void psr_borrower_busy(psr_borrower *borrower);

/* That member has left: its memory is unmapped when its last message is freed. */
void psr_borrower_retire(psr_borrower *borrower, psr_peer peer);

#endif
