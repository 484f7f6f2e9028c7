#include "comm/observer.h"

#include "comm/wire/messages.h"

static bool is_of_bucket(psr_message_type type)
{
    switch (type) {
    case PSR_MSG_INIT:
    case PSR_MSG_PUSH:
    case PSR_MSG_PULL:
    case PSR_MSG_WEIGHTS:
    case PSR_MSG_RING:
        return true;
    default:
        return false;
    }
}

psr_observed psr_observed_message(psr_observed_kind kind, psr_peer peer, const psr_head *head,
                                  size_t bytes)
{
    psr_observed observed = {.kind = kind,
                             .bucket = PSR_OBSERVED_NO_BUCKET,
                             .step = psr_msg_step(head),
                             .type = head->type,
                             .peer = peer,
                             .bytes = bytes};
    if (is_of_bucket(head->type)) {
        observed.bucket = psr_msg_bucket(head);
        observed.span = psr_msg_span(head);
    }
    return observed;
}

bool psr_observed_is_gradient(const psr_observed *observed)
{
    return observed->type == PSR_MSG_PUSH || observed->type == PSR_MSG_RING;
}
