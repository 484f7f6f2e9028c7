/* All that a transport needs for shared memory in one process (docs/architecture.md): the arenas
 * that it lends from, a lending end towards each peer (net/sharing/lender.h), and one borrowing end
 * for all peers (net/sharing/borrower.h). One thread, except that messages may be freed by any
 * thread. */
#ifndef PSR_NET_SHARING_SHARING_H
#define PSR_NET_SHARING_SHARING_H

#include "net/sharing/borrower.h"
#include "net/sharing/lender.h"

typedef struct psr_sharing psr_sharing;

typedef struct psr_sharing_options {
    const char *path; /* "/DIRECTORY/NAME.fd": where this process listens; borrowed for the call */
    unsigned user;    /* the user whose processes may share: this process's own */
    bool no_pipes;    /* small messages come by sockets. For the scheduler, which is in no hurry */
    void *context;
    /* for the borrower */
    bool (*known)(void *context, const uint8_t id[PSR_ROUTING_ID_BYTES], psr_peer *ret_peer);
    void (*stranger)(void *context, const char *line); /* for the borrower */
    /* Called once for each peer: memory is lent to it, or why not; payloads are sent as messages
     * then. */
    void (*say)(void *context, bool shared, const char *line);
} psr_sharing_options;

/* Listens. IO, NOMEM. The caller owns *ret_sharing. */
PSR_MUST_CHECK psr_err psr_sharing_new(const psr_sharing_options *options,
                                       psr_sharing **ret_sharing);
/* Ends all loans. Messages may outlive it. NULL allowed. */
void psr_sharing_free(psr_sharing *sharing);

/* Lends from that arena from now on. It is borrowed until psr_sharing_remove, or for life. USAGE:
 * there are PSR_SHARED_ARENAS_MAX already. */
PSR_MUST_CHECK psr_err psr_sharing_add(psr_sharing *sharing, const psr_shared_arena *arena);

/* Stops lending from that arena; peers unmap it. The caller knows that nothing of it is lent now.
 * Does nothing if the arena was not added. */
void psr_sharing_remove(psr_sharing *sharing, const psr_shared_arena *arena);

/* Makes the lending end towards a peer that claims to listen at path; id is the routing id of the
 * channel to it. A path outside the directory in which this process listens is refused, whatever
 * the peer claims. NULL: none is made; `say` is told why. Ended by psr_sharing_disconnect. */
psr_lender *psr_sharing_connect(psr_sharing *sharing, psr_peer peer, const char *path,
                                const uint8_t id[PSR_ROUTING_ID_BYTES]);
/* NULL: does nothing. */
void psr_sharing_disconnect(psr_sharing *sharing, psr_lender *lender);

/* The descriptor to poll for input. When there is some, psr_sharing_serve reads it without waiting.
 * PROTOCOL: a member broke the rules of sharing. */
int psr_sharing_fd(const psr_sharing *sharing);
PSR_MUST_CHECK psr_err psr_sharing_serve(psr_sharing *sharing);

psr_borrower *psr_sharing_borrower(psr_sharing *sharing);

/* The pipes from other processes. NULL: this system has no memory for a board. */
psr_pipes_in *psr_sharing_pipes(const psr_sharing *sharing);

#endif
