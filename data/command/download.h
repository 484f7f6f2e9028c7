/* Downloads a file by http or https, by libcurl. Only download.c knows libcurl. */
#ifndef PSR_DATA_COMMAND_DOWNLOAD_H
#define PSR_DATA_COMMAND_DOWNLOAD_H

#include "data/command/bar.h"
#include "base/err.h"

#include <stdatomic.h>

/* Downloads url into a new file at path, and removes it again on failure. PEER: the server could
 * not be reached, refused, sent less than it said, or nothing for a minute; IO: path cannot be
 * written (a full disk); CANCELLED: stop was set; UNSUPPORTED: this build has no libcurl; NOMEM. */
PSR_MUST_CHECK psr_err psr_download(const char *url, const char *path, const atomic_bool *stop,
                                    psr_data_bar *bar);

#endif
