/* Reads the environment's variables for the files of this folder; no other code does. Any thread,
 * as long as nobody changes the environment. */
#ifndef PSR_COMM_START_VARIABLES_H
#define PSR_COMM_START_VARIABLES_H

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

/* Its text, borrowed from the environment; NULL: it is not set, or empty. */
const char *psr_variable(const char *name);

/* Reads an integer in [least, most]; *number stays if the variable is not set. USAGE: it is
 * anything else. */
PSR_MUST_CHECK psr_err psr_variable_number(const char *name, int64_t least, int64_t most,
                                           int64_t *number);
PSR_MUST_CHECK psr_err psr_variable_u32(const char *name, uint32_t least, uint32_t most,
                                        uint32_t *number);

/* Copies its text with the terminating zero; *to stays if the variable is not set. USAGE: it is
 * longer than size, or not a printable line. */
PSR_MUST_CHECK psr_err psr_variable_copy(const char *name, char *to, size_t size);

/* USAGE: name is not set; because says why it is needed: "DMLC_ROLE is worker". */
PSR_MUST_CHECK psr_err psr_variable_need(const char *name, const char *because);

#endif
