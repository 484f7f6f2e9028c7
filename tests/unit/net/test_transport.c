#include "tests/unit/network_fixture.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <unistd.h>

/* Of the test that goes on, and closed behind it; it may close them itself. */
static run_keys keys;
static psr_transport *a, *b, *s;
static uint64_t next_number; /* to be received */

static int set_up_keys(void **state)
{
    (void)state;
    keys = make_keys(false);
    return 0;
}

static int set_up_one_token(void **state)
{
    (void)state;
    keys = make_one_token();
    return 0;
}

static int set_up_curve(void **state)
{
    (void)state;
    keys = make_keys(true);
    return 0;
}

static int set_up_two(void **state)
{
    set_up_keys(state);
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

#define WITH_KEYS(test) cmocka_unit_test_setup_teardown(test, set_up_keys, tear_down)
#define WITH_ONE_TOKEN(test) cmocka_unit_test_setup_teardown(test, set_up_one_token, tear_down)
#define WITH_CURVE(test) cmocka_unit_test_setup_teardown(test, set_up_curve, tear_down)
#define OF_TWO(test) cmocka_unit_test_setup_teardown(test, set_up_two, tear_down)

static void a_message_arrives_as_it_was_sent(void **state)
{
    (void)state;
    a = open_member(&keys, worker0);
    b = open_member(&keys, shard0);
    join_to(a, shard0, b);
    psr_head head = {.type = PSR_MSG_PUSH,
                     .encoding = PSR_ENCODING_FLOAT32,
                     .tag = {1, 2, 3, UINT64_MAX},
                     .fields = {UINT64_C(1) << 40, 77, 1}};
    float values[] = {1.5f, -2.0f, 3.25f};
    assert_ok(psr_transport_send(a, shard0, &head,
                                 &(psr_payload){.data = values, .bytes = sizeof values}));
    memset(values, 0, sizeof values); /* it was copied */
    psr_message *message = receive(b);
    assert_true(psr_peer_equal(message->from, worker0));
    assert_int_equal(message->head.type, PSR_MSG_PUSH);
    assert_int_equal(message->head.encoding, PSR_ENCODING_FLOAT32);
    const psr_tag *tag = &message->head.tag;
    assert_true(tag->epoch == 1 && tag->group == 2 && tag->slot == 3 && tag->round == UINT64_MAX);
    assert_memory_equal(message->head.fields, head.fields, sizeof head.fields);
    assert_int_equal(message->payload_bytes, sizeof values);
    assert_memory_equal(message->payload, ((float[]){1.5f, -2.0f, 3.25f}), sizeof values);

    psr_transport_counts sent, received;
    psr_transport_counts_get(a, &sent);
    psr_transport_counts_get(b, &received);
    assert_int_equal(sent.messages_sent, 1);
    assert_int_equal(sent.bytes_sent, sizeof values);
    assert_int_equal(received.messages_received, 1);
    assert_int_equal(received.bytes_received, sizeof values);
    assert_int_equal(received.strangers, 0);

    /* A message outlives the transport that received it. */
    psr_transport_free(&a, 0);
    psr_transport_free(&b, 0);
    assert_null(b);
    assert_memory_equal(message->payload, ((float[]){1.5f, -2.0f, 3.25f}), sizeof values);
    psr_message_free(&message);
}

static void each_message_names_the_member_that_sent_it(void **state)
{
    (void)state;
    s = open_member(&keys, scheduler);
    join_to(a, scheduler, s);
    join_to(b, scheduler, s);
    join_to(a, worker1, b);
    join_to(s, worker0, a);
    send_number(a, scheduler, 1);
    receive_number(s, worker0, 1);
    send_number(b, scheduler, 2);
    receive_number(s, worker1, 2);
    send_number(a, worker1, 3);
    receive_number(b, worker0, 3);
    send_number(s, worker0, 4);
    receive_number(a, scheduler, 4);
}

static void a_channel_keeps_the_order_of_messages_of_all_sizes(void **state)
{
    (void)state;
    enum { COUNT = 3000 };
    static uint8_t bytes[100000];
    join_to(a, worker1, b);
    for (uint32_t i = 0; i < COUNT; i++) {
        size_t size = i % 7 == 0 ? sizeof bytes : i % 90;
        memset(bytes, (int)i, size);
        psr_head head = {.type = PSR_MSG_VALUES, .tag = {.round = i}};
        assert_ok(
            psr_transport_send(a, worker1, &head, &(psr_payload){.data = bytes, .bytes = size}));
    }
    for (uint32_t i = 0; i < COUNT; i++) {
        psr_message *message = receive(b);
        size_t size = i % 7 == 0 ? sizeof bytes : i % 90;
        assert_int_equal(message->head.tag.round, i);
        assert_int_equal(message->payload_bytes, size);
        memset(bytes, (int)i, size);
        assert_memory_equal(message->payload, bytes, size);
        psr_message_free(&message);
    }
}

static void a_payload_is_aligned_for_double_whatever_came_before_it(void **state)
{
    (void)state;
    static uint8_t bytes[20000];
    join_to(a, worker1, b);
    size_t sizes[400], count = 0;
    for (size_t i = 1; i <= 200; i++)
        sizes[count++] = i;
    for (size_t i = 0; i < 100; i++) {
        sizes[count++] = 8100 + i;
        sizes[count++] = 97 * (i + 1) + 3;
    }
    /* All of them first, so that libzmq receives them in batches. */
    for (size_t i = 0; i < count; i++) {
        memset(bytes, (int)(i * 31), sizes[i]);
        psr_head head = {.type = PSR_MSG_VALUES, .tag = {.round = i}};
        assert_ok(psr_transport_send(a, worker1, &head,
                                     &(psr_payload){.data = bytes, .bytes = sizes[i]}));
    }
    for (size_t i = 0; i < count; i++) {
        psr_message *message = receive(b);
        assert_int_equal((uintptr_t)message->payload % _Alignof(double), 0);
        assert_int_equal(message->payload_bytes, sizes[i]);
        memset(bytes, (int)(i * 31), sizes[i]);
        assert_memory_equal(message->payload, bytes, sizes[i]);
        psr_message_free(&message);
    }
}

static psr_message *receive_after(psr_transport *from, psr_peer to, const psr_payload *payload,
                                  psr_transport *at)
{
    assert_ok(psr_transport_send(from, to, &(psr_head){.type = PSR_MSG_RING}, payload));
    return receive(at);
}

static void count_release(void *context)
{
    atomic_fetch_add((atomic_uint *)context, 1);
}

static void lent_bytes_are_given_back_once_when_they_have_left(void **state)
{
    (void)state;
    enum { COUNT = 50, BYTES = 262144 };
    static uint8_t bytes[BYTES];
    atomic_uint released = 0;
    join_to(a, worker1, b);
    psr_head head = {.type = PSR_MSG_RING};
    for (unsigned i = 0; i < COUNT; i++)
        assert_ok(psr_transport_send(a, worker1, &head,
                                     &(psr_payload){bytes, BYTES, count_release, &released}));
    for (unsigned i = 0; i < COUNT; i++) {
        psr_message *message = receive(b);
        assert_ptr_not_equal(message->payload, bytes);
        psr_message_free(&message);
    }
    psr_transport_free(&a, 1000);
    assert_int_equal(released, COUNT);
}

static void lent_bytes_are_given_back_once_when_they_cannot_leave(void **state)
{
    (void)state;
    static uint8_t bytes[1000];
    atomic_uint released = 0;
    psr_head head = {.type = PSR_MSG_RING};
    psr_payload lent = {bytes, sizeof bytes, count_release, &released};
    assert_fails(psr_transport_send(a, worker1, &head, &lent), PSR_ERR_NOT_FOUND,
                 "no channel to worker 1");
    assert_int_equal(released, 1);

    psr_payload huge = {bytes, (size_t)PSR_PAYLOAD_BYTES_MAX + 1, count_release, &released};
    assert_fails(psr_transport_send(a, worker1, &head, &huge), PSR_ERR_PROTOCOL,
                 "1048576 is the most");
    assert_int_equal(released, 2);

    join_to(a, worker1, b);
    psr_payload nothing = {bytes, 0, count_release, &released};
    assert_ok(psr_transport_send(a, worker1, &head, &nothing));
    assert_int_equal(released, 3);
    psr_message *message = receive(b);
    assert_int_equal(message->payload_bytes, 0);
    psr_message_free(&message);

    /* The peer is gone: they never leave, and come back when the transport ends. */
    psr_transport_free(&b, 0);
    for (unsigned i = 0; i < 10; i++)
        assert_ok(psr_transport_send(a, worker1, &head, &lent));
    psr_transport_free(&a, 0);
    assert_int_equal(released, 13);
}

/* Nobody listens there, so nothing leaves; over another channel all does. */
static void what_waits_for_a_peer_is_counted_and_bounded(void **state)
{
    (void)state;
    enum { BOUND = 40, LENT = 4 };
    static uint8_t bytes[70000];
    atomic_uint released = 0;
    char endpoint[128];
    psr_head head = {.type = PSR_MSG_RING};
    const psr_payload lent = {bytes, sizeof bytes, count_release, &released};
    assert_int_equal(psr_transport_waiting(a, worker1), 0); /* not connected */
    join_to(a, worker1, b);
    for (uint64_t i = 0; i < 2 * BOUND; i++) {
        send_number(a, worker1, i);
        receive_number(b, worker0, i);
    }
    psr_message *message = receive_after(a, worker1, &lent, b);
    psr_message_free(&message);
    while (psr_transport_waiting(a, worker1) > 0) /* the last one may count for a
                                                     moment after it has come */
        sched_yield();

    snprintf(endpoint, sizeof endpoint, "%s", psr_transport_endpoint(b));
    psr_transport_disconnect(a, worker1);
    psr_transport_free(&b, 0);
    assert_int_equal(psr_transport_waiting(a, worker1), 0);
    psr_transport_bound(a, PSR_ROLE_WORKER, BOUND);
    assert_ok(psr_transport_connect(a, worker1, endpoint, NULL)); /* says HELLO */
    for (uint64_t i = 1; i < BOUND - LENT; i++)
        send_number(a, worker1, i);
    released = 0;
    for (uint64_t i = 0; i < LENT; i++)
        assert_ok(psr_transport_send(a, worker1, &head, &lent));
    assert_int_equal(psr_transport_waiting(a, worker1), BOUND);
    assert_fails(psr_transport_send(a, worker1, &head, &lent), PSR_ERR_PROTOCOL,
                 "worker 1 does not read what it asks for: 40 messages wait for it");
    assert_int_equal(released, 1); /* what is refused is given back */
    psr_transport_bound(a, PSR_ROLE_WORKER, BOUND + 1);
    assert_ok(psr_transport_send(a, worker1, &head, &lent));
    psr_transport_free(&a, 0); /* with what waits */
    assert_int_equal(released, 1 + LENT + 1);
}

static void what_is_queued_is_delivered_before_the_transport_ends(void **state)
{
    (void)state;
    join_to(a, worker1, b);
    for (uint64_t i = 0; i < 100; i++)
        send_number(a, worker1, i);
    psr_transport_free(&a, WAIT_MS);
    for (uint64_t i = 0; i < 100; i++)
        receive_number(b, worker0, i);
}

static void nobody_there_does_not_keep_the_end_longer_than_the_linger(void **state)
{
    (void)state;
    char endpoint[128];
    snprintf(endpoint, sizeof endpoint, "%s", psr_transport_endpoint(b));
    psr_transport_free(&b, 0);
    assert_ok(psr_transport_connect(a, worker1, endpoint, NULL));
    send_number(a, worker1, 1);
    int64_t begin_ms = psr_clock_ms();
    psr_transport_free(&a, 200);
    assert_true(psr_clock_ms() - begin_ms >= 190);
}

static void receiving_gives_up_at_its_deadline(void **state)
{
    (void)state;
    a = open_member(&keys, worker0);
    psr_message *message = NULL;
    int64_t begin_ms = psr_clock_ms();
    assert_fails(psr_transport_recv(a, 60, &message), PSR_ERR_TIMEOUT, "60 ms");
    assert_true(psr_clock_ms() - begin_ms >= 59);
    assert_fails(psr_transport_recv(a, 0, &message), PSR_ERR_TIMEOUT, "no message");
    assert_null(message);
}

static void *wake_it(void *context)
{
    psr_transport_wake(context);
    return NULL;
}

static void a_wake_from_another_thread_ends_a_wait(void **state)
{
    (void)state;
    a = open_member(&keys, worker0);
    for (int i = 0; i < 50; i++) {
        pthread_t thread;
        psr_message *message = NULL;
        assert_int_equal(pthread_create(&thread, NULL, wake_it, a), 0);
        assert_fails(psr_transport_recv(a, i % 2 ? -1 : WAIT_MS, &message), PSR_ERR_CANCELLED,
                     "woken");
        pthread_join(thread, NULL);
    }
}

static void *wait_beside(void *context)
{
    psr_transport_wait(context, -1);
    return NULL;
}

/* Two threads wait, without taking anything from each other or from who receives then. */
static void a_message_and_a_wake_end_the_waits_of_all_threads(void **state)
{
    (void)state;
    join_to(a, worker1, b);
    send_number(a, worker1, 0);
    receive_number(b, worker0, 0);
    for (uint64_t i = 1; i <= 40; i++) {
        pthread_t threads[2];
        psr_message *message = NULL;
        assert_fails(psr_transport_recv(b, 0, &message), PSR_ERR_TIMEOUT, "no message");
        for (int k = 0; k < 2; k++)
            assert_int_equal(pthread_create(&threads[k], NULL, wait_beside, b), 0);
        if (i % 2)
            send_number(a, worker1, (i + 1) / 2);
        else
            psr_transport_wake(b);
        for (int k = 0; k < 2; k++)
            pthread_join(threads[k], NULL);
        if (i % 2)
            receive_number(b, worker0, (i + 1) / 2);
        else
            assert_fails(psr_transport_recv(b, 0, &message), PSR_ERR_CANCELLED, "woken");
    }
    psr_transport_wait(b, 1); /* nothing is there: it returns at its time */
}

static void a_wait_ends_too_when_a_descriptor_beside_it_can_be_read(void **state)
{
    (void)state;
    int beside[2];
    psr_message *message = NULL;
    assert_int_equal(pipe(beside), 0);
    join_to(a, worker1, b);
    send_number(a, worker1, 0);
    receive_number(b, worker0, 0);
    assert_fails(psr_transport_recv(b, 0, &message), PSR_ERR_TIMEOUT, "no message");
    assert_int_equal(write(beside[1], "x", 1), 1);
    psr_transport_wait_beside(b, beside[0], -1);
    char byte;
    assert_int_equal(read(beside[0], &byte, 1), 1); /* it was left there */
    send_number(a, worker1, 1);
    psr_transport_wait_beside(b, beside[0], -1);
    receive_number(b, worker0, 1);
    psr_transport_wait_beside(b, beside[0], 1); /* nothing is there: it returns at its time */
    close(beside[0]);
    close(beside[1]);
}

/* One thread receives, then the other: each sees all that the former left. */
static void *receive_the_odd(void *context)
{
    pthread_mutex_t *turn = context;
    for (uint64_t i = 1; i < 200; i += 2)
        for (bool received = false; !received;) {
            pthread_mutex_lock(turn);
            psr_message *message = NULL;
            received = next_number % 2 == 1 && psr_transport_recv(b, 0, &message) == PSR_OK;
            next_number += received;
            psr_message_free(&message);
            pthread_mutex_unlock(turn);
            if (!received)
                psr_transport_wait(b, 1);
        }
    return NULL;
}

static void a_transport_goes_from_thread_to_thread(void **state)
{
    (void)state;
    pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
    pthread_t thread;
    next_number = 0;
    join_to(a, worker1, b);
    assert_int_equal(pthread_create(&thread, NULL, receive_the_odd, &turn), 0);
    for (uint64_t i = 0; i < 200; i++)
        send_number(a, worker1, i);
    for (uint64_t i = 0; i < 200; i += 2)
        for (bool received = false; !received;) {
            pthread_mutex_lock(&turn);
            if (next_number == i) {
                receive_number(b, worker0, i);
                next_number++;
                received = true;
            }
            pthread_mutex_unlock(&turn);
        }
    pthread_join(thread, NULL);
    assert_int_equal(next_number, 200);
}

static void wakes_coalesce_and_come_after_what_is_there(void **state)
{
    (void)state;
    join_to(a, worker1, b);
    psr_message *message = NULL;
    /* Two messages in one write: when the first is there, so is the second. */
    send_number(a, worker1, 0);
    receive_number(b, worker0, 0);
    send_number(a, worker1, 1);
    receive_number(b, worker0, 1);
    psr_transport_wake(b);
    psr_transport_wake(b);
    psr_transport_wake(b);
    assert_fails(psr_transport_recv(b, 0, &message), PSR_ERR_CANCELLED, "woken");
    assert_fails(psr_transport_recv(b, 0, &message), PSR_ERR_TIMEOUT, "no message");
    psr_transport_wake(b);
    send_number(a, worker1, 2);
    for (bool cancelled = false, received = false; !cancelled || !received;) {
        psr_err err = psr_transport_recv(b, WAIT_MS, &message);
        if (err == PSR_ERR_CANCELLED) {
            assert_false(cancelled);
            cancelled = true;
        } else {
            assert_ok(err);
            assert_false(received);
            received = true;
            psr_message_free(&message);
        }
    }
}

static void a_member_that_got_its_rank_speaks_under_its_new_name(void **state)
{
    (void)state;
    static const psr_peer nameless = {PSR_ROLE_WORKER, PSR_RANK_ANY};
    s = open_member(&keys, scheduler);
    a = open_as(keys_of(&keys, worker0), nameless);
    b = open_as(keys_of(&keys, worker1), nameless);
    join_to(a, scheduler, s);
    join_to(b, scheduler, s);
    send_number(a, scheduler, 1);
    receive_number(s, nameless, 1);
    send_number(b, scheduler, 2);
    receive_number(s, nameless, 2);
    assert_ok(psr_transport_rename(a, worker1));
    send_number(a, scheduler, 3);
    receive_number(s, worker1, 3);
    assert_ok(psr_transport_rename(b, worker0));
    send_number(b, scheduler, 4);
    receive_number(s, worker0, 4);
    /* And to those that it connects to afterwards. */
    join_to(a, worker0, b);
    send_number(a, worker0, 5);
    receive_number(b, worker1, 5);
}

static void a_member_that_has_a_rank_cannot_change_it(void **state)
{
    (void)state;
    s = open_member(&keys, scheduler);
    a = open_member(&keys, worker0);
    join_to(a, scheduler, s);
    send_number(a, scheduler, 1);
    receive_number(s, worker0, 1);
    assert_ok(psr_transport_rename(a, worker1));
    psr_message *message = NULL;
    assert_fails(psr_transport_recv(s, WAIT_MS, &message), PSR_ERR_PROTOCOL,
                 "worker 0: now says it is worker 1");
}

static void with_curve_members_with_keys_of_the_roster_talk(void **state)
{
    (void)state;
    s = open_member(&keys, scheduler);
    a = open_member(&keys, worker1);
    join_to(a, scheduler, s);
    assert_ok(psr_transport_connect(s, worker1, psr_transport_endpoint(a),
                                    keys_of(&keys, worker1)->public_key));
    static uint8_t bytes[300000];
    memset(bytes, 7, sizeof bytes);
    psr_head head = {.type = PSR_MSG_CHECKPOINT};
    assert_ok(psr_transport_send(a, scheduler, &head,
                                 &(psr_payload){.data = bytes, .bytes = sizeof bytes}));
    psr_message *message = receive(s);
    assert_true(psr_peer_equal(message->from, worker1));
    assert_int_equal(message->payload_bytes, sizeof bytes);
    assert_memory_equal(message->payload, bytes, sizeof bytes);
    assert_int_equal((uintptr_t)message->payload % _Alignof(double), 0);
    psr_message_free(&message);
    send_number(s, worker1, 9);
    receive_number(a, scheduler, 9);
}

static void the_key_says_the_rank_of_one_that_asks_for_any(void **state)
{
    (void)state;
    s = open_member(&keys, scheduler);
    a = open_as(keys_of(&keys, worker1), (psr_peer){PSR_ROLE_WORKER, PSR_RANK_ANY});
    join_to(a, scheduler, s);
    send_number(a, scheduler, 1);
    receive_number(s, worker1, 1);
}

/* ---- a TCP connection that breaks ----
 *
 * A relay between sender and inbox, on a thread, told what to do through a pipe: 'c' cuts the
 * connection, 's' swallows what comes from then on instead of passing it on. It answers each order
 * when it is done: 'c' after the sender has connected again, 's' after something was swallowed.
 * Whoever ends a connection itself, as in a handshake that takes too long, is connected again. */

typedef struct relay {
    int listener, orders[2], answers[2];
    struct sockaddr_in target;
    char endpoint[64];
    pthread_t thread;
} relay;

typedef struct legs {
    int sender, inbox;
    bool swallow, swallowed;
} legs;

static void cut_legs(legs *l)
{
    if (l->sender >= 0)
        close(l->sender);
    if (l->inbox >= 0)
        close(l->inbox);
    l->sender = l->inbox = -1;
}

static void connect_legs(relay *r, legs *l)
{
    l->sender = accept(r->listener, NULL, NULL);
    l->inbox = socket(AF_INET, SOCK_STREAM, 0);
    l->swallow = l->swallowed = false;
    if (connect(l->inbox, (struct sockaddr *)&r->target, sizeof r->target) != 0)
        cut_legs(l);
}

/* false: that leg has ended. */
static bool pass_on(legs *l, int from, int to)
{
    static char bytes[65536];
    ssize_t got = recv(from, bytes, sizeof bytes, 0);
    l->swallowed = l->swallowed || (l->swallow && got > 0);
    for (ssize_t sent = 0, now; !l->swallow && sent < got; sent += now)
        if ((now = send(to, bytes + sent, (size_t)(got - sent), MSG_NOSIGNAL)) <= 0)
            break;
    return got > 0;
}

static void *relay_main(void *context)
{
    relay *r = context;
    legs l;
    connect_legs(r, &l);
    for (bool owed = false;;) {
        struct pollfd items[] = {{r->orders[0], POLLIN, 0},
                                 {l.sender, POLLIN, 0},
                                 {l.inbox, POLLIN, 0},
                                 {l.sender < 0 ? r->listener : -1, POLLIN, 0}};
        poll(items, 4, -1);
        char order = 0;
        if (items[0].revents && read(r->orders[0], &order, 1) != 1)
            break;
        if (order == 'c') {
            cut_legs(&l);
            connect_legs(r, &l);
            (void)!write(r->answers[1], "c", 1);
        } else if (order == 's') {
            l.swallow = owed = true;
        } else if ((items[1].revents && !pass_on(&l, l.sender, l.inbox)) ||
                   (items[2].revents && !pass_on(&l, l.inbox, l.sender))) {
            cut_legs(&l);
        } else if (items[3].revents) {
            connect_legs(r, &l);
        }
        if (owed && l.swallowed) {
            owed = false;
            (void)!write(r->answers[1], "s", 1);
        }
    }
    cut_legs(&l);
    return NULL;
}

static void relay_open(relay *r, const psr_transport *to)
{
    struct sockaddr_in own = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof own;
    r->target = own;
    r->target.sin_port =
        htons((uint16_t)strtoul(strrchr(psr_transport_endpoint(to), ':') + 1, NULL, 10));
    r->listener = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(r->listener, (struct sockaddr *)&own, sizeof own), 0);
    assert_int_equal(listen(r->listener, 5), 0);
    assert_int_equal(getsockname(r->listener, (struct sockaddr *)&own, &size), 0);
    snprintf(r->endpoint, sizeof r->endpoint, "tcp://127.0.0.1:%u", ntohs(own.sin_port));
    assert_int_equal(pipe(r->orders) | pipe(r->answers), 0);
    assert_int_equal(pthread_create(&r->thread, NULL, relay_main, r), 0);
}

