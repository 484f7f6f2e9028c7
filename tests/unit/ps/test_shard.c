#include "tests/unit/expect.h"

#include "comm/wire/messages.h"
#include "ps/parts.h"
#include "ps/shard/shard.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One tensor of 40 floats (48 with padding), three buckets of 16, slices of 16 floats: bucket 2 is the
 * arena's start. */
enum { LENGTH = 48, SLICE = 16, BUCKETS = 3, SENT_MAX = 256 };

typedef struct fixture {
    psr_config config;
    psr_layout layout;
    psr_buckets buckets;
    psr_plan plan;
    psr_shard *shard;
    struct {
        psr_peer to;
        psr_head head;
        float first;
    } sent[SENT_MAX];
    size_t sent_count;
    uint64_t checkpoint_steps[SENT_MAX];
    uint32_t checkpoint_count;
} fixture;

static psr_err keep_sent(void *context, psr_peer to, const psr_head *head, const psr_payload *payload)
{
    fixture *f = context;
    assert_true(f->sent_count < SENT_MAX);
    f->sent[f->sent_count].to = to;
    f->sent[f->sent_count].head = *head;
    f->sent[f->sent_count++].first = payload ? *(const float *)payload->data : 0;
    return PSR_OK;
}

static psr_err keep_checkpoint(void *context, uint64_t step, uint32_t slot, const float *data, size_t offset,
                               size_t count)
{
    fixture *f = context;
    assert_int_equal(slot, 0);
    assert_int_equal(count, SLICE);
    assert_int_equal(offset % SLICE, 0);
    assert_non_null(data);
    f->checkpoint_steps[f->checkpoint_count++] = step;
    return PSR_OK;
}

static void open_shard(fixture *f, uint64_t first_step)
{
    psr_shard_options options = {
        .config = &f->config,
        .layout = &f->layout,
        .plan = &f->plan,
        .shard = 0,
        .total_steps = 10,
        .first_step = first_step,
        .outbox = {.context = f, .send = keep_sent},
        .context = f,
        .checkpoint = keep_checkpoint,
    };
    expect_ok(psr_shard_new(&options, &f->shard));
}

/* Two workers, plain SGD of rate 1: a push of g from both takes 2g from every weight. Bucket 0 is another
 * shard's. */
static void set_up(fixture *f)
{
    memset(f, 0, sizeof *f);
    psr_config_defaults(&f->config);
    f->config.workers = 2;
    f->config.shards = 2;
    f->config.slice_bytes = SLICE * sizeof(float);
    f->config.lr = 1;
    f->config.momentum = 0;
    f->config.weight_decay = 0;
    const uint32_t shape[] = {40};
    expect_ok(psr_layout_add(&f->layout, "t", 1, shape));
    expect_ok(psr_buckets_plan(&f->layout, SLICE * sizeof(float), &f->buckets));
    assert_int_equal(f->buckets.count, BUCKETS);
    expect_ok(psr_parts_plan(&f->config, &f->buckets, &f->plan));
    for (uint32_t b = 0; b < BUCKETS; b++)
        f->plan.buckets[b].home = b == 0;
}

static void tear_down(fixture *f)
{
    psr_shard_free(f->shard);
    psr_plan_done(&f->plan);
    psr_buckets_done(&f->buckets);
    psr_layout_done(&f->layout);
}

/* ---- messages ---- */

static void release(psr_message *message)
{
    free((void *)(uintptr_t)message->payload);
    free(message);
}

/* What a worker says of a slice, in any of its messages. */
typedef struct said {
    psr_message_type type;
    uint32_t bucket;
    uint64_t step;
    psr_span span;
    bool answer;      /* PUSH */
    uint32_t section; /* INIT */
} said;

static psr_head head_of(const said *s)
{
    switch (s->type) {
    case PSR_MSG_INIT:
        return psr_msg_init_head(&(psr_msg_init){s->bucket, s->step, s->span, s->section});
    case PSR_MSG_PUSH:
        return psr_msg_push_head(&(psr_msg_push){s->bucket, s->step, s->span, s->answer});
    case PSR_MSG_PULL:
        return psr_msg_pull_head(&(psr_msg_pull){s->bucket, s->step, s->span});
    default:
        return psr_msg_ring_head(&(psr_msg_ring){.bucket = s->bucket, .step = s->step, .span = s->span});
    }
}

