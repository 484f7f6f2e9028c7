/* How a run ends: when all are done, when it is told to stop, when somebody fails. */
#include "tests/unit/ps/scheduler/scheduler_fixture.h"

#include <string.h>

static uint64_t stop_at_said(const fixture *f)
{
    psr_message message = {.head = last_sent(f, PSR_MSG_STOP_AT)->head};
    uint64_t step;
    expect_ok(psr_msg_stop_at_read(&message, &step));
    return step;
}

static void all_done(fixture *f, uint64_t steps)
{
    done(f, s0, steps, NULL);
    done(f, w0, steps, "{}");
    done(f, w1, steps, NULL);
}

static void failed(fixture *f, psr_peer from, psr_err status, const char *line)
{
    give(f, from, psr_msg_failed_head(status), line, strlen(line));
}

static void the_run_ends_when_all_are_done_and_the_last_checkpoint_is_in_place(void **state)
{
    fixture *f = *state;
    psr_scheduler_checkpointed(f->scheduler, 10);
    done(f, s0, 20, "{\"gradient_bytes\": 800, \"weight_bytes\": 400}");
    done(f, w0, 20, "{\"hash\": \"12\"}");
    f->now_ms = 20000;
    progress(f, w1, PSR_PHASE_FORWARD, 19, 9, NULL);
    progress(f, s0, PSR_PHASE_SHUTDOWN, 20, 1, NULL); /* the others are alive and wait */
    progress(f, w0, PSR_PHASE_SHUTDOWN, 20, 1, NULL);
    tick(f, 20000);
    assert_false(f->ended);
    assert_int_equal(f->last_checkpoint, 0);
    done(f, w1, 20, "{\"train_s\": 3}");
    assert_int_equal(f->last_checkpoint, 20);
    assert_false(f->ended);
    assert_int_equal(count_sent(f, PSR_MSG_BYE), 0);
    psr_scheduler_checkpointed(f->scheduler, 20);
    ends(f, PSR_OK, "20 steps done");
    assert_int_equal(count_sent(f, PSR_MSG_BYE), 3);
    assert_int_equal(count_sent(f, PSR_MSG_ABORT), 0);
    assert_string_equal(f->outcomes, "shard 0: {\"gradient_bytes\": 800, \"weight_bytes\": 400}\n"
                                     "worker 0: {\"hash\": \"12\"}\nworker 1: {\"train_s\": 3}\n");
}

static void a_last_checkpoint_that_lacks_pieces_ends_the_run_rather_than_hang_it(void **state)
{
    fixture *f = *state;
    f->last_checkpoint_err = PSR_ERR_PROTOCOL;
    open_scheduler(f);
    start_all(f);
    all_done(f, 20);
    assert_int_equal(f->status, PSR_ERR_PROTOCOL);
    assert_int_equal(count_sent(f, PSR_MSG_BYE), 0);
}

static void members_that_end_after_different_steps_break_the_protocol(void **state)
{
    fixture *f = *state;
    done(f, w0, 20, NULL);
    done(f, w1, 20, NULL);
    done(f, s0, 19, NULL);
    ends(f, PSR_ERR_PROTOCOL, "on a: shard 0 on a is done after 19 steps, worker 0 after 20");
}

static void told_to_stop_all_take_the_last_step_that_anybody_has_begun(void **state)
{
    fixture *f = *state;
    psr_scheduler_stop(f->scheduler);
    psr_scheduler_stop(f->scheduler); /* again: nothing new */
    assert_int_equal(count_sent(f, PSR_MSG_HOLD), 2);
    held(f, w1, 6);
    say(f, w0, PSR_MSG_METRICS, "{\"step\": 1, \"rank\": 0}"); /* what was under way */
    assert_int_equal(count_sent(f, PSR_MSG_STOP_AT), 0);
    held(f, w0, 7);
    assert_int_equal(count_sent(f, PSR_MSG_STOP_AT), 3); /* shards too */
    assert_int_equal(stop_at_said(f), 7);
    assert_string_equal(f->said, "stopping after step 8\n");
    all_done(f, 8);
    assert_int_equal(f->last_checkpoint, 8);
    psr_scheduler_checkpointed(f->scheduler, 8);
    ends(f, PSR_ERR_CANCELLED, "stopped after step 8 of 20, as told; its checkpoint is written");
    assert_int_equal(count_sent(f, PSR_MSG_BYE), 3);
}

