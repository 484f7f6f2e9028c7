/* A checkup and its findings for programs: one JSON object, of which docs/doctor.md has the fields.
 * Any thread. */
#ifndef PSR_DEPLOY_DOCTOR_CHECKUP_JSON_H
#define PSR_DEPLOY_DOCTOR_CHECKUP_JSON_H

#include "deploy/doctor/findings/findings.h"

/* The caller owns *ret_json: free(). NOMEM. */
PSR_MUST_CHECK psr_err psr_checkup_to_json(const psr_checkup *checkup, const psr_findings *findings,
                                           char **ret_json);

#endif
