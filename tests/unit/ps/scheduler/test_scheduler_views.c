/* Changes of mode: planned ones and those by hand, and what crosses them. */
#include "tests/unit/ps/scheduler/scheduler_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A run of 20 steps in that mode, with two workers and a shard. */
static void start_in(fixture *f, const char *mode, uint64_t first_step)
{
    set_up(f);
    expect_ok(psr_config_set(&f->config, "mode", mode));
    f->first_step = first_step;
    open_scheduler(f);
    start_all(f);
}

/* The last view that was sent. */
static psr_view last_view(const fixture *f)
{
    const struct sent *sent = last_sent(f, PSR_MSG_VIEW);
    psr_message message = {.from = {PSR_ROLE_SCHEDULER, 0},
                           .head = sent->head,
                           .payload = sent->text,
                           .payload_bytes = sent->text_size};
    const psr_view *view = NULL;
    expect_ok(psr_view_read(&message, &view));
    psr_view facts = {.epoch = view->epoch,
                      .first_step = view->first_step,
                      .next_step = view->next_step,
                      .member_count = view->member_count,
                      .plan.shards = (uint32_t)view->plan.buckets[0].route};
    psr_view_release(view);
    return facts;
}

static void expect_view(const fixture *f, size_t count, uint32_t epoch, uint64_t first_step,
                        uint64_t next_step, psr_route route)
{
    assert_int_equal(count_sent(f, PSR_MSG_VIEW), 3 * count); /* to all */
    const psr_view view = last_view(f);
    assert_int_equal(view.epoch, epoch);
    assert_int_equal(view.first_step, first_step);
    assert_int_equal(view.next_step, next_step);
    assert_int_equal(view.member_count, 3);
    assert_int_equal(view.plan.shards, route);
}

static uint64_t stop_at_said(const fixture *f)
{
    psr_message message = {.head = last_sent(f, PSR_MSG_STOP_AT)->head};
    uint64_t step;
    expect_ok(psr_msg_stop_at_read(&message, &step));
    return step;
}

static bool last_hold_is_for_a_change(const fixture *f)
{
    psr_message message = {.head = last_sent(f, PSR_MSG_HOLD)->head};
    bool change;
    expect_ok(psr_msg_hold_read(&message, &change));
    return change;
}

static void both_held(fixture *f, uint64_t one, uint64_t other)
{
    held(f, w0, one);
    held(f, w1, other);
}

static void all_done(fixture *f, uint64_t steps)
{
    done(f, s0, steps, NULL);
    done(f, w0, steps, "{}");
    done(f, w1, steps, NULL);
}

/* ---- planned ---- */

static void a_run_of_one_stretch_issues_no_view(void **state)
{
    fixture *f = *state;
    start_in(f, "ps", 0);
    assert_int_equal(count_sent(f, PSR_MSG_VIEW), 0);
    assert_string_equal(f->decided, "");
    bound(f, w0, 1, 0);
    ends_with_words(f, PSR_ERR_PROTOCOL, "its epoch is 1: 0 is the most");
}

static void the_view_of_the_next_stretch_goes_out_when_all_stand_on_the_one_before(void **state)
{
    fixture *f = *state;
    start_in(f, "ps@1,ring@6,ps@11", 0);
    expect_view(f, 1, 1, 5, 10, PSR_ROUTE_RING);
    bound(f, s0, 1, 0);
    bound(f, w0, 1, 1500);
    expect_view(f, 1, 1, 5, 10, PSR_ROUTE_RING);
    assert_string_equal(f->happened, "");
    bound(f, w1, 1, 2500);
    expect_view(f, 2, 2, 10, 0, PSR_ROUTE_SHARD);
    assert_string_equal(f->happened, "ring 6 0.0025 s\n"); /* the longest pause */
    all_bound(f, 2);
    assert_string_equal(f->happened, "ring 6 0.0025 s\nps 11 0.0025 s\n");
    assert_string_equal(f->decided, "ring 6 of ps@1,ring@6,ps@11\nps 11 of ps@1,ring@6,ps@11\n");
    assert_int_equal(count_sent(f, PSR_MSG_VIEW), 6);
    assert_int_equal(count_sent(f, PSR_MSG_HOLD), 0);
    assert_string_equal(f->answered, "");
    all_done(f, 20);
    psr_scheduler_checkpointed(f->scheduler, 20);
    ends(f, PSR_OK, "20 steps done");
}

