/* What a shard of training adds to a table (tests/unit/comm/tables/test_table_shard.c): the
 * optimizer, the schedule, checkpoints. */
#include "tests/unit/expect.h"
#include "tests/unit/values_message.h"

#include "comm/wire/messages.h"
#include "ps/parts.h"
#include "ps/shard/shard.h"

#include <math.h>
#include <string.h>

/* One tensor of 40 floats (48 with padding), three buckets of 16, slices of 16 floats: bucket 2 is
 * the arena's start. */
enum { SLICE = 16, BUCKETS = 3, TOLD_MAX = 64 };

typedef struct fixture {
    psr_config config;
    psr_layout layout;
    psr_buckets buckets;
    psr_plan plan;
    psr_shard *shard;
    uint32_t weights_sent;
    float last_sent; /* the first value of the last WEIGHTS */
    uint64_t checkpoint_steps[TOLD_MAX];
    uint32_t sent_before[TOLD_MAX]; /* WEIGHTS before that piece */
    uint32_t checkpoint_count;
} fixture;

static psr_err count_weights(void *context, psr_peer to, const psr_head *head,
                             const psr_payload *payload)
{
    fixture *f = context;
    assert_int_equal(to.role, PSR_ROLE_WORKER);
    if (head->type != PSR_MSG_WEIGHTS)
        return PSR_OK;
    f->weights_sent++;
    f->last_sent = *(const float *)payload->data;
    return PSR_OK;
}

static psr_err keep_checkpoint(void *context, uint64_t step, uint32_t section, const float *data,
                               size_t offset, size_t count)
{
    fixture *f = context;
    assert_int_equal(section, PSR_SECTION_SLOT(0));
    assert_int_equal(count, SLICE);
    assert_int_equal(offset % SLICE, 0);
    assert_non_null(data);
    assert_true(f->checkpoint_count < TOLD_MAX);
    f->sent_before[f->checkpoint_count] = f->weights_sent;
    f->checkpoint_steps[f->checkpoint_count++] = step;
    return PSR_OK;
}

static psr_err try_open(fixture *f, uint64_t first_step)
{
    psr_shard_options options = {
        .config = &f->config,
        .layout = &f->layout,
        .plan = &f->plan,
        .shard = 0,
        .total_steps = 10,
        .first_step = first_step,
        .outbox = {.context = f, .send = count_weights},
        .context = f,
        .checkpoint = keep_checkpoint,
    };
    return psr_shard_new(&options, &f->shard);
}

static void open_shard(fixture *f, uint64_t first_step)
{
    expect_ok(try_open(f, first_step));
}

/* Two workers, plain SGD of rate 1: a push of g from both takes 2g from every weight. Bucket 0 is
 * another shard's. */
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
    expect_ok(psr_parts_plan(&f->config, f->config.mode, &f->layout, &f->buckets, NULL, &f->plan));
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

static psr_span span_of(uint32_t bucket)
{
    return (psr_span){(size_t)(2 - bucket) * SLICE, SLICE};
}

static psr_err give(fixture *f, uint32_t rank, psr_head head, float value)
{
    psr_message *message = values_message(head, rank, SLICE, value);
    psr_err err = psr_table_shard_message(psr_shard_table(f->shard), &message);
    assert_null(message);
    return err;
}

static psr_err try_push(fixture *f, uint32_t rank, uint64_t step, uint32_t bucket, float value)
{
    bool bsp = f->config.sync == PSR_SYNC_BSP;
    return give(f, rank, psr_msg_push_head(&(psr_msg_push){bucket, step, span_of(bucket), bsp}),
                value);
}

static void push(fixture *f, uint32_t rank, uint64_t step, uint32_t bucket, float value)
{
    expect_ok(try_push(f, rank, step, bucket, value));
}

static void initialise(fixture *f, uint32_t bucket, uint32_t section, float value)
{
    expect_ok(
        give(f, 0, psr_msg_init_head(&(psr_msg_init){bucket, 0, span_of(bucket), section}), value));
}

static void initialise_weights(fixture *f)
{
    initialise(f, 1, 0, 100);
    initialise(f, 2, 0, 200);
    assert_true(psr_table_shard_initialised(psr_shard_table(f->shard)));
}

/* ---- the optimizer and its schedule ---- */

static void the_optimizer_updates_the_weights_by_the_sum(void **state)
{
    (void)state;
    fixture f;
    set_up(&f);
    open_shard(&f, 0);
    initialise_weights(&f);
    push(&f, 1, 0, 2, 3);
    assert_int_equal(f.weights_sent, 0);
    push(&f, 0, 0, 2, 4);
    assert_int_equal(f.weights_sent, 2);
    assert_true(f.last_sent == 193);
    tear_down(&f);
}

static void without_bsp_the_rate_is_that_of_pushes_through_workers(void **state)
{
    (void)state;
    fixture f;
    set_up(&f);
    f.config.sync = PSR_SYNC_ASYNC;
    f.config.warmup.steps = 2; /* rates 1/2, 1, 1, .. */
    open_shard(&f, 0);
    initialise_weights(&f);
    const float *weights = psr_table_shard_values(psr_shard_table(f.shard));
    push(&f, 0, 0, 2, 2);
    assert_true(weights[0] == 199);
    push(&f, 0, 1, 2, 2);
    assert_true(weights[0] == 198);
    push(&f, 0, 2, 2, 2);
    assert_true(weights[0] == 196);
    push(&f, 1, 0, 2, 2);
    assert_true(weights[0] == 194);
    tear_down(&f);
}

