#include "net/violation.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

const char *psr_message_name(psr_message_type type)
{
    switch (type) {
    case PSR_MSG_HELLO:
        return "HELLO";
    case PSR_MSG_JOIN:
        return "JOIN";
    case PSR_MSG_READY:
        return "READY";
    case PSR_MSG_PROGRESS:
        return "PROGRESS";
    case PSR_MSG_METRICS:
        return "METRICS";
    case PSR_MSG_HELD:
        return "HELD";
    case PSR_MSG_CHECKPOINT:
        return "CHECKPOINT";
    case PSR_MSG_FAILED:
        return "FAILED";
    case PSR_MSG_DONE:
        return "DONE";
    case PSR_MSG_FACTS:
        return "FACTS";
    case PSR_MSG_WELCOME:
        return "WELCOME";
    case PSR_MSG_START:
        return "START";
    case PSR_MSG_ALIVE:
        return "ALIVE";
    case PSR_MSG_HOLD:
        return "HOLD";
    case PSR_MSG_STOP_AT:
        return "STOP_AT";
    case PSR_MSG_RESTORE:
        return "RESTORE";
    case PSR_MSG_ABORT:
        return "ABORT";
    case PSR_MSG_BYE:
        return "BYE";
    case PSR_MSG_CONFIG:
        return "CONFIG";
    case PSR_MSG_SAVED:
        return "SAVED";
    case PSR_MSG_INIT:
        return "INIT";
    case PSR_MSG_PUSH:
        return "PUSH";
    case PSR_MSG_PULL:
        return "PULL";
    case PSR_MSG_WEIGHTS:
        return "WEIGHTS";
    case PSR_MSG_ACK:
        return "ACK";
    case PSR_MSG_RING:
        return "RING";
    case PSR_MSG_GATHER:
        return "GATHER";
    case PSR_MSG_SPREAD:
        return "SPREAD";
    }
    return "unknown";
}

psr_err psr_violation(const psr_message *message, const char *format, ...)
{
    char what[256];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    const psr_head *head = &message->head;
    return psr_fail(PSR_ERR_PROTOCOL,
                    "%s %" PRIu32 " sent %s (wire step %" PRIu64 ", bucket %" PRIu32 ", offset %" PRIu64
                    ", count %" PRIu64 "): %s",
                    psr_role_name(message->from.role), message->from.rank, psr_message_name(head->type),
                    head->step, head->bucket, head->offset, head->count, what);
}
