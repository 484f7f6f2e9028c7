/* How much a test plays that plays many of a kind. */
#ifndef PSR_TESTS_SEEDS_H
#define PSR_TESTS_SEEDS_H

#include <stdint.h>
#include <stdlib.h>

/* The last of seeds 1.. that is played: all, or with PSR_TEST_FEW in the environment, as
 * deploy/check sets it for its sanitized stage, of the first third. */
static inline uint64_t seeds_of(uint64_t all)
{
    return getenv("PSR_TEST_FEW") != NULL ? (all + 2) / 3 : all;
}

#endif