static void with_lars_slices_wait_for_their_tensor(void **state)
{
    (void)state;
    for (int arrival = 0; arrival < 2; arrival++) {
        fixture f;
        set_up(&f);
        f.config.optimizer = PSR_OPTIMIZER_LARS;
        f.config.fold = arrival ? PSR_FOLD_ARRIVAL : PSR_FOLD_RANK;
        f.plan.buckets[0].home = 0;
        open_shard(&f, 0);
        initialise(&f, 0, 0, 0);
        initialise_weights(&f);
        for (uint32_t r = 0; r < 2; r++) {
            push(&f, r, 0, 0, 1);
            push(&f, r, 0, 2, 1);
        }
        assert_int_equal(f.weights_sent, 0);
        push(&f, 1, 0, 1, 1);
        assert_int_equal(f.weights_sent, 0);
        push(&f, 0, 0, 1, 1);
        assert_int_equal(f.weights_sent, 2 * BUCKETS);
        /* rank 1: as SGD */
        assert_true(psr_table_shard_values(psr_shard_table(f.shard))[0] == 198);
        assert_int_equal(psr_table_shard_clock(psr_shard_table(f.shard)), 1);
        tear_down(&f);
    }
}

static void lars_without_bsp_is_refused(void **state)
{
    (void)state;
    fixture f;
    set_up(&f);
    f.config.optimizer = PSR_OPTIMIZER_LARS;
    f.config.sync = PSR_SYNC_ASYNC;
    expect_failure(try_open(&f, 0), PSR_ERR_USAGE,
                   "--optimizer lars needs --sync bsp: its update needs whole tensors");
    tear_down(&f);
}

/* Both workers push to the bucket; the second push is one too much. */
static void refuse_sum(psr_optimizer_kind optimizer, uint32_t bucket, float one, float other,
                       const char *detail)
{
    fixture f;
    set_up(&f);
    f.config.optimizer = optimizer;
    f.plan.buckets[0].home = 0;
    open_shard(&f, 0);
    initialise(&f, 0, 0, 0);
    initialise_weights(&f);
    push(&f, 0, 0, bucket, one);
    expect_failure(try_push(&f, 1, 0, bucket, other), PSR_ERR_NUMERIC, detail);
    tear_down(&f);
}

static void a_gradient_that_is_not_finite_names_step_and_bucket(void **state)
{
    (void)state;
    static const psr_optimizer_kind optimizers[] = {PSR_OPTIMIZER_SGD, PSR_OPTIMIZER_LARS};
    for (size_t i = 0; i < sizeof optimizers / sizeof optimizers[0]; i++) {
        refuse_sum(optimizers[i], 2, 1, NAN,
                   "step 1: the gradient of bucket 2 is not finite; a lower --lr may help");
        refuse_sum(optimizers[i], 1, 3e38f, 3e38f, /* each is finite, their sum is not */
                   "step 1: the gradient of bucket 1 is not finite; a lower --lr may help");
    }
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
    f.config.checkpoint_every = (psr_duration){.steps = 4};
    open_shard(&f, 0);
    initialise_weights(&f);
    take_steps(&f, 0, 9);
    assert_false(psr_table_shard_finished(psr_shard_table(f.shard)));
    take_steps(&f, 9, 10);
    assert_true(psr_table_shard_finished(psr_shard_table(f.shard)));
    assert_int_equal(f.checkpoint_count, 6); /* steps 4, 8 and 10, two buckets each */
    const uint64_t expected[] = {4, 4, 8, 8, 10, 10};
    assert_memory_equal(f.checkpoint_steps, expected, sizeof expected);
    /* both workers have been sent both buckets by then: nobody waits for a copy */
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++)
        assert_int_equal(f.sent_before[i], 4 * expected[i]);
    tear_down(&f);
}

static void
told_to_stop_it_tells_the_state_of_that_step_whether_it_is_there_already_or_not(void **state)
{
    (void)state;
    for (uint64_t taken = 3; taken <= 5; taken++) {
        fixture f;
        set_up(&f);
        f.config.momentum = 0.5;
        open_shard(&f, 0);
        initialise_weights(&f);
        take_steps(&f, 0, taken);
        expect_ok(psr_shard_stop_at(f.shard, 4));
        take_steps(&f, taken, 5);
        assert_true(psr_table_shard_finished(psr_shard_table(f.shard)));
        assert_int_equal(f.checkpoint_count, 2);
        assert_int_equal(f.checkpoint_steps[1], 5);
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
    initialise(&f, 1, 0, 1);
    initialise(&f, 2, 0, 1);
    assert_false(psr_table_shard_initialised(psr_shard_table(f.shard)));
    initialise(&f, 1, 1, 8);
    initialise(&f, 2, 1, 8);
    assert_true(psr_table_shard_initialised(psr_shard_table(f.shard)));
    assert_int_equal(psr_table_shard_clock(psr_shard_table(f.shard)), 7);
    take_steps(&f, 7, 8);
    assert_true(f.last_sent == 1 - (0.5f * 8 + 2)); /* the momentum that came with it */
    take_steps(&f, 8, 10);
    assert_true(psr_table_shard_finished(psr_shard_table(f.shard)));
    tear_down(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_optimizer_updates_the_weights_by_the_sum),
        cmocka_unit_test(without_bsp_the_rate_is_that_of_pushes_through_workers),
        cmocka_unit_test(with_lars_slices_wait_for_their_tensor),
        cmocka_unit_test(lars_without_bsp_is_refused),
        cmocka_unit_test(a_gradient_that_is_not_finite_names_step_and_bucket),
        cmocka_unit_test(state_is_told_every_so_many_steps_and_at_the_end),
        cmocka_unit_test(
            told_to_stop_it_tells_the_state_of_that_step_whether_it_is_there_already_or_not),
        cmocka_unit_test(a_resumed_run_wants_the_optimizers_state_and_goes_on_counting),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
