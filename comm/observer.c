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
    if (head->type != PSR_MSG_VALUES)
        observed.span = psr_msg_span(head);
    return observed;
}

bool psr_observed_is_gradient(const psr_observed *observed)
{
    return observed->type == PSR_MSG_PUSH || observed->type == PSR_MSG_RING ||
           (observed->type == PSR_MSG_VALUES && observed->bucket != PSR_OBSERVED_NO_BUCKET);
}
