/* A member and a played scheduler over real sockets: the scheduler's part is a script on a thread
 * of its own. When a member says what is test_membership's. */
#include "tests/unit/network_fixture.h"

#include "comm/members/member.h"

#include <pthread.h>

typedef struct stage {
    run_keys keys;
    psr_transport *scheduler, *peer; /* peer: worker 0, who may speak early */
    psr_provision provision;
    psr_transport *own; /* worker 1's */
    psr_place place;
    uint32_t ranks_welcomed;
    bool early, abort, other_place;
} stage;

static void send_text(psr_transport *from, psr_peer to, psr_head head, const char *text)
{
    psr_payload payload = {.data = text, .bytes = text != NULL ? strlen(text) : 0};
    assert_ok(psr_transport_send(from, to, &head, text != NULL ? &payload : NULL));
}

static void send_bytes(psr_transport *from, psr_peer to, psr_message_type type, const void *bytes,
                       size_t size)
{
    psr_payload payload = {.data = bytes, .bytes = size};
    assert_ok(psr_transport_send(from, to, &(psr_head){.type = type}, &payload));
}

static void send_config(stage *s)
{
    void *payload = NULL;
    size_t size = 0;
    assert_ok(psr_place_write(&s->place, (psr_bytes){"gi\0ven", 6}, &payload, &size));
    send_bytes(s->scheduler, worker1, PSR_MSG_CONFIG, payload, size);
    free(payload);
}

static void send_welcome(stage *s)
{
    psr_view_member members[] = {{.peer = scheduler, .host = "head"},
                                 {.peer = worker0, .host = "there"},
                                 {.peer = worker1, .host = "here"}};
    strcpy(members[1].endpoint, psr_transport_endpoint(s->peer));
    const psr_view view = {.members = members,
                           .member_count = 3,
                           .plan = {.ranks = s->ranks_welcomed,
                                    .slice_floats = 2048,
                                    .window = 2,
                                    .pulled = PSR_COMPRESSION_NONE}};
    void *payload = NULL;
    size_t size = 0;
    assert_ok(psr_welcome_write(&view, (psr_bytes){"a\0b", 4}, &payload, &size));
    send_bytes(s->scheduler, worker1, PSR_MSG_WELCOME, payload, size);
    free(payload);
}

/* The next message of worker 1 that is no PROGRESS. */
static psr_message *hear(stage *s)
{
    for (;;) {
        psr_message *message = receive(s->scheduler);
        if (message->head.type != PSR_MSG_PROGRESS)
            return message;
        psr_message_free(&message);
    }
}

static void *play_scheduler(void *context)
{
    stage *s = context;
    psr_message *message = hear(s);
    assert_int_equal(message->head.type, PSR_MSG_JOIN);
    psr_join join;
    assert_ok(psr_join_from_json((psr_bytes){message->payload, message->payload_bytes}, &join));
    assert_string_equal(join.version, PSR_VERSION);
    assert_string_equal(join.host, "here");
    psr_message_free(&message);
    assert_ok(psr_transport_connect(s->scheduler, worker1, join.endpoint, NULL));

    if (s->abort) {
        send_text(s->scheduler, worker1, (psr_head){.type = PSR_MSG_ABORT}, "nobody else came");
        return NULL;
    }
    if (s->other_place) {
        send_bytes(s->scheduler, worker1, PSR_MSG_CONFIG, "{\"rank\": \"one\"}", 15);
        return NULL;
    }
    send_config(s);
    message = hear(s);
    assert_int_equal(message->head.type, PSR_MSG_FACTS);
    assert_int_equal(message->payload_bytes, 6);
    assert_memory_equal(message->payload, "fa\0cts", 6);
    psr_message_free(&message);
    if (s->early) { /* another member was welcomed first, and begins to speak */
        assert_ok(psr_transport_connect(s->peer, worker1, join.endpoint, NULL));
        send_text(s->peer, worker1, psr_msg_ahead_head(&(psr_msg_ahead){.operations = 5}), NULL);
        send_text(s->peer, worker1, psr_msg_ahead_head(&(psr_msg_ahead){.operations = 6}), NULL);
    }
    send_welcome(s);
    return NULL;
}

static void raise_stage(stage *s)
{
    *s = (stage){.keys = make_keys(false),
                 .place = {.rank = 1, .ranks = 2, .deadline_ms = WAIT_MS},
                 .ranks_welcomed = 2};
    s->scheduler = open_member(&s->keys, scheduler);
    s->peer = open_member(&s->keys, worker0);
    s->own = open_member(&s->keys, worker1);
    s->provision =
        (psr_provision){.self = worker1, .host = "here", .keys = *keys_of(&s->keys, worker1)};
    strcpy(s->provision.scheduler, psr_transport_endpoint(s->scheduler));
}

static void strike_stage(stage *s)
{
    psr_transport_free(&s->own, 0);
    psr_transport_free(&s->peer, 0);
    psr_transport_free(&s->scheduler, 0);
    free_keys(&s->keys);
}

