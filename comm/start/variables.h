/* Variables of the environment, as the files of this folder read them: nobody else does. Any
 * thread, while nobody changes the environment. */
#ifndef PSR_COMM_START_VARIABLES_H
#define PSR_COMM_START_VARIABLES_H

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

/* Its text, which is the environment's; NULL: it is not set, or empty. */
const char *psr_variable(const char *name);

/* A whole number of [least, most]; *number stays where the variable is not set. USAGE: it is
 * something else. */
PSR_MUST_CHECK psr_err psr_variable_number(const char *name, int64_t least, int64_t most,
                                           int64_t *number);
PSR_MUST_CHECK psr_err psr_variable_u32(const char *name, uint32_t least, uint32_t most,
                                        uint32_t *number);

/* Its text, copied, with its end; *to stays where the variable is not set. USAGE: it is longer, or
 * no printable line. */
PSR_MUST_CHECK psr_err psr_variable_copy(const char *name, char *to, size_t size);

/* USAGE: name is not set, which says what because is about: "DMLC_ROLE is worker". */
PSR_MUST_CHECK psr_err psr_variable_need(const char *name, const char *because);

#endif
