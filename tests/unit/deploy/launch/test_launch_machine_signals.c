/* The launcher's decisions when the person presses Ctrl-C or Ctrl-Z. */
#include "tests/unit/deploy/launch/played_launch.h"

#include <string.h>

/* ---- Ctrl-C ---- */

static void the_first_ctrl_c_stops_in_order_and_the_second_at_once(void **state)
{
    (void)state;
    played p;
    begin_run(&p);
    psr_launch_machine_interrupted(p.machine, BEGAN_MS);
    expect_done(&p, "{\"order\":\"stop\"}\nline: stopping after this step, with a checkpoint; once "
                    "more to end at once\n");
    assert_false(psr_launch_machine_ends_at_once(p.machine));
    psr_launch_machine_interrupted(p.machine, BEGAN_MS);
    expect_done(&p, "agent a: end in 750 ms\nagent b: end in 750 ms\n");
    assert_true(psr_launch_machine_ends_at_once(p.machine));
    assert_int_equal(wait_ms(&p, 0), 0);
    tick(&p, 0);
    expect_done(&p, "kill agent a\nkill agent b\nkill scheduler\n");
    close_all(&p, 10);
    assert_true(psr_launch_machine_is_over(p.machine));
    expect_end(&p, 130, "end bar\nerror: psring train: interrupted\n");
}

static void a_run_that_was_stopped_in_order_can_go_on(void **state)
{
    (void)state;
    played p;
    begin_run(&p);
    psr_launch_machine_interrupted(p.machine, BEGAN_MS);
    scheduler_says(
        &p,
        "{\"event\":\"ended\",\"status\":130,\"line\":\"stopped\",\"outcome\":{\"hash\":\"12\"}}",
        0);
    close_all(&p, 0);
    expect_end(&p, 130, "end bar\nerror: psring train: stopped\nresumable\n");
}

static void a_signal_to_end_before_processes_are_there_ends_at_once(void **state)
{
    (void)state;
    played p;
    begin(&p);
    agent_says(&p, A, HELLO_A, 0);
    psr_launch_machine_interrupted(p.machine, BEGAN_MS);
    expect_done(&p, "agent a: end in 750 ms\nagent b: end in 750 ms\n");
    agent_says(&p, B, HELLO_B, 0); /* too late for a scheduler */
    expect_done(&p, "");
    expect_end(&p, 130, "end bar\nerror: psring train: interrupted\n");
}

/* ---- Ctrl-Z ---- */

#define PAUSES "end bar\n{\"order\":\"pause\"}\nagent a: pause\nagent b: pause\n"

#define GOES_ON "{\"order\":\"go_on\"}\nagent a: go on\nagent b: go on\nbar again\n"

static void a_run_stops_when_all_have_said_that_they_have(void **state)
{
    (void)state;
    played p;
    begin_run(&p);
    psr_launch_machine_suspended(p.machine, BEGAN_MS);
    expect_done(&p, PAUSES);
    scheduler_says(&p, "{\"event\":\"paused\"}", 10);
    agent_says(&p, A, "{\"event\":\"paused\"}", 10);
    tick(&p, 10);
    expect_done(&p, "");
    agent_says(&p, B, "{\"event\":\"paused\"}", 20);
    tick(&p, 20);
    expect_done(&p, "stop\n" GOES_ON);
    tick(&p, 30);
    expect_done(&p, "");
    /* answers of the first time do not count */
    psr_launch_machine_suspended(p.machine, BEGAN_MS + 40);
    expect_done(&p, PAUSES);
    tick(&p, 50);
    expect_done(&p, "");
    psr_launch_machine_free(p.machine);
}

static void who_does_not_answer_within_a_second_does_not_keep_the_launcher_awake(void **state)
{
    (void)state;
    played p;
    begin_run(&p);
    psr_launch_machine_suspended(p.machine, BEGAN_MS);
    scheduler_says(&p, "{\"event\":\"paused\"}", 10);
    agent_says(&p, A, "{\"event\":\"paused\"}", 10);
    forget(&p);
    psr_launch_machine_suspended(p.machine, BEGAN_MS + 500); /* pressed again: it is under way */
    expect_done(&p, "end bar\n");
    tick(&p, 999);
    expect_done(&p, "");
    assert_int_equal(wait_ms(&p, 999), 1);
    tick(&p, 1000);
    expect_done(&p, "stop\n" GOES_ON);
    psr_launch_machine_free(p.machine);
}

static void who_has_not_come_up_or_has_ended_is_not_waited_for(void **state)
{
    (void)state;
    played p;
    begin(&p);
    agent_says(&p, A, HELLO_A, 0);
    psr_launch_machine_suspended(p.machine, BEGAN_MS);
    expect_done(&p, "end bar\nagent a: pause\nagent b: pause\n");
    agent_says(&p, A, "{\"event\":\"paused\"}", 0);
    tick(&p, 0);
    expect_done(&p, "stop\nagent a: go on\nagent b: go on\nbar again\nconnecting 1 and 0 of 2\n");
    psr_launch_machine_free(p.machine);

    begin_run(&p);
    psr_launch_machine_agent_ended(p.machine, B);
    psr_launch_machine_suspended(p.machine, BEGAN_MS);
    agent_says(&p, A, "{\"event\":\"paused\"}", 0);
    scheduler_says(&p, "{\"event\":\"paused\"}", 0);
    forget(&p);
    tick(&p, 0);
    expect_done(&p, "stop\n{\"order\":\"go_on\"}\nagent a: go on\nbar again\n");
    psr_launch_machine_free(p.machine);
}

static void who_is_to_go_on_before_the_stop_does_not_stop(void **state)
{
    (void)state;
    played p;
    begin_run(&p);
    psr_launch_machine_continued(p.machine); /* nothing is paused */
    expect_done(&p, "");
    psr_launch_machine_suspended(p.machine, BEGAN_MS);
    expect_done(&p, PAUSES);
    psr_launch_machine_continued(p.machine);
    expect_done(&p, GOES_ON);
    tick(&p, 1000);
    assert_null(strstr(p.done, "stop"));
    psr_launch_machine_free(p.machine);
}

static void a_run_that_is_ending_stops_without_asking_anybody(void **state)
{
    (void)state;
    played p;
    begin_run(&p);
    scheduler_says(&p, ENDED_WELL, 0);
    forget(&p);
    psr_launch_machine_suspended(p.machine, BEGAN_MS);
    expect_done(&p, "end bar\n");
    tick(&p, 0);
    expect_done(&p, "stop\n");
    psr_launch_machine_free(p.machine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_ctrl_c_stops_in_order_and_the_second_at_once),
        cmocka_unit_test(a_run_that_was_stopped_in_order_can_go_on),
        cmocka_unit_test(a_signal_to_end_before_processes_are_there_ends_at_once),
        cmocka_unit_test(a_run_stops_when_all_have_said_that_they_have),
        cmocka_unit_test(who_does_not_answer_within_a_second_does_not_keep_the_launcher_awake),
        cmocka_unit_test(who_has_not_come_up_or_has_ended_is_not_waited_for),
        cmocka_unit_test(who_is_to_go_on_before_the_stop_does_not_stop),
        cmocka_unit_test(a_run_that_is_ending_stops_without_asking_anybody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
