#include "tests/unit/network_fixture.h"

#include <stdatomic.h>

static const psr_peer w0 = {PSR_ROLE_WORKER, 0}, w1 = {PSR_ROLE_WORKER, 1},
                      s0 = {PSR_ROLE_SHARD, 0};

static psr_transport *member(psr_sim *sim, psr_peer self)
{
    psr_transport *transport;
    assert_ok(psr_transport_sim_new(sim, self, &transport));
    return transport;
}

static psr_sim *network(uint64_t seed, uint32_t delay_max_us, uint32_t duplicate_permille)
{
    psr_sim *sim;
    psr_sim_faults faults = {
        .seed = seed, .delay_max_us = delay_max_us, .duplicate_permille = duplicate_permille};
    assert_ok(psr_sim_new(&faults, &sim));
    return sim;
}

static void say(psr_transport *from, psr_peer to, psr_message_type type, uint64_t number)
{
    psr_head head = {.type = type, .tag = {.round = number}};
    assert_ok(psr_transport_send(from, to, &head,
                                 &(psr_payload){.data = &number, .bytes = sizeof number}));
}

/* The number that arrived, after checking that the payload says the same. */
static uint64_t hear(psr_transport *at, psr_peer *ret_from)
{
    psr_message *message = NULL;
    uint64_t number;
    assert_ok(psr_transport_recv(at, 0, &message));
    assert_int_equal(message->payload_bytes, sizeof number);
    assert_int_equal((uintptr_t)message->payload % _Alignof(double), 0);
    memcpy(&number, message->payload, sizeof number);
    assert_int_equal(number, message->head.tag.round);
    *ret_from = message->from;
    psr_message_free(&message);
    return number;
}

enum { COUNT = 200 };

typedef struct trace {
    uint64_t numbers[4 * COUNT];
    psr_peer from[4 * COUNT];
    size_t count;
} trace;

/* Two senders to one receiver. */
static trace play(uint64_t seed, uint32_t delay_max_us, uint32_t duplicate_permille,
                  psr_message_type type)
{
    psr_sim *sim = network(seed, delay_max_us, duplicate_permille);
    psr_transport *a = member(sim, w0), *b = member(sim, w1), *c = member(sim, s0);
    assert_ok(psr_transport_connect(a, s0, psr_transport_endpoint(c), NULL));
    assert_ok(psr_transport_connect(b, s0, psr_transport_endpoint(c), NULL));
    for (uint64_t i = 0; i < COUNT; i++) {
        say(a, s0, type, i);
        say(b, s0, type, i);
    }
    trace t = {.count = 0};
    for (psr_peer to; psr_sim_step(sim, &to); t.count++) {
        assert_true(psr_peer_equal(to, s0));
        assert_true(t.count < 4 * COUNT);
        t.numbers[t.count] = hear(c, &t.from[t.count]);
    }
    psr_transport_free(&a, 0);
    psr_transport_free(&b, 0);
    psr_transport_free(&c, 0);
    psr_sim_free(sim);
    return t;
}

static void channels_keep_their_order_and_overtake_one_another(void **state)
{
    (void)state;
    trace t = play(3, 40, 0, PSR_MSG_VALUES);
    uint64_t next[2] = {0, 0};
    size_t overtakes = 0;
    assert_int_equal(t.count, 2 * COUNT);
    for (size_t i = 0; i < t.count; i++) {
        uint32_t rank = t.from[i].rank;
        assert_int_equal(t.numbers[i], next[rank]++);
        overtakes += next[0] + 1 < next[1] || next[1] + 1 < next[0];
    }
    assert_true(overtakes > 10);
}

static bool same(const trace *a, const trace *b)
{
    if (a->count != b->count)
        return false;
    for (size_t i = 0; i < a->count; i++)
        if (a->numbers[i] != b->numbers[i] || !psr_peer_equal(a->from[i], b->from[i]))
            return false;
    return true;
}

static void a_seed_decides_everything(void **state)
{
    (void)state;
    trace a = play(3, 40, 100, PSR_MSG_PUSH), b = play(3, 40, 100, PSR_MSG_PUSH),
          c = play(4, 40, 100, PSR_MSG_PUSH);
    assert_true(same(&a, &b));
    assert_false(same(&a, &c));
}

static void without_delays_messages_come_in_the_order_in_which_they_were_sent(void **state)
{
    (void)state;
    trace t = play(3, 0, 0, PSR_MSG_VALUES);
    assert_int_equal(t.count, 2 * COUNT);
    for (size_t i = 0; i < t.count; i++) {
        assert_int_equal(t.numbers[i], i / 2);
        assert_int_equal(t.from[i].rank, i % 2);
    }
}

