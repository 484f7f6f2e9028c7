/* The launcher has the links between the hosts measured before the scheduler starts. */
#include "tests/unit/deploy/launch/played_launch.h"

#include <stdio.h>
#include <string.h>

#define LISTENS(address, port)                                                                     \
    "{\"event\":\"listens\",\"address\":\"" address "\",\"port\":" port ",\"failure\":\"\"}"
#define LINK(rate) "{\"event\":\"link\",\"bits_per_s\":" rate ",\"failure\":\"\"}"
#define CANNOT_LISTEN "{\"event\":\"listens\",\"address\":\"\",\"port\":0,\"failure\":\"no eth1\"}"
#define NOTHING_CAME "{\"event\":\"link\",\"bits_per_s\":0,\"failure\":\"0 bytes came\"}"
#define STARTED "start scheduler threads=3 interface=10.0.0.1\n"

static void asked(played *p)
{
    begin_measuring(p, NULL);
    agent_says(p, A, HELLO_A, 0);
    agent_says(p, B, HELLO_B, 10);
    expect_done(p, "connecting 2 and 0 of 2\nagent a: listen on 10.0.0.1\n"
                   "agent b: listen on 10.0.0.2\n");
    assert_int_equal(wait_ms(p, 10), 500);
}

static void measures(played *p)
{
    asked(p);
    agent_says(p, B, LISTENS("10.0.0.2", "20"), 20);
    expect_done(p, "");
    agent_says(p, A, LISTENS("10.0.0.1", "10"), 30);
    expect_done(p, "agent a: send to b at 10.0.0.2:20\nagent b: send to a at 10.0.0.1:10\n");
}

static void the_slowest_link_is_told_before_the_scheduler_starts(void **state)
{
    (void)state;
    played p;
    measures(&p);
    agent_says(&p, A, LINK("900000000"), 100);
    expect_done(&p, "");
    agent_says(&p, B, LINK("95000000"), 110);
    expect_done(&p, "slowest 95000000 from a to b\n" STARTED
                    "{\"order\":\"links\",\"bits_per_s\":95000000,\"host\":\"a\",\"to\":\"b\"}\n");
    psr_launch_machine_free(p.machine);
}

static void without_an_answer_the_run_begins_after_half_a_second(void **state)
{
    (void)state;
    played p;
    measures(&p);
    agent_says(&p, A, LINK("900000000"), 100);
    tick(&p, 509);
    assert_null(strstr(p.done, "scheduler"));
    forget(&p);
    tick(&p, 510);
    expect_done(&p, "line: links between the hosts were not measured: host b: its agent took "
                    "longer than half a second\n" STARTED);
    agent_says(&p, B, LINK("95000000"), 600); /* too late, and no breach of the protocol */
    expect_done(&p, "");
    psr_launch_machine_free(p.machine);
}

static void what_cannot_be_measured_does_not_end_the_run(void **state)
{
    (void)state;
    played p;
    asked(&p);
    agent_says(&p, B, CANNOT_LISTEN, 20);
    expect_done(&p, "line: links between the hosts were not measured: host b: no eth1\n" STARTED);
    agent_says(&p, A, LISTENS("10.0.0.1", "10"), 30);
    expect_done(&p, "");
    psr_launch_machine_free(p.machine);
    measures(&p);
    agent_says(&p, A, NOTHING_CAME, 40);
    expect_done(&p,
                "line: links between the hosts were not measured: host a: 0 bytes came\n" STARTED);
    psr_launch_machine_free(p.machine);
}

static void loopback_is_no_link(void **state)
{
    (void)state;
    played p;
    begin_measuring(&p, "127.0.0.5");
    agent_says(&p, A, HELLO_A, 0);
    agent_says(&p, B, HELLO_B, 0);
    expect_done(&p, "connecting 2 and 0 of 2\nstart scheduler threads=3 interface=127.0.0.5\n");
    psr_launch_machine_free(p.machine);
}

static void an_agent_that_speaks_of_links_out_of_turn_ends_the_run(void **state)
{
    (void)state;
    static const struct {
        const char *line, *what;
    } said[] = {
        {LINK("1"), "says how fast its link is, and nobody asked"},
        {LISTENS("10.0.0.2", "70000"), "does not say where it listens"},
        {LISTENS("", "7"), "does not say where it listens"},
        {LISTENS("nowhere", "7"),
         "says that \"address\" is 'nowhere', which is no address of one host"},
    };
    for (size_t i = 0; i < sizeof said / sizeof *said; i++) {
        played p;
        char told[512];
        asked(&p);
        agent_says(&p, B, said[i].line, 20);
        snprintf(told, sizeof told, "end bar\nerror: psring train: host b: its agent %s\n",
                 said[i].what);
        expect_end(&p, 3, told);
    }
    played p;
    measures(&p);
    agent_says(&p, B, LINK("-1"), 40);
    expect_end(&p, 3,
               "end bar\nerror: psring train: host b: its agent does not say how fast its link "
               "is\n");
}

static void an_agent_that_ends_meanwhile_is_no_host_of_the_run(void **state)
{
    (void)state;
    played p;
    asked(&p);
    psr_launch_machine_agent_closed(p.machine, B, EXIT(255), BEGAN_MS + 20);
    assert_null(strstr(p.done, "start scheduler"));
    assert_non_null(strstr(p.done, "agent a: end"));
    tick(&p, 600);
    assert_null(strstr(p.done, "start scheduler"));
    psr_launch_machine_free(p.machine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_slowest_link_is_told_before_the_scheduler_starts),
        cmocka_unit_test(without_an_answer_the_run_begins_after_half_a_second),
        cmocka_unit_test(what_cannot_be_measured_does_not_end_the_run),
        cmocka_unit_test(loopback_is_no_link),
        cmocka_unit_test(an_agent_that_speaks_of_links_out_of_turn_ends_the_run),
        cmocka_unit_test(an_agent_that_ends_meanwhile_is_no_host_of_the_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
