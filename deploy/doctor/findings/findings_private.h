/* What the files of deploy/doctor/findings/findings.h share: findings.c judges hosts,
 * findings_memory.c their memory, findings_ways.c what is between them. */
#ifndef PSR_DEPLOY_DOCTOR_FINDINGS_FINDINGS_PRIVATE_H
#define PSR_DEPLOY_DOCTOR_FINDINGS_FINDINGS_PRIVATE_H

#include "deploy/doctor/findings/findings.h"

/* Adds one; without memory it sets failed. right: what to do. The rest, as for printf: what was
 * found. */
void psr_findings_add(psr_findings *findings, psr_finding_level level, const char *check,
                      const char *where, const char *right, const char *what, ...) PSR_PRINTF(6, 7);

/* For one host that was probed. */
void psr_findings_of_memory(const psr_checkup *checkup, const psr_checkup_host *host,
                            psr_findings *findings);

/* Ports, routes, messages, latencies and bandwidths. */
void psr_findings_of_ways(const psr_checkup *checkup, psr_findings *findings);

bool psr_checkup_host_probed(const psr_checkup_host *host);

#endif
