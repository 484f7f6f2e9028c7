/* Which member a connection belongs to: routing ids of an inbox, bound to the peers that said HELLO
 * on them. A sender chooses its routing id itself: 16 random bytes, which it keeps when it
 * reconnects. So an id is a secret that distinguishes a reconnecting member from another process. A
 * rank belongs to the id that claimed it first, until that member has left or the inbox ends: any
 * other claim is refused. Many peers may have no rank (PSR_RANK_ANY). An id is also bound to the
 * name under which its connection was admitted, which is that of the CURVE key
 * (net/trust/admission.h): knowing or guessing an id is not enough. Plain data; one thread. */
#ifndef PSR_NET_TRUST_BINDINGS_H
#define PSR_NET_TRUST_BINDINGS_H

#include "net/trust/admission.h"

#define PSR_ROUTING_ID_BYTES 16
#define PSR_BINDINGS_MAX 8192 /* most ids of an inbox: more than the members of the largest run */

/* Where it sends sealed messages (net/zmq/inbox/sealed_in.h). */
typedef struct psr_sealed_channel psr_sealed_channel;

typedef struct psr_binding {
    uint8_t id[PSR_ROUTING_ID_BYTES];
    psr_peer peer;
    psr_peer admitted; /* for example worker 1; "worker any" keeps that name when it has its rank */
    uint64_t number;   /* number of its connection, from User-Id */
    /* that whole User-Id, which is the same in the next message */
    char user[PSR_ADMISSION_USER_BYTES];
    psr_connection connection;
    char address[64];           /* address of its process, for lines; "": not known */
    uint64_t sequence;          /* of the next message */
    psr_sealed_channel *sealed; /* NULL: none; of the inbox's psr_sealed_in */
    bool banned; /* it claimed a rank that is taken, or has left: its messages are dropped */
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

/* Binds a new id to a peer that was admitted under that name. DENIED: the id has another form than
 * ours, or there are PSR_BINDINGS_MAX already. */
PSR_MUST_CHECK psr_err psr_bindings_add(psr_bindings *bindings, const void *id, size_t id_bytes,
                                        psr_peer peer, psr_peer admitted,
                                        psr_binding **ret_binding);

/* The holder of that rank has left: another id may claim the rank, and messages of the first id are
 * dropped. Returns its connection, which no longer belongs to a member. */
psr_connection psr_bindings_retire(psr_bindings *bindings, psr_peer peer);

/* From now on the connection belongs only to the binding that it is given to. An earlier binding
 * with that number loses it. */
void psr_bindings_forget_connection(psr_bindings *bindings, uint64_t cookie);

void psr_bindings_done(psr_bindings *bindings);

#endif
