#include "tests/unit/expect.h"

#include "comm/collectives/call.h"
#include "comm/wire/messages.h"

#include <stdlib.h>
#include <string.h>

/* A message with that head, of worker 1. */
static psr_message with(psr_head head)
{
    return (psr_message){.from = {PSR_ROLE_WORKER, 1}, .head = head};
}

/* What messages here are held against: there is all of what they say, and no more. */
static const psr_msg_limits limits = {
    .workers = 8, .shards = 5, .epoch = 3, .buckets = 4, .steps = 43, .samples = 30};

/* The same head with one of its fields changed. */
static psr_message changed(psr_head head, size_t field, uint64_t value)
{
    head.fields[field] = value;
    return with(head);
}

static void parts_of_a_bucket_come_back_as_they_were(void **state)
{
    (void)state;
    const psr_span span = {(size_t)1 << 40, 77};
    psr_message message = with(psr_msg_init_head(&(psr_msg_init){3, 7, span, 2}));
    psr_msg_init init;
    expect_ok(psr_msg_init_read(&message, &init));
    assert_int_equal(init.bucket, 3);
    assert_int_equal(init.step, 7);
    assert_memory_equal(&init.span, &span, sizeof span);
    assert_int_equal(init.section, 2);
    assert_int_equal(psr_msg_step(&message.head), 7);

    message = with(psr_msg_push_head(&(psr_msg_push){0, UINT64_MAX, span, true}));
    psr_msg_push push;
    expect_ok(psr_msg_push_read(&message, &push));
    assert_int_equal(push.bucket, 0);
    assert_true(push.step == UINT64_MAX);
    assert_memory_equal(&push.span, &span, sizeof span);
    assert_true(push.answer);

    message = with(psr_msg_pull_head(&(psr_msg_pull){UINT32_MAX - 1, 9, span, UINT64_MAX}));
    psr_msg_pull pull;
    expect_ok(psr_msg_pull_read(&message, &pull));
    assert_int_equal(pull.bucket, UINT32_MAX - 1);
    assert_int_equal(pull.step, 9);
    assert_memory_equal(&pull.span, &span, sizeof span);
    assert_true(pull.taken == UINT64_MAX);

    message =
        with(psr_msg_weights_head(&(psr_msg_weights){1, 2, span, UINT64_MAX - 1, UINT64_MAX}));
    psr_msg_weights weights;
    expect_ok(psr_msg_weights_read(&message, &weights));
    assert_int_equal(weights.bucket, 1);
    assert_int_equal(weights.step, 2);
    assert_memory_equal(&weights.span, &span, sizeof span);
    assert_true(weights.staleness == UINT64_MAX - 1);
    assert_true(weights.received == UINT64_MAX);

    message = with(psr_msg_ring_head(&(psr_msg_ring){4, 5, span, PSR_RING_GATHER, 6, UINT32_MAX}));
    psr_msg_ring ring;
    expect_ok(psr_msg_ring_read(&message, &ring));
    assert_int_equal(ring.bucket, 4);
    assert_int_equal(ring.step, 5);
    assert_memory_equal(&ring.span, &span, sizeof span);
    assert_int_equal(ring.phase, PSR_RING_GATHER);
    assert_int_equal(ring.chunk, 6);
    assert_int_equal(ring.hop, UINT32_MAX);
}

