#include "net/zmq/inbox.h"

#include "net/transport_private.h"

#include "base/clock.h"
#include "net/trust/bindings.h"
#include "net/trust/admission.h"
#include "net/address/interface.h"
#include "net/address/socket_directory.h"
#include "net/zmq/sealed_in.h"
#include "net/zmq/sockets.h"

#include <errno.h>
#include <inttypes.h>
#include <stdalign.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <zmq.h>

#define CURVE_BYTES 64    /* more than encryption adds to a frame, which is 33 */
#define STRANGER_LINES 10 /* most lines in one window of time */
#define STRANGER_WINDOW_MS 10000
#define REFUSALS_QUEUED 4 /* most refusals that wait for one connection */
/* Messages read ahead from one connection: further ones stay with their sender, and nothing is
 * dropped. A rank that sends as much as it may without an answer (64 operations of 8 slices,
 * comm/collectives/group.h) is not held up by it. */
#define MESSAGES_READ_AHEAD 512
/* More messages than a pipe holds at once. Whoever has so many read before one that it sent by a
 * socket wrote some of them later, and keeps others out. */
#define PIPED_BEFORE_MAX (PSR_PIPE_BYTES / 64)

typedef struct frames {
    zmq_msg_t id, head, payload;
    unsigned count;
} frames;

struct psr_inbox {
    psr_zmq_options options;
    void *router;
    psr_admission *admission;
    psr_bindings bindings;
    char endpoint[PSR_SOCKET_DIRECTORY_BYTES + PSR_ADDRESS_BYTES + 32];
    /* path of an ipc socket, which is removed at the end. "": none */
    char file[PSR_SOCKET_DIRECTORY_BYTES + PSR_ADMISSION_NAME_BYTES + 16];
    psr_borrower *borrower; /* NULL: no memory is shared */
    psr_pipes_in *pipes;    /* NULL: nobody writes pipes */
    /* A message of the socket for which others are read from a pipe first. */
    bool any_kept;
    frames kept;
    size_t kept_after;       /* messages of the pipe that were read meanwhile */
    psr_sealed_in *sealed;   /* NULL: nothing comes sealed */
    psr_sealed_channel *due; /* what it holds, or its pipe, may have the next; NULL: none */
    bool sealed_first;       /* the two sockets take turns */
    uint64_t introductions;
    bool refused;               /* a process was refused, and its line may still be on its way */
    _Atomic uint64_t strangers; /* counts messages; admission counts connections */
    int64_t window_begin_ms;
    unsigned window_lines;
    uint64_t unlogged;
};

/* ---- strangers ---- */

static void log_stranger(psr_inbox *inbox, const char *line)
{
    if (inbox->options.log_stranger == NULL)
        return;
    int64_t now_ms = psr_clock_ms();
    if (now_ms - inbox->window_begin_ms >= STRANGER_WINDOW_MS) {
        inbox->window_begin_ms = now_ms;
        inbox->window_lines = 0;
    }
    if (inbox->window_lines == STRANGER_LINES) {
        inbox->unlogged++;
        return;
    }
    inbox->window_lines++;
    char text[512];
    if (inbox->unlogged > 0) {
        snprintf(text, sizeof text, "%s (and %" PRIu64 " more before)", line, inbox->unlogged);
        inbox->unlogged = 0;
        line = text;
    }
    inbox->options.log_stranger(inbox->options.log_context, line);
}

/* Counts and logs a message that is dropped: its connection passed admission, but it cannot be
 * attributed to a member. The caller drops the frames. */
static psr_err drop(psr_inbox *inbox, psr_peer claimed, const char *reason)
{
    psr_count_add(&inbox->strangers, 1);
    char name[PSR_ADMISSION_NAME_BYTES], line[256];
    psr_admission_name(claimed, name);
    snprintf(line, sizeof line, "dropped a message of a stranger who says it is %s: %s", name,
             reason);
    log_stranger(inbox, line);
    return PSR_OK;
}

/* A member has broken the protocol; err is the codec's. */
static psr_err violation(psr_peer peer, psr_err err)
{
    char name[PSR_ADMISSION_NAME_BYTES];
    psr_admission_name(peer, name);
    return psr_fail_context(err == PSR_ERR_FORMAT ? PSR_ERR_PROTOCOL : err, "%s", name);
}

/* ---- receiving ---- */

typedef struct received {
    psr_message base;
    zmq_msg_t frame;                  /* has the payload */
    uint8_t id[PSR_ROUTING_ID_BYTES]; /* that of the connection on which it came */
    void *aligned; /* a copy of the payload, if libzmq put it at an unaligned address */
} received;

static void received_release(psr_message *message)
{
    received *r = (received *)message;
    zmq_msg_close(&r->frame);
    free(r->aligned);
    free(r);
}

static void frames_close(frames *f)
{
    zmq_msg_close(&f->id);
    zmq_msg_close(&f->head);
    zmq_msg_close(&f->payload);
}

static void frames_move(frames *to, frames *from)
{
    zmq_msg_t *const into[] = {&to->id, &to->head, &to->payload};
    zmq_msg_t *const out_of[] = {&from->id, &from->head, &from->payload};
    for (size_t i = 0; i < 3; i++) {
        zmq_msg_init(into[i]);
        zmq_msg_move(into[i], out_of[i]);
    }
    to->count = from->count;
}

/* Receives all frames of the next message: id, head, payload; further ones are counted and thrown
 * away. false: there is none. */
