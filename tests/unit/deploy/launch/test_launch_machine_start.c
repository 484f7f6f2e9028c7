/* The launcher's decisions until the run is on. */
#include "tests/unit/deploy/launch/played_launch.h"

#include <stdio.h>
#include <string.h>

/* ---- the start ---- */

static void the_scheduler_is_started_when_all_agents_have_said_hello(void **state)
{
    (void)state;
    played p;
    begin(&p);
    agent_says(&p, B, HELLO_B, 10);
    expect_done(&p, "");
    agent_says(&p, A, HELLO_A, 20);
    /* the fewest cores by the most workers of a host; this host as the other one sees it */
    expect_done(&p, "connecting 2 and 0 of 2\nstart scheduler threads=3 interface=10.0.0.1\n");
    scheduler_says(&p, LISTENING, 30);
    expect_done(&p, "spawn shard 0 interface=10.0.0.1 endpoint=tcp://10.0.0.1:7\n"
                    "spawn worker 0 interface=10.0.0.1 endpoint=tcp://10.0.0.1:7\n"
                    "spawn worker 1 interface=10.0.0.1 endpoint=tcp://10.0.0.1:7\n"
                    "spawn worker 2 interface=10.0.0.2 endpoint=tcp://10.0.0.1:7\n");
    scheduler_says(&p, LISTENING, 40);
    expect_done(&p, "");
    psr_launch_machine_free(p.machine);
}

static void the_interface_and_threads_that_the_user_names_are_taken(void **state)
{
    (void)state;
    played p;
    begin_with(&p, PSR_BARE_NOWHERE, "eth1");
    p.config.threads = 5;
    agent_says(&p, A, HELLO_A, 0);
    agent_says(&p, B, HELLO_A, 0); /* without an address */
    expect_done(&p, "connecting 2 and 0 of 2\nstart scheduler threads=5 interface=eth1\n");
    psr_launch_machine_free(p.machine);
}

static void a_host_that_does_not_tell_its_address_ends_the_start(void **state)
{
    (void)state;
    played p;
    begin(&p);
    agent_says(&p, A, HELLO_A, 0);
    agent_says(&p, B, HELLO_A, 0);
    expect_done(
        &p,
        "drop agent b\nconnecting 1 and 1 of 2\nagent a: end in 750 ms\nagent b: end in 750 ms\n");
    expect_end(&p, 2,
               "end bar\nerror: psring train: host b does not tell the address that ssh reached it "
               "by; name the interface with --interface\n");
}

static void without_encryption_another_machine_is_refused(void **state)
{
    (void)state;
    played p;
    begin_with(&p, PSR_BARE_THIS_MACHINE, NULL);
    agent_says(&p, A, HELLO_A, 0);
    agent_says(&p, B, HELLO_B, 0);
    expect_end(&p, 2,
               "end bar\nerror: psring train: --no-encrypt: host b is another machine, and anybody "
               "on the network between could read and change the run; leave it out, or give "
               "--no-encrypt=trusted-network\n");
    begin_with(&p, PSR_BARE_TRUSTED_NETWORK, NULL);
    agent_says(&p, A, HELLO_A, 0);
    agent_says(&p, B, HELLO_B, 0);
    expect_done(&p, "connecting 2 and 0 of 2\nstart scheduler threads=3 interface=10.0.0.1\n");
    psr_launch_machine_free(p.machine);
}

static void what_a_login_shell_prints_before_the_hello_changes_nothing(void **state)
{
    (void)state;
    played p;
    begin(&p);
    agent_says(&p, B, "Welcome to b", 0);
    psr_launch_machine_agent_complained(p.machine, B, "a word of ssh");
    expect_done(&p, "");
    agent_says(&p, B, HELLO_B, 0);
    psr_launch_machine_agent_complained(p.machine, B, "another");
    expect_done(&p, "others: [agent on b] another\n");
    psr_launch_machine_free(p.machine);
}