static psr_err say_facts(void *context, const psr_place *place, psr_bytes given, void **facts,
                         size_t *size)
{
    const stage *s = context;
    assert_int_equal(place->rank, 1);
    assert_int_equal(place->ranks, 2);
    assert_int_equal(place->deadline_ms, s->place.deadline_ms);
    assert_int_equal(given.size, 6);
    assert_memory_equal(given.data, "gi\0ven", 6);
    *facts = malloc(6);
    memcpy(*facts, "fa\0cts", 6);
    *size = 6;
    return PSR_OK;
}

static psr_err have_no_facts(void *context, const psr_place *place, psr_bytes given, void **facts,
                             size_t *size)
{
    (void)context, (void)place, (void)given, (void)facts, (void)size;
    return psr_fail(PSR_ERR_NOT_FOUND, "no data here");
}

static psr_err join(stage *s, psr_member_options options, psr_member **member)
{
    pthread_t thread;
    options.transport = s->own;
    options.provision = &s->provision;
    options.context = s;
    assert_int_equal(pthread_create(&thread, NULL, play_scheduler, s), 0);
    psr_err err = psr_member_join(&options, member);
    pthread_join(thread, NULL);
    return err;
}

static void a_member_learns_its_place_view_and_what_was_agreed_on(void **state)
{
    (void)state;
    stage s;
    psr_member *m;
    raise_stage(&s);
    assert_ok(join(&s, (psr_member_options){.configured = say_facts}, &m));
    assert_true(psr_peer_equal(psr_member_self(m), worker1));
    assert_int_equal(psr_member_agreed(m).size, 4);
    assert_memory_equal(psr_member_agreed(m).data, "a\0b", 4);
    assert_int_equal(psr_view_workers(psr_member_view(m)), 2);
    assert_int_equal(psr_member_view(m)->plan.slice_floats, 2048);
    assert_string_equal(psr_member_view(m)->members[1].host, "there");
    assert_int_equal(psr_member_view(m)->member_count, 3);
    assert_string_equal(psr_member_name(m, worker0), "worker 0 on there");
    assert_string_equal(psr_member_name(m, (psr_peer){PSR_ROLE_SHARD, 4}), "shard 4");
    assert_ok(psr_member_connect(m, worker0));
    assert_fails(psr_member_connect(m, (psr_peer){PSR_ROLE_SHARD, 4}), PSR_ERR_NOT_FOUND,
                 "shard 4 is not in the view");
    psr_member_free(m);
    strike_stage(&s);
}

static void what_others_say_before_the_welcome_is_kept_in_order(void **state)
{
    (void)state;
    stage s;
    psr_member *m;
    raise_stage(&s);
    s.early = true;
    assert_ok(join(&s, (psr_member_options){.configured = say_facts}, &m));
    for (uint64_t number = 5; number <= 6; number++) {
        psr_message *message;
        assert_ok(psr_member_recv(m, WAIT_MS, &message));
        psr_msg_ahead says;
        assert_ok(psr_msg_ahead_read(message, &says));
        assert_int_equal(says.operations, number);
        psr_message_free(&message);
    }
    psr_member_free(m);
    strike_stage(&s);
}

static void an_abort_is_the_failure_of_whoever_waits(void **state)
{
    (void)state;
    stage s;
    psr_member *m;
    raise_stage(&s);
    s.abort = true;
    assert_fails(join(&s, (psr_member_options){.configured = say_facts}, &m), PSR_ERR_PEER,
                 "the run ends: nobody else came");
    strike_stage(&s);

    raise_stage(&s);
    assert_ok(join(&s, (psr_member_options){.configured = say_facts}, &m));
    send_text(s.scheduler, worker1, (psr_head){.type = PSR_MSG_ABORT}, "worker 0 died");
    psr_message *message;
    assert_fails(psr_member_recv(m, WAIT_MS, &message), PSR_ERR_PEER,
                 "the run ends: worker 0 died");
    psr_member_free(m);
    strike_stage(&s);
}

static void a_place_that_cannot_be_read_or_is_another_than_the_views_is_refused(void **state)
{
    (void)state;
    stage s;
    psr_member *m;
    raise_stage(&s);
    s.other_place = true;
    assert_fails(join(&s, (psr_member_options){.configured = say_facts}, &m), PSR_ERR_FORMAT,
                 "the scheduler's CONFIG: no zero byte ends its JSON");
    strike_stage(&s);

    raise_stage(&s); /* the script would wait for FACTS */
    s.place.rank = 2;
    psr_member_options options = {
        .transport = s.own, .provision = &s.provision, .configured = say_facts};
    assert_ok(psr_transport_connect(s.scheduler, worker1, psr_transport_endpoint(s.own), NULL));
    send_config(&s);
    assert_fails(psr_member_join(&options, &m), PSR_ERR_FORMAT,
                 "the scheduler's CONFIG: rank 2 of 2 ranks");
    strike_stage(&s);

    raise_stage(&s);
    s.ranks_welcomed = 3;
    assert_fails(join(&s, (psr_member_options){.configured = say_facts}, &m), PSR_ERR_FORMAT,
                 "the scheduler's WELCOME: its plan is of 3 ranks, and CONFIG said 2");
    strike_stage(&s);
}

