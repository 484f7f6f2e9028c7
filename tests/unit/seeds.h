/* How much a test plays that plays many of a kind. */
#ifndef PSR_TESTS_SEEDS_H
#define PSR_TESTS_SEEDS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

/* Whether PSR_TEST_FEW is in the environment, as deploy/check sets it for its sanitized stage. */
static inline bool plays_few(void)
{
    return getenv("PSR_TEST_FEW") != NULL;
}

/* The last of seeds 1.. that is played: of all of them, or of the first third. */
static inline uint64_t seeds_of(uint64_t all)
{
    return plays_few() ? (all + 2) / 3 : all;
}

/* Whether the case of that number is: every one, or every third. */
static inline bool case_is_played(uint64_t number)
{
    return !plays_few() || number % 3 == 0;
}

#endif
