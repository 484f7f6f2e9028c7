/* The coordinator in virtual time, with a user whose bytes it must not read. What a run looks like
 * to people (who is named, when, with which words) is held by the scheduler's tests, which stand on
 * it. */
#include "tests/unit/expect.h"

#include "comm/members/coordinator.h"
#include "comm/members/join.h"
#include "net/violation.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORKERS = 2, SHARDS = 1, STEPS = 20, SENT_MAX = 64, BYTES_MAX = 2048, DEADLINE_MS = 8000 };

static const psr_peer w0 = {PSR_ROLE_WORKER, 0}, w1 = {PSR_ROLE_WORKER, 1},
                      s0 = {PSR_ROLE_SHARD, 0};

typedef struct sent {
    psr_peer to;
    psr_message_type type;
    char bytes[BYTES_MAX];
    size_t size;
} sent;

typedef struct fixture {
    psr_coordinator *coordinator;
    sent *sent;
    size_t sent_count;
    /* What the user was handed, and what it is to answer. */
    char facts[WORKERS][8], ready[8], message[8];
    psr_err facts_err, begin_err;
    uint32_t begun, welcomed, started, reports, ended;
    psr_err status;
    char said[256], line[256];
    uint32_t said_count;
    size_t waiting; /* for any member, as the test says */
    const psr_peer *unreachable;
    uint32_t refused;
    psr_peer refused_peer;
    psr_err refused_status;
    char refusal[256];
} fixture;

/* ---- the driver ---- */

static psr_err on_send(void *context, psr_peer to, const psr_head *head, const psr_payload *payload)
{
    fixture *f = context;
    if (f->unreachable != NULL && psr_peer_equal(to, *f->unreachable))
        return psr_fail(PSR_ERR_PEER, "it is gone");
    assert_true(f->sent_count < SENT_MAX);
    sent *m = &f->sent[f->sent_count++];
    *m = (sent){.to = to, .type = head->type};
    if (payload != NULL) {
        assert_true(payload->bytes <= BYTES_MAX);
        memcpy(m->bytes, payload->data, payload->bytes);
        m->size = payload->bytes;
    }
    return PSR_OK;
}

static size_t on_waiting(void *context, psr_peer to)
{
    (void)to;
    return ((fixture *)context)->waiting;
}

static psr_err on_connect(void *context, psr_peer peer, const char *endpoint)
{
    (void)context, (void)peer;
    assert_string_equal(endpoint, "tcp://127.0.0.1:1");
    return PSR_OK;
}

static void on_refuse(void *context, const psr_message *join, psr_err status, const char *line)
{
    fixture *f = context;
    f->refused++;
    f->refused_peer = join->from;
    f->refused_status = status;
    snprintf(f->refusal, sizeof f->refusal, "%s", line);
}

static void on_joined(void *context, const psr_view_member *entry, uint32_t count, uint32_t total)
{
    (void)context, (void)entry;
    assert_in_range(count, 1, total);
    assert_int_equal(total, WORKERS + SHARDS);
}

static void on_say(void *context, const char *line)
{
    fixture *f = context;
    snprintf(f->said, sizeof f->said, "%s", line);
    f->said_count++;
}

static void on_ended(void *context, psr_err status, const char *line)
{
    fixture *f = context;
    f->ended++;
    f->status = status;
    snprintf(f->line, sizeof f->line, "%s", line);
}

/* ---- the user: bytes with zeros in them ---- */

static psr_err copy(const char *from, size_t size, void **ret_bytes, size_t *ret_size)
{
    *ret_bytes = malloc(size);
    memcpy(*ret_bytes, from, size);
    *ret_size = size;
    return PSR_OK;
}

static psr_err on_given(void *context, psr_role role, void **ret_bytes, size_t *ret_size)
{
    (void)context;
    return role == PSR_ROLE_SHARD ? PSR_OK : copy("do\0this", 7, ret_bytes, ret_size);
}

static psr_err on_facts(void *context, const psr_message *message)
{
    fixture *f = context;
    if (f->facts_err != PSR_OK)
        return psr_violation(message, "that is nonsense");
    if (message->from.role == PSR_ROLE_WORKER)
        memcpy(f->facts[message->from.rank], message->payload, message->payload_bytes);
    return PSR_OK;
}

