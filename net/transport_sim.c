/* A network in one address space. Messages under way are a heap ordered by (time of delivery,
 * number), so a run is a function of the seed and of what its members do. Heads go through the
 * codec as on a wire. Lent bytes are read when they are delivered, not when they are sent; by
 * reference, when the receiver reads them. So a sender that writes into lent bytes is found. */
#include "net/transport_private.h"

#include "base/rng.h"
#include "net/sim_channels.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DELAY_SIZES 6 /* powers of two */

typedef struct sim_transport sim_transport;

/* A message: first under way, then in an inbox, then its receiver's. */
typedef struct psr_sim_parcel {
    psr_message base;
    psr_peer to;
    psr_sim_channel *channel;
    int64_t due_us;
    bool in_place; /* lent bytes are read where they lie */
    uint64_t number;
    /* until it is delivered; by reference: until it is freed, or its lender ends */
    psr_payload lent;
    /* in the list of parcels that are read in place, or that the carrier has; NULL: in none */
    struct psr_sim_parcel *next_held, **held_at;
    void *bytes; /* the payload: copied when it is sent, or if lent when it is delivered */
    struct psr_sim_parcel *next; /* in the inbox */
} parcel;

struct psr_sim {
    psr_sim_faults faults;
    int64_t now_us;
    uint64_t numbers;
    uint64_t draws; /* random numbers used */
    parcel **heap;
    size_t heap_count, heap_capacity;
    psr_sim_channels channels;
    psr_sim_carrier carrier; /* carry NULL: there is none */
    sim_transport **members;
    size_t member_count, member_capacity;
    psr_peer *cut;
    size_t cut_count, cut_capacity;
    parcel *held;    /* parcels at receivers whose bytes are still their lenders' */
    parcel *carried; /* parcels that the carrier has */
};

struct sim_transport {
    psr_transport base;
    psr_sim *sim;
    psr_peer self;
    char endpoint[64];
    psr_peer *peers; /* connected */
    size_t peer_count, peer_capacity;
    parcel *first, **last; /* inbox */
    bool woken;
};

/* Room for one more element; false: no memory. items is a pointer to the array's pointer. */
static bool reserve(void *items, size_t *capacity, size_t count, size_t item_bytes)
{
    if (count < *capacity)
        return true;
    size_t larger = count ? 2 * count : 8;
    void *old, *moved;
    memcpy(&old, items, sizeof old);
    moved = realloc(old, larger * item_bytes);
    if (moved == NULL)
        return false;
    memcpy(items, &moved, sizeof moved);
    *capacity = larger;
    return true;
}

/* ---- parcels ---- */

static void hold(parcel **list, parcel *p)
{
    p->next_held = *list;
    p->held_at = list;
    if (*list != NULL)
        (*list)->held_at = &p->next_held;
    *list = p;
}

static void let_go(parcel *p)
{
    if (p->held_at == NULL)
        return;
    *p->held_at = p->next_held;
    if (p->next_held != NULL)
        p->next_held->held_at = p->held_at;
    p->held_at = NULL;
}

static void parcel_free(parcel *p)
{
    let_go(p);
    psr_payload_return(&p->lent);
    free(p->bytes);
    free(p);
}

static void parcel_release(psr_message *message)
{
    parcel_free((parcel *)message);
}

static bool earlier(const parcel *a, const parcel *b)
{
    return a->due_us != b->due_us ? a->due_us < b->due_us : a->number < b->number;
}

static void swap(parcel **a, parcel **b)
{
    parcel *t = *a;
    *a = *b;
    *b = t;
}

/* There is room. */
static void heap_push(psr_sim *sim, parcel *p)
{
    size_t i = sim->heap_count++;
    sim->heap[i] = p;
    for (; i > 0 && earlier(sim->heap[i], sim->heap[(i - 1) / 2]); i = (i - 1) / 2)
        swap(&sim->heap[i], &sim->heap[(i - 1) / 2]);
}

static void heap_sift(psr_sim *sim, size_t i)
{
    for (;;) {
        size_t least = i;
        for (size_t child = 2 * i + 1; child <= 2 * i + 2; child++)
            if (child < sim->heap_count && earlier(sim->heap[child], sim->heap[least]))
                least = child;
        if (least == i)
            return;
        swap(&sim->heap[i], &sim->heap[least]);
        i = least;
    }
}