static void order(relay *r, char what)
{
    assert_int_equal(write(r->orders[1], &what, 1), 1);
}

static void await_answer(relay *r, char what)
{
    struct pollfd item = {r->answers[0], POLLIN, 0};
    char answer = 0;
    assert_int_equal(poll(&item, 1, WAIT_MS), 1);
    assert_int_equal(read(r->answers[0], &answer, 1), 1);
    assert_int_equal(answer, what);
}

static void relay_close(relay *r)
{
    close(r->orders[1]); /* the end of its orders ends it */
    pthread_join(r->thread, NULL);
    close(r->orders[0]);
    close(r->answers[0]);
    close(r->answers[1]);
    close(r->listener);
}

static void a_connection_that_breaks_while_nothing_is_under_way_is_made_again(void **state)
{
    (void)state;
    relay r;
    relay_open(&r, b);
    assert_ok(psr_transport_connect(a, worker1, r.endpoint, NULL));
    for (uint64_t i = 0; i < 3; i++) {
        send_number(a, worker1, i);
        receive_number(b, worker0, i);
        order(&r, 'c');
        await_answer(&r, 'c');
    }
    send_number(a, worker1, 9);
    receive_number(b, worker0, 9);
    psr_transport_free(&a, 0);
    psr_transport_free(&b, 0);
    relay_close(&r);
}

