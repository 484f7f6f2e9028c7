/* Time. Monotonic, for durations and deadlines; any thread. */
#ifndef PSR_BASE_CLOCK_H
#define PSR_BASE_CLOCK_H

#include <stdint.h>

/* Nanoseconds of CLOCK_MONOTONIC. */
int64_t psr_clock_ns(void);

/* Milliseconds of CLOCK_MONOTONIC, for deadlines. */
int64_t psr_clock_ms(void);

/* Seconds as a double, for rates. */
double psr_clock_s(void);

#endif
