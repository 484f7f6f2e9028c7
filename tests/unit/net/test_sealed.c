/* Second connections, on which members send sealed messages: two transports over real sockets, and
 * members that are played by hand, whose every byte a test chooses. */
#include "tests/unit/network_fixture.h"

#include "net/trust/admission.h"
#include "net/trust/bindings.h"
#include "net/trust/sealed_frame.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zmq.h>

static run_keys keys;
static psr_transport *a, *b, *s;

static int set_up(void **state)
{
    (void)state;
    stranger_lines[0] = '\0';
    keys = make_keys(true);
    a = open_member(&keys, worker0);
    b = open_member(&keys, worker1);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    psr_transport_free(&a, 0);
    psr_transport_free(&b, 0);
    psr_transport_free(&s, 0);
    free_keys(&keys);
    return 0;
}

static uint64_t sealed_bytes(const psr_transport *transport)
{
    psr_transport_counts counts;
    psr_transport_counts_get(transport, &counts);
    return counts.bytes_sealed;
}

static uint64_t strangers(const psr_transport *transport)
{
    psr_transport_counts counts;
    psr_transport_counts_get(transport, &counts);
    return counts.strangers;
}

/* Serves a transport for a moment; nothing may be delivered. */
static void serve(psr_transport *transport)
{
    psr_message *message = NULL;
    psr_err err = psr_transport_recv(transport, 5, &message);
    if (err != PSR_ERR_TIMEOUT)
        fail_msg("%s: %s", psr_err_name(err), psr_err_detail());
}

static void send_values(psr_transport *from, psr_peer to, uint64_t round, const void *values,
                        size_t bytes)
{
    const psr_head head = {.type = PSR_MSG_VALUES, .tag = {.round = round}};
    assert_ok(psr_transport_send(from, to, &head, &(psr_payload){.data = values, .bytes = bytes}));
}

static void receive_values(psr_transport *at, psr_peer from, uint64_t round, const void *values,
                           size_t bytes)
{
    psr_message *message = receive(at);
    assert_true(psr_peer_equal(message->from, from));
    assert_int_equal(message->head.type, PSR_MSG_VALUES);
    assert_int_equal(message->head.tag.round, round);
    assert_int_equal(message->payload_bytes, bytes);
    assert_memory_equal(message->payload, values, bytes);
    psr_message_free(&message);
}

/* Messages go all the while: first by CURVE, then sealed, and none is lost between. Returns the
 * next round. */
static uint64_t go_sealed(psr_transport *from, psr_peer self, psr_transport *to, psr_peer peer)
{
    uint64_t round = 0;
    for (int64_t end_ms = psr_clock_ms() + WAIT_MS; sealed_bytes(from) == 0; round++) {
        assert_true(psr_clock_ms() < end_ms);
        serve(from);
        send_values(from, peer, round, "12345678", 8);
        receive_values(to, self, round, "12345678", 8);
    }
    return round;
}

/* ---- two members ---- */

static void what_members_send_goes_sealed_once_there_is_a_key(void **state)
{
    (void)state;
    join_to(a, worker1, b);
    join_to(b, worker0, a);
    uint64_t there = go_sealed(a, worker0, b, worker1), back = go_sealed(b, worker1, a, worker0);
    const uint64_t before = sealed_bytes(a);
    send_values(a, worker1, there, "and more", 8);
    receive_values(b, worker0, there, "and more", 8);
    send_values(b, worker0, back, "and back", 8);
    receive_values(a, worker1, back, "and back", 8);
    assert_int_equal(sealed_bytes(a), before + 8);
    send_number(a, worker1, 17); /* and what has no payload */
    receive_number(b, worker0, 17);
    assert_int_equal(strangers(a) + strangers(b), 0);
}

static void a_sealed_channel_keeps_the_order_of_messages_of_all_sizes(void **state)
{
    (void)state;
    enum { COUNT = 600 };
    static uint8_t bytes[PSR_PAYLOAD_BYTES_MAX];
    join_to(a, worker1, b);
    uint64_t first = go_sealed(a, worker0, b, worker1);
    for (uint64_t i = 0; i < COUNT; i++) {
        const size_t size = i % 7 == 0 ? sizeof bytes - i : 1 + i % 90;
        memset(bytes, (int)i, size);
        send_values(a, worker1, first + i, bytes, size);
    }
    assert_true(psr_transport_waiting(a, worker1) > 0); /* far more than the kernel takes */
    for (uint64_t i = 0; i < COUNT; i++) {
        const size_t size = i % 7 == 0 ? sizeof bytes - i : 1 + i % 90;
        psr_message *message = NULL;
        while (psr_transport_recv(b, 1, &message) == PSR_ERR_TIMEOUT)
            serve(a); /* which sends on what waits */
        memset(bytes, (int)i, size);
        assert_int_equal(message->head.tag.round, first + i);
        assert_int_equal(message->payload_bytes, size);
        assert_memory_equal(message->payload, bytes, size);
        assert_int_equal((uintptr_t)message->payload % _Alignof(double), 0);
        psr_message_free(&message);
    }
    while (psr_transport_waiting(a, worker1) > 0)
        serve(a);
}

static void *end_first(void *context)
{
    psr_transport_free(context, WAIT_MS);
    return NULL;
}

