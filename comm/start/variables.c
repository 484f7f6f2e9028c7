#include "comm/start/variables.h"

#include "base/text/printable.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

const char *psr_variable(const char *name)
{
    const char *value = getenv(name);
    return value != NULL && value[0] != '\0' ? value : NULL;
}

psr_err psr_variable_number(const char *name, int64_t least, int64_t most, int64_t *number)
{
    const char *value = psr_variable(name);
    if (value == NULL)
        return PSR_OK;
    char *end = NULL;
    errno = 0;
    long long read = strtoll(value, &end, 10);
    if (errno != 0 || end == value || *end != '\0' || read < least || read > most)
        return psr_fail(PSR_ERR_USAGE,
                        "%s is \"%.60s\": it should be a number from %" PRId64 " to %" PRId64, name,
                        value, least, most);
    *number = read;
    return PSR_OK;
}

psr_err psr_variable_u32(const char *name, uint32_t least, uint32_t most, uint32_t *number)
{
    int64_t read = *number;
    PSR_TRY(psr_variable_number(name, least, most, &read));
    *number = (uint32_t)read;
    return PSR_OK;
}

psr_err psr_variable_copy(const char *name, char *to, size_t size)
{
    const char *value = psr_variable(name);
    if (value == NULL)
        return PSR_OK;
    size_t length = strlen(value);
    if (length >= size)
        return psr_fail(PSR_ERR_USAGE, "%s is %zu bytes long: %zu is the most", name, length,
                        size - 1);
    if (!psr_is_printable(value, length))
        return psr_fail(PSR_ERR_USAGE, "%s has control characters, or is not UTF-8", name);
    memcpy(to, value, length + 1);
    return PSR_OK;
}

psr_err psr_variable_need(const char *name, const char *because)
{
    if (psr_variable(name) != NULL)
        return PSR_OK;
    return psr_fail(PSR_ERR_USAGE, "%s is not set, and %s", name, because);
}