static void no_pause_is_longer_than_the_run_has_been_on(void **state)
{
    fixture *f = *state;
    const psr_msg_bound lie = {1, PSR_MSG_WITHIN_MS_MAX};
    start_in(f, "ps@1,ring@6,ps@11", 0);
    bound(f, s0, 1, 0);
    bound(f, w1, 1, 2500);
    f->now_ms += 250;
    give(f, w0, psr_msg_bound_head(&lie), NULL, 0);
    assert_string_equal(f->happened, "ring 6 0.255 s\n");
    all_bound(f, 2); /* what was said of one change stays with that one */
    assert_string_equal(f->happened, "ring 6 0.255 s\nps 11 0.0025 s\n");
}

static void a_run_is_resumed_in_the_stretch_of_its_checkpoint(void **state)
{
    fixture *f = *state;
    start_in(f, "ps@1,ring@6,ps@11", 7);
    expect_view(f, 1, 1, 10, 0, PSR_ROUTE_SHARD);
    assert_int_equal(psr_scheduler_mode(f->scheduler).mode, PSR_MODE_RING);
    start_in(f, "ps@1,ring@6,ps@11", 10);
    assert_int_equal(count_sent(f, PSR_MSG_VIEW), 0);
    assert_int_equal(psr_scheduler_mode(f->scheduler).mode, PSR_MODE_PS);
    start_in(f, "ps@1,ring@6,ps@11", 5);
    expect_view(f, 1, 1, 10, 0, PSR_ROUTE_SHARD);
}

static void a_stretch_behind_the_last_step_is_not_issued(void **state)
{
    fixture *f = *state;
    start_in(f, "ps@1,ring@21", 0);
    assert_int_equal(count_sent(f, PSR_MSG_VIEW), 0);
    assert_int_equal(psr_scheduler_mode(f->scheduler).next_step, 0);
}

static void who_says_bound_of_what_it_was_not_given_breaks_the_protocol(void **state)
{
    fixture *f = *state;
    start_in(f, "ps@1,ring@6", 0);
    bound(f, w0, 2, 0);
    ends_with_words(f, PSR_ERR_PROTOCOL, "its epoch is 2: 1 is the most");
    start_in(f, "ps@1,ring@6", 0);
    bound(f, w0, 1, 0);
    bound(f, w0, 1, 0);
    ends_with_words(f, PSR_ERR_PROTOCOL, "it has said so for epoch 1 before");
    start_in(f, "ps@1,ring@6", 0);
    bound(f, w0, 0, 0);
    ends_with_words(f, PSR_ERR_PROTOCOL, "it has said so for epoch 0 before");
    start_in(f, "ps@1,ring@6", 0);
    bound(f, w0, UINT32_MAX, 0); /* an index far outside of the views */
    ends_with_words(f, PSR_ERR_PROTOCOL, "its epoch is 4294967295: 1 is the most");
    set_up_joined(f);
    bound(f, w0, 1, 0); /* before START there is no view */
    ends_with_words(f, PSR_ERR_PROTOCOL, "worker 0");
}

/* Whoever held the state in the last step of a checkpoint sends it. */
static void a_piece_of_a_checkpoint_is_its_who_held_it_at_that_step(void **state)
{
    fixture *f = *state;
    const float one = 1;
    set_up(f);
    expect_ok(psr_config_set(&f->config, "mode", "ps@1,ring@6,ps@11"));
    f->config.checkpoint_every = (psr_duration){.steps = 5};
    open_scheduler(f);
    start_all(f);
    give(f, s0, one_float(5, PSR_SECTION_SLOT(0)), &one, sizeof one);
    give(f, w0, one_float(5, PSR_SECTION_WEIGHTS), &one, sizeof one);
    all_bound(f, 1);
    psr_scheduler_checkpointed(f->scheduler, 5);
    give(f, w0, one_float(10, PSR_SECTION_SLOT(0)), &one, sizeof one); /* a ring's is worker 0's */
    assert_false(f->ended);
    assert_int_equal(f->pieces, 3);
    give(f, s0, one_float(10, PSR_SECTION_SLOT(0)), &one, sizeof one);
    ends_with_words(f, PSR_ERR_PROTOCOL, "section 16 of a checkpoint is not its to send");
}

/* ---- by hand ---- */

