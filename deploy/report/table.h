/* The table of `psring report`. */
#ifndef PSR_DEPLOY_TABLE_H
#define PSR_DEPLOY_TABLE_H

#include "deploy/report/runs.h"

/* Prints a row for each run on standard output, at most 100 columns wide: the options in which they
 * differ, their figures, why one has none, and whether their weights are the same bits. NOMEM. */
PSR_MUST_CHECK psr_err psr_runs_print_table(const psr_runs *runs);

#endif
