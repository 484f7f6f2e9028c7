/* A message of a worker's with values, as a transport hands it over. */
#ifndef PSR_TESTS_VALUES_MESSAGE_H
#define PSR_TESTS_VALUES_MESSAGE_H

#include "net/message.h"

#include <stdlib.h>

static void values_message_release(psr_message *message)
{
    free(message); /* and its values, which are behind it */
}

/* count: of values, all the same; 0: no payload. ret owns: psr_message_free. */
static psr_message *values_message(psr_head head, uint32_t rank, size_t count, float value)
{
    psr_message *message = calloc(1, sizeof *message + count * sizeof value);
    float *values = (float *)(message + 1);
    for (size_t i = 0; i < count; i++)
        values[i] = value;
    if (count > 0)
        head.encoding = PSR_ENCODING_FLOAT32;
    *message = (psr_message){.from = {PSR_ROLE_WORKER, rank},
                             .head = head,
                             .payload = values,
                             .payload_bytes = count * sizeof value,
                             .release = values_message_release};
    return message;
}

#endif