static bool frames_receive(void *router, frames *f)
{
    zmq_msg_t *const kept[] = {&f->id, &f->head, &f->payload};
    for (size_t i = 0; i < 3; i++)
        zmq_msg_init(kept[i]);
    f->count = 0;
    if (!psr_zmq_receive_frame(router, &f->id))
        return false;
    bool more = zmq_msg_more(&f->id);
    for (f->count = 1; more; f->count++) {
        zmq_msg_t extra;
        zmq_msg_t *into = f->count < 3 ? kept[f->count] : &extra;
        if (into == &extra)
            zmq_msg_init(&extra);
        /* a message is there completely or not at all */
        bool ok = psr_zmq_receive_frame(router, into);
        more = ok && zmq_msg_more(into);
        if (into == &extra)
            zmq_msg_close(&extra);
    }
    return true;
}

/* ---- refusing ---- */

/* Back on the connection. The queue to it is short; what does not fit is dropped. */
static void send_back(psr_inbox *inbox, const void *id, size_t id_bytes, const psr_head *head,
                      const void *payload, size_t payload_bytes)
{
    uint8_t bytes[PSR_HEAD_BYTES_MAX];
    size_t size;
    psr_head_encode(head, payload_bytes, bytes, &size);
    if (psr_zmq_send(inbox->router, id, id_bytes, true) &&
        psr_zmq_send(inbox->router, bytes, size, payload_bytes > 0) && payload_bytes > 0)
        (void)psr_zmq_send(inbox->router, payload, payload_bytes, false);
}

/* REFUSED. Nobody fills memory by coming again and again: what does not fit is dropped. */
static void refuse(psr_inbox *inbox, const void *id, size_t id_bytes, psr_err status,
                   const char *line)
{
    const psr_head head = psr_msg_refused_head(status);
    inbox->refused = true;
    const size_t length = strlen(line);
    send_back(inbox, id, id_bytes, &head, line,
              length < PSR_REFUSED_LINE_MAX ? length : PSR_REFUSED_LINE_MAX);
}

void psr_inbox_refuse(psr_inbox *inbox, const psr_message *message, psr_err status,
                      const char *line)
{
    const received *r = (const received *)message;
    /* a message in shared memory has another release; no JOIN is in shared memory */
    if (message->release == received_release)
        refuse(inbox, r->id, sizeof r->id, status, line);
}

void psr_inbox_refuse_peer(psr_inbox *inbox, psr_peer peer, psr_err status, const char *line)
{
    const psr_binding *holder = psr_bindings_holder(&inbox->bindings, peer);
    if (holder != NULL)
        refuse(inbox, holder->id, sizeof holder->id, status, line);
}

const char *psr_inbox_address_of(const psr_inbox *inbox, psr_peer peer)
{
    const psr_binding *holder = psr_bindings_holder(&inbox->bindings, peer);
    return holder != NULL ? holder->address : "";
}

/* Its name is another process's: the first one keeps it. */
static psr_err refuse_second(psr_inbox *inbox, frames *f, psr_peer peer, const psr_binding *holder)
{
    const char *what = peer.role == PSR_ROLE_WORKER ? "rank" : psr_role_name(peer.role);
    bool told = holder->address[0] != '\0';
    char line[sizeof holder->address + 160];
    snprintf(line, sizeof line,
             "%s %" PRIu32 " is taken: it has joined before%s%s; start each %s once", what,
             peer.rank, told ? ", from " : "", holder->address, what);
    refuse(inbox, zmq_msg_data(&f->id), zmq_msg_size(&f->id), PSR_ERR_DENIED, line);
    return drop(inbox, peer, "another process joined under that name before");
}

/* Tells a process of another protocol version why it is refused: it knows preambles, and reads our
 * version there. */
static psr_err refuse_bytes(psr_inbox *inbox, frames *f, psr_peer peer, psr_err decoded)
{
    if (decoded == PSR_ERR_VERSION)
        refuse(inbox, zmq_msg_data(&f->id), zmq_msg_size(&f->id), decoded, psr_err_detail());
    return violation(peer, decoded);
}

/* The connection on which a message came is the member's from now on. Its earlier connection no
 * longer belongs to a member. */
static void take_connection(psr_inbox *inbox, frames *f, psr_binding *binding, uint64_t number,
                            const char *user)
{
    psr_connection newer =
        psr_admission_known(inbox->admission, binding->admitted, zmq_msg_get(&f->head, ZMQ_SRCFD));
    if (newer.cookie != 0)
        psr_bindings_forget_connection(&inbox->bindings, newer.cookie);
    psr_admission_unknown(inbox->admission, binding->connection);
    binding->connection = newer;
    binding->number = number;
    snprintf(binding->user, sizeof binding->user, "%s", user);
}

/* Whether who was let in under a name says that it is somebody else. */
static bool is_another(psr_peer known, psr_peer claimed)
{
    return claimed.role != known.role ||
           (claimed.rank != known.rank && claimed.rank != PSR_RANK_ANY &&
            known.rank != PSR_RANK_ANY);
}

