/* Whether numbers are finite, at the speed of memory. Any thread. */
#ifndef PSR_BASE_ARRAYS_FINITE_H
#define PSR_BASE_ARRAYS_FINITE_H

#include <stdbool.h>
#include <stddef.h>

/* No NaN and no infinity among count floats. */
bool psr_finite(const float *x, size_t count);

/* x as it is printed for a person: a NaN loses its sign, everything else is unchanged. (inf - inf
 * sets the sign bit on x86, and printf's %g writes "-nan" then.) */
double psr_shown(double x);

#endif
