/* The launcher's decisions while a run is on, and at its end. */
#include "tests/unit/deploy/launch/played_launch.h"

#include <stdio.h>
#include <string.h>

/* ---- who is lost ---- */

static void a_member_that_is_lost_is_told_to_the_scheduler(void **state)
{
    (void)state;
    played p;
    begin_run(&p);
    agent_says(&p, B,
               "{\"event\":\"exited\",\"role\":\"worker\",\"rank\":2,\"ok\":false,\"how\":\"killed "
               "by signal 9\"}",
               0);
    expect_done(&p, "{\"order\":\"lost\",\"role\":\"worker\",\"rank\":2,\"host\":\"b\",\"by_"
                    "itself\":false,\"how\":\"killed by signal 9\"}\n");
    agent_says(&p, A,
               "{\"event\":\"exited\",\"role\":\"shard\",\"rank\":0,\"ok\":true,\"how\":\"exit "
               "status 0\"}",
               0);
    expect_done(&p, "");
    scheduler_says(&p, ENDED_WELL, 0);
    forget(&p);
    agent_says(&p, A,
               "{\"event\":\"exited\",\"role\":\"worker\",\"rank\":0,\"ok\":false,\"how\":\"exit "
               "status 1\"}",
               0);
    expect_done(&p, "");
    psr_launch_machine_free(p.machine);
}

static void an_agent_that_ends_takes_its_processes_with_it(void **state)
{
    (void)state;
    played p;
    begin_run(&p);
    psr_launch_machine_agent_ended(p.machine, A);
    psr_launch_machine_agent_closed(p.machine, A, SIGNAL_9, BEGAN_MS);
    expect_done(
        &p, "{\"order\":\"lost\",\"role\":\"shard\",\"rank\":0,\"host\":\"a\",\"by_itself\":false,"
            "\"how\":\"with host a, whose agent ended (killed by signal 9 (Killed))\"}\n"
            "{\"order\":\"lost\",\"role\":\"worker\",\"rank\":0,\"host\":\"a\",\"by_itself\":false,"
            "\"how\":\"with host a, whose agent ended (killed by signal 9 (Killed))\"}\n"
            "{\"order\":\"lost\",\"role\":\"worker\",\"rank\":1,\"host\":\"a\",\"by_itself\":false,"
            "\"how\":\"with host a, whose agent ended (killed by signal 9 (Killed))\"}\n");
    psr_launch_machine_agent_closed(p.machine, A, SIGNAL_9, BEGAN_MS);
    expect_done(&p, ""); /* once */
    psr_launch_machine_agent_ended(p.machine, B);
    psr_launch_machine_agent_closed(p.machine, B, EXIT(255), BEGAN_MS);
    expect_done(&p,
                "{\"order\":\"lost\",\"role\":\"worker\",\"rank\":2,\"host\":\"b\",\"by_itself\":"
                "false,\"how\":\"with host b, whose ssh connection ended (exit status 255)\"}\n");
    psr_launch_machine_free(p.machine);
}

/* Everybody but those says something. */
static void pass_second(played *p, int64_t at_ms, bool a_speaks, bool b_speaks,
                        bool scheduler_speaks)
{
    if (a_speaks)
        agent_says(p, A, "{\"event\":\"alive\"}", at_ms);
    if (b_speaks)
        agent_says(p, B, "{\"event\":\"alive\"}", at_ms);
    if (scheduler_speaks)
        scheduler_says(p, "{\"event\":\"alive\"}", at_ms);
    forget(p);
    tick(p, at_ms);
}

static void an_agent_that_is_silent_for_the_deadline_is_told_to_the_scheduler_once(void **state)
{
    (void)state;
    played p;
    begin_run(&p);
    for (int64_t at_ms = 0; at_ms < DEADLINE_MS; at_ms += 1000)
        pass_second(&p, at_ms, true, false, true);
    assert_true(wait_ms(&p, DEADLINE_MS - 1) <= 1);
    agent_says(&p, A, "{\"event\":\"alive\"}", DEADLINE_MS);
    scheduler_says(&p, "{\"event\":\"alive\"}", DEADLINE_MS);
    forget(&p);
    tick(&p, DEADLINE_MS);
    assert_ptr_equal(
        strstr(p.done,
               "{\"order\":\"agent\",\"host\":\"b\",\"how\":\"no sign of life for 8.0 s\"}\n"),
        p.done);
    pass_second(&p, DEADLINE_MS + 1000, true, false, true);
    assert_null(strstr(p.done, "\"agent\""));
    psr_launch_machine_free(p.machine);
}

