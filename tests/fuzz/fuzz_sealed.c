/* Sealed frames and the records of keys over hostile bytes. As a stranger's frame they open
 * nothing. As what a member has sealed they are read, and lie within the frame. As records they
 * make a key's choice that may be made, or are refused. */
#include "net/trust/sealed_frame.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct ends {
    psr_seal_library *library;
    psr_seal *in;
    uint8_t key[PSR_SEAL_KEY_BYTES];
} ends;

static const ends *both(void)
{
    static ends e;
    if (e.library == NULL &&
        (psr_seal_library_new(&e.library) != PSR_OK ||
         psr_seal_new(e.library, PSR_CIPHER_CHACHA20_POLY1305, e.key, false, &e.in) != PSR_OK))
        abort();
    return &e;
}

static void as_a_strangers(const uint8_t *data, size_t size)
{
    uint32_t channel;
    uint64_t number;
    uint8_t *frame = malloc(size + 1);
    if (frame == NULL)
        return;
    memcpy(frame, data, size);
    if (psr_sealed_prefix(frame, size, &channel, &number) &&
        psr_sealed_open(both()->in, channel, number, frame, size))
        abort(); /* nobody has that key */
    free(frame);
}

/* Reads the last byte of a payload too, for the sanitizer. */
static void as_a_members(const uint8_t *data, size_t size)
{
    const size_t whole = PSR_SEALED_PREFIX_BYTES + size + PSR_SEAL_TAG_BYTES;
    uint8_t *frame = calloc(1, whole);
    psr_seal *out = NULL;
    if (frame == NULL || psr_seal_new(both()->library, PSR_CIPHER_CHACHA20_POLY1305, both()->key,
                                      true, &out) != PSR_OK)
        abort();
    memcpy(frame, "PSRS", 4); /* channel 0, number 0 */
    const psr_seal_run run = {data, size};
    if (psr_seal_seal(out, frame, PSR_SEALED_PREFIX_BYTES, &run, 1,
                      frame + PSR_SEALED_PREFIX_BYTES) != PSR_OK ||
        !psr_sealed_open(both()->in, 0, 0, frame, whole))
        abort();
    const void *head, *payload;
    size_t head_bytes, payload_bytes;
    psr_head read;
    uint64_t announced;
    if (psr_sealed_parts(frame, whole, &head, &head_bytes, &payload, &payload_bytes) == PSR_OK) {
        const uint8_t *at = payload;
        if (at < frame || at + payload_bytes + PSR_SEAL_TAG_BYTES != frame + whole)
            abort();
        psr_err err = psr_head_decode(head, head_bytes, &read, &announced);
        if (err != PSR_OK && err != PSR_ERR_FORMAT && err != PSR_ERR_VERSION)
            abort();
    }
    psr_seal_free(out);
    free(frame);
}

static void as_records(const uint8_t *data, size_t size)
{
    psr_head head;
    uint64_t announced;
    unsigned ciphers;
    psr_key_answer answer;
    if (psr_head_decode(data, size, &head, &announced) != PSR_OK)
        return;
    if (psr_msg_key_offer_read(&head, (size_t)announced, &ciphers) == PSR_OK && (ciphers & 3) == 0)
        abort();
    for (unsigned offered = 1; offered < 4; offered++)
        if (psr_msg_key_answer_read(&head, (size_t)announced, offered, &answer) == PSR_OK &&
            (((unsigned)answer.cipher & offered) == 0 || answer.port == 0))
            abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    as_a_strangers(data, size);
    as_a_members(data, size);
    as_records(data, size);
    return 0;
}
