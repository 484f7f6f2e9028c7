/* What other programs may write, and what nobody should: headers that
 * model/checkpoint/safetensors.c reads from memory.
 */
#include "tests/unit/expect.h"

#include "model/checkpoint/checkpoint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DATA_BYTES 4096 /* that a test file can have at most */

typedef struct image {
    uint8_t *bytes;
    size_t size;
} image;

/* length, header, data of data_bytes. */
static image image_of(const char *header, size_t header_bytes, size_t data_bytes)
{
    assert_true(data_bytes <= DATA_BYTES);
    image file = {.size = 8 + header_bytes + data_bytes};
    file.bytes = calloc(1, file.size);
    assert_non_null(file.bytes);
    uint64_t length = header_bytes;
    memcpy(file.bytes, &length, 8);
    memcpy(file.bytes + 8, header, header_bytes);
    for (size_t i = 0; i < data_bytes / 4; i++) {
        float value = (float)i;
        memcpy(file.bytes + 8 + header_bytes + 4 * i, &value, 4);
    }
    return file;
}

static psr_checkpoint *parse(const image *file)
{
    psr_checkpoint *checkpoint = NULL;
    expect_ok(psr_checkpoint_parse("f", file->bytes, file->size, &checkpoint));
    return checkpoint;
}

/* ---- what must be read ---- */

static void a_file_of_another_program_is_read_without_checksums(void **state)
{
    (void)state;
    static const char header[] =
        " {\"w\": {\"shape\": [2, 3], \"data_offsets\": [8, 32], \"dtype\": \"F32\"},\n"
        "\t\"bn.num_batches_tracked\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[0,8]},\r\n"
        " \"__metadata__\" : {\"format\":\"pt\", "
        "\"note\":\"a\\u00e9\\\"\\\\\\/\\n\\ud83d\\ude00\"} } ";
    image file = image_of(header, sizeof header - 1, 32);
    psr_checkpoint *checkpoint = parse(&file);
    float data[6];
    expect_ok(psr_checkpoint_read(checkpoint, "w", 2, (uint32_t[]){2, 3}, data));
    for (int i = 0; i < 6; i++)
        assert_true(data[i] == (float)(i + 2));
    assert_string_equal(psr_checkpoint_metadata(checkpoint, "note"),
                        "a\xc3\xa9\"\\/\n\xf0\x9f\x98\x80");
    assert_null(psr_checkpoint_metadata(checkpoint, "other"));
    assert_string_equal(psr_checkpoint_name(checkpoint, 0), "bn.num_batches_tracked");
    assert_string_equal(psr_checkpoint_name(checkpoint, 1), "w");
    assert_null(psr_checkpoint_name(checkpoint, 2));
    psr_checkpoint_close(checkpoint);
    free(file.bytes);
}

static void data_behind_a_header_of_any_length_is_read(void **state)
{
    (void)state;
    for (size_t spaces = 0; spaces < 8; spaces++) {
        char header[128];
        int length =
            snprintf(header, sizeof header,
                     "{\"w\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,12]}}%*s",
                     (int)spaces, "");
        image file = image_of(header, (size_t)length, 12);
        psr_checkpoint *checkpoint = parse(&file);
        float data[3];
        expect_ok(psr_checkpoint_read(checkpoint, "w", 1, (uint32_t[]){3}, data));
        assert_true(data[0] == 0 && data[1] == 1 && data[2] == 2);
        psr_checkpoint_close(checkpoint);
        free(file.bytes);
    }
}

static void a_file_without_tensors_is_read(void **state)
{
    (void)state;
    image file = image_of("{}", 2, 0);
    psr_checkpoint *checkpoint = parse(&file);
    assert_null(psr_checkpoint_name(checkpoint, 0));
    psr_checkpoint_close(checkpoint);
    free(file.bytes);
}

