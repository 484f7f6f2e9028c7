/* Looks at this host: fills psr_host_facts but for those of the probe's own inbox. Files of /proc
 * and /sys, limits, and two programs that are asked: psring-worker, and the psring that the shell
 * would find. What cannot be found out stays empty or 0. One thread. */
#ifndef PSR_DEPLOY_DOCTOR_FACTS_FIND_FACTS_H
#define PSR_DEPLOY_DOCTOR_FACTS_FIND_FACTS_H

#include "deploy/doctor/facts/host_facts.h"

/* What a run would train, and on what; as the options of these names. */
typedef struct psr_planned {
    const char *data;  /* NULL: not said */
    const char *model; /* NULL: not said */
    uint32_t image_size;
} psr_planned;

/* within_ms: about; names that nobody resolves and programs that do not end are given up. */
void psr_find_host_facts(const psr_planned *planned, int within_ms, psr_host_facts *ret_facts);

/* Has the worker read a data set to its end, within within_ms. ret_content: "" where it could not,
 * and ret_failure then says why. */
void psr_find_data_content(const char *data, int within_ms,
                           char ret_content[PSR_CONTENT_TEXT_BYTES], char ret_failure[512]);

/* A control group's limits as the files of version 2 say them, pure: "200000 100000" are 2000
 * thousandths of a core, "max 100000" is PSR_FACT_UNLIMITED, as is what cannot be read. */
uint64_t psr_find_cpu_max(const char *text);

#endif
