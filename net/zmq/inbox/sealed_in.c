#include "net/zmq/inbox/sealed_in.h"

#include "net/address/interface.h"
#include "net/zmq/sockets.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Messages of one connection that libzmq reads ahead. Fewer than of a CURVE connection: who saw a
 * token go by can open PSR_UNKNOWN_MAX of these. */
#define MESSAGES_READ_AHEAD 32
/* What an honest member can send sealed while its last messages by CURVE are on their way: it goes
 * over when all of those have left, so that is what the network delays them by. */
#define HELD_MAX 65536
#define HELD_BYTES_MAX ((size_t)1 << 30)

struct psr_sealed_held {
    psr_sealed_held *next;
    uint64_t sequence;
    zmq_msg_t frame;
};

struct psr_sealed_in {
    void *pull;
    psr_admission *admission;
    psr_seal_library *library;
    uint16_t port;
    psr_sealed_channel **channels; /* [number]; NULL: it has ended. A number is used once */
    size_t count, capacity;
};

/* ---- channels ---- */

static void channel_free(psr_sealed_channel *channel)
{
    while (channel->first != NULL) {
        zmq_msg_t frame;
        zmq_msg_init(&frame);
        psr_sealed_in_take_held(channel, &frame);
        zmq_msg_close(&frame);
    }
    psr_seal_free(channel->opener);
    psr_seal_wipe(channel->offered, sizeof channel->offered);
    psr_seal_wipe(channel->answered, sizeof channel->answered);
    free(channel);
}

