/* The transport wall: send, receive, deadline. The only place that knows a socket. Two
 * implementations: ZeroMQ (transport_zmq.c) and one in process (transport_sim.c) that runs a whole
 * cluster in one address space from one seed, with seeded delays and faults.
 *
 * Channels are one-way and first-in first-out: all that A sends to B arrives in order, or B or A is
 * gone. Every process has one inbox (a bound ROUTER) and one outgoing DEALER per peer that it sends
 * to. Queues never drop and never block. The credits of the protocols above bound them: whoever
 * sets the credits says how many messages they let wait for a peer (psr_transport_bound), and a
 * peer for which more wait has broken the protocol. One thread at a time. Another thread may take
 * over through a mutex, which is the full fence that libzmq asks for. Functions that any thread may
 * call at any time say so. */
#ifndef PSR_NET_TRANSPORT_H
#define PSR_NET_TRANSPORT_H

#include "net/message.h"
#include "net/sharing/shared_arena.h"

#include <stdbool.h>

typedef struct psr_transport psr_transport;

/* Bytes to send. With release they are lent: release(context) is called exactly once, from any
 * thread, when they have left or never will. Without release they are copied before send
 * returns. */
typedef struct psr_payload {
    const void *data;
    size_t bytes;
    void (*release)(void *context);
    void *context;
} psr_payload;

typedef struct psr_transport_counts {
    uint64_t bytes_sent, bytes_received, messages_sent, messages_received;
    uint64_t bytes_lent;   /* the part of bytes_sent that went through shared memory */
    uint64_t bytes_sealed; /* the part that went sealed, on a second connection */
    /* connections refused and messages dropped, of processes that are not on the roster or claim
     * another process's rank */
    uint64_t strangers;
} psr_transport_counts;

/* Queues a message for peer. Never blocks. NOT_FOUND: peer is not connected. PROTOCOL: as many
 * messages as may wait for peer are waiting, so it does not read what it asked for; the detail
 * names it. The payload's release is called on failure too. */
PSR_MUST_CHECK psr_err psr_transport_send(psr_transport *transport, psr_peer to,
                                          const psr_head *head, const psr_payload *payload);

/* Who hears of every message. seen is called on the thread that has the transport: before a message
 * is queued (sent: true; so before anything that it lends can come back), and when one was
 * received. It must not use the transport. */
typedef struct psr_transport_watcher {
    void *context;
    void (*seen)(void *context, bool sent, psr_peer peer, const psr_head *head, size_t bytes);
    /* the message that was last seen as sent has been queued; NULL: nobody asks */
    void (*queued)(void *context);
} psr_transport_watcher;

/* From now on; copied. NULL: nobody hears any more. By the thread that has the transport. */
void psr_transport_watch(psr_transport *transport, const psr_transport_watcher *watcher);

/* From now on messages take as long as on a link of that rate (bits per second; 0: without limit)
 * and delay, in each direction (net/link.h). To be called before memory is shared, which would go
 * past the link; not for the simulated network. What goes to the scheduler or comes from it, and
 * what the transport says by itself (HELLO, keys), is not delayed. NOMEM, IO. */
PSR_MUST_CHECK psr_err psr_transport_emulate_link(psr_transport *transport,
                                                  uint64_t rate_bits_per_s, double delay_s);

/* The number of messages for peer that the kernel has not taken yet. 0: peer is not connected. */
size_t psr_transport_waiting(const psr_transport *transport, psr_peer peer);

/* Sets how many messages may wait for each peer of that role. It must be more than an honest peer
 * can leave unread under the protocols, however slow it is. The default is
 * PSR_TRANSPORT_WAITING_MAX. SIZE_MAX: the caller bounds them itself. */
#define PSR_TRANSPORT_WAITING_MAX 65536
void psr_transport_bound(psr_transport *transport, psr_role role, size_t messages);

/* The next message, within timeout_ms (-1: wait without end; 0: do not wait). A call that finds no
 * message also returns freed payloads in shared memory to their owners, so whoever has freed a
 * message calls again before it does something else. The caller owns *ret_message. Errors: TIMEOUT:
 * no message came. CANCELLED: psr_transport_wake was called and no message is there (the wake is
 * consumed). PROTOCOL or VERSION: a member's message is malformed or of another version; the detail
 * names the member. PEER: a member's connection broke and messages were lost, or the scheduler's
 * process has ended. DENIED: the scheduler turned this process away in the handshake, or what
 * listens there is no scheduler. (A refusal after the handshake is a message, REFUSED.) */
PSR_MUST_CHECK psr_err psr_transport_recv(psr_transport *transport, int timeout_ms,
                                          psr_message **ret_message);

/* Hands messages to take, which owns them: waits timeout_ms for the first, and goes on with those
 * that are there until there are `most` or take returns false. *ret_empty: no further message was
 * there, or a wake ended the wait. Errors as psr_transport_recv, except that TIMEOUT and CANCELLED
 * are none. */
