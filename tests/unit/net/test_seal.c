/* Sealing, and the frames in which sealed messages stand. Two connections are processes apart; here
 * each is a pair of ends. */
#include "tests/unit/network_fixture.h"

#include "net/trust/sealed_frame.h"

#include <stdlib.h>
#include <string.h>

static const psr_cipher ciphers[] = {PSR_CIPHER_AES_256_GCM, PSR_CIPHER_CHACHA20_POLY1305};
static const uint8_t offered[PSR_SEAL_PART_BYTES] = {1, 2, 3}, answered[PSR_SEAL_PART_BYTES] = {4};
static const char channel_id[] = "a channel's id..";
static const psr_head push = {.type = PSR_MSG_PUSH,
                              .encoding = PSR_ENCODING_FLOAT32,
                              .tag = {.slot = 3, .round = 70000},
                              .fields = {1u << 20, 4, 1}};

typedef struct ends {
    psr_seal_library *library;
    psr_seal *out, *in;
} ends;

static void agree(psr_seal_library *library, const uint8_t *from, psr_cipher cipher,
                  const char *channel, psr_seal_secret *ret_secret)
{
    assert_ok(psr_seal_agree(library, from, answered, cipher, channel, 16, ret_secret));
}

static ends open_ends(psr_cipher cipher, const uint8_t part[PSR_SEAL_PART_BYTES])
{
    ends e;
    psr_seal_secret secret;
    assert_ok(psr_seal_library_new(&e.library));
    agree(e.library, part, cipher, channel_id, &secret);
    assert_ok(psr_seal_new(e.library, cipher, secret.key, true, &e.out));
    assert_ok(psr_seal_new(e.library, cipher, secret.key, false, &e.in));
    return e;
}

static void close_ends(ends *e)
{
    psr_seal_free(e->out);
    psr_seal_free(e->in);
    psr_seal_library_free(e->library);
}

/* The caller frees it. */
static uint8_t *seal(ends *e, uint32_t channel, const void *payload, size_t bytes, size_t *ret_size)
{
    *ret_size = psr_sealed_size(&push, bytes, bytes);
    uint8_t *frame = malloc(*ret_size);
    assert_non_null(frame);
    assert_ok(psr_sealed_write(e->out, channel, &push, bytes, payload, bytes, frame));
    return frame;
}

/* Opening changes what it opens. */
static bool opens(psr_seal *in, uint32_t channel, uint64_t number, const uint8_t *frame,
                  size_t size)
{
    uint8_t *copy = malloc(size + 1);
    assert_non_null(copy);
    memcpy(copy, frame, size);
    bool is_open = psr_sealed_open(in, channel, number, copy, size);
    free(copy);
    return is_open;
}

static void both_ends_make_one_secret_of_their_parts(void **state)
{
    (void)state;
    psr_seal_library *library;
    psr_seal_secret one, same, other;
    assert_ok(psr_seal_library_new(&library));
    agree(library, offered, PSR_CIPHER_AES_256_GCM, channel_id, &one);
    agree(library, offered, PSR_CIPHER_AES_256_GCM, channel_id, &same);
    assert_memory_equal(&one, &same, sizeof one);
    assert_int_equal(strlen(one.token), PSR_SEAL_TOKEN_BYTES - 1);

    /* another part of either end, another cipher, another channel */
    agree(library, answered, PSR_CIPHER_AES_256_GCM, channel_id, &other);
    assert_memory_not_equal(one.key, other.key, sizeof one.key);
    assert_ok(
        psr_seal_agree(library, offered, offered, PSR_CIPHER_AES_256_GCM, channel_id, 16, &other));
    assert_memory_not_equal(one.key, other.key, sizeof one.key);
    agree(library, offered, PSR_CIPHER_CHACHA20_POLY1305, channel_id, &other);
    assert_memory_not_equal(one.key, other.key, sizeof one.key);
    agree(library, offered, PSR_CIPHER_AES_256_GCM, "a channel's id.,", &other);
    assert_memory_not_equal(one.key, other.key, sizeof one.key);
    assert_string_not_equal(one.token, other.token);
    psr_seal_wipe(&one, sizeof one);
    for (size_t i = 0; i < sizeof one; i++)
        assert_int_equal(((uint8_t *)&one)[i], 0);
    psr_seal_library_free(library);
}

