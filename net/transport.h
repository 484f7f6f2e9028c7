/* The transport wall: send, receive, deadline. The only place that knows a socket. Two implementations: ZeroMQ
 * (transport_zmq.c) and one in process (transport_sim.c) that runs a whole cluster in one address space from
 * one seed, with seeded delays and faults.
 *
 * Channels are one-way and first-in first-out: all that A sends to B arrives in order, or B or A is gone. Every
 * process has one inbox (a bound ROUTER) and one outgoing DEALER per peer that it sends to. Queues never drop and never block:
 * what bounds them are the credits of the protocols above. Who sets those says how much they let wait for a peer
 * (psr_transport_bound), and a peer that lets more wait is found out.
 * One thread at a time: it may go from one to another through a mutex, which is the full fence that libzmq asks for.
 * What else any thread may call is said. */
#ifndef PSR_NET_TRANSPORT_H
#define PSR_NET_TRANSPORT_H

#include "net/message.h"
#include "net/shared_arena.h"

#include <stdbool.h>

typedef struct psr_transport psr_transport;

/* Bytes to send. With release, they are lent: release(context) is called exactly once, from any thread, when they
 * have left or will never leave. Without, they are copied before send returns. */
typedef struct psr_payload {
    const void *data;
    size_t bytes;
    void (*release)(void *context);
    void *context;
} psr_payload;

typedef struct psr_transport_counts {
    uint64_t bytes_sent, bytes_received, messages_sent, messages_received;
    uint64_t bytes_lent; /* of those sent: by reference, through shared memory */
    uint64_t
        strangers; /* connections turned away and messages dropped: of nobody on the roster, or of a second claimant of a rank */
} psr_transport_counts;

/* Queues a message for peer. Never blocks. NOT_FOUND when peer was not connected. PROTOCOL: as
 * many messages as may wait for it do, so it does not read what it asks for; the detail names it.
 * The payload's release is called also on failure. */
PSR_MUST_CHECK psr_err psr_transport_send(psr_transport *transport, psr_peer to, const psr_head *head,
                                          const psr_payload *payload);

/* Messages for peer that have not left: they are not the kernel's yet. 0: it is not connected. */
size_t psr_transport_waiting(const psr_transport *transport, psr_peer peer);

/* What may wait for each peer of that role, in messages: more than the protocols let an honest one
 * leave unread, however slow it is. PSR_TRANSPORT_WAITING_MAX before. SIZE_MAX: the caller bounds
 * them itself. */
#define PSR_TRANSPORT_WAITING_MAX 65536
void psr_transport_bound(psr_transport *transport, psr_role role, size_t messages);

/* The next message, within timeout_ms (-1: without end; 0: only what is there). What was freed and lies in shared memory is given back by
 * a call that finds no message: whoever has freed one comes again before it turns to something else. TIMEOUT when none came; CANCELLED
 * after psr_transport_wake when nothing else is there to deliver (the wake is consumed). A member's malformed or
 * other-version message gives PROTOCOL or VERSION, detail naming the member; PEER: its connection broke and messages were
 * lost. DENIED: the scheduler that we connected to turns us away in the handshake, or is none; what it says later is REFUSED. ret owns. */
PSR_MUST_CHECK psr_err psr_transport_recv(psr_transport *transport, int timeout_ms,
                                          psr_message **ret_message);

/* Gives take, which owns it, each message that is there: the first within timeout_ms, at most `most`, until take says false. ret_empty:
 * whether no more was there; so too after a wake. Fails as psr_transport_recv, but TIMEOUT and CANCELLED are no failures. */
PSR_MUST_CHECK psr_err psr_transport_visit(psr_transport *transport, int timeout_ms, unsigned most,
                                           bool (*take)(void *context, psr_message *message), void *context,
                                           bool *ret_empty);

/* Makes a waiting psr_transport_recv return CANCELLED. Any thread; cheap; coalesces. */
void psr_transport_wake(psr_transport *transport);

/* Waits until psr_transport_recv may have something, a message or a wake, at most timeout_ms (-1: without end); it may return in vain. To be
 * called after a psr_transport_recv with TIMEOUT. Any thread, several too, while another one uses the transport: it looks at no socket's
 * state. Consumes nothing: a wake stays until it is received. */
void psr_transport_wait(psr_transport *transport, int timeout_ms);

