/* Messages of an older, the present and a newer view. */
#include "tests/unit/expect.h"

#include "comm/view/epoch_gate.h"
#include "comm/wire/messages.h"

#include <stdlib.h>
#include <string.h>

static uint32_t freed;

static void release(psr_message *message)
{
    freed++;
    free(message);
}

static psr_message *message_of(psr_message_type type, uint32_t epoch, uint64_t round)
{
    psr_message *message = calloc(1, sizeof *message);
    message->from = (psr_peer){PSR_ROLE_WORKER, 1};
    message->head = (psr_head){.type = type, .tag = {.epoch = epoch, .round = round}};
    message->release = release;
    return message;
}

/* Whether it is to be read now. */
static bool passes(psr_epoch_gate *gate, psr_message_type type, uint32_t epoch, uint64_t round)
{
    psr_message *message = message_of(type, epoch, round);
    expect_ok(psr_epoch_gate_pass(gate, &message));
    const bool due = message != NULL;
    if (due)
        assert_int_equal(message->head.tag.epoch, 0);
    psr_message_free(&message);
    return due;
}

static void next_is(psr_epoch_gate *gate, uint64_t round)
{
    psr_message *message = psr_epoch_gate_next(gate);
    assert_non_null(message);
    assert_int_equal(message->head.tag.round, round);
    assert_int_equal(message->head.tag.epoch, 0);
    psr_message_free(&message);
}

static void an_older_one_is_dropped_and_a_newer_one_waits_in_order(void **state)
{
    (void)state;
    psr_epoch_gate *gate = NULL;
    freed = 0;
    expect_ok(psr_epoch_gate_new(8, &gate));
    assert_true(passes(gate, PSR_MSG_PUSH, 0, 1));
    assert_false(passes(gate, PSR_MSG_PUSH, 1, 2));
    assert_false(passes(gate, PSR_MSG_STATE, 1, 3));
    assert_false(passes(gate, PSR_MSG_PUSH, 3, 4)); /* a view was replaced before it began */
    assert_false(passes(gate, PSR_MSG_PUSH, 1, 5));
    assert_int_equal(psr_epoch_gate_waiting(gate, 1)->head.tag.round, 2); /* the oldest */
    assert_null(psr_epoch_gate_waiting(gate, 2));
    assert_int_equal(psr_epoch_gate_waiting(gate, 3)->head.tag.round, 4);
    assert_null(psr_epoch_gate_next(gate));

    psr_epoch_gate_move(gate, 1, 8);
    next_is(gate, 3); /* what is handed over comes first */
    assert_null(psr_epoch_gate_next(gate));
    assert_true(passes(gate, PSR_MSG_STATE, 1, 6));
    assert_false(passes(gate, PSR_MSG_PUSH, 1, 7));
    assert_false(passes(gate, PSR_MSG_ACK, 0, 8));
    psr_epoch_gate_open(gate);
    next_is(gate, 2);
    next_is(gate, 5);
    next_is(gate, 7);
    assert_null(psr_epoch_gate_next(gate));
    assert_true(passes(gate, PSR_MSG_PUSH, 1, 9));

    assert_false(passes(gate, PSR_MSG_PUSH, 2, 10));
    psr_epoch_gate_move(gate, 3, 8);
    psr_epoch_gate_open(gate);
    next_is(gate, 4);
    assert_null(psr_epoch_gate_next(gate)); /* the one of epoch 2 is dropped */
    assert_false(passes(gate, PSR_MSG_PUSH, 4, 11));
    assert_int_equal(freed, 10);
    psr_epoch_gate_free(gate); /* with what waits */
    assert_int_equal(freed, 11);
}

/* As a violation, whose line ends so. */
static void refused(psr_err err, const char *why)
{
    assert_int_equal(err, PSR_ERR_PROTOCOL);
    assert_non_null(strstr(psr_err_detail(), why));
}

static void more_than_may_wait_is_a_violation(void **state)
{
    (void)state;
    psr_epoch_gate *gate = NULL;
    expect_ok(psr_epoch_gate_new(2, &gate));
    assert_false(passes(gate, PSR_MSG_PUSH, 1, 0));
    assert_false(passes(gate, PSR_MSG_PUSH, 1, 1));
    psr_message *third = message_of(PSR_MSG_PUSH, 1, 2);
    refused(psr_epoch_gate_pass(gate, &third), "more than 2 messages wait for a later view");
    psr_message_free(&third);
    psr_epoch_gate_move(gate, 1, 3);
    psr_epoch_gate_open(gate);
    next_is(gate, 0);
    next_is(gate, 1);
    assert_null(psr_epoch_gate_next(gate));
    psr_epoch_gate_free(gate);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_older_one_is_dropped_and_a_newer_one_waits_in_order),
        cmocka_unit_test(more_than_may_wait_is_a_violation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
