/* Who sends: strangers, introductions, and who is refused. */
#include "net/zmq/inbox/inbox_private.h"

#include "base/clock.h"
#include "net/zmq/sockets.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define STRANGER_LINES 10 /* most lines in one window of time */
#define STRANGER_WINDOW_MS 10000

/* ---- strangers ---- */

void psr_inbox_say_stranger(psr_inbox *inbox, const char *line)
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
psr_err psr_inbox_drop(psr_inbox *inbox, psr_peer claimed, const char *reason)
{
    psr_count_add(&inbox->strangers, 1);
    char name[PSR_ADMISSION_NAME_BYTES], line[256];
    psr_admission_name(claimed, name);
    snprintf(line, sizeof line, "dropped a message of a stranger who says it is %s: %s", name,
             reason);
    psr_inbox_say_stranger(inbox, line);
    return PSR_OK;
}

/* A member has broken the protocol; err is the codec's. */
psr_err psr_inbox_violation(psr_peer peer, psr_err err)
{
    char name[PSR_ADMISSION_NAME_BYTES];
    psr_admission_name(peer, name);
    return psr_fail_context(err == PSR_ERR_FORMAT ? PSR_ERR_PROTOCOL : err, "%s", name);
}

void psr_inbox_tell_strangers(psr_inbox *inbox)
{
    char line[256];
    while (psr_admission_refusal(inbox->admission, line, sizeof line))
        psr_inbox_say_stranger(inbox, line);
}

void psr_inbox_log_stranger(psr_inbox *inbox, const char *line)
{
    psr_count_add(&inbox->strangers, 1);
    psr_inbox_say_stranger(inbox, line);
}

uint64_t psr_inbox_strangers(const psr_inbox *inbox)
{
    return atomic_load_explicit(&inbox->strangers, memory_order_relaxed) +
           psr_admission_refused(inbox->admission);
}

/* ---- refusing ---- */

/* Back on the connection. The queue to it is short; what does not fit is dropped. */
void psr_inbox_send_back(psr_inbox *inbox, const void *id, size_t id_bytes, const psr_head *head,
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
    psr_inbox_send_back(inbox, id, id_bytes, &head, line,
                        length < PSR_REFUSED_LINE_MAX ? length : PSR_REFUSED_LINE_MAX);
}