/* HKDF with SHA-256 of 64 zero bytes, no salt, info "psring sealed 1", a zero, cipher 1, 16 zero
 * bytes, as another program computes it (Python's hmac): RFC 5869 is what both follow. */
static void the_secret_is_that_of_the_document(void **state)
{
    (void)state;
    static const uint8_t nothing[PSR_SEAL_PART_BYTES];
    static const uint8_t key[PSR_SEAL_KEY_BYTES] = {
        0x02, 0x42, 0x38, 0x24, 0xfa, 0xf2, 0x88, 0x89, 0x52, 0xb3, 0x36,
        0xd6, 0x9d, 0x0f, 0x48, 0xfe, 0xe4, 0x99, 0x3f, 0xa6, 0xd4, 0xc9,
        0x35, 0xa7, 0x26, 0x36, 0x5b, 0xe8, 0x36, 0x4b, 0xf5, 0xf1,
    };
    psr_seal_library *library;
    psr_seal_secret secret;
    assert_ok(psr_seal_library_new(&library));
    assert_ok(
        psr_seal_agree(library, nothing, nothing, PSR_CIPHER_AES_256_GCM, nothing, 16, &secret));
    assert_memory_equal(secret.key, key, sizeof key);
    assert_string_equal(secret.token,
                        "848730443445d4febcefb62235a0224b72d3c87499ea8ba984438eebf00c229f");
    psr_seal_library_free(library);
}

static void what_was_sealed_opens_with_head_and_payload(void **state)
{
    (void)state;
    static const size_t sizes[] = {0, 1, 15, 16, 17, 4096, PSR_PAYLOAD_BYTES_MAX};
    uint8_t *payload = malloc(PSR_PAYLOAD_BYTES_MAX);
    assert_non_null(payload);
    for (size_t i = 0; i < PSR_PAYLOAD_BYTES_MAX; i++)
        payload[i] = (uint8_t)(i * 31 + i / 251);
    for (size_t c = 0; c < 2; c++) {
        ends e = open_ends(ciphers[c], offered);
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            size_t size;
            uint8_t *frame = seal(&e, 7, payload, sizes[i], &size);
            uint32_t channel;
            uint64_t number, announced;
            assert_true(size <= PSR_SEALED_BYTES_MAX);
            assert_true(psr_sealed_prefix(frame, size, &channel, &number));
            assert_true(channel == 7 && number == i);
            if (sizes[i] >= 16) /* nothing of it stands there in the clear */
                assert_null(memmem(frame, size, payload, 16));
            assert_null(memmem(frame, size, "PSRG", 4));
            assert_true(psr_sealed_open(e.in, 7, i, frame, size));
            const void *head, *at;
            size_t head_bytes, bytes;
            psr_head read;
            assert_ok(psr_sealed_parts(frame, size, &head, &head_bytes, &at, &bytes));
            assert_ok(psr_head_decode(head, head_bytes, &read, &announced));
            assert_int_equal(read.type, PSR_MSG_PUSH);
            assert_true(read.tag.slot == 3 && read.tag.round == 70000);
            assert_memory_equal(read.fields, push.fields, sizeof read.fields);
            assert_true(announced == sizes[i] && bytes == sizes[i]);
            assert_int_equal((size_t)((const uint8_t *)at - frame) % 16, 0);
            assert_memory_equal(at, payload, bytes);
            free(frame);
        }
        close_ends(&e);
    }
    free(payload);
}