static parcel *heap_pop(psr_sim *sim)
{
    parcel *first = sim->heap[0];
    sim->heap[0] = sim->heap[--sim->heap_count];
    heap_sift(sim, 0);
    return first;
}

/* ---- sending ---- */

static bool is_cut(const psr_sim *sim, psr_peer peer)
{
    for (size_t i = 0; i < sim->cut_count; i++)
        if (psr_peer_equal(sim->cut[i], peer))
            return true;
    return false;
}

static uint32_t draw(psr_sim *sim, uint32_t bound)
{
    psr_rng_at at = {.seed = sim->faults.seed, .purpose = PSR_RNG_TEST};
    return psr_rng_below(at, &sim->draws, bound);
}

static void *copy_of(const void *bytes, size_t count)
{
    void *copy = malloc(count ? count : 1);
    if (copy != NULL && count > 0)
        memcpy(copy, bytes, count);
    return copy;
}

/* A parcel with the head as the wire returns it; NULL: no memory. */
static parcel *parcel_new(psr_sim_channel *channel, const psr_head *head, size_t payload_bytes)
{
    parcel *p = calloc(1, sizeof *p);
    if (p == NULL)
        return NULL;
    p->base = (psr_message){
        .from = channel->from, .payload_bytes = payload_bytes, .release = parcel_release};
    p->to = channel->to;
    p->channel = channel;
    psr_head numbered = *head;
    numbered.sequence = channel->sequence++;
    uint8_t buffer[PSR_HEAD_BYTES_MAX];
    size_t size;
    uint64_t announced = 0;
    psr_head_encode(&numbered, payload_bytes, buffer, &size);
    psr_err err = psr_head_decode(buffer, size, &p->base.head, &announced);
    assert(err == PSR_OK && announced == payload_bytes);
    (void)err;
    return p;
}

/* All sizes are equally likely: most delays are short, and now and then one is so long that all
 * other messages go on meanwhile. */
static int64_t delay_us(psr_sim *sim)
{
    if (sim->faults.delay_max_us == 0)
        return 0;
    uint32_t longest_us = sim->faults.delay_max_us >> draw(sim, DELAY_SIZES);
    return draw(sim, longest_us + 1);
}

/* There is room in the heap. */
static void arrive(psr_sim *sim, parcel *p, int64_t due_us)
{
    psr_sim_channel *channel = p->channel;
    channel->last_us = due_us > channel->last_us ? due_us : channel->last_us;
    p->due_us = channel->last_us;
    p->number = sim->numbers++;
    heap_push(sim, p);
}

/* On its way. There is room in the heap. */
static void dispatch(psr_sim *sim, parcel *p)
{
    p->channel->waiting++;
    if (sim->carrier.carry == NULL) {
        arrive(sim, p, sim->now_us + delay_us(sim));
        return;
    }
    hold(&sim->carried, p);
    sim->carrier.carry(sim->carrier.context, p, p->to, &p->base);
}

psr_err psr_sim_arrive(psr_sim *sim, psr_sim_parcel *p, int64_t due_us)
{
    assert(due_us >= sim->now_us);
    if (!reserve(&sim->heap, &sim->heap_capacity, sim->heap_count, sizeof(psr_sim_parcel *)))
        return psr_fail(PSR_ERR_NOMEM, "no memory for %zu messages", sim->heap_count);
    let_go(p);
    arrive(sim, p, due_us);
    return PSR_OK;
}

void psr_sim_carry_by(psr_sim *sim, const psr_sim_carrier *carrier)
{
    sim->carrier = *carrier;
}

/* Whether lent bytes are read in place between these two. */
static bool shares(const psr_sim *sim, psr_peer from, psr_peer to)
{
    if (sim->carrier.shares == NULL)
        return sim->faults.by_reference;
    return sim->carrier.shares(sim->carrier.context, from, to);
}