/* The first message of a routing id: HELLO, of a peer whose name admission has checked. */
static psr_err introduce(psr_inbox *inbox, frames *f, psr_err decoded, const psr_head *head)
{
    psr_peer known, claimed;
    uint64_t number;
    const char *user = zmq_msg_gets(&f->head, "User-Id");
    if (user == NULL || !psr_admission_user_read(user, &known, &number))
        return drop(inbox, (psr_peer){PSR_ROLE_WORKER, PSR_RANK_ANY},
                    "it was not admitted under a name");
    const psr_binding *holder = psr_bindings_holder(&inbox->bindings, known);
    bool is_hello =
        decoded == PSR_OK && head->type == PSR_MSG_HELLO && head->sequence == 0 && f->count == 2;
    psr_err read = is_hello ? psr_msg_hello_read(head, &claimed) : PSR_ERR_PROTOCOL;
    /* A second process with a member's own key may be a mistake; a process that claims to be
     * another member is not. */
    if (read == PSR_OK && is_another(known, claimed))
        return violation(known, psr_fail(PSR_ERR_PROTOCOL, "says it is %s %" PRIu32,
                                         psr_role_name(claimed.role), claimed.rank));
    if (holder != NULL)
        return refuse_second(inbox, f, known, holder);
    if (decoded != PSR_OK)
        return refuse_bytes(inbox, f, known, decoded);
    if (!is_hello)
        return violation(known, psr_fail(PSR_ERR_PROTOCOL, "its first message is not HELLO"));
    if (read != PSR_OK)
        return violation(known, read);
    psr_peer peer = claimed.rank == PSR_RANK_ANY ? known : claimed;
    holder = psr_bindings_holder(&inbox->bindings, peer);
    if (holder != NULL)
        return refuse_second(inbox, f, peer, holder);
    psr_binding *binding;
    psr_err err = psr_bindings_add(&inbox->bindings, zmq_msg_data(&f->id), zmq_msg_size(&f->id),
                                   peer, known, &binding);
    if (err == PSR_ERR_DENIED)
        return drop(inbox, peer, psr_err_detail());
    PSR_TRY(err);
    const char *address = inbox->file[0] == '\0' ? zmq_msg_gets(&f->head, "Peer-Address") : NULL;
    if (address != NULL)
        snprintf(binding->address, sizeof binding->address, "%s", address);
    binding->sequence = 1;
    take_connection(inbox, f, binding, number, user);
    inbox->introductions++;
    return PSR_OK;
}

/* Whether the connection that a message came on was let in under the name to which its routing id
 * is bound. It may be a newer one than before. */
static bool is_bound(psr_inbox *inbox, psr_binding *binding, frames *f)
{
    psr_peer admitted;
    uint64_t number;
    const char *user = zmq_msg_gets(&f->head, "User-Id");
    if (user != NULL && strcmp(user, binding->user) == 0)
        return true;
    if (user == NULL || !psr_admission_user_read(user, &admitted, &number) ||
        !psr_peer_equal(admitted, binding->admitted))
        return false;
    if (number > binding->number)
        take_connection(inbox, f, binding, number, user);
    return true;
}

static void forget_sealed(psr_inbox *inbox, psr_binding *binding)
{
    if (inbox->due == binding->sealed)
        inbox->due = NULL;
    if (inbox->sealed != NULL)
        psr_sealed_in_forget(inbox->sealed, binding);
}

/* A later HELLO: a peer without a rank has been given one. */
static psr_err rename_peer(psr_inbox *inbox, psr_binding *binding, const psr_head *head)
{
    psr_peer claimed;
    psr_err read = psr_msg_hello_read(head, &claimed);
    if (read != PSR_OK)
        return violation(binding->peer, read);
    if (psr_peer_equal(claimed, binding->peer))
        return PSR_OK;
    if (claimed.role != binding->peer.role || binding->peer.rank != PSR_RANK_ANY)
        return violation(binding->peer, psr_fail(PSR_ERR_PROTOCOL, "now says it is %s %" PRIu32,
                                                 psr_role_name(claimed.role), claimed.rank));
    if (psr_bindings_holder(&inbox->bindings, claimed) != NULL) {
        psr_admission_unknown(inbox->admission, binding->connection);
        binding->connection = (psr_connection){0};
        binding->banned = true;
        forget_sealed(inbox, binding);
        return drop(inbox, claimed, "another process joined under that name before");
    }
    binding->peer = claimed;
    return PSR_OK;
}

/* What stands behind a head. */
typedef struct body {
    const void *bytes;
    size_t count;
    zmq_msg_t *frame; /* which it lies in */
    bool sealed;
} body;