static void only_float32_can_be_used_wherever_it_lies(void **state)
{
    (void)state;
    static const char header[] = "{\"a\":{\"dtype\":\"F16\",\"shape\":[1],\"data_offsets\":[0,2]},"
                                 "\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[2,6]}}";
    image file = image_of(header, sizeof header - 1, 6);
    psr_checkpoint *checkpoint = parse(&file);
    const float value = 1.5f;
    memcpy(file.bytes + file.size - sizeof value, &value, sizeof value);
    float data = 7;
    expect_failure(psr_checkpoint_read(checkpoint, "a", 1, (uint32_t[]){1}, &data), PSR_ERR_FORMAT,
                   "f: tensor a is of type F16, F32 is needed");
    assert_true(data == 7);
    /* at byte 2 of the data */
    expect_ok(psr_checkpoint_read(checkpoint, "b", 1, (uint32_t[]){1}, &data));
    assert_true(data == value);
    psr_checkpoint_close(checkpoint);
    free(file.bytes);
}

/* ---- what must be refused ---- */

#define W(offsets) "\"w\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[" offsets "]}"

static const struct {
    const char *header;
    size_t data_bytes;
    const char *detail;
} refused[] = {
    {"", 0, "f: header: '{' expected at byte 0"},
    {"[]", 0, "f: header: '{' expected at byte 0"},
    {"{", 0, "f: header: a string expected at byte 1"},
    {"{} x", 0, "f: header: nothing more expected at byte 3"},
    {"{" W("0,8"), 8, "f: header: '}' expected at byte 53"},
    {"{" W("0,8") ",}", 8, "f: header: a string expected at byte 54"},
    {"{\"w\" 1}", 0, "f: header: ':' expected at byte 5"},
    {"{\"w\":1}", 0, "f: header: '{' expected at byte 5"},
    {"{\"w\":{}}", 0, "f: header: a string expected at byte 6"},
    {"{\"w", 0, "f: header: the end of a string expected at byte 3"},
    {"{\"w\n\":1}", 0, "f: header: no control character in a string expected at byte 4"},
    {"{\"\\q\":1}", 0, "f: header: a known escape in a string expected at byte 4"},
    {"{\"\\u12g4\":1}", 0, "f: header: a known escape in a string expected at byte 7"},
    {"{\"\\u0000\":1}", 0, "f: header: a known escape in a string expected at byte 8"},
    {"{\"\\ud800\":1}", 0, "f: header: a known escape in a string expected at byte 8"},
    {"{\"\xff\":1}", 0, "f: header: is not UTF-8"},
    {"{\"\xc0\xaf\":1}", 0, "f: header: is not UTF-8"},         /* overlong */
    {"{\"\xed\xa0\x80\":1}", 0, "f: header: is not UTF-8"},     /* a surrogate */
    {"{\"\xf4\x90\x80\x80\":1}", 0, "f: header: is not UTF-8"}, /* past U+10FFFF */
    {"{\"\xe2\x82", 0, "f: header: is not UTF-8"},              /* cut */
    /* entries */
    {"{\"w\":{\"dtype\":\"F33\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8,
     "f: tensor w: unknown type \"F33\""},
    {"{\"w\":{\"dtype\":7,\"shape\":[2],\"data_offsets\":[0,8]}}", 8,
     "f: header: a string expected at byte 14"},
    {"{\"w\":{\"shape\":[2],\"data_offsets\":[0,8]}}", 8,
     "f: tensor w: dtype, shape and data_offsets are needed"},
    {"{\"w\":{\"dtype\":\"F32\",\"data_offsets\":[0,8]}}", 8,
     "f: tensor w: dtype, shape and data_offsets are needed"},
    {"{\"w\":{\"dtype\":\"F32\",\"shape\":[2]}}", 8,
     "f: tensor w: dtype, shape and data_offsets are needed"},
    {"{\"w\":{\"dtype\":\"F32\",\"dtype\":\"F32\"}}", 8,
     "f: tensor w: unexpected or repeated key \"dtype\""},
    {"{\"w\":{\"extra\":{}}}", 8, "f: tensor w: unexpected or repeated key \"extra\""},
    {"{\"w\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8]}}", 8,
     "f: tensor w: data_offsets needs two numbers"},
    {"{\"w\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4,8]}}", 8,
     "f: header: offsets of more than 2 numbers at byte 52"},
    {"{\"w\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,4]}}", 4,
     "f: header: a shape of more than 8 numbers at byte 45"},
    {"{\"w\":{\"dtype\":\"F32\",\"shape\":{},\"data_offsets\":[0,4]}}", 4,
     "f: header: a shape expected at byte 28"},
    {"{\"w\":{\"dtype\":\"F32\",\"shape\":[2,],\"data_offsets\":[0,8]}}", 8,
     "f: header: an integer, 0 or more, expected at byte 31"},
    {"{\"w\":{\"dtype\":\"F32\",\"shape\":[-2],\"data_offsets\":[0,8]}}", 8,
     "f: header: an integer, 0 or more, expected at byte 29"},
    {"{\"w\":{\"dtype\":\"F32\",\"shape\":[02],\"data_offsets\":[0,8]}}", 8,
     "f: header: an integer, 0 or more, expected at byte 31"},
    {"{\"w\":{\"dtype\":\"F32\",\"shape\":[2.0],\"data_offsets\":[0,8]}}", 8,
     "f: header: ']' expected at byte 30"},
    {"{\"w\":{\"dtype\":\"F32\",\"shape\":[18446744073709551616],\"data_offsets\":[0,8]}}", 8,
     "f: header: an integer below 2^64 expected at byte 48"},
    {"{\"w\":{\"dtype\":\"F32\",\"shape\":[[[[2]]]],\"data_offsets\":[0,8]}}", 8,
     "f: header: an integer, 0 or more, expected at byte 29"},
    /* ranges */
    {"{" W("0,9") "}", 8, "f: tensor w: bytes 0 to 9 do not lie within the 8 bytes of data"},
    {"{" W("0,18446744073709551615") "}", 8,
     "f: tensor w: bytes 0 to 18446744073709551615 do not lie within the 8 bytes of data"},
    {"{" W("8,0") "}", 8, "f: tensor w: bytes 8 to 0 do not lie within the 8 bytes of data"},
    {"{" W("0,4") "}", 8, "f: tensor w: has 4 bytes, its shape and type F32 need 8"},
    {"{\"w\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,8]}}", 8,
     "f: tensor w: its shape asks for 2^64 bytes or more"},
    {"{" W("4,12") "}", 12,
     "f: tensor w: begins at byte 4 of the data, leaving a hole from byte 0"},
    {"{" W("0,8") "}", 12, "f: 12 bytes of data, the tensors need 8"},
    {"{\"v\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[4,12]}," W("0,8") "}", 12,
     "f: tensor v: begins at byte 4 of the data, overlapping what ends at byte 8"},
    {"{\"v\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[12,16]}," W("0,8") "}", 16,
     "f: tensor v: begins at byte 12 of the data, leaving a hole from byte 8"},
    {"{" W("0,8") "," W("8,16") "}", 16, "f: tensor w: comes twice"},
    /* metadata */
    {"{\"__metadata__\":{\"a\":1}}", 0, "f: header: a string expected at byte 21"},
    {"{\"__metadata__\":{\"a\":\"1\",\"a\":\"2\"}}", 0, "f: metadata a: comes twice"},
    {"{\"__metadata__\":{},\"__metadata__\":{}}", 0, "f: header: __metadata__ comes twice"},
    {"{\"__metadata__\":{\"xxh3\":\"123\"}}", 0, "f: metadata xxh3: is not 16 hex digits"},
    {"{\"__metadata__\":{\"xxh3\":\"0123456789abcdef\"}}", 0,
     "f: header: does not match its checksum"},
    {"{\"__metadata__\":{\"xxh3\": \"0123456789abcdef\"}}", 0,
     "f: metadata xxh3: written in a form that cannot be verified"},
    {"{\"__metadata__\":{\"xxh3/w\":\"0123456789abcdef\"}," W("0,8") "}", 8,
     "f: metadata xxh3: is missing beside the checksum of tensor w"},
};