/* The same, and it returns when something can be read from fd (-1: none) too: for a thread that serves both. */
void psr_transport_wait_beside(psr_transport *transport, int fd, int timeout_ms);

/* Makes a channel to peer at endpoint ("tcp://10.0.0.1:4242", or "ipc:///DIRECTORY/NAME" in the directory of our own
 * inbox); public_key: the peer's CURVE key (Z85, 40 characters) or NULL: the one in keys. Nobody need be there yet.
 * USAGE: not an endpoint, TCP without CURVE that the keys do not allow, no key known, connected already. */
PSR_MUST_CHECK psr_err psr_transport_connect(psr_transport *transport, psr_peer peer, const char *endpoint,
                                             const char *public_key);

/* From now on memory is shared with members on this host: before the first of them connects here or is connected to. say hears once
 * of each to which this process shall lend (psr_transport_lend_to) that it does, or why not: messages go on then. NULL: nobody listens.
 * UNSUPPORTED: this transport shares none (TCP without a directory for that, the simulated network). USAGE: the directory is not this user's
 * alone. IO, NOT_FOUND: no socket can be made for it. */
PSR_MUST_CHECK psr_err psr_transport_share(psr_transport *transport,
                                           void (*say)(void *context, bool shared, const char *line),
                                           void *context);

/* The Unix socket at which this process hears of others on its host that would share memory, from psr_transport_share on: for its peers to
 * know. "": there is none. Borrowed for life. */
const char *psr_transport_share_path(const psr_transport *transport);

/* From now on what is lent to that connected peer may go by reference: it says that it listens at path, as psr_transport_share_path. That
 * it does, or why not, is said. Does nothing when no memory is shared, or peer is the scheduler. */
void psr_transport_lend_to(psr_transport *transport, psr_peer peer, const char *path);

/* Lent payloads of 4 KiB or more that lie in the arena go by reference to members that have mapped it: nothing is copied, and a loan ends
 * when the receiver has freed its message. So whoever lends for the time until an answer comes has to know that the receiver read it
 * before it answered. arena: borrowed until the transport's end. UNSUPPORTED: no memory is shared. USAGE: too many. */
PSR_MUST_CHECK psr_err psr_transport_lend_from(psr_transport *transport, const psr_shared_arena *arena);

/* From now on payloads that lie in no such arena go by reference too, by way of a slot of shared memory into which they are copied
 * (net/stage.h), where that is faster than a message. Once. UNSUPPORTED: no memory is shared, or this system has none that can be. NOMEM. */
PSR_MUST_CHECK psr_err psr_transport_lend_copies(psr_transport *transport);

/* Whether what is lent to peer from an arena goes by reference now. */
bool psr_transport_lends_to(const psr_transport *transport, psr_peer peer);

/* Ends the channel to peer: what has not left never will, and what is lent comes back (on another thread, later). Does nothing
 * when there is none. */
void psr_transport_disconnect(psr_transport *transport, psr_peer peer);

/* peer has left in order: what else comes of its connection is dropped, and another may be made in its name. */
void psr_transport_retire(psr_transport *transport, psr_peer peer);

/* Turns away the process that sent this message, its JOIN: REFUSED goes back on the connection that the message came on, so there need be no
 * channel to it, and it may have any name or none. It ends with that status and line (cut at PSR_REFUSED_LINE_MAX). One whose name another
 * process holds is refused so by the transport itself, with DENIED. Who has gone hears nothing. */
#define PSR_REFUSED_LINE_MAX 800
void psr_transport_refuse(psr_transport *transport, const psr_message *message, psr_err status,
                          const char *line);

/* A peer whose address this process cannot reach: nobody's fault that the peer could know of. */
typedef struct psr_unreached {
    psr_peer peer;
    int64_t for_ms;     /* since it was connected to */
    char endpoint[256]; /* where it says that it listens */
    char from[64];      /* this process's address on the way there; "": there is no way */
    char why[96];       /* "Connection refused", "no answer within 1000 ms" */
    char
        came_from[64]; /* from where it has connected to this process; "": it has not, or that is not known */
} psr_unreached;

/* Whether a channel over TCP, but to the scheduler, has been without a connection for patience_ms since it was made. (Whoever listens accepts
 * connections, however busy or stopped it is: its kernel does.) To be called now and then; looks once a second. It asks the network itself before
 * it says so, for a second. false: there is none, it is not over sockets, or nobody watches (psr_zmq_options.watches_ways). */