static psr_err on_agree(void *context, uint32_t rank, const char *name, const char *name_of_first)
{
    const fixture *f = context;
    if (memcmp(f->facts[rank], f->facts[0], sizeof f->facts[0]) == 0)
        return PSR_OK;
    return psr_fail(PSR_ERR_USAGE, "%s has other facts than %s", name, name_of_first);
}

static psr_err on_begin(void *context, psr_view *view)
{
    fixture *f = context;
    static const psr_part part = {{0, 64}, 0};
    const psr_plan_options plan = {.route = PSR_ROUTE_SHARD,
                                   .ranks = WORKERS,
                                   .shards = SHARDS,
                                   .slice_floats = 64,
                                   .window = 1};
    f->begun++;
    assert_int_equal(view->member_count, WORKERS + SHARDS);
    assert_string_equal(view->members[2].host, "host2");
    if (f->begin_err != PSR_OK)
        return psr_fail(f->begin_err, "no room for it");
    return psr_plan_make(&plan, &part, 1, &view->plan);
}

static psr_err on_agreed(void *context, psr_role role, void **ret_bytes, size_t *ret_size)
{
    (void)context;
    return role == PSR_ROLE_SHARD ? copy("\0s", 2, ret_bytes, ret_size)
                                  : copy("\0w", 2, ret_bytes, ret_size);
}

static psr_err on_welcomed(void *context)
{
    ((fixture *)context)->welcomed++;
    return PSR_OK;
}

static psr_err on_ready(void *context, const psr_message *message)
{
    fixture *f = context;
    memcpy(f->ready, message->payload, message->payload_bytes);
    return PSR_OK;
}

static psr_err on_started(void *context)
{
    ((fixture *)context)->started++;
    return PSR_OK;
}

static void on_limit(void *context, psr_msg_limits *limits)
{
    (void)context;
    limits->steps = STEPS;
}

static void on_progress(void *context, psr_peer from, const psr_msg_progress *says)
{
    (void)from, (void)says;
    ((fixture *)context)->reports++;
}

static psr_err on_message(void *context, const psr_message *message)
{
    fixture *f = context;
    memcpy(f->message, message->payload, message->payload_bytes);
    if (message->head.type == PSR_MSG_DONE)
        psr_coordinator_set_done(f->coordinator, message->from);
    return PSR_OK;
}

static int set_up(void **state)
{
    static fixture f;
    f = (fixture){.sent = calloc(SENT_MAX, sizeof *f.sent)};
    const psr_coordinator_options options = {
        .ways = {.context = &f,
                 .send = on_send,
                 .waiting = on_waiting,
                 .connect = on_connect,
                 .refuse = on_refuse},
        .events = {.context = &f, .joined = on_joined, .say = on_say, .ended = on_ended},
        .user = {.context = &f,
                 .given = on_given,
                 .facts = on_facts,
                 .agree = on_agree,
                 .begin = on_begin,
                 .agreed = on_agreed,
                 .welcomed = on_welcomed,
                 .ready = on_ready,
                 .started = on_started,
                 .limit = on_limit,
                 .progress = on_progress,
                 .message = on_message},
        .host = "head",
        .workers = WORKERS,
        .shards = SHARDS,
        .ranks = WORKERS,
        .deadline_ms = DEADLINE_MS,
    };
    expect_ok(psr_coordinator_new(&options, 0, &f.coordinator));
    *state = &f;
    return 0;
}

static int tear_down(void **state)
{
    fixture *f = *state;
    psr_coordinator_free(f->coordinator);
    free(f->sent);
    return 0;
}

/* ---- members ---- */

static void say(fixture *f, psr_peer from, psr_message_type type, const void *bytes, size_t size)
{
    const psr_message message = {
        .from = from, .head = {.type = type}, .payload = bytes, .payload_bytes = size};
    psr_coordinator_message(f->coordinator, &message, 0);
}

