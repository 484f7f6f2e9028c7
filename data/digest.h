/* XXH3-128 with its state on the stack, and its digits. Internal to data/. Any thread. */
#ifndef PSR_DATA_DIGEST_H
#define PSR_DATA_DIGEST_H

#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>

#include <stdio.h>

#define PSR_DIGEST_BYTES 33 /* 32 hexadecimal digits and a zero */

static inline void psr_digest_print(XXH3_state_t *state, char text[PSR_DIGEST_BYTES])
{
    XXH128_hash_t hash = XXH3_128bits_digest(state);
    snprintf(text, PSR_DIGEST_BYTES, "%016llx%016llx", (unsigned long long)hash.high64,
             (unsigned long long)hash.low64);
}

#endif
