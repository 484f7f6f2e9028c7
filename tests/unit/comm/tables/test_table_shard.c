/* A shard's end of a table by hand: every message that it may be sent, and every one that it may
 * not. */
#include "tests/unit/expect.h"
#include "tests/unit/values_message.h"

#include "comm/tables/table_shard.h"
#include "comm/wire/messages.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A table of 48 floats in three parts of a slice each: part 2 is its beginning. */
enum { SLICE = 16, PARTS = 3, SENT_MAX = 256 };

typedef struct fixture {
    psr_plan plan;
    psr_table_shard_options options;
    psr_table_shard *table;
    struct {
        psr_peer to;
        psr_head head;
        float first;
        psr_payload payload; /* that was lent, and is not given back: nobody reads it */
    } sent[SENT_MAX];
    size_t sent_count;
    bool unread; /* lent payloads are kept */
    struct {
        uint32_t part;
        uint64_t version;
        size_t sent_before; /* messages */
    } advanced[SENT_MAX];
    uint32_t advanced_count;
} fixture;

static psr_err keep_sent(void *context, psr_peer to, const psr_head *head,
                         const psr_payload *payload)
{
    fixture *f = context;
    assert_true(f->sent_count < SENT_MAX);
    f->sent[f->sent_count].to = to;
    f->sent[f->sent_count].head = *head;
    f->sent[f->sent_count++].first = payload != NULL ? *(const float *)payload->data : 0;
    if (payload != NULL && payload->release != NULL && f->unread)
        f->sent[f->sent_count - 1].payload = *payload;
    else if (payload != NULL && payload->release != NULL)
        payload->release(payload->context);
    return PSR_OK;
}

static psr_err keep_advanced(void *context, uint32_t part, uint64_t version)
{
    fixture *f = context;
    assert_true(f->advanced_count < SENT_MAX);
    f->advanced[f->advanced_count].part = part;
    f->advanced[f->advanced_count].version = version;
    f->advanced[f->advanced_count++].sent_before = f->sent_count;
    return PSR_OK;
}

/* Two workers that sum. Part 0 is another shard's. */
static void set_up(fixture *f)
{
    memset(f, 0, sizeof *f);
    psr_part parts[PARTS];
    for (uint32_t b = 0; b < PARTS; b++)
        parts[b] = (psr_part){{(PARTS - 1 - b) * SLICE, SLICE}, b};
    const psr_plan_options plan = {
        .route = PSR_ROUTE_SHARD, .ranks = 2, .shards = 2, .slice_floats = SLICE, .window = 4};
    expect_ok(psr_plan_make(&plan, parts, PARTS, &f->plan));
    for (uint32_t b = 0; b < PARTS; b++)
        f->plan.buckets[b].home = b == 0;
    f->options = (psr_table_shard_options){
        .plan = &f->plan,
        .shard = 0,
        .consistency = {PSR_CONSISTENCY_BSP, 0},
        .update = "sum",
        .end = 10,
        .outbox = {.context = f, .send = keep_sent},
        .context = f,
        .advanced = keep_advanced,
    };
}

static void open_table(fixture *f)
{
    expect_ok(psr_table_shard_new(&f->options, &f->table));
}

static void tear_down(fixture *f)
{
    psr_table_shard_free(f->table);
    for (size_t i = 0; i < f->sent_count; i++)
        if (f->sent[i].payload.release != NULL)
            f->sent[i].payload.release(f->sent[i].payload.context);
    psr_plan_done(&f->plan);
}

/* ---- messages ---- */

/* What a worker says of a slice, in any of its messages. */
typedef struct said {
    psr_message_type type;
    uint32_t bucket;
    uint64_t step;
    psr_span span;
    bool answer;      /* PUSH */
    uint32_t section; /* INIT, ASK */
    uint64_t taken;   /* PULL, ASK */
} said;

static psr_head head_of(const said *s)
{
    switch (s->type) {
    case PSR_MSG_INIT:
        return psr_msg_init_head(&(psr_msg_init){s->bucket, s->step, s->span, s->section});
    case PSR_MSG_PUSH:
        return psr_msg_push_head(&(psr_msg_push){s->bucket, s->step, s->span, s->answer});
    case PSR_MSG_PULL:
        return psr_msg_pull_head(&(psr_msg_pull){s->bucket, s->step, s->span, s->taken});
    case PSR_MSG_ASK:
        return psr_msg_ask_head(&(psr_msg_ask){s->bucket, s->step, s->span, s->taken, s->section});
    default:
        return psr_msg_ring_head(
            &(psr_msg_ring){.bucket = s->bucket, .step = s->step, .span = s->span});
    }
}

static said say(psr_message_type type, uint64_t step, uint32_t bucket)
{
    return (said){type, bucket, step, {(size_t)(2 - bucket) * SLICE, SLICE}, true, 0, 0};
}

static psr_message *make_said(const said *s, uint32_t rank, float value)
{
    return values_message(head_of(s), rank,
                          s->type == PSR_MSG_PULL || s->type == PSR_MSG_ASK ? 0 : SLICE, value);
}