PSR_MUST_CHECK psr_err psr_transport_visit(psr_transport *transport, int timeout_ms, unsigned most,
                                           bool (*take)(void *context, psr_message *message),
                                           void *context, bool *ret_empty);

/* Makes a waiting psr_transport_recv return CANCELLED. Any thread; cheap; coalesces. */
void psr_transport_wake(psr_transport *transport);

/* Waits until psr_transport_recv may have something, a message or a wake, at most timeout_ms (-1:
 * no limit). It may return although there is nothing. Call it after a psr_transport_recv that
 * returned TIMEOUT. Any thread, and several at once, also while another thread uses the transport:
 * it does not touch the state of a socket. It consumes nothing: a wake stays until it is
 * received. */
void psr_transport_wait(psr_transport *transport, int timeout_ms);

/* Looks, without sleeping, for as long as it costs to wake a process that sleeps, whether a process
 * of this host writes a small message or a wake comes. false: nothing came, so wait; at once, if
 * memory is shared with nobody. For a thread that has nothing else to do. By the thread that has
 * the transport. */
bool psr_transport_look(psr_transport *transport);

/* The same as psr_transport_wait, and returns also when fd can be read (-1: none). For a thread
 * that serves both. */
void psr_transport_wait_beside(psr_transport *transport, int fd, int timeout_ms);

/* Makes a channel to peer at endpoint ("tcp://10.0.0.1:4242", or "ipc:///DIRECTORY/NAME" in the
 * directory of our own inbox); public_key: the peer's CURVE key (Z85, 40 characters) or NULL: the
 * one in keys. The peer need not be there yet. USAGE: not an endpoint; TCP without CURVE where the
 * keys do not allow it; no key is known; the peer is connected already. */
PSR_MUST_CHECK psr_err psr_transport_connect(psr_transport *transport, psr_peer peer,
                                             const char *endpoint, const char *public_key);

/* Shares memory with members on this host from now on. To be called before the first of them
 * connects here or is connected to. For each peer that psr_transport_lend_to names, `say` (may be
 * NULL) is called once: memory is lent to it, or why not; payloads are sent as messages then.
 * UNSUPPORTED: this transport shares no memory (TCP without a directory for that, the simulated
 * network). USAGE: other users may enter the directory. IO, NOT_FOUND: no socket can be made for
 * it. */
PSR_MUST_CHECK psr_err psr_transport_share(psr_transport *transport,
                                           void (*say)(void *context, bool shared,
                                                       const char *line),
                                           void *context);

/* The path of the Unix socket at which processes of this host pass their memory to this one, for
 * its peers to know. "": there is none, also before psr_transport_share. Borrowed for life. */
const char *psr_transport_share_path(const psr_transport *transport);

/* From now on lent payloads may go to that connected peer by reference. path: the peer's own
 * psr_transport_share_path. The callback `say` of psr_transport_share is told whether it works.
 * Does nothing if no memory is shared. */
void psr_transport_lend_to(psr_transport *transport, psr_peer peer, const char *path);

/* Lent payloads of 4 KiB or more that lie in this arena go by reference to members that have mapped
 * it. Nothing is copied, and a loan ends when the receiver has freed its message. So a sender that
 * reuses the memory as soon as an answer comes must be sure that the receiver reads the payload
 * before it answers. arena: borrowed until psr_transport_lend_no_more, or the transport's end.
 * UNSUPPORTED: no memory is shared. USAGE: PSR_SHARED_ARENAS_MAX arenas are lent from already. */
PSR_MUST_CHECK psr_err psr_transport_lend_from(psr_transport *transport,
                                               const psr_shared_arena *arena);

/* Stops lending from that arena; members that have mapped it unmap it. The caller knows that
 * nothing of it is lent now. Does nothing if the arena was not given to psr_transport_lend_from. */
void psr_transport_lend_no_more(psr_transport *transport, const psr_shared_arena *arena);

/* Nobody receives any more: messages that were lent to this process and have been freed are given
 * back now, and every later one as it is freed. Otherwise that is done when a receive finds no
 * message. On the receiver's thread. */
void psr_transport_give_back(psr_transport *transport);

/* From now on payloads outside of those arenas go by reference too, if that is faster than a
 * message: they are copied into a slot of shared memory (net/sharing/stage.h). Call it once.
 * UNSUPPORTED: no memory is shared, or this system cannot share memory. NOMEM. */
PSR_MUST_CHECK psr_err psr_transport_lend_copies(psr_transport *transport);

/* Whether payloads that are lent from an arena go to peer by reference now. */
bool psr_transport_lends_to(const psr_transport *transport, psr_peer peer);

