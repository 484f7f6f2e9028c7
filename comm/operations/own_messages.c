#include "comm/operations/own_messages.h"

#include "comm/operations/early.h"

#include <stdalign.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

struct psr_own_messages {
    psr_peer self;
    psr_early *waiting;
};

typedef struct own_message {
    psr_message message;
    psr_payload payload; /* lent: with its release; else none */
    alignas(max_align_t) unsigned char bytes[];
} own_message;

static void give_back(const psr_payload *payload)
{
    if (payload != NULL && payload->release != NULL)
        payload->release(payload->context);
}

static void release(psr_message *message)
{
    own_message *own = (own_message *)message;
    give_back(&own->payload);
    free(own);
}

psr_err psr_own_messages_new(psr_peer self, psr_own_messages **ret_messages)
{
    psr_own_messages *messages = malloc(sizeof *messages);
    if (messages == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for messages to itself");
    *messages = (psr_own_messages){.self = self};
    psr_err err = psr_early_new(1, PSR_EARLY_UNBOUNDED, &messages->waiting);
    if (err != PSR_OK) {
        free(messages);
        return err;
    }
    *ret_messages = messages;
    return PSR_OK;
}

void psr_own_messages_free(psr_own_messages *messages)
{
    if (messages == NULL)
        return;
    psr_early_free(messages->waiting);
    free(messages);
}

psr_err psr_own_messages_send(psr_own_messages *messages, const psr_head *head,
                              const psr_payload *payload)
{
    size_t bytes = payload != NULL ? payload->bytes : 0;
    bool lent = payload != NULL && payload->release != NULL;
    own_message *own = malloc(sizeof *own + (lent ? 0 : bytes));
    if (own == NULL) {
        give_back(payload);
        return psr_fail(PSR_ERR_NOMEM, "no memory for a message to itself");
    }
    own->message = (psr_message){.from = messages->self,
                                 .head = *head,
                                 .payload = lent ? payload->data : own->bytes,
                                 .payload_bytes = bytes,
                                 .release = release};
    own->payload = lent ? *payload : (psr_payload){0};
    if (!lent && bytes > 0)
        memcpy(own->bytes, payload->data, bytes);
    psr_message *message = &own->message;
    psr_early_put(messages->waiting, 0, &message);
    return PSR_OK;
}

psr_message *psr_own_messages_take(psr_own_messages *messages)
{
    return psr_early_take(messages->waiting, 0);
}
