#include "net/zmq/sealed_out.h"

#include "net/transport_private.h"
#include "net/trust/admission.h"
#include "net/zmq/attempt.h"
#include "net/zmq/sockets.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <zmq.h>

/* No further message is sealed while so many bytes of a channel have not left: enough for libzmq's
 * thread to go on while this one does something else, and few enough to stay in cache. */
#define ON_THEIR_WAY_MAX ((size_t)2 << 20)
#define ROOM_FROM (ON_THEIR_WAY_MAX / 4 * 3) /* whoever waits is told then */
/* Buffers of the largest size are kept, so many; smaller frames have memory of their own size. */
#define LARGE_BYTES ((size_t)16 << 10)
#define BUFFERS_KEPT 8

/* How many bytes of a channel are on their way. They may outlive it. */
typedef struct flow {
    atomic_size_t holders; /* the channel, and each buffer that is on its way */
    atomic_size_t bytes;
    atomic_bool waits; /* the channel has messages that wait for room */
} flow;

typedef struct buffer {
    struct buffer *next;
    psr_sealed_outs *outs;
    flow *flow;
    psr_unsent *unsent;
    size_t capacity, size;
    uint8_t bytes[];
} buffer;

struct psr_sealed_outs {
    void *ctx;
    psr_seal_library *library;
    int fd;
    atomic_bool told; /* fd can be read */
    pthread_mutex_t lock;
    buffer *kept;
    size_t kept_count;
    psr_sealed_out *first; /* the channels */
    uint64_t connected;    /* channels so far */
};

typedef struct waiting {
    struct waiting *next;
    psr_head head;
    uint64_t announced;
    psr_payload payload; /* lent, or a copy at `copy` */
    uint8_t copy[];
} waiting;

struct psr_sealed_out {
    psr_sealed_outs *outs;
    psr_sealed_out *next, **link;
    void *push;
    psr_attempt attempt; /* until the peer has answered */
    psr_seal *seal;
    uint32_t channel;
    psr_unsent *unsent;
    flow *flow;
    waiting *first, *last;
    uint8_t greeting[PSR_SEALED_PREFIX_BYTES + PSR_SEALED_HEAD_BYTES_MAX + PSR_SEAL_TAG_BYTES];
    size_t greeting_bytes;
};

/* ---- buffers ---- */

static void flow_leave(flow *f)
{
    if (atomic_fetch_sub(&f->holders, 1) == 1)
        free(f);
}

static buffer *buffer_new(psr_sealed_outs *outs, size_t size)
{
    buffer *b = NULL;
    const bool large = size > LARGE_BYTES;
    if (large) {
        pthread_mutex_lock(&outs->lock);
        b = outs->kept;
        if (b != NULL) {
            outs->kept = b->next;
            outs->kept_count--;
        }
        pthread_mutex_unlock(&outs->lock);
    }
    if (b == NULL) {
        const size_t capacity = large ? PSR_SEALED_BYTES_MAX : size;
        b = malloc(sizeof *b + capacity);
        if (b == NULL)
            return NULL;
        b->capacity = capacity;
    }
    b->outs = outs;
    b->size = size;
    return b;
}

static void buffer_free(buffer *b)
{
    psr_sealed_outs *outs = b->outs;
    if (b->capacity == PSR_SEALED_BYTES_MAX) {
        pthread_mutex_lock(&outs->lock);
        const bool keeps = outs->kept_count < BUFFERS_KEPT;
        if (keeps) {
            b->next = outs->kept;
            outs->kept = b;
            outs->kept_count++;
        }
        pthread_mutex_unlock(&outs->lock);
        if (keeps)
            return;
    }
    free(b);
}

/* Some channel that waits may have room. */
static void tell_room(psr_sealed_outs *outs)
{
    uint64_t one = 1;
    if (!atomic_exchange(&outs->told, true))
        (void)!write(outs->fd, &one, sizeof one);
}

