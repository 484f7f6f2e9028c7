#include "tests/unit/expect.h"

#include "comm/wire/encoding.h"

#include <string.h>

static void values_lie_in_a_payload_as_they_lie_in_memory(void **state)
{
    (void)state;
    static const float floats[3] = {1, 2, 3};
    psr_head head = {.type = PSR_MSG_PUSH};
    psr_payload payload = psr_encode(&head, PSR_ENCODING_FLOAT32, floats, 3);
    assert_int_equal(head.encoding, PSR_ENCODING_FLOAT32);
    assert_ptr_equal(payload.data, floats);
    assert_int_equal(payload.bytes, sizeof floats);
    assert_null(payload.release);

    psr_message message = {.head = head, .payload = floats, .payload_bytes = sizeof floats};
    const float *values;
    expect_ok(psr_decode_floats(&message, PSR_ENCODING_FLOAT32, 3, &values));
    assert_ptr_equal(values, floats);

    static const double doubles[2] = {1, 2};
    message = (psr_message){.payload = doubles, .payload_bytes = sizeof doubles};
    const void *bytes;
    message.head.encoding = PSR_ENCODING_BYTES;
    expect_ok(psr_decode_bytes(&message, sizeof doubles, &bytes));
    assert_ptr_equal(bytes, doubles);
}

static void a_payload_of_another_size_is_refused(void **state)
{
    (void)state;
    static const double some[2];
    psr_message message = {.from = {PSR_ROLE_WORKER, 1}, .payload = some, .payload_bytes = 12};
    message.head.encoding = PSR_ENCODING_FLOAT32;
    const float *floats = NULL;
    const void *bytes = NULL;
    assert_int_equal(psr_decode_floats(&message, PSR_ENCODING_FLOAT32, 2, &floats),
                     PSR_ERR_PROTOCOL);
    assert_non_null(
        strstr(psr_err_detail(), "its payload has 12 bytes, not those of 2 values of float32"));
    assert_int_equal(psr_decode_floats(&message, PSR_ENCODING_FLOAT32, 4, &floats),
                     PSR_ERR_PROTOCOL);
    /* 4 times this is 12, modulo 2^64. */
    assert_int_equal(
        psr_decode_floats(&message, PSR_ENCODING_FLOAT32, ((size_t)1 << 62) + 3, &floats),
        PSR_ERR_PROTOCOL);
    message.head.encoding = PSR_ENCODING_BYTES;
    assert_int_equal(psr_decode_bytes(&message, 11, &bytes), PSR_ERR_PROTOCOL);
    assert_null(floats);
    assert_null(bytes);
}

static void another_encoding_is_refused_by_its_name(void **state)
{
    (void)state;
    static const float some[4];
    psr_message message = {.from = {PSR_ROLE_WORKER, 1},
                           .head = {.type = PSR_MSG_READY, .encoding = PSR_ENCODING_FP16},
                           .payload = some,
                           .payload_bytes = sizeof some};
    const float *floats = NULL;
    const void *bytes = NULL;
    expect_failure(psr_decode_floats(&message, PSR_ENCODING_FLOAT32, 4, &floats), PSR_ERR_PROTOCOL,
                   "worker 1 sent READY: its payload is in fp16, not in float32");
    message.head.encoding = PSR_ENCODING_FLOAT32;
    expect_failure(psr_decode_bytes(&message, sizeof some, &bytes), PSR_ERR_PROTOCOL,
                   "worker 1 sent READY: its payload is in float32, not in bytes");
    assert_null(floats);
    assert_null(bytes);
}

static void the_largest_message_is_full_of_values_of_any_encoding(void **state)
{
    (void)state;
    assert_int_equal(psr_encoding_values_max(PSR_ENCODING_BYTES), PSR_PAYLOAD_BYTES_MAX);
    assert_int_equal(
        psr_encoding_bytes(PSR_ENCODING_FLOAT32, psr_encoding_values_max(PSR_ENCODING_FLOAT32)),
        PSR_PAYLOAD_BYTES_MAX);
    assert_int_equal(
        psr_encoding_bytes(PSR_ENCODING_FLOAT64, psr_encoding_values_max(PSR_ENCODING_FLOAT64)),
        PSR_PAYLOAD_BYTES_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_lie_in_a_payload_as_they_lie_in_memory),
        cmocka_unit_test(a_payload_of_another_size_is_refused),
        cmocka_unit_test(another_encoding_is_refused_by_its_name),
        cmocka_unit_test(the_largest_message_is_full_of_values_of_any_encoding),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
