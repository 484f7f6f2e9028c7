/* A question to a program of this host: it is run, for a bounded time, and its answer is the first
 * line that it prints. One thread. */
#ifndef PSR_DEPLOY_DOCTOR_FACTS_ASK_H
#define PSR_DEPLOY_DOCTOR_FACTS_ASK_H

#include "base/err.h"

#include <stddef.h>

/* argv[0]: a path. The answer is cut at size. NOT_FOUND: it cannot be run; TIMEOUT: it did not end
 * within timeout_ms, and was killed; PEER: it failed, with its last words; FORMAT: it said
 * nothing. */
PSR_MUST_CHECK psr_err psr_ask_program(char *const argv[], int timeout_ms, char *answer,
                                       size_t size);

#endif