/* Members are watched from now on. psr_transport_ended tells at once of those of this host whose
 * process has ended before it freed its transport, as when it was killed. Over TCP it tells after
 * about a second of others whose process or transport has ended before they have left
 * (psr_transport_retire, psr_transport_disconnect), if their host still answers. Where the system
 * does not let them be watched, nothing is told. host_rank: of the member whose process this is
 * too, for the others to name (psr_transport_scheduler_rank); PSR_RANK_ANY: no member's. For the
 * scheduler, before it sends anything. */
void psr_transport_watch_members(psr_transport *transport, uint32_t host_rank);
/* The next member whose process has ended, after a receive that found no message. false: there is
 * none. Each is returned once. */
bool psr_transport_ended(psr_transport *transport, psr_peer *ret_peer);
/* Whether the process of the scheduler, on this host, has ended in this way. A receive has then
 * failed with PEER. It is watched from its first message on, if it watches its members. */
bool psr_transport_scheduler_ended(const psr_transport *transport);
/* The host_rank of the scheduler, if it is on this host; PSR_RANK_ANY: no member's, or not
 * known. */
uint32_t psr_transport_scheduler_rank(const psr_transport *transport);

/* Ends the channel to peer. Messages that have not left are dropped, and their loans end (on
 * another thread, later). Does nothing if there is no channel. */
void psr_transport_disconnect(psr_transport *transport, psr_peer peer);

/* peer has left in order: further messages of its connection are dropped, and another process may
 * take its name. */
void psr_transport_retire(psr_transport *transport, psr_peer peer);

/* Refuses the process that sent this message, its JOIN. REFUSED goes back on the connection of that
 * message, so no channel to the process is needed, and it may have any name or none. The process
 * ends with that status and line (cut at PSR_REFUSED_LINE_MAX). The transport itself refuses, with
 * DENIED, a process that claims the name of another. A process that has gone is not told. */
#define PSR_REFUSED_LINE_MAX 800
void psr_transport_refuse(psr_transport *transport, const psr_message *message, psr_err status,
                          const char *line);

/* A peer whose address this process cannot reach. The peer itself cannot know that. */
typedef struct psr_unreached {
    psr_peer peer;
    int64_t for_ms;     /* since it was connected to */
    char endpoint[256]; /* where the peer says that it listens */
    char from[64];      /* this process's address on the path there; "": there is no path */
    char why[96];       /* "Connection refused", "no answer within 1000 ms" */
    /* the address from which the peer has connected to this process; "": it has not, or the address
     * is not known */
    char came_from[64];
} psr_unreached;

/* Whether some TCP channel, other than the one to the scheduler, has had no connection for
 * patience_ms since it was made. (A busy or stopped listener is no reason: its kernel accepts
 * connections.) To be called now and then; it looks once a second, and tests the network for a
 * second before it returns true. false: there is no such channel, the transport uses no sockets, or
 * channels are not watched (psr_zmq_options.watches_ways). */
bool psr_transport_unreached(psr_transport *transport, int64_t patience_ms,
                             psr_unreached *ret_unreached);

/* A peer to which messages still go by CURVE, although they are to go sealed on a second
 * connection (docs/wire.md, "Sealed"). */
typedef struct psr_unsealed {
    psr_peer peer;
    uint16_t port;  /* of its host, where it listens for them; 0: it has not answered which */
    int64_t for_ms; /* since it was connected to */
} psr_unsealed;

/* Whether the second connection to some peer has not come about for patience_ms. Each channel is
 * returned once at most. It costs one load while there is none. */
bool psr_transport_unsealed(psr_transport *transport, int64_t patience_ms,
                            psr_unsealed *ret_unsealed);

/* Whether messages to peer are to go sealed and do not yet. */
bool psr_transport_awaits_sealing(const psr_transport *transport, psr_peer peer);

/* As psr_transport_refuse, for a peer that has introduced itself. A peer that has not, or has no
 * rank, is not told. */
void psr_transport_refuse_peer(psr_transport *transport, psr_peer peer, psr_err status,
                               const char *line);

/* The endpoint that others connect to. Borrowed for life. */
const char *psr_transport_endpoint(const psr_transport *transport);

/* WELCOME gave a rank to a process that joined with PSR_RANK_ANY: sends HELLO again under the new
 * name. */
PSR_MUST_CHECK psr_err psr_transport_rename(psr_transport *transport, psr_peer self);

/* Any thread. */
void psr_transport_counts_get(const psr_transport *transport, psr_transport_counts *ret_counts);

/* Delivers what is queued, for at most linger_ms, then frees it and sets *transport to NULL. NULL
 * allowed. */
void psr_transport_free(psr_transport **transport, int linger_ms);

