/* Runs that a report compares. Plain data; one thread. */
#ifndef PSR_DEPLOY_RUNS_H
#define PSR_DEPLOY_RUNS_H

#include "deploy/report/run_record.h"

enum { PSR_RUNS_MAX = 512, PSR_RUNS_NAME_BYTES = 4096 };

typedef struct psr_runs {
    const char *directories[PSR_RUNS_MAX]; /* as given, or of found; borrowed */
    psr_run_record items[PSR_RUNS_MAX];
    size_t count;
    cJSON *differing; /* names of options, owned */
    cJSON *predicted; /* what deploy/report/page/predicted.h has read, owned; NULL: nothing */
    /* of directories those that were found for a file of psring bench train; owned */
    char *found[PSR_RUNS_MAX];
    size_t found_count;
    const char *given[PSR_RUNS_MAX]; /* what was added, directories and files; borrowed */
    size_t given_count;
} psr_runs;

/* Adds a run directory; or, if path is a file that psring bench train has written, its run
 * directories in the order of their names. Where it has kept none (--keep-runs) items has what the
 * file says of each run (deploy/report/bench_file.h), otherwise nothing. path: borrowed for life.
 * USAGE: there are more than PSR_RUNS_MAX. Otherwise as psr_bench_file_read. NOMEM. */
PSR_MUST_CHECK psr_err psr_runs_add(psr_runs *runs, const char *path);
/* Reads the directories of all runs of which items has nothing yet. False: one is unreadable. */
bool psr_runs_read(psr_runs *runs);
void psr_runs_done(psr_runs *runs);

/* A run's name: the last part of its directory, or the whole as given if another run has the
 * same. */
void psr_runs_name(const psr_runs *runs, size_t i, char *text, size_t size);

/* The number of runs with a hash, and whether all hashes are equal. */
size_t psr_runs_hashes(const psr_runs *runs, bool *ret_equal);

#endif
