/* A run that is started again by the same command when it was ended before its time: --resume auto. Its attempts are OUT, OUT-2, OUT-3 ..; a new one
 * goes on where the last one that wrote a checkpoint left it, and the first begins. Resolved by whoever starts the scheduler, before that
 * reads --out and --resume. No state. Any thread. */
#ifndef PSR_BASE_ATTEMPTS_H
#define PSR_BASE_ATTEMPTS_H

#include "base/config.h"

#define PSR_RESUME_AUTO "auto"

/* The first of OUT, OUT-2, OUT-3 .. that nothing has. USAGE: as psr_attempts_resolve. */
PSR_MUST_CHECK psr_err psr_attempts_name(const char *out, char ret_name[PSR_PATH_MAX]);

bool psr_attempts_are_asked_for(const psr_config *config);

/* Of a configuration that psr_config_check has passed. With --resume auto: out becomes the first of those names that nothing has, resume the last
 * attempt before it with a checkpoint in it, whose weights count before --init's; "" where there is none. Otherwise config stays as it
 * is. USAGE: there are too many attempts. */
PSR_MUST_CHECK psr_err psr_attempts_resolve(psr_config *config);

#endif