static void pushes_and_weights_arrive_twice_when_asked_for_and_nothing_else_does(void **state)
{
    (void)state;
    static const psr_message_type types[] = {PSR_MSG_PUSH, PSR_MSG_WEIGHTS};
    for (size_t k = 0; k < 2; k++) {
        trace t = play(5, 10, 300, types[k]);
        assert_in_range(t.count, 2 * COUNT + 60, 2 * COUNT + 180);
        unsigned seen[2][COUNT] = {{0}};
        for (size_t i = 0; i < t.count; i++)
            seen[t.from[i].rank][t.numbers[i]]++;
        for (size_t r = 0; r < 2; r++)
            for (size_t i = 0; i < COUNT; i++)
                assert_in_range(seen[r][i], 1, 2);
    }
    trace t = play(5, 10, 1000, PSR_MSG_RING);
    assert_int_equal(t.count, 2 * COUNT);
    t = play(5, 10, 1000, PSR_MSG_PUSH);
    assert_int_equal(t.count, 4 * COUNT);
}

static void count_release(void *context)
{
    ++*(unsigned *)context;
}

static void lent_bytes_are_read_and_given_back_at_delivery(void **state)
{
    (void)state;
    psr_sim *sim = network(1, 5, 1000);
    psr_transport *a = member(sim, w0), *c = member(sim, s0);
    assert_ok(psr_transport_connect(a, s0, "", NULL));
    unsigned released = 0;
    float values[4] = {1, 2, 3, 4};
    psr_head head = {.type = PSR_MSG_RING};
    assert_ok(psr_transport_send(a, s0, &head,
                                 &(psr_payload){values, sizeof values, count_release, &released}));
    assert_int_equal(released, 0);
    values[0] = 9; /* who writes into what is lent is found out */
    psr_peer to;
    assert_true(psr_sim_step(sim, &to));
    assert_int_equal(released, 1);
    values[0] = 10;
    psr_message *message = NULL;
    assert_ok(psr_transport_recv(c, 0, &message));
    assert_true(((const float *)message->payload)[0] == 9.0f);
    psr_message_free(&message);
    assert_int_equal(released, 1);

    /* Twice delivered, once released. */
    head.type = PSR_MSG_PUSH;
    assert_ok(psr_transport_send(a, s0, &head,
                                 &(psr_payload){values, sizeof values, count_release, &released}));
    while (psr_sim_step(sim, &to))
        ;
    assert_int_equal(released, 2);
    /* Nothing to send, nobody to send to, and what is still under way at the end. */
    assert_ok(
        psr_transport_send(a, s0, &head, &(psr_payload){values, 0, count_release, &released}));
    assert_int_equal(released, 3);
    psr_payload lent = {values, sizeof values, count_release, &released};
    assert_fails(psr_transport_send(a, w1, &head, &lent), PSR_ERR_NOT_FOUND,
                 "no channel to worker 1");
    assert_int_equal(released, 4);
    assert_ok(psr_transport_send(a, s0, &head, &lent));
    assert_int_equal(released, 4);
    psr_transport_free(&a, 0);
    psr_transport_free(&c, 0); /* with messages in its inbox */
    psr_sim_free(sim);
    assert_int_equal(released, 5);
}

static void one_that_is_cut_off_hears_and_says_nothing_more(void **state)
{
    (void)state;
    psr_sim *sim = network(2, 10, 0);
    psr_transport *a = member(sim, w0), *b = member(sim, w1), *c = member(sim, s0);
    assert_ok(psr_transport_connect(a, s0, "", NULL));
    assert_ok(psr_transport_connect(b, s0, "", NULL));
    assert_ok(psr_transport_connect(c, w1, "", NULL));
    unsigned released = 0;
    uint64_t bytes = 0;
    psr_head head = {.type = PSR_MSG_RING};
    for (uint64_t i = 0; i < 20; i++) {
        say(a, s0, PSR_MSG_RING, i);
        say(b, s0, PSR_MSG_RING, i);
        say(c, w1, PSR_MSG_RING, i);
        assert_ok(psr_transport_send(
            b, s0, &head, &(psr_payload){&bytes, sizeof bytes, count_release, &released}));
    }
    psr_sim_cut(sim, w1);
    psr_sim_cut(sim, w1);
    assert_int_equal(released, 20);
    say(b, s0, PSR_MSG_RING, 99);
    say(c, w1, PSR_MSG_RING, 99);
    uint64_t next = 0;
    for (psr_peer to, from; psr_sim_step(sim, &to); next++) {
        assert_true(psr_peer_equal(to, s0));
        assert_int_equal(hear(c, &from), next);
        assert_true(psr_peer_equal(from, w0));
    }
    assert_int_equal(next, 20);
    psr_transport_free(&a, 0);
    psr_transport_free(&b, 0);
    psr_transport_free(&c, 0);
    psr_sim_free(sim);
}

