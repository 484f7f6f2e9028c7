#include "bench/emulation/links.h"

#include "bench/emulation/processors.h"
#include "comm/wire/messages.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define HEAD_BYTES 80.0 /* of a message on the wire: frames' headers, a head, a seal's tag */

typedef struct connection connection;

typedef struct queued {
    psr_sim_parcel *parcel;
    connection *connection;
    double left_bytes; /* on the wire */
    double cost_ns;    /* of sending it; once it has been sent, of taking it */
    double taken_cost_ns;
    bool shared; /* its receiver is on its sender's host */
    bool sent;
    struct queued *next;
} queued;

typedef struct queue {
    queued *first, *last;
} queue;

typedef struct process {
    uint32_t host;
    double busy_ns;
    queue outbox, inbox; /* what it has to send, which comes first; what has arrived */
    queued *handled;     /* what it works on; NULL: nothing */
    /* the WEIGHTS that it sent last: the first of a slice pays for fold and update */
    uint64_t slice;
} process;

struct connection {
    uint32_t from, to; /* processes */
    queue out;
    double window_bytes, flying_bytes;
    bool waits; /* in the ring of its host's link */
    struct connection *next;
};

typedef struct host {
    double out_ns_per_byte, in_ns_per_byte;
    double in_free_ns, out_busy_ns, in_busy_ns, queue_bytes, queue_most_bytes;
    /* Acknowledgements that it has to send, and since when its link has carried nothing else. */
    double owed_bytes, idle_since_ns;
    connection *first, *last; /* that may send, in turn */
    bool sends;
} host;

typedef enum event_kind {
    SENT,     /* a quantum has left its host: the link is free */
    RECEIVED, /* a quantum has come to its receiver */
    ACKED,    /* and its sender knows */
    HANDLED,  /* a process has sent or taken a message */
} event_kind;

typedef struct event {
    double at_ns;
    uint64_t number;
    event_kind kind;
    uint32_t index; /* of a host or a process */
    connection *connection;
    queued *message; /* RECEIVED: the message whose last quantum this is, else NULL */
    double bytes;
} event;

struct psr_links {
    psr_links_options options;
    host *hosts;
    process *processes; /* workers, shards */
    uint32_t count;
    connection **connections; /* [count][count] */
    event *heap;
    size_t heap_count, heap_capacity;
    uint64_t numbers;
    double carried_bytes;
    psr_processors processors; /* count 0: each process has its own */
    bool open, failed;
};

enum { HANDLES, COMPUTES }; /* jobs of the processors */

/* ---- events ---- */

static bool earlier(const event *a, const event *b)
{
    return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->number < b->number;
}

static void swap(event *a, event *b)
{
    event t = *a;
    *a = *b;
    *b = t;
}

static void add(psr_links *l, event e)
{
    if (l->heap_count == l->heap_capacity) {
        const size_t capacity = l->heap_capacity > 0 ? 2 * l->heap_capacity : 256;
        event *heap = realloc(l->heap, capacity * sizeof *heap);
        if (heap == NULL) {
            l->failed = true;
            free(e.message);
            return;
        }
        l->heap = heap;
        l->heap_capacity = capacity;
    }
    e.number = l->numbers++;
    size_t i = l->heap_count++;
    l->heap[i] = e;
    for (; i > 0 && earlier(&l->heap[i], &l->heap[(i - 1) / 2]); i = (i - 1) / 2)
        swap(&l->heap[i], &l->heap[(i - 1) / 2]);
}

static event take_first(psr_links *l)
{
    event first = l->heap[0];
    l->heap[0] = l->heap[--l->heap_count];
    for (size_t i = 0;;) {
        size_t least = i;
        for (size_t child = 2 * i + 1; child <= 2 * i + 2; child++)
            if (child < l->heap_count && earlier(&l->heap[child], &l->heap[least]))
                least = child;
        if (least == i)
            return first;
        swap(&l->heap[i], &l->heap[least]);
        i = least;
    }
}

static void append(queue *q, queued *m)
{
    m->next = NULL;
    if (q->first == NULL)
        q->first = m;
    else
        q->last->next = m;
    q->last = m;
}

static queued *pop(queue *q)
{
    queued *m = q->first;
    q->first = m->next;
    return m;
}

/* ---- links ---- */

static double smaller(double a, double b)
{
    return a < b ? a : b;
}

