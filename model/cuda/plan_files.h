/* Files that keep what planning took long to find: one for each key, named after the key's hash, in
 * a directory of one user. What is in a file is known by nobody here.
 *
 * A file has its whole key and a checksum of all: one that is torn, damaged, or of another key or
 * another version of this is not there. Files are written beside and renamed. The directory belongs
 * to one user: another user's, or one that others may enter, is not used, since what is read here
 * is run. When there are too many files, those go that were not used for the longest time.
 *
 * Everything works without the files, so failures are not told, and no function changes the
 * thread's error detail. Any thread, any number of processes. */
#ifndef PSR_MODEL_CUDA_PLAN_FILES_H
#define PSR_MODEL_CUDA_PLAN_FILES_H

#include <stdbool.h>
#include <stddef.h>

typedef struct psr_cuda_plan_files {
    const char *directory;        /* made when something is put there */
    size_t files_most, all_bytes; /* more are not kept */
} psr_cuda_plan_files;

/* For those of one user: a network has some hundred plans for each batch size and type. */
#define PSR_CUDA_PLAN_FILES_MOST 4096
#define PSR_CUDA_PLAN_FILES_BYTES ((size_t)1 << 30)
/* Of one file. */
#define PSR_CUDA_PLAN_FILE_BYTES ((size_t)32 << 20)

/* What was put under the key: the caller owns *ret_value (free), and one zero byte follows it. The
 * file counts as used now. false: nothing is kept there. */
bool psr_cuda_plan_files_get(const psr_cuda_plan_files *files, const char *key, char **ret_value,
                             size_t *ret_bytes);

/* In the place of what the key had before. */
void psr_cuda_plan_files_put(const psr_cuda_plan_files *files, const char *key, const char *value,
                             size_t bytes);

#endif
