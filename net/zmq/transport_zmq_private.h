/* What the files of the ZeroMQ transport share: transport_zmq.c (beginning and end, receiving),
 * transport_zmq_connect.c, transport_zmq_send.c, transport_zmq_seal.c, transport_zmq_replies.c,
 * transport_zmq_unreached.c, transport_zmq_share.c, transport_zmq_lives.c, transport_zmq_far.c. For
 * those alone. One thread at a time, as net/transport.h says. */
#ifndef PSR_NET_ZMQ_TRANSPORT_ZMQ_PRIVATE_H
#define PSR_NET_ZMQ_TRANSPORT_ZMQ_PRIVATE_H

#include "net/zmq/attempt.h"
#include "net/zmq/inbox/inbox.h"
#include "net/zmq/sealed_out.h"
#include "net/sharing/lives.h"
#include "net/sharing/sharing.h"
#include "net/sharing/stage.h"
#include "net/transport_private.h"
#include "net/zmq/unsent.h"

#include <poll.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PSR_ZMQ_ROLES PSR_TRANSPORT_ROLES

enum {
    PSR_ZMQ_WATCHED_INBOX,
    PSR_ZMQ_WATCHED_WAKE,
    PSR_ZMQ_WATCHED_STRANGERS,
    PSR_ZMQ_WATCHED_REFUSED,
    PSR_ZMQ_WATCHED_REPLIES,
    PSR_ZMQ_WATCHED_SHARED,
    PSR_ZMQ_WATCHED_LIVES,
    PSR_ZMQ_WATCHED_SEALED,  /* sealed messages */
    PSR_ZMQ_WATCHED_ROOM,    /* for sealed messages that wait */
    PSR_ZMQ_WATCHED_ANSWERS, /* of peers that were offered keys */
    PSR_ZMQ_WATCHED_FAR,     /* of hosts, whether something listens there */
    PSR_ZMQ_WATCHED
};

/* A connection over TCP, until it is known to be there. */
typedef struct psr_zmq_way {
    psr_attempt attempt;
    char *endpoint; /* owned; NULL: it is there, or nobody watches it */
} psr_zmq_way;

/* Whether a peer that may be on another host has ended: of the scheduler a member, of a member the
 * scheduler, if it misses it. */
typedef struct psr_zmq_far {
    char *endpoint;         /* owned; NULL: nobody watches it */
    int fd;                 /* a connection to it that is being made; -1: none */
    int64_t due_ms;         /* when to go on; INT64_MAX: there is no doubt about it */
    unsigned refused, made; /* connections: since the last other answer; since the doubt began */
    bool ended, told;
} psr_zmq_far;

/* How far a channel's second connection is. */
typedef struct psr_zmq_sealing psr_zmq_sealing;

typedef struct psr_zmq_channel {
    void *dealer;
    psr_unsent *unsent;
    uint64_t sequence;
    uint8_t id[PSR_ROUTING_ID_BYTES];
    psr_lender *lender; /* the sharing's; NULL: no memory is shared with this peer */
    psr_zmq_way way;
    psr_zmq_far far;
    psr_zmq_sealing *sealing; /* NULL: nothing goes sealed to this peer */
} psr_zmq_channel;

typedef struct psr_zmq_transport {
    psr_transport base;
    psr_zmq_options options;
    psr_peer self;
    void *ctx;
    psr_inbox *inbox;
    psr_zmq_channel *channels[PSR_ZMQ_ROLES]; /* [role][rank] */
    size_t channel_counts[PSR_ZMQ_ROLES];

    void *refused; /* PAIR: tells whether the scheduler admits us; NULL until connected */
    void *replies; /* the dealer to the scheduler, which may say REFUSED on
                      it; NULL until connected. Borrowed from its channel */
    unsigned dead_handshakes;
    int64_t connected_ms;
    uint64_t attempts_begun;
    size_t attempts;      /* ways that are not known to be connected */
    int64_t next_look_ms; /* when to look at them next */

    char share_path[PSR_SHARE_PATH_BYTES]; /* "": this process can share no memory */
    psr_sharing *sharing;                  /* NULL: no memory is shared */
    psr_stage *stage;                      /* NULL: only payloads in an arena are lent */
    psr_sealed_outs *sealed;               /* NULL: this process sends nothing sealed */
    int answers;            /* epoll of the dealers at which answers are awaited; -1: none is */
    atomic_size_t unsealed; /* channels whose second connection is not there yet */
    int64_t again_ms;       /* when to offer or greet on them again */
    psr_lives *lives;
    char *scheduler;         /* its endpoint; owned; NULL: it has not been connected to */
    bool greeted;            /* it has sent a message, and was connected to beside its endpoint */
    atomic_bool ends;        /* there may be input at lives */
    int far;                 /* epoll of connections to members; -1: they are not watched */
    atomic_bool far_answers; /* there may be input at it */
    _Atomic int64_t far_due_ms; /* when to go on with some member; INT64_MAX: there is no doubt */
    int64_t far_look_ms;        /* when to look whose connection has ended; INT64_MAX: none has */
    bool far_any_ended;         /* and was not told */
    uint64_t introductions;
    psr_message *kept; /* received when something else failed: the next one; NULL: none */
    void (*say)(void *context, bool shared, const char *line);
    void *say_context;

    int wake_fd;
    atomic_bool woken;
    /* constant after the scheduler is connected and memory is shared */
    struct pollfd watched[PSR_ZMQ_WATCHED];
    atomic_bool others; /* there may be input at strangers, refused or replies */
    /* A wait has seen input at some socket. While pipes bring messages, sockets are looked at for
     * this reason, or after a while. */
    atomic_bool news;
    int64_t looked_ms; /* when the sockets were last looked at */
    unsigned piped;    /* messages of pipes since then */
} psr_zmq_transport;

