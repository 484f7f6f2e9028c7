#include "base/err.h"

#include "base/text/printable.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static _Thread_local char detail[PSR_ERR_DETAIL_BYTES];

psr_err psr_fail(psr_err code, const char *format, ...)
{
    /* Formatted aside, since an argument may be psr_err_detail() itself. */
    char text[PSR_ERR_DETAIL_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    psr_printable_line(text, strlen(text)); /* it may quote a name that came
                                               from a file or a peer */
    memcpy(detail, text, sizeof detail);
    return code;
}

psr_err psr_fail_context(psr_err code, const char *format, ...)
{
    char text[PSR_ERR_DETAIL_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);

    size_t used = strlen(text);
    snprintf(text + used, sizeof text - used, ": %.*s", (int)(sizeof text - used), detail);
    psr_printable_line(text, strlen(text));
    memcpy(detail, text, sizeof detail);
    return code;
}

const char *psr_err_detail(void)
{
    return detail;
}

void psr_err_detail_keep(char ret_kept[PSR_ERR_DETAIL_BYTES])
{
    memcpy(ret_kept, detail, strlen(detail) + 1);
}

void psr_err_detail_restore(const char kept[PSR_ERR_DETAIL_BYTES])
{
    memcpy(detail, kept, strlen(kept) + 1);
}

const char *psr_err_name(psr_err code)
{
    switch (code) {
    case PSR_OK:
        return "ok";
    case PSR_ERR_NOMEM:
        return "no memory";
    case PSR_ERR_USAGE:
        return "usage";
    case PSR_ERR_FORMAT:
        return "format";
    case PSR_ERR_IO:
        return "input/output";
    case PSR_ERR_NOT_FOUND:
        return "not found";
    case PSR_ERR_TIMEOUT:
        return "timeout";
    case PSR_ERR_PROTOCOL:
        return "protocol";
    case PSR_ERR_VERSION:
        return "version";
    case PSR_ERR_DENIED:
        return "denied";
    case PSR_ERR_PEER:
        return "peer";
    case PSR_ERR_CANCELLED:
        return "cancelled";
    case PSR_ERR_NUMERIC:
        return "numeric";
    case PSR_ERR_COMPUTE:
        return "compute";
    case PSR_ERR_UNSUPPORTED:
        return "unsupported";
    case PSR_ERR_MISMATCH:
        return "mismatch";
    case PSR_ERR_BROKEN:
        return "broken";
    case PSR_ERR_BUSY:
        return "busy";
    case PSR_ERR_FULL:
        return "disk full";
    }
    return "unknown";
}

int psr_err_exit_status(psr_err code)
{
    switch (code) {
    case PSR_OK:
        return 0;
    case PSR_ERR_USAGE:
    case PSR_ERR_FORMAT:
    case PSR_ERR_IO:
    case PSR_ERR_NOT_FOUND:
    case PSR_ERR_UNSUPPORTED:
    case PSR_ERR_MISMATCH:
        return 2;
    case PSR_ERR_PROTOCOL:
    case PSR_ERR_VERSION:
    case PSR_ERR_DENIED:
        return 3;
    case PSR_ERR_CANCELLED:
        return 130;
    case PSR_ERR_NOMEM:
    case PSR_ERR_TIMEOUT:
    case PSR_ERR_PEER:
    case PSR_ERR_NUMERIC:
    case PSR_ERR_COMPUTE:
    case PSR_ERR_BROKEN:
    case PSR_ERR_BUSY:
    case PSR_ERR_FULL:
        return 1;
    }
    return 1;
}

psr_err psr_err_of_write(int number)
{
    return number == ENOSPC || number == EDQUOT || number == EFBIG ? PSR_ERR_FULL : PSR_ERR_IO;
}