/* More than may be on its way waits at the sender, as it was lent. */
static void count_release(void *context)
{
    ++*(size_t *)context;
}

static void loans_end_once_each_however_a_channel_ends(void **state)
{
    (void)state;
    enum { COUNT = 40 };
    static uint8_t bytes[PSR_PAYLOAD_BYTES_MAX];
    static size_t released; /* by other threads too, which end with the transport */
    released = 0;
    join_to(a, worker1, b);
    go_sealed(a, worker0, b, worker1);
    for (uint64_t i = 0; i < COUNT; i++) {
        const psr_head head = {.type = PSR_MSG_VALUES, .tag = {.round = i}};
        assert_ok(psr_transport_send(
            a, worker1, &head, &(psr_payload){bytes, sizeof bytes, count_release, &released}));
    }
    assert_true(released < COUNT);
    psr_transport_disconnect(a, worker1);
    assert_int_equal(released, COUNT);
}

static void what_waits_is_sent_before_a_transport_ends(void **state)
{
    (void)state;
    enum { COUNT = 30 };
    static uint8_t bytes[PSR_PAYLOAD_BYTES_MAX];
    join_to(a, worker1, b);
    go_sealed(a, worker0, b, worker1);
    for (uint64_t i = 0; i < COUNT; i++)
        send_values(a, worker1, i, bytes, sizeof bytes);
    pthread_t ends;
    assert_int_equal(pthread_create(&ends, NULL, end_first, &a), 0);
    for (uint64_t i = 0; i < COUNT; i++)
        receive_values(b, worker0, i, bytes, sizeof bytes);
    pthread_join(ends, NULL);
}

static void what_the_scheduler_hears_and_says_goes_by_curve(void **state)
{
    (void)state;
    s = open_member(&keys, scheduler);
    join_to(a, scheduler, s);
    join_to(s, worker0, a);
    for (uint64_t i = 0; i < 50; i++) {
        send_values(a, scheduler, i, "12345678", 8);
        receive_values(s, worker0, i, "12345678", 8);
        send_values(s, worker0, i, "12345678", 8);
        receive_values(a, scheduler, i, "12345678", 8);
    }
    assert_int_equal(sealed_bytes(a) + sealed_bytes(s), 0);
}

static void without_curve_nothing_is_sealed(void **state)
{
    (void)state;
    tear_down(NULL);
    keys = make_keys(false);
    a = open_member(&keys, worker0);
    b = open_member(&keys, worker1);
    join_to(a, worker1, b);
    for (uint64_t i = 0; i < 50; i++) {
        serve(a);
        send_values(a, worker1, i, "12345678", 8);
        receive_values(b, worker0, i, "12345678", 8);
    }
    assert_int_equal(sealed_bytes(a), 0);
}

static void a_member_that_connects_anew_has_a_new_key(void **state)
{
    (void)state;
    join_to(a, worker1, b);
    go_sealed(a, worker0, b, worker1);
    psr_transport_free(&a, 0);
    psr_transport_retire(b, worker0);
    a = open_member(&keys, worker0);
    join_to(a, worker1, b);
    go_sealed(a, worker0, b, worker1);
    assert_int_equal(strangers(b), 0);
}

/* ---- a member that is played by hand ---- */

typedef struct played {
    void *ctx, *dealer, *push, *stranger;
    uint8_t id[PSR_ROUTING_ID_BYTES];
    uint64_t sequence; /* of the next message */
    psr_seal_library *library;
    psr_seal *seal;
    psr_seal_secret secret;
    psr_key_answer answer;
} played;

static void send_frames(void *socket, const psr_head *head, uint64_t announced, const void *payload,
                        size_t bytes)
{
    uint8_t frame[PSR_HEAD_BYTES_MAX];
    size_t size;
    psr_head_encode(head, announced, frame, &size);
    assert_int_equal(zmq_send(socket, frame, size, bytes > 0 ? ZMQ_SNDMORE : 0), size);
    if (bytes > 0)
        assert_int_equal(zmq_send(socket, payload, bytes, 0), bytes);
}

static void play(played *p, psr_head head, const void *payload, size_t bytes)
{
    head.sequence = p->sequence++;
    send_frames(p->dealer, &head, bytes, payload, bytes);
}

/* It has said HELLO as worker 0 to b. */
static void begin_played(played *p)
{
    *p = (played){.ctx = zmq_ctx_new(), .id = "a member's id.."};
    p->dealer = zmq_socket(p->ctx, ZMQ_DEALER);
    assert_int_equal(zmq_setsockopt(p->dealer, ZMQ_ROUTING_ID, p->id, sizeof p->id), 0);
    const psr_keys *own = keys_of(&keys, worker0);
    assert_ok(psr_admission_apply(own, worker0, p->dealer, psr_keys_of(own, worker1)));
    assert_int_equal(zmq_connect(p->dealer, psr_transport_endpoint(b)), 0);
    assert_ok(psr_seal_library_new(&p->library));
    play(p, psr_msg_hello_head(worker0), NULL, 0);
}

