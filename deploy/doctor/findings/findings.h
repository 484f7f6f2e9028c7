/* What a checkup means for a run on its hosts: what would stop it, what would slow it down or
 * mislead, what is worth knowing, and what could not be tested. docs/doctor.md has each check with
 * its reason. Pure: a function of the checkup. */
#ifndef PSR_DEPLOY_DOCTOR_FINDINGS_FINDINGS_H
#define PSR_DEPLOY_DOCTOR_FINDINGS_FINDINGS_H

#include "deploy/doctor/checkup.h"

typedef enum psr_finding_level {
    PSR_FINDING_STOPS, /* a run would not begin, or not come to its end */
    PSR_FINDING_SLOWS, /* it would be slower than it need be, or misleading */
    PSR_FINDING_UNTESTED,
    PSR_FINDING_NOTE,
    PSR_FINDING_LEVELS,
} psr_finding_level;

typedef struct psr_finding {
    psr_finding_level level;
    const char *check; /* static: its name in docs/doctor.md */
    char where[600];   /* a host, or two: "n1 -> n2" */
    char what[640];
    char right[512]; /* what would be right; "": nothing is to be done */
} psr_finding;

/* By level, and in a level by check as docs/doctor.md has them. */
typedef struct psr_findings {
    psr_finding *items;
    size_t count;
    bool failed; /* there was no memory for one */
} psr_findings;

/* "stops", "slows", "untested", "note" */
const char *psr_finding_level_name(psr_finding_level level);

/* ret owns: psr_findings_done. NOMEM. */
PSR_MUST_CHECK psr_err psr_findings_make(const psr_checkup *checkup, psr_findings *ret_findings);
void psr_findings_done(psr_findings *findings);

size_t psr_findings_at(const psr_findings *findings, psr_finding_level level); /* how many */

/* Descriptors that a process of a run with so many workers may need: three for each of the others
 * (what it sends on, what it hears on, and what libzmq wakes it by), and for itself and
 * strangers. */
uint64_t psr_findings_files_needed(uint32_t workers);

#endif
