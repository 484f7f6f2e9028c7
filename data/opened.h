/* A data set as a process opens it: both splits, and the hash of their samples (base/content.h),
 * which does not depend on how the files are packed or what their directory is called. For
 * generated data the hash is of their spec.
 *
 * Hashing is fast (XXH3-128), reading the files is not. So a cache, one for each user, remembers
 * the content of files that were read to their end, for as long as their devices, inodes, sizes and
 * times stay the same. Any thread. */
#ifndef PSR_DATA_OPENED_H
#define PSR_DATA_OPENED_H

#include "base/content.h"
#include "data/dataset.h"
#include "data/reading.h"

typedef struct psr_opened {
    psr_dataset *train, *test; /* owned: psr_opened_done */
    psr_content content;
} psr_opened;

/* Opens both splits and finds their content. cache: a directory of the user's own, which is made
 * where it is missing; one that others can write, or of another user, is left alone; NULL: none.
 * reading: moves meanwhile; NULL: nobody asks. Errors as psr_dataset_open_both's, and CANCELLED.
 * The caller owns *ret_opened. */
PSR_MUST_CHECK psr_err psr_opened_init(const char *spec, const char *cache, psr_reading *reading,
                                       psr_opened *ret_opened);
/* Safe on one of zeroes. */
void psr_opened_done(psr_opened *opened);

/* The content alone: what the cache remembers of these files, else as psr_opened_init finds it,
 * which reads every file to its end. */
PSR_MUST_CHECK psr_err psr_content_find(const char *spec, const char *cache, psr_reading *reading,
                                        psr_content *ret_content);

/* Digits that identify the files of a spec in their present state among all on this host, and
 * generated data among generated data. NOT_FOUND, USAGE, IO. */
PSR_MUST_CHECK psr_err psr_content_key(const char *spec, char ret_key[PSR_CONTENT_BYTES]);

/* ---- in memory that several processes map ---- */

/* Bytes that psr_opened_pack writes. */
size_t psr_opened_packed_bytes(const psr_opened *opened);
/* to: zeroed, aligned to 64 bytes. */
void psr_opened_pack(const psr_opened *opened, void *to);
/* The same data set over packed bytes, which are borrowed for its life; what is in them is checked.
 * name: the data set's here. FORMAT, NOMEM. The caller owns *ret_opened. */
PSR_MUST_CHECK psr_err psr_opened_unpack(const void *packed, size_t bytes, const char *name,
                                         psr_opened *ret_opened);

#endif