static void what_members_say_comes_back_as_it_was(void **state)
{
    (void)state;
    const psr_span span = {64, 8};
    psr_message message =
        with(psr_msg_checkpoint_head(&(psr_msg_piece){20, PSR_SECTION_RANK(3), span}));
    psr_msg_piece piece;
    assert_int_equal(message.head.type, PSR_MSG_CHECKPOINT);
    expect_ok(psr_msg_piece_read(&message, &piece));
    assert_int_equal(piece.steps, 20);
    assert_int_equal(piece.section, PSR_SECTION_RANK(3));
    assert_memory_equal(&piece.span, &span, sizeof span);
    assert_int_equal(psr_msg_restore_head(&piece).type, PSR_MSG_RESTORE);

    const psr_msg_progress doing = {8,    3, PSR_PHASE_SHUTDOWN, 99, true, {PSR_ROLE_SHARD, 4},
                                    true, 30};
    message = with(psr_msg_progress_head(&doing));
    psr_msg_progress progress;
    expect_ok(psr_msg_progress_read(&message, &limits, &progress));
    assert_int_equal(progress.step, 8);
    assert_int_equal(progress.bucket, 3);
    assert_int_equal(progress.phase, PSR_PHASE_SHUTDOWN);
    assert_int_equal(progress.counter, 99);
    assert_true(progress.waits && psr_peer_equal(progress.waits_for, doing.waits_for));
    assert_true(progress.evaluates);
    assert_int_equal(progress.counted, 30);

    message = with(psr_msg_done_head(&(psr_msg_done){20, true}));
    psr_msg_done done;
    expect_ok(psr_msg_done_read(&message, &limits, &done));
    assert_int_equal(done.steps, 20);
    assert_true(done.left_out);

    uint64_t number = 0;
    bool wanted = false;
    message = with(psr_msg_ack_head(41));
    expect_ok(psr_msg_ack_read(&message, &number));
    assert_int_equal(number, 41);
    message = with(psr_msg_held_head(42));
    expect_ok(psr_msg_held_read(&message, &limits, &number));
    assert_int_equal(number, 42);
    message = with(psr_msg_stop_at_head(43));
    expect_ok(psr_msg_stop_at_read(&message, &number));
    assert_int_equal(number, 43);
    message = with(psr_msg_saved_head(44));
    expect_ok(psr_msg_saved_read(&message, &number));
    assert_int_equal(number, 44);
    message = with(psr_msg_hold_head(true));
    expect_ok(psr_msg_hold_read(&message, &wanted));
    assert_true(wanted);
    wanted = false;
    message = with(psr_msg_view_head(&(psr_msg_view){2, 45}));
    psr_msg_view view;
    expect_ok(psr_msg_view_read(&message, &view));
    assert_int_equal(view.epoch, 2);
    assert_int_equal(view.first_step, 45);
    message = with(psr_msg_bound_head(&(psr_msg_bound){3, 46}));
    psr_msg_bound bound;
    expect_ok(psr_msg_bound_read(&message, &limits, &bound));
    assert_int_equal(bound.epoch, 3);
    assert_int_equal(bound.pause_us, 46);
    message = with(psr_msg_alive_head(true));
    expect_ok(psr_msg_alive_read(&message, &wanted));
    assert_true(wanted);
}

static void heads_of_traces_say_what_they_were_given(void **state)
{
    (void)state;
    psr_message message = with(psr_msg_clock_head(&(psr_msg_clock){3, UINT64_MAX}));
    psr_msg_clock clock;
    expect_ok(psr_msg_clock_read(&message, &clock));
    assert_int_equal(clock.number, 3);
    assert_true(clock.machine == UINT64_MAX);
    message = with(psr_msg_clocked_head(&(psr_msg_clocked){3, 500, true, 7}));
    psr_msg_clocked clocked;
    expect_ok(psr_msg_clocked_read(&message, &clocked));
    assert_int_equal(clocked.number, 3);
    assert_int_equal(clocked.stamp_ns, 500);
    assert_true(clocked.same_machine);
    assert_int_equal(clocked.skipped_ns, 7);
    const psr_msg_trace told = {5, 6, {1, -2, 3}, {4, PSR_TRACE_NS_MAX, 0}};
    message = with(psr_msg_trace_head(&told));
    psr_msg_trace trace;
    expect_ok(psr_msg_trace_read(&message, &trace));
    assert_memory_equal(&trace, &told, sizeof told);
}

#define REFUSED(read, type, head, field, value, text)                                              \
    do {                                                                                           \
        psr_message message_ = changed(head, field, value);                                        \
        type ret_, before_;                                                                        \
        memset(&ret_, 0x5a, sizeof ret_);                                                          \
        memcpy(&before_, &ret_, sizeof ret_);                                                      \
        assert_int_equal(read(&message_, &ret_), PSR_ERR_PROTOCOL);                                \
        assert_non_null(strstr(psr_err_detail(), text));                                           \
        assert_memory_equal(&ret_, &before_, sizeof ret_);                                         \
    } while (0)

