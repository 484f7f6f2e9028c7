/* metrics.jsonl while it is written: whole lines, in writes of whole lines, so that a reader never
 * sees a torn one, however the process ends; what a full disk cut is taken back. Of a run with
 * --metrics-every N it has the steps that N divides, those with an evaluation, and the last one of
 * each rank. One thread. */
#ifndef PSR_PS_SCHEDULER_METRICS_METRICS_FILE_H
#define PSR_PS_SCHEDULER_METRICS_METRICS_FILE_H

#include "base/err.h"
#include "ps/scheduler/metrics/metrics_line.h"

#include <stdbool.h>

typedef struct psr_metrics_file psr_metrics_file;

/* path: made, or appended to. every: from 1 on. The caller owns *ret_file. IO, NOMEM. */
PSR_MUST_CHECK psr_err psr_metrics_file_new(const char *path, uint32_t ranks, uint64_t every,
                                            psr_metrics_file **ret_file);
/* Closes; what is not flushed is lost. NULL allowed. */
void psr_metrics_file_free(psr_metrics_file *file);

/* Takes a line of a rank below ranks. It is on its way to the disk after the next flush, or when
 * enough have come. IO, NOMEM. */
PSR_MUST_CHECK psr_err psr_metrics_file_put(psr_metrics_file *file, const psr_metrics_line *line);
PSR_MUST_CHECK psr_err psr_metrics_file_flush(psr_metrics_file *file);
/* No line follows: writes the last one of each rank too. IO, NOMEM. */
PSR_MUST_CHECK psr_err psr_metrics_file_end(psr_metrics_file *file);

#endif
