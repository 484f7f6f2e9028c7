/* Who may connect to an inbox: decided in ZeroMQ's handshake, before a byte of a message is read.
 * The ZAP handler (https://rfc.zeromq.org/spec/27/) of one zmq context, on a thread of its own so that a busy
 * or computing owner keeps nobody waiting.
 *
 * With CURVE the roster's keys are let in, each as the member that it belongs to. Without CURVE (ipc sockets) ZeroMQ's
 * PLAIN mechanism carries a name and a token, which is compared in constant time. Where the keys have a roster, the token is
 * one that this process shares with one member, and whoever shows it is let in as that member, whatever name it has. Where
 * all share one token, the name is believed ("worker 1", or "worker any" before it has a rank). A connection that was let in
 * bears its name and a number of its own in the User-Id property of every message. All others are turned away: wrong key or token, garbage, half a greeting, a
 * handshake that takes longer than PSR_HANDSHAKE_MS. */
#ifndef PSR_NET_ADMISSION_H
#define PSR_NET_ADMISSION_H

#include "net/keys.h"

#define PSR_HANDSHAKE_MS 5000
#define PSR_ADMISSION_NAME_BYTES 32
#define PSR_ADMISSION_USER_BYTES (PSR_ADMISSION_NAME_BYTES + 24) /* of User-Id: name and number */
/* Connections of one member that may be let in and unknown at a time; of all that share one token. More are hung up on, and
 * may come again. */
#define PSR_UNKNOWN_MAX 8
#define PSR_UNKNOWN_SHARED_MAX 1024

typedef struct psr_admission psr_admission;

/* Puts a ROUTER that is not bound yet under admission and starts the handler in its context. All are borrowed
 * for life. */
PSR_MUST_CHECK psr_err psr_admission_new(void *zmq_ctx, void *zmq_router, const psr_keys *keys,
                                         psr_admission **ret_admission);

/* From now on who hangs up in its handshake is counted, and no line tells it (psr_zmq_options.members_look). */
void psr_admission_members_look(psr_admission *admission);

/* Ends the handler, before the router is closed: nobody else comes in. NULL allowed. */
void psr_admission_free(psr_admission *admission);

/* Gives a DEALER the name and the keys with which it asks for admission. peer_key: psr_keys_of the other end; NULL where all
 * share one token. */
PSR_MUST_CHECK psr_err psr_admission_apply(const psr_keys *keys, psr_peer self, void *zmq_dealer,
                                           const char *peer_key);

/* ---- connections that were let in: each is unknown until the owner says whose it is ----
 *
 * A member needs one connection. So one is held for as long as it likes: the one that the owner knows, of each member. All others,
 * also those that a member has left for a newer one, are hung up on PSR_SILENT_MS after they came, once the owner
 * has looked at its inbox since: before, their first message may wait there. */
#define PSR_SILENT_MS (2 * PSR_HANDSHAKE_MS)

typedef struct psr_connection {
    int fd;
    uint64_t cookie; /* the kernel's number for it (net/half_open.h); 0: none */
} psr_connection;

/* The owner knows whose the connection fd is: admitted's, as psr_admission_user_read gave it. Owner's thread. */
psr_connection psr_admission_known(psr_admission *admission, psr_peer admitted, int fd);
/* It is nobody's any more. None, or one that is gone: does nothing. Owner's thread. */
void psr_admission_unknown(psr_admission *admission, psr_connection connection);

/* The socket to poll for lines about those turned away; psr_admission_refusal reads one without waiting, false:
 * none. To be called when the inbox has just been found empty. Owner's thread. */
void *psr_admission_refusals(psr_admission *admission);
bool psr_admission_refusal(psr_admission *admission, char *line, size_t line_size);

/* Connections turned away so far. */
uint64_t psr_admission_refused(const psr_admission *admission);

/* "worker 1". */
void psr_admission_name(psr_peer peer, char name[PSR_ADMISSION_NAME_BYTES]);
/* false: not one. */
bool psr_admission_name_read(const char *name, psr_peer *ret_peer);
/* Of User-Id: who was let in, and the connection's number. false: not one. */
bool psr_admission_user_read(const char *user, psr_peer *ret_admitted, uint64_t *ret_number);

#endif