static void a_change_by_hand_begins_with_the_first_step_that_nobody_has_begun(void **state)
{
    fixture *f = *state;
    start_in(f, "ps", 0);
    expect_ok(psr_scheduler_change(f->scheduler, PSR_MODE_RING));
    assert_int_equal(count_sent(f, PSR_MSG_HOLD), 2); /* workers alone */
    assert_true(last_hold_is_for_a_change(f));
    assert_true(psr_scheduler_mode(f->scheduler).changing);
    held(f, w1, 6);
    assert_int_equal(count_sent(f, PSR_MSG_VIEW), 0);
    held(f, w0, 7);
    expect_view(f, 1, 1, 8, 0, PSR_ROUTE_RING);
    assert_int_equal(count_sent(f, PSR_MSG_STOP_AT), 0);
    assert_string_equal(f->decided, "ring 9 of ps@1,ring@9\n");
    assert_string_equal(f->answered, "");
    all_bound(f, 1);
    assert_string_equal(f->answered, "ok: ring from step 9 on, after a pause of 0.003 s\n");
    assert_false(psr_scheduler_mode(f->scheduler).changing);

    for (uint64_t step = 1; step <= 9; step++)
        for (uint32_t r = 0; r < 2; r++) {
            char line[64];
            snprintf(line, sizeof line, "{\"step\": %u, \"rank\": %u}", (unsigned)step, r);
            say(f, r == 0 ? w0 : w1, PSR_MSG_METRICS, line);
        }
    const psr_mode_state now = psr_scheduler_mode(f->scheduler);
    assert_int_equal(now.mode, PSR_MODE_RING);
    assert_int_equal(now.first_step, 8);
    assert_int_equal(now.steps, 9);
    assert_int_equal(now.total, 20);
    assert_int_equal(now.next_step, 0);
    expect_ok(psr_scheduler_change(f->scheduler, PSR_MODE_PS)); /* and back */
    both_held(f, 10, 10);
    expect_view(f, 2, 2, 11, 0, PSR_ROUTE_SHARD);
    all_bound(f, 2);
    all_done(f, 20);
    psr_scheduler_checkpointed(f->scheduler, 20);
    ends(f, PSR_OK, "20 steps done");
}

/* Lines of metrics come later than BOUND does. */
static void a_change_that_has_happened_is_told_before_its_first_step_is_done(void **state)
{
    fixture *f = *state;
    start_in(f, "ps", 0);
    expect_ok(psr_scheduler_change(f->scheduler, PSR_MODE_RING));
    both_held(f, 6, 7);
    assert_int_equal(psr_scheduler_mode(f->scheduler).mode, PSR_MODE_PS);
    all_bound(f, 1);
    const psr_mode_state now = psr_scheduler_mode(f->scheduler);
    assert_int_equal(now.mode, PSR_MODE_RING);
    assert_int_equal(now.first_step, 8);
    assert_int_equal(now.steps, 0);
    expect_failure(psr_scheduler_change(f->scheduler, PSR_MODE_RING), PSR_ERR_USAGE,
                   "the run is in mode ring already, from step 9 on");
    expect_ok(psr_scheduler_change(f->scheduler, PSR_MODE_PS));
}

static void a_change_by_hand_replaces_what_was_planned_after_it(void **state)
{
    fixture *f = *state;
    start_in(f, "ps@1,ring@11,ps@16", 0);
    expect_view(f, 1, 1, 10, 15, PSR_ROUTE_RING); /* it has not begun */
    expect_ok(psr_scheduler_change(f->scheduler, PSR_MODE_RING));
    both_held(f, 3, 4);
    expect_view(f, 2, 2, 5, 0, PSR_ROUTE_RING);
    assert_string_equal(f->decided, "ring 11 of ps@1,ring@11,ps@16\nring 6 of ps@1,ring@6\n");
    bound(f, s0, 1, 0); /* it had done so before it heard of the other */
    all_bound(f, 2);
    assert_string_equal(f->happened, "ring 6 0.0025 s\n");
    assert_int_equal(count_sent(f, PSR_MSG_VIEW), 6); /* and no further one */
    assert_string_equal(f->answered, "ok: ring from step 6 on, after a pause of 0.003 s\n");
}

