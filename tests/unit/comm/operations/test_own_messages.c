#include "tests/unit/expect.h"

#include "comm/operations/own_messages.h"
#include "comm/wire/messages.h"

#include <string.h>

static const psr_peer self = {PSR_ROLE_WORKER, 3};

static void count(void *context)
{
    ++*(int *)context;
}

static psr_own_messages *open_messages(void)
{
    psr_own_messages *messages = NULL;
    expect_ok(psr_own_messages_new(self, &messages));
    return messages;
}

static void they_come_out_in_the_order_in_which_they_went_in(void **state)
{
    (void)state;
    psr_own_messages *messages = open_messages();
    for (uint64_t i = 0; i < 5; i++) {
        psr_head head = psr_msg_ack_head(i);
        expect_ok(psr_own_messages_send(messages, &head, NULL));
    }
    for (uint64_t i = 0; i < 5; i++) {
        uint64_t received = 99;
        psr_message *message = psr_own_messages_take(messages);
        assert_true(psr_peer_equal(message->from, self));
        assert_int_equal(message->payload_bytes, 0);
        expect_ok(psr_msg_ack_read(message, &received));
        assert_int_equal(received, i);
        psr_message_free(&message);
    }
    assert_null(psr_own_messages_take(messages));
    psr_own_messages_free(messages);
}

static void what_is_lent_is_pointed_to_and_comes_back_with_its_message(void **state)
{
    (void)state;
    static const float values[4] = {1, 2, 3, 4};
    int returned = 0;
    psr_own_messages *messages = open_messages();
    psr_head head = psr_msg_push_head(&(psr_msg_push){.span = {0, 4}});
    const psr_payload payload = {values, sizeof values, count, &returned};
    expect_ok(psr_own_messages_send(messages, &head, &payload));
    psr_message *message = psr_own_messages_take(messages);
    assert_ptr_equal(message->payload, values);
    assert_int_equal(message->payload_bytes, sizeof values);
    assert_int_equal(returned, 0);
    psr_message_free(&message);
    assert_int_equal(returned, 1);
    psr_own_messages_free(messages);
}

static void what_is_not_lent_is_copied(void **state)
{
    (void)state;
    char text[] = "abc";
    psr_own_messages *messages = open_messages();
    psr_head head = psr_msg_ack_head(0);
    const psr_payload payload = {.data = text, .bytes = sizeof text};
    expect_ok(psr_own_messages_send(messages, &head, &payload));
    strcpy(text, "xyz");
    psr_message *message = psr_own_messages_take(messages);
    assert_string_equal(message->payload, "abc");
    psr_message_free(&message);
    psr_own_messages_free(messages);
}

static void what_nobody_took_comes_back_at_the_end(void **state)
{
    (void)state;
    static const float values[4] = {0};
    int returned = 0;
    psr_own_messages *messages = open_messages();
    psr_head head = psr_msg_push_head(&(psr_msg_push){.span = {0, 4}});
    const psr_payload payload = {values, sizeof values, count, &returned};
    for (int i = 0; i < 3; i++)
        expect_ok(psr_own_messages_send(messages, &head, &payload));
    psr_own_messages_free(messages);
    assert_int_equal(returned, 3);
    psr_own_messages_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(they_come_out_in_the_order_in_which_they_went_in),
        cmocka_unit_test(what_is_lent_is_pointed_to_and_comes_back_with_its_message),
        cmocka_unit_test(what_is_not_lent_is_copied),
        cmocka_unit_test(what_nobody_took_comes_back_at_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
