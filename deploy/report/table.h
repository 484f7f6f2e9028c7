/* The table of `psring report`. */
#ifndef PSR_DEPLOY_TABLE_H
#define PSR_DEPLOY_TABLE_H

#include "deploy/report/runs.h"

/* Prints a row for each run on standard output: the options in which they differ, their figures,
 * why one has none, and whether their weights are the same bits. Lines are as wide as the terminal
 * and 100 columns at most; where stdout is no terminal, 100. NOMEM. */
PSR_MUST_CHECK psr_err psr_runs_print_table(const psr_runs *runs);

#endif
