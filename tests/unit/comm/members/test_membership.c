/* The membership machine in virtual time: what a scheduler says, and when, is written down here. */
#include "tests/unit/network_fixture.h"

#include "comm/members/membership.h"

/* SILENCE_MS: psr_liveness_silence_ms(RUN_DEADLINE_MS) */
enum { DEADLINE_MS = 30000, RUN_DEADLINE_MS = 4000, SILENCE_MS = 2500, TOLD_MAX = 1000 };

/* What the machine has said. */
typedef struct told {
    psr_head head;
    char text[64];
    int64_t at_ms;
} told;

static struct {
    psr_membership *machine;
    int64_t now_ms, next_ms;
    told told[TOLD_MAX];
    size_t count;
    psr_msg_progress place; /* what it reports */
    psr_err configure;      /* what the owner makes of CONFIG */
    int64_t takes_ms;       /* the owner's facts take so long */
    size_t members;         /* of the run, as WELCOME has it */
    char welcome[64];
} s;

/* ---- the owner ---- */

static psr_err send(void *context, const psr_head *head, const psr_payload *payload)
{
    (void)context;
    assert_true(s.count < TOLD_MAX);
    told *t = &s.told[s.count++];
    *t = (told){.head = *head, .at_ms = s.now_ms};
    if (payload != NULL)
        memcpy(t->text, payload->data, payload->bytes);
    return PSR_OK;
}

static psr_err configured(void *context, psr_bytes payload, int64_t *ret_deadline_ms,
                          void **ret_facts, size_t *ret_facts_size)
{
    (void)context;
    if (s.configure != PSR_OK)
        return psr_fail(s.configure, "no data here");
    s.now_ms += s.takes_ms;
    *ret_deadline_ms = RUN_DEADLINE_MS;
    *ret_facts = calloc(1, payload.size + 16);
    *ret_facts_size =
        (size_t)sprintf(*ret_facts, "facts of %.*s", (int)payload.size, (const char *)payload.data);
    return PSR_OK;
}

static psr_err welcomed(void *context, psr_bytes payload, size_t *ret_members)
{
    (void)context;
    snprintf(s.welcome, sizeof s.welcome, "%.*s", (int)payload.size, (const char *)payload.data);
    *ret_members = s.members;
    return PSR_OK;
}

static void report(void *context, psr_msg_progress *progress)
{
    (void)context;
    *progress = s.place;
}

/* ---- driving it ---- */

static void begin(bool facts_later)
{
    memset(&s, 0, sizeof s);
    s.now_ms = 1000000;
    s.members = 3;
    s.place = (psr_msg_progress){.phase = PSR_PHASE_FORWARD};
    const psr_membership_options options = {.scheduler = "tcp://head:4242",
                                            .deadline_ms = DEADLINE_MS,
                                            .send = send,
                                            .facts_later = facts_later,
                                            .configured = configured,
                                            .welcomed = welcomed,
                                            .report = report};
    assert_ok(psr_membership_new(&options, s.now_ms, &s.machine));
}

static int set_up(void **state)
{
    (void)state;
    begin(false);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    psr_membership_free(s.machine);
    return 0;
}

static void release(psr_message *message)
{
    free(message);
}

static psr_message *message_of(psr_peer from, psr_head head, const char *text)
{
    size_t bytes = text != NULL ? strlen(text) : 0;
    psr_message *message = calloc(1, sizeof *message + bytes);
    *message =
        (psr_message){.from = from, .head = head, .payload_bytes = bytes, .release = release};
    message->payload = message + 1;
    if (bytes > 0)
        memcpy(message + 1, text, bytes);
    return message;
}

/* The machine takes it. */
static psr_err hear(psr_peer from, psr_head head, const char *text)
{
    psr_message *message = message_of(from, head, text);
    psr_err err = psr_membership_message(s.machine, &message, s.now_ms);
    assert_null(message);
    return err;
}

static psr_err tick(void)
{
    return psr_membership_tick(s.machine, s.now_ms, &s.next_ms);
}

/* Lets time pass until the end, with a tick at each time that the machine names. */
static psr_err pass(int64_t duration_ms)
{
    int64_t end_ms = s.now_ms + duration_ms;
    for (;;) {
        psr_err err = tick();
        if (err != PSR_OK)
            return err;
        assert_true(s.next_ms > s.now_ms);
        if (s.next_ms > end_ms)
            break;
        s.now_ms = s.next_ms;
    }
    s.now_ms = end_ms;
    return PSR_OK;
}

