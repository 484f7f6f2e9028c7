/* A data set that a process has opened: both splits, and the hash of their samples
 * (base/content.h). The hash does not depend on how the files are packed or on the name of their
 * directory. For generated data the hash is of their spec.
 *
 * Hashing is fast (XXH3-128), but reading the files is not. So each user has a cache. It remembers
 * the content hash of files that were read to their end, as long as their devices, inodes, sizes
 * and times stay the same. Any thread. */
#ifndef PSR_DATA_OPENED_H
#define PSR_DATA_OPENED_H

#include "base/content.h"
#include "data/dataset.h"
#include "data/files/reading.h"

typedef struct psr_opened {
    psr_dataset *train, *test; /* owned: psr_opened_done */
    psr_content content;
} psr_opened;

/* Opens both splits and finds their content hash. cache: a directory of this user; it is made if it
 * does not exist, and not used if another user owns it or others can write to it. NULL: no cache.
 * reading: counts meanwhile how much was read; may be NULL. Errors as psr_dataset_open_both's, and
 * CANCELLED. The caller owns *ret_opened. */
PSR_MUST_CHECK psr_err psr_opened_init(const char *spec, const char *cache, psr_reading *reading,
                                       psr_opened *ret_opened);
/* Safe on one of zeroes. */
void psr_opened_done(psr_opened *opened);

/* The content hash alone: from the cache if it knows these files; else every file is read to its
 * end, as by psr_opened_init. */
PSR_MUST_CHECK psr_err psr_content_find(const char *spec, const char *cache, psr_reading *reading,
                                        psr_content *ret_content);

/* Digits that identify the files of a spec in their present state among all files of this host. Of
 * generated data: digits that identify them among generated data. NOT_FOUND, USAGE, IO. */
PSR_MUST_CHECK psr_err psr_content_key(const char *spec, char ret_key[PSR_CONTENT_BYTES]);

/* ---- in memory that several processes map ---- */

/* Whether it has something to pass on: pixels, or the labels, constants and hash of a mapped file,
 * for which the whole file was read, or of generated data, for which pictures were drawn. Packs
 * have none of that, nor pictures in files. */
bool psr_opened_is_passed(const psr_opened *opened);
/* Bytes that psr_opened_pack writes. */
size_t psr_opened_packed_bytes(const psr_opened *opened);
/* Moves it to memory that is zeroed and aligned to 64 bytes: pixels that the data sets own go there
 * piece by piece, so that they are never in memory twice. After it, and after an error, the data
 * sets can only be freed. reading: moves meanwhile; may be NULL. CANCELLED. */
PSR_MUST_CHECK psr_err psr_opened_pack(psr_opened *opened, psr_reading *reading, void *to);
/* The same data set over packed bytes, which are borrowed for its life. The bytes are checked.
 * name: what the data set is called in this process. FORMAT; IO, NOT_FOUND, of a
 * mapped file; NOMEM. The caller owns *ret_opened. */
PSR_MUST_CHECK psr_err psr_opened_unpack(const void *packed, size_t bytes, const char *name,
                                         psr_opened *ret_opened);

#endif