static void receiving_never_waits_and_a_wake_is_told_once(void **state)
{
    (void)state;
    psr_sim *sim = network(2, 10, 0);
    psr_transport *a = member(sim, w0);
    psr_message *message = NULL;
    assert_fails(psr_transport_recv(a, -1, &message), PSR_ERR_TIMEOUT, "no message");
    psr_transport_wake(a);
    psr_transport_wake(a);
    assert_fails(psr_transport_recv(a, -1, &message), PSR_ERR_CANCELLED, "woken");
    assert_fails(psr_transport_recv(a, 0, &message), PSR_ERR_TIMEOUT, "no message");
    assert_string_equal(psr_transport_endpoint(a), "sim://worker/0");
    psr_transport_free(&a, 0);
    psr_transport_free(&a, 0);
    psr_sim_free(sim);
    psr_sim_free(NULL);
}

static void the_clock_moves_with_deliveries_and_with_what_else_happens(void **state)
{
    (void)state;
    psr_sim *sim = network(4, 1000, 0);
    psr_transport *a = member(sim, w0), *c = member(sim, s0);
    assert_ok(psr_transport_connect(a, s0, "", NULL));
    assert_int_equal(psr_sim_now_us(sim), 0);
    assert_int_equal(psr_sim_next_us(sim), INT64_MAX);
    psr_sim_pass(sim, 5000);
    size_t short_ones = 0;
    int64_t longest_us = 0;
    for (uint64_t i = 0; i < COUNT; i++) {
        int64_t sent_us = psr_sim_now_us(sim);
        say(a, s0, PSR_MSG_RING, i);
        int64_t due_us = psr_sim_next_us(sim);
        assert_in_range(due_us - sent_us, 0, 1000);
        psr_sim_pass(sim, sent_us + (due_us - sent_us) / 2);
        psr_peer to, from;
        assert_true(psr_sim_step(sim, &to));
        assert_int_equal(psr_sim_now_us(sim), due_us);
        assert_int_equal(hear(c, &from), i);
        short_ones += due_us - sent_us < 100;
        longest_us = due_us - sent_us > longest_us ? due_us - sent_us : longest_us;
    }
    assert_true(psr_sim_now_us(sim) > 5000);
    /* Delays are of all sizes. */
    assert_true(short_ones > COUNT / 4);
    assert_true(longest_us > 700);
    psr_transport_free(&a, 0);
    psr_transport_free(&c, 0);
    psr_sim_free(sim);
}

static void what_is_under_way_to_a_peer_is_counted_and_bounded(void **state)
{
    (void)state;
    psr_sim *sim = network(1, 100, 0);
    psr_transport *a = member(sim, w0), *b = member(sim, w1), *c = member(sim, s0);
    psr_peer to;
    assert_ok(psr_transport_connect(a, s0, psr_transport_endpoint(c), NULL));
    assert_ok(psr_transport_connect(a, w1, psr_transport_endpoint(b), NULL));
    psr_transport_bound(a, PSR_ROLE_SHARD, 3);
    for (uint64_t i = 0; i < 3; i++)
        say(a, s0, PSR_MSG_RING, i);
    assert_int_equal(psr_transport_waiting(a, s0), 3);
    assert_int_equal(psr_transport_waiting(a, w1), 0);
    assert_fails(psr_transport_send(a, s0, &(psr_head){.type = PSR_MSG_RING}, NULL),
                 PSR_ERR_PROTOCOL,
                 "shard 0 does not read what it asks for: 3 messages wait for it");
    say(a, w1, PSR_MSG_RING, 0); /* another peer's bound is its own */
    while (psr_transport_waiting(a, s0) == 3)
        assert_true(psr_sim_step(sim, &to));
    assert_ok(psr_transport_send(a, s0, &(psr_head){.type = PSR_MSG_RING}, NULL));
    psr_sim_cut(sim, s0);
    assert_int_equal(psr_transport_waiting(a, s0), 0);
    psr_transport_free(&a, 0);
    psr_transport_free(&b, 0);
    psr_transport_free(&c, 0);
    psr_sim_free(sim);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_under_way_to_a_peer_is_counted_and_bounded),
        cmocka_unit_test(channels_keep_their_order_and_overtake_one_another),
        cmocka_unit_test(a_seed_decides_everything),
        cmocka_unit_test(without_delays_messages_come_in_the_order_in_which_they_were_sent),
        cmocka_unit_test(pushes_and_weights_arrive_twice_when_asked_for_and_nothing_else_does),
        cmocka_unit_test(lent_bytes_are_read_and_given_back_at_delivery),
        cmocka_unit_test(one_that_is_cut_off_hears_and_says_nothing_more),
        cmocka_unit_test(the_clock_moves_with_deliveries_and_with_what_else_happens),
        cmocka_unit_test(receiving_never_waits_and_a_wake_is_told_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