/* What b sends back: its head and payload. */
static psr_head read_back(played *p, void *payload, size_t bytes)
{
    uint8_t frame[PSR_HEAD_BYTES_MAX];
    int size;
    psr_head head;
    uint64_t announced;
    const int64_t end_ms = psr_clock_ms() + WAIT_MS;
    while ((size = zmq_recv(p->dealer, frame, sizeof frame, ZMQ_DONTWAIT)) < 0) {
        assert_true(psr_clock_ms() < end_ms);
        serve(b);
    }
    assert_ok(psr_head_decode(frame, (size_t)size, &head, &announced));
    assert_int_equal(announced, bytes);
    if (bytes > 0)
        assert_int_equal(zmq_recv(p->dealer, payload, bytes, 0), bytes);
    return head;
}

static void *connect_sealed(void *ctx, const psr_key_answer *answer, const char *token)
{
    char endpoint[64];
    void *push = zmq_socket(ctx, ZMQ_PUSH);
    assert_ok(psr_admission_apply_sealed(push, answer->channel, token));
    snprintf(endpoint, sizeof endpoint, "tcp://127.0.0.1:%u", answer->port);
    assert_int_equal(zmq_connect(push, endpoint), 0);
    return push;
}

/* It has agreed on a key with b, and connects. */
static void agree_played(played *p)
{
    uint8_t part[PSR_SEAL_PART_BYTES] = "a part of a key", other[PSR_SEAL_PART_BYTES];
    play(p, psr_msg_key_offer_head(psr_seal_ciphers()), part, sizeof part);
    psr_head head = read_back(p, other, sizeof other);
    assert_int_equal(head.type, PSR_MSG_KEY_ANSWER);
    assert_ok(psr_msg_key_answer_read(&head, sizeof other, psr_seal_ciphers(), &p->answer));
    assert_ok(
        psr_seal_agree(p->library, part, other, p->answer.cipher, p->id, sizeof p->id, &p->secret));
    assert_ok(psr_seal_new(p->library, p->answer.cipher, p->secret.key, true, &p->seal));
    p->push = connect_sealed(p->ctx, &p->answer, p->secret.token);
}

static void end_played(played *p)
{
    void *const sockets[] = {p->dealer, p->push, p->stranger};
    for (size_t i = 0; i < 3; i++)
        if (sockets[i] != NULL) {
            assert_int_equal(zmq_setsockopt(sockets[i], ZMQ_LINGER, &(int){0}, sizeof(int)), 0);
            zmq_close(sockets[i]);
        }
    zmq_ctx_term(p->ctx);
    psr_seal_free(p->seal);
    psr_seal_library_free(p->library);
}

typedef struct sealed_frame {
    uint8_t bytes[512];
    size_t size;
} sealed_frame;

/* The next message, by the next number, with that sequence. */
static sealed_frame sealed_as(played *p, psr_seal *seal, psr_head head, uint64_t sequence,
                              const void *payload, size_t bytes)
{
    sealed_frame frame;
    head.sequence = sequence;
    frame.size = psr_sealed_size(&head, bytes, bytes);
    assert_true(frame.size <= sizeof frame.bytes);
    assert_ok(psr_sealed_write(seal, p->answer.channel, &head, bytes, payload, bytes, frame.bytes));
    return frame;
}

static sealed_frame sealed_number(played *p, uint64_t number)
{
    const psr_head head = {.type = PSR_MSG_HELD, .fields = {number}};
    return sealed_as(p, p->seal, head, p->sequence++, NULL, 0);
}

static void send_frame(void *push, const sealed_frame *frame)
{
    assert_int_equal(zmq_send(push, frame->bytes, frame->size, 0), frame->size);
}

/* It sends sealed from now on. */
static void greet_played(played *p)
{
    const psr_head head = {.type = PSR_MSG_SEALED};
    agree_played(p);
    sealed_frame frame = sealed_as(p, p->seal, head, 0, NULL, 0);
    send_frame(p->push, &frame);
    assert_int_equal(read_back(p, NULL, 0).type, PSR_MSG_SEALED);
}

/* b drops one more message. */
static void await_drop(uint64_t before, const char *reason)
{
    await_strangers(b, before + 1);
    assert_int_equal(strangers(b), before + 1);
    if (strstr(stranger_lines, reason) == NULL)
        fail_msg("\"%s\" lacks \"%s\"", stranger_lines, reason);
    stranger_lines[0] = '\0';
}

static void await_failure(psr_transport *at, psr_err code, const char *text)
{
    psr_message *message = NULL;
    psr_err err;
    const int64_t end_ms = psr_clock_ms() + WAIT_MS;
    while ((err = psr_transport_recv(at, 20, &message)) == PSR_ERR_TIMEOUT)
        assert_true(psr_clock_ms() < end_ms);
    assert_fails(err, code, text);
}

static void replay_changes_nothing(void **state)
{
    (void)state;
    played p;
    begin_played(&p);
    greet_played(&p);
    sealed_frame first = sealed_number(&p, 1), second = sealed_number(&p, 2);
    send_frame(p.push, &first);
    receive_number(b, worker0, 1);
    send_frame(p.push, &first);
    await_drop(0, "worker 0: it has come before");
    send_frame(p.push, &second);
    receive_number(b, worker0, 2);
    send_frame(p.push, &first);
    await_drop(1, "it has come before");
    /* the same by somebody else, who has seen the token and all frames */
    p.stranger = connect_sealed(p.ctx, &p.answer, p.secret.token);
    send_frame(p.stranger, &second);
    await_drop(2, "it has come before");
    sealed_frame third = sealed_number(&p, 3);
    send_frame(p.push, &third);
    receive_number(b, worker0, 3);
    end_played(&p);
}

