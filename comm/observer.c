#include "comm/observer.h"

#include "comm/wire/messages.h"

psr_observed psr_observed_message(psr_observed_kind kind, psr_peer peer, const psr_head *head,
                                  size_t bytes)
{
    psr_observed observed = {.kind = kind,
                             .bucket = PSR_OBSERVED_NO_BUCKET,
                             .step = psr_msg_step(head),
                             .type = head->type,
                             .peer = peer,
                             .bytes = bytes};
    if (!psr_msg_is_of_bucket(head))
        return observed;
    observed.bucket = psr_msg_bucket(head);
    observed.part = psr_msg_part(head);
    if (head->type != PSR_MSG_VALUES)
        observed.span = psr_msg_span(head);
    return observed;
}

void psr_outbox_tell(const psr_outbox *outbox, psr_observed_kind kind, uint64_t step,
                     uint32_t bucket, psr_span span)
{
    const psr_observed observed = {.kind = kind, .step = step, .bucket = bucket, .span = span};
    if (outbox->tell != NULL)
        outbox->tell(outbox->context, &observed);
}

bool psr_observed_is_gradient(const psr_observed *observed)
{
    return observed->type == PSR_MSG_PUSH || observed->type == PSR_MSG_RING ||
           (observed->type == PSR_MSG_VALUES && observed->bucket != PSR_OBSERVED_NO_BUCKET);
}