static psr_message *make(psr_message_type type, uint32_t rank, uint64_t step, uint32_t bucket,
                         float value)
{
    said s = say(type, step, bucket);
    return make_said(&s, rank, value);
}

static psr_err give(fixture *f, psr_message *message)
{
    psr_err err = psr_table_shard_message(f->table, &message);
    assert_null(message);
    return err;
}

static void push(fixture *f, uint32_t rank, uint64_t step, uint32_t bucket, float value)
{
    said s = say(PSR_MSG_PUSH, step, bucket);
    s.answer = f->options.consistency.kind == PSR_CONSISTENCY_BSP;
    expect_ok(give(f, make_said(&s, rank, value)));
}

static psr_err pull(fixture *f, uint32_t rank, uint64_t step, uint32_t bucket, uint64_t taken)
{
    said s = say(PSR_MSG_PULL, step, bucket);
    s.taken = taken;
    return give(f, make_said(&s, rank, 0));
}

static void initialise(fixture *f)
{
    expect_ok(give(f, make(PSR_MSG_INIT, 0, 0, 1, 100)));
    assert_false(psr_table_shard_initialised(f->table));
    expect_ok(give(f, make(PSR_MSG_INIT, 0, 0, 2, 200)));
    assert_true(psr_table_shard_initialised(f->table));
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
    open_table(&f);
    initialise(&f);
    push(&f, 1, 0, 2, 3);
    assert_int_equal(count_sent(&f, PSR_MSG_WEIGHTS, &last), 0);
    push(&f, 0, 0, 2, 4);
    assert_int_equal(count_sent(&f, PSR_MSG_WEIGHTS, &last), 2);
    assert_int_equal(weights_said(&f, last).step, 0);
    assert_int_equal(weights_said(&f, last).bucket, 2);
    assert_int_equal(weights_said(&f, last).span.offset, 0);
    assert_true(f.sent[last].first == 207);
    assert_int_equal(psr_table_shard_clock(f.table), 0);
    push(&f, 0, 0, 1, 1);
    push(&f, 1, 0, 1, 1);
    assert_int_equal(psr_table_shard_clock(f.table), 1);
    tear_down(&f);
}

static void a_push_that_comes_again_changes_nothing(void **state)
{
    (void)state;
    fixture f;
    size_t last = 0;
    set_up(&f);
    open_table(&f);
    initialise(&f);
    push(&f, 0, 0, 2, 3);
    push(&f, 0, 0, 2, 1000); /* while the others are awaited */
    push(&f, 1, 0, 2, 4);
    push(&f, 1, 0, 2, 1000); /* when the step is over */
    assert_int_equal(count_sent(&f, PSR_MSG_WEIGHTS, &last), 2);
    push(&f, 0, 1, 2, 0);
    push(&f, 1, 1, 2, 0);
    assert_int_equal(count_sent(&f, PSR_MSG_WEIGHTS, &last), 4);
    assert_true(f.sent[last].first == 207);
    assert_int_equal(weights_said(&f, last).received, 2); /* and counts as none */
    tear_down(&f);
}