static said say(psr_message_type type, uint64_t step, uint32_t bucket)
{
    return (said){type, bucket, step, {(size_t)(2 - bucket) * SLICE, SLICE}, true, 0};
}

static psr_message *make_said(const said *s, uint32_t rank, float value)
{
    psr_message *message = calloc(1, sizeof *message);
    float *values = calloc(SLICE, sizeof *values);
    for (size_t i = 0; i < SLICE; i++)
        values[i] = value;
    *message = (psr_message){
        .from = {PSR_ROLE_WORKER, rank},
        .head = head_of(s),
        .payload = values,
        .payload_bytes = s->type == PSR_MSG_PULL ? 0 : SLICE * sizeof(float),
        .release = release,
    };
    if (message->payload_bytes > 0)
        message->head.encoding = PSR_ENCODING_FLOAT32;
    return message;
}

static psr_message *make(psr_message_type type, uint32_t rank, uint64_t step, uint32_t bucket, float value)
{
    said s = say(type, step, bucket);
    return make_said(&s, rank, value);
}

static psr_err give(fixture *f, psr_message *message)
{
    psr_err err = psr_table_shard_message(psr_shard_table(f->shard), &message);
    assert_null(message);
    return err;
}

static void push(fixture *f, uint32_t rank, uint64_t step, uint32_t bucket, float value)
{
    said s = say(PSR_MSG_PUSH, step, bucket);
    s.answer = f->config.sync == PSR_SYNC_BSP;
    expect_ok(give(f, make_said(&s, rank, value)));
}

static void initialise(fixture *f)
{
    expect_ok(give(f, make(PSR_MSG_INIT, 0, 0, 1, 100)));
    assert_false(psr_table_shard_initialised(psr_shard_table(f->shard)));
    expect_ok(give(f, make(PSR_MSG_INIT, 0, 0, 2, 200)));
    assert_true(psr_table_shard_initialised(psr_shard_table(f->shard)));
}

/* The answers of one type so far; the last one of them is kept in *ret_last. */
static size_t count_sent(const fixture *f, psr_message_type type, size_t *ret_last)
{
    size_t count = 0;
    for (size_t i = 0; i < f->sent_count; i++)
        if (f->sent[i].head.type == type) {
            count++;
            *ret_last = i;
        }
    return count;
}

static psr_msg_weights weights_said(const fixture *f, size_t sent)
{
    psr_message message = {.head = f->sent[sent].head};
    psr_msg_weights says;
    assert_int_equal(message.head.type, PSR_MSG_WEIGHTS);
    expect_ok(psr_msg_weights_read(&message, &says));
    return says;
}

static uint64_t ack_said(const fixture *f, size_t sent)
{
    psr_message message = {.head = f->sent[sent].head};
    uint64_t received;
    assert_int_equal(message.head.type, PSR_MSG_ACK);
    expect_ok(psr_msg_ack_read(&message, &received));
    return received;
}

/* ---- BSP ---- */

static void a_slice_is_updated_and_answered_when_all_have_pushed_it(void **state)
{
    (void)state;
    fixture f;
    size_t last = 0;
    set_up(&f);
    open_shard(&f, 0);
    initialise(&f);
    push(&f, 1, 0, 2, 3);
    assert_int_equal(count_sent(&f, PSR_MSG_WEIGHTS, &last), 0);
    push(&f, 0, 0, 2, 4);
    assert_int_equal(count_sent(&f, PSR_MSG_WEIGHTS, &last), 2);
    assert_int_equal(weights_said(&f, last).step, 0);
    assert_int_equal(weights_said(&f, last).bucket, 2);
    assert_int_equal(weights_said(&f, last).span.offset, 0);
    assert_true(f.sent[last].first == 193);
    assert_int_equal(psr_table_shard_clock(psr_shard_table(f.shard)), 0);
    push(&f, 0, 0, 1, 1);
    push(&f, 1, 0, 1, 1);
    assert_int_equal(psr_table_shard_clock(psr_shard_table(f.shard)), 1);
    tear_down(&f);
}

