/* net/link.h */
#include "tests/unit/expect.h"

#include "net/link.h"

#include <stdlib.h>
#include <string.h>

#define RATE 8000000ull /* bits per second: a byte each microsecond */
#define HEAD_NS (PSR_LINK_HEAD_BYTES * 1000ll)
#define MS 1000000ll

static const psr_peer one = {PSR_ROLE_WORKER, 1}, two = {PSR_ROLE_SHARD, 2};

static void count(void *context)
{
    ++*(int *)context;
}

static void send_bytes(psr_link *link, int64_t now_ns, psr_peer to, size_t bytes, int *ended)
{
    static const uint8_t data[5000];
    const psr_head head = {.sequence = bytes};
    expect_ok(psr_link_send(link, now_ns, to, &head,
                            &(psr_payload){data, bytes, ended != NULL ? count : NULL, ended}));
}

static void expect_sent(psr_link *link, int64_t now_ns, size_t bytes)
{
    psr_link_sent sent;
    assert_true(psr_link_next_sent(link, now_ns, &sent));
    assert_int_equal(sent.head.sequence, bytes);
    assert_true(sent.has_payload);
    assert_int_equal(sent.payload.bytes, bytes);
    assert_non_null(sent.payload.release);
    sent.payload.release(sent.payload.context);
}

static void what_is_sent_takes_its_bytes_at_the_rate_and_the_delay(void **state)
{
    (void)state;
    psr_link *link;
    psr_link_sent sent;
    expect_ok(psr_link_new(RATE, 0.002, &link));
    assert_int_equal(psr_link_due_ns(link), INT64_MAX);
    send_bytes(link, 5 * MS, one, 1000, NULL);
    send_bytes(link, 5 * MS, two, 500, NULL); /* one link, whoever it is for */
    assert_true(psr_link_has_unsent(link));
    const int64_t first_ns = 5 * MS + 1000000 + HEAD_NS, second_ns = first_ns + 500000 + HEAD_NS;
    assert_int_equal(psr_link_due_ns(link), first_ns + 2 * MS);
    assert_false(psr_link_next_sent(link, first_ns + 2 * MS - 1, &sent));
    expect_sent(link, first_ns + 2 * MS, 1000);
    assert_int_equal(psr_link_due_ns(link), second_ns + 2 * MS);
    /* idle until 50 ms: what was not used is lost */
    expect_sent(link, 50 * MS, 500);
    assert_false(psr_link_has_unsent(link));
    send_bytes(link, 50 * MS, one, 1000, NULL);
    assert_int_equal(psr_link_due_ns(link), 50 * MS + 1000000 + HEAD_NS + 2 * MS);
    psr_link_free(link);
}

static void a_message_without_payload_takes_the_time_of_its_head(void **state)
{
    (void)state;
    psr_link *link;
    psr_link_sent sent;
    const psr_head head = {.sequence = 3};
    expect_ok(psr_link_new(RATE, 0, &link));
    expect_ok(psr_link_send(link, 0, one, &head, NULL));
    assert_int_equal(psr_link_due_ns(link), HEAD_NS);
    assert_true(psr_link_next_sent(link, HEAD_NS, &sent));
    assert_false(sent.has_payload);
    assert_int_equal(sent.to.rank, 1);
    psr_link_free(link);
}

static void without_a_rate_there_is_the_delay_alone(void **state)
{
    (void)state;
    psr_link *link;
    expect_ok(psr_link_new(0, 0.001, &link));
    send_bytes(link, 0, one, 5000, NULL);
    send_bytes(link, 0, one, 4000, NULL);
    expect_sent(link, MS, 5000);
    expect_sent(link, MS, 4000);
    psr_link_free(link);
}

static void loans_end_once_however_the_message_ends(void **state)
{
    (void)state;
    psr_link *link;
    int ended[4] = {0};
    expect_ok(psr_link_new(RATE, 0, &link));
    send_bytes(link, 0, one, 10, &ended[0]);
    send_bytes(link, 0, two, 20, &ended[1]);
    send_bytes(link, 0, one, 30, &ended[2]);
    send_bytes(link, 0, two, 40, &ended[3]);
    expect_sent(link, MS / 4, 10);
    psr_link_forget(link, two);
    assert_int_equal(ended[1], 1);
    expect_sent(link, 100 * MS, 30); /* what was dropped is passed over */
    assert_false(psr_link_next_sent(link, 100 * MS, &(psr_link_sent){.has_payload = false}));
    send_bytes(link, 100 * MS, one, 50, &ended[0]);
    psr_link_free(link);
    assert_int_equal(ended[0], 2);
    assert_int_equal(ended[1], 1);
    assert_int_equal(ended[2], 1);
    assert_int_equal(ended[3], 1);
}

static void free_message(psr_message *message)
{
    free(message);
}

static psr_message *message_of(size_t bytes)
{
    psr_message *message = calloc(1, sizeof *message);
    assert_non_null(message);
    message->release = free_message;
    message->payload_bytes = bytes;
    return message;
}

static void expect_received(psr_link *link, int64_t now_ns, size_t bytes)
{
    psr_message *message = psr_link_next_received(link, now_ns);
    assert_non_null(message);
    assert_int_equal(message->payload_bytes, bytes);
    psr_message_free(&message);
}

/* Three that come at once have come over three links; this end takes them one after another. The
 * first has been on its way meanwhile. */
static void what_arrives_at_once_is_taken_one_after_another(void **state)
{
    (void)state;
    psr_link *link;
    expect_ok(psr_link_new(RATE, 0.001, &link));
    const int64_t each_ns = 1000000 + HEAD_NS, now_ns = 100 * MS;
    for (size_t i = 0; i < 3; i++)
        expect_ok(psr_link_receive(link, now_ns, message_of(1000)));
    expect_received(link, now_ns, 1000);
    assert_null(psr_link_next_received(link, now_ns + each_ns - 1));
    assert_int_equal(psr_link_due_ns(link), now_ns + each_ns);
    expect_received(link, now_ns + each_ns, 1000);
    assert_int_equal(psr_link_due_ns(link), now_ns + 2 * each_ns);
    /* One sender at the same rate is not held up. */
    expect_received(link, now_ns + 2 * each_ns, 1000);
    for (int64_t i = 3; i < 6; i++) {
        expect_ok(psr_link_receive(link, now_ns + i * each_ns, message_of(1000)));
        expect_received(link, now_ns + i * each_ns, 1000);
    }
    expect_ok(psr_link_receive(link, now_ns, message_of(7))); /* is freed with the link */
    psr_link_free(link);
}

static void many_messages_wait_in_their_order(void **state)
{
    (void)state;
    psr_link *link;
    expect_ok(psr_link_new(0, 0.001, &link));
    for (size_t i = 0; i < 100; i++) {
        send_bytes(link, (int64_t)i, one, 2 * i, NULL);
        send_bytes(link, (int64_t)i, one, 2 * i + 1, NULL);
        expect_sent(link, 10 * MS, i);
    }
    for (size_t i = 100; i < 200; i++)
        expect_sent(link, 10 * MS, i);
    psr_link_free(link);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_sent_takes_its_bytes_at_the_rate_and_the_delay),
        cmocka_unit_test(a_message_without_payload_takes_the_time_of_its_head),
        cmocka_unit_test(without_a_rate_there_is_the_delay_alone),
        cmocka_unit_test(loans_end_once_however_the_message_ends),
        cmocka_unit_test(what_arrives_at_once_is_taken_one_after_another),
        cmocka_unit_test(many_messages_wait_in_their_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