bool psr_transport_unreached(psr_transport *transport, int64_t patience_ms, psr_unreached *ret_unreached);

/* As psr_transport_refuse, of a peer that has introduced itself. One that has not, or has no rank, hears nothing. */
void psr_transport_refuse_peer(psr_transport *transport, psr_peer peer, psr_err status, const char *line);

/* The endpoint that others connect to. Borrowed for life. */
const char *psr_transport_endpoint(const psr_transport *transport);

/* After WELCOME gave a rank to a process that joined with PSR_RANK_ANY: says HELLO again under the new name. */
PSR_MUST_CHECK psr_err psr_transport_rename(psr_transport *transport, psr_peer self);

/* Any thread. */
void psr_transport_counts_get(const psr_transport *transport, psr_transport_counts *ret_counts);

/* Delivers what is queued, for at most linger_ms, then ends. NULL allowed; nulls it. */
void psr_transport_free(psr_transport **transport, int linger_ms);

/* ---- ZeroMQ ---- */
typedef struct psr_zmq_options {
    psr_peer self; /* rank may be PSR_RANK_ANY */
    const char *
        directory; /* of the run's ipc sockets (net/socket_directory.h), to bind one there; NULL or "": TCP; borrowed for life */
    /* Its name there, when others must know it before; NULL: one of its own. Borrowed for life. */
    const char *socket;
    /* Over TCP: where this host's members share memory, a directory as above, which is theirs alone; NULL or "": nowhere. Borrowed for
     * life. */
    const char *sharing;
    const char *interface; /* address or interface name to bind; "127.0.0.1" by default */
    uint16_t port;         /* 0: the kernel gives one */
    const struct psr_keys
        *keys; /* net/keys.h: own key pair and the roster's, or the run's token; borrowed for life */
    /* Members of this run look whether it listens before they join (comm/start/meeting_file.h): who hangs up in the handshake is counted, and no line
     * tells it. */
    bool members_look;
    /* Channels over TCP are watched until they are connected, for psr_transport_unreached: two descriptors each. */
    bool watches_ways;
    void (*log_stranger)(void *context,
                         const char *line); /* may be NULL; called on the transport's thread, rate-limited */
    void *log_context;
} psr_zmq_options;

PSR_MUST_CHECK psr_err psr_transport_zmq_new(const psr_zmq_options *options, psr_transport **ret_transport);
/* "libzmq 4.3.4": what is linked, for --version. */
void psr_transport_library(char *text, size_t size);

/* ---- in process ---- */
typedef struct psr_sim psr_sim; /* the simulated network: a virtual clock and a seed */

typedef struct psr_sim_faults {
    uint64_t seed;
    uint32_t delay_max_us; /* each message is delayed by at most that; channels stay first-in first-out */
    uint32_t duplicate_permille; /* PUSH and WEIGHTS that arrive twice */
    /* What is lent is read where it lies until its message is freed, as over shared memory; else when it is delivered, as by a socket. */
    bool by_reference;
} psr_sim_faults;

PSR_MUST_CHECK psr_err psr_sim_new(const psr_sim_faults *faults, psr_sim **ret_sim);
/* After its transports. Gives back what is under way. NULL allowed. */
void psr_sim_free(psr_sim *sim);
/* A member of the network (borrowed for life). Its recv never waits: what psr_sim_step has not delivered is a TIMEOUT.
 * Lent bytes are given back when they are delivered or, by reference, when their message is freed. Endpoints and keys mean nothing here. */
PSR_MUST_CHECK psr_err psr_transport_sim_new(psr_sim *sim, psr_peer self, psr_transport **ret_transport);
/* Cuts a member off: what is under way to and from it is lost from now on. */
void psr_sim_cut(psr_sim *sim, psr_peer peer);
/* Moves the virtual clock to the next delivery and says to whom; false when nothing is under way. */
bool psr_sim_step(psr_sim *sim, psr_peer *ret_to);
/* The virtual clock, which begins at 0; when the next delivery is due (INT64_MAX: nothing is under way); and moves the
 * clock to something else that happens, no later than that. */
int64_t psr_sim_now_us(const psr_sim *sim);
int64_t psr_sim_next_us(const psr_sim *sim);
void psr_sim_pass(psr_sim *sim, int64_t until_us);
/* Messages of a type that are under way from one member to another. */
size_t psr_sim_under_way(const psr_sim *sim, psr_peer from, psr_peer to, psr_message_type type);

#endif
