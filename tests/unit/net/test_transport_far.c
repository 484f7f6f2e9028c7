/* Members that have ended, as far as two kernels tell: the connection is closed, and nobody listens
 * (net/zmq/transport_zmq_far.c). The members' processes are this one, which nothing here says to be
 * so: none is greeted by the scheduler, so none is watched as a process of this host. */
#include "tests/unit/network_fixture.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

/* For so long nobody is told; the third refusal would come after 700 ms. */
#define QUIET_MS 1000

static run_keys keys;
static psr_transport *a, *b, *s;

/* The scheduler and two members, who have said something to it. */
static int set_up(void **state)
{
    (void)state;
    keys = make_keys(true);
    s = open_member(&keys, scheduler);
    a = open_member(&keys, worker0);
    b = open_member(&keys, worker1);
    psr_transport_watch_members(s, PSR_RANK_ANY);
    join_to(a, scheduler, s);
    join_to(b, scheduler, s);
    join_to(s, worker0, a);
    join_to(s, worker1, b);
    send_number(a, scheduler, 1);
    receive_number(s, worker0, 1);
    send_number(b, scheduler, 1);
    receive_number(s, worker1, 1);
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

static void expect_quiet(void)
{
    psr_message *message = NULL;
    psr_peer peer;
    assert_fails(psr_transport_recv(s, QUIET_MS, &message), PSR_ERR_TIMEOUT, "");
    assert_false(psr_transport_ended(s, &peer));
}

static uint64_t strangers_of(const psr_transport *transport)
{
    psr_transport_counts counts;
    psr_transport_counts_get(transport, &counts);
    return counts.strangers;
}

static uint16_t port_of(int fd, int (*name)(int, struct sockaddr *, socklen_t *))
{
    struct sockaddr_in in = {0};
    socklen_t size = sizeof in;
    return name(fd, (struct sockaddr *)&in, &size) == 0 && in.sin_family == AF_INET
               ? ntohs(in.sin_port)
               : 0;
}

/* Breaks every connection that the transport has accepted. */
static unsigned break_connections(const psr_transport *transport)
{
    const uint16_t port = (uint16_t)atoi(strrchr(psr_transport_endpoint(transport), ':') + 1);
    unsigned broken = 0;
    for (int fd = 3; fd < 1024; fd++)
        if (port_of(fd, getsockname) == port && port_of(fd, getpeername) != 0)
            broken += shutdown(fd, SHUT_RDWR) == 0;
    return broken;
}

static void who_has_ended_is_told_once_after_what_it_said_last(void **state)
{
    (void)state;
    psr_message *message = NULL;
    psr_peer peer = scheduler;
    send_number(a, scheduler, 2);
    psr_transport_free(&a, WAIT_MS);
    receive_number(s, worker0, 2);
    assert_fails(psr_transport_recv(s, WAIT_MS, &message), PSR_ERR_CANCELLED, "has ended");
    assert_true(psr_transport_ended(s, &peer));
    assert_true(psr_peer_equal(peer, worker0));
    expect_quiet();
    send_number(b, scheduler, 2);
    receive_number(s, worker1, 2);
}

static void who_has_left_is_not_told(void **state)
{
    (void)state;
    psr_transport_retire(s, worker0);
    psr_transport_free(&a, 0);
    psr_transport_disconnect(s, worker1);
    psr_transport_free(&b, 0);
    expect_quiet();
}

static void who_lives_and_connects_again_is_not_told(void **state)
{
    (void)state;
    assert_int_equal(break_connections(s), 2);
    expect_quiet();
    send_number(a, scheduler, 2);
    receive_number(s, worker0, 2);
    send_number(b, scheduler, 2);
    receive_number(s, worker1, 2);
}

/* Nothing tells whose the new connection was that has ended too, without a word: it is waited for
 * as long as for anybody who was let in. */
static void who_connects_again_and_ends_then_is_told(void **state)
{
    (void)state;
    psr_message *message = NULL;
    psr_peer peer = scheduler;
    assert_int_equal(break_connections(s), 2);
    send_number(b, scheduler, 2);
    receive_number(s, worker1, 2);
    expect_quiet();
    psr_transport_free(&a, 0);
    assert_fails(psr_transport_recv(s, WAIT_MS, &message), PSR_ERR_CANCELLED, "has ended");
    assert_true(psr_transport_ended(s, &peer));
    assert_true(psr_peer_equal(peer, worker0));
}

/* It is asked for, and answers: more than once, since it might be about to end. */
static void who_listens_and_does_not_come_back_is_not_told(void **state)
{
    (void)state;
    const uint64_t before = strangers_of(a);
    psr_transport_disconnect(a, scheduler);
    for (const int64_t end_ms = psr_clock_ms() + WAIT_MS; strangers_of(a) < before + 2;) {
        psr_message *message = NULL;
        assert_fails(psr_transport_recv(s, 20, &message), PSR_ERR_TIMEOUT, "");
        assert_fails(psr_transport_recv(a, 0, &message), PSR_ERR_TIMEOUT, "");
        assert_true(psr_clock_ms() < end_ms);
    }
    expect_quiet();
}

/* ---- the scheduler ---- */

static void open_watcher(void)
{
    keys = make_keys(true);
    psr_zmq_options options = {.self = worker0,
                               .keys = keys_of(&keys, worker0),
                               .misses_scheduler = true,
                               .log_stranger = note_stranger};
    s = open_member(&keys, scheduler);
    b = open_member(&keys, worker1);
    assert_ok(psr_transport_zmq_new(&options, &a));
}

static void meet(void)
{
    join_to(s, worker0, a);
    send_number(s, worker0, 1);
    receive_number(a, scheduler, 1);
}

static int set_up_member(void **state)
{
    (void)state;
    open_watcher();
    join_to(a, scheduler, s);
    meet();
    return 0;
}

static int set_up_member_by_name(void **state)
{
    char named[64];
    (void)state;
    open_watcher();
    snprintf(named, sizeof named, "tcp://localhost%s", strrchr(psr_transport_endpoint(s), ':'));
    assert_ok(psr_transport_connect(a, scheduler, named, NULL));
    send_number(a, scheduler, 1);
    receive_number(s, worker0, 1);
    meet();
    return 0;
}

static void a_scheduler_that_has_ended_is_told_once(void **state)
{
    (void)state;
    psr_message *message = NULL;
    send_number(s, worker0, 2);
    psr_transport_free(&s, WAIT_MS);
    receive_number(a, scheduler, 2);
    assert_fails(psr_transport_recv(a, WAIT_MS, &message), PSR_ERR_PEER, "the scheduler at tcp://");
    assert_non_null(strstr(psr_err_detail(), ": its process has ended"));
    assert_fails(psr_transport_recv(a, QUIET_MS, &message), PSR_ERR_TIMEOUT, "");
}

static void a_scheduler_that_lives_and_another_members_end_are_not(void **state)
{
    (void)state;
    psr_message *message = NULL;
    join_to(b, worker0, a);
    send_number(b, worker0, 1);
    receive_number(a, worker1, 1);
    psr_transport_free(&b, 0);
    assert_true(break_connections(a) > 0);
    assert_fails(psr_transport_recv(a, QUIET_MS, &message), PSR_ERR_TIMEOUT, "");
    send_number(s, worker0, 2);
    receive_number(a, scheduler, 2);
}

#define OF_THREE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
#define OF_A_MEMBER(test) cmocka_unit_test_setup_teardown(test, set_up_member, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        OF_THREE(who_has_ended_is_told_once_after_what_it_said_last),
        OF_THREE(who_has_left_is_not_told),
        OF_THREE(who_lives_and_connects_again_is_not_told),
        OF_THREE(who_connects_again_and_ends_then_is_told),
        OF_THREE(who_listens_and_does_not_come_back_is_not_told),
        OF_A_MEMBER(a_scheduler_that_has_ended_is_told_once),
        cmocka_unit_test_setup_teardown(a_scheduler_that_has_ended_is_told_once,
                                        set_up_member_by_name, tear_down),
        OF_A_MEMBER(a_scheduler_that_lives_and_another_members_end_are_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
