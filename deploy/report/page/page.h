/* `psring report DIR... -o FILE.html`: one page that holds all it needs, for any browser, wide or
 * narrow, light or dark. It has the question, the answer in a sentence, throughput, scaling, a
 * step's time by part, one step as a timeline, bytes of each link, the loss against steps and
 * seconds, configuration and machine, what the figures leave open, and the commands to repeat it.
 * Figures are those of base/figures.h. One thread. */
#ifndef PSR_DEPLOY_REPORT_PAGE_H
#define PSR_DEPLOY_REPORT_PAGE_H

#include "deploy/report/runs.h"

/* Replaces the file as one. IO, NOT_FOUND (its directory), NOMEM. */
PSR_MUST_CHECK psr_err psr_runs_write_page(const psr_runs *runs, const char *path);

#endif