static void a_silent_agent_ends_a_run_that_has_no_scheduler_yet(void **state)
{
    (void)state;
    played p;
    begin(&p);
    agent_says(&p, A, HELLO_A, 0);
    for (int64_t at_ms = 1000; at_ms <= DEADLINE_MS; at_ms += 1000)
        tick(&p, at_ms);
    expect_end(&p, 1, "end bar\nerror: psring train: agent on a: no sign of life for 8.0 s\n");
}

static void while_agents_are_left_unread_their_silence_is_not_theirs(void **state)
{
    (void)state;
    played p;
    begin_run(&p);
    for (int64_t at_ms = 0; at_ms <= 3 * DEADLINE_MS; at_ms += 1000) {
        scheduler_says(&p, "{\"event\":\"alive\"}", at_ms);
        psr_launch_machine_tick(p.machine, false, BEGAN_MS + at_ms);
    }
    assert_null(strstr(p.done, "\"agent\""));
    psr_launch_machine_free(p.machine);
}

static void what_the_launcher_was_away_for_is_nobodys_silence(void **state)
{
    (void)state;
    played p;
    begin_run(&p);
    tick(&p, 1000);
    forget(&p);
    tick(&p, 1000 + 10 * DEADLINE_MS);
    expect_done(&p, "{\"order\":\"alive\"}\nagent a: alive\nagent b: alive\n");
    psr_launch_machine_free(p.machine);
}

static void a_silent_scheduler_ends_the_run(void **state)
{
    (void)state;
    played p;
    begin_run(&p);
    scheduler_says(&p, "{\"event\":\"progress\",\"step\":4,\"total\":10,\"loss\":0.5}", 0);
    expect_done(&p, "progress 4 of 10\n");
    for (int64_t at_ms = 0; at_ms <= DEADLINE_MS; at_ms += 1000)
        pass_second(&p, at_ms, true, true, false);
    expect_end(&p, 1,
               "end bar\nerror: psring train: scheduler 0 on a: no sign of life for 8.0 s; the run "
               "was at step 4 of 10, loss 0.5000\n");
}

static void all_hear_four_signs_of_life_per_deadline(void **state)
{
    (void)state;
    played p;
    begin_run(&p);
    int64_t now_ms = 0;
    for (int signs = 0; signs < 4; signs++) {
        int64_t wait = wait_ms(&p, now_ms);
        assert_true(wait > 0 && wait <= DEADLINE_MS / 4 + 1);
        now_ms += wait;
        agent_says(&p, A, "{\"event\":\"alive\"}", now_ms);
        agent_says(&p, B, "{\"event\":\"alive\"}", now_ms);
        scheduler_says(&p, "{\"event\":\"alive\"}", now_ms);
        tick(&p, now_ms);
        expect_done(&p, "{\"order\":\"alive\"}\nagent a: alive\nagent b: alive\n");
    }
    psr_launch_machine_free(p.machine);
}

/* ---- the end ---- */

static void the_scheduler_says_how_the_run_ended(void **state)
{
    (void)state;
    played p;
    begin_run(&p);
    scheduler_says(&p, ENDED_WELL, 0);
    expect_done(&p, "agent a: end in 1500 ms\nagent b: end in 1500 ms\n");
    scheduler_says(&p, "{\"event\":\"ended\",\"status\":1,\"line\":\"again\"}", 0);
    expect_done(&p, ""); /* the first word counts */
    close_all(&p, 0);
    assert_true(psr_launch_machine_is_over(p.machine));
    psr_launch_machine_free(p.machine);

    begin_run(&p);
    scheduler_says(&p, ENDED_WELL, 0);
    close_all(&p, 0);
    expect_end(&p, 0, "end bar\noutcome 12\n");

    begin_run(&p);
    scheduler_says(
        &p, "{\"event\":\"ended\",\"status\":3,\"line\":\"worker 1 on a: sent nonsense\"}", 0);
    expect_done(&p, "agent a: end in 750 ms\nagent b: end in 750 ms\n");
    expect_end(&p, 3, "end bar\nerror: psring train: worker 1 on a: sent nonsense\n");

    begin_run(&p);
    scheduler_says(&p, "{\"event\":\"ended\",\"status\":0,\"line\":\"nothing left to do\"}", 0);
    expect_end(&p, 0, "end bar\nline: nothing left to do\n");
}

