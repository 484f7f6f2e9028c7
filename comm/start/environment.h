/* How a process finds its place in the environment: the only file of the library that reads it. Any thread, while nobody changes the
 * environment. */
#ifndef PSR_COMM_START_ENVIRONMENT_H
#define PSR_COMM_START_ENVIRONMENT_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

/* Text is the environment's; NULL: not set, or empty. */
typedef struct psr_environment {
    int64_t ranks;                                       /* PSRING_RANKS */
    int64_t rank;                                        /* PSRING_RANK; -1: not set */
    int64_t shards;                                      /* PSRING_SHARDS; 0: not set */
    const char *scheduler, *key_file, *host, *interface; /* PSRING_SCHEDULER, _KEY_FILE, _HOST, _INTERFACE */
    bool host_scheduler;                                 /* PSRING_HOST_SCHEDULER; not set: of rank 0 */
    int64_t deadline_ms;                                 /* PSRING_DEADLINE_MS; 0: not set */
} psr_environment;

/* NOT_FOUND: there is no PSRING_RANKS. USAGE: a variable is no number, or not in its range. */
PSR_MUST_CHECK psr_err psr_environment_read(psr_environment *ret_environment);

#endif