static void a_connection_that_breaks_with_something_under_way_is_noticed(void **state)
{
    (void)state;
    relay r;
    relay_open(&r, b);
    assert_ok(psr_transport_connect(a, worker1, r.endpoint, NULL));
    send_number(a, worker1, 0);
    receive_number(b, worker0, 0);
    order(&r, 's');
    send_number(a, worker1, 1);
    await_answer(&r, 's');
    order(&r, 'c');
    await_answer(&r, 'c');
    send_number(a, worker1, 2);
    psr_message *message = NULL;
    assert_fails(psr_transport_recv(b, WAIT_MS, &message), PSR_ERR_PEER,
                 "worker 0: its connection broke and 1 message was lost");
    psr_transport_free(&a, 0);
    psr_transport_free(&b, 0);
    relay_close(&r);
}

static void an_interface_may_be_named(void **state)
{
    (void)state;
    psr_zmq_options options = {.self = worker0, .keys = keys_of(&keys, worker0), .interface = "lo"};
    assert_ok(psr_transport_zmq_new(&options, &a));
    assert_memory_equal(psr_transport_endpoint(a), "tcp://127.0.0.1:", 16);
    psr_transport_free(&a, 0);
    options.interface = "127.0.0.2";
    assert_ok(psr_transport_zmq_new(&options, &a));
    assert_memory_equal(psr_transport_endpoint(a), "tcp://127.0.0.2:", 16);
}