static void the_scheduler_hears_when_all_that_processes_printed_has_come(void **state)
{
    (void)state;
    played p;
    begin_run(&p);
    psr_launch_machine_agent_closed(p.machine, A, 0, BEGAN_MS);
    scheduler_says(&p, ENDED_WELL, 0);
    psr_launch_machine_agent_ended(p.machine, B);
    forget(&p);
    agent_says(
        &p, B,
        "{\"event\":\"line\",\"role\":\"worker\",\"rank\":2,\"stream\":\"out\",\"text\":\"late\"}",
        0);
    expect_done(&p, "{\"order\":\"log\",\"role\":\"worker\",\"rank\":2,\"line\":\"late\"}\n");
    psr_launch_machine_agent_closed(p.machine, B, 0, BEGAN_MS);
    expect_done(&p, "{\"order\":\"closed\"}\n");
    psr_launch_machine_agent_closed(p.machine, B, 0, BEGAN_MS);
    expect_done(&p, ""); /* once */
    psr_launch_machine_free(p.machine);

    begin_run(&p); /* all agents first */
    psr_launch_machine_agent_closed(p.machine, A, 0, BEGAN_MS);
    psr_launch_machine_agent_closed(p.machine, B, 0, BEGAN_MS);
    forget(&p);
    scheduler_says(&p, ENDED_WELL, 0);
    expect_done(&p, "{\"order\":\"closed\"}\n");
    psr_launch_machine_free(p.machine);
}

static void a_scheduler_that_dies_without_a_word_ends_the_run(void **state)
{
    (void)state;
    played p;
    begin_run(&p);
    psr_launch_machine_scheduler_ended(p.machine);
    /* still in the pipe */
    scheduler_says(&p, "{\"event\":\"progress\",\"step\":4,\"total\":10}", 0);
    psr_launch_machine_scheduler_closed(p.machine, SIGNAL_9, BEGAN_MS);
    expect_end(&p, 1,
               "end bar\nerror: psring train: scheduler 0 on a: killed by signal 9 (Killed); the "
               "run was at step 4 of 10\n");

    begin(&p); /* before it listens: bad input, which it has told itself */
    agent_says(&p, A, HELLO_A, 0);
    agent_says(&p, B, HELLO_B, 0);
    psr_launch_machine_scheduler_complained(p.machine, "its own words");
    psr_launch_machine_scheduler_closed(p.machine, EXIT(2), BEGAN_MS);
    expect_end(&p, 2,
               "end bar\nerror: psring train: scheduler 0 on a: exit status 2; the run was at its "
               "start\n");
}

static void agents_that_do_not_end_are_killed(void **state)
{
    (void)state;
    played p;
    begin_run(&p);
    scheduler_says(&p, ENDED_WELL, 0);
    psr_launch_machine_scheduler_ended(p.machine);
    psr_launch_machine_scheduler_closed(p.machine, 0, BEGAN_MS);
    psr_launch_machine_agent_ended(p.machine, A);
    psr_launch_machine_agent_closed(p.machine, A, 0, BEGAN_MS);
    tick(&p, 9001); /* a sign of life is due then, and next after 11 s */
    forget(&p);
    assert_int_equal(wait_ms(&p, 9999), 1);
    tick(&p, 9999);
    expect_done(&p, "");
    tick(&p, 10000);
    expect_done(&p, "kill agent b\n");
    assert_int_equal(wait_ms(&p, 10000), 100);
    tick(&p, 10100);
    expect_done(&p, "kill agent b\n");
    assert_false(psr_launch_machine_is_over(p.machine));
    psr_launch_machine_agent_ended(p.machine, B);
    assert_false(psr_launch_machine_is_over(p.machine)); /* its last words */
    psr_launch_machine_agent_closed(p.machine, B, SIGNAL_9, BEGAN_MS + 10110);
    assert_true(psr_launch_machine_is_over(p.machine));
    expect_end(&p, 0, "end bar\noutcome 12\n");
}