static size_t reports_since(size_t begin)
{
    size_t count = 0;
    for (size_t i = begin; i < s.count; i++)
        count += s.told[i].head.type == PSR_MSG_PROGRESS;
    return count;
}

static psr_msg_progress report_told(size_t i)
{
    psr_message message = {.head = s.told[i].head};
    psr_msg_progress says;
    assert_int_equal(message.head.type, PSR_MSG_PROGRESS);
    const psr_msg_limits limits = {
        .workers = UINT32_MAX, .shards = UINT32_MAX, .buckets = UINT32_MAX, .steps = UINT64_MAX};
    assert_ok(psr_msg_progress_read(&message, &limits, &says));
    return says;
}

static void say_join(void)
{
    assert_ok(psr_membership_join(s.machine, "me"));
}

static void join(void)
{
    say_join();
    assert_ok(hear(scheduler, (psr_head){.type = PSR_MSG_CONFIG}, "config"));
    assert_ok(hear(scheduler, (psr_head){.type = PSR_MSG_WELCOME}, "welcome"));
    assert_true(psr_membership_joined(s.machine));
}

/* ---- tests ---- */

static void joining_is_three_things_said_and_two_heard(void **state)
{
    (void)state;
    say_join();
    assert_int_equal(s.count, 1);
    assert_int_equal(s.told[0].head.type, PSR_MSG_JOIN);
    assert_string_equal(s.told[0].text, "me");
    assert_ok(hear(scheduler, (psr_head){.type = PSR_MSG_CONFIG}, "config"));
    assert_int_equal(s.count, 2);
    assert_int_equal(s.told[1].head.type, PSR_MSG_FACTS);
    assert_string_equal(s.told[1].text, "facts of config");
    assert_false(psr_membership_joined(s.machine));
    assert_ok(hear(scheduler, (psr_head){.type = PSR_MSG_WELCOME}, "welcome"));
    assert_true(psr_membership_joined(s.machine));
    assert_string_equal(s.welcome, "welcome");
    assert_int_equal(s.count, 2);
}

/* Until it knows its facts it does something, and may hang in it; from then on it waits for the
 * scheduler. */
static void facts_may_come_later_and_until_then_it_tells_its_own_progress(void **state)
{
    (void)state;
    const psr_msg_limits limits = {.workers = 1};
    psr_msg_progress said;
    psr_membership_free(s.machine);
    begin(true);
    say_join();
    assert_ok(hear(scheduler, (psr_head){.type = PSR_MSG_CONFIG}, "config"));
    assert_int_equal(s.count, 1);
    assert_true(psr_membership_owes_facts(s.machine));
    s.place = (psr_msg_progress){.phase = PSR_PHASE_START, .counter = 7};
    assert_ok(psr_membership_tick(s.machine, s.now_ms, &s.next_ms));
    assert_int_equal(s.count, 2);
    assert_ok(psr_msg_progress_read(&(psr_message){.head = s.told[1].head}, &limits, &said));
    assert_int_equal(said.counter, 7);
    assert_false(said.waits);
    assert_ok(psr_membership_facts(s.machine, (psr_bytes){"late", 4}));
    assert_int_equal(s.told[2].head.type, PSR_MSG_FACTS);
    assert_string_equal(s.told[2].text, "late");
    assert_false(psr_membership_owes_facts(s.machine));
    assert_ok(psr_membership_report(s.machine, s.now_ms));
    assert_ok(psr_msg_progress_read(&(psr_message){.head = s.told[3].head}, &limits, &said));
    assert_true(said.waits);
    assert_true(psr_peer_equal(said.waits_for, scheduler));
    assert_ok(hear(scheduler, (psr_head){.type = PSR_MSG_WELCOME}, "welcome"));
    assert_true(psr_membership_joined(s.machine));
}

