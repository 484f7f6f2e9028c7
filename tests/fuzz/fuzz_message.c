/* psr_head_decode over hostile bytes. What it accepts is encoded and read again: to the same
 * numbers. */
#include "net/message.h"

#include <stdlib.h>
#include <string.h>

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
    if (psr_head_decode(buffer, bytes, &again, &payload_again) != PSR_OK ||
        payload_again != payload_bytes)
        abort();
    const psr_tag *a = &head.tag, *b = &again.tag;
    if (head.type != again.type || head.encoding != again.encoding ||
        head.sequence != again.sequence || a->epoch != b->epoch || a->group != b->group ||
        a->slot != b->slot || a->round != b->round ||
        memcmp(head.fields, again.fields, sizeof head.fields) != 0)
        abort();
    char text[64];
    psr_peer peer;
    psr_head_describe(&head, text, sizeof text);
    if (strlen(text) >= sizeof text)
        abort();
    if (head.type == PSR_MSG_HELLO && psr_msg_hello_read(&head, &peer) == PSR_OK &&
        peer.role > PSR_ROLE_WORKER)
        abort();
    return 0;
}
