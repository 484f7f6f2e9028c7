/* Runs that a report sets beside one another. */
#ifndef PSR_DEPLOY_RUNS_H
#define PSR_DEPLOY_RUNS_H

#include "deploy/report/run_record.h"

enum { PSR_RUNS_MAX = 64, PSR_RUNS_NAME_BYTES = 4096 };

typedef struct psr_runs {
    const char *directories[PSR_RUNS_MAX]; /* as they were given; borrowed */
    psr_run_record items[PSR_RUNS_MAX];
    size_t count;
    cJSON *differing; /* names of options, owned */
} psr_runs;

/* What a run is called: its directory's own name, or all that was given where another has the
 * same. */
void psr_runs_name(const psr_runs *runs, size_t i, char *text, size_t size);

/* Runs with a hash: how many, and whether all have the same. */
size_t psr_runs_hashes(const psr_runs *runs, bool *ret_equal);

#endif
