/* SHA-256 of a file (FIPS 180-4), by libcrypto. Only digest.c of data/ knows libcrypto. */
#ifndef PSR_DATA_COMMAND_DIGEST_H
#define PSR_DATA_COMMAND_DIGEST_H

#include "base/err.h"

#include <stdatomic.h>

#define PSR_SHA256_BYTES 65 /* 64 hexadecimal digits and a zero */

/* stop: set: CANCELLED; NULL allowed. IO, NOT_FOUND, NOMEM. */
PSR_MUST_CHECK psr_err psr_sha256_of_file(const char *path, const atomic_bool *stop,
                                          char ret_digits[PSR_SHA256_BYTES]);

#endif
