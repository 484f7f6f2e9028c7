#include "net/trust/sealed_frame.h"

#include "net/big_endian.h"

#include <inttypes.h>
#include <string.h>

static const uint8_t magic[4] = {'P', 'S', 'R', 'S'};

#define ALIGN 16 /* a block of AES, and what values in the payload need */

static size_t aligned(size_t bytes)
{
    return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

/* ---- frames ---- */

static void write_prefix(uint32_t channel, uint64_t number, uint8_t out[PSR_SEALED_PREFIX_BYTES])
{
    memcpy(out, magic, sizeof magic);
    psr_put_be(out + 4, channel, 4);
    psr_put_be(out + 8, number, 8);
}

bool psr_sealed_prefix(const void *frame, size_t size, uint32_t *ret_channel, uint64_t *ret_number)
{
    const uint8_t *bytes = frame;
    if (size < PSR_SEALED_PREFIX_BYTES + PSR_SEAL_TAG_BYTES ||
        memcmp(bytes, magic, sizeof magic) != 0)
        return false;
    *ret_channel = (uint32_t)psr_get_be(bytes + 4, 4);
    *ret_number = psr_get_be(bytes + 8, 8);
    return true;
}

size_t psr_sealed_size(const psr_head *head, uint64_t announced, size_t payload_bytes)
{
    uint8_t bytes[PSR_HEAD_BYTES_MAX];
    size_t size;
    psr_head_encode(head, announced, bytes, &size);
    return PSR_SEALED_PREFIX_BYTES + aligned(size) + payload_bytes + PSR_SEAL_TAG_BYTES;
}

psr_err psr_sealed_write(psr_seal *seal, uint32_t channel, const psr_head *head, uint64_t announced,
                         const void *payload, size_t payload_bytes, uint8_t *out)
{
    uint8_t head_bytes[PSR_SEALED_HEAD_BYTES_MAX] = {0};
    size_t size;
    psr_head_encode(head, announced, head_bytes, &size);
    const psr_seal_run runs[] = {{head_bytes, aligned(size)}, {payload, payload_bytes}};
    write_prefix(channel, psr_seal_next(seal), out);
    return psr_seal_seal(seal, out, PSR_SEALED_PREFIX_BYTES, runs, 2,
                         out + PSR_SEALED_PREFIX_BYTES);
}

bool psr_sealed_open(psr_seal *seal, uint32_t channel, uint64_t number, uint8_t *frame, size_t size)
{
    uint8_t prefix[PSR_SEALED_PREFIX_BYTES];
    if (size < PSR_SEALED_PREFIX_BYTES + PSR_SEAL_TAG_BYTES)
        return false;
    write_prefix(channel, number, prefix);
    return psr_seal_open(seal, number, prefix, sizeof prefix, frame + PSR_SEALED_PREFIX_BYTES,
                         size - PSR_SEALED_PREFIX_BYTES);
}

psr_err psr_sealed_parts(const uint8_t *frame, size_t size, const void **ret_head,
                         size_t *ret_head_bytes, const void **ret_payload,
                         size_t *ret_payload_bytes)
{
    const uint8_t *head = frame + PSR_SEALED_PREFIX_BYTES;
    size_t bytes, room = size > PSR_SEALED_PREFIX_BYTES + PSR_SEAL_TAG_BYTES
                             ? size - PSR_SEALED_PREFIX_BYTES - PSR_SEAL_TAG_BYTES
                             : 0;
    if (psr_head_bytes(head, room, &bytes) != PSR_OK || aligned(bytes) > room)
        return psr_fail(PSR_ERR_FORMAT, "a sealed message of %zu bytes has no whole head", room);
    for (size_t i = bytes; i < aligned(bytes); i++)
        if (head[i] != 0)
            return psr_fail(PSR_ERR_FORMAT, "a sealed message has bytes behind its head");
    *ret_head = head;
    *ret_head_bytes = bytes;
    *ret_payload = head + aligned(bytes);
    *ret_payload_bytes = room - aligned(bytes);
    return PSR_OK;
}

/* ---- agreeing on a key ---- */

psr_head psr_msg_key_offer_head(unsigned ciphers)
{
    return (psr_head){.type = PSR_MSG_KEY_OFFER, .fields = {ciphers}};
}

static psr_err check_part(size_t payload_bytes)
{
    if (payload_bytes != PSR_SEAL_PART_BYTES)
        return psr_fail(PSR_ERR_PROTOCOL, "its part of a key has %zu bytes, not %d", payload_bytes,
                        PSR_SEAL_PART_BYTES);
    return PSR_OK;
}

psr_err psr_msg_key_offer_read(const psr_head *head, size_t payload_bytes, unsigned *ret_ciphers)
{
    psr_cipher any;
    PSR_TRY(check_part(payload_bytes));
    if (head->fields[0] > UINT32_MAX ||
        !psr_seal_choose(UINT32_MAX, (unsigned)head->fields[0], &any))
        return psr_fail(PSR_ERR_PROTOCOL, "offers ciphers %" PRIu64 ", of which none is known",
                        head->fields[0]);
    *ret_ciphers = (unsigned)head->fields[0];
    return PSR_OK;
}

psr_head psr_msg_key_answer_head(const psr_key_answer *answer)
{
    return (psr_head){.type = PSR_MSG_KEY_ANSWER,
                      .fields = {(uint64_t)answer->cipher, answer->channel, answer->port}};
}

psr_err psr_msg_key_answer_read(const psr_head *head, size_t payload_bytes, unsigned offered,
                                psr_key_answer *ret_answer)
{
    const uint64_t *f = head->fields;
    PSR_TRY(check_part(payload_bytes));
    if ((f[0] != PSR_CIPHER_AES_256_GCM && f[0] != PSR_CIPHER_CHACHA20_POLY1305) ||
        (f[0] & offered) == 0)
        return psr_fail(PSR_ERR_PROTOCOL, "chose cipher %" PRIu64 ", which was not offered", f[0]);
    if (f[1] > UINT32_MAX || f[2] == 0 || f[2] > UINT16_MAX)
        return psr_fail(PSR_ERR_PROTOCOL, "named channel %" PRIu64 " at port %" PRIu64, f[1], f[2]);
    *ret_answer = (psr_key_answer){(psr_cipher)f[0], (uint32_t)f[1], (uint16_t)f[2]};
    return PSR_OK;
}
