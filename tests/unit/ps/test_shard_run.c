/* A shard from WELCOME to BYE, with what it says written down. How it folds is test_shard's. */
#include "tests/unit/network_fixture.h"

#include "comm/view/view.h"
#include "comm/view/view_queue.h"
#include "ps/parts.h"
#include "ps/shard/shard_run.h"

enum { FLOATS = 16, TOLD_MAX = 32, STEPS = 2 };

static struct {
    psr_config config;
    psr_layout layout;
    psr_buckets buckets;
    psr_plan plan;
    psr_shard_run *run;
    psr_peer to[TOLD_MAX];
    psr_head told[TOLD_MAX];
    size_t count;
} s;

static psr_err send(void *context, psr_peer to, const psr_head *head, const psr_payload *payload)
{
    (void)context;
    assert_true(s.count < TOLD_MAX);
    s.to[s.count] = to;
    s.told[s.count++] = *head;
    const psr_observed out =
        psr_observed_message(PSR_OBSERVED_OUT, to, head, payload != NULL ? payload->bytes : 0);
    psr_shard_run_see(s.run, &out);
    if (payload != NULL && payload->release != NULL)
        payload->release(payload->context);
    return PSR_OK;
}

static bool lends_to_all(void *context, psr_peer to)
{
    (void)context, (void)to;
    return true;
}

/* In place: workers read what it sends where it lies. */
static void make_with(uint32_t shard, double momentum, bool in_place)
{
    memset(&s, 0, sizeof s);
    psr_config_defaults(&s.config);
    s.config.workers = 1;
    s.config.shards = 2;
    s.config.momentum = momentum;
    assert_ok(psr_layout_add(&s.layout, "t", 1, (uint32_t[]){FLOATS}));
    assert_ok(psr_buckets_plan(&s.layout, FLOATS * sizeof(float), &s.buckets));
    assert_int_equal(s.buckets.count, 1);
    assert_ok(psr_parts_plan(&s.config, s.config.mode, &s.layout, &s.buckets, NULL, &s.plan));
    const psr_shard_options options = {
        .config = &s.config,
        .layout = &s.layout,
        .plan = &s.plan,
        .shard = shard,
        .total_steps = STEPS,
        .outbox = {.send = send, .lends_to = in_place ? lends_to_all : NULL}};
    assert_ok(psr_shard_run_new(&options, &s.run));
}

static void make(uint32_t shard, double momentum)
{
    make_with(shard, momentum, false);
}

static void finish(void)
{
    psr_shard_run_free(s.run);
    psr_plan_done(&s.plan);
    psr_buckets_done(&s.buckets);
    psr_layout_done(&s.layout);
}

static void release(psr_message *message)
{
    free(message);
}

static psr_err hear(psr_peer from, psr_head head, bool floats)
{
    struct {
        psr_message message;
        float values[FLOATS];
    } *parcel = calloc(1, sizeof *parcel);
    parcel->message =
        (psr_message){.from = from, .head = head, .payload = parcel->values, .release = release};
    if (floats) {
        parcel->message.payload_bytes = sizeof parcel->values;
        parcel->message.head.encoding = PSR_ENCODING_FLOAT32;
    }
    psr_message *message = &parcel->message;
    const psr_observed in =
        psr_observed_message(PSR_OBSERVED_IN, from, &message->head, message->payload_bytes);
    psr_shard_run_see(s.run, &in);
    psr_err err = psr_shard_run_message(s.run, &message);
    assert_null(message);
    return err;
}

static psr_err order(psr_message_type type)
{
    return hear(scheduler, (psr_head){.type = type}, false);
}

static psr_err push(uint64_t step)
{
    return hear(
        worker0,
        psr_msg_push_head(&(psr_msg_push){.step = step, .span = {0, FLOATS}, .answer = true}),
        true);
}

static psr_msg_progress report(void)
{
    psr_msg_progress progress = {0};
    psr_shard_run_report(s.run, &progress);
    return progress;
}

