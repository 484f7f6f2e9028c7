/* Pixels of a file that is mapped: they may be larger than memory, all processes of a host have its
 * pages in memory once, and the kernel drops pages that it needs for something else. The file must
 * not be written while it is mapped. One that is cut is refused by name before it is touched.
 * Immutable; any thread. */
#ifndef PSR_DATA_FILES_MAPPED_H
#define PSR_DATA_FILES_MAPPED_H

#include "base/config/config.h"
#include "data/source.h"

typedef struct psr_mapped psr_mapped;

/* Which bytes of which file, and the state that the file was in: for other processes of this
 * host. */
typedef struct psr_mapped_place {
    char path[PSR_PATH_MAX]; /* absolute */
    uint64_t offset, bytes;
    uint64_t device, inode, file_bytes;
    int64_t modified_ns, changed_ns;
} psr_mapped_place;

/* Maps the bytes from offset to the file's end, which must be as many as said. FORMAT: truncated,
 * over-long; IO; NOMEM. The caller owns *ret_mapped. */
PSR_MUST_CHECK psr_err psr_mapped_open(const char *path, uint64_t offset, uint64_t bytes,
                                       psr_mapped **ret_mapped);
/* The same bytes in another process. place: checked, it may be any bytes. FORMAT: it is none, or
 * the file is in another state. */
PSR_MUST_CHECK psr_err psr_mapped_open_place(const psr_mapped_place *place,
                                             psr_mapped **ret_mapped);
void psr_mapped_free(psr_mapped *mapped); /* NULL allowed */

const uint8_t *psr_mapped_bytes(const psr_mapped *mapped);
const psr_mapped_place *psr_mapped_place_of(const psr_mapped *mapped);
/* Whether the bytes may be touched now. FORMAT: the file was cut. */
PSR_MUST_CHECK psr_err psr_mapped_check(const psr_mapped *mapped);

/* As psr_memory_source_new, over mapped pixels. Borrows the mapping for its life. */
PSR_MUST_CHECK psr_err psr_mapped_source_new(const psr_mapped *mapped, const uint32_t *labels,
                                             uint32_t count, uint32_t channels, uint32_t height,
                                             uint32_t width, uint32_t classes,
                                             psr_picture_source **ret_source);

#endif
