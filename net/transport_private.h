/* What all implementations of a transport consist of. Only they include it (transport_zmq*.c,
 * transport_sim.c). */
#ifndef PSR_NET_TRANSPORT_PRIVATE_H
#define PSR_NET_TRANSPORT_PRIVATE_H

#include "net/transport.h"

#include <stdatomic.h>

#define PSR_TRANSPORT_ROLES 3

/* See the functions of net/transport.h; transport.c has checked the arguments, and counts what is
 * sent and received. */
typedef struct psr_transport_ops {
    psr_err (*send)(psr_transport *transport, psr_peer to, const psr_head *head,
                    const psr_payload *payload);
    size_t (*waiting)(const psr_transport *transport, psr_peer peer);
    psr_err (*recv)(psr_transport *transport, int timeout_ms, psr_message **ret_message);
    void (*wake)(psr_transport *transport);
    void (*wait)(psr_transport *transport, int fd, int timeout_ms); /* fd: -1: none */
    bool (*look)(psr_transport *transport);                         /* NULL: nothing is looked at */
    psr_err (*connect)(psr_transport *transport, psr_peer peer, const char *endpoint,
                       const char *public_key);
    void (*disconnect)(psr_transport *transport, psr_peer peer);
    void (*retire)(psr_transport *transport, psr_peer peer);
    void (*refuse)(psr_transport *transport, const psr_message *message, psr_err status,
                   const char *line);
    /* NULL: every channel reaches its peer. */
    bool (*unreached)(psr_transport *transport, int64_t patience_ms, psr_unreached *ret_unreached);
    /* NULL, both: nothing goes sealed */
    bool (*unsealed)(psr_transport *transport, int64_t patience_ms, psr_unsealed *ret_unsealed);
    bool (*awaits_sealing)(const psr_transport *transport, psr_peer peer);
    void (*refuse_peer)(psr_transport *transport, psr_peer peer, psr_err status, const char *line);
    const char *(*endpoint)(const psr_transport *transport);
    psr_err (*rename)(psr_transport *transport, psr_peer self);
    uint64_t (*strangers)(const psr_transport *transport); /* any thread */
    /* NULL: it shares no memory. */
    psr_err (*share)(psr_transport *transport,
                     void (*say)(void *context, bool shared, const char *line), void *context);
    const char *(*share_path)(const psr_transport *transport);
    void (*lend_to)(psr_transport *transport, psr_peer peer, const char *path);
    psr_err (*lend_from)(psr_transport *transport, const psr_shared_arena *arena);
    void (*lend_no_more)(psr_transport *transport, const psr_shared_arena *arena);
    void (*give_back)(psr_transport *transport); /* NULL: nothing is lent to this process */
    psr_err (*lend_copies)(psr_transport *transport);
    bool (*lends_to)(const psr_transport *transport, psr_peer peer); /* NULL: it lends to nobody */
    /* NULL, all four: nobody is watched */
    void (*watch_members)(psr_transport *transport, uint32_t host_rank);
    bool (*ended)(psr_transport *transport, psr_peer *ret_peer);
    bool (*scheduler_ended)(const psr_transport *transport);
    uint32_t (*scheduler_rank)(const psr_transport *transport);
    void (*free)(psr_transport *transport, int linger_ms);
} psr_transport_ops;

/* The first member of every implementation's struct. */
struct psr_transport {
    const psr_transport_ops *ops;
    size_t bounds[PSR_TRANSPORT_ROLES]; /* 0: PSR_TRANSPORT_WAITING_MAX */
    psr_transport_watcher watcher;      /* seen NULL: there is none */
    struct psr_link *link;              /* NULL: no link is emulated */
    int link_timer;                     /* a timerfd: when the link's next message is due */
    /* Written by the one thread that uses the transport; read by any thread. The count of strangers
     * is in ops->strangers. */
    _Atomic uint64_t bytes_sent, bytes_received, bytes_lent, bytes_sealed;
    _Atomic uint64_t messages_sent, messages_received;
};

/* ---- transport_link.c: what transport.c does where a link is emulated ---- */

PSR_MUST_CHECK psr_err psr_transport_link_send(psr_transport *transport, psr_peer to,
                                               const psr_head *head, const psr_payload *payload);
PSR_MUST_CHECK psr_err psr_transport_link_recv(psr_transport *transport, int timeout_ms,
                                               psr_message **ret_message);
void psr_transport_link_wait(psr_transport *transport, int fd, int timeout_ms);
/* Sends what is due within linger_ms, and ends the link. Does nothing without one. */
void psr_transport_link_end(psr_transport *transport, int linger_ms);

/* Adds to a count that only one thread at a time writes. */
static inline void psr_count_add(_Atomic uint64_t *count, uint64_t more)
{
    uint64_t before = atomic_load_explicit(count, memory_order_relaxed);
    atomic_store_explicit(count, before + more, memory_order_relaxed);
}

/* Ends the loan of a payload that will not be sent. */
static inline void psr_payload_return(const psr_payload *payload)
{
    if (payload != NULL && payload->release != NULL)
        payload->release(payload->context);
}

#endif