/* As its recipient cannot know whether a middle one was lost, which a broken connection does. */
static void a_number_that_is_left_out_ends_it_by_name(void **state)
{
    (void)state;
    played p;
    begin_played(&p);
    greet_played(&p);
    sealed_frame first = sealed_number(&p, 1), second = sealed_number(&p, 2);
    (void)first;
    send_frame(p.push, &second);
    await_failure(b, PSR_ERR_PEER, "worker 0: its connection broke and 1 sealed message was lost");
    end_played(&p);
}

static void what_was_changed_or_cut_is_dropped_and_what_was_not_is_taken(void **state)
{
    (void)state;
    played p;
    begin_played(&p);
    greet_played(&p);
    uint64_t drops = 0;
    sealed_frame first = sealed_number(&p, 1), changed = first, second = sealed_number(&p, 2);
    for (size_t i = 0; i < first.size; i += 5) { /* each part of a frame */
        changed = first;
        changed.bytes[i] ^= 0x10;
        send_frame(p.push, &changed);
        await_drop(drops++, "");
    }
    for (size_t size = 0; size < first.size; size += 7) {
        changed = first;
        changed.size = size;
        send_frame(p.push, &changed);
        await_drop(drops++, "");
    }
    changed = first; /* the head of another message under the number of this one */
    memcpy(changed.bytes + PSR_SEALED_PREFIX_BYTES, second.bytes + PSR_SEALED_PREFIX_BYTES,
           first.size - PSR_SEALED_PREFIX_BYTES - PSR_SEAL_TAG_BYTES);
    send_frame(p.push, &changed);
    await_drop(drops++, "");
    /* two frames are no message either */
    assert_int_equal(zmq_send(p.push, first.bytes, first.size, ZMQ_SNDMORE), first.size);
    send_frame(p.push, &second);
    await_drop(drops++, "");
    send_frame(p.push, &first);
    receive_number(b, worker0, 1);
    end_played(&p);
}

/* Which psr_seal_seal cannot do: here a second one begins anew. */
static void a_nonce_that_is_used_again_changes_nothing(void **state)
{
    (void)state;
    played p;
    begin_played(&p);
    greet_played(&p);
    psr_seal *again;
    const psr_head head = {.type = PSR_MSG_HELD, .fields = {666}};
    assert_ok(psr_seal_new(p.library, p.answer.cipher, p.secret.key, true, &again));
    sealed_frame greeting = sealed_as(&p, again, head, p.sequence, NULL, 0);
    sealed_frame other = sealed_as(&p, again, head, p.sequence, NULL, 0);
    sealed_frame first = sealed_number(&p, 1);
    send_frame(p.push, &first);
    receive_number(b, worker0, 1);
    send_frame(p.push, &greeting);
    await_drop(0, "it has come before");
    send_frame(p.push, &other);
    await_drop(1, "it has come before");
    psr_seal_free(again);
    end_played(&p);
}

static void the_key_of_another_pair_opens_nothing(void **state)
{
    (void)state;
    played p;
    join_to(b, worker0, a); /* another channel, with a key of its own */
    go_sealed(b, worker1, a, worker0);
    begin_played(&p);
    greet_played(&p);
    psr_seal *other;
    uint8_t key[PSR_SEAL_KEY_BYTES] = "the key of somebody else";
    const psr_head head = {.type = PSR_MSG_HELD, .fields = {1}};
    assert_ok(psr_seal_new(p.library, p.answer.cipher, key, true, &other));
    for (uint64_t i = 0; i < 2; i++) {
        sealed_frame frame = sealed_as(&p, other, head, p.sequence, NULL, 0);
        if (i == 1) { /* the one whose number is next */
            send_frame(p.push, &frame);
            await_drop(0, "does not open");
        }
    }
    psr_seal_free(other);
    /* a channel that there is not */
    const uint32_t own = p.answer.channel;
    p.answer.channel = own + 5;
    sealed_frame nowhere = sealed_number(&p, 1);
    send_frame(p.push, &nowhere);
    await_drop(1, "of no channel");
    end_played(&p);
}

static void a_first_message_that_is_none_breaks_the_protocol(void **state)
{
    (void)state;
    played p;
    begin_played(&p);
    agree_played(&p);
    sealed_frame frame = sealed_number(&p, 1);
    send_frame(p.push, &frame);
    await_failure(b, PSR_ERR_PROTOCOL, "worker 0: its first sealed message is not SEALED");
    end_played(&p);
}

static void who_greets_again_is_answered_again(void **state)
{
    (void)state;
    played p;
    begin_played(&p);
    agree_played(&p);
    const psr_head head = {.type = PSR_MSG_SEALED};
    sealed_frame greeting = sealed_as(&p, p.seal, head, 0, NULL, 0);
    for (unsigned i = 0; i < 3; i++) {
        send_frame(p.push, &greeting);
        assert_int_equal(read_back(&p, NULL, 0).type, PSR_MSG_SEALED);
    }
    sealed_frame first = sealed_number(&p, 1);
    send_frame(p.push, &first);
    receive_number(b, worker0, 1);
    send_frame(p.push, &greeting);
    await_drop(0, "it has come before");
    end_played(&p);
}