static void an_agent_that_does_not_answer_ends_the_start(void **state)
{
    (void)state;
    played p;
    begin(&p);
    agent_says(&p, A, HELLO_A, 0);
    psr_launch_machine_agent_complained(p.machine, B, "Last login: today");
    for (int64_t at_ms = 0; at_ms < 20000; at_ms += 1000) {
        agent_says(&p, A, "{\"event\":\"alive\"}", at_ms);
        tick(&p, at_ms);
    }
    agent_says(&p, A, "{\"event\":\"alive\"}", 19999);
    assert_int_equal(wait_ms(&p, 19999), 1);
    tick(&p, 19999);
    forget(&p);
    tick(&p, 20000);
    expect_done(&p, "drop agent b\nconnecting 1 and 1 of 2\nagent a: end in 750 ms\n"
                    "agent b: end in 750 ms\nkill agent b\n");
    expect_end(&p, 2,
               "end bar\nerror: psring train: host b: its agent did not answer within 20 s: Last "
               "login: today; see what `ssh b true` does\n");
}

/* Its ssh has ended, and all that it said was read. */
static void ends_without_a_hello(played *p, size_t host, int wait_status)
{
    psr_launch_machine_agent_ended(p->machine, host);
    psr_launch_machine_agent_closed(p->machine, host, wait_status, BEGAN_MS);
}

static void a_host_that_ssh_does_not_reach_ends_the_start_when_the_others_are_known(void **state)
{
    (void)state;
    played p;
    begin(&p);
    psr_launch_machine_agent_complained(p.machine, B, "me@b: Permission denied (publickey).");
    psr_launch_machine_agent_complained(p.machine, B, "lost connection");
    ends_without_a_hello(&p, B, EXIT(255));
    expect_done(&p, "");
    agent_says(&p, A, HELLO_A, 0);
    expect_done(&p, "connecting 1 and 1 of 2\nagent a: end in 750 ms\n"); /* the other has ended */
    expect_end(&p, 2,
               "end bar\nerror: psring train: host b: ssh could not connect: me@b: Permission "
               "denied (publickey).; let it log you in without a password: ssh-copy-id b\n");
}

static void all_hosts_that_cannot_be_used_are_told_at_once(void **state)
{
    (void)state;
    played p;
    begin(&p);
    ends_without_a_hello(&p, A, SIGNAL_9);
    agent_says(&p, B, "{\"event\":\"hello\",\"version\":\"0.0.1\",\"cores\":6}", 0);
    expect_done(&p, "drop agent b\nconnecting 0 and 2 of 2\nagent b: end in 750 ms\n");
    expect_end(&p, 2,
               "end bar\nerror: psring train: 2 of 2 hosts cannot be used:\n"
               "error:   host a: its agent ended (killed by signal 9 (Killed))\n"
               "error:   host b has psring 0.0.1, this is " PSR_VERSION
               "; install the same version on both\n");
}

static void who_gives_up_waiting_hears_of_the_hosts_that_cannot_be_used(void **state)
{
    (void)state;
    played p;
    begin(&p);
    ends_without_a_hello(&p, B, EXIT(127));
    psr_launch_machine_interrupted(p.machine, BEGAN_MS);
    expect_end(&p, 130,
               "end bar\nerror: psring train: interrupted\n"
               "error:   host b lacks the program psring (not found); install it there at the same "
               "path, or name its path by --remote-psring\n");
}

static void an_agent_that_ends_while_others_are_awaited_ends_the_start(void **state)
{
    (void)state;
    played p;
    begin(&p);
    agent_says(&p, A, HELLO_A, 0);
    ends_without_a_hello(&p, A, EXIT(1));
    expect_done(&p, "");
    agent_says(&p, B, HELLO_B, 0);
    expect_done(&p, "connecting 1 and 1 of 2\nagent b: end in 750 ms\n");
    expect_end(&p, 1, "end bar\nerror: psring train: host a: its agent ended (exit status 1)\n");
}

