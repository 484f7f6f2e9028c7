#include "base/finite.h"

#include "base/multiversion.h"

#include <stdint.h>
#include <string.h>

/* The largest exponent field among count floats: 255 belongs to infinities and NaNs alone. On integers, since
 * the compiler may reorder a maximum of those and so keep it in lanes. */
PSR_MULTIVERSION static uint32_t largest_exponent(const float *x, size_t count)
{
    uint32_t largest = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], sizeof bits);
        bits &= 0x7f800000u;
        largest = bits > largest ? bits : largest;
    }
    return largest;
}

bool psr_finite(const float *x, size_t count)
{
    return largest_exponent(x, count) != 0x7f800000u;
}