static double larger(double a, double b)
{
    return a > b ? a : b;
}

static void offer(psr_links *l, connection *c)
{
    host *h = &l->hosts[l->processes[c->from].host];
    if (c->waits || c->out.first == NULL ||
        (c->window_bytes > 0 && c->flying_bytes > 0 &&
         c->flying_bytes + smaller(l->options.quantum_bytes, c->out.first->left_bytes) >
             c->window_bytes))
        return;
    c->waits = true;
    c->next = NULL;
    if (h->first == NULL)
        h->first = c;
    else
        h->last->next = c;
    h->last = c;
}

/* What a host's link carries for acknowledgements before its next quantum: those that did not leave
 * while it carried nothing else. */
static double owed_ns(host *h, double now_ns)
{
    const double left_ns = h->owed_bytes * h->out_ns_per_byte - (now_ns - h->idle_since_ns);
    h->owed_bytes = 0;
    return larger(left_ns, 0);
}

/* One for every second segment (RFC 1122, section 4.2.3.2), of a frame without payload. */
static double acknowledgements_of(const psr_links *l, double bytes)
{
    const double frame = l->options.frame_bytes;
    return bytes / (PSR_LINK_SEGMENT_BYTES + frame) / 2 * frame;
}

/* When the sender knows that its bytes have come: the acknowledgement waits in the queue in front
 * of the sender's own link, like all that comes to that host. */
static double acknowledged_ns(const psr_links *l, const connection *c, double now_ns)
{
    const host *h = &l->hosts[l->processes[c->from].host];
    return larger(now_ns + l->options.latency_s * 1e9, h->in_free_ns);
}

/* The next quantum of a host. It leaves the receiving link when that has carried all of it: what
 * came before, then itself, while it is still coming; but not before its last packet is there. */
static void send_next(psr_links *l, uint32_t index, double now_ns)
{
    host *h = &l->hosts[index];
    connection *c = h->first;
    if (h->sends || c == NULL)
        return;
    h->first = c->next;
    c->waits = false;
    queued *m = c->out.first;
    const double bytes = smaller(l->options.quantum_bytes, m->left_bytes),
                 latency_ns = l->options.latency_s * 1e9,
                 packet = smaller(bytes, PSR_LINK_SEGMENT_BYTES + l->options.frame_bytes),
                 begin_ns = now_ns + owed_ns(h, now_ns),
                 sent_ns = begin_ns + bytes * h->out_ns_per_byte;
    host *to = &l->hosts[l->processes[c->to].host];
    const double first_there_ns = begin_ns + packet * h->out_ns_per_byte + latency_ns,
                 begins_ns = larger(to->in_free_ns, first_there_ns),
                 there_ns = larger(begins_ns + bytes * to->in_ns_per_byte,
                                   sent_ns + latency_ns + packet * to->in_ns_per_byte);
    to->in_free_ns =
        larger(begins_ns + bytes * to->in_ns_per_byte, there_ns - packet * to->in_ns_per_byte);
    to->in_busy_ns += bytes * to->in_ns_per_byte;
    to->queue_bytes += bytes;
    to->queue_most_bytes = larger(to->queue_most_bytes, to->queue_bytes);
    to->owed_bytes += acknowledgements_of(l, bytes);
    h->idle_since_ns = sent_ns;
    h->out_busy_ns += sent_ns - now_ns;
    h->sends = true;
    l->carried_bytes += bytes;
    c->flying_bytes += bytes;
    m->left_bytes -= bytes;
    const bool last = m->left_bytes <= 0;
    if (last)
        (void)pop(&c->out);
    add(l, (event){.at_ns = sent_ns, .kind = SENT, .index = index, .connection = c});
    add(l, (event){.at_ns = there_ns,
                   .kind = RECEIVED,
                   .connection = c,
                   .message = last ? m : NULL,
                   .bytes = bytes});
}

/* ---- processes ---- */

static void handle_next(psr_links *l, uint32_t index, double now_ns)
{
    process *p = &l->processes[index];
    queue *from = p->outbox.first != NULL ? &p->outbox : &p->inbox;
    if (p->handled != NULL || from->first == NULL)
        return;
    p->handled = pop(from);
    p->busy_ns += p->handled->cost_ns;
    if (l->processors.count > 0) {
        const psr_processor_job job = {.threads = 1, .process = index, .kind = HANDLES};
        if (psr_processors_begin(&l->processors, now_ns, p->handled->cost_ns, &job) != PSR_OK)
            l->failed = true;
        return;
    }
    add(l, (event){.at_ns = now_ns + p->handled->cost_ns, .kind = HANDLED, .index = index});
}