/* Their last lines are its to write, and the socket in the run's directory is its to remove. */
static void the_scheduler_is_not_killed_with_agents_that_do_not_end(void **state)
{
    (void)state;
    played p;
    begin_run(&p);
    scheduler_says(&p, ENDED_WELL, 0);
    psr_launch_machine_scheduler_ended(p.machine);
    tick(&p, 10000);
    assert_non_null(strstr(p.done, "kill agent a\nkill agent b\n"));
    psr_launch_machine_agent_ended(p.machine, A);
    psr_launch_machine_agent_closed(p.machine, A, SIGNAL_9, BEGAN_MS + 10010);
    psr_launch_machine_agent_ended(p.machine, B);
    psr_launch_machine_agent_closed(p.machine, B, SIGNAL_9, BEGAN_MS + 10010);
    tick(&p, 20009);
    assert_null(strstr(p.done, "kill scheduler"));
    tick(&p, 20010);
    assert_non_null(strstr(p.done, "kill scheduler"));
    psr_launch_machine_free(p.machine);
}

/* Nor is there anybody else to end a scheduler that does not know that the run has ended. */
static void an_agent_that_breaks_the_protocol_has_no_time_to_end(void **state)
{
    (void)state;
    played p;
    begin_run(&p);
    agent_says(&p, B, "what is an event?", 0);
    tick(&p, 0);
    assert_non_null(strstr(p.done, "kill agent b\n"));
    assert_null(strstr(p.done, "kill agent a\n"));
    psr_launch_machine_agent_ended(p.machine, B);
    psr_launch_machine_agent_closed(p.machine, B, SIGNAL_9, BEGAN_MS + 10);
    psr_launch_machine_agent_ended(p.machine, A);
    psr_launch_machine_agent_closed(p.machine, A, 0, BEGAN_MS + 800);
    tick(&p, 3000);
    assert_null(strstr(p.done, "kill scheduler"));
    assert_int_equal(wait_ms(&p, 3000), 300);
    tick(&p, 3300);
    assert_non_null(strstr(p.done, "kill scheduler"));
    psr_launch_machine_free(p.machine);
}

/* ---- what the person sees ---- */

/* Worker 2 on b prints this on its standard error. */
static void prints(played *p, const char *text)
{
    char line[1024];
    snprintf(
        line, sizeof line,
        "{\"event\":\"line\",\"role\":\"worker\",\"rank\":2,\"stream\":\"err\",\"text\":\"%s\"}",
        text);
    agent_says(p, B, line, 0);
}

#define LOGGED(text) "{\"order\":\"log\",\"role\":\"worker\",\"rank\":2,\"line\":\"" text "\"}\n"

static void what_processes_print_goes_to_the_log_and_by_its_level_to_the_person(void **state)
{
    (void)state;
    played p;
    begin_run(&p);
    prints(&p, "12:01:02.345 info  worker 2: joined");
    expect_done(&p, LOGGED("12:01:02.345 info  worker 2: joined"));
    prints(&p, "12:01:02.345 warn  worker 2: slow");
    expect_done(&p,
                LOGGED("12:01:02.345 warn  worker 2: slow") "others: [worker 2 on b] 12:01:02.345 "
                                                            "warn  worker 2: slow\n");
    prints(&p, "12:01:02.345 warn  worker 2 (stranger): turned away one");
    expect_done(&p, LOGGED("12:01:02.345 warn  worker 2 (stranger): turned away one"));
    prints(&p, "malloc(): corrupted top size");
    expect_done(&p, LOGGED("malloc(): corrupted top size") "others: [worker 2 on b] malloc(): "
                                                           "corrupted top size\n");
    agent_says(&p, B,
               "{\"event\":\"line\",\"role\":\"worker\",\"rank\":2,\"stream\":\"out\",\"text\":"
               "\"epoch: 1 step: 1\"}",
               0);
    expect_done(&p, LOGGED("epoch: 1 step: 1"));
    psr_launch_machine_free(p.machine);
}

