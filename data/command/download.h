/* Downloads a file by http or https, by libcurl. Only download.c knows libcurl. */
#ifndef PSR_DATA_COMMAND_DOWNLOAD_H
#define PSR_DATA_COMMAND_DOWNLOAD_H

#include "data/command/bar.h"
#include "base/err.h"

#include <stdatomic.h>
#include <stdint.h>

/* Downloads url into the file at path. Bytes that lie there are the beginning of it: the server is
 * asked for the rest (a range, RFC 9110, section 14); if it does not know ranges, the file begins
 * anew. *ret_continued: the bytes that were not fetched again, 0 for a whole download; the caller
 * checks that the parts make the file that it wants.
 * PEER: the server could not be reached, refused, sent less than it said, or nothing for a minute;
 * CANCELLED: stop was set; after either what has come stays at path. IO: path cannot be written (a
 * full disk); NOMEM; then nothing stays. UNSUPPORTED: this build has no libcurl. */
PSR_MUST_CHECK psr_err psr_download(const char *url, const char *path, const atomic_bool *stop,
                                    psr_data_bar *bar, uint64_t *ret_continued);

#endif