static void credit_is_told_alone_only_when_half_a_window_has_come(void **state)
{
    (void)state;
    fixture f;
    size_t last = 0;
    set_up(&f);
    f.plan.buckets[0].home = 0;
    open_table(&f);
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

static bool lends_to_second(void *context, psr_peer to)
{
    (void)context;
    return to.rank == 1;
}

static void who_reads_values_in_place_is_shown_the_first_ones(void **state)
{
    (void)state;
    fixture f;
    size_t last = 0;
    set_up(&f);
    f.options.outbox.lends_to = lends_to_second;
    open_table(&f);
    initialise(&f);
    expect_ok(psr_table_shard_show(f.table));
    /* parts 1 and 2, to one of two workers */
    assert_int_equal(count_sent(&f, PSR_MSG_INIT, &last), 2);
    for (size_t i = 0; i < f.sent_count; i++) {
        psr_message message = {.head = f.sent[i].head};
        psr_msg_init says;
        expect_ok(psr_msg_init_read(&message, &says));
        assert_int_equal(f.sent[i].to.rank, 1);
        assert_int_equal(says.step, 0);
        assert_int_equal(says.section, 0);
        assert_int_equal(says.span.offset, (2 - says.bucket) * SLICE);
        assert_true(f.sent[i].first == (says.bucket == 1 ? 100 : 200));
    }
    push(&f, 0, 0, 2, 3);
    push(&f, 1, 0, 2, 4);
    expect_ok(psr_table_shard_show(f.table));
    /* without part 2, which is new already */
    assert_int_equal(count_sent(&f, PSR_MSG_INIT, &last), 3);
    assert_int_equal(psr_msg_bucket(&f.sent[last].head), 1);
    tear_down(&f);
}

static void values_that_may_change_at_any_time_are_shown_to_nobody(void **state)
{
    (void)state;
    fixture f;
    set_up(&f);
    f.options.outbox.lends_to = lends_to_second;
    f.options.consistency = (psr_consistency){PSR_CONSISTENCY_ASYNC, 0};
    open_table(&f);
    initialise(&f);
    expect_ok(psr_table_shard_show(f.table));
    assert_int_equal(f.sent_count, 0);
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
    open_table(&f);
    assert_false(psr_table_shard_waits(f.table, &step, &bucket, &rank));
    initialise(&f);
    assert_true(psr_table_shard_waits(f.table, &step, &bucket, &rank));
    assert_int_equal(bucket, 1); /* the gradient that comes first */
    assert_int_equal(rank, 0);
    push(&f, 0, 0, 2, 1);
    push(&f, 2, 0, 2, 1);
    assert_true(psr_table_shard_waits(f.table, &step, &bucket, &rank));
    assert_int_equal(bucket, 2); /* the one that others wait for */
    assert_int_equal(rank, 1);
    assert_int_equal(step, 0);
    tear_down(&f);
}

static void folded_by_arrival_no_push_is_held_and_the_sum_is_the_same(void **state)
{
    (void)state;
    fixture f;
    size_t last = 0;
    set_up(&f);
    f.options.fold_by_arrival = true;
    open_table(&f);
    initialise(&f);
    for (uint64_t step = 0; step < 2; step++) {
        push(&f, 1, step, 2, 3);
        assert_int_equal(count_sent(&f, PSR_MSG_WEIGHTS, &last), 2 * step);
        push(&f, 0, step, 2, 4);
        assert_int_equal(count_sent(&f, PSR_MSG_WEIGHTS, &last), 2 * step + 2);
        assert_true(f.sent[last].first == (step == 0 ? 207 : 214));
    }
    tear_down(&f);
}

/* ---- versions and the end ---- */

static void take_steps(fixture *f, uint64_t from, uint64_t to)
{
    for (uint64_t step = from; step < to; step++)
        for (uint32_t r = 0; r < 2; r++) {
            push(f, r, step, 1, 1);
            push(f, r, step, 2, 1);
        }
}

static void each_version_of_a_part_is_told_when_all_have_been_sent_it(void **state)
{
    (void)state;
    fixture f;
    size_t last = 0;
    set_up(&f);
    open_table(&f);
    initialise(&f);
    take_steps(&f, 0, 2);
    assert_int_equal(f.advanced_count, 4);
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(f.advanced[i].part, 1 + i % 2);
        assert_int_equal(f.advanced[i].version, 1 + i / 2);
        for (uint32_t r = 0; r < 2; r++) {
            const psr_head *head = &f.sent[f.advanced[i].sent_before - 1 - r].head;
            assert_int_equal(head->type, PSR_MSG_WEIGHTS);
            assert_int_equal(psr_msg_bucket(head), f.advanced[i].part);
        }
    }
    assert_int_equal(count_sent(&f, PSR_MSG_WEIGHTS, &last), 8);
    assert_int_equal(psr_table_shard_version(f.table, 2), 2);
    assert_int_equal(psr_table_shard_version(f.table, 0), 0); /* held elsewhere */
    tear_down(&f);
}

static void
told_to_end_it_is_finished_after_that_step_whether_it_is_there_already_or_not(void **state)
{
    (void)state;
    for (uint64_t taken = 3; taken <= 5; taken++) {
        fixture f;
        set_up(&f);
        open_table(&f);
        initialise(&f);
        take_steps(&f, 0, taken);
        assert_false(psr_table_shard_finished(f.table));
        psr_table_shard_end_at(f.table, 5);
        assert_int_equal(psr_table_shard_finished(f.table), taken == 5);
        take_steps(&f, taken, 5);
        assert_true(psr_table_shard_finished(f.table));
        uint64_t step;
        uint32_t part, rank;
        assert_false(psr_table_shard_waits(f.table, &step, &part, &rank));
        expect_failure(give(&f, make(PSR_MSG_PUSH, 1, 5, 1, 0)), PSR_ERR_PROTOCOL,
                       "worker 1 sent PUSH (wire step 5, bucket 1, offset 16, count 16, answer 1): "
                       "5 steps of it were pushed, and the run has 5");
        tear_down(&f);
    }
}

static void a_shard_without_parts_is_finished_at_once(void **state)
{
    (void)state;
    fixture f;
    set_up(&f);
    for (uint32_t b = 0; b < PARTS; b++)
        f.plan.buckets[b].home = 1;
    open_table(&f);
    assert_true(psr_table_shard_initialised(f.table));
    assert_true(psr_table_shard_finished(f.table));
    assert_int_equal(psr_table_shard_clock(f.table), 10);
    psr_table_shard_end_at(f.table, 4);
    assert_int_equal(psr_table_shard_clock(f.table), 4);
    tear_down(&f);
}

/* ---- updates ---- */

/* An update with two arrays of its own, which counts and notes what it is given; it may hold slices
 * back. */
