#include "net/transport_private.h"

#include "net/link.h"
#include "net/violation.h"

#include <assert.h>
#include <inttypes.h>

size_t psr_transport_waiting(const psr_transport *transport, psr_peer peer)
{
    return transport->ops->waiting(transport, peer);
}

void psr_transport_bound(psr_transport *transport, psr_role role, size_t messages)
{
    assert((unsigned)role < PSR_TRANSPORT_ROLES && messages > 0);
    transport->bounds[role] = messages;
}

static psr_err check_waiting(const psr_transport *transport, psr_peer to)
{
    size_t bound = (unsigned)to.role < PSR_TRANSPORT_ROLES ? transport->bounds[to.role] : 0;
    bound = bound > 0 ? bound : PSR_TRANSPORT_WAITING_MAX;
    size_t waiting = bound < SIZE_MAX ? psr_transport_waiting(transport, to) : 0;
    return waiting < bound ? PSR_OK : psr_violation_unread(to, waiting);
}

void psr_transport_watch(psr_transport *transport, const psr_transport_watcher *watcher)
{
    transport->watcher = watcher != NULL ? *watcher : (psr_transport_watcher){.seen = NULL};
}

psr_err psr_transport_send(psr_transport *transport, psr_peer to, const psr_head *head,
                           const psr_payload *payload)
{
    size_t bytes = payload != NULL ? payload->bytes : 0;
    if (bytes > PSR_PAYLOAD_BYTES_MAX) {
        psr_payload_return(payload);
        return psr_fail(PSR_ERR_PROTOCOL,
                        "a message of %zu bytes for %s %" PRIu32 ": %u is the most", bytes,
                        psr_role_name(to.role), to.rank, PSR_PAYLOAD_BYTES_MAX);
    }
    psr_err err = check_waiting(transport, to);
    if (err != PSR_OK) {
        psr_payload_return(payload);
        return err;
    }
    if (transport->watcher.seen != NULL)
        transport->watcher.seen(transport->watcher.context, true, to, head, bytes);
    PSR_TRY(transport->link != NULL ? psr_transport_link_send(transport, to, head, payload)
                                    : transport->ops->send(transport, to, head, payload));
    if (transport->watcher.queued != NULL)
        transport->watcher.queued(transport->watcher.context);
    psr_count_add(&transport->messages_sent, 1);
    psr_count_add(&transport->bytes_sent, bytes);
    return PSR_OK;
}

psr_err psr_transport_recv(psr_transport *transport, int timeout_ms, psr_message **ret_message)
{
    psr_message *message;
    PSR_TRY(transport->link != NULL ? psr_transport_link_recv(transport, timeout_ms, &message)
                                    : transport->ops->recv(transport, timeout_ms, &message));
    psr_count_add(&transport->messages_received, 1);
    psr_count_add(&transport->bytes_received, message->payload_bytes);
    if (transport->watcher.seen != NULL)
        transport->watcher.seen(transport->watcher.context, false, message->from, &message->head,
                                message->payload_bytes);
    *ret_message = message;
    return PSR_OK;
}

psr_err psr_transport_visit(psr_transport *transport, int timeout_ms, unsigned most,
                            bool (*take)(void *context, psr_message *message), void *context,
                            bool *ret_empty)
{
    for (unsigned i = 0; i < most; i++) {
        psr_message *message = NULL;
        psr_err err = psr_transport_recv(transport, i == 0 ? timeout_ms : 0, &message);
        if (err == PSR_ERR_TIMEOUT || err == PSR_ERR_CANCELLED) {
            *ret_empty = true;
            return PSR_OK;
        }
        PSR_TRY(err);
        if (!take(context, message))
            break;
    }
    *ret_empty = false;
    return PSR_OK;
}

void psr_transport_wake(psr_transport *transport)
{
    transport->ops->wake(transport);
}

void psr_transport_wait(psr_transport *transport, int timeout_ms)
{
    psr_transport_wait_beside(transport, -1, timeout_ms);
}

bool psr_transport_look(psr_transport *transport)
{
    return transport->ops->look != NULL && transport->ops->look(transport);
}

void psr_transport_wait_beside(psr_transport *transport, int fd, int timeout_ms)
{
    if (transport->link != NULL)
        psr_transport_link_wait(transport, fd, timeout_ms);
    else
        transport->ops->wait(transport, fd, timeout_ms);
}

psr_err psr_transport_connect(psr_transport *transport, psr_peer peer, const char *endpoint,
                              const char *public_key)
{
    return transport->ops->connect(transport, peer, endpoint, public_key);
}

void psr_transport_disconnect(psr_transport *transport, psr_peer peer)
{
    if (transport->link != NULL)
        psr_link_forget(transport->link, peer);
    transport->ops->disconnect(transport, peer);
}

void psr_transport_retire(psr_transport *transport, psr_peer peer)
{
    transport->ops->retire(transport, peer);
}