static void a_push_that_comes_again_changes_nothing(void **state)
{
    (void)state;
    fixture f;
    size_t last = 0;
    set_up(&f);
    open_shard(&f, 0);
    initialise(&f);
    push(&f, 0, 0, 2, 3);
    push(&f, 0, 0, 2, 1000); /* while the others are awaited */
    push(&f, 1, 0, 2, 4);
    push(&f, 1, 0, 2, 1000); /* when the step is over */
    assert_int_equal(count_sent(&f, PSR_MSG_WEIGHTS, &last), 2);
    push(&f, 0, 1, 2, 0);
    push(&f, 1, 1, 2, 0);
    assert_int_equal(count_sent(&f, PSR_MSG_WEIGHTS, &last), 4);
    assert_true(f.sent[last].first == 193);
    assert_int_equal(weights_said(&f, last).received, 2); /* and counts as none */
    tear_down(&f);
}

static void credit_is_told_alone_only_when_half_a_window_has_come(void **state)
{
    (void)state;
    fixture f;
    size_t last = 0;
    set_up(&f);
    f.plan.window = 4;
    f.plan.buckets[0].home = 0;
    open_shard(&f, 0);
    expect_ok(give(&f, make(PSR_MSG_INIT, 0, 0, 0, 0)));
    initialise(&f);
    push(&f, 1, 0, 0, 1);
    assert_int_equal(count_sent(&f, PSR_MSG_ACK, &last), 0);
    push(&f, 1, 0, 1, 1);
    assert_int_equal(count_sent(&f, PSR_MSG_ACK, &last), 1);
    assert_int_equal(ack_said(&f, last), 2);
    assert_int_equal(f.sent[last].to.rank, 1);
    push(&f, 1, 0, 2, 1);
    push(&f, 0, 0, 2, 1); /* the weights tell both */
    push(&f, 0, 0, 1, 1);
    push(&f, 0, 0, 0, 1);
    assert_int_equal(count_sent(&f, PSR_MSG_ACK, &last), 1);
    tear_down(&f);
}

static void it_says_whom_it_waits_for(void **state)
{
    (void)state;
    fixture f;
    uint64_t step;
    uint32_t bucket, rank;
    set_up(&f);
    f.plan.ranks = 3;
    open_shard(&f, 0);
    assert_false(psr_table_shard_waits(psr_shard_table(f.shard), &step, &bucket, &rank));
    initialise(&f);
    assert_true(psr_table_shard_waits(psr_shard_table(f.shard), &step, &bucket, &rank));
    assert_int_equal(bucket, 1); /* the gradient that comes first */
    assert_int_equal(rank, 0);
    push(&f, 0, 0, 2, 1);
    push(&f, 2, 0, 2, 1);
    assert_true(psr_table_shard_waits(psr_shard_table(f.shard), &step, &bucket, &rank));
    assert_int_equal(bucket, 2); /* the one that others wait for */
    assert_int_equal(rank, 1);
    assert_int_equal(step, 0);
    tear_down(&f);
}

static void a_gradient_that_is_not_finite_names_step_and_bucket(void **state)
{
    (void)state;
    fixture f;
    set_up(&f);
    open_shard(&f, 0);
    initialise(&f);
    push(&f, 0, 0, 2, 1);
    expect_failure(give(&f, make(PSR_MSG_PUSH, 1, 0, 2, NAN)), PSR_ERR_NUMERIC,
                   "step 1: the gradient of bucket 2 is not finite; a lower --lr may help");
    tear_down(&f);
    set_up(&f);
    open_shard(&f, 0);
    initialise(&f);
    push(&f, 0, 0, 1, 3e38f); /* each is finite, their sum is not */
    expect_failure(give(&f, make(PSR_MSG_PUSH, 1, 0, 1, 3e38f)), PSR_ERR_NUMERIC,
                   "step 1: the gradient of bucket 1 is not finite; a lower --lr may help");
    tear_down(&f);
}

/* ---- checkpoints ---- */

static void take_steps(fixture *f, uint64_t from, uint64_t to)
{
    for (uint64_t step = from; step < to; step++)
        for (uint32_t r = 0; r < 2; r++) {
            push(f, r, step, 1, 1);
            push(f, r, step, 2, 1);
        }
}