/* A port where nobody listens. It is nobody else's while what this returns is open. */
static int name_closed_port(char endpoint[64])
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0 && bind(fd, (struct sockaddr *)&address, size) == 0 &&
                getsockname(fd, (struct sockaddr *)&address, &size) == 0);
    snprintf(endpoint, 64, "tcp://127.0.0.1:%u", ntohs(address.sin_port));
    return fd;
}

static void an_address_that_cannot_be_reached_is_told_with_where_its_peer_came_from(void **state)
{
    (void)state;
    char endpoint[64];
    psr_unreached unreached;
    const int port = name_closed_port(endpoint);
    assert_ok(psr_transport_connect(a, worker1, endpoint, NULL));
    join_to(b, worker0, a);
    send_number(b, worker0, 1);
    receive_number(a, worker1, 1);
    assert_false(psr_transport_unreached(a, 1000000, &unreached)); /* not that long */
    psr_transport_free(&a, 0);

    a = open_member(&keys, worker0);
    assert_ok(psr_transport_connect(a, shard0, endpoint, NULL));
    assert_true(psr_transport_unreached(a, 0, &unreached));
    assert_true(psr_peer_equal(unreached.peer, shard0));
    assert_string_equal(unreached.endpoint, endpoint);
    assert_string_equal(unreached.from, "127.0.0.1");
    assert_string_equal(unreached.why, "Connection refused");
    assert_string_equal(unreached.came_from, "");
    assert_false(psr_transport_unreached(a, 0, &unreached)); /* once a second */
    psr_transport_disconnect(a, shard0);
    assert_ok(psr_transport_connect(a, shard0, endpoint, NULL)); /* watched anew */
    close(port);
}

