/* Operations of a group. Their receiver checks that it has the tag's group. */
#include "comm/wire/messages_private.h"

enum { CALL_WORD, CALL_ROOT, CALL_COUNT, AFTER_CALL };

static psr_head call_head(psr_message_type type, psr_tag tag, const psr_msg_call *call)
{
    return (psr_head){.type = type, .tag = tag, .fields = {call->word, call->root, call->count}};
}

static psr_err read_call(const psr_message *message, psr_msg_call *ret_call)
{
    const uint64_t *fields = message->head.fields;
    PSR_TRY(field_at_most(message, CALL_ROOT, UINT32_MAX));
    *ret_call = (psr_msg_call){fields[CALL_WORD], (uint32_t)fields[CALL_ROOT], fields[CALL_COUNT]};
    return PSR_OK;
}

enum { VALUES_TOTAL = AFTER_CALL, VALUES_SLICE, BEFORE_WORD, BEFORE_ROOT, BEFORE_COUNT };

uint64_t psr_msg_slice_of_values(const psr_head *head)
{
    return head->fields[VALUES_SLICE];
}

psr_head psr_msg_values_head(const psr_msg_values *values)
{
    psr_head head = call_head(PSR_MSG_VALUES, values->tag, &values->call);
    head.fields[VALUES_TOTAL] = values->total;
    head.fields[VALUES_SLICE] = values->slice;
    head.fields[BEFORE_WORD] = values->before.word;
    head.fields[BEFORE_ROOT] = values->before.root;
    head.fields[BEFORE_COUNT] = values->before.count;
    return head;
}

psr_err psr_msg_values_read(const psr_message *message, psr_msg_values *ret_values)
{
    const psr_head *head = &message->head;
    psr_msg_call call;
    PSR_TRY(read_call(message, &call));
    PSR_TRY(field_at_most(message, BEFORE_ROOT, UINT32_MAX));
    *ret_values =
        (psr_msg_values){.tag = head->tag,
                         .call = call,
                         .total = head->fields[VALUES_TOTAL],
                         .slice = head->fields[VALUES_SLICE],
                         .before = {head->fields[BEFORE_WORD], (uint32_t)head->fields[BEFORE_ROOT],
                                    head->fields[BEFORE_COUNT]}};
    return PSR_OK;
}

enum { CREDIT_SLICES = AFTER_CALL, CREDIT_OFFER };

psr_head psr_msg_credit_head(const psr_msg_credit *credit)
{
    psr_head head = call_head(PSR_MSG_CREDIT, credit->tag, &credit->call);
    head.fields[CREDIT_SLICES] = credit->slices;
    head.fields[CREDIT_OFFER] = credit->offer;
    return head;
}

psr_err psr_msg_credit_read(const psr_message *message, psr_msg_credit *ret_credit)
{
    psr_msg_call call;
    PSR_TRY(read_call(message, &call));
    *ret_credit = (psr_msg_credit){message->head.tag, call, message->head.fields[CREDIT_SLICES],
                                   message->head.fields[CREDIT_OFFER]};
    return PSR_OK;
}

psr_head psr_msg_listen_head(uint32_t epoch, uint32_t group)
{
    return (psr_head){.type = PSR_MSG_LISTEN, .tag = {.epoch = epoch, .group = group}};
}

psr_head psr_msg_offer_head(const psr_msg_offer *offer)
{
    return call_head(PSR_MSG_OFFER, offer->tag, &offer->call);
}

psr_err psr_msg_offer_read(const psr_message *message, psr_msg_offer *ret_offer)
{
    psr_msg_call call;
    PSR_TRY(read_call(message, &call));
    *ret_offer = (psr_msg_offer){message->head.tag, call};
    return PSR_OK;
}

psr_head psr_msg_ahead_head(const psr_msg_ahead *ahead)
{
    return (psr_head){.type = PSR_MSG_AHEAD, .tag = ahead->tag, .fields = {ahead->operations}};
}

psr_err psr_msg_ahead_read(const psr_message *message, psr_msg_ahead *ret_ahead)
{
    *ret_ahead = (psr_msg_ahead){message->head.tag, message->head.fields[0]};
    return PSR_OK;
}

psr_tag psr_msg_tag(const psr_message *message)
{
    return message->head.tag;
}