typedef struct noting {
    float states[2][PARTS * SLICE];
    psr_table_run last;
    size_t applied;         /* floats */
    psr_table_shard *table; /* whose slice 0 is held back until slice 1 is applied */
    bool fails;
} noting;

static float *noting_state(void *context, uint32_t index)
{
    assert_in_range(index, 0, 1);
    return ((noting *)context)->states[index];
}

static psr_err noting_apply(void *context, const psr_table_run *run)
{
    noting *n = context;
    n->last = *run;
    n->applied += run->span.count;
    run->values[0] = run->pushed[0];
    return n->fails ? psr_fail(PSR_ERR_NUMERIC, "too much") : PSR_OK;
}

static psr_err noting_applied(void *context, uint32_t slice, uint64_t step)
{
    noting *n = context;
    assert_int_equal(step, 0);
    if (slice == 0)
        return PSR_OK;
    PSR_TRY(psr_table_shard_updated(n->table, 1));
    return psr_table_shard_updated(n->table, 0);
}

static psr_table_update noting_update(noting *n)
{
    return (psr_table_update){.name = "noting",
                              .context = n,
                              .state_count = 2,
                              .state = noting_state,
                              .apply = noting_apply};
}

static void use(fixture *f, const psr_table_update *update)
{
    f->options.update = "noting";
    f->options.registered = update;
    f->options.registered_count = 1;
}

static void an_update_is_told_part_range_step_and_number(void **state)
{
    (void)state;
    for (int alone = 0; alone < 2; alone++) {
        fixture f;
        noting n = {0};
        const psr_table_update update = noting_update(&n);
        set_up(&f);
        use(&f, &update);
        if (alone)
            f.options.consistency.kind = PSR_CONSISTENCY_ASYNC;
        open_table(&f);
        initialise(&f);
        take_steps(&f, 0, 2);
        assert_int_equal(n.applied, (alone ? 8 : 4) * SLICE);
        assert_int_equal(n.last.part, 2);
        /* a fold is cut where its chunks are */
        assert_int_equal(n.last.span.offset, alone ? 0 : SLICE / 2);
        assert_int_equal(psr_span_end(n.last.span), SLICE);
        assert_int_equal(n.last.step, 1);
        assert_int_equal(n.last.number, alone ? 4 : 2);
        assert_true(psr_table_shard_values(f.table)[0] == (alone ? 1 : 2)); /* in BSP the sum */
        tear_down(&f);
    }
}

static void a_table_that_goes_on_wants_the_updates_state_and_goes_on_counting(void **state)
{
    (void)state;
    fixture f;
    noting n = {0};
    const psr_table_update update = noting_update(&n);
    set_up(&f);
    use(&f, &update);
    f.options.first_step = 7;
    open_table(&f);
    for (uint32_t section = 0; section < 3; section++)
        for (uint32_t b = 1; b < PARTS; b++) {
            assert_false(psr_table_shard_initialised(f.table));
            said init = say(PSR_MSG_INIT, 7, b);
            init.section = section;
            expect_ok(give(&f, make_said(&init, 0, (float)section)));
        }
    assert_true(psr_table_shard_initialised(f.table));
    assert_true(n.states[0][0] == 1 && n.states[1][2 * SLICE - 1] == 2 &&
                n.states[1][2 * SLICE] == 0);
    assert_int_equal(psr_table_shard_clock(f.table), 7);
    take_steps(&f, 7, 10);
    assert_true(psr_table_shard_finished(f.table));
    assert_int_equal(n.last.step, 9);
    tear_down(&f);
}

static void an_update_that_holds_slices_back_says_when_they_are_answered(void **state)
{
    (void)state;
    fixture f;
    noting n = {0};
    size_t last = 0;
    psr_table_update update = noting_update(&n);
    update.applied = noting_applied;
    set_up(&f);
    use(&f, &update);
    open_table(&f);
    n.table = f.table;
    psr_span *slices;
    uint32_t count;
    assert_int_equal(psr_table_shard_slices(f.table, &slices, &count), PSR_OK);
    assert_int_equal(count, 2);
    assert_int_equal(slices[1].offset, SLICE);
    free(slices);
    initialise(&f);
    push(&f, 0, 0, 2, 1);
    push(&f, 1, 0, 2, 1);
    assert_int_equal(n.applied, SLICE);
    assert_int_equal(count_sent(&f, PSR_MSG_WEIGHTS, &last), 0);
    assert_int_equal(psr_table_shard_version(f.table, 2), 0);
    push(&f, 0, 0, 1, 1);
    push(&f, 1, 0, 1, 1);
    assert_int_equal(count_sent(&f, PSR_MSG_WEIGHTS, &last), 4);
    assert_int_equal(psr_table_shard_clock(f.table), 1);
    tear_down(&f);
}

