/* The one place where values become payloads and payloads become values: how many bytes they take,
 * how they are encoded and decoded.
 *
 * The encodings are bytes, float32 and float64; any other is refused by its name. They stand in a
 * payload as they lie in memory (little-endian), so that nothing is copied: an encoded payload is
 * the values themselves, and decoded values are the payload itself. Any thread. */
#ifndef PSR_COMM_ENCODING_H
#define PSR_COMM_ENCODING_H

#include "net/transport.h"

/* Bytes of count values. */
size_t psr_encoding_bytes(psr_encoding encoding, size_t count);
/* The most values of one message. */
size_t psr_encoding_values_max(psr_encoding encoding);

/* The payload of count values; sets the encoding in the head. It borrows the values. With release
 * and context set by the caller (comm/operations/loan.h) they are borrowed until it is released,
 * otherwise during the sending call. */
psr_payload psr_encode(psr_head *head, psr_encoding encoding, const void *values, size_t count);

/* Sets the encoding of a second head for the same payload. */
void psr_encode_alike(psr_head *head, const psr_head *other);

/* The values of a message, aligned, borrowed until it is freed. PROTOCOL: its payload is in another
 * encoding (the detail names both), or does not have count values. encoding: one of sums. */
PSR_MUST_CHECK psr_err psr_decode_floats(const psr_message *message, psr_encoding encoding,
                                         size_t count, const float **ret_values);
PSR_MUST_CHECK psr_err psr_decode_bytes(const psr_message *message, size_t count,
                                        const void **ret_bytes);

#endif
