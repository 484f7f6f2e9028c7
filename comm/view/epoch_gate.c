#include "comm/view/epoch_gate.h"

#include "comm/wire/messages.h"
#include "net/violation.h"

#include <stdlib.h>

struct psr_epoch_gate {
    uint32_t epoch;
    bool state_alone;
    /* the waiting messages, the oldest first, linked by their own next */
    psr_message *first, **last;
    size_t count, limit;
};

psr_err psr_epoch_gate_new(size_t limit, psr_epoch_gate **ret_gate)
{
    psr_epoch_gate *gate = malloc(sizeof *gate);
    if (gate == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for what waits for a view");
    *gate = (psr_epoch_gate){.limit = limit, .last = &gate->first};
    *ret_gate = gate;
    return PSR_OK;
}

void psr_epoch_gate_free(psr_epoch_gate *gate)
{
    if (gate == NULL)
        return;
    for (psr_message *message = gate->first, *next; message != NULL; message = next) {
        next = message->next;
        psr_message_free(&message);
    }
    free(gate);
}

static bool is_due(const psr_epoch_gate *gate, const psr_message *message)
{
    return psr_msg_tag(message).epoch == gate->epoch &&
           (!gate->state_alone || message->head.type == PSR_MSG_STATE);
}

static void let_in(psr_message *message)
{
    message->head = psr_msg_in_epoch(message->head, 0);
    message->next = NULL;
}

psr_err psr_epoch_gate_pass(psr_epoch_gate *gate, psr_message **message)
{
    const uint32_t epoch = psr_msg_tag(*message).epoch;
    if (is_due(gate, *message)) {
        let_in(*message);
        return PSR_OK;
    }
    if (epoch < gate->epoch) {
        psr_message_free(message);
        return PSR_OK;
    }
    if (gate->count == gate->limit)
        return psr_violation(*message, "more than %zu messages wait for a later view", gate->limit);
    (*message)->next = NULL;
    *gate->last = *message;
    gate->last = &(*message)->next;
    gate->count++;
    *message = NULL;
    return PSR_OK;
}

void psr_epoch_gate_move(psr_epoch_gate *gate, uint32_t epoch, size_t limit)
{
    gate->epoch = epoch;
    gate->state_alone = true;
    gate->limit = limit > gate->limit ? limit : gate->limit;
}

void psr_epoch_gate_open(psr_epoch_gate *gate)
{
    gate->state_alone = false;
}

/* Removes the message to which `at` points. */
static psr_message *take(psr_epoch_gate *gate, psr_message **at)
{
    psr_message *message = *at;
    *at = message->next;
    if (*at == NULL)
        gate->last = at;
    gate->count--;
    return message;
}

psr_message *psr_epoch_gate_next(psr_epoch_gate *gate)
{
    psr_message **at = &gate->first;
    while (*at != NULL) {
        if (is_due(gate, *at)) {
            psr_message *message = take(gate, at);
            let_in(message);
            return message;
        }
        if (psr_msg_tag(*at).epoch >= gate->epoch) {
            at = &(*at)->next;
            continue;
        }
        psr_message *old = take(gate, at);
        psr_message_free(&old);
    }
    return NULL;
}

const psr_message *psr_epoch_gate_waiting(const psr_epoch_gate *gate, uint32_t epoch)
{
    const psr_message *message = gate->first;
    while (message != NULL && psr_msg_tag(message).epoch != epoch)
        message = message->next;
    return message;
}

uint32_t psr_epoch_gate_epoch(const psr_epoch_gate *gate)
{
    return gate->epoch;
}