static void no_byte_of_a_frame_may_change(void **state)
{
    (void)state;
    for (size_t c = 0; c < 2; c++) {
        ends e = open_ends(ciphers[c], offered);
        size_t size;
        uint8_t *frame = seal(&e, 7, "some values", 11, &size);
        assert_true(opens(e.in, 7, 0, frame, size));
        for (size_t i = PSR_SEALED_PREFIX_BYTES; i < size; i++)
            for (unsigned bit = 0; bit < 8; bit++) {
                frame[i] ^= (uint8_t)(1 << bit);
                assert_false(opens(e.in, 7, 0, frame, size));
                frame[i] ^= (uint8_t)(1 << bit);
            }
        for (size_t cut = 0; cut < size; cut++)
            assert_false(opens(e.in, 7, 0, frame, cut));
        assert_false(opens(e.in, 7, 0, frame + 1, size - 1));
        assert_true(opens(e.in, 7, 0, frame, size)); /* it still does */
        free(frame);
        close_ends(&e);
    }
}

static void a_frame_opens_as_its_own_number_on_its_own_channel_alone(void **state)
{
    (void)state;
    for (size_t c = 0; c < 2; c++) {
        ends e = open_ends(ciphers[c], offered), back = open_ends(ciphers[c], answered);
        size_t size, size1, size_back;
        uint8_t *frame = seal(&e, 7, "values", 6, &size),
                *frame1 = seal(&e, 7, "values", 6, &size1);
        uint8_t *other = seal(&back, 7, "values", 6, &size_back);
        assert_memory_not_equal(frame + PSR_SEALED_PREFIX_BYTES, frame1 + PSR_SEALED_PREFIX_BYTES,
                                size - PSR_SEALED_PREFIX_BYTES); /* no nonce comes twice */
        assert_false(opens(e.in, 7, 1, frame, size));            /* reordered */
        assert_false(opens(e.in, 8, 0, frame, size));            /* of another channel */
        assert_false(opens(e.in, 7, 0, other, size_back));       /* of another key */
        assert_false(opens(back.in, 7, 0, frame, size));         /* reflected */
        /* the head of another message */
        memcpy(frame + PSR_SEALED_PREFIX_BYTES, frame1 + PSR_SEALED_PREFIX_BYTES, 48);
        assert_false(opens(e.in, 7, 0, frame, size));
        assert_true(opens(e.in, 7, 1, frame1, size1));
        free(frame);
        free(frame1);
        free(other);
        close_ends(&e);
        close_ends(&back);
    }
}

static void each_cipher_is_chosen_where_both_have_it(void **state)
{
    (void)state;
    psr_cipher cipher;
    assert_true(psr_seal_choose(3, 3, &cipher) && cipher == PSR_CIPHER_AES_256_GCM);
    assert_true(psr_seal_choose(3, 2, &cipher) && cipher == PSR_CIPHER_CHACHA20_POLY1305);
    assert_true(psr_seal_choose(2, 3, &cipher) && cipher == PSR_CIPHER_CHACHA20_POLY1305);
    assert_true(psr_seal_choose(1, 7, &cipher) && cipher == PSR_CIPHER_AES_256_GCM);
    assert_false(psr_seal_choose(1, 2, &cipher));
    assert_false(psr_seal_choose(3, 4, &cipher));
    assert_true(psr_seal_ciphers() & PSR_CIPHER_CHACHA20_POLY1305); /* everybody has that one */
}

static void what_is_no_frame_is_none(void **state)
{
    (void)state;
    uint32_t channel;
    uint64_t number;
    uint8_t frame[64] = "PSRS";
    assert_true(psr_sealed_prefix(frame, 32, &channel, &number));
    assert_false(psr_sealed_prefix(frame, 31, &channel, &number));
    assert_false(psr_sealed_prefix(frame, 0, &channel, &number));
    frame[3] = 'G';
    assert_false(psr_sealed_prefix(frame, 32, &channel, &number));
}

