/* A member and a played scheduler over real sockets: the scheduler's part is a script on a thread of its own. When a
 * member says what is test_membership's. */
#include "tests/unit/network_fixture.h"

#include "comm/members/member.h"

#include <pthread.h>

typedef struct stage {
    run_keys keys;
    psr_transport *scheduler, *peer; /* peer: worker 0, who may speak early */
    psr_provision provision;
    psr_transport *own; /* worker 1's */
    psr_config config;
    uint32_t rank_given;
    bool early, abort, other_json;
} stage;

static void send_text(psr_transport *from, psr_peer to, psr_head head, const char *text)
{
    psr_payload payload = {.data = text, .bytes = text ? strlen(text) : 0};
    assert_ok(psr_transport_send(from, to, &head, text ? &payload : NULL));
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
    assert_ok(psr_join_from_json(message->payload, message->payload_bytes, &join));
    assert_string_equal(join.version, PSR_VERSION);
    assert_string_equal(join.host, "here");
    psr_message_free(&message);
    assert_ok(psr_transport_connect(s->scheduler, worker1, join.endpoint, NULL));

    if (s->abort) {
        send_text(s->scheduler, worker1, (psr_head){.type = PSR_MSG_ABORT}, "nobody else came");
        return NULL;
    }
    char *json = NULL;
    assert_ok(psr_welcome_config_to_json(s->rank_given, &s->config, &json));
    send_text(s->scheduler, worker1, (psr_head){.type = PSR_MSG_CONFIG},
              s->other_json ? "{\"rank\": \"one\"}" : json);
    free(json);
    if (s->other_json)
        return NULL;
    message = hear(s);
    assert_int_equal(message->head.type, PSR_MSG_FACTS);
    psr_message_free(&message);
    if (s->early) { /* another member was welcomed first, and begins to speak */
        assert_ok(psr_transport_connect(s->peer, worker1, join.endpoint, NULL));
        send_text(s->peer, worker1, psr_msg_spread_head(&(psr_msg_spread){.number = 5}), NULL);
        send_text(s->peer, worker1, psr_msg_spread_head(&(psr_msg_spread){.number = 6}), NULL);
    }
    psr_view_member members[] = {{scheduler, "head", ""}, {worker0, "there", ""}, {worker1, "here", ""}};
    strcpy(members[1].endpoint, psr_transport_endpoint(s->peer));
    const psr_welcome welcome = {.facts = {.total_steps = 9},
                                 .first_step = 3,
                                 .view = {.members = members,
                                          .member_count = 3,
                                          .plan = {.ranks = 2, .slice_floats = 2048, .window = 2}}};
    assert_ok(psr_welcome_to_json(&welcome, &json));
    send_text(s->scheduler, worker1, (psr_head){.type = PSR_MSG_WELCOME}, json);
    free(json);
    return NULL;
}

static void raise_stage(stage *s)
{
    *s = (stage){.keys = make_keys(false), .rank_given = 1};
    s->scheduler = open_member(&s->keys, scheduler);
    s->peer = open_member(&s->keys, worker0);
    s->own = open_member(&s->keys, worker1);
    s->provision = (psr_provision){.self = worker1, .host = "here", .keys = *keys_of(&s->keys, worker1)};
    strcpy(s->provision.scheduler, psr_transport_endpoint(s->scheduler));
    psr_config_defaults(&s->config);
    s->config.deadline_s = WAIT_MS / 1000.0;
}

static void strike_stage(stage *s)
{
    psr_transport_free(&s->own, 0);
    psr_transport_free(&s->peer, 0);
    psr_transport_free(&s->scheduler, 0);
    free_keys(&s->keys);
}

static psr_err say_facts(void *context, uint32_t rank, const psr_config *config, psr_facts *facts)
{
    (void)context;
    assert_int_equal(rank, 1);
    assert_true(config->deadline_s == WAIT_MS / 1000.0);
    facts->classes = 10;
    return PSR_OK;
}

static psr_err have_no_facts(void *context, uint32_t rank, const psr_config *config, psr_facts *facts)
{
    (void)context, (void)rank, (void)config, (void)facts;
    return psr_fail(PSR_ERR_NOT_FOUND, "no data here");
}

static psr_err join(stage *s, psr_member_options options, psr_member **member)
{
    pthread_t thread;
    options.transport = s->own;
    options.provision = &s->provision;
    assert_int_equal(pthread_create(&thread, NULL, play_scheduler, s), 0);
    psr_err err = psr_member_join(&options, member);
    pthread_join(thread, NULL);
    return err;
}

