#include "net/violation.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

psr_err psr_violation(const psr_message *message, const char *format, ...)
{
    char what[256], said[256], who[32];
    const psr_peer from = message->from;
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    psr_head_describe(&message->head, said, sizeof said);
    if (from.rank == PSR_RANK_ANY) /* it has not been given a rank yet */
        snprintf(who, sizeof who, "a %s", psr_role_name(from.role));
    else
        snprintf(who, sizeof who, "%s %" PRIu32, psr_role_name(from.role), from.rank);
    return psr_fail(PSR_ERR_PROTOCOL, "%s sent %s: %s", who, said, what);
}

psr_err psr_violation_unread(psr_peer peer, size_t waiting)
{
    return psr_fail(PSR_ERR_PROTOCOL,
                    "%s %" PRIu32 " does not read what it asks for: %zu messages wait for it",
                    psr_role_name(peer.role), peer.rank, waiting);
}