/* The last messages by CURVE may come after the first sealed ones. */
static void sealed_messages_wait_for_those_by_curve_before_them(void **state)
{
    (void)state;
    played p;
    begin_played(&p);
    greet_played(&p);
    const psr_head number = {.type = PSR_MSG_HELD, .fields = {2}};
    const uint64_t curve = p.sequence++;
    sealed_frame first = sealed_number(&p, 3), second = sealed_number(&p, 4);
    send_frame(p.push, &first);
    send_frame(p.push, &second);
    for (unsigned i = 0; i < 20; i++)
        serve(b);
    psr_head head = number;
    head.sequence = curve;
    send_frames(p.dealer, &head, 0, NULL, 0);
    receive_number(b, worker0, 2);
    receive_number(b, worker0, 3);
    receive_number(b, worker0, 4);
    sealed_frame third = sealed_number(&p, 5);
    send_frame(p.push, &third);
    receive_number(b, worker0, 5);
    /* a sequence that has been is not taken, however it comes */
    const psr_head held = {.type = PSR_MSG_HELD, .fields = {6}};
    sealed_frame again = sealed_as(&p, p.seal, held, curve, NULL, 0);
    send_frame(p.push, &again);
    await_failure(b, PSR_ERR_PROTOCOL, "worker 0: sent message 2 twice");
    end_played(&p);
}

static void a_message_that_is_sealed_is_checked_as_any(void **state)
{
    (void)state;
    played p;
    begin_played(&p);
    greet_played(&p);
    const psr_head head = {.type = PSR_MSG_VALUES, .sequence = p.sequence};
    sealed_frame frame;
    frame.size = psr_sealed_size(&head, 500, 3);
    assert_ok(psr_sealed_write(p.seal, p.answer.channel, &head, 500, "abc", 3, frame.bytes));
    send_frame(p.push, &frame);
    await_failure(b, PSR_ERR_PROTOCOL, "worker 0: announced a payload of 500 bytes and sent 3");
    end_played(&p);
}

static void offers_that_are_none_break_the_protocol(void **state)
{
    (void)state;
    static const struct {
        unsigned ciphers;
        size_t bytes;
        const char *line;
    } offers[] = {{3, 31, "worker 0: its part of a key has 31 bytes, not 32"},
                  {3, 0, "worker 0: its part of a key has 0 bytes, not 32"},
                  {8, 32, "worker 0: offers ciphers 8, of which none is known"},
                  {0, 32, "worker 0: offers ciphers 0, of which none is known"}};
    const uint8_t part[PSR_SEAL_PART_BYTES] = {1};
    for (size_t i = 0; i < sizeof offers / sizeof *offers; i++) {
        played p;
        begin_played(&p);
        play(&p, psr_msg_key_offer_head(offers[i].ciphers), part, offers[i].bytes);
        await_failure(b, PSR_ERR_PROTOCOL, offers[i].line);
        end_played(&p);
        psr_transport_free(&b, 0);
        b = open_member(&keys, worker1);
    }
    played p;
    begin_played(&p);
    greet_played(&p);
    play(&p, psr_msg_key_offer_head(3), part, sizeof part);
    await_failure(b, PSR_ERR_PROTOCOL, "worker 0: offers a second key");
    end_played(&p);
}

static void the_same_offer_gets_the_same_answer_some_times(void **state)
{
    (void)state;
    played p;
    uint8_t part[PSR_SEAL_PART_BYTES] = "a part of a key", first[sizeof part], again[sizeof part];
    begin_played(&p);
    for (unsigned i = 0; i < PSR_KEY_OFFERS_MAX; i++) {
        play(&p, psr_msg_key_offer_head(psr_seal_ciphers()), part, sizeof part);
        const psr_head head = read_back(&p, i == 0 ? first : again, sizeof part);
        psr_key_answer answer;
        assert_int_equal(head.type, PSR_MSG_KEY_ANSWER);
        assert_ok(psr_msg_key_answer_read(&head, sizeof part, psr_seal_ciphers(), &answer));
        assert_int_equal(answer.channel, 0);
        if (i > 0)
            assert_memory_equal(first, again, sizeof part);
    }
    play(&p, psr_msg_key_offer_head(psr_seal_ciphers()), part, sizeof part);
    await_failure(b, PSR_ERR_PROTOCOL, "worker 0: offers a key 9 times");
    end_played(&p);
}

static void an_offer_in_a_sealed_message_breaks_the_protocol(void **state)
{
    (void)state;
    played p;
    const uint8_t part[PSR_SEAL_PART_BYTES] = {1};
    begin_played(&p);
    greet_played(&p);
    sealed_frame frame =
        sealed_as(&p, p.seal, psr_msg_key_offer_head(3), p.sequence++, part, sizeof part);
    send_frame(p.push, &frame);
    await_failure(b, PSR_ERR_PROTOCOL, "worker 0: offers a key where none is");
    end_played(&p);
}

static void an_answer_that_nobody_asked_for_breaks_the_protocol(void **state)
{
    (void)state;
    played p;
    const uint8_t part[PSR_SEAL_PART_BYTES] = {1};
    begin_played(&p);
    play(&p, psr_msg_key_answer_head(&(psr_key_answer){PSR_CIPHER_AES_256_GCM, 0, 1}), part,
         sizeof part);
    await_failure(b, PSR_ERR_PROTOCOL, "worker 0: sent KEY_ANSWER out of place");
    end_played(&p);
}

