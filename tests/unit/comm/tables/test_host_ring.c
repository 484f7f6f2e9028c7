/* A ring over hosts by hand: what one holder sends for its host, and every message that it refuses.
 * Whole rings are played in tests/unit/cluster/. */
#include "tests/unit/expect.h"
#include "tests/unit/values_message.h"

#include "comm/tables/host_ring.h"
#include "comm/wire/messages.h"

#include <string.h>

/* Two hosts with two workers each; a bucket of four chunks of a slice, which worker 0 holds for the
 * first host and worker 2 for the second, and before it in the arena one that workers 1 and 3
 * hold. */
enum { SLICE = 16, CHUNKS = 4, LENGTH = 2 * CHUNKS * SLICE, SENT_MAX = 64 };

typedef struct fixture {
    psr_plan plan, within;
    psr_table_shard *table;
    psr_host_ring *ring;
    struct {
        psr_peer to;
        psr_head head;
        float first;
    } sent[SENT_MAX];
    uint32_t sent_count;
    psr_payload lent[SENT_MAX]; /* RING */
    uint32_t lent_count;
} fixture;

static psr_err keep_sent(void *context, psr_peer to, const psr_head *head,
                         const psr_payload *payload)
{
    fixture *f = context;
    assert_true(f->sent_count < SENT_MAX);
    f->sent[f->sent_count].to = to;
    f->sent[f->sent_count].head = *head;
    f->sent[f->sent_count++].first = payload != NULL ? *(const float *)payload->data : 0;
    if (head->type == PSR_MSG_RING)
        f->lent[f->lent_count++] = *payload;
    return PSR_OK;
}

static psr_err gathered(void *context, uint32_t slice)
{
    return psr_host_ring_gathered(((fixture *)context)->ring, slice);
}

static void set_up(fixture *f, uint32_t window)
{
    static const psr_part parts[] = {{{LENGTH / 2, LENGTH / 2}, 0}, {{0, LENGTH / 2}, 1}};
    const psr_host_ranks hosts = {2, (uint32_t[]){0, 2, 4}};
    memset(f, 0, sizeof *f);
    const psr_plan_options planned = {.route = PSR_ROUTE_HOST,
                                      .ranks = 4,
                                      .hosts = &hosts,
                                      .slice_floats = SLICE,
                                      .window = window};
    expect_ok(psr_plan_make(&planned, parts, 2, &f->plan));
    expect_ok(psr_plan_within(&f->plan, 0, &f->within));
    const psr_table_shard_options held = {.plan = &f->within,
                                          .by_host = true,
                                          .consistency = {PSR_CONSISTENCY_BSP, 0},
                                          .update = "sum",
                                          .given = true,
                                          .end = 10,
                                          .outbox = {.context = f, .send = keep_sent},
                                          .context = f,
                                          .gathered = gathered};
    expect_ok(psr_table_shard_new(&held, &f->table));
    const psr_host_ring_options options = {
        .plan = &f->plan, .table = f->table, .outbox = {.context = f, .send = keep_sent}};
    expect_ok(psr_host_ring_new(&options, &f->ring));
}

static void give_back(fixture *f)
{
    for (uint32_t i = 0; i < f->lent_count; i++)
        f->lent[i].release(f->lent[i].context);
    f->lent_count = 0;
}

static void tear_down(fixture *f)
{
    give_back(f);
    psr_host_ring_free(f->ring);
    psr_table_shard_free(f->table);
    psr_plan_done(&f->within);
    psr_plan_done(&f->plan);
}

/* ---- messages ---- */

static psr_span span_of(uint32_t chunk)
{
    return (psr_span){LENGTH / 2 + chunk * SLICE, SLICE};
}

static void push(fixture *f, uint32_t from, uint32_t chunk, uint64_t step, float value)
{
    psr_head head = psr_msg_push_head(&(psr_msg_push){0, step, span_of(chunk), true});
    psr_message *message = values_message(head, from, SLICE, value);
    expect_ok(psr_table_shard_message(f->table, &message));
}

static void push_both(fixture *f, uint32_t chunk, uint64_t step)
{
    push(f, 0, chunk, step, 1);
    push(f, 1, chunk, step, 10);
}

static psr_msg_ring says(psr_ring_phase phase, uint32_t chunk, uint32_t hop)
{
    return (psr_msg_ring){.span = span_of(chunk), .phase = phase, .chunk = chunk, .hop = hop};
}

