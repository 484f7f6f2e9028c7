/* What psring-worker does with a checkpoint for `psring inspect`, `export`, `eval` and `classify`,
 * whose front door may not link checkpoints, data or kernels. Each prints for a person, and returns
 * the exit status: 2 for bad input. For main alone. */
#ifndef PSR_WORKER_STORED_COMMANDS_H
#define PSR_WORKER_STORED_COMMANDS_H

#include <stdbool.h>
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

/* Says of each picture, a JPEG or PNG file of any size, its `top` most likely classes. as_json: one
 * object a picture and line. A file that is no picture is named on stderr; the others go on. */
int psr_classify_main(const char *checkpoint, unsigned top, bool as_json, unsigned threads,
                      unsigned batch_size, size_t count, char *const *files);

#endif
