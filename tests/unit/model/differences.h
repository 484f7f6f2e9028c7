/* Known numbers for the finite-difference tests of the reference back end. Include after
 * cmocka.h. */
#ifndef PSR_TESTS_DIFFERENCES_H
#define PSR_TESTS_DIFFERENCES_H

#include "base/rng.h"
#include "model/real.h"

#include <math.h>
#include <stdlib.h>

_Static_assert(sizeof(psr_real) == sizeof(double), "finite differences need the double build");

/* Of a central difference, and what it may be off by, relative above 1. */
#define STEP 1e-5
#define TOLERANCE 1e-7

/* cmocka's own comparison rounds to float first. */
static inline void assert_near(double found, double expected, double tolerance)
{
    if (!(fabs(found - expected) <= tolerance))
        fail_msg("%.17g is not %.17g within %g", found, expected, tolerance);
}

static uint32_t next_stream; /* each array gets numbers of its own */

static inline double *zeros(size_t count)
{
    double *x = calloc(count + 1, sizeof(*x));
    assert_non_null(x);
    return x;
}

/* Uniform in +-[0.05, 1.05): no value near 0, where ReLU has no derivative. */
static inline double *numbers(size_t count)
{
    const psr_rng_at at = {.seed = 7, .purpose = PSR_RNG_TEST, .layer = next_stream++};
    double *x = zeros(count);
    for (size_t i = 0; i < count; i++) {
        const uint32_t word = psr_rng_word(at, i);
        x[i] = (0.05 + psr_rng_unit(word)) * (word & 1 ? 1 : -1);
    }
    return x;
}

/* A shuffled ramp: values 0.1 apart, so that no maximum changes hands within a difference's
 * step. */
static inline double *distinct_numbers(size_t count)
{
    const psr_rng_at at = {.seed = 7, .purpose = PSR_RNG_TEST, .layer = next_stream++};
    double *x = zeros(count);
    uint64_t element = 0;
    for (size_t i = 0; i < count; i++) {
        const size_t j = psr_rng_below(at, &element, (uint32_t)i + 1);
        x[i] = x[j];
        x[j] = 0.1 * (double)i - 0.05 * (double)count;
    }
    return x;
}

#endif