static void join(fixture *f, psr_peer from, const char *host)
{
    psr_join join = {.version = PSR_VERSION, .endpoint = "tcp://127.0.0.1:1", .pid = 7};
    char *json = NULL;
    snprintf(join.host, sizeof join.host, "%s", host);
    expect_ok(psr_join_to_json(&join, &json));
    say(f, from, PSR_MSG_JOIN, json, strlen(json));
    free(json);
}

static void join_all(fixture *f)
{
    join(f, s0, "host0");
    join(f, w0, "host1");
    join(f, w1, "host2");
}

static void welcome_all(fixture *f)
{
    join_all(f);
    say(f, s0, PSR_MSG_FACTS, NULL, 0);
    say(f, w0, PSR_MSG_FACTS, "a\0c", 3);
    say(f, w1, PSR_MSG_FACTS, "a\0c", 3);
}

static void start_all(fixture *f)
{
    welcome_all(f);
    say(f, w1, PSR_MSG_READY, "", 0);
    say(f, w0, PSR_MSG_READY, "r\0", 2);
    say(f, s0, PSR_MSG_READY, "", 0);
}

static psr_bytes bytes_to(const fixture *f, psr_peer to, psr_message_type type)
{
    psr_bytes bytes = {NULL, 0};
    for (size_t i = 0; i < f->sent_count; i++)
        if (f->sent[i].type == type && psr_peer_equal(f->sent[i].to, to))
            bytes = (psr_bytes){f->sent[i].bytes, f->sent[i].size};
    return bytes;
}

static size_t count_sent(const fixture *f, psr_message_type type)
{
    size_t count = 0;
    for (size_t i = 0; i < f->sent_count; i++)
        count += f->sent[i].type == type;
    return count;
}

static void ends(const fixture *f, psr_err status, const char *line, psr_message_type last_word)
{
    assert_int_equal(f->ended, 1);
    assert_string_equal(f->line, line);
    assert_string_equal(psr_err_name(f->status), psr_err_name(status));
    assert_true(psr_coordinator_ended(f->coordinator));
    assert_int_equal(count_sent(f, last_word), WORKERS + SHARDS);
}

static void say_unsealed(fixture *f, psr_peer from, psr_peer peer, uint16_t port)
{
    const psr_message message = {
        .from = from, .head = psr_msg_unsealed_head(&(psr_msg_unsealed){peer, port, 10400})};
    psr_coordinator_message(f->coordinator, &message, 0);
}

/* ---- tests ---- */

static void whose_values_go_by_curve_is_told_some_times_and_ends_nothing(void **state)
{
    fixture *f = *state;
    welcome_all(f); /* not begun yet */
    f->said_count = 0;
    say_unsealed(f, w1, w0, 4242);
    assert_string_equal(f->said,
                        "worker 1 on host2 has had no answer at port 4242 of worker 0 on host1 for "
                        "10 s: values to it go by CURVE, at a third of the speed or less; let TCP "
                        "to all ports through between these hosts");
    say_unsealed(f, s0, w1, 0);
    assert_non_null(strstr(f->said, "shard 0 on host0 has had no answer at a second port of worker "
                                    "1 on host2"));
    for (uint32_t i = 0; i < 3; i++)
        say_unsealed(f, w0, w1, 1);
    for (uint32_t i = 0; i < 2; i++)
        say_unsealed(f, s0, w0, 3);
    assert_null(strstr(f->said, "further"));
    say_unsealed(f, w1, s0, 4);
    assert_int_equal(f->said_count, 8);
    assert_non_null(strstr(f->said, "(further pairs are not named)"));
    say_unsealed(f, w1, s0, 4);
    assert_int_equal(f->said_count, 8);
    assert_int_equal(f->ended, 0);
}

static void a_member_that_says_so_of_more_than_there_are_breaks_the_protocol(void **state)
{
    fixture *f = *state;
    welcome_all(f);
    for (uint32_t i = 0; i <= WORKERS + SHARDS; i++)
        say_unsealed(f, w1, w0, 4242);
    assert_int_equal(f->status, PSR_ERR_PROTOCOL);
    assert_string_equal(f->line, "on host2: worker 1 sent UNSEALED (role 2, rank 0, port 4242, "
                                 "waited_ms 10400): it has said so of every member before");
}