/* Makes a message of what has been checked; takes the frame. */
static psr_err deliver(const body *b, const psr_binding *binding, const psr_head *head,
                       psr_message **ret_message)
{
    received *r = calloc(1, sizeof *r);
    if (r == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a message");
    r->base = (psr_message){.from = binding->peer, .head = *head, .release = received_release};
    memcpy(r->id, binding->id, sizeof r->id);
    const size_t offset =
        b->count > 0 ? (size_t)((const uint8_t *)b->bytes - (const uint8_t *)zmq_msg_data(b->frame))
                     : 0;
    zmq_msg_init(&r->frame);
    zmq_msg_move(&r->frame, b->frame);
    r->base.payload_bytes = b->count;
    r->base.payload = (const uint8_t *)zmq_msg_data(&r->frame) + offset;
    /* Large frames have memory of their own, which is aligned; small ones may lie anywhere in a
     * batch. */
    if ((uintptr_t)r->base.payload % _Alignof(double) != 0 && r->base.payload_bytes > 0) {
        r->aligned = malloc(r->base.payload_bytes);
        if (r->aligned == NULL) {
            received_release(&r->base);
            return psr_fail(PSR_ERR_NOMEM, "no memory for a message of %zu bytes",
                            r->base.payload_bytes);
        }
        memcpy(r->aligned, r->base.payload, r->base.payload_bytes);
        r->base.payload = r->aligned;
    }
    *ret_message = &r->base;
    return PSR_OK;
}

/* Whether the body stands for a payload in shared memory. It is shorter than any payload that may
 * be referred to. */
static bool refers(const psr_inbox *inbox, const body *b, uint64_t payload_bytes,
                   psr_reference *ret_reference)
{
    return inbox->borrower != NULL && b->count > 0 && payload_bytes >= PSR_REFERENCE_LEAST &&
           psr_reference_decode(b->bytes, b->count, ret_reference);
}

/* As deliver, for a payload that stays in its owner's memory. */
static psr_err deliver_reference(psr_inbox *inbox, const psr_binding *binding, const psr_head *head,
                                 uint64_t payload_bytes, const psr_reference *reference,
                                 psr_message **ret_message)
{
    psr_err err = psr_borrower_take(inbox->borrower, binding->id, binding->peer, head,
                                    payload_bytes, reference, ret_message);
    return err == PSR_OK ? PSR_OK : violation(binding->peer, err);
}

/* A member offers a key for sealed messages. */
static psr_err answer_offer(psr_inbox *inbox, psr_binding *binding, const psr_head *head,
                            const body *b)
{
    psr_head answer;
    uint8_t part[PSR_SEAL_PART_BYTES];
    if (inbox->sealed == NULL || b->sealed)
        return violation(binding->peer, psr_fail(PSR_ERR_PROTOCOL, "offers a key where none is"));
    psr_err err =
        psr_sealed_in_answer(inbox->sealed, binding, head, b->bytes, b->count, &answer, part);
    if (err != PSR_OK)
        return violation(binding->peer, err);
    send_back(inbox, binding->id, sizeof binding->id, &answer, part, sizeof part);
    psr_seal_wipe(part, sizeof part);
    return PSR_OK;
}

static psr_err sent_twice(const psr_binding *binding, const psr_head *head)
{
    return violation(binding->peer,
                     psr_fail(PSR_ERR_PROTOCOL, "sent message %" PRIu64 " twice", head->sequence));
}

static psr_err check_sequence(const psr_binding *binding, const psr_head *head)
{
    if (head->sequence < binding->sequence)
        return sent_twice(binding, head);
    uint64_t lost = head->sequence - binding->sequence;
    if (lost > 0)
        return violation(binding->peer,
                         psr_fail(PSR_ERR_PEER,
                                  "its connection broke and %" PRIu64 " message%s lost", lost,
                                  lost == 1 ? " was" : "s were"));
    return PSR_OK;
}

/* A message of a member, whose head has been read, is the next one of its channel. *ret_message
 * stays NULL when it was not for the owner. extra: frames behind the payload's. */
static psr_err take(psr_inbox *inbox, psr_binding *binding, const psr_head *head,
                    uint64_t payload_bytes, const body *b, unsigned extra,
                    psr_message **ret_message)
{
    if (inbox->pipes != NULL)
        psr_pipes_in_go_on(inbox->pipes);
    PSR_TRY(check_sequence(binding, head));
    psr_reference reference;
    if (extra == 0 && refers(inbox, b, payload_bytes, &reference)) {
        binding->sequence++;
        return deliver_reference(inbox, binding, head, payload_bytes, &reference, ret_message);
    }
    if (extra > 0 || payload_bytes != b->count)
        return violation(binding->peer, psr_fail(PSR_ERR_PROTOCOL,
                                                 "announced a payload of %" PRIu64
                                                 " bytes and sent %zu in %u frames",
                                                 payload_bytes, b->count, (b->count > 0) + extra));
    binding->sequence++;
    switch (head->type) {
    case PSR_MSG_HELLO:
        return rename_peer(inbox, binding, head);
    case PSR_MSG_KEY_OFFER:
        return answer_offer(inbox, binding, head, b);
    case PSR_MSG_KEY_ANSWER:
    case PSR_MSG_SEALED:
        return violation(binding->peer, psr_fail(PSR_ERR_PROTOCOL, "sent %s out of place",
                                                 psr_message_name(head->type)));
    default:
        return deliver(b, binding, head, ret_message);
    }
}

/* Whether what was sent before it is in the sender's pipe. */
static bool comes_after_piped(const psr_inbox *inbox, const psr_binding *binding)
{
    psr_piped piped;
    return inbox->pipes != NULL &&
           psr_pipes_in_look_at(inbox->pipes, binding->id, &piped) != PSR_PIPE_EMPTY;
}

/* *ret_message stays NULL when the frames were not for the owner: HELLO, a stranger's. may_keep:
 * messages that are read from a pipe may come before; *ret_keep: they do, and the frames are to be
 * handled again after them. */
static psr_err handle(psr_inbox *inbox, frames *f, bool may_keep, bool *ret_keep,
                      psr_message **ret_message)
{
    psr_head head = {0};
    uint64_t payload_bytes = 0;
    psr_err decoded =
        psr_head_decode(zmq_msg_data(&f->head), zmq_msg_size(&f->head), &head, &payload_bytes);
    psr_binding *binding =
        psr_bindings_find(&inbox->bindings, zmq_msg_data(&f->id), zmq_msg_size(&f->id));
    if (binding == NULL)
        return introduce(inbox, f, decoded, &head);
    if (binding->banned)
        return drop(inbox, binding->peer, "another process joined under that name before");
    if (!is_bound(inbox, binding, f))
        return drop(inbox, binding->peer, "the channel whose id it has is another process's");
    if (decoded != PSR_OK)
        return refuse_bytes(inbox, f, binding->peer, decoded);
    *ret_keep = head.sequence > binding->sequence && may_keep && comes_after_piped(inbox, binding);
    if (*ret_keep)
        return PSR_OK;
    const body b = {zmq_msg_data(&f->payload), zmq_msg_size(&f->payload), &f->payload, false};
    const unsigned expected = b.count > 0 ? 3 : 2;
    psr_err err = take(inbox, binding, &head, payload_bytes, &b,
                       f->count > expected ? f->count - expected : 0, ret_message);
    inbox->due = binding->sealed;
    return err;
}

/* ---- sealed messages ---- */

/* Of an opened frame. */
static psr_err read_sealed(const psr_binding *binding, zmq_msg_t *frame, psr_head *ret_head,
                           uint64_t *ret_announced, body *ret_body)
{
    const void *head;
    size_t head_bytes;
    body b = {.frame = frame, .sealed = true};
    psr_err err = psr_sealed_parts(zmq_msg_data(frame), zmq_msg_size(frame), &head, &head_bytes,
                                   &b.bytes, &b.count);
    if (err == PSR_OK)
        err = psr_head_decode(head, head_bytes, ret_head, ret_announced);
    if (err != PSR_OK)
        return violation(binding->peer, err);
    *ret_body = b;
    return PSR_OK;
}

/* An opened message. Those that its sender sent before by CURVE are perhaps still under way; those
 * that are in its pipe are read next, and nothing more of the sockets is held meanwhile. */
static psr_err take_opened(psr_inbox *inbox, psr_sealed_taken *taken, psr_message **ret_message)
{
    psr_sealed_channel *channel = taken->channel;
    psr_binding *binding = psr_bindings_find(&inbox->bindings, channel->id, sizeof channel->id);
    psr_head head;
    uint64_t announced;
    body b;
    PSR_TRY(read_sealed(binding, &taken->frame, &head, &announced, &b));
    if (channel->held == 0 && head.sequence <= binding->sequence)
        return take(inbox, binding, &head, announced, &b, 0, ret_message);
    psr_err err = psr_sealed_in_hold(channel, head.sequence, &taken->frame);
    if (err != PSR_OK)
        return violation(binding->peer, err);
    channel->held_after = 0;
    inbox->due = channel;
    return PSR_OK;
}

static psr_err take_sealed(psr_inbox *inbox, bool *ret_there, psr_message **ret_message)
{
    psr_sealed_taken taken;
    psr_err err = psr_sealed_in_take(inbox->sealed, &taken);
    const psr_sealed_channel *channel = taken.channel;
    const psr_binding *binding =
        channel != NULL ? psr_bindings_find(&inbox->bindings, channel->id, sizeof channel->id)
                        : NULL;
    *ret_there = err != PSR_OK || taken.what != PSR_SEALED_NOTHING;
    if (err != PSR_OK) {
        err = violation(binding->peer, err);
    } else if (taken.what == PSR_SEALED_DROPPED) {
        err =
            drop(inbox, binding != NULL ? binding->peer : (psr_peer){PSR_ROLE_WORKER, PSR_RANK_ANY},
                 taken.reason);
    } else if (taken.what == PSR_SEALED_GREETED) {
        const psr_head sealed = {.type = PSR_MSG_SEALED};
        send_back(inbox, channel->id, sizeof channel->id, &sealed, NULL, 0);
    } else if (taken.what == PSR_SEALED_OPENED) {
        err = take_opened(inbox, &taken, ret_message);
    }
    zmq_msg_close(&taken.frame);
    return err;
}

/* ---- all of it ---- */

static psr_err take_frames(psr_inbox *inbox, bool *ret_there, psr_message **ret_message)
{
    frames f;
    *ret_there = frames_receive(inbox->router, &f);
    psr_err err = *ret_there ? handle(inbox, &f, true, &inbox->any_kept, ret_message) : PSR_OK;
    if (inbox->any_kept) {
        frames_move(&inbox->kept, &f);
        inbox->kept_after = 0;
    }
    frames_close(&f);
    return err;
}

/* ---- pipes ---- */

/* A message whose payload was copied out of a pipe. */
typedef struct copied {
    psr_message base;
    alignas(max_align_t) unsigned char payload[];
} copied;

static void copied_release(psr_message *message)
{
    free(message);
}

static psr_err deliver_copy(const psr_piped *piped, psr_peer from, const psr_head *head,
                            psr_message **ret_message)
{
    copied *c = malloc(sizeof *c + piped->record.second_bytes);
    if (c == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a message");
    c->base = (psr_message){.from = from,
                            .head = *head,
                            .payload = c->payload,
                            .payload_bytes = piped->record.second_bytes,
                            .release = copied_release};
    memcpy(c->payload, piped->record.second, piped->record.second_bytes);
    *ret_message = &c->base;
    return PSR_OK;
}

/* The second frame, or what it stands for. Its length is known; its bytes may change. */
static psr_err deliver_piped(psr_inbox *inbox, const psr_binding *binding, const psr_piped *piped,
                             const psr_head *head, uint64_t payload_bytes,
                             psr_message **ret_message)
{
    uint8_t bytes[PSR_REFERENCE_BYTES];
    psr_reference reference;
    if (payload_bytes == piped->record.second_bytes)
        return deliver_copy(piped, binding->peer, head, ret_message);
    if (payload_bytes >= PSR_REFERENCE_LEAST && piped->record.second_bytes == sizeof bytes) {
        memcpy(bytes, piped->record.second, sizeof bytes);
        if (psr_reference_decode(bytes, sizeof bytes, &reference))
            return deliver_reference(inbox, binding, head, payload_bytes, &reference, ret_message);
    }
    return violation(binding->peer,
                     psr_fail(PSR_ERR_PROTOCOL,
                              "announced a payload of %" PRIu64 " bytes and wrote %zu",
                              payload_bytes, piped->record.second_bytes));
}

/* Of the second connection's records, which go by CURVE alone. */
static bool is_of_keys(const psr_head *head)
{
    return head->type == PSR_MSG_KEY_OFFER || head->type == PSR_MSG_KEY_ANSWER ||
           head->type == PSR_MSG_SEALED;
}

/* A record of a member. *ret_message stays NULL when a message of the socket must come before. */
static psr_err handle_record(psr_inbox *inbox, psr_binding *binding, const psr_piped *piped,
                             psr_message **ret_message)
{
    uint8_t bytes[PSR_HEAD_BYTES_MAX];
    psr_head head;
    uint64_t payload_bytes;
    if (piped->record.first_bytes > sizeof bytes)
        return violation(binding->peer, psr_fail(PSR_ERR_PROTOCOL, "wrote a head of %zu bytes",
                                                 piped->record.first_bytes));
    memcpy(bytes, piped->record.first, piped->record.first_bytes);
    psr_err err = psr_head_decode(bytes, piped->record.first_bytes, &head, &payload_bytes);
    if (err != PSR_OK)
        return violation(binding->peer, err);
    if (head.sequence < binding->sequence)
        return sent_twice(binding, &head);
    if (head.sequence > binding->sequence) {
        psr_pipes_in_hold_up(inbox->pipes, piped->place);
        return PSR_OK;
    }
    if (head.type == PSR_MSG_HELLO)
        return violation(binding->peer, psr_fail(PSR_ERR_PROTOCOL, "introduces itself in a pipe"));
    if (is_of_keys(&head))
        return violation(binding->peer, psr_fail(PSR_ERR_PROTOCOL, "sent %s in a pipe",
                                                 psr_message_name(head.type)));
    PSR_TRY(deliver_piped(inbox, binding, piped, &head, payload_bytes, ret_message));
    psr_pipes_in_next(inbox->pipes, piped);
    binding->sequence++;
    inbox->due = binding->sealed;
    return PSR_OK;
}

static psr_err handle_piped(psr_inbox *inbox, psr_pipe_look_result result, const psr_piped *piped,
                            psr_message **ret_message)
{
    psr_binding *binding = psr_bindings_find(&inbox->bindings, piped->id, sizeof piped->id);
    if (binding == NULL || binding->banned) { /* it has left: nobody reads its pipe */
        psr_pipes_in_hold_up(inbox->pipes, piped->place);
        return PSR_OK;
    }
    if (result == PSR_PIPE_BROKEN)
        return violation(binding->peer,
                         psr_fail(PSR_ERR_PROTOCOL, "wrote what is no message into its pipe"));
    return handle_record(inbox, binding, piped, ret_message);
}

psr_err psr_inbox_take_piped(psr_inbox *inbox, psr_message **ret_message)
{
    *ret_message = NULL;
    while (inbox->pipes != NULL && *ret_message == NULL && inbox->due == NULL) {
        psr_piped piped;
        const psr_pipe_look_result result = psr_pipes_in_look(inbox->pipes, &piped);
        if (result == PSR_PIPE_EMPTY)
            return PSR_OK;
        PSR_TRY(handle_piped(inbox, result, &piped, ret_message));
    }
    return PSR_OK;
}

/* The next message of one sender's pipe, if it is the next of its channel. count: of those. */
static psr_err take_piped_of(psr_inbox *inbox, const void *id, size_t *count,
                             psr_message **ret_message)
{
    psr_piped piped;
    if (inbox->pipes == NULL || *count == PIPED_BEFORE_MAX)
        return PSR_OK;
    const psr_pipe_look_result result = psr_pipes_in_look_at(inbox->pipes, id, &piped);
    if (result == PSR_PIPE_EMPTY)
        return PSR_OK;
    PSR_TRY(handle_piped(inbox, result, &piped, ret_message));
    *count += *ret_message != NULL;
    return PSR_OK;
}

/* A message of the socket is kept until those of its sender's pipe that come before it have been
 * read. All of those are there: the sender wrote them first. */
static psr_err take_kept(psr_inbox *inbox, psr_message **ret_message)
{
    bool keep = false;
    PSR_TRY(take_piped_of(inbox, zmq_msg_data(&inbox->kept.id), &inbox->kept_after, ret_message));
    if (*ret_message != NULL)
        return PSR_OK;
    const psr_err err = handle(inbox, &inbox->kept, false, &keep, ret_message);
    frames_close(&inbox->kept);
    inbox->any_kept = false;
    return err;
}

/* The next message of the channel that is due, if it is there: one that was held, or one of its
 * sender's pipe that comes before those. */
static psr_err take_due(psr_inbox *inbox, psr_message **ret_message)
{
    psr_sealed_channel *channel = inbox->due;
    psr_binding *binding = psr_bindings_find(&inbox->bindings, channel->id, sizeof channel->id);
    if (channel->held == 0 || psr_sealed_in_held(channel) > binding->sequence) {
        inbox->due = NULL; /* a message of the pipe makes it due again */
        return channel->held > 0
                   ? take_piped_of(inbox, channel->id, &channel->held_after, ret_message)
                   : PSR_OK;
    }
    psr_head head;
    uint64_t announced;
    body b;
    zmq_msg_t frame;
    zmq_msg_init(&frame);
    psr_sealed_in_take_held(channel, &frame);
    psr_err err = read_sealed(binding, &frame, &head, &announced, &b);
    if (err == PSR_OK)
        err = take(inbox, binding, &head, announced, &b, 0, ret_message);
    zmq_msg_close(&frame);
    return err;
}

/* ---- taking ---- */

bool psr_inbox_is_due(const psr_inbox *inbox)
{
    return inbox->due != NULL;
}

psr_err psr_inbox_take(psr_inbox *inbox, psr_message **ret_message)
{
    psr_message *message = NULL;
    psr_err err = PSR_OK;
    unsigned empty = 0;
    while (empty < 2 && err == PSR_OK && message == NULL) {
        bool there = false;
        if (inbox->due != NULL) {
            err = take_due(inbox, &message);
            continue;
        }
        if (inbox->any_kept) {
            err = take_kept(inbox, &message);
            continue;
        }
        inbox->sealed_first = !inbox->sealed_first;
        if (!inbox->sealed_first)
            err = take_frames(inbox, &there, &message);
        else if (inbox->sealed != NULL)
            err = take_sealed(inbox, &there, &message);
        empty = there ? 0 : empty + 1;
    }
    if (err == PSR_OK)
        *ret_message = message;
    return err;
}

void psr_inbox_borrow_by(psr_inbox *inbox, psr_borrower *borrower, psr_pipes_in *pipes)
{
    inbox->borrower = borrower;
    inbox->pipes = pipes;
}

bool psr_inbox_knows(const psr_inbox *inbox, const uint8_t id[PSR_ROUTING_ID_BYTES],
                     psr_peer *ret_peer)
{
    const psr_binding *binding = psr_bindings_find(&inbox->bindings, id, PSR_ROUTING_ID_BYTES);
    if (binding == NULL || binding->banned)
        return false;
    *ret_peer = binding->peer;
    return true;
}

uint64_t psr_inbox_introductions(const psr_inbox *inbox)
{
    return inbox->introductions;
}

void psr_inbox_retire(psr_inbox *inbox, psr_peer peer)
{
    if (inbox->borrower != NULL)
        psr_borrower_retire(inbox->borrower, peer);
    psr_binding *binding = psr_bindings_holder(&inbox->bindings, peer);
    if (binding != NULL)
        forget_sealed(inbox, binding);
    psr_admission_unknown(inbox->admission, psr_bindings_retire(&inbox->bindings, peer));
}

void *psr_inbox_socket(const psr_inbox *inbox)
{
    return inbox->router;
}

void *psr_inbox_sealed_socket(const psr_inbox *inbox)
{
    return inbox->sealed != NULL ? psr_sealed_in_socket(inbox->sealed) : NULL;
}

void *psr_inbox_strangers_socket(const psr_inbox *inbox)
{
    return psr_admission_refusals(inbox->admission);
}

void psr_inbox_tell_strangers(psr_inbox *inbox)
{
    char line[256];
    while (psr_admission_refusal(inbox->admission, line, sizeof line))
        log_stranger(inbox, line);
}

void psr_inbox_log_stranger(psr_inbox *inbox, const char *line)
{
    psr_count_add(&inbox->strangers, 1);
    log_stranger(inbox, line);
}

const char *psr_inbox_endpoint(const psr_inbox *inbox)
{
    return inbox->endpoint;
}

uint64_t psr_inbox_strangers(const psr_inbox *inbox)
{
    return atomic_load_explicit(&inbox->strangers, memory_order_relaxed) +
           psr_admission_refused(inbox->admission);
}

/* ---- beginning and end ---- */

/* libzmq would bind over any file. Only a socket on which nobody listens any more may be replaced:
 * a killed process has left it. */
static psr_err check_free(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof address.sun_path)
        return psr_fail(PSR_ERR_USAGE, "the path of socket %s is too long", path);
    strcpy(address.sun_path, path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return psr_fail(PSR_ERR_IO, "no descriptor for a socket: %s", strerror(errno));
    bool free_now = connect(fd, (const struct sockaddr *)&address, sizeof address) != 0 &&
                    (errno == ENOENT || errno == ECONNREFUSED);
    close(fd);
    return free_now ? PSR_OK : psr_fail(PSR_ERR_IO, "socket %s is in use: choose another", path);
}

/* The name that was asked for. */
static psr_err take_name(psr_inbox *inbox)
{
    const psr_zmq_options *o = &inbox->options;
    char path[sizeof inbox->file];
    int length = snprintf(path, sizeof path, "%s/%s", o->directory, o->socket);
    if (length >= (int)sizeof path)
        return psr_fail(PSR_ERR_USAGE, "the path of socket %s is too long", o->socket);
    PSR_TRY(check_free(path));
    memcpy(inbox->file, path, sizeof path);
    return PSR_OK;
}

static psr_err name_socket(psr_inbox *inbox)
{
    char name[PSR_ADMISSION_NAME_BYTES];
    if (inbox->options.socket != NULL)
        return take_name(inbox);
    psr_admission_name(inbox->options.self, name);
    return psr_socket_directory_name(inbox->options.directory, name, sizeof inbox->file,
                                     inbox->file);
}

/* The directory keeps other users out; where something else let them in, their number does not
 * pass. */
static psr_err bind_in_directory(psr_inbox *inbox)
{
    uid_t uid = geteuid();
    char wanted[sizeof inbox->file + 8];
    PSR_TRY(name_socket(inbox));
    PSR_TRY(psr_zmq_set(inbox->router, ZMQ_SNDHWM, REFUSALS_QUEUED, "ZMQ_SNDHWM"));
    snprintf(wanted, sizeof wanted, "ipc://%s", inbox->file);
    if (zmq_setsockopt(inbox->router, ZMQ_IPC_FILTER_UID, &uid, sizeof uid) != 0)
        return psr_zmq_failed("ZMQ_IPC_FILTER_UID");
    if (zmq_bind(inbox->router, wanted) != 0)
        return psr_fail(PSR_ERR_IO, "cannot listen on %s: %s", wanted, zmq_strerror(zmq_errno()));
    snprintf(inbox->endpoint, sizeof inbox->endpoint, "%s", wanted);
    return PSR_OK;
}

static psr_err bind_to_address(psr_inbox *inbox, const char *address)
{
    void *router = inbox->router;
    PSR_TRY(psr_zmq_set_tcp(router, strchr(address, ':') != NULL));
    PSR_TRY(psr_zmq_set(router, ZMQ_SNDHWM, REFUSALS_QUEUED, "ZMQ_SNDHWM"));
    char wanted[sizeof inbox->endpoint];
    psr_endpoint_format(address, inbox->options.port, wanted, sizeof wanted);
    if (zmq_bind(router, wanted) != 0 && zmq_errno() == EADDRINUSE)
        return psr_fail(
            PSR_ERR_IO,
            "port %u of %s is in use: choose another, or none and the kernel gives a free one",
            inbox->options.port, address);
    size_t size = sizeof inbox->endpoint;
    if (zmq_getsockopt(router, ZMQ_LAST_ENDPOINT, inbox->endpoint, &size) != 0 ||
        inbox->endpoint[0] == '\0')
        return psr_fail(PSR_ERR_IO, "cannot listen on %s: %s", wanted, zmq_strerror(zmq_errno()));
    return PSR_OK;
}

/* address: NULL for an ipc socket. */
static psr_err bind_router(psr_inbox *inbox, const char *address)
{
    void *router = inbox->router;
    PSR_TRY(psr_zmq_set(router, ZMQ_RCVHWM, MESSAGES_READ_AHEAD, "ZMQ_RCVHWM"));
    PSR_TRY(psr_zmq_set(router, ZMQ_LINGER, 0, "ZMQ_LINGER"));
    PSR_TRY(psr_zmq_set(router, ZMQ_BACKLOG, 1024, "ZMQ_BACKLOG"));
    /* for a member that connects again */
    PSR_TRY(psr_zmq_set(router, ZMQ_ROUTER_HANDOVER, 1, "ZMQ_ROUTER_HANDOVER"));
    PSR_TRY(psr_zmq_set_largest(router, PSR_PAYLOAD_BYTES_MAX + CURVE_BYTES));
    return address == NULL ? bind_in_directory(inbox) : bind_to_address(inbox, address);
}

psr_err psr_inbox_new(void *zmq_ctx, const psr_zmq_options *options, const char *address,
                      psr_inbox **ret_inbox)
{
    psr_inbox *inbox = calloc(1, sizeof *inbox);
    if (inbox == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for an inbox");
    inbox->options = *options;
    inbox->router = zmq_socket(zmq_ctx, ZMQ_ROUTER);
    psr_err err = inbox->router != NULL ? PSR_OK : psr_zmq_failed("making a socket");
    /* to the scheduler nothing comes sealed: all that it hears goes by CURVE */
    if (err == PSR_OK && address != NULL && options->keys->curve &&
        options->self.role != PSR_ROLE_SCHEDULER)
        err = psr_sealed_in_new(zmq_ctx, &inbox->sealed);
    if (err == PSR_OK)
        err = psr_admission_new(zmq_ctx, inbox->router, psr_inbox_sealed_socket(inbox),
                                options->keys, &inbox->admission);
    if (err == PSR_OK && options->members_look)
        psr_admission_members_look(inbox->admission);
    if (err == PSR_OK)
        err = bind_router(inbox, address);
    if (err == PSR_OK && inbox->sealed != NULL)
        err = psr_sealed_in_bind(inbox->sealed, address, inbox->admission);
    if (err != PSR_OK) {
        psr_inbox_free(inbox, 0);
        return err;
    }
    *ret_inbox = inbox;
    return PSR_OK;
}

void psr_inbox_free(psr_inbox *inbox, int linger_ms)
{
    if (inbox == NULL)
        return;
    psr_admission_free(inbox->admission);
    if (inbox->any_kept)
        frames_close(&inbox->kept);
    if (inbox->refused)
        (void)zmq_setsockopt(inbox->router, ZMQ_LINGER, &linger_ms, sizeof linger_ms);
    if (inbox->router != NULL)
        zmq_close(inbox->router);
    if (inbox->file[0] != '\0')
        /* libzmq does not remove it; whoever removes the directory may have */
        (void)unlink(inbox->file);
    psr_sealed_in_free(inbox->sealed);
    psr_bindings_done(&inbox->bindings);
    free(inbox);
}