/* ---- strangers at the second socket ---- */

static void who_shows_no_token_is_turned_away(void **state)
{
    (void)state;
    played p;
    char endpoint[64];
    begin_played(&p);
    greet_played(&p);
    snprintf(endpoint, sizeof endpoint, "tcp://127.0.0.1:%u", p.answer.port);
    char wrong[PSR_SEAL_TOKEN_BYTES];
    memcpy(wrong, p.secret.token, sizeof wrong);
    wrong[10] = wrong[10] == '0' ? '1' : '0';
    void *const liars[] = {
        connect_sealed(p.ctx, &p.answer, wrong),
        connect_sealed(p.ctx, &(psr_key_answer){.channel = 7, .port = p.answer.port},
                       p.secret.token),
        zmq_socket(p.ctx, ZMQ_PUSH), /* no mechanism */
    };
    assert_int_equal(zmq_connect(liars[2], endpoint), 0);
    const int64_t end_ms = psr_clock_ms() + WAIT_MS;
    /* The one without a mechanism gives up as soon as it knows, perhaps before it is refused. */
    while (strstr(stranger_lines, "its token is no channel's for sealed messages") == NULL ||
           (strstr(stranger_lines, "what it sends is not our protocol") == NULL &&
            strstr(stranger_lines, "it went away or fell silent in the handshake") == NULL)) {
        assert_true(psr_clock_ms() < end_ms);
        serve(b);
    }
    for (size_t i = 0; i < 3; i++) {
        (void)zmq_setsockopt(liars[i], ZMQ_LINGER, &(int){0}, sizeof(int));
        zmq_close(liars[i]);
    }
    sealed_frame first = sealed_number(&p, 1);
    send_frame(p.push, &first);
    receive_number(b, worker0, 1);
    end_played(&p);
}

/* Somebody has seen the token. What he sends is dropped, he is hung up on, and the member goes
 * on. */
static void a_flood_of_garbage_with_a_token_changes_nothing(void **state)
{
    (void)state;
    enum { CONNECTIONS = 4, MESSAGES = 40 };
    static uint8_t noise[PSR_PAYLOAD_BYTES_MAX];
    played p;
    begin_played(&p);
    greet_played(&p);
    void *flood[CONNECTIONS];
    for (size_t i = 0; i < sizeof noise; i++)
        noise[i] = (uint8_t)(i * 167 + 13);
    memcpy(noise, "PSRS", 4); /* of the right channel and number: it is tried */
    memset(noise + 4, 0, 12);
    noise[7] = (uint8_t)p.answer.channel;
    noise[15] = 1;
    for (size_t c = 0; c < CONNECTIONS; c++) {
        flood[c] = connect_sealed(p.ctx, &p.answer, p.secret.token);
        for (size_t i = 0; i < MESSAGES; i++)
            assert_int_equal(zmq_send(flood[c], noise, sizeof noise, ZMQ_DONTWAIT), sizeof noise);
    }
    await_strangers(b, CONNECTIONS);
    for (uint64_t i = 1; i <= 100; i++) {
        sealed_frame frame = sealed_number(&p, i);
        send_frame(p.push, &frame);
        receive_number(b, worker0, i);
    }
    assert_non_null(strstr(stranger_lines, "does not open"));
    for (size_t c = 0; c < CONNECTIONS; c++) {
        (void)zmq_setsockopt(flood[c], ZMQ_LINGER, &(int){0}, sizeof(int));
        zmq_close(flood[c]);
    }
    end_played(&p);
}

/* https://rfc.zeromq.org/spec/24/, by hand: libzmq itself sends no part of a message before it is
 * complete. */
static int dial_sealed(const played *p)
{
    uint8_t greeting[64] = {0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, 3, 0, 'P', 'L', 'A', 'I', 'N'};
    static const char initiate[] = "\x04\x1d\x08INITIATE\x0bSocket-Type\0\0\0\x04PUSH";
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                                  .sin_port = htons(p->answer.port)};
    char hello[128], name[12], welcome[64 + 10];
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    snprintf(name, sizeof name, "%u", p->answer.channel);
    int size = snprintf(hello, sizeof hello, "%c%c%cHELLO%c%s%c%s", 4,
                        (int)(8 + strlen(name) + PSR_SEAL_TOKEN_BYTES - 1), 5, (int)strlen(name),
                        name, PSR_SEAL_TOKEN_BYTES - 1, p->secret.token);
    assert_true(fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) == 0);
    assert_int_equal(send(fd, greeting, sizeof greeting, MSG_NOSIGNAL), sizeof greeting);
    assert_int_equal(send(fd, hello, (size_t)size, MSG_NOSIGNAL), size);
    assert_int_equal(recv(fd, welcome, sizeof welcome, MSG_WAITALL), sizeof welcome);
    assert_int_equal(send(fd, initiate, sizeof initiate - 1, MSG_NOSIGNAL), sizeof initiate - 1);
    return fd;
}