static void a_change_by_hand_comes_behind_a_planned_one_that_has_begun(void **state)
{
    fixture *f = *state;
    start_in(f, "ring@1,ps@6,ring@16", 0);
    expect_ok(psr_scheduler_change(f->scheduler, PSR_MODE_PS));
    both_held(f, 5, 4); /* the planned one has begun meanwhile: it is what was asked for */
    assert_string_equal(f->answered, "usage: the run is in mode ps already\n");
    assert_int_equal(stop_at_said(f), 19); /* all go on, to the end */
    assert_int_equal(count_sent(f, PSR_MSG_STOP_AT), 2);
    all_bound(f, 1);
    expect_view(f, 2, 2, 15, 0, PSR_ROUTE_RING);
    assert_false(f->ended);
}

/* A view would let those go on that have said where they are. */
static void no_planned_view_goes_out_while_workers_are_held(void **state)
{
    fixture *f = *state;
    start_in(f, "ps@1,ring@6,ps@11", 0);
    expect_ok(psr_scheduler_change(f->scheduler, PSR_MODE_RING));
    held(f, w0, 5);
    all_bound(f, 1);
    assert_int_equal(count_sent(f, PSR_MSG_VIEW), 3);
    held(f, w1, 5); /* in mode ring already: all go on */
    assert_int_equal(stop_at_said(f), 19);
    expect_view(f, 2, 2, 10, 0, PSR_ROUTE_SHARD);
}

static void what_cannot_be_changed_is_refused_by_name(void **state)
{
    fixture *f = *state;
    start_in(f, "ps", 0);
    expect_failure(psr_scheduler_change(f->scheduler, PSR_MODE_PS), PSR_ERR_USAGE,
                   "the run is in mode ps already, from step 1 on");
    expect_failure(psr_scheduler_change(f->scheduler, PSR_MODE_LOCAL), PSR_ERR_USAGE,
                   "a run can change to ps or ring only, not to local");
    expect_ok(psr_scheduler_change(f->scheduler, PSR_MODE_RING));
    expect_failure(psr_scheduler_change(f->scheduler, PSR_MODE_RING), PSR_ERR_USAGE,
                   "a change to ring is under way; ask again when it has happened");
    both_held(f, 3, 3);
    expect_failure(psr_scheduler_change(f->scheduler, PSR_MODE_PS), PSR_ERR_USAGE,
                   "a change to ring is under way; ask again when it has happened");
    all_bound(f, 1);
    psr_scheduler_stop(f->scheduler);
    expect_failure(psr_scheduler_change(f->scheduler, PSR_MODE_PS), PSR_ERR_USAGE,
                   "the run is being stopped");

    start_in(f, "ps", 0);
    done(f, w0, 20, "{}");
    expect_failure(psr_scheduler_change(f->scheduler, PSR_MODE_RING), PSR_ERR_USAGE,
                   "the run takes no further step");
    done(f, w1, 20, NULL);
    done(f, s0, 20, NULL);
    psr_scheduler_checkpointed(f->scheduler, 20);
    expect_failure(psr_scheduler_change(f->scheduler, PSR_MODE_RING), PSR_ERR_USAGE,
                   "the run has ended");
    assert_string_equal(f->answered, "");

    set_up(f);
    open_scheduler(f);
    expect_failure(psr_scheduler_change(f->scheduler, PSR_MODE_RING), PSR_ERR_USAGE,
                   "the run has not begun yet");
}

/* As --shards 4 with --mode ring, of a network that has fewer parts. */
static void a_mode_of_which_no_plan_can_be_made_is_refused_and_the_run_goes_on(void **state)
{
    fixture *f = *state;
    start_in(f, "ps", 0);
    f->plan_err = PSR_ERR_USAGE;
    expect_failure(psr_scheduler_change(f->scheduler, PSR_MODE_RING), PSR_ERR_USAGE,
                   "shards 1-3 would hold nothing");
    assert_false(f->ended);
    assert_int_equal(count_sent(f, PSR_MSG_HOLD), 0);
    assert_false(psr_scheduler_mode(f->scheduler).changing);
}

static void a_change_that_finds_the_last_step_begun_does_not_happen(void **state)
{
    fixture *f = *state;
    start_in(f, "ps", 0);
    expect_ok(psr_scheduler_change(f->scheduler, PSR_MODE_RING));
    both_held(f, 18, 19);
    assert_string_equal(f->answered, "usage: the run's last step has begun\n");
    assert_int_equal(stop_at_said(f), 19);
    all_done(f, 20);
    psr_scheduler_checkpointed(f->scheduler, 20);
    ends(f, PSR_OK, "20 steps done");
    assert_int_equal(count_sent(f, PSR_MSG_VIEW), 0);
}

