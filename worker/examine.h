/* What psring-worker can tell of its host without a run. psring doctor asks for this on every host
 * (`psring-worker examine [DATA [OPTIONS]]`, `psring-worker read DATA`). Main thread. */
#ifndef PSR_WORKER_EXAMINE_H
#define PSR_WORKER_EXAMINE_H

#include "base/config/config.h"

/* One line of JSON: {"version":"0.1.0","identity":"onednn 2.6.3 ..","library":"libzmq 4.3.4"} and,
 * for data, "data":"mnist, 60000 + 10000 samples of 1x28x28, 10 classes" and "data_bytes", what of
 * them lies in memory once for all workers, or "data_failure":"why not"; for a network on that data
 * "fixed_bytes" and "sample_bytes" of a worker's memory (psr_network_memory_for) or
 * "model_failure". data: as --data; NULL: not asked. planned: the
 * options of a run on it; NULL: no network is asked about. user_directory: as psr_dataset_find's.
 * NOMEM. The caller owns *ret_json: free(). */
PSR_MUST_CHECK psr_err psr_worker_examine(const char *data, const psr_config *planned,
                                          const char *user_directory, char **ret_json);

/* One line of JSON: {"content":"TRAIN-TEST"}, which reads every file of the data to its end, unless
 * their content hash is in the cache, or {"failure":"why not"}. cache: as psr_opened_init's. NOMEM.
 * The caller owns *ret_json: free(). */
PSR_MUST_CHECK psr_err psr_worker_read(const char *data, const char *user_directory,
                                       const char *cache, char **ret_json);

#endif
