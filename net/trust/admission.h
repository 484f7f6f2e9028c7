/* Decides who may connect to an inbox, in ZeroMQ's handshake, before a byte of a message is read.
 * It is the ZAP handler (https://rfc.zeromq.org/spec/27/) of one zmq context, on a thread of its
 * own, so that nobody waits while the owner is busy.
 *
 * With CURVE the roster's keys are let in, each as the member that it belongs to. Without CURVE
 * (ipc sockets) ZeroMQ's PLAIN mechanism carries a name and a token, which is compared in constant
 * time. Where the keys have a roster, this process shares a different token with each member, and
 * whoever shows a token is let in as its member, whatever name it gives. Where all share one token,
 * the name is believed ("worker 1", or "worker any" before it has a rank). A connection that was
 * let in has its member's name and a number of its own in the User-Id property of every message.
 * All other connections are turned away: a wrong key or token, garbage, half a greeting, a
 * handshake that takes longer than PSR_HANDSHAKE_MS.
 *
 * Its files are admission.c (the owner's side), admission_handler.c (the thread),
 * admission_credentials.c (whose connection it is), admission_monitor.c (connections that never
 * reach ZAP) and admission_names.c. */
#ifndef PSR_NET_TRUST_ADMISSION_H
#define PSR_NET_TRUST_ADMISSION_H

#include "net/trust/keys/keys.h"

#define PSR_HANDSHAKE_MS 5000
#define PSR_ADMISSION_NAME_BYTES 32
/* room for User-Id: name and number */
#define PSR_ADMISSION_USER_BYTES (PSR_ADMISSION_NAME_BYTES + 24)
/* How many connections of one member may be admitted and not yet known at the same time; and how
 * many of all that share one token. Further ones are closed, and may come again. */
#define PSR_UNKNOWN_MAX 8
#define PSR_UNKNOWN_SHARED_MAX 1024

typedef struct psr_admission psr_admission;

/* Puts a ROUTER that is not bound yet under admission and starts the handler in its context. With
 * it a PULL for sealed messages (NULL: there is none): who would send to that one shows a token
 * that psr_admission_expect has named. All are borrowed for life. */
PSR_MUST_CHECK psr_err psr_admission_new(void *zmq_ctx, void *zmq_router, void *zmq_sealed,
                                         const psr_keys *keys, psr_admission **ret_admission);

/* Connections that are closed in their handshake are counted but not logged from now on
 * (psr_zmq_options.members_look). */
void psr_admission_members_look(psr_admission *admission);

/* Ends the handler; no further connection is admitted. Call it before the router is closed. NULL
 * allowed. */
void psr_admission_free(psr_admission *admission);

/* Gives a DEALER the name and the keys with which it asks for admission. peer_key: psr_keys_of the
 * other end; NULL where all share one token. */
PSR_MUST_CHECK psr_err psr_admission_apply(const psr_keys *keys, psr_peer self, void *zmq_dealer,
                                           const char *peer_key);

/* ---- the second connections, on which messages are sealed ----
 *
 * Their handshake is PLAIN, in the clear: who watches the network sees the token. It keeps out all
 * others. What is believed is what opens (net/trust/seal.h). */

/* From now on who shows that token for that channel is let in as `admitted`. Each channel is named
 * once. NOMEM. Owner's thread. */
PSR_MUST_CHECK psr_err psr_admission_expect(psr_admission *admission, uint32_t channel,
                                            const char *token, psr_peer admitted);
/* Nobody is let in for that channel any more. */
void psr_admission_expect_no_more(psr_admission *admission, uint32_t channel);
/* Gives a PUSH what it asks for admission with. */
PSR_MUST_CHECK psr_err psr_admission_apply_sealed(void *zmq_push, uint32_t channel,
                                                  const char *token);
/* Ends the connection fd, unless it is the one that the owner knows. */
void psr_admission_end(psr_admission *admission, int fd);

/* ---- connections that were let in: each is unknown until the owner says whose it is ----
 *
 * A member needs one connection. So one connection of each member, the one that the owner knows,
 * may stay for ever. All others are closed PSR_SILENT_MS after they came, also those that a member
 * has left for a newer one; but not before the owner has looked at its inbox once more, where their
 * first message may wait. */
#define PSR_SILENT_MS (2 * PSR_HANDSHAKE_MS)

typedef struct psr_connection {
    int fd;
    uint64_t cookie; /* the kernel's number for it (net/zmq/inbox/half_open.h); 0: none */
} psr_connection;

/* The owner knows now that the connection fd belongs to `admitted`, as psr_admission_user_read gave
 * it. Owner's thread. */
psr_connection psr_admission_known(psr_admission *admission, psr_peer admitted, int fd);
/* The connection no longer belongs to a member. Does nothing for no connection, or for a closed
 * one. Owner's thread. */
void psr_admission_unknown(psr_admission *admission, psr_connection connection);

/* The socket to poll for lines about refused connections. psr_admission_refusal reads one line
 * without waiting; false: there is none. Call it when the inbox has just been found empty. Owner's
 * thread. */
void *psr_admission_refusals(psr_admission *admission);
bool psr_admission_refusal(psr_admission *admission, char *line, size_t line_size);

/* From now on the owner is told when connections end, whoever had them: psr_admission_refusals
 * becomes readable, and psr_admission_any_ended is true once. Owner's thread. */
void psr_admission_tell_ends(psr_admission *admission);
bool psr_admission_any_ended(psr_admission *admission);
/* Whether a connection of that member was let in, as psr_admission_user_read names it, and is not
 * known to the owner yet. */
bool psr_admission_awaits(psr_admission *admission, psr_peer admitted);

/* How many connections were refused so far. */
uint64_t psr_admission_refused(const psr_admission *admission);

/* Writes "worker 1". */
void psr_admission_name(psr_peer peer, char name[PSR_ADMISSION_NAME_BYTES]);
/* Reads User-Id: the member that was admitted, and the connection's number. false: it is no
 * User-Id. */
bool psr_admission_user_read(const char *user, psr_peer *ret_admitted, uint64_t *ret_number);

#endif
