/* Two members of one host, over TCP with CURVE, which also share memory: what one sends goes by
 * CURVE, sealed, and through a pipe, and comes in one order. */
#include "tests/unit/network_fixture.h"

#include "net/address/socket_directory.h"
#include "net/sharing/lender.h"
#include "net/sharing/pipe.h"
#include "net/zmq/transport_zmq_private.h"

#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <zmq.h>

enum { REFERRED_FLOATS = 2048, LARGEST = 300000, EVERY = 11 };

typedef struct member {
    psr_peer self;
    psr_transport *transport;
    psr_shared_arena arena;
    uint32_t sent, received; /* messages to and from the other one */
    uint32_t referred;       /* of those sent */
    atomic_int returned;
} member;

static run_keys keys;
static psr_socket_directory directory;
static member a, b;

static void open_at(member *m, psr_peer self)
{
    const psr_zmq_options options = {.self = self,
                                     .keys = keys_of(&keys, self),
                                     .sharing = directory.path,
                                     .log_stranger = note_stranger};
    *m = (member){.self = self};
    assert_ok(psr_transport_zmq_new(&options, &m->transport));
    assert_ok(psr_transport_share(m->transport, NULL, NULL));
    assert_ok(psr_shared_arena_new(REFERRED_FLOATS, &m->arena));
    assert_ok(psr_transport_lend_from(m->transport, &m->arena));
}

static int set_up(void **state)
{
    (void)state;
    stranger_lines[0] = '\0';
    keys = make_keys(true);
    assert_ok(psr_socket_directory_make(NULL, &directory));
    open_at(&a, worker0);
    open_at(&b, worker1);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    member *const members[] = {&a, &b};
    for (size_t i = 0; i < 2; i++)
        psr_transport_free(&members[i]->transport, 0);
    for (size_t i = 0; i < 2; i++)
        psr_shared_arena_done(&members[i]->arena);
    free_keys(&keys);
    psr_socket_directory_remove(&directory);
    return 0;
}

static psr_transport_counts counts_of(const member *m)
{
    psr_transport_counts counts;
    psr_transport_counts_get(m->transport, &counts);
    return counts;
}

static psr_zmq_channel *channel(const member *from, const member *to)
{
    return psr_zmq_channel_of((const psr_zmq_transport *)from->transport, to->self);
}

static bool has_pipe(const member *from, const member *to)
{
    const psr_lender *lender = channel(from, to)->lender;
    return lender != NULL && psr_lender_has_pipe(lender);
}

/* ---- messages, which say which one they are ---- */

static void count_release(void *context)
{
    atomic_fetch_add((atomic_int *)context, 1);
}

/* Empty ones, ones that fit a pipe, and ones that do not. */
static size_t bytes_of(uint32_t number)
{
    static const size_t sizes[] = {0, 4, 100, 5000, 1, 20000, 333, 0, 8000, 12, LARGEST, 64};
    return sizes[(number * 2654435761u >> 20) % (sizeof sizes / sizeof *sizes)];
}

static uint8_t byte_of(uint32_t number, size_t i)
{
    return (uint8_t)(number + i);
}

static void send_bytes(member *from, const member *to, size_t bytes)
{
    static uint8_t values[LARGEST];
    const uint32_t number = from->sent++;
    const psr_head head = {
        .type = PSR_MSG_VALUES, .encoding = PSR_ENCODING_BYTES, .tag.round = number};
    for (size_t i = 0; i < bytes; i++)
        values[i] = byte_of(number, i);
    assert_ok(psr_transport_send(from->transport, to->self, &head,
                                 &(psr_payload){.data = values, .bytes = bytes}));
}

/* Every so manieth stays in the arena, once the other one has that. */
static void send_next(member *from, const member *to)
{
    if (from->sent % EVERY != 0) {
        send_bytes(from, to, bytes_of(from->sent));
        return;
    }
    const psr_head head = {
        .type = PSR_MSG_VALUES, .encoding = PSR_ENCODING_FLOAT32, .tag.round = from->sent++};
    from->referred++;
    assert_ok(psr_transport_send(from->transport, to->self, &head,
                                 &(psr_payload){from->arena.values, REFERRED_FLOATS * sizeof(float),
                                                count_release, &from->returned}));
}