static void a_way_that_nobody_watches_is_not_told(void **state)
{
    (void)state;
    char endpoint[64];
    psr_unreached unreached;
    const psr_zmq_options options = {.self = worker0, .keys = keys_of(&keys, worker0)};
    const int port = name_closed_port(endpoint);
    psr_transport_free(&a, 0);
    assert_ok(psr_transport_zmq_new(&options, &a));
    assert_ok(psr_transport_connect(a, shard0, endpoint, NULL));
    assert_false(psr_transport_unreached(a, 0, &unreached));
    close(port);
}

static void a_peer_that_listens_is_never_said_not_to_be_reached(void **state)
{
    (void)state;
    psr_unreached unreached;
    join_to(a, worker1, b);
    /* whether or not it is connected yet: it is asked */
    assert_false(psr_transport_unreached(a, 0, &unreached));
    send_number(a, worker1, 1);
    receive_number(b, worker0, 1);
    assert_false(psr_transport_unreached(a, 0, &unreached));
}

static void a_place_that_cannot_be_listened_on_is_refused(void **state)
{
    (void)state;
    run_keys curve = make_keys(true);
    a = open_member(&keys, worker0);
    psr_zmq_options options = {
        .self = worker1, .keys = keys_of(&keys, worker1), .interface = "nosuch0"};
    assert_fails(psr_transport_zmq_new(&options, &b), PSR_ERR_USAGE,
                 "nosuch0: this machine has none");
    assert_non_null(strstr(psr_err_detail(), "lo (127.0.0.1)"));
    options.interface = "0.0.0.0";
    assert_fails(psr_transport_zmq_new(&options, &b), PSR_ERR_USAGE, "name one");
    options.interface = "192.0.2.1"; /* of nobody: RFC 5737 */
    options.keys = keys_of(&curve, worker1);
    assert_fails(psr_transport_zmq_new(&options, &b), PSR_ERR_USAGE, "192.0.2.1");

    options = (psr_zmq_options){.self = worker1, .keys = keys_of(&keys, worker1)};
    options.port = (uint16_t)strtoul(strrchr(psr_transport_endpoint(a), ':') + 1, NULL, 10);
    char text[64];
    snprintf(text, sizeof text, "port %u of 127.0.0.1 is in use", options.port);
    assert_fails(psr_transport_zmq_new(&options, &b), PSR_ERR_IO, text);

    run_keys token = make_keys(false);
    token.sets[3].bare = false;
    options = (psr_zmq_options){.self = worker1, .keys = keys_of(&token, worker1)};
    assert_fails(psr_transport_zmq_new(&options, &b), PSR_ERR_USAGE,
                 "interface 127.0.0.1: TCP needs CURVE keys");
    free_keys(&token);

    psr_keys none = {.bare = true};
    options = (psr_zmq_options){.self = worker1, .keys = &none};
    assert_fails(psr_transport_zmq_new(&options, &b), PSR_ERR_USAGE, "no keys");
    assert_null(b);
    free_keys(&curve);
}

