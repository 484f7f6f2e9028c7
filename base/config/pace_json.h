/* A pace in messages. No state; any thread. */
#ifndef PSR_BASE_CONFIG_PACE_JSON_H
#define PSR_BASE_CONFIG_PACE_JSON_H

#include "base/config/pace.h"
#include "base/text/json_fields.h"

/* As the field "pace" of a message, which is not there for a pace of zeros. Errors of the second as
 * of psr_pace_read. */
void psr_pace_put(psr_fields_writer *w, const psr_pace *pace);
PSR_MUST_CHECK psr_err psr_pace_take(const cJSON *object, psr_pace *ret_pace);

#endif