static void what_an_update_fails_with_is_the_callers(void **state)
{
    (void)state;
    fixture f;
    noting n = {.fails = true};
    const psr_table_update update = noting_update(&n);
    set_up(&f);
    use(&f, &update);
    open_table(&f);
    initialise(&f);
    push(&f, 0, 0, 2, 1);
    expect_failure(give(&f, make(PSR_MSG_PUSH, 1, 0, 2, 1)), PSR_ERR_NUMERIC, "too much");
    tear_down(&f);
}

static void an_update_that_there_is_not_or_that_cannot_be_is_refused(void **state)
{
    (void)state;
    fixture f;
    noting n = {0};
    psr_table_update update = noting_update(&n);
    update.applied = noting_applied;
    set_up(&f);
    use(&f, &update);
    f.options.update = "adam";
    expect_failure(psr_table_shard_new(&f.options, &f.table), PSR_ERR_USAGE,
                   "there is no update \"adam\", but noting, sum, assign");
    f.options.update = "noting";
    f.options.consistency.kind = PSR_CONSISTENCY_ASYNC;
    expect_failure(psr_table_shard_new(&f.options, &f.table), PSR_ERR_USAGE,
                   "the update \"noting\" needs more than a slice, which BSP alone gathers");
    tear_down(&f);
}

/* ---- SSP ---- */

static void a_pull_waits_until_nobody_is_further_behind_than_the_bound(void **state)
{
    (void)state;
    fixture f;
    size_t last = 0;
    set_up(&f);
    f.options.consistency = (psr_consistency){PSR_CONSISTENCY_SSP, 1};
    open_table(&f);
    initialise(&f);
    push(&f, 0, 0, 2, 1);
    expect_ok(pull(&f, 0, 1, 2, 0));
    assert_int_equal(count_sent(&f, PSR_MSG_WEIGHTS, &last), 1);
    assert_int_equal(weights_said(&f, last).staleness, 1);
    assert_true(f.sent[last].first == 201); /* its own push is in */
    push(&f, 0, 1, 2, 1);
    expect_ok(pull(&f, 0, 2, 2, 1));
    assert_int_equal(count_sent(&f, PSR_MSG_WEIGHTS, &last), 1);
    push(&f, 1, 0, 2, 5);
    assert_int_equal(count_sent(&f, PSR_MSG_WEIGHTS, &last), 2);
    assert_int_equal(weights_said(&f, last).step, 2);
    assert_int_equal(weights_said(&f, last).staleness, 1);
    assert_true(f.sent[last].first == 207);
    tear_down(&f);
}

/* ---- violations ---- */

/* Gives a message that says something else than it should, or is from somebody else. */
#define REFUSED(detail, ...)                                                                       \
    do {                                                                                           \
        said s = say(PSR_MSG_PUSH, 0, 2);                                                          \
        psr_peer from = {PSR_ROLE_WORKER, 1};                                                      \
        size_t bytes = SLICE * sizeof(float);                                                      \
        __VA_ARGS__;                                                                               \
        psr_message *m = make_said(&s, from.rank, 1);                                              \
        m->from = from;                                                                            \
        m->payload_bytes = bytes;                                                                  \
        expect_failure(give(&f, m), PSR_ERR_PROTOCOL, detail);                                     \
    } while (0)