static void a_peer_that_cannot_be_connected_to_is_refused(void **state)
{
    (void)state;
    run_keys curve = make_keys(true);
    a = open_member(&keys, worker0);
    b = open_member(&curve, worker0);
    keys.sets[2].bare = false;
    assert_fails(psr_transport_connect(a, worker1, "tcp://127.0.0.1:4242", NULL), PSR_ERR_USAGE,
                 "TCP needs CURVE keys");
    keys.sets[2].bare = true;
    assert_fails(psr_transport_connect(a, worker1, "ipc:///tmp/x", NULL), PSR_ERR_USAGE,
                 "this process listens on TCP");
    assert_fails(psr_transport_connect(a, worker1, "udp://127.0.0.1:1", NULL), PSR_ERR_USAGE,
                 "tcp://HOST:PORT");
    assert_fails(psr_transport_connect(a, worker1, "tcp://127.0.0.1:notaport", NULL), PSR_ERR_USAGE,
                 "notaport");
    assert_fails(psr_transport_connect(a, (psr_peer){PSR_ROLE_WORKER, PSR_RANK_ANY},
                                       "tcp://127.0.0.1:1", NULL),
                 PSR_ERR_USAGE, "no member can be called");
    assert_fails(
        psr_transport_connect(b, (psr_peer){PSR_ROLE_WORKER, 7}, "tcp://127.0.0.1:1", NULL),
        PSR_ERR_USAGE, "no CURVE key");
    assert_ok(psr_transport_connect(a, worker1, "tcp://127.0.0.1:1", NULL));
    assert_fails(psr_transport_connect(a, worker1, "tcp://127.0.0.1:1", NULL), PSR_ERR_USAGE,
                 "connected already");
    psr_transport_free(&b, 0);
    free_keys(&curve);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_KEYS(a_message_arrives_as_it_was_sent),
        OF_TWO(each_message_names_the_member_that_sent_it),
        OF_TWO(a_channel_keeps_the_order_of_messages_of_all_sizes),
        OF_TWO(a_payload_is_aligned_for_double_whatever_came_before_it),
        OF_TWO(lent_bytes_are_given_back_once_when_they_have_left),
        OF_TWO(lent_bytes_are_given_back_once_when_they_cannot_leave),
        OF_TWO(what_is_queued_is_delivered_before_the_transport_ends),
        OF_TWO(nobody_there_does_not_keep_the_end_longer_than_the_linger),
        WITH_KEYS(receiving_gives_up_at_its_deadline),
        WITH_KEYS(a_wake_from_another_thread_ends_a_wait),
        OF_TWO(a_message_and_a_wake_end_the_waits_of_all_threads),
        OF_TWO(a_wait_ends_too_when_a_descriptor_beside_it_can_be_read),
        OF_TWO(a_transport_goes_from_thread_to_thread),
        OF_TWO(wakes_coalesce_and_come_after_what_is_there),
        WITH_ONE_TOKEN(a_member_that_got_its_rank_speaks_under_its_new_name),
        WITH_KEYS(a_member_that_has_a_rank_cannot_change_it),
        WITH_CURVE(with_curve_members_with_keys_of_the_roster_talk),
        WITH_CURVE(the_key_says_the_rank_of_one_that_asks_for_any),
        WITH_KEYS(the_key_says_the_rank_of_one_that_asks_for_any),
        OF_TWO(a_connection_that_breaks_while_nothing_is_under_way_is_made_again),
        OF_TWO(a_connection_that_breaks_with_something_under_way_is_noticed),
        WITH_KEYS(an_interface_may_be_named),
        WITH_KEYS(a_place_that_cannot_be_listened_on_is_refused),
        OF_TWO(what_waits_for_a_peer_is_counted_and_bounded),
        OF_TWO(an_address_that_cannot_be_reached_is_told_with_where_its_peer_came_from),
        OF_TWO(a_way_that_nobody_watches_is_not_told),
        OF_TWO(a_peer_that_listens_is_never_said_not_to_be_reached),
        WITH_KEYS(a_peer_that_cannot_be_connected_to_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
