#include "net/link.h"

#include "net/transport_private.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct leaving {
    psr_link_sent sent;
    int64_t due_ns;
    bool dropped;
} leaving;

typedef struct arriving {
    psr_message *message;
    int64_t due_ns;
} arriving;

/* A queue: items[first .. first + count), of which those before are free again. */
typedef struct queue {
    void *items;
    size_t first, count, room;
} queue;

struct psr_link {
    double ns_per_byte; /* 0: without limit */
    int64_t delay_ns;
    /* when the last message will have left, or arrived */
    int64_t out_free_ns, in_free_ns;
    queue out; /* of leaving */
    queue in;  /* of arriving */
};

/* A place at the end; NULL: no memory. */
static void *queue_add(queue *q, size_t item_bytes)
{
    if (q->first + q->count == q->room) {
        if (q->first > q->room / 2) {
            memmove(q->items, (char *)q->items + q->first * item_bytes, q->count * item_bytes);
            q->first = 0;
        } else {
            const size_t room = 2 * q->room + 16;
            void *grown = realloc(q->items, room * item_bytes);
            if (grown == NULL)
                return NULL;
            q->items = grown;
            q->room = room;
        }
    }
    return (char *)q->items + (q->first + q->count++) * item_bytes;
}

static void queue_remove(queue *q)
{
    q->first++;
    if (--q->count == 0)
        q->first = 0;
}

static leaving *first_leaving(const psr_link *link)
{
    return link->out.count > 0 ? (leaving *)link->out.items + link->out.first : NULL;
}

static arriving *first_arriving(const psr_link *link)
{
    return link->in.count > 0 ? (arriving *)link->in.items + link->in.first : NULL;
}

psr_err psr_link_new(uint64_t rate_bits_per_s, double delay_s, psr_link **ret_link)
{
    assert(delay_s >= 0);
    psr_link *link = calloc(1, sizeof *link);
    if (link == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a link");
    link->ns_per_byte = rate_bits_per_s > 0 ? 8e9 / (double)rate_bits_per_s : 0;
    link->delay_ns = llround(delay_s * 1e9);
    *ret_link = link;
    return PSR_OK;
}

static void end_loan(const leaving *item)
{
    if (item->sent.has_payload && !item->dropped)
        psr_payload_return(&item->sent.payload);
}

void psr_link_free(psr_link *link)
{
    if (link == NULL)
        return;
    for (const leaving *item; (item = first_leaving(link)) != NULL; queue_remove(&link->out))
        end_loan(item);
    for (arriving *item; (item = first_arriving(link)) != NULL; queue_remove(&link->in))
        psr_message_free(&item->message);
    free(link->out.items);
    free(link->in.items);
    free(link);
}

static int64_t duration_ns(const psr_link *link, size_t payload_bytes)
{
    return llround((double)(payload_bytes + PSR_LINK_HEAD_BYTES) * link->ns_per_byte);
}

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* ---- out ---- */

static void free_copy(void *copy)
{
    free(copy);
}

/* A loan is handed on as it is. */
static psr_err keep_payload(const psr_payload *payload, psr_payload *ret_kept)
{
    if (payload->release != NULL) {
        *ret_kept = *payload;
        return PSR_OK;
    }
    void *copy = malloc(payload->bytes + 1);
    if (copy == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a message of %zu bytes", payload->bytes);
    memcpy(copy, payload->data, payload->bytes);
    *ret_kept = (psr_payload){copy, payload->bytes, free_copy, copy};
    return PSR_OK;
}

psr_err psr_link_send(psr_link *link, int64_t now_ns, psr_peer to, const psr_head *head,
                      const psr_payload *payload)
{
    leaving item = {.sent = {.to = to, .head = *head, .has_payload = payload != NULL}};
    if (payload != NULL)
        PSR_TRY(keep_payload(payload, &item.sent.payload));
    leaving *added = queue_add(&link->out, sizeof *added);
    if (added == NULL) {
        end_loan(&item);
        return psr_fail(PSR_ERR_NOMEM, "no memory for a message");
    }
    link->out_free_ns =
        later(link->out_free_ns, now_ns) + duration_ns(link, payload != NULL ? payload->bytes : 0);
    item.due_ns = link->out_free_ns + link->delay_ns;
    *added = item;
    return PSR_OK;
}

bool psr_link_next_sent(psr_link *link, int64_t now_ns, psr_link_sent *ret_sent)
{
    for (const leaving *item; (item = first_leaving(link)) != NULL && item->due_ns <= now_ns;) {
        const bool dropped = item->dropped;
        if (!dropped)
            *ret_sent = item->sent;
        queue_remove(&link->out);
        if (!dropped)
            return true;
    }
    return false;
}

/* They keep their time on the link. */
void psr_link_forget(psr_link *link, psr_peer peer)
{
    leaving *items = first_leaving(link);
    for (size_t i = 0; i < link->out.count; i++) {
        if (items[i].sent.to.role != peer.role || items[i].sent.to.rank != peer.rank)
            continue;
        end_loan(&items[i]);
        items[i].dropped = true;
    }
}

bool psr_link_has_unsent(const psr_link *link)
{
    return link->out.count > 0;
}

/* ---- in ---- */

psr_err psr_link_receive(psr_link *link, int64_t now_ns, psr_message *message)
{
    arriving *added = queue_add(&link->in, sizeof *added);
    if (added == NULL) {
        psr_message_free(&message);
        return psr_fail(PSR_ERR_NOMEM, "no memory for a message");
    }
    link->in_free_ns = later(now_ns, link->in_free_ns + duration_ns(link, message->payload_bytes));
    *added = (arriving){message, link->in_free_ns};
    return PSR_OK;
}

psr_message *psr_link_next_received(psr_link *link, int64_t now_ns)
{
    const arriving *item = first_arriving(link);
    if (item == NULL || item->due_ns > now_ns)
        return NULL;
    psr_message *message = item->message;
    queue_remove(&link->in);
    return message;
}

int64_t psr_link_due_ns(const psr_link *link)
{
    const leaving *out = first_leaving(link);
    const arriving *in = first_arriving(link);
    const int64_t out_ns = out != NULL ? out->due_ns : INT64_MAX;
    const int64_t in_ns = in != NULL ? in->due_ns : INT64_MAX;
    return out_ns < in_ns ? out_ns : in_ns;
}