/* Takes over the payload on success: a lent one by its loan, another by a copy. */
static psr_err post(psr_sim *sim, psr_peer from, psr_peer to, const psr_head *head,
                    const psr_payload *payload, bool lend)
{
    if (!reserve(&sim->heap, &sim->heap_capacity, sim->heap_count, sizeof(parcel *)))
        return psr_fail(PSR_ERR_NOMEM, "no memory for %zu messages", sim->heap_count);
    size_t bytes = payload != NULL ? payload->bytes : 0;
    psr_sim_channel *channel = psr_sim_channels_get(&sim->channels, from, to);
    parcel *p = channel != NULL ? parcel_new(channel, head, bytes) : NULL;
    void *copy = p != NULL && !lend && bytes > 0 ? copy_of(payload->data, bytes) : NULL;
    if (p == NULL || (copy == NULL && !lend && bytes > 0)) {
        free(p);
        return psr_fail(PSR_ERR_NOMEM, "no memory for a message");
    }
    p->bytes = copy;
    p->base.payload = copy;
    if (lend) {
        p->lent = *payload;
        p->in_place = shares(sim, from, to);
    }
    dispatch(sim, p);
    return PSR_OK;
}

static bool connected(const sim_transport *transport, psr_peer to)
{
    psr_sim_channel *channel =
        psr_sim_channels_find(&transport->sim->channels, transport->self, to);
    const size_t hint = channel != NULL ? channel->connection : 0;
    for (size_t k = 0; k < transport->peer_count; k++) {
        const size_t i = (hint + k) % transport->peer_count;
        if (!psr_peer_equal(transport->peers[i], to))
            continue;
        if (channel != NULL)
            channel->connection = i;
        return true;
    }
    return false;
}

static size_t sim_waiting(const psr_transport *base, psr_peer peer)
{
    const sim_transport *transport = (const sim_transport *)base;
    const psr_sim_channel *channel =
        psr_sim_channels_find(&transport->sim->channels, transport->self, peer);
    return channel != NULL ? channel->waiting : 0;
}

static psr_err sim_send(psr_transport *base, psr_peer to, const psr_head *head,
                        const psr_payload *payload)
{
    sim_transport *transport = (sim_transport *)base;
    psr_sim *sim = transport->sim;
    if (!connected(transport, to)) {
        psr_payload_return(payload);
        return psr_fail(PSR_ERR_NOT_FOUND, "no channel to %s %" PRIu32, psr_role_name(to.role),
                        to.rank);
    }
    if (is_cut(sim, transport->self) || is_cut(sim, to)) {
        psr_payload_return(payload);
        return PSR_OK;
    }
    bool lend = payload != NULL && payload->release != NULL && payload->bytes > 0;
    bool twice = (head->type == PSR_MSG_PUSH || head->type == PSR_MSG_WEIGHTS) &&
                 sim->faults.duplicate_permille > 0 &&
                 draw(sim, 1000) < sim->faults.duplicate_permille;
    psr_err err = post(sim, transport->self, to, head, payload, lend);
    if (err != PSR_OK || !lend) {
        if (twice && err == PSR_OK)
            err = post(sim, transport->self, to, head, payload, false);
        psr_payload_return(payload);
        return err;
    }
    /* The second one is a copy: the loan ends with the first. */
    return twice ? post(sim, transport->self, to, head, payload, false) : PSR_OK;
}

static bool sim_lends_to(const psr_transport *base, psr_peer peer)
{
    const sim_transport *transport = (const sim_transport *)base;
    return shares(transport->sim, transport->self, peer) && connected(transport, peer);
}

/* ---- the network ---- */

/* false: no memory. The loan ends in any case. */
static bool copy_lent(parcel *p)
{
    p->bytes = copy_of(p->lent.data, p->lent.bytes);
    p->base.payload = p->bytes;
    psr_payload_return(&p->lent);
    p->lent = (psr_payload){0};
    return p->bytes != NULL;
}

/* Lent bytes are read now, or stay lent until the message is freed. false: no memory, and the
 * message is lost with the run. */
static bool unload(psr_sim *sim, parcel *p)
{
    if (p->lent.release == NULL)
        return true;
    if (!p->in_place)
        return copy_lent(p);
    p->base.payload = p->lent.data;
    hold(&sim->held, p);
    return true;
}

/* The lender ends: its loans end. Its receivers keep the bytes, in reality by their mappings, here
 * by a copy. */
static void take_back(psr_sim *sim, psr_peer lender)
{
    for (parcel *p = sim->held, *next; p != NULL; p = next) {
        next = p->next_held;
        if (!psr_peer_equal(p->base.from, lender))
            continue;
        let_go(p);
        if (!copy_lent(p))
            p->base.payload_bytes = 0; /* its receiver refuses that */
    }
}

