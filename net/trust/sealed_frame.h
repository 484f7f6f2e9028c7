/* How a sealed message stands in its one frame, and the records by which two processes agree on a
 * key. docs/wire.md, "Sealed", is the same as a document. No state; any thread.
 *
 *   prefix (16 bytes, in the clear, bound in): "PSRS", u32 channel, u64 number, big-endian
 *   encrypted: the head as in net/message.h, zeros up to a multiple of 16, the payload
 *   tag (16 bytes) */
#ifndef PSR_NET_TRUST_SEALED_FRAME_H
#define PSR_NET_TRUST_SEALED_FRAME_H

#include "net/message.h"
#include "net/trust/seal.h"

#define PSR_SEALED_PREFIX_BYTES 16
#define PSR_SEALED_HEAD_BYTES_MAX ((PSR_HEAD_BYTES_MAX + 15) / 16 * 16)
#define PSR_SEALED_BYTES_MAX                                                                       \
    (PSR_SEALED_PREFIX_BYTES + PSR_SEALED_HEAD_BYTES_MAX + PSR_PAYLOAD_BYTES_MAX +                 \
     PSR_SEAL_TAG_BYTES)

/* false: it is no prefix, or too short to be sealed. */
bool psr_sealed_prefix(const void *frame, size_t size, uint32_t *ret_channel, uint64_t *ret_number);

/* The size of a frame with such a payload. */
size_t psr_sealed_size(const psr_head *head, uint64_t announced, size_t payload_bytes);

/* Seals into out[psr_sealed_size]. announced: the payload's length as the head says it; what is
 * there may be a reference of another length. */
PSR_MUST_CHECK psr_err psr_sealed_write(psr_seal *seal, uint32_t channel, const psr_head *head,
                                        uint64_t announced, const void *payload,
                                        size_t payload_bytes, uint8_t *out);

/* Opens a frame in place as the message of that number on that channel, as psr_seal_open. */
bool psr_sealed_open(psr_seal *seal, uint32_t channel, uint64_t number, uint8_t *frame,
                     size_t size);

/* Where head and payload are in a frame that was opened. FORMAT. They are borrowed from it. */
PSR_MUST_CHECK psr_err psr_sealed_parts(const uint8_t *frame, size_t size, const void **ret_head,
                                        size_t *ret_head_bytes, const void **ret_payload,
                                        size_t *ret_payload_bytes);

/* KEY_OFFER, KEY_ANSWER and SEALED, which only transports send and read; offer and answer have a
 * payload of PSR_SEAL_PART_BYTES. */
psr_head psr_msg_key_offer_head(unsigned ciphers);
PSR_MUST_CHECK psr_err psr_msg_key_offer_read(const psr_head *head, size_t payload_bytes,
                                              unsigned *ret_ciphers);

/* An offer may be made again, the same bytes, while no answer comes: so often in all. */
#define PSR_KEY_OFFERS_MAX 8

typedef struct psr_key_answer {
    psr_cipher cipher;
    uint32_t channel; /* which the sender's frames name */
    uint16_t port;    /* of the socket for them, at the answering process's address */
} psr_key_answer;

psr_head psr_msg_key_answer_head(const psr_key_answer *answer);
/* PROTOCOL: a cipher that was not offered, no port, another payload. */
PSR_MUST_CHECK psr_err psr_msg_key_answer_read(const psr_head *head, size_t payload_bytes,
                                               unsigned offered, psr_key_answer *ret_answer);

#endif
