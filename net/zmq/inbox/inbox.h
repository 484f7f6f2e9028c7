/* The receiving half of the ZeroMQ transport: a ROUTER with its admission, a PULL for what members
 * send sealed, and the pipes of processes of this host (net/sharing/pipes_in.h). It turns frames
 * into messages of members. What one member sends by several ways comes in the order of its numbers
 * (psr_head.sequence). A message of an unknown sender is dropped, counted and logged.
 *
 * One thread. */
#ifndef PSR_NET_ZMQ_INBOX_INBOX_H
#define PSR_NET_ZMQ_INBOX_INBOX_H

#include "net/sharing/borrower.h"
#include "net/zmq/inbox/half_open.h"

typedef struct psr_inbox psr_inbox;

/* Binds options->interface (resolved to address) and options->port; address NULL: an ipc socket in
 * options->directory. The caller owns *ret_inbox. IO: the port is in use, or the system refuses for
 * another reason. zmq_ctx and what options points to are borrowed for life. */
PSR_MUST_CHECK psr_err psr_inbox_new(void *zmq_ctx, const psr_zmq_options *options,
                                     const char *address, psr_inbox **ret_inbox);

/* Closes it. Refusals that have not left yet may take linger_ms, while the context ends. NULL
 * allowed. */
void psr_inbox_free(psr_inbox *inbox, int linger_ms);

/* The next message, without waiting; NULL: there is none. Fails as psr_transport_recv. The caller
 * owns *ret_message. */
PSR_MUST_CHECK psr_err psr_inbox_take(psr_inbox *inbox, psr_message **ret_message);

/* The next message of a pipe; NULL: there is none, or one that comes by the socket must come first.
 * No system call. Fails as psr_inbox_take. The caller owns *ret_message. */
PSR_MUST_CHECK psr_err psr_inbox_take_piped(psr_inbox *inbox, psr_message **ret_message);
/* Whether psr_inbox_take has to look at messages that came sealed and were held for others. No
 * system call. */
bool psr_inbox_is_due(const psr_inbox *inbox);

/* From now on members may refer to memory that they share, and write pipes (NULL: they may not).
 * Borrowed until the inbox's end. */
void psr_inbox_borrow_by(psr_inbox *inbox, psr_borrower *borrower, psr_pipes_in *pipes);
/* The member whose channel has that routing id. false: none. */
bool psr_inbox_knows(const psr_inbox *inbox, const uint8_t id[PSR_ROUTING_ID_BYTES],
                     psr_peer *ret_peer);
/* Grows whenever a connection says who it is. */
uint64_t psr_inbox_introductions(const psr_inbox *inbox);

/* As psr_transport_refuse. */
void psr_inbox_refuse(psr_inbox *inbox, const psr_message *message, psr_err status,
                      const char *line);

/* As psr_transport_refuse_peer. */
void psr_inbox_refuse_peer(psr_inbox *inbox, psr_peer peer, psr_err status, const char *line);
/* The address from which a peer has connected. "": it has not, or it is not known. Borrowed until
 * another peer introduces itself. */
const char *psr_inbox_address_of(const psr_inbox *inbox, psr_peer peer);

/* From now on psr_inbox_strangers_socket is also readable when connections end, of members or not,
 * and psr_inbox_any_ended is true once after that. */
void psr_inbox_tell_ends(psr_inbox *inbox);
bool psr_inbox_any_ended(psr_inbox *inbox);
/* The connection by which a peer sends, over TCP. CONNECTED also if nothing is known of the peer.
 * ENDING also while somebody was let in under its name who has said nothing yet: the peer on a new
 * connection, or one that has ended too and is known so after PSR_SILENT_MS. */
psr_half_open_state psr_inbox_state_of(const psr_inbox *inbox, psr_peer peer);

/* As psr_transport_retire. */
void psr_inbox_retire(psr_inbox *inbox, psr_peer peer);

/* Sockets to poll for input: one for messages, one for sealed ones (NULL: there is none), one for
 * news about strangers, which
 * psr_inbox_tell_strangers logs. */
void *psr_inbox_socket(const psr_inbox *inbox);
void *psr_inbox_sealed_socket(const psr_inbox *inbox);
void *psr_inbox_strangers_socket(const psr_inbox *inbox);
void psr_inbox_tell_strangers(psr_inbox *inbox);

/* Counts and logs a line about a process that was refused elsewhere. */
void psr_inbox_log_stranger(psr_inbox *inbox, const char *line);

/* Where others connect to. Borrowed for life. */
const char *psr_inbox_endpoint(const psr_inbox *inbox);
/* Connections and messages of strangers so far. Any thread. */
uint64_t psr_inbox_strangers(const psr_inbox *inbox);

#endif