/* What a member seals is its own to choose. */
static void what_a_liar_seals_is_checked_when_it_is_open(void **state)
{
    (void)state;
    const void *head, *payload;
    size_t head_bytes, bytes;
    uint8_t frame[16 + 48 + 16] = {0};
    assert_fails(psr_sealed_parts(frame, 32, &head, &head_bytes, &payload, &bytes), PSR_ERR_FORMAT,
                 "no whole head");
    frame[16 + 6] = 255; /* a head of 65280 bytes */
    assert_fails(psr_sealed_parts(frame, sizeof frame, &head, &head_bytes, &payload, &bytes),
                 PSR_ERR_FORMAT, "no whole head");
    frame[16 + 6] = 0;
    frame[16 + 7] = 20; /* 36 of 48 bytes, then zeros */
    assert_ok(psr_sealed_parts(frame, sizeof frame, &head, &head_bytes, &payload, &bytes));
    assert_true(head_bytes == 36 && bytes == 0);
    frame[16 + 40] = 1;
    assert_fails(psr_sealed_parts(frame, sizeof frame, &head, &head_bytes, &payload, &bytes),
                 PSR_ERR_FORMAT, "bytes behind its head");
}

static void records_that_make_no_key_are_refused(void **state)
{
    (void)state;
    unsigned read;
    psr_key_answer answer;
    psr_head offer = psr_msg_key_offer_head(3);
    assert_ok(psr_msg_key_offer_read(&offer, 32, &read));
    assert_int_equal(read, 3);
    assert_fails(psr_msg_key_offer_read(&offer, 31, &read), PSR_ERR_PROTOCOL, "has 31 bytes");
    offer.fields[0] = 4;
    assert_fails(psr_msg_key_offer_read(&offer, 32, &read), PSR_ERR_PROTOCOL, "none is known");
    offer.fields[0] = UINT64_C(1) << 32 | 1;
    assert_fails(psr_msg_key_offer_read(&offer, 32, &read), PSR_ERR_PROTOCOL, "none is known");

    psr_head head =
        psr_msg_key_answer_head(&(psr_key_answer){PSR_CIPHER_CHACHA20_POLY1305, UINT32_MAX, 65535});
    assert_ok(psr_msg_key_answer_read(&head, 32, 3, &answer));
    assert_true(answer.cipher == PSR_CIPHER_CHACHA20_POLY1305 && answer.channel == UINT32_MAX &&
                answer.port == 65535);
    assert_fails(psr_msg_key_answer_read(&head, 33, 3, &answer), PSR_ERR_PROTOCOL, "has 33 bytes");
    assert_fails(psr_msg_key_answer_read(&head, 32, 1, &answer), PSR_ERR_PROTOCOL, "not offered");
    head.fields[0] = 3;
    assert_fails(psr_msg_key_answer_read(&head, 32, 3, &answer), PSR_ERR_PROTOCOL, "not offered");
    head.fields[0] = 2;
    head.fields[1] = UINT64_C(1) << 32;
    assert_fails(psr_msg_key_answer_read(&head, 32, 3, &answer), PSR_ERR_PROTOCOL, "named channel");
    head.fields[1] = 0;
    head.fields[2] = 0;
    assert_fails(psr_msg_key_answer_read(&head, 32, 3, &answer), PSR_ERR_PROTOCOL, "at port 0");
    head.fields[2] = 65536;
    assert_fails(psr_msg_key_answer_read(&head, 32, 3, &answer), PSR_ERR_PROTOCOL, "at port 65536");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_ends_make_one_secret_of_their_parts),
        cmocka_unit_test(the_secret_is_that_of_the_document),
        cmocka_unit_test(what_was_sealed_opens_with_head_and_payload),
        cmocka_unit_test(no_byte_of_a_frame_may_change),
        cmocka_unit_test(a_frame_opens_as_its_own_number_on_its_own_channel_alone),
        cmocka_unit_test(each_cipher_is_chosen_where_both_have_it),
        cmocka_unit_test(what_is_no_frame_is_none),
        cmocka_unit_test(what_a_liar_seals_is_checked_when_it_is_open),
        cmocka_unit_test(records_that_make_no_key_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
