/* Runs that a report compares. */
#ifndef PSR_DEPLOY_RUNS_H
#define PSR_DEPLOY_RUNS_H

#include "deploy/report/run_record.h"

enum { PSR_RUNS_MAX = 64, PSR_RUNS_NAME_BYTES = 4096 };

typedef struct psr_runs {
    const char *directories[PSR_RUNS_MAX]; /* as given; borrowed */
    psr_run_record items[PSR_RUNS_MAX];
    size_t count;
    cJSON *differing; /* names of options, owned */
} psr_runs;

/* A run's name: the last part of its directory, or the whole as given if another run has the
 * same. */
void psr_runs_name(const psr_runs *runs, size_t i, char *text, size_t size);

/* The number of runs with a hash, and whether all hashes are equal. */
size_t psr_runs_hashes(const psr_runs *runs, bool *ret_equal);

#endif
