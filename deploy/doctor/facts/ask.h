/* Asks a program on this host: runs it, for a limited time, and takes the first line that it prints
 * as the answer. One thread. */
#ifndef PSR_DEPLOY_DOCTOR_FACTS_ASK_H
#define PSR_DEPLOY_DOCTOR_FACTS_ASK_H

#include "base/err.h"

#include <stddef.h>

/* argv[0]: a path. The answer is cut at size. NOT_FOUND: it cannot be run; TIMEOUT: it did not end
 * within timeout_ms, and was killed; PEER: it failed, with its last line; FORMAT: it printed
 * nothing. */
PSR_MUST_CHECK psr_err psr_ask_program(char *const argv[], int timeout_ms, char *answer,
                                       size_t size);

#endif
