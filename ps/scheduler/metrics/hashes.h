/* Hashes of weights that must be equal: after each step every worker's hash is compared with the
 * first one that was reported. Does no I/O. One thread. */
#ifndef PSR_PS_SCHEDULER_METRICS_HASHES_H
#define PSR_PS_SCHEDULER_METRICS_HASHES_H

#include <stdbool.h>
#include <stdint.h>

#define PSR_HASH_DIGITS 16
/* The most steps by which workers' reports may be apart. */
#define PSR_HASHES_STEPS 16

typedef struct psr_hash_told {
    uint64_t step; /* number of completed steps */
    uint32_t rank;
    char digits[PSR_HASH_DIGITS + 1]; /* empty: none was reported yet */
} psr_hash_told;

/* All zero at first. */
typedef struct psr_hashes {
    psr_hash_told told[PSR_HASHES_STEPS];
} psr_hashes;

/* Whether text is sixteen hexadecimal digits. NULL allowed. */
bool psr_hash_is(const char *text);

/* Takes rank's hash after so many steps; digits is valid by psr_hash_is. Returns the first hash
 * that was reported, if it differs; otherwise NULL. Borrowed until the next call. */
const psr_hash_told *psr_hashes_differ(psr_hashes *hashes, uint64_t steps, uint32_t rank,
                                       const char *digits);

#endif
