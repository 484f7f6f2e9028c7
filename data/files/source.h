/* The bytes of a file, plain or packed with gzip or xz, which are unpacked while they are read.
 * Only this file calls zlib and liblzma, and only this file of data/ reads files.
 *
 * The bytes may be hostile: memory here is bounded (a 64 KiB input buffer and the unpacker's own,
 * at most PSR_SOURCE_UNPACK_BYTES), checksums of the packed formats are verified at the end, and
 * every error is one line that opens with the path. One thread at a time. */
#ifndef PSR_DATA_FILES_SOURCE_H
#define PSR_DATA_FILES_SOURCE_H

#include "data/files/reading.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The most memory that an xz stream may ask for to be unpacked: `xz -9` asks for 65 MiB. */
#define PSR_SOURCE_UNPACK_BYTES (96u << 20)

typedef enum psr_source_packing {
    PSR_SOURCE_PLAIN,
    PSR_SOURCE_GZIP,
    PSR_SOURCE_XZ
} psr_source_packing;

typedef struct psr_source psr_source;

/* Opens a regular file (base/system/file.h: a FIFO or a device is refused, and the caller never
 * waits for one). The caller owns *ret_source. NOT_FOUND: no such file; IO: not a file, or the
 * system refused. */
PSR_MUST_CHECK psr_err psr_source_open(const char *path, psr_source **ret_source);

/* The same over size bytes of memory, which is borrowed for the source's life; name stands for the
 * path in errors. */
PSR_MUST_CHECK psr_err psr_source_open_memory(const char *name, psr_source_packing packing,
                                              const uint8_t *bytes, size_t size,
                                              psr_source **ret_source);
void psr_source_free(psr_source *source);

/* From now on `reading` counts every piece that is read. Borrowed for the source's life; may be
 * NULL. */
void psr_source_watch(psr_source *source, psr_reading *reading);

/* For errors of the readers above. Borrowed for the source's life. */
const char *psr_source_path(const psr_source *source);

/* Whether it is a file without packing. */
bool psr_source_is_plain_file(const psr_source *source);

/* Reads exactly size unpacked bytes. FORMAT: the file is truncated (whole_size, the size that it
 * should have, is for the message), or its packed data are damaged. IO. CANCELLED, from all reads:
 * the reading was stopped. */
PSR_MUST_CHECK psr_err psr_source_read(psr_source *source, void *to, size_t size,
                                       uint64_t whole_size);

/* The same into new memory, which grows as the bytes arrive. If a file announces more bytes than it
 * has, this takes at most twice the memory of the bytes that it has. The caller owns *ret_bytes:
 * free(). Errors as above, and NOMEM. */
PSR_MUST_CHECK psr_err psr_source_read_new(psr_source *source, size_t size, uint64_t whole_size,
                                           uint8_t **ret_bytes);

/* Checks that the file ends here, and the checksum of packed data. FORMAT: over-long, truncated,
 * damaged. */
PSR_MUST_CHECK psr_err psr_source_end(psr_source *source);

#endif
