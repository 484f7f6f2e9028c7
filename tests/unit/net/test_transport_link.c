/* net/transport_link.c: transports over real sockets, with an emulated link on each. */
#include "tests/unit/network_fixture.h"

#include <stdatomic.h>

#define RATE 80000000ull /* bits per second: 10 MB/s */
#define BYTES_PER_S 10e6
#define DELAY_S 0.005

static run_keys keys;
static psr_transport *a, *b, *s;

static int set_up(void **state)
{
    (void)state;
    keys = make_keys(false);
    a = open_member(&keys, worker0);
    b = open_member(&keys, worker1);
    s = open_member(&keys, scheduler);
    assert_ok(psr_transport_emulate_link(a, RATE, DELAY_S));
    assert_ok(psr_transport_emulate_link(b, RATE, DELAY_S));
    join_to(a, worker1, b);
    join_to(b, worker0, a);
    join_to(a, scheduler, s);
    join_to(s, worker0, a);
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

#define LINKED(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

static atomic_int ended;

static void end_loan(void *context)
{
    (void)context;
    atomic_fetch_add(&ended, 1);
}

static void lend(psr_transport *from, psr_peer to, uint64_t number, const uint8_t *data,
                 size_t bytes)
{
    const psr_head head = {.type = PSR_MSG_PUSH, .fields = {number}};
    assert_ok(psr_transport_send(
        from, to, &head, &(psr_payload){.data = data, .bytes = bytes, .release = end_loan}));
}

/* Whoever sends has to come back: it is its calls that move what is due. */
static psr_message *receive_while_sending(psr_transport *to, psr_transport *from)
{
    const int64_t end_ms = psr_clock_ms() + WAIT_MS;
    while (psr_clock_ms() < end_ms) {
        psr_message *message = NULL;
        psr_err err = psr_transport_recv(from, 0, &message);
        assert_int_equal(err, PSR_ERR_TIMEOUT);
        err = psr_transport_recv(to, 1, &message);
        if (err == PSR_OK)
            return message;
        assert_int_equal(err, PSR_ERR_TIMEOUT);
    }
    fail_msg("no message came");
    return NULL;
}

static void values_arrive_whole_in_order_and_not_before_their_time(void **state)
{
    (void)state;
    enum { COUNT = 5, BYTES = 100000 };
    static uint8_t data[COUNT][BYTES];
    atomic_store(&ended, 0);
    for (int i = 0; i < COUNT; i++)
        memset(data[i], i + 1, BYTES);
    const double begun_s = psr_clock_s();
    for (int i = 0; i < COUNT; i++)
        lend(a, worker1, (uint64_t)i, data[i], BYTES);
    for (int i = 0; i < COUNT; i++) {
        psr_message *message = receive_while_sending(b, a);
        assert_true(psr_clock_s() - begun_s >= (i + 1) * BYTES / BYTES_PER_S + DELAY_S);
        assert_int_equal(message->head.fields[0], i);
        assert_int_equal(message->payload_bytes, BYTES);
        assert_memory_equal(message->payload, data[i], BYTES);
        psr_message_free(&message);
    }
    psr_transport_counts counts;
    psr_transport_counts_get(a, &counts);
    assert_int_equal(counts.messages_sent, COUNT);
    assert_int_equal(counts.bytes_sent, COUNT * BYTES);
}

static void a_waiter_is_woken_when_a_message_is_due(void **state)
{
    (void)state;
    static const uint8_t data[100000];
    lend(a, worker1, 7, data, sizeof data);
    const double begun_s = psr_clock_s();
    psr_transport_wait(a, WAIT_MS); /* its own message is due to leave */
    assert_true(psr_clock_s() - begun_s < WAIT_MS * 1e-3);
    psr_message *message = receive_while_sending(b, a);
    assert_int_equal(message->head.fields[0], 7);
    psr_message_free(&message);
}

static void the_scheduler_is_not_kept_waiting(void **state)
{
    (void)state;
    enum { COUNT = 5, BYTES = 1000000 }; /* half a second */
    static const uint8_t data[BYTES];
    const double begun_s = psr_clock_s();
    for (uint64_t i = 0; i < COUNT; i++)
        lend(a, worker1, i, data, BYTES);
    send_number(a, scheduler, 2);
    receive_number(s, worker0, 2);
    send_number(s, worker0, 3);
    receive_number(a, scheduler, 3);
    for (uint64_t i = 0; i < COUNT; i++) {
        psr_message *message = receive_while_sending(b, a);
        assert_int_equal(message->head.fields[0], i);
        psr_message_free(&message);
    }
    assert_true(psr_clock_s() - begun_s >= COUNT * BYTES / BYTES_PER_S);
}

static void what_has_not_left_is_dropped_with_its_channel_and_sent_before_the_end(void **state)
{
    (void)state;
    static const uint8_t data[300000];
    atomic_store(&ended, 0);
    lend(a, worker1, 1, data, sizeof data);
    lend(a, worker1, 2, data, sizeof data);
    psr_transport_disconnect(a, worker1);
    assert_int_equal(atomic_load(&ended), 2);
    lend(b, worker0, 3, data, sizeof data);
    psr_transport_free(&b, WAIT_MS); /* delivers it */
    psr_message *message = receive(a);
    assert_int_equal(message->head.fields[0], 3);
    psr_message_free(&message);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LINKED(values_arrive_whole_in_order_and_not_before_their_time),
        LINKED(a_waiter_is_woken_when_a_message_is_due),
        LINKED(the_scheduler_is_not_kept_waiting),
        LINKED(what_has_not_left_is_dropped_with_its_channel_and_sent_before_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
