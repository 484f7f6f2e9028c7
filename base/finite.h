/* Whether numbers are finite, at the speed of memory. Any thread. */
#ifndef PSR_BASE_FINITE_H
#define PSR_BASE_FINITE_H

#include <stdbool.h>
#include <stddef.h>

/* No NaN and no infinity among count floats. */
bool psr_finite(const float *x, size_t count);

#endif
