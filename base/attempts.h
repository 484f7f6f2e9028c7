/* --resume auto: a run that the same command starts again after it was interrupted. Its attempts
 * write OUT, OUT-2, OUT-3 .. The first attempt begins the run; each later one goes on from the last
 * checkpoint that an earlier attempt wrote. The process that starts the scheduler resolves this,
 * before the scheduler reads --out and --resume. No state. Any thread. */
#ifndef PSR_BASE_ATTEMPTS_H
#define PSR_BASE_ATTEMPTS_H

#include "base/config/config.h"

#define PSR_RESUME_AUTO "auto"

/* The first of OUT, OUT-2, OUT-3 .. that does not exist. USAGE: as psr_attempts_resolve. */
PSR_MUST_CHECK psr_err psr_attempts_name(const char *out, char ret_name[PSR_PATH_MAX]);

bool psr_attempts_are_asked_for(const psr_config *config);

/* Resolves --resume auto in a configuration that psr_config_check has passed; any other
 * configuration stays as it is. out becomes the first of those names that does not exist. resume
 * becomes the last attempt before it that has a checkpoint, "" where none has; its weights are used
 * rather than --init's. USAGE: there are too many attempts. */
PSR_MUST_CHECK psr_err psr_attempts_resolve(psr_config *config);

#endif
