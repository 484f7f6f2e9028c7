/* net/address/reach.h, net/address/lookup.h */
#include "tests/unit/expect.h"

#include "net/address/lookup.h"
#include "net/address/reach.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* A port of loopback, on which nobody else can listen while it is open. */
static int take_port(char endpoint[64])
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof in;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&in, sizeof in), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&in, &size), 0);
    snprintf(endpoint, 64, "tcp://127.0.0.1:%u", ntohs(in.sin_port));
    return fd;
}

/* One on which somebody listens. */
static int open_port(char endpoint[64])
{
    int fd = take_port(endpoint);
    assert_int_equal(listen(fd, 4), 0);
    return fd;
}

static void who_listens_is_reached_and_who_does_not_refuses(void **state)
{
    (void)state;
    char open[64], closed[64];
    int listens = open_port(open), silent = take_port(closed);
    psr_reach reaches[] = {{.endpoint = closed}, {.endpoint = open}};
    expect_ok(psr_reach_all(reaches, 2, 60000));
    assert_false(reaches[0].reached);
    assert_string_equal(reaches[0].failure, "Connection refused");
    assert_true(reaches[1].reached);
    assert_string_equal(reaches[1].failure, "");
    assert_string_equal(reaches[1].source, "127.0.0.1");
    assert_true(reaches[1].taken_us >= 0);
    close(listens);
    close(silent);
}

/* A queue that is full drops what comes, as a firewall does. */
static void who_does_not_answer_is_given_up(void **state)
{
    (void)state;
    char endpoint[64];
    int fd = open_port(endpoint);
    psr_reach late = {.endpoint = endpoint};
    int held[4], count = 0;
    assert_int_equal(listen(fd, 0), 0);
    struct sockaddr_in in;
    socklen_t size = sizeof in;
    assert_int_equal(getsockname(fd, (struct sockaddr *)&in, &size), 0);
    for (; count < 4; count++) { /* connections that nobody accepts */
        held[count] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
        (void)connect(held[count], (struct sockaddr *)&in, sizeof in);
    }
    expect_ok(psr_reach_all(&late, 1, 50));
    assert_false(late.reached);
    assert_string_equal(late.failure, "no answer within 50 ms");
    for (int i = 0; i < count; i++)
        close(held[i]);
    close(fd);
}

/* Of one that was begun without waiting. */
static psr_reach_answer answer_of(const char *endpoint)
{
    int fd = -1;
    psr_reach_answer answer = psr_reach_begin(endpoint, &fd);
    if (fd < 0)
        return answer;
    assert_int_equal(answer, PSR_REACH_NONE_YET);
    struct pollfd made = {.fd = fd, .events = POLLOUT};
    assert_int_equal(poll(&made, 1, 60000), 1);
    answer = psr_reach_look(fd);
    close(fd);
    return answer;
}

static void one_is_asked_for_without_waiting(void **state)
{
    (void)state;
    char open[64], closed[64];
    int listens = open_port(open), silent = take_port(closed);
    assert_int_equal(answer_of(open), PSR_REACH_MADE);
    assert_int_equal(answer_of(closed), PSR_REACH_REFUSED);
    assert_int_equal(answer_of("tcp://127.0.0.1"), PSR_REACH_FAILED);
    assert_int_equal(answer_of("tcp://255.255.255.255:9"), PSR_REACH_FAILED);
    close(listens);
    close(silent);
}