/* psr_zmq_transport_VERB are those of psr_transport_ops. */

/* ---- transport_zmq.c ---- */

/* Whether it uses ipc; otherwise TCP. */
bool psr_zmq_is_ipc(const psr_zmq_options *options);
/* Receiving also waits for the socket: which is one of PSR_ZMQ_WATCHED_. IO. */
PSR_MUST_CHECK psr_err psr_zmq_watch(psr_zmq_transport *transport, int which, void *socket);

/* ---- transport_zmq_connect.c ---- */

/* Messages that are not sent yet may take linger_ms. */
void psr_zmq_close_dealer(void *dealer, int linger_ms);
psr_err psr_zmq_transport_connect(psr_transport *base, psr_peer peer, const char *endpoint,
                                  const char *public_key);
void psr_zmq_transport_disconnect(psr_transport *base, psr_peer peer);
psr_err psr_zmq_transport_rename(psr_transport *base, psr_peer self);

/* ---- transport_zmq_send.c ---- */

/* NULL: the peer is not connected. */
psr_zmq_channel *psr_zmq_channel_of(const psr_zmq_transport *transport, psr_peer peer);
/* HELLO: who this process is. */
PSR_MUST_CHECK psr_err psr_zmq_say_hello(const psr_zmq_transport *transport, psr_zmq_channel *c);
/* A message of the transport's own, by CURVE; payload is copied. */
PSR_MUST_CHECK psr_err psr_zmq_send_own(psr_zmq_channel *c, const psr_head *head,
                                        const void *payload, size_t bytes);
psr_err psr_zmq_transport_send(psr_transport *base, psr_peer to, const psr_head *head,
                               const psr_payload *payload);
size_t psr_zmq_transport_waiting(const psr_transport *base, psr_peer peer);

/* ---- transport_zmq_seal.c ---- */

/* Before channels are made. UNSUPPORTED, NOMEM, IO. */
PSR_MUST_CHECK psr_err psr_zmq_open_sealed(psr_zmq_transport *transport);
/* When the context has ended. */
void psr_zmq_close_sealed(psr_zmq_transport *transport);
/* Sends what waits, for at most linger_ms. */
void psr_zmq_drain_sealed(psr_zmq_transport *transport, int linger_ms);
/* Offers the peer a key, after HELLO. Does nothing where nothing goes sealed. */
PSR_MUST_CHECK psr_err psr_zmq_offer_key(psr_zmq_transport *transport, psr_zmq_channel *c,
                                         psr_peer peer, const char *endpoint);
/* Call it before the dealer is closed. Does nothing for a channel without a second connection. */
void psr_zmq_end_sealing(psr_zmq_transport *transport, psr_zmq_channel *c, int linger_ms);
/* Reads what peers have answered. PROTOCOL: one broke the protocol. */
PSR_MUST_CHECK psr_err psr_zmq_check_answers(psr_zmq_transport *transport);
/* Sends on what waits, and says again what was not answered. */
PSR_MUST_CHECK psr_err psr_zmq_serve_sealed(psr_zmq_transport *transport);
/* Where messages of the channel go from now on; NULL: by CURVE. */
psr_sealed_out *psr_zmq_sealed_of(psr_zmq_channel *c);
bool psr_zmq_transport_unsealed(psr_transport *base, int64_t patience_ms,
                                psr_unsealed *ret_unsealed);
bool psr_zmq_transport_awaits_sealing(const psr_transport *base, psr_peer peer);
/* The longest that a wait may take: an offer or a greeting may be due again. */
int psr_zmq_wait_ms(const psr_zmq_transport *transport, int timeout_ms);

/* ---- transport_zmq_replies.c ---- */

/* The channel to the scheduler, before it connects: from then on psr_zmq_check_refused knows
 * whether it is admitted. */
PSR_MUST_CHECK psr_err psr_zmq_await_refusal(psr_zmq_transport *transport, void *dealer);
/* The same; psr_zmq_check_replies takes what comes back on it. */
PSR_MUST_CHECK psr_err psr_zmq_await_replies(psr_zmq_transport *transport, void *dealer);
/* Call it before the dealer is closed. Does nothing for one that is not the scheduler's. */
void psr_zmq_forget_replies(psr_zmq_transport *transport, const void *dealer);
/* DENIED: this process is not admitted. */
PSR_MUST_CHECK psr_err psr_zmq_check_refused(psr_zmq_transport *transport);
/* err, which sending to the peer gave, unless that is the scheduler and has refused this process:
 * DENIED, as above. */
