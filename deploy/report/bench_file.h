/* The runs of a file of psring bench train whose run directories were not kept: of each repetition
 * its configuration, and what the file says of it (docs/benchmarking.md). They have no metrics and
 * no trace. The file may come from elsewhere. One thread. */
#ifndef PSR_DEPLOY_REPORT_BENCH_FILE_H
#define PSR_DEPLOY_REPORT_BENCH_FILE_H

#include "deploy/report/run_record.h"

#include <stdint.h>

typedef struct psr_bench_file psr_bench_file;

/* FORMAT: it is no such file, or one of its lines is damaged; names it. A torn last line, as of a
 * benchmark that is on, is left out. IO, NOMEM. The caller owns *ret_file. */
PSR_MUST_CHECK psr_err psr_bench_file_read(const char *path, psr_bench_file **ret_file);
void psr_bench_file_free(psr_bench_file *file); /* NULL allowed */

/* Of each repetition the newest record. */
size_t psr_bench_file_count(const psr_bench_file *file);
/* Its name, in the place of its directory's: "FILE.runs/resnet18, 2 workers, batches of 16, ps:1,
 * 3". The caller owns *ret_name: free(). NOMEM. */
PSR_MUST_CHECK psr_err psr_bench_file_name(const psr_bench_file *file, size_t i, char **ret_name);
/* What psr_run_record_read would say of that directory, but for figures that the file does not
 * have. directory: borrowed for the record's life. NOMEM. */
PSR_MUST_CHECK psr_err psr_bench_file_record(const psr_bench_file *file, size_t i,
                                             const char *directory, psr_run_record *ret_record);

/* A figure of a step after the warm-up, in seconds, by its name in the file: "step_s", "compute_s",
 * "hidden_s", "exposed_s", "exposed_mean_s", "load_wait_s". NaN: the record is not of such a
 * file. */
double psr_bench_record_step(const psr_run_record *record, const char *name);

/* The command that measured the whole file, as an array of its words, options that are the defaults
 * left out; NULL: the record is not of such a file. Borrowed. */
const cJSON *psr_bench_record_command(const psr_run_record *record);

#endif
