/* A file of TFRecords (tensorflow/core/lib/io/record_writer.h), which TensorBoard's event files
 * are. One record:
 *
 *   uint64  length        little endian
 *   uint32  masked CRC-32C of length
 *   byte    data[length]
 *   uint32  masked CRC-32C of data
 *
 * with masked(c) = (c >> 15 | c << 17) + 0xa282ead8 (mod 2^32). Records are written whole. One
 * thread. */
#ifndef PSR_PS_SCHEDULER_TENSORBOARD_RECORDS_H
#define PSR_PS_SCHEDULER_TENSORBOARD_RECORDS_H

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

/* CRC-32C (Castagnoli, RFC 3720 appendix B.4): polynomial 0x1edc6f41, bits reflected. */
uint32_t psr_crc32c(const void *data, size_t size);
uint32_t psr_crc32c_masked(const void *data, size_t size);

typedef struct psr_records psr_records;

/* Makes the file, which must not be there yet. IO, NOMEM. The caller owns *ret_records. */
PSR_MUST_CHECK psr_err psr_records_new(const char *path, psr_records **ret_records);
/* Closes; what is not flushed is lost. NULL allowed. */
void psr_records_free(psr_records *records);
/* Takes a record, which is copied. NOMEM. */
PSR_MUST_CHECK psr_err psr_records_put(psr_records *records, const void *data, size_t size);
/* IO: the detail names the file. */
PSR_MUST_CHECK psr_err psr_records_flush(psr_records *records);

#endif
