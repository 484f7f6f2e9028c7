/* Time. Monotonic, for durations and deadlines; any thread. */
#ifndef PSR_BASE_CLOCK_H
#define PSR_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

/* Nanoseconds of CLOCK_MONOTONIC. */
int64_t psr_clock_ns(void);

/* Milliseconds of CLOCK_MONOTONIC, for deadlines. */
int64_t psr_clock_ms(void);

/* A time of CLOCK_MONOTONIC so much later than now, for the timed waits of threads. */
struct timespec psr_clock_after_ns(int64_t duration_ns);

/* Seconds as a double, for rates. */
double psr_clock_s(void);

#endif