/* libzmq reads one frame after the other of a message without end, which no mark bounds. */
static void one_message_of_frames_without_end_is_hung_up_on(void **state)
{
    (void)state;
    static uint8_t frame[9 + PSR_PAYLOAD_BYTES_MAX] = {3, 0, 0, 0, 0, 0, 0x10, 0, 0};
    played p;
    begin_played(&p);
    greet_played(&p);
    int fd = dial_sealed(&p);
    const int64_t end_ms = psr_clock_ms() + WAIT_MS;
    size_t sent = 0, more = 0;
    while (strstr(stranger_lines, "sent more than a member would") == NULL) {
        assert_true(psr_clock_ms() < end_ms);
        for (unsigned i = 0; i < 64; i++) {
            ssize_t some = send(fd, frame + more, sizeof frame - more, MSG_NOSIGNAL | MSG_DONTWAIT);
            sent += some > 0 ? (size_t)some : 0;
            more = (more + (some > 0 ? (size_t)some : 0)) % sizeof frame;
        }
        serve(b);
    }
    assert_true(sent > (size_t)100 << 20); /* as a member may, before it is known */
    sealed_frame first = sealed_number(&p, 1);
    send_frame(p.push, &first);
    receive_number(b, worker0, 1);
    close(fd);
    end_played(&p);
}

/* ---- a peer that is played by hand ---- */

typedef struct played_peer {
    void *ctx, *router;
    char endpoint[64];
    uint8_t id[PSR_ROUTING_ID_BYTES], part[PSR_SEAL_PART_BYTES];
} played_peer;

/* One of a's messages, without its routing id. */
static psr_head read_peer(played_peer *p, uint8_t payload[PSR_SEAL_PART_BYTES])
{
    uint8_t frame[PSR_HEAD_BYTES_MAX];
    psr_head head;
    uint64_t bytes;
    assert_int_equal(zmq_recv(p->router, p->id, sizeof p->id, 0), sizeof p->id);
    int size = zmq_recv(p->router, frame, sizeof frame, 0);
    assert_true(size >= 0);
    assert_ok(psr_head_decode(frame, (size_t)size, &head, &bytes));
    if (bytes > 0)
        assert_int_equal(zmq_recv(p->router, payload, PSR_SEAL_PART_BYTES, 0), bytes);
    return head;
}

/* It is worker 1, has a's offer, and will answer. */
static void begin_peer(played_peer *p)
{
    size_t size = sizeof p->endpoint;
    const psr_keys *own = keys_of(&keys, worker1);
    p->ctx = zmq_ctx_new();
    p->router = zmq_socket(p->ctx, ZMQ_ROUTER);
    assert_int_equal(zmq_setsockopt(p->router, ZMQ_CURVE_SERVER, &(int){1}, sizeof(int)), 0);
    assert_int_equal(zmq_setsockopt(p->router, ZMQ_CURVE_SECRETKEY, own->secret_key, PSR_KEY_Z85),
                     0);
    assert_int_equal(zmq_bind(p->router, "tcp://127.0.0.1:*"), 0);
    assert_int_equal(zmq_getsockopt(p->router, ZMQ_LAST_ENDPOINT, p->endpoint, &size), 0);
    assert_ok(psr_transport_connect(a, worker1, p->endpoint, NULL));
    assert_int_equal(read_peer(p, p->part).type, PSR_MSG_HELLO);
    assert_int_equal(read_peer(p, p->part).type, PSR_MSG_KEY_OFFER);
}

static void answer_peer(played_peer *p, psr_head head, size_t bytes)
{
    static const uint8_t part[64];
    assert_int_equal(zmq_send(p->router, p->id, sizeof p->id, ZMQ_SNDMORE), sizeof p->id);
    send_frames(p->router, &head, bytes, part, bytes);
}

static void end_peer(played_peer *p)
{
    (void)zmq_setsockopt(p->router, ZMQ_LINGER, &(int){0}, sizeof(int));
    zmq_close(p->router);
    zmq_ctx_term(p->ctx);
}

/* Where nobody listens. It is nobody else's while *ret_fd is open. */
static uint16_t closed_port(int *ret_fd)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0 && bind(fd, (struct sockaddr *)&address, size) == 0 &&
                getsockname(fd, (struct sockaddr *)&address, &size) == 0);
    *ret_fd = fd;
    return ntohs(address.sin_port);
}

static void answers_that_make_no_key_break_the_protocol(void **state)
{
    (void)state;
    const struct {
        psr_key_answer answer;
        size_t bytes;
        const char *line;
    } answers[] = {
        {{PSR_CIPHER_CHACHA20_POLY1305, 0, 1}, 31, "worker 1: its part of a key has 31 bytes"},
        {{(psr_cipher)4, 0, 1}, 32, "worker 1: chose cipher 4, which was not offered"},
        {{PSR_CIPHER_CHACHA20_POLY1305, 0, 0}, 32, "worker 1: named channel 0 at port 0"}};
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
        played_peer p;
        begin_peer(&p);
        answer_peer(&p, psr_msg_key_answer_head(&answers[i].answer), answers[i].bytes);
        await_failure(a, PSR_ERR_PROTOCOL, answers[i].line);
        end_peer(&p);
        psr_transport_disconnect(a, worker1);
    }
    played_peer p;
    begin_peer(&p);
    int fd;
    const uint16_t port = closed_port(&fd);
    psr_head answer =
        psr_msg_key_answer_head(&(psr_key_answer){PSR_CIPHER_CHACHA20_POLY1305, 0, port});
    for (unsigned i = 0; i <= PSR_KEY_OFFERS_MAX; i++)
        answer_peer(&p, answer, PSR_SEAL_PART_BYTES);
    await_failure(a, PSR_ERR_PROTOCOL, "worker 1: answers the offer of a key twice");
    end_peer(&p);
    close(fd);
}