static void a_change_that_crosses_the_end_of_a_worker_does_not_happen(void **state)
{
    fixture *f = *state;
    start_in(f, "ps", 0);
    expect_ok(psr_scheduler_change(f->scheduler, PSR_MODE_RING));
    done(f, w0, 20, "{}"); /* it heard HOLD too late, and answers no more */
    held(f, w1, 18);
    assert_string_equal(f->answered, "usage: the run's last step has begun\n");
    done(f, w1, 20, NULL);
    done(f, s0, 20, NULL);
    psr_scheduler_checkpointed(f->scheduler, 20);
    ends(f, PSR_OK, "20 steps done");
}

/* ---- Ctrl-C ---- */

static void a_stop_while_workers_are_held_for_a_change_stops_the_run(void **state)
{
    fixture *f = *state;
    start_in(f, "ps", 0);
    expect_ok(psr_scheduler_change(f->scheduler, PSR_MODE_RING));
    held(f, w0, 6);
    psr_scheduler_stop(f->scheduler);
    assert_string_equal(f->answered, "cancelled: the run is being stopped\n");
    assert_int_equal(count_sent(f, PSR_MSG_HOLD),
                     4); /* each worker hears that it is for a stop now */
    assert_false(last_hold_is_for_a_change(f));
    held(f, w1, 7); /* of the first HOLD */
    held(f, w0, 6);
    assert_int_equal(count_sent(f, PSR_MSG_STOP_AT), 0);
    held(f, w1, 7);
    assert_int_equal(stop_at_said(f), 7);
    assert_int_equal(count_sent(f, PSR_MSG_VIEW), 0);
    all_done(f, 8);
    psr_scheduler_checkpointed(f->scheduler, 8);
    ends(f, PSR_ERR_CANCELLED, "stopped after step 8 of 20, as told; its checkpoint is written");
}

static void a_stop_before_the_first_step_of_a_change_stops_the_run_as_it_was(void **state)
{
    fixture *f = *state;
    start_in(f, "ps", 0);
    expect_ok(psr_scheduler_change(f->scheduler, PSR_MODE_RING));
    both_held(f, 6, 6);
    expect_view(f, 1, 1, 7, 0, PSR_ROUTE_RING);
    psr_scheduler_stop(f->scheduler);
    assert_string_equal(f->answered, ""); /* it may begin yet */
    both_held(f, 6, 6);
    assert_string_equal(f->answered, "cancelled: the run is being stopped\n");
    assert_int_equal(stop_at_said(f), 6);
    all_done(f, 7);
    psr_scheduler_checkpointed(f->scheduler, 7);
    ends(f, PSR_ERR_CANCELLED, "stopped after step 7 of 20, as told; its checkpoint is written");
}

static void a_stop_after_a_change_has_begun_lets_it_happen(void **state)
{
    fixture *f = *state;
    start_in(f, "ps", 0);
    expect_ok(psr_scheduler_change(f->scheduler, PSR_MODE_RING));
    both_held(f, 6, 6);
    psr_scheduler_stop(f->scheduler);
    both_held(f, 7, 6); /* one has begun the first step of it */
    assert_int_equal(stop_at_said(f), 7);
    all_bound(f, 1);
    assert_string_equal(f->answered, "ok: ring from step 8 on, after a pause of 0.003 s\n");
    all_done(f, 8);
    psr_scheduler_checkpointed(f->scheduler, 8);
    ends(f, PSR_ERR_CANCELLED, "stopped after step 8 of 20, as told; its checkpoint is written");
}

static void a_stop_issues_no_further_stretch(void **state)
{
    fixture *f = *state;
    start_in(f, "ps@1,ring@6,ps@11", 0);
    psr_scheduler_stop(f->scheduler);
    both_held(f, 5, 5);
    all_bound(f, 1);
    assert_int_equal(count_sent(f, PSR_MSG_VIEW), 3);
    all_done(f, 6);
    psr_scheduler_checkpointed(f->scheduler, 6);
    ends(f, PSR_ERR_CANCELLED, "stopped after step 6 of 20, as told; its checkpoint is written");
}