static void messages_of_the_scheduler_come_in_their_order_while_joining(void **state)
{
    (void)state;
    say_join();
    assert_fails(hear(scheduler, (psr_head){.type = PSR_MSG_WELCOME}, "welcome"), PSR_ERR_PROTOCOL,
                 "CONFIG is due");
    assert_ok(hear(scheduler, (psr_head){.type = PSR_MSG_CONFIG}, "config"));
    assert_fails(hear(scheduler, (psr_head){.type = PSR_MSG_CONFIG}, "config"), PSR_ERR_PROTOCOL,
                 "WELCOME is due");
    assert_fails(hear(scheduler, (psr_head){.type = PSR_MSG_START}, NULL), PSR_ERR_PROTOCOL,
                 "WELCOME is due");
}

static void who_has_no_facts_does_not_join(void **state)
{
    (void)state;
    say_join();
    s.configure = PSR_ERR_NOT_FOUND;
    assert_fails(hear(scheduler, (psr_head){.type = PSR_MSG_CONFIG}, "config"), PSR_ERR_NOT_FOUND,
                 "no data here");
    assert_int_equal(s.count, 1);
    assert_false(psr_membership_joined(s.machine));
}

static void once_joined_what_is_not_its_own_is_the_callers(void **state)
{
    (void)state;
    join();
    static const psr_message_type types[] = {PSR_MSG_START, PSR_MSG_HOLD, PSR_MSG_BYE,
                                             PSR_MSG_CONFIG};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        psr_message *message = message_of(scheduler, (psr_head){.type = types[i]}, NULL);
        assert_ok(psr_membership_message(s.machine, &message, s.now_ms));
        assert_non_null(message);
        psr_message_free(&message);
    }
    psr_message *message = message_of(worker0, (psr_head){.type = PSR_MSG_RING}, NULL);
    assert_ok(psr_membership_message(s.machine, &message, s.now_ms));
    assert_non_null(message);
    psr_message_free(&message);
    assert_ok(hear(scheduler, (psr_head){.type = PSR_MSG_ALIVE}, NULL));
}

static void an_abort_is_an_error_at_any_time(void **state)
{
    (void)state;
    say_join();
    assert_fails(hear(scheduler, (psr_head){.type = PSR_MSG_ABORT}, "nobody else came"),
                 PSR_ERR_PEER, "the run ends: nobody else came");
    assert_ok(hear(scheduler, (psr_head){.type = PSR_MSG_CONFIG}, "config"));
    assert_ok(hear(scheduler, (psr_head){.type = PSR_MSG_WELCOME}, "welcome"));
    assert_fails(hear(scheduler, (psr_head){.type = PSR_MSG_ABORT}, "worker 0 died"), PSR_ERR_PEER,
                 "the run ends: worker 0 died");
}

static void a_refusal_is_an_error_with_the_status_that_it_says(void **state)
{
    (void)state;
    say_join();
    assert_fails(hear(scheduler, psr_msg_refused_head(PSR_ERR_DENIED), "worker 1 is taken"),
                 PSR_ERR_DENIED,
                 "the scheduler at tcp://head:4242 turns this process away: worker 1 is taken");
    assert_fails(hear(scheduler, psr_msg_refused_head(PSR_ERR_VERSION), "psring 9"),
                 PSR_ERR_VERSION, "psring 9");
    assert_fails(hear(scheduler, (psr_head){.type = PSR_MSG_REFUSED, .fields = {1000}}, "why"),
                 PSR_ERR_PEER, "why");
    assert_fails(hear(scheduler, psr_msg_refused_head(PSR_OK), "well"), PSR_ERR_PEER, "well");
}

static void what_others_say_before_the_welcome_is_kept_in_order(void **state)
{
    (void)state;
    say_join();
    for (uint64_t i = 0; i < 5; i++) {
        if (i == 2)
            assert_ok(hear(scheduler, (psr_head){.type = PSR_MSG_CONFIG}, "config"));
        assert_ok(hear(worker0, psr_msg_ahead_head(&(psr_msg_ahead){.operations = i}), "early"));
        assert_null(psr_membership_early(s.machine)); /* not yet */
    }
    assert_ok(hear(scheduler, (psr_head){.type = PSR_MSG_WELCOME}, "welcome"));
    for (uint64_t i = 0; i < 4; i++) { /* the last one ends with the machine */
        psr_message *message = psr_membership_early(s.machine);
        assert_non_null(message);
        psr_msg_ahead says;
        assert_ok(psr_msg_ahead_read(message, &says));
        assert_int_equal(says.operations, i);
        assert_memory_equal(message->payload, "early", 5);
        psr_message_free(&message);
    }
}

