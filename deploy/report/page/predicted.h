/* What `psring predict --beside --json` says of the runs of a report, and the section of the page
 * that shows it beside what was measured. One thread. */
#ifndef PSR_DEPLOY_REPORT_PREDICTED_H
#define PSR_DEPLOY_REPORT_PREDICTED_H

#include "deploy/report/runs.h"

#include <stdio.h>

/* Reads path into runs->predicted. USAGE: it speaks of none of these runs. FORMAT: it is no such
 * file, or a time in it is none. NOT_FOUND, IO. */
PSR_MUST_CHECK psr_err psr_predicted_read(psr_runs *runs, const char *path);

/* Writes the section as HTML; nothing if nothing was read. */
void psr_predicted_put(const psr_runs *runs, FILE *to);

#endif
