#include "base/arrays/finite.h"

#include "base/arrays/multiversion.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

/* Bit 31 of the result is set when an exponent field among count floats is 255, which belongs to
 * infinities and NaNs alone: adding 1 to the field carries into it. On integers, since the compiler
 * may reorder an OR of those and so keep it in lanes. */
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
