/* Whole files: read with a limit, written beside and renamed. Errors name the path and the reason.
 * Any thread; no state. */
#ifndef PSR_BASE_SYSTEM_FILE_H
#define PSR_BASE_SYSTEM_FILE_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Whether to try again after the attempt-th open (from 0) has failed; it waits for some
 * milliseconds before it says so, a second over all attempts. True only where this process or the
 * system has no descriptor left: strangers' connections may take them all until they are closed,
 * and the writer of a checkpoint can wait for that. Keeps errno. The functions below do this
 * themselves. */
bool psr_file_try_again(unsigned attempt);

/* Opens a regular file for reading. Anything else is refused: a FIFO would block until somebody
 * writes, a device may never end. The caller owns *ret_fd: close(). Errors: NOT_FOUND; IO. */
PSR_MUST_CHECK psr_err psr_file_open(const char *path, int *ret_fd, uint64_t *ret_size);

/* Reads size bytes from offset on; path is for the error. IO: the system refused, or the file has
 * become shorter. To be used in place of mmap for files that others may write: reading a mapped
 * file that was cut is a SIGBUS. */
PSR_MUST_CHECK psr_err psr_file_read_at(int fd, const char *path, void *to, size_t size,
                                        uint64_t offset);

/* Reads a whole regular file of at most limit_bytes. The caller owns *ret_data: free(). One zero
 * byte follows the content, so that text can be used as a string. Errors: NOT_FOUND; IO (not a
 * regular file, may not be read, ...); FORMAT (longer than the limit); NOMEM. */
PSR_MUST_CHECK psr_err psr_file_read(const char *path, size_t limit_bytes, uint8_t **ret_data,
                                     size_t *ret_size);

/* Writes all of size bytes to fd, going on after signals. Returns how many were written: fewer than
 * size after an error, which errno has. */
size_t psr_file_write_all(int fd, const void *data, size_t size);

/* Replaces path as one: written to a new file beside it, flushed to the disk, renamed; the
 * directory is flushed too. On failure (IO, NOT_FOUND for a missing directory) path is as it was
 * and nothing is left beside it. */
PSR_MUST_CHECK psr_err psr_file_write_atomic(const char *path, const void *data, size_t size);

/* Makes path and the directories above it where they are missing (mode 0777 less the umask). IO
 * when one cannot be made or is something other than a directory. */
PSR_MUST_CHECK psr_err psr_mkdirs(const char *path);

/* Whether the directory is there, this user's, and nobody else's: others may not enter it. */
bool psr_dir_is_private(const char *path);
/* Makes it (mode 0700), with those above it, if it is not there. Whether it is private then. */
bool psr_dir_make_private(const char *path);

/* Flushes a directory's entries to the disk. IO. */
PSR_MUST_CHECK psr_err psr_dir_sync(const char *path);

#endif
