/* Hashes of weights that must be equal: of a step every worker's are those that were told of it
 * first. Pure. */
#ifndef PSR_PS_SCHEDULER_METRICS_HASHES_H
#define PSR_PS_SCHEDULER_METRICS_HASHES_H

#include <stdbool.h>
#include <stdint.h>

#define PSR_HASH_DIGITS 16
/* Steps by which workers may be apart in what they tell. */
#define PSR_HASHES_STEPS 16

typedef struct psr_hash_told {
    uint64_t step; /* completed */
    uint32_t rank;
    char digits[PSR_HASH_DIGITS + 1]; /* empty: none was told yet */
} psr_hash_told;

/* Zeroed at first. */
typedef struct psr_hashes {
    psr_hash_told told[PSR_HASHES_STEPS];
} psr_hashes;

/* Sixteen hex digits. NULL allowed. */
bool psr_hash_is(const char *text);

/* Rank's hash after so many steps, which psr_hash_is. Returns the one that was told first, if it is
 * another; else NULL. Borrowed until the next call. */
const psr_hash_told *psr_hashes_differ(psr_hashes *hashes, uint64_t steps, uint32_t rank,
                                       const char *digits);

#endif