static psr_message_type said(size_t i)
{
    assert_true(i < s.count);
    return s.told[i].type;
}

static psr_msg_done done_said(size_t i)
{
    psr_message message = {.head = s.told[i]};
    psr_msg_done says;
    assert_ok(psr_msg_done_read(&message, &(psr_msg_limits){.steps = UINT64_MAX}, &says));
    return says;
}

static psr_msg_piece piece_said(size_t i)
{
    psr_message message = {.head = s.told[i]};
    psr_msg_piece says;
    assert_ok(psr_msg_piece_read(&message, &says));
    return says;
}

static void a_shard_is_ready_when_its_part_is_there_and_done_after_the_last_step(void **state)
{
    (void)state;
    make(0, 0);
    assert_ok(psr_shard_run_begin(s.run));
    assert_int_equal(s.count, 0);
    assert_true(report().waits && psr_peer_equal(report().waits_for, worker0));
    assert_ok(hear(worker0, psr_msg_init_head(&(psr_msg_init){.span = {0, FLOATS}}), true));
    assert_int_equal(s.count, 1);
    assert_int_equal(said(0), PSR_MSG_READY);
    assert_true(psr_peer_equal(s.to[0], scheduler));
    assert_int_equal(report().phase, PSR_PHASE_BARRIER);
    assert_true(report().waits && psr_peer_equal(report().waits_for, scheduler));
    assert_ok(order(PSR_MSG_START));
    assert_int_equal(report().phase, PSR_PHASE_PUSH);
    assert_true(report().waits && psr_peer_equal(report().waits_for, worker0));
    assert_ok(push(0));
    assert_int_equal(said(1), PSR_MSG_WEIGHTS);
    assert_int_equal(report().step, 1);
    assert_null(psr_shard_run_traffic(s.run));
    assert_ok(push(1));
    assert_int_equal(said(2), PSR_MSG_WEIGHTS);
    assert_int_equal(said(3), PSR_MSG_DONE);
    assert_int_equal(done_said(3).steps, STEPS);
    assert_int_equal(report().phase, PSR_PHASE_SHUTDOWN);
    const psr_traffic *traffic = psr_shard_run_traffic(s.run);
    assert_non_null(traffic);
    assert_int_equal(traffic->gradient_bytes, STEPS * FLOATS * sizeof(float));
    assert_int_equal(traffic->weight_bytes, STEPS * FLOATS * sizeof(float));
    assert_false(psr_shard_run_left(s.run));
    assert_ok(order(PSR_MSG_BYE));
    assert_true(psr_shard_run_left(s.run));
    assert_int_equal(s.count, 4);
    finish();
}

static void workers_in_place_are_shown_its_weights_at_the_start(void **state)
{
    (void)state;
    make_with(0, 0, true);
    assert_ok(hear(worker0, psr_msg_init_head(&(psr_msg_init){.span = {0, FLOATS}}), true));
    assert_int_equal(s.count, 1);
    assert_int_equal(said(0), PSR_MSG_READY); /* until all are ready, workers write theirs */
    assert_ok(order(PSR_MSG_START));
    assert_int_equal(s.count, 2);
    assert_int_equal(said(1), PSR_MSG_INIT);
    assert_true(psr_peer_equal(s.to[1], worker0));
    assert_ok(push(0));
    assert_int_equal(said(2), PSR_MSG_WEIGHTS);
    finish();
}

static void one_that_owns_nothing_waits_for_nobody(void **state)
{
    (void)state;
    make(1, 0);
    assert_ok(psr_shard_run_begin(s.run));
    assert_int_equal(said(0), PSR_MSG_READY);
    assert_ok(order(PSR_MSG_START));
    assert_int_equal(s.count, 1); /* a later view may give it something */
    assert_ok(hear(scheduler, psr_msg_stop_at_head(STEPS - 1), false));
    assert_int_equal(said(1), PSR_MSG_DONE);
    assert_int_equal(done_said(1).steps, STEPS);
    finish();
}