static void each_violation_of_the_protocol_gets_its_line_and_changes_nothing(void **state)
{
    (void)state;
    fixture f;
    size_t last = 0;
    set_up(&f);
    open_table(&f);
    REFUSED("worker 1 sent PUSH (wire step 0, bucket 2, offset 0, count 16, answer 1): the initial "
            "weights are not complete yet",
            (void)s);
    REFUSED("worker 1 sent INIT (wire step 0, bucket 2, offset 0, count 16, section 0): initial "
            "state is worker 0's to send",
            s.type = PSR_MSG_INIT);
    REFUSED("worker 0 sent INIT (wire step 0, bucket 2, offset 0, count 16, section 1): there is "
            "no section 1 to be set",
            s.type = PSR_MSG_INIT, s.section = 1, from.rank = 0);
    REFUSED("worker 0 sent INIT (wire step 0, bucket 2, offset 0, count 16, section 4294967295): "
            "there is no section 4294967295 to be set",
            s.type = PSR_MSG_INIT, s.section = UINT32_MAX, from.rank = 0);
    initialise(&f);

    REFUSED("worker 1 sent PUSH (wire step 0, bucket 3, offset 0, count 16, answer 1): there are 3 "
            "buckets",
            s.bucket = 3);
    REFUSED("worker 1 sent PUSH (wire step 0, bucket 0, offset 32, count 16, answer 1): the bucket "
            "is another shard's",
            s.bucket = 0, s.span.offset = 32);
    REFUSED("worker 1 sent PUSH (wire step 0, bucket 2, offset 8, count 16, answer 1): no slice of "
            "the bucket begins there",
            s.span.offset = 8);
    REFUSED("worker 1 sent PUSH (wire step 0, bucket 2, offset 16, count 16, answer 1): no slice "
            "of the bucket begins there",
            s.span.offset = 16);
    REFUSED("worker 1 sent PUSH (wire step 0, bucket 1, offset 0, count 16, answer 1): no slice of "
            "the bucket begins there",
            s.bucket = 1);
    REFUSED("worker 1 sent PUSH (wire step 0, bucket 2, offset 18446744073709551615, count 16, "
            "answer 1): no slice of the bucket begins there",
            s.span.offset = UINT64_MAX);
    REFUSED("worker 1 sent PUSH (wire step 0, bucket 2, offset 0, count 15, answer 1): the slice "
            "has 16 floats",
            s.span.count = 15);
    REFUSED("worker 1 sent PUSH (wire step 0, bucket 2, offset 0, count 16, answer 1): its payload "
            "has 60 bytes, not those of 16 values of float32",
            bytes = 60);
    REFUSED("worker 1 sent PUSH (wire step 1, bucket 2, offset 0, count 16, answer 1): 0 steps of "
            "it were pushed, and the run has 10",
            s.step = 1);
    REFUSED("worker 1 sent PUSH (wire step 0, bucket 2, offset 0, count 16, answer 0): its answer "
            "is 0, which does not go with the table's consistency",
            s.answer = false);
    REFUSED("worker 2 sent PUSH (wire step 0, bucket 2, offset 0, count 16, answer 1): a shard "
            "hears the scheduler and the run's 2 workers",
            from.rank = 2);
    REFUSED("shard 1 sent PUSH (wire step 0, bucket 2, offset 0, count 16, answer 1): a shard "
            "hears the scheduler and the run's 2 workers",
            from.role = PSR_ROLE_SHARD);
    REFUSED("worker 1 sent RING (wire step 0, bucket 2, offset 0, count 16, phase 0, chunk 0, hop "
            "0): that is not for a shard",
            s.type = PSR_MSG_RING);
    REFUSED("worker 1 sent PULL (wire step 0, bucket 2, offset 0, count 16, taken 0): in BSP "
            "weights come by themselves",
            s.type = PSR_MSG_PULL, bytes = 0);

    push(&f, 0, 0, 2, 3);
    REFUSED("worker 0 sent PUSH (wire step 1, bucket 2, offset 0, count 16, answer 1): the slice "
            "is at wire step 0",
            from.rank = 0, s.step = 1);
    push(&f, 1, 0, 2, 4);
    assert_int_equal(count_sent(&f, PSR_MSG_WEIGHTS, &last), 2);
    assert_true(f.sent[last].first == 207);
    tear_down(&f);
}

static void a_pull_ahead_of_ones_own_pushes_is_a_violation(void **state)
{
    (void)state;
    fixture f;
    set_up(&f);
    f.options.consistency.kind = PSR_CONSISTENCY_ASYNC;
    open_table(&f);
    expect_failure(give(&f, make(PSR_MSG_PULL, 1, 0, 2, 0)), PSR_ERR_PROTOCOL,
                   "worker 1 sent PULL (wire step 0, bucket 2, offset 0, count 16, taken 0): the "
                   "initial weights are not complete yet");
    initialise(&f);
    expect_failure(give(&f, make(PSR_MSG_PULL, 1, 1, 2, 0)), PSR_ERR_PROTOCOL,
                   "worker 1 sent PULL (wire step 1, bucket 2, offset 0, count 16, taken 0): only "
                   "0 steps of it were pushed");
    tear_down(&f);
}

static void a_worker_has_one_pull_of_a_slice_open_at_a_time(void **state)
{
    (void)state;
    fixture f;
    size_t last = 0;
    set_up(&f);
    f.options.consistency = (psr_consistency){PSR_CONSISTENCY_SSP, 0};
    open_table(&f);
    initialise(&f);
    expect_ok(pull(&f, 1, 0, 2, 0));
    expect_ok(pull(&f, 1, 0, 1, 0)); /* of another slice */
    assert_int_equal(count_sent(&f, PSR_MSG_WEIGHTS, &last), 2);
    expect_failure(pull(&f, 1, 0, 2, 0), PSR_ERR_PROTOCOL,
                   "worker 1 sent PULL (wire step 0, bucket 2, offset 0, count 16, taken 0): it "
                   "has pulled the slice before, and has not taken the answer, number 1");
    expect_failure(pull(&f, 1, 0, 2, 3), PSR_ERR_PROTOCOL,
                   "worker 1 sent PULL (wire step 0, bucket 2, offset 0, count 16, taken 3): it "
                   "was answered 2 times");
    expect_ok(pull(&f, 1, 0, 2, 1)); /* the same values again: it has read the others */
    expect_ok(pull(&f, 0, 0, 2, 0)); /* another worker's answers are counted by themselves */
    assert_int_equal(count_sent(&f, PSR_MSG_WEIGHTS, &last), 4);

    push(&f, 1, 0, 2, 1);
    expect_ok(pull(&f, 1, 1, 2, 3)); /* waits for worker 0 */
    expect_failure(pull(&f, 1, 1, 2, 3), PSR_ERR_PROTOCOL,
                   "worker 1 sent PULL (wire step 1, bucket 2, offset 0, count 16, taken 3): it "
                   "has pulled the slice before, and waits for the answer");
    assert_int_equal(count_sent(&f, PSR_MSG_WEIGHTS, &last), 4);
    tear_down(&f);
}