static void a_stop_that_comes_with_the_last_step_is_a_run_that_is_done(void **state)
{
    fixture *f = *state;
    psr_scheduler_stop(f->scheduler);
    held(f, w0, 19);
    held(f, w1, 19);
    all_done(f, 20);
    psr_scheduler_checkpointed(f->scheduler, 20);
    ends(f, PSR_OK, "20 steps done");
}

static void a_stop_that_crosses_the_end_of_a_worker_lets_all_take_all_steps(void **state)
{
    fixture *f = *state;
    psr_scheduler_stop(f->scheduler);
    held(f, w1, 18);
    done(f, w0, 20, "{}"); /* it had sent this before it heard of HOLD, and answers no more */
    assert_int_equal(stop_at_said(f), 19);
    done(f, s0, 20, NULL);
    done(f, w1, 20, NULL);
    psr_scheduler_checkpointed(f->scheduler, 20);
    ends(f, PSR_OK, "20 steps done");

    set_up_started(f);
    done(f, w0, 20, "{}");
    psr_scheduler_stop(f->scheduler);
    assert_int_equal(count_sent(f, PSR_MSG_HOLD), 0);
    done(f, s0, 20, NULL);
    done(f, w1, 20, NULL);
    psr_scheduler_checkpointed(f->scheduler, 20);
    ends(f, PSR_OK, "20 steps done");
}

static void a_stop_in_the_last_evaluation_is_no_run_that_is_done(void **state)
{
    fixture *f = *state;
    psr_scheduler_stop(f->scheduler);
    held(f, w0, 19);
    held(f, w1, 19);
    done(f, s0, 20, NULL);
    give(f, w0, psr_msg_done_head(&(psr_msg_done){20, .left_out = true}), "{}", 2);
    give(f, w1, psr_msg_done_head(&(psr_msg_done){20, .left_out = true}), NULL, 0);
    psr_scheduler_checkpointed(f->scheduler, 20);
    ends(f, PSR_ERR_CANCELLED,
         "stopped in the evaluation after the last step, as told; all 20 steps are in the "
         "checkpoint");
}

static void a_run_resumed_behind_its_last_step_has_nothing_to_write(void **state)
{
    fixture *f = *state;
    f->first_step = 20;
    open_scheduler(f);
    start_all(f);
    all_done(f, 20);
    assert_int_equal(f->last_checkpoint, 0);
    ends(f, PSR_OK, "20 steps done");
}

static void stopping_before_the_first_step_ends_at_once(void **state)
{
    fixture *f = *state;
    psr_scheduler_stop(f->scheduler);
    ends(f, PSR_ERR_CANCELLED, "stopped before the first step, as told; nothing to resume");
    assert_int_equal(count_sent(f, PSR_MSG_ABORT), 3);
}

static void a_killed_member_ends_the_run_at_once_with_what_the_others_were_doing(void **state)
{
    fixture *f = *state;
    progress(f, w0, PSR_PHASE_PULL, 12, 1, &s0);
    progress(f, s0, PSR_PHASE_PUSH, 12, 1, &w1);
    psr_coordinator_lost(f->coordinator, w1, NULL, false, "killed by signal 9 (Killed)", 100);
    assert_int_equal(count_sent(f, PSR_MSG_ALIVE), 4); /* two ask */
    psr_message asking = {.head = last_sent(f, PSR_MSG_ALIVE)->head};
    bool report_wanted;
    expect_ok(psr_msg_alive_read(&asking, &report_wanted));
    assert_true(report_wanted);
    progress(f, w0, PSR_PHASE_PULL, 13, 1, &s0);
    assert_false(f->ended);
    progress(f, s0, PSR_PHASE_PUSH, 13, 1, &w1);
    ends_with_words(f, PSR_ERR_PEER, "worker 1 on b was lost: killed by signal 9 (Killed); ");
    /* people count from 1 */
    assert_non_null(strstr(f->line, "worker 0: step 14, pull, bucket 0, waiting for shard 0"));
    assert_int_equal(count_sent(f, PSR_MSG_ABORT), 3);
}

