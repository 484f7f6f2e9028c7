/* What a tracer records of what it hears, what it sends, and how it reads the scheduler's clock.
 * Stamps are the test's. */
#include "tests/unit/expect.h"

#include "comm/trace/tracer.h"

#include "base/clock.h"

#include <stdlib.h>
#include <string.h>

enum { SENT_MAX = 64 };

typedef struct played {
    psr_tracer *tracer;
    psr_head sent[SENT_MAX];
    uint8_t bytes[SENT_MAX][PSR_TRACE_EVENTS_PER_MESSAGE * PSR_TRACE_EVENT_BYTES];
    size_t sizes[SENT_MAX];
    size_t count;
    int64_t now_ns;
} played;

static const psr_peer scheduler = {PSR_ROLE_SCHEDULER, 0}, shard = {PSR_ROLE_SHARD, 1};
static const psr_msg_limits limits = {.workers = 2, .shards = 2, .buckets = 4, .steps = 100};

static void tell(played *p, psr_observed observed, int64_t stamp_ns)
{
    const psr_observer *observer = psr_tracer_observer(p->tracer);
    observed.stamp_ns = stamp_ns;
    observer->see(observer->context, &observed);
}

/* As the loop does: what is sent is observed. */
static psr_err send(void *context, psr_peer to, const psr_head *head, const psr_payload *payload)
{
    played *p = context;
    assert_true(p->count < SENT_MAX && psr_peer_equal(to, scheduler));
    tell(p, psr_observed_message(PSR_OBSERVED_OUT, to, head, 0), p->now_ns);
    p->sent[p->count] = *head;
    p->sizes[p->count] = payload != NULL ? payload->bytes : 0;
    if (payload != NULL)
        memcpy(p->bytes[p->count], payload->data, payload->bytes);
    p->count++;
    return PSR_OK;
}

static psr_outbox outbox_of(played *p)
{
    return (psr_outbox){.context = p, .send = send};
}

static played *begin(uint64_t first, uint64_t count, uint64_t max)
{
    played *p = calloc(1, sizeof *p);
    assert_non_null(p);
    const psr_tracer_options options = {first, count, max, max};
    expect_ok(psr_tracer_new(&options, &p->tracer));
    return p;
}

static void end(played *p)
{
    psr_tracer_free(p->tracer);
    free(p);
}

/* The scheduler's clock is ahead by offset_ns, and the round trip takes round_ns. */
static void answer(played *p, int64_t offset_ns, int64_t round_ns, bool same_machine)
{
    const psr_outbox outbox = outbox_of(p);
    const psr_msg_clocked says = {.number = p->sent[p->count - 1].fields[0],
                                  .stamp_ns = p->now_ns + round_ns / 2 + offset_ns,
                                  .same_machine = same_machine};
    psr_message message = {.from = scheduler, .head = psr_msg_clocked_head(&says)};
    p->now_ns += round_ns;
    tell(p, psr_observed_message(PSR_OBSERVED_IN, scheduler, &message.head, 0), p->now_ns);
    expect_ok(psr_tracer_clocked(p->tracer, &message, &outbox));
}

static void answer_all(played *p, int64_t offset_ns)
{
    for (int i = 0; i < PSR_TRACE_CLOCKS; i++)
        answer(p, offset_ns, i == 3 ? 100 : 1000, false);
}

static psr_message piece(const played *p, size_t i)
{
    return (psr_message){.from = {PSR_ROLE_WORKER, 0},
                         .head = p->sent[i],
                         .payload = p->bytes[i],
                         .payload_bytes = p->sizes[i]};
}

static psr_trace_event event_at(const played *p, size_t i, size_t at)
{
    psr_trace_event event;
    const psr_message message = piece(p, i);
    expect_ok(psr_trace_event_read(&message, at, &limits, 10, &event));
    return event;
}

static void send_all(played *p)
{
    const psr_outbox outbox = outbox_of(p);
    expect_ok(psr_tracer_begin(p->tracer, &outbox));
    answer_all(p, 5000);
    expect_ok(psr_tracer_end(p->tracer, &outbox));
    answer_all(p, 5000);
    assert_true(psr_tracer_sent(p->tracer));
}

