#include "comm/operations/early.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

/* Linked by the messages' own next. */
typedef struct queue {
    psr_message *first, **last;
} queue;

struct psr_early {
    size_t count, limit;
    uint32_t keys;
    queue queues[];
};

psr_err psr_early_new(uint32_t keys, size_t limit, psr_early **ret_early)
{
    psr_early *early = malloc(sizeof *early + keys * sizeof early->queues[0]);
    if (early == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for the early messages of %" PRIu32 " keys",
                        keys);
    early->count = 0;
    early->limit = limit;
    early->keys = keys;
    for (uint32_t k = 0; k < keys; k++)
        early->queues[k] = (queue){NULL, &early->queues[k].first};
    *ret_early = early;
    return PSR_OK;
}

void psr_early_free(psr_early *early)
{
    if (early == NULL)
        return;
    for (uint32_t k = 0; k < early->keys; k++)
        for (psr_message *message; (message = psr_early_take(early, k)) != NULL;)
            psr_message_free(&message);
    free(early);
}

void psr_early_put(psr_early *early, uint32_t key, psr_message **message)
{
    assert(key < early->keys && early->count < early->limit);
    queue *q = &early->queues[key];
    (*message)->next = NULL;
    *q->last = *message;
    q->last = &(*message)->next;
    early->count++;
    *message = NULL;
}

bool psr_early_full(const psr_early *early)
{
    return early->count >= early->limit;
}

psr_message *psr_early_take(psr_early *early, uint32_t key)
{
    assert(key < early->keys);
    queue *q = &early->queues[key];
    psr_message *message = q->first;
    if (message == NULL)
        return NULL;
    q->first = message->next;
    if (q->first == NULL)
        q->last = &q->first;
    early->count--;
    message->next = NULL;
    return message;
}

bool psr_early_any(const psr_early *early, uint32_t key)
{
    assert(key < early->keys);
    return early->queues[key].first != NULL;
}