static void expect_words(psr_err err, const char *words)
{
    assert_int_equal(err, PSR_ERR_PROTOCOL);
    assert_non_null(strstr(psr_err_detail(), words));
}

static psr_err read_progress(const psr_message *message, psr_msg_progress *ret_progress)
{
    return psr_msg_progress_read(message, &limits, ret_progress);
}

static psr_err read_done(const psr_message *message, psr_msg_done *ret_done)
{
    return psr_msg_done_read(message, &limits, ret_done);
}

static psr_err read_bound(const psr_message *message, psr_msg_bound *ret_bound)
{
    return psr_msg_bound_read(message, &limits, ret_bound);
}

static psr_err read_unsealed(const psr_message *message, psr_msg_unsealed *ret_unsealed)
{
    return psr_msg_unsealed_read(message, &limits, ret_unsealed);
}

static psr_err read_held(const psr_message *message, uint64_t *ret_step)
{
    return psr_msg_held_read(message, &limits, ret_step);
}

static void a_field_beyond_what_it_may_be_is_refused_by_its_name(void **state)
{
    (void)state;
    const uint64_t wide = (uint64_t)UINT32_MAX + 1;
    psr_head init = psr_msg_init_head(&(psr_msg_init){0}),
             push = psr_msg_push_head(&(psr_msg_push){0});
    psr_head ring = psr_msg_ring_head(&(psr_msg_ring){0});
    psr_head progress = psr_msg_progress_head(&(psr_msg_progress){.waits = true});
    psr_head done = psr_msg_done_head(&(psr_msg_done){0}), alive = psr_msg_alive_head(false);
    psr_head piece = psr_msg_checkpoint_head(&(psr_msg_piece){0});
    REFUSED(psr_msg_init_read, psr_msg_init, init, 2, wide,
            "its section is 4294967296: 4294967295 is the most");
    REFUSED(psr_msg_push_read, psr_msg_push, push, 2, 2, "its answer is 2: 1 is the most");
    REFUSED(psr_msg_ring_read, psr_msg_ring, ring, 2, 2, "its phase is 2: 1 is the most");
    REFUSED(psr_msg_ring_read, psr_msg_ring, ring, 3, wide, "its chunk is 4294967296");
    REFUSED(psr_msg_ring_read, psr_msg_ring, ring, 4, UINT64_MAX,
            "its hop is 18446744073709551615");
    REFUSED(read_progress, psr_msg_progress, progress, 0, 13, "its phase is 13: 12 is the most");
    REFUSED(read_progress, psr_msg_progress, progress, 2, 2, "its waits is 2");
    REFUSED(read_progress, psr_msg_progress, progress, 3, 3, "its role is 3: 2 is the most");
    REFUSED(read_progress, psr_msg_progress, progress, 4, wide, "there is no scheduler 4294967296");
    REFUSED(read_progress, psr_msg_progress, progress, 5, 2, "its evaluates is 2");
    REFUSED(read_done, psr_msg_done, done, 1, 2, "its left_out is 2");
    REFUSED(psr_msg_alive_read, bool, alive, 0, 2, "its report_wanted is 2");
    REFUSED(psr_msg_piece_read, psr_msg_piece, piece, 3, wide, "its section is 4294967296");
}

static void a_tag_of_another_view_or_of_no_bucket_is_refused(void **state)
{
    (void)state;
    psr_msg_push push;
    psr_message message = with(psr_msg_push_head(&(psr_msg_push){0}));
    message.head.tag.epoch = 3;
    assert_int_equal(psr_msg_push_read(&message, &push), PSR_ERR_PROTOCOL);
    assert_non_null(strstr(psr_err_detail(), "its epoch is 3: 0 is the most"));
    message = with(psr_msg_push_head(&(psr_msg_push){0}));
    message.head.tag.group = 1;
    assert_int_equal(psr_msg_push_read(&message, &push), PSR_ERR_PROTOCOL);
    assert_non_null(strstr(psr_err_detail(), "its group is 1"));
    message = with(psr_msg_push_head(&(psr_msg_push){0}));
    message.head.tag.slot = 0;
    assert_int_equal(psr_msg_push_read(&message, &push), PSR_ERR_PROTOCOL);
    assert_non_null(strstr(psr_err_detail(), "its slot is 0, which is no bucket's"));
}