static psr_err give_from(fixture *f, uint32_t from, psr_msg_ring ring, float value)
{
    psr_message *message = values_message(psr_msg_ring_head(&ring), from, SLICE, value);
    psr_err err = psr_host_ring_message(f->ring, &message);
    assert_null(message);
    return err;
}

static psr_err give(fixture *f, psr_msg_ring ring, float value)
{
    return give_from(f, 2, ring, value);
}

/* What was sent last of a type, and its first value. */
static float last_sent(const fixture *f, psr_message_type type, uint32_t to, psr_msg_ring *ret_ring)
{
    for (uint32_t i = f->sent_count; i-- > 0;) {
        if (f->sent[i].head.type != type || f->sent[i].to.rank != to)
            continue;
        const psr_message message = {.head = f->sent[i].head};
        if (ret_ring != NULL)
            expect_ok(psr_msg_ring_read(&message, ret_ring));
        return f->sent[i].first;
    }
    fail_msg("nothing of type %d was sent to worker %u", (int)type, to);
    return 0;
}

static void expect_sent(const fixture *f, psr_ring_phase phase, uint32_t chunk, uint32_t hop,
                        float value)
{
    psr_msg_ring ring = {0};
    assert_true(last_sent(f, PSR_MSG_RING, 2, &ring) == value);
    assert_int_equal(ring.phase, phase);
    assert_int_equal(ring.chunk, chunk);
    assert_int_equal(ring.hop, hop);
}

static void expect_refused(psr_err err, const char *why)
{
    assert_string_equal(psr_err_name(err), psr_err_name(PSR_ERR_PROTOCOL));
    if (strstr(psr_err_detail(), why) == NULL)
        fail_msg("\"%s\" lacks \"%s\"", psr_err_detail(), why);
}

/* ---- tests ---- */

/* Chunk 0 is summed as 1, 2 + 3, 0: this host has its first leg and its last. */
static void a_host_in_the_middle_of_whose_ranks_a_chunk_ends_has_two_legs(void **state)
{
    (void)state;
    fixture f;
    set_up(&f, 4);
    push_both(&f, 0, 0);
    expect_sent(&f, PSR_RING_REDUCE, 0, 0, 10);
    assert_int_equal(psr_host_ring_lent(f.ring, 0), 1);
    expect_ok(give(&f, says(PSR_RING_REDUCE, 0, 1), 110));
    expect_sent(&f, PSR_RING_GATHER, 0, 0, 111);
    assert_true(last_sent(&f, PSR_MSG_WEIGHTS, 0, NULL) == 111);
    assert_true(last_sent(&f, PSR_MSG_WEIGHTS, 1, NULL) == 111);
    give_back(&f);
    assert_int_equal(psr_host_ring_lent(f.ring, 0), 0);
    tear_down(&f);
}

/* Chunk 1 is summed as 2 + 3, 0, 1: it ends here; chunk 3 as 0, 1, 2, 3: it begins here. */
static void a_host_where_a_chunk_ends_or_begins_has_one_leg(void **state)
{
    (void)state;
    fixture f;
    set_up(&f, 4);
    push_both(&f, 1, 0);
    assert_int_equal(f.lent_count, 0);
    expect_ok(give(&f, says(PSR_RING_REDUCE, 1, 0), 100));
    expect_sent(&f, PSR_RING_GATHER, 1, 0, 111);
    push_both(&f, 3, 0);
    expect_sent(&f, PSR_RING_REDUCE, 3, 0, 11);
    expect_ok(give(&f, says(PSR_RING_GATHER, 3, 0), 1111));
    assert_true(last_sent(&f, PSR_MSG_WEIGHTS, 1, NULL) == 1111);
    assert_int_equal(f.lent_count, 2); /* the second host is the last one
                                          of the two: it goes no further */
    tear_down(&f);
}

static void what_comes_before_the_hosts_workers_have_pushed_waits(void **state)
{
    (void)state;
    fixture f;
    psr_waiting waiting;
    uint32_t bucket = 9;
    set_up(&f, 4);
    push(&f, 0, 2, 0, 1);
    expect_ok(give(&f, says(PSR_RING_REDUCE, 2, 0), 100));
    assert_int_equal(f.lent_count, 0);
    assert_false(psr_host_ring_waits(f.ring, &waiting, &bucket));
    expect_refused(give(&f, says(PSR_RING_REDUCE, 2, 0), 100),
                   "this host has its part of that sum already");
    push(&f, 1, 2, 0, 10);
    expect_sent(&f, PSR_RING_REDUCE, 2, 1, 111);
    assert_true(psr_host_ring_waits(f.ring, &waiting, &bucket));
    assert_int_equal(bucket, 0);
    assert_true(psr_peer_equal(waiting.peer, (psr_peer){PSR_ROLE_WORKER, 2}));
    tear_down(&f);
}