static void state_is_told_every_so_many_steps_and_at_the_end(void **state)
{
    (void)state;
    fixture f;
    set_up(&f);
    f.config.momentum = 0.5;
    f.config.checkpoint_every = 4;
    open_shard(&f, 0);
    initialise(&f);
    take_steps(&f, 0, 9);
    assert_false(psr_table_shard_finished(psr_shard_table(f.shard)));
    take_steps(&f, 9, 10);
    assert_true(psr_table_shard_finished(psr_shard_table(f.shard)));
    assert_int_equal(f.checkpoint_count, 6); /* steps 4, 8 and 10, two buckets each */
    const uint64_t expected[] = {4, 4, 8, 8, 10, 10};
    assert_memory_equal(f.checkpoint_steps, expected, sizeof expected);
    tear_down(&f);
}

static void told_to_stop_it_tells_the_state_of_that_step_whether_it_is_there_already_or_not(void **state)
{
    (void)state;
    for (uint64_t taken = 3; taken <= 5; taken++) {
        fixture f;
        set_up(&f);
        f.config.momentum = 0.5;
        open_shard(&f, 0);
        initialise(&f);
        take_steps(&f, 0, taken);
        expect_ok(psr_shard_stop_at(f.shard, 4));
        take_steps(&f, taken, 5);
        assert_true(psr_table_shard_finished(psr_shard_table(f.shard)));
        assert_int_equal(f.checkpoint_count, 2);
        assert_int_equal(f.checkpoint_steps[1], 5);
        expect_failure(
            give(&f, make(PSR_MSG_PUSH, 1, 5, 1, 0)), PSR_ERR_PROTOCOL,
            "worker 1 sent PUSH (wire step 5, bucket 1, offset 16, count 16, answer 1): 5 steps of it were "
            "pushed, and the run has 5");
        tear_down(&f);
    }
}

static void a_resumed_run_wants_the_optimizers_state_and_goes_on_counting(void **state)
{
    (void)state;
    fixture f;
    set_up(&f);
    f.config.momentum = 0.5;
    open_shard(&f, 7);
    for (uint32_t b = 1; b < BUCKETS; b++)
        expect_ok(give(&f, make(PSR_MSG_INIT, 0, 7, b, 1)));
    assert_false(psr_table_shard_initialised(psr_shard_table(f.shard)));
    for (uint32_t b = 1; b < BUCKETS; b++) {
        said slot = say(PSR_MSG_INIT, 7, b);
        slot.section = 1;
        expect_ok(give(&f, make_said(&slot, 0, 1)));
    }
    assert_true(psr_table_shard_initialised(psr_shard_table(f.shard)));
    assert_int_equal(psr_table_shard_clock(psr_shard_table(f.shard)), 7);
    take_steps(&f, 7, 10);
    assert_true(psr_table_shard_finished(psr_shard_table(f.shard)));
    tear_down(&f);
}

static void a_shard_without_buckets_is_finished_at_once(void **state)
{
    (void)state;
    fixture f;
    set_up(&f);
    for (uint32_t b = 0; b < BUCKETS; b++)
        f.plan.buckets[b].home = 1;
    open_shard(&f, 0);
    assert_true(psr_table_shard_initialised(psr_shard_table(f.shard)));
    assert_true(psr_table_shard_finished(psr_shard_table(f.shard)));
    assert_int_equal(psr_table_shard_clock(psr_shard_table(f.shard)), 10);
    expect_ok(psr_shard_stop_at(f.shard, 3));
    assert_int_equal(psr_table_shard_clock(psr_shard_table(f.shard)), 4);
    tear_down(&f);
}

/* ---- SSP ---- */