static void headers_that_are_wrong_are_refused_in_words(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        image file = image_of(refused[i].header, strlen(refused[i].header), refused[i].data_bytes);
        psr_checkpoint *checkpoint = NULL;
        psr_err err = psr_checkpoint_parse("f", file.bytes, file.size, &checkpoint);
        if (err != PSR_ERR_FORMAT || strcmp(psr_err_detail(), refused[i].detail) != 0)
            fail_msg("%s gave \"%s\" (%s) instead of \"%s\"", refused[i].header,
                     err == PSR_OK ? "" : psr_err_detail(), psr_err_name(err), refused[i].detail);
        assert_null(checkpoint);
        free(file.bytes);
    }
}

static void a_header_that_claims_too_much_is_refused_before_anything_is_allocated(void **state)
{
    (void)state;
    uint8_t bytes[16] = {[7] = 0x10}; /* 2^60 */
    psr_checkpoint *checkpoint = NULL;
    expect_failure(
        psr_checkpoint_parse("f", bytes, sizeof bytes, &checkpoint), PSR_ERR_FORMAT,
        "f: not safetensors, or torn: a header of 1152921504606846976 bytes in a file of 16");
    memset(bytes, 0xff, 8);
    expect_failure(
        psr_checkpoint_parse("f", bytes, sizeof bytes, &checkpoint), PSR_ERR_FORMAT,
        "f: not safetensors, or torn: a header of 18446744073709551615 bytes in a file of 16");
    memset(bytes, 0, 8);
    bytes[0] = 9; /* one more than there is */
    expect_failure(psr_checkpoint_parse("f", bytes, sizeof bytes, &checkpoint), PSR_ERR_FORMAT,
                   "f: not safetensors, or torn: a header of 9 bytes in a file of 16");
    expect_failure(psr_checkpoint_parse("f", bytes, 7, &checkpoint), PSR_ERR_FORMAT,
                   "f: 7 bytes: too short for a safetensors file");
}