static void nothing_is_reported_before_the_configuration_and_then_at_once(void **state)
{
    (void)state;
    say_join();
    assert_ok(pass(DEADLINE_MS));
    assert_int_equal(reports_since(0), 0);
    assert_ok(hear(scheduler, (psr_head){.type = PSR_MSG_CONFIG}, "config"));
    assert_ok(tick());
    assert_int_equal(reports_since(0), 1);
    /* Whatever it does, it waits to be welcomed. */
    assert_true(report_told(s.count - 1).waits);
    assert_true(psr_peer_equal(report_told(s.count - 1).waits_for, scheduler));
    assert_ok(hear(scheduler, (psr_head){.type = PSR_MSG_WELCOME}, "welcome"));
    assert_ok(pass(100));
    assert_false(report_told(s.count - 1).waits);
}

static void a_report_goes_out_ten_times_a_second(void **state)
{
    (void)state;
    join();
    assert_ok(tick());
    size_t begin = s.count;
    for (int second = 0; second < 5; second++) {
        assert_ok(pass(1000));
        assert_ok(hear(scheduler, (psr_head){.type = PSR_MSG_ALIVE}, NULL));
    }
    assert_int_equal(reports_since(begin), 50);
    for (size_t i = begin; i < s.count; i++)
        assert_int_equal(s.told[i].at_ms, 1000000 + 100 * (int64_t)(i - begin + 1));
}

static void the_scheduler_may_ask_for_a_report(void **state)
{
    (void)state;
    join();
    assert_ok(tick());
    s.now_ms += 50;
    size_t begin = s.count;
    assert_ok(hear(scheduler, psr_msg_alive_head(true), NULL));
    assert_int_equal(reports_since(begin), 1);
    assert_ok(tick());
    assert_int_equal(s.next_ms, s.now_ms + 100); /* the next one counts from there */
    assert_int_equal(reports_since(begin), 1);
}

static void a_step_or_phase_that_has_changed_is_told_at_once(void **state)
{
    (void)state;
    join();
    assert_ok(tick());
    for (uint32_t i = 0; i < 20; i++) {
        size_t begin = s.count;
        s.now_ms += 3;
        if (i % 3 == 0)
            s.place.phase =
                s.place.phase == PSR_PHASE_FORWARD ? PSR_PHASE_BACKWARD : PSR_PHASE_FORWARD;
        else if (i % 3 == 1)
            s.place.step++;
        else
            s.place.evaluates = !s.place.evaluates; /* an evaluation begins or ends */
        assert_ok(tick());
        assert_int_equal(s.count, begin + 1);
        assert_int_equal(report_told(begin).step, s.place.step);
        assert_int_equal(report_told(begin).phase, s.place.phase);
        assert_int_equal(s.told[begin].at_ms, s.now_ms);
        assert_ok(tick()); /* once */
        assert_int_equal(s.count, begin + 1);
    }
    /* Other counts of an evaluation that goes on, and the bucket, wait for the next report. */
    s.place.evaluates = true;
    s.now_ms += 3;
    assert_ok(tick());
    size_t begin = s.count;
    for (uint32_t i = 0; i < 20; i++) {
        s.now_ms += 3;
        s.place.counted++;
        s.place.bucket++;
        assert_ok(tick());
    }
    assert_int_equal(s.count, begin);
}

/* How many changes are told at once when there is one in each millisecond, and then how many a
 * second. */
static void check_burst(size_t members, size_t a_second)
{
    s.members = members;
    join();
    assert_ok(tick());
    s.now_ms += 60000; /* it was long silent: no more than a burst is owed */
    assert_ok(tick());
    size_t begin = s.count;
    for (size_t changes = 0; reports_since(begin) == changes; changes++) {
        s.now_ms++;
        s.place.step++;
        assert_ok(tick());
    }
    size_t at_once = reports_since(begin);
    /* While the burst lasts, a millisecond in ten (or one in so many) gives one more. */
    assert_in_range(at_once, 50, 50 + 50 / (1000 / a_second - 1) + 1);
    assert_ok(hear(scheduler, (psr_head){.type = PSR_MSG_ALIVE}, NULL));
    begin = s.count;
    for (int i = 0; i < 2000; i++) {
        s.now_ms++;
        s.place.step++;
        assert_ok(tick());
    }
    assert_in_range(reports_since(begin), 2 * a_second - 1, 2 * a_second + 1);
    assert_int_equal(s.told[s.count - 1].head.type, PSR_MSG_PROGRESS);
}