static psr_head progress_of(psr_role role, uint32_t rank, uint64_t step, uint32_t bucket)
{
    return psr_msg_progress_head(&(psr_msg_progress){
        .step = step, .bucket = bucket, .waits = true, .waits_for = {role, rank}, .counted = 30});
}

/* The last that there is is told, and the next one is refused. */
static void what_a_member_tells_is_held_against_what_there_is(void **state)
{
    (void)state;
    psr_msg_progress progress;
    psr_message message = with(progress_of(PSR_ROLE_WORKER, 7, 43, 3));
    const psr_head last = message.head;
    expect_ok(psr_msg_progress_read(&message, &limits, &progress));
    REFUSED(read_progress, psr_msg_progress, last, 4, 8, "there is no worker 8");
    REFUSED(read_progress, psr_msg_progress, last, 4, UINT32_MAX - 15,
            "there is no worker 4294967280");
    REFUSED(read_progress, psr_msg_progress, last, 6, 31, "its counted is 31: 30 is the most");
    REFUSED(read_progress, psr_msg_progress, progress_of(PSR_ROLE_SHARD, 4, 0, 0), 4, 5,
            "there is no shard 5");
    REFUSED(read_progress, psr_msg_progress, progress_of(PSR_ROLE_SCHEDULER, 0, 0, 0), 4, 1,
            "there is no scheduler 1");
    message = with(progress_of(PSR_ROLE_WORKER, 0, 44, 0));
    expect_words(psr_msg_progress_read(&message, &limits, &progress),
                 "its wire step is 44: 43 is the most");
    message = with(progress_of(PSR_ROLE_WORKER, 0, 0, 4));
    expect_words(psr_msg_progress_read(&message, &limits, &progress),
                 "its bucket is 4, and there are 4");
    message = with(progress_of(PSR_ROLE_WORKER, 0, 0, 0));
    expect_ok(
        psr_msg_progress_read(&message, &(psr_msg_limits){.workers = 1, .samples = 30}, &progress));
    REFUSED(read_done, psr_msg_done, psr_msg_done_head(&(psr_msg_done){0}), 0, 44,
            "its steps is 44: 43 is the most");
    REFUSED(read_bound, psr_msg_bound, psr_msg_bound_head(&(psr_msg_bound){1, 2}), 0, 4,
            "its epoch is 4: 3 is the most");
    const psr_head unsealed =
        psr_msg_unsealed_head(&(psr_msg_unsealed){{PSR_ROLE_WORKER, 0}, 4242, 5});
    REFUSED(read_unsealed, psr_msg_unsealed, unsealed, 0, 3, "its role is 3: 2 is the most");
    REFUSED(read_unsealed, psr_msg_unsealed, unsealed, 1, 1000, "there is no worker 1000");
    REFUSED(read_unsealed, psr_msg_unsealed, unsealed, 2, 65536, "its port is 65536");
    REFUSED(read_unsealed, psr_msg_unsealed, unsealed, 3, UINT64_MAX, "its waited_ms is");
    REFUSED(read_held, uint64_t, psr_msg_held_head(42), 0, 43, "its step is 43, and there are 43");
    REFUSED(psr_msg_clocked_read, psr_msg_clocked, psr_msg_clocked_head(&(psr_msg_clocked){0}), 1,
            UINT64_MAX, "its stamp is 18446744073709551615");
    REFUSED(psr_msg_trace_read, psr_msg_trace, psr_msg_trace_head(&(psr_msg_trace){0}), 3,
            UINT64_MAX, "its offset is 18446744073709551615");
    REFUSED(psr_msg_trace_read, psr_msg_trace, psr_msg_trace_head(&(psr_msg_trace){0}), 7,
            UINT64_MAX, "its error_at_end is 18446744073709551615");
}