/* The receiver's transport; NULL: it has none. */
static sim_transport *member_of(psr_sim *sim, psr_sim_channel *channel)
{
    for (size_t k = 0; k < sim->member_count; k++) {
        const size_t i = (channel->member + k) % sim->member_count;
        if (!psr_peer_equal(sim->members[i]->self, channel->to))
            continue;
        channel->member = i;
        return sim->members[i];
    }
    return NULL;
}

bool psr_sim_step(psr_sim *sim, psr_peer *ret_to)
{
    while (sim->heap_count > 0) {
        parcel *p = heap_pop(sim);
        sim->now_us = p->due_us;
        p->channel->waiting--;
        sim_transport *to = member_of(sim, p->channel);
        if (to == NULL || !unload(sim, p)) {
            parcel_free(p);
            continue;
        }
        *to->last = p;
        to->last = &p->next;
        *ret_to = p->to;
        return true;
    }
    return false;
}

int64_t psr_sim_now_us(const psr_sim *sim)
{
    return sim->now_us;
}

int64_t psr_sim_next_us(const psr_sim *sim)
{
    return sim->heap_count > 0 ? sim->heap[0]->due_us : INT64_MAX;
}

void psr_sim_pass(psr_sim *sim, int64_t until_us)
{
    assert(until_us >= sim->now_us && until_us <= psr_sim_next_us(sim));
    sim->now_us = until_us;
}

size_t psr_sim_under_way(const psr_sim *sim, psr_peer from, psr_peer to, psr_message_type type)
{
    size_t count = 0;
    for (size_t i = 0; i < sim->heap_count; i++) {
        const parcel *p = sim->heap[i];
        count += p->base.head.type == type && psr_peer_equal(p->base.from, from) &&
                 psr_peer_equal(p->to, to);
    }
    return count;
}

void psr_sim_cut(psr_sim *sim, psr_peer peer)
{
    size_t kept = 0;
    for (size_t i = 0; i < sim->heap_count; i++)
        if (psr_peer_equal(sim->heap[i]->base.from, peer) ||
            psr_peer_equal(sim->heap[i]->to, peer)) {
            sim->heap[i]->channel->waiting--;
            parcel_free(sim->heap[i]);
        } else
            sim->heap[kept++] = sim->heap[i];
    sim->heap_count = kept;
    for (size_t i = kept / 2; i-- > 0;)
        heap_sift(sim, i);
    if (!is_cut(sim, peer) &&
        reserve(&sim->cut, &sim->cut_capacity, sim->cut_count, sizeof *sim->cut))
        sim->cut[sim->cut_count++] = peer;
}