static void a_worker_that_lies_about_what_it_has_taken_is_found_out(void **state)
{
    (void)state;
    fixture f;
    uint64_t answers = 0;
    psr_err err = PSR_OK;
    set_up(&f);
    f.options.consistency.kind = PSR_CONSISTENCY_ASYNC;
    f.unread = true;
    open_table(&f);
    initialise(&f);
    while (err == PSR_OK && answers < SENT_MAX)
        if ((err = pull(&f, 1, 0, 2, answers)) == PSR_OK)
            answers++;
    assert_int_equal(answers, 2 + 8); /* slices, and what may be leaving */
    expect_failure(err, PSR_ERR_PROTOCOL,
                   "worker 1 does not read what it asks for: 10 messages wait for it");
    expect_ok(pull(&f, 0, 0, 2, 0)); /* the other one is answered */
    tear_down(&f);
}

/* ---- a program's table ---- */

static psr_err ask(fixture *f, uint32_t rank, uint64_t step, uint32_t section, uint64_t taken)
{
    said s = say(PSR_MSG_ASK, step, 2);
    s.section = section;
    s.taken = taken;
    return give(f, make_said(&s, rank, 0));
}

static psr_err write_section(fixture *f, uint32_t rank, uint64_t step, uint32_t section,
                             float value)
{
    said s = say(PSR_MSG_INIT, step, 2);
    s.section = section;
    return give(f, make_said(&s, rank, value));
}

static void open_to_all(fixture *f, const psr_table_update *update)
{
    set_up(f);
    use(f, update);
    f->options.given = f->options.open = true;
}

static void values_and_states_are_read_and_written_at_any_time(void **state)
{
    (void)state;
    for (int alone = 0; alone < 2; alone++) {
        fixture f;
        noting n = {0};
        size_t last = 0;
        const psr_table_update update = noting_update(&n);
        open_to_all(&f, &update);
        if (alone)
            f.options.consistency.kind = PSR_CONSISTENCY_ASYNC;
        open_table(&f);
        take_steps(&f, 0, 1);
        n.states[1][3] = 7;
        const size_t acked = count_sent(&f, PSR_MSG_ACK, &last);
        expect_ok(write_section(&f, 0, 1, 2, 5));
        assert_true(n.states[1][3] == 5 && n.states[0][3] == 0);
        assert_int_equal(count_sent(&f, PSR_MSG_ACK, &last), acked + 1); /* at once; it counts */
        assert_int_equal(ack_said(&f, last), 3);
        expect_ok(ask(&f, 1, 1, 2, 0));
        assert_int_equal(count_sent(&f, PSR_MSG_INIT, &last), 1);
        assert_true(f.sent[last].to.rank == 1 && f.sent[last].first == 5);
        expect_ok(write_section(&f, 0, 1, 0, 9));
        expect_ok(ask(&f, 0, 1, 0, 0));
        assert_int_equal(count_sent(&f, PSR_MSG_INIT, &last), 2);
        assert_true(f.sent[last].to.rank == 0 && f.sent[last].first == 9);
        assert_true(psr_table_shard_values(f.table)[SLICE - 1] == 9);
        tear_down(&f);
    }
}

static void a_table_that_is_readable_is_read_and_not_written(void **state)
{
    (void)state;
    fixture f;
    noting n = {0};
    size_t last = 0;
    const psr_table_update update = noting_update(&n);
    set_up(&f);
    use(&f, &update);
    f.options.given = f.options.readable = true;
    open_table(&f);
    take_steps(&f, 0, 1);
    n.states[1][3] = 7;
    n.states[1][0] = 5;
    expect_ok(ask(&f, 1, 1, 2, 0));
    assert_int_equal(count_sent(&f, PSR_MSG_INIT, &last), 1);
    assert_true(f.sent[last].to.rank == 1);
    expect_failure(ask(&f, 1, 0, 2, 1), PSR_ERR_PROTOCOL,
                   "worker 1 sent ASK (wire step 0, bucket 2, offset 0, count 16, taken 1, section "
                   "2): 1 steps of it were pushed");
    expect_failure(write_section(&f, 0, 1, 2, 9), PSR_ERR_PROTOCOL,
                   "worker 0 sent INIT (wire step 1, bucket 2, offset 0, count 16, section 2): "
                   "there is no section 2 to be set");
    assert_true(n.states[1][0] == 5 && n.states[1][3] == 7);
    tear_down(&f);
}