static void come_to(psr_links *l, queued *m, double now_ns)
{
    append(&l->processes[m->connection->to].inbox, m);
    handle_next(l, m->connection->to, now_ns);
}

static void leave(psr_links *l, queued *m, double now_ns)
{
    m->sent = true;
    m->cost_ns = m->taken_cost_ns;
    if (m->shared) {
        come_to(l, m, now_ns);
        return;
    }
    append(&m->connection->out, m);
    offer(l, m->connection);
    send_next(l, l->processes[m->connection->from].host, now_ns);
}

static void handled(psr_links *l, uint32_t index, double now_ns)
{
    queued *m = l->processes[index].handled;
    l->processes[index].handled = NULL;
    if (!m->sent) {
        leave(l, m, now_ns);
    } else {
        if (psr_sim_arrive(l->options.sim, m->parcel, psr_sim_now_us(l->options.sim)) != PSR_OK)
            l->failed = true;
        free(m);
    }
    handle_next(l, index, now_ns);
}

/* ---- what happens ---- */

static void happen(psr_links *l, const event *e)
{
    switch (e->kind) {
    case SENT:
        l->hosts[e->index].sends = false;
        offer(l, e->connection);
        send_next(l, e->index, e->at_ns);
        break;
    case RECEIVED:
        l->hosts[l->processes[e->connection->to].host].queue_bytes -= e->bytes;
        if (e->message != NULL)
            come_to(l, e->message, e->at_ns);
        add(l, (event){.at_ns = acknowledged_ns(l, e->connection, e->at_ns),
                       .kind = ACKED,
                       .connection = e->connection,
                       .bytes = e->bytes});
        break;
    case ACKED:
        e->connection->flying_bytes -= e->bytes;
        offer(l, e->connection);
        send_next(l, l->processes[e->connection->from].host, e->at_ns);
        break;
    case HANDLED:
        handled(l, e->index, e->at_ns);
        break;
    }
}

static double next_ns(const psr_links *l)
{
    const double job_ns = psr_processors_next_ns(&l->processors);
    return l->heap_count > 0 ? smaller(l->heap[0].at_ns, job_ns) : job_ns;
}

int64_t psr_links_next_us(const psr_links *l)
{
    const double at_ns = next_ns(l);
    return at_ns < INFINITY ? (int64_t)ceil(at_ns / 1e3) : INT64_MAX;
}

static void end_job(psr_links *l, double now_ns)
{
    const psr_processor_job job = psr_processors_end(&l->processors);
    if (job.kind == HANDLES)
        handled(l, job.process, now_ns);
    else
        l->options.computed(l->options.context, job.process);
}

psr_err psr_links_step(psr_links *l)
{
    const double now_ns = (double)psr_sim_now_us(l->options.sim) * 1e3;
    for (double at_ns = next_ns(l); at_ns <= now_ns && !l->failed; at_ns = next_ns(l)) {
        if (l->heap_count > 0 && l->heap[0].at_ns <= at_ns) {
            const event e = take_first(l);
            happen(l, &e);
        } else {
            end_job(l, at_ns);
        }
    }
    return l->failed ? psr_fail(PSR_ERR_NOMEM, "no memory for the emulated links") : PSR_OK;
}

void psr_links_compute(psr_links *l, uint32_t worker, double seconds, uint32_t threads)
{
    const psr_processor_job job = {.threads = threads, .process = worker, .kind = COMPUTES};
    const double now_ns = (double)psr_sim_now_us(l->options.sim) * 1e3;
    if (psr_processors_begin(&l->processors, now_ns, seconds * 1e9, &job) != PSR_OK)
        l->failed = true;
}

/* ---- the carrier ---- */

static uint32_t index_of(const psr_links *l, psr_peer peer)
{
    return peer.role == PSR_ROLE_WORKER ? peer.rank : l->options.workers + peer.rank;
}

static bool carries_values(psr_message_type type)
{
    return type == PSR_MSG_PUSH || type == PSR_MSG_WEIGHTS || type == PSR_MSG_VALUES ||
           type == PSR_MSG_RING;
}

