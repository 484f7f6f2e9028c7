#include "comm/wire/encoding.h"

#include "net/violation.h"

#include <assert.h>

static size_t value_bytes(psr_encoding encoding)
{
    switch (encoding) {
    case PSR_ENCODING_BYTES:
        return 1;
    case PSR_ENCODING_FLOAT32:
        return sizeof(float);
    case PSR_ENCODING_FLOAT64:
        return sizeof(double);
    default:
        assert(false); /* other encodings are refused before */
        return 1;
    }
}

size_t psr_encoding_bytes(psr_encoding encoding, size_t count)
{
    return count * value_bytes(encoding);
}

size_t psr_encoding_values_max(psr_encoding encoding)
{
    return PSR_PAYLOAD_BYTES_MAX / value_bytes(encoding);
}

psr_payload psr_encode(psr_head *head, psr_encoding encoding, const void *values, size_t count)
{
    head->encoding = encoding;
    return (psr_payload){.data = values, .bytes = psr_encoding_bytes(encoding, count)};
}

void psr_encode_alike(psr_head *head, const psr_head *other)
{
    head->encoding = other->encoding;
}

/* The count may come from anywhere, so it is checked before it is multiplied. */
static psr_err check(const psr_message *message, psr_encoding encoding, size_t count)
{
    if (message->head.encoding != encoding)
        return psr_violation(message, "its payload is in %s, not in %s",
                             psr_encoding_name(message->head.encoding),
                             psr_encoding_name(encoding));
    if (count <= SIZE_MAX / value_bytes(encoding) &&
        message->payload_bytes == psr_encoding_bytes(encoding, count))
        return PSR_OK;
    return psr_violation(message, "its payload has %zu bytes, not those of %zu values of %s",
                         message->payload_bytes, count, psr_encoding_name(encoding));
}

/* Whether gradients and their sums can be exchanged in this encoding. */
static bool is_of_sums(psr_encoding encoding)
{
    return encoding == PSR_ENCODING_FLOAT32;
}

psr_err psr_decode_floats(const psr_message *message, psr_encoding encoding, size_t count,
                          const float **ret_values)
{
    assert(is_of_sums(encoding));
    PSR_TRY(check(message, encoding, count));
    *ret_values = message->payload;
    return PSR_OK;
}

psr_err psr_decode_bytes(const psr_message *message, size_t count, const void **ret_bytes)
{
    PSR_TRY(check(message, PSR_ENCODING_BYTES, count));
    *ret_bytes = message->payload;
    return PSR_OK;
}