/* So nobody who lives is taken for one that has ended. */
static void who_has_too_many_connections_does_not_refuse(void **state)
{
    (void)state;
    char endpoint[64];
    int fds[4], fd = open_port(endpoint);
    assert_int_equal(listen(fd, 0), 0);
    for (size_t i = 0; i < 4; i++) {
        fds[i] = -1;
        const psr_reach_answer answer = psr_reach_begin(endpoint, &fds[i]);
        assert_true(answer == PSR_REACH_NONE_YET || answer == PSR_REACH_MADE);
    }
    struct pollfd made = {.fd = fds[3], .events = POLLOUT};
    assert_int_equal(poll(&made, 1, 50), 0);
    assert_int_equal(psr_reach_look(fds[3]), PSR_REACH_NONE_YET);
    for (size_t i = 0; i < 4; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    close(fd);
}

static void the_end_of_a_connection_to_a_named_host_is_its_address(void **state)
{
    (void)state;
    char endpoint[64], named[64], found[64] = "stays";
    int fd = -1, listens = open_port(endpoint);
    (void)psr_reach_begin(endpoint, &fd);
    assert_true(fd >= 0);
    assert_int_equal(poll(&(struct pollfd){.fd = fd, .events = POLLOUT}, 1, 60000), 1);
    snprintf(named, sizeof named, "tcp://localhost%s", strrchr(endpoint, ':'));
    assert_false(psr_reach_end_of(fd, endpoint, found, sizeof found));
    assert_false(psr_reach_end_of(fd, "tcp://localhost:1", found, sizeof found));
    assert_false(psr_reach_end_of(listens, named, found, sizeof found));
    assert_false(psr_reach_end_of(-1, named, found, sizeof found));
    assert_string_equal(found, "stays");
    assert_true(psr_reach_end_of(fd, named, found, sizeof found));
    assert_string_equal(found, endpoint);
    close(fd);
    close(listens);
}

static void what_is_no_endpoint_is_said(void **state)
{
    (void)state;
    static const char *const endpoints[] = {
        "",
        "127.0.0.1:1",
        "tcp://127.0.0.1",
        "tcp://127.0.0.1:0",
        "tcp://127.0.0.1:65536",
        "tcp://127.0.0.1:1x",
        "tcp://localhost:1",
        "tcp://[::1:1",
        "tcp://[]:1",
        "ipc:///tmp/x",
        "tcp://12345678901234567890123456789012345678901234567890123456789012345678901234567890:1"};
    psr_reach reaches[sizeof endpoints / sizeof *endpoints];
    char failure[96];
    for (size_t i = 0; i < sizeof endpoints / sizeof *endpoints; i++)
        reaches[i].endpoint = endpoints[i];
    expect_ok(psr_reach_all(reaches, sizeof endpoints / sizeof *endpoints, 60000));
    for (size_t i = 0; i < sizeof endpoints / sizeof *endpoints; i++) {
        snprintf(failure, sizeof failure, "'%.60s' is no endpoint", endpoints[i]);
        assert_false(reaches[i].reached);
        assert_string_equal(reaches[i].failure, failure);
    }
    expect_ok(psr_reach_all(NULL, 0, 60000));
}

static void an_address_has_its_interface(void **state)
{
    (void)state;
    char name[32] = "";
    uint32_t mtu = 0;
    expect_ok(psr_interface_of("127.0.0.1", name, sizeof name, &mtu));
    assert_string_equal(name, "lo");
    assert_true(mtu >= 1280);
    expect_failure(psr_interface_of("192.0.2.1", name, sizeof name, &mtu), PSR_ERR_NOT_FOUND,
                   "no interface of this machine has 192.0.2.1");
}

static void names_are_looked_up_all_at_once(void **state)
{
    (void)state;
    psr_lookup lookups[] = {
        {.name = "127.0.0.7"}, {.name = "no such name: it has blanks"}, {.name = "localhost"}};
    expect_ok(psr_lookup_all(lookups, 3, 60000));
    assert_string_equal(lookups[0].address, "127.0.0.7");
    assert_string_equal(lookups[1].address, "");
    assert_true(psr_address_is_loopback(lookups[2].address));
    expect_ok(psr_lookup_all(NULL, 0, 60000));
    psr_lookup late = {.name = "a.name.that.takes.longer.invalid", .address = "stays"};
    expect_ok(psr_lookup_all(&late, 1, 0)); /* no time at all: no answer, whatever there is */
    assert_string_equal(late.address, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_listens_is_reached_and_who_does_not_refuses),
        cmocka_unit_test(who_does_not_answer_is_given_up),
        cmocka_unit_test(one_is_asked_for_without_waiting),
        cmocka_unit_test(who_has_too_many_connections_does_not_refuse),
        cmocka_unit_test(the_end_of_a_connection_to_a_named_host_is_its_address),
        cmocka_unit_test(what_is_no_endpoint_is_said),
        cmocka_unit_test(an_address_has_its_interface),
        cmocka_unit_test(names_are_looked_up_all_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