static void a_long_row_of_changes_is_told_in_part(void **state)
{
    (void)state;
    check_burst(3, 100);
}

static void in_a_large_run_each_member_tells_fewer_of_them(void **state)
{
    (void)state;
    check_burst(400, 25);
}

static void a_silent_scheduler_is_named_in_time_and_not_before(void **state)
{
    (void)state;
    join();
    assert_ok(pass(SILENCE_MS));
    assert_fails(pass(1), PSR_ERR_PEER,
                 "the scheduler at tcp://head:4242: no sign of life for 2.5 s");
}

static void before_the_configuration_the_default_deadline_holds(void **state)
{
    (void)state;
    say_join();
    assert_ok(pass(DEADLINE_MS));
    assert_fails(pass(1), PSR_ERR_PEER,
                 "the scheduler at tcp://head:4242 did not answer for 30.0 s");
}

static void anything_that_the_scheduler_says_is_a_sign_of_life(void **state)
{
    (void)state;
    join();
    for (int i = 0; i < 10; i++) {
        assert_ok(pass(SILENCE_MS));
        if (i % 2) {
            assert_ok(hear(scheduler, (psr_head){.type = PSR_MSG_ALIVE}, NULL));
        } else {
            psr_message *message = message_of(scheduler, (psr_head){.type = PSR_MSG_RESTORE}, NULL);
            assert_ok(psr_membership_message(s.machine, &message, s.now_ms));
            psr_message_free(&message);
        }
    }
    /* What others say is none. */
    assert_ok(pass(SILENCE_MS));
    psr_message *message = message_of(worker0, (psr_head){.type = PSR_MSG_RING}, NULL);
    assert_ok(psr_membership_message(s.machine, &message, s.now_ms));
    psr_message_free(&message);
    assert_fails(pass(1), PSR_ERR_PEER, "no sign of life");
}

static void time_in_which_it_did_not_run_is_no_silence(void **state)
{
    (void)state;
    join();
    assert_ok(pass(1000));
    for (int i = 0; i < 5; i++) {
        s.now_ms += 10 * RUN_DEADLINE_MS; /* stopped */
        assert_ok(tick());
    }
    assert_ok(pass(SILENCE_MS - 1000));
    assert_fails(pass(1), PSR_ERR_PEER, "no sign of life for 2.5 s");
}

static void nor_is_the_time_that_its_facts_take(void **state)
{
    (void)state;
    say_join();
    s.takes_ms = 5 * RUN_DEADLINE_MS;
    assert_ok(hear(scheduler, (psr_head){.type = PSR_MSG_CONFIG}, "config"));
    assert_ok(tick());
    assert_int_equal(s.told[s.count - 1].head.type, PSR_MSG_PROGRESS);
    assert_ok(pass(SILENCE_MS));
    assert_fails(pass(1), PSR_ERR_PEER, "no sign of life for 2.5 s");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(joining_is_three_things_said_and_two_heard, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(
            facts_may_come_later_and_until_then_it_tells_its_own_progress, set_up, tear_down),
        cmocka_unit_test_setup_teardown(messages_of_the_scheduler_come_in_their_order_while_joining,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(who_has_no_facts_does_not_join, set_up, tear_down),
        cmocka_unit_test_setup_teardown(once_joined_what_is_not_its_own_is_the_callers, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(an_abort_is_an_error_at_any_time, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_refusal_is_an_error_with_the_status_that_it_says, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(what_others_say_before_the_welcome_is_kept_in_order, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(
            nothing_is_reported_before_the_configuration_and_then_at_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_report_goes_out_ten_times_a_second, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_scheduler_may_ask_for_a_report, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_step_or_phase_that_has_changed_is_told_at_once, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_long_row_of_changes_is_told_in_part, set_up, tear_down),
        cmocka_unit_test_setup_teardown(in_a_large_run_each_member_tells_fewer_of_them, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_silent_scheduler_is_named_in_time_and_not_before, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(before_the_configuration_the_default_deadline_holds, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(anything_that_the_scheduler_says_is_a_sign_of_life, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(time_in_which_it_did_not_run_is_no_silence, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(nor_is_the_time_that_its_facts_take, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
