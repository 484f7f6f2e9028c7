/* What breaks the protocol, and what is dropped. */
#include "tests/unit/ps/scheduler/scheduler_fixture.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void a_message_of_somebody_who_has_not_joined_is_dropped(void **state)
{
    fixture *f = *state;
    say(f, w1, PSR_MSG_READY, NULL);
    say(f, any_worker, PSR_MSG_DONE, NULL);
    assert_false(f->ended);
    assert_non_null(strstr(f->said, "worker 1 sent READY and has not joined: dropped"));
}

/* A piece of a checkpoint of no steps. */
static psr_head floats_of(uint32_t section, size_t count)
{
    psr_head head =
        psr_msg_checkpoint_head(&(psr_msg_piece){.section = section, .span = {0, count}});
    head.encoding = PSR_ENCODING_FLOAT32;
    return head;
}

typedef struct violation {
    const psr_peer *from;
    psr_head head;
    const char *text, *why;
} violation;

static void each_violation_of_the_protocol_ends_the_run_with_its_line(void **state)
{
    fixture *f = *state;
    const psr_msg_progress nobody = {.waits = true, .waits_for = {(psr_role)3, 0}};
    const psr_msg_progress counted = {.evaluates = true, .counted = 31};
    const violation violations[] = {
        {&w1, {.type = PSR_MSG_FACTS}, NULL, "it has told its facts before"},
        {&w1, {.type = PSR_MSG_READY}, NULL, "that is due once, after WELCOME"},
        {&w1, psr_msg_push_head(&(psr_msg_push){0}), NULL, "that is not due while the run is on"},
        {&w1, psr_msg_held_head(0), NULL, "it was not told to hold"},
        {&w1, psr_msg_progress_head(&(psr_msg_progress){.phase = (psr_phase)99}), NULL,
         "its phase is 99: 12 is the most"},
        {&w1, psr_msg_progress_head(&nobody), NULL, "its role is 3: 2 is the most"},
        {&w1, psr_msg_progress_head(&counted), NULL, "its counted is 31: 30 is the most"},
        {&w1, {.type = PSR_MSG_DONE, .fields = {0, 2}}, NULL, "its left_out is 2: 1 is the most"},
        {&w1, {.type = PSR_MSG_DONE, .fields = {21}}, NULL, "its steps is 21: 20 is the most"},
        {&w1, {.type = PSR_MSG_DONE}, "{\"loss\": ", "its payload is no JSON object"},
        {&w1, {.type = PSR_MSG_DONE}, "[1]", "its payload is no JSON object"},
        {&s0, {.type = PSR_MSG_DONE}, "{}", "field \"gradient_bytes\" is missing or no number"},
        {&w1, floats_of(0, 1), "1234", "section 0 of a checkpoint is not its to send"},
        {&w0, floats_of(16, 1), "1234", "section 16 of a checkpoint is not its to send"},
        {&w0, floats_of(257, 1), "1234", "section 257 of a checkpoint is not its to send"},
        {&s0, floats_of(256, 1), "1234", "section 256 of a checkpoint is not its to send"},
        {&w0, floats_of(0, 2), "1234", "its payload has 4 bytes, not those of 2 values of float32"},
        {&w0, psr_msg_checkpoint_head(&(psr_msg_piece){.span = {0, 1}}), "1234",
         "its payload is in bytes, not in float32"},
    };
    for (size_t i = 0; i < sizeof violations / sizeof violations[0]; i++) {
        const violation *v = &violations[i];
        char said[256], line[TEXT_MAX];
        psr_head_describe(&v->head, said, sizeof said);
        snprintf(line, sizeof line, "on %s: %s %" PRIu32 " sent %s: %s", v->from == &w1 ? "b" : "a",
                 psr_role_name(v->from->role), v->from->rank, said, v->why);
        set_up_started(f);
        give(f, *v->from, v->head, v->text, v->text != NULL ? strlen(v->text) : 0);
        ends(f, PSR_ERR_PROTOCOL, line);
        assert_int_equal(psr_err_exit_status(f->status), 3);
    }
}

static void words_before_their_time_and_bytes_that_are_no_json_are_violations(void **state)
{
    fixture *f = *state;
    say(f, w1, PSR_MSG_METRICS, "{}");
    ends(f, PSR_ERR_PROTOCOL,
         "on b: worker 1 sent METRICS: that is not due before "
         "START");

    set_up_joined(f);
    say(f, w1, PSR_MSG_FACTS, "{\"identity\": 3}");
    ends(f, PSR_ERR_PROTOCOL,
         "on b: worker 1 sent FACTS: field \"identity\" is "
         "missing or no text");

    set_up_opened(f);
    say(f, w1, PSR_MSG_JOIN, "[[[[");
    ends(f, PSR_ERR_PROTOCOL, "worker 1 sent JOIN: not a JSON object");
}

static void a_text_that_is_too_long_is_a_violation(void **state)
{
    fixture *f = *state;
    static char text[(64 << 10) + 2];
    memset(text, ' ', sizeof text - 1);
    const psr_message_type types[] = {PSR_MSG_JOIN, PSR_MSG_FACTS, PSR_MSG_DONE, PSR_MSG_PROGRESS};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        set_up_started(f);
        say(f, w1, types[i], text);
        ends_with_words(f, PSR_ERR_PROTOCOL, "its payload has 65537 bytes, more than 65536");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SET_UP(a_text_that_is_too_long_is_a_violation),
        OPENED(a_message_of_somebody_who_has_not_joined_is_dropped),
        SET_UP(each_violation_of_the_protocol_ends_the_run_with_its_line),
        JOINED(words_before_their_time_and_bytes_that_are_no_json_are_violations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
