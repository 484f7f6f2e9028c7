/* Whether numbers are finite, at the speed of memory. Any thread. */
#ifndef PSR_BASE_FINITE_H
#define PSR_BASE_FINITE_H

#include <stdbool.h>
#include <stddef.h>

/* No NaN and no infinity among count floats. */
bool psr_finite(const float *x, size_t count);

/* What a person reads of a number that may be none: printf's %g says "-nan" of a NaN whose sign bit is set, which is what
 * inf - inf gives on x86. The same number, but a NaN without that sign. */
double psr_shown(double x);

#endif
