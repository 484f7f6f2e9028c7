#include "comm/start/environment.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

static const char *text(const char *name)
{
    const char *value = getenv(name);
    return value != NULL && value[0] != '\0' ? value : NULL;
}

/* Leaves *number where there is none. */
static psr_err read_number(const char *name, int64_t least, int64_t most, int64_t *number)
{
    const char *value = text(name);
    if (value == NULL)
        return PSR_OK;
    char *end = NULL;
    errno = 0;
    long long read = strtoll(value, &end, 10);
    if (errno != 0 || end == value || *end != '\0' || read < least || read > most)
        return psr_fail(PSR_ERR_USAGE, "%s is \"%s\": it should be a number from %" PRId64 " to %" PRId64,
                        name, value, least, most);
    *number = read;
    return PSR_OK;
}

psr_err psr_environment_read(psr_environment *ret_environment)
{
    psr_environment e = {.rank = -1};
    int64_t hosts = -1;
    if (text("PSRING_RANKS") == NULL)
        return psr_fail(
            PSR_ERR_NOT_FOUND,
            "PSRING_RANKS is not set: start this program by psring run -n RANKS -- PROGRAM, or set it");
    PSR_TRY(read_number("PSRING_RANKS", 1, INT32_MAX, &e.ranks));
    PSR_TRY(read_number("PSRING_RANK", 0, e.ranks - 1, &e.rank));
    PSR_TRY(read_number("PSRING_SHARDS", 0, e.ranks - 1, &e.shards));
    PSR_TRY(read_number("PSRING_HOST_SCHEDULER", 0, 1, &hosts));
    PSR_TRY(read_number("PSRING_DEADLINE_MS", 1, INT32_MAX, &e.deadline_ms));
    e.scheduler = text("PSRING_SCHEDULER");
    e.key_file = text("PSRING_KEY_FILE");
    e.host = text("PSRING_HOST");
    e.interface = text("PSRING_INTERFACE");
    e.host_scheduler = hosts >= 0 ? hosts == 1 : e.rank == 0;
    *ret_environment = e;
    return PSR_OK;
}