/* ---- ZeroMQ ---- */
typedef struct psr_zmq_options {
    psr_peer self; /* rank may be PSR_RANK_ANY */
    /* directory of the run's ipc sockets (net/address/socket_directory.h), to bind one there; NULL
     * or "": TCP; borrowed for life */
    const char *directory;
    /* The socket's name there, when others must know it beforehand; NULL: the transport makes one
     * up. Borrowed for life. */
    const char *socket;
    /* Over TCP: a directory as above, private to this host's members, in which they meet to share
     * memory; NULL or "": none is shared. Borrowed for life. */
    const char *sharing;
    const char *interface;       /* address or interface name to bind; "127.0.0.1" by default */
    uint16_t port;               /* 0: the kernel gives one */
    const struct psr_keys *keys; /* net/trust/keys/keys.h: own key pair and the roster's,
                                    or the run's token; borrowed for life */
    /* Members of this run test whether it listens before they join (comm/start/meeting_file.h). So
     * a connection that is closed in the handshake is counted, but not logged. */
    bool members_look;
    /* Channels over TCP are watched until they are connected, for psr_transport_unreached: two
     * descriptors each. */
    bool watches_ways;
    /* Over TCP the scheduler is missed on other hosts as well, as psr_transport_ended misses
     * members: a receive fails once with PEER. For a member that knows when the scheduler may
     * end. */
    bool misses_scheduler;
    /* may be NULL; called on the transport's thread, rate-limited */
    void (*log_stranger)(void *context, const char *line);
    void *log_context;
} psr_zmq_options;

PSR_MUST_CHECK psr_err psr_transport_zmq_new(const psr_zmq_options *options,
                                             psr_transport **ret_transport);
/* "libzmq 4.3.4": what is linked, for --version. */
void psr_transport_library(char *text, size_t size);

/* ---- in process ---- */
typedef struct psr_sim psr_sim; /* the simulated network: a virtual clock and a seed */

typedef struct psr_sim_faults {
    uint64_t seed;
    uint32_t delay_max_us;       /* the most by which a message is delayed;
                                    channels stay first-in first-out */
    uint32_t duplicate_permille; /* PUSH and WEIGHTS that arrive twice */
    /* Lent payloads are read in place until their message is freed, as with shared memory.
     * Otherwise they are copied on delivery, as by a socket. */
    bool by_reference;
} psr_sim_faults;

PSR_MUST_CHECK psr_err psr_sim_new(const psr_sim_faults *faults, psr_sim **ret_sim);
/* Ends the loans of messages under way. To be called after its transports are freed. NULL
 * allowed. */
void psr_sim_free(psr_sim *sim);
/* In the place of random delays: links with a rate, and processes that are busy. */
typedef struct psr_sim_parcel psr_sim_parcel; /* a message under way */
typedef struct psr_sim_carrier {
    void *context;
    /* Takes a message that leaves now; psr_sim_arrive says when it comes. The message is as the
     * receiver will see it, except that its payload cannot be read yet; borrowed until then. */
    void (*carry)(void *context, psr_sim_parcel *parcel, psr_peer to, const psr_message *message);
    /* Whether these two share memory, so that lent payloads are read in place. NULL: as
     * by_reference says. */
    bool (*shares)(void *context, psr_peer a, psr_peer b);
} psr_sim_carrier;
/* Before any message is sent; what carrier points to is borrowed for life. */
void psr_sim_carry_by(psr_sim *sim, const psr_sim_carrier *carrier);
/* The carrier delivers a message that it was given, at due_us or later: not before now. NOMEM: it
 * keeps it. */
PSR_MUST_CHECK psr_err psr_sim_arrive(psr_sim *sim, psr_sim_parcel *parcel, int64_t due_us);
/* A member of the network, which is borrowed for life. Its recv never waits: it gives TIMEOUT until
 * psr_sim_step has delivered a message. A loan ends when the message is delivered or, by_reference,
 * when the message is freed. Endpoints and keys mean nothing here. */
PSR_MUST_CHECK psr_err psr_transport_sim_new(psr_sim *sim, psr_peer self,
                                             psr_transport **ret_transport);
/* Cuts a member off: all messages to and from it are lost, those under way too. */
void psr_sim_cut(psr_sim *sim, psr_peer peer);
/* Moves the virtual clock to the next delivery and says to whom; false when nothing is under
 * way. */
bool psr_sim_step(psr_sim *sim, psr_peer *ret_to);
/* now: the virtual clock, which begins at 0. next: when the next delivery is due (INT64_MAX:
 * nothing is under way). pass: moves the clock forward, at most to the next delivery. */
int64_t psr_sim_now_us(const psr_sim *sim);
int64_t psr_sim_next_us(const psr_sim *sim);
void psr_sim_pass(psr_sim *sim, int64_t until_us);
/* Messages of a type that are under way from one member to another. */
size_t psr_sim_under_way(const psr_sim *sim, psr_peer from, psr_peer to, psr_message_type type);

#endif
