/* Remembers the content hashes of data files that were read before. The cache is a directory of at
 * most PSR_CONTENT_CACHE_SLOTS small files; an entry replaces the one that had its slot. It belongs
 * to one user: a directory of another user, or one that others may enter, is not used. Internal to
 * data/. Any thread, any number of processes. */
#ifndef PSR_DATA_CONTENT_CACHE_H
#define PSR_DATA_CONTENT_CACHE_H

#include "base/content.h"

#define PSR_CONTENT_CACHE_SLOTS 256

/* key: the digits of psr_location_state. false: the cache has no entry for them. */
bool psr_content_cache_get(const char *directory, const char *key, psr_content *ret_content);
/* Stores an entry. Failures are ignored, since everything works without a cache. */
void psr_content_cache_put(const char *directory, const char *key, const psr_content *content);

#endif