static void what_the_user_gives_and_says_was_agreed_on_arrives_byte_by_byte(void **state)
{
    fixture *f = *state;
    psr_place place;
    psr_bytes users;
    psr_view view;
    welcome_all(f);
    expect_ok(psr_place_read(bytes_to(f, w1, PSR_MSG_CONFIG), &place, &users));
    assert_int_equal(place.rank, 1);
    assert_int_equal(place.ranks, WORKERS);
    assert_int_equal(place.deadline_ms, DEADLINE_MS);
    assert_int_equal(users.size, 7);
    assert_memory_equal(users.data, "do\0this", 7);
    expect_ok(psr_place_read(bytes_to(f, s0, PSR_MSG_CONFIG), &place, &users));
    assert_int_equal(users.size, 0);
    assert_memory_equal(f->facts[1], "a\0c", 3);
    assert_int_equal(f->begun, 1);
    assert_int_equal(f->welcomed, 1);
    static const psr_peer all[] = {{PSR_ROLE_SHARD, 0}, {PSR_ROLE_WORKER, 0}, {PSR_ROLE_WORKER, 1}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        expect_ok(psr_welcome_read(bytes_to(f, all[i], PSR_MSG_WELCOME), &view, &users));
        assert_int_equal(view.plan.ranks, WORKERS);
        assert_int_equal(users.size, 2);
        assert_memory_equal(users.data, i == 0 ? "\0s" : "\0w", 2);
        psr_view_done(&view);
    }
    assert_int_equal(psr_coordinator_view(f->coordinator)->member_count, WORKERS + SHARDS);
}

static void all_that_are_ready_are_started_and_then_messages_are_the_users(void **state)
{
    fixture *f = *state;
    start_all(f);
    assert_memory_equal(f->ready, "r\0", 2);
    assert_int_equal(f->started, 1);
    assert_int_equal(count_sent(f, PSR_MSG_START), WORKERS + SHARDS);
    assert_true(psr_coordinator_running(f->coordinator));
    say(f, w1, PSR_MSG_METRICS, "m\0m", 3);
    assert_memory_equal(f->message, "m\0m", 3);
    assert_int_equal(f->ended, 0);
}

static void facts_that_differ_end_the_run_in_the_users_words_before_it_begins(void **state)
{
    fixture *f = *state;
    join_all(f);
    say(f, w0, PSR_MSG_FACTS, "a\0c", 3);
    say(f, w1, PSR_MSG_FACTS, "a\0d", 3);
    say(f, s0, PSR_MSG_FACTS, NULL, 0);
    ends(f, PSR_ERR_USAGE, "worker 1 on host2 has other facts than worker 0 on host1",
         PSR_MSG_ABORT);
    assert_int_equal(f->begun, 0);
}

static void facts_that_the_user_refuses_are_a_violation_by_who_told_them(void **state)
{
    fixture *f = *state;
    join_all(f);
    f->facts_err = PSR_ERR_FORMAT;
    say(f, w1, PSR_MSG_FACTS, "?", 1);
    ends(f, PSR_ERR_PROTOCOL, "on host2: worker 1 sent FACTS: that is nonsense", PSR_MSG_ABORT);
}

static void a_failure_of_the_user_ends_the_run_with_its_line(void **state)
{
    fixture *f = *state;
    f->begin_err = PSR_ERR_IO;
    welcome_all(f);
    ends(f, PSR_ERR_IO, "no room for it", PSR_MSG_ABORT);
    assert_int_equal(f->welcomed, 0);
    assert_int_equal(count_sent(f, PSR_MSG_WELCOME), 0);
}