static void told_to_stop_it_sends_its_part_of_the_checkpoint_and_is_done(void **state)
{
    (void)state;
    make(0, 0.9);
    assert_ok(psr_shard_run_begin(s.run));
    assert_ok(hear(worker0, psr_msg_init_head(&(psr_msg_init){.span = {0, FLOATS}}), true));
    assert_ok(order(PSR_MSG_START));
    assert_ok(hear(scheduler, psr_msg_stop_at_head(0), false));
    assert_ok(push(0));
    bool checkpointed = false;
    for (size_t i = 0; i < s.count; i++)
        checkpointed = checkpointed || (said(i) == PSR_MSG_CHECKPOINT && piece_said(i).steps == 1 &&
                                        piece_said(i).section == PSR_SECTION_SLOT(0) &&
                                        piece_said(i).span.count == FLOATS);
    assert_true(checkpointed);
    assert_int_equal(said(s.count - 1), PSR_MSG_DONE);
    assert_int_equal(done_said(s.count - 1).steps, 1);
    finish();
}

static void what_no_scheduler_says_to_a_shard_is_a_violation(void **state)
{
    (void)state;
    make(0, 0);
    assert_fails(order(PSR_MSG_HOLD), PSR_ERR_PROTOCOL, "which no shard takes");
    assert_fails(hear(worker0, psr_msg_ring_head(&(psr_msg_ring){.span = {0, FLOATS}}), true),
                 PSR_ERR_PROTOCOL, "worker 0");
    finish();
}

/* ---- from one view to the next ---- */

static void stays(psr_message *message)
{
    (void)message;
}

/* The scheduler's VIEW of that mode. */
static psr_err view(uint32_t epoch, uint64_t begins_with, psr_mode mode)
{
    psr_view_member members[] = {
        {.peer = {PSR_ROLE_SHARD, 0}, .host = "h", .endpoint = "e"},
        {.peer = {PSR_ROLE_SHARD, 1}, .host = "h", .endpoint = "e"},
        {.peer = worker0, .host = "h", .endpoint = "e"},
    };
    psr_view made = {
        .epoch = epoch, .first_step = begins_with, .members = members, .member_count = 3};
    char *json = NULL;
    assert_ok(psr_parts_plan(&s.config, mode, &s.layout, &s.buckets, NULL, &made.plan));
    assert_ok(psr_view_to_json(&made, &json));
    psr_plan_done(&made.plan);
    psr_message message = {.from = scheduler,
                           .head = psr_msg_view_head(&(psr_msg_view){epoch, begins_with}),
                           .payload = json,
                           .payload_bytes = strlen(json),
                           .release = stays};
    psr_message *borrowed = &message;
    psr_err err = psr_shard_run_message(s.run, &borrowed);
    free(json);
    return err;
}

/* Worker 0 has begun the view of that epoch. */
static psr_err begin(uint32_t epoch, uint64_t step)
{
    const psr_head head = psr_msg_state_head(&(psr_msg_state){.step = step});
    return hear(worker0, psr_msg_in_group(head, epoch, 0), false);
}

static void make_started(uint64_t steps)
{
    make(0, 0.9);
    assert_ok(psr_shard_run_begin(s.run));
    assert_ok(hear(worker0, psr_msg_init_head(&(psr_msg_init){.span = {0, FLOATS}}), true));
    assert_ok(order(PSR_MSG_START));
    for (uint64_t step = 0; step < steps; step++)
        assert_ok(push(step));
    s.count = 0;
}

/* What it has said is STATE of that epoch, to worker 0, and BOUND. */
static void handed_over(uint32_t epoch)
{
    assert_int_equal(s.count, 2);
    assert_int_equal(said(0), PSR_MSG_STATE);
    assert_int_equal(s.told[0].tag.epoch, epoch);
    assert_int_equal(said(1), PSR_MSG_BOUND);
    assert_int_equal(s.told[1].fields[0], epoch);
}