static psr_observed message_of(psr_observed_kind kind, uint64_t step, uint32_t bucket)
{
    const psr_head head = psr_msg_push_head(&(psr_msg_push){bucket, step, {64, 8}, true});
    return psr_observed_message(kind, shard, &head, 32);
}

static void spans_are_made_of_what_is_heard(void **state)
{
    (void)state;
    played *p = begin(7, 1, 100);
    tell(p, (psr_observed){.kind = PSR_OBSERVED_BEGIN, .bucket = 2, .step = 7}, 1000);
    tell(p, message_of(PSR_OBSERVED_OUT, 7, 2), 1100);
    tell(p, (psr_observed){.kind = PSR_OBSERVED_SENT}, 1150);
    tell(p, message_of(PSR_OBSERVED_IN, 7, 2), 1200);
    tell(p, (psr_observed){.kind = PSR_OBSERVED_FOLDS, .bucket = 2, .step = 7}, 1210);
    tell(p, (psr_observed){.kind = PSR_OBSERVED_FOLDED, .bucket = 2, .step = 7}, 1260);
    tell(p, (psr_observed){.kind = PSR_OBSERVED_TAKEN}, 1300);
    tell(p, (psr_observed){.kind = PSR_OBSERVED_LANDED, .bucket = 2, .step = 7}, 1400);
    psr_tracer_span(p->tracer, PSR_TRACE_LAYER, 7, 3, 2, 900, 990);
    send_all(p);

    const size_t first = 2 * PSR_TRACE_CLOCKS;
    assert_int_equal(p->count, first + 2); /* a piece for each thread */
    psr_trace_event e = event_at(p, first, 0);
    assert_int_equal(e.kind, PSR_TRACE_LAYER);
    assert_int_equal(e.index, 3);
    assert_int_equal(e.count, 2);
    assert_int_equal(e.begin_ns, 900);
    assert_int_equal(e.duration_ns, 90);
    static const struct {
        psr_trace_kind kind;
        int64_t begin_ns, duration_ns;
    } heard[] = {{PSR_TRACE_BEGIN, 1000, 0},
                 {PSR_TRACE_OUT, 1100, 50},
                 {PSR_TRACE_IN, 1200, 100},
                 {PSR_TRACE_FOLD, 1210, 50},
                 {PSR_TRACE_LANDED, 1400, 0}};
    assert_int_equal(p->sizes[first + 1], 5 * PSR_TRACE_EVENT_BYTES);
    for (size_t i = 0; i < 5; i++) {
        e = event_at(p, first + 1, i);
        assert_int_equal(e.kind, heard[i].kind);
        assert_int_equal(e.begin_ns, heard[i].begin_ns);
        assert_int_equal(e.duration_ns, heard[i].duration_ns);
        assert_int_equal(e.index, 2);
    }
    e = event_at(p, first + 1, 1);
    assert_int_equal(e.type, PSR_MSG_PUSH);
    assert_true(psr_peer_equal(e.peer, shard));
    assert_int_equal(e.bytes, 32);
    assert_int_equal(e.part, 64);
    end(p);
}

static void other_steps_are_not_recorded(void **state)
{
    (void)state;
    played *p = begin(7, 2, 100);
    for (uint64_t step = 5; step < 12; step++) {
        tell(p, message_of(PSR_OBSERVED_OUT, step, 0), (int64_t)step);
        tell(p, (psr_observed){.kind = PSR_OBSERVED_SENT}, (int64_t)step);
        psr_tracer_span(p->tracer, PSR_TRACE_STEP, step, 0, 0, 1, 2);
    }
    send_all(p);
    assert_int_equal(p->sizes[2 * PSR_TRACE_CLOCKS], 2 * PSR_TRACE_EVENT_BYTES);
    assert_int_equal(p->sizes[2 * PSR_TRACE_CLOCKS + 1], 2 * PSR_TRACE_EVENT_BYTES);
    assert_int_equal(event_at(p, 2 * PSR_TRACE_CLOCKS + 1, 0).step, 7);
    end(p);
}