static void a_pull_waits_until_nobody_is_further_behind_than_the_bound(void **state)
{
    (void)state;
    fixture f;
    size_t last = 0;
    set_up(&f);
    f.config.sync = PSR_SYNC_SSP;
    f.config.ssp_bound = 1;
    open_shard(&f, 0);
    initialise(&f);
    push(&f, 0, 0, 2, 1);
    expect_ok(give(&f, make(PSR_MSG_PULL, 0, 1, 2, 0)));
    assert_int_equal(count_sent(&f, PSR_MSG_WEIGHTS, &last), 1);
    assert_int_equal(weights_said(&f, last).staleness, 1);
    assert_true(f.sent[last].first == 199); /* its own push is in */
    push(&f, 0, 1, 2, 1);
    expect_ok(give(&f, make(PSR_MSG_PULL, 0, 2, 2, 0)));
    assert_int_equal(count_sent(&f, PSR_MSG_WEIGHTS, &last), 1);
    push(&f, 1, 0, 2, 5);
    assert_int_equal(count_sent(&f, PSR_MSG_WEIGHTS, &last), 2);
    assert_int_equal(weights_said(&f, last).step, 2);
    assert_int_equal(weights_said(&f, last).staleness, 1);
    assert_true(f.sent[last].first == 193);
    tear_down(&f);
}

static void lars_without_bsp_is_refused(void **state)
{
    (void)state;
    fixture f;
    set_up(&f);
    f.config.optimizer = PSR_OPTIMIZER_LARS;
    f.config.sync = PSR_SYNC_ASYNC;
    psr_shard_options options = {.config = &f.config, .layout = &f.layout, .plan = &f.plan, .total_steps = 1};
    expect_failure(psr_shard_new(&options, &f.shard), PSR_ERR_USAGE,
                   "--optimizer lars needs --sync bsp: its update needs whole tensors");
    tear_down(&f);
}

/* ---- violations ---- */

/* Gives a message that says something else than it should, or is from somebody else. */
#define REFUSED(detail, ...)                                                                                 \
    do {                                                                                                     \
        said s = say(PSR_MSG_PUSH, 0, 2);                                                                    \
        psr_peer from = {PSR_ROLE_WORKER, 1};                                                                \
        size_t bytes = SLICE * sizeof(float);                                                                \
        __VA_ARGS__;                                                                                         \
        psr_message *m = make_said(&s, from.rank, 1);                                                        \
        m->from = from;                                                                                      \
        m->payload_bytes = bytes;                                                                            \
        expect_failure(give(&f, m), PSR_ERR_PROTOCOL, detail);                                               \
    } while (0)