psr_err psr_sim_new(const psr_sim_faults *faults, psr_sim **ret_sim)
{
    psr_sim *sim = calloc(1, sizeof *sim);
    if (sim == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a network");
    sim->faults = *faults;
    *ret_sim = sim;
    return PSR_OK;
}

void psr_sim_free(psr_sim *sim)
{
    if (sim == NULL)
        return;
    assert(sim->member_count == 0);
    for (size_t i = 0; i < sim->heap_count; i++)
        parcel_free(sim->heap[i]);
    while (sim->carried != NULL)
        parcel_free(sim->carried);
    free(sim->heap);
    psr_sim_channels_done(&sim->channels);
    free(sim->members);
    free(sim->cut);
    free(sim);
}

/* ---- the other half of a transport ---- */

/* Time stands still while a member runs, so there is nothing to wait for: what is not here is a
 * timeout. */
static psr_err sim_recv(psr_transport *base, int timeout_ms, psr_message **ret_message)
{
    sim_transport *transport = (sim_transport *)base;
    (void)timeout_ms;
    parcel *p = transport->first;
    if (p != NULL) {
        transport->first = p->next;
        if (transport->first == NULL)
            transport->last = &transport->first;
        *ret_message = &p->base;
        return PSR_OK;
    }
    if (!transport->woken)
        return psr_fail(PSR_ERR_TIMEOUT, "no message");
    transport->woken = false;
    return psr_fail(PSR_ERR_CANCELLED, "woken");
}

static void sim_wake(psr_transport *base)
{
    ((sim_transport *)base)->woken = true;
}

/* Time is psr_sim_step's. */
static void sim_wait(psr_transport *base, int fd, int timeout_ms)
{
    (void)fd;
    (void)base;
    (void)timeout_ms;
}

static psr_err sim_connect(psr_transport *base, psr_peer peer, const char *endpoint,
                           const char *public_key)
{
    sim_transport *transport = (sim_transport *)base;
    (void)endpoint;
    (void)public_key;
    if (connected(transport, peer))
        return psr_fail(PSR_ERR_USAGE, "%s %" PRIu32 " is connected already",
                        psr_role_name(peer.role), peer.rank);
    if (!reserve(&transport->peers, &transport->peer_capacity, transport->peer_count,
                 sizeof *transport->peers))
        return psr_fail(PSR_ERR_NOMEM, "no memory for a channel");
    transport->peers[transport->peer_count++] = peer;
    return PSR_OK;
}

/* Delivery gives back what is lent. */
static void sim_disconnect(psr_transport *base, psr_peer peer)
{
    sim_transport *transport = (sim_transport *)base;
    for (size_t i = 0; i < transport->peer_count; i++)
        if (psr_peer_equal(transport->peers[i], peer)) {
            transport->peers[i] = transport->peers[--transport->peer_count];
            return;
        }
}

/* Here a name is all that a connection has: another in that name is the same. */
static void sim_retire(psr_transport *base, psr_peer peer)
{
    (void)base;
    (void)peer;
}

/* Here a connection is a name: there need be no channel, as none is needed over sockets. */
static void sim_refuse(psr_transport *base, const psr_message *message, psr_err status,
                       const char *line)
{
    sim_transport *transport = (sim_transport *)base;
    const psr_head head = psr_msg_refused_head(status);
    const psr_payload payload = {.data = line, .bytes = strnlen(line, PSR_REFUSED_LINE_MAX)};
    if (!is_cut(transport->sim, transport->self) && !is_cut(transport->sim, message->from))
        (void)!post(transport->sim, transport->self, message->from, &head, &payload, false);
}

static const char *sim_endpoint(const psr_transport *base)
{
    return ((const sim_transport *)base)->endpoint;
}

static psr_err sim_rename(psr_transport *base, psr_peer self)
{
    ((sim_transport *)base)->self = self;
    return PSR_OK;
}

static uint64_t sim_strangers(const psr_transport *base)
{
    (void)base;
    return 0;
}

/* What it has sent stays under way: a socket would deliver it too. */
static void sim_free(psr_transport *base, int linger_ms)
{
    sim_transport *transport = (sim_transport *)base;
    (void)linger_ms;
    psr_sim *sim = transport->sim;
    for (size_t i = 0; i < sim->member_count; i++)
        if (sim->members[i] == transport)
            sim->members[i] = sim->members[--sim->member_count];
    for (parcel *p = transport->first, *next; p != NULL; p = next) {
        next = p->next;
        parcel_free(p);
    }
    take_back(sim, transport->self);
    free(transport->peers);
    free(transport);
}

psr_err psr_transport_sim_new(psr_sim *sim, psr_peer self, psr_transport **ret_transport)
{
    static const psr_transport_ops ops = {
        .send = sim_send,
        .waiting = sim_waiting,
        .recv = sim_recv,
        .wake = sim_wake,
        .wait = sim_wait,
        .connect = sim_connect,
        .disconnect = sim_disconnect,
        .retire = sim_retire,
        .refuse = sim_refuse,
        .endpoint = sim_endpoint,
        .lends_to = sim_lends_to,
        .rename = sim_rename,
        .strangers = sim_strangers,
        .free = sim_free,
    };
    sim_transport *transport = calloc(1, sizeof *transport);
    if (transport == NULL ||
        !reserve(&sim->members, &sim->member_capacity, sim->member_count, sizeof *sim->members)) {
        free(transport);
        return psr_fail(PSR_ERR_NOMEM, "no memory for a transport");
    }
    *transport = (sim_transport){.base.ops = &ops, .sim = sim, .self = self};
    transport->last = &transport->first;
    snprintf(transport->endpoint, sizeof transport->endpoint, "sim://%s/%" PRIu32,
             psr_role_name(self.role), self.rank);
    sim->members[sim->member_count++] = transport;
    *ret_transport = &transport->base;
    return PSR_OK;
}
