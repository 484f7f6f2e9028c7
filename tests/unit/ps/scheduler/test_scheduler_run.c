/* A run that is on: progress, metrics, checkpoints. */
#include "tests/unit/ps/scheduler/scheduler_fixture.h"

#include <stdio.h>
#include <string.h>

static uint64_t saved_said(const fixture *f)
{
    psr_message message = {.head = last_sent(f, PSR_MSG_SAVED)->head};
    uint64_t steps;
    expect_ok(psr_msg_saved_read(&message, &steps));
    return steps;
}

static void progress_is_answered_and_figures_are_passed_on(void **state)
{
    fixture *f = *state;
    progress(f, w1, PSR_PHASE_FORWARD, 0, 1, NULL);
    assert_int_equal(count_sent(f, PSR_MSG_ALIVE), 1);
    assert_int_equal(last_sent(f, PSR_MSG_ALIVE)->to.rank, 1);
    say(f, w0, PSR_MSG_METRICS, "{\"step\": 1, \"rank\": 0}");
    assert_int_equal(f->metrics, 1);
}

static void an_evaluations_progress_is_told_from_its_begin_on(void **state)
{
    fixture *f = *state;
    progress(f, w1, PSR_PHASE_FORWARD, 3, 1, NULL);
    assert_int_equal(f->evaluations, 0);
    psr_msg_progress says = {.phase = PSR_PHASE_EVALUATION, .step = 3, .evaluates = true};
    give(f, w1, psr_msg_progress_head(&says), NULL, 0);
    assert_int_equal(f->evaluations, 1);
    assert_int_equal(f->evaluated_step, 4); /* completed */
    assert_int_equal(f->evaluated_count, 0);
    /* It waits for the others, and has counted all that it had to. */
    says.phase = PSR_PHASE_BARRIER;
    says.counted = 30;
    give(f, w1, psr_msg_progress_head(&says), NULL, 0);
    assert_int_equal(f->evaluations, 2);
    assert_int_equal(f->evaluated_count, 30);
    assert_false(f->ended);
}

/* Behind a row of pieces a PROGRESS may wait for long. */
static void every_piece_of_a_checkpoint_is_answered(void **state)
{
    fixture *f = *state;
    give(f, s0, one_float(20, PSR_SECTION_SLOT(0)), (float[]){1}, sizeof(float));
    give(f, w1, one_float(20, PSR_SECTION_RANK(1)), (float[]){1}, sizeof(float));
    assert_int_equal(f->pieces, 2);
    assert_int_equal(count_sent(f, PSR_MSG_ALIVE), 2);
    assert_true(psr_peer_equal(last_sent(f, PSR_MSG_ALIVE)->to, w1));
}

static void what_a_rank_owes_is_its_own_to_send(void **state)
{
    fixture *f = *state;
    give(f, w1, one_float(20, PSR_SECTION_RESIDUAL(1)), (float[]){1}, sizeof(float));
    assert_false(f->ended);
    assert_int_equal(f->pieces, 1);
    give(f, w1, one_float(20, PSR_SECTION_RESIDUAL(0)), (float[]){1}, sizeof(float));
    ends_with_words(f, PSR_ERR_PROTOCOL, "section 65536 of a checkpoint is not its to send");
}

static void the_loss_scale_is_worker_0s_to_send(void **state)
{
    fixture *f = *state;
    give(f, (psr_peer){PSR_ROLE_WORKER, 0}, one_float(20, PSR_SECTION_LOSS_SCALE), (float[]){1},
         sizeof(float));
    assert_false(f->ended);
    assert_int_equal(f->pieces, 1);
    give(f, w1, one_float(20, PSR_SECTION_LOSS_SCALE), (float[]){1}, sizeof(float));
    ends_with_words(f, PSR_ERR_PROTOCOL, "section 4 of a checkpoint is not its to send");
}

static void what_workers_have_is_worker_0s_to_send(void **state)
{
    fixture *f = *state;
    give(f, (psr_peer){PSR_ROLE_WORKER, 0}, one_float(20, PSR_SECTION_PULLED), (float[]){1},
         sizeof(float));
    assert_false(f->ended);
    assert_int_equal(f->pieces, 1);
    give(f, w1, one_float(20, PSR_SECTION_PULLED), (float[]){1}, sizeof(float));
    ends_with_words(f, PSR_ERR_PROTOCOL, "section 2 of a checkpoint is not its to send");
}

