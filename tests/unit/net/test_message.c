#include "net/message.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const psr_head example = {
    .type = PSR_MSG_PUSH,
    .encoding = PSR_ENCODING_FLOAT32,
    .tag = {.slot = 301, .round = 7},
    .sequence = 200,
    .fields = {1u << 20, 65536, 1},
};

typedef struct encoded {
    uint8_t bytes[PSR_HEAD_BYTES_MAX + 16];
    size_t size;
} encoded;

static encoded encode(const psr_head *head, uint64_t payload_bytes)
{
    encoded e = {.size = 0};
    psr_head_encode(head, payload_bytes, e.bytes, &e.size);
    assert_true(e.size <= PSR_HEAD_BYTES_MAX);
    return e;
}

static void assert_refused(const encoded *e, psr_err expected, const char *text)
{
    /* In memory of its exact size, so that a sanitizer sees a read beyond it. */
    uint8_t *exact = malloc(e->size ? e->size : 1);
    memcpy(exact, e->bytes, e->size);
    psr_head head = {.sequence = 99};
    uint64_t payload_bytes = 99;
    assert_int_equal(psr_head_decode(exact, e->size, &head, &payload_bytes), expected);
    free(exact);
    assert_non_null(strstr(psr_err_detail(), text));
    assert_int_equal(head.sequence, 99);
    assert_int_equal(payload_bytes, 99);
}

static void assert_same(const psr_head *a, const psr_head *b)
{
    assert_int_equal(a->type, b->type);
    assert_int_equal(a->encoding, b->encoding);
    assert_int_equal(a->tag.epoch, b->tag.epoch);
    assert_int_equal(a->tag.group, b->tag.group);
    assert_int_equal(a->tag.slot, b->tag.slot);
    assert_int_equal(a->tag.round, b->tag.round);
    assert_int_equal(a->sequence, b->sequence);
    assert_memory_equal(a->fields, b->fields, sizeof a->fields);
}

static void assert_round_trip(const psr_head *head, uint64_t payload_bytes)
{
    encoded e = encode(head, payload_bytes);
    psr_head back;
    uint64_t bytes;
    assert_int_equal(psr_head_decode(e.bytes, e.size, &back, &bytes), PSR_OK);
    assert_same(&back, head);
    assert_int_equal(bytes, payload_bytes);
}

static void a_head_comes_back_as_it_was_at_every_width_of_number(void **state)
{
    (void)state;
    assert_round_trip(&example, 262144);
    static const uint64_t edges[] = {0,          1,          0x7f,       0x80,
                                     0xff,       0x100,      0xffff,     0x10000,
                                     UINT32_MAX, 1ull << 32, 1ull << 63, UINT64_MAX};
    for (size_t i = 0; i < sizeof edges / sizeof edges[0]; i++) {
        uint32_t narrow = edges[i] > UINT32_MAX ? UINT32_MAX : (uint32_t)edges[i];
        psr_head head = {
            .type = PSR_MSG_PROGRESS, /* which has the most fields */
            .tag = {narrow, narrow, narrow, edges[i]},
            .sequence = edges[i],
            .fields = {edges[i], edges[i], edges[i], edges[i], edges[i], edges[i], edges[i]}};
        assert_round_trip(&head, i);
    }
    psr_head largest = example;
    assert_round_trip(&largest, PSR_PAYLOAD_BYTES_MAX);
}