static double payload_of(const psr_links *l, psr_message_type type, size_t bytes)
{
    const psr_links_options *o = &l->options;
    if (!carries_values(type) || bytes == 0)
        return (double)bytes;
    const double extra =
        smaller(type == PSR_MSG_WEIGHTS ? o->extra_weight_bytes : o->extra_bytes, (double)bytes);
    return ((double)bytes - extra) * o->stands_for + extra;
}

double psr_link_window_of_loss(double loss, double rtt_s)
{
    if (loss <= 0)
        return INFINITY;
    return PSR_LINK_SEGMENT_BYTES * larger(sqrt(1.5 / loss), 1.054 * pow(rtt_s / loss, 0.75));
}

static connection *connection_of(psr_links *l, uint32_t from, uint32_t to)
{
    connection **at = &l->connections[(size_t)from * l->count + to];
    if (*at != NULL)
        return *at;
    connection *c = calloc(1, sizeof *c);
    if (c == NULL)
        return NULL;
    const psr_links_options *o = &l->options;
    c->from = from;
    c->to = to;
    c->window_bytes = o->window_bytes;
    if (o->loss > 0) {
        const double queued_s =
                         o->quantum_bytes * l->hosts[l->processes[to].host].in_ns_per_byte / 1e9,
                     bytes = psr_link_window_of_loss(o->loss, 2 * o->latency_s + queued_s);
        c->window_bytes = c->window_bytes > 0 ? smaller(c->window_bytes, bytes) : bytes;
    }
    *at = c;
    return c;
}

static double sent_cost_ns(psr_links *l, process *p, const psr_message *message, double payload,
                           bool shared)
{
    const psr_link_costs *k = &l->options.costs;
    double cost_s = k->message_s;
    if (!shared)
        cost_s += payload * (k->copy_s_per_byte + k->seal_s_per_byte);
    psr_msg_weights says;
    if (message->head.type != PSR_MSG_WEIGHTS || psr_msg_weights_read(message, &says) != PSR_OK)
        return cost_s * 1e9;
    const uint64_t slice = (uint64_t)says.bucket << 40 ^ says.step << 56 ^ says.span.offset;
    if (slice != p->slice) {
        p->slice = slice;
        cost_s +=
            payload * (k->update_s_per_byte + k->fold_s_per_byte * (double)l->options.workers);
    }
    return cost_s * 1e9;
}

static double taken_cost_ns(const psr_links *l, psr_message_type type, double payload, bool shared)
{
    const psr_link_costs *k = &l->options.costs;
    double cost_s = k->message_s;
    if (!shared || type == PSR_MSG_WEIGHTS)
        cost_s += payload * k->copy_s_per_byte;
    if (!shared)
        cost_s += payload * k->seal_s_per_byte;
    if (type == PSR_MSG_VALUES || type == PSR_MSG_RING) /* a hop of two adds, the other copies */
        cost_s += payload * (k->fold_s_per_byte + k->update_s_per_byte) / 2;
    return cost_s * 1e9;
}

static void carry_now(psr_links *l, psr_sim_parcel *parcel)
{
    if (psr_sim_arrive(l->options.sim, parcel, psr_sim_now_us(l->options.sim)) != PSR_OK)
        l->failed = true;
}

static void carry(void *context, psr_sim_parcel *parcel, psr_peer to, const psr_message *message)
{
    psr_links *l = context;
    const psr_peer from = message->from;
    const psr_message_type type = message->head.type;
    if (!l->open || from.role == PSR_ROLE_SCHEDULER || to.role == PSR_ROLE_SCHEDULER) {
        carry_now(l, parcel);
        return;
    }
    const uint32_t sender = index_of(l, from), receiver = index_of(l, to);
    process *p = &l->processes[sender];
    const bool shared = p->host == l->processes[receiver].host;
    const double payload = payload_of(l, type, message->payload_bytes),
                 now_ns = (double)psr_sim_now_us(l->options.sim) * 1e3;
    connection *c = connection_of(l, sender, receiver);
    queued *m = calloc(1, sizeof *m);
    if (c == NULL || m == NULL) {
        free(m);
        l->failed = true;
        carry_now(l, parcel);
        return;
    }
    const double segments = payload / PSR_LINK_SEGMENT_BYTES;
    *m = (queued){.parcel = parcel,
                  .connection = c,
                  .left_bytes = (payload + segments * l->options.frame_bytes + HEAD_BYTES) /
                                (1 - l->options.loss),
                  .cost_ns = sent_cost_ns(l, p, message, payload, shared),
                  .taken_cost_ns = taken_cost_ns(l, type, payload, shared),
                  .shared = shared};
    append(&p->outbox, m);
    handle_next(l, sender, now_ns);
}