static void the_users_messages_are_due_from_start_until_a_member_is_done(void **state)
{
    fixture *f = *state;
    start_all(f);
    say(f, w0, PSR_MSG_DONE, "", 0);
    assert_true(psr_coordinator_is_done(f->coordinator, w0));
    assert_false(psr_coordinator_is_done(f->coordinator, w1));
    say(f, w0, PSR_MSG_METRICS, "m", 1);
    ends(f, PSR_ERR_PROTOCOL, "on host1: worker 0 sent METRICS: it has said DONE before",
         PSR_MSG_ABORT);
    tear_down(state);

    set_up(state);
    f = *state;
    welcome_all(f);
    say(f, w0, PSR_MSG_METRICS, "m", 1);
    ends(f, PSR_ERR_PROTOCOL, "on host1: worker 0 sent METRICS: that is not due before START",
         PSR_MSG_ABORT);
}

static void a_run_that_is_cancelled_ends_in_order_only_when_all_were_done(void **state)
{
    fixture *f = *state;
    start_all(f);
    psr_coordinator_end(f->coordinator, PSR_ERR_CANCELLED, "enough");
    ends(f, PSR_ERR_CANCELLED, "enough", PSR_MSG_ABORT);
    tear_down(state);

    set_up(state);
    f = *state;
    start_all(f);
    say(f, w0, PSR_MSG_DONE, "", 0);
    say(f, w1, PSR_MSG_DONE, "", 0);
    assert_false(psr_coordinator_all_done(f->coordinator));
    say(f, s0, PSR_MSG_DONE, "", 0);
    assert_true(psr_coordinator_all_done(f->coordinator));
    psr_coordinator_end(f->coordinator, PSR_ERR_CANCELLED, "enough");
    psr_coordinator_end(f->coordinator, PSR_ERR_IO, "again");
    ends(f, PSR_ERR_CANCELLED, "enough", PSR_MSG_BYE);
}

static void who_has_not_joined_is_not_heard(void **state)
{
    fixture *f = *state;
    join(f, w0, "host1");
    say(f, w1, PSR_MSG_FACTS, "a\0c", 3);
    assert_string_equal(f->said, "worker 1 sent FACTS and has not joined: dropped");
    assert_int_equal(f->facts[1][0], 0);
    assert_false(psr_coordinator_has(f->coordinator, (psr_peer){PSR_ROLE_WORKER, WORKERS}));
    f->said_count = 0;
    for (unsigned i = 0; i < 100; i++) /* it fills no log */
        say(f, w1, PSR_MSG_FACTS, "a\0c", 3);
    assert_in_range(f->said_count, 0, 10);
    assert_int_equal(f->ended, 0);
}

static void one_that_cannot_be_told_keeps_nobody_from_hearing(void **state)
{
    static const psr_peer all[] = {{PSR_ROLE_SHARD, 0}, {PSR_ROLE_WORKER, 0}, {PSR_ROLE_WORKER, 1}};
    fixture *f = *state;
    start_all(f);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        const size_t before = f->sent_count;
        f->unreachable = &all[i];
        assert_int_equal(psr_coordinator_send_all(f->coordinator, (psr_head){.type = PSR_MSG_HOLD},
                                                  (psr_bytes){NULL, 0}),
                         PSR_ERR_PEER);
        assert_string_equal(psr_err_detail(), "it is gone");
        assert_int_equal(f->sent_count, before + WORKERS + SHARDS - 1);
    }
    f->unreachable = &w0;
    const size_t before = f->sent_count;
    assert_int_equal(psr_coordinator_send_role(f->coordinator, PSR_ROLE_WORKER,
                                               (psr_head){.type = PSR_MSG_HOLD},
                                               (psr_bytes){NULL, 0}),
                     PSR_ERR_PEER);
    assert_int_equal(f->sent_count, before + 1);
    assert_true(psr_peer_equal(f->sent[before].to, w1));
}

static size_t count_alive(const fixture *f)
{
    size_t count = 0;
    for (size_t i = 0; i < f->sent_count; i++)
        count += f->sent[i].type == PSR_MSG_ALIVE;
    return count;
}

static void report(fixture *f, psr_peer from)
{
    const psr_message message = {
        .from = from, .head = psr_msg_progress_head(&(psr_msg_progress){.phase = PSR_PHASE_START})};
    psr_coordinator_message(f->coordinator, &message, 0);
}

