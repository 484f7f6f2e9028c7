/* Examines this host: fills in psr_host_facts, except the fields about the probe's own inbox. It
 * reads files of /proc and /sys and limits, and asks three programs: psring-worker,
 * psring-worker-cuda if it is installed, and the psring that the shell would find. What cannot be
 * found stays empty or 0. One thread. */
#ifndef PSR_DEPLOY_DOCTOR_FACTS_FIND_FACTS_H
#define PSR_DEPLOY_DOCTOR_FACTS_FIND_FACTS_H

#include "deploy/doctor/facts/host_facts.h"

/* What a run would train, and on what; by the options of psring train. */
typedef struct psr_planned {
    const char *data;    /* NULL: not said */
    const char *options; /* of a run on it, as JSON (psr_config_to_json); NULL: not said */
} psr_planned;

/* within_ms: approximate; names that are not resolved and programs that do not end are given up. */
void psr_find_host_facts(const psr_planned *planned, int within_ms, psr_host_facts *ret_facts);

/* Makes the worker read a data set to its end, within within_ms. ret_content: "" if it could not;
 * then ret_failure says why. */
void psr_find_data_content(const char *data, int within_ms,
                           char ret_content[PSR_CONTENT_TEXT_BYTES], char ret_failure[512]);

/* A control group's limit from the text of version 2's file: "200000 100000" is 2000 thousandths of
 * a core; "max 100000", and text that cannot be read, is PSR_FACT_UNLIMITED. Does no I/O. */
uint64_t psr_find_cpu_max(const char *text);

#endif