static void expect_next(member *at, const member *from, psr_message **message)
{
    const psr_message *m = *message;
    const uint32_t number = at->received++;
    const uint8_t *values = m->payload;
    assert_true(psr_peer_equal(m->from, from->self));
    assert_int_equal(m->head.tag.round, number);
    if (m->head.encoding == PSR_ENCODING_FLOAT32)
        assert_int_equal(m->payload_bytes, REFERRED_FLOATS * sizeof(float));
    for (size_t i = 0; m->head.encoding == PSR_ENCODING_BYTES && i < m->payload_bytes; i++)
        if (values[i] != byte_of(number, i))
            fail_msg("message %u: byte %zu is wrong", number, i);
    psr_message_free(message);
}

/* Receives one message, or serves the transport for a moment. */
static bool take_one(member *at, const member *from)
{
    psr_message *message = NULL;
    const psr_err err = psr_transport_recv(at->transport, 1, &message);
    if (err == PSR_ERR_TIMEOUT)
        return false;
    assert_ok(err);
    expect_next(at, from, &message);
    return true;
}

/* Both send so many, of which `ahead` before the other one reads, and read all. */
static void exchange(uint32_t count, uint32_t ahead)
{
    int64_t end_ms = psr_clock_ms() + WAIT_MS; /* until one of them comes */
    const uint32_t goal[] = {a.sent + count, b.sent + count};
    while (b.received < goal[0] || a.received < goal[1]) {
        assert_true(psr_clock_ms() < end_ms);
        if (b.received + ahead / 2 >= a.sent)
            for (uint32_t i = 0; i < ahead && a.sent < goal[0]; i++)
                send_next(&a, &b);
        if (a.received + ahead / 2 >= b.sent)
            for (uint32_t i = 0; i < ahead && b.sent < goal[1]; i++)
                send_next(&b, &a);
        const bool came_to_b = take_one(&b, &a), came_to_a = take_one(&a, &b);
        if (came_to_b || came_to_a)
            end_ms = psr_clock_ms() + WAIT_MS;
    }
}

/* ---- the ways ---- */

static void connect_to(member *from, const member *to)
{
    join_to(from->transport, to->self, to->transport);
}

static void lend(member *from, const member *to)
{
    psr_transport_lend_to(from->transport, to->self, psr_transport_share_path(to->transport));
}

static size_t unsealed(const member *m)
{
    return atomic_load(&((const psr_zmq_transport *)m->transport)->unsealed);
}

/* Nothing else is sent meanwhile. */
static void await_pipe(member *from, member *to)
{
    for (int64_t end_ms = psr_clock_ms() + WAIT_MS; !has_pipe(from, to);) {
        assert_true(psr_clock_ms() < end_ms);
        assert_false(take_one(to, from));
        assert_false(take_one(from, to));
    }
}

static bool both_send_sealed(void)
{
    return counts_of(&a).bytes_sealed > 0 && counts_of(&b).bytes_sealed > 0;
}

/* All ways are there. */
static void exchange_by_all_ways(void)
{
    enum { MESSAGES = 3000, AHEAD = 400 };
    const psr_transport_counts before[] = {counts_of(&a), counts_of(&b)};
    exchange(MESSAGES, AHEAD);
    const psr_transport_counts after[] = {counts_of(&a), counts_of(&b)};
    for (size_t i = 0; i < 2; i++) {
        assert_true(after[i].bytes_lent > before[i].bytes_lent);
        assert_true(after[i].bytes_sealed > before[i].bytes_sealed);
        assert_int_equal(after[i].strangers, 0);
    }
    member *const members[] = {&a, &b};
    for (size_t i = 0; i < 2; i++)
        psr_transport_free(&members[i]->transport, 0);
    assert_int_equal(a.returned, a.referred);
    assert_int_equal(b.returned, b.referred);
}

static void messages_keep_their_order_where_the_sealed_connection_comes_after_the_pipe(void **state)
{
    (void)state;
    connect_to(&a, &b);
    lend(&a, &b);
    await_pipe(&a, &b);
    assert_int_equal(unsealed(&a), 1);
    connect_to(&b, &a);
    lend(&b, &a);
    await_pipe(&b, &a);
    assert_int_equal(unsealed(&b), 1);
    for (int64_t end_ms = psr_clock_ms() + WAIT_MS; !both_send_sealed();) {
        assert_true(psr_clock_ms() < end_ms);
        exchange(100, 30);
    }
    exchange_by_all_ways();
}