static void every_type_of_message_is_known(void **state)
{
    (void)state;
    static const psr_message_type types[] = {
        PSR_MSG_HELLO,   PSR_MSG_JOIN,       PSR_MSG_READY,   PSR_MSG_PROGRESS, PSR_MSG_METRICS,
        PSR_MSG_HELD,    PSR_MSG_CHECKPOINT, PSR_MSG_FAILED,  PSR_MSG_DONE,     PSR_MSG_FACTS,
        PSR_MSG_WELCOME, PSR_MSG_START,      PSR_MSG_ALIVE,   PSR_MSG_HOLD,     PSR_MSG_STOP_AT,
        PSR_MSG_RESTORE, PSR_MSG_ABORT,      PSR_MSG_BYE,     PSR_MSG_CONFIG,   PSR_MSG_SAVED,
        PSR_MSG_INIT,    PSR_MSG_PUSH,       PSR_MSG_PULL,    PSR_MSG_WEIGHTS,  PSR_MSG_ACK,
        PSR_MSG_ASK,     PSR_MSG_RING,       PSR_MSG_VALUES,  PSR_MSG_CREDIT,   PSR_MSG_AHEAD,
        PSR_MSG_FINDING, PSR_MSG_VERDICT,    PSR_MSG_PROBE,   PSR_MSG_PROBED,   PSR_MSG_SHRINK,
        PSR_MSG_SHRUNK,  PSR_MSG_REFUSED,    PSR_MSG_BOUND,   PSR_MSG_VIEW,     PSR_MSG_UNSEALED,
        PSR_MSG_CLOCK,   PSR_MSG_TRACE,      PSR_MSG_CLOCKED, PSR_MSG_LEFT};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        psr_head head = {.type = types[i]};
        assert_round_trip(&head, 0);
        assert_string_not_equal(psr_message_name(types[i]), "unknown");
    }
}

static void the_bytes_are_those_of_the_document(void **state)
{
    (void)state;
    static const uint8_t expected[] = {
        'P',  'S',  'R',  'G', 0,    2, 0, 22, /* version 2, head of 22 */
        0,    0,    0,    0,   0,    4, 0, 0,  /* payload of 262144 */
        0x9a,                                  /* ten numbers */
        51,   0xcc, 200,                       /* PUSH, sequence 200 */
        0,    0,    0xcd, 1,   0x2d, 7,        /* epoch 0, group 0, slot 301, round 7 */
        1,                                     /* float32 */
        0xce, 0,    0x10, 0,   0,              /* offset 1048576 */
        0xce, 0,    1,    0,   0,    1};       /* count 65536, answer 1 */
    encoded e = encode(&example, 262144);
    assert_int_equal(e.size, sizeof expected);
    assert_memory_equal(e.bytes, expected, sizeof expected);
}

static void every_truncated_message_is_refused(void **state)
{
    (void)state;
    encoded whole = encode(&example, 1000);
    for (size_t size = 0; size < whole.size; size++) {
        encoded e = whole;
        e.size = size;
        assert_refused(&e, PSR_ERR_FORMAT,
                       size < 16 ? "its preamble alone has 16" : "announces a head of");
        if (size >= 16) { /* and when the preamble agrees with what is there */
            e.bytes[7] = (uint8_t)(size - 16);
            assert_refused(&e, PSR_ERR_FORMAT,
                           size == 16 ? "not an array" : "is not an unsigned integer");
        }
    }
}

static void a_longer_head_than_announced_is_refused(void **state)
{
    (void)state;
    encoded e = encode(&example, 0);
    e.bytes[e.size++] = 0;
    assert_refused(&e, PSR_ERR_FORMAT, "announces a head of");
    e.bytes[7]++;
    assert_refused(&e, PSR_ERR_FORMAT, "1 bytes too many");
}

static void another_magic_is_refused(void **state)
{
    (void)state;
    encoded e = encode(&example, 0);
    for (size_t i = 0; i < 4; i++) {
        encoded wrong = e;
        wrong.bytes[i] ^= 0x20;
        assert_refused(&wrong, PSR_ERR_FORMAT, "does not begin with PSRG");
    }
}

static void another_version_is_refused_in_words_that_name_both(void **state)
{
    (void)state;
    encoded e = encode(&example, 0);
    e.bytes[4] = 0x01;
    e.bytes[5] = 0x02;
    assert_refused(&e, PSR_ERR_VERSION, "speaks version 258 of psring's protocol");
    assert_non_null(strstr(psr_err_detail(), "version 2:"));
    /* What follows the version may be anything then. */
    memset(e.bytes + 6, 0xff, sizeof e.bytes - 6);
    assert_refused(&e, PSR_ERR_VERSION, "258");
}