static void what_may_not_be_read_or_written_is_a_violation(void **state)
{
    (void)state;
    fixture f;
    noting n = {0};
    const psr_table_update update = noting_update(&n);
    set_up(&f);
    open_table(&f);
    initialise(&f);
    expect_failure(ask(&f, 1, 0, 0, 0), PSR_ERR_PROTOCOL,
                   "worker 1 sent ASK (wire step 0, bucket 2, offset 0, count 16, taken 0, section "
                   "0): this table is not to be read or written");
    tear_down(&f);

    open_to_all(&f, &update);
    open_table(&f);
    expect_failure(ask(&f, 1, 0, 3, 0), PSR_ERR_PROTOCOL,
                   "worker 1 sent ASK (wire step 0, bucket 2, offset 0, count 16, taken 0, section "
                   "3): there is no section 3");
    expect_failure(ask(&f, 1, 0, UINT32_MAX, 0), PSR_ERR_PROTOCOL,
                   "worker 1 sent ASK (wire step 0, bucket 2, offset 0, count 16, taken 0, section "
                   "4294967295): there is no section 4294967295");
    expect_failure(ask(&f, 1, 1, 0, 0), PSR_ERR_PROTOCOL,
                   "worker 1 sent ASK (wire step 1, bucket 2, offset 0, count 16, taken 0, section "
                   "0): 0 steps of it were pushed");
    expect_failure(write_section(&f, 0, 0, 3, 1), PSR_ERR_PROTOCOL,
                   "worker 0 sent INIT (wire step 0, bucket 2, offset 0, count 16, section 3): "
                   "there is no section 3");
    expect_failure(write_section(&f, 0, 1, 0, 1), PSR_ERR_PROTOCOL,
                   "worker 0 sent INIT (wire step 1, bucket 2, offset 0, count 16, section 0): 0 "
                   "steps of it were pushed");
    expect_failure(write_section(&f, 1, 0, 0, 1), PSR_ERR_PROTOCOL,
                   "worker 1 sent INIT (wire step 0, bucket 2, offset 0, count 16, section 0): "
                   "initial state is worker 0's to send");
    push(&f, 1, 0, 2, 1); /* the update that it is of is not made: it has pushed too much to ask */
    expect_failure(ask(&f, 1, 1, 0, 0), PSR_ERR_PROTOCOL,
                   "worker 1 sent ASK (wire step 1, bucket 2, offset 0, count 16, taken 0, section "
                   "0): 1 steps of it were pushed");
    expect_ok(ask(&f, 0, 0, 1, 0));
    expect_failure(ask(&f, 0, 0, 1, 0), PSR_ERR_PROTOCOL,
                   "worker 0 sent ASK (wire step 0, bucket 2, offset 0, count 16, taken 0, section "
                   "1): it has pulled the slice before, and has not taken the answer, number 1");
    expect_failure(ask(&f, 0, 0, 1, 2), PSR_ERR_PROTOCOL,
                   "worker 0 sent ASK (wire step 0, bucket 2, offset 0, count 16, taken 2, section "
                   "1): it was answered 1 times");
    expect_ok(ask(&f, 0, 0, 1, 1));
    tear_down(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_slice_is_updated_and_answered_when_all_have_pushed_it),
        cmocka_unit_test(a_push_that_comes_again_changes_nothing),
        cmocka_unit_test(credit_is_told_alone_only_when_half_a_window_has_come),
        cmocka_unit_test(who_reads_values_in_place_is_shown_the_first_ones),
        cmocka_unit_test(values_that_may_change_at_any_time_are_shown_to_nobody),
        cmocka_unit_test(it_says_whom_it_waits_for),
        cmocka_unit_test(folded_by_arrival_no_push_is_held_and_the_sum_is_the_same),
        cmocka_unit_test(each_version_of_a_part_is_told_when_all_have_been_sent_it),
        cmocka_unit_test(
            told_to_end_it_is_finished_after_that_step_whether_it_is_there_already_or_not),
        cmocka_unit_test(a_shard_without_parts_is_finished_at_once),
        cmocka_unit_test(an_update_is_told_part_range_step_and_number),
        cmocka_unit_test(a_table_that_goes_on_wants_the_updates_state_and_goes_on_counting),
        cmocka_unit_test(an_update_that_holds_slices_back_says_when_they_are_answered),
        cmocka_unit_test(what_an_update_fails_with_is_the_callers),
        cmocka_unit_test(an_update_that_there_is_not_or_that_cannot_be_is_refused),
        cmocka_unit_test(a_pull_waits_until_nobody_is_further_behind_than_the_bound),
        cmocka_unit_test(each_violation_of_the_protocol_gets_its_line_and_changes_nothing),
        cmocka_unit_test(a_pull_ahead_of_ones_own_pushes_is_a_violation),
        cmocka_unit_test(a_worker_has_one_pull_of_a_slice_open_at_a_time),
        cmocka_unit_test(a_worker_that_lies_about_what_it_has_taken_is_found_out),
        cmocka_unit_test(values_and_states_are_read_and_written_at_any_time),
        cmocka_unit_test(a_table_that_is_readable_is_read_and_not_written),
        cmocka_unit_test(what_may_not_be_read_or_written_is_a_violation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