static void an_action_that_fails_ends_the_run(void **state)
{
    (void)state;
    played p;
    begin(&p);
    p.failure = PSR_ERR_NOT_FOUND;
    agent_says(&p, A, HELLO_A, 0);
    agent_says(&p, B, HELLO_B, 0);
    expect_done(&p, "connecting 2 and 0 of 2\nstart scheduler threads=3 interface=10.0.0.1\nagent "
                    "a: end in 750 ms\nagent b: end in 750 ms\n");
    expect_end(&p, 2, "end bar\nerror: psring train: no scheduler\n");
    begin(&p);
    agent_says(&p, A, HELLO_A, 0);
    agent_says(&p, B, HELLO_B, 0);
    p.failure = PSR_ERR_NOMEM;
    forget(&p);
    scheduler_says(&p, LISTENING, 0);
    expect_done(&p, "spawn shard 0 interface=10.0.0.1 endpoint=tcp://10.0.0.1:7\n"
                    "agent a: end in 750 ms\nagent b: end in 750 ms\n");
    expect_end(&p, 1, "end bar\nerror: psring train: no provision\n");
}

static void an_agent_that_cannot_be_started_ends_the_start(void **state)
{
    (void)state;
    played p;
    open_machine(&p, PSR_BARE_NOWHERE, NULL);
    p.failure = PSR_ERR_NOT_FOUND;
    tick(&p, 0);
    assert_true(psr_launch_machine_is_over(p.machine));
    expect_end(&p, 2, "end bar\nerror: psring train: no ssh\n");
}

static void a_failure_of_the_driver_before_the_first_agent_is_over_at_once(void **state)
{
    (void)state;
    played p;
    open_machine(&p, PSR_BARE_NOWHERE, NULL);
    psr_launch_machine_failed(p.machine, psr_fail(PSR_ERR_USAGE, "--ssh: the command is empty"),
                              BEGAN_MS);
    assert_true(psr_launch_machine_is_over(p.machine));
    expect_end(&p, 2, "end bar\nerror: psring train: --ssh: the command is empty\n");
}

/* ---- binding ---- */

/* Hello with these cores. */
static const char *hello_with(size_t host, const char *topology)
{
    static char line[512];
    const char *hello = host == A ? HELLO_A : HELLO_B;
    snprintf(line, sizeof line, "%.*s,\"topology\":%s}", (int)strlen(hello) - 1, hello, topology);
    return line;
}

static void each_process_is_bound_and_the_person_told(void **state)
{
    (void)state;
    played p;
    begin_bound(&p, PSR_BIND_TO_CORE);
    p.config.threads = 1;
    agent_says(&p, A, hello_with(A, "[[[0,4],[1,5],[2,6],[3,7]]]"), 0);
    agent_says(&p, B, hello_with(B, "[[[0],[1]]]"), 0);
    expect_done(
        &p, "connecting 2 and 0 of 2\nstart scheduler threads=1 interface=10.0.0.1\n"
            "line: binding    shard 0 on a: CPUs 3,7\nline: binding    worker 0 on a: CPUs 0,4\n"
            "line: binding    worker 1 on a: CPUs 1,5\nline: binding    worker 2 on b: CPUs 0-1\n");
    scheduler_says(&p, LISTENING, 0);
    expect_done(&p, "spawn shard 0 interface=10.0.0.1 endpoint=tcp://10.0.0.1:7 cpus=3,7\n"
                    "spawn worker 0 interface=10.0.0.1 endpoint=tcp://10.0.0.1:7 cpus=0,4\n"
                    "spawn worker 1 interface=10.0.0.1 endpoint=tcp://10.0.0.1:7 cpus=1,5\n"
                    "spawn worker 2 interface=10.0.0.2 endpoint=tcp://10.0.0.1:7 cpus=0-1\n");
    psr_launch_machine_free(p.machine);
}

static void threads_are_the_same_with_and_without_shards(void **state)
{
    (void)state;
    played p;
    begin_bound(&p, PSR_BIND_TO_CORE);
    agent_says(&p, A, hello_with(A, "[[[0],[1],[2],[3]]]"), 0);
    agent_says(&p, B, hello_with(B, "[[[0],[1],[2],[3],[4],[5]]]"), 0);
    expect_done(
        &p, "connecting 2 and 0 of 2\nstart scheduler threads=2 interface=10.0.0.1\n"
            "line: binding    shard 0 on a: CPUs 0-3\nline: binding    worker 0 on a: CPUs 0-1\n"
            "line: binding    worker 1 on a: CPUs 2-3\nline: binding    worker 2 on b: CPUs 0-5\n");
    psr_launch_machine_free(p.machine);
}

