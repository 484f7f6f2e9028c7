/* What files held when they were read last: a directory of at most PSR_CONTENT_CACHE_SLOTS small files, each of which
 * the next that falls to it replaces. It is one user's: a directory that is not his, or that others may
 * enter, is not read. Internal to data/. Any thread, any number of processes. */
#ifndef PSR_DATA_CONTENT_CACHE_H
#define PSR_DATA_CONTENT_CACHE_H

#include "base/content.h"

#define PSR_CONTENT_CACHE_SLOTS 256

/* key: psr_location_state's digits. false: nothing is known of them. */
bool psr_content_cache_get(const char *directory, const char *key, psr_content *ret_content);
/* Without a cache it goes on: what fails is forgotten. */
void psr_content_cache_put(const char *directory, const char *key, const psr_content *content);

#endif
