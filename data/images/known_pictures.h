/* Remembers which picture files were read to their end and could be decoded, so that a later start
 * does not read them again. A file counts as known only while its path, device, inode, size and
 * times (of its content and of its status, in nanoseconds) stay what they were; the time of a
 * status cannot be set back by a user. Broken files are not remembered, nor files that were changed
 * seconds ago, whose times may not show another change. Internal to data/. Any thread, any number
 * of processes. */
#ifndef PSR_DATA_IMAGES_KNOWN_PICTURES_H
#define PSR_DATA_IMAGES_KNOWN_PICTURES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct psr_known_picture {
    uint64_t state; /* hash of path and status; 0: not to be remembered */
    uint32_t height, width;
    uint64_t hash[2]; /* XXH3-128 of the file's bytes: low, high */
} psr_known_picture;

/* In place; all zero: none are known. */
typedef struct psr_known_pictures {
    psr_known_picture *items; /* owned; by rising state */
    size_t count;
} psr_known_pictures;

/* The state of the file at path now. *ret_settled: it was not changed in the last seconds. false:
 * there is no such file. */
bool psr_picture_state(const char *path, uint64_t *ret_state, bool *ret_settled);
/* NULL: not known. */
const psr_known_picture *psr_known_pictures_find(const psr_known_pictures *known, uint64_t state);

/* What is remembered of the set at path, in the user's cache directory (data/content_cache.h),
 * which has a file for it with a checksum. None, if there is no such file, or it is not whole. */
psr_known_pictures psr_known_pictures_get(const char *directory, const char *path);
/* Adds those of items whose state is not 0. On failure (no memory) known is as it was. */
bool psr_known_pictures_add(psr_known_pictures *known, const psr_known_picture *items,
                            size_t count);
/* Replaces what is remembered of the set. Failures are ignored, since all works without. Sorts. */
void psr_known_pictures_put(const char *directory, const char *path, psr_known_pictures *known);
void psr_known_pictures_done(psr_known_pictures *known);

#endif