static void a_host_that_does_not_tell_its_cores_cannot_bind(void **state)
{
    (void)state;
    played p;
    begin_bound(&p, PSR_BIND_TO_NUMA);
    agent_says(&p, A, hello_with(A, "[[[0],[1],[2],[3]]]"), 0);
    agent_says(&p, B, HELLO_B, 0);
    expect_end(&p, 2,
               "end bar\nerror: psring train: host b: --bind-to: its psring does not tell its "
               "cores, since it was built without hwloc; install one that was built with it, or "
               "give --bind-to none\n");
}

/* ---- agents that lie ---- */

static void cores_that_cannot_be_are_a_violation(void **state)
{
    (void)state;
    played p;
    begin(&p);
    agent_says(&p, B, hello_with(B, "[[[0],[0]]]"), 0);
    expect_end(&p, 3,
               "end bar\nerror: psring train: host b: its agent does not report the layout of its "
               "cores\n");
}

static void a_second_hello_ends_the_run(void **state)
{
    (void)state;
    played p;
    begin_run(&p);
    agent_says(&p, B, HELLO_B, 0);
    expect_done(&p, "agent a: end in 750 ms\nagent b: end in 750 ms\n");
    agent_says(&p, B,
               "{\"event\":\"exited\",\"role\":\"worker\",\"rank\":2,\"ok\":false,\"how\":\"x\"}",
               0);
    expect_done(&p, ""); /* it is not heard any more */
    expect_end(&p, 3, "end bar\nerror: psring train: host b: its agent said hello twice\n");
}

static void an_agent_speaks_for_what_is_placed_on_its_host_alone(void **state)
{
    (void)state;
    played p;
    begin_run(&p);
    agent_says(&p, B,
               "{\"event\":\"exited\",\"role\":\"worker\",\"rank\":0,\"ok\":false,\"how\":\"x\"}",
               0);
    expect_end(&p, 3,
               "end bar\nerror: psring train: host b: its agent speaks for worker 0, which is not "
               "placed there\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_scheduler_is_started_when_all_agents_have_said_hello),
        cmocka_unit_test(the_interface_and_threads_that_the_user_names_are_taken),
        cmocka_unit_test(a_host_that_does_not_tell_its_address_ends_the_start),
        cmocka_unit_test(without_encryption_another_machine_is_refused),
        cmocka_unit_test(what_a_login_shell_prints_before_the_hello_changes_nothing),
        cmocka_unit_test(an_agent_that_does_not_answer_ends_the_start),
        cmocka_unit_test(a_host_that_ssh_does_not_reach_ends_the_start_when_the_others_are_known),
        cmocka_unit_test(all_hosts_that_cannot_be_used_are_told_at_once),
        cmocka_unit_test(who_gives_up_waiting_hears_of_the_hosts_that_cannot_be_used),
        cmocka_unit_test(an_agent_that_ends_while_others_are_awaited_ends_the_start),
        cmocka_unit_test(an_action_that_fails_ends_the_run),
        cmocka_unit_test(an_agent_that_cannot_be_started_ends_the_start),
        cmocka_unit_test(a_failure_of_the_driver_before_the_first_agent_is_over_at_once),
        cmocka_unit_test(each_process_is_bound_and_the_person_told),
        cmocka_unit_test(threads_are_the_same_with_and_without_shards),
        cmocka_unit_test(a_host_that_does_not_tell_its_cores_cannot_bind),
        cmocka_unit_test(cores_that_cannot_be_are_a_violation),
        cmocka_unit_test(a_second_hello_ends_the_run),
        cmocka_unit_test(an_agent_speaks_for_what_is_placed_on_its_host_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