static void a_million_brackets_do_not_reach_the_end_of_the_stack(void **state)
{
    (void)state;
    enum { DEEP = 1000000 };
    char *header = malloc(DEEP);
    assert_non_null(header);
    static const char opening[] = "{\"w\":{\"shape\":";
    memset(header, '[', DEEP);
    memcpy(header, opening, sizeof opening - 1);
    image file = image_of(header, DEEP, 0);
    psr_checkpoint *checkpoint = NULL;
    expect_failure(psr_checkpoint_parse("f", file.bytes, file.size, &checkpoint), PSR_ERR_FORMAT,
                   "f: header: an integer, 0 or more, expected at byte 15");
    free(file.bytes);
    free(header);
}

static void a_name_in_a_message_is_cut_and_cleaned(void **state)
{
    (void)state;
    char name[301], header[512], wanted[256];
    memset(name, 'n', 300);
    name[300] = '\0';
    snprintf(header, sizeof header, "{\"\\u001b%s\":{\"extra\":1}}", name);
    snprintf(wanted, sizeof wanted, "f: tensor ?%.94s: unexpected or repeated key \"extra\"", name);
    image file = image_of(header, strlen(header), 0);
    psr_checkpoint *checkpoint = NULL;
    expect_failure(psr_checkpoint_parse("f", file.bytes, file.size, &checkpoint), PSR_ERR_FORMAT,
                   wanted);
    free(file.bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_of_another_program_is_read_without_checksums),
        cmocka_unit_test(data_behind_a_header_of_any_length_is_read),
        cmocka_unit_test(a_file_without_tensors_is_read),
        cmocka_unit_test(only_float32_can_be_used_wherever_it_lies),
        cmocka_unit_test(headers_that_are_wrong_are_refused_in_words),
        cmocka_unit_test(a_header_that_claims_too_much_is_refused_before_anything_is_allocated),
        cmocka_unit_test(a_million_brackets_do_not_reach_the_end_of_the_stack),
        cmocka_unit_test(a_name_in_a_message_is_cut_and_cleaned),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
