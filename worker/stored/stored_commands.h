/* What psring-worker does with a checkpoint for `psring inspect`, `export` and `eval`, whose front
 * door may not link checkpoints, data or kernels. Each prints for a person, and returns the exit
 * status: 2 for bad input. For main alone. */
#ifndef PSR_WORKER_STORED_COMMANDS_H
#define PSR_WORKER_STORED_COMMANDS_H

#include <stddef.h>

/* One checkpoint is shown, two are compared: status 1 if a tensor differs. names: as
 * psr_stored_file's. */
int psr_inspect_main(size_t count, char *const *names);

/* format: "onnx" or "safetensors". file: is replaced as one. */
int psr_export_main(const char *checkpoint, const char *format, const char *file);

/* Evaluates on the test split of data ("": the run's own) with so many threads and samples at a
 * time. user_directory: as psr_dataset_find's; cache: as psr_opened_init's. */
int psr_eval_main(const char *checkpoint, const char *data, unsigned threads, unsigned batch_size,
                  const char *user_directory, const char *cache);

#endif