/* One float of a section that is the sender's own. */
static void send_piece(fixture *f, psr_peer from, uint64_t step)
{
    uint32_t section =
        from.role == PSR_ROLE_SHARD ? PSR_SECTION_SLOT(0) : PSR_SECTION_RANK(from.rank);
    give(f, from, one_float(step, section), (float[]){1}, sizeof(float));
}

static void start_with_checkpoints(fixture *f, uint64_t every, uint64_t first_step)
{
    set_up(f);
    f->config.checkpoint_every = (psr_duration){.steps = every};
    f->first_step = first_step;
    open_scheduler(f);
    start_all(f);
}

static void checkpoints_come_in_order_each_when_the_one_before_is_in_place(void **state)
{
    fixture *f = *state;
    start_with_checkpoints(f, 6, 6); /* of 20 steps; 6 were taken before */
    send_piece(f, w1, 12);
    send_piece(f, s0, 12);
    send_piece(f, s0, 18); /* the workers wait with theirs, but its buckets go on */
    send_piece(f, s0, 12);
    send_piece(f, w1, 12);
    psr_scheduler_checkpointed(f->scheduler, 12);
    send_piece(f, w1, 18);
    send_piece(f, s0, 20);
    psr_scheduler_checkpointed(f->scheduler, 18);
    send_piece(f, w1, 20);
    assert_false(f->ended);
    assert_int_equal(f->pieces, 8);
}

static void a_run_that_stops_has_its_checkpoint_due_there(void **state)
{
    fixture *f = *state;
    start_with_checkpoints(f, 0, 0);
    psr_scheduler_stop(f->scheduler);
    held(f, w1, 6);
    held(f, w0, 7);
    send_piece(f, w1, 8);
    send_piece(f, s0, 8);
    assert_false(f->ended);
    assert_int_equal(f->pieces, 2);
}

