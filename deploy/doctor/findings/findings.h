/* What a checkup means for a run on its hosts: what would stop it, what would slow it down or
 * mislead, what is worth knowing, and what could not be tested. docs/doctor.md has each check with
 * its reason. Does no I/O: only the checkup decides. */
#ifndef PSR_DEPLOY_DOCTOR_FINDINGS_FINDINGS_H
#define PSR_DEPLOY_DOCTOR_FINDINGS_FINDINGS_H

#include "deploy/doctor/checkup.h"

typedef enum psr_finding_level {
    PSR_FINDING_STOPS, /* a run would not begin, or not reach its end */
    PSR_FINDING_SLOWS, /* a run would be slower than necessary, or its figures misleading */
    PSR_FINDING_UNTESTED,
    PSR_FINDING_NOTE,
    PSR_FINDING_LEVELS,
} psr_finding_level;

typedef struct psr_finding {
    psr_finding_level level;
    const char *check; /* static: its name in docs/doctor.md */
    char where[600];   /* a host, or two: "n1 -> n2" */
    char what[640];
    char right[512]; /* what to do; "": nothing */
} psr_finding;

/* Sorted by level, and within a level by check in the order of docs/doctor.md. */
typedef struct psr_findings {
    psr_finding *items;
    size_t count;
    bool failed; /* a finding was lost for lack of memory */
} psr_findings;

/* "stops", "slows", "untested", "note" */
const char *psr_finding_level_name(psr_finding_level level);

/* The caller owns *ret_findings: psr_findings_done. NOMEM. */
PSR_MUST_CHECK psr_err psr_findings_make(const psr_checkup *checkup, psr_findings *ret_findings);
void psr_findings_done(psr_findings *findings);

size_t psr_findings_at(const psr_findings *findings, psr_finding_level level); /* how many */

/* The descriptors that a process may need in a run with so many workers: six for each of the others
 * (one to send, one to receive, one by which libzmq wakes it; on a second connection, on which
 * messages are sealed, as many), and some for itself and strangers. */
uint64_t psr_findings_files_needed(uint32_t workers);

#endif
