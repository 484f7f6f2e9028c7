/* Sealed messages where memory runs out: a message that fails has used up no number, of its
 * channel's messages or of its key's, and what waits is not lost. */
#include "tests/unit/network_fixture.h"

#include <stdatomic.h>
#include <zmq.h>

static run_keys keys;
static psr_transport *a, *b;

/* Of this thread: how many allocations succeed before one fails, once. -1: none fails. */
static _Thread_local int until_failure = -1;

static bool fails_now(void)
{
    return until_failure >= 0 && until_failure-- == 0;
}

void *__real_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes)
{
    return fails_now() ? NULL : __real_malloc(bytes);
}

int __real_zmq_msg_init_data(zmq_msg_t *frame, void *data, size_t bytes, zmq_free_fn *release,
                             void *hint);
int __wrap_zmq_msg_init_data(zmq_msg_t *frame, void *data, size_t bytes, zmq_free_fn *release,
                             void *hint);
int __wrap_zmq_msg_init_data(zmq_msg_t *frame, void *data, size_t bytes, zmq_free_fn *release,
                             void *hint)
{
    if (fails_now()) {
        errno = ENOMEM;
        return -1;
    }
    return __real_zmq_msg_init_data(frame, data, bytes, release, hint);
}

static int set_up(void **state)
{
    (void)state;
    stranger_lines[0] = '\0';
    until_failure = -1;
    keys = make_keys(true);
    a = open_member(&keys, worker0);
    b = open_member(&keys, worker1);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    until_failure = -1;
    psr_transport_free(&a, 0);
    psr_transport_free(&b, 0);
    free_keys(&keys);
    return 0;
}

static uint64_t sealed_bytes(void)
{
    psr_transport_counts counts;
    psr_transport_counts_get(a, &counts);
    return counts.bytes_sealed;
}

static void serve(psr_transport *transport)
{
    psr_message *message = NULL;
    assert_int_equal(psr_transport_recv(transport, 1, &message), PSR_ERR_TIMEOUT);
}

static atomic_size_t released;

static void count_release(void *context)
{
    (void)context;
    atomic_fetch_add(&released, 1);
}

static uint8_t values[PSR_PAYLOAD_BYTES_MAX];

static psr_err send_round(uint64_t round, size_t bytes, bool lent)
{
    const psr_head head = {.type = PSR_MSG_VALUES, .tag = {.round = round}};
    return psr_transport_send(
        a, worker1, &head,
        &(psr_payload){.data = values, .bytes = bytes, .release = lent ? count_release : NULL});
}

static void expect_round(psr_message *message, uint64_t round, size_t bytes)
{
    assert_int_equal(message->head.tag.round, round);
    assert_int_equal(message->payload_bytes, bytes);
    assert_memory_equal(message->payload, values, bytes);
    psr_message_free(&message);
}

static void go_sealed(void)
{
    join_to(a, worker1, b);
    for (int64_t end_ms = psr_clock_ms() + WAIT_MS; sealed_bytes() == 0;) {
        assert_true(psr_clock_ms() < end_ms);
        serve(a);
        assert_ok(send_round(0, 8, false));
        expect_round(receive(b), 0, 8);
    }
}

/* Each allocation of a message fails once; the same round is sent again until it goes. */
static void a_message_that_finds_no_memory_may_be_sent_again(void **state)
{
    (void)state;
    static const size_t sizes[] = {1, 100, 70000, sizeof values};
    uint64_t failures = 0;
    go_sealed();
    atomic_store(&released, 0);
    for (size_t i = 0; i < 8; i++) {
        const bool lent = i % 2 == 0;
        psr_err err = PSR_ERR_NOMEM;
        for (int at = 0; err != PSR_OK; at++) {
            until_failure = at;
            err = send_round(i, sizes[i / 2], lent);
            until_failure = -1;
            assert_true(err == PSR_OK || err == PSR_ERR_NOMEM);
            failures += err != PSR_OK;
            memset(values, (int)(i + (size_t)at), sizeof values); /* other bytes, the next time */
            if (err == PSR_OK) {
                psr_message *message = NULL;
                while (psr_transport_recv(b, 1, &message) == PSR_ERR_TIMEOUT)
                    serve(a);
                assert_int_equal(message->head.tag.round, i);
                assert_int_equal(message->payload_bytes, sizes[i / 2]);
                psr_message_free(&message);
            }
        }
    }
    assert_true(failures >= 8);
    assert_true(atomic_load(&released) >= 4); /* on failure too */
    while (psr_transport_waiting(a, worker1) > 0)
        serve(a);
    assert_string_equal(stranger_lines, "");
}

/* What waits for room fails when its turn has come, stays, and is told. */
static void what_waits_and_finds_no_memory_goes_on_waiting(void **state)
{
    (void)state;
    enum { COUNT = 60 };
    go_sealed();
    for (uint64_t i = 0; i < COUNT; i++)
        assert_ok(send_round(i, sizeof values, true));
    assert_true(psr_transport_waiting(a, worker1) > 0); /* far more than is sealed ahead */
    uint64_t failures = 0;
    for (uint64_t i = 0; i < COUNT;) {
        psr_message *message = NULL;
        if (psr_transport_recv(b, 1, &message) == PSR_OK) {
            expect_round(message, i++, sizeof values);
            continue;
        }
        until_failure = failures % 2 == 0 ? 0 : 1;
        const psr_err err = psr_transport_recv(a, 1, &message);
        until_failure = -1;
        assert_true(err == PSR_ERR_TIMEOUT || err == PSR_ERR_NOMEM);
        failures += err == PSR_ERR_NOMEM;
        serve(a);
    }
    assert_true(failures > 0);
    while (psr_transport_waiting(a, worker1) > 0)
        serve(a);
    assert_string_equal(stranger_lines, "");
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_message_that_finds_no_memory_may_be_sent_again),
        TEST(what_waits_and_finds_no_memory_goes_on_waiting),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
