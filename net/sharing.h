/* Shared memory of one process, beside its messages (docs/architecture.md): the arenas that it lends from, a lending end towards each peer
 * (net/lender.h) and one borrowing end for all (net/borrower.h). What a transport needs of them. One thread, but for messages that are
 * freed. */
#ifndef PSR_NET_SHARING_H
#define PSR_NET_SHARING_H

#include "net/borrower.h"
#include "net/lender.h"

typedef struct psr_sharing psr_sharing;

typedef struct psr_sharing_options {
    const char *path; /* "/DIRECTORY/NAME.fd": where this process listens; borrowed for the call */
    unsigned user;    /* whose processes may share: this process's own */
    void *context;
    bool (*known)(void *context, const uint8_t id[PSR_ROUTING_ID_BYTES], psr_peer *ret_peer); /* borrower's */
    void (*stranger)(void *context, const char *line);                                        /* borrower's */
    /* Of a peer, once: that memory is lent to it, or why not, and messages go on. */
    void (*say)(void *context, bool shared, const char *line);
} psr_sharing_options;

/* Listens. IO, NOMEM. ret owns. */
PSR_MUST_CHECK psr_err psr_sharing_new(const psr_sharing_options *options, psr_sharing **ret_sharing);
/* All that is lent comes back. Messages may outlive it. NULL allowed. */
void psr_sharing_free(psr_sharing *sharing);

/* Lends from that arena from now on, which outlives this. USAGE: PSR_SHARED_ARENAS_MAX are there. */
PSR_MUST_CHECK psr_err psr_sharing_add(psr_sharing *sharing, const psr_shared_arena *arena);

/* The lending end towards a peer that says that it listens at path, under the routing id of the channel to it. Only what is in the
 * directory where this process listens too is connected to, whatever a peer says. NULL: none, which is said. It ends by
 * psr_sharing_disconnect. */
psr_lender *psr_sharing_connect(psr_sharing *sharing, psr_peer peer, const char *path,
                                const uint8_t id[PSR_ROUTING_ID_BYTES]);
/* NULL: does nothing. */
void psr_sharing_disconnect(psr_sharing *sharing, psr_lender *lender);

/* To be polled for input, then psr_sharing_serve: what has come, without waiting. PROTOCOL: a member broke the rules. */
int psr_sharing_fd(const psr_sharing *sharing);
PSR_MUST_CHECK psr_err psr_sharing_serve(psr_sharing *sharing);

psr_borrower *psr_sharing_borrower(psr_sharing *sharing);

#endif