static void
errors_of_processes_are_shown_at_the_end_where_they_say_more_than_the_run_does(void **state)
{
    (void)state;
    played p;
    begin_run(&p);
    prints(&p, "12:01:02.345 error worker 2: the loss is not finite");
    prints(&p, "12:01:02.345 error worker 2: worker 2 on b: the loss is not finite, at step 7");
    prints(&p, "12:01:02.345 error worker 2: and the disk is full");
    expect_done(&p,
                LOGGED("12:01:02.345 error worker 2: the loss is not finite") LOGGED(
                    "12:01:02.345 error worker 2: worker 2 on b: the loss is not finite, at step 7")
                    LOGGED("12:01:02.345 error worker 2: and the disk is full"));
    scheduler_says(
        &p, "{\"event\":\"ended\",\"status\":1,\"line\":\"worker 2 on b: the loss is not finite\"}",
        0);
    prints(&p, "12:01:02.345 error worker 2: what follows from it");
    expect_end(&p, 1,
               "end bar\nerror: [worker 2 on b] 12:01:02.345 error worker 2: and the disk is full\n"
               "error: psring train: worker 2 on b: the loss is not finite\n");
}

static void what_the_scheduler_says_is_shown_by_its_level_and_kind(void **state)
{
    (void)state;
    played p;
    begin_run(&p);
    scheduler_says(
        &p, "{\"event\":\"say\",\"level\":\"info\",\"kind\":\"run\",\"line\":\"worker 1 is slow\"}",
        0);
    expect_done(&p, "line: worker 1 is slow\n");
    scheduler_says(
        &p, "{\"event\":\"say\",\"level\":\"warn\",\"kind\":\"run\",\"line\":\"what is no order\"}",
        0);
    expect_done(&p, "others: [scheduler] what is no order\n");
    scheduler_says(
        &p,
        "{\"event\":\"say\",\"level\":\"warn\",\"kind\":\"stranger\",\"line\":\"turned away one\"}",
        0);
    expect_done(&p, "");
    scheduler_says(
        &p, "{\"event\":\"evaluating\",\"step\":4,\"total\":10,\"counted\":30,\"samples\":90}", 0);
    scheduler_says(&p, "{\"event\":\"evaluated\",\"line\":\"step 4: test accuracy 50%\"}", 0);
    expect_done(&p, "evaluating 30 of 90\nevaluated\nline: step 4: test accuracy 50%\n");
    scheduler_says(&p, "what a library prints", 0);
    expect_done(&p, "line: what a library prints\n");
    psr_launch_machine_scheduler_complained(p.machine, "and on stderr");
    expect_done(&p, "others: [scheduler] and on stderr\n");
    psr_launch_machine_free(p.machine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_member_that_is_lost_is_told_to_the_scheduler),
        cmocka_unit_test(an_agent_that_ends_takes_its_processes_with_it),
        cmocka_unit_test(an_agent_that_is_silent_for_the_deadline_is_told_to_the_scheduler_once),
        cmocka_unit_test(a_silent_agent_ends_a_run_that_has_no_scheduler_yet),
        cmocka_unit_test(while_agents_are_left_unread_their_silence_is_not_theirs),
        cmocka_unit_test(what_the_launcher_was_away_for_is_nobodys_silence),
        cmocka_unit_test(a_silent_scheduler_ends_the_run),
        cmocka_unit_test(all_hear_four_signs_of_life_per_deadline),
        cmocka_unit_test(the_scheduler_says_how_the_run_ended),
        cmocka_unit_test(the_scheduler_hears_when_all_that_processes_printed_has_come),
        cmocka_unit_test(a_scheduler_that_dies_without_a_word_ends_the_run),
        cmocka_unit_test(agents_that_do_not_end_are_killed),
        cmocka_unit_test(an_agent_that_breaks_the_protocol_has_no_time_to_end),
        cmocka_unit_test(the_scheduler_is_not_killed_with_agents_that_do_not_end),
        cmocka_unit_test(what_processes_print_goes_to_the_log_and_by_its_level_to_the_person),
        cmocka_unit_test(
            errors_of_processes_are_shown_at_the_end_where_they_say_more_than_the_run_does),
        cmocka_unit_test(what_the_scheduler_says_is_shown_by_its_level_and_kind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