static void a_checkpoint_that_is_not_due_is_a_violation(void **state)
{
    fixture *f = *state;
    const struct {
        psr_peer from;
        uint64_t steps[4]; /* the last of them is the violation */
        const char *why;
    } cases[] = {
        {{PSR_ROLE_WORKER, 1},
         {6},
         /* it was resumed from */
         "no checkpoint of 6 steps is due; its next one is of 12"},
        {{PSR_ROLE_WORKER, 1}, {0}, "no checkpoint of 0 steps is due; its next one is of 12"},
        {{PSR_ROLE_WORKER, 1}, {13}, "no checkpoint of 13 steps is due; its next one is of 12"},
        {{PSR_ROLE_WORKER, 1}, {18}, "no checkpoint of 18 steps is due; its next one is of 12"},
        {{PSR_ROLE_WORKER, 1}, {21}, "no checkpoint of 21 steps is due; its next one is of 12"},
        {{PSR_ROLE_WORKER, 1},
         {UINT64_MAX},
         "no checkpoint of 18446744073709551615 steps is due; its next one is of 12"},
        {{PSR_ROLE_WORKER, 1}, {12, 18}, "its checkpoint of 12 steps is not in place"},
        {{PSR_ROLE_SHARD, 0}, {18}, "no checkpoint of 18 steps is due; its next one is of 12"},
        {{PSR_ROLE_SHARD, 0}, {12, 18, 20}, "its checkpoint of 12 steps is not in place"},
        {{PSR_ROLE_SHARD, 0},
         {12, 18, 6},
         "no checkpoint of 6 steps is due; its next one is of 20"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        start_with_checkpoints(f, 6, 6);
        size_t at = 0;
        do
            send_piece(f, cases[i].from, cases[i].steps[at++]);
        while (cases[i].steps[at] != 0);
        ends_with_words(f, PSR_ERR_PROTOCOL, cases[i].why);
        assert_int_equal(f->pieces, at - 1);
        assert_non_null(strstr(f->line, cases[i].from.role == PSR_ROLE_SHARD
                                            ? "on a: shard 0 sent"
                                            : "on b: worker 1 sent"));
    }
}

static void step_by_step_hashes_must_be_equal(void **state)
{
    fixture *f = *state;
    say(f, w0, PSR_MSG_METRICS, "{\"step\": 1, \"rank\": 0, \"hash\": \"00000000000000ab\"}");
    say(f, w0, PSR_MSG_METRICS, "{\"step\": 2, \"rank\": 0, \"hash\": \"00000000000000cd\"}");
    say(f, w1, PSR_MSG_METRICS, "{\"step\": 1, \"rank\": 1, \"hash\": \"00000000000000ab\"}");
    assert_false(f->ended);
    assert_int_equal(f->metrics, 3);
    say(f, w1, PSR_MSG_METRICS, "{\"step\": 2, \"rank\": 1, \"hash\": \"00000000000000ce\"}");
    ends_with_words(f, PSR_ERR_NUMERIC,
                    "after step 2 worker 1 on b has other weights than worker 0 on");
}

/* Each has weights of its own there. */
static void hashes_of_relaxed_runs_are_not_compared(void **state)
{
    fixture *f = *state;
    f->config.sync = PSR_SYNC_ASYNC;
    open_scheduler(f);
    start_all(f);
    say(f, w0, PSR_MSG_METRICS, "{\"step\": 1, \"rank\": 0, \"hash\": \"00000000000000ab\"}");
    say(f, w1, PSR_MSG_METRICS, "{\"step\": 1, \"rank\": 1, \"hash\": \"00000000000000ac\"}");
    assert_false(f->ended);
    assert_int_equal(f->metrics, 2);
}

static void a_line_of_metrics_that_is_not_due_is_a_violation(void **state)
{
    fixture *f = *state;
    char longer[5000];
    memset(longer, ' ', sizeof longer);
    memcpy(longer, "{\"step\": 7, \"rank\": 1", 21);
    snprintf(longer + sizeof longer - 2, 2, "}");
    const struct {
        const char *line, *why;
    } cases[] = {
        {"{\"step\": 7, \"rank\": 0}", "the metrics of rank 0 are not its to tell"},
        {"{\"step\": 7, \"rank\": 2}", "the metrics of rank 2 are not its to tell"},
        {"{\"step\": 6, \"rank\": 1}", "it tells step 6 of rank 1 after step 6"},
        {"{\"step\": 8, \"rank\": 1}", "it tells step 8 of rank 1 after step 6"},
        {"{\"step\": 7}", "its payload is no JSON object with step and rank"},
        {"{\"step\": -1, \"rank\": 1}", "its payload is no JSON object with step and rank"},
        {"{\"step\": 1e300, \"rank\": 1}", "its payload is no JSON object with step and rank"},
        {"{\"step\": 7.5, \"rank\": 1}", "its payload is no JSON object with step and rank"},
        {"{\"step\": 7, \"rank\": \"1\"}", "its payload is no JSON object with step and rank"},
        {"[7, 1]", "its payload is no JSON object with step and rank"},
        {"{", "its payload is no JSON object with step and rank"},
        {"garbage", "its payload is no JSON object with step and rank"},
        {"{\"step\": 7, \"rank\": 7}", "the metrics of rank 7 are not its to tell"},
        {"{\"step\": 7, \"rank\": 1}{\"step\": 8, \"rank\": 1}",
         "its payload is no JSON object with step and rank"},
        {"{\"step\": 7, \"rank\": 1}\n{\"b\": 2}", "its payload holds control characters"},
        {"{\"step\": 7, \"rank\": 1, \"x\": \"\xc2\x9b\"}", "its payload holds control characters"},
        {"", "its payload is no JSON object with step and rank"},
        {"{\"step\": 7, \"rank\": 1, \"x\": \"\x1b[2J\"}", "its payload holds control characters"},
        {longer, "its payload has 4999 bytes, more than a line of metrics"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        start_with_checkpoints(f, 0, 6);
        say(f, w1, PSR_MSG_METRICS, cases[i].line);
        ends_with_words(f, PSR_ERR_PROTOCOL, cases[i].why);
        assert_int_equal(f->metrics, 0);
        assert_non_null(strstr(f->line, "on b: worker 1 sent METRICS"));
    }
}

static void start_to_make_up(fixture *f)
{
    set_up(f);
    f->config.target_accuracy = 0.25;
    f->first_step = 6;
    f->evaluates_first = true;
    open_scheduler(f);
    start_all(f);
}

static void an_evaluation_of_before_the_first_step_is_told_once_and_by_worker_0(void **state)
{
    fixture *f = *state;
    static const char line[] = "{\"step\": 6, \"rank\": 0, \"test_accuracy\": 0.5}";
    start_to_make_up(f);
    say(f, w1, PSR_MSG_METRICS, "{\"step\": 6, \"rank\": 1, \"test_accuracy\": 0.5}");
    ends_with_words(f, PSR_ERR_PROTOCOL, "it tells step 6 of rank 1 after step 6");
    assert_int_equal(f->made_up, 0);
    start_to_make_up(f);
    say(f, w0, PSR_MSG_METRICS, line);
    assert_int_equal(f->made_up, 1);
    assert_int_equal(f->metrics, 0);
    assert_non_null(strstr(f->said, "test accuracy 0.5000 after step 6 reaches the 0.25"));
    say(f, w0, PSR_MSG_METRICS, line);
    ends_with_words(f, PSR_ERR_PROTOCOL, "it tells step 6 of rank 0 after step 6");
    assert_int_equal(f->made_up, 1);
}

static void start_with_norms(fixture *f, uint64_t every)
{
    set_up(f);
    f->config.tensorboard_norms = every;
    open_scheduler(f);
    start_all(f);
}

static void norms_come_of_worker_0s_next_step_if_it_is_due(void **state)
{
    fixture *f = *state;
    static const char third[] = "{\"step\": 3, \"rank\": 0, \"norms\": []}";
    static const struct {
        bool asked;
        psr_peer from;
        const char *line, *words;
    } wrong[] = {
        {false,
         {PSR_ROLE_WORKER, 0},
         "{\"step\": 1, \"rank\": 0, \"norms\": []}",
         "no norms of step 1 are due"},
        {true,
         {PSR_ROLE_WORKER, 0},
         "{\"step\": 1, \"rank\": 0, \"norms\": []}",
         "no norms of step 1 are due"},
        {true,
         {PSR_ROLE_WORKER, 1},
         "{\"step\": 1, \"rank\": 1, \"norms\": []}",
         "no norms of step 1 are due"},
        {true, {PSR_ROLE_WORKER, 0}, third, "it tells step 3 of rank 0 after step 0"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        start_with_norms(f, wrong[i].asked ? 3 : 0);
        say(f, wrong[i].from, PSR_MSG_METRICS, wrong[i].line);
        ends_with_words(f, PSR_ERR_PROTOCOL, wrong[i].words);
    }
    start_with_norms(f, 3);
    say(f, w0, PSR_MSG_METRICS, "{\"step\": 1, \"rank\": 0}");
    say(f, w0, PSR_MSG_METRICS, "{\"step\": 2, \"rank\": 0}");
    for (unsigned i = 1; i <= 512; i++) {
        say(f, w0, PSR_MSG_METRICS, third);
        assert_int_equal(f->norms, i);
    }
    assert_false(f->ended);
    say(f, w0, PSR_MSG_METRICS, third);
    ends_with_words(f, PSR_ERR_PROTOCOL, "no norms of step 3 are due");
}

static void metrics_come_step_by_step_to_the_runs_last(void **state)
{
    fixture *f = *state;
    char line[64];
    for (unsigned step = 1; step <= 20; step++) {
        snprintf(line, sizeof line, "{\"step\": %u, \"rank\": 1}", step);
        say(f, w1, PSR_MSG_METRICS, line);
        assert_int_equal(f->metrics, step);
        assert_int_equal(f->metrics_rank, 1);
        assert_int_equal(f->metrics_step, step);
    }
    assert_false(f->ended);
    say(f, w1, PSR_MSG_METRICS, "{\"step\": 21, \"rank\": 1}");
    ends_with_words(f, PSR_ERR_PROTOCOL, "it tells step 21 of rank 1 after step 20");
    assert_int_equal(f->metrics, 20);
}

static void in_local_mode_one_process_tells_of_all_ranks(void **state)
{
    fixture *f = *state;
    f->config.mode = PSR_MODE_LOCAL;
    open_scheduler(f);
    f->config.workers = 1; /* of processes, for on_joined */
    join(f, w0, "a");
    tell_facts(f, w0, some_facts);
    say(f, w0, PSR_MSG_READY, NULL);
    say(f, w0, PSR_MSG_METRICS, "{\"step\": 1, \"rank\": 0}");
    say(f, w0, PSR_MSG_METRICS, "{\"step\": 1, \"rank\": 1}");
    assert_int_equal(f->metrics_rank, 1);
    assert_false(f->ended);
    say(f, w0, PSR_MSG_METRICS, "{\"step\": 1, \"rank\": 2}");
    ends_with_words(f, PSR_ERR_PROTOCOL, "the metrics of rank 2 are not its to tell");
    assert_int_equal(f->metrics, 2);
}

static void workers_hear_of_a_checkpoint_that_is_in_place(void **state)
{
    fixture *f = *state;
    psr_scheduler_checkpointed(f->scheduler, 10);
    assert_int_equal(count_sent(f, PSR_MSG_SAVED), 2);
    assert_int_equal(saved_said(f), 10);
    assert_true(psr_peer_equal(last_sent(f, PSR_MSG_SAVED)->to, w1));
    assert_false(f->ended);
}

static void all_wait_in_the_next_checkpoint(fixture *f)
{
    static const psr_peer scheduler = {PSR_ROLE_SCHEDULER, 0};
    progress(f, w0, PSR_PHASE_CHECKPOINT, 9, 1, &scheduler);
    progress(f, w1, PSR_PHASE_CHECKPOINT, 9, 1, &scheduler);
    progress(f, s0, PSR_PHASE_PUSH, 10, 1, &w0);
    tick(f, f->now_ms);
}

static void waiting_for_a_slow_disk_is_nobodys_fault_and_waiting_for_nothing_is_named(void **state)
{
    fixture *f = *state;
    for (f->now_ms = 0; f->now_ms <= 40000; f->now_ms += 1000) {
        psr_coordinator_works(f->coordinator, f->now_ms);
        all_wait_in_the_next_checkpoint(f);
        assert_false(f->ended);
    }
    for (; f->now_ms < 48000; f->now_ms += 1000) {
        all_wait_in_the_next_checkpoint(f);
        assert_false(f->ended);
    }
    all_wait_in_the_next_checkpoint(f);
    ends(f, PSR_ERR_TIMEOUT,
         "worker 0 on a: everybody has waited for 8.0 s, it for the scheduler in step 10, "
         "checkpoint; shard 0 waits for it in step 11, push, bucket 0 (--deadline 8)");
}

static void clocks_and_traces_are_not_due_without_a_trace(void **state)
{
    fixture *f = *state;
    give(f, w1, psr_msg_clock_head(&(psr_msg_clock){1, 0}), NULL, 0);
    ends_with_words(f, PSR_ERR_PROTOCOL, "it has no further trace");
    set_up_started(f);
    give(f, w1, psr_msg_trace_head(&(psr_msg_trace){0}), NULL, 0);
    ends_with_words(f, PSR_ERR_PROTOCOL, "are not due");
}

static void a_slow_member_is_named_once_a_while_and_the_run_goes_on(void **state)
{
    fixture *f = *state;
    for (int64_t now = 0; now <= 7000; now += 500) {
        f->now_ms = now;
        progress(f, w1, PSR_PHASE_BACKWARD, 3, (uint64_t)now, NULL);
        progress(f, s0, PSR_PHASE_PUSH, 3, 1, &w1);
        progress(f, w0, PSR_PHASE_PULL, 3, 1, &s0);
        tick(f, now);
    }
    assert_false(f->ended);
    assert_non_null(strstr(f->said, "worker 1 on b is slow: others have waited "));
    assert_null(strchr(strchr(f->said, '\n') + 1, '\n')); /* one line */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STARTED(progress_is_answered_and_figures_are_passed_on),
        STARTED(an_evaluations_progress_is_told_from_its_begin_on),
        STARTED(every_piece_of_a_checkpoint_is_answered),
        STARTED(what_a_rank_owes_is_its_own_to_send),
        STARTED(the_loss_scale_is_worker_0s_to_send),
        STARTED(what_workers_have_is_worker_0s_to_send),
        SET_UP(checkpoints_come_in_order_each_when_the_one_before_is_in_place),
        SET_UP(a_run_that_stops_has_its_checkpoint_due_there),
        SET_UP(a_checkpoint_that_is_not_due_is_a_violation),
        SET_UP(a_line_of_metrics_that_is_not_due_is_a_violation),
        SET_UP(an_evaluation_of_before_the_first_step_is_told_once_and_by_worker_0),
        SET_UP(norms_come_of_worker_0s_next_step_if_it_is_due),
        STARTED(metrics_come_step_by_step_to_the_runs_last),
        STARTED(step_by_step_hashes_must_be_equal),
        SET_UP(hashes_of_relaxed_runs_are_not_compared),
        SET_UP(in_local_mode_one_process_tells_of_all_ranks),
        STARTED(workers_hear_of_a_checkpoint_that_is_in_place),
        STARTED(waiting_for_a_slow_disk_is_nobodys_fault_and_waiting_for_nothing_is_named),
        STARTED(clocks_and_traces_are_not_due_without_a_trace),
        STARTED(a_slow_member_is_named_once_a_while_and_the_run_goes_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
