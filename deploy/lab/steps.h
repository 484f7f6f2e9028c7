/* When the steps of what ran in a lab were taken: only then the lab's links, and not the start of
 * processes, decide how long something takes. */
#ifndef PSR_DEPLOY_LAB_STEPS_H
#define PSR_DEPLOY_LAB_STEPS_H

#include "deploy/lab/load.h"

/* Of a run, from its metrics.jsonl. false: it has none. */
bool psr_lab_steps_of_run(const char *directory, psr_lab_span *ret_span);

/* Of all runs that the file of `bench train` tells of. *ret_spans is the caller's: free();
 * *ret_count is 0 if the file tells of none, or cannot be read. NOMEM. */
PSR_MUST_CHECK psr_err psr_lab_steps_of_bench(const char *path, psr_lab_span **ret_spans,
                                              size_t *ret_count);

#endif