/* Nobody adds an offset and a count of a checkpoint that have no sum. */
static void a_piece_of_a_checkpoint_has_an_end(void **state)
{
    (void)state;
    const psr_head last = psr_msg_checkpoint_head(&(psr_msg_piece){.span = {SIZE_MAX - 4, 4}});
    psr_message message = with(last);
    psr_msg_piece piece;
    expect_ok(psr_msg_piece_read(&message, &piece));
    REFUSED(psr_msg_piece_read, psr_msg_piece, last, 1, 5, "no section is as long");
}

static void a_failure_without_a_status_that_there_is_counts_as_a_peers(void **state)
{
    (void)state;
    psr_message message = with(psr_msg_failed_head(PSR_ERR_NUMERIC));
    assert_int_equal(psr_msg_failed_status(&message), PSR_ERR_NUMERIC);
    message = with(psr_msg_failed_head(PSR_OK));
    assert_int_equal(psr_msg_failed_status(&message), PSR_ERR_PEER);
    message = changed(psr_msg_failed_head(PSR_OK), 0, UINT64_MAX);
    assert_int_equal(psr_msg_failed_status(&message), PSR_ERR_PEER);
}

static void how_a_communicator_fails_comes_back_as_it_was(void **state)
{
    (void)state;
    const psr_msg_failure said = {.status = PSR_ERR_BUSY,
                                  .scope = PSR_SCOPE_LOST,
                                  .epoch = 3,
                                  .group = 12,
                                  .rank = 7,
                                  .other = PSR_RANK_ANY,
                                  .number = UINT64_MAX,
                                  .within_ms = PSR_MSG_WITHIN_MS_MAX};
    const psr_head heads[] = {psr_msg_finding_head(&said), psr_msg_verdict_head(&said)};
    for (size_t i = 0; i < 2; i++) {
        psr_message message = with(heads[i]);
        psr_msg_failure failure;
        assert_int_equal(message.head.type, i == 0 ? PSR_MSG_FINDING : PSR_MSG_VERDICT);
        expect_ok(psr_msg_failure_read(&message, &limits, &failure));
        assert_true(failure.status == said.status && failure.rank == said.rank &&
                    failure.other == said.other);
        assert_true(failure.number == said.number && failure.within_ms == said.within_ms);
        assert_true(failure.scope == said.scope && failure.epoch == said.epoch &&
                    failure.group == said.group);
        for (size_t field = 0; field < 6; field++) { /* all but the number have an end */
            message = changed(heads[i], field, UINT64_MAX);
            assert_int_equal(psr_msg_failure_read(&message, &limits, &failure),
                             field == 3 ? PSR_OK : PSR_ERR_PROTOCOL);
        }
        for (size_t field = 1; field < 3; field++) { /* either rank */
            message = changed(heads[i], field, 8);
            expect_words(psr_msg_failure_read(&message, &limits, &failure), "there is no worker 8");
        }
        message = changed(heads[i], 1, PSR_RANK_ANY); /* of a rank */
        expect_words(psr_msg_failure_read(&message, &limits, &failure),
                     "there is no worker 4294967295");
        message.head.fields[5] = PSR_SCOPE_ALL;
        expect_ok(psr_msg_failure_read(&message, &limits, &failure));
        message = with(psr_msg_in_group(heads[i], 4, 12));
        expect_words(psr_msg_failure_read(&message, &limits, &failure),
                     "its epoch is 4: 3 is the most");
    }
}

