#include "net/violation.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

psr_err psr_violation(const psr_message *message, const char *format, ...)
{
    char what[256], said[256];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    psr_head_describe(&message->head, said, sizeof said);
    return psr_fail(PSR_ERR_PROTOCOL, "%s %" PRIu32 " sent %s: %s", psr_role_name(message->from.role),
                    message->from.rank, said, what);
}