static void the_version_before_is_refused_in_the_same_words(void **state)
{
    (void)state;
    /* A PUSH as version 1 wrote it. */
    static const uint8_t old[] = {'P', 'S',  'R', 'G', 0,    1,  0, 20,   0,    0,    0,    0,
                                  0,   4,    0,   0,   0x98, 51, 7, 0xcd, 0x01, 0x2c, 1,    0xce,
                                  0,   0x10, 0,   0,   0xce, 0,  1, 0,    0,    5,    0xcc, 200};
    encoded e = {.size = sizeof old};
    memcpy(e.bytes, old, sizeof old);
    assert_refused(&e, PSR_ERR_VERSION, "speaks version 1 of psring's protocol");
    assert_non_null(strstr(psr_err_detail(), "version 2:"));
}

static void a_payload_larger_than_any_is_refused(void **state)
{
    (void)state;
    encoded e = encode(&example, (uint64_t)PSR_PAYLOAD_BYTES_MAX + 1);
    assert_refused(&e, PSR_ERR_FORMAT, "1048577 bytes: 1048576 is the most");
    e = encode(&example, UINT64_MAX);
    assert_refused(&e, PSR_ERR_FORMAT, "18446744073709551615");
}

static void a_head_that_is_not_an_array_of_unsigned_numbers_is_refused(void **state)
{
    (void)state;
    static const psr_head small = {.type = PSR_MSG_START};
    encoded e = encode(&small, 0);
    assert_int_equal(e.size, 16 + 8);
    static const uint8_t arrays[] = {0x96, 0x90, 0x87, 0xa7, 0xdc, 0xdd, 0xc7, 0xdf, 0};
    for (size_t i = 0; i < sizeof arrays; i++) {
        encoded wrong = e;
        wrong.bytes[16] = arrays[i];
        assert_refused(&wrong, PSR_ERR_FORMAT, "not an array of 7 to 15 numbers");
    }
    /* nil, bool, float, signed, negative, string, array, map, ext, and "4 GiB follow" in several
     * kinds */
    static const uint8_t tags[] = {0xc0, 0xc2, 0xca, 0xcb, 0xd0, 0xd3, 0xe0, 0xff, 0xa0, 0xbf,
                                   0x90, 0x80, 0xd4, 0xc4, 0xc6, 0xdb, 0xdd, 0xdf, 0xc1};
    for (size_t field = 0; field < 7; field++)
        for (size_t i = 0; i < sizeof tags; i++) {
            encoded wrong = e;
            wrong.bytes[17 + field] = tags[i];
            assert_refused(&wrong, PSR_ERR_FORMAT, "is not an unsigned integer");
        }
}

static void an_unknown_type_is_refused(void **state)
{
    (void)state;
    static const uint64_t types[] = {
        0, 5, 9, 25, 29, 46, 49, 56, 69, 73, 76, 127, UINT64_C(1) << 32 | PSR_MSG_PUSH};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        encoded e = encode(&example, 0);
        /* The type as a uint 64, in place of its one byte. */
        memmove(e.bytes + 17 + 9, e.bytes + 18, e.size - 18);
        e.bytes[17] = 0xcf;
        for (unsigned b = 0; b < 8; b++)
            e.bytes[18 + b] = (uint8_t)(types[i] >> (8 * (7 - b)));
        e.size += 8;
        e.bytes[7] = (uint8_t)(e.size - 16);
        assert_refused(&e, PSR_ERR_FORMAT, "unknown type");
    }
}

/* A head of one-byte numbers with another number in place of one. */
static encoded with_number(const psr_head *small, size_t place, uint64_t number)
{
    encoded e = encode(small, 0);
    uint8_t *at = e.bytes + 17 + place;
    memmove(at + 9, at + 1, e.size - 18 - place);
    *at = 0xcf;
    for (unsigned b = 0; b < 8; b++)
        at[1 + b] = (uint8_t)(number >> (8 * (7 - b)));
    e.size += 8;
    e.bytes[7] = (uint8_t)(e.size - 16);
    return e;
}