static void reports_without_end_are_answered_as_they_are_read(void **state)
{
    fixture *f = *state;
    join_all(f);
    report(f, w1);
    assert_int_equal(count_alive(f), 1);
    f->waiting = 1;
    for (unsigned i = 0; i < 1000; i++)
        report(f, w1);
    assert_int_equal(count_alive(f), 1);
    f->waiting = 0;
    report(f, w1);
    assert_int_equal(count_alive(f), 2);
    assert_int_equal(f->ended, 0);
}

static void a_text_that_is_too_long_is_read_by_nobody(void **state)
{
    fixture *f = *state;
    static const char text[PSR_MEMBER_TEXT_MAX + 1];
    join_all(f);
    say(f, w1, PSR_MSG_FACTS, text, sizeof text);
    ends(f, PSR_ERR_PROTOCOL,
         "on host2: worker 1 sent FACTS: its payload has 65537 bytes, more than 65536",
         PSR_MSG_ABORT);
}

/* Who has not come when the run fails is told why when it does; then nobody is awaited any more. */
static void who_joins_after_the_end_hears_why_there_is_no_run(void **state)
{
    fixture *f = *state;
    join(f, s0, "host0");
    join(f, w1, "host2");
    assert_false(psr_coordinator_awaits_late(f->coordinator));
    psr_fail(PSR_ERR_USAGE, "another failure's detail");
    psr_coordinator_end(f->coordinator, PSR_ERR_USAGE, "worker 1 on host2: other options");
    assert_true(psr_coordinator_awaits_late(f->coordinator));
    size_t before = f->sent_count;
    join(f, w0, "host1");
    assert_int_equal(f->refused, 1);
    assert_true(psr_peer_equal(f->refused_peer, w0));
    assert_int_equal(f->refused_status, PSR_ERR_PEER);
    assert_string_equal(f->refusal, "the run has ended: worker 1 on host2: other options");
    assert_false(psr_coordinator_awaits_late(f->coordinator));
    say(f, w0, PSR_MSG_FACTS, "a\0c", 3);
    assert_int_equal(f->sent_count, before);
    assert_int_equal(f->ended, 1);
}

static void nobody_is_awaited_after_a_run_that_was_whole_or_was_told_to_stop(void **state)
{
    fixture *f = *state;
    join(f, w0, "host1");
    psr_coordinator_end(f->coordinator, PSR_ERR_CANCELLED, "enough");
    assert_false(psr_coordinator_awaits_late(f->coordinator));
    tear_down(state);

    set_up(state);
    f = *state;
    start_all(f);
    psr_coordinator_end(f->coordinator, PSR_ERR_PEER, "worker 1 was lost");
    assert_false(psr_coordinator_awaits_late(f->coordinator));
}

int main(void)
{
#define COORDINATOR(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        COORDINATOR(what_the_user_gives_and_says_was_agreed_on_arrives_byte_by_byte),
        COORDINATOR(whose_values_go_by_curve_is_told_some_times_and_ends_nothing),
        COORDINATOR(a_member_that_says_so_of_more_than_there_are_breaks_the_protocol),
        COORDINATOR(all_that_are_ready_are_started_and_then_messages_are_the_users),
        COORDINATOR(facts_that_differ_end_the_run_in_the_users_words_before_it_begins),
        COORDINATOR(facts_that_the_user_refuses_are_a_violation_by_who_told_them),
        COORDINATOR(a_failure_of_the_user_ends_the_run_with_its_line),
        COORDINATOR(the_users_messages_are_due_from_start_until_a_member_is_done),
        COORDINATOR(a_run_that_is_cancelled_ends_in_order_only_when_all_were_done),
        COORDINATOR(who_has_not_joined_is_not_heard),
        COORDINATOR(one_that_cannot_be_told_keeps_nobody_from_hearing),
        COORDINATOR(reports_without_end_are_answered_as_they_are_read),
        COORDINATOR(who_joins_after_the_end_hears_why_there_is_no_run),
        COORDINATOR(nobody_is_awaited_after_a_run_that_was_whole_or_was_told_to_stop),
        COORDINATOR(a_text_that_is_too_long_is_read_by_nobody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