static void go_sealed(void)
{
    for (int64_t end_ms = psr_clock_ms() + WAIT_MS; !both_send_sealed();) {
        assert_true(psr_clock_ms() < end_ms);
        exchange(20, 10);
    }
}

static void messages_keep_their_order_where_the_pipe_comes_after_the_sealed_connection(void **state)
{
    (void)state;
    connect_to(&a, &b);
    connect_to(&b, &a);
    go_sealed();
    assert_int_equal(counts_of(&a).bytes_lent + counts_of(&b).bytes_lent, 0);
    lend(&a, &b);
    lend(&b, &a);
    for (int64_t end_ms = psr_clock_ms() + WAIT_MS; !has_pipe(&a, &b) || !has_pipe(&b, &a);) {
        assert_true(psr_clock_ms() < end_ms);
        exchange(20, 10);
    }
    exchange_by_all_ways();
}

/* ---- what waits for the pipe ---- */

/* Sealed messages that come after those of the pipe stay with their sender, who is then told by
 * that how far this one is. */
static void sealed_messages_are_not_piled_up_before_the_pipe_is_read(void **state)
{
    enum { LARGE = 256, READ_AHEAD = 128 };
    (void)state;
    static uint8_t values[PSR_PAYLOAD_BYTES_MAX];
    connect_to(&a, &b);
    connect_to(&b, &a);
    go_sealed();
    lend(&a, &b);
    await_pipe(&a, &b);
    const uint32_t begin = a.sent;
    for (uint64_t lent;
         lent = counts_of(&a).bytes_lent, send_bytes(&a, &b, 8), counts_of(&a).bytes_lent > lent;)
        ;
    const uint32_t piped = a.sent - begin - 1;
    for (uint32_t i = 0; i < LARGE; i++) {
        const psr_head head = {.type = PSR_MSG_VALUES, .encoding = PSR_ENCODING_BYTES};
        assert_ok(
            psr_transport_send(a.transport, worker1, &head,
                               &(psr_payload){values, sizeof values, count_release, &a.returned}));
    }
    for (uint32_t i = 0; i < piped; i++) {
        psr_message *message = receive(b.transport);
        assert_int_equal(message->payload_bytes, 8);
        expect_next(&b, &a, &message);
        assert_false(take_one(&a, &b));
    }
    assert_true(psr_transport_waiting(a.transport, worker1) > LARGE - READ_AHEAD);
}

/* ---- a member that lies about what it sent before ---- */

enum { FAR = 1 << 30, MANY = 200000 };

/* Its pipe always has its next message. */
static void fill_pipe(uint64_t *sequence)
{
    for (bool put = true; put; *sequence += put) {
        const psr_head head = {.type = PSR_MSG_HELD, .sequence = *sequence};
        uint8_t bytes[PSR_HEAD_BYTES_MAX];
        size_t size;
        psr_head_encode(&head, 0, bytes, &size);
        assert_ok(psr_lender_put(channel(&a, &b)->lender, bytes, size, NULL, 0, &put));
    }
}

/* Sends one far ahead, by a socket. */
static uint64_t lie(void)
{
    psr_zmq_channel *c = channel(&a, &b);
    uint64_t sequence = c->sequence;
    fill_pipe(&sequence);
    c->sequence = FAR;
    send_bytes(&a, &b, LARGEST);
    return sequence;
}

static void who_has_much_read_before_a_message_by_curve_is_named(void **state)
{
    (void)state;
    connect_to(&a, &b);
    lend(&a, &b);
    await_pipe(&a, &b);
    uint64_t sequence = lie();
    psr_err err = PSR_OK;
    for (uint32_t i = 0; i < MANY && err == PSR_OK; i++) {
        psr_message *message = NULL;
        err = psr_transport_recv(b.transport, WAIT_MS, &message);
        psr_message_free(&message);
        fill_pipe(&sequence);
    }
    assert_fails(err, PSR_ERR_PEER, "worker 0: its connection broke");
}