/* An answer that was lost does not leave a channel on CURVE. */
static void an_offer_that_is_not_answered_is_made_again_some_times(void **state)
{
    (void)state;
    played_peer p;
    psr_unsealed unsealed;
    begin_peer(&p);
    for (unsigned i = 1; i < PSR_KEY_OFFERS_MAX; i++) {
        uint8_t part[PSR_SEAL_PART_BYTES], none[PSR_SEAL_PART_BYTES] = {0};
        struct zmq_pollitem_t there = {.socket = p.router, .events = ZMQ_POLLIN};
        for (int64_t end_ms = psr_clock_ms() + WAIT_MS; zmq_poll(&there, 1, 0) == 0;) {
            assert_true(psr_clock_ms() < end_ms);
            serve(a);
        }
        assert_int_equal(read_peer(&p, part).type, PSR_MSG_KEY_OFFER);
        assert_memory_equal(part, p.part, sizeof part);
        assert_memory_not_equal(part, none, sizeof part);
    }
    assert_true(psr_transport_unsealed(a, 0, &unsealed));
    assert_int_equal(unsealed.port, 0);
    assert_false(psr_transport_unsealed(a, 0, &unsealed)); /* it is told once */
    /* no further offer, and the answer to one of them still serves */
    int fd;
    const uint16_t port = closed_port(&fd);
    answer_peer(&p,
                psr_msg_key_answer_head(&(psr_key_answer){PSR_CIPHER_CHACHA20_POLY1305, 0, port}),
                PSR_SEAL_PART_BYTES);
    for (unsigned i = 0; i < 300; i++) /* more than a second */
        serve(a);
    send_number(a, worker1, 5);
    uint8_t part[PSR_SEAL_PART_BYTES];
    assert_int_equal(read_peer(&p, part).type, PSR_MSG_HELD);
    end_peer(&p);
    close(fd);
}

static void a_second_connection_that_cannot_be_made_is_told_and_nothing_waits_for_it(void **state)
{
    (void)state;
    played_peer p;
    psr_unsealed unsealed;
    psr_unreached unreached;
    int fd;
    const uint16_t port = closed_port(&fd);
    begin_peer(&p);
    answer_peer(&p,
                psr_msg_key_answer_head(&(psr_key_answer){PSR_CIPHER_CHACHA20_POLY1305, 0, port}),
                PSR_SEAL_PART_BYTES);
    assert_false(psr_transport_unsealed(a, WAIT_MS, &unsealed)); /* not yet */
    for (unsigned i = 0; i < 20; i++)
        serve(a);
    assert_true(psr_transport_unsealed(a, 0, &unsealed));
    assert_true(psr_peer_equal(unsealed.peer, worker1));
    assert_true(unsealed.port == port || unsealed.port == 0); /* the answer may be on its way */
    assert_false(psr_transport_unreached(a, 0, &unreached));  /* the first one is there */
    uint8_t part[PSR_SEAL_PART_BYTES];
    send_values(a, worker1, 1, "12345678", 8); /* by CURVE */
    psr_head head;
    while ((head = read_peer(&p, part)).type == PSR_MSG_KEY_OFFER)
        ;
    assert_int_equal(head.type, PSR_MSG_VALUES);
    assert_memory_equal(part, "12345678", 8);
    assert_int_equal(sealed_bytes(a), 0);
    end_peer(&p);
    close(fd);
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_members_send_goes_sealed_once_there_is_a_key),
        TEST(a_sealed_channel_keeps_the_order_of_messages_of_all_sizes),
        TEST(loans_end_once_each_however_a_channel_ends),
        TEST(what_waits_is_sent_before_a_transport_ends),
        TEST(what_the_scheduler_hears_and_says_goes_by_curve),
        TEST(without_curve_nothing_is_sealed),
        TEST(a_member_that_connects_anew_has_a_new_key),
        TEST(replay_changes_nothing),
        TEST(a_number_that_is_left_out_ends_it_by_name),
        TEST(what_was_changed_or_cut_is_dropped_and_what_was_not_is_taken),
        TEST(a_nonce_that_is_used_again_changes_nothing),
        TEST(the_key_of_another_pair_opens_nothing),
        TEST(a_first_message_that_is_none_breaks_the_protocol),
        TEST(who_greets_again_is_answered_again),
        TEST(sealed_messages_wait_for_those_by_curve_before_them),
        TEST(a_message_that_is_sealed_is_checked_as_any),
        TEST(offers_that_are_none_break_the_protocol),
        TEST(an_offer_in_a_sealed_message_breaks_the_protocol),
        TEST(an_answer_that_nobody_asked_for_breaks_the_protocol),
        TEST(who_shows_no_token_is_turned_away),
        TEST(a_flood_of_garbage_with_a_token_changes_nothing),
        TEST(one_message_of_frames_without_end_is_hung_up_on),
        TEST(the_same_offer_gets_the_same_answer_some_times),
        TEST(answers_that_make_no_key_break_the_protocol),
        TEST(an_offer_that_is_not_answered_is_made_again_some_times),
        TEST(a_second_connection_that_cannot_be_made_is_told_and_nothing_waits_for_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