static void each_violation_of_the_protocol_gets_its_line_and_changes_nothing(void **state)
{
    (void)state;
    fixture f;
    size_t last = 0;
    set_up(&f);
    open_shard(&f, 0);
    REFUSED("worker 1 sent PUSH (wire step 0, bucket 2, offset 0, count 16, answer 1): the initial weights "
            "are not "
            "complete yet",
            (void)s);
    REFUSED("worker 1 sent INIT (wire step 0, bucket 2, offset 0, count 16, section 0): initial state is "
            "worker 0's to send",
            s.type = PSR_MSG_INIT);
    REFUSED("worker 0 sent INIT (wire step 0, bucket 2, offset 0, count 16, section 1): there is no section "
            "1 to be set",
            s.type = PSR_MSG_INIT, s.section = 1, from.rank = 0);
    REFUSED("worker 0 sent INIT (wire step 0, bucket 2, offset 0, count 16, section 4294967295): there is no "
            "section 4294967295 "
            "to be set",
            s.type = PSR_MSG_INIT, s.section = UINT32_MAX, from.rank = 0);
    initialise(&f);

    REFUSED("worker 1 sent PUSH (wire step 0, bucket 3, offset 0, count 16, answer 1): there are 3 buckets",
            s.bucket = 3);
    REFUSED("worker 1 sent PUSH (wire step 0, bucket 0, offset 32, count 16, answer 1): the bucket is "
            "another shard's",
            s.bucket = 0, s.span.offset = 32);
    REFUSED("worker 1 sent PUSH (wire step 0, bucket 2, offset 8, count 16, answer 1): no slice of the "
            "bucket begins there",
            s.span.offset = 8);
    REFUSED("worker 1 sent PUSH (wire step 0, bucket 2, offset 16, count 16, answer 1): no slice of the "
            "bucket begins "
            "there",
            s.span.offset = 16);
    REFUSED("worker 1 sent PUSH (wire step 0, bucket 1, offset 0, count 16, answer 1): no slice of the "
            "bucket begins there",
            s.bucket = 1);
    REFUSED("worker 1 sent PUSH (wire step 0, bucket 2, offset 18446744073709551615, count 16, answer 1): no "
            "slice of the "
            "bucket begins there",
            s.span.offset = UINT64_MAX);
    REFUSED(
        "worker 1 sent PUSH (wire step 0, bucket 2, offset 0, count 15, answer 1): the slice has 16 floats",
        s.span.count = 15);
    REFUSED("worker 1 sent PUSH (wire step 0, bucket 2, offset 0, count 16, answer 1): its payload has 60 "
            "bytes, not those "
            "of 16 values of float32",
            bytes = 60);
    REFUSED("worker 1 sent PUSH (wire step 1, bucket 2, offset 0, count 16, answer 1): 0 steps of it were "
            "pushed, and the "
            "run has 10",
            s.step = 1);
    REFUSED("worker 1 sent PUSH (wire step 0, bucket 2, offset 0, count 16, answer 0): its answer is 0, "
            "which does not go with the table's "
            "consistency",
            s.answer = false);
    REFUSED("worker 2 sent PUSH (wire step 0, bucket 2, offset 0, count 16, answer 1): a shard hears the "
            "scheduler and the "
            "run's 2 workers",
            from.rank = 2);
    REFUSED("shard 1 sent PUSH (wire step 0, bucket 2, offset 0, count 16, answer 1): a shard hears the "
            "scheduler and the "
            "run's 2 workers",
            from.role = PSR_ROLE_SHARD);
    REFUSED("worker 1 sent RING (wire step 0, bucket 2, offset 0, count 16, phase 0, chunk 0, hop 0): that "
            "is not for a shard",
            s.type = PSR_MSG_RING);
    REFUSED("worker 1 sent PULL (wire step 0, bucket 2, offset 0, count 16): in BSP weights come by "
            "themselves",
            s.type = PSR_MSG_PULL, bytes = 0);

    push(&f, 0, 0, 2, 3);
    REFUSED("worker 0 sent PUSH (wire step 1, bucket 2, offset 0, count 16, answer 1): the slice is at wire "
            "step 0",
            from.rank = 0, s.step = 1);
    push(&f, 1, 0, 2, 4);
    assert_int_equal(count_sent(&f, PSR_MSG_WEIGHTS, &last), 2);
    assert_true(f.sent[last].first == 193);
    tear_down(&f);
}

static void a_pull_ahead_of_ones_own_pushes_is_a_violation(void **state)
{
    (void)state;
    fixture f;
    set_up(&f);
    f.config.sync = PSR_SYNC_ASYNC;
    open_shard(&f, 0);
    expect_failure(
        give(&f, make(PSR_MSG_PULL, 1, 0, 2, 0)), PSR_ERR_PROTOCOL,
        "worker 1 sent PULL (wire step 0, bucket 2, offset 0, count 16): the initial weights are not "
        "complete yet");
    initialise(&f);
    expect_failure(
        give(&f, make(PSR_MSG_PULL, 1, 1, 2, 0)), PSR_ERR_PROTOCOL,
        "worker 1 sent PULL (wire step 1, bucket 2, offset 0, count 16): only 0 steps of it were pushed");
    tear_down(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_slice_is_updated_and_answered_when_all_have_pushed_it),
        cmocka_unit_test(a_push_that_comes_again_changes_nothing),
        cmocka_unit_test(credit_is_told_alone_only_when_half_a_window_has_come),
        cmocka_unit_test(it_says_whom_it_waits_for),
        cmocka_unit_test(a_gradient_that_is_not_finite_names_step_and_bucket),
        cmocka_unit_test(state_is_told_every_so_many_steps_and_at_the_end),
        cmocka_unit_test(told_to_stop_it_tells_the_state_of_that_step_whether_it_is_there_already_or_not),
        cmocka_unit_test(a_resumed_run_wants_the_optimizers_state_and_goes_on_counting),
        cmocka_unit_test(a_shard_without_buckets_is_finished_at_once),
        cmocka_unit_test(a_pull_waits_until_nobody_is_further_behind_than_the_bound),
        cmocka_unit_test(lars_without_bsp_is_refused),
        cmocka_unit_test(each_violation_of_the_protocol_gets_its_line_and_changes_nothing),
        cmocka_unit_test(a_pull_ahead_of_ones_own_pushes_is_a_violation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