static void who_has_much_read_before_a_sealed_message_keeps_nobody_out(void **state)
{
    (void)state;
    connect_to(&a, &b);
    connect_to(&b, &a);
    go_sealed();
    lend(&a, &b);
    await_pipe(&a, &b);
    psr_transport *other = open_member(&keys, shard0);
    join_to(other, worker1, b.transport);
    uint64_t sequence = lie();
    send_number(other, worker1, 7);
    bool came = false;
    for (uint32_t i = 0; i < MANY && !came; i++) {
        psr_message *message = receive(b.transport);
        came = psr_peer_equal(message->from, shard0);
        psr_message_free(&message);
        fill_pipe(&sequence);
    }
    psr_transport_free(&other, 0);
    assert_true(came);
}

/* ---- after a failure ---- */

/* It may have come together with what is behind it, and no descriptor tells of that again. */
static void what_comes_behind_a_message_that_breaks_the_protocol_is_received(void **state)
{
    (void)state;
    psr_message *message = NULL;
    connect_to(&a, &b);
    lend(&a, &b);
    await_pipe(&a, &b);
    psr_transport *other = open_member(&keys, shard0);
    join_to(other, worker1, b.transport);
    psr_zmq_channel *c = psr_zmq_channel_of((const psr_zmq_transport *)other, worker1);
    const uint64_t sequence = c->sequence;
    c->sequence = 0;
    send_number(other, worker1, 0);
    c->sequence = sequence;
    send_number(other, worker1, 7);
    assert_fails(psr_transport_recv(b.transport, WAIT_MS, &message), PSR_ERR_PROTOCOL,
                 "shard 0: sent message 0 twice");
    assert_true(atomic_load(&((psr_zmq_transport *)b.transport)->news));
    receive_number(b.transport, shard0, 7);
    psr_transport_free(&other, 0);
}

/* A process that passes as a member's memory what is none. */
static int lend_as(const psr_zmq_channel *c, const member *to)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    psr_record records[] = {{.kind = PSR_RECORD_HELLO}, {.kind = PSR_RECORD_WITHDRAWN}};
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    snprintf(address.sun_path, sizeof address.sun_path, "%s",
             psr_transport_share_path(to->transport));
    memcpy(records[0].id, c->id, sizeof c->id);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(psr_record_write(fd, records, 2, -1), PSR_RECORD_WRITTEN);
    return fd;
}

/* Its memory is looked at when a message of somebody else's has been taken from a socket. */
static void what_fails_beside_a_message_of_another_member_does_not_cost_that_message(void **state)
{
    (void)state;
    psr_message *message = NULL;
    psr_zmq_transport *at = (psr_zmq_transport *)b.transport;
    connect_to(&a, &b);
    psr_transport *other = open_member(&keys, shard0);
    join_to(other, worker1, b.transport);
    send_number(other, worker1, 1);
    receive_number(b.transport, shard0, 1);
    const int fd = lend_as(psr_zmq_channel_of((psr_zmq_transport *)other, worker1), &b);
    send_number(a.transport, worker1, 7);
    for (int events = 0; (events & ZMQ_POLLIN) == 0;) { /* it is in b's inbox */
        size_t size = sizeof events;
        psr_transport_wait(b.transport, 10);
        assert_int_equal(zmq_getsockopt(psr_inbox_socket(at->inbox), ZMQ_EVENTS, &events, &size),
                         0);
    }
    at->introductions--; /* as if one had just been seen */
    assert_fails(psr_transport_recv(b.transport, WAIT_MS, &message), PSR_ERR_PROTOCOL,
                 "shard 0: withdraws an arena");
    receive_number(b.transport, worker0, 7);
    close(fd);
    psr_transport_free(&other, 0);
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(messages_keep_their_order_where_the_sealed_connection_comes_after_the_pipe),
        TEST(messages_keep_their_order_where_the_pipe_comes_after_the_sealed_connection),
        TEST(sealed_messages_are_not_piled_up_before_the_pipe_is_read),
        TEST(who_has_much_read_before_a_message_by_curve_is_named),
        TEST(who_has_much_read_before_a_sealed_message_keeps_nobody_out),
        TEST(what_comes_behind_a_message_that_breaks_the_protocol_is_received),
        TEST(what_fails_beside_a_message_of_another_member_does_not_cost_that_message),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