static void a_held_more_than_was_asked_for_breaks_the_protocol(void **state)
{
    fixture *f = *state;
    start_in(f, "ps", 0);
    expect_ok(psr_scheduler_change(f->scheduler, PSR_MODE_RING));
    held(f, w0, 3);
    held(f, w0, 3);
    ends_with_words(f, PSR_ERR_PROTOCOL, "it was not told to hold");
}

/* ---- shards that have no part in the last stretch ---- */

static void a_shard_without_a_part_hears_when_the_last_step_is_taken(void **state)
{
    fixture *f = *state;
    start_in(f, "ps@1,ring@6", 0);
    all_bound(f, 1);
    done(f, w0, 20, "{}");
    assert_int_equal(count_sent(f, PSR_MSG_STOP_AT), 0);
    done(f, w1, 20, NULL);
    assert_int_equal(count_sent(f, PSR_MSG_STOP_AT), 1);
    assert_true(psr_peer_equal(last_sent(f, PSR_MSG_STOP_AT)->to, s0));
    assert_int_equal(stop_at_said(f), 19);
    done(f, s0, 20, NULL);
    psr_scheduler_checkpointed(f->scheduler, 20);
    ends(f, PSR_OK, "20 steps done");
}

/* ---- in any order ---- */

/* Workers, a shard, a person who changes the mode and one who stops the run, each in their own
 * time. Messages stay in order from each one to each one. */
typedef struct player {
    psr_peer peer;
    size_t heard;        /* of what was sent */
    uint64_t next, stop; /* the step that it takes next; none from stop on */
    uint64_t limit;      /* which it does not begin before another view has come; 0: none */
    uint64_t views[64];  /* first steps, by epoch */
    uint32_t epochs, bound;
    bool held, done;
} player;

static uint32_t draw(uint64_t *seed, uint32_t n)
{
    *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(*seed >> 33) % n;
}

/* The next message to it, if there is one. */
static bool hear(fixture *f, player *p)
{
    while (p->heard < f->sent_count && !psr_peer_equal(f->sent[p->heard].to, p->peer))
        p->heard++;
    if (p->heard == f->sent_count)
        return false;
    const struct sent *sent = &f->sent[p->heard++];
    const psr_message message = {
        .head = sent->head, .payload = sent->text, .payload_bytes = sent->text_size};
    const psr_view *view = NULL;
    uint64_t step;
    switch (message.head.type) {
    case PSR_MSG_HOLD:
        if (p->done)
            return true;
        p->held = true;
        held(f, p->peer, p->next > 0 ? p->next - 1 : 0);
        p->next = p->next > 0 ? p->next : 1; /* it has promised the first one */
        return true;
    case PSR_MSG_STOP_AT:
        expect_ok(psr_msg_stop_at_read(&message, &step));
        p->stop = step + 1;
        p->held = false;
        return true;
    case PSR_MSG_VIEW:
        expect_ok(psr_view_read(&message, &view));
        assert_int_equal(view->epoch, p->epochs + 1);
        if (p->peer.role == PSR_ROLE_WORKER)
            assert_true(view->first_step >= p->next); /* nobody has begun it */
        for (uint32_t e = 1; e <= p->epochs; e++)
            if (p->views[e] >= view->first_step)
                p->views[e] = UINT64_MAX; /* replaced */
        p->views[++p->epochs] = view->first_step;
        p->limit = view->next_step;
        psr_view_release(view);
        p->held = false;
        return true;
    default:
        return true;
    }
}

static void stand(fixture *f, player *p, uint64_t step)
{
    for (uint32_t e = p->bound + 1; e <= p->epochs; e++)
        if (p->views[e] == step) {
            p->bound = e;
            bound(f, p->peer, e, step);
        }
}

/* Takes its next step, or says that it is done. */
static void go_on(fixture *f, player *p)
{
    if (p->held || p->done || (p->limit != 0 && p->next >= p->limit && p->next < p->stop))
        return;
    if (p->next == p->stop) {
        p->done = true;
        done(f, p->peer, p->next, p->peer.rank == 0 ? "{}" : NULL);
        return;
    }
    stand(f, p, p->next);
    p->next++;
}

/* It stands on a view when both workers have taken the step before, and is done with them. */
static void follow(fixture *f, player *shard, const player *workers)
{
    const uint64_t taken = workers[0].next < workers[1].next ? workers[0].next : workers[1].next;
    for (uint64_t step = 0; step <= taken && step < shard->stop; step++)
        stand(f, shard, step);
    if (!shard->done && workers[0].done && workers[1].done && shard->heard == f->sent_count) {
        shard->done = true;
        done(f, s0, workers[0].next, NULL);
    }
}