/* Called by libzmq when its bytes have left, or never will. */
static void buffer_left(void *data, void *hint)
{
    buffer *b = hint;
    psr_sealed_outs *outs = b->outs;
    flow *f = b->flow;
    (void)data;
    psr_unsent_left(b->unsent);
    size_t left = atomic_fetch_sub(&f->bytes, b->size) - b->size;
    buffer_free(b);
    if (left <= ROOM_FROM && atomic_load(&f->waits))
        tell_room(outs);
    flow_leave(f);
}

/* ---- sending ---- */

/* A frame that is counted from now on as unsent and as on its way: *ret_buffer is to be filled. It
 * ends as the buffer's, sent or closed. */
static psr_err begin_frame(psr_sealed_out *out, size_t bytes, zmq_msg_t *ret_frame,
                           buffer **ret_buffer)
{
    buffer *b = buffer_new(out->outs, bytes);
    if (b == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a message of %zu bytes", bytes);
    if (zmq_msg_init_data(ret_frame, b->bytes, b->size, buffer_left, b) != 0) {
        buffer_free(b);
        return psr_fail(PSR_ERR_NOMEM, "no memory for a message");
    }
    b->flow = out->flow;
    b->unsent = out->unsent;
    psr_unsent_add(out->unsent);
    atomic_fetch_add(&out->flow->holders, 1);
    atomic_fetch_add(&out->flow->bytes, b->size);
    *ret_buffer = b;
    return PSR_OK;
}

static psr_err send_frame(psr_sealed_out *out, zmq_msg_t *frame)
{
    return psr_zmq_send_frame(out->push, frame, false) ? PSR_OK
                                                       : psr_zmq_failed("sending a message");
}

/* To seal uses up a number, which no other bytes may get. So what can find no memory comes before:
 * a message that fails there has no number yet, and the next one is not taken for one that follows
 * a lost one. */
static psr_err seal_and_send(psr_sealed_out *out, const psr_head *head, uint64_t announced,
                             const void *bytes, size_t count)
{
    zmq_msg_t frame;
    buffer *b;
    PSR_TRY(begin_frame(out, psr_sealed_size(head, announced, count), &frame, &b));
    psr_err err =
        psr_sealed_write(out->seal, out->channel, head, announced, bytes, count, b->bytes);
    if (err == PSR_OK)
        err = send_frame(out, &frame);
    if (err != PSR_OK)
        zmq_msg_close(&frame);
    return err;
}

/* Consumes the payload; on failure it has been given back. */
static psr_err enqueue(psr_sealed_out *out, const psr_head *head, uint64_t announced,
                       const psr_payload *payload)
{
    const bool copies = payload != NULL && payload->release == NULL;
    waiting *w = malloc(sizeof *w + (copies ? payload->bytes : 0));
    if (w == NULL) {
        psr_payload_return(payload);
        return psr_fail(PSR_ERR_NOMEM, "no memory for a message");
    }
    *w = (waiting){.head = *head, .announced = announced};
    if (payload != NULL)
        w->payload = *payload;
    if (copies && payload->bytes > 0) {
        memcpy(w->copy, payload->data, payload->bytes);
        w->payload.data = w->copy;
    }
    psr_unsent_add(out->unsent);
    if (out->last != NULL)
        out->last->next = w;
    else
        out->first = w;
    out->last = w;
    atomic_store(&out->flow->waits, true);
    return PSR_OK;
}

static bool has_room(const psr_sealed_out *out)
{
    return atomic_load(&out->flow->bytes) < ON_THEIR_WAY_MAX;
}

static void take_first(psr_sealed_out *out)
{
    waiting *w = out->first;
    out->first = w->next;
    if (out->first == NULL) {
        out->last = NULL;
        atomic_store(&out->flow->waits, false);
    }
    psr_unsent_left(out->unsent);
    psr_payload_return(&w->payload);
    free(w);
}

/* A message that fails goes on waiting. */
static psr_err send_on(psr_sealed_out *out)
{
    while (out->first != NULL && has_room(out)) {
        const waiting *w = out->first;
        PSR_TRY(seal_and_send(out, &w->head, w->announced, w->payload.data, w->payload.bytes));
        take_first(out);
    }
    return PSR_OK;
}

psr_err psr_sealed_out_send(psr_sealed_out *out, const psr_head *head, uint64_t announced,
                            const psr_payload *payload)
{
    psr_err err = send_on(out);
    if (err == PSR_OK && (out->first != NULL || !has_room(out))) {
        PSR_TRY(enqueue(out, head, announced, payload));
        if (has_room(out)) /* it has come meanwhile, and nobody tells that again */
            tell_room(out->outs);
        return PSR_OK;
    }
    if (err == PSR_OK)
        err = seal_and_send(out, head, announced, payload != NULL ? payload->data : NULL,
                            payload != NULL ? payload->bytes : 0);
    psr_payload_return(payload);
    return err;
}

psr_err psr_sealed_out_greet(psr_sealed_out *out)
{
    zmq_msg_t frame;
    buffer *b;
    PSR_TRY(begin_frame(out, out->greeting_bytes, &frame, &b));
    memcpy(b->bytes, out->greeting, out->greeting_bytes);
    psr_err err = send_frame(out, &frame);
    if (err != PSR_OK)
        zmq_msg_close(&frame);
    return err;
}

psr_err psr_sealed_outs_serve(psr_sealed_outs *outs)
{
    uint64_t times;
    psr_err err = PSR_OK;
    if (!atomic_load(&outs->told))
        return PSR_OK;
    (void)!read(outs->fd, &times, sizeof times);
    atomic_exchange(&outs->told, false);
    for (psr_sealed_out *out = outs->first; out != NULL && err == PSR_OK; out = out->next)
        err = send_on(out);
    if (err != PSR_OK) /* what waits is looked at again */
        tell_room(outs);
    return err;
}

bool psr_sealed_outs_wait(const psr_sealed_outs *outs)
{
    for (const psr_sealed_out *out = outs->first; out != NULL; out = out->next)
        if (out->first != NULL)
            return true;
    return false;
}

/* ---- beginning and end ---- */

static psr_err set_push(void *push, const psr_key_answer *answer, const psr_seal_secret *secret)
{
    PSR_TRY(psr_admission_apply_sealed(push, answer->channel, secret->token));
    PSR_TRY(psr_zmq_set_largest(push, 1024)); /* nothing comes back */
    PSR_TRY(psr_zmq_set(push, ZMQ_CONNECT_TIMEOUT, PSR_HANDSHAKE_MS, "ZMQ_CONNECT_TIMEOUT"));
    PSR_TRY(psr_zmq_set(push, ZMQ_HANDSHAKE_IVL, PSR_HANDSHAKE_MS, "ZMQ_HANDSHAKE_IVL"));
    PSR_TRY(psr_zmq_set(push, ZMQ_RECONNECT_IVL, 50, "ZMQ_RECONNECT_IVL"));
    return psr_zmq_set(push, ZMQ_RECONNECT_IVL_MAX, 1000, "ZMQ_RECONNECT_IVL_MAX");
}

static psr_err open_push(psr_sealed_out *out, const psr_key_answer *answer,
                         const psr_seal_secret *secret)
{
    const psr_head sealed = {.type = PSR_MSG_SEALED};
    out->push = zmq_socket(out->outs->ctx, ZMQ_PUSH);
    if (out->push == NULL)
        return psr_zmq_failed("making a socket");
    PSR_TRY(set_push(out->push, answer, secret));
    PSR_TRY(psr_seal_new(out->outs->library, answer->cipher, secret->key, true, &out->seal));
    out->greeting_bytes = psr_sealed_size(&sealed, 0, 0);
    return psr_sealed_write(out->seal, out->channel, &sealed, 0, NULL, 0, out->greeting);
}

psr_err psr_sealed_out_new(psr_sealed_outs *outs, const psr_key_answer *answer,
                           const psr_seal_secret *secret, psr_unsent *unsent,
                           psr_sealed_out **ret_out)
{
    psr_sealed_out *out = calloc(1, sizeof *out);
    flow *f = calloc(1, sizeof *f);
    if (out == NULL || f == NULL) {
        free(out);
        free(f);
        return psr_fail(PSR_ERR_NOMEM, "no memory for a channel");
    }
    atomic_init(&f->holders, 1);
    *out = (psr_sealed_out){.outs = outs,
                            .next = outs->first,
                            .link = &outs->first,
                            .channel = answer->channel,
                            .unsent = unsent,
                            .flow = f};
    if (out->next != NULL)
        out->next->link = &out->next;
    outs->first = out;
    psr_err err = open_push(out, answer, secret);
    if (err != PSR_OK) {
        psr_sealed_out_free(out, 0);
        return err;
    }
    *ret_out = out;
    return PSR_OK;
}

psr_err psr_sealed_out_connect(psr_sealed_out *out, const char *endpoint)
{
    PSR_TRY(psr_zmq_set_tcp(out->push, strchr(endpoint, '[') != NULL));
    PSR_TRY(psr_zmq_keep_in_cache(out->push, endpoint));
    /* the first half of these numbers is the transport's own */
    PSR_TRY(psr_attempt_begin(out->outs->ctx, out->push, UINT64_MAX / 2 + out->outs->connected++,
                              &out->attempt));
    while (zmq_connect(out->push, endpoint) != 0)
        if (zmq_errno() != EINTR)
            return psr_fail(PSR_ERR_PROTOCOL, "endpoint %s: %s", endpoint,
                            zmq_strerror(zmq_errno()));
    return psr_sealed_out_greet(out);
}

void psr_sealed_out_answered(psr_sealed_out *out)
{
    (void)psr_attempt_goes_on(&out->attempt);
    psr_attempt_done(&out->attempt);
}

void psr_sealed_out_free(psr_sealed_out *out, int linger_ms)
{
    if (out == NULL)
        return;
    *out->link = out->next;
    if (out->next != NULL)
        out->next->link = out->link;
    while (out->first != NULL)
        take_first(out);
    psr_attempt_done(&out->attempt);
    if (out->push != NULL) {
        (void)zmq_setsockopt(out->push, ZMQ_LINGER, &linger_ms, sizeof linger_ms);
        zmq_close(out->push);
    }
    psr_seal_free(out->seal);
    flow_leave(out->flow);
    free(out);
}

psr_err psr_sealed_outs_new(void *zmq_ctx, psr_sealed_outs **ret_outs)
{
    psr_sealed_outs *outs = calloc(1, sizeof *outs);
    if (outs == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for sealed channels");
    outs->ctx = zmq_ctx;
    pthread_mutex_init(&outs->lock, NULL);
    outs->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    psr_err err = outs->fd >= 0 ? psr_seal_library_new(&outs->library)
                                : psr_fail(PSR_ERR_IO, "no descriptor: %s", strerror(errno));
    if (err != PSR_OK) {
        psr_sealed_outs_free(outs);
        return err;
    }
    *ret_outs = outs;
    return PSR_OK;
}

void psr_sealed_outs_free(psr_sealed_outs *outs)
{
    if (outs == NULL)
        return;
    assert(outs->first == NULL);
    for (buffer *b = outs->kept, *next; b != NULL; b = next) {
        next = b->next;
        free(b);
    }
    if (outs->fd >= 0)
        close(outs->fd);
    pthread_mutex_destroy(&outs->lock);
    psr_seal_library_free(outs->library);
    free(outs);
}

psr_seal_library *psr_sealed_outs_library(const psr_sealed_outs *outs)
{
    return outs->library;
}

int psr_sealed_outs_fd(const psr_sealed_outs *outs)
{
    return outs->fd;
}