PSR_MUST_CHECK psr_err psr_zmq_unless_refused(psr_zmq_transport *transport, psr_peer peer,
                                              psr_err err);
/* *ret_message stays NULL if there is none. VERSION, NOMEM. */
PSR_MUST_CHECK psr_err psr_zmq_check_replies(psr_zmq_transport *transport,
                                             psr_message **ret_message);

/* ---- transport_zmq_unreached.c ---- */

/* Before the socket connects over TCP. IO, NOMEM. */
PSR_MUST_CHECK psr_err psr_zmq_begin_attempt(psr_zmq_transport *transport, psr_zmq_way *way,
                                             void *socket, const char *endpoint);
/* Call it before the socket is closed. Does nothing for a way that is not watched. */
void psr_zmq_end_attempt(psr_zmq_transport *transport, psr_zmq_way *way);
bool psr_zmq_transport_unreached(psr_transport *base, int64_t patience_ms,
                                 psr_unreached *ret_unreached);

/* ---- transport_zmq_share.c ---- */

/* The directory of sockets must be this user's alone. */
PSR_MUST_CHECK psr_err psr_zmq_check_directory(const char *path);
/* Once the inbox is there. */
void psr_zmq_name_share_path(psr_zmq_transport *transport);
/* After the inbox was looked at: it may know more channels than before. */
PSR_MUST_CHECK psr_err psr_zmq_see_introductions(psr_zmq_transport *transport);
/* The pipes of other processes; NULL: there can be none. */
psr_pipes_in *psr_zmq_pipes(const psr_zmq_transport *transport);
/* When the inbox is empty. */
PSR_MUST_CHECK psr_err psr_zmq_serve_sharing(psr_zmq_transport *transport);
psr_err psr_zmq_transport_share(psr_transport *base,
                                void (*say)(void *context, bool shared, const char *line),
                                void *context);
const char *psr_zmq_transport_share_path(const psr_transport *base);
void psr_zmq_transport_lend_to(psr_transport *base, psr_peer peer, const char *path);
bool psr_zmq_transport_lends_to(const psr_transport *base, psr_peer peer);
psr_err psr_zmq_transport_lend_from(psr_transport *base, const psr_shared_arena *arena);
void psr_zmq_transport_lend_no_more(psr_transport *base, const psr_shared_arena *arena);
void psr_zmq_transport_give_back(psr_transport *base);
psr_err psr_zmq_transport_lend_copies(psr_transport *base);

/* ---- transport_zmq_lives.c ---- */

/* NOMEM, IO. */
PSR_MUST_CHECK psr_err psr_zmq_open_lives(psr_zmq_transport *transport);
void psr_zmq_close_lives(psr_zmq_transport *transport);
/* The scheduler listens there. NOMEM. */
PSR_MUST_CHECK psr_err psr_zmq_note_scheduler(psr_zmq_transport *transport, const char *endpoint);
/* Its channel ends. */
void psr_zmq_forget_scheduler(psr_zmq_transport *transport);
/* A message has come: if it is the scheduler's first one, this process is watched, and watches. */
void psr_zmq_greet_scheduler(psr_zmq_transport *transport, const psr_message *message);
/* When there is no message. PEER: the scheduler's process has ended. CANCELLED: a member's has. */
PSR_MUST_CHECK psr_err psr_zmq_serve_lives(psr_zmq_transport *transport);
void psr_zmq_transport_watch_members(psr_transport *base, uint32_t host_rank);
bool psr_zmq_transport_ended(psr_transport *base, psr_peer *ret_peer);
bool psr_zmq_transport_scheduler_ended(const psr_transport *base);
uint32_t psr_zmq_transport_scheduler_rank(const psr_transport *base);

/* ---- transport_zmq_far.c ---- */

/* From now on, of channels that are made after this. IO. */
PSR_MUST_CHECK psr_err psr_zmq_watch_far(psr_zmq_transport *transport);
void psr_zmq_close_far(psr_zmq_transport *transport);
/* A channel to a peer that is to listen there. Does nothing if nobody watches it. NOMEM. */
PSR_MUST_CHECK psr_err psr_zmq_begin_far(psr_zmq_transport *transport, psr_peer peer,
                                         psr_zmq_far *far, const char *endpoint);
void psr_zmq_end_far(psr_zmq_transport *transport, psr_zmq_far *far);
/* libzmq has connected to the scheduler, by that descriptor: if a name says its host, it is asked
 * for at the address that the name had. */
void psr_zmq_far_connected(psr_zmq_transport *transport, int fd);
/* When there is no message. CANCELLED: a member has ended. PEER: the scheduler has. */
PSR_MUST_CHECK psr_err psr_zmq_serve_far(psr_zmq_transport *transport);
/* As psr_zmq_transport_ended. */
bool psr_zmq_far_ended(psr_zmq_transport *transport, psr_peer *ret_peer);
/* The longest that a wait may take. */
int psr_zmq_far_wait_ms(const psr_zmq_transport *transport, int timeout_ms);

#endif