static void a_tag_of_more_than_32_bits_is_refused(void **state)
{
    (void)state;
    static const psr_head small = {.type = PSR_MSG_PULL};
    for (size_t place = 2; place <= 4; place++) {
        encoded e = with_number(&small, place, UINT64_C(1) << 32);
        assert_refused(&e, PSR_ERR_FORMAT, "exceeds 32 bits");
    }
}

static void a_tag_of_a_type_that_has_none_is_refused(void **state)
{
    (void)state;
    static const psr_head small = {.type = PSR_MSG_HOLD};
    for (size_t place = 2; place <= 5; place++) {
        encoded e = with_number(&small, place, 1);
        assert_refused(&e, PSR_ERR_FORMAT, "a head of HOLD has a tag");
    }
}

static void an_encoding_that_has_no_name_is_refused(void **state)
{
    (void)state;
    static const psr_head small = {.type = PSR_MSG_PULL};
    encoded e = with_number(&small, 6, PSR_ENCODING_1BIT + 1);
    assert_refused(&e, PSR_ERR_FORMAT, "a payload of unknown encoding 8");
    e = with_number(&small, 6, UINT64_C(1) << 32);
    assert_refused(&e, PSR_ERR_FORMAT, "unknown encoding 4294967296");
}

static void a_head_with_another_number_of_fields_than_its_type_has_is_refused(void **state)
{
    (void)state;
    static const psr_head small = {.type = PSR_MSG_HELD, .fields = {5}};
    encoded whole = encode(&small, 0), more = whole, fewer = whole;
    more.bytes[16]++;
    more.bytes[more.size++] = 0;
    more.bytes[7]++;
    assert_refused(&more, PSR_ERR_FORMAT, "a head of HELD has 9 numbers, not 8");
    fewer.bytes[16]--;
    fewer.size--;
    fewer.bytes[7]--;
    assert_refused(&fewer, PSR_ERR_FORMAT, "a head of HELD has 7 numbers, not 8");
}

static void a_head_is_described_by_the_names_of_its_fields(void **state)
{
    (void)state;
    char text[128];
    psr_head_describe(&example, text, sizeof text);
    assert_string_equal(text,
                        "PUSH (wire step 7, bucket 300, offset 1048576, count 65536, answer 1)");
    psr_head_describe(&(psr_head){.type = PSR_MSG_WEIGHTS, .tag = {.round = 3}}, text, sizeof text);
    assert_string_equal(text, "WEIGHTS (round 3, offset 0, count 0, staleness 0, received 0)");
    psr_head_describe(&(psr_head){.type = PSR_MSG_DONE, .fields = {20, 1}}, text, sizeof text);
    assert_string_equal(text, "DONE (steps 20, left_out 1)");
    psr_head_describe(&(psr_head){.type = PSR_MSG_START}, text, sizeof text);
    assert_string_equal(text, "START");
    psr_head_describe(&(psr_head){.type = (psr_message_type)77}, text, sizeof text);
    assert_string_equal(text, "unknown");
    char small[20] = {0};
    psr_head_describe(&example, small, sizeof small); /* as much as there is room for */
    assert_string_equal(small, "PUSH (wire step 7, ");
    assert_string_equal(psr_head_field_name(PSR_MSG_RING, 4), "hop");
    assert_null(psr_head_field_name(PSR_MSG_RING, 5));
    assert_null(psr_head_field_name(PSR_MSG_RING, 1000));
    assert_null(psr_head_field_name((psr_message_type)0, 0));
}

static void a_hello_names_its_sender(void **state)
{
    (void)state;
    psr_peer peer = {PSR_ROLE_SHARD, 3};
    psr_head head = psr_msg_hello_head((psr_peer){PSR_ROLE_WORKER, PSR_RANK_ANY});
    assert_int_equal(psr_msg_hello_read(&head, &peer), PSR_OK);
    assert_true(psr_peer_equal(peer, (psr_peer){PSR_ROLE_WORKER, PSR_RANK_ANY}));
    head.fields[0] = 3;
    assert_int_equal(psr_msg_hello_read(&head, &peer), PSR_ERR_PROTOCOL);
    assert_non_null(strstr(psr_err_detail(), "of role 3, which nobody is"));
    head = psr_msg_hello_head(peer);
    head.fields[1] = UINT64_C(1) << 32;
    assert_int_equal(psr_msg_hello_read(&head, &peer), PSR_ERR_PROTOCOL);
    assert_non_null(strstr(psr_err_detail(), "of rank 4294967296, which nobody is"));
}

