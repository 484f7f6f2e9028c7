/* psr_head_decode over hostile bytes. What it accepts is encoded and read again: to the same numbers. */
#include "net/message.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    psr_head head, again;
    uint64_t payload_bytes, payload_again;
    psr_err err = psr_head_decode(data, size, &head, &payload_bytes);
    if (err != PSR_OK && err != PSR_ERR_FORMAT && err != PSR_ERR_VERSION)
        abort();
    if (err != PSR_OK)
        return 0;
    if (payload_bytes > PSR_PAYLOAD_BYTES_MAX)
        abort();
    uint8_t buffer[PSR_HEAD_BYTES_MAX];
    size_t bytes;
    psr_head_encode(&head, payload_bytes, buffer, &bytes);
    if (bytes > sizeof buffer || bytes > size) /* the shortest form */
        abort();
    if (psr_head_decode(buffer, bytes, &again, &payload_again) != PSR_OK || payload_again != payload_bytes)
        abort();
    if (head.type != again.type || head.step != again.step || head.bucket != again.bucket ||
        head.flags != again.flags || head.offset != again.offset || head.count != again.count ||
        head.aux != again.aux || head.sequence != again.sequence)
        abort();
    return 0;
}