static void a_lost_member_is_not_kept_secret_because_others_do_not_answer(void **state)
{
    fixture *f = *state;
    psr_coordinator_lost(f->coordinator, w1, NULL, false, "killed by signal 9 (Killed)", 100);
    /* the first is the one to name */
    psr_coordinator_lost(f->coordinator, w0, NULL, false, "killed by signal 9 (Killed)", 101);
    assert_true(psr_coordinator_next_tick(f->coordinator) <= 250);
    tick(f, 250);
    ends_with_words(f, PSR_ERR_PEER, "worker 1 on b was lost");
}

static void workers_that_end_with_other_weights_end_the_run(void **state)
{
    fixture *f = *state;
    done(f, s0, 20, NULL);
    done(f, w0, 20, "{\"hash\": \"00000000000000ab\"}");
    assert_false(f->ended);
    done(f, w1, 20, "{\"hash\": \"00000000000000ac\"}");
    ends(f, PSR_ERR_NUMERIC,
         "after step 20 worker 1 on b has other weights than worker 0 on a (hash 00000000000000ac, "
         "not 00000000000000ab): one of them computed or received wrong ones");
}

static void a_run_of_no_steps_ends_with_equal_weights_too(void **state)
{
    fixture *f = *state;
    done(f, s0, 0, NULL);
    done(f, w0, 0, "{\"hash\": \"00000000000000ab\"}");
    done(f, w1, 0, "{\"hash\": \"00000000000000ab\"}");
    ends(f, PSR_OK, "0 steps done");
}

static void a_member_lost_when_all_others_are_done_is_told_with_that(void **state)
{
    fixture *f = *state;
    done(f, s0, 20, NULL);
    done(f, w0, 20, NULL);
    psr_coordinator_lost(f->coordinator, w1, NULL, false, "killed by signal 9 (Killed)", 100);
    ends(f, PSR_ERR_PEER,
         "worker 1 on b was lost: killed by signal 9 (Killed); shard 0: done; worker 0: done");
}

static void the_words_of_a_member_that_exits_are_waited_for_a_moment(void **state)
{
    fixture *f = *state;
    psr_coordinator_lost(f->coordinator, w1, NULL, true, "exit status 1", 1000);
    assert_false(f->ended);
    failed(f, w1, PSR_ERR_NUMERIC, "the loss is not finite");
    ends(f, PSR_ERR_NUMERIC, "worker 1 on b: the loss is not finite");

    set_up_started(f);
    psr_coordinator_lost(f->coordinator, w1, NULL, true, "exit status 1", 1000);
    assert_true(psr_coordinator_next_tick(f->coordinator) <= 1500);
    tick(f, 1500);
    ends_with_words(f, PSR_ERR_PEER, "worker 1 on b was lost: exit status 1");
}

static void a_silent_agent_ends_the_run_and_its_line_says_what_the_members_do(void **state)
{
    fixture *f = *state;
    psr_coordinator_agent_lost(f->coordinator, "b", "no sign of life for 8.0 s", 1000);
    assert_false(f->ended); /* they are asked */
    f->now_ms = 1010;
    progress(f, s0, PSR_PHASE_PUSH, 4, 1, &w1);
    progress(f, w0, PSR_PHASE_PULL, 4, 1, &s0);
    assert_false(f->ended);
    progress(f, w1, PSR_PHASE_BACKWARD, 4, 1, NULL);
    ends_with_words(f, PSR_ERR_TIMEOUT,
                    "agent on b: no sign of life for 8.0 s; shard 0: step 5, push");
    assert_int_equal(strncmp(f->line, "agent", 5), 0);
    assert_non_null(strstr(f->line, "worker 1: step 5, backward"));
}

static void
a_member_lost_before_it_joined_is_named_with_the_launchers_word_for_its_host(void **state)
{
    fixture *f = *state;
    psr_coordinator_lost(f->coordinator, s0, "b", true, "exit status 127", 0);
    ends(f, PSR_ERR_PEER, "shard 0 on b was lost: exit status 127");
}

static void a_member_that_fails_gives_the_run_its_line_and_status(void **state)
{
    fixture *f = *state;
    failed(f, w0, PSR_ERR_NOT_FOUND, "no such data");
    ends(f, PSR_ERR_NOT_FOUND, "worker 0 on a: no such data");
}

