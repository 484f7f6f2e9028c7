/* What the files of comm/wire/messages.h share. In a head the fields have the order and the names
 * of net/message.c's table. */
#ifndef PSR_COMM_MESSAGES_PRIVATE_H
#define PSR_COMM_MESSAGES_PRIVATE_H

#include "comm/wire/messages.h"
#include "net/violation.h"

#include <inttypes.h>

static inline psr_err at_most(const psr_message *message, const char *name, uint64_t value,
                              uint64_t most)
{
    if (value <= most)
        return PSR_OK;
    return psr_violation(message, "its %s is %" PRIu64 ": %" PRIu64 " is the most", name, value,
                         most);
}

static inline psr_err field_at_most(const psr_message *message, size_t field, uint64_t most)
{
    return at_most(message, psr_head_field_name(message->head.type, field),
                   message->head.fields[field], most);
}

/* The places of a span's fields in the types that have one. */
enum { OFFSET, COUNT, AFTER_SPAN };

static inline psr_span span_of(const psr_head *head)
{
    return (psr_span){head->fields[OFFSET], head->fields[COUNT]};
}

/* The tables of a run have one view and one group. */
static inline psr_err check_view(const psr_message *message)
{
    PSR_TRY(at_most(message, "epoch", message->head.tag.epoch, 0));
    return at_most(message, "group", message->head.tag.group, 0);
}

static inline psr_tag bucket_tag(uint32_t bucket, uint64_t step)
{
    return (psr_tag){.slot = bucket + 1, .round = step};
}

static inline psr_err read_bucket(const psr_message *message, uint32_t *ret_bucket)
{
    PSR_TRY(check_view(message));
    if (message->head.tag.slot == 0)
        return psr_violation(message, "its slot is 0, which is no bucket's");
    *ret_bucket = message->head.tag.slot - 1;
    return PSR_OK;
}

/* The number of the slice in a head of VALUES, unchecked. */
uint64_t psr_msg_slice_of_values(const psr_head *head);

#endif