static void what_is_said_of_a_smaller_group_comes_back_as_it_was(void **state)
{
    (void)state;
    const psr_msg_shrink wish = {.epoch = 3, .group = 12, .within_ms = PSR_MSG_WITHIN_MS_MAX};
    const psr_msg_shrunk answer = {.epoch = 3,
                                   .group = 12,
                                   .status = PSR_ERR_BUSY,
                                   .rank = UINT32_MAX,
                                   .new_epoch = UINT32_MAX};
    psr_msg_shrink wish_read;
    psr_msg_shrunk answer_read;
    psr_message message = with(psr_msg_shrink_head(&wish));
    expect_ok(psr_msg_shrink_read(&message, &limits, &wish_read));
    assert_true(wish_read.epoch == wish.epoch && wish_read.group == wish.group &&
                wish_read.within_ms == wish.within_ms);
    message = changed(psr_msg_shrink_head(&wish), 0, UINT64_MAX);
    assert_int_equal(psr_msg_shrink_read(&message, &limits, &wish_read), PSR_ERR_PROTOCOL);
    message = with(psr_msg_in_group(psr_msg_shrink_head(&wish), 4, 12));
    expect_words(psr_msg_shrink_read(&message, &limits, &wish_read),
                 "its epoch is 4: 3 is the most");
    /* is said as the most that there is */
    const psr_msg_shrink for_ever = {.within_ms = INT64_MAX};
    message = with(psr_msg_shrink_head(&for_ever));
    expect_ok(psr_msg_shrink_read(&message, &limits, &wish_read));
    assert_int_equal(wish_read.within_ms, PSR_MSG_WITHIN_MS_MAX);
    message = with(psr_msg_shrunk_head(&answer));
    expect_ok(psr_msg_shrunk_read(&message, &limits, &answer_read));
    assert_true(answer_read.epoch == answer.epoch && answer_read.group == answer.group &&
                answer_read.status == answer.status && answer_read.rank == answer.rank &&
                answer_read.new_epoch == answer.new_epoch);
    for (size_t field = 0; field < 3; field++) {
        message = changed(psr_msg_shrunk_head(&answer), field, UINT64_MAX);
        assert_int_equal(psr_msg_shrunk_read(&message, &limits, &answer_read), PSR_ERR_PROTOCOL);
    }
}

static psr_err read_ranks(const uint32_t *ranks, uint32_t count, size_t bytes, uint32_t limit,
                          uint32_t **ret_ranks, uint32_t *ret_count)
{
    uint8_t payload[64];
    psr_msg_rank_list_write(ranks, count, payload);
    psr_message message = with((psr_head){.type = PSR_MSG_SHRINK});
    message.payload = payload;
    message.payload_bytes = bytes;
    return psr_msg_rank_list_read(&message, limit, ret_ranks, ret_count);
}

static void a_list_of_ranks_has_each_once_and_none_that_there_is_not(void **state)
{
    (void)state;
    static const uint32_t ranks[] = {7, 0, 1000000}, twice[] = {4, 5, 4};
    uint32_t *read = NULL, count = 0;
    expect_ok(read_ranks(ranks, 3, 12, 1000001, &read, &count));
    assert_int_equal(count, 3);
    assert_memory_equal(read, ranks, sizeof ranks);
    free(read);
    read = NULL;
    assert_int_equal(read_ranks(ranks, 3, 12, 1000000, &read, &count), PSR_ERR_PROTOCOL);
    assert_int_equal(read_ranks(ranks, 3, 11, 1000001, &read, &count), PSR_ERR_PROTOCOL);
    assert_int_equal(read_ranks(ranks, 3, 0, 1000001, &read, &count), PSR_ERR_PROTOCOL);
    /* more than there are */
    assert_int_equal(read_ranks(ranks, 3, 12, 2, &read, &count), PSR_ERR_PROTOCOL);
    assert_int_equal(read_ranks(twice, 3, 12, 9, &read, &count), PSR_ERR_PROTOCOL);
    assert_null(read);
}

static bool same_tag(psr_tag a, psr_tag b)
{
    return a.epoch == b.epoch && a.group == b.group && a.slot == b.slot && a.round == b.round;
}