static psr_err make_room(psr_sealed_in *in)
{
    if (in->count < in->capacity)
        return PSR_OK;
    size_t capacity = in->capacity * 2 + 16;
    psr_sealed_channel **grown = realloc(in->channels, capacity * sizeof *grown);
    if (grown == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for %zu channels", capacity);
    in->channels = grown;
    in->capacity = capacity;
    return PSR_OK;
}

static psr_err open_channel(psr_sealed_in *in, psr_binding *binding, psr_cipher cipher,
                            const psr_seal_secret *secret)
{
    PSR_TRY(make_room(in));
    psr_sealed_channel *channel = calloc(1, sizeof *channel);
    if (channel == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a channel");
    channel->number = (uint32_t)in->count;
    channel->admitted = binding->admitted;
    memcpy(channel->id, binding->id, sizeof channel->id);
    psr_err err = psr_seal_new(in->library, cipher, secret->key, false, &channel->opener);
    if (err == PSR_OK)
        err =
            psr_admission_expect(in->admission, channel->number, secret->token, binding->admitted);
    if (err != PSR_OK) {
        channel_free(channel);
        return err;
    }
    in->channels[in->count++] = channel;
    binding->sealed = channel;
    return PSR_OK;
}

/* *ret_first: it is the first one of that member. */
static psr_err check_offer(const psr_binding *binding, const void *part, psr_cipher cipher,
                           bool *ret_first)
{
    psr_sealed_channel *channel = binding->sealed;
    *ret_first = channel == NULL;
    if (channel == NULL)
        return PSR_OK;
    if (cipher != channel->cipher || memcmp(part, channel->offered, sizeof channel->offered) != 0)
        return psr_fail(PSR_ERR_PROTOCOL, "offers a second key");
    if (channel->offers == PSR_KEY_OFFERS_MAX)
        return psr_fail(PSR_ERR_PROTOCOL, "offers a key %d times", PSR_KEY_OFFERS_MAX + 1);
    return PSR_OK;
}

static psr_err answer_first(psr_sealed_in *in, psr_binding *binding, const void *part,
                            psr_cipher cipher)
{
    uint8_t own[PSR_SEAL_PART_BYTES];
    psr_seal_secret secret;
    PSR_TRY(psr_seal_part(own));
    psr_err err =
        psr_seal_agree(in->library, part, own, cipher, binding->id, sizeof binding->id, &secret);
    if (err == PSR_OK)
        err = open_channel(in, binding, cipher, &secret);
    if (err == PSR_OK) {
        psr_sealed_channel *channel = binding->sealed;
        channel->cipher = cipher;
        memcpy(channel->offered, part, sizeof channel->offered);
        memcpy(channel->answered, own, sizeof channel->answered);
    }
    psr_seal_wipe(&secret, sizeof secret);
    psr_seal_wipe(own, sizeof own);
    return err;
}

psr_err psr_sealed_in_answer(psr_sealed_in *in, psr_binding *binding, const psr_head *offer,
                             const void *part, size_t part_bytes, psr_head *ret_answer,
                             uint8_t ret_part[PSR_SEAL_PART_BYTES])
{
    unsigned ciphers;
    bool first;
    psr_key_answer answer = {.port = in->port};
    PSR_TRY(psr_msg_key_offer_read(offer, part_bytes, &ciphers));
    if (!psr_seal_choose(psr_seal_ciphers(), ciphers, &answer.cipher))
        return psr_fail(PSR_ERR_PROTOCOL, "offers no cipher that every member has");
    PSR_TRY(check_offer(binding, part, answer.cipher, &first));
    if (first)
        PSR_TRY(answer_first(in, binding, part, answer.cipher));
    psr_sealed_channel *channel = binding->sealed;
    channel->offers++;
    answer.channel = channel->number;
    *ret_answer = psr_msg_key_answer_head(&answer);
    memcpy(ret_part, channel->answered, sizeof channel->answered);
    return PSR_OK;
}

void psr_sealed_in_forget(psr_sealed_in *in, psr_binding *binding)
{
    psr_sealed_channel *channel = binding->sealed;
    if (channel == NULL)
        return;
    binding->sealed = NULL;
    psr_admission_expect_no_more(in->admission, channel->number);
    psr_admission_unknown(in->admission, channel->connection);
    in->channels[channel->number] = NULL;
    channel_free(channel);
}

/* ---- what overtakes ---- */

psr_err psr_sealed_in_hold(psr_sealed_channel *channel, uint64_t sequence, zmq_msg_t *frame)
{
    if (channel->held == HELD_MAX || channel->held_bytes > HELD_BYTES_MAX)
        return psr_fail(PSR_ERR_PROTOCOL, "sent %zu sealed messages ahead of some that do not come",
                        channel->held);
    psr_sealed_held *held = malloc(sizeof *held);
    if (held == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a message");
    held->next = NULL;
    held->sequence = sequence;
    zmq_msg_init(&held->frame);
    zmq_msg_move(&held->frame, frame);
    if (channel->last != NULL)
        channel->last->next = held;
    else
        channel->first = held;
    channel->last = held;
    channel->held++;
    channel->held_bytes += zmq_msg_size(&held->frame);
    return PSR_OK;
}

uint64_t psr_sealed_in_held(const psr_sealed_channel *channel)
{
    return channel->first->sequence;
}

void psr_sealed_in_take_held(psr_sealed_channel *channel, zmq_msg_t *frame)
{
    psr_sealed_held *held = channel->first;
    channel->first = held->next;
    if (channel->first == NULL)
        channel->last = NULL;
    channel->held--;
    channel->held_bytes -= zmq_msg_size(&held->frame);
    zmq_msg_move(frame, &held->frame);
    zmq_msg_close(&held->frame);
    free(held);
}

/* ---- receiving ---- */

/* Drops it, and ends its connection unless that is a channel's. */
static psr_err drop(psr_sealed_in *in, psr_sealed_taken *taken, const char *reason)
{
    taken->what = PSR_SEALED_DROPPED;
    taken->reason = reason;
    psr_admission_end(in->admission, zmq_msg_get(&taken->frame, ZMQ_SRCFD));
    return PSR_OK;
}

/* The connection on which a message came that opened is the channel's from now on. */
static void take_connection(psr_sealed_in *in, psr_sealed_channel *channel, zmq_msg_t *frame)
{
    const char *user = zmq_msg_gets(frame, "User-Id");
    if (user == NULL || strcmp(user, channel->user) == 0)
        return;
    psr_connection newer =
        psr_admission_known(in->admission, channel->admitted, zmq_msg_get(frame, ZMQ_SRCFD));
    psr_admission_unknown(in->admission, channel->connection);
    channel->connection = newer;
    snprintf(channel->user, sizeof channel->user, "%s", user);
}

/* The first message of a channel says that its connection is there, and nothing else. */
static psr_err greet(psr_sealed_taken *taken)
{
    const void *head_bytes, *payload;
    size_t head_size, payload_bytes;
    psr_head head;
    uint64_t announced;
    PSR_TRY(psr_sealed_parts(zmq_msg_data(&taken->frame), zmq_msg_size(&taken->frame), &head_bytes,
                             &head_size, &payload, &payload_bytes));
    PSR_TRY(psr_head_decode(head_bytes, head_size, &head, &announced));
    if (head.type != PSR_MSG_SEALED || announced != 0 || payload_bytes != 0)
        return psr_fail(PSR_ERR_PROTOCOL, "its first sealed message is not SEALED");
    taken->what = PSR_SEALED_GREETED;
    return PSR_OK;
}

static psr_err take_frame(psr_sealed_in *in, psr_sealed_taken *taken)
{
    uint8_t *bytes = zmq_msg_data(&taken->frame);
    size_t size = zmq_msg_size(&taken->frame);
    uint32_t number;
    uint64_t at;
    if (zmq_msg_more(&taken->frame)) {
        do { /* it is there completely */
            if (!psr_zmq_receive_frame(in->pull, &taken->frame))
                break;
        } while (zmq_msg_more(&taken->frame));
        return drop(in, taken, "it is no sealed message");
    }
    if (!psr_sealed_prefix(bytes, size, &number, &at))
        return drop(in, taken, "it is no sealed message");
    psr_sealed_channel *channel = number < in->count ? in->channels[number] : NULL;
    if (channel == NULL)
        return drop(in, taken, "it is of no channel");
    taken->channel = channel;
    bool again = at == 0 && channel->next == 1; /* SEALED did not come back to it */
    if (at < channel->next && !again)
        return drop(in, taken, "it has come before");
    if (!psr_sealed_open(channel->opener, number, at, bytes, size))
        return drop(in, taken, "it does not open: it was changed, or is somebody else's");
    if (at > channel->next)
        return psr_fail(PSR_ERR_PEER, "its connection broke and %" PRIu64 " sealed message%s lost",
                        at - channel->next, at - channel->next == 1 ? " was" : "s were");
    take_connection(in, channel, &taken->frame);
    channel->next = at + 1;
    if (at == 0)
        return greet(taken);
    taken->what = PSR_SEALED_OPENED;
    return PSR_OK;
}

psr_err psr_sealed_in_take(psr_sealed_in *in, psr_sealed_taken *ret_taken)
{
    *ret_taken = (psr_sealed_taken){.what = PSR_SEALED_NOTHING};
    zmq_msg_init(&ret_taken->frame);
    return psr_zmq_receive_frame(in->pull, &ret_taken->frame) ? take_frame(in, ret_taken) : PSR_OK;
}

/* ---- beginning and end ---- */

void *psr_sealed_in_socket(const psr_sealed_in *in)
{
    return in->pull;
}

static psr_err set_pull(void *pull)
{
    PSR_TRY(psr_zmq_set(pull, ZMQ_RCVHWM, MESSAGES_READ_AHEAD, "ZMQ_RCVHWM"));
    PSR_TRY(psr_zmq_set(pull, ZMQ_LINGER, 0, "ZMQ_LINGER"));
    PSR_TRY(psr_zmq_set(pull, ZMQ_BACKLOG, 1024, "ZMQ_BACKLOG"));
    return psr_zmq_set_largest(pull, PSR_SEALED_BYTES_MAX);
}

psr_err psr_sealed_in_bind(psr_sealed_in *in, const char *address, psr_admission *admission)
{
    char wanted[PSR_ADDRESS_BYTES + 32], endpoint[PSR_ADDRESS_BYTES + 32];
    size_t size = sizeof endpoint;
    in->admission = admission;
    PSR_TRY(psr_zmq_set_tcp(in->pull, strchr(address, ':') != NULL));
    psr_endpoint_format(address, 0, wanted, sizeof wanted);
    if (zmq_bind(in->pull, wanted) != 0 ||
        zmq_getsockopt(in->pull, ZMQ_LAST_ENDPOINT, endpoint, &size) != 0)
        return psr_fail(PSR_ERR_IO, "cannot listen on %s: %s", wanted, zmq_strerror(zmq_errno()));
    const char *port = strrchr(endpoint, ':');
    in->port = port != NULL ? (uint16_t)strtoul(port + 1, NULL, 10) : 0;
    return PSR_OK;
}

psr_err psr_sealed_in_new(void *zmq_ctx, psr_sealed_in **ret_in)
{
    psr_sealed_in *in = calloc(1, sizeof *in);
    if (in == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for an inbox");
    in->pull = zmq_socket(zmq_ctx, ZMQ_PULL);
    psr_err err = in->pull != NULL ? set_pull(in->pull) : psr_zmq_failed("making a socket");
    if (err == PSR_OK)
        err = psr_seal_library_new(&in->library);
    if (err != PSR_OK) {
        psr_sealed_in_free(in);
        return err;
    }
    *ret_in = in;
    return PSR_OK;
}

void psr_sealed_in_free(psr_sealed_in *in)
{
    if (in == NULL)
        return;
    for (size_t i = 0; i < in->count; i++)
        if (in->channels[i] != NULL)
            channel_free(in->channels[i]);
    free(in->channels);
    if (in->pull != NULL)
        zmq_close(in->pull);
    psr_seal_library_free(in->library);
    free(in);
}
