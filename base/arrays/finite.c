#include "base/arrays/finite.h"

#include "base/arrays/multiversion.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

/* Bit 31 of the result is set if one of count floats has the exponent field 255, which only
 * infinities and NaNs have: adding 1 to that field carries into bit 31. This works on integers,
 * because the compiler may reorder an OR of integers, and so use vectors. */
PSR_MULTIVERSION static uint32_t carries(const float *x, size_t count)
{
    uint32_t all = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], sizeof bits);
        all |= (bits & 0x7f800000u) + 0x00800000u;
    }
    return all;
}

bool psr_finite(const float *x, size_t count)
{
    return carries(x, count) >> 31 == 0;
}

double psr_shown(double x)
{
    return isnan(x) ? (double)NAN : x;
}