static bool shares(void *context, psr_peer a, psr_peer b)
{
    const psr_links *l = context;
    if (a.role == PSR_ROLE_SCHEDULER || b.role == PSR_ROLE_SCHEDULER)
        return false;
    return l->processes[index_of(l, a)].host == l->processes[index_of(l, b)].host;
}

/* ---- life ---- */

/* So small that a window on a lossy way holds several. */
static double quantum_of(const psr_links_options *o)
{
    const double window = psr_link_window_of_loss(o->loss, 2 * o->latency_s),
                 quarter = larger(window / 4, PSR_LINK_SEGMENT_BYTES);
    return smaller(o->quantum_bytes, quarter);
}

static psr_err make(psr_links *l)
{
    const psr_links_options *o = &l->options;
    l->count = o->workers + o->shards;
    psr_processors_init(&l->processors, o->processors);
    l->hosts = calloc(o->hosts, sizeof *l->hosts);
    l->processes = calloc(l->count, sizeof *l->processes);
    l->connections = calloc((size_t)l->count * l->count, sizeof *l->connections);
    if (l->hosts == NULL || l->processes == NULL || l->connections == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for the links of %u hosts", o->hosts);
    for (uint32_t h = 0; h < o->hosts; h++)
        l->hosts[h].out_ns_per_byte = l->hosts[h].in_ns_per_byte = 8e9 / o->bits_per_s[h];
    for (uint32_t i = 0; i < l->count; i++) {
        const psr_peer peer = i < o->workers ? (psr_peer){PSR_ROLE_WORKER, i}
                                             : (psr_peer){PSR_ROLE_SHARD, i - o->workers};
        l->processes[i].host = o->host_of(o->context, peer);
        l->processes[i].slice = UINT64_MAX;
        assert(l->processes[i].host < o->hosts);
    }
    return PSR_OK;
}

psr_err psr_links_new(const psr_links_options *options, psr_links **ret_links)
{
    psr_links *l = calloc(1, sizeof *l);
    if (l == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for links");
    l->options = *options;
    l->options.quantum_bytes = quantum_of(options);
    psr_err err = make(l);
    if (err != PSR_OK) {
        psr_links_free(l);
        return err;
    }
    l->options.bits_per_s = NULL; /* borrowed for the call */
    psr_sim_carry_by(options->sim, &(psr_sim_carrier){l, carry, shares});
    *ret_links = l;
    return PSR_OK;
}

static void drop(queue *q)
{
    while (q->first != NULL)
        free(pop(q));
}

/* Parcels are the sim's. */
void psr_links_free(psr_links *l)
{
    if (l == NULL)
        return;
    for (size_t i = 0; i < l->heap_count; i++)
        free(l->heap[i].message);
    const size_t pairs = l->connections != NULL ? (size_t)l->count * l->count : 0;
    for (size_t i = 0; i < pairs; i++)
        if (l->connections[i] != NULL) {
            drop(&l->connections[i]->out);
            free(l->connections[i]);
        }
    for (uint32_t i = 0; l->processes != NULL && i < l->count; i++) {
        drop(&l->processes[i].outbox);
        drop(&l->processes[i].inbox);
        free(l->processes[i].handled);
    }
    psr_processors_done(&l->processors);
    free(l->connections);
    free(l->processes);
    free(l->hosts);
    free(l->heap);
    free(l);
}

void psr_links_open(psr_links *l)
{
    l->open = true;
}

double psr_links_out_busy_s(const psr_links *l, uint32_t index)
{
    return l->hosts[index].out_busy_ns / 1e9;
}

double psr_links_in_busy_s(const psr_links *l, uint32_t index)
{
    return l->hosts[index].in_busy_ns / 1e9;
}

double psr_links_process_busy_s(const psr_links *l, psr_peer peer)
{
    return l->processes[index_of(l, peer)].busy_ns / 1e9;
}

double psr_links_queue_bytes(const psr_links *l, uint32_t index)
{
    return l->hosts[index].queue_most_bytes;
}

double psr_links_carried_bytes(const psr_links *l)
{
    return l->carried_bytes;
}
