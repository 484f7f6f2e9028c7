/* Which connection is which member: routing ids of an inbox, bound to the peers that said HELLO on
 * them.
 *
 * A sender picks its routing id itself: 16 random bytes, kept over reconnects. So an id is a secret
 * that tells a reconnecting member from another process, and a rank belongs to the id that claimed
 * it first for as long as the inbox lives, or until it has left: a second claim is refused, whoever
 * makes it. Peers without a rank (PSR_RANK_ANY) may be many.
 *
 * An id is also bound to the name under which admission let its connection in, which is the CURVE
 * key's (net/trust/admission.h): whoever else comes to know or guesses it is nobody all the same.
 * Plain data; one thread. */
#ifndef PSR_NET_TRUST_BINDINGS_H
#define PSR_NET_TRUST_BINDINGS_H

#include "net/trust/admission.h"

#define PSR_ROUTING_ID_BYTES 16
#define PSR_BINDINGS_MAX 8192 /* of an inbox: more than the members of the largest run */

typedef struct psr_binding {
    uint8_t id[PSR_ROUTING_ID_BYTES];
    psr_peer peer;
    psr_peer admitted;                   /* worker 1; worker any keeps that when it has its rank */
    uint64_t number;                     /* of its connection, in User-Id */
    char user[PSR_ADMISSION_USER_BYTES]; /* the whole of that User-Id: the
                                            next message has the same */
    psr_connection connection;
    char address[64];  /* of its process, for lines; "": not known */
    uint64_t sequence; /* of the next message */
    bool banned;       /* claimed a rank that is taken, or has left: its messages are dropped */
    bool used;
} psr_binding;

typedef struct psr_bindings {
    psr_binding *slots; /* open addressing, by the id's first bytes: they are random */
    size_t capacity, count;
} psr_bindings;

/* The id's binding, or NULL. Valid until the next psr_bindings_add. */
psr_binding *psr_bindings_find(const psr_bindings *bindings, const void *id, size_t id_bytes);

/* The id that holds a rank, or NULL; always NULL for PSR_RANK_ANY. */
psr_binding *psr_bindings_holder(const psr_bindings *bindings, psr_peer peer);

/* Binds an id that is not bound to a peer that was admitted under that name. DENIED: it is not of
 * our making, or there are PSR_BINDINGS_MAX already. */
PSR_MUST_CHECK psr_err psr_bindings_add(psr_bindings *bindings, const void *id, size_t id_bytes,
                                        psr_peer peer, psr_peer admitted,
                                        psr_binding **ret_binding);

/* Whoever holds that rank has left: another id may claim it, and what comes of the first is
 * dropped. Gives its connection, which is nobody's any more. */
psr_connection psr_bindings_retire(psr_bindings *bindings, psr_peer peer);

/* The connection is of whom it is given to from now on: nobody else has it, who had one of that
 * number before. */
void psr_bindings_forget_connection(psr_bindings *bindings, uint64_t cookie);

void psr_bindings_done(psr_bindings *bindings);

#endif