static void a_view_begins_with_the_first_message_of_it(void **state)
{
    (void)state;
    make_started(1);
    assert_ok(view(1, 1, PSR_MODE_RING));
    assert_int_equal(s.count, 0);
    assert_ok(begin(1, 1));
    handed_over(1);
    finish();

    make_started(1); /* the other way round */
    assert_ok(begin(1, 1));
    assert_int_equal(s.count, 0);
    assert_ok(view(1, 1, PSR_MODE_RING));
    handed_over(1);
    finish();
}

/* A change by hand: a worker had the VIEW of it before this shard. */
static void a_message_of_a_later_view_does_not_begin_one_that_is_replaced(void **state)
{
    (void)state;
    make_started(1);
    assert_ok(view(1, 2, PSR_MODE_RING)); /* planned, of step 2 */
    assert_ok(begin(2, 1));
    assert_int_equal(s.count, 0);
    assert_ok(view(2, 1, PSR_MODE_RING)); /* by hand, of step 1 */
    handed_over(2);
    finish();
}

/* A change by hand that crosses a planned one: the planned one has begun, and this shard hears of
 * that after the VIEW of the other. */
static void a_view_that_begins_behind_one_that_waits_does_not_replace_it(void **state)
{
    (void)state;
    make_started(1);
    assert_ok(view(1, 1, PSR_MODE_RING));
    assert_ok(view(2, 2, PSR_MODE_PS));
    assert_int_equal(s.count, 0);
    assert_ok(begin(1, 1));
    handed_over(1);
    s.count = 0;
    assert_ok(begin(2, 2));
    assert_int_equal(s.count, 0); /* worker 0 hands the state over */
    assert_int_equal(report().phase, PSR_PHASE_HAND_OVER);
    assert_true(psr_peer_equal(report().waits_for, worker0));
    for (uint32_t array = 0; array <= 1; array++) {
        const psr_head head = psr_msg_state_head(&(psr_msg_state){2, {0, FLOATS}, array});
        assert_ok(hear(worker0, psr_msg_in_group(head, 2, 0), true));
    }
    assert_int_equal(said(0), PSR_MSG_BOUND);
    finish();
}

static void who_stands_on_a_view_before_the_step_before_it_is_over_is_named(void **state)
{
    (void)state;
    make_started(1);
    assert_ok(view(1, 2, PSR_MODE_RING));
    assert_fails(begin(1, 2), PSR_ERR_PROTOCOL, "the last step before that view is not over");
    assert_non_null(strstr(psr_err_detail(), "worker 0"));
    finish();
}

static void more_views_than_can_wait_are_refused(void **state)
{
    (void)state;
    make_started(0);
    for (uint32_t epoch = 1; epoch <= PSR_VIEWS_MAX; epoch++)
        assert_ok(view(epoch, epoch, epoch & 1 ? PSR_MODE_RING : PSR_MODE_PS));
    assert_fails(view(PSR_VIEWS_MAX + 1, PSR_VIEWS_MAX + 1, PSR_MODE_RING), PSR_ERR_PROTOCOL,
                 "too many views wait to begin");
    assert_ok(view(PSR_VIEWS_MAX + 2, PSR_VIEWS_MAX, PSR_MODE_RING)); /* in a place */
    finish();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_shard_is_ready_when_its_part_is_there_and_done_after_the_last_step),
        cmocka_unit_test(workers_in_place_are_shown_its_weights_at_the_start),
        cmocka_unit_test(one_that_owns_nothing_waits_for_nobody),
        cmocka_unit_test(told_to_stop_it_sends_its_part_of_the_checkpoint_and_is_done),
        cmocka_unit_test(what_no_scheduler_says_to_a_shard_is_a_violation),
        cmocka_unit_test(a_view_begins_with_the_first_message_of_it),
        cmocka_unit_test(a_message_of_a_later_view_does_not_begin_one_that_is_replaced),
        cmocka_unit_test(a_view_that_begins_behind_one_that_waits_does_not_replace_it),
        cmocka_unit_test(who_stands_on_a_view_before_the_step_before_it_is_over_is_named),
        cmocka_unit_test(more_views_than_can_wait_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
