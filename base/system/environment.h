/* The environment that a process is started with: this process's own, with changes. One thread. */
#ifndef PSR_BASE_SYSTEM_ENVIRONMENT_H
#define PSR_BASE_SYSTEM_ENVIRONMENT_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct psr_environment {
    char **items; /* owned, its texts are not; NULL at the end. NULL: not begun */
    size_t count;
} psr_environment;

/* This process's own, with room for so many more. The caller owns *ret_environment:
 * psr_environment_done. NOMEM. */
PSR_MUST_CHECK psr_err psr_environment_begin(size_t more, psr_environment *ret_environment);
/* text: "NAME=VALUE", borrowed for as long as the environment is; takes the place of NAME's last
 * value. */
void psr_environment_set(psr_environment *environment, const char *text);
bool psr_environment_has(const psr_environment *environment, const char *name);
void psr_environment_unset(psr_environment *environment, const char *name);
void psr_environment_done(psr_environment *environment);

#endif