static void play(fixture *f, uint64_t seed)
{
    static const char *const modes[] = {"ps", "ps@1,ring@6", "ps@1,ring@2,ps@3,ring@4",
                                        "ps@1,ring@20"};
    player workers[2] = {{.peer = w0, .stop = 20}, {.peer = w1, .stop = 20}},
           shard = {.peer = s0, .stop = 20};
    uint32_t asked = 0, answers = 0;
    const uint32_t stops = draw(&seed, 3) == 0 ? 1 + draw(&seed, 150) : UINT32_MAX;
    start_in(f, modes[draw(&seed, 4)], 0);
    workers[0].limit = workers[1].limit = psr_config_next_stretch(&f->config, 0);
    for (uint32_t turn = 0; !f->ended && turn < 4000; turn++) {
        player *p = &workers[draw(&seed, 2)];
        const uint32_t what = draw(&seed, 16);
        if (turn == stops)
            psr_scheduler_stop(f->scheduler);
        else if (what < 6)
            hear(f, p);
        else if (what < 8)
            hear(f, &shard);
        else if (what < 12)
            go_on(f, p);
        else if (what < 14)
            follow(f, &shard, workers);
        else if (what == 14)
            asked += psr_scheduler_change(f->scheduler,
                                          draw(&seed, 2) ? PSR_MODE_RING : PSR_MODE_PS) == PSR_OK;
        if (!f->ended && workers[0].done && workers[1].done && shard.done)
            psr_scheduler_checkpointed(f->scheduler, workers[0].next);
        if (f->ended && f->status != PSR_OK && f->status != PSR_ERR_CANCELLED)
            fail_msg("seed: %s", f->line);
    }
    assert_true(f->ended);
    assert_int_equal(workers[0].next, workers[1].next);
    assert_int_equal(workers[0].bound, workers[1].bound);
    for (const char *at = f->answered; (at = strchr(at, '\n')) != NULL; at++)
        answers++;
    assert_int_equal(answers, asked); /* nobody who asked waits for ever */
}

static void changes_and_stops_in_any_order_end_with_all_after_one_step(void **state)
{
    fixture *f = *state;
    for (uint64_t seed = 1; seed <= 300; seed++)
        play(f, seed * 7919);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SET_UP(a_run_of_one_stretch_issues_no_view),
        SET_UP(the_view_of_the_next_stretch_goes_out_when_all_stand_on_the_one_before),
        SET_UP(no_pause_is_longer_than_the_run_has_been_on),
        SET_UP(a_run_is_resumed_in_the_stretch_of_its_checkpoint),
        SET_UP(a_stretch_behind_the_last_step_is_not_issued),
        SET_UP(who_says_bound_of_what_it_was_not_given_breaks_the_protocol),
        SET_UP(a_piece_of_a_checkpoint_is_its_who_held_it_at_that_step),
        SET_UP(a_change_by_hand_begins_with_the_first_step_that_nobody_has_begun),
        SET_UP(a_change_that_has_happened_is_told_before_its_first_step_is_done),
        SET_UP(a_change_by_hand_replaces_what_was_planned_after_it),
        SET_UP(a_change_by_hand_comes_behind_a_planned_one_that_has_begun),
        SET_UP(no_planned_view_goes_out_while_workers_are_held),
        SET_UP(what_cannot_be_changed_is_refused_by_name),
        SET_UP(a_mode_of_which_no_plan_can_be_made_is_refused_and_the_run_goes_on),
        SET_UP(a_change_that_finds_the_last_step_begun_does_not_happen),
        SET_UP(a_change_that_crosses_the_end_of_a_worker_does_not_happen),
        SET_UP(a_stop_while_workers_are_held_for_a_change_stops_the_run),
        SET_UP(a_stop_before_the_first_step_of_a_change_stops_the_run_as_it_was),
        SET_UP(a_stop_after_a_change_has_begun_lets_it_happen),
        SET_UP(a_stop_issues_no_further_stretch),
        SET_UP(a_held_more_than_was_asked_for_breaks_the_protocol),
        SET_UP(a_shard_without_a_part_hears_when_the_last_step_is_taken),
        SET_UP(changes_and_stops_in_any_order_end_with_all_after_one_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