static void facts_that_cannot_be_had_are_told_to_the_scheduler(void **state)
{
    (void)state;
    stage s;
    psr_member *m;
    raise_stage(&s);
    psr_member_options options = {
        .transport = s.own, .provision = &s.provision, .configured = have_no_facts};
    /* The script would wait for FACTS: this scheduler's one word is said beforehand. */
    assert_ok(psr_transport_connect(s.scheduler, worker1, psr_transport_endpoint(s.own), NULL));
    send_config(&s);
    assert_fails(psr_member_join(&options, &m), PSR_ERR_NOT_FOUND, "no data here");
    psr_message *message = hear(&s);
    assert_int_equal(message->head.type, PSR_MSG_JOIN);
    psr_message_free(&message);
    message = hear(&s);
    assert_int_equal(message->head.type, PSR_MSG_FAILED);
    assert_int_equal(psr_msg_failed_status(message), PSR_ERR_NOT_FOUND);
    assert_memory_equal(message->payload, "no data here", 12);
    psr_message_free(&message);
    strike_stage(&s);
}

static void reports_go_out_and_what_is_the_members_own_is_taken_while_it_waits(void **state)
{
    (void)state;
    stage s;
    psr_member *m;
    psr_message *message;
    raise_stage(&s);
    assert_ok(join(&s, (psr_member_options){.configured = say_facts}, &m));
    message = receive(s.scheduler);
    assert_int_equal(message->head.type, PSR_MSG_PROGRESS);
    psr_message_free(&message);
    send_text(s.scheduler, worker1, psr_msg_alive_head(true), NULL);
    send_text(s.scheduler, worker1, (psr_head){.type = PSR_MSG_START}, NULL);
    assert_ok(psr_member_recv(m, WAIT_MS, &message));
    assert_int_equal(message->head.type, PSR_MSG_START); /* ALIVE was the member's own business */
    psr_message_free(&message);
    assert_fails(psr_member_recv(m, 0, &message), PSR_ERR_TIMEOUT, "");
    psr_transport_wake(s.own);
    assert_int_equal(psr_member_recv(m, -1, &message), PSR_ERR_CANCELLED);
    /* One report as it joined, one as it was asked, and those of the time that the test takes. */
    message = receive(s.scheduler);
    assert_int_equal(message->head.type, PSR_MSG_PROGRESS);
    psr_message_free(&message);
    psr_member_free(m);
    strike_stage(&s);
}

static void a_scheduler_that_falls_silent_is_named_in_time_and_not_before(void **state)
{
    (void)state;
    stage s;
    psr_member *m;
    psr_message *message;
    raise_stage(&s);
    s.place.deadline_ms = 1600; /* so it may be silent for a second */
    psr_member_options options = {
        .transport = s.own, .provision = &s.provision, .context = &s, .configured = say_facts};
    /* All that it says is said beforehand: between its words it is not silent so long. */
    assert_ok(psr_transport_connect(s.scheduler, worker1, psr_transport_endpoint(s.own), NULL));
    send_config(&s);
    send_welcome(&s);
    int64_t begin_ms = psr_clock_ms();
    assert_ok(psr_member_join(&options, &m));
    assert_fails(psr_member_recv(m, -1, &message), PSR_ERR_PEER, "no sign of life for ");
    double silent_s =
        atof(strstr(psr_err_detail(), "no sign of life for ") + strlen("no sign of life for "));
    assert_true(silent_s >= 1 && psr_clock_ms() - begin_ms >= 1000);
    psr_member_free(m);
    strike_stage(&s);
}

static psr_err interrupted(void *context)
{
    (void)context;
    return psr_fail(PSR_ERR_CANCELLED, "told to end");
}

static void joining_ends_when_it_is_interrupted(void **state)
{
    (void)state;
    stage s;
    psr_member *m;
    raise_stage(&s);
    psr_transport_wake(s.own);
    psr_member_options options = {
        .transport = s.own, .provision = &s.provision, .interrupted = interrupted};
    assert_fails(psr_member_join(&options, &m), PSR_ERR_CANCELLED, "told to end");
    strike_stage(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_member_learns_its_place_view_and_what_was_agreed_on),
        cmocka_unit_test(what_others_say_before_the_welcome_is_kept_in_order),
        cmocka_unit_test(an_abort_is_the_failure_of_whoever_waits),
        cmocka_unit_test(a_place_that_cannot_be_read_or_is_another_than_the_views_is_refused),
        cmocka_unit_test(facts_that_cannot_be_had_are_told_to_the_scheduler),
        cmocka_unit_test(reports_go_out_and_what_is_the_members_own_is_taken_while_it_waits),
        cmocka_unit_test(a_scheduler_that_falls_silent_is_named_in_time_and_not_before),
        cmocka_unit_test(joining_ends_when_it_is_interrupted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