void psr_transport_refuse(psr_transport *transport, const psr_message *message, psr_err status,
                          const char *line)
{
    transport->ops->refuse(transport, message, status, line);
}

bool psr_transport_unreached(psr_transport *transport, int64_t patience_ms,
                             psr_unreached *ret_unreached)
{
    return transport->ops->unreached != NULL &&
           transport->ops->unreached(transport, patience_ms, ret_unreached);
}

bool psr_transport_unsealed(psr_transport *transport, int64_t patience_ms,
                            psr_unsealed *ret_unsealed)
{
    return transport->ops->unsealed != NULL &&
           transport->ops->unsealed(transport, patience_ms, ret_unsealed);
}

bool psr_transport_awaits_sealing(const psr_transport *transport, psr_peer peer)
{
    return transport->ops->awaits_sealing != NULL &&
           transport->ops->awaits_sealing(transport, peer);
}

void psr_transport_refuse_peer(psr_transport *transport, psr_peer peer, psr_err status,
                               const char *line)
{
    if (transport->ops->refuse_peer != NULL)
        transport->ops->refuse_peer(transport, peer, status, line);
}

psr_err psr_transport_share(psr_transport *transport,
                            void (*say)(void *context, bool shared, const char *line),
                            void *context)
{
    if (transport->ops->share == NULL)
        return psr_fail(PSR_ERR_UNSUPPORTED, "this transport shares no memory");
    return transport->ops->share(transport, say, context);
}

const char *psr_transport_share_path(const psr_transport *transport)
{
    return transport->ops->share_path != NULL ? transport->ops->share_path(transport) : "";
}

void psr_transport_lend_to(psr_transport *transport, psr_peer peer, const char *path)
{
    if (transport->ops->lend_to != NULL)
        transport->ops->lend_to(transport, peer, path);
}

psr_err psr_transport_lend_from(psr_transport *transport, const psr_shared_arena *arena)
{
    if (transport->ops->lend_from == NULL)
        return psr_fail(PSR_ERR_UNSUPPORTED, "this transport shares no memory");
    return transport->ops->lend_from(transport, arena);
}

void psr_transport_lend_no_more(psr_transport *transport, const psr_shared_arena *arena)
{
    if (transport->ops->lend_no_more != NULL)
        transport->ops->lend_no_more(transport, arena);
}

void psr_transport_give_back(psr_transport *transport)
{
    if (transport->ops->give_back != NULL)
        transport->ops->give_back(transport);
}

psr_err psr_transport_lend_copies(psr_transport *transport)
{
    if (transport->ops->lend_copies == NULL)
        return psr_fail(PSR_ERR_UNSUPPORTED, "this transport shares no memory");
    return transport->ops->lend_copies(transport);
}

bool psr_transport_lends_to(const psr_transport *transport, psr_peer peer)
{
    return transport->ops->lends_to != NULL && transport->ops->lends_to(transport, peer);
}

void psr_transport_watch_members(psr_transport *transport, uint32_t host_rank)
{
    if (transport->ops->watch_members != NULL)
        transport->ops->watch_members(transport, host_rank);
}

bool psr_transport_ended(psr_transport *transport, psr_peer *ret_peer)
{
    return transport->ops->ended != NULL && transport->ops->ended(transport, ret_peer);
}

bool psr_transport_scheduler_ended(const psr_transport *transport)
{
    return transport->ops->scheduler_ended != NULL && transport->ops->scheduler_ended(transport);
}

uint32_t psr_transport_scheduler_rank(const psr_transport *transport)
{
    return transport->ops->scheduler_rank != NULL ? transport->ops->scheduler_rank(transport)
                                                  : PSR_RANK_ANY;
}

const char *psr_transport_endpoint(const psr_transport *transport)
{
    return transport->ops->endpoint(transport);
}

psr_err psr_transport_rename(psr_transport *transport, psr_peer self)
{
    return transport->ops->rename(transport, self);
}

void psr_transport_counts_get(const psr_transport *transport, psr_transport_counts *ret_counts)
{
    *ret_counts = (psr_transport_counts){
        .bytes_sent = atomic_load_explicit(&transport->bytes_sent, memory_order_relaxed),
        .bytes_received = atomic_load_explicit(&transport->bytes_received, memory_order_relaxed),
        .bytes_lent = atomic_load_explicit(&transport->bytes_lent, memory_order_relaxed),
        .bytes_sealed = atomic_load_explicit(&transport->bytes_sealed, memory_order_relaxed),
        .messages_sent = atomic_load_explicit(&transport->messages_sent, memory_order_relaxed),
        .messages_received =
            atomic_load_explicit(&transport->messages_received, memory_order_relaxed),
        .strangers = transport->ops->strangers(transport)};
}

void psr_transport_free(psr_transport **transport, int linger_ms)
{
    if (transport == NULL || *transport == NULL)
        return;
    psr_transport *gone = *transport;
    *transport = NULL;
    psr_transport_link_end(gone, linger_ms);
    gone->ops->free(gone, linger_ms);
}
