#include "tests/unit/expect.h"

#include "comm/members/unreached.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void a_line_says_whose_address_it_is_from_where_why_and_what_to_change(void **state)
{
    (void)state;
    char line[512];
    psr_unreached u = {.peer = {PSR_ROLE_WORKER, 1},
                       .endpoint = "tcp://192.168.7.2:4000",
                       .from = "10.0.0.1",
                       .why = "Connection refused",
                       .came_from = "10.0.0.2"};
    psr_unreached_describe(&u, "worker 1 on b", line, sizeof line);
    assert_string_equal(
        line, "worker 1 on b listens at tcp://192.168.7.2:4000, which cannot be reached from "
              "10.0.0.1 (Connection refused); it has connected from 10.0.0.2: choose a network "
              "that all hosts share by --interface NAME|ADDRESS (or PSRING_INTERFACE)");
    u.from[0] = u.came_from[0] = '\0';
    psr_unreached_describe(&u, "worker 1", line, sizeof line);
    assert_non_null(strstr(line, "cannot be reached from here (Connection refused): choose"));
}

static void patience_is_half_the_deadline_within_bounds(void **state)
{
    (void)state;
    assert_int_equal(psr_unreached_patience_ms(1000), 2000);
    assert_int_equal(psr_unreached_patience_ms(12000), 6000);
    assert_int_equal(psr_unreached_patience_ms(30000), 10000);
}

/* Listening, or not any more. */
static int listen_somewhere(char endpoint[64])
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0 && bind(fd, (struct sockaddr *)&address, size) == 0 && listen(fd, 1) == 0 &&
                getsockname(fd, (struct sockaddr *)&address, &size) == 0);
    snprintf(endpoint, 64, "tcp://127.0.0.1:%u", ntohs(address.sin_port));
    return fd;
}

static void a_scheduler_that_never_answered_is_not_there_or_cannot_reach_this_process(void **state)
{
    (void)state;
    char endpoint[64], line[512] = "";
    int fd = listen_somewhere(endpoint);
    psr_unanswered_describe(endpoint, "tcp://127.0.0.2:9", line, sizeof line);
    assert_non_null(strstr(
        line, "cannot reach tcp://127.0.0.2:9, where this process listens; choose a network"));
    close(fd);
    psr_unanswered_describe(endpoint, "tcp://127.0.0.2:9", line, sizeof line);
    assert_non_null(strstr(line, "it cannot be reached from 127.0.0.1 (Connection refused)"));
    strcpy(line, "kept");
    psr_unanswered_describe("ipc:///a/b", "ipc:///a/c", line, sizeof line);
    assert_string_equal(line, "kept");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_says_whose_address_it_is_from_where_why_and_what_to_change),
        cmocka_unit_test(patience_is_half_the_deadline_within_bounds),
        cmocka_unit_test(a_scheduler_that_never_answered_is_not_there_or_cannot_reach_this_process),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