static void what_does_not_fit_is_counted(void **state)
{
    (void)state;
    played *p = begin(0, 1, 3);
    for (uint32_t i = 0; i < 5; i++) {
        tell(p, message_of(PSR_OBSERVED_OUT, 0, 0), i);
        tell(p, (psr_observed){.kind = PSR_OBSERVED_SENT}, i + 1);
        psr_tracer_span(p->tracer, PSR_TRACE_LAYER, 0, i, 1, i, i + 1);
    }
    send_all(p);
    psr_msg_trace says;
    const psr_message message = piece(p, p->count - 1);
    expect_ok(psr_msg_trace_read(&message, &says));
    assert_int_equal(says.left, 0);
    assert_int_equal(says.dropped, 4);
    end(p);
}

static void pieces_are_bounded_and_say_what_is_left(void **state)
{
    (void)state;
    const uint64_t events = 2 * PSR_TRACE_EVENTS_PER_MESSAGE + 5;
    played *p = begin(0, 1, events);
    for (uint64_t i = 0; i < events; i++) /* the last first: they are sorted */
        psr_tracer_span(p->tracer, PSR_TRACE_LAYER, 0, 1, 1, (int64_t)(events - i),
                        (int64_t)(events - i) + 1);
    send_all(p);
    uint64_t left = events;
    int64_t last_ns = 0;
    for (size_t i = 2 * PSR_TRACE_CLOCKS; i < p->count; i++) {
        psr_msg_trace says;
        size_t count = 0;
        const psr_message message = piece(p, i);
        expect_ok(psr_trace_events_in(&message, &count));
        expect_ok(psr_msg_trace_read(&message, &says));
        left -= count;
        assert_int_equal(says.left, left);
        for (size_t at = 0; at < count; at++) {
            assert_true(event_at(p, i, at).begin_ns > last_ns);
            last_ns = event_at(p, i, at).begin_ns;
        }
    }
    assert_int_equal(left, 0);
    end(p);
}

static void one_empty_piece_says_that_nothing_was_recorded(void **state)
{
    (void)state;
    played *p = begin(0, 1, 3);
    send_all(p);
    assert_int_equal(p->count, 2 * PSR_TRACE_CLOCKS + 1);
    assert_int_equal(p->sizes[p->count - 1], 0);
    end(p);
}

/* The shortest round trip counts, and half of it is the error. */
static void the_clock_is_read_at_both_ends(void **state)
{
    (void)state;
    played *p = begin(0, 1, 3);
    const psr_outbox outbox = outbox_of(p);
    p->now_ns = 1000000;
    expect_ok(psr_tracer_begin(p->tracer, &outbox));
    answer_all(p, -5000);
    p->now_ns = 2000000;
    expect_ok(psr_tracer_end(p->tracer, &outbox));
    answer_all(p, -3000);
    psr_msg_trace says;
    const psr_message message = piece(p, p->count - 1);
    expect_ok(psr_msg_trace_read(&message, &says));
    assert_int_equal(says.begin.offset_ns, -5000);
    assert_int_equal(says.begin.error_ns, 51);
    assert_int_equal(says.begin.at_ns, 1000000 + 3 * 1000 + 50);
    assert_int_equal(says.end.offset_ns, -3000);
    assert_int_equal(psr_trace_offset_at(&says, says.begin.at_ns), -5000);
    assert_int_equal(psr_trace_offset_at(&says, (says.begin.at_ns + says.end.at_ns) / 2), -4000);
    assert_int_equal(psr_trace_offset_at(&says, 0), -5000);
    assert_int_equal(psr_trace_offset_at(&says, PSR_TRACE_NS_MAX), -3000);
    says.end = (psr_clock_reading){says.begin.at_ns + 1, PSR_TRACE_NS_MAX, 1}; /* a lie */
    assert_int_equal(psr_trace_offset_at(&says, PSR_TRACE_NS_MAX), PSR_TRACE_NS_MAX);
    end(p);
}