static void a_member_that_falls_silent_while_it_runs_is_named_before_the_deadline(void **state)
{
    fixture *f = *state;
    for (int64_t now = 0; now <= 5000; now += 1000) {
        f->now_ms = now;
        progress(f, w0, PSR_PHASE_PULL, 4, 1, &s0);
        progress(f, s0, PSR_PHASE_PUSH, 4, 1, &w1);
        tick(f, now);
        assert_false(f->ended);
    }
    tick(f, 5500);
    ends_with_words(f, PSR_ERR_TIMEOUT, "worker 1 on b: no sign of life for 5.5 s");
}

static void a_launcher_that_is_gone_ends_the_run_with_what_its_members_were_doing(void **state)
{
    fixture *f = *state;
    psr_coordinator_launcher_lost(f->coordinator, PSR_ERR_PEER, "gone without a word", 0);
    ends(f, PSR_ERR_PEER, "launcher on head: gone without a word; the run was at its start");

    set_up_started(f);
    progress(f, w0, PSR_PHASE_PULL, 2, 1, &s0);
    psr_coordinator_launcher_lost(f->coordinator, PSR_ERR_TIMEOUT, "no sign of life for 8.0 s",
                                  1000);
    psr_coordinator_launcher_lost(f->coordinator, PSR_ERR_TIMEOUT, "no sign of life for 8.1 s",
                                  1100);
    assert_false(f->ended); /* they are asked first */
    progress(f, w0, PSR_PHASE_PULL, 12, 1, &s0);
    progress(f, s0, PSR_PHASE_PUSH, 12, 0, &w1);
    assert_false(f->ended);
    tick(f, 1000 + 150);
    ends_with_words(f, PSR_ERR_TIMEOUT, "launcher on head: no sign of life for 8.0 s; ");
    assert_non_null(strstr(f->line, "worker 0: step 13, pull, bucket 0, waiting for shard 0"));
}

static void what_the_driver_cannot_do_ends_the_run(void **state)
{
    fixture *f = *state;
    psr_coordinator_end(f->coordinator, PSR_ERR_IO, "no space left");
    ends(f, PSR_ERR_IO, "no space left");
    psr_coordinator_end(f->coordinator, PSR_ERR_IO, "and again");
    psr_coordinator_lost(f->coordinator, w1, NULL, false, "killed", 0);
    say(f, w1, PSR_MSG_METRICS, "{}");
    assert_string_equal(f->line, "no space left");
    assert_int_equal(psr_coordinator_next_tick(f->coordinator), INT64_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STARTED(the_run_ends_when_all_are_done_and_the_last_checkpoint_is_in_place),
        SET_UP(a_last_checkpoint_that_lacks_pieces_ends_the_run_rather_than_hang_it),
        STARTED(members_that_end_after_different_steps_break_the_protocol),
        STARTED(told_to_stop_all_take_the_last_step_that_anybody_has_begun),
        STARTED(workers_that_end_with_other_weights_end_the_run),
        STARTED(a_run_of_no_steps_ends_with_equal_weights_too),
        STARTED(a_stop_that_comes_with_the_last_step_is_a_run_that_is_done),
        STARTED(a_stop_that_crosses_the_end_of_a_worker_lets_all_take_all_steps),
        STARTED(a_stop_in_the_last_evaluation_is_no_run_that_is_done),
        SET_UP(a_run_resumed_behind_its_last_step_has_nothing_to_write),
        JOINED(stopping_before_the_first_step_ends_at_once),
        STARTED(a_killed_member_ends_the_run_at_once_with_what_the_others_were_doing),
        STARTED(a_lost_member_is_not_kept_secret_because_others_do_not_answer),
        STARTED(a_member_lost_when_all_others_are_done_is_told_with_that),
        STARTED(the_words_of_a_member_that_exits_are_waited_for_a_moment),
        STARTED(a_silent_agent_ends_the_run_and_its_line_says_what_the_members_do),
        OPENED(a_member_lost_before_it_joined_is_named_with_the_launchers_word_for_its_host),
        JOINED(a_member_that_fails_gives_the_run_its_line_and_status),
        STARTED(a_member_that_falls_silent_while_it_runs_is_named_before_the_deadline),
        OPENED(a_launcher_that_is_gone_ends_the_run_with_what_its_members_were_doing),
        STARTED(what_the_driver_cannot_do_ends_the_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