static void what_operations_of_a_group_say_comes_back_as_it_was(void **state)
{
    (void)state;
    const psr_tag tag = {1, 2, UINT32_MAX, UINT64_MAX};
    const psr_msg_call call = {UINT64_MAX - 1, UINT32_MAX, (uint64_t)1 << 40};
    const psr_msg_call before = {UINT64_MAX - 5, UINT32_MAX - 1, UINT64_MAX};
    psr_message message =
        with(psr_msg_values_head(&(psr_msg_values){tag, call, 77, UINT64_MAX - 2, before}));
    psr_msg_values values;
    expect_ok(psr_msg_values_read(&message, &values));
    assert_true(same_tag(values.tag, tag));
    assert_true(values.call.word == call.word && values.call.root == call.root &&
                values.call.count == call.count);
    assert_int_equal(values.total, 77);
    assert_true(values.slice == UINT64_MAX - 2);
    assert_true(values.before.word == before.word && values.before.root == before.root &&
                values.before.count == before.count);
    assert_true(same_tag(psr_msg_tag(&message), tag));
    message = changed(message.head, 1, (uint64_t)UINT32_MAX + 1);
    expect_failure(
        psr_msg_values_read(&message, &values), PSR_ERR_PROTOCOL,
        "worker 1 sent VALUES (group 2, slot 4294967295, round 18446744073709551615, call "
        "18446744073709551614, root 4294967296, count 1099511627776, total 77, slice "
        "18446744073709551613, before 18446744073709551610, before_root 4294967294, before_count "
        "18446744073709551615): its root is 4294967296: 4294967295 is the most");
    message = changed(message.head, 1, 0);
    message = changed(message.head, 6, (uint64_t)UINT32_MAX + 1);
    assert_int_equal(psr_msg_values_read(&message, &values), PSR_ERR_PROTOCOL);
    assert_non_null(
        strstr(psr_err_detail(), "its before_root is 4294967296: 4294967295 is the most"));

    message = with(psr_msg_credit_head(&(psr_msg_credit){tag, call, 9, UINT64_MAX - 4}));
    psr_msg_credit credit;
    expect_ok(psr_msg_credit_read(&message, &credit));
    assert_true(same_tag(credit.tag, tag));
    assert_true(credit.call.word == call.word && credit.call.root == call.root &&
                credit.call.count == call.count);
    assert_int_equal(credit.slices, 9);
    assert_true(credit.offer == UINT64_MAX - 4);

    message = with(psr_msg_offer_head(&(psr_msg_offer){tag, call}));
    psr_msg_offer offer;
    expect_ok(psr_msg_offer_read(&message, &offer));
    assert_true(same_tag(offer.tag, tag) && psr_call_same(&offer.call, &call));
    message = with(psr_msg_listen_head(1, 2));
    assert_true(same_tag(psr_msg_tag(&message), (psr_tag){.epoch = 1, .group = 2}));

    message = with(psr_msg_ahead_head(&(psr_msg_ahead){tag, 10}));
    psr_msg_ahead ahead;
    expect_ok(psr_msg_ahead_read(&message, &ahead));
    assert_true(same_tag(ahead.tag, tag));
    assert_int_equal(ahead.operations, 10);
}

static void what_probes_say_comes_back_as_it_was(void **state)
{
    (void)state;
    const psr_message probe = with(psr_msg_probe_head(UINT64_MAX)),
                      probed = with(psr_msg_probed_head(7));
    assert_int_equal(probe.head.type, PSR_MSG_PROBE);
    assert_true(psr_msg_probe_number(&probe) == UINT64_MAX);
    assert_int_equal(probed.head.type, PSR_MSG_PROBED);
    assert_int_equal(psr_msg_probe_number(&probed), 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_of_a_bucket_come_back_as_they_were),
        cmocka_unit_test(what_members_say_comes_back_as_it_was),
        cmocka_unit_test(heads_of_traces_say_what_they_were_given),
        cmocka_unit_test(how_a_communicator_fails_comes_back_as_it_was),
        cmocka_unit_test(what_is_said_of_a_smaller_group_comes_back_as_it_was),
        cmocka_unit_test(a_list_of_ranks_has_each_once_and_none_that_there_is_not),
        cmocka_unit_test(what_operations_of_a_group_say_comes_back_as_it_was),
        cmocka_unit_test(what_probes_say_comes_back_as_it_was),
        cmocka_unit_test(a_field_beyond_what_it_may_be_is_refused_by_its_name),
        cmocka_unit_test(what_a_member_tells_is_held_against_what_there_is),
        cmocka_unit_test(a_piece_of_a_checkpoint_has_an_end),
        cmocka_unit_test(a_tag_of_another_view_or_of_no_bucket_is_refused),
        cmocka_unit_test(a_failure_without_a_status_that_there_is_counts_as_a_peers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