void psr_inbox_refuse(psr_inbox *inbox, const psr_message *message, psr_err status,
                      const char *line)
{
    const psr_inbox_received *r = (const psr_inbox_received *)message;
    /* a message in shared memory has another release; no JOIN is in shared memory */
    if (message->release == psr_inbox_received_release)
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
static psr_err refuse_second(psr_inbox *inbox, psr_frames *f, psr_peer peer,
                             const psr_binding *holder)
{
    const char *what = peer.role == PSR_ROLE_WORKER ? "rank" : psr_role_name(peer.role);
    bool told = holder->address[0] != '\0';
    char line[sizeof holder->address + 160];
    snprintf(line, sizeof line,
             "%s %" PRIu32 " is taken: it has joined before%s%s; start each %s once", what,
             peer.rank, told ? ", from " : "", holder->address, what);
    refuse(inbox, zmq_msg_data(&f->id), zmq_msg_size(&f->id), PSR_ERR_DENIED, line);
    return psr_inbox_drop(inbox, peer, "another process joined under that name before");
}

/* Tells a process of another protocol version why it is refused: it knows preambles, and reads our
 * version there. */
psr_err psr_inbox_refuse_bytes(psr_inbox *inbox, psr_frames *f, psr_peer peer, psr_err decoded)
{
    if (decoded == PSR_ERR_VERSION)
        refuse(inbox, zmq_msg_data(&f->id), zmq_msg_size(&f->id), decoded, psr_err_detail());
    return psr_inbox_violation(peer, decoded);
}

/* ---- introductions ---- */

/* The connection on which a message came is the member's from now on. Its earlier connection no
 * longer belongs to a member. */
static void take_connection(psr_inbox *inbox, psr_frames *f, psr_binding *binding, uint64_t number,
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
psr_err psr_inbox_introduce(psr_inbox *inbox, psr_frames *f, psr_err decoded, const psr_head *head)
{
    psr_peer known, claimed;
    uint64_t number;
    const char *user = zmq_msg_gets(&f->head, "User-Id");
    if (user == NULL || !psr_admission_user_read(user, &known, &number))
        return psr_inbox_drop(inbox, (psr_peer){PSR_ROLE_WORKER, PSR_RANK_ANY},
                              "it was not admitted under a name");
    const psr_binding *holder = psr_bindings_holder(&inbox->bindings, known);
    bool is_hello =
        decoded == PSR_OK && head->type == PSR_MSG_HELLO && head->sequence == 0 && f->count == 2;
    psr_err read = is_hello ? psr_msg_hello_read(head, &claimed) : PSR_ERR_PROTOCOL;
    /* A second process with a member's own key may be a mistake; a process that claims to be
     * another member is not. */
    if (read == PSR_OK && is_another(known, claimed))
        return psr_inbox_violation(known, psr_fail(PSR_ERR_PROTOCOL, "says it is %s %" PRIu32,
                                                   psr_role_name(claimed.role), claimed.rank));
    if (holder != NULL)
        return refuse_second(inbox, f, known, holder);
    if (decoded != PSR_OK)
        return psr_inbox_refuse_bytes(inbox, f, known, decoded);
    if (!is_hello)
        return psr_inbox_violation(known,
                                   psr_fail(PSR_ERR_PROTOCOL, "its first message is not HELLO"));
    if (read != PSR_OK)
        return psr_inbox_violation(known, read);
    psr_peer peer = claimed.rank == PSR_RANK_ANY ? known : claimed;
    holder = psr_bindings_holder(&inbox->bindings, peer);
    if (holder != NULL)
        return refuse_second(inbox, f, peer, holder);
    psr_binding *binding;
    psr_err err = psr_bindings_add(&inbox->bindings, zmq_msg_data(&f->id), zmq_msg_size(&f->id),
                                   peer, known, &binding);
    if (err == PSR_ERR_DENIED)
        return psr_inbox_drop(inbox, peer, psr_err_detail());
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
bool psr_inbox_is_bound(psr_inbox *inbox, psr_binding *binding, psr_frames *f)
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

void psr_inbox_forget_sealed(psr_inbox *inbox, psr_binding *binding)
{
    if (inbox->due == binding->sealed)
        inbox->due = NULL;
    if (inbox->sealed != NULL)
        psr_sealed_in_forget(inbox->sealed, binding);
}

/* A later HELLO: a peer without a rank has been given one. */
psr_err psr_inbox_rename(psr_inbox *inbox, psr_binding *binding, const psr_head *head)
{
    psr_peer claimed;
    psr_err read = psr_msg_hello_read(head, &claimed);
    if (read != PSR_OK)
        return psr_inbox_violation(binding->peer, read);
    if (psr_peer_equal(claimed, binding->peer))
        return PSR_OK;
    if (claimed.role != binding->peer.role || binding->peer.rank != PSR_RANK_ANY)
        return psr_inbox_violation(binding->peer,
                                   psr_fail(PSR_ERR_PROTOCOL, "now says it is %s %" PRIu32,
                                            psr_role_name(claimed.role), claimed.rank));
    if (psr_bindings_holder(&inbox->bindings, claimed) != NULL) {
        psr_admission_unknown(inbox->admission, binding->connection);
        binding->connection = (psr_connection){0};
        binding->banned = true;
        psr_inbox_forget_sealed(inbox, binding);
        return psr_inbox_drop(inbox, claimed, "another process joined under that name before");
    }
    binding->peer = claimed;
    return PSR_OK;
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

/* ---- members that end ---- */

void psr_inbox_tell_ends(psr_inbox *inbox)
{
    psr_admission_tell_ends(inbox->admission);
}

bool psr_inbox_any_ended(psr_inbox *inbox)
{
    return psr_admission_any_ended(inbox->admission);
}

psr_half_open_state psr_inbox_state_of(const psr_inbox *inbox, psr_peer peer)
{
    const psr_binding *holder = psr_bindings_holder(&inbox->bindings, peer);
    if (holder == NULL)
        return PSR_HALF_OPEN_CONNECTED;
    const psr_half_open_state state =
        psr_half_open_state_of(holder->connection.fd, holder->connection.cookie);
    const bool may_be_back =
        state == PSR_HALF_OPEN_ENDED && psr_admission_awaits(inbox->admission, holder->admitted);
    return may_be_back ? PSR_HALF_OPEN_ENDING : state;
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
        psr_inbox_forget_sealed(inbox, binding);
    psr_admission_unknown(inbox->admission, psr_bindings_retire(&inbox->bindings, peer));
}