static void at_most_a_window_of_slices_is_begun(void **state)
{
    (void)state;
    fixture f;
    set_up(&f, 1);
    push_both(&f, 3, 0);
    push_both(&f, 0, 0);
    expect_sent(&f, PSR_RING_REDUCE, 3, 0, 11);
    assert_int_equal(f.lent_count, 1);
    expect_ok(give(&f, says(PSR_RING_GATHER, 3, 0), 1111));
    expect_sent(&f, PSR_RING_REDUCE, 0, 0, 10);
    tear_down(&f);
}

static void what_cannot_come_now_is_refused(void **state)
{
    (void)state;
    fixture f;
    set_up(&f, 4);
    psr_msg_ring other = says(PSR_RING_REDUCE, 1, 0);
    expect_refused(give_from(&f, 3, other, 0), "worker 2 speaks for that bucket");
    other.chunk = 2;
    expect_refused(give(&f, other, 0), "the slice is of chunk 1");
    other = says(PSR_RING_REDUCE, 1, 1);
    expect_refused(give(&f, other, 0), "chunk 1 does not come from there at hop 1");
    other = says(PSR_RING_GATHER, 1, 0);
    expect_refused(give(&f, other, 0), "chunk 1 does not come from there at hop 0");
    other = says(PSR_RING_GATHER, 2, 0);
    expect_refused(give(&f, other, 0), "it claims a sum to which this host has not contributed");
    other = says(PSR_RING_REDUCE, 0, 1);
    expect_refused(give(&f, other, 0), "or cannot have it yet");
    other = says(PSR_RING_REDUCE, 1, 0);
    other.step = 1;
    expect_refused(give(&f, other, 0), "the slice is at wire step 0");
    other = says(PSR_RING_REDUCE, 1, 0);
    other.span.offset++;
    expect_refused(give(&f, other, 0), "no slice of the bucket begins there");
    other = says(PSR_RING_REDUCE, 1, 0);
    other.bucket = 1;
    other.span.offset = SLICE;
    expect_refused(give_from(&f, 3, other, 0), "worker 0 does not hold that bucket");
    other.bucket = 7;
    expect_refused(give(&f, other, 0), "there are 2 buckets");
    psr_msg_ring right = says(PSR_RING_REDUCE, 1, 0);
    psr_message *message = values_message(psr_msg_ring_head(&right), 2, SLICE, 0);
    message->payload_bytes -= sizeof(float);
    expect_refused(psr_host_ring_message(f.ring, &message), "bytes");
    push_both(&f, 1, 0); /* and none of them changed anything */
    expect_ok(give(&f, right, 100));
    expect_sent(&f, PSR_RING_GATHER, 1, 0, 111);
    tear_down(&f);
}

/* What has not been given back keeps the next step away, and names who has it. */
static void sums_that_are_lent_are_waited_for(void **state)
{
    (void)state;
    fixture f;
    psr_waiting waiting;
    uint32_t bucket = 9;
    set_up(&f, 4);
    push_both(&f, 1, 0);
    expect_ok(give(&f, says(PSR_RING_REDUCE, 1, 0), 100));
    assert_int_equal(psr_host_ring_lent(f.ring, 0), 1);
    assert_true(psr_host_ring_waits(f.ring, &waiting, &bucket));
    assert_true(psr_peer_equal(waiting.peer, (psr_peer){PSR_ROLE_WORKER, 2}));
    assert_int_equal(waiting.round, 0); /* of the slice that was lent, not
                                           of one that is still to come */
    give_back(&f);
    assert_false(psr_host_ring_waits(f.ring, &waiting, &bucket));
    tear_down(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_host_in_the_middle_of_whose_ranks_a_chunk_ends_has_two_legs),
        cmocka_unit_test(a_host_where_a_chunk_ends_or_begins_has_one_leg),
        cmocka_unit_test(what_comes_before_the_hosts_workers_have_pushed_waits),
        cmocka_unit_test(at_most_a_window_of_slices_is_begun),
        cmocka_unit_test(what_cannot_come_now_is_refused),
        cmocka_unit_test(sums_that_are_lent_are_waited_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