/* Two processes of one machine read one clock; but a container may have shifted its own. */
static void one_machine_has_one_clock(void **state)
{
    (void)state;
    for (int shifted = 0; shifted < 2; shifted++) {
        played *p = begin(0, 1, 3);
        const psr_outbox outbox = outbox_of(p);
        expect_ok(psr_tracer_begin(p->tracer, &outbox));
        const int64_t known_ns = psr_clock_skipped_ns(),
                      offset_ns = known_ns + (shifted ? 600 : 400);
        for (int i = 0; i < PSR_TRACE_CLOCKS; i++)
            answer(p, offset_ns, 1000, true);
        expect_ok(psr_tracer_end(p->tracer, &outbox));
        answer_all(p, 0);
        psr_msg_trace says;
        const psr_message message = piece(p, p->count - 1);
        expect_ok(psr_msg_trace_read(&message, &says));
        assert_int_equal(says.begin.offset_ns, shifted ? offset_ns : known_ns);
        assert_int_equal(says.begin.error_ns, shifted ? 501 : 0);
        end(p);
    }
}

/* A run that is stopped at once asks for both readings together. */
static void the_end_may_come_before_the_first_answers(void **state)
{
    (void)state;
    played *p = begin(0, 1, 3);
    const psr_outbox outbox = outbox_of(p);
    expect_ok(psr_tracer_end(p->tracer, &outbox)); /* nothing has begun */
    assert_int_equal(p->count, 0);
    expect_ok(psr_tracer_begin(p->tracer, &outbox));
    expect_ok(psr_tracer_end(p->tracer, &outbox));
    answer_all(p, 1);
    assert_false(psr_tracer_sent(p->tracer));
    answer_all(p, 1);
    assert_true(psr_tracer_sent(p->tracer));
    psr_message again = {.from = scheduler,
                         .head = psr_msg_clocked_head(&(psr_msg_clocked){16, 1, false, 0})};
    assert_int_equal(psr_tracer_clocked(p->tracer, &again, &outbox), PSR_ERR_PROTOCOL);
    end(p);
}

/* What a member sends may be anything. */
static void impossible_events_are_refused(void **state)
{
    (void)state;
    static const psr_trace_event good = {.kind = PSR_TRACE_OUT,
                                         .index = 3,
                                         .step = 99,
                                         .type = PSR_MSG_PUSH,
                                         .peer = {PSR_ROLE_SHARD, 1}};
    for (int i = 0; i < 8; i++) {
        psr_trace_event event = good, read;
        uint8_t bytes[PSR_TRACE_EVENT_BYTES];
        event.index += i == 1;
        event.step += i == 2;
        event.peer.rank += i == 3;
        event.begin_ns = i == 4 ? INT64_MAX : 0;
        event.duration_ns = i == 5 ? -1 : 0;
        event.kind = i == 6 ? PSR_TRACE_KINDS : event.kind;
        if (i == 7)
            event.kind = PSR_TRACE_LAYER, event.index = 10;
        psr_trace_event_write(&event, bytes);
        const psr_message message = {.from = shard,
                                     .head = {.type = PSR_MSG_TRACE},
                                     .payload = bytes,
                                     .payload_bytes = sizeof bytes};
        assert_int_equal(psr_trace_event_read(&message, 0, &limits, 10, &read),
                         i == 0 ? PSR_OK : PSR_ERR_PROTOCOL);
    }
    size_t count;
    psr_message message = {.from = shard, .head = {.type = PSR_MSG_TRACE}, .payload_bytes = 55};
    assert_int_equal(psr_trace_events_in(&message, &count), PSR_ERR_PROTOCOL);
    message.payload_bytes = (PSR_TRACE_EVENTS_PER_MESSAGE + 1) * PSR_TRACE_EVENT_BYTES;
    assert_int_equal(psr_trace_events_in(&message, &count), PSR_ERR_PROTOCOL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(spans_are_made_of_what_is_heard),
        cmocka_unit_test(other_steps_are_not_recorded),
        cmocka_unit_test(what_does_not_fit_is_counted),
        cmocka_unit_test(pieces_are_bounded_and_say_what_is_left),
        cmocka_unit_test(one_empty_piece_says_that_nothing_was_recorded),
        cmocka_unit_test(the_clock_is_read_at_both_ends),
        cmocka_unit_test(one_machine_has_one_clock),
        cmocka_unit_test(the_end_may_come_before_the_first_answers),
        cmocka_unit_test(impossible_events_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