static unsigned releases;

static void count_release(psr_message *message)
{
    releases++;
    free(message);
}

static void freeing_a_message_releases_it_once_and_nulls_it(void **state)
{
    (void)state;
    psr_message *message = calloc(1, sizeof *message);
    message->release = count_release;
    releases = 0;
    psr_message_free(&message);
    assert_int_equal(releases, 1);
    assert_null(message);
    psr_message_free(&message);
    psr_message_free(NULL);
    assert_int_equal(releases, 1);
}

static void names_are_the_words_of_the_documents(void **state)
{
    (void)state;
    assert_string_equal(psr_role_name(PSR_ROLE_SCHEDULER), "scheduler");
    assert_string_equal(psr_role_name(PSR_ROLE_SHARD), "shard");
    assert_string_equal(psr_role_name(PSR_ROLE_WORKER), "worker");
    assert_string_equal(psr_role_name((psr_role)77), "?");
    assert_string_equal(psr_encoding_name(PSR_ENCODING_FLOAT32), "float32");
    assert_string_equal(psr_encoding_name(PSR_ENCODING_1BIT), "1bit");
    assert_string_equal(psr_encoding_name((psr_encoding)77), "?");
    assert_string_equal(psr_phase_name(PSR_PHASE_START), "start");
    assert_string_equal(psr_phase_name(PSR_PHASE_PULL), "pull");
    assert_string_equal(psr_phase_name(PSR_PHASE_SHUTDOWN), "shutdown");
    assert_string_equal(psr_phase_name((psr_phase)UINT32_MAX), "?");
}

static void peers_are_equal_in_role_and_rank(void **state)
{
    (void)state;
    assert_true(psr_peer_equal((psr_peer){PSR_ROLE_SHARD, 1}, (psr_peer){PSR_ROLE_SHARD, 1}));
    assert_false(psr_peer_equal((psr_peer){PSR_ROLE_SHARD, 1}, (psr_peer){PSR_ROLE_SHARD, 2}));
    assert_false(psr_peer_equal((psr_peer){PSR_ROLE_SHARD, 1}, (psr_peer){PSR_ROLE_WORKER, 1}));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_head_comes_back_as_it_was_at_every_width_of_number),
        cmocka_unit_test(every_type_of_message_is_known),
        cmocka_unit_test(the_bytes_are_those_of_the_document),
        cmocka_unit_test(every_truncated_message_is_refused),
        cmocka_unit_test(a_longer_head_than_announced_is_refused),
        cmocka_unit_test(another_magic_is_refused),
        cmocka_unit_test(another_version_is_refused_in_words_that_name_both),
        cmocka_unit_test(the_version_before_is_refused_in_the_same_words),
        cmocka_unit_test(a_payload_larger_than_any_is_refused),
        cmocka_unit_test(a_head_that_is_not_an_array_of_unsigned_numbers_is_refused),
        cmocka_unit_test(an_unknown_type_is_refused),
        cmocka_unit_test(a_tag_of_more_than_32_bits_is_refused),
        cmocka_unit_test(a_tag_of_a_type_that_has_none_is_refused),
        cmocka_unit_test(an_encoding_that_has_no_name_is_refused),
        cmocka_unit_test(a_head_with_another_number_of_fields_than_its_type_has_is_refused),
        cmocka_unit_test(a_head_is_described_by_the_names_of_its_fields),
        cmocka_unit_test(a_hello_names_its_sender),
        cmocka_unit_test(freeing_a_message_releases_it_once_and_nulls_it),
        cmocka_unit_test(names_are_the_words_of_the_documents),
        cmocka_unit_test(peers_are_equal_in_role_and_rank),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