static void a_member_learns_its_configuration_view_and_where_to_go_on(void **state)
{
    (void)state;
    stage s;
    psr_member *m;
    raise_stage(&s);
    s.config.lr = 0.75;
    assert_ok(join(&s, (psr_member_options){.facts = say_facts}, &m));
    assert_true(psr_peer_equal(psr_member_self(m), worker1));
    assert_true(psr_member_config(m)->lr == 0.75);
    assert_int_equal(psr_member_first_step(m), 3);
    assert_int_equal(psr_member_facts(m)->total_steps, 9);
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
    assert_ok(join(&s, (psr_member_options){.facts = say_facts}, &m));
    for (uint64_t number = 5; number <= 6; number++) {
        psr_message *message;
        assert_ok(psr_member_recv(m, WAIT_MS, &message));
        psr_msg_spread says;
        assert_ok(psr_msg_spread_read(message, &says));
        assert_int_equal(says.number, number);
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
    assert_fails(join(&s, (psr_member_options){.facts = say_facts}, &m), PSR_ERR_PEER,
                 "the run ends: nobody else came");
    strike_stage(&s);

    raise_stage(&s);
    assert_ok(join(&s, (psr_member_options){.facts = say_facts}, &m));
    send_text(s.scheduler, worker1, (psr_head){.type = PSR_MSG_ABORT}, "worker 0 died");
    psr_message *message;
    assert_fails(psr_member_recv(m, WAIT_MS, &message), PSR_ERR_PEER, "the run ends: worker 0 died");
    psr_member_free(m);
    strike_stage(&s);
}

static void a_configuration_that_cannot_be_read_is_refused(void **state)
{
    (void)state;
    stage s;
    psr_member *m;
    raise_stage(&s);
    s.other_json = true;
    assert_fails(join(&s, (psr_member_options){.facts = say_facts}, &m), PSR_ERR_FORMAT,
                 "the scheduler's CONFIG: field \"rank\"");
    strike_stage(&s);
}

static void facts_that_cannot_be_had_are_told_to_the_scheduler(void **state)
{
    (void)state;
    stage s;
    psr_member *m;
    raise_stage(&s);
    psr_member_options options = {.transport = s.own, .provision = &s.provision, .facts = have_no_facts};
    /* The script would wait for FACTS: this scheduler's one word is said beforehand. */
    assert_ok(psr_transport_connect(s.scheduler, worker1, psr_transport_endpoint(s.own), NULL));
    char *json = NULL;
    assert_ok(psr_welcome_config_to_json(1, &s.config, &json));
    send_text(s.scheduler, worker1, (psr_head){.type = PSR_MSG_CONFIG}, json);
    free(json);
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
    assert_ok(join(&s, (psr_member_options){.facts = say_facts}, &m));
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

static void a_scheduler_that_falls_silent_is_named_after_the_deadline_and_not_before(void **state)
{
    (void)state;
    stage s;
    psr_member *m;
    psr_message *message;
    raise_stage(&s);
    s.config.deadline_s = 1;
    int64_t begin_ms = psr_clock_ms();
    assert_ok(join(&s, (psr_member_options){0}, &m));
    assert_fails(psr_member_recv(m, -1, &message), PSR_ERR_PEER, "no sign of life for ");
    double silent_s = atof(strstr(psr_err_detail(), "no sign of life for ") + strlen("no sign of life for "));
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
    psr_member_options options = {.transport = s.own, .provision = &s.provision, .interrupted = interrupted};
    assert_fails(psr_member_join(&options, &m), PSR_ERR_CANCELLED, "told to end");
    strike_stage(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_member_learns_its_configuration_view_and_where_to_go_on),
        cmocka_unit_test(what_others_say_before_the_welcome_is_kept_in_order),
        cmocka_unit_test(an_abort_is_the_failure_of_whoever_waits),
        cmocka_unit_test(a_configuration_that_cannot_be_read_is_refused),
        cmocka_unit_test(facts_that_cannot_be_had_are_told_to_the_scheduler),
        cmocka_unit_test(reports_go_out_and_what_is_the_members_own_is_taken_while_it_waits),
        cmocka_unit_test(a_scheduler_that_falls_silent_is_named_after_the_deadline_and_not_before),
        cmocka_unit_test(joining_ends_when_it_is_interrupted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
